"""From rows to the metric and the coefficients that are used: by one method, or the best of the family.

One method keeps the iterate of Algorithm 1 with the largest gap. The family (`krepes.clustering.family`) tries many.
Beyond 4096 rows neither makes an n x n array: one method has Nyström features of all rows; the family expresses all
rows by 2000 of them, O(n m (d + m)), and cuts the graph between rows and these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.clustering.affinity import BLOCK_BYTES, Affinity, strongest, symmetric_sum
from krepes.clustering.family import Choice, Rows, choose
from krepes.clustering.metric import LARGEST_DUAL, Iterate, Settings, iterates
from krepes.clustering.normalization import basis_of, normalized
from krepes.kernels import Patches

SPREAD_FROM = 2000  # rows that express all others, where these are very many
SMALLEST_PICTURE, LARGEST_PICTURE = 8, 64  # pixels of a side
CHANNELS = (1, 3, 4)
SINGLE = 1e30  # larger values, or smaller ones, are no pixels: patches are compared in single precision


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
        inner = rows if self.patches is None else pooled_features(self.patches, rows)
        return normalized(inner @ self.projection, self.kept.settings.normalization, self.kept.scale)


def picture_shape(X: Any) -> tuple[int, ...] | None:
    """Height, width and channels, where rows are pictures for `Patches`."""
    shape = tuple(np.shape(X))[1:]
    sides = shape[:2] if len(shape) == 2 or (len(shape) == 3 and shape[2] in CHANNELS) else ()
    fits = bool(sides) and min(sides) >= SMALLEST_PICTURE and max(sides) <= LARGEST_PICTURE
    return shape if fits else None


def pooled_features(patches: Patches, rows: Tensor) -> Tensor:
    return patches.features(rows.float()).double()


def feature_basis(K: Tensor) -> Tensor:
    """U L^(-1/2) of a kernel matrix U L U^T: K times it are rows with these inner products."""
    if K.shape[0] != K.shape[1] or not torch.allclose(K, K.mT, rtol=1e-6, atol=1e-9 * K.abs().max().item()):
        raise ValueError(
            f"kernel='precomputed': X has shape {tuple(K.shape)}; expected a symmetric matrix of kernel values, (n, n)."
        )
    scale = K.abs().max().clamp(min=torch.finfo(K.dtype).smallest_normal).item()
    values, U = torch.linalg.eigh((K / scale + K.mT / scale) / 2)
    largest = values[-1].item()
    if values[0].item() < -1e-6 * largest or largest <= 0:
        raise ValueError(
            f"kernel='precomputed': eigenvalues of X reach from {values[0].item():.3g} to {largest:.3g}; expected a "
            "positive semi-definite matrix of kernel values, not one of distances."
        )
    some = values > 1e-10 * largest
    return U[:, some] / values[some].sqrt() / scale**0.5


def one_method(
    rows: Tensor, settings: Settings, seed: int, judged: bool
) -> tuple[Iterate, list[dict[str, Any]]]:
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


class Pictures:
    """Features of patches, learned when the first rows are asked for; those of the last rows are kept."""

    def __init__(self, rows: Tensor, shape: tuple[int, ...], seed: int):
        self.rows, self.shape, self.seed = rows, shape, seed
        self._last: tuple[np.ndarray, Tensor] | None = None

    @cached_property
    def patches(self) -> Patches:
        generator = torch.Generator().manual_seed(self.seed)
        return Patches(shape=self.shape).fitted(self.rows.float(), generator)

    def __call__(self, rows: np.ndarray) -> Tensor:
        if self._last is None or not np.array_equal(self._last[0], rows):
            self._last = rows, pooled_features(self.patches, self.rows[rows])
        return self._last[1]


def best_of_family(
    rows: Tensor, basis: Tensor | None, shape: tuple[int, ...] | None, settings: Settings, seed: int
) -> Found:
    """The winner of the family, on all rows, or on some of them where there are very many."""
    inner = rows if basis is None else rows @ basis
    sources: dict[str, Rows] = {"rows": lambda chosen: inner[chosen]}
    if shape is not None and 1 / SINGLE < rows.abs().max().item() < SINGLE:
        sources["pictures"] = pictures = Pictures(rows, shape, seed)
    choice = choose(sources, len(rows), settings, seed)
    place: np.ndarray | None = None
    patches: Patches | None = None
    if choice.recipe.source == "pictures":
        patches = pictures.patches
        of_patches = pooled_features(patches, rows)
        basis = basis_of(of_patches)
        inner = of_patches if basis is None else of_patches @ basis
    if len(rows) > LARGEST_DUAL:
        order = np.random.default_rng(seed).permutation(len(rows))
        place = np.sort(order[: max(SPREAD_FROM, 30 * choice.n_clusters)])
    own = replace(choice.recipe.settings(settings, len(rows)), n_clusters=choice.n_clusters)
    kept = choice.iterate
    if place is not None or patches is not None or len(kept.X) < len(rows):
        chosen = inner if place is None else inner[place]
        kept = Iterate(chosen, kept.M, kept.index, own, seed)
    else:
        kept.settings = own
    return Found(kept, choice.history, replace(choice, iterate=kept), place, patches, basis)


def spread_affinity(found: Found, rows: Tensor, place: np.ndarray) -> Affinity:
    """W of all rows, (n, n), with entries between rows and the rows at `place` only."""
    n, t = len(rows), found.kept.settings.truncation or len(place)
    values, columns = np.empty((n, t)), np.empty((n, t), dtype=np.int64)
    new_rows = found.kept.new_rows
    for block in row_blocks(n, rows_within(BLOCK_BYTES, 32 * len(place))):
        values[block], columns[block] = strongest(new_rows(found.project(rows[block])), t)
    values[place], columns[place] = strongest(found.kept.coefficients(slice(None)), t)
    return symmetric_sum(values, place[columns])
