"""`krepes cluster`: subspace clustering that learns its own metric."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import option

if TYPE_CHECKING:
    import numpy as np

    from krepes.clustering import SubspaceClustering
    from krepes.preprocessing import TableEncoder
    from krepes.sources import Source


@command
def cluster(
    data: options.Data,
    output: Annotated[
        Path,
        option(
            "--output",
            "-o",
            "The file to write, with the cluster of every row. Its ending sets the format: .csv, .parquet, .npy or "
            ".npz (array cluster).",
            metavar="FILE",
        ),
    ],
    parameters: Annotated[dict[str, Any], Parameters("SubspaceClustering")],
    label: Annotated[
        str | None,
        option(
            "A column or array of labels to compare the clusters with. It is not used for anything else.",
            panel=options.DATA,
        ),
    ] = None,
    exclude: options.Exclude = [],  # noqa: B006  (typer copies it)
    column: options.Column = [],  # noqa: B006
    missing: options.Missing = [],  # noqa: B006
    encoding: options.Encoding = None,
    keep: Annotated[
        list[str],
        option(
            "Carry a column of the table, such as an id, into a .parquet, .csv or .npz file. It is not a feature. "
            "Repeat the option for several.",
            metavar="COLUMN",
            panel=options.DATA,
        ),
    ] = [],  # noqa: B006
    array: options.Array = "X",
    size: options.Size = None,
    override: Annotated[
        list[str],
        option(
            "--set",
            "Any other parameter, such as projection__filter=0.2. Repeat the option for several.",
            metavar="KEY=VALUE",
            panel=options.MODEL,
        ),
    ] = [],  # noqa: B006
    figure: Annotated[
        Path | None,
        option("Draw the data, kernel and affinity over the iterations (.png, .pdf, .svg).", metavar="FILE"),
    ] = None,
    random_state: options.Seed = 0,
    threads: options.Threads = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Find clusters of rows that express one another, and a metric in which they do.

    [cyan]krepes cluster krepes-demo/digits.npz -k 10 -o clusters.csv --label y[/]

    [cyan]krepes cluster people.csv --keep id -o clusters.csv --figure iterations.png[/]
    """
    from krepes.cli.describe import line
    from krepes.cli.model_parameters import overrides, preprocessing
    from krepes.cli.opening import check_exists, open_data, parse_size
    from krepes.cli.outputs import check_outputs, check_result_file, save_figure

    check_result_file(output, keep)
    changes, pixels = overrides(override), parse_size(size)
    check_exists(data)
    check_outputs(output, figure, overwrite)
    source = open_data(data, array, pixels, encoding)
    line(f"{data}: {source.describe()}")
    from krepes.clustering import SubspaceClustering
    from krepes.results import kept_columns, write_rows

    kept = kept_columns(source, keep, output)
    not_features = [*exclude, *(name for name in keep if name not in (*exclude, label))]
    encoder = preprocessing("auto", source, data, [label] if label else [], not_features, column, missing)
    X, y = _rows_and_labels(source, data, label, encoder, random_state)
    parameters["truncation"] = parameters["truncation"] or None
    model = SubspaceClustering(**parameters, random_state=random_state).set_params(**changes)
    start = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - start
    write_rows(
        output,
        [model.labels_],
        len(X),
        None,
        dtype=model.labels_.dtype,
        name="cluster",
        columns=["cluster"],
        keep=kept,
        overwrite=overwrite,
    )
    if figure is not None:
        from krepes.clustering import plot_iterations

        save_figure(plot_iterations(model, X, model.labels_), figure, overwrite)
    return _shown(model, y, seconds, output)


def _rows_and_labels(
    source: Source, path: Path, label: str | None, preprocess: TableEncoder | str | None, seed: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """All rows as one array, encoded where they are a table, and the labels to compare with."""
    import torch

    from krepes.base.dtype_and_device import Placement
    from krepes.base.progress import Bars
    from krepes.base.rows import dense
    from krepes.cli.describe import show_columns
    from krepes.cli.memory_needed import check_rows_memory, row_width
    from krepes.engines import Local
    from krepes.labelled import column_beside
    from krepes.preprocessing.preparing import prepare_inputs

    width = row_width(source)
    check_rows_memory(source.n_rows, width, "Cluster a part of the rows.")
    space, _ = prepare_inputs(source, preprocess, 1, seed, Placement.of("float64", "cpu"), Local(), Bars())
    show_columns(space)
    batches = (batch for _, batch in space.selected(source).batches(8192))
    X = torch.cat([dense(space.tensor(batch, torch.float64)) for batch in batches]).numpy()
    return X, source.labels if label is None else column_beside(source, path, label, "label")


def _shown(model: SubspaceClustering, y: np.ndarray | None, seconds: float, output: Path) -> dict[str, Any]:
    """What was found, and how it compares with labels where there are any."""
    import numpy as np
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    from krepes.cli.describe import console, facts, part_summary
    from krepes.report.words import component_words

    sizes = np.bincount(model.labels_).tolist()
    largest = sorted(sizes, reverse=True)
    rows = {
        "clusters": f"{model.n_clusters_}" + ("" if model.n_clusters else " (estimated)"),
        "rows in each": ", ".join(map(str, largest[:12])) + (", ..." if len(sizes) > 12 else ""),
        "kernel": component_words(model.kernel_),
        "iteration": f"{model.n_iter_} of {len(model.history_) - 1}",
        "time": f"{seconds:.1f} s",
        "saved": str(output),
    }
    agreement = None
    if y is not None:
        y = np.asarray(y).astype(str)
        nmi, ari = normalized_mutual_info_score(y, model.labels_), adjusted_rand_score(y, model.labels_)
        rows["agreement with labels"] = f"NMI {nmi:.3f}, ARI {ari:.3f}"
        agreement = {"nmi": nmi, "ari": ari}
    console().print(facts(rows))
    return {
        "output": str(output),
        "clusters": model.n_clusters_,
        "estimated": model.n_clusters is None,
        "rows_in_each": sizes,
        "kernel": part_summary(model.kernel_),
        "iteration": model.n_iter_,
        "iterations": len(model.history_) - 1,
        "agreement_with_labels": agreement,
        "seconds": seconds,
    }
