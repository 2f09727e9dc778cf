"""Results as a folder of Parquet files, one for each part of the rows, written where they are computed.

    _krepes.json                     what is written: the model's and the data's identity, and where the rows are cut
    part-00007-1f0c5a9be2d4.parquet  the results of part 7; the name holds a hash of what they depend on
    _SUCCESS                         every part is there

A file is written under another name and moved to its place when it is whole, so that it is either there or not. A
folder that is not finished goes on: parts whose file is there are not computed again, whichever engine began. A worker
that dies, or is taken for dead and goes on, changes nothing: a part has one name, and one content. Readers of Parquet
folders, `krepes.sources` among them, skip names that begin with an underscore.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from krepes.base.reporting import Progress
from krepes.base.storage.files import SUFFIX, atomic_path
from krepes.base.storage.packing import digest
from krepes.engines.engine import Engine, logged_pass
from krepes.results import write_rows
from krepes.sources import Source, TableSource
from krepes.sources.row_sampling import RawReader
from krepes.sources.row_subset import section

MANIFEST, DONE, PARTS = "_krepes.json", "_SUCCESS", "part-*.parquet"
ROWS_PER_FILE = 50_000

logger = logging.getLogger("krepes")

Results = Callable[[Source], np.ndarray]  # rows -> (b,), (b, h) or records (b,)


@dataclass(frozen=True)
class WrittenFolder:
    """What is in a folder of results.

    Attributes
    ----------
    folder : Path
    n_rows, n_files, n_bytes : int
    n_resumed : int
        Files that were there already.
    """

    folder: Path
    n_rows: int
    n_files: int
    n_bytes: int
    n_resumed: int


@dataclass(frozen=True, eq=False)
class PartOfRows:
    """The rows of one file, and the columns to carry over."""

    path: Path
    rows: Source
    kept: TableSource | None


def _write_part(results: Results, part: PartOfRows) -> int:
    """Compute and write the results of a part; its number of rows."""
    n_rows = part.rows.n_rows
    if not is_finished(part.path, n_rows):
        values = np.asarray(results(part.rows))
        width = values.shape[1] if values.ndim > 1 else None
        write_rows(part.path, [values], n_rows, width, dtype=values.dtype, keep=part.kept, overwrite=True)
    return n_rows


def write_partitions(
    folder: str | os.PathLike,
    results: Results,
    source: Source,
    identity: dict[str, str],
    *,
    engine: Engine,
    keep: TableSource | None = None,
    rows_per_file: int = ROWS_PER_FILE,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> WrittenFolder:
    """Write the results of all rows of a source, part by part, on an engine.

    Parameters
    ----------
    folder : made where it is not there. One with the results of the same model and rows goes on.
    results : a function that can be pickled, of a source with the rows of a part.
    source : the rows.
    identity : hashes, by name, of what the results depend on besides the rows.
    engine : who computes and writes. Workers must reach the folder under the same path.
    keep : columns to carry over, a table of the same rows.
    rows_per_file : about how many rows a file has.
    overwrite : whether the results of another model, or of other rows, may be replaced.
    """
    target = Path(os.path.abspath(folder))
    known = identity | RawReader(source).identity() | {"columns": digest(keep and keep.column_names)}
    edges = _begun(target, known, source, rows_per_file, overwrite)
    names = [
        target / f"part-{i:05d}-{digest([known, *ends])[:12]}.parquet"
        for i, ends in enumerate(pairwise(edges))
    ]
    ranges = list(zip(names, pairwise(edges)))
    left = [(path, ends) for path, ends in ranges if not is_finished(path, ends[1] - ends[0])]
    parts = (_part(path, source, keep, *ends) for path, ends in left)
    n_left = sum(stop - start for _, (start, stop) in left)
    with logged_pass("Writing", n_left, len(left), engine, progress) as advance:
        for n in engine.each(partial(_write_part, results), parts):
            advance(n)
    _finish(target, names)
    return WrittenFolder(
        target, source.n_rows, len(names), sum(path.stat().st_size for path in names), len(names) - len(left)
    )


def is_finished(path: Path, n_rows: int) -> bool:
    """Whether a file is complete and has this many rows. Its name says which results it holds."""
    try:
        with pq.ParquetFile(path) as file:
            return file.metadata.num_rows == n_rows
    except (OSError, ValueError):  # not there, or not whole
        return False


def _part(path: Path, source: Source, keep: TableSource | None, start: int, stop: int) -> PartOfRows:
    kept = None if keep is None else section(keep, start, stop)
    assert kept is None or isinstance(kept, TableSource)
    return PartOfRows(path, section(source, start, stop), kept)


def _begun(
    folder: Path, identity: dict[str, str], source: Source, rows_per_file: int, overwrite: bool
) -> Sequence[int]:
    """The edges of the parts, from an earlier run if there was one."""
    manifest = folder / MANIFEST
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; give the name of a folder to write.")
    if manifest.is_file():
        found = _read(manifest)
        if found.get("identity") == identity:
            return list(found["edges"])
        if not overwrite:
            other = [name for name in identity if found.get("identity", {}).get(name) != identity[name]]
            raise FileExistsError(
                f"{folder} holds other results: they differ in {', '.join(other) or 'their form'}. Choose another "
                "folder, or allow overwriting (overwrite=True)."
            )
        for path in [*folder.glob(PARTS), folder / DONE]:
            path.unlink(missing_ok=True)
    elif other := _other_files(folder):
        raise FileExistsError(
            f"{folder} exists already, and holds other files such as {other[0]}; choose another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    n_parts = max(1, round(source.n_rows / rows_per_file))
    parts = RawReader(source).parts(n_parts)
    edges = [0, *(part.start + part.n_rows for part in parts)]
    with atomic_path(manifest, overwrite=True) as temporary:
        temporary.write_text(json.dumps({"identity": identity, "edges": edges}))
    return edges


def _other_files(folder: Path) -> list[str]:
    """What is in a folder besides what a run that was killed before it had a manifest leaves there."""
    found = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [name for name in found if not fnmatch(name, f".{MANIFEST}.*{SUFFIX}")]


def _read(manifest: Path) -> dict:
    try:
        found = json.loads(manifest.read_text())
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{manifest} cannot be read ({error}): delete the folder, or choose another one."
        ) from error
    return found if isinstance(found, dict) else {}


def _finish(folder: Path, names: Sequence[Path]) -> None:
    """Remove what killed workers left, and say that all is there."""
    for path in {*folder.glob(PARTS)} - {*names}:
        raise FileExistsError(f"{path} is not a part of these results: remove it, or choose another folder.")
    for path in folder.glob(f".part-*{SUFFIX}"):
        shutil.rmtree(path, ignore_errors=True)
    (folder / DONE).touch()
