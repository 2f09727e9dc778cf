"""The kernel contract: k(X, Y) as a matrix, its diagonal, and its landmark side prepared once.

A kernel is a formula. `kernel(X, Y)` gives the (n, m) matrix, `kernel.diag(X)` the n values k(x, x).
`kernel.against(Y)` returns a function of X with everything that depends on Y alone computed once; the
engine calls it for block after block. `kernel.fitted(X, generator)` returns a copy in which data-dependent
parameters ("median") are numbers.

Three abilities are optional. A kernel that is a sum of products over coordinates lists them as `product_terms()`, each
a `CoordinateProduct`, and one that knows its expectation under Gaussian noise gives it as `smoothed`: augmentations
are then integrated exactly instead of sampled [krepes design, exact views]. A kernel of |x - y| or of x.y says which
in `geometry` and gives its derivative as `slope`, so that gradients are written once for all of them [zou, Sec. 4.2];
`gradients` differentiates a weighted sum of k(., y_j), which is what a kernel machine is.

Kernels add up, multiply and scale, written with + and *:

    (k1 + k2)(x, y) = k1(x, y) + k2(x, y),    (k1 k2)(x, y) = k1(x, y) k2(x, y),    (c k)(x, y) = c k(x, y)
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.base.components import Component
from krepes.base.rows import RowLayout, Rows, SparseRows, as_sparse
from krepes.base.validation import check_number

KernelColumns = Callable[[Any], Tensor]  # X (b, d) -> (b, m)
Geometry = Literal["radial", "dot_product"]

BLOCK_BYTES = 256 * 2**20  # what one call may hold beyond its result


class CoordinateProduct(ABC):
    """A kernel that is a product over coordinates, k(x, y) = prod_j kappa_j(x_j, y_j), with its factors.

    An augmentation of single coordinates then has an exact expectation: the product of one-dimensional ones.
    """

    @abstractmethod
    def coordinate_product(self, columns: list[int], X: Tensor, Z: Tensor, noise: Sequence[float]) -> Tensor:
        """The product over some coordinates j of E[kappa_j(x + noise_j * g, z)], g standard normal, (b, m).

        X (b, c) and Z (m, c) are the values of these columns.
        """


ProductTerms = list[tuple[float, CoordinateProduct]]  # weights and products


class Kernel(Component, ABC):
    """A positive semi-definite function of two samples.

    Subclasses implement `against` and `diag`. Vector kernels derive from `VectorKernel` and write their
    formula only.
    """

    positive_semidefinite: ClassVar[bool] = True
    takes_objects: ClassVar[bool] = False  # True: X may be a list of anything
    # True: X is a list of objects, also where each is a list of numbers
    only_objects: ClassVar[bool] = False
    takes_sparse: ClassVar[bool] = False  # True: X may be SparseRows
    # True: numbers may be names of tokens, which views must keep whole
    takes_tokens: ClassVar[bool] = False
    # False: columns of a table as they are, not standardised
    takes_encoded: ClassVar[bool] = True
    of_user: ClassVar[bool] = False  # True: a user's function gives the values
    # the parameter that a model file cannot hold: a function, a module
    external: ClassVar[str | None] = None

    @abstractmethod
    def against(self, Y: Any) -> KernelColumns:
        """A function X -> k(X, Y), with the part that depends on Y alone computed now."""

    @abstractmethod
    def diag(self, X: Any) -> Tensor:
        """k(x, x) for every row, shape (n,)."""

    def __call__(self, X: Any, Y: Any = None) -> Tensor:
        """The kernel matrix, shape (n, m); Y = X if not given."""
        X = X if isinstance(X, Tensor) else as_sparse(X)
        Y = X if Y is None else Y if isinstance(Y, Tensor) else as_sparse(Y)
        for name, rows in (("X", X), ("Y", Y)):
            if not hasattr(rows, "__len__"):
                raise TypeError(f"{name} is a {type(rows).__name__}; expected rows to compare.")
        if torch.is_grad_enabled() and any(
            isinstance(rows, Tensor) and rows.requires_grad for rows in (X, Y)
        ):
            # copies, because kernels work in place and backward needs what was there before
            with torch.autograd.graph.saved_tensors_hooks(Tensor.clone, lambda kept: kept):
                return _differentiable(self, self._in_blocks(X, Y))
        return self._in_blocks(X, Y)

    def _in_blocks(self, X: Any, Y: Any) -> Tensor:
        block, n, m = self.against(Y), len(X), len(Y)
        if n * m * 4 <= BLOCK_BYTES:
            return block(X)
        size = rows_within(BLOCK_BYTES, 8 * m)
        return torch.cat([block(X[rows]) for rows in row_blocks(n, size)])

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> Kernel:
        """A kernel whose data-dependent parameters are numbers; by default the kernel itself."""
        return self

    def suited(self, layout: RowLayout) -> Kernel:
        """The kernel for rows of this kind; by default the kernel itself."""
        return self

    def storable(self, X: Any) -> Rows:
        """Rows as a model file can hold them and this kernel takes them; by default the rows themselves."""
        return X

    def table_columns(self, names: Sequence[str]) -> tuple[list[str], list[str]] | None:
        """Of a table's columns, those compared encoded and those compared as they are; None is all of them, encoded."""
        return None

    def product_terms(self) -> ProductTerms | None:
        """This kernel as a weighted sum of kernels that are products over coordinates, or None."""
        return None

    def smoothed(self, noise: Tensor) -> Kernel | None:
        """k'(x, y) = E[k(x + noise * g, y)], noise of shape (d,), as a fast kernel, or None if there is none."""
        return None

    @property
    def geometry(self) -> Geometry | None:
        """What k(x, y) depends on: "radial" is |x - y|, "dot_product" is x.y, None anything else."""
        return None

    @property
    def shift_invariant(self) -> bool:
        """Whether k(x + c, y + c) = k(x, y) for every vector c."""
        return False

    @property
    def one_scale(self) -> bool:
        """Whether one scale serves all columns of vectors, so that one with large numbers outweighs the others."""
        return False

    def feature_count(self, n_features: int) -> int | None:
        """The dimension of the kernel's feature space on R^d where it is finite, a bound on the rank of K."""
        return None

    def slope(self, X: Any, Y: Any) -> Tensor:
        """R, shape (n, m), with dk(x, y)/dy = R (x - y) for a radial kernel and R x for one of x.y.

        A radial kernel that has a kink at x = y has slope zero there, the mean of its one-sided derivatives.
        """
        raise no_slope(self)

    def gradients(self, X: Tensor, Y: Tensor, A: Tensor) -> Tensor:
        """The gradients at the rows of X of the c functions f(x) = sum_j a_j k(x, y_j), shape (c, n, d).

        Parameters
        ----------
        X, Y : Tensors of shape (n, d) and (m, d)
        A : Tensor of shape (m, c)
            Coefficients, one column for every function.
        """
        # dk/dx is -R (x - y), or R y
        radial, R = self.geometry == "radial", self.slope(X, Y)
        found = []
        for a in A.mT:
            weighted = R * a
            pull = weighted @ Y
            found.append(pull.sub_(weighted.sum(1, keepdim=True) * X) if radial else pull)
        return torch.stack(found)

    def __add__(self, other: Kernel) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, other) if isinstance(other, numbers.Real) else NotImplemented

    __rmul__ = __mul__


