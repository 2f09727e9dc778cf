"""Write src/krepes/cli/option_defaults.py: the parameters of the library that are options of the command line.

    python tools/option_defaults.py            # after a change of a default, a name, a docstring, or of TABLE below
    python tools/option_defaults.py --check    # exit code 1 if the file is not what the classes say

Names, types and defaults come from signatures; choices from the names that classes declare and the words that
docstrings quote; the help from the first sentence of a parameter's description, unless HELP below has another.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from krepes import KernelEmbedding
from krepes.alignment import prune_ensemble, transferability
from krepes.base.components import Component, named
from krepes.cli.parameter import Parameter
from krepes.clustering import SubspaceClustering
from krepes.evaluation import linear_probe, probe_protocol, search
from krepes.kernels import EmpiricalNTK, Gaussian
from krepes.machines import GaussianProcessRegressor, KernelRidgeClassifier, NoveltyDetector
from krepes.networks import EfficientNetLite0, Network
from krepes.report import write_report
from krepes.solvers import SGD
from krepes.solvers.sgd.initializations import Initialization
from krepes.solvers.sgd.preconditioners import Preconditioner

OUTPUT = Path(__file__).parents[1] / "src" / "krepes" / "cli" / "option_defaults.py"
HEADER = '''"""Options of the command line that are parameters of the library, with their defaults.

