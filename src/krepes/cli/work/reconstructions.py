"""What `krepes reconstruct` writes: rows in the form of the data, and the errors of each.

error               the distance between the row and its reconstruction, relative to the spread of the data
expected_error      what the inverse expects it to be, from the representation alone
trusted             whether that can be trusted

Autoencoders have no estimate of their errors: of them only the error is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from krepes.autoencoder import KernelAutoencoder
from krepes.base.reporting import Bars
from krepes.embedding import KernelEmbedding
from krepes.preimages import ErrorEstimate
from krepes.results import TABLES
from krepes.sources import Source

FIGURES = {"error": pa.float64(), "expected_error": pa.float64(), "trusted": pa.bool_()}


class Reconstructions:
    """Reconstructions of the rows of a source, and the errors of those that have been read so far."""

    def __init__(self, model: KernelEmbedding | KernelAutoencoder, source: Source, output: Path):
        self.model, self.source = model, source
        self.errors: list[dict[str, np.ndarray]] = []
        self.columns = {name: FIGURES[name] for name in (["error"] if self.of_autoencoder else FIGURES)}
        self.as_table = output.suffix.lower() in TABLES
        space = model.input_space_
        named = space.encoder is not None and space.encoder.named_
        if space.kind == "images" and self.as_table:
            raise ValueError(f"output={output}: images go into .npz or .npy files, with their shape.")
        if named and not self.as_table:
            raise ValueError(f"output={output}: the columns of a table go into .parquet or .csv files.")
        self.shape = space.shape if space.encoder is None else (space.encoder.n_features_in_,)

    @property
    def of_autoencoder(self) -> bool:
        return isinstance(self.model, KernelAutoencoder)

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of a table; None where arrays are written."""
        if not self.as_table:
            return None
        encoder = self.model.input_space_.encoder
        if encoder is not None and encoder.named_:
            columns = {column.name: column.decoded_type for column in encoder.columns_}
        else:
            names = getattr(self.model, "feature_names_in_", [f"x{j}" for j in range(self.shape[0])])
            columns = dict.fromkeys(map(str, names), pa.from_numpy_dtype(self.dtype))
        twice = sorted(set(columns) & set(self.columns))
        if twice:
            raise ValueError(f"The data have a column {twice[0]!r}, as the result has: rename that column.")
        return pa.schema(columns | self.columns)

    @property
    def dtype(self) -> np.dtype:
        return self.model.reconstruct_dtype

    def batches(self, batch_rows: int) -> Iterator[np.ndarray | pa.Table]:
        """Rows in parts; their errors are kept, or stand beside them in a table."""
        schema = self.schema
        with Bars().stage("Reconstructing", self.source.n_rows) as stage:
            for rows, error in self.model.iter_reconstruct(self.source, batch_rows):
                figures = _figures(error)
                self.errors.append(figures)
                stage.advance(len(figures["error"]))
                if schema is None:
                    yield rows
                    continue
                columns = rows.columns if isinstance(rows, pa.Table) else list(rows.T.copy())
                yield pa.Table.from_arrays(
                    [*map(pa.array, columns), *map(pa.array, figures.values())], schema=schema
                )

    def figures(self) -> dict[str, np.ndarray]:
        """The errors of all rows read so far, by name."""
        return {name: np.concatenate([part[name] for part in self.errors]) for name in self.columns}


def _figures(error: ErrorEstimate | np.ndarray) -> dict[str, np.ndarray]:
    if isinstance(error, np.ndarray):
        return {"error": error}
    assert error.actual is not None
    return {"error": error.actual, "expected_error": error.expected, "trusted": error.trusted}
