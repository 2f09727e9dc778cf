"""Statistics from one pass over a model's features, from which all transferability scores are computed.

- Up to `max_width` features: second moments and sums by class (O(d^2) memory). CKA is exact and unbiased, LogME and
  H-score come from the same numbers, and the null distribution is known without permutations.
- Wider features, and all with `method="sketch"`: a sketch of M signed sums (O(M d) memory), which gives only CKA,
  and its value for permuted labels.
- Some rows as they are, for the accuracy on rows left out (`krepes.alignment.transfer.left_out`).

A sketch estimates |X^T Y|_F^2, whose average over permutations is tr K tr L / (n - 1), not zero; this is subtracted
from all three products, so that narrow and wide models, exact and sketched, are on one scale:

    CKA ~ (P_xy - t_x t_y / (n - 1)) / sqrt((P_xx - t_x^2 / (n - 1)) (P_yy - t_y^2 / (n - 1))),    t = trace.

Differs from [tang, Alg. 1], which sketches without correction. The ratio itself is biased by O(1 / M); compared with
its deviation, which is also about 1 / M for unrelated features and more for related ones, this does not change a
ranking.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch

from krepes.alignment.inputs import feature_matrix, row_indices
from krepes.alignment.similarity.augmented_grams import AugmentedGrams, unit_of, varies
from krepes.alignment.similarity.hsic import unbiased_value
from krepes.alignment.similarity.sketched_cka import Sketches
from krepes.alignment.transfer.h_score import h_score_of
from krepes.alignment.transfer.left_out import KeptFeatures, LeftOutRows, left_out_rows
from krepes.alignment.transfer.logme import logme_of_moments
from krepes.alignment.transfer.target_and_chance import TransferTarget
from krepes.base.accumulator import SumOfValues
from krepes.base.blocks import Block
from krepes.base.storage.packing import digest
from krepes.base.validation import as_flat_matrix, check_choice, check_same_rows

METHODS = ("auto", "exact", "sketch")
SCORES = ("leave_one_out", "log_cka", "logme", "h_score", "h_score_regularized", "h_score_published")
DEFAULT_SCORES = SCORES[:4]
WITHOUT_MOMENTS = SCORES[:2]  # what a sketch gives, too
OF_MOMENTS = SCORES[2:]
NAN = float("nan")
UNKNOWN = (NAN, NAN, NAN, NAN)  # CKA, its mean and deviation by chance, and the p-value
CONSTANT = (0.0, 0.0, 0.0, 1.0)  # of features that are the same in all rows: nothing follows from them
SHRINK: dict[str, bool | str] = {"h_score": True, "h_score_regularized": "total", "h_score_published": False}


@dataclass(frozen=True)
class TransferScores:
    """How well a model's features suit labels; every score is larger for better features.

    Attributes
    ----------
    cka : CKA with the one-hot labels; 0 for features that are constant, as their H-scores are.
    null_mean, null_sd : of CKA with permuted labels.
    p_value : of "features and labels are unrelated".
    logme, h_score, h_score_regularized, h_score_published : NaN where they were not asked for, or CKA was sketched.
    method : "exact" or "sketch", how CKA was found.
    n_rows, width : int
    leep : NaN where no probabilities were given.
    left_out : which rows are predicted right when left out; None where it was not asked for.
    """

    cka: float
    null_mean: float
    null_sd: float
    p_value: float
    logme: float
    h_score: float
    h_score_regularized: float
    h_score_published: float
    method: str
    n_rows: int
    width: int
    leep: float = NAN
    left_out: LeftOutRows | None = field(default=None, compare=False, repr=False)

    @property
    def leave_one_out(self) -> float:
        """Accuracy of ridge regression on rows left out."""
        return NAN if self.left_out is None else self.left_out.accuracy

    @property
    def leave_one_out_error(self) -> float:
        """Its standard error."""
        return NAN if self.left_out is None else self.left_out.error

    @property
    def log_cka(self) -> float:
        """log CKA, [tang, Sec. 2.4.3]; -inf where the estimate is not above zero."""
        if not self.cka > 0:
            return float("nan") if np.isnan(self.cka) else float("-inf")
        return float(np.log(self.cka))

    @property
    def z(self) -> float:
        """Deviations of CKA above what chance gives."""
        return 0.0 if self.null_sd == 0 else (self.cka - self.null_mean) / self.null_sd


@dataclass(frozen=True, eq=False)
class TransferSums:
    """What is kept of the features of n rows.

    Attributes
    ----------
    features : AugmentedGrams, or Sketches of the one representation "x"
        Second moments and sums by class if CKA is exact.
    row_sums : pair of int
        Sums of the row indices and of their squares, modulo 2^64, which tell which rows were seen.
    squares : float
        sum |x|^2 with x divided by `unit`; kept together with a sketch.
    unit : float
        A power of two near the largest number, because squares of 1e200 overflow.
    kept : KeptFeatures or None
        The rows that are left out one by one.
    """

    features: AugmentedGrams | Sketches
    row_sums: tuple[int, int]
    squares: float = 0.0
    unit: float = 1.0
    kept: KeptFeatures | None = None

    @property
    def n(self) -> float:
        return self.features.n

    @property
    def width(self) -> int:
        """Features of a row."""
        seen = self.features
        return seen.widths[0] if isinstance(seen, AugmentedGrams) else seen.sketches["x"].table.shape[1]

    def check_width(self, width: int) -> None:
        """Refuse rows of another width."""
        if width != self.width:
            raise ValueError(f"The batch has {width:,} features; earlier ones had {self.width:,}.")

    def __add__(self, other: TransferSums) -> TransferSums:
        self.check_width(other.width)
        first, second = ((a + b) % 2**64 for a, b in zip(self.row_sums, other.row_sums))
        unit = max(self.unit, other.unit)
        squares = sum(part.squares * (part.unit / unit) ** 2 for part in (self, other))
        kept = None if self.kept is None or other.kept is None else self.kept + other.kept
        # Parts of one width are both sketched, or neither is.
        features = self.features + other.features  # type: ignore[operator]
        return TransferSums(features, (first, second), squares, unit, kept)


class TransferStatistics(SumOfValues[TransferSums]):
    """Statistics of one model's features, which arrive in batches, for labels that are known.

    Parameters
    ----------
    y : labels of shape (n,), or TransferTarget
        A target that several models share has its permutations sketched once.
    scores : names or None, default=None
        What to prepare for: "leave_one_out", "log_cka", "logme", "h_score" (shrunk within classes),
        "h_score_regularized" [ibrahim], "h_score_published" [bao]. None is the first four, or the first two with
        `method="sketch"`.
    method : "auto", "exact" or "sketch", default="auto"
        How CKA is found. auto is exact up to `max_width` features, or up to 2 M if no score needs second moments,
        where it takes no more memory than a sketch. A sketch gives CKA only.
    n_buckets, n_permutations, seed : as in `TransferTarget`, unless y is one
    max_width : int, default=2048
        Features above which no d x d matrix is kept.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(600) % 3
    >>> X = np.eye(3)[y] + rng.normal(size=(600, 3))
    >>> first, other = TransferStatistics(y), TransferStatistics(y)
    >>> first, other = first.update(X[:200]), other.update(X[200:], first_row=200)
    >>> scores = first.merge(other).score()
    >>> scores.p_value < 0.001, round(-scores.log_cka)
    (True, 2)
    """

    def __init__(
        self,
        y: Any,
        *,
        scores: tuple[str, ...] | None = None,
        method: str = "auto",
        n_buckets: int = 256,
        n_permutations: int = 99,
        max_width: int = 2048,
        seed: int = 0,
    ):
        self.names, self.method, self.max_width = chosen_scores(scores, method), method, max_width
        shared = isinstance(y, TransferTarget)
        self.target = y if shared else TransferTarget(y, n_buckets, n_permutations, seed)
        super().__init__()

    @property
    def n_rows(self) -> int:
        """Rows seen."""
        return 0 if self.sums is None else int(self.sums.n)

    def update(self, features: Any, first_row: int | None = None, rows: Any = None) -> TransferStatistics:
        """Add a batch of features (b, ...).

        Parameters
        ----------
        first_row : int, optional
            The index, among the labels, of the first row; batches are consecutive by default.
        rows : integers of shape (b,), optional
            The indices, where they are not consecutive.
        """
        X = as_flat_matrix(features, "The batch of features")
        first = self.n_rows if first_row is None else first_row
        indices = np.arange(first, first + len(X)) if rows is None else row_indices(rows)
        check_same_rows(len(indices), len(X), "rows", "the batch of features")
        self.add(Block(torch.from_numpy(indices), (X,)))
        return self

    def of(self, block: Block, before: TransferSums | None) -> TransferSums:
        """The input of a block are features; its rows say which labels are theirs."""
        X, indices = feature_matrix(block.inputs[0], "The batch of features"), block.rows.numpy()
        if indices.min() < 0 or indices.max() >= self.target.n_rows:
            raise ValueError(
                f"There are features for row {indices.max():,}, and labels for {self.target.n_rows:,} rows only."
            )
        if before is not None:
            before.check_width(X.shape[1])
        kept = self._kept(X, indices)
        if self._exactly(X.shape[1]):
            seen = None if before is None else before.features
            origins = seen.origins if isinstance(seen, AugmentedGrams) else None
            codes, n_classes = self.target.codes[indices], len(self.target.classes)
            moments = AugmentedGrams.by_class(X, codes, n_classes, origins)
            return TransferSums(moments, _row_sums(indices), kept=kept)
        sketch = self.target.sketch().update({"x": X}, rows=indices)
        unit = unit_of(X, np.zeros(X.shape[1]))
        scaled = X if unit == 1.0 else X.astype(np.float64) / unit
        squares = float(np.einsum("ij,ij->i", scaled, scaled).sum(dtype=np.float64))
        return TransferSums(sketch.result(), _row_sums(indices), squares, unit, kept)

    def _kept(self, X: np.ndarray, indices: np.ndarray) -> KeptFeatures | None:
        """The rows of a block that are kept, if any score needs them."""
        if "leave_one_out" not in self.names:
            return None
        some = self.target.is_kept(X.shape[1])[indices]
        return KeptFeatures(indices[some], X[some])

    def _exactly(self, width: int) -> bool:
        """Whether second moments are kept of features of this width, and not a sketch."""
        others = any(name in OF_MOMENTS for name in self.names)
        small = width <= (self.max_width if others else min(self.max_width, 2 * self.target.n_buckets))
        return self.method == "exact" or (small and self.method == "auto")

    def fingerprint(self) -> dict[str, str]:
        target = self.target
        settings = [list(self.names), self.method, self.max_width, target.n_buckets, target.seed]
        return {"settings": digest(settings), "labels": digest(target.codes)}

    def merge(self, other: Self) -> Self:
        """Add the rows that another has seen of the same model, for the same labels; returns self."""
        mine, theirs = self.fingerprint(), other.fingerprint()
        different = [name for name in mine if mine[name] != theirs[name]]
        if different:
            raise ValueError(f"Statistics with different {different[0]} cannot be merged.")
        return super().merge(other)

    def score(self) -> TransferScores:
        """All scores, once every row that has a label was seen."""
        n, seen = self.target.n_rows, self.sums
        if seen is None or self.n_rows != n:
            raise ValueError(
                f"{self.n_rows:,} rows of features were given for {n:,} labels: expected one each."
            )
        if seen.row_sums != _row_sums(np.arange(n)):
            raise ValueError("Some rows were given more than once, and others not at all.")
        cka, target, kept = CONSTANT, self.target, seen.kept
        judged = None if kept is None else left_out_rows(kept, target.codes, len(target.classes))
        found: dict[str, Any] = {"n_rows": n, "width": seen.width, "left_out": judged}
        found |= dict.fromkeys(OF_MOMENTS, NAN)
        wanted = SHRINK.keys() & set(self.names)
        moments = seen.features
        if isinstance(moments, Sketches):
            cka = self._sketched(seen, moments)
            return TransferScores(*cka, **found, method="sketch")
        grams = moments.seen_from(moments.means).grams
        gram, sums = grams["xx"], grams["cx"]
        if varies(gram.diagonal()[:-2] / n, moments.units["x"], moments.means["x"]):
            spectrum = np.linalg.eigh(gram[:-2, :-2])
            cka = self._exact(gram, sums, spectrum[0])
            found |= {name: h_score_of(gram, sums, spectrum, shrink=SHRINK[name]) for name in wanted}
        else:
            found |= dict.fromkeys(wanted, 0.0)
        if "logme" in self.names:
            found["logme"] = logme_of_moments(moments)
        return TransferScores(*cka, **found, method="exact")

    def _exact(
        self, gram: np.ndarray, sums: np.ndarray, spectrum: np.ndarray
    ) -> tuple[float, float, float, float]:
        """Unbiased CKA and its null distribution, from sums about the mean."""
        n, target = self.n_rows, self.target
        trace, squares = gram[-2, -1], np.square(spectrum).sum()
        # The columns of X are centred, so that the columns of Y need not be.
        diagonals = sums[:, -2] @ target.diagonal
        cross = unbiased_value(n, np.square(sums[:, :-2]).sum(), diagonals, trace * target.trace)
        own = unbiased_value(n, squares, gram[-2, -2], trace**2)
        if not own > 1e-13 * squares / n**2 or not target.self_hsic > 0:
            return UNKNOWN
        cka = float(min(cross / np.sqrt(own * target.self_hsic), 1.0))
        return cka, *target.exact_null(cka, spectrum)

    def _sketched(self, seen: TransferSums, sketches: Sketches) -> tuple[float, float, float, float]:
        """CKA from sketches, corrected for chance, and that of permuted labels."""
        n, target, sketch = self.n_rows, self.target, sketches.sketches["x"]
        mean = (sketch.table / seen.unit).sum(axis=0) / sketch.count.sum()
        trace = max(seen.squares - n * mean @ mean, 0.0)
        gram, exponent = sketch.unit_gram(1, debias=True)
        exponent -= 2 * round(np.log2(seen.unit))  # because the trace is in this unit
        G = np.ldexp(gram[np.triu_indices(len(gram), 1)], exponent)
        own = 2 * G @ G - trace**2 / (n - 1)
        if not trace > 1e-12 * seen.squares:
            return CONSTANT
        if not own > 0:
            return UNKNOWN
        products = 2 * target.sketches @ G - trace * target.trace / (n - 1)
        selves = 2 * np.square(target.sketches).sum(axis=1) - target.trace**2 / (n - 1)
        with np.errstate(invalid="ignore"):
            values = products / np.sqrt(own * selves)
        value, null = min(float(values[0]), 1.0), values[1:]
        p = (1 + np.sum(null >= values[0])) / (1 + len(null))
        return value, float(null.mean()), float(null.std(ddof=1)) if len(null) > 1 else NAN, float(p)


def chosen_scores(scores: Iterable[str] | None, method: str) -> tuple[str, ...]:
    """The scores to compute; refuses unknown names, and scores that a sketch does not give.

    >>> chosen_scores(None, "sketch"), chosen_scores(["logme"], "auto")
    (('leave_one_out', 'log_cka'), ('logme',))
    """
    check_choice("method", method, METHODS)
    if scores is None:
        return WITHOUT_MOMENTS if method == "sketch" else DEFAULT_SCORES
    names = tuple(scores)
    if not names or any(name not in SCORES for name in names):
        raise ValueError(f"scores={names!r}: expected some of {', '.join(map(repr, SCORES))}.")
    if method == "sketch" and not set(names) <= set(WITHOUT_MOMENTS):
        raise ValueError(
            f"scores={names!r}: with a sketch there are only 'leave_one_out' and 'log_cka'. Leave out either "
            "method='sketch' or scores."
        )
    return names


def _row_sums(indices: np.ndarray) -> tuple[int, int]:
    """Which rows were seen, in two numbers that add up over batches."""
    i = indices.astype(np.uint64)
    return int(i.sum()), int((i * i).sum())
