"""Kernels on objects: how a list of them is read, and similarities between 0 and 1.

    k(x, y) = <c(x), c(y)>,        normalised:  k(x, y) / sqrt(k(x, x) k(y, y))

An object without content (an empty string, a graph without edges) has k(x, x) = 0. It is similar to nothing, not even
to itself: k(x, y) = 0 for all y, normalised or not.

Kernels that count find two objects similar if they contain the same pieces equally often: c_u(x) is how often x has the
piece u. The pieces of the landmarks get numbers once; a block is then one product of sparse matrices. Pieces that no
landmark has count in |c(x)| only. Cost O(pieces of X) to count, and for the product as many steps as there are pairs of
an object and a landmark with a piece in common, piece by piece.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from krepes.base.blocks import row_blocks
from krepes.kernels.kernel import Kernel, KernelColumns

# objects that are described at a time: descriptions may be much larger than the objects
ROWS = 256
SHOWN = 40  # characters of an object in an error
# pieces, which may be anything that a dictionary can hold
Counts = Mapping[Any, float]


class ObjectKernel(Kernel):
    """A kernel on a list of objects. Subclasses say what one object is (`read`)."""

    takes_objects = True
    only_objects = True
    expects: ClassVar[str] = "objects"  # in an error

    @abstractmethod
    def read(self, x: Any) -> object:
        """One object, checked; a TypeError or ValueError says what is wrong with it."""

    def stored(self, x: Any) -> object:
        """What `read` returns, in a form that a model file can hold and `read` understands."""
        return x

    def storable(self, X: Any) -> list[Any]:
        return [self.stored(x) for x in self.read_all(X)]

    def read_all(self, X: Any) -> list[Any]:
        """All objects; an error names the one that is wrong."""
        if isinstance(X, str | bytes) or not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
            raise TypeError(
                f"{type(self).__name__} takes a list of {self.expects}; got {_shown(X)}. Put it into a list."
            )
        if hasattr(X, "columns"):  # of which iterating would give the names
            raise TypeError(
                f"{type(self).__name__} takes a list of {self.expects}; got a table. Give a column of it, X[name]."
            )
        found = []
        for i, x in enumerate(X):
            try:
                found.append(self.read(x))
            except (TypeError, ValueError) as error:
                raise type(error)(
                    f"{type(self).__name__} compares {self.expects}, but object {i} is {_shown(x)} "
                    f"({type(x).__name__}): {error}"
                ) from error
        return found


def _shown(x: Any) -> str:
    text = "an object that cannot be shown"
    # a user's object may do anything when it is printed
    with contextlib.suppress(Exception):
        text = repr(x)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


class InnerProductKernel(ObjectKernel):
    """k(x, y) = <c(x), c(y)>, by default divided by sqrt(k(x, x) k(y, y)).

    Subclasses describe objects and multiply descriptions. Objects are strings unless a subclass reads others.

    Parameters
    ----------
    normalize : bool, default=True
        Whether k(x, x) = 1 for every object that has content. Without it, long objects are more similar to everything.
    """

    def __init__(self, normalize: bool = True):
        self.normalize = normalize

    def read(self, x: Any) -> Any:
        """A string; kernels on other objects read these instead."""
        if isinstance(x, str):
            return x
        if isinstance(x, bytes):
            raise TypeError("bytes are not text. Decode them first, x.decode('utf-8').")
        raise TypeError("expected text (str). Leave such objects out, or convert them with str(x).")

    @abstractmethod
    def described(self, objects: list[Any]) -> Sequence[Any]:
        """A description c(x) of every object, which `read` has checked."""

    @abstractmethod
    def products_with(self, descriptions: Sequence[Any]) -> Callable[[Sequence[Any]], np.ndarray]:
        """A function of b descriptions that returns <c(x), c(y)> with these m, shape (b, m)."""

    @abstractmethod
    def squares(self, descriptions: Sequence[Any]) -> np.ndarray:
        """<c(x), c(x)>, shape (n,)."""

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense."""
        if not isinstance(self.normalize, bool | np.bool_):
            raise ValueError(f"normalize={self.normalize!r:.60}: expected True or False.")

    def against(self, Y: Any) -> KernelColumns:
        self.check_parameters()
        landmarks = self.described(self.read_all(Y))
        products, m = self.products_with(landmarks), len(landmarks)
        right = self._scale(landmarks)

        def columns(X: Any) -> Tensor:
            objects = self.read_all(X)
            K = np.empty((len(objects), m))
            for rows in row_blocks(len(objects), ROWS):
                some = self.described(objects[rows])
                K[rows] = products(some)
                if self.normalize:
                    K[rows] *= self._scale(some)[:, None] * right
            return torch.from_numpy(K)

        return columns

    def diag(self, X: Any) -> Tensor:
        self.check_parameters()
        objects = self.read_all(X)
        parts = [self.squares(self.described(objects[rows])) for rows in row_blocks(len(objects), ROWS)]
        squares = np.concatenate([np.zeros(0), *parts])
        return torch.from_numpy((squares > 0).astype(float) if self.normalize else squares)

    def _scale(self, descriptions: Sequence[Any]) -> np.ndarray:
        """1 / |c(x)|, and 0 where c(x) = 0."""
        squares = self.squares(descriptions)
        return np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)


class CountKernel(InnerProductKernel):
    """k(x, y) = <c(x), c(y)> with counts c. Subclasses write `read` and `counts`.

    Parameters
    ----------
    normalize : bool, default=True
        Whether to divide by sqrt(k(x, x) k(y, y)).

    Examples
    --------
    >>> class Letters(CountKernel):
    ...     def read(self, x):
    ...         return str(x)
    ...     def counts(self, x):
    ...         return {letter: x.count(letter) for letter in x}
    >>> Letters(normalize=False)(["aab"], ["ab", "bc"])
    tensor([[3., 1.]], dtype=torch.float64)
    """

    @abstractmethod
    def counts(self, x: Any) -> Counts:
        """How often each piece occurs in an object that `read` has checked."""

    def described(self, objects: list[Any]) -> list[Counts]:
        return [self.counts(x) for x in objects]

    def squares(self, descriptions: Sequence[Counts]) -> np.ndarray:
        return np.array([sum(c * c for c in counts.values()) for counts in descriptions], dtype=float)

    def products_with(self, descriptions: Sequence[Counts]) -> Callable[[Sequence[Counts]], np.ndarray]:
        numbers: dict[Hashable, int] = {}
        for counts in descriptions:
            for piece in counts:
                numbers.setdefault(piece, len(numbers))
        landmarks = _matrix(descriptions, numbers).T.tocsr()
        return lambda some: (_matrix(some, numbers) @ landmarks).toarray()


def _matrix(descriptions: Sequence[Counts], numbers: dict[Hashable, int]) -> csr_array:
    """Counts of the pieces that have a number, shape (n, pieces)."""
    columns, values, edges = [], [], [0]
    for counts in descriptions:
        for piece, count in counts.items():
            column = numbers.get(piece)
            if column is not None:
                columns.append(column)
                values.append(count)
        edges.append(len(columns))
    found = (
        np.array(values, dtype=float),
        np.array(columns, dtype=np.int64),
        np.array(edges, dtype=np.int64),
    )
    return csr_array(found, shape=(len(descriptions), max(1, len(numbers))))
