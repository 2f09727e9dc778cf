"""What a number given by a user may be: a test that holds for any object, and errors that say what was expected."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable


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


def check_number(
    name: str,
    value: object,
    what: str = "a number",
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
) -> None:
    """Refuse what is not a finite number within these bounds.

    >>> check_number("crop", 2, "a share of the length", above=0, most=1)
    Traceback (most recent call last):
        ...
    ValueError: crop=2: expected a share of the length > 0 and <= 1.
    """
    if is_number(value, above=above, least=least, below=below, most=most):
        return
    bounds = {">": above, ">=": least, "<": below, "<=": most}
    words = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds.items() if math.isfinite(bound))
    raise ValueError(f"{name}={value!r:.60}: expected {what} {words}".rstrip() + ".")


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
