"""Ways to say which landmarks matter for a row; each gives every landmark a number, and the largest come first.

    kernel           s_l = k(x, x_l) / sqrt(k(x_l, x_l))                            how alike; ignores what was learned
    influence        |k(x, x_l)| |a_l|                                              [krepes, section 5.1]
    contributions    c_l = k(x, x_l) a_l . v,   v = (z - centre) / |z - centre|^2       the term's part of the way to z
    shares           u_l(x) (z_l - centre) . v                                      the value's part of the way to z
    support          root of the product of the two, where both are positive
    leave_out        |f(x) - f_-l(x)|, the other landmarks take over                `krepes.explain.influence`
    learned          s_l (z_l - centre) . v                                         alike by the kernel and as learned
    groups           c_l summed over groups of similar landmarks; in a group, by s_l
    re_expansion     the parts of z in a sum of few landmarks                       `krepes.explain.re_expansion`

Which of them to trust is measured, `krepes.explain.faithfulness`; docs/explain.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from krepes.explain.expansion import Expansion
from krepes.explain.influence import changes
from krepes.explain.re_expansion import sparse_weights
from krepes.explain.top_landmarks import Values

DEFAULT = "contributions"  # lowest on deletion, see docs/explain.md
LANDMARKS_PER_GROUP = 5  # on average
N_TERMS = 5  # of a re-expansion


def kernel_values(expansion: Expansion) -> Values:
    return lambda K: expansion.similarity(K.double())


def influence_lengths(expansion: Expansion) -> Values:
    return lambda K: expansion.landmarks.by_landmark(K.double() * expansion.norms).abs()


def own_contributions(expansion: Expansion) -> Values:
    """k_x -> c_l: the share of the way from the centre to z that a landmark's term makes."""
    return lambda K: expansion.terms_along(K.double(), expansion.own_position(K.double()))


def own_shares(expansion: Expansion) -> Values:
    """k_x -> the share of the way from the centre to z that a landmark's own representation makes."""
    centre = expansion.centre
    return lambda K: expansion.values_along(K.double(), expansion.own_position(K.double()), centre)


def support(expansion: Expansion) -> Values:
    """k_x -> how far both forms of the sum agree that a landmark pushes the row to where it lies."""
    terms, values = own_contributions(expansion), own_shares(expansion)
    return lambda K: (terms(K).clamp(min=0) * values(K).clamp(min=0)).sqrt()


def learned_similarity(expansion: Expansion) -> Values:
    """k_x -> kernel value times the inner product of what was learned of the two rows; 1 for two equal rows."""
    toward = expansion.at_landmarks - expansion.centre
    return lambda K: expansion.similarity(K.double()) * (expansion.own_position(K.double()) @ toward.mT)


def group_contributions(expansion: Expansion, groups: np.ndarray | None = None) -> Values:
    """The landmarks of the group whose contributions have the largest sum, the most similar first; then the next group.

    groups : (m,), the group of every landmark; None for groups of similar landmarks.
    """
    found = similar_landmarks(expansion) if groups is None else np.unique(groups, return_inverse=True)[1]
    member = torch.from_numpy(found.astype(np.int64)).to(expansion.A.device)
    sums = torch.nn.functional.one_hot(member).double()
    shares = own_contributions(expansion)

    def ordered(K: Tensor) -> Tensor:
        places = (shares(K) @ sums).argsort(1).argsort(1)[:, member]  # larger for a larger sum
        s = expansion.similarity(K.double())
        return places + 0.5 * s / s.abs().amax(1, keepdim=True).clamp(min=1e-300)

    return ordered


def similar_landmarks(expansion: Expansion) -> np.ndarray:
    """Groups of landmarks that are near each other in the kernel's space, by average linkage, (m,)."""
    m = expansion.landmarks.n_landmarks
    if m < 3:
        return np.zeros(m, dtype=np.int64)
    K = expansion.landmarks.K[:m, :m]  # the first views
    squares = (K.diagonal()[:, None] + K.diagonal() - 2 * K).clamp(min=0).fill_diagonal_(0)
    tree = linkage(squareform(squares.sqrt().cpu().numpy(), checks=False), method="average")
    return fcluster(tree, max(2, m // LANDMARKS_PER_GROUP), criterion="maxclust") - 1


def few_landmarks(expansion: Expansion) -> Values:
    atoms = expansion.at_landmarks - expansion.centre

    def parts(K: Tensor) -> Tensor:
        K = K.double()
        shares = sparse_weights(expansion, K, N_TERMS)[0] * (expansion.own_position(K) @ atoms.mT)
        s = expansion.similarity(K)
        return torch.where(shares > 0, shares, 1e-9 * s / s.abs().max().clamp(min=1e-300))

    return parts


METHODS: dict[str, Callable[[Expansion], Values]] = {
    "contributions": own_contributions,
    "support": support,
    "shares": own_shares,
    "learned": learned_similarity,
    "groups": group_contributions,
    "re_expansion": few_landmarks,
    "leave_out": changes,
    "influence": influence_lengths,
    "kernel": kernel_values,
}


def ranking(expansion: Expansion, by: str = "auto") -> Values:
    """k_x -> a number for every landmark, the largest first; "auto" is the default explanation."""
    name = method_name(by)
    return METHODS[name](expansion)


def method_name(by: str) -> str:
    """The name of a method; "auto" is `DEFAULT`."""
    if by == "auto":
        return DEFAULT
    if by not in METHODS:
        raise ValueError(f"by={by!r:.60}: expected 'auto' or one of {', '.join(METHODS)}.")
    return by
