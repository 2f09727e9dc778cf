"""`krepes demo`: everything in one run, on a small data set that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from krepes.base.storage.files import check_writable
from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.terminal import console

FILES = {
    "figure": "digits.png",
    "model": "digits.krepes",
    "data": "digits.npz",
    "report": "digits.html",
    "table": "wine.csv",
    "machine": "wine.krepes",
}


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
    paths = {name: output / file for name, file in FILES.items()}
    if output.is_file():
        raise NotADirectoryError(f"{output} is a file; give the name of a folder (--output FOLDER).")
    output.mkdir(parents=True, exist_ok=True)
    for path in paths.values():
        check_writable(path, overwrite, needed_bytes=10_000_000)
    from krepes.cli.work import demonstration

    found = demonstration.show_digits(paths, random_state, overwrite)
    found["machine"] = demonstration.show_machine(paths["table"], paths["machine"], random_state, overwrite)
    _next_steps(paths, found["explained"]["row"])
    return found | {"files": paths}


def _next_steps(paths: dict[str, Path], row: int) -> None:
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
