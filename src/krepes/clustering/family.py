"""The family of candidates, and which of them fits the rows: a choice without labels.

A candidate is a coding with its normalisation, kernel and ridge. Between them lie three worlds:

    Gaussian, narrow or with a large ridge; neighbours     clouds, and manifolds that are sampled densely
    Gaussian of 1 to 1.5 medians, ridge about 1            manifolds
    Gaussian of 5 medians with a small ridge; affine       subspaces: faces under lights, trajectories

Let e_1 <= e_2 <= ... be the smallest eigenvalues of the normalised Laplacian of a candidate's affinity. Its ratio

    mean(e_1 .. e_k) / mean(e_(k+1) .. e_(2k+2))

is 0 where the graph falls into k parts, and near 1 where k parts are as good as more. The smallest ratio wins. It
compares whole bulks, because one gap, e_k to e_(k+1), is noise on real data. All candidates are tried on some of the
rows, only the best of them on more. Where subspaces win, the iterates of Algorithm 1 are candidates, too.

Cost: a matrix of distances for every normalisation, O(s^2 d), one inverse for every candidate, O(s^3), s = 500 to 1000.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sklearn.cluster._spectral import cluster_qr
from torch import Tensor

from krepes.clustering.affinity import leading_eigenpairs
from krepes.clustering.codings import Coding, Ridge
from krepes.clustering.counting import Count, count_clusters
from krepes.clustering.metric import Iterate, Settings, iterates
from krepes.clustering.neighbours import Neighbours, SelfTuning
from krepes.clustering.normalization import NormalizedRows
from krepes.kernels import Gaussian, Kernel, Linear

GAUSSIANS = ((0.5, 1.0), (0.5, 10.0), (1.0, 1.0), (1.5, 0.1), (1.5, 1.0), (5.0, 0.01), (5.0, 0.1))
PLAIN = ((0.5, 1.0), (0.5, 10.0), (1.0, 1.0))  # Gaussians of rows with their lengths
AFFINE = (0.0001, 0.003, 0.01, 0.1, 1.0)
OF_PICTURES = ((1.5, 1.0), (5.0, 0.1))
SCREENED_ROWS, COMPARED_ROWS = 500, 1000  # or more, where there are many clusters
FINALISTS = 3
MOST_CLUSTERS = 40  # looked for
SUBSPACES = ("subspaces", "affine")  # worlds in which a metric can be learned
COUNTED_BY = (
    (0.5, 10.0),
    (1.0, 1.0),
    (1.5, 0.1),
    (5.0, 0.01),
)  # Gaussians that vote, with the affine FAINT ones
# Ratios of these worlds are multiplied before they are compared: graphs of equal weights have smaller ones for the same
# quality, wide kernels a little smaller ones, and patches are the better features of pictures that are no subspaces.
HANDICAP = {"subspaces": 1.1, "neighbours": 1.6, "pictures": 0.8}
CLEAN = 0.15  # ratio of an affine graph where subspaces have hardly any noise
FEW_DIRECTIONS = 0.25  # of all directions, that then have all but a thousandth of the variance
FAINT = (0.0001, 0.01)  # ridges of almost exact regressions, from and to
RIDGE = Ridge()
STRAY = 0.1  # of n / k rows: a smaller cluster is one
STRUCTURE = 0.85  # of the ratio that normal rows have


Rows = Callable[[np.ndarray], Tensor]  # which rows -> those rows, (., r)


@dataclass(frozen=True)
class CodingRecipe:
    """How a candidate makes an affinity.

    Attributes
    ----------
    world : "gaussian", "plain", "subspaces", "affine", "neighbours", "pictures" or "projected"
    """

    world: str
    name: str
    kernel: Kernel
    ridge: float = 1.0
    normalization: str = "unit"
    coding: Coding = RIDGE
    truncation: int = 7

    @property
    def source(self) -> str:
        return "pictures" if self.world == "pictures" else "rows"

    def settings(self, base: Settings, n: int) -> Settings:
        """Those of its own; coefficients that are kept are at most as many as other rows."""
        return replace(
            base,
            kernel=self.kernel,
            coding=self.coding,
            regularization=self.ridge,
            normalization=self.normalization,
            truncation=min(self.truncation, n - 1),
            n_landmarks=None,
        )


def gaussian(world: str, width: float, ridge: float, normalization: str = "unit") -> CodingRecipe:
    of = {"plain": " of rows as given", "pictures": " of patches"}.get(world, "")
    kernel = Gaussian(f"{width * 2**0.5} median")
    return CodingRecipe(
        world, f"Gaussian of {width:g} medians{of}, ridge {ridge:g}", kernel, ridge, normalization
    )


def recipes(n: int, k: int) -> Iterator[CodingRecipe]:
    """Candidates for n rows in k clusters, without patches and projections."""
    for width, ridge in GAUSSIANS:
        yield gaussian("subspaces" if width == 5.0 else "gaussian", width, ridge)
    for width, ridge in PLAIN:
        yield gaussian("plain", width, ridge, "global")
    more = int(np.clip(n / (10 * k), 7, 20))
    for ridge in AFFINE:
        yield CodingRecipe("affine", f"affine, ridge {ridge:g}", Linear(), ridge, "affine", truncation=more)
    for name, coding, t, normalization in (
        ("10 nearest rows", Neighbours(10), 10, "global"),
        ("5 nearest of unit rows", Neighbours(5), 5, "unit"),
        ("self-tuning distances", SelfTuning(7), 15, "global"),
    ):
        yield CodingRecipe("neighbours", name, Linear(), 1.0, normalization, coding, t)


def recipes_of_pictures() -> list[CodingRecipe]:
    """Candidates for features of patches."""
    return [gaussian("pictures", width, ridge) for width, ridge in OF_PICTURES]


def ratio(values: np.ndarray, k: int) -> float:
    """mean(e_1 .. e_k) / mean(e_(k+1) .. e_(2k+2)), from eigenvalues 1 - e in descending order.

    >>> round(ratio(np.array([1.0, 0.8, 0.5, 0.5, 0.5]), 2), 3)
    0.2
    """
    e = np.maximum(1 - values, 0)
    following = e[k : 2 * k + 2]
    return float(e[:k].mean() / max(following.mean(), 1e-9)) if len(following) else 1.0


@dataclass(frozen=True)
class Candidate:
    """A recipe on some rows, in a metric."""

    recipe: CodingRecipe
    iterate: Iterate
    seed: int

    @cached_property
    def eigenpairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Leading ones of the affinity: those that as many clusters as are asked for, or looked for, are judged by."""
        k = self.iterate.settings.n_clusters or MOST_CLUSTERS
        return leading_eigenpairs(self.iterate.affinity, 2 * k + 2, np.random.default_rng(self.seed))

    def ratio(self, k: int) -> float:
        return ratio(self.eigenpairs[0], k)

    def score(self, k: int) -> float:
        """The ratio as it is compared; clusters of hardly any rows count after all others."""
        labels = cluster_qr(self.eigenpairs[1][:, :k])
        stray = np.bincount(labels, minlength=k).min() < STRAY * len(labels) / k
        return self.ratio(k) * HANDICAP.get(self.recipe.world, 1.0) + stray


