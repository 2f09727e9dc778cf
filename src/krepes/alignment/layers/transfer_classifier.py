"""A classifier built on the layers of a pretrained network: three closed-form steps, without backpropagation.

    1. every layer l:  X_l -> Phi_l, low-rank features from landmarks; few rows as they are         [tang, Sec. 3.3.1]
    2. mu = argmax over mu >= 0 of CKA(sum_l mu_l Phi_l Phi_l^T, Y Y^T), usually few layers         [tang, Eq. 3.3]
       or equal variances of all layers, or the mean of both: what has the lowest left-out error
    3. kernel ridge regression of one-hot Y on [mu_l^(1/2) Phi_l], by Nyström features            [tang, Sec. 3.3.3]

The ridge penalty, the kernel and its width are chosen by leave-one-out errors, which are exact for step 3 and do not
know that steps 1 and 2 saw the row (labels enter step 2, in as many numbers as there are layers). Rows without labels
take part by transductive ridge regression [tang, Sec. 3.4.3], weighted by leave-one-out. Probabilities are a softmax
whose temperature makes the leave-one-out predictions most likely [guo].

Differs from [tang, ch. 3]: all layers and a linear kernel compete, because no choice is best on all data; landmarks are
chosen rows, not signed sums; alignment is centred and unbiased; the width follows the median rule instead of
max |x|^2 / 2; alpha is relative to the features' variance.

Two passes, where the thesis speaks of one: steps 1 and 2 see `selection_rows` rows, whose outputs of all layers are
kept meanwhile (selection_rows x sum of widths); then the other rows go through the network, batch by batch, and only
n x (features of the chosen layers) numbers stay. Step 3 costs O(n m^2) and n x m numbers for m landmarks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import nn

from krepes.alignment.inputs import KernelChoice
from krepes.alignment.layers.layer_outputs import MATRIX, LayerOutputs, Pool, are_layers, recorded
from krepes.alignment.layers.recording import NetworkRows
from krepes.alignment.layers.three_steps import (
    LayerScore,
    LowRankLayer,
    WholeLayer,
    as_landmark_rule,
    best_kernel,
    candidate_kernels,
    choose_layers,
    coordinates,
    kernel_ridge,
    low_rank_map,
)
from krepes.base.components import Component, named_parts
from krepes.base.display import text_table
from krepes.base.reporting import warn
from krepes.base.validation import as_array, check_choice, check_count, estimator_rows
from krepes.kernels import Kernel
from krepes.landmarks import LandmarkSelector, PivotedCholesky
from krepes.networks import Network, as_network
from krepes.preprocessing.labels import MISSING, encode_labels
from krepes.regression import LeaveOneOutRidge, TransductiveRidge, temperature
from krepes.regression.ridge import ALPHAS
from krepes.regression.transductive import BETAS

WEIGHED_ROWS = 1000  # by which weights of layers are compared
FEATURES, WHOLE_BYTES = 256, 2**28  # of a layer; of all layers that are taken as they are
WEIGHTINGS = ("uniform", "alignment", "mean")


@dataclass(eq=False, repr=False)
class LayerTransferClassifier(ClassifierMixin, BaseEstimator):
    """Classes from the layers of a network: weigh the layers, then kernel ridge regression on all of them together.

    Parameters
    ----------
    network : torch.nn.Module, Network or its name, or None, default=None
        Any module; X are the rows that it takes. Its mode, device and gradients are left alone. A krepes network
        takes images (n, h, w, c), whose integers are divided by 255. None: X is {layer: features (n, d)}, or one
        matrix, whose columns are the only layer.
    layers : list of str or None, default=None
        Names as in `module.named_modules()`. None takes residual blocks, and layers outside of them.
    n_landmarks : int, default=1000
        Landmarks of the kernel in step 3.
    n_features_per_layer : int or "auto", default="auto"
        Landmarks of every layer, and so at most that many features. "auto" takes layers as they are, with all columns,
        where those of all rows fit into 256 MB, and else 256 landmarks of every layer.
    kernel : "auto", Kernel or name, default="auto"
        "auto" compares a linear kernel, Gaussian ones, and sums of both, by leave-one-out errors.
    landmarks : LandmarkSelector, name, or "countsketch", default="pivoted_cholesky"
        "countsketch" makes signed sums of rows the landmarks of layers, as published.
    weighting : "auto", "uniform", "alignment" or "mean", default="auto"
        "uniform" takes all layers, each with the same variance; "alignment" takes those that together align best with
        the labels; "mean" lies halfway between. "auto" takes the one with the lowest leave-one-out error.
    lengthscale_factors : sequence of float, default=(0.5, 1, 2)
        Multiples of the median lengthscale to choose from by leave-one-out, for kernels whose lengthscale is
        "median".
    alphas : sequence of float
        Ridge penalties, tried by leave-one-out.
    betas : sequence of float
        Weights of unlabelled rows, tried by leave-one-out; see `TransductiveRidge`.
    selection_rows : int, default=2000
        Labelled rows, and as many without labels, from which steps 1 and 2 are found.
    pool : bool, default=True
        Average outputs (b, c, h, w) over their positions; False keeps all numbers, which needs memory.
    batch_rows : int, default=64
        Rows that go through the network at once.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : array
    layers_ : list of str
        The layers chosen, in the network's order.
    weights_ : array
        mu of each chosen layer, for features as given; the 2-norm is 1.
    alignments_ : list of LayerScore(layer, alignment, weight, share)
        Every layer: its alignment alone with the labels, its weight, and its share of the features' variance, which
        does not depend on the layer's scale.
    alignment_ : float
        Alignment of the weighted layers together with the labels; NaN with fewer than 4 labelled rows.
    left_out_errors_ : {weighting: float}
        Mean squared leave-one-out errors of one-hot labels with each weighting, on up to 1000 labelled rows; empty if
        one was asked for.
    alpha_, beta_, temperature_ : float
        beta_ is 0 without unlabelled rows.
    kernel_ : Kernel
    machine_ : LeaveOneOutRidge or TransductiveRidge
        Its loo_predictions_ belong to the labelled rows, in order.
    unlabelled_predictions_ : array of shape (n',)
        Classes of the unlabelled rows of the fit, each without the class that was guessed for it: first rows of X
        whose label is missing, then X_unlabelled. For these rows `predict` is less often right.
    unlabelled_probabilities_ : array of shape (n', K)
        Likewise. On these rows `predict_proba` is too sure, because they were fitted to their own guesses.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["cat", "dog"] * 20)
    >>> layers = {"noise": rng.normal(size=(40, 3)), "signal": rng.normal(size=(40, 3)) + 4 * (y == "dog")[:, None]}
    >>> model = LayerTransferClassifier(random_state=0).fit(layers, y)
    >>> max(model.alignments_, key=lambda score: score.share).layer, model.score(layers, y)
    ('signal', 1.0)
    """

    component_kinds: ClassVar[dict[str, type[Component]]] = {"kernel": Kernel, "landmarks": LandmarkSelector}

    network: nn.Module | Network | str | None = None
    layers: Sequence[str] | None = None
    n_landmarks: int = 1000
    n_features_per_layer: int | str = "auto"
    kernel: KernelChoice = "auto"
    landmarks: str | LandmarkSelector = "pivoted_cholesky"
    weighting: str = "auto"
    lengthscale_factors: Sequence[float] | np.ndarray = (0.5, 1.0, 2.0)
    alphas: Sequence[float] | np.ndarray = ALPHAS
    betas: Sequence[float] | np.ndarray = BETAS
    selection_rows: int = 2000
    pool: bool = True
    batch_rows: int = 64
    random_state: int | np.random.RandomState | None = None

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `kernel__lengthscale=...` is for a part of the model, also if it was given by name."""
        return super().set_params(**named_parts(self, self.component_kinds, params))

    def fit(self, X: Any, y: Any, X_unlabelled: Any = None) -> LayerTransferClassifier:
        """Fit rows with labels, and rows without.

        Parameters
        ----------
        X : rows for the network, {layer: features (n, d)}, or a matrix
            Rows may be a torch DataLoader that does not shuffle, or `krepes.sources.Batches`, which are read twice.
            Integers go as tokens into a network that embeds them.
        y : labels of shape (n,): text, integers or true/false
            Rows with None or NaN count as unlabelled. -1 is a label like any other.
        X_unlabelled : like X, optional
        """
        self._check()
        if self.network is None or isinstance(self.network, nn.Module):
            self.network_ = self.network
        else:
            self.network_ = as_network(self.network).build(tuple(NetworkRows(X).first.shape[1:]))
        outputs = self._open(X, reset=True)
        codes = self._encode(y, outputs.n_rows)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        generator = torch.Generator().manual_seed(seed)
        pools = [
            Pool(outputs, np.flatnonzero(codes != MISSING)),
            Pool(outputs, np.flatnonzero(codes == MISSING)),
        ]
        if X_unlabelled is not None:
            free = self._open(X_unlabelled, reset=False)
            pools.append(Pool(free, np.arange(free.n_rows)))
        codes = codes[codes != MISSING]
        names = outputs.recordable() if self.layers is None else list(self.layers)
        features = self._choose(pools, names, codes, generator)
        self._fit_machine(features[: len(codes)], features[len(codes) :], codes, generator)
        return self

    def _choose(
        self, pools: list[Pool], names: list[str], codes: np.ndarray, generator: torch.Generator
    ) -> np.ndarray:
        """Steps 1 and 2: set the chosen layers and their maps; the weighted features of all rows."""
        rule = as_landmark_rule(self.landmarks)
        parts = [torch.randperm(len(pool.rows), generator=generator)[: self.selection_rows] for pool in pools]
        kept = [np.sort(part.numpy()) for part in parts]
        outputs_of = recorded([Pool(p.outputs, p.rows[rows]) for p, rows in zip(pools, kept)], names)
        maps: dict[str, WholeLayer | LowRankLayer] = {}
        n_columns = sum(Z.shape[1] for Z in outputs_of.values())
        whole = 8 * n_columns * sum(len(pool.rows) for pool in pools) <= WHOLE_BYTES
        low: dict[str, np.ndarray] = {}
        for name in names:
            if self.n_features_per_layer == "auto" and whole:
                maps[name] = WholeLayer(outputs_of[name].shape[1])
            else:
                m = FEATURES if self.n_features_per_layer == "auto" else int(self.n_features_per_layer)
                maps[name] = LowRankLayer(low_rank_map(outputs_of[name], m, rule, generator))
            low[name] = maps[name](outputs_of.pop(name)).numpy()
        n_labelled = len(kept[0])
        self.alignments_, self.alignment_ = self._weighed(
            {name: Z[:n_labelled] for name, Z in low.items()}, codes[kept[0]], generator
        )
        chosen = [score for score in self.alignments_ if score.weight > 0]
        self.layers_ = [score.layer for score in chosen]
        self.weights_ = np.array([score.weight for score in chosen])
        self._maps = {name: maps[name] for name in self.layers_}
        total = sum(s.weight * low[s.layer][:n_labelled].var(axis=0).sum() for s in chosen)
        self._scales = {s.layer: float(np.sqrt(s.weight / (total or 1.0))) for s in chosen}
        # Rows that were recorded are not sent through the network again.
        ends = np.cumsum([0, *map(len, kept)])
        found = []
        for pool, rows, first, last in zip(pools, kept, ends, ends[1:]):
            Z = np.empty((len(pool.rows), sum(low[name].shape[1] for name in self.layers_)))
            Z[rows] = np.hstack([low[name][first:last] * self._scales[name] for name in self.layers_])
            rest = np.setdiff1d(np.arange(len(pool.rows)), rows)
            for block, part in self._features(Pool(pool.outputs, pool.rows[rest])):
                Z[rest[block]] = part
            found.append(Z)
        return np.concatenate(found)

    def _weighed(
        self, low: dict[str, np.ndarray], codes: np.ndarray, generator: torch.Generator
    ) -> tuple[list[LayerScore], float]:
        """Step 2: scores and weights of all layers, and their alignment together."""
        self.left_out_errors_: dict[str, float] = {}
        if self.weighting != "auto":
            scores, alignment = choose_layers(low, codes, self.weighting)
            if self.weighting == "alignment" and len(low) > 1 and all(s.alignment <= 0 for s in scores):
                warn("No layer aligns with y better than chance; all are used, with equal variance.")
            return scores, alignment
        found = {name: choose_layers(low, codes, name) for name in WEIGHTINGS}
        if len(low) == 1:
            return found["uniform"]
        rows = torch.randperm(len(codes), generator=generator)[:WEIGHED_ROWS].numpy()
        Y = np.eye(len(self.classes_))[codes[rows]]
        factors = (1.0,) if self.kernel == "auto" else self.lengthscale_factors
        for name, (scores, _) in found.items():
            used = [
                low[s.layer] * np.sqrt(s.share / low[s.layer].var(axis=0).sum()) for s in scores if s.share
            ]
            Z = np.hstack(used)[rows]
            Z = coordinates(Z) if self.kernel == "auto" else Z  # its kernels see distances and products only
            kernels = candidate_kernels(self.kernel, Z, factors, generator)
            self.left_out_errors_[name] = best_kernel(Z, Y, kernels, self.alphas)[1]
        return found[min(self.left_out_errors_, key=self.left_out_errors_.__getitem__)]

    def _fit_machine(
        self, Z: np.ndarray, free: np.ndarray, codes: np.ndarray, generator: torch.Generator
    ) -> None:
        """Step 3 for labelled and unlabelled features."""
        Y, rows = np.eye(len(self.classes_))[codes], torch.as_tensor(np.concatenate([Z, free]))
        kernels = candidate_kernels(self.kernel, rows.numpy(), self.lengthscale_factors, generator)
        if (
            len(Z) <= self.n_landmarks and len(kernels) > 1
        ):  # landmarks can hold every row: the matrix is exact
            seen = coordinates(Z) if self.kernel == "auto" else Z
            kernels = [best_kernel(seen, Y, kernels, self.alphas)[0]]
        rule = as_landmark_rule(self.landmarks)
        # Sums of rows are for layers only, where the kernel is linear.
        rule = PivotedCholesky() if isinstance(rule, str) else rule
        self._nystrom, ridge = kernel_ridge(
            Z, Y, kernels, lambda k: rows[rule.select(rows, k, self.n_landmarks, generator)], self.alphas
        )
        self.machine_: LeaveOneOutRidge | TransductiveRidge = ridge
        if len(free):  # after the choice of the kernel, in which they have no part
            Phi, unlabelled = (self._nystrom(part).numpy() for part in (Z, free))
            self.machine_ = TransductiveRidge((ridge.alpha_,), self.betas).fit(Phi, Y, unlabelled)
        self.kernel_, self.alpha_ = self._nystrom.kernel, self.machine_.alpha_
        self.beta_ = getattr(self.machine_, "beta_", 0.0)
        doubt = 1 / (len(codes) + 2)  # the rule of succession: few rows do not make certain
        self.temperature_ = temperature(self.machine_.loo_predictions_, codes, doubt)
        scores = getattr(self.machine_, "unlabelled_predictions_", np.empty((0, len(self.classes_))))
        self.unlabelled_probabilities_ = softmax(scores / self.temperature_, axis=1)
        self.unlabelled_predictions_ = self.classes_[scores.argmax(axis=1)]

    def decision_function(self, X: Any) -> np.ndarray:
        """Predicted one-hot targets, shape (n, K); for two classes the second minus the first, shape (n,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of every row."""
        scores = self._scores(X)
        return self.classes_[scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, shape (n, K): softmax of the scores at `temperature_`.

        For new rows. Those of the fit that had no label are in `unlabelled_probabilities_`.
        """
        return softmax(self._scores(X) / self.temperature_, axis=1)

    def summary(self) -> str:
        """What was chosen, in words."""
        check_is_fitted(self, "machine_")
        length = getattr(self.kernel_, "lengthscale", None)  # without its last digits
        known = isinstance(length, float)
        kernel = f"{self.kernel_.name} kernel of lengthscale {length:.4g}" if known else f"{self.kernel_}"
        used = sorted((s for s in self.alignments_ if s.weight > 0), key=lambda s: -s.share)
        rows = [[s.layer, f"{s.alignment:.3f}", f"{s.weight:.4f}", f"{s.share:.1%}"] for s in used]
        errors = ", ".join(f"{name} {error:.3f}" for name, error in self.left_out_errors_.items())
        return (
            f"{len(used)} of {len(self.alignments_)} layers, alignment {self.alignment_:.3f}; {kernel}\n"
            + (f"squared errors of rows left out: {errors}\n" if errors else "")
            + f"alpha {self.alpha_:.3g}, beta {self.beta_:.3g}, temperature {self.temperature_:.3g}\n"
            f"{text_table([['layer', 'alone', 'weight', 'share'], *rows])}"
        )

    def __str__(self) -> str:
        return f"{self!r}\n{self.summary()}" if hasattr(self, "machine_") else repr(self)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "machine_")
        outputs = self._open(X, reset=False, needed=self.layers_)
        scores = np.empty((outputs.n_rows, len(self.classes_)))
        for block, Z in self._features(Pool(outputs, np.arange(outputs.n_rows))):
            scores[block] = self._nystrom(Z).numpy() @ self.machine_.coef_ + self.machine_.intercept_
        return scores

    def _features(self, pool: Pool) -> Iterator[tuple[slice, np.ndarray]]:
        """[mu_l^(1/2) Phi_l] of rows, block by block."""
        for block, layers in pool.outputs.blocks(pool.rows, self.layers_):
            for name, Z in layers.items():
                width = self._maps[name].width
                if Z.shape[1] != width:
                    raise ValueError(f"Layer {name!r} has {Z.shape[1]} features; it had {width} in fit.")
            parts = [self._maps[name](layers[name]).numpy() * self._scales[name] for name in self.layers_]
            yield block, np.hstack(parts)

    def _open(self, X: Any, reset: bool, needed: list[str] | None = None) -> LayerOutputs:
        """Open the layers of X. In `fit` (`reset`) they are remembered; later X must have the same layers."""
        if self.network_ is not None:
            given = isinstance(self.network, nn.Module)
            return LayerOutputs(X, self.network_, self.batch_rows, self.pool, 1.0 if given else 255.0)
        if not are_layers(X):
            if not reset and self._given != [MATRIX]:
                expected = f"{{layer: features}} with {', '.join(self._given)}, as in fit"
                raise TypeError(f"X is a {type(X).__name__}; expected {expected}.")
            X = {MATRIX: estimator_rows(self, X, dtype=(np.float64, np.float32), reset=reset)}
        outputs = LayerOutputs(X)
        if reset:
            self._given: list[str] = outputs.names
            self._columns = outputs.columns
        wanted = self._given if self.layers is None else list(self.layers)
        outputs.require(self._given, wanted if needed is None else needed, self._columns)
        return outputs

    def _encode(self, y: Any, n_rows: int) -> np.ndarray:
        if y is None:
            raise ValueError("LayerTransferClassifier requires y to be passed, but the target y is None.")
        y = as_array(y, "y")
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        if y.dtype.kind == "f" and np.isfinite(y).all():
            with np.errstate(invalid="ignore"):  # it casts to integers
                check_classification_targets(y)
        labels = encode_labels(y, n_rows=n_rows)
        if len(labels.classes) < 2:
            one = labels.classes[0].item()
            raise ValueError(f"All labels are of one class, {one!r}; at least two classes are needed.")
        self.classes_ = labels.classes
        return labels.codes

    def _check(self) -> None:
        for name in ("n_landmarks", "selection_rows", "batch_rows"):
            check_count(name, getattr(self, name))
        if self.n_features_per_layer != "auto":
            check_count("n_features_per_layer", self.n_features_per_layer)
        check_choice("weighting", self.weighting, ("auto", *WEIGHTINGS))
        factors = np.atleast_1d(np.asarray(self.lengthscale_factors, dtype=float))
        if not (factors.size and np.isfinite(factors).all() and (factors > 0).all()):
            raise ValueError(f"lengthscale_factors={self.lengthscale_factors!r}: expected positive numbers.")
