"""What the verdict says, in every case; which labels a curve draws; what a target is taken for."""

from __future__ import annotations

import numpy as np
import pytest

from krepes.evaluation import (
    LabelCurve,
    ProbeResult,
    ProtocolResult,
    guess_task,
    label_curve,
    paired_difference,
    plan_protocol,
    plot_label_curve,
    verdict,
)
from krepes.evaluation.comparison.label_curve import usable_counts
from krepes.evaluation.probe_inputs import draw_count
from refusals import refuses

GROUPS = 10


def outcome(*accuracies: float, error: float = 0.0, metric: str | None = None) -> ProtocolResult:
    """Results of these accuracies; `error` is what the choice of test rows does to each."""
    results = [
        ProbeResult(
            metrics=dict.fromkeys(("accuracy", "balanced_accuracy", metric or "accuracy"), a),
            model=None,
            n_labels=10,
            n_test=100,
            classes=np.array([0, 1]),
        )
        for a in accuracies
    ]
    # The jackknife of values ±u about a mean is u sqrt(G - 1).
    signs = error / np.sqrt(GROUPS - 1) * np.resize([1.0, -1.0], GROUPS)
    without = np.array(accuracies)[:, None] + signs
    return ProtocolResult(results, "linear", 1.0, metric, {metric or "accuracy": without})


FLOOR = outcome(0.5, 0.5, 0.5)


def said(ours, raw=None, pca=None, floor="half", **others):
    floor = outcome(*[0.5] * len(ours.results)) if floor == "half" else floor
    given = {"representation": ours, "raw features": raw, "kernel PCA": pca, **others}
    return verdict({name: result for name, result in given.items() if result is not None}, floor)


def test_better_than_both():
    found = said(outcome(0.90, 0.91, 0.92), outcome(0.87, 0.88, 0.90), outcome(0.89, 0.90, 0.91))
    assert found.text == (
        "The representation is better than raw features by 2.7 points and than kernel PCA by 1.0 points."
    )
    assert (found.advice, found.winner) == ("", "representation")


def test_kernel_pca_won():
    found = said(outcome(0.90, 0.91), outcome(0.85, 0.86), outcome(0.93, 0.94))
    assert found.text.startswith("Kernel PCA is better than the representation by 3.0 points; ")
    assert "the representation is better than raw features by 5.0 points" in found.text
    assert "loss='kernel_pca'" in found.advice
    assert found.winner == "kernel PCA"


def test_raw_features_won():
    found = said(outcome(0.90, 0.91), outcome(0.95, 0.96), outcome(0.90, 0.91))
    assert found.text.startswith("Raw features are better than the representation by 5.0 points")
    assert "level with kernel PCA (+0.0 points)" in found.text
    assert "lengthscale" in found.advice
    assert "krepes tune" in found.advice
    assert found.winner == "raw features"


def test_level_with_raw_features():
    found = said(outcome(0.90, 0.94), outcome(0.93, 0.92), outcome(0.80, 0.83))
    assert found.text == (
        "The representation is better than kernel PCA by 10.5 points, and no better than raw features (-0.5 points)."
    )
    assert "raw features, which are simpler" in found.advice
    assert found.winner == ""


def test_level_with_kernel_pca():
    found = said(outcome(0.900, 0.901), outcome(0.85, 0.86), outcome(0.897, 0.898))
    assert "no better than kernel PCA (+0.3 points)" in found.text  # 0.3 is certain, and not worth a word
    assert "Its views add nothing" in found.advice
    alone = said(outcome(0.900, 0.901), pca=outcome(0.897, 0.898))
    assert "too small to matter" in alone.text


def test_ahead_by_chance():
    found = said(outcome(0.90, 0.96), outcome(0.90, 0.90), outcome(0.80, 0.83))
    assert found.text == (
        "The representation is better than kernel PCA by 11.5 points. It is ahead of raw features by 3.0 points, which "
        "chance can explain."
    )
    assert "More repeats" in found.advice
    assert found.winner == ""


def test_level_with_both():
    found = said(outcome(0.90, 0.94), outcome(0.94, 0.91), outcome(0.94, 0.91))
    assert "no better than raw features (-0.5 points) and kernel PCA (-0.5 points) here" in found.text
    assert "chance can explain the difference" in found.text


def test_nothing_is_better_than_the_floor():
    near = outcome(0.51, 0.49, 0.50)
    found = said(near, near, near)
    assert found.text == "Nothing here is better than always predicting the most frequent class."
    assert "may not be in these columns" in found.advice
    rare = outcome(0.97, 0.97, 0.97)
    assert "scoring='roc_auc'" in said(rare, rare, floor=rare).advice


def test_another_method_that_is_better_is_named():
    found = said(outcome(0.90, 0.91), outcome(0.85, 0.86), **{"random forest": outcome(0.95, 0.96)})
    assert found.text.endswith("Random forest on the raw features is better by 5.0 points.")
    assert found.winner == "random forest"
    worse = said(outcome(0.90, 0.91), outcome(0.85, 0.86), **{"random forest": outcome(0.80, 0.81)})
    assert "forest" not in worse.text


def test_one_repeat_has_the_error_of_its_test_rows():
    ours, raw = outcome(0.92), outcome(0.90)
    assert said(ours, raw).winner == "representation"
    shaky = paired_difference("raw features", outcome(0.92, error=0.02), raw)
    assert shaky.error == pytest.approx(0.02)
    assert shaky.sign == 0


def test_the_error_is_that_of_draws_and_of_test_rows():
    a, b = outcome(0.9, 0.8, 0.85, error=0.01), outcome(0.88, 0.80, 0.81)
    d = np.array([0.02, 0.0, 0.04])
    expected = np.hypot(d.std(ddof=1) / 3**0.5, 0.01)
    found = paired_difference("b", a, b)
    assert (found.mean, found.error) == (pytest.approx(0.02), pytest.approx(expected))


