"""The protocol of the paper: labels on a part of the training rows, tested on rows never used for a choice.

For every repeat a part of the labels is drawn (10 % in the paper), a probe makes its choices on a validation part
of these labels, and the accuracy and balanced accuracy on the test rows are noted; mean and standard deviation
over the repeats are reported.  [krepes, appendix B]

Differs from [krepes] in: draws are stratified (every class keeps at least one label), and the deviation over
draws is reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor

from krepes.base.validation import check_choice, check_count, check_number, check_share, generator_of
from krepes.evaluation.linear import linear_probe
from krepes.evaluation.neighbours import knn_probe
from krepes.evaluation.other_probes import estimator_probe, ridge_probe
from krepes.evaluation.probe_inputs import (
    check_classes,
    check_matrix,
    chosen_rows,
    draw_count,
    draw_stratified,
    validation_split,
)
from krepes.evaluation.probe_result import ProbeResult
from krepes.evaluation.scoring import ProtocolResult, check_scoring, measured
from krepes.preprocessing.labels import MISSING, Labels, encode_labels
from krepes.preprocessing.targets import as_strata, as_targets

PROBES: dict[str, Callable[..., ProbeResult[Any]]] = {
    "linear": linear_probe,
    "knn": knn_probe,
    "ridge": ridge_probe,
    "estimator": estimator_probe,
}
OF_QUANTITIES = ("ridge", "estimator")


@dataclass(frozen=True)
class Protocol:
    """Which rows are labelled and which are tested, in every repeat.

    Attributes
    ----------
    labels : Labels of all n rows; for a regression, the tenths of the targets that rows are drawn from.
    draws : (labelled, test) row indices of every repeat.
    seeds : the seeds of the probes' own splits.
    targets : the numbers to predict, NaN where they are missing; None for classes.
    """

    labels: Labels
    draws: list[tuple[np.ndarray, np.ndarray]]
    seeds: list[int]
    targets: np.ndarray | None = None

    @property
    def task(self) -> str:
        return "classification" if self.targets is None else "regression"

    @property
    def rows(self) -> np.ndarray:
        """All rows that some repeat needs, sorted. The others need not be transformed."""
        return np.unique(np.concatenate([part for draw in self.draws for part in draw]))

    @property
    def n_labels(self) -> int:
        """Labels that every repeat has."""
        return min(len(labelled) for labelled, _ in self.draws)

    def y(self, rows: np.ndarray) -> np.ndarray:
        """The classes, or the targets, of some rows."""
        return self.labels.classes[self.labels.codes[rows]] if self.targets is None else self.targets[rows]

    def run(
        self,
        Z: Any,
        probe: str = "linear",
        progress: Callable[[int], None] | None = None,
        scoring: str | None = None,
        **options: Any,
    ) -> ProtocolResult:
        """Probe a representation given for `self.rows`, in that order; `scoring` adds a scorer of scikit-learn."""
        drawn = Drawn(self, Z, probe, scoring, options)
        for i in range(len(self.draws)):
            drawn.add(i)
            if progress is not None:
                progress(i + 1)
        return drawn.result()

    def floor(self, scoring: str | None = None) -> ProtocolResult:
        """The results without looking at the rows: the labels' most frequent class, or their mean."""
        dummy = DummyClassifier() if self.targets is None else DummyRegressor()
        found = self.run(np.zeros((len(self.rows), 1)), "estimator", scoring=scoring, estimator=dummy)
        return replace(found, probe="most frequent class" if self.targets is None else "mean", seconds=0.0)

    def with_labels(self, count: int, random_state: int | None = 0) -> Protocol:
        """The same test rows, with `count` of every repeat's labels, every class among them where that is possible."""
        check_count("count", count, least=2)
        if count > self.n_labels:
            raise ValueError(f"count={count}: there are {self.n_labels:,} labels.")
        generator, codes = generator_of(random_state), self.labels.codes
        draws = [(rows[draw_count(codes[rows], count, generator)], test) for rows, test in self.draws]
        return replace(self, draws=draws)

    def distinct(self) -> Protocol:
        """The first draw alone where all are the same: with all labels and given test rows there is one to make."""
        first = self.draws[0]
        same = all(np.array_equal(a, b) for draw in self.draws[1:] for a, b in zip(draw, first))
        return self.first(1) if same else self

    def first(self, n_draws: int) -> Protocol:
        """The first draws alone."""
        return replace(self, draws=self.draws[:n_draws], seeds=self.seeds[:n_draws])


class Drawn:
    """What a probe finds on a representation, draw by draw.

    Parameters
    ----------
    plan : Protocol
    Z : array of shape (rows of the plan, h)
    probe, scoring : as in `Protocol.run`.
    options : of the probe.
    """

    def __init__(self, plan: Protocol, Z: Any, probe: str, scoring: str | None, options: Mapping[str, Any]):
        check_choice("probe", probe, PROBES)
        if plan.targets is not None and probe not in OF_QUANTITIES:
            raise ValueError(f"probe={probe!r} is for classes; a regression takes probe='ridge'.")
        if scoring is not None:
            check_scoring(scoring)
        self.plan, self.Z, self.rows = plan, check_matrix(Z), plan.rows
        if len(self.Z) != len(self.rows):
            raise ValueError(
                f"Z has {len(self.Z):,} rows; the {len(self.rows):,} of protocol.rows are needed."
            )
        self.probe, self.scoring, self.options = probe, scoring, options
        self.results: list[ProbeResult[Any]] = []
        self.without: list[dict[str, np.ndarray]] = []
        self.seconds = 0.0

    def add(self, i: int, **options: Any) -> None:
        """Measure one draw; `options` are of the probe, besides those for all draws."""
        start, (labelled, test), seed = time.perf_counter(), self.plan.draws[i], self.plan.seeds[i]
        here, there = (self.Z[np.searchsorted(self.rows, part)] for part in (labelled, test))
        y, y_test = self.plan.y(labelled), self.plan.y(test)
        result = PROBES[self.probe](here, y, there, y_test, random_state=seed, **self.options, **options)
        found, parts = measured(result, there, y_test, self.scoring)
        self.results.append(found)
        self.without.append(parts)
        self.seconds += time.perf_counter() - start

    def result(self) -> ProtocolResult:
        groups = {name: np.stack([parts[name] for parts in self.without]) for name in self.without[0]}
        return ProtocolResult(self.results, self.probe, self.seconds, self.scoring, groups)


