"""`krepes cluster`: clusters by the coding that suits the rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.options import option
from krepes.cli.parameters import estimator, given_values, overrides
from krepes.cli.result_files import FIGURES, ResultFile, check_output, save_figure
from krepes.cli.terminal import show_facts

if TYPE_CHECKING:
    import numpy as np

    from krepes.clustering import SubspaceClustering
    from krepes.preprocessing import TableEncoder
    from krepes.preprocessing.input_space import InputSpace
    from krepes.sources import Source


@command
def cluster(
    rows: options.NewRows,
    result: ResultFile,
    n_clusters: Annotated[
        int | None,
        option("--n-clusters", "-k", "The number of clusters. By default it is estimated.", min=1),
    ] = None,
    label: Annotated[
        str | None, option("Labels to compare the clusters with, only.", panel=options.DATA)
    ] = None,
    kernel: Annotated[
        str | None, option("How rows are compared. By default many kernels are tried.", panel=options.MODEL)
    ] = None,
    coding: Annotated[
        str | None,
        option("Rows by others: ridge, elastic_net, ... By default the best.", panel=options.MODEL),
    ] = None,
    override: options.Override = [],  # noqa: B006  (typer copies it)
    onnx: Annotated[
        Path | None, option("Write how new rows get their cluster as an ONNX file.", metavar="FILE")
    ] = None,
    figure: Annotated[
        Path | None, option("Draw what was tried, or the iterations of the one coding given.")
    ] = None,
    random_state: options.Seed = 0,
) -> dict[str, Any]:
    """Find clusters of rows that express one another, by the coding that suits them best.

    \b[cyan]krepes cluster krepes-demo/digits.npz -k 10 -o clusters.csv --label y[/]
    [cyan]krepes cluster people.csv --keep id -o clusters.csv --coding ridge --figure iterations.png[/]
    """
    result.check()
    check_output(figure, result.overwrite, "--figure", FIGURES)
    check_output(onnx, result.overwrite)
    from krepes.clustering import SubspaceClustering

    parameters = given_values(n_clusters=n_clusters, kernel=kernel, coding=coding) | overrides(override)
    model = estimator(SubspaceClustering, parameters, random_state=random_state)
    source = rows.open()
    beside = [name for name in result.keep if name != label]
    encoder = rows.preprocessing(source, [label] if label else [], beside)
    X, y, space = _rows_and_labels(source, rows.data, label, encoder, random_state)
    start = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - start
    result.write([model.labels_], source, None, model.labels_.dtype, name="cluster", columns=["cluster"])
    if onnx is not None:
        from krepes.export.cluster_formulas import program_of_clusters
        from krepes.export.input_formulas import rare_values
        from krepes.export.onnx_file import write_onnx

        program = program_of_clusters(model, space, rare_values(space.encoder, source))
        write_onnx(program, onnx, result.overwrite)
    if figure is not None:
        from krepes.clustering import plot_iterations, plot_selection

        drawn = plot_selection(model) if model.selection_ else plot_iterations(model, X, model.labels_)
        save_figure(drawn, figure, result.overwrite)
    return _shown(model, y, seconds, result.output)


def _rows_and_labels(
    source: Source, path: Path, label: str | None, preprocess: TableEncoder | str | None, seed: int
) -> tuple[np.ndarray, np.ndarray | None, InputSpace]:
    """All rows as one array, encoded where they are a table; the labels to compare with; what encoded the rows."""
    import torch

    from krepes.base.blocks import Placement
    from krepes.base.reporting import Bars
    from krepes.base.rows import dense
    from krepes.cli.describe import show_columns
    from krepes.cli.memory_needed import check_rows_memory, row_width
    from krepes.labelled import column_beside
    from krepes.preprocessing.preparing import Sampling, prepare_inputs

    width = row_width(source)
    check_rows_memory(source.n_rows, width, "Cluster a part of the rows.")
    space, _ = prepare_inputs(
        source, preprocess, Sampling(1, seed, progress=Bars()), Placement.of("float64", "cpu")
    )
    show_columns(space.encoder)
    batches = (batch for _, batch in space.selected(source).batches(8192))
    X = torch.cat([dense(space.tensor(batch, torch.float64)) for batch in batches]).numpy()
    return X, source.labels if label is None else column_beside(source, path, label, "label"), space


def _shown(model: SubspaceClustering, y: np.ndarray | None, seconds: float, output: Path) -> dict[str, Any]:
    """What was found, and how it compares with labels where there are any."""
    import numpy as np
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    from krepes.cli.describe import part
    from krepes.clustering import clustering_error
    from krepes.report.facts import component_words

    sizes = np.bincount(model.labels_).tolist()
    largest = sorted(sizes, reverse=True)
    tried = {}
    if model.selection_:
        best = ", or ".join(f"{each['name']} ({each['ratio']:.3f})" for each in model.selection_[:3])
        tried = {"coding": best, "tried": f"{len(model.selection_)} codings"}
    rows = {
        "clusters": f"{model.n_clusters_}" + ("" if model.n_clusters else " (estimated)"),
        "rows in each": ", ".join(map(str, largest[:12])) + (", ..." if len(sizes) > 12 else ""),
        **tried,
        "kernel": component_words(model.kernel_),
        "iteration": f"{model.n_iter_} of {len(model.history_) - 1}",
        "time": f"{seconds:.1f} s",
        "saved": str(output),
    }
    agreement = None
    if y is not None:
        measures = {
            "nmi": normalized_mutual_info_score,
            "ari": adjusted_rand_score,
            "error": clustering_error,
        }
        y = np.asarray(y).astype(str)
        agreement = {name: measure(y, model.labels_) for name, measure in measures.items()}
        words = "NMI {nmi:.3f}, ARI {ari:.3f}, error {error:.1%}"
        rows["agreement with labels"] = words.format(**agreement)
    show_facts(rows)
    return {
        "output": str(output),
        "clusters": model.n_clusters_,
        "estimated": model.n_clusters is None,
        "rows_in_each": sizes,
        "kernel": part(model.kernel_),
        "selection": model.selection_,
        "iteration": model.n_iter_,
        "iterations": len(model.history_) - 1,
        "agreement_with_labels": agreement,
        "seconds": seconds,
    }
