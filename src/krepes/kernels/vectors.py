"""Kernels on vectors: rows as (n, d) tensors of one dtype and device, images flattened.

A kernel that says so (`takes_sparse`) also takes sparse rows. It computes in float64 then, and its values are rounded
to the dtype of the landmarks.

Radial kernels are functions of the distance:

    k(x, y) = f(u),   u = |x - y| / l,        dk/dy = -f'(u)/u (x - y) / l^2

f is the `profile`. What gradients need of it is `profile_slope`, f'(u)/u, its derivative with respect to u^2/2: finite
at u = 0 where the kernel is smooth (Gaussian, Matern 3/2 and 5/2), -infinity where it has a kink (Laplacian, Matern
1/2). `slope` puts zero there, the mean of the one-sided derivatives.

`lengthscale="median"` is found by `fitted`: two rows at the median distance of the data have similarity 1/e.
For the Laplacian kernel that length is the median distance itself, for the Gaussian one the median over sqrt 2.
"4 median" is four times as long. A lengthscale per feature, shape (d,), is accepted everywhere a number is.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.rows import SparseRows, dense_remedy
from krepes.base.validation import check_number, check_squares, writable
from krepes.kernels.distances import Vectors, distances_to, manhattan_distances_to
from krepes.kernels.kernel import Geometry, Kernel, KernelColumns, no_slope

# one, "median", or one per feature
Lengthscale = float | str | Sequence[float] | np.ndarray | Tensor
SHORTEST = 1e-150  # lengthscale: its square is a number of double precision
MEDIAN_ROWS = 1000  # that the median distance is taken from


def as_rows(X: Any, like: Tensor | None = None) -> Tensor:
    """Anything array-like as a (n, d) floating tensor; images are flattened, integers become float32."""
    if isinstance(X, SparseRows):
        raise TypeError(
            f"This works on dense rows only; got sparse ones, {X.describe()}. {dense_remedy(X.shape[1])}"
        )
    if isinstance(X, Tensor):
        if X.layout != torch.strided:
            raise TypeError(f"X is a sparse tensor, {X.layout}; expected a dense one. Use X.to_dense().")
    else:
        try:
            array = writable(np.asarray(X))
            X = torch.as_tensor(array)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                "This kernel compares vectors, but got objects that are not numbers. Give a kernel on objects, such as "
                "krepes.kernels.Spectrum() for strings, or krepes.kernels.Custom(function, pairwise=True). Time series "
                "of different lengths: preprocess='series'."
            ) from None
        if array.dtype.kind == "f":
            if not np.isfinite(array).all():
                raise ValueError(
                    "The rows hold NaN or infinite numbers: fill them in, or leave those rows out."
                )
            check_squares(array, "X")
    if X.ndim < 2:
        raise ValueError(f"Expected rows of features, shape (n, d); got shape {tuple(X.shape)}.")
    if not X.is_floating_point():
        X = X.to(torch.float32)
    if like is not None:
        X = X.to(device=like.device, dtype=like.dtype)
    return X.reshape(len(X), int(np.prod(X.shape[1:])))


class VectorKernel(Kernel):
    """A kernel on vectors: subclasses see (n, d) floating tensors of one dtype and device, or sparse rows."""

    @property
    def one_scale(self) -> bool:
        return True

    @abstractmethod
    def against_rows(self, Y: Any) -> KernelColumns:
        """`against` for Y of shape (m, d), a tensor or, where the kernel takes them, sparse rows."""

    @abstractmethod
    def diag_rows(self, X: Any) -> Tensor:
        """`diag` for X of shape (n, d), likewise."""

    def against(self, Y: Any) -> KernelColumns:
        Y = self._rows(Y)
        block = self.against_rows(Y)

        def checked(X: Any) -> Tensor:
            if isinstance(Y, Tensor):
                X = X if _alike(X, Y) else as_rows(X, like=Y)
            elif not isinstance(X, SparseRows):
                raise TypeError(
                    "The landmarks are sparse rows: compare them with sparse rows, X of scipy.sparse."
                )
            if X.shape[1] != Y.shape[1]:
                raise ValueError(f"X has {X.shape[1]} features, but the landmarks have {Y.shape[1]}.")
            return block(X) if isinstance(Y, Tensor) else _rounded(block(X), Y)

        return checked

    def diag(self, X: Any) -> Tensor:
        X = self._rows(X)
        return self.diag_rows(X) if isinstance(X, Tensor) else _rounded(self.diag_rows(X), X)

    def _rows(self, X: Any) -> Vectors:
        """Rows as this kernel takes them."""
        return X if self.takes_sparse and isinstance(X, SparseRows) else as_rows(X)


def _alike(X: Any, Y: Tensor) -> bool:
    """Whether rows are vectors already, of the dtype and on the device of Y."""
    if not isinstance(X, Tensor) or X.ndim != 2 or X.layout != torch.strided:
        return False
    return X.dtype == Y.dtype and X.device == Y.device


def _rounded(values: Tensor, rows: SparseRows) -> Tensor:
    return values.to(torch.float32 if rows.dtype == np.float32 else torch.float64)


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
    norm: int = 2  # of the distance
    shift_invariant = True

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
        if self.norm not in (1, 2):
            raise ValueError(f"norm={self.norm!r}: expected 1 or 2.")
        return manhattan_distances_to(Y) if self.norm == 1 else distances_to(Y)

    def against_rows(self, Y: Vectors) -> KernelColumns:
        lengthscale = self._lengthscale(Y.shape[1])
        if isinstance(lengthscale, float):
            return self.against_scaled(Y, lengthscale)
        if isinstance(Y, SparseRows):
            inverse = 1 / lengthscale
            scaled = self.against_scaled(Y.times_columns(inverse), 1.0)
            return lambda X: scaled(X.times_columns(inverse))
        scale = torch.as_tensor(lengthscale, dtype=Y.dtype, device=Y.device)
        # because dividing numbers far from zero would round their differences away
        center = Y.mean(dim=0)
        block = self.against_scaled((Y - center) / scale, 1.0)
        return lambda X: block((X - center) / scale)

    @property
    def geometry(self) -> Geometry | None:
        return "radial" if self.one_scale else None

    @property
    def one_scale(self) -> bool:
        return isinstance(self.lengthscale, str) or np.ndim(self.lengthscale) == 0

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

    def column_lengthscales(self, columns: list[int]) -> list[float]:
        """The lengthscales of some features."""
        lengths = np.asarray(self.lengthscale, dtype=float)
        return [float(lengths if lengths.ndim == 0 else lengths[j]) for j in columns]

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
                f"lengthscale={self.lengthscale!r}: expected positive numbers from {SHORTEST:g} to {1 / SHORTEST:g}."
            )
        if length.ndim == 0:
            return float(length)
        if length.shape != (n_features,):
            raise ValueError(
                f"lengthscale has shape {length.shape}; expected one number or {n_features} of them."
            )
        return length


def medians(rule: str) -> float:
    """The multiple of the median distance that a rule names.

    >>> medians("median"), medians("4 median")
    (1.0, 4.0)
    """
    words = rule.split()
    if words[-1:] == ["median"] and len(words) <= 2:
        try:
            multiple = float(words[0]) if len(words) == 2 else 1.0
        except ValueError:
            multiple = 0.0
        if 0 < multiple < math.inf:
            return multiple
    raise ValueError(
        f"lengthscale={rule!r}: expected a positive number, or one per feature, 'median', or e.g. '4 median'."
    )


def refuse_rule(rule: str) -> NoReturn:
    """The error for a lengthscale that still has to be found from data."""
    medians(rule)
    raise ValueError(f"lengthscale={rule!r} depends on data: call kernel.fitted(X) first, or give a number.")


def fixed_lengthscale(lengthscale: float | str) -> float:
    """A lengthscale that is one positive number already."""
    if isinstance(lengthscale, str):
        refuse_rule(lengthscale)
    check_number("lengthscale", lengthscale, "'median' or a number", above=0)
    return float(lengthscale)


def median_distance(
    X: Vectors, distances_to: Callable[[Any], Callable[[Any], Tensor]], generator: torch.Generator | None
) -> float:
    """The median distance between two different rows, from at most 1000 rows of X.

    Falls back to the mean of the positive distances where more than half of the pairs coincide, and to 1
    for constant data, for which every lengthscale gives the same constant kernel.
    """
    if len(X) > MEDIAN_ROWS:
        order = torch.randperm(len(X), generator=generator)
        X = X[order[:MEDIAN_ROWS].to(X.device)]
    return middle_distance(distances_to(X.double())(X.double()))


def middle_distance(D: Tensor) -> float:
    """The median of the distances between different rows, of which D, (n, n), has all; see `median_distance`."""
    pairs = D[tuple(torch.triu_indices(len(D), len(D), offset=1))]
    positive = pairs[pairs > 0]
    if positive.numel() == 0:
        return 1.0
    median = pairs.quantile(0.5).item()
    return median if median > 0 else positive.mean().item()
