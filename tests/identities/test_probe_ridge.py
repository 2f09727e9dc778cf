"""The ridge probe is ridge regression with exact leave-one-out, and its scores are scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics import get_scorer, mean_absolute_error, r2_score

from krepes.evaluation import linear_probe, plan_protocol, probe_protocol, ridge_probe
from krepes.evaluation.scoring import jackknife_error, measured
from krepes.regression.ridge import ALPHAS

rng = np.random.default_rng(0)
Z = rng.normal(size=(160, 12)) @ rng.normal(size=(12, 12)) + 3
Y = Z @ rng.normal(size=12) + 4 * rng.normal(size=160)
FIT, TEST = slice(0, 90), slice(90, 160)


def test_it_is_ridge_with_cross_validation():
    """The same alpha and predictions as scikit-learn's RidgeCV on the same grid."""
    result = ridge_probe(Z[FIT], Y[FIT], Z[TEST], Y[TEST])
    centred = Z[FIT] - Z[FIT].mean(0)
    unit = np.square(centred).sum() / np.linalg.matrix_rank(centred)
    peer = RidgeCV(alphas=np.array(ALPHAS) * unit).fit(Z[FIT], Y[FIT])
    assert result.chosen["alpha"] * unit == pytest.approx(peer.alpha_)
    np.testing.assert_allclose(result.predicted, peer.predict(Z[TEST]), rtol=1e-8)
    assert result.r2 == pytest.approx(r2_score(Y[TEST], result.predicted))
    assert result.mean_absolute_error == pytest.approx(mean_absolute_error(Y[TEST], result.predicted))


def test_alpha_is_the_one_of_naive_leaving_out():
    """Every labelled row is left out once, by a loop; test rows take no part."""
    X, y = Z[:30], Y[:30]
    centred = X - X.mean(0)
    unit = np.square(centred).sum() / 12
    grid = [1e-3, 1e-1, 1.0, 10.0]
    errors = []
    for alpha in grid:
        left = [
            Ridge(alpha=alpha * unit).fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[i : i + 1])[0] - y[i]
            for i in range(30)
        ]
        errors.append(np.mean(np.square(left)))
    result = ridge_probe(X, y, Z[TEST], Y[TEST], alphas=grid)
    assert result.chosen["alpha"] == grid[int(np.argmin(errors))]
    worse = ridge_probe(X, y, Z[TEST], -Y[TEST], alphas=grid)
    assert worse.chosen["alpha"] == result.chosen["alpha"]


def test_a_common_scale_of_the_representation_changes_nothing():
    plain = ridge_probe(Z[FIT], Y[FIT], Z[TEST], Y[TEST])
    scaled = ridge_probe(1e4 * Z[FIT], Y[FIT], 1e4 * Z[TEST], Y[TEST])
    assert scaled.r2 == pytest.approx(plain.r2)
    columns = np.geomspace(1e-3, 1e3, 12)  # but the scale of a column does
    assert ridge_probe(columns * Z[FIT], Y[FIT], columns * Z[TEST], Y[TEST]).r2 != pytest.approx(plain.r2)


def test_the_protocol_takes_quantities():
    y = Y.copy()
    y[:10] = np.nan
    result = probe_protocol(Z, y, probe="ridge", label_fraction=None, n_repeats=3)
    assert result.n_labels + result.n_test == 150
    assert result.mean("r2") == pytest.approx(np.mean([r.r2 for r in result.results]))
    assert str(result).startswith("ridge probe: R² 0.")
    plan = plan_protocol(y, label_fraction=None, n_repeats=3, task="regression")
    floor = plan.floor()
    for (labelled, test), found in zip(plan.draws, floor.results):
        assert found.mean_absolute_error == pytest.approx(np.abs(y[test] - y[labelled].mean()).mean())


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["roc_auc_ovr", "neg_log_loss", "f1_macro", "top_k_accuracy", "roc_auc"])
def test_scorers_take_the_linear_probe(classes, name):
    if (name == "top_k_accuracy" and classes == 2) or (name == "roc_auc" and classes == 3):
        pytest.skip("not defined")
    y = np.digitize(Y, np.quantile(Y, np.arange(1, classes) / classes))
    result = linear_probe(Z[FIT], y[FIT], Z[TEST], y[TEST])
    P = result.model.predict_proba(Z[TEST])
    np.testing.assert_allclose(P.sum(1), 1)
    np.testing.assert_array_equal(result.model.classes_[P.argmax(1)], result.predicted)
    expected = get_scorer(name)(result.model, Z[TEST], y[TEST])
    assert measured(result, Z[TEST], y[TEST], name)[0].metrics[name] == pytest.approx(expected)
    machine = linear_probe(Z[FIT], y[FIT], Z[TEST], y[TEST], classifier="svm").model
    assert not hasattr(machine, "predict_proba")


def test_the_probabilities_are_those_of_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    y = np.digitize(Y, [-5, 5])
    probe = linear_probe(Z[FIT], y[FIT], Z[TEST], y[TEST], C_grid=[0.1]).model
    scale = np.sqrt(Z[FIT].var(0).mean())
    peer = LogisticRegression(C=0.1, tol=1e-8, max_iter=5000).fit(Z[FIT] / scale, y[FIT])
    np.testing.assert_allclose(probe.predict_proba(Z[TEST]), peer.predict_proba(Z[TEST] / scale), atol=2e-3)


def test_the_error_of_an_accuracy_is_binomial():
    """Within what ten groups can know: the mean of squared errors over many test sets."""
    squares = []
    for seed in range(200):
        hits = np.random.default_rng(seed).random(400) < 0.8
        groups = np.random.default_rng(400).permutation(400) % 10
        squares.append(jackknife_error(np.array([hits[groups != g].mean() for g in range(10)])) ** 2)
    expected = 0.8 * 0.2 / 400
    deviation = np.std(squares) / len(squares) ** 0.5
    assert abs(np.mean(squares) - expected) < 4 * deviation
