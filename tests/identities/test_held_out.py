"""Held-out losses and correlations from moments by fold are what refits on the other folds' rows give."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from krepes import KernelEmbedding
from krepes.base.blocks import Block
from krepes.base.split import ByFold
from krepes.engines import Local
from krepes.features.held_out import SHARE, Part, best_width, circle, over_parts
from krepes.losses import (
    BarlowTwins,
    KernelPCA,
    Loss,
    MomentForms,
    SimpleContrastive,
    SpectralContrastive,
    VICReg,
)
from krepes.losses.vicreg import VARIANCE_FLOOR
from krepes.moments import Moments
from krepes.solvers import MomentDescent, Solver, choose_solver
from krepes.views import Tabular

rng = np.random.default_rng(0)
X = load_iris().data
P = X + 0.3 * rng.normal(size=X.shape) + [0.2, 0, 0, 0]  # the pairs' means differ
N = X[rng.permutation(len(X))]
K = 4
SETTINGS = {"n_landmarks": 25, "random_state": 0, "dtype": "float64", "regularization": 1e-3}
FOLD = ByFold(K)(Block(torch.arange(len(X)), (torch.from_numpy(X),)))

LOSSES: list[Loss] = [
    SpectralContrastive(),
    KernelPCA(),
    SimpleContrastive(),
    VICReg(variance="quadratic"),
    VICReg(),
    BarlowTwins(),
    BarlowTwins(redundancy=1, normalize=False),
    BarlowTwins(redundancy=0.5, normalize=False, center=False),
]


def pairs(loss: Loss, rows) -> dict[str, np.ndarray]:
    given = {"positives": P[rows]} if loss.views_needed > 1 else {}
    return given | ({"negatives": N[rows]} if loss.uses_negatives else {})


def solver(loss: Loss) -> Solver:
    """A descent of a few steps: the rounding of the sums has no time to grow."""
    chosen = choose_solver(loss)
    return MomentDescent(max_iter=4) if chosen.name == "moment_descent" else chosen


def fitted(loss: Loss, **params) -> KernelEmbedding:
    model = KernelEmbedding(
        3, loss=loss, solver=solver(loss), n_folds=K, scale="loss", **{**SETTINGS, **params}
    )
    return model.fit(X, **pairs(loss, slice(None)))


def on_rows(model: KernelEmbedding, rows: np.ndarray) -> KernelEmbedding:
    """The same fit in the same feature space on some rows alone, without folds."""
    other = KernelEmbedding(3, loss=model.loss, solver=model.solver, scale="loss", **SETTINGS)
    return other.fit(X[rows], **pairs(model.loss, rows), space=model.space_)


def mean_of(values: list[np.ndarray]) -> np.ndarray:
    """The mean over two folds that count the same, whatever their sizes."""
    return np.mean([np.mean(v, axis=0) for v in values], axis=0)


def products(first: list[np.ndarray], second: list[np.ndarray]) -> list[np.ndarray]:
    """mean z z'^T on each of the folds."""
    return [A.T @ B / len(A) for A, B in zip(first, second)]


