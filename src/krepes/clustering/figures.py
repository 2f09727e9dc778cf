"""What was tried: the candidates of the family; figures 1 and 2 of [zou], data, kernel and affinity over iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from krepes.base.validation import as_matrix, check_count, is_integer
from krepes.clustering.affinity import Affinity
from krepes.clustering.agreement import cluster_codes
from krepes.clustering.estimator import SubspaceClustering
from krepes.clustering.metric import Iterate, iterates, settings_for
from krepes.clustering.normalization import basis_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#2a78d6", "#eb6834", "#1baf7a", "#eda100", "#4a3aa7", "#e34948", "#e87ba4", "#008300")


@torch.no_grad()
def plot_iterations(
    model: SubspaceClustering,
    X: Any,
    y: Any = None,
    axes: tuple[int, int] | None = None,
) -> Figure:
    """Draw what the projections do: data, kernel matrix and affinity of up to five iterations, a column each.

    Parameters
    ----------
    model : SubspaceClustering
        Its parameters are used; it need not be fitted, and is not changed.
    X : array of shape (n, d)
    y : array of shape (n,), optional
        Colours and sorts the rows; by default the model's own labels after a fit.
    axes : pair of int, optional
        Which two features the top row shows; by default the two principal directions of the projected rows.

    Returns
    -------
    figure : matplotlib Figure
        Made without pyplot, so that nothing stays open.
    """
    from matplotlib.figure import Figure

    if not isinstance(model, SubspaceClustering):
        raise TypeError(f"model is a {type(model).__name__}; expected a SubspaceClustering.")
    rows = model._rows(X, reset=True)
    labels = model.fit(X).labels_ if y is None else cluster_codes(y, len(rows))
    order = np.argsort(labels, kind="stable")
    last = model.n_iterations if model.projection is not None else 0
    shown = sorted(set(np.linspace(0, last, 5).round().astype(int).tolist()))
    figure = Figure(figsize=(2.3 * len(shown) + 0.5, 7.2), layout="constrained")
    panels = figure.subplots(3, len(shown), squeeze=False)
    for column, iterate in zip(panels.T, _chosen(model, rows, shown)):
        title = f"iteration {iterate.index}" if iterate.index else "data as given"
        column[0].set_title(title, fontsize=10)
        _scatter(column[0], iterate, labels, axes)
        _matrix(column[1], np.abs(_cosines(iterate)[np.ix_(order, order)]))
        W = iterate.affinity
        W = W if isinstance(W, np.ndarray) else W.toarray()
        share = within_share(W, labels)
        # Affinities are few and uneven: the root shows the weak ones too.
        _matrix(column[2], np.sqrt(W[np.ix_(order, order)]))
        column[2].set_xlabel(f"within clusters {share:.0%}", fontsize=9)
    for panel, name in zip(panels[:, 0], ("projected data", "kernel, as cosine", "affinity (root)")):
        panel.set_ylabel(name, fontsize=10)
    return figure


def plot_selection(model: SubspaceClustering, most: int = 20) -> Figure:
    """Draw the ratio of every candidate that a fitted model tried, the smallest on top, the one chosen in colour.

    Parameters
    ----------
    model : SubspaceClustering
        Fitted with the family of codings, which is the default.
    most : int, default=20
        So many candidates are shown.

    Returns
    -------
    figure : matplotlib Figure
        Made without pyplot, so that nothing stays open.
    """
    from matplotlib.figure import Figure

    check_count("most", most)
    if not isinstance(model, SubspaceClustering):
        raise TypeError(f"model is a {type(model).__name__}; expected a SubspaceClustering.")
    if not getattr(model, "selection_", None):
        raise ValueError("The model has tried no candidates: fit it without a kernel or coding of its own.")
    shown = model.selection_[:most][::-1]
    figure = Figure(figsize=(7.0, 0.26 * len(shown) + 1.0), layout="constrained")
    panel = figure.subplots()
    colours = [COLOURS[1] if each["chosen"] else "#9db7d5" for each in shown]
    panel.barh([each["name"] for each in shown], [each["ratio"] for each in shown], color=colours)
    panel.set_xlabel(
        f"ratio of eigenvalues for {model.n_clusters_} clusters: small where the graph falls apart"
    )
    panel.tick_params(labelsize=8, length=2)
    return figure


def within_share(W: Affinity, y: Any) -> float:
    """The share of the affinity that lies between rows of the same class.

    >>> within_share(np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), [0, 0, 1])
    0.75
    """
    W = W if scipy.sparse.issparse(W) else as_matrix(W, "W").astype(np.float64)
    codes = cluster_codes(y, W.shape[0])
    total = W.sum()
    if W.shape[0] != W.shape[1] or not (np.isfinite(total) and total > 0):
        raise ValueError(
            f"W has shape {W.shape} and a sum of {total:.3g}; expected an affinity (n, n), not negative and not zero."
        )
    W = W / total
    indicators = np.eye(codes.max() + 1)[codes]
    return float((indicators * (W @ indicators)).sum())


def _chosen(model: SubspaceClustering, rows: Tensor, shown: list[int]) -> list[Iterate]:
    basis = basis_of(rows)
    settings = settings_for(model, len(rows), *rows.shape)
    seen = iterates(rows if basis is None else rows @ basis, settings, seed=0)
    return [iterate for iterate in seen if iterate.index in shown]


def _scatter(panel: Axes, iterate: Iterate, labels: np.ndarray, axes: tuple[int, int] | None) -> None:
    X = iterate.X.numpy()
    if axes is None:
        _, _, Vt = np.linalg.svd(X - X.mean(0), full_matrices=False)
        points = X @ Vt[:2].T if len(Vt) > 1 else np.column_stack([X, np.zeros(len(X))])
    else:
        if any(not is_integer(axis, 0) or axis >= X.shape[1] for axis in axes):
            raise ValueError(f"axes={axes!r}: expected the numbers of two columns, 0 to {X.shape[1] - 1}.")
        points = X[:, list(axes)]
    for label in np.unique(labels):
        own = points[labels == label]
        colour = COLOURS[int(label) % len(COLOURS)]
        panel.scatter(own[:, 0], own[:, 1], s=9, color=colour, linewidths=0, alpha=0.8)
    panel.set_aspect("equal", adjustable="datalim")
    panel.tick_params(labelsize=7, length=2)


def _cosines(iterate: Iterate) -> np.ndarray:
    """k(x, y) / sqrt(k(x, x) k(y, y)): rows of any length can be seen."""
    K = iterate.kernel(iterate.X).numpy()
    scale = np.sqrt(np.where(K.diagonal() > 0, K.diagonal(), 1))
    return K / scale / scale[:, None]


def _matrix(panel: Axes, values: np.ndarray) -> None:
    panel.imshow(values, cmap="Blues", vmin=0, interpolation="nearest")
    panel.set_xticks([])
    panel.set_yticks([])
