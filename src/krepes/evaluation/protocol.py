"""The protocol of the paper: labels on a part of the training rows, tested on rows never used for a choice.

For every repeat a part of the labels is drawn (10 % in the paper), a probe makes its choices on a validation part
of these labels, and the accuracy and balanced accuracy on the test rows are noted; mean and standard deviation
over the repeats are reported.  [krepes, appendix B]

Differs from [krepes] in: draws are stratified (every class keeps at least one label), and the deviation over
draws is reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from krepes.base.limits import check_count, check_share, is_number
from krepes.base.validation import generator_of
from krepes.evaluation.linear import linear_probe
from krepes.evaluation.neighbours import knn_probe
from krepes.evaluation.probe_inputs import check_classes, check_matrix, chosen_rows
from krepes.evaluation.probe_result import ProbeResult, probe_scores
from krepes.evaluation.splits import draw_stratified, validation_split
from krepes.preprocessing.labels import MISSING, Labels, encode_labels

PROBES: dict[str, Callable[..., ProbeResult]] = {"linear": linear_probe, "knn": knn_probe}


@dataclass(frozen=True)
class ProtocolResult:
    """The results of all repeats. `str(result)` is one line."""

    results: list[ProbeResult]
    probe: str
    seconds: float

    @property
    def accuracies(self) -> np.ndarray:
        return np.array([result.accuracy for result in self.results])

    @property
    def balanced_accuracies(self) -> np.ndarray:
        return np.array([result.balanced_accuracy for result in self.results])

    @property
    def accuracy(self) -> float:
        return float(self.accuracies.mean())

    @property
    def balanced_accuracy(self) -> float:
        return float(self.balanced_accuracies.mean())

    @property
    def n_labels(self) -> int:
        return self.results[0].n_labels

    @property
    def n_test(self) -> int:
        return self.results[0].n_test

    @property
    def notes(self) -> list[str]:
        """Remarks of all repeats, each once."""
        return list(dict.fromkeys(note for result in self.results for note in result.notes))

    def __str__(self) -> str:
        return (
            f"{self.probe} probe: accuracy {mean_and_deviation(self.accuracies)}, balanced accuracy "
            f"{mean_and_deviation(self.balanced_accuracies)} ({len(self.results)} repeats, {self.n_labels:,} labels, "
            f"{self.n_test:,} test rows)"
        )


def mean_and_deviation(values: np.ndarray) -> str:
    """Percent, with the sample deviation where there is more than one value.

    >>> mean_and_deviation(np.array([0.5, 0.7]))
    '60.0 ± 14.1 %'
    """
    deviation = f" ± {100 * values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{100 * values.mean():.1f}{deviation} %"


@dataclass(frozen=True)
class Protocol:
    """Which rows are labelled and which are tested, in every repeat.

    Attributes
    ----------
    labels : Labels of all n rows.
    draws : (labelled, test) row indices of every repeat.
    seeds : the seeds of the probes' own splits.
    """

    labels: Labels
    draws: list[tuple[np.ndarray, np.ndarray]]
    seeds: list[int]

    @property
    def rows(self) -> np.ndarray:
        """All rows that some repeat needs, sorted. The others need not be transformed."""
        return np.unique(np.concatenate([part for draw in self.draws for part in draw]))

    def run(
        self, Z: Any, probe: str = "linear", progress: Callable[[int], None] | None = None, **options: Any
    ) -> ProtocolResult:
        """Probe a representation given for `self.rows`, in that order."""
        if probe not in PROBES:
            raise ValueError(f"probe={probe!r}: expected {' or '.join(map(repr, PROBES))}.")
        Z, rows = check_matrix(Z), self.rows
        if len(Z) != len(rows):
            raise ValueError(f"Z has {len(Z):,} rows; the {len(rows):,} of protocol.rows are needed.")
        codes = self.labels.codes
        start, results = time.perf_counter(), []
        for (labelled, test), seed in zip(self.draws, self.seeds):
            here, there = np.searchsorted(rows, labelled), np.searchsorted(rows, test)
            y_train, y_test = self.labels.classes[codes[labelled]], self.labels.classes[codes[test]]
            results.append(PROBES[probe](Z[here], y_train, Z[there], y_test, random_state=seed, **options))
            if progress is not None:
                progress(len(results))
        return ProtocolResult(results, probe, time.perf_counter() - start)

    def most_frequent(self) -> ProtocolResult:
        """The results of always predicting the most frequent class of the labelled rows."""
        results = []
        for labelled, test in self.draws:
            counts = np.bincount(self.labels.codes[labelled], minlength=len(self.labels.classes))
            truth = self.labels.codes[test]
            results.append(
                ProbeResult(
                    **probe_scores(np.full(len(test), counts.argmax()), truth, self.labels.classes),
                    validation_accuracy=float("nan"),
                    classes=self.labels.classes,
                    classifier=None,
                    n_labels=len(labelled),
                    n_test=len(test),
                )
            )
        return ProtocolResult(results, "most frequent class", 0.0)


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
) -> Protocol:
    """Draw the rows of every repeat; see `probe_protocol` for the parameters. Errors call the labels `name`."""
    if label_fraction is not None and not is_number(label_fraction, above=0, most=1):
        raise ValueError(f"label_fraction={label_fraction!r}: expected a share between 0 and 1.")
    check_count("n_repeats", n_repeats)
    if (train is None) != (test is None):
        raise ValueError("Give both train= and test= rows, or neither.")
    labels = encode_labels(y, name)
    check_classes(labels.codes, labels.classes, name)
    generator = generator_of(random_state)
    given: tuple[np.ndarray, np.ndarray] | None = None
    if train is not None:
        given = _given_rows(train, test, labels)
    else:
        check_share("test_fraction", test_fraction)
    draws = []
    for _ in range(n_repeats):
        rows, held = given or _random_test(labels, test_fraction, generator)
        if label_fraction is not None and label_fraction < 1:
            rows = rows[draw_stratified(labels.codes[rows], label_fraction, generator)[0]]
        draws.append((rows, held))
    return Protocol(labels, draws, generator.integers(2**31, size=n_repeats).tolist())


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
    probe : "linear" or "knn"; `options` are passed on to it.
    random_state : seed of all draws.

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
    plan = plan_protocol(
        y,
        train,
        test,
        label_fraction=label_fraction,
        n_repeats=n_repeats,
        test_fraction=test_fraction,
        random_state=random_state,
    )
    return plan.run(Z[plan.rows], probe, **options)


def _given_rows(train: ArrayLike, test: ArrayLike | None, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """The given training and test rows that have a label."""
    n_rows = len(labels.codes)
    fitted, held = chosen_rows(train, n_rows, "train"), chosen_rows(test, n_rows, "test")
    fitted, held = _labelled(fitted, labels, "train"), _labelled(held, labels, "test")
    if np.isin(held, fitted).any():
        raise ValueError(f"{np.isin(held, fitted).sum():,} rows are in both train= and test=.")
    check_classes(labels.codes[fitted], labels.classes, "The training rows' labels")
    return fitted, held


def _labelled(rows: np.ndarray, labels: Labels, name: str) -> np.ndarray:
    kept = rows[labels.codes[rows] != MISSING]
    if len(kept) == 0:
        raise ValueError(f"None of the {len(rows):,} {name} rows has a label.")
    return kept


def _random_test(
    labels: Labels, fraction: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows; a class with a single row is for training."""
    present = labels.present
    train, test = validation_split(labels.codes[present], fraction, generator)
    if len(test) == 0:
        raise ValueError("Every class has a single label: none is left to test on.")
    return present[train], present[test]
