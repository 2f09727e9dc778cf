"""What public functions take: rows of real, finite numbers, or an error that says what was given and what to do.

    as_array            anything array-like, of any dtype: labels, votes
    as_numbers          real, finite numbers of any shape
    as_matrix           the same, one row per sample, (n, d)
    as_flat_matrix      the same, where vectors are a column and images are flattened
    estimator_rows      the same for estimators, in scikit-learn's words

Lists, frames, tensors and object arrays of numbers are taken. Text, dates, complex numbers, sparse matrices and masked
values are refused, as the embedding refuses them. Numbers beyond 1e300 are refused because sums of rows overflow.

For single parameters: `is_number` and `is_integer` hold for any object; `check_count`, `check_share`, `check_number`
and `check_choice` are errors that say what was expected.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from krepes.base.rows import is_tensor

LARGEST = 1e300  # 1e8 rows of it can be added
SQUARES = (1e-140, 1e140)  # numbers whose squares can be added, and do not vanish
RESHAPE = "A single feature is X.reshape(-1, 1), a single sample X.reshape(1, -1)."
REMEDIES = {
    "U": "Turn text into numbers; class labels become columns by krepes.alignment.one_hot(y).",
    "S": "Turn text into numbers; class labels become columns by krepes.alignment.one_hot(y).",
    "M": "Turn dates into numbers first, such as days since a date.",
    "m": "Turn durations into numbers first, such as seconds.",
    "c": "Complex data not supported: give real numbers, such as the real and the imaginary part.",
    "V": "Structured arrays are not supported: give one column of numbers per field.",
}


def as_array(X: Any, name: str = "X") -> np.ndarray:
    """Anything array-like as an array of any dtype; sparse matrices and masked values are refused."""
    check_dense(X, name)
    if is_tensor(X):
        return _of_tensor(X, name)
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"{name} has {np.ma.count_masked(X):,} masked values. Fill them, or leave the rows out."
        )
    if X is None or isinstance(X, str | bytes | Mapping | set):
        raise TypeError(f"{name} is a {type(X).__name__}; expected an array with one row per sample.")
    try:
        return np.asarray(X)
    except (ValueError, TypeError, RuntimeError, IndexError) as error:
        raise ValueError(
            f"{name} cannot be read as an array: expected rows of the same length. {str(error)[:200]}"
        ) from error


def as_numbers(X: Any, name: str = "X", *, finite: bool = True) -> np.ndarray:
    """Real numbers of any shape as float32 or float64, at least one; finite unless that is found out later.

    >>> as_numbers([[1, 2]]).dtype, as_numbers(np.ones(2, dtype=np.float16)).dtype
    (dtype('float64'), dtype('float32'))
    """
    array = as_array(X, name)
    if array.dtype == object:
        array = _of_objects(array, name)
    if array.dtype.kind not in "fiub":
        remedy = REMEDIES.get(array.dtype.kind, "Turn it into numbers first.")
        raise TypeError(f"{name} holds {array.dtype}; expected numbers, one row per sample. {remedy}")
    if array.ndim == 0 or 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape}; expected one row of features per sample, (n, d).")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    if finite:
        check_finite(array, name)
    return array


def as_matrix(X: Any, name: str = "X") -> np.ndarray:
    """Rows of numbers, (n, d) and nothing else."""
    array = as_numbers(X, name)
    if array.ndim != 2:
        hint = RESHAPE if array.ndim == 1 else "Flatten each sample with X.reshape(len(X), -1)."
        raise ValueError(
            f"{name} has shape {array.shape}; expected one row of numbers per sample, (n, d). {hint}"
        )
    return array


def as_flat_matrix(X: Any, name: str = "X", *, finite: bool = True) -> np.ndarray:
    """One row of numbers per sample, (n, d): images are flattened, a vector is a column.

    >>> as_flat_matrix([1, 2]).shape, as_flat_matrix(np.zeros((5, 2, 3))).shape
    ((2, 1), (5, 6))
    """
    array = as_numbers(X, name, finite=finite)
    return array.reshape(len(array), -1)


def as_row_indices(rows: Any, n: int, name: str = "rows") -> np.ndarray:
    """Distinct indices of some of n rows, at least one.

    >>> as_row_indices([2, 0], 3).tolist()
    [2, 0]
    """
    given = np.atleast_1d(as_array(rows, name))
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
        raise ValueError(f"{name} must be indices of rows; got {given.dtype} of shape {given.shape}.")
    wrong = given[(given < 0) | (given >= n)]
    if len(wrong):
        raise ValueError(f"{name} has the index {wrong[0]}; there are rows 0 to {n - 1:,}.")
    if len(np.unique(given)) < len(given):
        raise ValueError(f"{name} names a row twice.")
    return given.astype(np.int64)


def as_codes(codes: ArrayLike, n: int, n_classes: int, name: str = "codes") -> np.ndarray:
    """Class codes (n,): integers from 0 to n_classes - 1."""
    found = as_array(codes, name)
    if found.shape != (n,):
        raise ValueError(f"{name} has shape {found.shape}; expected ({n},), one class per row.")
    if found.dtype.kind not in "iub" or found.min() < 0 or found.max() >= n_classes:
        raise ValueError(
            f"{name} holds {found.dtype}, such as {found.tolist()[0]!r}; expected integers from 0 to {n_classes - 1}, "
            "the columns of the classes."
        )
    return found.astype(np.int64)


def writable(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where torch could not share it (read-only maps, odd byte orders and strides)."""
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    if array.dtype == np.longdouble and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    native = array.dtype.isnative and all(stride >= 0 for stride in array.strides)
    return array if native and array.flags.writeable else np.array(array, dtype=array.dtype.newbyteorder("="))


