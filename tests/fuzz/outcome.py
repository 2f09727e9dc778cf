"""How a call may end: with finite results, or with an error that helps; everything else is a failure.

    result       finite numbers, inputs left as they were
    clear        an error that krepes raises on purpose, or scikit-learn's validation, in words that help
    unclear      any other exception: an accident deep inside, no message, a message of a word or two
    not finite   NaN or infinite numbers that no documentation announces
    changed      other numbers than promised, or an input that was written to
    lost         a file that is gone, half written or left behind

An error is raised on purpose where the last line of its traceback is a `raise` of krepes; an error of numpy or torch
that passes through is an accident, however long its message. Whether words help only a reader can say: `run.py
--messages` prints all of them.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import re
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis.errors import HypothesisException

VERDICTS = ("result", "clear", "unclear", "not finite", "changed", "lost")
PURPOSE = (ValueError, TypeError, IndexError, OSError, MemoryError, NotImplementedError, ImportError)
SHORTEST, FEWEST_WORDS = 20, 4  # characters and words of a message
HARNESS = str(Path(__file__).resolve().parent)


class ChangedError(Exception):
    """A promise about the numbers was broken: other bits, other shapes, a changed input."""


class NotFiniteError(Exception):
    """A result holds NaN or infinity."""


class LostError(Exception):
    """A file is gone, half written or left behind."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one call ended.

    Attributes
    ----------
    verdict : one of VERDICTS
    text : the error, or ""
    place : where it arose; calls that fail alike have one place
    """

    verdict: str
    text: str = ""
    place: str = ""

    @property
    def failed(self) -> bool:
        return self.verdict not in ("result", "clear")


def judged(call: Callable[[], Any]) -> Outcome:
    """Make a call and judge its end."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            check_finite(call())
    except ChangedError as error:
        return Outcome("changed", str(error), str(error)[:60])
    except NotFiniteError as error:
        return Outcome("not finite", str(error), re.sub(r"\d+", "", str(error))[:60])
    except LostError as error:
        return Outcome("lost", str(error), str(error)[:60])
    except HypothesisException:  # about the draw, not about the call
        raise
    except Exception as error:
        return judged_error(error)
    return Outcome("result")


def judged_error(error: BaseException) -> Outcome:
    """Whether an exception is one that helps."""
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    ours = next((frame for frame in reversed(frames) if "/krepes/" in frame.filename), last)
    place = f"{type(error).__name__} at {_short(ours.filename)}:{ours.lineno}"
    helpful = len(str(error)) >= SHORTEST and len(str(error).split()) >= FEWEST_WORDS
    if isinstance(error, PURPOSE) and helpful and _on_purpose(last):
        return Outcome("clear", text, place)
    return Outcome("unclear", f"{text}\n{_trace(frames)}", place)


def check_finite(value: Any, name: str = "result") -> None:
    """Raise NotFiniteError where a number, however deep inside a result, is not finite."""
    if value is None or isinstance(value, str | bytes | bool | Path):
        return
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = value.double().numpy() if value.is_floating_point() else value.numpy()
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "fc" and not np.isfinite(value).all():
            raise NotFiniteError(f"{name} of shape {value.shape} holds NaN or infinite numbers")
    elif isinstance(value, numbers.Number):
        if not math.isfinite(float(value)):  # type: ignore[arg-type]
            raise NotFiniteError(f"{name} is {value}")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            check_finite(getattr(value, field.name), f"{name}.{field.name}")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            check_finite(item, f"{name}[{key!r:.30}]")
    elif isinstance(value, list | tuple):
        for item in value:
            check_finite(item, name)


def check_same(found: Any, expected: Any, what: str) -> None:
    """Raise ChangedError unless two arrays have the same bits; NaN equals NaN."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise ChangedError(
            f"{what}: shape {found.shape} {found.dtype} instead of {expected.shape} {expected.dtype}"
        )
    if not np.array_equal(found, expected, equal_nan=found.dtype.kind in "fc"):
        raise ChangedError(f"{what}: other numbers, by up to {np.abs(found - expected).max():.3g}")


def check_shape(found: Any, shape: tuple[int | None, ...], what: str) -> None:
    """Raise ChangedError unless an array has the shape; None is any number."""
    if len(found.shape) != len(shape) or any(b is not None and a != b for a, b in zip(found.shape, shape)):
        raise ChangedError(f"{what}: shape {tuple(found.shape)} instead of {shape}")


def _on_purpose(last: traceback.FrameSummary) -> bool:
    """Whether the last line of a traceback is a `raise` of krepes, scikit-learn's, or of a user's function here."""
    if "/sklearn/" in last.filename or last.filename.startswith(HARNESS):
        return True
    return "/krepes/" in last.filename and (last.line or "").startswith("raise")


def _short(file: str) -> str:
    return file.rpartition("/site-packages/")[2].rpartition("/src/")[2]


def _trace(frames: traceback.StackSummary, lines: int = 6) -> str:
    """The last lines of a traceback, for a report."""
    return "\n".join(f"    {_short(frame.filename)}:{frame.lineno} {frame.line}" for frame in frames[-lines:])
