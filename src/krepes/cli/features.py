"""Representations in files: arrays and tables of numbers, read in batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

BATCH_ROWS = 8192


class FeatureFile:
    """Rows of numbers in an .npy, .npz (NAME.npz:ARRAY), Parquet or CSV file; never a pickle."""

    def __init__(self, file: str, left_out: tuple[str, ...] = ()):
        from krepes.cli.data import open_data, split_array

        path, array = split_array(file, "X")
        self.name = file
        self.source = open_data(Path(path), array)
        self.n_rows: int = self.source.n_rows
        if self.source.kind == "table":
            self.source = self.source.select([c for c in self.source.column_names if c not in left_out])
            _check_numbers(self.source, file)

    def batches(self, batch_rows: int = BATCH_ROWS) -> Iterator[tuple[int, Any]]:
        """(index of the first row, rows of numbers (b, d))."""
        import numpy as np

        for first, batch in self.source.batches(batch_rows):
            if self.source.kind == "table":
                columns = [np.asarray(column.to_numpy(), dtype=np.float64) for column in batch.columns]
                yield first, np.column_stack(columns)
            else:
                yield first, np.asarray(batch).reshape(len(batch), -1)

    def matrix(self) -> Any:
        """All rows at once."""
        import numpy as np

        return np.concatenate([batch for _, batch in self.batches()])


def _check_numbers(source: Any, file: str) -> None:
    import pyarrow as pa

    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    others = [field.name for field in source.schema if not any(test(field.type) for test in numeric)]
    if others or not source.column_names:
        shown = ", ".join(map(repr, others[:10]))
        raise ValueError(
            f"{file}: every column of a representation is numbers; {shown or 'there is none'}"
            f"{' is not' if len(others) == 1 else ' are not' if others else ''}. Leave such columns out of the file."
        )


def open_aligned(files: list[str], left_out: tuple[str, ...] = ()) -> list[FeatureFile]:
    """Several representations of the same rows."""
    found = [FeatureFile(file, left_out) for file in files]
    for other in found[1:]:
        if other.n_rows != found[0].n_rows:
            raise ValueError(
                f"{other.name} has {other.n_rows:,} rows and {found[0].name} has {found[0].n_rows:,}: "
                "alignment compares representations of the same rows, in the same order."
            )
    return found
