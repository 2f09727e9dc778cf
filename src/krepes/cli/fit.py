"""`krepes fit`: learn a representation and save it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.names import check_name, estimator_defaults, listed
from krepes.cli.session import command

_DEFAULTS = estimator_defaults()
_DATA, _MODEL = "Data", "Model"


def _names(package: str, *others: str) -> Any:
    def check(value: str) -> str:
        try:
            return check_name(value, package, *others)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return check


def _override(text: str) -> tuple[str, Any]:
    key, found, value = text.partition("=")
    if not found or not key.strip():
        raise typer.BadParameter(f"--set {text}: expected KEY=VALUE, such as loss__redundancy=0.1.")
    try:
        return key.strip(), json.loads(value)
    except json.JSONDecodeError:
        return key.strip(), value


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
            rich_help_panel=_DATA,
        ),
    ] = [],  # noqa: B006  (typer copies it)
    exclude: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN", help="A column to leave out. Repeat for several.", rich_help_panel=_DATA
        ),
    ] = [],  # noqa: B006
    array: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Which array of an .npz file holds the rows.", rich_help_panel=_DATA
        ),
    ] = "X",
    size: Annotated[
        str | None,
        typer.Option(
            metavar="PIXELS",
            help="Bring the images of a folder to this size: 32, or height x width such as 48x42.",
            rich_help_panel=_DATA,
            show_default=False,
        ),
    ] = None,
    preprocess: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto encodes tables and uses arrays as they are; table standardises the columns of an array; "
            "normalize standardises the channels of images; none changes nothing.",
            rich_help_panel=_DATA,
        ),
    ] = _DEFAULTS["preprocess"],
    n_components: Annotated[
        int, typer.Option(metavar="N", min=1, help="Width of the representation.", rich_help_panel=_MODEL)
    ] = _DEFAULTS["n_components"],
    n_landmarks: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Rows that carry the model. More are better, and slower.",
            rich_help_panel=_MODEL,
        ),
    ] = _DEFAULTS["n_landmarks"],
    loss: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"What is learned: {listed('losses')}.",
            callback=_names("losses"),
            rich_help_panel=_MODEL,
        ),
    ] = _DEFAULTS["loss"],
    kernel: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"How rows are compared: {listed('kernels')}.",
            callback=_names("kernels"),
            rich_help_panel=_MODEL,
        ),
    ] = _DEFAULTS["kernel"],
    lengthscale: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Of the kernel: distances well below it count as near. By default, or with median, it is taken from "
            "the data.",
            rich_help_panel=_MODEL,
            show_default=False,
        ),
    ] = None,
    views: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"How rows are varied to find what stays the same: {listed('views', 'auto', 'none')}.",
            callback=_names("views", "auto", "none"),
            rich_help_panel=_MODEL,
        ),
    ] = _DEFAULTS["views"],
    landmarks: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"How landmarks are chosen: {listed('landmarks')}.",
            callback=_names("landmarks"),
            rich_help_panel=_MODEL,
        ),
    ] = _DEFAULTS["landmarks"],
    regularization: Annotated[
        float, typer.Option(metavar="NUMBER", min=0, help="Larger is smoother.", rich_help_panel=_MODEL)
    ] = _DEFAULTS["regularization"],
    solver: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"{listed('solvers', 'auto')}.",
            callback=_names("solvers", "auto"),
            rich_help_panel=_MODEL,
        ),
    ] = _DEFAULTS["solver"],
    override: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any other parameter, such as loss__redundancy=0.1, or views__noise=0.2 with --views tabular. "
            "Repeat for several.",
            rich_help_panel=_MODEL,
        ),
    ] = [],  # noqa: B006
    no_moments: Annotated[
        bool,
        typer.Option(
            "--no-moments",
            metavar="",
            help="A smaller file, without the sums that refit, partial_fit and merge need.",
            rich_help_panel=_MODEL,
        ),
    ] = False,
    dtype: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="float32, or float64 for exact work.", rich_help_panel=options._RUN
        ),
    ] = _DEFAULTS["dtype"],
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the sums of a long pass here; the same command goes on from them after an interruption.",
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

    [cyan]krepes fit photos/ --size 32 -o photos.krepes[/]
    """
    from krepes.cli.data import check_exists, open_data, parse_size
    from krepes.cli.describe import console
    from krepes.cli.fit_summary import show_summary
    from krepes.cli.needs import check_fit_memory, model_bytes, row_width
    from krepes.files import check_writable

    overrides = dict(map(_override, override))
    check_exists(data)
    pixels = parse_size(size)
    check_writable(output, force)
    source = open_data(data, array, pixels)
    out = console()
    out.print(f"{data}: {source.describe()}", markup=False, highlight=False)
    m = min(n_landmarks, source.n_rows)
    check_fit_memory(m)
    check_writable(output, force, model_bytes(m, row_width(source), n_components, not no_moments))
    parameters = {
        "n_components": n_components,
        "kernel": kernel,
        "loss": loss,
        "views": None if views == "none" else views,
        "landmarks": landmarks,
        "n_landmarks": n_landmarks,
        "solver": solver,
        "regularization": regularization,
        "preprocess": _preprocess(preprocess, source, data, label, exclude),
        "device": device,
        "dtype": dtype,
        "random_state": seed,
        "verbose": 1,
    }
    if lengthscale is not None:
        overrides = {"kernel__lengthscale": _number(lengthscale)} | overrides
    start = time.perf_counter()
    model = _fitted(source, parameters, overrides, checkpoint, out)
    model.verbose = 0
    model.save(output, moments=not no_moments, overwrite=force)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    show_summary(model, output, data, time.perf_counter() - start, out)


