"""Components found by discovery, with drawn arguments: what is new in krepes is fuzzed without a line here.

An argument is its default, a sensible other value, or now and then something that it cannot be. Sizes stay small:
what only takes long is not a bug.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, Literal, get_args, get_origin

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fuzz.strategies import often
from krepes.base.components import Component, named
from krepes.base.storage.packing import attributes
from krepes.kernels import Custom, EmpiricalNTK, Kernel, Product, Reweighted, Scaled, Sum
from krepes.landmarks import LandmarkSelector
from krepes.losses import Loss
from krepes.networks import MLP
from krepes.solvers import SGD, Solver
from krepes.views import Views

WRONG = [-1, 0, None, "word", math.nan, math.inf, -0.5, 2.5, True, 1e-300, 1e300, (), [1, 2], {}, object]
NUMBERS = [1, 2, 3, 0.1, 0.5, 1.0, 2.0, 10.0]
# Arguments whose size is time or memory, and those that name files
SMALL = {
    "max_epochs": [1, 2],
    "max_iter": [1, 5],
    "replays": [1, 2],
    "replay_batches": [None, 1],
    "hidden": [None, 3],
    "depth": [1, 2],
    "n_probes": [1, 4],
    "views_per_landmark": [1, 2],
    "n_views": [2, 3],
    "cache_bytes": [0, 1000, 2**20],
    "sketch_size": [16],
    "batch_size": [1, 2, 4, 100],
    "cache": [None],
    "network": [MLP(widths=(3,))],
    "function": [None],
    "shape": [None, (2, 2), (1, 3)],
    "crop": [None, (0.5, 1.0)],
    "ratio": [(0.8, 1.25), None],
}
METRICS = [
    np.ones(3),
    np.eye(3),
    [1.0],
    None,
    [1.0, -1.0, math.nan],
    "wide",
    np.ones((3, 3)) * 1e300,
    -np.eye(3),
]
TINY_NETWORK = EmpiricalNTK(MLP(widths=(3,)), seed=0)


def overlap(first: Any, second: Any) -> float:
    """A kernel of words: shared letters."""
    return float(len(set(str(first)) & set(str(second)))) + float(first == second)


def quadratic(X: Any, Y: Any) -> Any:
    """A kernel of vectors that a user might write."""
    A, B = (Z.detach().double().numpy() if isinstance(Z, torch.Tensor) else np.asarray(Z) for Z in (X, Y))
    return (A @ B.T + 1.0) ** 2


def _sensible(name: str, default: Any, hint: Any) -> list[Any]:
    """Values that an argument may have."""
    if name in SMALL:
        return SMALL[name]
    literals = [
        value for part in (hint, *get_args(hint)) if get_origin(part) is Literal for value in get_args(part)
    ]
    if literals:
        return literals
    if isinstance(default, bool):
        return [True, False]
    if isinstance(default, int | float):
        return [default, *NUMBERS]
    return [default]


@st.composite
def component(draw: DrawFn, cls: type[Component], wrong: bool = True) -> Component:
    """An object of a class; at most two of its arguments are not the default, at most one is wrong."""
    defaults = {name: p.default for name, p in inspect.signature(cls).parameters.items()}
    changed = draw(st.lists(st.sampled_from(sorted(defaults)), max_size=2, unique=True)) if defaults else []
    hints = attributes(cls)
    arguments = {
        name: SMALL[name][0]
        for name in defaults
        if name in SMALL and name in ("network", "max_epochs", "max_iter")
    }
    for name in changed:
        values = (
            WRONG
            if wrong and draw(st.integers(0, 5)) == 0
            else _sensible(name, defaults[name], hints.get(name))
        )
        arguments[name] = draw(st.sampled_from(values))
    return cls(**arguments)


def kernels(wrong: bool = True) -> SearchStrategy[Any]:
    """Every kernel: alone, combined, a user's function, or a name."""
    classes = [cls for cls in named(Kernel).values() if cls is not EmpiricalNTK]
    plain = st.sampled_from(classes).flatmap(lambda cls: component(cls, wrong))
    pair = st.tuples(plain, plain)
    combined = st.one_of(
        pair.map(lambda two: Sum(*two)),
        pair.map(lambda two: Product(*two)),
        st.builds(Reweighted, plain, st.sampled_from(METRICS[: None if wrong else 2])),
        st.builds(
            Scaled, plain, st.sampled_from([2.0, 1e-3, 1e30, *([0.0, -1.0, math.nan] if wrong else [])])
        ),
    )
    other = st.sampled_from([quadratic, Custom(quadratic), TINY_NETWORK])
    names = st.sampled_from(
        [*sorted(set(named(Kernel)) - {"empirical_ntk"}), *(["gausian", 3] if wrong else [])]
    )
    return often((4, plain), (1, names), (2, combined), (1, other))


