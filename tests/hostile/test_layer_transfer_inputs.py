"""Layer transfer says what is wrong with its input, and survives what is only unusual."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from krepes.alignment import LayerTransferClassifier
from refusals import refuses, warns_of


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    return {"a": rng.normal(size=(20, 3)) + 3 * y[:, None], "b": rng.normal(size=(20, 2))}, y


def fitted(X, y, **options):
    return LayerTransferClassifier(random_state=0, **options).fit(X, y)


def test_a_single_class_is_refused(rows):
    with refuses(ValueError, "class"):
        fitted(rows[0], np.zeros(20))


def test_no_labels_at_all_are_refused(rows):
    with refuses(ValueError, "label"):
        fitted(rows[0], [None] * 20)


def test_columns_of_frames_must_not_change(rows):
    X, y = rows
    frames = {name: pd.DataFrame(Z).add_prefix("c") for name, Z in X.items()}
    model = fitted(frames, y)
    assert (model.predict(X) == model.predict(frames)).all()
    with refuses(ValueError, "'a'"):
        model.predict(frames | {"a": frames["a"].iloc[:, ::-1]})


def test_layers_and_rows_are_not_mixed_up(rows):
    X, y = rows
    with refuses(TypeError, "layer", "features"):
        fitted(X, y).predict(X["a"])
    with refuses(TypeError, "network=None"):
        fitted(X, y, network=nn.Linear(3, 2))
    with refuses(ValueError, "(3,)"):
        fitted(X["a"], y, network=nn.Sequential(nn.Linear(7, 2)), layers=["0"])


def test_minus_one_is_a_class(rows):
    assert fitted(rows[0], 2 * rows[1] - 1).classes_.tolist() == [-1, 1]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_in_a_layer_is_named(rows, value):
    X, y = rows
    X["b"][7, 1] = value
    with refuses(ValueError, "'b'", "row 7"):
        fitted(X, y)


def test_nan_from_a_network_is_named():
    class Log(nn.Module):
        def forward(self, X):
            return X.log()

    X = torch.rand(12, 3, generator=torch.Generator().manual_seed(0)) + 0.5
    X[9, 0] = -1.0
    with refuses(ValueError, "'0'", "NaN", "row 9"):
        fitted(X, np.arange(12) % 2, network=nn.Sequential(Log(), nn.Linear(3, 2)), batch_rows=4)


def test_an_unknown_layer_is_named():
    with refuses(ValueError, "'top'"):
        fitted(torch.zeros(8, 3), np.arange(8) % 2, network=nn.Sequential(nn.Linear(3, 2)), layers=["top"])
    with refuses(ValueError, "lacks", "layers"):
        fitted({"a": np.eye(8)}, np.arange(8) % 2, layers=["c"])


def test_a_network_none_of_whose_parts_gives_rows_is_refused():
    class Pair(nn.Module):
        def forward(self, X):
            return {"mean": X.mean()}

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Pair()

        def forward(self, X):
            return self.part(X)

    with refuses(ValueError, "part", "network"):
        fitted(torch.zeros(8, 3), np.arange(8) % 2, network=Wrapped())


def test_rows_of_other_layers_or_widths_are_refused(rows):
    X, y = rows
    model = fitted(X, y, weighting="uniform")
    for other, message in (
        ({**X, "c": X["a"]}, ("new", "layers")),
        ({"a": X["a"]}, ("lacks", "layers")),
        ({"a": X["a"], "b": X["a"]}, ("'b'", "3 features", "2")),
        ({"a": X["a"], "b": X["b"][:5]}, "5 rows"),
        ({}, "layers"),
    ):
        with refuses(ValueError, message):
            model.predict(other)


def test_layers_that_were_not_chosen_may_be_left_out(rows):
    X, y = rows
    X["a"] = np.column_stack([y, y, y]).astype(float)
    X["b"] = np.tile([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], (5, 1))  # has nothing to do with y
    model = fitted(X, y, weighting="alignment")
    assert model.layers_ == ["a"]
    assert np.array_equal(model.predict({"a": X["a"]}), y)


def test_fewer_rows_than_landmarks_and_features(rows):
    assert fitted(*rows, n_landmarks=10_000, n_features_per_layer=10_000).score(*rows) > 0.8


@pytest.mark.parametrize("n", [2, 3])
def test_two_rows_are_enough(n):
    X = {"a": np.array([[0.0], [5.0], [5.1]])[:n], "b": np.array([[1.0], [1.0], [1.0]])[:n]}
    model = fitted(X, ["no", "yes", "yes"][:n])
    assert model.predict({"a": np.array([[0.0], [5.0]]), "b": np.ones((2, 1))}).tolist() == ["no", "yes"]
    assert np.isnan(model.alignment_)
    assert np.isfinite(model.predict_proba(X)).all()


def test_constant_layers_are_refused_if_all_are():
    with refuses(ValueError, "constant"):
        fitted({"a": np.ones((8, 2))}, np.arange(8) % 2)


def test_labels_that_no_layer_knows_are_warned_about():
    X = np.tile([[1.0], [1.0], [-1.0], [-1.0]], (5, 1))
    with warns_of(UserWarning, "layer", "aligns"):
        model = fitted({"a": X, "b": 2 * X}, np.arange(20) % 2, weighting="alignment")
    assert [s.share for s in model.alignments_] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_landmarks": 0}, "n_landmarks=0"),
        ({"batch_rows": 1.5}, "batch_rows=1.5"),
        ({"weighting": "best"}, "weighting='best'"),
        ({"lengthscale_factors": (0.0,)}, "lengthscale_factors"),
        ({"alphas": ()}, "alphas"),
        ({"landmarks": "nearest"}, "'nearest'"),
    ],
)
def test_wrong_options_are_named(rows, options, message):
    with refuses(ValueError, message):
        fitted(*rows, **options)


def test_parts_that_give_no_rows_are_left_out_where_others_do():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.never = nn.Linear(3, 4), nn.Linear(3, 4)

        def forward(self, X):
            return self.body(X)

    X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    model = fitted(X, (X[:, 0] > 0).long(), network=Unused())
    assert [score.layer for score in model.alignments_] == ["body"]


def test_unlabelled_rows_of_another_width_are_refused(rows):
    with refuses(ValueError, "'b'", "3 features", "2"):
        LayerTransferClassifier().fit(*rows, {"a": rows[0]["a"], "b": rows[0]["a"]})


def test_unlabelled_rows_must_have_the_same_layers(rows):
    with refuses(ValueError, "lacks", "layers"):
        LayerTransferClassifier().fit(*rows, {"a": rows[0]["a"]})
