"""The neural baseline: its steps against a plain loop, its losses, its determinism and its refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from krepes import losses
from krepes.losses.batch import Batch
from krepes.networks import MLP
from krepes.views import Tabular
from refusals import refuses
from reproduction.neural_embedding import NeuralEmbedding


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return (rng.standard_normal((300, 4)) @ rng.standard_normal((4, 6))).astype(np.float32)


def small(**settings):
    return NeuralEmbedding(
        5, network=MLP(widths=(16,)), max_epochs=3, batch_size=64, random_state=0
    ).set_params(**settings)


@pytest.mark.parametrize("loss", ["barlow_twins", "vicreg", "simclr", "byol", "autoencoder"])
def test_training_lowers_the_loss_of_fixed_views(X, loss):
    """Against the same network without training: one epoch with a learning rate next to nothing."""
    start, end = (
        small(loss=loss, max_epochs=1, learning_rate=1e-12).fit(X),
        small(loss=loss, max_epochs=30).fit(X),
    )
    assert end.history_[-1]["loss"] < start.history_[0]["loss"]
    assert end.transform(X).shape == (300, 5)
    assert np.linalg.matrix_rank(end.transform(X) - end.transform(X).mean(0), tol=1e-3) > 1


def test_one_step_is_adams(X):
    """A fit of one batch moves every parameter as torch's Adam does on the loss written out by hand."""
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh()).eval()
    settings = {
        "network": module,
        "batch_size": 300,
        "max_epochs": 1,
        "weight_decay": 0.0,
        "dtype": "float64",
    }
    model = small(loss=losses.VICReg(), **settings).fit(X)
    before = small(loss=losses.VICReg(), learning_rate=1e-300, **settings).fit(X)
    network = before.network_
    indices = torch.arange(300)
    rows = before.input_space_.tensor(X, torch.float64, torch.device("cpu"))
    order = torch.from_numpy(_order(before, 300))
    batch = before._batch(network, None, {}, rows[order], indices[order], 0)
    loss = torch.stack(list(losses.VICReg().terms(Batch(batch.Z)).values())).sum()
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    rate = model.learning_rate * 1e-5  # after the only epoch, the schedule is at its end
    for old, new, g in zip(network.parameters(), model.network_.parameters(), gradients):
        expected = -rate * g / (g.abs() + 1e-8)  # Adam's first step
        assert torch.allclose(new - old, expected, atol=1e-3 * rate)


def _order(model, n):
    from krepes.base.random_streams import stream_key
    from reproduction.neural_embedding import ORDER

    return np.random.default_rng(stream_key(model.seed_, ORDER, 0)).permutation(n)


def test_same_seed_same_network(X):
    first, second, other = (small(random_state=seed).fit(X).transform(X) for seed in (0, 0, 1))
    assert np.array_equal(first, second)
    assert not np.allclose(first, other)


def test_the_users_module_is_not_touched(X):
    module = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU()).eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = small(network=module).fit(X)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not module.training
    assert not model.network_.training
    assert model.network_[0][0][1].num_batches_tracked > 0  # a copy of its own learned statistics
    assert np.allclose(model.transform(X)[:7], model.transform(X[:7]), atol=1e-6)  # no statistics of batches


def test_features_below_the_last_layer(X):
    model = small(output="features").fit(X)
    F = torch.from_numpy(model.transform(X))
    assert torch.allclose(
        model.network_[1](F), torch.from_numpy(model.set_params(output="embedding").transform(X))
    )


def test_no_epochs_leave_the_network_as_it_is(X):
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh()).eval()
    model = small(network=module, max_epochs=0, output="features", preprocess=None).fit(X)
    with torch.no_grad():
        assert np.array_equal(model.transform(X), module(torch.from_numpy(X)).numpy())


def test_frames_and_images():
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.standard_normal(80), "b": rng.choice(["x", "y"], 80)})
    assert small().fit(frame).transform(frame).shape == (80, 5)
    images = rng.integers(0, 255, (40, 8, 8, 3), dtype=np.uint8)
    assert small(network="convnet", max_epochs=1, batch_size=20).fit(images).transform(images).shape == (
        40,
        5,
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "kernel_pca"}, ("KernelPCA", "barlow_twins")),
        ({"loss": "simple_contrastive"}, ("loss", "networks")),
        ({"batch_size": 1}, ("batch_size=1", "2")),
        ({"max_epochs": -1}, "max_epochs=-1"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0"),
        ({"output": "both"}, "output='both'"),
        (
            {"learning_rate": 1e30, "loss": losses.SpectralContrastive(), "views": Tabular()},
            "learning_rate",
        ),
    ],
    ids=lambda value: None if isinstance(value, dict) else value[:20],
)
def test_refusals(X, settings, message):
    with refuses(ValueError, message):
        clone(small()).set_params(**settings).fit(X)
