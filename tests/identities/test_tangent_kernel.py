"""Three ways to a tangent kernel agree with its definition: inner products of explicit gradients."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from krepes import KernelEmbedding, load
from krepes.kernels import EmpiricalNTK
from krepes.kernels.tangent.capture import ScalarNetwork
from krepes.kernels.tangent.exact import Side, is_factored
from krepes.kernels.tangent.feature_cache import FeatureCache
from krepes.kernels.tangent.sketch import Sketch, shared_out
from krepes.networks import MLP
from refusals import refuses, warns_of


class Attention(nn.Module):
    """Three tokens, single-head attention, a layer that is called twice."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.query, self.key, self.value = (nn.Linear(6, 6) for _ in range(3))
        self.twice = nn.Linear(6, 6)
        self.out = nn.Linear(6, 4)

    def forward(self, x):
        x = x.reshape(len(x), 3, 6)
        h = self.norm(x)
        weights = (self.query(h) @ self.key(h).mT / 6**0.5).softmax(-1)
        x = x + weights @ self.value(h)
        x = self.twice(nn.functional.gelu(self.twice(x)))
        return self.out(x).mean(1)


def networks():
    generator = torch.Generator().manual_seed(0)
    convolutional = nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 4, 3, groups=4, padding="same", bias=False),
        nn.GroupNorm(2, 4),
        nn.ReLU6(inplace=True),
        nn.Conv2d(4, 6, (1, 3), dilation=(1, 2), groups=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    convolutional[1].running_mean.normal_(generator=generator)
    convolutional[1].running_var.uniform_(0.5, 2.0, generator=generator)
    found = {
        "linear": (nn.Sequential(nn.Linear(5, 7), nn.ReLU(inplace=True), nn.Linear(7, 3)), (5,)),
        "one output": (nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), (4,)),
        "attention": (Attention(), (18,)),
        "convolutional": (convolutional, (2, 9, 9)),
    }
    for module, _ in found.values():
        for parameter in module.parameters():
            parameter.data.normal_(0, 0.6, generator=generator)
        module.double().eval()
    return found


NETWORKS = networks()


def rows(shape, n, seed):
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def explicit_gradients(module, head, X):
    """One backward pass per sample: the definition."""
    gradients = []
    for x in X:
        module.zero_grad()
        Z = module(x[None]).reshape(-1)
        weight = None if head is None else head.clone().requires_grad_()
        (Z[0] if weight is None else Z @ weight).backward()
        parts = [p.grad.flatten() for p in module.parameters()]
        gradients.append(torch.cat(parts if weight is None else [*parts, weight.grad]))
    return torch.stack(gradients).detach()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("method", ["full", "factored"])
@pytest.mark.parametrize("name", NETWORKS)
def test_exact_methods_agree_with_explicit_gradients(name, method, normalize):
    module, shape = NETWORKS[name]
    X, Y = rows(shape, 5, 1), rows(shape, 4, 2)
    kernel = EmpiricalNTK(module, method=method, normalize=normalize, seed=3).fitted(X)
    gradients = [explicit_gradients(copy.deepcopy(module), kernel._scalar.head, rows) for rows in (X, Y)]
    expected = gradients[0] @ gradients[1].mT
    squares = gradients[0].square().sum(1)
    if normalize:
        expected = expected / squares.sqrt()[:, None] / gradients[1].norm(dim=1)
        squares = torch.ones_like(squares)
    assert (kernel(X, Y) - expected).abs().max() <= 1e-10 * expected.abs().max()
    assert (kernel.diag(X) - squares).abs().max() <= 1e-10 * squares.max()


@pytest.mark.parametrize("way", [True, False], ids=["factored", "formed"])
@pytest.mark.parametrize("name", ["linear", "attention", "convolutional"])
def test_both_contractions_of_a_layer_agree(name, way, monkeypatch):
    """By factors or by gradients that are formed, whatever the cost would choose."""
    module, shape = NETWORKS[name]
    monkeypatch.setattr("krepes.kernels.tangent.exact.is_factored", lambda factors: way)
    X = rows(shape, 4, 1)
    scalar = ScalarNetwork(module, head=torch.ones(module(X[:1]).shape[1], dtype=torch.float64))
    side = Side(scalar.gradients(X))
    expected = explicit_gradients(copy.deepcopy(module), scalar.head, X)
    assert (side.products(side) - expected @ expected.mT).abs().max() <= 1e-10 * expected.square().sum(
        1
    ).max()
    assert bool(side.factors) == way


