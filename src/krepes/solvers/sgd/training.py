"""One run of mini-batch training, from its start or from a checkpoint.

    for every epoch and batch:   theta <- step(theta, batch);   retract;   target <- decay target + (1 - decay) theta

All randomness (order, views, noise, held-out rows) is a function of (seed, epoch, position), so the state of a run is
theta, its target, the steps' own state and a position, and a resumed run has the bits of one that never stopped.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from krepes.base.random_streams import stream_key
from krepes.base.reporting import warn
from krepes.losses import CallableLoss
from krepes.losses.batch import Batch, SampleStatistics
from krepes.losses.checking import warn_of_size
from krepes.solvers.samples import Samples
from krepes.solvers.sgd.coordinates import Coordinates
from krepes.solvers.sgd.feature_windows import FeatureBatch, FeatureWindows
from krepes.solvers.sgd.objective import GAMMA, Objective, P, Theta
from krepes.solvers.sgd.start import first_theta
from krepes.solvers.sgd.steps import StepRule, rate_units
from krepes.solvers.solver import Problem, Solution

if TYPE_CHECKING:
    from krepes.solvers.sgd.sgd import SGD

logger = logging.getLogger("krepes")

HELD_OUT_MOST, HELD_OUT_LEAST = 4096, 32  # rows for early stopping; with fewer there is none
EVALUATION_ROWS = 256  # per held-out batch: some losses depend on it, so it must not follow batch_size
NOISE = 17  # purpose of a random stream
COUNTED = ("epoch", "rows_done", "sums", "feature_count", "history", "best")  # kept in checkpoints
COLLAPSED = 1e-4  # of the embeddings' root mean square: a spread below it is none


class Training:
    """Everything that changes during a fit by SGD, and how.

    Parameters
    ----------
    solver : SGD
    problem : Problem
        Its callback is called after every epoch.
    coordinates : Coordinates
    """

    def __init__(self, solver: SGD, problem: Problem[Samples], coordinates: Coordinates):
        loss, samples = problem.loss, problem.data
        self.solver, self.loss, self.samples, self.callback = solver, loss, samples, problem.callback
        self.preconditioner = solver.preconditioned()
        self.schedule = solver.schedule()
        self.constrained = solver.constraint_on(loss) == "orthogonal"
        self.coordinates = coordinates
        self.objective = Objective(loss, coordinates, problem.lam, self.constrained)
        self.windows = self._windows()
        self.noise = samples.noise_variance**0.5
        sample = self._noisy(self.windows.sample_batch(), -1)
        generator = problem.generator or torch.Generator().manual_seed(samples.seed)
        self.theta = first_theta(
            solver.initial(), self.objective, sample, problem.n_components, solver.batch_size, generator
        )
        self.target = None if loss.target_decay is None else self._copied([P, GAMMA])
        units = rate_units(solver.optimizer, self.theta, sample)
        rule = StepRule(solver.optimizer, units, solver.weight_decay, solver.gradient_clip)
        self.steps = self.preconditioner.steps(self.objective, self.theta, rule)
        self.held_out = [
            self._noisy(batch, -2 - i)
            for i, batch in enumerate(self.windows.held_out_batches(EVALUATION_ROWS))
        ]
        self.epoch_rows = solver.replays * (samples.n_rows - len(self.windows.excluded))
        self.epoch, self.position = 0, (0, 0)
        self.rows_done = 0  # in this epoch
        self.sums: dict[str, float] = {}
        self.feature_sum = torch.zeros(coordinates.width, dtype=torch.float64, device=coordinates.device)
        self.feature_count = 0
        self.history: list[dict[str, float]] = []
        self.best: dict[str, Any] = {"value": math.inf, "epoch": 0}

    # What is trained

    def _windows(self) -> FeatureWindows:
        share, features = self.solver.validation_fraction, self.samples.features
        held_out = min(HELD_OUT_MOST, int(share * self.samples.n_rows))
        return FeatureWindows(
            self.samples,
            self.coordinates.functions,
            self.coordinates.width,
            dtype=torch.bfloat16 if self.solver.feature_dtype == "bfloat16" else features.dtype,
            budget=self.solver.cache_bytes,
            fresh=self.solver.fresh_views,
            replays=self.solver.replays,
            replay_batches=self.solver.replay_batches,
            with_inputs="X" in self.loss.needs,
            with_norm_sq="phi_norm_sq" in self.loss.needs,
            held_out=held_out if held_out >= HELD_OUT_LEAST else 0,
        )

    def _copied(self, names: list[str]) -> Theta:
        return {name: self.theta[name].clone() for name in names if name in self.theta}

    # The loop

    def run(self) -> Solution:
        checkpoint = self.samples.checkpoint
        saved = None if checkpoint is None else checkpoint.restored()
        if saved is not None:
            self._restore(saved)
        max_epochs = self.schedule.max_epochs
        total = max(0, max_epochs - self.epoch) * self.epoch_rows - self.rows_done
        with self.samples.progress.stage("Training", total) as stage:
            while self.epoch < max_epochs and not self._stalled():
                batches = self.windows.batches(self.epoch, self.solver.batch_size, self.position)
                for position, batch in batches:
                    self._train(batch)
                    self.position = position
                    stage.advance(len(batch))
                    if checkpoint is not None:
                        checkpoint.offer(self._state, self._place())
                self._end_epoch()
                stage.describe(
                    f"Training, epoch {self.epoch} of {max_epochs}, loss {self._last_value():#.4g}"
                )
        return self._solution()

    def _train(self, batch: FeatureBatch) -> None:
        self.rows_done += len(batch)
        if self.epoch == 0 and self.loss.intercept == "centered":
            self.feature_sum += torch.stack([Phi.double().sum(0) for Phi in batch.features[:2]]).sum(0)
            self.feature_count += len(batch) * len(batch.features[:2])
        rate = self.schedule.rate(self.epoch + self.rows_done / self.epoch_rows)
        values = self.steps.step(
            self.theta, self._noisy(batch, self.epoch, *self.position), self.target, rate
        )
        for name, value in values.items():
            if not math.isfinite(value):
                raise self._not_finite(name, value)
            self.sums[name] = self.sums.get(name, 0.0) + value * len(batch)
        if not all(bool(value.isfinite().all()) for value in self.theta.values()):
            raise self._not_finite("gradient", math.nan)  # before a checkpoint could keep it
        if self.constrained:
            self.theta[P].copy_(self.coordinates.orthonormal(self.theta[P]))
        decay = self.loss.target_decay
        if self.target is not None and decay is not None:
            for name, average in self.target.items():
                average.lerp_(self.theta[name], 1 - decay)

    def _end_epoch(self) -> None:
        values = {name: value / self.rows_done for name, value in self.sums.items()}
        values["learning_rate"] = self.schedule.rate(self.epoch + 1)
        if self.held_out:
            values["held_out"] = self._held_out_value()
            if not math.isfinite(values["held_out"]):
                raise self._not_finite("held_out", values["held_out"])
        values |= {"rows_read": self.windows.rows_read, **self.steps.counts}
        self.history.append(values)
        self.epoch, self.position, self.rows_done, self.sums = self.epoch + 1, (0, 0), 0, {}
        if values.get("held_out", -math.inf) < self.best["value"]:
            self.best = {"value": values.get("held_out", math.inf), "epoch": self.epoch}
            self.best["theta"] = self._copied(list(self.theta))
        logger.info("Epoch %d: %s", self.epoch, values)
        if self.callback is not None:
            self.callback(self.epoch, dict(values))

    def _last_value(self) -> float:
        last = self.history[-1]
        return last.get("held_out", last["total"])

    def _held_out_value(self) -> float:
        total = 0.0
        for batch in self.held_out:
            total += self.objective.values(self.theta, batch, self.target)["total"] * len(batch)
        return total / sum(map(len, self.held_out))

    def _stalled(self) -> bool:
        patience = self.solver.patience
        return bool(self.held_out) and patience is not None and self.epoch - self.best["epoch"] >= patience

    def _noisy(self, batch: FeatureBatch, *place: int) -> FeatureBatch:
        """Features with independent noise in every view, drawn for this place of the run."""
        if self.noise == 0:
            return batch
        key = stream_key(self.samples.seed, NOISE, *place)
        generator = torch.Generator().manual_seed(key % 2**63)
        noisy = [Phi + self.noise * self.coordinates.noise(len(Phi), generator) for Phi in batch.features]
        return FeatureBatch(tuple(noisy), batch.X, batch.norm_sq)

    # Stopping and going on

    def _place(self) -> str:
        return f"epoch {self.epoch + 1}, batch {self.position[1]} of window {self.position[0] + 1}"

    def _not_finite(self, name: str, value: float) -> ValueError:
        checkpoint = self.samples.checkpoint
        kept = "No checkpoint was kept: give fit(checkpoint=FILE) to keep one."
        if checkpoint is not None:
            kept = f"No checkpoint was written yet to {checkpoint.path}."
            if checkpoint.place is not None:
                kept = (
                    f"The last good state is in {checkpoint.path} ({checkpoint.place}); a fit with other settings "
                    "starts from the beginning, with another checkpoint file."
                )
        rate = self.schedule.top
        clip = "" if "gradient_clip" in self.preconditioner.without else " or set gradient_clip"
        which = "gradient" if name == "gradient" else f"term {name!r}"
        return ValueError(
            f"Training stopped in epoch {self.epoch + 1} after {self.rows_done} of {self.epoch_rows} rows: the {which} "
            f"of {self.loss} is {value}. Lower the learning rate (it is {rate:g} now), raise regularization{clip}. "
            f"{kept}"
        )

    def _state(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in (*COUNTED, "theta", "target", "feature_sum")}
        place = {"position": list(self.position), "rows_read": self.windows.rows_read}
        return state | place | {"steps": self.steps.state()}

    def _restore(self, state: dict[str, Any]) -> None:
        for name, value in state["theta"].items():
            self.theta[name].copy_(value)
        if self.target is not None:
            for name, value in state["target"].items():
                self.target[name].copy_(value)
        self.steps.restore(state["steps"])
        for name in COUNTED:
            setattr(self, name, state[name])
        if "theta" in self.best:
            self.best["theta"] = {k: v.to(self.theta[k]) for k, v in self.best["theta"].items()}
        window, batch = state["position"]
        self.position = (window, batch)
        self.feature_sum.copy_(state["feature_sum"])
        self.windows.rows_read = state["rows_read"]

    # The result

    def _solution(self) -> Solution:
        theta = self.best.get("theta", self.theta)
        sample = self.windows.sample_batch()
        if self.loss.scale_invariant:
            theta = self._unit_scale(theta, sample)
        W, gamma = theta[P], self._intercept(theta)
        Z = sample.features[0] @ W + gamma.to(W)
        if Z.std(0, correction=0).max() <= COLLAPSED * Z.square().mean().sqrt():
            warn(
                f"The representation has collapsed: {self.loss} maps all samples to one point. Lower the learning "
                "rate, try another initialization or another loss; and see that the rows differ.",
            )
        elif isinstance(self.loss, CallableLoss) and not self.loss.offers("parameters"):
            Zs = [features @ W + gamma.to(W) for features in sample.features]
            penalty = self.objective.lam * self.coordinates.to_W(W).square().sum().item()
            warn_of_size(
                self.loss,
                lambda c: (
                    float(sum(self.loss.terms(Batch(tuple(c * Z for Z in Zs))).values())) + c**2 * penalty
                ),
            )
        own = {name: value for name, value in theta.items() if name not in (P, GAMMA)}
        return Solution(
            self.coordinates.to_W(W),
            gamma,
            self.history,
            self.epoch,
            self._stalled(),
            "sgd",
            0,
            self.coordinates.coefficients(W),
            own,
        )

    def _unit_scale(self, theta: Theta, sample: FeatureBatch) -> Theta:
        """The same value of the loss, with components of unit variance (in sum, for a loss of directions)."""
        target = None if self.loss.target_decay is None else theta
        statistics = SampleStatistics(self.objective.batch(theta, sample, target))
        scale = self.loss.column_scale(statistics)
        varies = scale > torch.finfo(scale.dtype).tiny ** 0.5
        scale = torch.where(varies, scale, 1.0).rsqrt()
        return theta | {name: theta[name] * scale for name in (P, GAMMA) if name in theta}

    def _intercept(self, theta: Theta) -> Tensor:
        """gamma (h,), float64: learned, minus the mean embedding, or zero."""
        W = theta[P].double()
        if self.objective.learned:
            return theta[GAMMA].double().mean(0)
        if self.loss.intercept == "centered":
            return -W.mT @ (self.feature_sum / self.feature_count)
        return W.new_zeros(W.shape[1])
