"""Sketched CKA: unbiased after the correction, the same from any stream, centred exactly."""

from __future__ import annotations

import numpy as np
import pytest

from krepes.alignment import SketchedCKA, cka
from refusals import refuses

every_stack = pytest.mark.parametrize("n_hashes", [1, 4])


def pair(n: int, d_x: int, d_y: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Representations that share a part; rows of different lengths, means far from zero."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, 4))
    lengths = rng.exponential(size=(n, 1)) + 0.5
    X = lengths * (shared @ rng.normal(size=(4, d_x)) + 2 * rng.normal(size=(n, d_x))) + 1
    Y = lengths * (shared @ rng.normal(size=(4, d_y)) + 2 * rng.normal(size=(n, d_y))) - 2
    return {"x": X, "y": Y}


def exact(features: dict[str, np.ndarray]) -> float:
    X, Y = (Z - Z.mean(0) for Z in features.values())
    return float(np.square(X.T @ Y).sum())


@every_stack
def test_the_sketch_is_that_of_centred_rows(n_hashes):
    """S H X from sums: the same as the sketch of rows that were centred first, to rounding."""
    features = pair(300, 5, 3)
    centred = {name: Z - Z.mean(0) for name, Z in features.items()}
    found, expected = (SketchedCKA(32, n_hashes).update(Z) for Z in (features, centred))
    for name in features:
        mine, theirs = (np.ldexp(*sketch.sketch(name).scaled(n_hashes)) for sketch in (found, expected))
        assert np.abs(mine - theirs).max() < 1e-12 * np.abs(theirs).max()


def product(sketch):
    """The estimate of |X^T Y|_F^2."""
    grams, exponents = sketch.unit_grams(["x", "y"])
    return np.ldexp(grams[0] @ grams[1], exponents.sum())


@every_stack
def test_products_are_unbiased(n_hashes):
    """Over seeds the mean of the corrected product is |X^T Y|^2 within 4 standard errors; the published one is not."""
    features = pair(400, 6, 5)
    truth = exact(features)
    found = {debias: [] for debias in (True, False)}
    for seed in range(100):
        for debias, values in found.items():
            sketch = SketchedCKA(16, n_hashes, debias=debias, seed=seed).update(features)
            values.append(product(sketch))
    values = np.array(found[True])
    assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(len(values))
    raw = np.array(found[False])
    assert raw.mean() - truth > 4 * raw.std() / np.sqrt(len(raw))


def test_the_published_inflation_is_what_theory_says():
    """E |X^T S^T S Y|^2 = |X^T Y|^2 + (|X|^2 |Y|^2 + |X^T Y|^2 - 2 sum |x_i|^2 |y_i|^2) / M."""
    features = pair(400, 6, 5)
    X, Y = (Z - Z.mean(0) for Z in features.values())
    truth, M = exact(features), 16
    squares = [np.square(Z).sum(1) for Z in (X, Y)]
    expected = truth + (squares[0].sum() * squares[1].sum() + truth - 2 * squares[0] @ squares[1]) / M
    values = np.array([product(SketchedCKA(M, debias=False, seed=s).update(features)) for s in range(150)])
    assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(len(values))


@pytest.mark.full
def test_the_bias_at_size():
    """256 buckets on 10 000 x 512: zero bias within 4 standard errors, where the published score is far off."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000, 512), dtype=np.float32)
    features = {"x": X, "y": X[:, :128] + rng.standard_normal((10_000, 128), dtype=np.float32)}
    truth = cka(*features.values(), estimator="biased")
    values = np.array([SketchedCKA(256, seed=seed).update(features).score("x", "y") for seed in range(24)])
    raw = SketchedCKA(256, debias=False).update(features).score("x", "y")
    assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(len(values))
    assert abs(raw - truth) > 4 * values.std()


@every_stack
def test_any_stream_gives_the_same_sketch(n_hashes):
    """Batches, merged parts in any order, and rows by index: the table of one stream, to rounding."""
    features = pair(500, 7, 4)
    whole = SketchedCKA(64, n_hashes).update(features)
    batched = SketchedCKA(64, n_hashes)
    for first in range(0, 500, 77):
        batched.update({name: Z[first : first + 77] for name, Z in features.items()}, first_row=first)
    going_on = SketchedCKA(64, n_hashes).update({"x": features["x"][:50]})
    going_on.update({"x": features["x"][50:300], "y": features["y"][:250]})
    going_on.update({"x": features["x"][300:]}).update({"y": features["y"][250:]})
    order = np.random.default_rng(0).permutation(500)
    parts = [
        SketchedCKA(64, n_hashes).update({name: Z[rows] for name, Z in features.items()}, rows=rows)
        for rows in np.array_split(order, 3)
    ]
    merged = parts[1].merge(parts[0]).merge(parts[2])
    for other in (batched, going_on, merged):
        assert other.n_rows == {"x": 500, "y": 500}
        for name in features:
            assert np.abs(other.sketch(name).table - whole.sketch(name).table).max() < 1e-10
        assert other.score("x", "y") == pytest.approx(whole.score("x", "y"), abs=1e-12)


def test_representations_may_come_one_after_the_other():
    features = pair(200, 5, 6)
    apart = SketchedCKA(32).update({"x": features["x"]}).merge(SketchedCKA(32).update({"y": features["y"]}))
    assert apart.score("x", "y") == SketchedCKA(32).update(features).score("x", "y")


def test_scores_are_cosines():
    features = pair(300, 5, 6)
    features |= {"same": -2 * features["x"] + 5, "dead": np.ones((300, 2))}
    sketch = SketchedCKA(64).update(features)
    names, values = sketch.table()
    assert names == ["x", "y", "same", "dead"]
    assert values[0, 2] == pytest.approx(1.0, abs=1e-12)
    assert np.abs(values[:3, :3]).max() <= 1 + 1e-12
    assert np.array_equal(values[:3, :3], values[:3, :3].T)
    assert sketch.table(["x", "same"])[1].shape == (2, 2)


def test_more_buckets_are_closer():
    features = pair(3000, 8, 8)
    truth = cka(*features.values(), estimator="biased")
    errors = [
        np.std([SketchedCKA(M, seed=s).update(features).score("x", "y") - truth for s in range(20)])
        for M in (16, 256)
    ]
    assert errors[1] < errors[0] / 2


def test_layers_are_recorded_and_the_network_is_left_as_it_was():
    """Outputs are those of the network itself; mode and hooks are as before, also after an error."""
    import torch
    from torch import nn

    from krepes.alignment import iter_layers, sketch_layers

    torch_rng = torch.Generator().manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Dropout(), nn.Linear(64, 3)
    )
    net[1].eval()
    modes = [part.training for part in net.modules()]
    X = torch.randn(50, 1, 6, 6, generator=torch_rng)
    batches = dict(iter_layers(net, X, ["0", "4"], batch_rows=20, pool=False))
    found = {name: np.concatenate([batch[name] for batch in batches.values()]) for name in ("0", "4")}
    with torch.no_grad():
        convolved = net[0](X)
        expected = net[4](convolved.relu().flatten(1))
    assert (
        np.abs(found["0"] - convolved.flatten(1).numpy()).max() < 1e-5
    )  # not the output after ReLU in place
    assert np.abs(found["4"] - expected.numpy()).max() < 1e-5
    pooled = next(iter_layers(net, X, ["0"]))[1]["0"]
    assert np.abs(pooled - convolved.mean((2, 3)).numpy()).max() < 1e-5
    with refuses(ValueError, "(2, 6, 6)"):
        next(iter_layers(net, torch.randn(5, 2, 6, 6), ["0"]))
    assert [part.training for part in net.modules()] == modes
    assert not any(part._forward_hooks for part in net.modules())
    y = (X.mean((1, 2, 3)) > 0).long()
    sketch = sketch_layers(net, X, y, ["0", "4"], batch_rows=7)
    again = SketchedCKA().update({"0": convolved.mean((2, 3)), "4": expected, "target": np.eye(2)[y]})
    assert sketch.names == ["0", "4", "target"]
    assert np.allclose(sketch.table()[1], again.table()[1], atol=1e-4)
    parts = sketch_layers(net, X[:30], y[:30], ["0", "4"])
    sketch_layers(net, X[30:], y[30:], ["0", "4"], sketch=parts, first_row=30)
    sketch_layers(net, X, y, ["4"], sketch=parts, prefix="again.")  # the target is there already
    assert np.allclose(parts.table(["0", "4", "target"])[1], sketch.table()[1], atol=1e-6)
    with refuses(ValueError, "y", "20 rows"):
        sketch_layers(net, X, y[:20])
