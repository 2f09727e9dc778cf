"""From rows to the metric and the coefficients that are used: by one method, or the best of the family.

One method keeps the iterate of Algorithm 1 with the largest gap. The family (`krepes.clustering.family`) tries many codings.
Beyond 4096 rows neither makes an n x n array: one method has Nyström features of all rows; the family expresses all
rows by 2000 of them, O(n m (d + m)), and cuts the graph between rows and these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.clustering.affinity import BLOCK_BYTES, Affinity, strongest
from krepes.clustering.family import Choice, choose
from krepes.clustering.metric import LARGEST_DUAL, Iterate, Settings, iterates
from krepes.clustering.normalization import basis_of, normalized
from krepes.kernels import Patches

if TYPE_CHECKING:
    from krepes.clustering.estimator import SubspaceClustering

SPREAD_FROM = 2000  # rows that express all others, where these are very many
SMALLEST_PICTURE, LARGEST_PICTURE = 8, 64  # pixels of a side
CHANNELS = (1, 3, 4)


@dataclass(frozen=True)
class Found:
    """What a search comes to.

    Attributes
    ----------
    kept : Iterate
        Of all rows, or of those that express the others.
    place : array or None
        Which rows these are; None for all.
    patches : Patches or None
    basis : Tensor or None
        Rows, or features of pictures, times this are what `kept` projects.
    """

    kept: Iterate
    history: list[dict[str, Any]]
    choice: Choice | None = None
    place: np.ndarray | None = None
    patches: Patches | None = None
    basis: Tensor | None = None

    @property
    def projection(self) -> Tensor:
        M = self.kept.M
        if self.basis is None:
            return torch.eye(self.kept.width, dtype=torch.float64) if M is None else M
        return self.basis if M is None else self.basis @ M

    def project(self, rows: Tensor) -> Tensor:
        """Rows in the metric found, normalised."""
        inner = rows if self.patches is None else features(self.patches, rows)
        return normalized(inner @ self.projection, self.kept.settings.normalization, self.kept.scale)


def picture_shape(X: Any) -> tuple[int, ...] | None:
    """Height, width and channels, where rows are pictures for `Patches`."""
    shape = tuple(np.shape(X))[1:]
    sides = shape[:2] if len(shape) == 2 or (len(shape) == 3 and shape[2] in CHANNELS) else ()
    fits = bool(sides) and SMALLEST_PICTURE <= min(sides) and max(sides) <= LARGEST_PICTURE
    return shape if fits else None


def features(patches: Patches, rows: Tensor) -> Tensor:
    return patches.features(rows.float()).double()


def feature_basis(K: Tensor) -> Tensor:
    """U L^(-1/2) of a kernel matrix U L U^T: K times it are rows with these inner products."""
    if K.shape[0] != K.shape[1] or not torch.allclose(K, K.mT, rtol=1e-6, atol=1e-9 * K.abs().max().item()):
        raise ValueError(
            f"kernel='precomputed': X has shape {tuple(K.shape)}; expected a symmetric matrix of kernel values, (n, n)."
        )
    values, U = torch.linalg.eigh((K + K.mT) / 2)
    largest = values[-1].item()
    if values[0].item() < -1e-6 * largest or largest <= 0:
        raise ValueError(
            f"kernel='precomputed': eigenvalues of X reach from {values[0].item():.3g} to {largest:.3g}; expected a positive "
            "semi-definite matrix of kernel values, not one of distances."
        )
    some = values > 1e-10 * largest
    return U[:, some] / values[some].sqrt()


def one_method(rows: Tensor, settings: Settings, seed: int, judged: bool) -> tuple[Iterate, list[dict[str, Any]]]:
    """The iterate to use, and the history of all; found on a part of the rows if there are very many."""
    if len(rows) > LARGEST_DUAL:
        some = np.random.default_rng(seed).choice(len(rows), LARGEST_DUAL, replace=False)
        found, history = one_method(rows[torch.from_numpy(np.sort(some))], settings, seed, judged)
        settings = replace(settings, n_clusters=found.n_clusters)
        return Iterate(rows, found.M, found.index, settings, seed), history
    kept: Iterate | None = None
    history = []
    for iterate in iterates(rows, settings, seed):
        entry: dict[str, Any] = {"iteration": iterate.index}
        if judged:
            entry |= {"gap": iterate.gap, "n_clusters": iterate.n_clusters}
            entry["eigenvalues"] = iterate.spectrum
        history.append(entry)
        if kept is None or not judged or iterate.gap > kept.gap:
            kept = iterate
    assert kept is not None  # because the rows as given are always there
    return kept, history


def feature_sources(X: np.ndarray) -> dict[str, Tensor]:
    """Rows, and where they are pictures features of their patches."""
    rows = torch.from_numpy(np.array(X.reshape(len(X), -1), dtype=np.float64))
    return {name: source.inner for name, source in _sources(rows, basis_of(rows), picture_shape(X), 0).items()}


@dataclass(frozen=True)
class Source:
    """Something to express: rows in a basis, (n, r), and how new ones get there."""

    inner: Tensor
    basis: Tensor | None
    patches: Patches | None = None


def _sources(rows: Tensor, basis: Tensor | None, shape: tuple[int, ...] | None, seed: int) -> dict[str, Source]:
    found = {"rows": Source(rows if basis is None else rows @ basis, basis)}
    if shape is not None:
        patches = Patches(shape=shape).fitted(rows.float(), torch.Generator().manual_seed(seed))
        of_patches = features(patches, rows)
        own = basis_of(of_patches)
        found["pictures"] = Source(of_patches if own is None else of_patches @ own, own, patches)
    return found


def best_of_family(
    rows: Tensor, basis: Tensor | None, shape: tuple[int, ...] | None, settings: Settings, seed: int
) -> Found:
    """The winner of the family, on all rows, or on some of them where there are very many."""
    sources = _sources(rows, basis, shape, seed)
    choice = choose({name: source.inner for name, source in sources.items()}, settings, seed)
    source, place = sources[choice.recipe.source], None
    inner = source.inner
    if len(rows) > LARGEST_DUAL:
        order = np.random.default_rng(seed).permutation(len(rows))
        place = np.sort(order[: max(SPREAD_FROM, 30 * choice.n_clusters)])
        inner = inner[place]
    own = replace(choice.recipe.settings(settings, len(inner)), n_clusters=choice.n_clusters)
    kept = Iterate(inner, choice.iterate.M, choice.iterate.index, own, seed)
    return Found(kept, choice.history, choice, place, source.patches, source.basis)


def spread_affinity(found: Found, rows: Tensor, place: np.ndarray) -> Affinity:
    """W of all rows, (n, n), with entries between rows and the rows at `place` only."""
    n, settings = len(rows), found.kept.settings
    t = settings.truncation or len(place)
    values, columns = np.empty((n, t)), np.empty((n, t), dtype=np.int64)
    new_rows = found.kept.new_rows
    for block in row_blocks(n, rows_within(BLOCK_BYTES, 32 * len(place))):
        values[block], columns[block] = strongest(new_rows(found.project(rows[block])), t)
    values[place], columns[place] = strongest(found.kept.coefficients(slice(None)), t)
    starts = np.arange(0, n * t + 1, t)
    T = scipy.sparse.csr_array((values.ravel() ** settings.power, place[columns].ravel(), starts), shape=(n, n))
    return (T + T.T).tocsr()