def test_layers_go_the_cheaper_way():
    module, shape = NETWORKS["convolutional"]
    parts = ScalarNetwork(module, torch.ones(6)).gradients(rows(shape, 1, 0))
    assert not is_factored(parts.factors["0.weight"])  # 25 positions, 72 weights
    wide = ScalarNetwork(nn.Linear(50, 50).double().eval(), torch.ones(50))
    assert is_factored(wide.gradients(rows((50,), 1, 0)).factors["weight"])


@pytest.mark.parametrize("by_factors", [True, False], ids=["TensorSketch", "CountSketch"])
@pytest.mark.parametrize("shared", [True, False], ids=["blocks", "one block"])
@pytest.mark.parametrize("name", ["linear", "attention", "convolutional"])
def test_sketches_are_unbiased_with_the_stated_spread(name, shared, by_factors, monkeypatch):
    """Mean over seeds within 4 standard errors, deviation of one sketch below 2 sqrt(2 / D) |x| |y|."""
    module, shape = NETWORKS[name]
    D, n_seeds = 160, 400
    ungrouped = lambda self, name, factors: by_factors and factors.A.shape[1] == 1  # noqa: E731
    monkeypatch.setattr(Sketch, "by_factors", ungrouped)
    X = rows(shape, 2, 1)
    scalar = ScalarNetwork(module, torch.ones(module(X[:1]).shape[1], dtype=torch.float64))
    parts = scalar.gradients(X)
    x, y = explicit_gradients(copy.deepcopy(module), scalar.head, X)
    draws = []
    widths = shared_out(parts, D) if shared else {}
    assert bool(widths) == shared
    for seed in range(n_seeds):
        s = Sketch(D, seed, widths)(parts)
        draws.append([(s[0] @ s[1]).item(), (s[0] @ s[0]).item()])
    draws = np.array(draws)
    expected = np.array([(x @ y).item(), (x @ x).item()])
    spread = draws.std(0)
    assert (np.abs(draws.mean(0) - expected) <= 4 * spread / n_seeds**0.5).all()
    lengths = np.array([(x.norm() * y.norm()).item(), (x @ x).item()])
    assert (spread <= 2 * (2 / D) ** 0.5 * lengths).all()


def test_the_users_module_is_not_touched():
    module = copy.deepcopy(NETWORKS["convolutional"][0])
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    X = rows((2, 9, 9), 3, 0)
    for method in ("full", "factored", "sketch"):
        EmpiricalNTK(module, method=method).fitted(X)(X)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not any(p.requires_grad or p.grad is not None for p in module.parameters())
    assert not any(layer._forward_hooks for layer in module.modules())
    kernel = EmpiricalNTK(module)
    assert clone(kernel).network is module


def test_batch_norm_in_training_mode_is_refused():
    module = copy.deepcopy(NETWORKS["convolutional"][0]).train()
    with refuses(ValueError, "network.eval()"):
        EmpiricalNTK(module).fitted(rows((2, 9, 9), 3, 0))


def test_batch_norm_without_statistics_is_refused():
    network = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4, track_running_stats=False)).eval()
    with refuses(ValueError, "'1'"):
        EmpiricalNTK(network).fitted(rows((5,), 4, 0))


def test_parameters_outside_layers_are_named():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = nn.Linear(3, 2), nn.Parameter(torch.ones(2))

        def forward(self, x):
            return self.layer(x) * self.scale

    module, X = Scaled().double().eval(), rows((3,), 4, 0)
    with refuses(ValueError, "'scale'", "method='full'"):
        EmpiricalNTK(module, method="factored").fitted(X)
    full = EmpiricalNTK(module, method="full", normalize=False, seed=0).fitted(X)
    some = EmpiricalNTK(module, parameters=["layer.*"], method="factored", normalize=False, seed=0).fitted(X)
    assert (full.diag(X) > some.diag(X)).all()
    with refuses(ValueError, "'nothing.*'"):
        EmpiricalNTK(module, parameters=["layer.*", "nothing.*"]).fitted(X)


@pytest.mark.parametrize("method", ["full", "factored", "sketch"])
def test_the_head_alone_is_the_kernel_of_the_features(method):
    module, shape = NETWORKS["linear"]
    X = rows(shape, 6, 0)
    kernel = EmpiricalNTK(module, "random", ["head.weight"], method, normalize=False, seed=0).fitted(X)
    Z = module(X).detach()
    assert torch.allclose(kernel(X), Z @ Z.mT, rtol=1e-10)


