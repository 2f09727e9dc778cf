"""Choose layers of a network and weigh them, so that their kernels together align best with the classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from krepes.alignment.similarity.cka import cka
from krepes.alignment.similarity.kernel_combination import combine_kernels
from krepes.base.caller_warning import warn
from krepes.base.display import text_table

FEWEST_ROWS = 4  # of the unbiased alignment


class LayerScore(NamedTuple):
    """One layer: its alignment with the classes, its weight, and its share of the features' variance."""

    layer: str
    alignment: float
    weight: float
    share: float


def choose_layers(
    features: Mapping[str, np.ndarray],  # {layer: (n, r)}
    codes: np.ndarray,  # (n,)
    weighting: str,
) -> tuple[list[LayerScore], float]:
    """Every layer's score, and the alignment of the weighted layers together.

    Weights have 2-norm 1. With fewer than four rows, or where no layer aligns better than chance, they are those of
    "uniform": every layer has the same variance.

    >>> y = np.array([0, 1] * 10)
    >>> layers = {"a": np.arange(20.0)[:, None] ** 2 % 7, "b": 5.0 * y[:, None]}
    >>> scores, alignment = choose_layers(layers, y, "alignment")
    >>> [score.share for score in scores], round(alignment, 9)
    ([0.0, 1.0], 1.0)
    """
    Y = np.eye(int(codes.max()) + 1)[codes]
    variances = np.array([Z.var(axis=0).sum() for Z in features.values()])
    alive = variances > 1e-20 * np.array([np.square(Z).sum(axis=1).mean() for Z in features.values()])
    if not alive.any():
        raise ValueError(
            "All layers are constant, or so far from zero that rounding hides what varies: nothing distinguishes the "
            "classes."
        )
    uniform = np.where(alive, 1 / np.where(alive, variances, 1.0), 0.0)
    uniform = uniform / uniform.max()
    uniform /= np.linalg.norm(uniform)
    alone, weights = np.full(len(features), np.nan), uniform
    if len(codes) >= FEWEST_ROWS:
        found = combine_kernels(features, Y)
        alone = found.alone
        if weighting == "alignment" and found.weights.any():
            weights = found.weights
        elif weighting == "alignment" and len(features) > 1:
            warn(
                "No layer aligns with y better than chance; all are used, with equal variance.",
            )
    share = weights * variances
    share = share / share.sum()
    together = np.hstack([Z * np.sqrt(mu) for Z, mu in zip(features.values(), weights) if mu > 0])
    alignment = cka(together, Y) if len(codes) >= FEWEST_ROWS else float("nan")
    scores = zip(features, alone.tolist(), weights.tolist(), share.tolist())
    return [LayerScore(*score) for score in scores], float(alignment)


def layer_lines(scores: list[LayerScore]) -> str:
    """The layers that are used, the largest share first, as lines of text."""
    used = sorted((score for score in scores if score.weight > 0), key=lambda score: -score.share)
    rows = [[s.layer, f"{s.alignment:.3f}", f"{s.weight:.4f}", f"{s.share:.1%}"] for s in used]
    return text_table([["layer", "alone", "weight", "share"], *rows])