def parts(kind: type[Component], wrong: bool = True) -> SearchStrategy[Any]:
    """Every class of a kind, by name or as an object."""
    found = named(kind)
    objects = st.sampled_from(list(found.values())).flatmap(lambda cls: component(cls, wrong))
    return often((2, objects), (1, st.sampled_from(sorted(found))))


def solvers(wrong: bool = True) -> SearchStrategy[Any]:
    """Mostly what the loss gets by itself; training with few epochs."""
    trained = st.builds(
        SGD,
        max_epochs=st.just(2),
        batch_size=st.sampled_from([2, 4, 100]),
        preconditioner=st.sampled_from(["none", "kernel", "gauss_newton"]),
        initialization=st.sampled_from(["principal", "moments", "kaiming"]),
        coordinates=st.sampled_from(["whitened", "landmarks"]),
        constraint=st.sampled_from(["auto", None, "orthogonal"]),
        optimizer=st.sampled_from(["adam", "gradient"]),
        fresh_views=st.booleans(),
        validation_fraction=st.sampled_from([0.1, 0.0, 0.5]),
        feature_dtype=st.sampled_from(["auto", "float64", "bfloat16"]),
    )
    return often((2, trained), (1, component(SGD, wrong)), (1, parts(Solver, wrong)))


# The solver that "auto" chooses for losses of samples has 50 epochs: such losses come with a solver here.
TRAINED = ("simclr", "byol", "autoencoder")


@st.composite
def embedding_parameters(draw: DrawFn, wrong: bool = True) -> dict[str, Any]:
    """Arguments of KernelEmbedding; up to three of them are not the default."""
    drawn = {
        "kernel": kernels(wrong),
        "landmarks": parts(LandmarkSelector, wrong),
        "views": st.one_of(parts(Views, wrong), st.none()),
        "solver": solvers(wrong),
        "regularization": st.sampled_from([0, 1e-6, 1.0, 100.0, *([-1, math.nan, "low"] if wrong else [])]),
        "feature_noise": st.sampled_from([0, 0.5, *([-1, math.inf, "much"] if wrong else [])]),
        "preprocess": st.sampled_from(["table", "normalize", None, *(["scale", 3] if wrong else [])]),
        "dtype": st.sampled_from(["float64", *(["int8", None] if wrong else [])]),
        "n_components": st.sampled_from([1, 4, *([0, 2.5, "two"] if wrong else [])]),
        "n_landmarks": st.sampled_from([1, 3, 12, *([0, -3, None] if wrong else [])]),
    }
    changed = draw(st.lists(st.sampled_from(sorted(drawn)), max_size=3, unique=True))
    found = {"n_components": 2, "n_landmarks": 6, "random_state": 0} | {
        name: draw(drawn[name]) for name in changed
    }
    loss = draw(parts(Loss, wrong))
    if "solver" not in found and (loss if isinstance(loss, str) else loss.name) in TRAINED:
        found["solver"] = SGD(max_epochs=1)
    return found | {"loss": loss}
