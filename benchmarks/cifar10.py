"""CIFAR-10 with the tangent kernel of a network that was trained on ImageNet: the paper's Tables 1 and 3, and Figure 3.

    python benchmarks/cifar10.py WEIGHTS [--network efficientnet-lite0] [--resolution 160] [--cache FOLDER]

20,000 training images, labels on a tenth of them, all 10,000 test images. Beside the losses: the two baselines that the
paper leaves out, a linear probe on the network's own features and kernel PCA on the same kernel (of the same views).
Tangent features are computed once, by one process per core, and kept in the cache; every fit reads them from there.

For every loss: accuracy of a linear probe, and kappa, the number of strongest landmarks that show all classes. Then the
concept "sea" (from another data set, against its other scenes) in the representation of Barlow Twins, as a figure.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from recording import clock, data_file, record

from krepes import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.explain import Concept, landmark_norms
from krepes.explain.expansion import Expansion, all_values
from krepes.kernels import EmpiricalNTK
from krepes.kernels.tangent.feature_cache import FeatureCache
from krepes.landmarks import PivotedCholesky
from krepes.networks import as_network
from krepes.solvers import SGD
from krepes.views import Image

SEED = 0
PUBLISHED = {
    "barlow_twins": 90.31,
    "vicreg": 89.88,
    "simclr": 89.54,
    "byol": 88.76,
    "spectral_contrastive": 87.95,
}
# Of EfficientNet-Lite0: 2.84 of 3.37 million parameters, and better than all of them (see the README). None: all.
LAST_BLOCKS = ["_blocks.1[0-9]*", "_conv_head*", "_bn1*", "head*"]
N_CANDIDATES, LABEL_SHARE = 4000, 0.1
PICTURED = 5


def images(name: str, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    with np.load(data_file(name)) as file:
        return file["X"][:n_rows], file["y"][:n_rows]


def kernel(args: argparse.Namespace) -> EmpiricalNTK:
    network = as_network(args.network).set_params(weights=args.weights, resolution=args.resolution)
    return EmpiricalNTK(
        network,
        method="sketch",
        parameters=args.parameters,
        sketch_size=args.sketch,
        seed=SEED,
        cache=args.cache,
    )


def model(args: argparse.Namespace, **settings: object) -> KernelEmbedding:
    return KernelEmbedding(
        args.components,
        kernel=kernel(args),
        views=Image(n_views=2),
        landmarks=PivotedCholesky(max_candidates=N_CANDIDATES),
        n_landmarks=args.landmarks,
        random_state=SEED,
        **settings,
    )


def warm(args: argparse.Namespace, part: int, n_parts: int) -> None:
    """Compute a part of the tangent features that the fits will ask for."""
    torch.set_num_threads(1)
    X, _ = images("cifar10_train20k.npz", args.rows)
    T, _ = images("cifar10_test10k.npz", args.test_rows)
    rows = torch.from_numpy(X).float() / 255
    fitted = kernel(args).fitted(rows[:2])
    seed = int(np.random.RandomState(SEED).randint(2**31 - 1))
    views = Image(n_views=2).fitted(rows[:2])
    for start in range(part * 100, len(rows), n_parts * 100):
        block = slice(start, start + 100)
        for index in range(2):
            fitted.features(views.view(rows[block], torch.arange(len(rows))[block], seed, index))
        if part == 0 and start % 2000 == 0:
            print(f"{start:,} rows, {time.strftime('%H:%M:%S')}", flush=True)
    tested = torch.from_numpy(T).float() / 255
    for start in range(part * 100, len(tested), n_parts * 100):
        fitted.features(tested[start : start + 100])


def figure(
    fitted: KernelEmbedding, X: np.ndarray, others: np.ndarray, T: np.ndarray, y_test: np.ndarray, path: Path
) -> dict:
    """The concept "sea" in the five test images that have most of it, by class.

    Its absence are other scenes and, because a concept is read on CIFAR-10, `others`, random images of that.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with np.load(data_file("intel_scenes_32x32.npz")) as file:
        scenes, kinds, names = file["X"], file["y"], list(file["class_names"])
    generator = np.random.default_rng(SEED)
    at_sea = generator.permutation(np.flatnonzero(kinds == names.index("sea")))[:500]
    elsewhere = generator.permutation(np.flatnonzero(kinds != names.index("sea")))[:250]
    absent = np.concatenate([scenes[elsewhere], others[:250]])
    concept = Concept(scenes[at_sea], absent, name="sea").fit(fitted)
    classes = np.load(data_file("cifar10_test10k.npz"))["class_names"]
    own = concept.scores(fitted.transform(T))
    by_class = {str(classes[c]): round(float(own[y_test == c].mean()), 2) for c in range(10)}
    chosen = [int(np.flatnonzero(y_test == c)[np.argmax(own[y_test == c])]) for c in (8, 0, 2, 1, 4)][
        :PICTURED
    ]
    places, scores = most_influential(fitted, T[chosen], concept)
    rows = fitted.landmark_indices_[places]
    drawing, axes = plt.subplots(PICTURED, 6, figsize=(8.4, 7.6))
    for row, panel in enumerate(axes):
        picture, label = T[chosen[row]], str(classes[y_test[chosen[row]]])
        panel[0].imshow(picture)
        panel[0].set_title(f"{label}: {scores[row].sum():+.0f}", fontsize=9, fontweight="bold")
        for place in range(5):
            panel[place + 1].imshow(X[rows[row, place]])
            panel[place + 1].set_title(f"{scores[row, place]:+.0f}", fontsize=9)
        for axis in panel:
            axis.set_xticks([])
            axis.set_yticks([])
    drawing.suptitle(
        "The concept “sea”: a test image with its aggregated score, and its five most influential\n"
        "landmarks with their scores [krepes, Eq. 3]",
        fontsize=10,
    )
    drawing.tight_layout()
    drawing.savefig(path, dpi=110)
    return {
        "sea: balanced accuracy %": round(100 * concept.accuracy_, 1),
        "sea: p-value": round(float(concept.p_value_ or 1), 3),
        "sea: stability": round(concept.stability_, 3),
        "sea: mean score by class": by_class,
    }


