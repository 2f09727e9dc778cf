"""`krepes demo`: everything in one run, on a small data set that needs no download."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from krepes.cli import options
from krepes.cli.command import command

if TYPE_CHECKING:
    import numpy as np
    from rich.table import Table

    from krepes.embedding import KernelEmbedding
    from krepes.evaluation import ProtocolResult

    Compared = dict[str, tuple[ProtocolResult, float, int | None]]  # result, seconds to fit, rank; by name

# The width and the sample were chosen by looking at these digits: a demonstration, not a benchmark.
N_TEST, N_LANDMARKS, N_COMPONENTS, N_SHOWN = 500, 500, 32, 6
N_COLUMNS = 3
SAMPLE = 49  # of the test rows


@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits in random order: training rows first, then test rows."""

    X: np.ndarray  # shape: (1797, 8, 8), in [0, 1]
    y: np.ndarray
    n_train: int


@dataclass(frozen=True)
class Explained:
    """The landmarks that put one row where it lies, and the part of the way there that the term of each makes."""

    row: int
    landmarks: np.ndarray  # row numbers, largest part first
    parts: np.ndarray


@command
def demo(
    output: Annotated[
        Path, options.option("--output", "-o", "The folder for model, figure and page.", metavar="FOLDER")
    ] = Path("krepes-demo"),
    random_state: options.Seed = 0,
    threads: options.Threads = 1,  # the fastest number for data this small
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Learn a representation of handwritten digits in a few seconds. Nothing is downloaded.

    Compares it with raw pixels and kernel PCA when only a tenth of the labels is known, names the examples \
that explain one digit, and leaves a saved model, a figure and a page that explains every digit. Then a machine \
learns to predict a column of a small table.
    """
    from krepes.base.files import atomic_path, check_writable
    from krepes.cli.terminal import console, line

    paths = {
        name: output / f"digits.{ending}"
        for name, ending in {"figure": "png", "model": "krepes", "data": "npz", "report": "html"}.items()
    }
    paths |= {"table": output / "wine.csv", "machine": output / "wine.krepes"}
    if output.is_file():
        raise NotADirectoryError(f"{output} is a file; give the name of a folder (--output FOLDER).")
    output.mkdir(parents=True, exist_ok=True)
    for path in paths.values():
        check_writable(path, overwrite, needed_bytes=10_000_000)
    import numpy as np

    from krepes.cli.demo_figure import draw
    from krepes.report import write_report
    from krepes.report.advice import ON_THE_COMMAND_LINE

    digits = load_digits(random_state)
    line(
        f"{len(digits.X):,} images of handwritten digits, 8 × 8 pixels. The model sees {digits.n_train:,} of them and "
        "no label;\nthen a linear classifier learns from a tenth of their labels and is tested on the other "
        f"{N_TEST}."
    )
    model, rows = compare(digits, random_state)
    console().print(_table(rows))
    line(f"krepes: {_words(model)}\n", style="dim")
    explained = put_there_by(model, digits, digits.n_train + SAMPLE)
    line(_explanation(digits, explained))
    model.save(paths["model"], overwrite=overwrite)
    with atomic_path(paths["data"], overwrite=overwrite) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, X=digits.X, y=digits.y, n_train=digits.n_train)
    with atomic_path(paths["figure"], overwrite=overwrite) as temporary:
        draw(temporary, digits, model.transform(digits.X), rows, explained, random_state)
    write_report(
        model,
        digits.X,
        paths["report"],
        labels=digits.y,
        title="Handwritten digits",
        overwrite=overwrite,
        random_state=random_state,
        advice=ON_THE_COMMAND_LINE,
    )
    machine = show_machine(paths["table"], paths["machine"], random_state, overwrite)
    _next_steps(paths, explained.row)
    compared = {
        name: {
            "accuracies": result.values("accuracy"),
            "balanced_accuracies": result.values("balanced_accuracy"),
            "rank": rank,
            "seconds": seconds,
        }
        for name, (result, seconds, rank) in rows.items()
    }
    landmarks = [
        {"row": row, "label": digits.y[row], "part": part}
        for row, part in zip(explained.landmarks.tolist(), explained.parts)
    ]
    told = {"row": explained.row, "label": digits.y[explained.row], "landmarks": landmarks}
    return {"compared": compared, "explained": told, "machine": machine, "files": paths}


def load_digits(seed: int) -> Digits:
    """The digits that come with scikit-learn, shuffled."""
    import numpy as np
    from sklearn.datasets import load_digits as bundled

    data = bundled()
    order = np.random.default_rng(seed).permutation(len(data.target))
    return Digits((data.images[order] / 16).astype(np.float32), data.target[order], len(order) - N_TEST)


def compare(digits: Digits, seed: int) -> tuple[KernelEmbedding, Compared]:
    """The learned model, and (protocol result, seconds to fit, rank) of everything compared."""
    import numpy as np
    from sklearn.base import clone

    from krepes import KernelEmbedding
    from krepes.evaluation import plan_protocol
    from krepes.evaluation.linear import C_GRID

    train = np.arange(len(digits.X)) < digits.n_train
    plan = plan_protocol(digits.y, train, ~train, label_fraction=0.1, n_repeats=5, random_state=seed)
    needed = digits.X[plan.rows]
    decades = C_GRID[::2]  # half the usual grid, because nobody likes to wait for a demo
    rows: Compared = {"raw pixels": (plan.run(needed.reshape(len(needed), -1), C_grid=decades), 0.0, None)}
    default = KernelEmbedding(N_COMPONENTS, n_landmarks=N_LANDMARKS, random_state=seed)
    for name, loss in (("kernel PCA", "kernel_pca"), ("krepes", default.loss)):
        start = time.perf_counter()
        model = clone(default).set_params(loss=loss).fit(digits.X[: digits.n_train])
        seconds = time.perf_counter() - start
        rows[name] = (plan.run(model.transform(needed), C_grid=decades), seconds, model.rank_)
    return model, rows


def put_there_by(model: KernelEmbedding, digits: Digits, row: int) -> Explained:
    """The landmarks of the default explanation, see `krepes.explain.top_landmarks`."""
    from krepes.explain import top_landmarks

    top = top_landmarks(model, digits.X[row : row + 1], n_top=N_SHOWN)
    assert top.rows is not None
    return Explained(row, top.rows[0], top.values[0])


def _table(rows: Compared) -> Table:
    from krepes.cli.terminal import table
    from krepes.evaluation.linear import LinearClassifier

    columns = ("", "width", "rank", "accuracy", "balanced accuracy", "time to fit")
    shown = table(*columns, right=columns[1:])
    for name, (result, seconds, rank) in rows.items():
        classifier = result.results[0].model
        assert isinstance(classifier, LinearClassifier)
        scores = (result.words(metric) for metric in ("accuracy", "balanced_accuracy"))
        style = "bold green" if name == "krepes" else ""
        fitted = ("", "") if rank is None else (f"{rank:,}", f"{seconds:.1f} s")
        shown.add_row(name, str(classifier.coef.shape[1]), fitted[0], *scores, fitted[1], style=style)
    return shown


def _words(model: KernelEmbedding) -> str:
    from krepes.report.words import component_words, views_words

    parts = f"{component_words(model.loss_)} loss, {component_words(model.kernel_)} kernel"
    return f"{len(model.landmarks_):,} landmarks, {parts}, views: {views_words(model)}"


def _explanation(digits: Digits, explained: Explained) -> str:
    examples = "\n".join(
        f"  row {row:>4}  a {digits.y[row]}  adds {part:.2f}"
        for row, part in zip(explained.landmarks, explained.parts)
    )
    return (
        f"Why does test row {explained.row}, a {digits.y[explained.row]}, lie where it lies? The landmarks, real "
        f"training rows, that add most to it:\n{examples}\n"
        "1 is the whole way from the middle of the data to its place; others take some of it back.\n"
    )


def _next_steps(paths: dict[str, Path], row: int) -> None:
    from krepes.cli.terminal import console

    out, model, data = console(), paths["model"], paths["data"]
    for name, path in paths.items():
        where = "  (open it in a browser)" if name == "report" else ""
        out.print(f"[bold]{name.capitalize():<7}[/]  {path}{where}", highlight=False, soft_wrap=True)
    steps = {
        f"krepes info {model}": "what the model is",
        f"krepes explain {model} {data} --sample {row}": "which examples a digit is made of",
        f"krepes evaluate {model} {data} --label-fraction 0.05 --knn": "with half as many labels",
        f"krepes transform {model} {data} -o digits.parquet": "the representation as a table",
        f"krepes fit {data} --loss vicreg -o mine.krepes": "learn with another loss",
        f"krepes explain {paths['machine']} {paths['table']} --sample 0": "why a wine is predicted as it is",
    }
    out.print("\n[bold]Try next[/]")
    width = max(map(len, steps))
    for step, words in steps.items():
        out.print(f"  [cyan]{step:<{width}}[/]  [dim]{words}[/]", highlight=False, soft_wrap=True)


def show_machine(table: Path, output: Path, seed: int, overwrite: bool) -> dict[str, Any]:
    """Train on half of scikit-learn's wines, test on the others, and leave the table and the machine."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv
    from sklearn.datasets import load_wine

    from krepes.base.files import atomic_path
    from krepes.cli.terminal import line
    from krepes.machines import KernelRidgeClassifier
    from krepes.report.machine_card import plain_kernel
    from krepes.report.words import component_words

    data = load_wine()
    cultivar = data.target_names[data.target]
    wines = pa.table([*data.data.T, cultivar.tolist()], names=[*data.feature_names, "cultivar"])
    with atomic_path(table, overwrite=overwrite) as temporary:
        csv.write_csv(wines, temporary, csv.WriteOptions(quoting_style="none"))
    train = np.random.default_rng(seed).permutation(len(wines)) < len(wines) // 2
    start = time.perf_counter()
    machine = KernelRidgeClassifier(random_state=seed).fit(
        wines, "cultivar", sample_weight=train.astype(float)
    )
    seconds = time.perf_counter() - start
    accuracy = float((machine.predict(wines.filter(~train)) == cultivar[~train]).mean())
    found = machine.column_importances()
    machine.save(output, overwrite=overwrite)
    first = ", ".join(f"{found.names[j]} {found.words(j)}" for j in found.order[:N_COLUMNS])
    line(
        f"A machine for a table: trained on {train.sum()} of {len(wines)} wines, in {seconds:.1f} s, it predicts the "
        f"cultivar of the\nothers with an accuracy of {100 * accuracy:.1f} %. Chosen by rows left out: "
        f"{component_words(plain_kernel(machine))}.\nThe columns that count most: {first}.\n"
    )
    return {"accuracy": accuracy, "n_train": int(train.sum()), "seconds": seconds, "columns": found.names}
