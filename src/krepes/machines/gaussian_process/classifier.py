"""GaussianProcessClassifier: classes with probabilities that know how far a row is from all others."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn, Self

import numpy as np
import torch
from torch import Tensor

from krepes.base.reporting import display
from krepes.engines import as_engine
from krepes.features import FeatureSpace, FitData
from krepes.features.fit_data import RowReader
from krepes.machines.gaussian_process.evidence_score import EvidenceScore, TriedByEvidence
from krepes.machines.gaussian_process.laplace import (
    LikelihoodPass,
    LikelihoodSums,
    laplace_mode,
    signs,
)
from krepes.machines.gaussian_process.machine import GaussianProcess, Posterior, given, probability
from krepes.machines.gaussian_process.sample_evidence import ClassEvidence, SampleEvidence
from krepes.machines.kernel_search import KernelSearch
from krepes.machines.labelled_machine import ClassMachine
from krepes.tally import Fit
from krepes.tally.fit import unsummed

FEATURE_BYTES = 512 * 2**20  # of features, up to which they are kept in memory between the steps
FEW_ROWS, MOST_ROWS = 250, 500  # of the sample that kernel and amplitude are chosen on


class Absent:
    """A method that a class inherits and does not have; asking for it says why."""

    def __init__(self, why: str):
        self.why = why

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no {self.name}: {self.why}")


READS_AGAIN = "it reads the rows several times, and keeps no sums that rows could be added to."


class GaussianProcessClassifier(ClassMachine[LikelihoodSums, Posterior], GaussianProcess[LikelihoodSums]):
    """Predict classes by a Gaussian process with a logistic likelihood, by Laplace's approximation.

    f ~ GP(0, a k),  p(class) = sigmoid(f).  Of more than two classes, each has a process against all others, with the
    same kernel and amplitude, and probabilities are divided by their sum. Each step of Newton's method reads the rows
    once, about ten times in all, unless their features fit into 512 MB. A row of weight w counts as w rows.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
    log_marginal_likelihood_ : float
        Laplace's approximation of it, summed over the processes.
    {attributes}
    n_iter_ : int
        Steps of Newton's method.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianProcessClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9), model.predict_proba(X[:2]).shape
    (True, (2, 3))
    """

    partial_fit = Absent(READS_AGAIN)
    merge = Absent(READS_AGAIN)
    empty_copy = Absent(READS_AGAIN)
    forget = Absent(READS_AGAIN)
    forget_groups = Absent(READS_AGAIN)
    only = Absent(READS_AGAIN)
    without = Absent(READS_AGAIN)

    # Fitting

    def fit(  # type: ignore[override]  # it keeps no sums by group
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        checkpoint: str | os.PathLike | None = None,
        space: FeatureSpace | None = None,
    ) -> Self:
        """Learn to predict y from X: an array, tensor, frame, memory map, list of objects, source, or one path.

        `y` has one class for every row, or is the name of a column of X, as for `KernelRidgeClassifier`. `space` as in
        `KernelEmbedding.fit`. There is no `checkpoint`, because there is no single long pass.
        """
        self._check_parameters()
        if checkpoint is not None:
            raise ValueError(
                f"checkpoint= is for one pass over the data; {type(self).__name__} makes several."
            )
        with self._unchanged_by_failure():
            data = self._opened(X, None, space, y=y, weight=sample_weight)
            space = self._prepared(data) if space is None else space.decomposed()
            self._own(Fit(space, unsummed(data.n_rows)), self._approximated(space, data))
        self._record_input(X, space.inputs)
        return self

    def _approximated(self, space: FeatureSpace, data: FitData) -> Posterior:
        amplitude, chosen = given(self.amplitude), getattr(space.choice, "chosen", None)
        if amplitude is None:  # a space of another kind of machine knows none
            amplitude = chosen.amplitude if isinstance(chosen, TriedByEvidence) else 1.0
        reader = data.reader(space.inputs, space.placement)
        start = torch.zeros(space.rank, self._n_processes, dtype=torch.float64, device=space.device)
        mode = laplace_mode(self._sums(space, reader), start, amplitude)
        return Posterior(
            space.features.F @ mode.W,
            torch.zeros_like(mode.W[0]),
            mode.roots,
            amplitude,
            None,
            mode.evidences.sum().item(),
            mode.steps,
        )

    def _sums(self, space: FeatureSpace, reader: RowReader) -> Callable[[Tensor], LikelihoodSums]:
        """The sums at any weights: by a product where features fit into memory, else by a read."""
        itemsize = torch.finfo(space.dtype).bits // 8
        if reader.n_rows * space.rank * itemsize > FEATURE_BYTES:
            return lambda W: as_engine(self.engine).reduce(
                LikelihoodPass(space, self.targets_, W), reader, progress=display(self.verbose)
            )
        block = reader.take(np.arange(reader.n_rows))
        if block.weight is not None and not block.weight.all():
            block = block.take(np.flatnonzero(block.weight))
        Phi = torch.cat([space.features(part.inputs[0]) for part in block.blocks(4096)])
        T = signs(self.targets_.matrix(block.y)).to(space.device)
        weight = None if block.weight is None else torch.from_numpy(block.weight).to(space.device)
        return lambda W: LikelihoodSums.of_rows(Phi, T, weight, W)

    @property
    def _search(self) -> KernelSearch:
        score = EvidenceScore(self._evidence_of, given(self.amplitude), 1.0, FEW_ROWS, MOST_ROWS)
        return KernelSearch(self.kernel, self.lengthscale, self.input_metric, self.preprocess, score)

    def _evidence_of(self, Y: Tensor, weight: Tensor | None) -> SampleEvidence:
        return ClassEvidence(signs(Y), weight)

    @property
    def _n_processes(self) -> int:
        return 1 if self.targets_.n_outputs == 2 else self.targets_.n_outputs

    def _accumulator(self, space: FeatureSpace) -> LikelihoodPass:
        zero = torch.zeros(space.rank, self._n_processes, dtype=torch.float64, device=space.device)
        return LikelihoodPass(space, self.targets_, zero)

    def _solve(self, value: LikelihoodSums) -> Posterior:
        raise TypeError(READS_AGAIN)

    # Using

    @property
    def n_iter_(self) -> int:
        steps = self._solved().iterations
        assert steps is not None
        return steps

    def latent_mean_and_variance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Of f under the posterior, (n, c) each; (n,) for two classes."""
        means, variances = self._moments(X)
        return (means[:, 0], variances[:, 0]) if means.shape[1] == 1 else (means, variances)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, (n, c): expectations over f, which are near even far from all rows."""
        P = probability(*self._moments(X))
        if P.shape[1] == 1:
            return np.column_stack([1 - P, P])
        return P / np.maximum(P.sum(1, keepdims=True), 1e-300)

    def predict(self, X: Any) -> np.ndarray:
        """The class with the highest probability, (n,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
