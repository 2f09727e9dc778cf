"""`python -m reproduction denoising` on made-up images."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from reproduction import denoising
from reproduction.__main__ import app


@pytest.fixture
def folder(tmp_path):
    """Images of a bright stripe, in the files of MNIST and CIFAR-10."""
    generator = np.random.default_rng(0)

    def stripes(n, *shape):
        X = np.zeros((n, *shape), dtype=np.uint8)
        X[np.arange(n), generator.integers(0, shape[0], n)] = 200
        return X

    y = np.arange(240) % 5
    np.savez(tmp_path / "mnist.npz", X=stripes(240, 6, 6), y=y, n_train=120)
    for part in ("train", "test"):
        np.savez(tmp_path / f"cifar10_{part}.npz", X=stripes(240, 6, 6, 3), y=y)
    return tmp_path


@pytest.mark.full
def test_the_experiment_runs_and_draws(folder, monkeypatch):
    monkeypatch.setattr(denoising, "WIDTH", 3)
    figure = folder / "figure.png"
    arguments = ["--data", str(folder), "--rows", "100", "--repeats", "1", "--figure", str(figure)]
    result = CliRunner().invoke(app, ["denoising", *arguments])
    assert result.exit_code == 0, result.output
    assert "SVHN" in result.output
    assert figure.stat().st_size > 1000


def test_a_network_learns_more_than_the_mean_image(folder):
    """Its error is below that of the mean image, at which ReLUs on pixels as they are get stuck."""
    draw = denoising.drawn(folder, "mnist", 100, 0.1, seed=0)
    predict = denoising.trained_network(draw.noisy, draw.clean, 0.3, 60, None, seed=0)
    error = denoising.mean_squared(predict(draw.noisy_test), draw.clean_test)
    assert error < 0.7 * denoising.mean_squared(draw.clean.mean(axis=0), draw.clean_test)