def naive(loss: Loss, model: KernelEmbedding, train: np.ndarray, folds: list[np.ndarray]) -> float:
    """The loss on two folds by its formula, squares as products of the two, centred by the training rows' means."""
    other = on_rows(model, train)
    if isinstance(loss, KernelPCA):
        Phi = [model.features_(torch.from_numpy(X[rows])).numpy() for rows in (train, *folds)]
        W = np.linalg.lstsq(model.features_.F.numpy(), other.coefficients_, rcond=None)[0]  # A = F W
        errors = [  # the Gaussian kernel has k(x, x) = 1; the rest of it lies outside the landmarks' span
            np.square((held - Phi[0].mean(0)) @ (np.eye(len(W)) - W @ W.T)).sum(1)
            + 1
            - np.square(held).sum(1)
            for held in Phi[1:]
        ]
        return mean_of(errors)
    Z1, Z2 = [other.transform(X[f]) for f in folds], [other.transform(P[f]) for f in folds]
    m1, m2 = other.transform(X[train]).mean(0), other.transform(P[train]).mean(0)
    C1, C2 = [Z - m1 for Z in Z1], [Z - m2 for Z in Z2]
    h = len(m1)
    if isinstance(loss, SpectralContrastive):
        Sa, Sb = ((A + B) / 2 for A, B in zip(products(Z1, Z1), products(Z2, Z2)))
        return -2 * mean_of([(A * B).sum(1) for A, B in zip(Z1, Z2)]) + (Sa * Sb).sum()
    if isinstance(loss, SimpleContrastive):
        negatives = [other.transform(N[f]) for f in folds]
        return mean_of([(A * (C - B)).sum(1) for A, B, C in zip(Z1, Z2, negatives)])
    distance = mean_of([((A - B) ** 2).sum(1) for A, B in zip(Z1, Z2)])
    if isinstance(loss, VICReg) and loss.variance == "quadratic":
        m = (m1 + m2) / 2
        Sa, Sb = (
            (A + B) / 2 - np.eye(h)
            for A, B in zip(products(*2 * [[Z - m for Z in Z1]]), products(*2 * [[Z - m for Z in Z2]]))
        )
        return distance + (Sa * Sb).sum()
    if isinstance(loss, VICReg):
        value = 25 * distance / h
        for C in (C1, C2):
            S = mean_of([(c[:, :, None] * c[:, None, :]) for c in C])
            value += 25 / 2 * np.maximum(1 - np.sqrt(np.diag(S) + VARIANCE_FLOOR), 0).mean()
            value += 1 / 2 * np.square(S - np.diag(np.diag(S))).sum() / h
        return value
    assert isinstance(loss, BarlowTwins)
    A, B = (C1, C2) if loss.center else (Z1, Z2)
    weights = np.where(np.eye(h) > 0, 1, loss.redundancy)
    if loss.normalize:
        C = mean_of([a[:, :, None] * b[:, None, :] for a, b in zip(A, B)])
        C = C / np.sqrt(np.outer(mean_of([a**2 for a in A]), mean_of([b**2 for b in B])))
        return (weights * (C - np.eye(h)) ** 2).sum()
    Ca, Cb = ((C + C.T) / 2 - np.eye(h) for C in products(A, B))
    return (weights * Ca * Cb).sum()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_held_out_loss_is_that_of_refits_on_the_other_folds(loss):
    """Rows selected by fold, fitted in the same feature space, evaluated by the formula: the same to 1e-8."""
    model = fitted(loss)
    expected = []
    for i in range(K):
        folds = [np.flatnonzero(j % K == FOLD) for j in (i, i + 1)]
        train = np.flatnonzero(~np.isin(FOLD, [i, (i + 1) % K]))
        expected.append(naive(loss, model, train, folds))
    found = model.held_out_loss()
    np.testing.assert_allclose(found.values, expected, rtol=1e-8, atol=1e-8)
    assert found.mean == pytest.approx(np.mean(expected), rel=1e-8, abs=1e-8)
    deviation = np.std(expected, ddof=1)
    assert found.standard_error == pytest.approx(deviation * np.sqrt(2 * (K - 1) / (K * (K - 2))), rel=1e-6)


def test_held_out_correlations_are_those_of_refits():
    """Pearson's correlation of z1 and z2 on the rows of a fold, for the model of the other folds."""
    model = fitted(SpectralContrastive())
    expected = []
    for i in range(K):
        other, held = on_rows(model, np.flatnonzero(i != FOLD)).rescaled("kernel"), i == FOLD
        Z1, Z2 = other.transform(X[held]), other.transform(P[held])
        expected.append([np.corrcoef(a, b)[0, 1] for a, b in zip(Z1.T, Z2.T)])
    found = model.held_out_correlations(scale="kernel")
    np.testing.assert_allclose(found.values, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.standard_error, np.std(expected, axis=0, ddof=1) / np.sqrt(K), rtol=1e-6)


