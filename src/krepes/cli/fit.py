"""`krepes fit`: learn a representation and save it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import model_options, options
from krepes.cli.names import estimator_defaults
from krepes.cli.session import command

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from krepes.embedding import KernelEmbedding
    from krepes.sources import Source

_DEFAULTS = estimator_defaults()


@command
def fit(
    data: options.Data,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="MODEL", help="The model file to write.", show_default=False),
    ],
    label: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN",
            help="A column that holds labels: never a feature, found again by evaluate. Repeat for several.",
            rich_help_panel=model_options.DATA,
        ),
    ] = [],  # noqa: B006  (typer copies it)
    exclude: model_options.Exclude = [],  # noqa: B006
    sample_weight: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="A column (or an array of an .npz file) that says how often each row counts; never a feature.",
            rich_help_panel=model_options.DATA,
            show_default=False,
        ),
    ] = None,
    array: model_options.Array = "X",
    size: model_options.Size = None,
    preprocess: model_options.Preprocess = _DEFAULTS["preprocess"],
    n_components: model_options.Components = _DEFAULTS["n_components"],
    n_landmarks: model_options.Landmarks = _DEFAULTS["n_landmarks"],
    loss: model_options.LossName = _DEFAULTS["loss"],
    kernel: model_options.KernelName = _DEFAULTS["kernel"],
    network: model_options.NetworkName = None,
    weights: model_options.Weights = None,
    lengthscale: model_options.Lengthscale = None,
    views: model_options.ViewsName = _DEFAULTS["views"],
    landmarks: model_options.LandmarkRule = _DEFAULTS["landmarks"],
    regularization: Annotated[
        float,
        typer.Option(
            metavar="NUMBER", min=0, help="Larger is smoother.", rich_help_panel=model_options.MODEL
        ),
    ] = _DEFAULTS["regularization"],
    solver: model_options.SolverName = _DEFAULTS["solver"],
    override: model_options.Override = [],  # noqa: B006
    no_moments: Annotated[
        bool,
        typer.Option(
            "--no-moments",
            metavar="",
            help="A smaller file, without the sums that refit, partial_fit and merge need.",
            rich_help_panel=model_options.MODEL,
        ),
    ] = False,
    epochs: model_options.Epochs = None,
    batch_size: model_options.BatchSize = None,
    learning_rate: model_options.LearningRate = None,
    replays: model_options.Replays = None,
    preconditioner: model_options.PreconditionerName = None,
    initialization: model_options.InitializationName = None,
    dtype: model_options.DType = _DEFAULTS["dtype"],
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the state of a long fit here; the same command goes on from it after an interruption.",
            rich_help_panel=options._RUN,
            show_default=False,
        ),
    ] = None,
    device: options.Device = _DEFAULTS["device"],
    seed: options.Seed = 0,
    threads: options.Threads = None,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Learn a representation from unlabelled rows and save it as one file.

    [cyan]krepes fit people.parquet --label income --exclude id -o people.krepes[/]

    [cyan]krepes fit digits.npz -o digits.krepes --n-landmarks 2000[/]

    [cyan]krepes fit digits.npz -o digits.krepes --loss simclr --epochs 20[/]

    [cyan]krepes fit photos/ --size 32 -o photos.krepes[/]

    [cyan]krepes fit photos.npz -o photos.krepes --kernel empirical-ntk --network efficientnet-lite0 --weights FILE[/]
    """
    from krepes.base.files import check_writable
    from krepes.cli.data import check_exists, find_weights, open_data, parse_size
    from krepes.cli.describe import console
    from krepes.cli.fit_summary import show_summary
    from krepes.cli.needs import check_fit_memory, model_bytes, row_width

    training = model_options.training_overrides(
        max_epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        replays=replays,
        preconditioner=preconditioner,
        initialization=initialization,
    )
    overrides = training | dict(map(model_options.override, override))
    if training:
        model_options.check_trains(loss, solver)
    check_exists(data)
    pixels = parse_size(size)
    check_writable(output, force)
    source = open_data(data, array, pixels)
    out = console()
    out.print(f"{data}: {source.describe()}", markup=False, highlight=False)
    counts = None if sample_weight is None else find_weights(source, data, sample_weight)
    if sample_weight is not None and source.kind == "table":
        exclude = [*exclude, sample_weight]
    m = min(n_landmarks, source.n_rows)
    check_fit_memory(m)
    check_writable(output, force, model_bytes(m, row_width(source), n_components, not no_moments))
    parameters = {
        "n_components": n_components,
        "kernel": model_options.kernel_from(kernel, network, weights),
        "loss": loss,
        "views": None if views == "none" else views,
        "landmarks": landmarks,
        "n_landmarks": n_landmarks,
        "solver": solver,
        "regularization": regularization,
        "preprocess": model_options.preprocessing(preprocess, source, data, label, exclude),
        "device": device,
        "dtype": dtype,
        "random_state": seed,
        "verbose": 1,
    }
    if lengthscale is not None:
        overrides = {"kernel__lengthscale": model_options.lengthscale_value(lengthscale)} | overrides
    start = time.perf_counter()
    model = _fitted(source, counts, parameters, overrides, checkpoint, out)
    model.verbose = 0
    model.save(output, moments=not no_moments, overwrite=force)
    show_summary(model, output, data, time.perf_counter() - start, out)


def _fitted(
    source: Source,
    sample_weight: np.ndarray | None,
    parameters: dict[str, Any],
    overrides: dict[str, Any],
    checkpoint: Path | None,
    out: Console,
) -> KernelEmbedding:
    """Fit, showing what became of every column before the long pass begins."""
    from krepes import KernelEmbedding
    from krepes.base.rows import dense
    from krepes.cli.describe import column_roles
    from krepes.cli.fit_summary import warn_of_scales

    model = KernelEmbedding(**parameters)
    if overrides:
        model.set_params(**overrides)
    space = model.prepare(source, sample_weight=sample_weight)
    if space.inputs.encoder is not None:
        out.print(column_roles(space.inputs.encoder))
    elif space.inputs.kind == "vectors":
        warn_of_scales(dense(space.landmarks))
    return model.fit(source, sample_weight=sample_weight, checkpoint=checkpoint, space=space)
