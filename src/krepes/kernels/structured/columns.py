"""A kernel for every group of columns: numbers, categories and text of one table, each compared in its own way.

    k(x, y) = sum_g w_g k_g(x_g, y_g)      or      prod_g k_g(x_g, y_g)

Sums and products of positive semi-definite kernels are positive semi-definite. A sum says "alike in one respect or the
other", a product "alike in all".

How rows reach it. In an array, columns are numbers of columns. In a table, columns for kernels on vectors are encoded
(`krepes.TableEncoder`), and rows are one tensor where that is all; those for kernels on objects, such as text, come as
they are, and a row is then a record, the list of its encoded numbers and its values. Lists of tuples or dicts are
records already. Cost: that of the kernels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.rows import RowLayout
from krepes.base.validation import check_choice, check_columns, check_finite, is_number
from krepes.kernels.automatic import as_kernel
from krepes.kernels.kernel import Kernel, KernelColumns
from krepes.kernels.vectors import as_rows

Columns = str | int | slice | Sequence[str] | Sequence[int]
Part = tuple[str, Kernel, Columns]
EXPECTED = "expected a list of (name, kernel, columns), or a dict such as {'age': Gaussian()}."


@dataclass(eq=False, repr=False)
class ColumnKernel(Kernel):
    """A sum or product of kernels, each on columns of its own; columns that are not named are not used.

    Parameters
    ----------
    parts : list of (name, kernel, columns), or dict of kernels by columns
        As in scikit-learn's ColumnTransformer: columns are a name or a list of names of a table's columns; an integer,
        a list of integers or a slice for columns by position. In a dict, `{"age, income": Gaussian()}`, a key names
        columns separated by commas. A kernel is an object, a name such as "gaussian", or a function.
    combine : "sum" or "product", default="sum"
    weights : list of float, default=None
        Factors > 0 of the kernels in a sum, in their order; None is 1 for each.
    places : list of lists, default=None
        Where the columns are in rows as an estimator encodes them; it sets this itself.

    Notes
    -----
    A kernel that takes objects gets the values of its column as they are, as a list (several columns: a list of lists);
    missing text is "". Histogram kernels get numbers as they are. Other kernels get encoded columns.

    Examples
    --------
    >>> from krepes.kernels import Linear
    >>> ColumnKernel({"a": Linear(), "b": Linear()}, "product")([{"a": 2.0, "b": 3.0}], [{"a": 1.0, "b": 5.0}])
    tensor([[30.]], dtype=torch.float64)
    >>> ColumnKernel([("first two", Linear(), slice(2)), ("last", Linear(), -1)])([[1.0, 2.0, 3.0]])    # 5 + 9
    tensor([[14.]], dtype=torch.float64)
    """

    takes_objects = True

    parts: list[Any] | tuple[Any, ...] | dict[Any, Any] | None = None
    combine: str = "sum"
    weights: Sequence[float] | np.ndarray | None = None
    places: list[list[int]] | None = None

    def check_restored(self) -> None:
        parts = self._checked()
        if self.places is not None and not (
            len(self.places) == len(parts) and all(places and min(places) >= 0 for places in self.places)
        ):
            raise ValueError("ColumnKernel.places does not fit its parts.")

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        return all(kernel.positive_semidefinite for _, kernel, _ in self._parts())

    @property
    def shift_invariant(self) -> bool:
        return all(kernel.shift_invariant for _, kernel, _ in self._parts())

    def table_columns(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        encoded: dict[str, None] = {}
        raw: dict[str, None] = {}
        for _, kernel, columns in self._parts():
            (raw if _takes_values(kernel) else encoded).update(dict.fromkeys(_named(columns, names)))
        return list(encoded), list(raw)

    def suited(self, layout: RowLayout) -> ColumnKernel:
        if layout.kind == "objects" and not layout.raw:
            return self
        if not layout.names:
            width = layout.width or 0
            places = [_positions(columns, width) for _, _, columns in self._parts()]
            kernels = [
                kernel.suited(RowLayout("vectors", len(each)))
                for each, (_, kernel, _) in zip(places, self._parts())
            ]
            return self._with(kernels, places)
        where = {column.name: list(column.places) for column in layout.columns}
        n_encoded = sum(map(len, where.values()))
        where |= {name: [n_encoded + i] for i, name in enumerate(layout.raw)}
        places, kernels = [], []
        for _, kernel, columns in self._parts():
            names, as_given = _named(columns, layout.names), _takes_values(kernel)
            _check_prepared(names, layout, as_given)
            part = RowLayout("objects") if as_given else layout.part(names)
            found = names if as_given else [column.name for column in part.columns]
            places.append([place for name in found for place in where[name]])
            kernels.append(kernel.suited(part))
        return self._with(kernels, places)

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> ColumnKernel:
        kernels = [
            kernel.fitted(rows, generator) for (_, kernel, _), rows in zip(self._parts(), self._rows(X))
        ]
        return self._with(kernels, self.places)

    def against(self, Y: Any) -> KernelColumns:
        blocks = [
            kernel.against(rows) for (_, kernel, _), rows in zip(self._checked(), self._rows(Y), strict=True)
        ]
        return lambda X: self._combined([block(rows) for block, rows in zip(blocks, self._rows(X))])

    def diag(self, X: Any) -> Tensor:
        parts = zip(self._checked(), self._rows(X), strict=True)
        return self._combined([kernel.diag(rows).clone() for (_, kernel, _), rows in parts])

    def _combined(self, values: list[Tensor]) -> Tensor:
        """The sum or product, in the memory of the first."""
        total, *others = values
        if self.combine == "product":
            for each in others:
                total.mul_(each.to(total))
            return total
        weights = [1.0] * len(values) if self.weights is None else [float(w) for w in self.weights]
        total.mul_(weights[0])
        for weight, each in zip(weights[1:], others):
            total.add_(each.to(total), alpha=weight)
        return total

    def _rows(self, X: Any) -> list[Any]:
        """The columns of every part."""
        if isinstance(X, list) and X and isinstance(X[0], Mapping | list | tuple):
            return [self._of_records(X, i) for i in range(len(self._parts()))]
        X = as_rows(X)
        places = self.places
        if places is None:
            places = [_positions(columns, X.shape[1]) for _, _, columns in self._parts()]
        return [X[:, each] for each in places]

    def _of_records(self, X: list[Any], i: int) -> Tensor | list[Any]:
        _, kernel, columns = self._parts()[i]
        if self.places is not None:
            keys: Sequence[Any] = self.places[i]
        else:
            keys = range(len(X[0]))[columns] if isinstance(columns, slice) else _listed(columns)
        try:
            values = [[row[key] for key in keys] for row in X]
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"A row has no column {error}; the kernel compares {columns!r}.") from None
        if kernel.takes_objects:
            return [row[0] for row in values] if len(keys) == 1 else values
        try:
            numbers = np.array(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"The columns {columns!r} are not numbers, which {kernel} compares: give a kernel on objects."
            ) from None
        check_finite(numbers, f"The part of a ColumnKernel on {columns!r}")
        return torch.from_numpy(numbers)

    def _with(self, kernels: list[Kernel], places: list[list[int]] | None) -> ColumnKernel:
        """This kernel with other parts on the same columns."""
        parts = [(name, kernel, columns) for (name, _, columns), kernel in zip(self._parts(), kernels)]
        return ColumnKernel(parts, self.combine, self.weights, places)

    def _parts(self) -> list[Part]:
        given: Any = self.parts or []
        if isinstance(given, Mapping):
            given = [(key, kernel, _split(key)) for key, kernel in given.items()]
        try:
            return [(str(name), as_kernel(kernel), columns) for name, kernel, columns in given]
        except (TypeError, ValueError) as error:
            raise type(error)(f"parts={given!r:.80}: {EXPECTED} {error}") from error

    def _checked(self) -> list[Part]:
        parts = self._parts()
        if not parts:
            raise ValueError(f"ColumnKernel has no parts: {EXPECTED}")
        _refuse_twice([name for name, _, _ in parts], "ColumnKernel has parts that are named")
        check_choice("combine", self.combine, ("sum", "product"))
        if self.weights is None:
            return parts
        if self.combine == "product":
            raise ValueError("weights= are for sums: in a product they would only scale the whole.")
        n = len(parts)
        if np.shape(self.weights) != (n,) or not all(is_number(w, above=0) for w in self.weights):
            raise ValueError(f"weights={self.weights!r}: expected {n} positive numbers, one for each part.")
        return parts

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters, and with `deep` the parts' parameters: `age__lengthscale`."""
        params = super().get_params(deep=False)
        if deep and self.parts:
            for name, kernel, _ in self._parts():
                params[name] = kernel
                params |= {f"{name}__{key}": value for key, value in kernel.get_params().items()}
        return params

    def set_params(self, **params: Any) -> ColumnKernel:
        """Set parameters; a part's name replaces its kernel, `age__lengthscale` a parameter of it."""
        own = {key: params.pop(key) for key in self._get_param_names() if key in params}
        super().set_params(**own)
        kernels = {name: kernel for name, kernel, _ in self._parts()}
        for key in sorted(params, key=lambda key: "__" in key):
            name, _, nested = key.partition("__")
            if name not in kernels:
                raise ValueError(f"ColumnKernel has no part {name!r}: it has {', '.join(kernels)}.")
            if nested:
                kernels[name] = clone(kernels[name]).set_params(**{nested: params[key]})
            else:
                kernels[name] = as_kernel(params[key])
        if params:
            self.parts = self._with(list(kernels.values()), None).parts
        return self


