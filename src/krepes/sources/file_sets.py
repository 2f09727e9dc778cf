"""Files that together are one data set: the files of a folder, or files whose names fit a pattern.

Parquet, CSV and .npy files are taken in the order of their paths. Files without rows are left out. A file whose columns
or shape differ from the first file's is an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from krepes.sources.arrays.numpy_files import npy_header, open_npy
from krepes.sources.rows_in_sequence import Named, in_sequence
from krepes.sources.source import Source
from krepes.sources.tables.csv_files import open_csv
from krepes.sources.tables.parquet_files import open_parquet

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
NPY = (".npy",)
_SHORT_BYTES = 1 << 16  # of a CSV file that may have no rows


def open_pattern(pattern: Path, progress: Callable[[int], None] | None) -> Source:
    """All files whose names fit a pattern such as part-*.parquet, in the order of their names."""
    files = [file for file in sorted(pattern.parent.glob(pattern.name)) if file.is_file()]
    if not files:
        raise FileNotFoundError(f"There is no file {pattern}.")
    found = open_set(files, str(pattern), None, progress)
    if found is None:
        raise ValueError(f"{pattern}: expected .parquet, .csv, .tsv or .npy files; found {files[0].name}.")
    return found


def open_set(
    files: Sequence[Path], title: str, root: Path | None, progress: Callable[[int], None] | None
) -> Source | None:
    """Files of one format that together are one data set; None where they are not of a format that can be."""
    found = {kind: [f for f in files if f.name.lower().endswith(kind)] for kind in (PARQUET, CSV, NPY)}
    counts = [f"{len(some):,} {kind[0]}" for kind, some in found.items() if some]
    if len(counts) > 1 and sum(map(len, found.values())) == len(files):
        formats = ", ".join(counts)
        raise ValueError(f"{title} has files of several formats ({formats}). Give one folder for each.")
    if len(found[PARQUET]) == len(files):
        return open_parquet(files, root)
    if found[CSV]:
        tables = [
            Named(str(file), open_csv(file, progress)) for file in found[CSV] if not _without_rows(file)
        ]
        return in_sequence(tables, f"CSV, {len(tables):,} files")
    if found[NPY]:
        full = [file for file in found[NPY] if npy_header(file).shape[:1] != (0,)]
        return in_sequence([Named(str(file), open_npy(file)) for file in full], f"npy, {len(full):,} files")
    return None


def _without_rows(file: Path) -> bool:
    """Whether a CSV file has at most a line of names."""
    if file.stat().st_size > _SHORT_BYTES or file.suffix == ".gz":
        return False
    return len(file.read_bytes().strip().splitlines()) < 2
