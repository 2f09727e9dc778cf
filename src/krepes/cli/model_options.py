"""Options that describe a model and its data, for commands that fit one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.names import check_name, listed

if TYPE_CHECKING:
    from typer.models import OptionInfo

    from krepes.kernels import Kernel
    from krepes.preprocessing import TableEncoder
    from krepes.sources import Source

DATA, MODEL, TRAINING = "Data", "Model", "Training on samples (solver sgd)"


def _names(package: str, *others: str) -> Callable[[str | None], str | None]:
    def check(value: str | None) -> str | None:
        try:
            return value if value is None else check_name(value, package, *others)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return check


def _option(metavar: str, text: str, panel: str = MODEL, **settings: Any) -> OptionInfo:
    return typer.Option(metavar=metavar, help=text, rich_help_panel=panel, **settings)


Exclude = Annotated[list[str], _option("COLUMN", "A column to leave out. Repeat for several.", DATA)]
Array = Annotated[str, _option("NAME", "Which array of an .npz file holds the rows.", DATA)]
Size = Annotated[
    str | None,
    _option(
        "PIXELS",
        "Bring the images of a folder to this size: 32, or height x width such as 48x42.",
        DATA,
        show_default=False,
    ),
]
Preprocess = Annotated[
    str,
    _option(
        "NAME",
        "auto encodes tables and uses arrays as they are; table standardises the columns of an array; normalize "
        "standardises the channels of images; none changes nothing.",
        DATA,
    ),
]
Components = Annotated[int, _option("N", "Width of the representation.", min=1)]
Landmarks = Annotated[int, _option("N", "Rows that carry the model. More are better, and slower.", min=1)]
LossName = Annotated[str, _option("NAME", f"What is learned: {listed('losses')}.", callback=_names("losses"))]
KernelName = Annotated[
    str, _option("NAME", f"How rows are compared: {listed('kernels')}.", callback=_names("kernels"))
]
ViewsName = Annotated[
    str,
    _option(
        "NAME",
        f"How rows are varied to find what stays the same: {listed('views', 'auto', 'none')}.",
        callback=_names("views", "auto", "none"),
    ),
]
LandmarkRule = Annotated[
    str, _option("NAME", f"How landmarks are chosen: {listed('landmarks')}.", callback=_names("landmarks"))
]
SolverName = Annotated[
    str, _option("NAME", f"{listed('solvers', 'auto')}.", callback=_names("solvers", "auto"))
]
Override = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any other parameter, such as loss__redundancy=0.1, or views__noise=0.2 with --views tabular. Repeat for "
        "several.",
        rich_help_panel=MODEL,
    ),
]


NetworkName = Annotated[
    str | None,
    _option(
        "NAME",
        f"Of the kernel empirical_ntk: {listed('networks')}.",
        callback=_names("networks"),
        show_default=False,
    ),
]
Weights = Annotated[
    Path | None,
    _option(
        "FILE", "Weights of the network: .npz, .safetensors or .pth; by default random.", show_default=False
    ),
]
Lengthscale = Annotated[
    str | None,
    _option(
        "NUMBER",
        "Of the kernel: distances well below it count as near. By default, or with median, it is taken from the data.",
        show_default=False,
    ),
]
DType = Annotated[
    str,
    typer.Option(metavar="NAME", help="float32, or float64 for exact work.", rich_help_panel=options._RUN),
]


def training_option(metavar: str, text: str, **settings: Any) -> OptionInfo:
    return _option(metavar, text, TRAINING, show_default=False, **settings)


Epochs = Annotated[int | None, training_option("N", "Most epochs; by default 50.", min=1)]
BatchSize = Annotated[int | None, training_option("N", "Rows per step; by default 256.", min=2)]
LearningRate = Annotated[float | None, training_option("NUMBER", "By default what suits the preconditioner.")]
Replays = Annotated[
    int | None,
    training_option("N", "Train so often on what was read before more is read; by default once.", min=1),
]
PreconditionerName = Annotated[
    str | None,
    training_option(
        "NAME", f"{listed('solvers/sgd/preconditioners')}.", callback=_names("solvers/sgd/preconditioners")
    ),
]
InitializationName = Annotated[
    str | None,
    training_option(
        "NAME", f"{listed('solvers/sgd/initializations')}.", callback=_names("solvers/sgd/initializations")
    ),
]


def training_overrides(**given: Any) -> dict[str, Any]:
    """Parameters of the solver from the options that were given."""
    return {f"solver__{name}": value for name, value in given.items() if value is not None}


def check_trains(loss: str, solver: str) -> None:
    """Refuse options of training where nothing is trained."""
    from krepes.base.components import resolve
    from krepes.losses import as_loss
    from krepes.solvers import Solver, choose_solver

    chosen = choose_solver(as_loss(loss)) if solver == "auto" else resolve(Solver, solver)
    if chosen.data != "samples":
        raise typer.BadParameter(
            f"--epochs and the other options of training are for losses that are trained on samples; {loss} is solved "
            f"by {chosen.name}, without any of them. Add --solver sgd to train it."
        )


def key_and_value(text: str, option: str, example: str) -> tuple[str, str]:
    """The two sides of KEY=VALUE."""
    key, found, value = text.partition("=")
    if not found or not key.strip():
        raise typer.BadParameter(f"{option} {text}: expected {example}.")
    return key.strip(), value.strip()


def parsed(text: str) -> Any:
    """A value as JSON, and as text where it is none: 0.1, true, null, leverage.

    >>> parsed("0.1"), parsed("leverage")
    (0.1, 'leverage')
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def override(text: str) -> tuple[str, Any]:
    """KEY=VALUE of --set."""
    key, value = key_and_value(text, "--set", "KEY=VALUE, such as loss__redundancy=0.1")
    return key, parsed(value)


def lengthscale_value(text: str) -> float | str:
    """A number, or median."""
    if text == "median":
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--lengthscale {text}: expected a number, or median.") from None


def preprocessing(
    choice: str, source: Source, path: Path, labels: list[str], excluded: list[str]
) -> TableEncoder | str | None:
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


def kernel_from(kernel: str, network: str | None, weights: Path | None) -> Kernel | str:
    """The estimator's `kernel`: a name, or a tangent kernel of a named network."""
    if network is None and weights is None:
        return kernel
    if kernel != "empirical_ntk":
        raise typer.BadParameter(f"--network and --weights are for --kernel empirical-ntk, not for {kernel}.")
    from krepes.kernels import EmpiricalNTK
    from krepes.networks import as_network

    chosen = as_network(network or EmpiricalNTK().network)
    if weights is not None:
        chosen = chosen.set_params(weights=str(weights))
    return EmpiricalNTK(chosen)
