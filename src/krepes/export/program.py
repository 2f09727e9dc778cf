"""A fitted model as a short list of operations on arrays, which other runtimes can carry out.

    inputs -> steps -> outputs,      step: output = op(inputs; attributes)

One program serves a torch module (`torch_module`), an ONNX file (`onnx_file`) and a page that scores in a browser
(`krepes.report`). Whoever adds a kernel or a model writes its formula once, with `Operand`s; each runtime knows the
operations below and nothing of kernels.

    add sub mul div min max greater equal       elementwise, with the rules of numpy for shapes
    neg exp log sqrt abs tanh sin cos asin atan floor erf sigmoid isnan       elementwise
    where(c, a, b)      cast(a; to)
    matmul(a, b)        sum argmax softmax(a)              over the last axis; sums keep it, with length 1
    concat(a, ...)      columns(a; places)                 along the last axis
    rows(i, table)      row i of a constant, (b, 1) -> (b, ...)
    expand(a)           (b, d) -> (b, 1, d);       flatten(a)   (b, ...) -> (b, d);      squeeze(a) drops the last axis
    reshape(a; shape)   (b, d) -> (-1, *shape)
    patches(a; shape, side)      (b, h w c) -> (b, h w, side^2 c), windows around every pixel, reflected at the edge
    smallest(a; k)      the k-th smallest of every row, (b, n) -> (b, 1)
    manhattan(x, Y)     sum_j |x_j - y_j|, (b, m)
    code(text; keys, values, default)              whole numbers for words
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# elementwise, and the product: called alike wherever they run
PLAIN = (
    "add", "sub", "mul", "div", "min", "max", "greater", "equal", "neg", "exp", "log", "sqrt", "abs", "tanh", "sin",
    "cos", "asin", "floor", "erf", "sigmoid", "isnan", "where", "matmul",
)  # fmt: skip


@dataclass(frozen=True)
class Port:
    """An input of a program.

    Attributes
    ----------
    name : str
    dtype : "float32", "float64", "uint8" or "string"
    shape : tuple of int
        Of one row.
    meaning : str
        What the numbers or words are, for people.
    levels : list of str
        Words that are known, most frequent first.
    usual, low, high : float or None
        A usual number, and between which ends most numbers are.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    meaning: str
    levels: list[str] = field(default_factory=list)
    usual: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Step:
    """output = op(inputs), the values by their names."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Program:
    """What to compute from which inputs; it grows while a model writes its formula.

    Attributes
    ----------
    inputs : list of Port
    constants : dict of ndarrays
    steps : list of Step
    outputs : dict of str
        The value that each output is.
    facts : dict
        What the program is, as plain values.
    binary : pair of str and list of int
        A value, and its columns that hold nothing but 0 and 1.

    Examples
    --------
    >>> program = Program()
    >>> x = program.input(Port("x", "float64", (2,), "two numbers"))
    >>> program.output("length", (x * x).sum().sqrt())
    >>> [step.op for step in program.steps], program.outputs
    (['mul', 'sum', 'sqrt'], {'length': '__v2'})
    """

    inputs: list[Port] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    binary: tuple[str, list[int]] = ("", [])

    def input(self, port: Port) -> Operand:
        self.inputs.append(port)
        return Operand(self, port.name, port.dtype)

    def constant(self, value: Any, dtype: str) -> Operand:
        """A constant array; equal ones are kept once."""
        array = np.asarray(value, dtype=object if dtype == "string" else dtype)
        for name, known in self.constants.items():
            if known.dtype == array.dtype and np.array_equal(known, array):
                return Operand(self, name, dtype)
        name = f"__c{len(self.constants)}"
        self.constants[name] = array
        return Operand(self, name, dtype)

    def step(self, op: str, *values: Operand, dtype: str | None = None, **attributes: Any) -> Operand:
        """The value of an operation; what is computed already is not computed again."""
        names = tuple(value.name for value in values)
        name = next(
            (
                each.output
                for each in self.steps
                if (each.op, each.inputs, each.attributes) == (op, names, attributes)
            ),
            f"__v{len(self.steps)}",  # no column is called that
        )
        if name == f"__v{len(self.steps)}":
            self.steps.append(Step(op, names, name, attributes))
        return Operand(self, name, dtype or values[0].dtype)

    def output(self, name: str, value: Operand) -> None:
        self.outputs[name] = value.name

    def only(self, names: Sequence[str]) -> Program:
        """The part of it that gives some outputs."""
        unknown = [name for name in names if name not in self.outputs]
        if unknown:
            raise ValueError(
                f"{unknown[0]!r} is not an output of this model: it has {', '.join(self.outputs)}."
            )
        outputs = {name: self.outputs[name] for name in names}
        needed, steps = set(outputs.values()), []
        for step in reversed(self.steps):
            if step.output in needed:
                steps.append(step)
                needed.update(step.inputs)
        constants = {name: value for name, value in self.constants.items() if name in needed}
        inputs = [port for port in self.inputs if port.name in needed]
        return Program(inputs, constants, steps[::-1], outputs, self.facts, self.binary)


def _pair(op: str, dtype: str | None = None, swap: bool = False) -> Callable[[Operand, Any], Operand]:
    """The method of an operation on two values; numbers and arrays become constants."""

    def with_other(self: Operand, other: Any) -> Operand:
        given = other if isinstance(other, Operand) else self.program.constant(other, self.dtype)
        pair = (given, self) if swap else (self, given)
        return self.program.step(op, *pair, dtype=dtype or self.dtype)

    return with_other


def _single(op: str, dtype: str | None = None) -> Callable[[Operand], Operand]:
    """The method of an operation on one value."""
    return lambda self: self.program.step(op, self, dtype=dtype)


@dataclass(frozen=True, eq=False)
class Operand:
    """A value that a program will have; arithmetic with it adds steps."""

    program: Program
    name: str
    dtype: str

    def _of(self, op: str, dtype: str | None = None, **attributes: Any) -> Operand:
        return self.program.step(op, self, dtype=dtype, **attributes)

    __add__ = _pair("add")
    __sub__ = _pair("sub")
    __rsub__ = _pair("sub", swap=True)
    __mul__ = _pair("mul")
    __truediv__ = _pair("div")
    __rtruediv__ = _pair("div", swap=True)
    __matmul__ = _pair("matmul")
    __rmatmul__ = _pair("matmul", swap=True)
    __gt__ = _pair("greater", "bool")
    __radd__, __rmul__ = __add__, __mul__
    __array_ufunc__ = None  # numpy leaves arithmetic with a Operand to it

    equals = _pair("equal", "bool")
    least = _pair("max")  # not below the other
    most = _pair("min")  # not above the other

    neg = _single("neg")
    exp = _single("exp")
    log = _single("log")
    sqrt = _single("sqrt")
    abs = _single("abs")
    tanh = _single("tanh")
    sin = _single("sin")
    cos = _single("cos")
    asin = _single("asin")
    floor = _single("floor")
    erf = _single("erf")
    sigmoid = _single("sigmoid")
    isnan = _single("isnan", "bool")
    sum = _single("sum")
    softmax = _single("softmax")
    argmax = _single("argmax", "int64")
    expand = _single("expand")
    squeeze = _single("squeeze")
    flatten = _single("flatten")

    def square(self) -> Operand:
        return self * self

    def reshape(self, *shape: int) -> Operand:
        return self._of("reshape", shape=list(shape))

    def patches(self, shape: Sequence[int], side: int) -> Operand:
        return self._of("patches", shape=list(shape), side=side)

    def columns(self, places: Sequence[int]) -> Operand:
        return self._of("columns", places=[int(place) for place in places])

    def smallest(self, k: int) -> Operand:
        return self._of("smallest", k=k)

    def cast(self, dtype: str) -> Operand:
        return self if dtype == self.dtype else self._of("cast", dtype, to=dtype)

    def where(self, yes: Any, no: Any, dtype: str | None = None) -> Operand:
        """Of a truth value: `yes` where it holds, else `no`; one of them a Operand, or with a dtype."""
        kind = dtype or next(each.dtype for each in (yes, no) if isinstance(each, Operand))
        both = [
            each if isinstance(each, Operand) else self.program.constant(each, kind) for each in (yes, no)
        ]
        return self.program.step("where", self, *both, dtype=kind)

    def rows_of(self, table: Any, dtype: str) -> Operand:
        """Of whole numbers (b, 1): these rows of a constant."""
        return self.program.step("rows", self, self.program.constant(table, dtype), dtype=dtype)

    def code(self, keys: Sequence[str], values: Sequence[int], default: int) -> Operand:
        """Of words (b, 1): whole numbers."""
        return self._of("code", "int64", keys=list(keys), values=list(values), default=default)


def concat(values: Sequence[Operand]) -> Operand:
    """Side by side."""
    return values[0] if len(values) == 1 else values[0].program.step("concat", *values)


def interpolation(x: Operand, curve: np.ndarray) -> Operand:
    """Straight lines through points (2, k), constant beyond both ends: (b, 1) -> (b, 1)."""
    at, becomes = np.asarray(curve, dtype=np.float64)
    widths = np.diff(at)
    parts = (x - at[:-1]).least(0.0).most(widths)
    return parts @ (np.diff(becomes) / widths)[:, None] + becomes[0]
