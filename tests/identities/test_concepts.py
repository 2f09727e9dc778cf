"""Concepts: p-values mean what they say, and rules are comparisons."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from krepes import KernelEmbedding
from krepes.explain import Concept
from refusals import refuses

SIZES = [(15, 15), (40, 8), (4, 60)]


def of_noise(seed, sizes, method, shift=0.0, **settings):
    rng = np.random.default_rng(seed)
    positives, negatives = (rng.standard_normal((n, 8)) for n in sizes)
    positives[:, 0] += shift
    settings = {"n_permutations": 19, "n_resamples": 0, "random_state": seed} | settings
    return Concept(method=method, **settings).fit_representation(positives, negatives)


@pytest.mark.parametrize("sizes", SIZES)
def test_p_values_of_nothing_are_uniform(sizes):
    """With 19 permutations and no ties, p <= 0.1 in 2 of 20 cases, within 4 standard errors of 60 runs."""
    p = np.array([of_noise(seed, sizes, "mean_difference").p_value_ for seed in range(60)])
    for level in (0.1, 0.5):
        share = (p <= level + 1e-9).mean()
        assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / 60)


@pytest.mark.full
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("method", "runs"), [("mean_difference", 300), ("svm", 100)])
def test_p_values_are_calibrated(method, runs, sizes):
    """P(p <= alpha) is alpha within 3 standard errors, seeds 0, 1, 2, ..."""
    p = np.array([of_noise(seed, sizes, method, n_permutations=100).p_value_ for seed in range(runs)])
    for alpha in (0.01, 0.05, 0.1):
        assert abs((p <= alpha + 1e-12).mean() - alpha) <= 3 * np.sqrt(alpha * (1 - alpha) / runs)


@pytest.mark.parametrize("method", ["svm", "mean_difference"])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_large_effect_is_found_in_sets_of_any_size(method, sizes):
    found = of_noise(0, sizes, method, shift=6.0)
    assert found.p_value_ == pytest.approx(1 / 20)
    assert found.accuracy_ > 0.9
    assert found.direction_[0] > 0.6


def test_every_fold_has_rows_of_both_kinds():
    concept = of_noise(0, (4, 60), "mean_difference")
    y = np.repeat([1, 0], [4, 60])
    for permuted in (y, np.random.default_rng(0).permutation(y)):
        folds = concept._folds(permuted)
        assert folds.max() == 3
        assert np.bincount(folds[permuted == 1], minlength=4).min() == 1
        assert np.bincount(folds[permuted == 0], minlength=4).min() == 15


def test_stability_stands_beside_that_of_nothing():
    """Resamples of noise agree, too: only its place among permuted labels says something."""
    nothing = of_noise(1, (40, 40), "mean_difference", n_resamples=10)
    something = of_noise(1, (40, 40), "mean_difference", shift=3.0, n_resamples=10)
    assert nothing.stability_by_chance_ > 0.5
    assert abs(nothing.stability_ - nothing.stability_by_chance_) < 0.15
    assert something.stability_ > something.stability_by_chance_ + 0.1
    assert something.stability_p_value_ == pytest.approx(1 / 20)


PEOPLE = pd.DataFrame(
    {
        "age": [70, 20, 65, 30, np.nan, 61, 60],
        "job": ["cook", "cook", "baker", "cook", "cook", None, "night guard"],
        "hours-per-week": [40, 10, 38, 45, 50, 20, 60],
    }
)


@pytest.mark.parametrize(
    ("rule", "holds", "fails"),
    [
        ("age > 60", [0, 2, 5], [1, 3, 6]),
        ("60 <= age", [0, 2, 5, 6], [1, 3]),
        ("30 <= age < 61", [3, 6], [0, 1, 2, 5]),
        ("job == cook", [0, 1, 3, 4], [2, 6]),
        ('job != "cook"', [2, 6], [0, 1, 3, 4]),
        ("job in (baker, 'night guard')", [2, 6], [0, 1, 3, 4]),
        ("age > 60 and job == cook", [0], [1, 2, 3, 6]),
        ("age > 60 or not hours-per-week < 45", [0, 2, 3, 5, 6], [1]),
        ("`hours-per-week` >= 45", [3, 4, 6], [0, 1, 2, 5]),
        ("age > -1 and job != cook", [2, 6], [0, 1, 3]),
    ],
)
def test_rules_are_comparisons(rule, holds, fails):
    concept = Concept.from_rule(PEOPLE, rule)
    for part, expected in ((concept.positives, holds), (concept.negatives, fails)):
        assert part.rows.tolist() == expected
    assert concept.name == rule


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("__import__('os').system('ls')", ("compares", "column")),
        ("age > open('x')", ("number", "word", "text")),
        ("age.real > 3", "column"),
        ("(lambda: 1)() > age", ("number", "word", "text")),
        ("[age for age in x]", ("compares", "column")),
        ("age >", "cannot be read"),
        ("weight > 3", "column"),
        ("job > 3", "numbers"),
        ("age > old", "number"),
        ("age is 3", "comparisons"),
        ("", "text"),
        ("age > -1", ("rows", "both")),
        ("(" * 400 + "age > 3" + ")" * 400, "cannot be read"),
    ],
)
def test_rules_are_never_run(rule, message):
    with refuses(ValueError, message):
        Concept.from_rule(PEOPLE, rule)


def test_a_rule_needs_a_table():
    with refuses(TypeError, "columns", "table"):
        Concept.from_rule(np.zeros((3, 2)), "age > 3")


def test_a_rule_gives_a_direction_of_a_model():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(18, 90, 200), "pay": rng.normal(size=200)})
    model = KernelEmbedding(4, n_landmarks=40, random_state=0).fit(table)
    old = Concept.from_rule(table, "age > 60", n_permutations=19, n_resamples=0).fit(model)
    scores = old.scores(model.transform(table))
    assert old.p_value_ == pytest.approx(0.05)
    assert scores[table.age > 60].mean() > scores[table.age <= 60].mean()