def test_other_scores_have_their_names_and_units():
    found = said(outcome(0.9, 0.9, metric="roc_auc"), outcome(0.8, 0.8, metric="roc_auc"), floor=None)
    assert "by 0.100 in roc_auc" in found.text
    error = "neg_root_mean_squared_error"
    close = said(outcome(-50.0, -50.0, metric=error), outcome(-50.1, -50.1, metric=error), floor=None)
    assert close.winner == ""  # a fifth of a percent
    with refuses(ValueError, "protocol"):
        said(outcome(0.9), outcome(0.8, 0.7))
    with refuses(ValueError, "'representation'"):
        verdict({"raw features": FLOOR})
    assert said(FLOOR, floor=None).text == "There is nothing to compare the representation with."


def test_paired_hits_have_mcnemars_error():
    """One repeat: the variance of a difference of accuracies is that of the rows where only one is right."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    X = np.column_stack([y + rng.normal(size=4000), y + rng.normal(size=4000)])
    train = np.arange(4000) < 2000
    plan = plan_protocol(y, train, ~train, label_fraction=None, n_repeats=1)
    one, other = plan.run(X), plan.run(X[:, :1])
    only = (one.results[0].predicted == y[~train]).astype(int) - (other.results[0].predicted == y[~train])
    expected = only.std(ddof=1) / 2000**0.5
    assert paired_difference("x", one, other).error == pytest.approx(
        expected, rel=0.6
    )  # ten groups know it so well


# Curves


def test_a_count_is_exact_and_keeps_every_class():
    codes = np.repeat([0, 1, 2, 3], [500, 60, 7, 1])
    for count in (4, 5, 17, 100, 567, 568):
        rows = draw_count(codes, count, np.random.default_rng(count))
        assert len(np.unique(rows)) == count
        assert set(codes[rows]) == {0, 1, 2, 3}
    few = draw_count(codes, 2, np.random.default_rng(0))
    assert len(set(codes[few])) == 2


@pytest.fixture(scope="module")
def curve() -> LabelCurve:
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4
    Z = rng.normal(size=(4, 5))[y] * 2 + rng.normal(size=(400, 5))
    return label_curve(
        {"representation": Z, "raw features": Z[:, :2]}, y, counts=[200, 8, 40, 9000], n_repeats=3
    )


def test_a_curve_has_the_same_draws_for_all(curve):
    assert curve.counts == [8, 40, 200]
    assert curve.notes == ["9,000 labels: left out, there are 320 to learn from"]
    for place, count in enumerate(curve.counts):
        for results in curve.results.values():
            assert all(r.n_labels == count for r in results[place].results)
    assert curve.results["representation"][2].accuracy > curve.results["representation"][0].accuracy
    assert len(str(curve).splitlines()) == 3
    assert set(curve.at(40)) == {"representation", "raw features"}


def test_the_test_rows_of_a_curve_stay():
    plan = plan_protocol(np.arange(100) % 2, label_fraction=None, n_repeats=2)
    smaller = plan.with_labels(10)
    for (rows, test), (few, same) in zip(plan.draws, smaller.draws):
        np.testing.assert_array_equal(test, same)
        assert np.isin(few, rows).all()
    np.testing.assert_array_equal(smaller.draws[0][0], plan.with_labels(10).draws[0][0])


def test_a_curve_is_drawn(curve):
    figure = plot_label_curve(curve, "Digits")
    (panel,) = figure.axes
    assert {text.get_text() for text in panel.texts} == {"representation", "raw features"}
    np.testing.assert_allclose(
        panel.lines[0].get_ydata(), [100 * r.accuracy for r in curve.results["representation"]]
    )
    with refuses(TypeError, "label_curve"):
        plot_label_curve({"a": 1})


def test_a_curve_of_a_quantity():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 4))
    found = label_curve({"z": Z}, Z @ np.ones(4) + 0.1 * rng.normal(size=300), counts=[10, 100], n_repeats=2)
    assert found.results["z"][1].metric == "r2"
    assert found.results["z"][1].mean() > 0.95


@pytest.mark.parametrize("counts", [[0], [1], [-5], [2.5], ["a"], [], "50", [True]])
def test_counts_must_be_numbers_of_labels(counts):
    with refuses(ValueError, "labels", "2"):
        usable_counts(counts, 100)


# Tasks


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (np.arange(500) % 10, "classification"),
        (np.array(["a", "b"] * 10), "classification"),
        (["1.5", "2.5", "3.5"] * 5, "classification"),  # text, whatever it looks like
        (np.array([True, False] * 10), "classification"),
        ([3, 4, 5, 6, 7, 8] * 20, "classification"),
        (np.arange(2000) % 100, "classification"),  # numbered classes
        (np.arange(1000) % 38 + 1, "classification"),
        (np.random.default_rng(0).integers(25, 347, 442), "regression"),  # as in diabetes
        (np.random.default_rng(0).integers(17, 91, 40_000), "regression"),  # ages
        ([0.5, 1.0, 2.0, 3.0] * 5, "regression"),
        (np.random.default_rng(0).integers(10_000, 99_999, 500), "regression"),  # postal codes: say so
        ([1.0, 2.0, np.nan, 1.0], "classification"),
        ([7, 7, 7], "classification"),
    ],
)
def test_what_a_target_is_taken_for(y, task):
    assert guess_task(y).name == task


def test_an_identifier_is_not_a_target():
    with refuses(ValueError, "identifier"):
        guess_task(np.random.default_rng(0).permutation(60))
    with refuses(ValueError, "missing"):
        guess_task([None, float("nan")])
