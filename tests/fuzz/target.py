"""The registry of what is fuzzed: a target draws its input, makes its calls, and returns their numbers.

    @target("cka", weight=2)
    def alike(draw): return cka(draw(rows()), draw(rows()))

Names say which public functions and classes a target covers; a test compares them with what krepes exports.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from hypothesis.strategies import DataObject, SearchStrategy

from fuzz.outcome import ChangedError, Outcome, judged

LONGEST = 1500  # characters of one value in a reproduction


@dataclasses.dataclass(frozen=True)
class Target:
    """Something to call.

    Attributes
    ----------
    name : of the function that calls it
    covers : public names
    weight : its share of the cases
    call : draws input, makes calls, returns numbers
    """

    name: str
    covers: tuple[str, ...]
    weight: float
    call: Callable[[Draw], Any]


TARGETS: dict[str, Target] = {}


def target(*covers: str, weight: float = 1.0) -> Callable[[Callable[[Draw], Any]], Callable[[Draw], Any]]:
    """Register a function as a target."""

    def register(call: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
        TARGETS[call.__name__] = Target(call.__name__, covers, weight, call)
        return call

    return register


class Draw:
    """Draws values and remembers them, for reproductions and to see whether a call has written to them."""

    def __init__(self, data: DataObject):
        self.data = data
        self.drawn: list[tuple[Any, Any]] = []  # values, and what they were

    def __call__(self, strategy: SearchStrategy) -> Any:
        value = self.data.draw(strategy)
        self.drawn.append((value, content(value)))
        return value

    def check_unchanged(self) -> None:
        for value, before in self.drawn:
            if content(value) != before:
                raise ChangedError(f"an input of type {type(value).__name__} was changed by the call")

    def text(self) -> str:
        """The drawn values, one per line."""
        return "\n".join(f"    {i}: {shown(value)}" for i, (value, _) in enumerate(self.drawn))


def tried(chosen: Target, data: DataObject) -> tuple[Outcome, Draw]:
    """One case: draw, call, judge."""
    draw = Draw(data)

    def call() -> Any:
        found = chosen.call(draw)
        draw.check_unchanged()
        return found

    return judged(call), draw


def content(value: Any) -> Any:
    """Something that is equal as long as a value holds the same numbers."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return (str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, torch.Tensor):
        return (str(value.dtype), tuple(value.shape), repr(value.detach()))
    if isinstance(value, pd.DataFrame):
        return repr(value.to_dict("list")) if value.columns.is_unique else repr(value)
    if isinstance(value, dict):
        return {key: content(item) for key, item in value.items()}
    return repr(value)


def shown(value: Any) -> str:
    """A value as Python code where that is possible."""
    with np.printoptions(threshold=400, floatmode="unique", linewidth=100):
        if isinstance(value, pd.DataFrame):
            text = f"pd.DataFrame({value.to_dict('list') if value.columns.is_unique else value})"
        elif isinstance(value, np.ndarray):
            text = f"np.{value!r}" + ("" if value.size else f" of shape {value.shape}")
        else:
            text = repr(value)
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def unless(allowed: bool, value: Any) -> Any:
    """A number that may be NaN or infinite where the documentation says so (`allowed`), and is left out then."""
    return None if allowed and isinstance(value, float) and not math.isfinite(value) else value


def without(result: Any, *names: str) -> dict[str, Any]:
    """The fields of a result, without those that the documentation allows to be NaN."""
    fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    return {name: value for name, value in fields.items() if name not in names}


cached = functools.cache  # models that several cases share
