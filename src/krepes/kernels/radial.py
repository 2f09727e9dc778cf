"""Kernels of the distance between two points, and the rule for their lengthscale.

    k(x, y) = f(u),   u = |x - y| / l,        dk/dy = -f'(u)/u (x - y) / l^2

f is the `profile`. What gradients need of it is `profile_slope`, f'(u)/u, its derivative with respect to u^2/2: finite
at u = 0 where the kernel is smooth (Gaussian, Matern 3/2 and 5/2), -infinity where it has a kink (Laplacian, Matern
1/2). `slope` puts zero there, the mean of the one-sided derivatives.

`lengthscale="median"` is found by `fitted`: two rows at the median distance of the data have similarity 1/e.
For the Laplacian kernel that length is the median distance itself, for the Gaussian one the median over sqrt 2.
"4 median" is four times as long.
A lengthscale per feature, shape (d,), is accepted everywhere a number is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.rows import SparseRows
from krepes.kernels.distances import distances_to
from krepes.kernels.kernel import Geometry, KernelColumns, no_slope
from krepes.kernels.lengthscale import median_distance, medians, refuse_rule
from krepes.kernels.products import Vectors
from krepes.kernels.vectors import VectorKernel, as_rows

Lengthscale = float | str | Sequence[float] | np.ndarray | Tensor  # one, "median", or one per feature
SHORTEST = 1e-150  # lengthscale: its square is a number of double precision


class RadialKernel(VectorKernel):
    """A kernel with a lengthscale and k(x, x) = 1; subclasses implement `profile`.

    A subclass that has a faster way to its values implements `against_scaled`, too. With `profile_slope` it has
    gradients.

    Parameters
    ----------
    lengthscale : float, array of shape (d,), or "median", default="median"
        The length l over which similarity decays; "median" makes it 1/e at the median distance, and "4 median" is
        four times as long.
    """

    takes_sparse = True

    @property
    def reach(self) -> float:
        """The distance, in lengthscales, at which k = 1/e."""
        return 1.0

    def __init__(self, lengthscale: Lengthscale = "median"):
        self.lengthscale = lengthscale

    def profile(self, u: Tensor) -> Tensor:
        """f(u) for distances u in lengthscales; u may be overwritten."""
        raise TypeError(f"{type(self).__name__} gives neither `profile` nor `against_scaled`.")

    def profile_slope(self, u: Tensor) -> Tensor:
        """f'(u) / u; u may be overwritten. At u = 0 it is finite or -infinity, see above."""
        raise no_slope(self)

    def against_scaled(self, Y: Any, lengthscale: float) -> KernelColumns:
        """`against` for rows and one positive lengthscale."""
        distances = self.distances_to(Y)
        return lambda X: self.profile(distances(X).mul_(1 / lengthscale))

    def distances_to(self, Y: Any) -> KernelColumns:
        """The distance of which this kernel is a function, as X -> (b, m)."""
        return distances_to(Y)

    def against_rows(self, Y: Vectors) -> KernelColumns:
        lengthscale = self._lengthscale(Y.shape[1])
        if isinstance(lengthscale, float):
            return self.against_scaled(Y, lengthscale)
        if isinstance(Y, SparseRows):
            inverse = 1 / lengthscale
            scaled = self.against_scaled(Y.times_columns(inverse), 1.0)
            return lambda X: scaled(X.times_columns(inverse))
        scale = torch.as_tensor(lengthscale, dtype=Y.dtype, device=Y.device)
        center = Y.mean(dim=0)  # because dividing numbers far from zero would round their differences away
        block = self.against_scaled((Y - center) / scale, 1.0)
        return lambda X: block((X - center) / scale)

    @property
    def geometry(self) -> Geometry | None:
        return "radial" if self.one_scale else None

    @property
    def one_scale(self) -> bool:
        return isinstance(self.lengthscale, str) or np.ndim(self.lengthscale) == 0

    @property
    def shift_invariant(self) -> bool:
        return True

    def slope(self, X: Any, Y: Any) -> Tensor:
        if self.geometry is None:
            return super().slope(X, Y)
        Y = as_rows(Y)
        X = as_rows(X, like=Y)
        return self.slope_scaled(X, Y, float(self._lengthscale(Y.shape[1])))

    def gradients(self, X: Tensor, Y: Tensor, A: Tensor) -> Tensor:
        if self.one_scale:
            return super().gradients(X, Y, A)
        scale = torch.as_tensor(self._lengthscale(Y.shape[1]), dtype=Y.dtype, device=Y.device)
        center, isotropic = Y.mean(dim=0), clone(self).set_params(lengthscale=1.0)
        return isotropic.gradients((X - center) / scale, (Y - center) / scale, A).div_(scale)

    def slope_scaled(self, X: Tensor, Y: Tensor, lengthscale: float) -> Tensor:
        """`slope` for rows and one positive lengthscale."""
        found = self.profile_slope(self.distances_to(Y)(X).mul_(1 / lengthscale))
        return torch.where(found == -torch.inf, 0.0, found).mul_(-1 / lengthscale**2)

    def diag_rows(self, X: Vectors) -> Tensor:
        if isinstance(X, SparseRows):
            return torch.ones(len(X), dtype=torch.float64)
        return torch.ones_like(X[:, 0]) if X.shape[1] else X.new_ones(len(X))

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> RadialKernel:
        if not isinstance(self.lengthscale, str):
            return self
        multiple = medians(self.lengthscale)
        length = median_distance(self._rows(X), self.distances_to, generator)
        return clone(self).set_params(lengthscale=multiple * length / self.reach)

    def column_lengthscale(self, column: int) -> float:
        """The lengthscale of one feature."""
        lengths = np.asarray(self.lengthscale, dtype=float)
        return float(lengths if lengths.ndim == 0 else lengths[column])

    def _lengthscale(self, n_features: int) -> float | np.ndarray:
        if isinstance(self.lengthscale, str):
            refuse_rule(self.lengthscale)
        try:
            length = np.asarray(self.lengthscale, dtype=float)
        except (TypeError, ValueError):
            medians(str(self.lengthscale))
            raise
        if not (np.all(length > SHORTEST) and np.all(length < 1 / SHORTEST)):
            raise ValueError(
                f"lengthscale={self.lengthscale!r}: expected positive, finite numbers between {SHORTEST:g} and "
                f"{1 / SHORTEST:g}. Give rows out of this range in other units."
            )
        if length.ndim == 0:
            return float(length)
        if length.shape != (n_features,):
            raise ValueError(
                f"lengthscale has shape {length.shape}; expected one number or {n_features} of them."
            )
        return length