def cleanest(tried: Sequence[Candidate], k: int) -> Candidate | None:
    """The affine candidate to take where rows lie on affine subspaces with hardly any noise, else None.

    Such rows span few directions, and a graph of almost exact regressions falls apart by itself.
    """
    affine = [each for each in tried if each.recipe.world == "affine" and each.recipe.ridge <= FAINT[1]]
    X = affine[0].iterate.X
    variances = torch.linalg.svdvals(X - X.mean(0)).square()
    many = variances.flip(0).cumsum(0).flip(0) > 1e-3 * variances.sum()
    if int(many.sum()) > FEW_DIRECTIONS * min(X.shape):
        return None
    best = min(affine, key=lambda each: each.ratio(k))
    return best if best.ratio(k) <= CLEAN else None


@dataclass(frozen=True)
class Choice:
    """What the family came to.

    Attributes
    ----------
    recipe : CodingRecipe
    iterate : Iterate
        Of the rows on which it won; it has the product of projections, where one of these won.
    n_clusters : int
    table : list of dict
        Every candidate: name, world, ratio, on how many rows, and whether it was chosen; the best first.
    history : list of dict
        The iterates of Algorithm 1, where they were tried.
    count : Count or None
        How the number of clusters was found, where it was not given.
    """

    recipe: CodingRecipe
    iterate: Iterate
    n_clusters: int
    table: list[dict[str, Any]]
    history: list[dict[str, Any]]
    count: Count | None