def check_dense(X: Any, name: str = "X") -> None:
    """Refuse sparse matrices and tensors."""
    if scipy.sparse.issparse(X):
        raise TypeError(
            f"{name} is a sparse {type(X).__name__} of shape {X.shape}; expected a dense array. Use X.toarray()."
        )
    if is_tensor(X) and str(X.layout) != "torch.strided":
        raise TypeError(f"{name} is a sparse tensor, {X.layout}; expected a dense one. Use X.to_dense().")


def check_finite(X: np.ndarray, name: str) -> None:
    """Refuse NaN and infinite values, and say where they are; and numbers that overflow when they are added."""
    if not X.size:
        return
    low, high = float(X.min()), float(X.max())
    if low >= -LARGEST and high <= LARGEST:
        return
    rows = np.flatnonzero(~np.isfinite(X.reshape(len(X), -1)).all(axis=1))
    if len(rows):
        raise ValueError(
            f"{name} has NaN or infinite values in {len(rows):,} of {len(X):,} rows (the first is row {rows[0]:,}). "
            "Leave these rows out of all arrays that are compared."
        )
    size = max(-low, high)
    raise ValueError(
        f"{name} has numbers of up to {size:.3g}, whose sums overflow in float64. {_scaling(size)}"
    )


def check_squares(X: np.ndarray, name: str) -> None:
    """Refuse numbers whose squares overflow or vanish, where a result is in their units."""
    smallest, largest = SQUARES
    size = max(-float(X.min(initial=0.0)), float(X.max(initial=0.0)))
    if size > largest or 0 < size < smallest:
        what = "overflow" if size > largest else "vanish"
        raise ValueError(
            f"{name} has numbers of up to {size:.3g}, whose squares {what} in float64. {_scaling(size)}"
        )


def _scaling(size: float) -> str:
    return f"Divide all of them by one number, such as 1e{int(np.clip(np.log10(size), -300, 300))}."


def check_same_rows(n: int, expected: int, name: str, other: str = "X") -> None:
    """Refuse representations of different numbers of rows."""
    if n != expected:
        raise ValueError(
            f"{name} has {n:,} rows and {other} has {expected:,}: expected the same rows, in the same order."
        )


def estimator_rows(estimator: BaseEstimator, X: Any, **options: Any) -> np.ndarray:
    """X checked by scikit-learn's `validate_data`, after refusing dates and text, which it would silently convert.

    Parameters
    ----------
    options : options of `validate_data`; the dtype is float64 by default
    """
    is_frame = hasattr(X, "columns")
    if not scipy.sparse.issparse(X):
        array = _of_frame(X) if is_frame else as_array(X, "X")
        text = array.dtype == object and any(isinstance(value, str) for value in array.flat)
        kind = "U" if text else array.dtype.kind
        if kind in REMEDIES:
            raise ValueError(f"X holds {'text' if text else array.dtype}; expected numbers. {REMEDIES[kind]}")
        if is_frame and kind == "O":
            _of_objects(array, "X")
        X = X if is_frame else array  # because a frame has names
    X = validate_data(estimator, X, **({"dtype": np.float64} | options))
    check_finite(X, "X")
    return X


def _of_frame(frame: Any) -> np.ndarray:
    """The values of a frame or table whose columns have names of their own."""
    names = [str(name) for name in getattr(frame, "column_names", frame.columns)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"X has several columns named {', '.join(map(repr, twice))}. Give every column its own name."
        )
    if not names:
        raise ValueError(
            f"X has shape ({len(frame)}, 0), no columns; expected one row of features per sample."
        )
    fills = [getattr(dtype, "fill_value", 0) for dtype in getattr(frame, "dtypes", (None,))]
    if all(fill != 0 for fill in fills):  # scikit-learn makes a sparse matrix of a frame that is all sparse
        raise ValueError(
            "X has sparse columns filled with other numbers than 0. Give a dense frame, X.sparse.to_dense()."
        )
    return np.asarray(frame)


