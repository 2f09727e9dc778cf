"""LEEP: how well the classes that a source model sees predict the labels.

    P(y, z) = 1/n sum over rows of label y of theta(x_i)_z,   LEEP = 1/n sum_i log sum_z P(y_i | z) theta(x_i)_z  [leep]

theta are the source classifier's probabilities. Zero is perfect, and -H(y), the entropy of the labels, is what a model
that sees nothing has. Because of the logarithm of a sum over z, the probabilities are needed a second time once P(y |
z) is known: sums over one pass are not enough. Cost O(n z).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from krepes.alignment.inputs import Numbers, labelled


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
    theta, codes, n_classes = labelled(probabilities, y, "probabilities")
    theta = theta.astype(np.float64)
    worst = np.abs(theta.sum(axis=1) - 1).max()
    if theta.min() < 0 or worst > 1e-3:
        raise ValueError(
            f"probabilities are off a sum of 1 by up to {worst:.3g}, or negative: give the softmax of the outputs."
        )
    joint = np.stack([theta[codes == c].sum(axis=0) for c in range(n_classes)])
    marginal = joint.sum(axis=0)
    conditional = joint / np.where(marginal > 0, marginal, 1.0)  # P(y | z), (classes, z)
    total = sum(np.log(theta[codes == c] @ row).sum() for c, row in enumerate(conditional))
    return float(total / len(codes))
