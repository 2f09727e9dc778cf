"""The ridge probe: linear regression on a fixed representation, for targets that are quantities.

    min_{w, b}  sum_i (y_i - w^T z_i - b)^2  +  alpha u |w|^2

As the linear probe, it scales the representation by one number and never column by column: u is the sum of squares of
the centred columns over their rank, so that one grid of alpha means the same for every representation. alpha is chosen
by leaving out every labelled row once, exactly and without refitting; test rows take no part.

Cost O(n h min(n, h)).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from krepes.evaluation.probe_inputs import check_inputs
from krepes.evaluation.probe_result import ProbeResult
from krepes.regression.ridge import ALPHAS, LeaveOneOutRidge


def ridge_probe(
    Z_train: Any,  # shape: (n, h)
    y_train: Any,
    Z_test: Any,
    y_test: Any,
    *,
    alphas: Sequence[float] = ALPHAS,
    random_state: int | np.random.Generator | None = 0,
) -> ProbeResult[LeaveOneOutRidge]:
    """Fit ridge regression on labelled rows of a representation and test it.

    Parameters
    ----------
    Z_train, y_train : representation and targets to learn from. Rows whose target is None or NaN are left out.
    Z_test, y_test : rows to test on; they take no part in any choice.
    alphas : values to choose from, relative to the representation's own scale.
    random_state : not used; nothing is random. All probes take it.

    Examples
    --------
    >>> x = np.arange(8.0)[:, None]
    >>> result = ridge_probe(x[::2], 2 * x[::2, 0] + 1, x[1::2], 2 * x[1::2, 0] + 1)
    >>> round(result.r2, 6), result.chosen
    (1.0, {'alpha': 1e-08})
    """
    data = check_inputs(Z_train, y_train, Z_test, y_test, quantity=True)
    fitted = LeaveOneOutRidge(alphas).fit(data.Z_train, data.train)
    return data.result(fitted, fitted.predict(data.Z_test), {"alpha": fitted.alpha_})
