"""Search for parameters with few labels.                                                        [krepes, B.3]

    for every trial:  fit on the training part, without labels  ->  linear probe on a small labelled part  ->  accuracy

A loss of moments is fitted from one pass over the data: every trial after it is `refit`, which costs O(r^3) or
O(r^2 h) per step whatever n is. A loss of samples trains in every trial.

A choice by labels is no longer unsupervised, as [krepes, B.3] says too. Mention it wherever the numbers are reported.
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from krepes.base.code_identity import code_identity
from krepes.base.storage.files import full_disk_named
from krepes.base.storage.packing import digest
from krepes.base.validation import check_choice, check_count
from krepes.embedding import KernelEmbedding
from krepes.evaluation.budget import Budget, as_budget
from krepes.evaluation.linear import C_GRID
from krepes.evaluation.probe_inputs import chosen_rows
from krepes.evaluation.tuning.ranges import SettledSpace, chosen_solver, settle
from krepes.evaluation.tuning.split import METRICS, SearchSplit, split_rows
from krepes.evaluation.tuning.study import SAMPLERS, SearchResult, finished, next_params, open_study, record
from krepes.sources import Source, open_source
from krepes.sources.identity_of_rows import content_hash
from krepes.sources.row_subset import subset

logger = logging.getLogger("krepes")

Callback = Callable[[SearchResult], None]  # called after every trial, with all trials so far

# Parameters that `refit` may change; "loss" and "solver" by their parameters only, because another loss may need
# other views or samples.
_OF_MOMENTS = ("n_components", "regularization", "feature_noise", "loss__", "solver__")
# A trial may fail with these, and the search goes on: an impossible value, training that diverges, a singular matrix.
_FAILURES = (ValueError, ArithmeticError, RuntimeError)
_HASHED_ROWS = 256
_NOT_OF_THE_MODEL = ("verbose", "device", "engine")  # these may differ between runs of one study
PROBE_C_GRID = C_GRID[::2]  # decades: the probe takes most of a trial's time where the data are read once


class Search:
    """A search that is ready to run: rows are split, names are checked, the study is open.

    `search` does everything in one call, and describes the parameters. With this class a caller can first look at what
    is going to happen.

    Attributes
    ----------
    split : SearchSplit
    space : SettledSpace
    one_pass : bool
        Whether all trials are solved from the moments of one pass.
    study : optuna.Study
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
        check_choice("sampler", sampler, SAMPLERS)
        check_count("random_state", random_state, least=0)
        self.sampler, self.seed = sampler, int(random_state)
        self.space: SettledSpace = settle(model, space)
        self.model: KernelEmbedding = clone(model).set_params(**self.space.fixed)
        if not isinstance(model.random_state, int | np.integer):  # because trials must differ in nothing else
            self.model.random_state = self.seed
        source: Source = open_source(X)
        self.split: SearchSplit = split_rows(
            y,
            source.n_rows,
            source.kind,
            rows=None if rows is None else chosen_rows(rows, source.n_rows, "rows"),
            validation_fraction=validation_fraction,
            label_fraction=label_fraction,
            metric=metric,
            seed=self.seed,
            name=name,
        )
        by_moments = all(name.startswith(_OF_MOMENTS) for name in self.space.varied)
        self.one_pass = by_moments and chosen_solver(self.model).data == "moments"
        self._train = subset(source, self.split.train)
        self._validation = source.take(self.split.validation)
        self._summed: KernelEmbedding | None = None
        self._study_file = study or ""
        self.study = open_study(study, self.space.varied, self._fingerprint(source), overwrite)

    def _fingerprint(self, source: Source) -> dict[str, str]:
        """Hashes of everything that makes trials comparable."""
        params = self.model.get_params(deep=False).items()
        plan = self.split.plan
        few = source.take(self.split.validation[:_HASHED_ROWS])
        return {
            "data": digest([source.n_rows, source.kind, content_hash([few])]),
            "labels": digest([plan.labels.codes, [str(label) for label in plan.labels.classes]]),
            "model": code_identity({name: value for name, value in params if name not in _NOT_OF_THE_MODEL}),
            "search space": digest({name: repr(spec) for name, spec in self.space.varied.items()}),
            "split of the rows": digest([self.split.train, self.split.validation, *plan.draws, plan.seeds]),
            "metric": self.split.metric,
        }

    # Running

    @property
    def result(self) -> SearchResult:
        """The trials so far."""
        return SearchResult(finished(self.study), self.split.metric, dict(self.space.fixed))

    def prepare(self) -> None:
        """The pass over the data, where one pass serves all trials."""
        if self.one_pass and self._summed is None:
            self._summed = clone(self.model).partial_fit(self._train)
            self._summed.verbose = 0

    def run(
        self, n_trials: int, callback: Callback | None = None, budget: Budget | float | None = None
    ) -> SearchResult:
        """Go on until the study has `n_trials` trials, or the next would not fit into the seconds of a budget."""
        check_count("n_trials", n_trials)
        limit, longest = as_budget(budget), 0.0
        while len(finished(self.study)) < n_trials and (not longest or limit.allows(longest)):
            self.prepare()
            start = limit.clock()
            self._try(next_params(self.study, self.space.varied, self.sampler, self.seed))
            longest = max(longest, limit.clock() - start)
            if callback is not None:
                callback(self.result)
        result = self.result
        if not result.ranked:
            raise ValueError(f"All {len(result.trials)} trials failed. {result.failures()}")
        return result

    def _try(self, params: dict[str, Any]) -> None:
        """Fit and probe with these parameters, and record what came of it."""
        start = time.perf_counter()
        scores: dict[str, float] = {}
        message = ""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            try:
                scores = self._scores(params)
            except _FAILURES as error:
                message = " ".join(str(error).split()) or type(error).__name__
        notes = list(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))
        value, seconds = scores.get(self.split.metric), time.perf_counter() - start
        more = {"scores": scores, "seconds": seconds, "message": message, "notes": notes}
        kept = "the trials before this one are kept, and the same search continues after them"
        with full_disk_named(self._study_file, kept):
            record(self.study, self.space.varied, params, value, **more)
        logger.info("Trial %s: %s", params, message or value)

    def _scores(self, params: dict[str, Any]) -> dict[str, float]:
        """Fit with these parameters, and probe."""
        if self._summed is not None:
            model = self._summed.refit(**params)
        else:
            model = clone(self.model).set_params(**params, verbose=0).fit(self._train)
        Z = model.transform(self._validation)
        width = float(Z.shape[1])  # the regularisation may have cut components
        result = self.split.plan.run(Z, C_grid=PROBE_C_GRID)
        values = {metric: result.values(metric) for metric in METRICS}
        deviation = float(values[self.split.metric].std(ddof=min(1, len(result.results) - 1)))
        means = {name: float(value.mean()) for name, value in values.items()}
        return means | {"deviation": deviation, "n_components": width}


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
    budget: Budget | float | None = None,
) -> SearchResult:
    """Find parameters of a model by the accuracy of a linear probe.

    Parameters
    ----------
    model : KernelEmbedding. It gives all parameters that are not varied, and is not changed itself. SGD runs for 60
        epochs with a patience of 10, unless the solver is an object with its own settings.
    X, y : rows as for `fit`, and one label for each row (None or NaN if it is not known).
    n_trials : how many trials the study has at the end; trials of earlier runs count.
    sampler : "random", or "tpe", which draws near the parameters that did well before.
    space : your own ranges, which replace or extend the default ones. A pair is a range, as in
        {"loss__temperature": (0.05, 5)}, logarithmic unless it begins at 0 or below; a list holds values to choose
        from; None leaves a parameter alone. Distributions of Optuna are taken as they are.
    validation_fraction : share of the rows that the model does not see and whose labels are used. By default it is 2 %
        for images and 10 % for other rows, at least 20 rows per class and at most half of all rows. If fewer labels
        are known, all of them are used.
    label_fraction : share of these rows that the probe learns from. The others score it.
    metric : "accuracy", "balanced_accuracy", or "auto", which is balanced if one class is more than twice as large as
        another.
    study : a file to keep the trials in. If it exists the search continues from it; `overwrite` starts over.
    rows : indices or a mask of the rows to use. Leave out the rows that you want to test on.
    random_state : seed of the split and of all draws, and of the model if it has no seed.
    callback : called with the SearchResult so far after every trial.
    budget : seconds. One trial is made in any case, the others as far as they fit. No limit by default.

    Notes
    -----
    A trial that fails is recorded with its message, and the search continues; it is an error if all trials fail. If the
    loss is solved from moments, the data are read once for all trials, unless the kernel, the landmarks or the views
    are varied.

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
    return prepared.run(n_trials, callback, budget)