def test_a_head_is_needed_for_several_outputs():
    module, shape = NETWORKS["linear"]
    with refuses(ValueError, "3 outputs", "head='random'"):
        EmpiricalNTK(module, head=None).fitted(rows(shape, 3, 0))


@pytest.mark.parametrize("method", ["factored", "sketch"])
def test_embeddings_with_a_tangent_kernel(method):
    """The kernel works in a model, with views, and the same seed gives the same bits."""
    module = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 16)).eval()
    X = rows((5,), 200, 0).numpy()
    fits = [
        KernelEmbedding(4, kernel=EmpiricalNTK(module, method=method), n_landmarks=40, random_state=0).fit(X)
        for _ in range(2)
    ]
    assert np.array_equal(fits[0].coefficients_, fits[1].coefficients_)
    assert fits[0].coverage(X).mean() > 0.9


def test_features_of_the_same_rows_are_computed_once(monkeypatch):
    X = rows((5,), 20, 0)
    kernel = EmpiricalNTK(NETWORKS["linear"][0], method="sketch", sketch_size=64, seed=1).fitted(X)
    calls = []
    sketched = EmpiricalNTK._sketched
    monkeypatch.setattr(EmpiricalNTK, "_sketched", lambda self, X: calls.append(len(X)) or sketched(self, X))
    first = kernel.features(X)
    assert kernel.features(X) is first
    X[0] += 1
    assert not torch.equal(kernel.features(X)[0], first[0])
    assert kernel.features(X.clone()) is not first
    assert calls == [20, 20, 20]
    again = pickle.loads(pickle.dumps(kernel))
    assert torch.equal(again.features(X), kernel.features(X))


def test_cached_features_are_not_computed_again(tmp_path, monkeypatch):
    module, X = NETWORKS["linear"][0], rows((5,), 20, 0)
    kernel = EmpiricalNTK(module, method="sketch", sketch_size=64, seed=1, cache=str(tmp_path / "cache"))
    first = kernel.fitted(X).features(X)

    def never(self, parts):
        raise AssertionError("computed again")

    monkeypatch.setattr(Sketch, "__call__", never)
    assert torch.equal(clone(kernel).fitted(X).features(X), first)
    with pytest.raises(AssertionError, match="computed again"):
        clone(kernel).set_params(seed=2).fitted(X).features(X)


def test_cached_rows_are_found_in_other_batches(tmp_path):
    """A second pass reads other batches in another order; equal rows of another type or network are others."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(50, 3, 2, generator=generator)
    computed = 0

    def features(rows):
        nonlocal computed
        computed += len(rows)
        return rows.flatten(1) * 2

    for rows in (X[:30], X[10:40], X[torch.randperm(40, generator=generator)], X[5:5]):
        cache = FeatureCache(tmp_path, "f")
        if len(rows):
            assert torch.equal(cache(rows, features), rows.flatten(1) * 2)
    assert computed == 40
    cache(X.double()[:5], features)
    FeatureCache(tmp_path, "g")(X[:5], features)
    assert computed == 50


def test_the_cache_survives_damage_and_stays_within_its_size(tmp_path):
    cache = FeatureCache(tmp_path, "f", max_bytes=4000)
    blocks = [torch.full((1, 4), float(i)) for i in range(12)]
    computed = []

    def widen(rows):
        computed.extend(rows[:, 0].tolist())
        return rows.repeat(1, 30)

    for block in blocks:
        cache(block, widen)
    assert sum(p.stat().st_size for p in tmp_path.glob("*/*.npy")) <= 4000
    cache(blocks[-1], widen)
    cache(blocks[0], widen)
    assert computed == [*range(12), 0]  # the last was there, the first had made room
    for path in tmp_path.glob("*/*.npy"):
        path.write_bytes(path.read_bytes()[:100])
    assert torch.equal(cache(blocks[-1], widen), blocks[-1].repeat(1, 30))
    assert torch.equal(FeatureCache(tmp_path, "f")(blocks[-1], widen), blocks[-1].repeat(1, 30))
    assert computed == [*range(12), 0, 11]


def test_an_interrupted_write_leaves_nothing_that_is_read(tmp_path, monkeypatch):
    rows = torch.arange(6.0).reshape(3, 2)
    cache = FeatureCache(tmp_path, "f")
    save = np.save

    def killed(file, values, **options):
        if values.dtype == np.uint8:
            raise KeyboardInterrupt
        save(file, values, **options)

    monkeypatch.setattr("krepes.kernels.tangent.feature_cache.np.save", killed)
    with pytest.raises(KeyboardInterrupt):
        cache(rows, lambda X: -X)
    monkeypatch.undo()
    assert torch.equal(FeatureCache(tmp_path, "f")(rows, lambda X: X), rows)


@pytest.mark.parametrize("own", [True, False], ids=["a user's module", "a named network"])
def test_models_are_saved_with_their_network(own, tmp_path):
    """A named network's weights are in the file; a module is asked for again, and checked."""
    module = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 16)).eval()
    X = rows((5,), 100, 0).numpy()
    kernel = EmpiricalNTK(module if own else MLP(widths=(16,)))
    model = KernelEmbedding(3, kernel=kernel, n_landmarks=20, random_state=0).fit(X)
    path = tmp_path / "a.krepes"
    model.save(path)
    if own:
        with refuses(ValueError, "'Sequential'", "kernel="):
            load(path)
        other = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 16)).eval()
        with refuses(ValueError, "kernel"):
            load(path, kernel=other)
    loaded = load(path, kernel=module) if own else load(path)
    assert np.allclose(loaded.transform(X), model.transform(X), atol=1e-5)