def _fitted(
    source: Any, parameters: dict[str, Any], overrides: dict[str, Any], checkpoint: Any, out: Any
) -> Any:
    """Fit, showing what became of every column before the long pass begins."""
    from krepes import KernelEmbedding
    from krepes.cli.describe import column_roles
    from krepes.cli.fit_summary import warn_of_scales

    model = KernelEmbedding(**parameters)
    if overrides:
        model.set_params(**overrides)
    prepare = model._prepare

    def announced(*data: Any) -> None:
        prepare(*data)
        if model.input_space_.encoder is not None:
            out.print(column_roles(model.input_space_.encoder))
        elif model.input_space_.kind == "vectors":
            warn_of_scales(model.landmarks_)

    vars(model)["_prepare"] = announced
    try:
        return model.fit(source, checkpoint=checkpoint)
    finally:
        del vars(model)["_prepare"]


def _preprocess(choice: str, source: Any, path: Path, labels: list[str], excluded: list[str]) -> Any:
    """The estimator's `preprocess`: a TableEncoder that knows labels and excluded columns where there are any."""
    from krepes.cli.data import is_npz, npz_names
    from krepes.preprocessing import TableEncoder

    choices = ("auto", "table", "normalize", "none")
    if choice not in choices:
        raise ValueError(f"--preprocess {choice}: expected one of {', '.join(choices)}.")
    if source.kind == "table" and choice in ("auto", "table"):
        return TableEncoder(label=labels[0] if labels else None, exclude=[*labels[1:], *excluded])
    if excluded:
        raise ValueError(f"--exclude is for the columns of a table; {path} is {source.describe()}.")
    if labels and not (is_npz(path) and set(labels) <= set(npz_names(path))):
        arrays = f" It has the arrays {', '.join(npz_names(path))}." if is_npz(path) else ""
        raise ValueError(
            f"--label {labels[0]} is for a column of a table or an array of an .npz file; {path} is "
            f"{source.describe()}.{arrays} Images take their labels from subfolders."
        )
    return None if choice == "none" else choice


def _number(text: str) -> Any:
    if text == "median":
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--lengthscale {text}: expected a number, or median.") from None
