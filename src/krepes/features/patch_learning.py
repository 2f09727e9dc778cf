"""Patches learned without labels: patches are rows, and other patches of the same picture are their views.

    S = mean psi(p) psi(p)^T,      S_+ = mean psi(p) psi(q)^T      p, q of one picture: neighbours, or any two patches

One pass sums both, and a loss with a closed form gives W (`krepes.losses`). A patch is then described by
z(p) = W^T psi(p) / |W^T psi(p)|, which is pooled as psi is. With the quadratic VICReg loss and neighbours this is
the sparse manifold transform without its sparse codes [chen2023].

Sums are kept before Z^(-1/2), which acts once, at the end. Every second row and column of positions counts, because
patches beside each other share most of their pixels. Cost: P m^2 / 2 operations for a picture with P positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.accumulator import Accumulator
from krepes.base.blocks import Block, Placement
from krepes.base.reporting import display
from krepes.base.storage.packing import digest
from krepes.base.validation import check_choice, check_count, check_number
from krepes.engines import Engine, as_engine
from krepes.features.fit_data import FitData
from krepes.features.preparation import Run, Spec, prepare
from krepes.kernels import Patches
from krepes.losses import Loss, as_loss
from krepes.moments import Moments

PAIRS = ("neighbours", "picture")
STRIDE = 2  # rows and columns of positions, of which one counts
SCALED_ON = 2000  # pictures


class PatchMoments(Accumulator[Moments, Moments]):
    """The moments of patches and of pairs of patches; a picture counts once.

    Parameters
    ----------
    kernel : Patches
        Fitted.
    pairs : "neighbours" or "picture"
        Which patches are views of each other: those two pixels apart, or any two of a picture.
    """

    def __init__(self, kernel: Patches, pairs: str = "neighbours"):
        check_choice("pairs", pairs, PAIRS)
        self.kernel, self.pairs = kernel, pairs
        self.root = kernel.layers_[-1].root
        super().__init__()

    def zero(self) -> Moments:
        m = len(self.root)
        nothing, square = torch.zeros(m, dtype=torch.float64), torch.zeros(m, m, dtype=torch.float64)
        return Moments(0, nothing, nothing, square, square, square, trace=0.0)

    def plus(self, sums: Moments, block: Block) -> Moments:
        for values in self.kernel.patch_values(block.inputs[0]):
            sums = sums + self._of(values[:, ::STRIDE, ::STRIDE])
        return sums

    def _of(self, psi: Tensor) -> Moments:
        """Moments of some pictures, (b, h, w, m)."""
        b, positions = len(psi), psi.shape[1] * psi.shape[2]
        flat = psi.flatten(0, 2)
        S = (flat.mT @ flat).double() / positions
        totals = psi.sum((1, 2))
        if self.pairs == "picture" and positions > 1:
            pairs = ((totals.mT @ totals).double() / positions - S) / (positions - 1)
        else:
            ends = [(psi[:, 1:], psi[:, :-1]), (psi[:, :, 1:], psi[:, :, :-1])]
            n_pairs = sum(left[0, ..., 0].numel() for left, _ in ends)
            products = [left.flatten(0, 2).mT @ right.flatten(0, 2) for left, right in ends if left.numel()]
            one_way = sum(products, torch.zeros_like(S)) / max(1, n_pairs)
            pairs = (one_way + one_way.mT) / 2
        mean = totals.sum(0).double() / positions
        trace = flat.double().square().sum().item() / positions
        return Moments(b, mean, mean, S, S, pairs, trace=trace)

    def joined(self, first: Moments, second: Moments) -> Moments:
        return first + second

    def value(self, sums: Moments) -> Moments:
        R = self.root
        mean, S = R @ sums.sum_1, R @ sums.sum_11 @ R
        assert sums.sum_12 is not None
        return Moments(sums.n, mean, mean, S, S, R @ sums.sum_12 @ R, trace=S.trace().item())

    @property
    def sizes(self) -> dict[str, int]:
        return {"r": len(self.root)}

    def fingerprint(self) -> dict[str, str]:
        return {"kernel": digest(self.kernel), "pairs": self.pairs}


def learn_patches(
    X: Any,
    kernel: Patches | None = None,
    *,
    n_components: int = 128,
    loss: str | Loss = "spectral_contrastive",
    pairs: str = "neighbours",
    regularization: float = 1e-3,
    engine: Engine | str | None = None,
    random_state: int = 0,
    verbose: int = 0,
) -> Patches:
    """A kernel whose patches are described by what patches of the same picture have in common.

    Parameters
    ----------
    X : pictures, as KernelEmbedding takes them
    kernel : Patches, default=None
        None is Patches().
    n_components : int, default=128
        Numbers that describe a patch.
    loss : str or Loss with a closed form, default="spectral_contrastive"
        Or `VICReg(variance="quadratic")`.
    pairs : "neighbours" or "picture", default="neighbours"
    regularization : float, default=1e-3
        Relative to the mean of |psi|^2.
    engine, random_state, verbose : as in KernelEmbedding

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> kernel = learn_patches(load_digits().images[:100], Patches(32), n_components=8)
    >>> kernel.features(load_digits().images[:5]).shape            # 2 x 2 cells, 8 components
    torch.Size([5, 32])
    """
    check_count("n_components", n_components)
    check_number("regularization", regularization, least=0)
    check_count("random_state", random_state, least=0)
    kernel = Patches() if kernel is None else kernel
    if not isinstance(kernel, Patches):
        raise TypeError(f"kernel={kernel!r:.60}: expected Patches(...), whose patches are described.")
    solved = as_loss(loss)
    solved.require("minimiser")
    run = Run(
        as_engine(engine),
        display(verbose),
        Placement(torch.float32, torch.device("cpu")),
        random_state,
    )
    data = FitData.open(X)
    space = prepare(data, Spec(kernel, "uniform", 2), run)
    fitted = space.kernel
    assert isinstance(fitted, Patches)
    reader = data.reader(space.inputs, run.placement)
    moments = run.engine.reduce(PatchMoments(fitted, pairs), reader, progress=run.progress, name="Patches")
    lam = regularization * moments.trace / moments.n
    W, _ = solved.minimiser(moments, n_components, lam)
    rows = np.sort(np.random.default_rng(run.seed).permutation(data.n_rows)[:SCALED_ON])
    pictures = reader.take(rows).inputs[0]
    return fitted.with_components(fitted.layers_[-1].root @ W, pictures)
