"""`krepes cluster`: subspace clustering that learns its own metric."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from krepes.cli import model_options, options
from krepes.cli.model_options import MODEL, _names, _option
from krepes.cli.names import listed
from krepes.cli.session import command

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from krepes.clustering import SubspaceClustering
    from krepes.sources import Source

_SUFFIXES = (".csv", ".parquet", ".npy", ".npz")


@command
def cluster(
    data: options.Data,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write, a cluster for every row: .csv, .parquet, .npy or .npz (array cluster).",
            show_default=False,
        ),
    ],
    n_clusters: Annotated[
        int | None,
        typer.Option(
            "--n-clusters",
            "-k",
            metavar="N",
            min=1,
            help="How many; by default estimated from the affinity.",
            show_default=False,
        ),
    ] = None,
    label: Annotated[
        str | None,
        _option(
            "NAME", "A column or array of labels to compare with; never used otherwise.", model_options.DATA
        ),
    ] = None,
    exclude: model_options.Exclude = [],  # noqa: B006  (typer copies it)
    array: model_options.Array = "X",
    size: model_options.Size = None,
    kernel: Annotated[
        str,
        _option("NAME", f"{listed('kernels', 'auto')}.", callback=_names("kernels", "auto")),
    ] = "auto",
    projection: Annotated[
        str,
        _option(
            "NAME",
            "How the metric is learned: precision, covariance, inverse; none learns nothing (KTRR).",
        ),
    ] = "precision",
    coding: Annotated[
        str,
        _option(
            "NAME",
            f"What expresses a row by the others: {listed('clustering/codings')}.",
            callback=_names("clustering/codings"),
        ),
    ] = "ridge",
    n_iterations: Annotated[int, _option("N", "Projections at most.", min=0)] = 8,
    regularization: Annotated[float, _option("NUMBER", "The ridge of the regressions.", min=0)] = 1.0,
    truncation: Annotated[int, _option("N", "Coefficients that a row keeps; 0 keeps all.", min=0)] = 7,
    override: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any other parameter, such as projection__filter=0.2 or normalization=global. Repeat for several.",
            rich_help_panel=MODEL,
        ),
    ] = [],  # noqa: B006
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw the data, kernel and affinity over the iterations (.png, .pdf, .svg)."
        ),
    ] = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Find clusters of rows that express one another, and a metric in which they do.

    [cyan]krepes cluster faces.npz -k 38 -o clusters.csv --label y[/]

    [cyan]krepes cluster trajectories.npy -o clusters.npy --figure iterations.png[/]
    """
    from krepes.cli.data import check_exists, open_data, parse_size
    from krepes.cli.describe import console
    from krepes.cli.outputs import check_outputs, save_figure

    if output.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"--output {output}: expected a name that ends in {', '.join(_SUFFIXES)}.")
    check_exists(data)
    check_outputs(output, figure, force)
    source = open_data(data, array, parse_size(size))
    out = console()
    out.print(f"{data}: {source.describe()}", markup=False, highlight=False)
    X, y = _rows_and_labels(source, data, label, exclude, seed)
    from krepes.clustering import SubspaceClustering

    model = SubspaceClustering(
        n_clusters,
        kernel=kernel,
        projection=None if projection == "none" else projection,
        coding=coding,
        n_iterations=n_iterations,
        regularization=regularization,
        truncation=truncation or None,
        random_state=seed,
    )
    model.set_params(**dict(map(model_options.override, override)))
    start = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - start
    _write(output, model.labels_, force)
    if figure is not None:
        from krepes.clustering import plot_iterations

        save_figure(plot_iterations(model, X, model.labels_), figure, force)
    _summary(model, y, seconds, output, out)


def _rows_and_labels(
    source: Source, path: Path, label: str | None, exclude: list[str], seed: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """All rows as one array, encoded where they are a table, and the labels to compare with."""
    import torch

    from krepes.base.placement import Placement
    from krepes.base.progress import Bars
    from krepes.base.rows import dense
    from krepes.cli.data import read_labels
    from krepes.cli.needs import check_rows_memory, row_width
    from krepes.engines import Local
    from krepes.preprocessing.preparing import prepare_inputs

    width = row_width(source)
    check_rows_memory(source.n_rows, width, "Cluster a part of the rows.")
    preprocess = model_options.preprocessing("auto", source, path, [label] if label else [], exclude)
    space, _ = prepare_inputs(source, preprocess, 1, seed, Placement.of("float64", "cpu"), Local(), Bars())
    batches = (batch for _, batch in source.batches(8192))
    X = torch.cat([dense(space.tensor(batch, torch.float64)) for batch in batches]).numpy()
    if label is not None:
        return X, source.label_column(label) if source.kind == "table" else read_labels(f"{path}:{label}")
    return X, source.labels


def _write(output: Path, labels: np.ndarray, force: bool) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    from krepes.base.files import atomic_path

    with atomic_path(output, overwrite=force) as temporary, temporary.open("wb") as stream:
        suffix = output.suffix.lower()
        if suffix == ".npy":
            np.save(stream, labels)
        elif suffix == ".npz":
            np.savez(stream, cluster=labels)
        else:
            table = pa.table({"cluster": labels})
            (pyarrow.csv.write_csv if suffix == ".csv" else pyarrow.parquet.write_table)(table, stream)


def _summary(
    model: SubspaceClustering, y: np.ndarray | None, seconds: float, output: Path, out: Console
) -> None:
    """What was found, and how it compares with labels where there are any."""
    import numpy as np
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    from krepes.cli.describe import component, facts

    sizes = sorted(np.bincount(model.labels_).tolist(), reverse=True)
    shown = ", ".join(map(str, sizes[:12])) + (", ..." if len(sizes) > 12 else "")
    rows = {
        "clusters": f"{model.n_clusters_}" + ("" if model.n_clusters else " (estimated)"),
        "rows in each": shown,
        "kernel": component(model.kernel_),
        "iteration": f"{model.n_iter_} of {len(model.history_) - 1}",
        "time": f"{seconds:.1f} s",
        "saved": str(output),
    }
    if y is not None:
        y = np.asarray(y).astype(str)
        rows["agreement with labels"] = (
            f"NMI {normalized_mutual_info_score(y, model.labels_):.3f}, "
            f"ARI {adjusted_rand_score(y, model.labels_):.3f}"
        )
    out.print(facts(rows))