@pytest.mark.parametrize(
    "views", [Tabular(noise=0.2), Tabular(n_views=3, drop=0.2)], ids=["exact", "sampled"]
)
def test_a_fold_is_the_moments_of_its_rows(views):
    """With the views of the whole fit, whatever the blocks; the folds add up to the model's moments."""
    model = KernelEmbedding(3, views=views, n_folds=K, **SETTINGS).fit(X)
    plain = KernelEmbedding(3, views=views, **SETTINGS)
    for fold in range(K):
        alone = plain.fit(X, sample_weight=(fold == FOLD).astype(float), space=model.space_).moments_
        assert alone.n == model.total_[fold].n == (fold == FOLD).sum()
        torch.testing.assert_close(model.total_[fold].S_12, alone.S_12, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(model.total_[fold].S, alone.S, rtol=1e-10, atol=1e-12)
    whole = plain.fit(X, space=model.space_)
    torch.testing.assert_close(model.moments_.S_12, whole.moments_.S_12, rtol=1e-12, atol=1e-14)
    assert np.allclose(model.transform(X), whole.transform(X), atol=1e-8)
    blocks = KernelEmbedding(3, views=views, n_folds=K, **SETTINGS, engine=Local(16)).fit(X)
    torch.testing.assert_close(blocks.total_[2].S_12, model.total_[2].S_12, rtol=1e-12, atol=1e-14)


# Without bias


def population(r: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean (2r,), covariance (2r, 2r) and its root, of phi(x) and phi(x+) one after the other."""
    generator = torch.Generator().manual_seed(3)
    mixing = torch.randn(2 * r, 2 * r, generator=generator, dtype=torch.float64) / (2 * r) ** 0.5
    shared = torch.cat([torch.eye(r), torch.eye(r)]).double()
    covariance = mixing @ mixing.mT / 2 + shared @ shared.mT
    mean = torch.randn(2 * r, generator=generator, dtype=torch.float64) / 2
    return mean, covariance, torch.linalg.cholesky(covariance)


def exact_moments(mean: torch.Tensor, covariance: torch.Tensor) -> Moments:
    S, r = covariance + torch.outer(mean, mean), len(mean) // 2
    trace = (S[:r, :r].trace() + S[r:, r:].trace()).item() / 2
    return Moments(1.0, mean[:r], mean[r:], S[:r, :r], S[r:, r:], S[:r, r:], trace=trace)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.quadratic_in_moments], ids=str)
def test_two_folds_estimate_a_quadratic_loss_without_bias(loss):
    """Over 400 draws of two folds of 20 rows the mean is the loss under the distribution itself, within 4 errors."""
    mean, covariance, root = population()
    generator = torch.Generator().manual_seed(0)
    W = torch.linalg.qr(torch.randn(4, 3, generator=generator, dtype=torch.float64))[0]
    elsewhere = exact_moments(mean + 0.1, covariance)  # centred by a training part with another mean
    gamma = torch.zeros(3).double() if loss.intercept == "zero" else -W.mT @ elsewhere.mean
    truth = exact_moments(mean, covariance)
    part = Part(loss, W, gamma, elsewhere, (truth, truth))

    def drawn() -> Moments:
        rows = mean + torch.randn(20, 8, generator=generator, dtype=torch.float64) @ root.mT
        return Moments.of_pairs(rows[:, :4], rows[:, 4:])

    draws = [(drawn(), drawn()) for _ in range(400)]
    expected = part.value()
    values = np.array([replace(part, held_out=pair).value() for pair in draws])
    errors = (values.mean() - expected) / (values.std(ddof=1) / 20)
    assert abs(errors) < 4
    if isinstance(loss, SpectralContrastive):  # one sample's squares are biased, and this test would see it
        plain = np.array([sum(loss.of_moments(a + b, W, gamma).values()).item() for a, b in draws])
        assert (plain.mean() - expected) / (plain.std(ddof=1) / 20) > 4


def test_with_equal_statistics_the_estimate_is_the_loss():
    moments = exact_moments(*population()[:2])
    W = torch.eye(4, 2).double()
    loss = SpectralContrastive()
    part = Part(loss, W, torch.zeros(2).double(), moments, (moments, moments))
    assert part.value() == pytest.approx(sum(loss.of_moments(moments, W).values()).item(), rel=1e-12)


def test_the_standard_error_is_that_of_a_mean_over_folds():
    """Values that are means of two neighbours in the circle: the error of their mean, within 5 %."""
    draws = np.random.default_rng(0).normal(size=(20_000, 5))
    found = [over_parts((u + np.roll(u, -1)) / 2, 2) for u in draws]
    errors = np.array([value.standard_error**2 for value in found])
    assert np.sqrt(errors.mean()) == pytest.approx(np.std([value.mean for value in found]), rel=0.05)


# The width


def test_the_width_keeps_a_share_of_what_unseen_views_have_in_common():
    """The naive rule: principal directions of the other folds, shared variance on the fold, a cumulative sum."""
    model = KernelEmbedding("auto", **SETTINGS).fit(X, positives=P)
    folds = model.total_
    kept = []
    for fold in folds:
        rest = reduce(add, [folds[key] for key in folds if key != fold])
        V, held = (MomentForms.of(moments).V_12.numpy() for moments in (rest, folds[fold]))
        U = np.linalg.eigh((V + V.T) / 2)[1]
        kept.append(np.cumsum(np.diag(U[:, ::-1].T @ (held + held.T) @ U[:, ::-1]) / 2))
    share = np.mean(kept, 0) / np.mean(kept, 0)[-1]
    assert best_width(folds) == int((share < SHARE).argmin()) + 1
    assert (
        best_width(folds) - 2 <= model.n_components_ <= best_width(folds)
    )  # the regularisation may leave fewer
    assert model.n_components == "auto"
    assert model.transform(X).shape == (150, model.n_components_)
    assert model.get_feature_names_out().shape == (model.n_components_,)


def test_all_but_the_folds_that_are_held_out_is_learned_from():
    model = fitted(SpectralContrastive())
    for n_held in (1, 2):
        for training, held in circle(model.total_, n_held):
            assert training.n + sum(part.n for part in held) == len(X)
            assert len(held) == n_held
