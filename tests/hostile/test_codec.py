"""The codec: a dataclass makes the round trip, and what does not fit its annotations is refused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import pytest
import torch
from torch import Tensor

from krepes.base.storage.codec import Bounds, Count, SameAs, Shape, decode, encode
from krepes.base.storage.packing import digest, pack, unpack
from krepes.kernels import Gaussian, Kernel


@dataclass(frozen=True, eq=False)
class Sums:
    n: Annotated[float, Bounds(least=0)]
    mean: Annotated[Tensor, Shape("r")]
    outer: Annotated[Tensor, Shape("r", "r")]
    other: Annotated[Tensor, Shape("r", "r"), SameAs("outer")]
    cross: Annotated[Tensor | None, Shape("r", "c")] = None


class Shown(ABC):
    @abstractmethod
    def words(self) -> str: ...


@dataclass(frozen=True)
class Number(Shown):
    value: float

    def words(self) -> str:
        return str(self.value)


Number.__module__ = "krepes.test"  # only classes of krepes are made


@dataclass(frozen=True, eq=False)
class Model:
    sums: list[Sums]
    rows: Annotated[np.ndarray, Shape("k", dtype="int64"), Bounds(least=0)]
    kernel: Kernel
    shown: Shown
    seen: Count = 3
    names: dict[str, str] = field(default_factory=dict)

    def check_restored(self) -> None:
        if self.seen < len(self.rows):
            raise ValueError("The file is damaged: more rows are kept than were seen.")


def sums(r: int = 2) -> Sums:
    outer = torch.eye(r, dtype=torch.float64)
    return Sums(4.0, torch.ones(r, dtype=torch.float64), outer, outer)


def model() -> Model:
    return Model([sums(), sums(3)], np.arange(3), Gaussian(2.0), Number(1.5), 5, {"a.b": "c"})


def test_a_value_makes_the_round_trip():
    tensors: dict[str, Tensor] = {}
    packed = pack(model(), "", tensors)
    found = decode(Model, unpack(packed, tensors))
    assert digest(found) == digest(model())
    assert found.sums[1].other is found.sums[1].outer
    assert ".sums.0.other" not in tensors
    assert found.shown == Number(1.5)


def test_fields_with_defaults_may_be_missing():
    state = encode(model())
    del state["seen"], state["names"]
    found = decode(Model, state)
    assert (found.seen, found.names) == (3, {})


WRONG = {
    "another type": (lambda s: s.update(n="many"), r"Sums\.n is str 'many'; expected float"),
    "a truth value": (lambda s: s.update(n=True), r"Sums\.n is bool"),
    "not finite": (lambda s: s.update(n=float("nan")), r"Sums\.n is float nan"),
    "out of bounds": (lambda s: s.update(n=-1.0), r"Sums\.n is -1\.0; expected >= 0"),
    "an array": (lambda s: s.update(mean=np.ones(2)), r"Sums\.mean is ndarray"),
    "half precision": (lambda s: s.update(mean=s["mean"].bfloat16()), r"holds bfloat16; expected float64"),
    "another size": (
        lambda s: s.update(outer=torch.eye(3).double()),
        r"has shape \(3, 3\); expected \(2, 2\)",
    ),
    "fewer axes": (lambda s: s.update(outer=s["mean"]), r"has shape \(2,\)"),
    "more axes": (lambda s: s.update(mean=s["outer"]), r"has shape \(2, 2\); expected \(2\)"),
    "more entries": (lambda s: s.update(more=1), "has an entry 'more'"),
    "fewer entries": (lambda s: s.pop("mean"), "has no entry 'mean'"),
    "nothing": (lambda s: s.update(outer=None), r"Sums\.outer is NoneType"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused(name):
    change, words = WRONG[name]
    state = encode(sums())
    change(state)
    with pytest.raises(ValueError, match=words):
        decode(Sums, state)


def test_sizes_may_be_known_beforehand():
    decode(Sums, encode(sums(2)), r=2)
    with pytest.raises(ValueError, match=r"Sums\.mean has shape \(2,\); expected \(4\)"):
        decode(Sums, encode(sums(2)), r=4)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("rows", np.array([-1]), "is -1; expected >= 0"),
        ("rows", np.arange(9), "more rows are kept"),
        ("seen", 10**30, r"Model\.seen is int"),
        ("seen", -(2**70), r"Model\.seen is int"),
        ("kernel", {"lengthscale": 2.0}, r"Model\.kernel is dict"),
        ("shown", {"class": "Path", "value": 1.0}, "is of the class 'Path'; expected Number"),
        ("shown", {"value": 1.0}, "is of the class None"),
        ("sums", {"n": 1}, r"Model\.sums is dict"),
        ("sums", [7], r"sums\[0\] is int 7"),
        ("names", {"a": 3}, r"names\['a'\] is int 3"),
    ],
)
def test_what_does_not_fit_deeper_is_refused(name, value, words):
    with pytest.raises(ValueError, match=words):
        decode(Model, encode(model()) | {name: value})


def test_only_classes_of_krepes_are_made():
    @dataclass(frozen=True)
    class Mine(Shown):
        def words(self) -> str:
            return ""

    with pytest.raises(ValueError, match="class 'Mine'"):
        decode(Model, encode(model()) | {"shown": encode(Mine())})
