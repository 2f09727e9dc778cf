"""The parts of a model by themselves: kernels, landmark rules, views and losses, all found by discovery."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from fuzz.label_strategies import objects
from fuzz.outcome import ChangedError, check_shape
from fuzz.parts import component, kernels, overlap, parts
from fuzz.strategies import features, images, matrices, mostly, n_rows, often, sane_matrices
from fuzz.target import Draw, target
from krepes.base.components import named
from krepes.features.user_kernels import check_kernel
from krepes.kernels import Custom, Gaussian, Kernel, Laplacian, Matern, as_kernel
from krepes.landmarks import LandmarkSelector
from krepes.losses import Loss, as_loss, check_loss
from krepes.networks import Network, as_network
from krepes.solvers import choose_solver
from krepes.views import NoViews, Paired, Views
from sample_objects import maker

KERNELS = (
    "as_kernel",
    "Kernel",
    "Sum",
    "Product",
    "Scaled",
    "Reweighted",
    "Custom",
    "ObjectKernel",
    "CountKernel",
    *(cls.__name__ for cls in named(Kernel).values()),
)
BOUNDED = (Gaussian, Laplacian, Matern)


def overflows(chosen: Kernel, X: Any) -> bool:
    """Whether values may be beyond what floats hold: products of huge numbers, by kernels without a bound."""
    try:
        largest = np.abs(np.asarray(X, dtype=np.float64)).max(initial=0.0)
    except (TypeError, ValueError, RuntimeError):
        return True
    limit = 1e18 if isinstance(X, torch.Tensor) and X.dtype == torch.float32 else 1e30
    return not isinstance(chosen, BOUNDED) and not largest < limit


@target(*KERNELS, weight=4)
def kernel(draw: Draw) -> Any:
    """Any kernel on any rows: values, diagonal, and a block of them."""
    X = draw(features())
    chosen = as_kernel(draw(kernels()))
    fitted = chosen.fitted(X, torch.Generator().manual_seed(0))
    Y = draw(often((3, st.just(X)), (1, features().filter(lambda rows: rows is not None))))
    K = fitted(X, Y)
    check_shape(K, (n_rows(X), n_rows(Y)), "kernel(X, Y)")
    diagonal = fitted.diag(X)
    check_shape(diagonal, (n_rows(X),), "kernel.diag(X)")
    return None if overflows(fitted, X) or overflows(fitted, Y) else (K, diagonal, fitted.against(Y)(X))


@target("Custom", weight=1)
def kernel_of_words(draw: Draw) -> Any:
    words = draw(objects())
    chosen = draw(st.sampled_from([Custom(overlap, pairwise=True), Custom(overlap), Custom(None)]))
    return chosen(words, words), chosen.diag(words)


@target("check_kernel", "KernelCheck", weight=2)
def kernel_check(draw: Draw) -> Any:
    """Any kernel on any rows: a verdict in words, with finite numbers."""
    X = draw(often((3, sane_matrices()), (2, features())))
    chosen = as_kernel(draw(kernels()))
    n_rows_asked = draw(mostly([2, 5, 500], [0, 1, 2.5, "few"]))
    found = check_kernel(
        chosen, X, n_rows=n_rows_asked, random_state=draw(mostly([0, 7, None], [-1, "seed"]))
    )
    if found.ok != (not found.problems) or not str(found):
        raise ChangedError("a verdict that contradicts itself")
    numbers = (found.smallest_eigenvalue, found.tolerance)
    return [number for number in numbers if number is not None]


OBJECTS = [cls for cls in named(Kernel).values() if cls.only_objects]


@target(*(cls.__name__ for cls in OBJECTS), weight=1)
def kernel_of_objects(draw: Draw) -> Any:
    """Kernels on objects, on their own objects and on what they cannot take."""
    cls = draw(st.sampled_from(OBJECTS))
    rows = draw(often((3, st.integers(3, 9).map(maker(cls))), (1, objects())))
    chosen = draw(component(cls)).fitted(rows, torch.Generator().manual_seed(0))
    K, diagonal = chosen(rows, rows), chosen.diag(rows)
    check_shape(K, (len(rows), len(rows)), "kernel(X, X)")
    check_shape(diagonal, (len(rows),), "kernel.diag(X)")
    return K, diagonal


SELECTORS = ("LandmarkSelector", *(cls.__name__ for cls in named(LandmarkSelector).values()))


@target(*SELECTORS, weight=2)
def landmarks(draw: Draw) -> Any:
    """Distinct rows, at most as many as were asked for."""
    X = draw(
        often((3, sane_matrices()), (2, matrices(min_columns=1)), (1, sane_matrices().map(torch.from_numpy)))
    )
    rule = draw(parts(LandmarkSelector))
    rule = named(LandmarkSelector)[rule]() if isinstance(rule, str) else rule
    rows = torch.as_tensor(X)
    chosen = as_kernel(draw(kernels(wrong=False))).fitted(rows) if len(X) else as_kernel("linear")
    m = draw(mostly([1, 2, 5, 100], [0, -1, 2.5, "few"]))
    found = rule.select(X, chosen, m, torch.Generator().manual_seed(0))
    if len(set(found.tolist())) != len(found) or len(found) > max(m, 0):
        raise ChangedError(f"landmarks {found.tolist()} for n_landmarks={m}")
    return found


VIEWS = ("Views", "NoViews", "Paired", *(cls.__name__ for cls in named(Views).values()))


@target(*VIEWS, weight=2)
def views(draw: Draw) -> Any:
    """Views of finite rows are finite and have the shape of the rows; an expectation is finite too."""
    X = draw(often((3, sane_matrices()), (1, matrices(min_columns=1)), (2, images().map(np.asarray))))
    chosen = draw(often((8, parts(Views)), (1, st.sampled_from([NoViews(), Paired()]))))
    chosen = named(Views)[chosen]() if isinstance(chosen, str) else chosen
    rows = torch.as_tensor(np.asarray(X)).to(draw(st.sampled_from([torch.float64, torch.float32])))
    if not torch.isfinite(rows).all() or not rows.numel():
        return None
    fitted = chosen.fitted(rows, torch.Generator().manual_seed(0))
    found = fitted(rows, torch.arange(len(rows)), draw(mostly([0, 5, 2**40], [-1])))
    for view in found:
        check_shape(view, tuple(rows.shape), "a view")
    k = as_kernel(draw(kernels(wrong=False))).fitted(rows)
    return found, None if overflows(k, rows) else fitted.expected(k, rows, rows[:2])


@target("as_loss", "check_loss", "choose_solver", *(cls.__name__ for cls in named(Loss).values()), weight=1)
def loss(draw: Draw) -> Any:
    """Losses with any arguments, a user's functions, and what is no loss."""
    functions = [
        lambda a, b: ((a - b) ** 2).mean(),
        lambda a, b: torch.ones(()),
        lambda a, b: None,
        lambda a: a,
        len,
        3,
    ]
    chosen = as_loss(draw(often((4, parts(Loss)), (1, st.sampled_from(functions)))))
    sizes = {"n_components": draw(mostly([1, 2, 5], [0, -1])), "n_rows": draw(mostly([None, 8], [1, 0]))}
    check_loss(chosen, **sizes)
    return str(choose_solver(chosen))


NETWORKS = ("Network", "as_network", *(cls.__name__ for cls in named(Network).values()))
SMALL = ("mlp", "convnet", "resmlp")  # the others have millions of weights


@target(*NETWORKS, weight=0.5)
def network(draw: Draw) -> Any:
    """Small networks with any arguments, for rows and images of any shape."""
    made = draw(
        often((4, st.sampled_from(SMALL).flatmap(lambda name: component(named(Network)[name]))), (1, NAMES))
    )
    shape = draw(mostly([(3,), (1,), (4, 4, 3), (4, 4), (8, 8, 1)], [(), (0,), (2, 2, 2, 2), "rows"]))
    module = as_network(made).build(shape, torch.Generator().manual_seed(0))
    if isinstance(made, torch.nn.Module):  # may take rows of another shape
        return None
    with torch.no_grad():
        return module.eval()(torch.zeros(2, *shape))


NAMES = st.sampled_from(
    ["mlp", "convnet", "resmlp", "no network", None, 3, torch.nn.Linear(3, 2), torch.nn.Linear]
)
