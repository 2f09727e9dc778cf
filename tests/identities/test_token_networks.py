"""Networks of tokens: tangent kernels are inner products of explicit gradients, and loaders give what arrays give."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from krepes import KernelEmbedding, load
from krepes.alignment import LayerTransferClassifier, transferability
from krepes.kernels import EmpiricalNTK, Gaussian
from krepes.kernels.tangent.capture import ScalarNetwork
from krepes.kernels.tangent.exact import Side
from krepes.kernels.tangent.layers import Factors, Lookups
from krepes.kernels.tangent.sketch import Sketch
from krepes.networks.tokens import as_tokens
from krepes.sources import Batches
from krepes.views import Tabular
from refusals import refuses
from tests.identities.test_tangent_kernel import explicit_gradients

WORDS, LENGTH = 11, 6


class Positions(nn.Module):
    """Words and their places, which all samples share; a mean over words that are not padding."""

    def __init__(self, two_axes=False):
        super().__init__()
        self.words = nn.Embedding(WORDS, 4, padding_idx=0)
        self.places = nn.Embedding(LENGTH, 4)
        self.top = nn.Linear(4, 3)
        self.two_axes = two_axes

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1])
        return self.top(
            torch.tanh(self.words(tokens) + self.places(places[None] if self.two_axes else places)).mean(1)
        )


class Fields(nn.Module):
    """Single columns are looked up, in one table twice, and one number of the row is a number."""

    def __init__(self):
        super().__init__()
        self.city = nn.Embedding(WORDS, 3)
        self.top = nn.Linear(7, 1)

    def forward(self, tokens):
        a, b = self.city(tokens[:, 0]), self.city(tokens[:, 1])
        return self.top(torch.cat([a * b, torch.sin(b), tokens[:, 2:3].to(a)], 1))


def token_networks():
    found = {
        "positions": Positions(),
        "positions of two axes": Positions(two_axes=True),
        "fields": Fields(),
        "bag, mean": nn.Sequential(
            nn.EmbeddingBag(WORDS, 4, padding_idx=0, mode="mean"), nn.Tanh(), nn.Linear(4, 2)
        ),
        "bag, sum": nn.Sequential(nn.EmbeddingBag(WORDS, 4, mode="sum"), nn.Tanh()),
        "sparse gradients": nn.Sequential(
            nn.Embedding(WORDS, 2, sparse=True), nn.Flatten(), nn.Linear(2 * LENGTH, 1)
        ),
    }
    generator = torch.Generator().manual_seed(0)
    for module in found.values():
        for parameter in module.parameters():
            parameter.data.normal_(0, 0.6, generator=generator)
        module.double().eval()
    return found


NETWORKS = token_networks()


def tokens(n, seed):
    return torch.randint(0, WORDS, (n, LENGTH), generator=torch.Generator().manual_seed(seed))


def definition(module, head, X):
    """Explicit gradients; a network of sparse ones is made dense first, because it is the same network."""
    module = copy.deepcopy(module)
    for part in module.modules():
        if isinstance(part, nn.Embedding):
            part.sparse = False
    return explicit_gradients(module, head, X)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_factored_kernels_of_tokens_agree_with_explicit_gradients(name, normalize):
    module, X, Y = NETWORKS[name], tokens(5, 1), tokens(6, 2)
    kernel = EmpiricalNTK(module, method="factored", normalize=normalize, seed=3).fitted(X.double())
    gradients = [definition(module, kernel._scalar.head, rows) for rows in (X, Y)]
    expected = gradients[0] @ gradients[1].mT
    squares = gradients[0].square().sum(1)
    if normalize:
        expected = expected / squares.sqrt()[:, None] / gradients[1].norm(dim=1)
        squares = torch.ones_like(squares)
    assert (kernel(X.double(), Y.double()) - expected).abs().max() <= 1e-10 * expected.abs().max()
    assert (kernel.diag(X.double()) - squares).abs().max() <= 1e-10 * squares.max()


@pytest.mark.parametrize("name", ["positions", "fields"])
def test_full_kernels_of_tokens_agree_with_factored_ones(name):
    X = tokens(5, 1).double()
    full, factored = (
        EmpiricalNTK(NETWORKS[name], method=method, seed=3).fitted(X)(X, X) for method in ("full", "factored")
    )
    assert (full - factored).abs().max() <= 1e-10


@pytest.mark.parametrize("way", [True, False], ids=["compared", "formed"])
def test_both_contractions_of_an_embedding_agree(way, monkeypatch):
    """By comparing tokens, or by gradients that are formed, whatever the cost would choose."""
    monkeypatch.setattr("krepes.kernels.tangent.exact.is_factored", lambda factors: way)
    module, X = NETWORKS["positions"], tokens(4, 1)
    scalar = ScalarNetwork(module, head=torch.ones(3, dtype=torch.float64), tokens=True)
    side = Side(scalar.gradients(X))
    expected = definition(module, scalar.head, X)
    limit = 1e-10 * expected.square().sum(1).max()
    assert (side.products(side) - expected @ expected.mT).abs().max() <= limit
    assert (side.squares() - expected.square().sum(1)).abs().max() <= limit
    assert bool(side.factors) == way


def test_lookups_are_sketched_as_unit_vectors_are(monkeypatch):
    """Tokens go where their unit vectors would go, with the same sign: also where there are more words than places."""
    A, G = tokens(3, 0)[:, None, :, None], torch.randn(3, 1, LENGTH, 5, dtype=torch.float64)
    lookups = Lookups(A, G, n_tokens=WORDS)
    units = Factors(nn.functional.one_hot(A[..., 0], WORDS).double(), G)
    assert torch.equal(lookups.inputs(), units.A)
    monkeypatch.setattr(Sketch, "by_factors", lambda *_: True)
    for width in (8, 64):
        sketch = Sketch(width, seed=1)
        found, expected = (sketch._sketched("words", part, width) for part in (lookups, units))
        assert (found - expected).abs().max() <= 1e-12


def test_a_sketched_kernel_of_tokens_is_close_to_the_exact_one():
    """Within 4 standard deviations of sqrt(2 / D), for all pairs of some rows."""
    X, D = tokens(8, 1).double(), 2**14
    kernel, exact = (
        EmpiricalNTK(NETWORKS["positions"], method=method, sketch_size=D, seed=0).fitted(X)
        for method in ("sketch", "factored")
    )
    assert (kernel(X, X) - exact(X, X)).abs().max() <= 4 * (2 / D) ** 0.5


def test_models_of_tokens_read_arrays_tensors_and_loaders_alike(tmp_path):
    network, X = Positions().eval(), tokens(90, 3)
    ways = [
        X.numpy(),
        X.numpy().astype(np.int32),
        X,
        DataLoader(TensorDataset(X), batch_size=32),
        Batches(DataLoader([{"input_ids": row, "mask": 1} for row in X], batch_size=32), key="input_ids"),
    ]
    models = [
        KernelEmbedding(3, kernel=EmpiricalNTK(network), n_landmarks=30, random_state=0).fit(way)
        for way in ways
    ]
    Z = models[0].transform(X.numpy())
    for model in models[1:]:
        np.testing.assert_allclose(model.transform(X.numpy()), Z, atol=1e-5)
    assert models[0].views_.noise == 0
    assert models[0].views_.replace > 0
    models[0].save(tmp_path / "tokens.krepes")
    again = load(tmp_path / "tokens.krepes", kernel=network)
    np.testing.assert_allclose(again.transform(X.numpy()), Z, atol=1e-5)


def test_sums_of_kernels_keep_tokens_whole():
    X = tokens(60, 3).numpy()
    kernel = EmpiricalNTK(Positions().eval()) + 0.5 * Gaussian(3.0)
    model = KernelEmbedding(2, kernel=kernel, n_landmarks=20, random_state=0).fit(X)
    assert model.views_.noise == 0


HALF, HUGE = torch.tensor([[0.5, 1.0]]), torch.tensor([[2.0**25, 0.0]])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (HALF, ("Row 0", "0.5", "column 0", "noise=0")),
        (-HALF.round() - 1, ("-1", "column 0")),
        (HUGE, "16,777,216"),
    ],
)
def test_numbers_that_are_not_tokens_are_named(rows, message):
    with refuses(ValueError, message):
        as_tokens(rows)


def test_a_token_that_the_network_does_not_have_is_named():
    X = tokens(20, 0).numpy()
    model = KernelEmbedding(
        2, kernel=EmpiricalNTK(Positions().eval()), loss="kernel_pca", n_landmarks=10
    ).fit(X)
    with refuses(ValueError, "900", "11", "6 entries"):
        model.transform(np.full((1, LENGTH), 900))


def test_noise_on_tokens_is_refused():
    kernel = EmpiricalNTK(Positions().eval())
    with refuses(ValueError, "views=Tabular", "token"):
        KernelEmbedding(2, kernel=kernel, views=Tabular(noise=0.1), n_landmarks=10).fit(tokens(20, 0).numpy())


def test_a_layer_on_something_that_samples_share_is_refused():
    """A linear layer on a table of its own has no gradient per sample, whatever the batch."""

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.table = nn.Embedding(WORDS, 4), nn.Linear(4, 4)

        def forward(self, rows):
            return self.words(rows).mean(1) + self.table(torch.eye(4)).mean(0)

    with refuses(ValueError, "method='full'"):
        EmpiricalNTK(Shared().eval(), method="factored").fitted(tokens(4, 0))


def test_transferability_reads_loaders():
    networks = {"a": Positions().eval(), "b": nn.Sequential(nn.EmbeddingBag(WORDS, 5)).eval()}
    X, y = tokens(80, 4), np.arange(80) % 2
    loader = DataLoader(TensorDataset(X, torch.arange(80)), batch_size=32)
    expected, found = transferability(networks, y, X), transferability(networks, y, loader)
    np.testing.assert_allclose(found.cka, expected.cka, atol=1e-6)
    features = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    given = transferability({"features": DataLoader(TensorDataset(features), 30)}, y)
    np.testing.assert_allclose(given.cka, transferability({"features": features}, y).cka, atol=1e-6)
    with refuses(ValueError, "70 rows"):
        transferability(networks, y[:70], loader)


@pytest.mark.parametrize("selection_rows", [2000, 40])
def test_layer_transfer_reads_loaders(selection_rows):
    """With as many rows as there are, and where the rows of the second pass lie between those of the first."""
    network, X = Positions().eval(), tokens(90, 5)
    y = (X[:, 0] > 5).numpy().astype(object)
    y[::7] = None
    model = LayerTransferClassifier(network, selection_rows=selection_rows, batch_rows=8, random_state=0)
    loader = DataLoader(TensorDataset(X, torch.arange(90)), batch_size=32)
    expected = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(model.fit(loader, y).predict_proba(loader), expected, atol=1e-4)
    stream = Batches(lambda: (X[i : i + 20] for i in range(0, 90, 20)))
    np.testing.assert_allclose(model.predict_proba(stream), expected, atol=1e-4)