def kernel_parts(kernel: Kernel) -> Iterator[Kernel]:
    """A kernel and the kernels that it is made of."""
    yield kernel
    values = list(vars(kernel).values())
    while values:
        value = values.pop(0)
        if isinstance(value, Kernel):
            yield from kernel_parts(value)
        elif isinstance(value, list | tuple | dict):
            values = [*(value.values() if isinstance(value, dict) else value), *values]


def is_of_user(kernel: Kernel) -> bool:
    """Whether a function or a class of the user's is in a kernel. Kernels of krepes are taken to be exact."""
    return any(k.of_user or not type(k).__module__.startswith("krepes.") for k in kernel_parts(kernel))


def wide(rows: Rows) -> Any:
    """Rows of numbers in float64, objects as they are."""
    return rows.double() if isinstance(rows, Tensor | SparseRows) else rows


def kernel_matrix(kernel: Kernel, rows: Any) -> Tensor:
    """k between all of these rows, (n, n), in float64; an error where it is not finite."""
    K = kernel(rows).double()
    if not torch.isfinite(K).all():
        raise ValueError(f"The kernel {kernel} has NaN or infinite values between landmarks.")
    return K


def _differentiable(kernel: Kernel, K: Tensor) -> Tensor:
    if not K.requires_grad:
        raise TypeError(
            f"{kernel} has no gradients with respect to rows, and X or Y requires them: give X.detach(), or use a "
            "kernel of vectors such as Gaussian()."
        )
    return K


