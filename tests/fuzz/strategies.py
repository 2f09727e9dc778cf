"""Rows as users give them: ordinary, odd and wrong, from a few drawn choices.

Numbers come from a generator whose seed is drawn, not one by one: drawing is fast, and a failing case is described by a
few words (which columns, how many rows, which form).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse
import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

ODDS = 15  # one in so many arguments is wrong

Column = Callable[[np.random.Generator, int], np.ndarray]

SEEDS = st.integers(0, 999)
FEW = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    8,
    8,
    10,
    12,
    12,
    16,
    16,
)  # numbers of rows; small ones are rarer than they are odd


def often(*choices: tuple[int, SearchStrategy[Any]]) -> SearchStrategy[Any]:
    """One of several strategies, each as often as its number says; `st.one_of` forgets repetitions."""
    return st.sampled_from([strategy for weight, strategy in choices for _ in range(weight)]).flatmap(
        lambda s: s
    )


def mostly(values: list[Any], wrong: list[Any]) -> SearchStrategy[Any]:
    """One of the values that an argument may have; now and then one that it may not."""
    return often((ODDS - 1, st.sampled_from(values)), (1, st.sampled_from(wrong)))


ORDINARY: dict[str, Column] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "integers": lambda rng, n: rng.integers(-3, 4, n).astype(float),
    "two values": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "constant": lambda rng, n: np.full(n, 0.1),
    "zeros": lambda rng, n: np.zeros(n),
    "ids": lambda rng, n: np.arange(n, dtype=float),
    "outlier": lambda rng, n: np.where(np.arange(n) == n - 1, 1e6, rng.normal(size=n)),
}
EXTREME: dict[str, Column] = {
    "huge": lambda rng, n: 1e150 * rng.normal(size=n),
    "too large for float32": lambda rng, n: 1e39 * rng.normal(size=n),
    "large for float32": lambda rng, n: 1e30 * rng.normal(size=n),
    "largest": lambda rng, n: np.where(rng.uniform(size=n) < 0.5, -1, 1) * np.finfo(float).max,
    "tiny": lambda rng, n: 1e-200 * rng.normal(size=n),
    "denormal": lambda rng, n: 5e-324 * rng.integers(-9, 10, n),
    "all scales": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n),
    "almost constant": lambda rng, n: 1e8 + 1e-8 * rng.normal(size=n),
}
HOLES: dict[str, Column] = {
    "NaN": lambda rng, n: np.where(rng.uniform(size=n) < 0.3, np.nan, rng.normal(size=n)),
    "infinite": lambda rng, n: np.where(rng.uniform(size=n) < 0.3, np.inf, rng.normal(size=n)),
    "all NaN": lambda rng, n: np.full(n, np.nan),
}


@st.composite
def matrices(
    draw: DrawFn,
    min_rows: int = 0,
    max_rows: int = 16,
    min_columns: int = 0,
    sane: bool = False,
    n: int | None = None,
) -> np.ndarray:
    """Float64 rows; `sane` ones are what a user would give, the others may be anything."""
    kinds = ORDINARY if sane else ORDINARY | draw(st.sampled_from([{}, {}, {}, EXTREME, EXTREME, HOLES]))
    fewest = max(min_columns, draw(st.sampled_from([0, 1, 1, 2, 3])))
    names = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=fewest, max_size=5))
    n = draw(st.sampled_from([k for k in FEW if min_rows <= k <= max_rows])) if n is None else n
    rng = np.random.default_rng(draw(SEEDS))
    if sane:
        names = ["normal", *names[:-1]]  # something has to vary
    X = np.column_stack([kinds[name](rng, n) for name in names]) if names else np.empty((n, 0))
    if n and draw(st.integers(0, 4)) == 0:  # rows more than once
        X = X[rng.integers(0, max(1, n // 2), n)]
    return X


def sane_matrices(min_rows: int = 6, max_rows: int = 16) -> SearchStrategy[np.ndarray]:
    """Rows that every estimator should take."""
    return matrices(min_rows, max_rows, min_columns=1, sane=True)


def _cast(dtype: Any) -> Callable[[np.ndarray], np.ndarray]:
    def cast(X: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            kept = X if np.dtype(dtype).kind in "fc" else np.nan_to_num(np.clip(X, -1e9, 1e9))
            return kept.astype(dtype)

    return cast


def _read_only(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X.flags.writeable = False
    return X


def _frame(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])


USUAL: dict[str, Callable[[np.ndarray], Any]] = {
    "float64": np.array,
    "float32": _cast(np.float32),
    "float16": _cast(np.float16),
    "int64": _cast(np.int64),
    "uint8": _cast(np.uint8),
    "bool": _cast(bool),
    "Fortran": np.asfortranarray,
    "read-only": _read_only,
    "reversed": lambda X: X[::-1, ::-1],
    "list": lambda X: X.tolist(),
    "tuple": lambda X: tuple(map(tuple, X.tolist())),
    "objects": lambda X: X.astype(object),
    "tensor": lambda X: torch.from_numpy(X.copy()),
    "tensor32": lambda X: torch.from_numpy(X.copy()).float(),
    "bfloat16": lambda X: torch.from_numpy(X.copy()).bfloat16(),
    "gradient": lambda X: torch.from_numpy(X.copy()).requires_grad_(),
    "pandas": _frame,
    "polars": lambda X: pl.from_pandas(_frame(X)),
    "pyarrow": lambda X: pa.Table.from_pandas(_frame(X), preserve_index=False),
    "mapping": lambda X: {f"c{i}": X[:, i].tolist() for i in range(X.shape[1])},
}
ARRAYS = {
    name: form
    for name, form in USUAL.items()
    if name not in ("bool", "uint8", "polars", "pyarrow", "mapping")
}
WRONG: dict[str, Callable[[np.ndarray], Any]] = {
    "vector": lambda X: X.ravel(),
    "number": lambda X: X.sum(),
    "nothing": lambda X: None,
    "text": lambda X: "rows",
    "bytes": lambda X: b"rows",
    "object": lambda X: object(),
    "generator": lambda X: iter(X.tolist()),
    "set": lambda X: {1, 2},
    "complex": lambda X: X.astype(complex),
    "complex tensor": lambda X: torch.from_numpy(X.copy()).to(torch.complex64),
    "words": lambda X: X.astype(str),
    "dates": lambda X: _cast(np.int64)(X).astype("datetime64[s]"),
    "durations": lambda X: _cast(np.int64)(X).astype("timedelta64[s]"),
    "masked": lambda X: np.ma.masked_greater(X, 0),
    "sparse": scipy.sparse.csr_matrix,
    "sparse tensor": lambda X: torch.from_numpy(X.copy()).to_sparse(),
    "structured": lambda X: np.zeros(len(X), dtype=[("a", float), ("b", int)]),
    "ragged": lambda X: [row[: i % 3] for i, row in enumerate(X.tolist())],
    "mixed list": lambda X: [*X.tolist(), "word"],
    "four dimensions": lambda X: X[:, :, None, None],
    "five dimensions": lambda X: X[:, None, :, None, None],
    "series": lambda X: pd.Series(X.ravel()),
    "missing file": lambda X: "no such folder/rows.csv",
}


@st.composite
def images(draw: DrawFn, max_rows: int = 12) -> Any:
    """Images in integers or real numbers, with or without channels, some of one pixel."""
    shape = draw(st.tuples(*[st.integers(1, 4)] * 2, st.sampled_from([(), (1,), (3,), (2,)])))
    size = (draw(st.sampled_from([n for n in FEW if n <= max_rows])), *shape[:2], *shape[2])
    rng = np.random.default_rng(draw(SEEDS))
    pixels = rng.integers(0, 256, size, dtype=np.uint8)
    made = draw(st.sampled_from(["uint8", "float32", "float64", "tensor", "list"]))
    if made in ("uint8", "list"):
        return pixels if made == "uint8" else pixels.tolist()
    return torch.from_numpy(pixels / 255.0) if made == "tensor" else (pixels / 255.0).astype(made)


CELLS: dict[str, SearchStrategy[Any]] = {
    "text": st.sampled_from(["a", "b", "", " ", "NA", "é", "a,b", "x" * 300]),
    "optional text": st.sampled_from(["a", "b", None]),
    "numbers": st.sampled_from([0.0, 1.5, -2.0, 1e6]),
    "optional numbers": st.sampled_from([0.0, 1.5, None, float("nan")]),
    "extreme numbers": st.sampled_from([1e150, 1e308, -1e308, 5e-324, float("inf"), 0.0]),
    "integers": st.sampled_from([0, 1, 2, 2**53, -(2**62)]),
    "truth": st.sampled_from([True, False]),
    "optional truth": st.sampled_from([True, False, None]),
    "dates": st.sampled_from(list(pd.to_datetime(["2020-01-01", "1969-07-20", "2100-12-31"]))),
    "nothing": st.none(),
}


@st.composite
def tables(draw: DrawFn) -> Any:
    """Frames with text, dates and missing values, as pandas, polars, pyarrow or a dictionary."""
    n = draw(st.sampled_from(FEW))
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=min(n, 1), max_size=4))
    names = draw(st.sampled_from([list("abcd"), ["target", "id", "", "a b"], ["é", "x=1", "a.b", "~dict"]]))
    data = {
        name: draw(st.lists(CELLS[kind], min_size=n, max_size=n))
        for name, kind in zip(names, kinds, strict=False)
    }
    form = draw(
        st.sampled_from(
            ["pandas", "pandas", "polars", "pyarrow", "mapping", "repeated", "numbered", "indexed"]
        )
    )
    if form == "mapping":
        return data
    if form == "polars":
        return pl.DataFrame(data, strict=False)
    frame = pd.DataFrame(data)
    if form == "repeated" and len(kinds) > 1:
        return frame.set_axis(["a"] * len(kinds), axis=1)
    if form == "numbered":
        return frame.set_axis(range(frame.shape[1]), axis=1)
    if form == "indexed":
        return frame.set_axis([f"row {i % 3}" for i in range(len(frame))], axis=0)
    return pa.Table.from_pandas(frame, preserve_index=False) if form == "pyarrow" else frame


@st.composite
def forms_of(draw: DrawFn, drawn: SearchStrategy[np.ndarray], forms: dict[str, Callable]) -> Any:
    """Drawn rows in one of the forms."""
    return forms[draw(st.sampled_from(sorted(forms)))](draw(drawn))


def rows() -> SearchStrategy[Any]:
    """What is given as X: mostly rows of numbers, now and then a table, images, or something wrong."""
    usual = forms_of(matrices(), USUAL)
    sane = forms_of(sane_matrices(), USUAL)
    wrong = forms_of(matrices(min_columns=1), WRONG)
    return often((2, usual), (3, sane), (1, images()), (1, tables()), (1, wrong))


def features(n: int | None = None) -> SearchStrategy[Any]:
    """Rows of numbers, of n rows if that is said: mostly such as a model gives, now and then anything."""
    sane = forms_of(matrices(4, min_columns=1, sane=True, n=n), ARRAYS)
    usual = forms_of(matrices(n=n), USUAL)
    wrong = forms_of(matrices(min_columns=1, n=n), WRONG)
    return (
        often((6, sane), (3, usual), (1, wrong))
        if n is None
        else often((9, sane), (4, usual), (1, features()))
    )


def is_constant(X: Any) -> bool:
    """Whether rows are the same, up to the rounding of their largest number; what cannot be said counts as such."""
    X = (
        X.detach().double().numpy()
        if isinstance(X, torch.Tensor) and not X.is_sparse and not X.is_complex()
        else X
    )
    try:
        X = np.asarray(X, dtype=np.float64).reshape(len(X), -1)
    except (TypeError, ValueError, RuntimeError):
        return True
    return bool(X.size == 0 or np.ptp(X / max(1.0, np.abs(X).max()), axis=0).max() <= 1e-12 or np.ptp(X) == 0)


def n_rows(X: Any) -> int:
    """How many rows a drawn X has; 3 where that cannot be said."""
    if isinstance(X, dict):
        return len(next(iter(X.values()))) if X else 0
    shape = getattr(X, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 3
    return len(X) if isinstance(X, list | tuple) else 3
