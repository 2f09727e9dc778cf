"""Nearest neighbours on two components, few labels: the protocol of the small-data experiments  [esser, Experiments].

    half of the rows without labels, 5 % with labels, 45 % for testing
    fit on the first two parts, classify by the 3 nearest labelled rows

Every setting, a kernel's lengthscale or how a network is trained, is chosen by leave-one-out on the labelled rows, and
so is the kernel. Rows are used as they are.

    positive    x + noise, of NOISE times the root of the mean variance of the columns, the same for all columns
    negative    another row of the first two parts; the paper does not print how it makes either
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from krepes.autoencoder import KernelAutoencoder
from krepes.embedding import KernelEmbedding
from krepes.evaluation import choose_bandwidth
from krepes.evaluation.bandwidth_choice import left_out_accuracy
from krepes.kernels import ArcCosine, Gaussian, Kernel, Laplacian, Linear
from krepes.losses import SpectralContrastive

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELLED, TESTED = 0.05, 0.45
COMPONENTS, NEIGHBOURS = 2, 3
NOISE = 0.3
REGULARIZATION = 0.5  # of the spectral loss of triplets, which has no minimum where this is small
RAW, PCA, SIMPLE, SPECTRAL, AUTOENCODER = (
    "raw features",
    "kernel PCA",
    "simple contrastive",
    "spectral, triplets",
    "autoencoder",
)
CHOSEN = "by leave-one-out"
KERNELS: dict[str, Kernel] = {
    "Gaussian": Gaussian(),
    "Laplacian": Laplacian(),
    "linear": Linear(),
    "ReLU": ArcCosine(),
}


class FewLabels(NamedTuple):
    """One split. Labelled rows are the last ones of `train`; classes are 0, 1, ..."""

    train: np.ndarray
    y_labelled: np.ndarray
    test: np.ndarray
    y_test: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray


class Scores(NamedTuple):
    """Shares of rows that are classified right: of labelled rows, each left out, and of test rows."""

    left_out: float
    test: float


FAILED = Scores(float("nan"), float("nan"))
Found = dict[tuple[str, str], list[Scores]]  # by method and kernel, one for each split


def split_rows(X: np.ndarray, y: np.ndarray, seed: int) -> FewLabels:
    """One split, with the same share of every class in all parts, and its triplets."""
    codes = np.unique(y, return_inverse=True)[1]
    n_labelled = max(round(LABELLED * len(X)), 2 * (codes.max() + 1), NEIGHBOURS + 1)
    rest, test = train_test_split(np.arange(len(X)), test_size=TESTED, stratify=codes, random_state=seed)
    plain, labelled = train_test_split(
        rest, test_size=int(n_labelled), stratify=codes[rest], random_state=seed
    )
    train = X[np.concatenate([plain, labelled])]
    positives, negatives = triplets(train, np.random.default_rng(seed))
    return FewLabels(train, codes[labelled], X[test], codes[test], positives, negatives)


def triplets(X: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A positive and a negative for every row."""
    scale = NOISE * np.sqrt(X.var(axis=0).mean())
    cycle = generator.permutation(len(X))  # the negative of a row is the next one of the cycle: never itself
    negatives = np.empty_like(X)
    negatives[cycle] = X[np.roll(cycle, -1)]
    return X + scale * generator.normal(size=X.shape), negatives


def scores(split: FewLabels, Z: np.ndarray, Z_test: np.ndarray) -> Scores:
    """Of nearest neighbours on representations of the rows to fit on and to test."""
    labelled = Z[-len(split.y_labelled) :]
    neighbours = KNeighborsClassifier(NEIGHBOURS).fit(labelled, split.y_labelled)
    return Scores(
        left_out_accuracy(labelled, split.y_labelled, NEIGHBOURS),
        float(neighbours.score(Z_test, split.y_test)),
    )


