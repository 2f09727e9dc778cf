"""The paper's protocol: which rows are labelled, which are tested, and what is reported."""

from __future__ import annotations

import numpy as np
import pytest

from krepes.evaluation import linear, linear_probe, plan_protocol, probe_protocol
from krepes.evaluation.probe_inputs import draw_stratified, validation_split


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4
    return rng.normal(size=(4, 5))[y] * 2 + rng.normal(size=(400, 5)), y


def test_a_tenth_of_the_training_labels_is_used(data):
    Z, y = data
    result = probe_protocol(Z, y, np.arange(300), np.arange(300, 400), n_repeats=3)
    assert (result.n_labels, result.n_test, len(result.results)) == (32, 100, 3)  # 8 of 75 in each class
    assert result.accuracy == pytest.approx(result.values("accuracy").mean())
    assert result.balanced_accuracy == pytest.approx(np.mean([r.balanced_accuracy for r in result.results]))
    assert "32 labels, 100 test rows" in str(result)
    assert "±" in str(result)


def test_repeats_draw_different_labels_and_seeds_repeat_them(data):
    _, y = data
    plan = plan_protocol(y, np.arange(300), np.arange(300, 400), n_repeats=2, random_state=3)
    (first, test), (second, test_again) = plan.draws
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(test, test_again)
    again = plan_protocol(y, np.arange(300), np.arange(300, 400), n_repeats=2, random_state=3)
    np.testing.assert_array_equal(first, again.draws[0][0])
    assert plan.seeds == again.seeds


def test_masks_and_indices_are_the_same(data):
    Z, y = data
    mask = np.arange(400) < 300
    one = probe_protocol(Z, y, mask, ~mask, n_repeats=1)
    other = probe_protocol(Z, y, np.arange(300), np.arange(300, 400), n_repeats=1)
    assert one.values("accuracy") == other.values("accuracy")


def test_only_the_rows_of_the_plan_are_needed(data):
    """A probe of a few rows of a large data set needs no representation of the others."""
    Z, y = data
    plan = plan_protocol(y, np.arange(300), np.arange(300, 400), n_repeats=2)
    assert len(plan.rows) < 200
    ruined = np.full_like(Z, np.nan)
    ruined[plan.rows] = Z[plan.rows]
    whole = probe_protocol(Z, y, np.arange(300), np.arange(300, 400), n_repeats=2)
    np.testing.assert_array_equal(plan.run(ruined[plan.rows]).values("accuracy"), whole.values("accuracy"))


def test_rows_without_a_label_are_left_out(data):
    Z, y = data
    labels = y.astype(float)
    labels[::3] = np.nan
    result = probe_protocol(Z, labels, label_fraction=None, n_repeats=2)
    assert result.n_labels + result.n_test == np.isfinite(labels).sum()
    plan = plan_protocol(labels, label_fraction=None, n_repeats=2)
    assert not np.isin(plan.rows, np.arange(0, 400, 3)).any()


def test_without_a_split_test_rows_are_drawn_anew(data):
    _, y = data
    plan = plan_protocol(y, n_repeats=2, test_fraction=0.25)
    for labelled, test in plan.draws:
        assert not np.isin(labelled, test).any()
        assert np.bincount(y[test]).tolist() == [25] * 4
    assert not np.array_equal(plan.draws[0][1], plan.draws[1][1])


def test_the_most_frequent_class_is_the_floor():
    y = np.array(["a"] * 90 + ["b"] * 10)
    floor = plan_protocol(y, label_fraction=None, n_repeats=2).floor()
    assert floor.accuracy == pytest.approx(0.9)
    assert floor.balanced_accuracy == pytest.approx(0.5)


def test_every_class_keeps_a_label_and_singles_are_not_held_out():
    codes = np.array([0] * 100 + [1] * 3 + [2])
    drawn, rest = draw_stratified(codes, 0.1, np.random.default_rng(0))
    assert np.bincount(codes[drawn]).tolist() == [10, 1, 1]
    assert sorted([*drawn, *rest]) == list(range(104))
    fit, held = validation_split(codes, 0.2, np.random.default_rng(0))
    assert np.bincount(codes[fit], minlength=3).tolist() == [80, 2, 1]
    assert np.bincount(codes[held], minlength=3).tolist() == [20, 1, 0]


def test_many_labels_are_searched_in_part_and_the_note_says_so(data):
    Z, y = data
    result = linear_probe(Z[:300], y[:300], Z[300:], y[300:], search_rows=50)
    assert result.notes == ["C was chosen with 50 of the 300 labels"]
    assert result.n_labels == 300
    assert result.accuracy > 0.8


def test_the_search_ends_when_larger_values_do_not_help(monkeypatch, data):
    Z, y = data
    seen = []
    path = linear.PATHS["logistic"]

    def recorded(X, codes, n_classes, values, start=None):
        for C, weights in zip(values, path(X, codes, n_classes, values, start)):
            seen.append(C)
            yield weights

    monkeypatch.setitem(linear.PATHS, "logistic", recorded)
    noise = np.column_stack([Z, np.random.default_rng(0).normal(size=(400, 60))])
    result = linear_probe(noise[:100], y[:100], noise[100:], y[100:])
    assert result.chosen["C"] < max(seen) < max(linear.C_GRID)


def test_the_largest_class_alone_does_not_end_the_search():
    """Where small values of C all predict the largest class, the search goes on to the values that work."""
    rng = np.random.default_rng(0)
    codes = (rng.random(2000) < 0.05).astype(int)
    Z = np.column_stack([50 * rng.normal(size=2000), 2.0 * codes - 1 + 0.2 * rng.normal(size=2000)])
    assert linear_probe(Z[:1000], codes[:1000], Z[1000:], codes[1000:]).balanced_accuracy > 0.95
