"""Names of components: one class each, and a hint for names that other libraries use."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding
from krepes.base.components import Component, named, resolve
from krepes.kernels import EmpiricalNTK, Kernel, Linear
from krepes.landmarks import LandmarkSelector
from krepes.losses import Loss
from krepes.solvers import Solver
from krepes.views import Views
from refusals import refuses


class Family(Component):
    """A kind of component of these tests alone."""


def defined(qualname: str, name: str, kind: type[Component] = Family) -> type[Component]:
    return type(qualname, (kind,), {"name": name, "__module__": __name__, "__qualname__": qualname})


def test_a_second_class_of_one_name_is_refused_and_both_are_named():
    first = defined("First", "twice")
    with refuses(TypeError, "'twice'", "Family", "First", "Second"):
        defined("Second", "twice")
    assert named(Family)["twice"] is first


def test_a_kernel_cannot_take_the_name_of_another():
    with refuses(TypeError, "'gaussian'", "krepes.kernels.gaussian.Gaussian"):
        type("Mine", (Linear,), {"name": "gaussian"})
    gc.collect()
    assert named(Kernel)["gaussian"].__module__ == "krepes.kernels.gaussian"


def test_a_class_may_be_defined_again_as_in_a_notebook():
    defined("Cell", "cell")
    again = defined("Cell", "cell")
    assert type(resolve(Family, "cell")) is again


def test_two_families_may_use_one_name():
    class Other(Component):
        pass

    mine, theirs = defined("Mine", "shared"), defined("Theirs", "shared", Other)
    assert named(Family)["shared"] is mine
    assert named(Other)["shared"] is theirs


@pytest.mark.parametrize(
    ("kind", "given", "name"),
    [
        (Kernel, "rbf", "gaussian"),
        (Kernel, "RBF", "gaussian"),
        (Kernel, "poly", "polynomial"),
        (Kernel, "relu", "arc_cosine"),
        (Kernel, "NTK", "empirical_ntk"),
        (Loss, "InfoNCE", "simclr"),
        (Loss, "nt-xent", "simclr"),
        (Loss, "pca", "kernel_pca"),
        (LandmarkSelector, "random", "uniform"),
        (LandmarkSelector, "kmeans", "kmeans_plus_plus"),
        (Solver, "lbfgs", "moment_descent"),
    ],
)
def test_names_of_other_libraries_get_a_hint(kind, given, name):
    with refuses(ValueError, repr(given), repr(name)):
        resolve(kind, given)


def test_no_name_elsewhere_is_a_name_here_or_claimed_twice():
    for kind in (Kernel, Loss, LandmarkSelector, Solver, Views):
        choices = named(kind)
        elsewhere = [alias for cls in set(choices.values()) for alias in cls.known_elsewhere_as]
        assert len(set(elsewhere)) == len(elsewhere)
        assert not set(elsewhere) & set(choices)
        assert all(alias == alias.lower().replace("-", "_") for alias in elsewhere)


@pytest.mark.parametrize("device", ["mps", "cuda:97", "abacus"])
def test_a_device_that_is_not_here_is_refused_with_those_that_are(device):
    if device == "mps" and torch.backends.mps.is_available():
        pytest.skip("this machine has it")
    X = np.random.default_rng(0).normal(size=(20, 3))
    with refuses(ValueError, f"device={device!r}", "cpu") as caught:
        KernelEmbedding(2, n_landmarks=5, device=device).fit(X)
    assert len(str(caught.value)) < 200


def test_a_tangent_kernel_names_the_shapes_that_do_not_fit():
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    rows = torch.ones(5, 4)
    with refuses(ValueError, "(4,)", "3 features"):
        EmpiricalNTK(network).fitted(rows)
    for method in ("full", "factored", "sketch"):
        kernel = EmpiricalNTK(network, method=method, normalize=False).fitted(rows[:, :3])
        for call in (kernel, kernel.against(rows[:, :3]), kernel.diag):
            with refuses(ValueError, "(4,)", "(3,)"):
                call(rows)
    filters = torch.nn.Conv2d(1, 2, 3)
    with refuses(ValueError, "(4,)", "1 channels"):
        EmpiricalNTK(filters).fitted(rows)