def models(seed: int) -> dict[str, KernelEmbedding | KernelAutoencoder]:
    """The exact models of the paper, by method."""
    losses: dict[str, dict[str, Any]] = {
        PCA: {"loss": "kernel_pca"},
        SIMPLE: {"loss": "simple_contrastive"},
        SPECTRAL: {"loss": SpectralContrastive("triplet"), "regularization": REGULARIZATION},
    }
    embeddings: dict[str, KernelEmbedding | KernelAutoencoder] = {
        method: KernelEmbedding(COMPONENTS, n_landmarks=None, scale="loss", random_state=seed, **parameters)
        for method, parameters in losses.items()
    }
    return embeddings | {
        AUTOENCODER: KernelAutoencoder(COMPONENTS, n_landmarks=None, max_iter=60, tol=1e-3, random_state=seed)
    }


def kernel_scores(split: FewLabels, seed: int) -> Iterator[tuple[tuple[str, str], Scores]]:
    """Of the raw features, and of every method with every kernel."""
    yield (RAW, ""), scores(split, split.train, split.test)
    for method, model in models(seed).items():
        pairs = {"positives": split.positives, "negatives": split.negatives}
        given = pairs if method in (SIMPLE, SPECTRAL) else {}
        for name, kernel in KERNELS.items():
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # fewer components than asked for, a descent that has not ended
                yield (method, name), _model_scores(model, kernel, split, given)


def _model_scores(
    model: KernelEmbedding | KernelAutoencoder, kernel: Kernel, split: FewLabels, given: dict[str, Any]
) -> Scores:
    model.set_params(kernel=kernel)
    try:
        if "lengthscale" in kernel.get_params():
            y = np.full(len(split.train), np.nan)
            y[-len(split.y_labelled) :] = split.y_labelled
            fitted = choose_bandwidth(model, split.train, y, n_neighbors=NEIGHBOURS, **given).model
        else:
            fitted = model.fit(split.train, **given)
    except ValueError:  # the loss has no minimum, or no component is left
        return FAILED
    return scores(split, fitted.transform(split.train), fitted.transform(split.test))


def chosen(found: Found, method: str) -> list[tuple[str, Scores]]:
    """In every split the kernel, or network, whose leave-one-out score is best; of equal ones the first.

    >>> chosen({("a", "x"): [Scores(0.5, 0.9)], ("a", "y"): [Scores(0.6, 0.7)]}, "a")
    [('y', Scores(left_out=0.6, test=0.7))]
    """
    kinds = [kind for name, kind in found if name == method]
    columns = zip(*(found[method, kind] for kind in kinds))
    best = [int(np.argmax(np.nan_to_num([s.left_out for s in column], nan=-1.0))) for column in columns]
    return [(kinds[place], found[method, kinds[place]][split]) for split, place in enumerate(best)]


@dataclass(frozen=True)
class Comparison:
    """Two methods on the same splits.

    Attributes
    ----------
    better, worse : int
        Splits in which the first is better or worse than the second.
    verdict : "won", "level" or "lost"
        Level where a paired t test at 5 % sees no difference, or where there is one split.
    """

    better: int
    worse: int
    verdict: str

    @classmethod
    def of(cls, ours: list[float], theirs: list[float]) -> Comparison:
        """
        >>> Comparison.of([0.8, 0.9, 0.7], [0.7, 0.8, 0.6])
        Comparison(better=3, worse=0, verdict='won')
        """
        gain = np.subtract(ours, theirs)
        gain = gain[np.isfinite(gain)]
        better, worse, n = int((gain > 0).sum()), int((gain < 0).sum()), len(gain)
        if n < 2:
            return cls(better, worse, "level")
        margin = stats.t.ppf(0.975, n - 1) * gain.std(ddof=1) / n**0.5
        verdict = "level" if abs(gain.mean()) <= margin else "won" if gain.mean() > 0 else "lost"
        return cls(better, worse, verdict)

    def __str__(self) -> str:
        return f"{self.verdict} ({self.better}:{self.worse})"


def tests_of(column: list[Scores]) -> list[float]:
    return [s.test for s in column]


COLUMNS = ("data", "method", "kernel", "accuracy", "deviation", "left-out", "chosen", "raw", "kernel PCA")