def _of_tensor(X: Any, name: str) -> np.ndarray:
    X = X.detach().cpu()
    if X.is_complex():
        raise TypeError(f"{name} holds {X.dtype}; expected numbers, one row per sample. {REMEDIES['c']}")
    return (X.float() if X.is_floating_point() and X.itemsize < 4 else X).numpy()


def _of_objects(array: np.ndarray, name: str) -> np.ndarray:
    """An object array of numbers as float64; text and anything else is an error."""
    text = next((value for value in array.flat if isinstance(value, str | bytes)), None)
    if text is not None:
        raise TypeError(f"{name} holds text such as {text!r:.60}; expected numbers. {REMEDIES['U']}")
    date = next((value for value in array.flat if hasattr(value, "strftime")), None)
    if date is not None:
        raise TypeError(f"{name} holds dates such as {date!s:.60}; expected numbers. {REMEDIES['M']}")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} holds objects that are not numbers; expected rows of numbers: {error}."
        ) from error


def generator_of(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """Random numbers from a seed or a generator.

    >>> generator_of(-1)
    Traceback (most recent call last):
    ...
    ValueError: random_state=-1: expected an integer >= 0, a numpy Generator or None.
    """
    try:
        return np.random.default_rng(random_state)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"random_state={random_state!r:.60}: expected an integer >= 0, a numpy Generator or None."
        ) from error


def check_columns(wanted: Sequence[str], present: Sequence[str], where: str) -> None:
    """Raise an error if columns are missing; it names them and the most similar columns that exist."""
    there = set(present)
    missing = [name for name in wanted if name not in there]
    if not missing:
        return
    close = [match for name in missing for match in difflib.get_close_matches(str(name), present, n=1)]
    hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
    shown = ", ".join(map(str, present[:30])) + (", ..." if len(present) > 30 else "")
    raise ValueError(f"Found no column {', '.join(map(repr, missing))} in {where}.{hint} Columns: {shown}.")


def is_number(
    value: object,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
) -> bool:
    """Whether something is a finite number within these bounds; words, None and truth values are not.

    >>> is_number(0.5, above=0, most=1), is_number("0.5"), is_number(float("nan")), is_number(10**400)
    (True, False, False, False)
    """
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        number = float(value)
    except OverflowError:
        return False
    return math.isfinite(number) and above < number < below and least <= number <= most


def is_integer(value: object, least: int) -> bool:
    """Whether something is a whole number of at least `least`.

    >>> is_integer(3, 1), is_integer(0, 1), is_integer(3.0, 1), is_integer(True, 1)
    (True, False, False, False)
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least


def check_count(name: str, value: object, least: int = 1) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if not is_integer(value, least):
        raise ValueError(f"{name}={value!r:.60}: expected an integer >= {least}.")


def check_share(name: str, value: object, of: str = "") -> None:
    """Refuse what does not lie strictly between 0 and 1."""
    if not is_number(value, above=0, below=1):
        raise ValueError(f"{name}={value!r:.60}: expected a share{of} between 0 and 1.")


def check_number(name: str, value: object, what: str = "a number", **bounds: float) -> None:
    """Refuse what is not a finite number within these bounds.

    >>> check_number("crop", 2, "a share of the length", above=0, most=1)
    Traceback (most recent call last):
        ...
    ValueError: crop=2: expected a share of the length > 0 and <= 1.
    """
    if not is_number(value, **bounds):
        expected = f"{what} {bound_words(bounds)}".rstrip()
        raise ValueError(f"{name}={value!r:.60}: expected {expected}.")


def bound_words(bounds: Mapping[str, float]) -> str:
    """The bounds of `is_number` in words.

    >>> bound_words({"most": 1, "above": 0})
    '> 0 and <= 1'
    """
    signs = {"above": ">", "least": ">=", "below": "<", "most": "<="}
    return " and ".join(f"{sign} {bounds[name]:g}" for name, sign in signs.items() if name in bounds)


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Refuse what is not one of the choices.

    >>> check_choice("norm", 3, (1, 2))
    Traceback (most recent call last):
        ...
    ValueError: norm=3: expected one of 1, 2.
    """
    choices = list(choices)
    if not isinstance(value, str | int | float | None) or value not in choices:
        raise ValueError(f"{name}={value!r:.60}: expected one of {', '.join(map(repr, choices))}.")
