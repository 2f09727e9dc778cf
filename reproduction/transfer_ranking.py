"""Transferability scores against the accuracy of a linear model, on random sub-tasks  [tang, Fig. 2.9].

A task is some classes of a data set and some rows of each. Scores see its training rows, and accuracy is that of ridge
regression, its strength chosen by leave-one-out, on rows held out. Three questions:

- between tasks, the network's output: does a higher score mean a higher accuracy? (the thesis's figure)
- the same with data set, number of classes and rows per class held fixed: residuals of a regression on these, because
  more classes lower CKA and accuracy both, and a correlation may be nothing else;
- within a task, over layers and networks: does the score find the better features? (what it is for)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import kendalltau, pearsonr

from krepes.alignment import TransferStatistics, leep, one_hot
from krepes.regression import LeaveOneOutRidge
from reproduction.experiments import Conditions, Experiment, Findings
from reproduction.pretrained_features import NETWORKS, layer_features, sampled_images

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASETS = ("cifar10", "mnist")
RESOLUTION, CLASS_COUNTS, ROWS_PER_CLASS = 64, (2, 3, 5, 8), (15, 30, 60)
SCORES = (
    "accuracy left out",
    "log CKA",
    "log sketched CKA",
    "LogME",
    "H-score",
    "H-score as published",
    "LEEP",
)


@dataclass(frozen=True)
class TransferTask:
    """Rows of a data set for training and testing, and their classes."""

    dataset: str
    n_classes: int
    per_class: int
    train: np.ndarray
    test: np.ndarray


def draw_tasks(dataset: str, y: np.ndarray, n_tasks: int, rng: np.random.Generator) -> list[TransferTask]:
    """Random classes, with at most half of their rows for training and the others for testing."""
    tasks, classes = [], np.unique(y)
    for number in range(n_tasks):
        n_classes = min(CLASS_COUNTS[number % len(CLASS_COUNTS)], len(classes))
        per_class = int(rng.choice(ROWS_PER_CLASS))
        train, test = [], []
        for c in rng.permutation(classes)[:n_classes]:
            rows = rng.permutation(np.flatnonzero(y == c))
            size = min(per_class, len(rows) // 2)
            train.append(rows[:size])
            test.append(rows[size:])
        tasks.append(TransferTask(dataset, n_classes, per_class, np.concatenate(train), np.concatenate(test)))
    return tasks


def accuracy(Z: np.ndarray, y: np.ndarray, task: TransferTask) -> float:
    """The accuracy of ridge regression onto the classes, on the rows held out."""
    classes = np.unique(y[task.train])
    model = LeaveOneOutRidge().fit(Z[task.train], one_hot(y[task.train]))
    found = classes[np.argmax(model.predict(Z[task.test]), axis=1)]
    return float(np.mean(found == y[task.test]))


def scores(Z: np.ndarray, y: np.ndarray, probabilities: np.ndarray | None) -> dict[str, float]:
    """Every score on the rows of a task."""
    wanted = ("leave_one_out", "log_cka", "logme", "h_score", "h_score_published")
    exact = TransferStatistics(y, scores=wanted).update(Z).score()
    sketched = TransferStatistics(y, scores=("log_cka",), method="sketch", n_permutations=1).update(Z).score()
    found = (
        exact.leave_one_out,
        exact.log_cka,
        sketched.log_cka,
        exact.logme,
        exact.h_score,
        exact.h_score_published,
    )
    values = dict(zip(SCORES, found))
    return values if probabilities is None else values | {"LEEP": leep(probabilities, y)}


def run(conditions: Conditions) -> Findings:
    assert conditions.data is not None  # the experiment has checked
    assert conditions.weights is not None
    n_rows, n_tasks = conditions.rows or 2000, conditions.repeats or 20
    results: list[dict[str, Any]] = []
    for dataset in DATASETS:
        X, y = sampled_images(dataset, conditions.data, n_rows, conditions.seed)
        rng = np.random.default_rng([conditions.seed, DATASETS.index(dataset)])
        tasks = draw_tasks(dataset, y, n_tasks, rng)
        for network in NETWORKS:
            key = f"{dataset}-seed{conditions.seed}"
            found = layer_features(
                network, conditions.weights, X, RESOLUTION, conditions.cache, key, conditions.say
            )
            probabilities = found.pop("probabilities", None)
            conditions.say(f"{network.name}: {n_tasks} tasks of {dataset}")
            for number, task in enumerate(tasks):
                for layer, Z in found.items():
                    source = probabilities if layer == "output" else None
                    results.append(
                        {
                            "task": (dataset, number),
                            "model": network.name,
                            "layer": layer,
                            "control": (dataset, task.n_classes, task.per_class),
                            "accuracy": accuracy(Z, y, task),
                            **scores(
                                Z[task.train], y[task.train], None if source is None else source[task.train]
                            ),
                        }
                    )
    return findings(results)


def findings(results: list[dict[str, Any]]) -> Findings:
    """Correlations of every score with accuracy, between tasks and within them."""
    outputs = [row for row in results if row["layer"] == "output"]
    table = []
    for score in SCORES:
        between = [row for row in outputs if np.isfinite(row.get(score, np.nan))]
        plain = [_correlations(_of(between, model), score) for model in _models(between)]
        fixed = [_correlations(_of(between, model), score, fixed=True) for model in _models(between)]
        within = _within(results, score)
        table.append(
            (score, *np.mean(plain, axis=0).tolist(), *np.mean(fixed, axis=0).tolist(), within[0], within[1])
        )
    columns = (
        "score",
        "Pearson",
        "Kendall",
        "Pearson, fixed",
        "Kendall, fixed",
        "within tasks",
        "chosen",
    )
    return Findings(columns, table, _summary(table, results), lambda: _figure(outputs))


def _models(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in rows))


def _of(rows: list[dict[str, Any]], model: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["model"] == model]


def _correlations(rows: list[dict[str, Any]], score: str, fixed: bool = False) -> tuple[float, float]:
    """Pearson's and Kendall's correlation with accuracy, of residuals on the controls if they are held fixed."""
    values, reached = np.array([[row[score], row["accuracy"]] for row in rows]).T
    if fixed:
        # Jointly by data set, because classes cost accuracy on one and hardly any on the other.
        kinds = [[row["control"][:2] for row in rows], [row["control"][2] for row in rows]]
        controls = np.array(
            [[kind[i] == level for kind in kinds for level in sorted(set(kind))] for i in range(len(rows))],
            dtype=float,
        )
        fit = controls @ np.linalg.lstsq(controls, np.stack([values, reached], axis=1), rcond=None)[0]
        values, reached = values - fit[:, 0], reached - fit[:, 1]
    return float(pearsonr(values, reached).statistic), float(kendalltau(values, reached).statistic)


def _within(results: list[dict[str, Any]], score: str) -> tuple[float | None, float | None]:
    """Over the layers and networks of a task: mean Kendall correlation, and accuracy lost by the score's choice."""
    if score == "LEEP":  # for outputs of networks with a classifier only
        return None, None
    by_task: dict[Any, list[tuple[float, float]]] = {}
    for row in results:
        by_task.setdefault(row["task"], []).append((row[score], row["accuracy"]))
    tables = [np.array(pairs) for pairs in by_task.values()]
    correlations = [kendalltau(pairs[:, 0], pairs[:, 1]).statistic for pairs in tables]
    chosen = [pairs[np.argmax(pairs[:, 0]), 1] for pairs in tables]
    return float(np.nanmean(correlations)), float(np.mean(chosen))