def no_slope(kernel: Kernel) -> TypeError:
    """The error for a kernel whose gradients are not known."""
    return TypeError(
        f"{kernel} does not give its derivative as a function of |x - y| or of x.y: use Gaussian(), Matern() or "
        "Polynomial(), with one lengthscale for all features."
    )


def _shared(rule: Callable[[Iterable[bool]], bool], name: str) -> Any:
    """A property that holds for a combination where it holds for all, or any, of its kernels."""
    return property(lambda self: rule(getattr(kernel, name) for kernel in self.kernels()))


class Combined(Kernel):
    """A kernel made of others on the same samples; subclasses say which (`kernels`) and how to rebuild (`of`)."""

    @abstractmethod
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that it is made of; an error where they are missing."""

    @abstractmethod
    def of(self, kernels: Sequence[Kernel]) -> Kernel:
        """The same combination of other kernels."""

    positive_semidefinite = _shared(all, "positive_semidefinite")
    takes_objects = _shared(all, "takes_objects")
    takes_sparse = _shared(all, "takes_sparse")
    takes_tokens = _shared(any, "takes_tokens")
    only_objects = _shared(any, "only_objects")
    shift_invariant = _shared(all, "shift_invariant")
    one_scale = _shared(any, "one_scale")

    @property
    def geometry(self) -> Geometry | None:
        found = {kernel.geometry for kernel in self.kernels()}
        return found.pop() if len(found) == 1 else None

    def storable(self, X: Any) -> Rows:
        for kernel in self.kernels():
            X = kernel.storable(X)
        return X

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> Kernel:
        return self.of([kernel.fitted(X, generator) for kernel in self.kernels()])

    def suited(self, layout: RowLayout) -> Kernel:
        return self.of([kernel.suited(layout) for kernel in self.kernels()])

    def table_columns(self, names: Sequence[str]) -> tuple[list[str], list[str]] | None:
        found = [kernel.table_columns(names) for kernel in self.kernels()]
        known = [columns for columns in found if columns is not None]
        if not known:
            return None
        if len(known) < len(found):
            raise ValueError(
                "Only another ColumnKernel can be added to one: make the other kernel one of its parts."
            )
        encoded, raw = ([*dict.fromkeys(chain.from_iterable(each))] for each in zip(*known))
        return encoded, raw


class Pair(Combined):
    """Two kernels on the same samples."""

    def __init__(self, left: Kernel | None = None, right: Kernel | None = None):
        self.left = left
        self.right = right

    def kernels(self) -> tuple[Kernel, Kernel]:
        if self.left is None or self.right is None:
            raise ValueError(f"{type(self).__name__} needs two kernels: write left + right or left * right.")
        return self.left, self.right

    def of(self, kernels: Sequence[Kernel]) -> Kernel:
        return type(self)(*kernels)

    @abstractmethod
    def join(self, left: Tensor, right: Tensor) -> Tensor:
        """The values of the combination, in the memory of `left`."""

    def against(self, Y: Any) -> KernelColumns:
        left, right = (kernel.against(Y) for kernel in self.kernels())
        return lambda X: self.join(left(X), right(X))

    def diag(self, X: Any) -> Tensor:
        left, right = (kernel.diag(X) for kernel in self.kernels())
        return self.join(left.clone(), right)


class Sum(Pair):
    """k1 + k2.

    Examples
    --------
    >>> from krepes.kernels import Linear
    >>> (Linear() + Linear())([[1.0]], [[2.0]])
    tensor([[4.]], dtype=torch.float64)
    """

    def join(self, left: Tensor, right: Tensor) -> Tensor:
        return left.add_(right)

    def slope(self, X: Any, Y: Any) -> Tensor:
        if self.geometry is None:
            return super().slope(X, Y)
        left, right = (kernel.slope(X, Y) for kernel in self.kernels())
        return left.add_(right)

    def gradients(self, X: Tensor, Y: Tensor, A: Tensor) -> Tensor:
        left, right = (kernel.gradients(X, Y, A) for kernel in self.kernels())
        return left.add_(right)

    def product_terms(self) -> ProductTerms | None:
        left, right = (kernel.product_terms() for kernel in self.kernels())
        return None if left is None or right is None else left + right

    def smoothed(self, noise: Tensor) -> Kernel | None:
        left, right = (kernel.smoothed(noise) for kernel in self.kernels())
        return None if left is None or right is None else left + right


class Product(Pair):
    """k1 k2.

    Examples
    --------
    >>> from krepes.kernels import Linear
    >>> (Linear() * Linear())([[1.0]], [[3.0]])
    tensor([[9.]], dtype=torch.float64)
    """

    def join(self, left: Tensor, right: Tensor) -> Tensor:
        return left.mul_(right)

    def slope(self, X: Any, Y: Any) -> Tensor:
        if self.geometry is None:
            return super().slope(X, Y)
        left, right = self.kernels()
        return left.slope(X, Y).mul_(right(X, Y)).add_(right.slope(X, Y).mul_(left(X, Y)))


class Scaled(Combined):
    """c k with c > 0.

    Examples
    --------
    >>> from krepes.kernels import Linear
    >>> (2 * Linear())([[1.0]], [[3.0]])
    tensor([[6.]], dtype=torch.float64)
    """

    def __init__(self, kernel: Kernel | None = None, factor: float = 1.0):
        self.kernel = kernel
        self.factor = factor

    def kernels(self) -> tuple[Kernel]:
        if self.kernel is None:
            raise ValueError("Scaled needs a kernel: write 2.0 * kernel.")
        return (self.kernel,)

    def of(self, kernels: Sequence[Kernel]) -> Kernel:
        return Scaled(kernels[0], self.factor)

    def against(self, Y: Any) -> KernelColumns:
        block, factor = self.kernels()[0].against(Y), self._factor()
        return lambda X: block(X).mul_(factor)

    def diag(self, X: Any) -> Tensor:
        return self.kernels()[0].diag(X) * self._factor()

    def slope(self, X: Any, Y: Any) -> Tensor:
        return self.kernels()[0].slope(X, Y) * self._factor()

    def gradients(self, X: Tensor, Y: Tensor, A: Tensor) -> Tensor:
        return self.kernels()[0].gradients(X, Y, A) * self._factor()

    def product_terms(self) -> ProductTerms | None:
        terms = self.kernels()[0].product_terms()
        return None if terms is None else [(weight * self._factor(), kernel) for weight, kernel in terms]

    def smoothed(self, noise: Tensor) -> Kernel | None:
        inner = self.kernels()[0].smoothed(noise)
        return None if inner is None else inner * self._factor()

    def _factor(self) -> float:
        check_number("factor", self.factor, "a number to multiply the kernel by", above=0)
        return float(self.factor)
