"""LEEP: how well the classes that a source model sees predict the labels.

    P(y, z) = 1/n sum over rows of label y of theta(x_i)_z,   LEEP = 1/n sum_i log sum_z P(y_i | z) theta(x_i)_z  [leep]

theta are the source classifier's probabilities. Zero is perfect, and -H(y), the entropy of the labels, is what a model
that sees nothing has. Because of the logarithm of a sum over z, the probabilities are needed a second time once P(y |
z) is known: sums over one pass are not enough. Cost O(n z).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from krepes.alignment.inputs import Numbers, class_codes
from krepes.base.validation import as_flat_matrix, check_same_rows


def leep(probabilities: Numbers, y: Any) -> float:
    """LEEP of a source classifier's probabilities (n, z) for labels y (n,): at most 0, larger is better.

    Examples
    --------
    >>> leep(np.eye(2)[[0, 1, 0, 1]], ["a", "b", "a", "b"])                  # source and target classes agree
    0.0
    >>> uniform = np.full((4, 2), 0.5)
    >>> round(leep(uniform, ["a", "b", "a", "b"]), 4)                            # log 1/2
    -0.6931
    """
    theta = check_probabilities(probabilities, "probabilities")
    classes, codes = class_codes(y)
    check_same_rows(len(codes), len(theta), "y", "probabilities")
    joint = np.stack([theta[codes == c].sum(axis=0, dtype=np.float64) for c in range(len(classes))])
    marginal = joint.sum(axis=0)
    conditional = np.divide(
        joint, marginal, out=np.zeros_like(joint), where=marginal > 0
    )  # P(y | z), (classes, z)
    total = 0.0
    for c, row in enumerate(conditional):
        total += np.log(theta[codes == c] @ row).sum()
    return float(total / len(codes))


def check_probabilities(probabilities: Numbers, name: str) -> np.ndarray:
    """Rows that are not negative and sum to 1."""
    theta = as_flat_matrix(probabilities, name).astype(np.float64)
    worst = np.abs(theta.sum(axis=1) - 1).max()
    if theta.min() < 0 or worst > 1e-3:
        raise ValueError(
            f"The rows of {name} are not probabilities (smallest number {theta.min():.3g}, sums off by up to "
            f"{worst:.3g}). Give the softmax of the source classifier's outputs."
        )
    return theta