def _summary(table: list[tuple[Any, ...]], results: list[dict[str, Any]]) -> tuple[str, ...]:
    by_task: dict[Any, list[float]] = {}
    for row in results:
        by_task.setdefault(row["task"], []).append(row["accuracy"])
    each = np.array(list(by_task.values()))
    first = table[SCORES.index("log CKA")]
    return (
        f"{len(each)} tasks, {each.shape[1]} layers of {len(_models(results))} networks. log CKA correlates with "
        f"accuracy by {first[1]:.2f} between tasks, {first[3]:.2f} with the task's size held fixed.",
        f"Within tasks: the best layer has {each.max(axis=1).mean():.3f} on average, a random one {each.mean():.3f}, "
        f"the output of {results[0]['model']} {_mean_output(results):.3f}; 'chosen' is that of the score's choice.",
    )


def _mean_output(results: list[dict[str, Any]]) -> float:
    first = results[0]["model"]
    return float(
        np.mean([row["accuracy"] for row in results if row["layer"] == "output" and row["model"] == first])
    )


def _figure(outputs: list[dict[str, Any]]) -> Figure:
    from matplotlib.figure import Figure

    shown = [score for score in SCORES if score != "H-score as published"]
    figure = Figure(figsize=(3.1 * len(shown), 3.4), layout="constrained")
    panels = figure.subplots(1, len(shown), sharey=True)
    colours = dict(zip(CLASS_COUNTS, ("#08306b", "#2879b9", "#e08a2c", "#a63603")))
    markers = dict(zip(DATASETS, "os"))
    for panel, score in zip(panels, shown):
        for row in outputs:
            if np.isfinite(row.get(score, np.nan)):
                dataset, n_classes, _ = row["control"]
                face = colours[n_classes] if row["model"] == NETWORKS[0].name else "none"
                panel.scatter(
                    row[score], row["accuracy"], s=22, marker=markers[dataset], facecolors=face,
                    edgecolors=colours[n_classes], linewidths=1,
                )  # fmt: skip
        panel.set_xlabel(score)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy, rows held out")
    for n_classes, colour in colours.items():
        panels[0].scatter([], [], s=22, color=colour, label=f"{n_classes} classes")
    for dataset, marker in markers.items():
        panels[0].scatter([], [], s=22, color="0.5", marker=marker, label=dataset)
    panels[0].scatter([], [], s=22, facecolors="none", edgecolors="0.5", label=NETWORKS[1].name)
    figure.legend(loc="outside upper center", ncols=7, frameon=False, fontsize=9)
    return figure


TRANSFER_RANKING = Experiment(
    name="transferability",
    title="Transferability scores against the accuracy of a linear model (Fig. 2.9 of the thesis on kernel alignment)",
    run=run,
    needs=("data", "weights"),
    notes=(
        f"Ours: EfficientNet-Lite0 and MobileNetV2 on images of {RESOLUTION} pixels, CIFAR-10 and MNIST; the thesis: "
        "ResNets on CIFAR-10, CIFAR-100 and STL-10.",
        "Pearson and Kendall: between tasks, of the networks' outputs, mean over networks. 'fixed': of the residuals "
        "when data set, number of classes and rows per class are accounted for. 'within tasks': Kendall over the "
        "layers of both networks, mean over tasks.",
        "LEEP is there for the network whose file has a classifier, and for its output only.",
    ),
)