Generated from the classes by `python tools/option_defaults.py`; do not edit. A test compares the two.
"""

from krepes.cli.parameter import Parameter

'''
# Of estimators; --seed is the same in all commands.
NOT_OPTIONS = ("engine", "space", "transductive", "verbose", "random_state")
TRAINING = "Training on samples (solver sgd)"

# Of owner (class or function): the parameters, in the order of the help page. A parameter of a part is written
# part__name, with the class that it is taken from.
TABLE: dict[Callable[..., Any], list[str | tuple[str, Callable[..., Any]]]] = {
    KernelEmbedding: [
        *[name for name in inspect.signature(KernelEmbedding).parameters if name not in NOT_OPTIONS],
        ("kernel__network", EmpiricalNTK),
        ("kernel__network__weights", EfficientNetLite0),
        ("kernel__lengthscale", Gaussian),
        *[(f"solver__{name}", SGD) for name in ("max_epochs", "batch_size", "learning_rate", "replays")],
        *[(f"solver__{name}", SGD) for name in ("preconditioner", "initialization")],
    ],
    # The parameters of KernelRidgeRegressor are among these.
    KernelRidgeClassifier: [
        name for name in inspect.signature(KernelRidgeClassifier).parameters if name not in NOT_OPTIONS
    ],
    # The others of Gaussian processes are among those of ridge machines.
    GaussianProcessRegressor: ["amplitude", "noise"],
    NoveltyDetector: [
        name for name in inspect.signature(NoveltyDetector).parameters if name not in NOT_OPTIONS
    ],
    SubspaceClustering: [
        name for name in inspect.signature(SubspaceClustering).parameters if name not in NOT_OPTIONS
    ],
    search: ["n_trials", "sampler", "metric", "validation_fraction", "label_fraction"],
    probe_protocol: ["n_repeats"],
    linear_probe: ["classifier"],
    write_report: ["title", "max_rows", "samples", "map"],
    transferability: ["n_permutations", "max_width"],
    prune_ensemble: ["method", "task", "predictions"],
}
# Options that are not called as the parameter is.
OPTIONS = {
    "n_clusters": "--n-clusters -k",
    "n_trials": "--trials",
    "n_repeats": "--repeats",
    "n_permutations": "--permutations",
    "solver__max_epochs": "--epochs",
    "kernel__network__weights": "--weights",
}
FLAGS = {
    "fit_intercept": ("--no-intercept", False),
    "samples": ("--no-samples", False),
    "predictions": ("--out-of-bag", "out_of_bag"),
}
PANELS = {
    "preprocess": "Data",
    "device": "Running",
    "dtype": "Running",
    "search": "Search",
    "probe_protocol": "Protocol",
    "linear_probe": "Protocol",
    "write_report": "Report",
    "transferability": "Scores",
    "prune_ensemble": "Method",
}
LEAST = {
    "n_iterations": 0,
    "truncation": 0,
    "regularization": 0,
    "n_folds": 3,
    "solver__batch_size": 2,
}
NULL = {"n_landmarks of KernelEmbedding": "all"}  # the word for None, where it is not none
KINDS: dict[str, type[Component]] = {
    "kernel__network": Network,
    "solver__preconditioner": Preconditioner,
    "solver__initialization": Initialization,
}
TYPES = {  # where the annotation does not say
    "landmarks of KernelEmbedding": "str",
    "landmarks of KernelRidgeClassifier": "str",
    "landmarks of NoveltyDetector": "str",
    "lengthscale": "float",
    "class_weight": "str",
    "preprocess": "str",
    "kernel__network__weights": "path",
    "kernel__lengthscale": "float",
}
# Where the docstring speaks to programmers, or the option needs a word more.
HELP = {
    "n_components": "Width of the representation: how many numbers every row gets. auto chooses it from the data.",
    "n_folds of KernelRidgeClassifier": "Folds by which the penalty is chosen where there are more rows than "
    "--n-kept, and for prediction intervals.",
    "kernel of KernelRidgeClassifier": "How rows are compared. auto compares an L1-Laplacian, a Gaussian and a "
    "Laplacian kernel on a sample of the rows.",
    "lengthscale": "The distance at which the kernel tells rows apart. auto tries multiples of the median distance on "
    "a sample.",
    "input_metric": "Learn from the target how much each column counts (diagonal), or also how columns are turned "
    "(full). auto tries both. A learned metric is used only where it predicts better.",
    "penalty": "How smooth the function is; larger is smoother. auto takes the one with the lowest error on rows "
    "that were left out.",
    "fit_intercept": "Leave out the constant, which is not penalised.",
    "class_weight": "How much the rows of each class count; balanced makes all classes weigh the same.",
    "n_landmarks of KernelRidgeClassifier": "Number of landmarks, the rows that all others are compared with. More "
    "are better, and slower. auto is 1000, none is all rows.",
    "n_kept": "How many rows, at most, are kept in the file, for held-out scores, probabilities and intervals.",
    "preprocess of KernelRidgeClassifier": "How the data are prepared. auto encodes tables; the columns of an array "
    "are used as given or standardised, whichever predicts better.",
    "dtype of KernelRidgeClassifier": "Precision of kernel values and features. auto is float64 up to 20,000 rows.",
    "dtype of NoveltyDetector": "Precision of kernel values and features. auto is float64.",
    "n_folds": "Keep sums by this many random folds of the rows, for held-out values in Python.",
    "loss of KernelEmbedding": "What the representation is trained for; the page on losses in the docs explains it.",
    "views": "Small random changes of a row that should not alter its meaning. auto chooses them by the kind of data.",
    "landmarks of KernelEmbedding": "How landmarks, the rows that all others are compared with, are chosen.",
    "n_landmarks of KernelEmbedding": "Number of landmarks. More are better, and slower. all makes every point a "
    "landmark, for an exact fit of a few thousand points.",
    "dtype": "Precision of kernel values and features. float64 is more exact, and slower. auto is float32, and float64 "
    "with --n-landmarks all.",
    "device": "Where to compute: auto, cpu, cuda, cuda:1, ...; auto uses a GPU if there is one.",
    "preprocess": "How the data are prepared. auto encodes tables and uses arrays as they are; table standardises "
    "the columns of an array; normalize standardises the channels of images; series reads arrays of time "
    "series; none changes nothing.",
    "kernel__network": "The network of the kernel empirical_ntk.",
    "kernel__network__weights": "Weights of the network, an .npz, .safetensors or .pth file. By default they are "
    "random.",
    "kernel__lengthscale": "The distance at which the kernel tells rows apart; rows much nearer than that count as the "
    "same. With median it is taken from the data.",
    "solver__max_epochs": "The largest number of passes over the training rows.",
    "solver__batch_size": "Rows in each step.",
    "solver__learning_rate": "Size of the steps. By default, a size that suits the preconditioner.",
    "solver__replays": "How many times an epoch trains on the rows in memory before it reads more.",
    "solver__preconditioner": "What the gradients are multiplied by.",
    "solver__initialization": "Where training starts.",
    "kernel of SubspaceClustering": "How rows are compared. auto is a Gaussian kernel that follows the data.",
    "n_clusters": "The number of clusters. By default it is estimated from the affinity.",
    "n_iterations": "The largest number of times that the metric is learned.",
    "regularization of SubspaceClustering": "The ridge of the regressions. A larger ridge spreads the coefficients.",
    "projection": "How the metric is learned from the data. none learns no metric (KTRR).",
    "truncation": "How many of its largest coefficients each row keeps; 0 keeps all.",
    "normalization": "How rows are scaled after the metric has changed.",
    "selection": "Which iteration is taken: the one with the clearest clusters, or the last.",
    "coding": "How each row is written as a weighted sum of the others.",
    "n_landmarks of SubspaceClustering": "Landmarks for the regressions.",
    "n_init": "How many times K-means starts.",
    "n_trials": "Total number of trials, including those of earlier runs of the same study.",
    "sampler": "How parameters are drawn. tpe draws near parameters that did well before.",
    "metric": "What is maximised. auto takes the balanced accuracy where one class is more than twice as large as "
    "another.",
    "validation_fraction": "Share of the rows that the model does not see and whose labels are used. By default 2 % "
    "of images, 10 % of other rows, and at least 20 rows of every class.",
    "label_fraction": "Share of these labels that the classifier learns from; the others score it.",
    "n_repeats": "How many times labels are drawn. The table shows the mean and the deviation over these draws.",
    "classifier": "The linear classifier: logistic regression, or the support vector machine of the paper (svm).",
    "title": "The title of the page.",
    "map": "The map that keeps neighbours together. umap and pacmap need packages of that name; none leaves principal "
    "components.",
    "max_rows": "The largest number of rows on the page. If there are more, a random sample is shown.",
    "samples": "Leave real rows out of the page; otherwise everyone who opens it can see them. The page still holds "
    "row numbers, places on the map, coverage, nearest rows and landmarks, contributions, the model's description, and "
    "the labels and concepts that you give.",
    "n_permutations": "How many times labels are shuffled for the p-values of sketches.",
    "max_width": "Files with more features than this are sketched, and have no LogME and no H-score, which need d x d "
    "memory.",
    "method": "alignment chooses members by kernel alignment and then weighs them, stacking weighs all members by "
    "non-negative least squares, r2 keeps the one best member.",
    "task": "What is predicted. auto reads numbers as classes if they are labels of the target, and as probabilities "
    "if they lie between 0 and 1 and the target has two classes.",
    "predictions": "Empty cells mean that a member was trained on that row. Without this option they are an error.",
}


def rows(owner: Callable[..., Any]) -> Iterator[Parameter]:
    """The rows of a class or function."""
    for entry in TABLE[owner]:
        name, source = entry if isinstance(entry, tuple) else (entry, owner)
        yield _row(name, name.rpartition("__")[2], source, owner)


def _row(name: str, bare: str, source: Callable[..., Any], owner: Callable[..., Any]) -> Parameter:
    def known(table: dict[str, Any], default: Any) -> Any:
        return table.get(f"{name} of {owner.__name__}", table.get(name, default))

    argument = inspect.signature(source).parameters[bare]
    about, text = described(source, bare)
    about = about.partition("default=")[0]
    kind = known(TYPES, None) or _kind(argument)
    option = known(OPTIONS, f"--{bare.replace('_', '-')}")
    option, flag = FLAGS.get(name, (option, None))
    panel = TRAINING if name.startswith("solver__") else known(PANELS, PANELS.get(owner.__name__, "Model"))
    if name in FLAGS:
        kind = "flag"
    component = known(KINDS, getattr(owner, "component_kinds", {}).get(name))
    null = known(NULL, "none") if _takes_none(argument.default, about) else ""
    return Parameter(
        name=name,
        option=option,
        kind=kind,
        default=argument.default,
        help=known(HELP, None) or _first_sentence(text, f"{name} of {owner.__name__}"),
        choices=() if kind in ("flag", "path") else _choices(about, null, component),
        null=null,
        panel=panel,
        least=known(LEAST, 1 if kind == "int" else None),
        flag=flag,
    )


def _kind(argument: inspect.Parameter) -> str:
    found = re.search(r"\b(int|float|str)\b", str(argument.annotation))
    return found[0] if found else type(argument.default).__name__


def _choices(about: str, null: str, component: type[Component] | None) -> tuple[str, ...]:
    """Words quoted in the docstring's line of types, and the names of a component's classes."""
    words = re.findall(r'"(\w+)"', about)
    if null:
        words.append(null)
    if component is not None:
        own = named(component).items()
        words += sorted(
            name
            for name, cls in own
            if cls.__module__.startswith("krepes.") and not getattr(cls, "only_objects", False)
        )  # files have rows of numbers and categories, not objects
    return tuple(dict.fromkeys(words))


def _takes_none(default: Any, about: str) -> bool:
    return default is not None and bool(re.search(r"\bNone\b", about))


def described(source: Callable[..., Any], name: str) -> tuple[str, str]:
    """A parameter's line of types, and its description, in the docstring of a class or function."""
    text = inspect.getdoc(source) or ""
    found = re.search(rf"^(?:\w+, )*{name}(?:, \w+)* : (.*)\n((?:    .*\n|\n)*)", text + "\n", re.MULTILINE)
    return (found[1], " ".join(found[2].split())) if found else ("", "")


def _first_sentence(text: str, where: str) -> str:
    if not text:
        raise ValueError(f"{where} has no description: write one in its docstring, or in HELP of {__file__}.")
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0].replace('"', "").replace("`", "")


def module() -> str:
    """The text of the generated module: one row per line."""
    lines = [HEADER + "# fmt: off\nTABLE: dict[str, tuple[Parameter, ...]] = {"]
    unset = {"choices": (), "panel": "Model", "least": None, "flag": None, "null": ""}
    for owner in TABLE:
        lines.append(f'    "{owner.__name__}": (')
        for row in rows(owner):
            words = [repr(value) for key, value in vars(row).items() if key not in unset]
            words += [f"{key}={getattr(row, key)!r}" for key in unset if getattr(row, key) != unset[key]]
            lines.append(f"        Parameter({', '.join(words)}),")
        lines.append("    ),")
    return "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    text = module()
    if "--check" in sys.argv:
        sys.exit(OUTPUT.read_text("utf-8") != text)
    OUTPUT.write_text(text, "utf-8")
    print(f"Wrote {OUTPUT}.")
