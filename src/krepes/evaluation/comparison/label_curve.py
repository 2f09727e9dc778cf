"""Accuracy against the number of labels: the same draws for everything that is compared.

For every repeat of a protocol, `count` of its labels are drawn, from every class in proportion to its size; what is
compared learns from these alone, and is tested on the same rows for every count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from krepes.base.display import text_table
from krepes.base.validation import check_same_rows, is_integer
from krepes.evaluation.probe_inputs import check_matrix
from krepes.evaluation.protocol import Protocol, plan_protocol
from krepes.evaluation.protocol_result import ProtocolResult
from krepes.preprocessing.targets import guess_task

COUNTS = (50, 100, 300, 1000)

Runner = Callable[[Protocol], Mapping[str, ProtocolResult]]  # results by name, of one protocol


@dataclass(frozen=True)
class LabelCurve:
    """Results by the number of labels.

    Attributes
    ----------
    counts : numbers of labels, in order.
    results : {name: a ProtocolResult for every count}.
    notes : remarks, such as counts that were left out.
    """

    counts: list[int]
    results: dict[str, list[ProtocolResult]]
    notes: list[str] = field(default_factory=list)

    def at(self, count: int) -> dict[str, ProtocolResult]:
        """The results with one number of labels, by name."""
        place = self.counts.index(count)
        return {name: found[place] for name, found in self.results.items()}

    def __str__(self) -> str:
        head = ["", *(f"{count:,}" for count in self.counts)]
        rows = [[name, *(result.words() for result in found)] for name, found in self.results.items()]
        return text_table([head, *rows])


def label_curve(
    representations: Mapping[str, Any],
    y: Any,
    train: ArrayLike | None = None,
    test: ArrayLike | None = None,
    *,
    counts: Sequence[int] = COUNTS,
    n_repeats: int = 5,
    probe: str | None = None,
    test_fraction: float = 0.2,
    random_state: int | None = 0,
    scoring: str | None = None,
    **options: Any,
) -> LabelCurve:
    """How well a probe does on several representations, with few labels and with more.

    Parameters
    ----------
    representations : {name: array of shape (n, h)}, of the same n rows.
    y, train, test, n_repeats, test_fraction, random_state, scoring : as in `probe_protocol`.
    counts : numbers of labels. Those above the number of training labels are left out; a note says so.
    probe : as in `probe_protocol`; by default "linear", and "ridge" where y looks like a quantity.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> curve = label_curve({"pixels": X, "half of them": X[:, :32]}, y, counts=[50, 200], n_repeats=2, C_grid=[0.1])
    >>> curve.counts, curve.results["pixels"][1].accuracy > curve.results["pixels"][0].accuracy
    ([50, 200], True)
    """
    features = {name: check_matrix(Z, name) for name, Z in representations.items()}
    if not features:
        raise ValueError("representations is empty: give at least one, {name: array}.")
    task = guess_task(y).name if probe is None else "regression" if probe == "ridge" else "classification"
    method = probe or ("ridge" if task == "regression" else "linear")
    plan = plan_protocol(
        y,
        train,
        test,
        label_fraction=None,
        n_repeats=n_repeats,
        test_fraction=test_fraction,
        random_state=random_state,
        task=task,
    )
    for name, Z in features.items():
        check_same_rows(len(plan.labels.codes), len(Z), "y", repr(name))

    def run(smaller: Protocol) -> dict[str, ProtocolResult]:
        rows = smaller.rows
        return {
            name: smaller.run(Z[rows], method, scoring=scoring, **options) for name, Z in features.items()
        }

    return curve_of(plan, counts, run, random_state)


def curve_of(plan: Protocol, counts: Sequence[int], run: Runner, random_state: int | None = 0) -> LabelCurve:
    """The curve of anything that `run` can evaluate by a protocol."""
    usable, notes = usable_counts(counts, plan.n_labels)
    found = [run(plan.with_labels(count, random_state)) for count in usable]
    return LabelCurve(usable, {name: [part[name] for part in found] for name in found[0]}, notes)


def usable_counts(counts: Sequence[int], n_labels: int) -> tuple[list[int], list[str]]:
    """Numbers of labels that can be drawn, sorted, and a note on the others.

    >>> usable_counts([300, 50, 5000], 1000)
    ([50, 300], ['5,000 labels: left out, there are 1,000 to learn from'])
    """
    if isinstance(counts, str) or not all(is_integer(count, 2) for count in counts) or len(counts) == 0:
        raise ValueError(f"label_counts={counts!r:.80}: expected whole numbers of labels, each at least 2.")
    asked = np.unique(counts).tolist()
    usable = [count for count in asked if count <= n_labels]
    if not usable:
        raise ValueError(
            f"label_counts={asked!r}: there are {n_labels:,} labels to learn from. Give smaller numbers."
        )
    above = ", ".join(f"{count:,}" for count in asked if count > n_labels)
    return usable, [f"{above} labels: left out, there are {n_labels:,} to learn from"] if above else []
