"""Functions that are not kernels: `check_kernel` says why, and a fit refuses them or warns, naming rows."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from krepes import KernelEmbedding, check_kernel
from krepes.features import preparation
from krepes.kernels import Custom, Gaussian, Linear
from krepes.landmarks import nystrom
from krepes.machines import KernelRidgeRegressor
from refusals import refuses, warns_of

rng = np.random.default_rng(0)
X = rng.normal(size=(150, 3))


def lopsided(A, B):
    return A @ B.T + 0.5 * (A * A).sum(1)[:, None]


def centred(A, B):
    return (A - A.mean(0)) @ (B - B.mean(0)).T


def near(A, B):
    return (torch.cdist(A, B) < 1).double()


def fit(kernel, data=X, **settings):
    settings = {"n_landmarks": 60, "random_state": 0, "loss": "kernel_pca"} | settings
    return KernelEmbedding(4, kernel=kernel, **settings).fit(data)


@pytest.mark.parametrize("kernel", [lopsided, Gaussian(1.0) + Custom(lopsided)], ids=["function", "in a sum"])
def test_a_fit_refuses_a_function_that_is_not_symmetric(kernel):
    with refuses(ValueError, "k(x, y)") as error:
        fit(kernel)
    i, j = map(int, re.search(r"rows (\d+) and (\d+)", str(error.value)).groups())
    a, b = (torch.as_tensor(X[[i]]), torch.as_tensor(X[[j]]))
    assert not np.isclose(lopsided(a, b).item(), lopsided(b, a).item())


def test_a_fit_refuses_a_function_of_the_batch():
    with refuses(ValueError, "depends", "batch"):
        fit(centred)


def test_a_fit_refuses_a_diagonal_that_is_wrong():
    wrong = Custom(lambda A, B: A @ B.T, diagonal=lambda A: (A * A).sum(1) + 1)
    with refuses(ValueError, "diagonal"):
        fit(wrong)


def test_a_fit_names_the_rows_that_are_not_positive():
    with warns_of(UserWarning, "positive semi-definite") as caught:
        fit(near)
    assert len(caught) == 1
    words = re.search(
        r"rows ([\d, and]+) with a = \(([^)]+)\) give aᵀKa = (-\d+\.\d+)", str(caught[0].message)
    )
    rows = [int(word) for word in re.findall(r"\d+", words[1])]
    a = np.array([float(word) for word in words[2].split(",")])
    K = np.asarray(near(torch.as_tensor(X[rows]), torch.as_tensor(X[rows])))
    assert a @ K @ a == pytest.approx(float(words[3]), rel=0.02)


def test_points_of_the_users_are_named_as_landmarks():
    with warns_of(UserWarning, "landmarks"):
        fit(near, landmarks=X[:60] + 1e-3)


def test_machines_refuse_them_with_either_solver():
    for solver in ("direct", "conjugate_gradients"):
        machine = KernelRidgeRegressor(kernel=lopsided, n_landmarks=60, solver=solver, random_state=0)
        with refuses(ValueError, "symmetric"):
            machine.fit(X, X[:, 0])


def test_kernels_of_users_fit_without_a_warning():
    def single(A, B):
        return torch.exp(-(torch.cdist(A.float() + 20, B.float() + 20) ** 2) / 8)

    def far_from_zero(A, B):
        """The matrix product in `cdist` leaves distances errors of sqrt(eps) |x|, and small blocks do not use it."""
        return torch.exp(-torch.cdist(A + 1e4, B + 1e4))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(far_from_zero)
        fit(lambda A, B: 1 / (1 + torch.cdist(A, B) ** 2))
        fit(single)
        fit(lambda A, B: [[min(len(a), len(b)) for b in B] for a in A], data=[i * "a" for i in range(1, 60)])


def test_a_warning_between_landmarks_is_the_only_one():
    with warns_of(UserWarning, "negative", "dropped") as caught:
        fit(near, landmarks="uniform")
    assert len(caught) == 1
    assert re.search(r"rows \d+, \d+ and \d+ with a = ", str(caught[0].message))


def test_the_check_costs_a_fit_few_values(monkeypatch):
    """64 x 64 values between candidates, and k(x, x) of 64 candidates and of 64 landmarks in blocks of 16."""
    counts = []

    def counted(A, B):
        counts.append(len(A) * len(B))
        return torch.exp(-(torch.cdist(A, B) ** 2))

    data = rng.normal(size=(3000, 3))
    fit(counted, data=data, n_landmarks=100)
    with_check, counts = sum(counts), []
    for module in (preparation, nystrom):
        monkeypatch.setattr(module, "is_of_user", lambda kernel: False)
    fit(counted, data=data, n_landmarks=100)
    assert with_check - sum(counts) == 64 * 64 + 2 * 64 * 16
    assert with_check < 1.02 * sum(counts)


def test_values_that_are_not_finite_are_a_finding():
    for kernel in (lambda A, B: torch.log(A @ B.T), Linear()):
        found = check_kernel(kernel, 1e200 * X if isinstance(kernel, Linear) else X)
        assert not found.ok
        assert not found.finite
        assert "NaN or infinite" in found.problems[0]
        assert found.symmetric is None is found.positive_semidefinite
        assert "not a kernel" in str(found)


def test_frames_lists_and_paths_are_rows(tmp_path):
    frame = pd.DataFrame({"age": rng.integers(20, 60, 80), "town": rng.choice(["Ulm", "Bonn"], 80)})
    frame.to_csv(tmp_path / "people.csv", index=False)
    for data in (frame, str(tmp_path / "people.csv"), X.tolist(), torch.as_tensor(X), X.astype(np.float32)):
        assert check_kernel("auto", data).ok
    assert check_kernel(Custom(lambda a, b: float(a == b), pairwise=True), ["a", "b", "a"]).ok


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": X[:1]}, "at least 2"),
        ({"n_rows": 1}, "n_rows=1"),
        ({"random_state": -1}, "random_state=-1"),
        ({"kernel": "gausian"}, "gaussian"),
        ({"kernel": lambda a, b: 1.0}, "pairwise=True"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with refuses(ValueError, message):
        check_kernel(**({"kernel": "gaussian", "X": X} | arguments))


def test_constant_and_zero_rows_have_an_answer():
    assert check_kernel("gaussian", np.ones((5, 2))).ok
    found = check_kernel("linear", np.zeros((5, 2)))
    assert found.ok
    assert "nothing to learn" in found.advice[0]
