"""A choice among refits by a few labels, against leave-one-out refits of plain ridge regression."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import Ridge

import krepes
from command_line import run
from krepes import KernelEmbedding
from krepes.preprocessing.targets import MOST_LABELS, labelled_rows
from krepes.regression.ridge import ALPHAS, LeaveOneOutRidge, compare_by_labels
from refusals import refuses

DIGITS = load_digits()
IMAGES, Y = DIGITS.images / 16, DIGITS.target


@pytest.fixture(scope="module")
def model() -> KernelEmbedding:
    return KernelEmbedding(16, n_landmarks=100, random_state=0).fit(IMAGES[:600])


def naive_error(Z: np.ndarray, Y: np.ndarray) -> float:
    """The smallest squared error over the ridges, every row left out by a fit of its own, over that of the mean."""
    n, unit = len(Z), LeaveOneOutRidge().fit(Z, Y).unit_
    others = [np.arange(n) != i for i in range(n)]
    errors = []
    for alpha in ALPHAS:
        predicted = [
            Ridge(alpha * unit).fit(Z[rows], Y[rows]).predict(Z[[i]])[0] for i, rows in enumerate(others)
        ]
        errors.append(np.square(Y - np.array(predicted).reshape(Y.shape)).sum())
    nothing = sum(np.square(Y[i] - Y[rows].mean(axis=0)).sum() for i, rows in enumerate(others))
    return min(errors) / nothing


def test_errors_are_those_of_leaving_out_every_row():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(12, 3))
    codes = (Z[:, 0] > 0).astype(int)
    found = compare_by_labels([{}], [Z], codes).chosen
    assert found.error == pytest.approx(naive_error(Z, np.eye(2)[codes]), rel=1e-9)
    quantity = Z @ [1.0, 2.0, 0.0] + 0.1 * rng.normal(size=12)
    found = compare_by_labels([{}], [Z], quantity).chosen
    assert found.error == pytest.approx(naive_error(Z, quantity[:, None]), rel=1e-9)
    assert found.accuracy is None


def test_the_chosen_model_is_the_refit_with_the_smallest_error(model):
    rows = np.arange(600, 700)
    given = [{}, {"loss": "kernel_pca"}, {"feature_noise": 0.1, "n_components": 4}]
    chosen = model.select(IMAGES[rows], Y[rows], candidates=given)
    errors = []
    for parameters in given:
        Z = model.refit(**parameters).transform(IMAGES[rows]).astype(float)
        errors.append(compare_by_labels([{}], [Z], Y[rows]).chosen.error)
    assert chosen.selection_.chosen.place == int(np.argmin(errors))
    listed = {each.place: each.error for each in chosen.selection_.candidates}
    np.testing.assert_allclose(
        [listed[place] for place in range(3)], errors, rtol=1e-3
    )  # transform is float32
    same = model.refit(**given[chosen.selection_.chosen.place])
    np.testing.assert_array_equal(chosen.transform(IMAGES[:50]), same.transform(IMAGES[:50]))


def test_default_candidates_and_what_is_said_of_them(model):
    labels = np.where(np.arange(100) < 60, Y[:100].astype(object), None)  # 40 without a label
    chosen = model.select(IMAGES[:100], labels)
    said = str(chosen.selection_)
    for words in (
        "60 labels",
        "as it is",
        "feature noise 0.001",
        "loss kernel_pca",
        "4 components",
        "raw features",
        "<-",
    ):
        assert words in said
    assert chosen.selection_.n_labels == 60
    assert model.n_components_ == 16  # the model itself stays
    assert not hasattr(model, "selection_")
    alone = KernelEmbedding(4, loss="kernel_pca", n_landmarks=50, random_state=0).fit(IMAGES[:200])
    assert [each.name for each in alone.select(IMAGES[:50], Y[:50]).selection_.candidates] == ["as it is"]


def test_quantities_choose_too():
    X, y = load_diabetes(return_X_y=True)
    model = KernelEmbedding(16, n_landmarks=100, preprocess="table", random_state=0).fit(X)
    chosen = model.select(X[:200], y[:200])
    assert chosen.selection_.chosen.error < 0.8
    assert chosen.selection_.chosen.accuracy is None


def test_models_of_a_file_choose_and_the_choice_is_saved(model, tmp_path):
    model.save(tmp_path / "m.krepes")
    chosen = krepes.load(tmp_path / "m.krepes").select(IMAGES[:80], Y[:80])
    chosen.save(tmp_path / "c.krepes")
    again = krepes.load(tmp_path / "c.krepes")
    np.testing.assert_array_equal(again.transform(IMAGES[:9]), chosen.transform(IMAGES[:9]))
    model.save(tmp_path / "bare.krepes", moments=False)
    with refuses(ValueError, "moments=True"):
        krepes.load(tmp_path / "bare.krepes").select(IMAGES[:80], Y[:80])


def test_labels_that_cannot_choose_are_refused(model):
    for y, message in (
        (Y[:5], ("5 labels", "100 rows")),
        (np.zeros(100, int), ("single", "class")),
        ([0, 1, 2, 3] + [None] * 96, "too few"),
        ([None] * 100, "label"),
    ):
        with refuses(ValueError, message):
            model.select(IMAGES[:100], y)
    with refuses(ValueError, "candidates="):
        model.select(IMAGES[:100], Y[:100], candidates=[])
    with refuses(ValueError, "kernel"):
        model.select(IMAGES[:100], Y[:100], candidates=[{"kernel": "linear"}])
    trained = KernelEmbedding(2, loss="simclr", n_landmarks=10, random_state=0).set_params(
        solver__max_epochs=1
    )
    with refuses(ValueError, "samples"):
        trained.fit(IMAGES[:40]).select(IMAGES[:40], Y[:40])


def test_many_labels_are_drawn():
    rows, targets = labelled_rows(np.arange(3 * MOST_LABELS) % 7, 3 * MOST_LABELS, seed=0)
    assert len(rows) == len(targets) == MOST_LABELS
    np.testing.assert_array_equal(targets, rows % 7)


def test_the_command_line_selects_and_hides_test_labels(tmp_path):
    np.savez(tmp_path / "d.npz", X=IMAGES[:300], y=Y[:300], n_train=200)
    fit = ("fit", tmp_path / "d.npz", "-o", tmp_path / "m.krepes", "--n-landmarks", 60, "--n-components", 8)
    told = json.loads(run(*fit, "--select", "--json"))["selection"]
    assert told[0]["error"] == min(each["error"] for each in told)
    assert "200 labels" in run(*fit, "--select", "--force")
    rows = pd.DataFrame(IMAGES[:300, 2]).rename(columns=str).assign(digit=Y[:300])
    rows.to_csv(tmp_path / "t.csv", index=False)
    table = ("fit", tmp_path / "t.csv", "-o", tmp_path / "t.krepes", "--select")
    run(*table, code=1)
    assert not (tmp_path / "t.krepes").exists()  # there is no label to choose by
    assert "300 labels" in run(*table, "--label", "digit")
