"""CKA from sketches: a fixed number of signed sums of rows stands for all of them.

    a_b = sum_i s_b(i) (x_i - mean),   b = 1 .. M,   signs s_b(i) = +-1 that belong to row i   [charikar; tang, Alg. 1]

CountSketch adds every row, with a random sign, to one of M buckets, at the cost of one addition per number; the
stacked form (sparse Johnson-Lindenstrauss) does so in `n_hashes` tables of M / n_hashes buckets. The Hadamard
transform of a table gives the sums a_b above, whose signs are pairwise independent. Hence for b != c the products
(a_b.a_c)(a'_b.a'_c) of two representations have mean |X^T Y|_F^2 exactly, and only b = c adds the inflation
(|X|^2 |Y|^2 + |X^T Y|^2 - 2 sum |x_i|^2 |y_i|^2) / M of the published score: leaving the diagonal of the M x M Gram
matrix out is the whole correction, needs no further statistics, and keeps the score in [-1, 1],

    HSIC ~ <offdiag(A A^T), offdiag(A' A'^T)> / (M (M - 1)),     CKA ~ its cosine.

Differs from [tang, Alg. 1]: one hash for all representations, keyed by the global index of the row, so that batches,
layers, models and workers agree (another hash for Y gives noise); exact centring through S H X = S X - (S 1) mean^T;
and the correction. The bound of [tang, Lemma 1] is not relative: only an additive error eps |X| |Y| holds.

Rows with sign + and - are summed separately, so that the column sums come at no cost. Scores do not depend on the
scale of the rows, as far as float64 holds their sums. Cost O(n d n_hashes), memory 16 M d bytes per representation,
whatever n is. Approximates the biased CKA: use it for n far above the width.

What is stored are plain sums of the rows, so that parts add up. Their products of products, fourth powers of the data,
would overflow at 1e77 and vanish at 1e-81: so the sums are first divided by a power of two, which does not round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse

from krepes.alignment.inputs import feature_matrix, feature_reader, row_indices
from krepes.alignment.similarity.cka import check_enough_rows
from krepes.base.accumulator import SumOfValues
from krepes.base.blocks import Block
from krepes.base.random_streams import uniform
from krepes.base.storage.codec import Count, Shape
from krepes.base.storage.packing import digest
from krepes.base.validation import as_flat_matrix, check_finite, check_same_rows
from krepes.engines import Engine, as_engine

CONSTANT = 1e-12  # of the sums of a column: what rounding leaves of it once the mean is subtracted
BLOCK_ROWS = 16_384


@dataclass(frozen=True, eq=False)
class SignedSums:
    """The signed sums of one representation.

    Attributes
    ----------
    table : ndarray of shape (2 M, d)
        Sums of rows with sign +, then with sign -.
    count : ndarray of shape (2 M,)
        The same sums of ones.
    next_row : int
        The global index that follows the last row seen.
    """

    table: Annotated[np.ndarray, Shape("M", "d")]
    count: Annotated[np.ndarray, Shape("M")]
    next_row: Count

    def __add__(self, other: SignedSums) -> SignedSums:
        if self.table.shape != other.table.shape:
            raise ValueError(f"The rows have {self.table.shape[1]} and {other.table.shape[1]} features.")
        next_row = max(self.next_row, other.next_row)
        return SignedSums(self.table + other.table, self.count + other.count, next_row)

    def scaled(self, n_hashes: int) -> tuple[np.ndarray, int]:
        """The sums a_b over 2^e, (M, d), centred exactly, and e: the largest is near 1, so that products are in range.

        Columns that are constant are zero: only rounding of their mean is left.
        """
        M = len(self.count) // 2
        largest = np.abs(self.table).max()
        if not np.isfinite(largest):
            raise ValueError(
                "The sums of rows overflow float64: divide all rows by one number, such as 1e100."
            )
        first = math.frexp(largest)[1]
        table = np.ldexp(self.table, -first)
        mean = table.sum(axis=0) / self.count.sum()
        A = table[:M] - table[M:] - np.outer(self.count[:M] - self.count[M:], mean)
        A[:, np.abs(A).max(axis=0) <= CONSTANT * np.abs(table).max(axis=0)] = 0.0
        size = M // n_hashes
        H = scipy.linalg.hadamard(size)
        A = np.concatenate([H @ A[start : start + size] for start in range(0, M, size)])
        second = math.frexp(np.abs(A).max())[1]
        return np.ldexp(A, -second), first + second

    def unit_gram(self, n_hashes: int, debias: bool) -> tuple[np.ndarray, int]:
        """The M x M Gram matrix of the sums over sqrt(M (M - 1)), without its diagonal if debiased, over 2^e; and e."""
        A, exponent = self.scaled(n_hashes)
        G, M = A @ A.T, len(A)
        if not debias:
            return G / M, 2 * exponent
        np.fill_diagonal(G, 0.0)
        return G / np.sqrt(M * (M - 1)), 2 * exponent


@dataclass(frozen=True, eq=False)
class Sketches:
    """Sketches by the name of the representation. When two are added, a name that only one of them has is kept."""

    sketches: dict[str, SignedSums]
    n_hashes: int = 1

    @property
    def n(self) -> float:
        """Rows seen of the representation that has seen most."""
        return max((sketch.count.sum() / self.n_hashes for sketch in self.sketches.values()), default=0.0)

    def __add__(self, other: Sketches) -> Sketches:
        found = dict(self.sketches)
        for name, sketch in other.sketches.items():
            found[name] = found[name] + sketch if name in found else sketch
        return Sketches(found, self.n_hashes)


class SketchedCKA(SumOfValues[Sketches]):
    """Alignment of any number of representations that arrive in batches, together or one after the other.

    Parameters
    ----------
    n_buckets : int, default=256
        M, a power of two. The score's error falls as 1 / sqrt(M).
    n_hashes : int, default=1
        Tables that share the buckets, a power of two: 1 is CountSketch, 4 the thesis's stack.
    debias : bool, default=True
        False gives the published score, which is too large by about |X|^2 |Y|^2 / M.
    seed : int, default=0
        Sketches with the same seed, buckets and hashes can be compared and merged.

    Attributes
    ----------
    names : list of str
        Representations seen.
    next_row : dict of int
        For each, the global index that follows the last row seen.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(1000, 4))
    >>> sketch = SketchedCKA()
    >>> for first in range(0, 1000, 250):
    ...     rows = X[first : first + 250]
    ...     sketch = sketch.update({"a": rows, "b": 3 * rows + 1, "c": rows[:, :2]})
    >>> round(sketch.score("a", "b"), 9), 0.6 < sketch.score("a", "c") < 0.8       # exactly about sqrt(1/2)
    (1.0, True)
    """

    input = "0"  # the name of the representation in blocks that an engine feeds to the sketch

    def __init__(
        self,
        n_buckets: int = 256,
        n_hashes: int = 1,
        *,
        debias: bool = True,
        seed: int = 0,
    ):
        for name, value in (("n_buckets", n_buckets), ("n_hashes", n_hashes)):
            if not isinstance(value, int) or value < 1 or value & (value - 1):
                raise ValueError(f"{name}={value!r}: expected a power of two, such as 256.")
        if n_buckets // n_hashes < 2:
            raise ValueError(
                f"n_buckets={n_buckets}: expected at least 2 for each of n_hashes={n_hashes} tables."
            )
        self.n_buckets, self.n_hashes, self.debias, self.seed = n_buckets, n_hashes, debias, seed
        super().__init__()

    @property
    def sketches(self) -> dict[str, SignedSums]:
        """What was seen, by representation."""
        return {} if self.sums is None else self.sums.sketches

    @property
    def names(self) -> list[str]:
        return list(self.sketches)

    @property
    def next_row(self) -> dict[str, int]:
        return {name: sketch.next_row for name, sketch in self.sketches.items()}

    @property
    def n_rows(self) -> dict[str, int]:
        """Rows seen of each representation."""
        return {name: round(sketch.count.sum() / self.n_hashes) for name, sketch in self.sketches.items()}

    def update(
        self, features: Mapping[str, Any], first_row: int | None = None, rows: Any = None
    ) -> SketchedCKA:
        """Add a batch of one or several representations.

        Parameters
        ----------
        features : {name: (b, ...)}
            Features of the same b samples.
        first_row : int, default=None
            The global index of the first sample; by default each representation continues where it ended. Give it
            where several workers see different parts.
        rows : integers of shape (b,), optional
            The global indices of the samples, where they are not consecutive.
        """
        if not isinstance(features, Mapping):
            raise TypeError(f"features is a {type(features).__name__}; expected {{name: features (b, d)}}.")
        matrices = {name: as_flat_matrix(X, repr(name), finite=False) for name, X in features.items()}
        if not matrices:
            return self
        n = len(next(iter(matrices.values())))
        going_on = rows is None and first_row is None
        starts = {name: self.next_row.get(name, 0) if going_on else first_row or 0 for name in matrices}
        found = Sketches({}, self.n_hashes)
        for start in sorted(set(starts.values())):
            indices = np.arange(start, start + n) if rows is None else row_indices(rows)
            some = {name: X for name, X in matrices.items() if starts[name] == start}
            found = found + self._sketched(some, indices, n)
        self.sums = self.joined(self.sums, found)
        return self

    def read(self, features: Mapping[str, Any], *, engine: Engine | str | None = None) -> SketchedCKA:
        """Add all rows of representations, where an engine says: arrays, files, folders or Dask collections.

        `features`: {name: (n, d)}, of the same n rows, which have the global indices 0 to n - 1. `engine` is as in
        `KernelEmbedding`: None is this process, "dask" or an address a cluster.
        """
        readers = {name: feature_reader(X, repr(name)) for name, X in features.items()}
        first = next(iter(readers))
        for name, reader in readers.items():
            check_same_rows(reader.n_rows, readers[first].n_rows, repr(name), repr(first))
            part = self.empty()
            part.input = name
            as_engine(engine).reduce(part, reader, name=f"Sketch of {name}")
            self.merge(part)
        return self

    def of(self, block: Block, before: Sketches | None) -> Sketches:
        """The input of a block is the representation `input`."""
        X = feature_matrix(block.inputs[0], repr(self.input), finite=False)
        return self._sketched({self.input: X}, block.rows.numpy(), len(block))

    def fingerprint(self) -> dict[str, str]:
        return {"sketch": digest([self.n_buckets, self.n_hashes, self.seed])}

    def _sketched(self, matrices: Mapping[str, np.ndarray], indices: np.ndarray, n: int) -> Sketches:
        """Sketches of n rows with these global indices."""
        for name, X in matrices.items():
            check_same_rows(len(X), n, repr(name), "the first representation")
            before = self.sketches[name].table.shape[1] if name in self.sketches else X.shape[1]
            if before != X.shape[1]:
                raise ValueError(f"{name!r} has {X.shape[1]} features, but had {before} before.")
        check_same_rows(len(indices), n, "rows", "the representations")
        sums = {name: np.zeros((2 * self.n_buckets, X.shape[1])) for name, X in matrices.items()}
        count = np.zeros(2 * self.n_buckets)
        for start in range(0, n, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, n))
            for cells in self.cells(indices[block]):
                count += np.bincount(cells, minlength=len(count))
                for name, X in matrices.items():
                    # A sparse product is one addition of a row per row, in order: close to the speed of reading.
                    signs = np.ones(len(cells), dtype=X.dtype), cells, np.arange(len(cells) + 1)
                    sums[name] += scipy.sparse.csc_array(signs, shape=(len(count), len(cells))) @ X[block]
        for name, X in matrices.items():
            if not np.isfinite(sums[name]).all():  # a check of every number would cost as much as the sketch
                check_finite(X, repr(name))
            if not np.isfinite(sums[name]).all() and X.dtype == np.float32:  # its sums overflow
                sums[name] = self._sketched({name: X.astype(np.float64)}, indices, n).sketches[name].table
            elif (X[-1] == X[0]).all() and (X[0] == X).all():  # whose sums in float32 differ by rounding
                sums[name] = np.outer(count, X[0].astype(np.float64))
        end = int(indices.max()) + 1 if len(indices) else 0
        return Sketches({name: SignedSums(total, count, end) for name, total in sums.items()}, self.n_hashes)

    def cells(self, rows: np.ndarray) -> list[np.ndarray]:
        """For every table, where each row goes: its bucket, moved by M where its sign is negative."""
        size = self.n_buckets // self.n_hashes
        found = []
        for table in range(self.n_hashes):
            draws = uniform(rows, 2, self.seed, table).numpy()
            bucket = (draws[:, 0] * np.float32(size)).astype(np.int64) + table * size
            found.append(bucket + self.n_buckets * (draws[:, 1] < 0.5))
        return found

    def merge(self, other: Self) -> Self:
        """Add what another sketch has seen: other rows of the same representations, or others; returns self."""
        for name in ("n_buckets", "n_hashes", "seed"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise ValueError(
                    f"Sketches with {name}={mine} and {name}={theirs} cannot be merged or compared."
                )
        return super().merge(other)

    def sketch(self, name: str) -> SignedSums:
        """The sums of a representation."""
        if name not in self.sketches:
            raise ValueError(
                f"{name!r} was not seen yet; seen so far: {', '.join(map(repr, self.names)) or 'none'}."
            )
        return self.sketches[name]

    def unit_grams(self, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """The M x M Gram matrices of representations over 2^e, one per row, (len(names), M^2), and e of each."""
        self._check_rows(names)
        found = [self.sketch(name).unit_gram(self.n_hashes, self.debias) for name in names]
        return np.stack([G.ravel() for G, _ in found]), np.array([exponent for _, exponent in found])

    def score(self, first: str, second: str) -> float:
        """CKA of two representations of any scale. Raises an error if all rows of one of them are the same."""
        values = self.table([first, second])[1]
        for name, own in zip((first, second), values.diagonal()):
            if np.isnan(own):
                raise ValueError(f"All rows of {name!r} are the same, or in one bucket: it has no alignment.")
        return float(values[0, 1])

    def table(self, names: list[str] | None = None) -> tuple[list[str], np.ndarray]:
        """Names, by default all, and the CKA of each with each; NaN for representations that are constant."""
        names = self.names if names is None else list(names)
        grams, _ = self.unit_grams(names)
        lengths = np.linalg.norm(grams, axis=1, keepdims=True)
        grams = np.divide(grams, lengths, out=np.full_like(grams, np.nan), where=lengths > 0)
        return names, np.clip(grams @ grams.T, -1.0, 1.0)

    def _check_rows(self, names: list[str]) -> None:
        """Representations can be compared if they have seen the same rows: then their buckets have the same counts."""
        if not names:
            raise ValueError("No representation was named, or seen: call update({name: features}) first.")
        first = names[0]
        for name in names:
            if not np.array_equal(self.sketch(name).count, self.sketch(first).count):
                raise ValueError(
                    f"{first!r} and {name!r} have not seen the same rows: give both the same global row indices."
                )
        check_enough_rows(self.n_rows[first])
