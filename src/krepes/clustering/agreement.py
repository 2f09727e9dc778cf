"""How well clusters agree with classes, in the unit of the field: the error.

error = 1 - max over matchings of clusters and classes, of the share of rows in the class of their cluster
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from krepes.base.validation import as_array


def clustering_error(y: Any, labels: Any) -> float:
    """The share of rows outside the class that their cluster is matched with.

    >>> clustering_error(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.25
    """
    n = len(as_array(labels, "labels"))
    if not n:
        raise ValueError("labels has no rows: there is nothing to compare.")
    rows, columns = cluster_codes(y, n), cluster_codes(labels, n)
    counts = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(counts, (rows, columns), 1)
    return float(1 - counts[linear_sum_assignment(-counts)].sum() / n)


def cluster_codes(y: Any, n: int) -> np.ndarray:
    """The class of every row as a number."""
    labels = as_array(y, "y")
    if labels.shape != (n,):
        raise ValueError(f"y has shape {labels.shape}; expected one class per row, ({n},).")
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError as error:
        raise TypeError(f"y mixes labels that have no order, such as text and numbers: {error}.") from error