def plan_protocol(
    y: Any,
    train: ArrayLike | None = None,
    test: ArrayLike | None = None,
    *,
    label_fraction: float | None = 0.1,
    n_repeats: int = 5,
    test_fraction: float = 0.2,
    random_state: int | None = 0,
    name: str = "y",
    task: str = "classification",
) -> Protocol:
    """Draw the rows of every repeat; see `probe_protocol` for the parameters. Errors call the labels `name`.

    `task` is "classification", or "regression" for targets that are quantities; `guess_task(y).name` guesses it.
    """
    check_choice("task", task, ("classification", "regression"))
    if label_fraction is not None:
        check_number("label_fraction", label_fraction, "a share", above=0, most=1)
    check_count("n_repeats", n_repeats)
    if (train is None) != (test is None):
        raise ValueError("Give both train= and test= rows, or neither.")
    targets = as_targets(y, name) if task == "regression" else None
    labels = encode_labels(y, name) if targets is None else as_strata(targets, name)
    if targets is None:
        check_classes(labels.codes, labels.classes, name)
    generator = generator_of(random_state)
    given: tuple[np.ndarray, np.ndarray] | None = None
    if train is not None:
        given = _given_rows(train, test, labels)
        if targets is None:
            check_classes(labels.codes[given[0]], labels.classes, "The training rows' labels")
    else:
        check_share("test_fraction", test_fraction)
    draws = []
    for _ in range(n_repeats):
        rows, held = given or _random_test(labels, test_fraction, generator)
        if label_fraction is not None and label_fraction < 1:
            rows = rows[draw_stratified(labels.codes[rows], label_fraction, generator)[0]]
        draws.append((rows, held))
    return Protocol(labels, draws, generator.integers(2**31, size=n_repeats).tolist(), targets)


def probe_protocol(
    Z: Any,  # shape: (n, h)
    y: Any,
    train: ArrayLike | None = None,
    test: ArrayLike | None = None,
    *,
    label_fraction: float | None = 0.1,
    n_repeats: int = 5,
    probe: str = "linear",
    test_fraction: float = 0.2,
    random_state: int | None = 0,
    scoring: str | None = None,
    **options: Any,
) -> ProtocolResult:
    """Evaluate a representation by the paper's protocol.

    Parameters
    ----------
    Z, y : representation and labels of n rows. Rows whose label is None or NaN are left out.
    train, test : row indices or masks; without them `test_fraction` of the labelled rows are drawn for testing,
        different ones in every repeat.
    label_fraction : share of the training labels that a probe may see; None for all.
    n_repeats : how many draws mean and deviation are taken over.
    probe : "linear", "knn", or "ridge" for targets that are quantities; "estimator" with estimator=..., any
        classifier or regressor of scikit-learn. `options` are passed on to it.
    random_state : seed of all draws.
    scoring : a name of scikit-learn's scorers, such as "roc_auc", to be computed too.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> print(probe_protocol(X, y, np.arange(1000), np.arange(1000, 1797), n_repeats=2, C_grid=[0.01]))
    linear probe: accuracy ... %, balanced accuracy ... % (2 repeats, 100 labels, 797 test rows)
    """
    Z = check_matrix(Z)
    if hasattr(y, "__len__") and not isinstance(y, str) and len(y) != len(Z):
        raise ValueError(f"y has {len(y):,} labels for {len(Z):,} rows of Z; one is needed for every row.")
    estimator = options.get("estimator")
    quantity = probe == "ridge" or (estimator is not None and is_regressor(estimator))
    plan = plan_protocol(
        y,
        train,
        test,
        label_fraction=label_fraction,
        n_repeats=n_repeats,
        test_fraction=test_fraction,
        random_state=random_state,
        task="regression" if quantity else "classification",
    )
    return plan.run(Z[plan.rows], probe, scoring=scoring, **options)


def _given_rows(train: ArrayLike, test: ArrayLike | None, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """The given training and test rows that have a label."""
    n_rows = len(labels.codes)
    found = []
    for name, given in (("train", train), ("test", test)):
        rows = chosen_rows(given, n_rows, name)
        found.append(rows[labels.codes[rows] != MISSING])
        if len(found[-1]) == 0:
            raise ValueError(f"None of the {len(rows):,} {name} rows has a label.")
    fitted, held = found
    if np.isin(held, fitted).any():
        raise ValueError(f"{np.isin(held, fitted).sum():,} rows are in both train= and test=.")
    return fitted, held


def _random_test(
    labels: Labels, fraction: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows; a class with a single row is for training."""
    present = labels.present
    train, test = validation_split(labels.codes[present], fraction, generator)
    if len(test) == 0:
        raise ValueError("Every class has a single label: none is left to test on.")
    return present[train], present[test]