def most_influential(
    fitted: KernelEmbedding, X: np.ndarray, concept: Concept, n_top: int = 5
) -> tuple[np.ndarray, np.ndarray]:
    """The landmarks with the largest iota, and their scores for a concept, (n, n_top) [krepes, Eq. 3].

    Score(l -> x, c) = (z_l . v_c) iota_l(x),   iota_l(x) = k(x, x_l) |a_l|;   z_l from the mean of the negatives.
    """
    norms = torch.from_numpy(landmark_norms(fitted))
    influence = all_values(fitted, X, lambda K: K.double() * norms)
    places = np.argsort(-np.abs(influence), axis=1, kind="stable")[:, :n_top]
    alignment = concept.scores(Expansion.of(fitted).at_landmarks.numpy())
    return places, alignment[places] * np.take_along_axis(influence, places, 1)


def class_coverage(fitted: KernelEmbedding, y: np.ndarray) -> dict[str, float | None]:
    """How many landmarks it takes to see every class, the largest |a_l| first; and in random order [krepes, sec. 5]."""
    labels, classes = y[fitted.landmark_indices_], np.unique(y)
    if len(np.unique(labels)) < len(classes):
        return {"kappa": None, "kappa by chance": None}
    generator = np.random.default_rng(0)
    orders = [labels[np.argsort(-landmark_norms(fitted), kind="stable")]]
    orders += [generator.permutation(labels) for _ in range(1000)]
    found = [1 + max(int(np.argmax(order == c)) for c in classes) for order in orders]
    return {"kappa": found[0], "kappa by chance": round(float(np.mean(found[1:])), 1)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("weights")
    parser.add_argument("--network", default="efficientnet-lite0")
    parser.add_argument("--resolution", type=int, default=160)
    parser.add_argument("--parameters", nargs="*", default=LAST_BLOCKS)
    parser.add_argument("--cache", default=str(Path(tempfile.gettempdir()) / "krepes-cifar10"))
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--test-rows", type=int, default=10_000)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--components", type=int, default=128)
    parser.add_argument("--sketch", type=int, default=4096)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--figure", type=Path, default=None)
    parser.add_argument("--only-figure", action="store_true")
    args = parser.parse_args()
    args.parameters = args.parameters or None
    figures: dict = {"network": args.network, "resolution": args.resolution, "landmarks": args.landmarks}
    figures["parameters"] = args.parameters or "all"
    FeatureCache(args.cache, "")  # the folder
    n_parts = os.cpu_count() or 1
    with clock(figures, "seconds for the tangent features"):
        workers = [
            multiprocessing.get_context("spawn").Process(target=warm, args=(args, part, n_parts))
            for part in range(n_parts)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    X, y = images("cifar10_train20k.npz", args.rows)
    T, y_test = images("cifar10_test10k.npz", args.test_rows)
    if args.only_figure:
        draw(args, figures, model(args, loss="barlow_twins").fit(X))
        return record("cifar10_concept", figures)
    labelled = labelled_rows(len(X))
    figures |= {"rows": len(X), "labels": len(labelled), "test rows": len(T)}

    def probed(name: str, Z: np.ndarray, Z_test: np.ndarray) -> None:
        probe = linear_probe(Z, y[labelled], Z_test, y_test, random_state=SEED)
        figures[f"{name}: accuracy %"] = round(100 * probe.accuracy, 2)
        if name in PUBLISHED:
            figures[f"{name}: the paper's, ResNet-34 and 50,000 images"] = PUBLISHED[name]

    module = (
        as_network(args.network)
        .set_params(weights=args.weights, resolution=args.resolution)
        .build((32, 32, 3))
    )
    with torch.no_grad():
        own = [
            torch.cat(
                [module(torch.from_numpy(rows[i : i + 50]).float() / 255) for i in range(0, len(rows), 50)]
            )
            for rows in (X[labelled], T)
        ]
    probed("features of the network", *(part.numpy() for part in own))
    with clock(figures, "seconds of the pass, features kept"):
        first = model(args, loss="spectral_contrastive").fit(X)
    models = {"spectral_contrastive": first}
    for loss in ("kernel_pca", "barlow_twins", "vicreg"):
        models[loss] = first.refit(loss=loss, regularization=0.0 if loss == "kernel_pca" else 0.01)
    for loss in ("simclr", "byol"):
        with clock(figures, f"{loss}: seconds of fit, features kept"):
            models[loss] = model(args, loss=loss, solver=SGD(max_epochs=args.epochs)).fit(X)
    for loss, fitted in models.items():
        probed(loss, fitted.transform(X[labelled]), fitted.transform(T))
        figures |= {f"{loss}: {name}": value for name, value in class_coverage(fitted, y).items()}
    if args.figure is not None:
        draw(args, figures, models["barlow_twins"])
    record("cifar10", figures)


def draw(args: argparse.Namespace, figures: dict, fitted: KernelEmbedding) -> None:
    X, _ = images("cifar10_train20k.npz", args.rows)
    T, y_test = images("cifar10_test10k.npz", args.test_rows)
    figures |= figure(fitted, X, X[labelled_rows(len(X))], T, y_test, args.figure)


def labelled_rows(n: int) -> np.ndarray:
    return np.random.default_rng(SEED).permutation(n)[: int(LABEL_SHARE * n)]


if __name__ == "__main__":
    main()
