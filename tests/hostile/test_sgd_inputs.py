"""Training on samples with bad settings, bad losses and interruptions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding
from krepes.landmarks import Uniform
from krepes.losses import BYOL, BarlowTwins, SimCLR, SpectralContrastive, VICReg
from krepes.solvers import SGD
from krepes.solvers.sgd import GaussNewton, KernelPreconditioner
from krepes.solvers.sgd.feature_windows import FeatureWindows
from krepes.solvers.sgd.training import Training
from krepes.views import Tabular
from refusals import refuses, warns_of
from sample_problems import PAIRS, X, fitted

SMALL = {"n_landmarks": 20, "random_state": 0, "views": Tabular(n_views=2)}


def fit(loss, **settings):
    return KernelEmbedding(3, loss=loss, solver=SGD(max_epochs=2, **settings), **SMALL).fit(X)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("batch_size", 0),
        ("max_epochs", 0),
        ("learning_rate", -0.1),
        ("patience", 0),
        ("validation_fraction", 0.9),
        ("gradient_clip", 0.0),
        ("weight_decay", -1.0),
        ("coordinates", "sideways"),
        ("optimizer", "newton"),
        ("constraint", "unit"),
        ("feature_dtype", "float16"),
        ("cache_bytes", 0),
        ("replays", 0),
        ("replays", 1.5),
        ("replay_batches", 0),
    ],
)
def test_settings_that_make_no_sense_are_named(setting, value):
    solver = SGD(**{setting: value})
    with refuses(ValueError, setting):
        KernelEmbedding(3, loss="simclr", solver=solver, **SMALL).fit(X)


def test_unknown_names_list_those_that_exist():
    with refuses(ValueError, "Preconditioner", "gauss_newton", "kernel", "none"):
        fit("simclr", preconditioner="newton")
    with refuses(ValueError, "Initialization", "kaiming", "moments", "principal"):
        fit("simclr", initialization="zeros")


@pytest.mark.parametrize(
    ("preconditioner", "message"),
    [
        (GaussNewton(floor=float("inf")), "floor=inf"),
        (GaussNewton(damping="x"), "damping='x'"),
        (GaussNewton(max_iter=0), "max_iter=0"),
        (KernelPreconditioner(damping=None), "damping=None"),
    ],
    ids=str,
)
def test_parameters_of_preconditioners_are_checked_before_features_are_computed(
    preconditioner, message, monkeypatch
):
    def never(*_):
        raise AssertionError

    monkeypatch.setattr(FeatureWindows, "_computed", never)
    with refuses(ValueError, message):
        fit(BarlowTwins(), preconditioner=preconditioner)


@pytest.mark.parametrize(
    "setting", [{"gradient_clip": 1.0}, {"weight_decay": 0.1}, {"optimizer": "gradient"}]
)
def test_settings_that_gauss_newton_has_no_use_for_are_refused(setting):
    with refuses(ValueError, next(iter(setting))):
        fit(BarlowTwins(), preconditioner="gauss_newton", **setting)


def test_gauss_newton_needs_residuals_or_logits():
    with refuses(ValueError, "residuals()", "logits()", "none", "kernel"):
        fit(VICReg(), preconditioner="gauss_newton")


def test_a_constraint_on_a_loss_without_scale_is_refused():
    with refuses(ValueError, "ignores", "scale"):
        fit("simclr", constraint="orthogonal")


def test_view_matching_needs_landmark_tuples():
    with refuses(ValueError, "views_per_landmark=2"):
        fit("barlow_twins", view_matched=True)


def test_landmark_tuples_need_views():
    model = KernelEmbedding(2, loss="kernel_pca", landmarks=Uniform(views_per_landmark=2), n_landmarks=10)
    with refuses(ValueError, "views_per_landmark=2"):
        model.fit(X)
    with refuses(ValueError, "views_per_landmark=0", "1"):
        KernelEmbedding(2, landmarks=Uniform(views_per_landmark=0), n_landmarks=10).fit(X)
    with refuses(ValueError, "2 views"):
        fitted("barlow_twins", "auto", landmarks=Uniform(views_per_landmark=3))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda Z1: Z1.mean(), ("two", "arguments")),
        (lambda Z1, Z2, Z3: Z1.mean(), ("two", "arguments")),
        (lambda Z1, Z2: (Z1 - Z2).square().sum(1), ("scalar", "tensor")),
        (lambda Z1, Z2: 1.0, ("scalar", "tensor")),
        (lambda Z1, Z2: {}, ("empty", "dict")),
        (lambda Z1, Z2: torch.ones(()), ("depend", "embeddings")),
    ],
)
def test_a_loss_that_cannot_be_trained_is_refused_before_the_first_epoch(function, message, monkeypatch):
    def never(*_):
        raise AssertionError("training began")

    monkeypatch.setattr(Training, "_train", never)
    with refuses(ValueError, message):
        fit(function)


def nan_after(calls):
    """A loss that works until it has been called so often, then is NaN."""
    seen = {"n": 0}

    def loss(Z1, Z2):
        seen["n"] += 1
        value = (Z1 - Z2).square().mean() - Z1.std()
        return {"fine": value, "broken": value * (float("nan") if seen["n"] > calls else 1.0)}

    return loss


def test_a_loss_that_becomes_nan_stops_with_step_term_and_checkpoint(tmp_path, monkeypatch):
    with refuses(ValueError, "'broken'"):
        fit(nan_after(15), batch_size=16)
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    path = tmp_path / "training.checkpoint"
    solver = SGD(max_epochs=3, batch_size=16)
    model = KernelEmbedding(3, loss=nan_after(15), solver=solver, **SMALL)
    with refuses(ValueError, "'broken'", "training.checkpoint"):
        model.fit(X, checkpoint=path)
    assert path.exists()


def test_training_that_explodes_says_what_to_do():
    with refuses(ValueError, "learning rate"):
        fitted(
            SpectralContrastive(),
            SGD(optimizer="gradient", learning_rate=1e6, max_epochs=20, warmup_epochs=0),
            dtype="float32",
        )


def test_losses_of_samples_cannot_be_continued_merged_or_refitted():
    model = fit("simclr")
    for action in (
        lambda: model.partial_fit(X),
        lambda: model.merge(fit("simclr")),
        lambda: model.refit(n_components=2),
        lambda: KernelEmbedding(loss="simclr").partial_fit(X),
        lambda: KernelEmbedding(loss="spectral_contrastive", **SMALL).fit(X).refit(loss="simclr"),
    ):
        with refuses(ValueError, "samples", "themselves"):
            action()


class InterruptedFitError(Exception):
    pass


RUNS = [
    (SimCLR(), {"batch_size": 16}),
    (BYOL(), {"batch_size": 16, "fresh_views": True}),
    (BarlowTwins(center=False), {"batch_size": 40, "preconditioner": "gauss_newton"}),
    (VICReg(), {"batch_size": 16, "cache_bytes": 1, "coordinates": "landmarks"}),
    (SimCLR(), {"batch_size": 16, "replays": 3, "replay_batches": 2}),
    (SpectralContrastive(), {"batch_size": 16, "constraint": "orthogonal", "preconditioner": "kernel"}),
]


@pytest.mark.parametrize(
    "stop", [pytest.param(1, marks=pytest.mark.full), 4, pytest.param(7, marks=pytest.mark.full)]
)
@pytest.mark.parametrize(("loss", "settings"), RUNS, ids=str)
def test_a_run_that_was_interrupted_and_resumed_has_the_same_bits(
    loss, settings, stop, tmp_path, monkeypatch
):
    """Stopped after any batch, in the first epoch or later, with any kind of step, noise included."""
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    monkeypatch.setattr("krepes.features.task.block_rows", lambda bytes_per_row: 16)

    def model():
        return KernelEmbedding(
            3,
            loss=loss,
            solver=SGD(max_epochs=3, validation_fraction=0.3, **settings),
            feature_noise=0.2,
            **SMALL,
        )

    whole = model().fit(X)
    trained, train = [], Training._train

    def failing(self, batch):
        if len(trained) == stop:
            raise InterruptedFitError
        trained.append(1)
        train(self, batch)

    monkeypatch.setattr(Training, "_train", failing)
    path = tmp_path / "training.checkpoint"
    with pytest.raises(InterruptedFitError):
        model().fit(X, checkpoint=path)
    assert path.exists()
    monkeypatch.setattr(Training, "_train", train)
    resumed = model().fit(X, checkpoint=path)
    assert np.array_equal(resumed.coefficients_, whole.coefficients_)
    assert np.array_equal(resumed.intercept_, whole.intercept_)
    assert resumed.history_ == whole.history_
    assert not path.exists()


def test_a_checkpoint_of_other_settings_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    path = tmp_path / "training.checkpoint"
    settings = {"loss": SimCLR(), "solver": SGD(max_epochs=1), **SMALL}

    def interrupt(epoch, values):
        raise InterruptedFitError

    with pytest.raises(InterruptedFitError):
        KernelEmbedding(3, **settings).fit(X, checkpoint=path, callback=interrupt)
    for other in ({"loss": SimCLR(0.1)}, {"solver": SGD(max_epochs=2)}, {"regularization": 0.5}):
        with refuses(ValueError, "another fit"):
            KernelEmbedding(3, **{**settings, **other}).fit(X, checkpoint=path)


def test_tiny_data_train():
    """Two rows, one landmark, a batch larger than the data."""
    model = KernelEmbedding(2, loss="simclr", n_landmarks=1, random_state=0)
    with warns_of(UserWarning, "of them are left"):
        model.fit(X[:2])
    assert np.isfinite(model.transform(X[:2])).all()


def test_constant_rows_do_not_crash():
    model = KernelEmbedding(1, loss="byol", views=Tabular(noise=0.0), random_state=0, feature_noise=0.0)
    with warns_of(UserWarning, "collapsed"):
        model.fit(np.ones((40, 3)))
    assert np.isfinite(model.transform(np.ones((3, 3)))).all()


def test_negatives_reach_the_triplet_loss():
    negatives = np.roll(PAIRS[0], 1, axis=0)
    loss = SpectralContrastive(negatives="triplet")
    models = [
        KernelEmbedding(2, loss=loss, n_landmarks=20, random_state=0, solver=SGD(max_epochs=2)).fit(
            PAIRS[0], positives=PAIRS[1], negatives=given
        )
        for given in (negatives, PAIRS[1])
    ]
    assert not np.array_equal(models[0].coefficients_, models[1].coefficients_)
