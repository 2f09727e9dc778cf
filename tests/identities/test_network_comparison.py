"""Networks layer by layer: maps of two networks, and transformers with tokens and masks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from krepes.alignment import LayerTransferClassifier, cka, compare_networks, iter_layers
from refusals import refuses

WORDS, LENGTH, WIDTH = 13, 7, 8


class Encoder(nn.Module):
    """A transformer as libraries write it: tokens and a mask by name, numbers of every token as output."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.block = nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, input_ids, attention_mask=None):
        hidden = None if attention_mask is None else attention_mask == 0
        return self.block(self.words(input_ids), src_key_padding_mask=hidden)


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return Encoder().eval()


@pytest.fixture
def sentences():
    """Tokens of 30 sentences of 3 to 7 words, padded by word 0, and their mask."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, LENGTH + 1, 30)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int64)
    return {"input_ids": rng.integers(1, WORDS, (30, LENGTH)) * mask, "attention_mask": mask}


def outputs(module, X, **given) -> dict[str, np.ndarray]:
    parts = [found for _, found in iter_layers(module, X, **given)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def test_tokens_that_are_masked_take_no_part_in_the_mean_over_tokens(encoder, sentences):
    """The mean over a padded sentence's words equals the sentence alone, without padding."""
    found = outputs(encoder, sentences, layers=["words", "block"], batch_rows=8)
    assert found["block"].shape == (30, WIDTH)
    for i in range(30):
        n = sentences["attention_mask"][i].sum()
        alone = torch.as_tensor(sentences["input_ids"][i : i + 1, :n])
        with torch.no_grad():
            expected = encoder(alone).mean(dim=1)[0].numpy()
        np.testing.assert_allclose(found["block"][i], expected, atol=1e-5)
    other = sentences["input_ids"] + 5 * (1 - sentences["attention_mask"])  # other padding
    again = outputs(encoder, sentences | {"input_ids": other}, layers=["block"])
    np.testing.assert_allclose(again["block"], found["block"], atol=1e-5)


def test_without_a_mask_all_tokens_count(encoder, sentences):
    found = outputs(encoder, sentences["input_ids"], layers=["words"])["words"]
    with torch.no_grad():
        expected = encoder.words(torch.as_tensor(sentences["input_ids"])).mean(dim=1).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_layer_transfer_takes_tokens_and_masks(encoder, sentences):
    y = (sentences["input_ids"] == 3).any(axis=1)
    model = LayerTransferClassifier(encoder, layers=["words", "block"], random_state=0).fit(sentences, y)
    assert model.predict(sentences).shape == (30,)
    np.testing.assert_array_equal(
        model.predict({k: Z[:9] for k, Z in sentences.items()}), model.predict(sentences)[:9]
    )
    with refuses(TypeError, "layer: features"):
        model.predict({"pixels": sentences["input_ids"]})


def test_arrays_by_name_must_have_the_same_rows(encoder, sentences):
    with refuses(ValueError, "attention_mask", "input_ids"):
        outputs(encoder, sentences | {"attention_mask": sentences["attention_mask"][:9]})
    with refuses(ValueError, "empty"):
        outputs(encoder, {})


def test_a_map_of_two_networks_is_the_alignment_of_their_layers():
    torch.manual_seed(0)
    X = torch.randn(3000, 6)
    first = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 4))
    second = nn.Sequential(nn.Linear(6, 9), nn.Sigmoid())
    found = compare_networks(first, second, DataLoader(TensorDataset(X), batch_size=500), n_buckets=512)
    assert (found.first_layers, found.second_layers) == (["0", "1", "2"], ["0", "1"])
    assert found.n_rows == 3000
    ours, theirs = outputs(first, X), outputs(second, X)
    exact = [
        [cka(ours[a], theirs[b], estimator="biased") for b in found.second_layers] for a in found.first_layers
    ]
    np.testing.assert_allclose(found.values, exact, atol=0.05)
    assert found.plot().axes
    assert "most like" in str(found)


def test_a_network_is_most_like_itself_layer_by_layer(encoder, sentences):
    found = compare_networks(encoder, encoder, sentences)
    assert found.closest() == {name: name for name in found.first_layers}
    np.testing.assert_allclose(found.values.diagonal(), 1.0, atol=1e-12)