class Recurrent(nn.Module):
    def __init__(self, layer=nn.GRU):
        super().__init__()
        self.layer = layer(2, 3, batch_first=True)

    def forward(self, x):
        return self.layer(x)[0][:, -1]


class Free(nn.Module):
    """Parameters of its own, outside any layer."""

    def __init__(self):
        super().__init__()
        self.scale, self.layer = nn.Parameter(torch.tensor([0.5, -1.0, 2.0])), nn.Linear(3, 4)

    def forward(self, x):
        return torch.tanh(self.layer(x * self.scale))


ODD_MODULES = {
    "free": Free(),
    "encoder": nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), nn.Flatten()),
    "transposed": nn.Sequential(nn.Unflatten(1, (1, 3)), nn.ConvTranspose1d(1, 2, 2), nn.Flatten()),
    "prelu": nn.Sequential(nn.Linear(3, 4), nn.PReLU()),
    "weight_norm": nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), nn.Tanh()),
    "instance_norm": nn.Sequential(
        nn.Unflatten(1, (1, 3)), nn.InstanceNorm1d(1, affine=True), nn.Flatten(), nn.Tanh()
    ),
    "gru": Recurrent(),
    "lstm": Recurrent(nn.LSTM),
}
ODD_SHAPES = {"encoder": (5, 2, 4), "gru": (5, 4, 2), "lstm": (5, 4, 2)}


@pytest.mark.parametrize("name", ODD_MODULES)
def test_any_module_has_a_tangent_kernel(name):
    """U9: "auto" takes whole gradients where a layer has no factors, and says what that costs; GRUs work."""
    module = ODD_MODULES[name].eval().double()
    X = torch.randn(
        ODD_SHAPES.get(name, (5, 3)), dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    with warns_of(UserWarning, "method='full'", "numbers"):
        kernel = EmpiricalNTK(module, normalize=False, seed=0).fitted(X)
    rows = []
    head = kernel._scalar.head
    for x in X:
        own = head.clone().requires_grad_()
        output = module(x[None]).reshape(-1) @ own
        found = torch.autograd.grad(
            output, [*module.parameters(), own], allow_unused=True, materialize_grads=True
        )
        rows.append(torch.cat([g.flatten() for g in found]))
    J = torch.stack(rows)
    torch.testing.assert_close(kernel(X), J @ J.T)


def test_a_bare_recurrent_layer_is_refused_in_words():
    """U9."""
    with refuses(ValueError, "GRU", "tensor", "last output"):
        EmpiricalNTK(nn.GRU(2, 3, batch_first=True), seed=0).fitted(torch.randn(4, 5, 2))


def test_frozen_parameters_count_unless_they_are_left_out():
    """U9: parameters="trainable" is the kernel of the parameters that are not frozen."""
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    module[0].requires_grad_(False)
    X = torch.randn(5, 3)

    def values(parameters):
        return EmpiricalNTK(module, parameters=parameters, normalize=False, seed=0)(X)

    torch.testing.assert_close(values("trainable"), values(["2.*"]))
    assert not torch.allclose(values("trainable"), values(None))
    with refuses(ValueError, "frozen", "trainable"):
        EmpiricalNTK(module, parameters="frozen", seed=0)(X)