def choose(sources: Mapping[str, Rows], n: int, settings: Settings, seed: int) -> Choice:
    """The best candidate for n rows; features of pictures are asked for only where they can win."""
    k = settings.n_clusters or MOST_CLUSTERS // 4
    order = np.random.default_rng(seed).permutation(n)
    some, more = (np.sort(order[: max(size, 15 * k)]) for size in (SCREENED_ROWS, COMPARED_ROWS))
    tried = _judged(recipes(len(some), k), sources, some, settings, seed)
    count = _counted(tried, settings, seed) if settings.n_clusters is None else None
    k = count.n_clusters if count else k
    settings = replace(settings, n_clusters=k)
    clean, tried = cleanest(tried, k), _ranked(tried, k)
    if clean is not None:
        tried = [clean] + [each for each in tried if each is not clean]
        return Choice(clean.recipe, clean.iterate, k, _table(tried, k), [{"iteration": 0}], count)
    if "pictures" in sources and tried[0].recipe.world not in SUBSPACES:
        tried = _ranked(tried + _judged(recipes_of_pictures(), sources, some, settings, seed), k)
    if len(more) > len(some):
        best = _judged([each.recipe for each in tried[:FINALISTS]], sources, more, settings, seed)
        tried = _ranked(best, k) + tried[FINALISTS:]
    projected: list[Candidate] = []
    if settings.projection is not None and settings.n_iterations > 0 and tried[0].recipe.world in SUBSPACES:
        projected = _projected(sources["rows"](more), settings, seed)
        tried = _ranked([tried[0], *projected], k) + tried[1:]
    history = [{"iteration": each.iterate.index, "ratio": each.ratio(k)} for each in projected]
    return Choice(
        tried[0].recipe, tried[0].iterate, k, _table(tried, k), history or [{"iteration": 0}], count
    )


def _ranked(tried: Sequence[Candidate], k: int) -> list[Candidate]:
    scores = [each.score(k) for each in tried]
    return [tried[i] for i in np.argsort(scores, kind="stable")]


def _table(tried: Sequence[Candidate], k: int) -> list[dict[str, Any]]:
    """The candidates as they are told, the one chosen first."""
    return [
        {
            "name": each.recipe.name,
            "world": each.recipe.world,
            "ratio": each.ratio(k),
            "rows": len(each.iterate.X),
            "chosen": place == 0,
        }
        for place, each in enumerate(tried)
    ]


def _counted(tried: Sequence[Candidate], settings: Settings, seed: int) -> Count:
    """The number of clusters, or one where normal rows with the same covariance have as much structure."""
    widths = [gaussian("", *each).name for each in COUNTED_BY]
    compared = [each for each in tried if each.recipe.name in widths]
    voters = compared + [
        each for each in tried if each.recipe.world == "affine" and each.recipe.ridge in FAINT
    ]
    n = len(voters[0].iterate.X)
    graphs, most = [(each.iterate.affinity, *each.eigenpairs) for each in voters], min(MOST_CLUSTERS, n // 6)
    by_gap = count_clusters(graphs, most, by_gap=True)
    if cleanest(tried, by_gap.n_clusters) is not None:
        return by_gap
    count = count_clusters(graphs, most)
    k = count.n_clusters
    if k < 2:
        return count
    rows = compared[0].iterate.X
    G = torch.randn(n, n, generator=torch.Generator().manual_seed(seed), dtype=rows.dtype) / n**0.5
    null = G @ (rows - rows.mean(0)) + rows.mean(0)
    by_chance = _judged(
        [each.recipe for each in compared], {"rows": lambda _: null}, np.arange(n), settings, seed
    )
    shares = [real.ratio(k) / max(each.ratio(k), 1e-9) for real, each in zip(compared, by_chance)]
    return count if np.mean(shares) < STRUCTURE else replace(count, n_clusters=1, structure=False)


def _judged(
    given: Iterable[CodingRecipe],
    sources: Mapping[str, Rows],
    rows: np.ndarray,
    settings: Settings,
    seed: int,
) -> list[Candidate]:
    """Candidates on some of the rows; those with one normalisation share their distances."""
    shared: dict[tuple[str, str], NormalizedRows] = {}
    found = []
    for recipe in given:
        X = sources[recipe.source](rows)
        place = recipe.source, recipe.normalization
        if place not in shared:
            shared[place] = NormalizedRows(X, recipe.normalization)
        own = recipe.settings(settings, len(X))
        found.append(Candidate(recipe, Iterate(X, None, 0, own, seed, shared[place]), seed))
    return found


def _projected(rows: Tensor, settings: Settings, seed: int) -> list[Candidate]:
    """The iterates of Algorithm 1 after the rows as given."""
    base = gaussian("projected", 1.5, 1.0)
    own = base.settings(settings, len(rows))
    return [
        Candidate(replace(base, name=f"projection {each.index}"), each, seed)
        for each in iterates(rows, own, seed)
        if each.index
    ]