def table_rows(data: str, found: Found) -> Iterator[tuple[Any, ...]]:
    """One row for each method and kernel, and one for each method with the kernel that leave-one-out chooses.

    The last two columns compare with nearest neighbours on the raw features and on kernel PCA, the latter with the
    same kernel, or with the one chosen for it.
    """
    raw = tests_of(found[RAW, ""])
    for method in dict.fromkeys(method for method, _ in found):
        choice = chosen(found, method)
        kinds = [kind for name, kind in found if name == method]
        columns = {kind: found[method, kind] for kind in kinds}
        if len(kinds) > 1:
            columns[CHOSEN] = [s for _, s in choice]
        for kind, column in columns.items():
            values = np.array(tests_of(column))
            values = values[np.isfinite(values)]
            theirs = [s for _, s in chosen(found, PCA)] if kind == CHOSEN else found.get((PCA, kind))
            yield (
                data,
                method,
                kind,
                *(_mean_and_deviation(values)),
                float(np.nanmean([s.left_out for s in column])) if len(values) else None,
                sum(name == kind for name, _ in choice) if len(kinds) > 1 and kind != CHOSEN else None,
                str(Comparison.of(tests_of(column), raw)) if method != RAW else None,
                str(Comparison.of(tests_of(column), tests_of(theirs)))
                if theirs is not None and method not in (RAW, PCA)
                else None,
            )


def _mean_and_deviation(values: np.ndarray) -> tuple[float | None, float | None]:
    if not len(values):
        return None, None
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0


STYLES = {
    "Gaussian": ("o", "#1f5fa8"),
    "Laplacian": ("s", "#3f9fb8"),
    "linear": ("^", "#7a6fb0"),
    "ReLU": ("v", "#4a8a4a"),
    "network": ("P", "#d07020"),
    "network, fresh triplets": ("X", "#b03a2e"),
}


def figure_of(by_data: dict[str, Found]) -> Figure:
    """A panel for each data set: test accuracy of every method and kernel, and of what leave-one-out chooses."""
    from matplotlib.figure import Figure

    n_columns = 2 if len(by_data) in (2, 4) else min(3, len(by_data))
    n_rows = -(-len(by_data) // n_columns)
    figure = Figure(figsize=(5.4 * n_columns, 3.6 * n_rows + 0.5), layout="constrained")
    panels = list(figure.subplots(n_rows, n_columns, squeeze=False).flat)
    handles: dict[str, Any] = {}
    for panel, (data, found) in zip(panels, by_data.items()):
        mean, deviation = _mean_and_deviation(np.array(tests_of(found[RAW, ""])))
        assert mean is not None
        assert deviation is not None
        handles[RAW] = panel.axhline(100 * mean, color="0.35", linestyle="--", linewidth=1)
        panel.axhspan(100 * (mean - deviation), 100 * (mean + deviation), color="0.92", zorder=0)
        methods = [method for method in dict.fromkeys(name for name, _ in found) if method != RAW]
        for place, method in enumerate(methods):
            columns = {kind: column for (name, kind), column in found.items() if name == method}
            columns[CHOSEN] = [s for _, s in chosen(found, method)]
            for position, (kind, column) in enumerate(columns.items()):
                values = np.array(tests_of(column))
                mean, deviation = _mean_and_deviation(values[np.isfinite(values)])
                if mean is None or deviation is None:
                    continue
                marker, color = STYLES.get(kind, ("D", "black"))
                handles[kind] = panel.errorbar(
                    place + 0.11 * (position - (len(columns) - 1) / 2),
                    100 * mean,
                    yerr=100 * deviation,
                    marker=marker,
                    color=color,
                    markersize=5.5,
                    linewidth=1,
                    linestyle="none",
                )
        panel.set_xticks(range(len(methods)), [method.replace(" ", "\n", 1) for method in methods])
        panel.set_xlim(-0.5, len(methods) - 0.5)
        panel.set_title(data, fontsize=11)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="0.9", linewidth=0.6)
        panel.set_axisbelow(True)
    for panel in panels[len(by_data) :]:
        panel.set_axis_off()
    figure.supylabel("test accuracy in %", fontsize=10)
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure
