"""`python -m reproduction small-data-classification` and `small-data-networks` on little and made-up data."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from reproduction import few_labels, small_data_networks
from reproduction.__main__ import app
from reproduction.few_labels import FAILED, PCA, RAW, SIMPLE, SPECTRAL, NeighbourScores
from reproduction.few_labels_findings import PairedComparison, chosen

RNG = np.random.default_rng(0)
Y = np.arange(100) % 2
TWO = RNG.normal(size=(100, 2)) + 3 * Y[:, None]  # two clusters


def invoked(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def few_lengthscales(monkeypatch):
    """Three lengthscales instead of fifteen."""
    whole = few_labels.choose_bandwidth
    monkeypatch.setattr(
        few_labels, "choose_bandwidth", lambda *a, **k: whole(*a, bandwidths=[0.3, 1.0, 3.0], **k)
    )


@pytest.fixture
def folder(tmp_path):
    """Images of a bright stripe, high or low by class, in the files of MNIST and CIFAR-10."""

    def stripes(*shape):
        X = RNG.integers(0, 60, size=(200, *shape), dtype=np.uint8)
        X[np.arange(200), 3 * (np.arange(200) % 2)] = 200
        return X

    y = np.arange(200) % 2
    np.savez(tmp_path / "mnist.npz", X=stripes(4, 4), y=y, n_train=150)
    for part in ("train", "test"):
        np.savez(tmp_path / f"cifar10_{part}.npz", X=stripes(4, 4, 3), y=y)
    return tmp_path


@pytest.mark.full
def test_classification_runs_draws_and_says_that_ionosphere_is_missing(few_lengthscales, tmp_path):
    figure, output = tmp_path / "figure.png", tmp_path / "found.json"
    options = ["--rows", 100, "--repeats", 1, "--figure", figure, "-o", output]
    assert "Ionosphere was left out" in invoked("small-data-classification", *options)
    assert figure.stat().st_size > 1000
    table = json.loads(output.read_text())["table"]
    assert len(table) == 3 * (1 + 4 * 5)  # raw features; four methods, four kernels and the chosen one
    assert all(0 <= row[3] <= 1 for row in table if row[3] is not None)


@pytest.mark.full
def test_ionosphere_is_read_from_the_folder(few_lengthscales, tmp_path):
    np.savez(tmp_path / "ionosphere.npz", X=TWO.astype(np.float32), y=Y)
    shown = invoked("small-data-classification", "--rows", 100, "--repeats", 1, "--data", tmp_path)
    assert "Ionosphere: 100 rows" in shown
    assert "left out: it needs" not in shown


@pytest.mark.full
def test_networks_run_and_draws_in_the_cache_are_not_made_again(
    few_lengthscales, folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(small_data_networks, "EPOCHS", (1, 2))
    options = ["--data", folder, "--rows", 100, "--repeats", 1, "--cache", tmp_path / "cache"]
    first = invoked("small-data-networks", *options, "--figure", tmp_path / "figure.png")
    assert "SVHN" in first
    assert (tmp_path / "figure.png").stat().st_size > 1000
    monkeypatch.setattr(small_data_networks, "drawn_split", None)
    assert invoked("small-data-networks", *options) == first


def test_a_split_has_the_shares_of_the_paper_and_no_row_twice():
    X = np.arange(200.0)[:, None]
    split = few_labels.few_label_split(X, np.arange(200) % 2, seed=0)
    assert [len(part) for part in (split.train, split.y_labelled, split.test)] == [110, 10, 90]
    assert sorted([*split.train[:, 0], *split.test[:, 0]]) == list(range(200))
    np.testing.assert_array_equal(split.train[-10:, 0] % 2, split.y_labelled)


def test_negatives_are_other_rows_and_positives_have_the_stated_noise():
    X = RNG.normal(size=(2000, 3)) * [1.0, 2.0, 0.5]
    positives, negatives = few_labels.triplets(X, np.random.default_rng(0))
    assert not (negatives == X).all(1).any()
    assert sorted(map(tuple, negatives)) == sorted(map(tuple, X))
    assert (positives - X).std() == pytest.approx(few_labels.NOISE * X.var(0).mean() ** 0.5, rel=0.05)


def test_two_linear_principal_components_of_two_columns_are_the_columns(few_lengthscales):
    """Neighbours do not change when the rows are rotated and shifted."""
    found = dict(few_labels.kernel_scores(few_labels.few_label_split(TWO, Y, seed=0), seed=0))
    assert found[PCA, "linear"] == found[RAW, ""]


def test_the_networks_losses_are_those_of_the_paper():
    """Of two triplets, by hand; a simple contrastive network has an orthonormal last layer."""
    X, P, N = (torch.from_numpy(RNG.normal(size=(2, 5))).float() for _ in range(3))
    for method in (SIMPLE, SPECTRAL):
        network = small_data_networks.HiddenLayerNetwork(5, method, seed=0)
        first, last = (part.detach().numpy() for part in (network.first, network.last))
        if method == SIMPLE:
            first, last = first / np.linalg.norm(first, axis=0), np.linalg.qr(last)[0]
        z, p, n = (np.maximum(part.numpy() @ first, 0) @ last for part in (X, P, N))
        naive = {
            SIMPLE: np.mean([z[i] @ n[i] - z[i] @ p[i] for i in range(2)]),
            SPECTRAL: np.mean([(z[i] @ n[i]) ** 2 - 2 * z[i] @ p[i] for i in range(2)]),
        }
        assert network.loss(X, P, N).item() == pytest.approx(naive[method], rel=1e-4)


@pytest.mark.full
def test_a_network_learns_to_tell_two_stripes_apart(folder):
    split = small_data_networks.drawn_split(folder, "mnist", 2, 150, seed=0)
    found = dict(small_data_networks.network_scores(split, seed=0))
    assert all(result.test > 0.9 for result in found.values()), found


def test_a_comparison_is_level_where_chance_explains_it():
    assert PairedComparison.of([0.9, 0.7, 0.8], [0.8, 0.8, 0.8]) == PairedComparison(1, 1, "level")
    assert PairedComparison.of([0.5, 0.51, 0.49], [0.8, 0.8, 0.8]).verdict == "lost"
    assert PairedComparison.of([0.9, float("nan"), 0.91], [0.5, 0.5, 0.5]) == PairedComparison(2, 0, "won")
    assert PairedComparison.of([0.9], [0.5]).verdict == "level"


def test_a_kernel_that_failed_is_not_chosen():
    low, middle, high = (NeighbourScores(left_out, 0.6) for left_out in (0.1, 0.4, 0.5))
    found = {("a", "x"): [FAILED, high], ("a", "y"): [low, middle]}
    assert chosen(found, "a") == [("y", low), ("x", high)]
