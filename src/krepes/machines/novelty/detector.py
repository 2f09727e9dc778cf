"""NoveltyDetector: rows unlike those that were learned, in one pass, with a false-alarm rate that holds.

    rows, by index -> learned:     kernel, landmarks, sums -> score
                   -> calibrate:   kept, scored -> p-values, threshold

One read of the data after the preparation, O(n (m d + m r + r^2)), then O(r^3). Where there are no more learned rows
than landmarks, the scores are the exact ones of (K + penalty I)^-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin

from krepes.base.reporting import display, warn
from krepes.base.storage import packing
from krepes.base.storage.codec import State
from krepes.base.validation import check_choice, check_count, check_number, check_share, is_number
from krepes.features import ChosenKernel, FeatureSpace, FitData, Spec, prepare
from krepes.features.choices import landmark_count
from krepes.kernels import Custom, EmpiricalNTK, Kernel, Patches, Precomputed
from krepes.kernels.vectors import Lengthscale
from krepes.machines.kernel_search import Kernels, KernelSearch
from krepes.machines.normal_equations import unit_features
from krepes.machines.novelty.calibration import (
    STRETCH,
    Calibration,
    NoveltyPass,
    NoveltySolution,
    NoveltyTotal,
    Reading,
    calibrates,
)
from krepes.machines.novelty.cross_score import CrossScore, TriedByCrosses
from krepes.machines.novelty.explanation import NoveltyExplanation, explained
from krepes.machines.novelty.scores import SCORES
from krepes.one_pass import OnePassEstimator
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates
from krepes.tally import Fit

LEAST_SHARE, MOST_SHARE = 1 / STRETCH, 1 - 1 / STRETCH
LEAST_ROWS = 2  # to learn from


@dataclass(kw_only=True, eq=False, repr=False)
class NoveltyDetector(OutlierMixin, OnePassEstimator[NoveltyTotal, NoveltySolution]):
    """Find rows that are unlike those it has learned, and raise false alarms no more often than you say.

    A share of the rows is held out, by their index, and never learned from. A new row is compared with these: its
    p-value is the share of rows as it should be that are at least as novel.

    `fit` and `partial_fit` ignore y. Rows that are learned count `sample_weight` times. Rows that calibrate count once,
    so that they cannot age (`half_life`). Rows of weight zero are left out.

    Parameters
    ----------
    false_alarm_rate : float, default=0.05
        The share of normal rows for which `predict` may say -1.
    measure : "variance", "regression" or "distance", default="variance"
        How novelty is measured: by the posterior variance of a Gaussian process; by regression to one, which falls to
        zero far from the rows; or by the distance to the mean in the kernel's space.
    kernel : "auto", str, Kernel, callable or list of them, default="auto"
        How rows are compared. "auto" compares an L1-Laplacian (up to 128 columns) and a Gaussian kernel. Kernels of the
        dot product are refused, because they do not vanish far away; others are normalised to k(x, x) = 1.
    lengthscale : "auto", float, "median" or a multiple of it such as "4 median", default="auto"
        The distance at which the kernel tells rows apart. "auto" tries multiples of the median on a sample.
    penalty : float or "auto", default="auto"
        The variance of the noise, in units of k(x, x). "auto" tries several on a sample.
    calibration_share : float, default=0.4
        The share of rows that is held out for p-values, in steps of 1/20.
    landmarks : str, LandmarkSelector, array of points or of row indices, default="pivoted_cholesky"
        How landmarks, the rows that all others are compared with, are chosen.
    n_landmarks : int, "auto" or None, default="auto"
        Number m of landmarks; more are better, and slower. "auto" is 2000, None is all rows.
    n_kept : int, default=20000
        How many calibration rows, at most, are kept with the model. They are saved with it.
    preprocess : "auto", "table", "series", "normalize", None, TableEncoder or Normalize, default="auto"
        As in KernelEmbedding. With "auto" the columns of an array are used as given or standardised, whichever tells
        rows from crosses of two rows better.
    engine, device, random_state, verbose : as in KernelEmbedding
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of kernel values and features; "auto" is float64, because variances are small differences.

    Attributes
    ----------
    offset_ : float
        `predict` says -1 for scores below it.
    attainable_rate_ : float
        The false-alarm rate that is attained: the largest multiple of 1 / (n_calibration_ + 1) up to
        `false_alarm_rate`. It is 0 where there are too few calibration rows for any alarm.
    n_calibration_ : int
    penalty_ : float
    choice_ : KernelChoice or None
        The kernels that were tried; print it. It is not saved.
    space_ : FeatureSpace
    n_samples_seen_ : int
        Rows that were learned, and those that calibrate.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> model = NoveltyDetector(random_state=0).fit(rng.normal(size=(400, 3)))
    >>> model.predict([[0.0, 0.0, 0.0], [9.0, 9.0, 9.0]])
    array([ 1, -1])
    >>> model.n_calibration_, round(model.attainable_rate_, 4)                   # 8 / 161
    (160, 0.0497)
    """

    solution_type = NoveltySolution

    false_alarm_rate: float = 0.05
    measure: str = "variance"
    kernel: Kernels = "auto"
    lengthscale: Lengthscale = "auto"
    penalty: float | str = "auto"
    calibration_share: float = 0.4
    n_landmarks: int | str | None = "auto"
    n_kept: int = 20_000

    penalty_: float = field(init=False)

    # Fitting

    def _opened(
        self, X: Any, groups: ArrayLike | None = None, space: FeatureSpace | None = None, **given: Any
    ) -> FitData:
        return super()._opened(X, groups, space, **given | {"y": None})

    def _reopened(self, X: Any, groups: ArrayLike | None = None, **given: Any) -> FitData:
        return super()._reopened(X, groups, **given | {"y": None})

    def _add_rows(
        self,
        X: Any,
        first_row: int | None,
        half_life: float | None = None,
        groups: ArrayLike | None = None,
        **given: Any,
    ) -> Self:
        if half_life is not None:
            raise ValueError(
                "half_life=: calibration rows cannot age, because each counts once in a p-value. Use "
                "krepes.streams.Window, which drops old rows."
            )
        return super()._add_rows(X, first_row, groups=groups, **given)

    def _check_parameters(self) -> None:
        check_share("false_alarm_rate", self.false_alarm_rate)
        check_choice("measure", self.measure, SCORES)
        bounds = {"least": LEAST_SHARE, "most": MOST_SHARE}
        check_number("calibration_share", self.calibration_share, "a share", **bounds)
        if self.penalty != "auto":
            check_number("penalty", self.penalty, "'auto' or a number", above=0)
        if self.n_landmarks not in ("auto", None):
            check_count("n_landmarks", self.n_landmarks)
        check_count("n_kept", self.n_kept)
        for kernel in self._search.given():
            _check_vanishes(kernel)

    @property
    def _search(self) -> KernelSearch:
        score = CrossScore(SCORES[self.measure], None if self.penalty == "auto" else float(self.penalty))
        return KernelSearch(self.kernel, self.lengthscale, None, self.preprocess, score)

    def _prepared(self, data: FitData) -> FeatureSpace:
        """A space of the rows that are learned; those that calibrate are not looked at."""
        rows = torch.arange(data.first_row, data.first_row + data.n_rows)
        learned = ~calibrates(rows, self.calibration_share)
        weight = learned.astype(float) if data.weight is None else learned * data.weight
        n = int((weight > 0).sum())
        if n < LEAST_ROWS:
            raise ValueError(
                f"Found {data.n_rows} sample(s), of which {n} can be learned from and the others calibrate; a minimum "
                f"of {LEAST_ROWS} to learn from is required."
            )
        run = self._run(n)
        m, preprocess = landmark_count(self.n_landmarks, n), self._preprocess(data)
        spec = Spec(self._search.first(), self.landmarks, m, preprocess=preprocess)
        return prepare(
            replace(data, weight=weight),
            spec,
            run,
            lambda candidates, inputs: self._chosen_kernel(candidates, inputs, run.seed),
        )

    def _auto_dtype(self, n_rows: int) -> str:
        return "float64"

    def _chosen_kernel(self, candidates: Candidates, inputs: InputSpace, seed: int) -> ChosenKernel:
        """The kernel by how well rows are told from crosses; as it was given for objects, which cannot be crossed."""
        with display(self.verbose).stage("Choosing the kernel"):
            return self._search.choose(candidates, inputs, seed)

    def _own(self, fit: Fit[NoveltyTotal], solution: NoveltySolution | None = None) -> Self:
        if self._fitted is None or fit.space is not self._fitted.space:
            self._use_penalty(self._penalty_in(fit.space))
        return super()._own(fit, solution)

    def _use_penalty(self, penalty: float) -> Self:
        self.penalty_ = penalty
        return self

    def _penalty_in(self, space: FeatureSpace) -> float:
        """The penalty that was given, that was chosen with the kernel, or that suits the measure."""
        if self.penalty != "auto":
            check_number("penalty", self.penalty, "'auto' or a number", above=0)
            return float(self.penalty)
        if space.choice is not None and isinstance(space.choice.chosen, TriedByCrosses):
            return space.choice.chosen.penalty
        return SCORES[self.measure].penalty

    def _check_holds(self, total: NoveltyTotal, gone: NoveltyTotal) -> None:
        if total.kept is not None and gone.kept is not None:
            total.kept.check_holds(gone.kept)
        super()._check_holds(total, gone)

    def _kernel_given(self) -> bool:
        return self._search.is_given(self.space_.kernel)

    def _accumulator(self, space: FeatureSpace) -> NoveltyPass:
        return NoveltyPass(space, self.calibration_share, self.n_kept)

    def _solve(self, value: NoveltyTotal) -> NoveltySolution:
        found = NoveltySolution.of(value, self.space_, SCORES[self.measure], self.penalty_)
        rate, n = self.false_alarm_rate, found.calibration.n
        if found.calibration.rank(rate) == 0:
            warn(
                f"With {n} calibration rows no alarm is possible at false_alarm_rate={rate:g}, which needs at least "
                f"{Calibration.needed(rate):,}: every row passes for normal. Scores still rank rows. Give more rows, "
                "or a higher rate."
            )
        return found

    # Using

    def score_samples(self, X: Any) -> np.ndarray:
        """How normal rows are, (n,): the lower, the more novel."""
        found, space = self._solved(), self.space_
        return self._mapped(lambda rows: found.score(unit_features(space, rows)), X)

    def decision_function(self, X: Any) -> np.ndarray:
        """`score_samples` minus `offset_`, (n,): negative for alarms."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """-1 for alarms, rows whose p-value is at most `false_alarm_rate`, and 1 for others, (n,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def p_values(self, X: Any) -> np.ndarray:
        """Conformal p-values, (n,): the share of normal rows that are at least as novel.

        p = (1 + calibration rows at least as novel) / (n_calibration_ + 1). If a row comes from where the calibration
        rows came from, P(p <= a) <= a for every a, on average over calibration rows.
        """
        return self._solved().calibration.p_values(self.score_samples(X))

    @property
    def offset_(self) -> float:
        found = self._solved()
        return found.calibration.threshold(self.false_alarm_rate, found.score.lowest)

    @property
    def attainable_rate_(self) -> float:
        return self._solved().calibration.attainable(self.false_alarm_rate)

    @property
    def n_calibration_(self) -> int:
        return self._solved().calibration.n

    def monitor(self, batches: Iterable[Any], *, learn: bool = False) -> Iterator[Reading]:
        """Scores, p-values and alarms of a stream, one `Reading` for every batch of rows.

        With `learn`, each batch is added by `partial_fit` after it was read: the detector follows a slow change, and
        would follow a fault, too.
        """
        reading = None
        for batch in batches:
            scores, held = self.score_samples(batch), self._solved().calibration
            reading = Reading.of(scores, held, self.false_alarm_rate, reading)
            yield reading
            if learn:
                self.partial_fit(batch)

    def explain(self, X: Any, *, n_landmarks: int = 3) -> NoveltyExplanation:
        """Why rows are novel: the nearest landmarks and, for tables and vectors, columns that deviate; print it."""
        check_count("n_landmarks", n_landmarks)
        found, space = self._solved(), self.space_
        return explained(found, space, n_landmarks, self._column_names(), lambda of: self._mapped(of, X))

    def _column_names(self) -> list[str] | None:
        """Of the columns of a table or of vectors, x0, x1, ... where they have no names; None for other rows."""
        inputs = self.input_space_
        if inputs.kind == "table" and inputs.encoder is not None:
            return list(inputs.encoder.used_columns_)
        if inputs.kind != "vectors" or len(inputs.shape) != 1:
            return None
        return [
            str(name)
            for name in vars(self).get("feature_names_in_", [f"x{j}" for j in range(inputs.shape[0])])
        ]

    # Files and copies

    def empty_copy(self) -> Self:
        return super().empty_copy()._use_penalty(self.penalty_)

    def fingerprint(self) -> dict[str, str]:
        own = {"measure": packing.digest([self.measure, self.penalty_])}
        return super().fingerprint() | self._accumulator(self.space_).fingerprint() | own

    def _state(self, total: bool = True) -> State:
        return super()._state(total) | {"penalty": self.penalty_}

    def _restore(self, state: State) -> None:
        self._check_parameters()
        if not is_number(state["penalty"], above=0):
            raise ValueError("The model is damaged: its penalty must be positive.")
        self.penalty_ = state["penalty"]
        super()._restore(state)


def _check_vanishes(kernel: Kernel) -> None:
    """Refuse kernels that do not vanish far away; functions of the user's and network kernels are normalised."""
    if isinstance(kernel, Patches):
        return _check_vanishes(kernel.top)
    if kernel.shift_invariant or kernel.takes_objects or isinstance(kernel, Custom | EmpiricalNTK):
        return
    if isinstance(kernel, Precomputed):
        raise ValueError(
            "kernel='precomputed': a novelty detector needs a kernel that vanishes far away, and a matrix does not "
            "show whether it does. Give the kernel as a function."
        )
    raise ValueError(
        f"kernel={kernel}: a novelty detector needs a kernel that vanishes far away, such as a function of the "
        "distance; with this one, rows far from all others would look normal. Use 'gaussian', 'laplacian' or 'matern'."
    )