def _takes_values(kernel: Kernel) -> bool:
    """Whether a kernel gets the columns of a table as they are."""
    return kernel.takes_objects or not kernel.takes_encoded


def _listed(columns: Columns) -> list[Any]:
    single = isinstance(columns, str | int | np.integer)
    listed = [columns] if single or not isinstance(columns, Iterable) else list(columns)
    if not all(isinstance(column, str | int | np.integer) for column in listed):
        raise TypeError(
            f"A part of a ColumnKernel has columns={columns!r:.60}: expected names, positions, or a slice."
        )
    if not listed:
        raise ValueError("A part of a ColumnKernel names no columns.")
    _refuse_twice(listed)
    return listed


def _refuse_twice(names: list[Any], who: str = "A part of a ColumnKernel names") -> None:
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{who} {', '.join(map(repr, twice))} twice.")


def _split(key: str | Columns) -> Columns:
    """The columns that a key of a dictionary names."""
    return re.split(r"\s*,\s*", key.strip()) if isinstance(key, str) else key


def _named(columns: Columns, names: Sequence[str]) -> list[str]:
    """Columns of a table by name."""
    return [names[i] for i in _positions(columns, len(names), names)]


def _positions(columns: Columns, width: int, names: Sequence[str] | None = None) -> list[int]:
    """Columns of an array, or of a table with these names, by position."""
    if isinstance(columns, slice):
        return list(range(width)[columns])
    listed = _listed(columns)
    words = [each for each in listed if isinstance(each, str)]
    if words and names is None:
        raise ValueError(
            f"Columns are named, {columns!r}, but the rows are an array without names: give integers, or a table."
        )
    check_columns(words, names or [], "the table")
    outside = [each for each in listed if each not in words and not -width <= each < width]
    if outside:
        raise ValueError(f"Found no column {outside[0]}: the rows have {width} columns.")
    found = [list(names or []).index(each) if each in words else int(each) % width for each in listed]
    _refuse_twice(found)
    return found


def _check_prepared(names: Sequence[str], layout: RowLayout, as_given: bool) -> None:
    """Refuse columns that are left out, or that the first kernel of a list does not compare in this way."""
    left_out = [name for name in names if name in layout.left_out and not as_given]
    if left_out:
        reasons = "; ".join(f"{name!r}: {layout.left_out[name]}" for name in left_out)
        raise ValueError(f"The table's encoding leaves out {reasons}. Give a kernel on objects.")
    prepared = layout.raw if as_given else [column.name for column in layout.columns]
    missing = [name for name in names if name not in prepared]
    if missing:
        raise ValueError(
            f"{', '.join(map(repr, missing))}: all kernels of a list have to compare the same columns in one way."
        )
