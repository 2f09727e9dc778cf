"""Search for parameters with few labels.                                                        [krepes, B.3]

    for every trial:  fit on the training part, without labels  ->  linear probe on a small labelled part  ->  accuracy

A loss of moments is fitted from one pass over the data: every trial after it is `refit`, which costs O(r^3) or
O(r^2 h) per step whatever n is. A loss of samples trains in every trial.

Choosing by labels is no longer unsupervised, as [krepes, B.3] says itself; report it beside the numbers.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator, clone

from krepes.base import model_file
from krepes.base.rows import Rows, is_tensor
from krepes.embedding import KernelEmbedding
from krepes.sources import Source, open_source
from krepes.sources.subset import subset

from .linear import C_GRID
from .search_result import SearchResult, failures
from .search_space import SettledSpace, chosen_solver, settle
from .search_split import SearchSplit, split_rows
from .search_study import Study, Trial

logger = logging.getLogger("krepes")

Callback = Callable[[SearchResult], None]  # called after every trial, with all trials so far

# Parameters that `refit` may change; "loss" and "solver" by their parameters only, because another loss may need
# other views or samples.
_OF_MOMENTS = ("n_components", "regularization", "feature_noise", "loss__", "solver__")
# What a trial may fail of and the search goes on: a value that cannot be, training that diverges, a singular matrix.
_FAILURES = (ValueError, ArithmeticError, RuntimeError)
_HASHED_ROWS = 256
PROBE_C_GRID = C_GRID[::2]  # decades: the probe takes most of a trial's time where the data are read once


class Search:
    """A search that is set up: rows are divided, names checked, the study is open.

    `search` does all of it in one call and has the parameters' description; this class lets a caller say what is going
    to happen before it does.

    Attributes
    ----------
    split : SearchSplit
    space : SettledSpace
    one_pass : bool
        Whether all trials are solved from the moments of one pass.
    study : Study
    """

    def __init__(
        self,
        model: KernelEmbedding,
        X: Any,
        y: Any,
        *,
        sampler: str = "random",
        space: Mapping[str, Any] | None = None,
        validation_fraction: float | None = None,
        label_fraction: float = 0.5,
        metric: str = "auto",
        study: str | os.PathLike | None = None,
        overwrite: bool = False,
        rows: Any = None,
        random_state: int = 0,
        name: str = "y",
    ):
        if not isinstance(model, KernelEmbedding):
            raise TypeError(f"search takes a KernelEmbedding; got {type(model).__name__}.")
        if (
            not isinstance(random_state, int | np.integer)
            or isinstance(random_state, bool)
            or random_state < 0
        ):
            raise ValueError(f"random_state={random_state!r}: expected an integer >= 0.")
        seed = int(random_state)
        self.space: SettledSpace = settle(model, space)
        self.model: KernelEmbedding = clone(model).set_params(**self.space.fixed)
        if not isinstance(model.random_state, int | np.integer):  # because trials must differ in nothing else
            self.model.random_state = seed
        source: Source = open_source(X)
        self.split: SearchSplit = split_rows(
            y,
            source.n_rows,
            source.kind,
            rows=_row_indices(rows, source.n_rows),
            validation_fraction=validation_fraction,
            label_fraction=label_fraction,
            metric=metric,
            seed=seed,
            name=name,
        )
        self.one_pass = self._from_moments()
        self._train = subset(source, self.split.train)
        self._validation = source.take(self.split.validation)
        self._summed: KernelEmbedding | None = None
        self.study = Study(study, self.space.varied, self._fingerprint(source), sampler, seed, overwrite)

    def _from_moments(self) -> bool:
        by_moments = all(name.startswith(_OF_MOMENTS) for name in self.space.varied)
        return by_moments and chosen_solver(self.model).data == "moments"

    def _fingerprint(self, source: Source) -> dict[str, str]:
        """Hashes of everything that makes trials comparable."""
        params = {
            k: v for k, v in _parameters(self.model).items() if k not in ("verbose", "device", "engine")
        }
        plan = self.split.plan
        few = source.take(self.split.validation[:_HASHED_ROWS])
        digest = model_file.digest
        return {
            "data": digest([source.n_rows, source.kind, _rows_digest(few)]),
            "labels": digest([plan.labels.codes, [str(label) for label in plan.labels.classes]]),
            "model": digest(params),
            "search space": digest({name: repr(spec) for name, spec in self.space.varied.items()}),
            "split of the rows": digest([self.split.train, self.split.validation, *plan.draws, plan.seeds]),
            "metric": self.split.metric,
        }

    # Running

    @property
    def result(self) -> SearchResult:
        """The trials so far."""
        return SearchResult(list(self.study.trials), self.split.metric, dict(self.space.fixed))

    def prepare(self) -> None:
        """The pass over the data, where one pass serves all trials."""
        if self.one_pass and self._summed is None:
            self._summed = clone(self.model).partial_fit(self._train)
            self._summed.verbose = 0

    def run(self, n_trials: int, callback: Callback | None = None) -> SearchResult:
        """Go on until the study has `n_trials` trials."""
        if not isinstance(n_trials, int | np.integer) or isinstance(n_trials, bool) or n_trials < 1:
            raise ValueError(f"n_trials={n_trials!r}: expected an integer >= 1.")
        while len(self.study.trials) < n_trials:
            self.prepare()
            trial = self._tried(self.study.ask())
            logger.info("Trial %d: %s %s", trial.number, trial.params, trial.message or trial.value)
            if callback is not None:
                callback(self.result)
        result = self.result
        if len(result.failed) == len(result.trials):
            raise ValueError(f"All {len(result.trials)} trials failed. {failures(result.trials)}")
        return result

    def _tried(self, params: dict[str, Any]) -> Trial:
        start = time.perf_counter()
        scores: dict[str, float] = {}
        value, message = None, ""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            try:
                scores = self._scores(params)
                value = scores[self.split.metric]
            except _FAILURES as error:
                message = " ".join(str(error).split()) or type(error).__name__
        notes = tuple(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))
        return self.study.record(params, value, scores, time.perf_counter() - start, message, notes)

    def _scores(self, params: dict[str, Any]) -> dict[str, float]:
        """Fit with these parameters, and probe."""
        Z = self._fitted(params).transform(self._validation)
        width = float(Z.shape[1])  # the regularisation may have cut components
        result = self.split.plan.run(Z, C_grid=PROBE_C_GRID)
        values = {"accuracy": result.accuracies, "balanced_accuracy": result.balanced_accuracies}
        deviation = float(values[self.split.metric].std(ddof=min(1, len(result.results) - 1)))
        return {name: float(value.mean()) for name, value in values.items()} | {
            "deviation": deviation,
            "n_components": width,
        }

    def _fitted(self, params: dict[str, Any]) -> KernelEmbedding:
        if self._summed is not None:
            return self._summed.refit(**params)
        return clone(self.model).set_params(**params, verbose=0).fit(self._train)


def search(
    model: KernelEmbedding,
    X: Any,
    y: Any,
    *,
    n_trials: int = 20,
    sampler: str = "random",
    space: Mapping[str, Any] | None = None,
    validation_fraction: float | None = None,
    label_fraction: float = 0.5,
    metric: str = "auto",
    study: str | os.PathLike | None = None,
    overwrite: bool = False,
    rows: Any = None,
    random_state: int = 0,
    callback: Callback | None = None,
) -> SearchResult:
    """Find parameters of a model by the accuracy of a linear probe.

    Parameters
    ----------
    model : KernelEmbedding, not changed. What is not varied is as in it; SGD that is not given as an object has 60
        epochs and a patience of 10.
    X, y : rows as for `fit`, and one label each (None or NaN where it is not known).
    n_trials : how many trials the study is to have, those of earlier runs included.
    sampler : "random", or "tpe", which draws near what did well before.
    space : in addition to, and in place of, the default ranges: {"loss__temperature": (0.05, 5)}, a list of values to
        choose from, or None for a parameter to be left alone.
    validation_fraction : share of the rows to keep from the model and use the labels of. By default 2 % of images and
        10 % of other rows, at least 20 rows per class and at most half; where fewer labels are known, all of them.
    label_fraction : share of these that the probe learns from; the others score it.
    metric : "accuracy", "balanced_accuracy", or "auto": balanced where one class is more than twice as large as
        another.
    study : a file to keep the trials in. If it exists the search goes on from it, and `overwrite` starts anew.
    rows : indices or a mask of the rows to use: leave test rows out.
    random_state : seed of the split and of all draws, and of the model where it has no seed.
    callback : called with the SearchResult so far after every trial.

    Notes
    -----
    A trial that fails is recorded with its message, and the search goes on; if all do, that is an error. Where a loss
    is solved from moments the data are read once, for all trials, unless the kernel, the landmarks or the views are
    varied.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelEmbedding(4, n_landmarks=30, random_state=0)
    >>> result = search(model, X, y, n_trials=2)
    >>> best = model.set_params(**result.best_params).fit(X)
    """
    prepared = Search(
        model,
        X,
        y,
        sampler=sampler,
        space=space,
        validation_fraction=validation_fraction,
        label_fraction=label_fraction,
        metric=metric,
        study=study,
        overwrite=overwrite,
        rows=rows,
        random_state=random_state,
    )
    return prepared.run(n_trials, callback)


def _row_indices(rows: Any, n_rows: int) -> np.ndarray | None:
    """Sorted, distinct indices of rows that are given as indices or as a mask."""
    if rows is None:
        return None
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n_rows,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) == 0:
        raise ValueError(
            f"rows= must be row indices, or a mask of {n_rows:,} rows; got shape {rows.shape}, {rows.dtype}."
        )
    if rows.min() < 0 or rows.max() >= n_rows:
        raise ValueError(
            f"rows= has rows from {rows.min()} to {rows.max()}; there are rows 0 to {n_rows - 1}."
        )
    return np.unique(rows)


def _parameters(estimator: BaseEstimator) -> dict[str, object]:
    """The parameters of an estimator, each as its identity."""
    return {name: _identity(value) for name, value in estimator.get_params(deep=False).items()}


def _identity(value: object) -> object:
    """A value with estimators and classes replaced by their names and parameters."""
    if isinstance(value, type):
        return value.__qualname__
    if isinstance(value, BaseEstimator):
        return [type(value).__qualname__, _parameters(value)]
    return value


def _rows_digest(batch: Rows) -> str:
    """A hash of some rows, whatever they are."""
    if is_tensor(batch):
        batch = batch.detach().cpu().numpy()
    if isinstance(batch, np.ndarray):
        content = f"{batch.dtype}{batch.shape}".encode() + np.ascontiguousarray(batch).tobytes()
    else:
        rows = batch.to_pylist() if isinstance(batch, pa.Table) else batch
        content = re.sub(r" at 0x[0-9a-f]+", "", repr(rows)).encode()
    return hashlib.sha256(content).hexdigest()
