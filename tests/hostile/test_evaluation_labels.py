"""Labels as people have them, and those that cannot be classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krepes.evaluation import knn_probe, linear_probe, plan_protocol, probe_protocol
from krepes.preprocessing.labels import encode_labels
from refusals import refuses

rng = np.random.default_rng(0)
Z = np.concatenate([rng.normal(size=(20, 3)) - 3, rng.normal(size=(20, 3)) + 3])


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("no", "yes"),
        (False, True),
        (0, 1),
        (-5, 7),
        (0.0, 1.0),
        (np.uint8(3), np.uint8(4)),
        ("", "x"),
    ],
)
@pytest.mark.parametrize("form", [list, np.array, lambda y: np.array(y, dtype=object), pd.Series, tuple])
def test_any_two_values_are_classes(one, two, form):
    y = form([one] * 20 + [two] * 20)
    train, test = np.arange(40) % 2 == 0, np.arange(40) % 2 == 1
    y_train, y_test = np.asarray(y)[train], np.asarray(y)[test]
    assert linear_probe(Z[train], y_train, Z[test], y_test).accuracy == 1.0
    assert probe_protocol(Z, y, train, test, label_fraction=0.5, n_repeats=1, probe="knn").accuracy == 1.0


@pytest.mark.parametrize(
    "missing", [None, float("nan"), np.nan, pd.NA, pd.NaT], ids=["None", "nan", "np.nan", "NA", "NaT"]
)
def test_missing_labels_are_left_out(missing):
    y = np.array(["a", "b"] * 20, dtype=object)
    y[[0, 5]] = missing
    labels = encode_labels(y)
    assert labels.codes[[0, 5]].tolist() == [-1, -1]
    assert labels.classes.tolist() == ["a", "b"]
    assert 0 not in labels.present


def test_whole_floats_become_integers():
    """A column of integers with missing values arrives as float64."""
    labels = encode_labels(np.array([1.0, 2.0, np.nan, 1.0]))
    assert labels.classes.dtype.kind == "i"
    assert labels.codes.tolist() == [0, 1, -1, 0]


@given(st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "c"])), min_size=1, max_size=40))
def test_codes_lead_back_to_the_labels(values):
    if all(value is None for value in values):
        with refuses(ValueError, "label"):
            encode_labels(values)
        return
    labels = encode_labels(values)
    back = [None if code < 0 else labels.classes[code].item() for code in labels.codes]
    assert back == values


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(40), ("class", "0")),
        (["a"] * 40, "'a'"),
        ([None] * 40, "label"),
        (np.linspace(0, 1, 40), "0.0256"),
        (np.r_[np.inf, np.zeros(39)], "infinite"),
        (np.arange(40), "identifier"),
        ([f"row {i}" for i in range(40)], "identifier"),
        (["a", 1] * 20, ("int", "str")),
        (np.zeros((40, 2)), ("one label", "row")),
        ([[0], [1]] * 20, ("one label", "row")),
        (np.array(["2020-01-01"] * 40, dtype="M8[D]"), "datetime64"),
        (np.zeros(39), ("39 labels", "40 rows")),
    ],
)
def test_labels_that_cannot_be_classes_are_refused(y, message):
    with refuses(ValueError, message):
        probe_protocol(Z, y)


@pytest.mark.parametrize("y", ["label", 3, None])
def test_a_single_value_is_not_labels(y):
    with refuses(TypeError, "one label", "row"):
        probe_protocol(Z, y)
    with refuses(TypeError, "one label", "row"):
        linear_probe(Z, np.repeat([0, 1], 20), Z, y)


@pytest.mark.parametrize("probe", [linear_probe, knn_probe])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Z_train": Z[:, 0]}, "2-D"),
        ({"Z_train": np.full((40, 3), np.nan)}, "NaN"),
        ({"Z_test": np.zeros((40, 4))}, "one model"),
        ({"Z_test": np.zeros((0, 3)), "y_test": []}, "empty"),
        ({"y_train": np.zeros(40)}, "y_train"),
        ({"y_test": [None] * 40}, "y_test"),
        ({"y_test": np.zeros(39)}, ("y_test", "39 labels", "40 rows")),
        ({"Z_train": np.array([["a", "b"]] * 40)}, ("2-D", "numbers")),
        ({"validation": 0.0}, "validation=0.0"),
        ({"validation": 1.5}, "validation=1.5"),
    ],
)
def test_probes_say_what_is_wrong(probe, change, message):
    y = np.repeat([0, 1], 20)
    with refuses(ValueError, message):
        probe(**({"Z_train": Z, "y_train": y, "Z_test": Z, "y_test": y} | change))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_fraction": 0}, "label_fraction=0"),
        ({"label_fraction": 10}, "label_fraction=10"),
        ({"n_repeats": 0}, "n_repeats=0"),
        ({"test_fraction": 1}, "test_fraction=1"),
        ({"probe": "forest"}, ("'linear'", "'knn'")),
        ({"train": [0, 1]}, ("train=", "test=")),
        ({"train": [0, 30], "test": [30, 39]}, "1 rows"),
        ({"train": [0, 39], "test": [40]}, "39"),
        ({"train": [0.5], "test": [1]}, ("indices", "mask")),
        ({"train": [True], "test": [False]}, ("mask", "shape")),
        ({"train": [0, 1, 2], "test": [39]}, ("single", "class")),
    ],
)
def test_protocols_say_what_is_wrong(options, message):
    with refuses(ValueError, message):
        probe_protocol(Z, np.repeat([0, 1], 20), **options)


def test_grids_are_checked():
    y = np.repeat([0, 1], 20)
    for grid in ([-1.0], [], "all", [None]):
        with refuses(ValueError, "C_grid", "positive numbers"):
            linear_probe(Z, y, Z, y, C_grid=grid)
    with refuses(ValueError, "k_grid"):
        knn_probe(Z, y, Z, y, k_grid=[0])
    with refuses(ValueError, "metric"):
        knn_probe(Z, y, Z, y, metric="manhattan")


def test_single_members_new_classes_and_constant_columns_are_ordinary():
    """A class with one label, a class that only the test rows have, and rows that are all the same."""
    y = np.array([0] * 19 + [2] + [1] * 20)
    y_test = np.array([0] * 19 + [3] + [1] * 20)
    result = linear_probe(Z, y, Z, y_test)
    assert result.recall[3] == 0.0
    assert set(result.recall) == {0, 1, 3}
    assert knn_probe(Z, y, Z, y_test).recall[3] == 0.0
    flat = linear_probe(np.ones((40, 3)), y, np.ones((40, 3)), y)
    assert flat.accuracy == pytest.approx(0.5)


def test_two_labels_are_enough_for_a_probe():
    result = linear_probe(Z[[0, 39]], ["a", "b"], Z, np.repeat(["a", "b"], 20))
    assert result.accuracy > 0.9
    assert "too few labels to choose C" in result.notes[0]
    assert knn_probe(Z[[0, 39]], ["a", "b"], Z, np.repeat(["a", "b"], 20)).chosen["k"] == 1


def test_inputs_are_not_changed():
    y = np.repeat([0, 1], 20)
    before = Z.copy()
    plan_protocol(y).run(Z[plan_protocol(y).rows])
    linear_probe(Z, y, Z, y)
    knn_probe(Z, y, Z, y)
    np.testing.assert_array_equal(Z, before)
