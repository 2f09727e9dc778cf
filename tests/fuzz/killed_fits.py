"""Work that is killed: fits of every kind with a checkpoint, commands, and writes over an existing file.

A work reads what `prepare` has written into its folder and leaves one output there. It may be started again at any
moment, and has to end with the same bytes. Sizes are chosen so that it takes about half a second.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from krepes import KernelEmbedding, load
from krepes.evaluation import search
from krepes.kernels import EmpiricalNTK
from krepes.machines import KernelRidgeRegressor
from krepes.networks import MLP
from krepes.solvers import SGD
from krepes.views import Image, Tabular

CHECKPOINT = "fit.checkpoint"
SMALL = {"n_components": 4, "n_landmarks": 40, "random_state": 0}


@dataclass(frozen=True)
class Work:
    """Something to kill.

    Attributes
    ----------
    name : for the report
    prepare : writes inputs into a folder
    run : does the work there, from the beginning or from a checkpoint
    output : the file that it leaves
    kept : whether the output exists before, and has to be whole at any moment
    """

    name: str
    prepare: Callable[[Path], None]
    run: Callable[[Path], None]
    output: str = "model.krepes"
    kept: bool = False


def rows(n: int, d: int = 4) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d))


def table(n: int) -> Any:
    import pyarrow as pa

    X = rows(n)
    kinds = np.array(["a", "b", "c"])[np.digitize(X[:, 1], [-0.5, 0.5])]
    return pa.table({"x": X[:, 0], "kind": kinds, "y": X[:, 2], "weight": np.abs(X[:, 3])})


def nothing(folder: Path) -> None:
    pass


def fit(
    model: Callable[[Path], KernelEmbedding | KernelRidgeRegressor], data: Callable[[Path], Any], **given: Any
) -> Callable[[Path], None]:
    """Fit with a checkpoint and save."""

    def run(folder: Path) -> None:
        fitted = model(folder).fit(data(folder), checkpoint=folder / CHECKPOINT, **given)
        fitted.save(folder / "model.krepes", overwrite=True)

    return run


def plain(**parameters: Any) -> Callable[[Path], KernelEmbedding]:
    return lambda folder: KernelEmbedding(**{**SMALL, **parameters})


def command(*arguments: str) -> Callable[[Path], None]:
    """A command of krepes; arguments with a dot are files in the folder."""

    def run(folder: Path) -> None:
        from krepes.cli import main

        given = [str(folder / word) if "." in word and not word[0].isdigit() else word for word in arguments]
        sys.argv = ["krepes", *given]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"krepes {' '.join(given)} ended with {end.code}") from None

    return run


def write_parquet(folder: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table(100_000), folder / "rows.parquet", row_group_size=5000)


def write_csv(folder: Path) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(table(1500), folder / "rows.csv")


def write_images(folder: Path) -> None:
    from PIL import Image as Picture

    (folder / "pictures.d").mkdir()
    for i, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (150, 8, 8), dtype=np.uint8)):
        Picture.fromarray(pixels).save(folder / "pictures.d" / f"{i:03}.png")


def write_model(folder: Path) -> None:
    """A model, and many rows to transform."""
    np.save(folder / "rows.npy", rows(200_000))
    KernelEmbedding(**SMALL).fit(rows(500)).save(folder / "fitted.krepes")


def write_old(folder: Path) -> None:
    """A model file that will be written over again and again by the same bytes."""
    model = KernelEmbedding(4, n_landmarks=300, random_state=0).fit(rows(400))
    model.save(folder / "fitted.krepes")
    model.save(folder / "model.krepes")


def save_often(folder: Path) -> None:
    model = load(folder / "fitted.krepes")
    for _ in range(40):
        model.save(folder / "model.krepes", overwrite=True)


def tangent(folder: Path) -> KernelEmbedding:
    """Features of the network are kept in a folder of their own."""
    kernel = EmpiricalNTK(
        MLP(widths=(32,)), method="sketch", sketch_size=256, seed=0, cache=str(folder / "cache")
    )
    return KernelEmbedding(**SMALL, kernel=kernel, loss="kernel_pca")


def search_study(folder: Path) -> None:
    """Trials are kept in a file; what they found, without their times, is the output."""
    X = rows(120)
    model = KernelEmbedding(**SMALL, loss="barlow_twins")
    found = search(model, X, (X[:, 0] > 0).astype(int), n_trials=4, study=folder / "search.study")
    text = json.dumps(
        [[trial.number, trial.params, trial.value, trial.user_attrs["scores"]] for trial in found.trials]
    )
    temporary = folder / "result.new"
    temporary.write_text(text)
    temporary.replace(folder / "result.json")


SAMPLES = {"batch_size": 64, "max_epochs": 3}
WORKS = [
    Work("moments of an array", nothing, fit(plain(), lambda _: rows(120_000))),
    Work("moments of Parquet", write_parquet, fit(plain(), lambda folder: folder / "rows.parquet")),
    Work(
        "moments of images",
        nothing,
        fit(plain(views=Image(crop=(0.5, 1.0), flip=0.5)), lambda _: rows(20_000, 64).reshape(-1, 8, 8)),
    ),
    Work(
        "weighted moments",
        nothing,
        fit(
            plain(loss="barlow_twins", views=Tabular(drop=0.2)),
            lambda _: rows(20_000),
            sample_weight=np.abs(rows(20_000)[:, 0]),
        ),
    ),
    Work("moments of pairs", nothing, fit(plain(), lambda _: rows(60_000), positives=rows(60_000) + 0.1)),
    Work(
        "kernel ridge regression",
        nothing,
        fit(
            lambda _: KernelRidgeRegressor(
                n_landmarks=40, random_state=0, kernel="gaussian", input_metric=None
            ),
            lambda _: rows(60_000),
            y=rows(60_000)[:, 0] ** 2,
        ),
    ),
    Work("Adam", nothing, fit(plain(loss="simclr", solver=SGD(**SAMPLES)), lambda _: rows(1500))),
    Work(
        "Adam on fresh views of images",
        nothing,
        fit(
            plain(loss="byol", solver=SGD(**SAMPLES, fresh_views=True)),
            lambda _: rows(1200, 36).reshape(-1, 6, 6),
        ),
    ),
    Work(
        "Gauss-Newton",
        nothing,
        fit(
            plain(
                loss="barlow_twins", solver=SGD(batch_size=100, max_epochs=2, preconditioner="gauss_newton")
            ),
            lambda _: rows(600),
        ),
    ),
    Work("tangent kernel with a cache", nothing, fit(tangent, lambda _: rows(6000))),
    Work(
        "krepes fit of a CSV file",
        write_csv,
        command(
            *(
                "fit",
                "rows.csv",
                "-o",
                "model.krepes",
                "--force",
                "--checkpoint",
                CHECKPOINT,
                "--exclude",
                "weight",
            ),
            *("--n-components", "4", "--n-landmarks", "40", "--loss", "simclr", "--epochs", "6"),
        ),
    ),
    Work(
        "krepes fit of Parquet",
        write_parquet,
        command(
            *("fit", "rows.parquet", "-o", "model.krepes", "--force", "--checkpoint", CHECKPOINT),
            *("--n-components", "4", "--n-landmarks", "40", "--sample-weight", "weight"),
        ),
    ),
    Work(
        "krepes fit of a folder of images",
        write_images,
        command(
            *("fit", "pictures.d", "-o", "model.krepes", "--force", "--checkpoint", CHECKPOINT),
            *("--n-components", "4", "--n-landmarks", "40", "--loss", "barlow_twins", "--epochs", "3"),
            *("--set", "solver=sgd", "--set", "solver__batch_size=16"),
        ),
    ),
    *(
        Work(
            f"krepes transform to {ending}",
            write_model,
            command("transform", "fitted.krepes", "rows.npy", "-o", f"rows.{name}", "--force"),
            f"rows.{name}",
        )
        for ending, name in (("npy", "Z.npy"), ("Parquet", "parquet"))
    ),
    Work("saving over a file", write_old, save_often, kept=True),
    Work("search with a study", nothing, search_study, "result.json"),
]
# A short run takes the first ones: let them differ.
FIRST = ("moments of an array", "Gauss-Newton", "krepes fit of a folder of images", "weighted moments")
WORKS.sort(key=lambda work: FIRST.index(work.name) if work.name in FIRST else len(FIRST))
