"""Invertible: a representation whose rows can be decoded again.

    reconstruct(x) = inverse_transform(transform(x))

The inverse is learned when it is first needed, from the landmarks: real rows, whose representations are known. No pass
over the data is needed, and a file keeps nothing more. `fit_inverse` learns it from rows of the data instead, which is
more exact where landmarks are few for what they have to teach; then the file keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar, overload

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from krepes.base.accumulator import Value
from krepes.base.blocks import row_blocks
from krepes.base.reporting import warn
from krepes.base.rows import REDUCE, concat_rows, dense, take_rows
from krepes.base.storage.codec import CPU, State, decode, encode
from krepes.base.validation import as_matrix, check_count
from krepes.features.task import LinearMap
from krepes.one_pass import OnePassEstimator
from krepes.preimages.inverse import LEAST_ROWS, ErrorEstimate, LearnedInverse

MOST_ROWS = 5000  # that an inverse is learned from
MOST_CENTRES = 1000
LOW_COVERAGE = 0.1  # below it, a row is unlike every landmark

OriginalRows: TypeAlias = "np.ndarray | pa.Table"
T = TypeVar("T", bound=Value)


class Invertible(OnePassEstimator[T, LinearMap], Generic[T]):
    """Decodes representations, and says how far to trust the rows that come out."""

    _inverse: tuple[LinearMap, LearnedInverse] | None = None  # the solution that it inverts, and the inverse
    _inverse_of_rows: bool = False  # whether it was learned by `fit_inverse`

    def fit_inverse(self, X: Any, *, max_rows: int = MOST_ROWS) -> Self:
        """Learn the inverse from rows of the data instead of landmarks: more exact, and saved with the model.

        A uniform sample of at most `max_rows` rows is read. Adding rows to the model, or merging, forgets the inverse.
        """
        check_count("max_rows", max_rows, LEAST_ROWS)
        self._check_decodes()
        self.check_input(X)
        reader = self.space_.reader(X)
        rows = np.arange(reader.n_rows)
        if len(rows) > max_rows:
            rows = np.sort(np.random.default_rng(self.seed_).choice(len(rows), max_rows, replace=False))
        sample = dense(reader.take(rows).inputs[0])
        _, centres = self._some_landmarks()
        found = LearnedInverse.learned(self._embedded(sample), _flat(sample), centres, are_centres=False)
        self._inverse, self._inverse_of_rows = (self._solved(), found), True
        return self

    @overload
    def inverse_transform(self, Z: Any, *, return_error: Literal[False] = False) -> OriginalRows: ...
    @overload
    def inverse_transform(
        self, Z: Any, *, return_error: Literal[True]
    ) -> tuple[OriginalRows, ErrorEstimate]: ...

    def inverse_transform(
        self, Z: Any, *, return_error: bool = False
    ) -> OriginalRows | tuple[OriginalRows, ErrorEstimate]:
        """Rows whose representations are Z (n, h), in the form of the data.

        Vectors and images come back as arrays of floating-point numbers, images with their shape and range, tables as a
        pyarrow Table of the columns that are used (`.to_pandas()` makes it a frame). What the representation has left
        out cannot come back: the result is about the mean of the rows that look alike to the model.

        With `return_error`, also an `ErrorEstimate`: the error to expect for every row, relative to the spread of the
        data, and whether it can be trusted. Without it, rows that cannot be trusted give a warning.
        """
        self._check_decodes()
        given = as_matrix(Z, "Z")
        inverse = self._learned_inverse()
        if given.shape[1] != inverse.width:
            raise ValueError(
                f"Z has {given.shape[1]} columns; expected the {inverse.width} components of this model."
            )
        found = inverse(torch.from_numpy(given.astype(np.float64)))
        largest = float(np.finfo(self.reconstruct_dtype).max)
        if not (found.rows.abs().max() < largest and found.upper.isfinite().all()):
            raise ValueError(
                f"Z has numbers of up to {np.abs(given).max():.3g}, too far from this model's to be decoded."
            )
        error = ErrorEstimate(*(part.numpy() for part in (found.expected, found.upper, found.trusted)))
        return self._with_error(self._original(found.rows), error, return_error)

    @overload
    def reconstruct(self, X: Any, *, return_error: Literal[False] = False) -> OriginalRows: ...
    @overload
    def reconstruct(self, X: Any, *, return_error: Literal[True]) -> tuple[OriginalRows, ErrorEstimate]: ...

    def reconstruct(
        self, X: Any, *, return_error: bool = False
    ) -> OriginalRows | tuple[OriginalRows, ErrorEstimate]:
        """What the representation has kept of every row: inverse_transform(transform(X)).

        Rows with noise come back with less of it, because they are projected on what the data have in common. With
        `return_error`, also an `ErrorEstimate`, whose `actual` is the distance from the row that was given.
        """
        self._check_decodes()
        self.check_input(X)
        parts, errors = zip(*self.iter_reconstruct(X))
        error = ErrorEstimate(*map(np.concatenate, zip(*errors)))
        return self._with_error(concat_rows(parts), error, return_error)

    def iter_reconstruct(
        self, X: Any, batch_rows: int | None = None
    ) -> Iterator[tuple[OriginalRows, ErrorEstimate]]:
        """Reconstructions and errors in batches: memory stays bounded whatever n is."""
        self._check_decodes()
        inverse = self._learned_inverse()

        def decoded(rows: Any) -> Tensor:
            found = inverse(self._embedded(rows))
            known = self.features_.coverage(rows).cpu() >= LOW_COVERAGE
            actual = (_flat(dense(rows)) - self._in_range(found.rows)).norm(dim=1) / inverse.figures.spread
            columns = (found.expected, found.upper, (found.trusted & known).double(), actual)
            return torch.cat([found.rows, torch.stack(columns, dim=1)], dim=1)

        for block in self.map_rows(decoded, X, batch_rows):
            expected, upper, trusted, actual = (column.numpy() for column in block[:, -4:].mT.contiguous())
            yield self._original(block[:, :-4]), ErrorEstimate(expected, upper, trusted > 0, actual)

    @property
    def can_decode(self) -> bool:
        """Whether rows can be rebuilt: they are not objects, and there are landmarks enough to learn from."""
        inputs = self.space_.inputs
        return not inputs.of_objects and inputs.kind != "sparse" and len(self.landmarks_) >= LEAST_ROWS

    @property
    def reconstruct_dtype(self) -> np.dtype:
        """The dtype of decoded arrays: the model's, or double where single precision would lose the data's spread."""
        wide = self.input_space_.shift_ is not None or self.space_.dtype == torch.float64
        return np.dtype(np.float64 if wide else np.float32)

    def _inverse_state(self) -> State:
        """What a file keeps: an inverse that was learned from rows."""
        if self._inverse is None or not self._inverse_of_rows or self._inverse[0] is not self._solution:
            return {}
        return {"inverse": encode(self._inverse[1])}

    def _restore_inverse(self, state: State) -> None:
        """Take the inverse of the solution from a file, where it has one."""
        if "inverse" in state:
            solution = self._solved()
            sizes = {"h": len(solution.gamma), "c": self.space_.width + 1}
            found = decode(LearnedInverse, state["inverse"], CPU, **sizes)
            self._inverse, self._inverse_of_rows = (solution, found), True

    def _check_decodes(self) -> None:
        inputs = self.space_.inputs
        if inputs.kind == "precomputed":
            raise ValueError(
                "kernel='precomputed': rows cannot be rebuilt, because the model never saw them."
            )
        if inputs.kind == "sparse":
            raise ValueError(
                f"This model was fitted on sparse rows, which it cannot rebuild. {REDUCE}, and fit the model on that."
            )
        if inputs.of_objects:
            raise ValueError(
                "Objects have no inverse, as vectors, tables and images have; `top_influence` finds examples instead."
            )

    def _learned_inverse(self) -> LearnedInverse:
        """The inverse of the present solution; learned now from the landmarks where there is none."""
        solution = self._solved()
        if self._inverse is None or self._inverse[0] is not solution:
            rows, Z = self._some_landmarks(MOST_ROWS)
            _, centres = (rows, Z) if len(Z) <= MOST_CENTRES else self._some_landmarks()
            found = LearnedInverse.learned(Z, rows, centres, are_centres=len(Z) <= MOST_CENTRES)
            self._inverse, self._inverse_of_rows = (solution, found), False
        return self._inverse[1]

    def _some_landmarks(self, most: int = MOST_CENTRES) -> tuple[Tensor, Tensor]:
        """At most this many landmarks, without further views of them, and their representations."""
        landmarks = dense(self.landmarks_)
        m = len(landmarks) // self.views_per_landmark_
        places = np.arange(m)
        if m > most:
            places = np.sort(np.random.default_rng(self.seed_).permutation(m)[:most])
        part = take_rows(landmarks, places)
        return _flat(part), self._embedded(part)

    def _embedded(self, rows: Any) -> Tensor:
        """Representations of rows in the input space, (n, h), float64."""
        found, dtype = self._solved(), self.space_.dtype
        A, gamma = found.A.to(dtype), found.gamma.to(dtype)
        block = self.features_.kernel_block
        parts = [block(rows[part]).to(dtype) @ A + gamma for part in row_blocks(len(rows), 1024)]
        return torch.cat(parts).double().cpu()

    def _in_range(self, rows: Tensor) -> Tensor:
        """Flat rows; pixels within the landmarks' range, by channel."""
        shape = self.input_space_.shape
        if self.input_space_.kind != "images":
            return rows
        landmarks = dense(self.landmarks_).double().cpu().reshape(-1, shape[2] if len(shape) == 3 else 1)
        pixels = rows.reshape(len(rows), -1, landmarks.shape[1])
        return pixels.clamp(landmarks.amin(0), landmarks.amax(0)).flatten(1)

    def _original(self, rows: Tensor) -> OriginalRows:
        found = self.input_space_.restored(self._in_range(rows))
        return found if isinstance(found, pa.Table) else found.astype(self.reconstruct_dtype, copy=False)

    def _with_error(
        self, rows: OriginalRows, error: ErrorEstimate, return_error: bool
    ) -> OriginalRows | tuple[OriginalRows, ErrorEstimate]:
        if return_error:
            return rows, error
        doubtful = int((~error.trusted).sum())
        if doubtful:
            warn(
                f"{doubtful:,} of {len(error.trusted):,} rows cannot be trusted; return_error=True says which."
            )
        return rows


def _flat(rows: Tensor) -> Tensor:
    return rows.double().flatten(1).cpu()
