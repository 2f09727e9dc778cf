"""The input space of a model: how a raw batch becomes the rows that kernels see.

    vectors     used as given, (b, d); minus a shift in float64 where single precision would lose their spread
    sparse      used as given, sparse rows of d columns; dense rows of that width are made sparse
    images      used as given, (b, h, w[, c]); integer pixels are divided by 255
    table       encoded by a TableEncoder, (b, d)
    series      standardised by channel, (b, t, c); a list of (t_i, c) where lengths differ
    precomputed rows of a kernel matrix, (b, 1 + n), each after its number
    objects     used as given, a list; of a table, records of its encoded columns and of columns as they are

Decided once, from the first source; later batches must fit, and NaN or infinite values are refused with the
names of their columns.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from krepes.base.components import Component
from krepes.base.rows import RowLayout, SparseRows, slice_rows
from krepes.base.series import as_series
from krepes.base.validation import REMEDIES, as_array, writable
from krepes.preprocessing.channels import Normalize, check_series, check_series_source, series_points
from krepes.preprocessing.table_encoder import TableEncoder
from krepes.preprocessing.table_records import table_records
from krepes.sources import Rows, Source, TableSource, open_objects, open_source
from krepes.sources.arrays.kernel_matrices import new_rows


@dataclass(eq=False, repr=False)
class InputSpace(Component):
    """Turns raw batches into tensors of the model's dtype on the model's device.

    Parameters
    ----------
    kind : "vectors", "sparse", "images", "table", "series", "precomputed" or "objects"
    shape : tuple of int
        The shape of one row before encoding; empty for tables and objects, (c,) for series of different lengths.
    divide : float
        Pixels are divided by it.
    encoder : TableEncoder or None
    normalize : Normalize or None
        Fitted.

    Attributes
    ----------
    shift_ : Tensor of shape (d,), float64, or None
        Subtracted from vectors before they are rounded to the model's dtype. None, the usual case: nothing is.
    raw_, names_ : list of str
        Columns of a table that kernels compare as they are, and all columns of it. Rows are then records: encoded
        numbers, then these values.

    Examples
    --------
    >>> import numpy as np
    >>> InputSpace("vectors", (2,)).tensor(np.array([[1, 2]]), torch.float32)
    tensor([[1., 2.]])
    """

    # set on an object, and stored in its file, only if needed

    kind: str = "vectors"
    shape: tuple[int, ...] = ()
    divide: float = 1.0
    encoder: TableEncoder | None = None
    normalize: Normalize | None = None

    shift_: Tensor | None = field(init=False, default=None)
    raw_: Sequence[str] = field(init=False, default=())
    names_: Sequence[str] = field(init=False, default=())

    @classmethod
    def of(cls, source: Source, sample: Rows) -> InputSpace:
        """The space that the rows of a source live in as they are; `sample` is a raw batch of them."""
        if isinstance(sample, list | pa.Table):
            return cls("objects")
        if isinstance(sample, SparseRows):
            return cls("sparse", sample.shape[1:])
        fractions = sample.is_floating_point() if isinstance(sample, Tensor) else sample.dtype.kind == "f"
        divide = 255.0 if source.kind == "images" and not fractions else 1.0
        return cls(source.kind, tuple(sample.shape[1:]), divide)

    @classmethod
    def of_series(cls, sample: Rows) -> InputSpace:
        """Rows that are series, standardised by channel; `sample` is a raw batch of them."""
        found = as_series(sample)
        length = () if isinstance(sample, list) else (sample.shape[1],)  # an array has one length
        normalize = Normalize().fitted(series_points(found))
        return cls("series", (*length, found[0].shape[1]), normalize=normalize)

    @classmethod
    def of_records(cls, encoder: TableEncoder | None, raw: list[str], names: list[str]) -> InputSpace:
        """Rows of a table of which some columns are compared as they are."""
        space = cls("objects", encoder=encoder)
        space.raw_, space.names_ = raw, names
        return space

    def check_restored(self) -> None:
        if self.shift_ is not None and (
            self.kind != "vectors" or self.shift_.shape != self.shape or self.shift_.dtype != torch.float64
        ):
            raise ValueError("InputSpace.shift_ does not fit the rows.")

    def open(self, data: Any) -> Source:
        """The source of some data as this space takes them: images at its size, only the columns that it uses."""
        if self.kind == "objects" and not self.raw_:
            return open_objects(data)
        if self.kind == "precomputed":
            return new_rows(data, self.shape[0] - 1)
        if self.kind == "series":
            source = open_source(data)
            check_series_source(source)
            return source
        folder = isinstance(data, str | os.PathLike) and Path(data).is_dir()
        size = (self.shape[0], self.shape[1]) if folder and self.kind == "images" else None
        return self.selected(open_source(data, size=size))

    def selected(self, source: Source) -> Source:
        """A source with only the columns that this space uses."""
        encoded = [] if self.encoder is None else self.encoder.used_columns_
        if isinstance(source, TableSource) and (encoded or self.raw_):
            source = source.select([*dict.fromkeys([*encoded, *self.raw_])])
            return source if self.encoder is None else source.as_text(self.encoder.written_columns_)
        return source

    @property
    def table_names(self) -> list[str]:
        """The columns of the table that rows come from."""
        return list(self.names_) if self.encoder is None else self.encoder.input_columns_

    @property
    def n_features(self) -> int | None:
        """The flattened width of a raw row; None for objects."""
        if self.raw_:
            return len(self.names_)
        if self.of_objects:
            return None
        if self.kind == "precomputed":
            return self.shape[0] - 1  # without the number of the row
        if self.encoder is None:
            return math.prod(self.shape)
        return self.encoder.n_features_in_ - (self.encoder.named_ and self.encoder.label in self.table_names)

    @property
    def of_objects(self) -> bool:
        """Whether rows are objects in a list, among them series of different lengths."""
        return self.kind == "objects" or (self.kind == "series" and len(self.shape) == 1)

    @property
    def layout(self) -> RowLayout:
        """What kernels may know of the rows."""
        if self.encoder is None:
            width = None if self.of_objects else self.n_features
            return RowLayout(
                self.kind, width, names=tuple(self.names_), raw=tuple(self.raw_), shape=tuple(self.shape)
            )
        return RowLayout(
            self.kind,
            self.encoder.n_features_out_,
            self.encoder.layout(),
            tuple(self.table_names),
            tuple(self.raw_),
            {c.name: c.detail or c.role for c in self.encoder.left_out_ if c.role != "excluded"},
        )

    @property
    def groups(self) -> list[list[int]] | None:
        """Encoded columns that belong to one column of the table."""
        return None if self.encoder is None or self.raw_ else self.encoder.groups_

    def tensor(
        self, batch: Rows, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> Tensor | SparseRows | list[Any]:
        """A raw batch as a tensor (a list for objects, sparse rows where rows are sparse), checked."""
        if self.kind == "sparse":
            return self._sparse(batch, dtype)
        if isinstance(batch, SparseRows):
            batch = self._made_dense(batch)
        if self.raw_:
            return table_records(batch, self.encoder, self.raw_)
        if self.kind == "objects":
            return list(batch)
        if self.kind == "series":
            return self._series(batch, dtype, device)
        if self.encoder is not None:
            batch = self.encoder.encode(batch)
        X = batch.detach() if isinstance(batch, Tensor) else torch.from_numpy(writable(_numbers(batch)))
        if self.encoder is None:
            self._check_shape(X)
        kinds, fractions, had_fractions = ("integers", "fractions"), X.is_floating_point(), self.divide == 1.0
        if self.kind == "images" and fractions != had_fractions:
            raise ValueError(
                f"These pixels are {kinds[fractions]}, and the model was fitted on images of {kinds[had_fractions]}. "
                "Integer pixels are divided by 255: convert them as they were for fit."
            )
        if self.shift_ is not None:
            X = X.double() - self.shift_.to(X.device)
        X = X.to(device=device, dtype=dtype)
        if self.divide != 1.0:
            X = X / self.divide
        self._check_finite(X)
        return X if self.normalize is None else self.normalize(X)

    def tensor_from(
        self,
        source: Source,
        places: np.ndarray,
        batch: Rows,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> Tensor | SparseRows | list[Any]:
        """`tensor` of the rows of a source at these places; an error names the file, where there are several."""
        try:
            return self.tensor(batch, dtype, device)
        except ValueError as error:
            if source.where(int(places[0])) is None:
                raise
            for i, row in enumerate(places.tolist()):
                try:
                    self.tensor(slice_rows(batch, i, i + 1), dtype)
                except ValueError:
                    raise ValueError(f"{source.where(row)}: {error}") from error
            raise

    def _series(self, batch: Rows, dtype: torch.dtype, device: torch.device | str) -> Tensor | list[Any]:
        found = as_series(batch)
        check_series(found, self.shape)
        lengths = [len(series) for series in found]
        if not found:
            return [] if self.of_objects else torch.empty(0, *self.shape, dtype=dtype, device=device)
        points = series_points(found)
        points = points if self.normalize is None else self.normalize(points)
        points = points[:, 0, 0].to(device=device, dtype=dtype)  # (all points, c)
        return list(points.split(lengths)) if self.of_objects else points.reshape(-1, *self.shape)

    def _sparse(self, batch: Rows, dtype: torch.dtype) -> SparseRows:
        X = batch if isinstance(batch, SparseRows) else SparseRows(_numbers(batch, matrix=True))
        self._check_shape(X)
        X = X.astype(np.float32 if dtype == torch.float32 else np.float64)
        if not np.isfinite(X.values).all():
            raise not_finite(np.isnan(X.values).any(), np.unique(X.columns[~np.isfinite(X.values)]).tolist())
        return X

    def _made_dense(self, batch: SparseRows) -> np.ndarray:
        """A sparse block for a model that was fitted on dense vectors."""
        if self.kind != "vectors":
            raise TypeError(f"This model was fitted on {self.kind}, and these rows are sparse.")
        self._check_shape(batch)
        return batch.toarray()

    def unshifted(self, X: Tensor) -> Tensor:
        """Vectors of this space with the numbers that the data have, in float64."""
        X = X.double()
        return X if self.shift_ is None else X + self.shift_.to(X.device)

    def restored(self, X: Tensor) -> np.ndarray | pa.Table:
        """Rows of this space (n, d), flattened or not, in the form of the data: the inverse of `tensor`.

        Images keep the shape and range of the given ones, as floating-point numbers; tables their columns.
        """
        if self.of_objects or self.kind == "sparse":
            rows = "Sparse rows" if self.kind == "sparse" else "Objects"
            raise ValueError(f"{rows} cannot be rebuilt from numbers.")
        if self.encoder is not None:
            return self.encoder.inverse_transform(X.double().cpu().numpy())
        X = X.double().reshape(len(X), *self.shape)
        if self.normalize is not None:
            images = X[:, :, None] if self.kind == "series" else X
            X = self.normalize.inverse(images).reshape(X.shape)
        return (self.unshifted(X) * self.divide).cpu().numpy()

    def _check_shape(self, X: Tensor | SparseRows) -> None:
        if tuple(X.shape[1:]) == self.shape:
            return
        if math.prod(X.shape[1:]) == math.prod(self.shape):
            rows, fitted = tuple(X.shape[1:]), self.shape
            wanted = ", ".join(map(str, self.shape))
            raise ValueError(
                f"Rows of X have shape {rows}; the model was fitted on rows of shape {fitted}: X.reshape(-1, {wanted})."
            )
        given = f"X has {math.prod(X.shape[1:])} features"
        expected = f"krepes is expecting {math.prod(self.shape)} features as input"
        flat = len(self.shape) == 1 and len(X.shape) == 2
        shapes = "" if flat else f" (rows of shape {self.shape}, not {tuple(X.shape[1:])})"
        raise ValueError(f"{given}, but {expected}{shapes}.")

    def _check_finite(self, X: Tensor) -> None:
        if torch.isfinite(X.sum()) or torch.isfinite(X).all():  # one pass over memory in the usual case
            return
        flat = X.reshape(len(X), -1)
        bad = (~torch.isfinite(flat)).any(0).nonzero()[:, 0].tolist()
        raise not_finite(bool(torch.isnan(flat).any()), bad)


def not_finite(nan: bool, columns: list[int]) -> ValueError:
    """The error for NaN or infinite values in these columns."""
    names = ", ".join(map(str, columns[:8])) + (", ..." if len(columns) > 8 else "")
    return ValueError(
        f"Input X contains {'NaN' if nan else 'infinity'} in columns {names}. Impute or drop these values first, or "
        "fit on a DataFrame (missing values are then imputed by krepes.TableEncoder)."
    )


def _numbers(batch: Rows, matrix: bool = False) -> np.ndarray:
    array = as_array(batch, "The data")
    kind = array.dtype.kind
    if kind not in "biuf":
        raise TypeError(
            f"The rows hold {array.dtype}, but this model was fitted on numbers. {REMEDIES.get(kind, '')}"
        )
    if matrix and array.ndim != 2:
        raise ValueError(f"This model was fitted on sparse rows; got an array of shape {array.shape}.")
    return array
