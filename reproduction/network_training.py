"""Layers while a network learns: Figures 2.1 and 2.3 to 2.6 of [tang], with one small network on digits.

Sketched CKA of every layer with the labels, before training and after every epoch; the accuracy beside it; layers with
one another at the end; stable ranks; and, for each class against the rest, sketched CKA beside the F1 score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.stats import pearsonr
from sklearn.metrics import f1_score
from torch import nn

from krepes.alignment import SketchedCKA, iter_layers, one_hot, plot_alignment, sketch_layers, stable_rank
from reproduction.datasets import LOADERS
from reproduction.experiments import Conditions, Experiment, Findings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS, TEST_ROWS, EPOCHS, BATCH_ROWS = 6000, 2000, 8, 64
LAYERS = {"convolution 1": "1", "convolution 2": "3", "dense 1": "6", "dense 2": "8", "output": "9"}
N_BUCKETS = 512


def small_network(seed: int) -> nn.Sequential:
    """Two convolutions and three dense layers, for images of 28 x 28 pixels."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            *(nn.Conv2d(1, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 5, 2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
        )


def epoch(network: nn.Module, optimiser: Any, X: torch.Tensor, y: torch.Tensor, generator: Any) -> None:
    network.train()
    for rows in torch.randperm(len(y), generator=generator).split(BATCH_ROWS):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(X[rows]), y[rows]).backward()
        optimiser.step()


def predictions(network: nn.Module, X: torch.Tensor) -> np.ndarray:
    network.eval()
    with torch.no_grad():
        return network(X).argmax(dim=1).numpy()


def against_rest(
    network: nn.Module, X: torch.Tensor, y: np.ndarray, found: np.ndarray
) -> list[tuple[float, float]]:
    """(sketched CKA of the last hidden layer with one class, its F1 score) for every class."""
    features = [outputs["8"] for _, outputs in iter_layers(network, X, ["8"])]
    sketch = SketchedCKA(N_BUCKETS).update({"features": np.concatenate(features)})
    for c in range(10):
        sketch.update({str(c): one_hot(y == c)})
    return [(sketch.score("features", str(c)), f1_score(y == c, found == c)) for c in range(10)]


def run(conditions: Conditions) -> Findings:
    """Train, and look at the layers after every epoch."""
    assert conditions.data is not None
    (X, y), (X_test, y_test) = LOADERS["mnist"](conditions.data)
    rng = np.random.default_rng(conditions.seed)
    here, there = rng.permutation(len(y))[: conditions.rows or ROWS], rng.permutation(len(y_test))[:TEST_ROWS]
    Z, Z_test = (
        torch.from_numpy(np.asarray(rows, np.float32)[:, None] / 255) for rows in (X[here], X_test[there])
    )
    labels, truth = torch.from_numpy(y[here].astype(np.int64)), y_test[there].astype(int)
    network, generator = small_network(conditions.seed), torch.Generator().manual_seed(conditions.seed)
    optimiser = torch.optim.SGD(network.parameters(), 0.02, momentum=0.9)
    curves, accuracies, classes = [], [], []
    for number in range((conditions.repeats or EPOCHS) + 1):
        if number:
            epoch(network, optimiser, Z, labels, generator)
        found = predictions(network, Z_test)
        sketch = sketch_layers(network, Z_test, truth, LAYERS.values(), sketch=SketchedCKA(N_BUCKETS))
        curves.append([sketch.score(layer, "target") for layer in LAYERS.values()])
        accuracies.append(100 * float((found == truth).mean()))
        classes += against_rest(network, Z_test, truth, found)
        conditions.say(
            f"epoch {number}: {accuracies[-1]:.1f} % right, output and labels {curves[-1][-1]:.3f}"
        )
    outputs = [outputs for _, outputs in iter_layers(network, Z_test, LAYERS.values())]
    ranks = [stable_rank(np.concatenate([part[layer] for part in outputs])) for layer in LAYERS.values()]
    widths = [outputs[0][layer].shape[1] for layer in LAYERS.values()]
    table = [
        (name, width, rank, *(curves[k][i] for k in (0, 1, -1)))
        for i, (name, width, rank) in enumerate(zip(LAYERS, widths, ranks))
    ]
    columns = ("layer", "width", "stable rank", "CKA with labels, untrained", "after 1 epoch", "at the end")
    together = pearsonr([row[-1] for row in curves], accuracies).statistic
    one = pearsonr(*np.array(classes).T).statistic
    summary = (
        f"{accuracies[-1]:.1f} % right at the end. Over epochs, CKA of output and labels correlates with accuracy by "
        f"{together:.2f}.",
        f"One class against the rest, all epochs: CKA of the last hidden layer and F1 correlate by {one:.2f}.",
        f"Stable ranks are {min(ranks):.1f} to {max(ranks):.1f}, of widths {min(widths)} to {max(widths)}.",
    )
    return Findings(columns, table, summary, lambda: draw(sketch, curves, accuracies))


def draw(sketch: SketchedCKA, curves: list[list[float]], accuracies: list[float]) -> Figure:
    """Layers with one another and the labels, at the end; curves are added below."""
    names, values = sketch.table()
    known = {layer: name for name, layer in LAYERS.items()} | {"target": "labels"}
    figure = plot_alignment(values, [known[name] for name in names])
    figure.set_size_inches(6.5, 7.5)
    (map_panel, *_) = figure.axes
    map_panel.set_title("at the end", fontsize=10)
    panel = figure.add_subplot(2, 1, 2)
    map_panel.set_subplotspec(figure.add_gridspec(2, 1)[0])
    for i, name in enumerate(LAYERS):
        panel.plot([row[i] for row in curves], "o-", markersize=3, label=name)
    panel.plot(np.array(accuracies) / 100, "k:", label="accuracy")
    panel.set_xlabel("epoch")
    panel.set_ylabel("sketched CKA with the labels")
    panel.legend(frameon=False, fontsize=8)
    return figure


NETWORK_TRAINING = Experiment(
    name="network-training",
    title="Layers and labels while a network learns (Figs. 2.1 and 2.3 to 2.6 of the thesis on kernel alignment)",
    run=run,
    needs=("data",),
    notes=(
        "Ours: one small convolutional network on 6,000 images of MNIST, 8 epochs, 2,000 other images looked at; the "
        "thesis: ResNet-18 and -34 on CIFAR-10, CIFAR-100, STL-10 and SVHN, of which only the first is here.",
        "Not reproduced: Figs. 2.7 and 2.8, fine-tuning of ResNets, for which two processor cores are too slow.",
    ),
)
