"""The result of `faithfulness`: what each method's landmarks do to the rows, with spread, and which method leads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from krepes.base.display import text_table

DELETION = "subtracted"  # the curve that methods are compared by
IGNORES = 0.9  # overlap of the landmarks named for learned and for random weights above which a method sees no weights
TIED = 2.0  # standard errors of a paired difference
YARDSTICKS = ("kernel", "random")
HEADINGS = {"overlap": "random weights", "alone": "they alone"}


@dataclass(frozen=True)
class Mean:
    """A mean over rows or draws, and its standard error.

    >>> print(Mean.of(np.array([0.0, 1.0, 1.0, 0.0])))
    0.50 ± 0.29
    """

    value: float
    error: float

    @classmethod
    def of(cls, values: np.ndarray) -> Mean:
        values = np.asarray(values, dtype=np.float64).ravel()
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        return cls(float(values.mean()), float(error))

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.error:.2f}"


@dataclass(frozen=True, eq=False)
class MethodCheck:
    """One method.

    Attributes
    ----------
    left : dict of ndarrays of shape (steps, n)
        What is left of the rows, by curve of `krepes.explain.faithfulness`: 1 where the class is still predicted,
        else 0; without labels, 1 / (1 + change).
    same_label : ndarray of shape (n,) or None
        1 where the first landmark has the row's label.
    overlap : ndarray of shape (draws,)
        The share of the five landmarks named that it also names for random weights.
    stability : ndarray of shape (refits, n) or None
        How close the first landmark is to that of a model with other landmarks: 1 is the closest there is, 0 chance.
    """

    left: dict[str, np.ndarray]
    same_label: np.ndarray | None
    overlap: np.ndarray
    stability: np.ndarray | None

    @property
    def remains(self) -> np.ndarray:
        """What is left after deletion, the mean over the steps, (n,)."""
        return self.left[DELETION].mean(0)

    @property
    def ignores_weights(self) -> bool:
        """Whether it names the same landmarks for random weights: then it ignores what was learned."""
        return float(self.overlap.mean()) > IGNORES


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """Methods compared on the same rows; print it for a table.

    Attributes
    ----------
    methods : dict of MethodCheck
    steps : tuple of int
        The numbers of landmarks deleted or inserted.
    accuracy : float or None
        Of predictions from the whole representation.
    n_rows, n_landmarks : int
    """

    methods: dict[str, MethodCheck]
    steps: tuple[int, ...]
    accuracy: float | None
    n_rows: int
    n_landmarks: int

    @property
    def best(self) -> str:
        """The method whose deletion leaves least, among those that do not ignore the weights; of
        methods that chance cannot tell apart, the one whose first landmark has the row's label most often."""
        seeing = [n for n, m in self.methods.items() if n not in YARDSTICKS and not m.ignores_weights]
        if not seeing:
            raise ValueError("None of these methods depends on what was learned: add one that does.")
        first = min(seeing, key=lambda name: float(self.methods[name].remains.mean()))
        tied = [name for name in seeing if not self.differs(name, first)]
        labels = {name: self.methods[name].same_label for name in tied}
        known = {name: float(same.mean()) for name, same in labels.items() if same is not None}
        return max(known, key=lambda name: known[name]) if len(known) == len(tied) else first

    def difference(self, name: str, other: str) -> Mean:
        """What the deletion of one method leaves, less that of the other, on the same rows."""
        return Mean.of(self.methods[name].remains - self.methods[other].remains)

    def differs(self, name: str, other: str) -> bool:
        found = self.difference(name, other)
        return abs(found.value) > TIED * found.error

    def table(self) -> list[dict[str, Any]]:
        """One dictionary per method; every number is a `Mean`."""
        return [{"method": name, **self._row(method)} for name, method in self.methods.items()]

    def _row(self, method: MethodCheck) -> dict[str, Any]:
        found: dict[str, Any] = {"deletion": Mean.of(method.remains)}
        found |= {name: Mean.of(left.mean(0)) for name, left in method.left.items() if name != DELETION}
        if method.same_label is not None:
            found["same label"] = Mean.of(method.same_label)
        if method.stability is not None:
            found["stability"] = Mean.of(method.stability.mean(0))
        return found | {"overlap": Mean.of(method.overlap), "ignores weights": method.ignores_weights}

    def __repr__(self) -> str:
        rows = self.table()
        columns = [name for name in rows[0] if name not in ("method", "ignores weights")]
        lines = [["method", *(HEADINGS.get(name, name) for name in columns)]]
        for row in rows:
            mark = "*" if row["ignores weights"] and row["method"] != "random" else ""
            lines.append([row["method"] + mark, *(str(row[name]) for name in columns)])
        return "\n".join([self.title, text_table(lines, right=False), *self.notes])

    @property
    def title(self) -> str:
        """What was measured."""
        what = "1 / (1 + relative change)" if self.accuracy is None else "accuracy"
        whole = "" if self.accuracy is None else f" ({self.accuracy:.2f} with all landmarks)"
        steps = ", ".join(map(str, self.steps))
        return (
            f"{self.n_rows} rows, {self.n_landmarks} landmarks; {what}{whole} without the first {steps} of them; mean "
            "and standard error."
        )

    @property
    def notes(self) -> list[str]:
        """Which methods ignore what was learned, and which of the others is most faithful."""
        blind = [name for name, method in self.methods.items() if method.ignores_weights and name != "random"]
        notes = [f"* names the same landmarks for random weights: {', '.join(blind)}."] if blind else []
        best = self.best
        compared = "kernel" in self.methods
        against = f"; against the kernel value {self.difference(best, 'kernel')}" if compared else ""
        return [*notes, f"Most faithful: {best}{against}."]
