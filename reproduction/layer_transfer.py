"""Layers of pretrained networks for new tasks with few labels: Table 3.2 and Figures 3.4 and 3.5 of [tang].

Every method sees the same labelled images and is tested on the same others; what is not labelled serves the
transductive form. Features of all blocks are computed once, at a low resolution, and averaged over positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import softmax

from krepes.alignment import LayerTransferClassifier, one_hot
from krepes.evaluation import linear_probe
from krepes.regression import LeaveOneOutRidge, expected_calibration_error, temperature
from reproduction.datasets import LOADERS
from reproduction.experiments import Conditions, Experiment, Findings
from reproduction.pretrained_features import NETWORKS, Pretrained, layer_features

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASETS = {"cifar10": "CIFAR-10", "mnist": "MNIST", "scenes": "Intel scenes"}
BLOCKS = {
    "efficientnet_lite0": ("_stem_activation", *(f"_blocks.{k}" for k in range(16)), ""),
    "mobilenet_v2": (*(f"features.{k}" for k in range(18)), ""),
}
TOP = "output"
LABELS, POOL_ROWS, TEST_ROWS, REPEATS, RESOLUTION = (100, 500, 1000), 2000, 2000, 3, 64
OPTIONS: dict[str, Any] = {"n_landmarks": 1000}

Layers = Mapping[str, np.ndarray]


class TransferOutcome(NamedTuple):
    """The results of one method in one trial."""

    accuracy: float
    calibration_error: float
    layers: list[str]


Results = Mapping[tuple[str, str, int, str], list[TransferOutcome]]  # by data, network, labels, method
Method = Callable[[Layers, np.ndarray, Layers, Layers, int], tuple[np.ndarray, list[str]]]


def logistic_on_top(
    train: Layers, codes: np.ndarray, test: Layers, free: Layers, seed: int
) -> tuple[np.ndarray, list[str]]:
    """Multinomial logistic regression, C by validation."""
    dummy = np.resize(np.unique(codes), len(test[TOP]))  # because the probe wants labels to test on
    probe = linear_probe(train[TOP], codes, test[TOP], dummy, random_state=seed)
    assert probe.model is not None
    scores = probe.model.decision_function(test[TOP])
    return softmax(np.hstack([0 * scores, scores]) if scores.shape[1] == 1 else scores, axis=1), [TOP]


def ridge_on_top(
    train: Layers, codes: np.ndarray, test: Layers, free: Layers, seed: int
) -> tuple[np.ndarray, list[str]]:
    """Ridge regression, alpha and temperature by leave-one-out."""
    machine = LeaveOneOutRidge().fit(train[TOP], one_hot(codes))
    T = temperature(machine.loo_predictions_, codes, 1 / (len(codes) + 2))
    return softmax(machine.predict(test[TOP]) / T, axis=1), [TOP]


def ridge_on_all(
    train: Layers, codes: np.ndarray, test: Layers, free: Layers, seed: int
) -> tuple[np.ndarray, list[str]]:
    """Ridge regression on all layers side by side, each divided by the root of its total variance."""
    scales = {name: np.sqrt(Z.var(axis=0).sum()) for name, Z in train.items()}
    first, second = (np.hstack([Z / scales[name] for name, Z in part.items()]) for part in (train, test))
    machine = LeaveOneOutRidge().fit(first, one_hot(codes))
    T = temperature(machine.loo_predictions_, codes, 1 / (len(codes) + 2))
    return softmax(machine.predict(second) / T, axis=1), list(train)


def transfer(unlabelled: bool = False, top: bool = False, **options: Any) -> Method:
    """Layer transfer with these options, of all layers or the top alone."""

    def method(
        train: Layers, codes: np.ndarray, test: Layers, free: Layers, seed: int
    ) -> tuple[np.ndarray, list[str]]:
        train, test, free = ({TOP: part[TOP]} if top else part for part in (train, test, free))
        model = LayerTransferClassifier(random_state=seed, **OPTIONS, **options)
        model.fit(train, codes, free if unlabelled else None)
        return model.predict_proba(test), model.layers_

    return method


METHODS: dict[str, Method] = {
    "logistic, top layer": logistic_on_top,
    "ridge, top layer": ridge_on_top,
    "Gaussian, top layer": transfer(top=True, kernel="gaussian"),
    "ridge, all layers": ridge_on_all,
    "alignment, Gaussian (thesis)": transfer(
        weighting="alignment", kernel="gaussian", n_features_per_layer=128
    ),
    "uniform, Gaussian": transfer(weighting="uniform", kernel="gaussian"),
    "layer transfer": transfer(),
    "transfer, transductive": transfer(unlabelled=True),
}
BASELINE, OURS = "logistic, top layer", "layer transfer"


def features_of(
    given: Pretrained, dataset: str, conditions: Conditions
) -> tuple[Layers, np.ndarray, Layers, np.ndarray]:
    """Layers and classes of the images that labels are drawn from, and of those for testing."""
    assert conditions.data is not None
    assert conditions.weights is not None
    (X, y), (X_test, y_test) = LOADERS[dataset](Path(conditions.data))
    rng = np.random.default_rng(conditions.seed)
    here = np.sort(rng.permutation(len(y))[: conditions.rows or POOL_ROWS])
    there = np.sort(rng.permutation(len(y_test))[:TEST_ROWS])
    images = np.concatenate([X[here], X_test[there]])
    blocks = replace(given, layers=BLOCKS[given.network], classifier=None)
    key = f"layer-transfer-{dataset}-seed{conditions.seed}-{len(here)}"
    layers = layer_features(
        blocks, conditions.weights, images, RESOLUTION, conditions.cache, key, conditions.say
    )
    first, rest = (
        {k: Z[rows] for k, Z in layers.items()} for rows in np.split(np.arange(len(images)), [len(here)])
    )
    return first, y[here], rest, y_test[there]


def trial(
    pool: Layers, y: np.ndarray, test: Layers, y_test: np.ndarray, n_labels: int, seed: int
) -> dict[str, TransferOutcome]:
    """(accuracy, calibration error, layers) of every method with labels drawn class by class."""
    rng = np.random.default_rng(seed)
    classes, codes = np.unique(y, return_inverse=True)
    # The same number of every class, if there are that many.
    rank = np.empty(len(y))
    for c in range(len(classes)):
        rows = rng.permutation(np.flatnonzero(codes == c))
        rank[rows] = np.arange(len(rows))
    order = np.lexsort((rng.random(len(y)), rank))
    labelled, free = np.sort(order[:n_labels]), np.sort(order[n_labels:])
    train, others = ({k: Z[rows] for k, Z in pool.items()} for rows in (labelled, free))
    truth = np.searchsorted(classes, y_test)
    found = {}
    for name, method in METHODS.items():
        P, layers = method(train, codes[labelled], test, others, seed)
        right = float((P.argmax(1) == truth).mean())
        found[name] = TransferOutcome(right, expected_calibration_error(P, truth), layers)
    return found


def run(conditions: Conditions) -> Findings:
    """All data sets, networks, numbers of labels and methods."""
    n_repeats = conditions.repeats or REPEATS
    results: dict[tuple[str, str, int, str], list[TransferOutcome]] = {}
    for dataset, title in DATASETS.items():
        for given in NETWORKS:
            pool, y, test, y_test = features_of(given, dataset, conditions)
            sizes = sorted({min(n, 2 * len(y) // 3) for n in LABELS})
            for n_labels in sizes:
                for repeat in range(n_repeats):
                    seed = 1000 * conditions.seed + repeat
                    for method, result in trial(pool, y, test, y_test, n_labels, seed).items():
                        results.setdefault((title, given.name, n_labels, method), []).append(result)
                ours = np.mean([r.accuracy for r in results[title, given.name, n_labels, OURS]])
                conditions.say(f"{title}, {given.name}, {n_labels:,} labels: {OURS} {100 * ours:.1f} %")
    columns = (
        "data",
        "network",
        "labels",
        "method",
        "accuracy %",
        "sd",
        "ECE %",
        "sd ",
        "layers",
    )
    table: list[tuple[Any, ...]] = []
    for (title, network, n_labels, method), values in results.items():
        accuracy = 100 * np.array([value.accuracy for value in values])
        error = 100 * np.array([value.calibration_error for value in values])
        n_layers = np.mean([len(value.layers) for value in values])
        table.append(
            (title, network, n_labels, method, round(float(accuracy.mean()), 2), round(float(accuracy.std()), 2),
             round(float(error.mean()), 2), round(float(error.std()), 2), round(float(n_layers), 1))
        )  # fmt: skip
    return Findings(columns, table, _summary(results), lambda: draw(results))


def _summary(results: Results) -> tuple[str, ...]:
    cells = list(dict.fromkeys(key[:3] for key in results))

    def means(method: str, what: str) -> np.ndarray:
        return np.array(
            [100 * np.mean([getattr(v, what) for v in results[(*cell, method)]]) for cell in cells]
        )

    lines = []
    for method in METHODS:
        right, error = means(method, "accuracy"), means(method, "calibration_error")
        gain = right - means(BASELINE, "accuracy")
        line = f"{method}: {right.mean():.1f} % right, calibration error {error.mean():.1f} %, on average"
        against = f"; {gain.mean():+.1f} points against {BASELINE}, better in {(gain > 0).sum()} of {len(cells)} cases"
        lines.append(line + ("." if method == BASELINE else f"{against}."))
    others = [name for name in METHODS if name not in (OURS, "transfer, transductive")]
    best = np.max([means(name, "accuracy") for name in others], axis=0)
    # Test rows are shared, so that this standard error of one accuracy is a generous one of a difference.
    noise = np.sqrt(best * (100 - best) / TEST_ROWS)
    ours = means(OURS, "accuracy")
    lines.append(
        f"{OURS} is ahead of all others in {(ours > best).sum()} of {len(cells)} cases, and behind by at most a "
        f"standard error in {(ours > best - noise).sum()}; {(ours - best).mean():+.2f} points against the best of them."
    )
    chosen: dict[str, list[str]] = {}
    for (_, network, _, method), values in results.items():
        if method == OURS:
            chosen.setdefault(network, []).extend(name for value in values for name in value.layers)
    for network, names in chosen.items():
        common, counts = np.unique(names, return_counts=True)
        often = ", ".join(common[np.argsort(-counts, kind="stable")][:5])
        lines.append(f"Layers of {network} chosen most often: {often}.")
    return tuple(lines)


def draw(results: Results) -> Figure:
    """Accuracy above, calibration error below, over the number of labels; a column for every data set and network."""
    from matplotlib.figure import Figure

    panels_of = list(dict.fromkeys(key[:2] for key in results))
    figure = Figure(figsize=(2.7 * len(panels_of), 5.4), layout="constrained")
    panels = figure.subplots(2, len(panels_of), sharex=True, squeeze=False)
    colours = ("0.45", "#2879b9", "#08306b", "#7b3f98", "#8c6d31", "#e08a2c", "#c43c1e", "#2a8a4a")
    styles = dict(zip(METHODS, zip(colours, ("o:", "s:", "v:", "P:", "x-", "^-", "o-", "D-"))))
    for column, (dataset, network) in enumerate(panels_of):
        for method, (colour, style) in styles.items():
            sizes = [n for title, name, n, m in results if (title, name, m) == (dataset, network, method)]
            for row, what in enumerate(("accuracy", "calibration_error")):
                values = [
                    [100 * getattr(v, what) for v in results[dataset, network, n, method]] for n in sizes
                ]
                panels[row, column].errorbar(
                    sizes, [np.mean(v) for v in values], [np.std(v) for v in values], fmt=style, color=colour,
                    markersize=4, linewidth=1.2, capsize=2, label=method if row == column == 0 else None,
                )  # fmt: skip
        panels[0, column].set_title(f"{dataset}\n{network}", fontsize=10)
        panels[1, column].set_xscale("log")
        panels[1, column].set_xticks(sizes, [f"{n:,}" for n in sizes])
        panels[1, column].minorticks_off()
        panels[1, column].set_ylim(bottom=0)
        panels[1, column].set_xlabel("labels")
        for panel in panels[:, column]:
            panel.spines[["top", "right"]].set_visible(False)
    panels[0, 0].set_ylabel("accuracy, %")
    panels[1, 0].set_ylabel("calibration error, %")
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


LAYER_TRANSFER = Experiment(
    name="layer-transfer",
    title="All layers of a network against its top layer (Table 3.2 and Fig. 3.4 of the thesis on kernel alignment)",
    run=run,
    needs=("data", "weights"),
    notes=(
        "The thesis: ResNet-18 and -34 with all labels of CIFAR-10; logistic regression 87.45 and 89.94 %, layer "
        "transfer 90.77 and 92.31 %. Ours: smaller networks, images at 64 pixels, up to 1,000 labels.",
        "Uniform weights take all layers, each with the same variance. The transductive form also sees the images "
        "whose labels were not drawn, never those for testing.",
        "Probabilities of ridge regressions are scaled by the temperature that leave-one-out predictions ask for. "
        "Those of logistic regression, whose C has the best accuracy on labels held out, are as they are.",
    ),
)
