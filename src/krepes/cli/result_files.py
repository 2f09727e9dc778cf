"""Files with a result for every row: one file, or a folder of Parquet files that workers write part by part."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.base.reporting import Bars
from krepes.base.storage.files import atomic_path, check_writable, readable_bytes
from krepes.cli.command import usage_errors
from krepes.cli.options import CsvFile, Engine, Force, Keep, option
from krepes.cli.terminal import line

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from matplotlib.figure import Figure

    from krepes.one_pass import OnePassEstimator
    from krepes.sources import Rows, Source, TableSource

BATCH_ROWS = 8192
FIGURES = (".png", ".pdf", ".svg")


@dataclass(frozen=True)
class ResultFile:
    """A file with a result for every row."""

    output: Annotated[Path, option("--output", "-o", "The file to write: .parquet, .csv, .npy or .npz.")]
    keep: Keep = field(default_factory=list)
    overwrite: Force = False

    def check(self) -> None:
        """Refuse a name whose ending is not a known format, or that cannot be written."""
        from krepes.results import check_suffix

        with usage_errors():
            check_suffix(self.output, self.keep)
        check_writable(self.output, self.overwrite)

    def kept(self, source: Source) -> TableSource | None:
        """The columns to carry over."""
        from krepes.results import kept_columns

        return kept_columns(source, self.keep, self.output)

    def write(
        self,
        batches: Iterable[np.ndarray | pa.Table],
        source: Source,
        shape: tuple[int, ...] | None,
        dtype: np.dtype,
        **layout: Any,
    ) -> dict[str, Any]:
        """Write the results of all rows; what was written, for --json. `layout` is that of `write_rows`."""
        from krepes.results import output_bytes, write_rows

        kept = self.kept(source)
        fields = len(dtype.names or (1,))
        width = fields if shape is None else math.prod(shape)
        needed = output_bytes(self.output, source.n_rows, width, math.ceil(dtype.itemsize / fields))
        check_writable(self.output, self.overwrite, needed)
        layout |= {"dtype": dtype, "keep": kept, "overwrite": self.overwrite}
        write_rows(self.output, batches, source.n_rows, shape, **layout)
        return self.facts(source, kept, self.output.stat().st_size)

    def facts(self, source: Source, kept: TableSource | None, n_bytes: int) -> dict[str, Any]:
        names = [] if kept is None else kept.column_names
        return {"output": str(self.output), "rows": source.n_rows, "kept": names, "bytes": n_bytes}

    def say(self, facts: dict[str, Any], start: float, what: str = "") -> dict[str, Any]:
        """Say what was written, and how long it took; for --json too."""
        seconds = time.perf_counter() - start
        files = ""
        if "files" in facts:
            there = f" ({facts['files_there']:,} were there already)" if facts["files_there"] else ""
            files = f" in {facts['files']:,} file{'s' * (facts['files'] > 1)}{there}"
        size = readable_bytes(facts["bytes"])
        line(f"Wrote {self.output}: {facts['rows']:,} rows{what}{files}, {size}, in {seconds:.1f} s.")
        return facts | {"seconds": seconds}


@dataclass(frozen=True)
class ResultFolder(ResultFile):
    """A file, or a folder that workers may write."""

    output: Annotated[
        Path, option("--output", "-o", "A .parquet, .csv, .npy or .npz file, or a folder of Parquet files.")
    ]
    engine: Engine = None

    @property
    def is_folder(self) -> bool:
        return self.output.suffix == "" or self.output.is_dir()

    def check(self, needs_folder: bool = True) -> None:
        """Refuse also a file that one process would have to write for a whole cluster."""
        if self.is_folder:
            return
        if self.engine is not None and needs_folder:
            raise typer.BadParameter(
                f"--output {self.output}: with --engine, workers write a folder of Parquet files; give a name without "
                f"an ending, such as {self.output.with_suffix('')}."
            )
        super().check()

    def write_records(
        self,
        model: OnePassEstimator,
        results: Callable[..., np.ndarray],
        dtype: np.dtype,
        source: Source,
        what: list[Any],
    ) -> dict[str, Any]:
        """Write the records that `results` makes of a model and rows, as a file or a folder."""
        if self.is_folder:
            return self.write_folder(model, partial(results, model.without_engine()), source, what)
        names = list(dtype.names or ())
        plain = names == ["prediction"]  # nothing but values
        parts = in_parts(partial(results, model), source)
        batches = (records["prediction"] if plain else records for records in parts)
        return self.write(
            batches, source, None, dtype["prediction"] if plain else dtype, name=what[0], columns=names
        )

    def write_folder(
        self,
        model: OnePassEstimator,
        results: Callable[[Source], np.ndarray],
        source: Source,
        what: list[Any],
    ) -> dict[str, Any]:
        """Write the results of all rows; `what` tells them from other results of the same model."""
        from krepes.base.storage.packing import digest
        from krepes.engines import as_engine, write_partitions

        kept = self.kept(source)
        written = write_partitions(
            self.output,
            results,
            source,
            model.identity() | {"method": digest(what)},
            engine=as_engine(self.engine),
            keep=kept,
            overwrite=self.overwrite,
            progress=Bars(),
        )
        files = {"files": written.n_files, "files_there": written.n_resumed}
        return self.facts(source, kept, written.n_bytes) | files


def in_parts(results: Callable[[Rows], np.ndarray], source: Source) -> Iterator[np.ndarray]:
    """The results of all rows, with a bar."""
    with Bars().stage("Predicting", source.n_rows) as stage:
        for _, batch in source.batches(BATCH_ROWS):
            found = results(batch)
            yield found
            stage.advance(len(found))


def records_of(dtype: np.dtype, columns: Iterable[np.ndarray]) -> np.ndarray:
    """Columns as an array of records, (n,)."""
    import numpy as np

    found = list(columns)
    records = np.empty(len(found[0]), dtype=dtype)
    for name, column in zip(dtype.names or (), found):
        records[name] = column
    return records


def check_output(
    path: Path | None, force: bool, option_name: str = "", endings: tuple[str, ...] = ()
) -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    if path is not None:
        if endings and path.suffix.lower() not in endings:
            raise typer.BadParameter(
                f"{option_name} {path}: expected a name that ends in {', '.join(endings)}."
            )
        check_writable(path, force)


def write_csv(path: Path | None, rows: Iterable[Iterable[Any]], force: bool) -> None:
    """Rows of values, the first of which are the names of the columns; nothing without a path."""
    import csv

    if path is not None:
        with atomic_path(path, overwrite=force) as temporary, temporary.open("w", newline="") as stream:
            csv.writer(stream).writerows(rows)


def save_figure(drawn: Figure, path: Path, force: bool) -> None:
    """A matplotlib figure in the format that its name asks for."""
    with atomic_path(path, overwrite=force) as temporary:
        drawn.savefig(temporary, format=path.suffix.lower().lstrip("."), dpi=120, bbox_inches="tight")


@dataclass(frozen=True)
class TableFiles:
    """What commands about several files write: a table, and a figure of it."""

    output: CsvFile = None
    figure: Annotated[Path | None, option("Draw a figure (.png, .pdf, .svg).")] = None
    overwrite: Force = False

    def check(self) -> None:
        check_output(self.output, self.overwrite, "--output", (".csv",))
        check_output(self.figure, self.overwrite, "--figure", FIGURES)

    def write(self, rows: Iterable[Iterable[Any]], draw: Callable[[], Figure]) -> None:
        """Write what was asked for."""
        write_csv(self.output, rows, self.overwrite)
        if self.figure is not None:
            save_figure(draw(), self.figure, self.overwrite)
