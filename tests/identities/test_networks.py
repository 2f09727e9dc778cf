"""Networks: they compute what their papers say, have the published sizes, and draw nothing from global state."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn
from torch.func import functional_call, grad, vmap

from krepes.base.components import named
from krepes.base.storage import model_file
from krepes.networks import (
    MLP,
    ConvNet,
    EfficientNetLite0,
    GivenModule,
    MobileNetV2,
    Network,
    ResMLP,
    ResNet,
    ResNet18,
    as_network,
    n_parameters,
)
from krepes.networks.efficientnet_lite import same_padding
from krepes.networks.images import ImageInput
from labels import label
from refusals import refuses
from tolerances import assert_same

VECTORS = [ResMLP(width=12, n_blocks=2), ResMLP(width=12, n_tokens=3), MLP((7, 5)), MLP((7, 5), "erf", "ntk")]
IMAGES = [
    ConvNet((4, 6)),
    ConvNet((4,), 5, "max", "gelu"),
    ResNet18(resolution=32),
    ResNet(50, resolution=32),
]
IMAGES += [EfficientNetLite0(resolution=32), MobileNetV2(resolution=32)]
SMALL = [(network, (6,)) for network in VECTORS] + [(network, (8, 8, 3)) for network in IMAGES]
every_network = pytest.mark.parametrize(("network", "shape"), SMALL, ids=label)
LAYERS = (nn.Linear, nn.Conv2d, nn.LayerNorm, nn.BatchNorm2d)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(shape: tuple[int, ...], n: int = 3, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(n, *shape, generator=seeded(7), dtype=torch.float64).to(dtype)


def test_every_architecture_is_tested_here():
    assert set(named(Network).values()) - {type(network) for network, _ in SMALL} <= {
        as_network("resnet34").__class__,
        as_network("resnet50").__class__,
    }


@every_network
def test_the_same_generator_gives_the_same_network_and_global_state_is_left_alone(network, shape):
    before = torch.random.get_rng_state()
    first, again, other = (network.build(shape, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    X = batch(shape)
    assert torch.equal(first(X), again(X))
    assert not torch.equal(first(X), other(X))
    assert torch.equal(network.build(shape)(X), network.build(shape, seeded(0))(X))


@every_network
def test_features_are_finite_vectors_of_every_row_alone(network, shape):
    """Evaluation mode: a row's features do not depend on the other rows."""
    module, X = network.build(shape).double(), batch(shape, n=4, dtype=torch.float64)
    assert not any(part.training for part in module.modules())
    Z = module(X)
    assert Z.ndim == 2
    assert len(Z) == 4
    assert torch.isfinite(Z).all()
    assert Z.std() > 1e-3
    assert_same(torch.cat([module(x[None]) for x in X]), Z)


@every_network
def test_parameters_belong_to_plain_layers_in_float32(network, shape):
    module = network.build(shape)
    inside = [
        p for part in module.modules() if isinstance(part, LAYERS) for p in part.parameters(recurse=False)
    ]
    assert {id(p) for p in inside} == {id(p) for p in module.parameters()}
    assert all(p.dtype == torch.float32 and p.device.type == "cpu" for p in inside)


@pytest.mark.parametrize(
    ("network", "shape"), [case for case in SMALL if getattr(case[0], "depth", 0) < 50], ids=label
)
def test_gradients_per_sample_by_vmap_equal_those_one_by_one(network, shape):
    module, X = network.build(shape).double(), batch(shape, n=2, dtype=torch.float64)
    parameters = {name: p.detach() for name, p in module.named_parameters()}

    def output(parameters, x):
        return functional_call(module, parameters, (x[None],)).sum()

    both = vmap(grad(output), in_dims=(None, 0))(parameters, X)
    for i, x in enumerate(X):
        one = torch.autograd.grad(module(x[None]).sum(), list(module.parameters()), allow_unused=True)
        for (name, parameter), g in zip(module.named_parameters(), one):
            assert_same(both[name][i], torch.zeros_like(parameter) if g is None else g)


@every_network
def test_default_dtype_does_not_matter(network, shape):
    expected = network.build(shape)(batch(shape))
    torch.set_default_dtype(torch.float64)
    try:
        found = network.build(shape)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found(batch(shape)), expected)


@every_network
def test_components_make_the_round_trip(network, shape, tmp_path):
    copy = clone(network)
    assert repr(copy) == repr(network)
    model_file.write(tmp_path / "network.krepes", "Network", {"network": network.pinned()})
    restored = model_file.read(tmp_path / "network.krepes")[1]["network"]
    assert torch.equal(restored.build(shape)(batch(shape)), network.build(shape)(batch(shape)))


@pytest.mark.parametrize("cls", named(Network).values(), ids=lambda cls: cls.name)
def test_constructible_without_arguments_and_by_name(cls):
    assert type(as_network(cls.name)) is cls
    assert type(as_network(cls.name.replace("_", "-"))) is cls
    assert as_network(cls.name).get_params()["weights"] is None


# ResMLP


def layer_norm(x, weight, bias):
    return (x - x.mean()) / math.sqrt(((x - x.mean()) ** 2).mean() + 1e-5) * weight + bias


def gelu(x):
    return np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x])


def resmlp_oracle(x, s, n_blocks, n_tokens):
    """Algorithm 1 for one row, token by token, with the numbers of a state_dict."""

    def linear(name, v):
        return s[f"{name}.weight"] @ v + s[f"{name}.bias"]

    width = len(s["norm.weight"])
    first = gelu(linear("project", x))
    tokens = [first[t * width : (t + 1) * width] for t in range(n_tokens)]
    normed = [layer_norm(t, s["norm.weight"], s["norm.bias"]) for t in tokens]
    attended = []
    for t in normed:
        scores = [
            linear("attention.query", t) @ linear("attention.key", u) / math.sqrt(width) for u in normed
        ]
        weights = np.exp(scores) / np.exp(scores).sum()
        attended.append(sum(w * linear("attention.value", u) for w, u in zip(weights, normed)))
    tokens = [t + a for t, a in zip(tokens, attended)]
    for i in range(n_blocks):
        hidden = [gelu(linear(f"blocks.{i}.narrow", t)) for t in tokens]
        tokens = [gelu(t + linear(f"blocks.{i}.wide", h)) for t, h in zip(tokens, hidden)]
    return sum(tokens) / n_tokens


@pytest.mark.parametrize("n_tokens", [1, 3])
def test_resmlp_is_algorithm_1(n_tokens):
    module = ResMLP(width=12, n_blocks=2, n_tokens=n_tokens).build((5,), seeded(3)).double()
    with torch.no_grad():  # so that norms are not the identity
        for parameter in module.norm.parameters():
            parameter.add_(0.3 * torch.randn(12, generator=seeded(4), dtype=torch.float64))
    X = torch.randn(4, 5, generator=seeded(5), dtype=torch.float64)
    state = {name: value.numpy() for name, value in module.state_dict().items()}
    expected = np.stack([resmlp_oracle(x, state, 2, n_tokens) for x in X.numpy()])
    assert_same(module(X).detach(), torch.from_numpy(expected))


@pytest.mark.parametrize(("n_inputs", "expected"), [(110, 4_916_190), (54, 4_858_398), (28, 4_831_566)])
def test_resmlp_has_about_five_million_parameters(n_inputs, expected):
    """w = 1032: d w + w, 2 w, 3 (w^2 + w), 3 (2 w w/4 + w/4 + w)  [krepes, appendix B.2]."""
    w = 1032
    by_hand = n_inputs * w + w + 2 * w + 3 * (w**2 + w) + 3 * (2 * w * w // 4 + w // 4 + w)
    assert n_parameters(ResMLP().build((n_inputs,))) == by_hand == expected
    assert round(expected / 1e6) == 5


def test_queries_and_keys_of_one_token_have_no_gradient():
    """The softmax over one token is 1 whatever the scores: leaving them out changes nothing."""
    module = ResMLP(width=8).build((4,)).double()
    X = batch((4,), dtype=torch.float64)
    before = module(X)
    with torch.no_grad():
        module.attention.query.weight.add_(5.0)
        module.attention.key.bias.sub_(2.0)
    assert torch.equal(module(X), before)


# Fully connected networks


def test_both_parametrisations_are_the_same_function():
    standard = MLP((6, 4), "tanh", "standard", 1.5, 0.3).build((3,)).double()
    scaled = MLP((6, 4), "tanh", "ntk", 1.5, 0.3).build((3,)).double()
    with torch.no_grad():
        for plain, wrapped in ((standard[1], scaled[1]), (standard[3], scaled[3])):
            plain.weight.copy_(wrapped.linear.weight * math.sqrt(1.5 / plain.in_features))
            plain.bias.copy_(wrapped.linear.bias * math.sqrt(0.3))
    X = batch((3,), dtype=torch.float64)
    assert_same(scaled(X), standard(X))


@pytest.mark.parametrize(
    ("network", "weight_variance", "bias_variance"),
    [
        (MLP((400, 400), weight_variance=1.5, bias_variance=0.2), 1.5 / 400, 0.2),
        (MLP((400, 400), parametrization="ntk", weight_variance=1.5, bias_variance=0.2), 1.0, 1.0),
        (ResMLP(width=400), 1 / (3 * 400), 1 / (3 * 400)),
    ],
    ids=label,
)
def test_start_values_have_the_variance_they_should(network, weight_variance, bias_variance):
    """Within 4 standard errors; a fourth moment is at most 3 times a squared variance."""
    module = network.build((5,))
    layers = [part for part in module.modules() if isinstance(part, nn.Linear) and part.in_features == 400]
    for values, variance in (
        (torch.cat([layer.weight.flatten() for layer in layers]), weight_variance),
        (torch.cat([layer.bias for layer in layers]), bias_variance),
    ):
        error = 4 * variance * math.sqrt(2 / len(values))
        assert abs(values.square().mean().item() - variance) <= error
        assert abs(values.mean().item()) <= 4 * math.sqrt(variance / len(values))


@pytest.mark.parametrize("network", [EfficientNetLite0(), MobileNetV2(), ResNet18()], ids=label)
def test_untrained_convolutional_networks_keep_the_scale(network):
    """In evaluation mode BatchNorm is the identity: start values alone keep features away from 0 and infinity."""
    Z = network.set_params(resolution=64).build((16, 16, 3))(batch((16, 16, 3)))
    assert 0.01 < Z.square().mean().sqrt() < 100


# Convolutional networks


def convolve(x, weight, bias, stride, padding):
    """One image (c, h, w), in loops."""
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    size = weight.shape[2]
    height, width = ((side - size) // stride + 1 for side in x.shape[1:])
    out = np.empty((len(weight), height, width))
    for o in range(len(weight)):
        for i in range(height):
            for j in range(width):
                patch = x[:, i * stride : i * stride + size, j * stride : j * stride + size]
                out[o, i, j] = (patch * weight[o]).sum() + bias[o]
    return out


def normalise(x, s, name, eps=1e-5):
    scale = s[f"{name}.weight"] / np.sqrt(s[f"{name}.running_var"] + eps)
    return (x - s[f"{name}.running_mean"][:, None, None]) * scale[:, None, None] + s[f"{name}.bias"][
        :, None, None
    ]


def randomise_norms(module):
    generator = seeded(9)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d):
                for value in (part.weight, part.bias, part.running_mean):
                    value.copy_(torch.randn(value.shape, generator=generator))
                part.running_var.copy_(torch.rand(part.running_var.shape, generator=generator) + 0.5)


@pytest.mark.parametrize("block", ["layer1.0", "layer2.0", "layer3.1"])
def test_a_residual_block_in_loops(block):
    """ReLU(shortcut(x) + bn2(conv2(ReLU(bn1(conv1(x)))))) with frozen statistics, on a few channels of input."""
    module = ResNet18().build((8, 8)).double()
    randomise_norms(module)
    part = module.get_submodule(block)
    s = {name: value.numpy() for name, value in part.state_dict().items()}
    stride = 2 if block == "layer2.0" else 1
    x = np.random.default_rng(0).normal(size=(part.conv1.in_channels, 4, 4))
    zero = np.zeros(part.conv1.out_channels)
    h = np.maximum(normalise(convolve(x, s["conv1.weight"], zero, stride, 1), s, "bn1"), 0)
    h = normalise(convolve(h, s["conv2.weight"], zero, 1, 1), s, "bn2")
    shortcut = x
    if stride == 2:
        shortcut = normalise(convolve(x, s["downsample.0.weight"], zero, 2, 0), s, "downsample.1")
    expected = np.maximum(shortcut + h, 0)
    assert_same(part(torch.from_numpy(x)[None])[0].detach(), torch.from_numpy(expected))


@pytest.mark.parametrize(
    ("depth", "with_classifier", "n_tensors"),
    [(18, 11_689_512, 62), (34, 21_797_672, 110), (50, 25_557_032, 161)],
)
def test_residual_networks_have_the_published_size_and_torchvisions_names(depth, with_classifier, n_tensors):
    module = ResNet(depth).build((32, 32, 3))
    features = 2048 if depth == 50 else 512
    assert n_parameters(module) + 1000 * features + 1000 == with_classifier
    names = dict(module.named_parameters())
    assert len(names) + 2 == n_tensors
    expected = {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.bias": (64,),
        "layer1.0.conv1.weight": (64, 64, 1, 1) if depth == 50 else (64, 64, 3, 3),
        "layer2.0.downsample.0.weight": (512, 256, 1, 1) if depth == 50 else (128, 64, 1, 1),
        "layer2.0.downsample.1.weight": (512,) if depth == 50 else (128,),
        "layer4.1.conv2.weight": (512, 512, 3, 3),
    }
    assert {name: tuple(names[name].shape) for name in expected} == expected
    assert ("layer1.0.downsample.0.weight" in names) == (depth == 50)
    assert {"bn1.running_mean", "layer3.1.bn2.running_var", "layer3.1.bn2.num_batches_tracked"} <= set(
        module.state_dict()
    )


@pytest.mark.parametrize(
    ("network", "with_classifier"), [(EfficientNetLite0(), 4_652_008), (MobileNetV2(), 3_504_872)], ids=label
)
def test_mobile_networks_have_the_published_size(network, with_classifier):
    assert n_parameters(network.build((32, 32, 3))) + 1000 * 1280 + 1000 == with_classifier


@pytest.mark.parametrize("size", [7, 8, 9])
@pytest.mark.parametrize("kernel_size", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_same_padding_gives_as_many_positions_as_tensorflow(size, kernel_size, stride):
    """ceil(size / stride) positions; where the number of zeros is odd, one more at the right and below."""
    layer = nn.Conv2d(1, 1, kernel_size, stride, bias=False)
    padded = same_padding(torch.ones(1, 1, size, size), layer)
    assert layer(padded).shape[2:] == (math.ceil(size / stride),) * 2
    for line in (padded[0, 0, :, size // 2 + 1], padded[0, 0, size // 2 + 1, :]):
        before, after = int(line.argmax()), int(line.flip(0).argmax())
        assert after - before == (len(line) - size) % 2


def test_pixels_are_normalised_put_first_and_resized():
    """Affine normalisation and bilinear weights that sum to 1: a constant image stays constant."""
    pixels = ImageInput((4, 6, 3), (0.5, 0.25, 0.0), (0.5, 0.25, 2.0), resolution=9)
    pixels.reset_parameters()
    X = torch.tensor([1.0, 0.5, 1.0]).expand(2, 4, 6, 3)
    expected = torch.tensor([1.0, 1.0, 0.5])[None, :, None, None].expand(2, 3, 9, 9)
    assert_same(pixels(X), expected)
    raw = ImageInput((2, 2, 1), (0.0,), (1.0,))
    raw.reset_parameters()
    image = torch.tensor([[[0.1, 0.2], [0.3, 0.4]]])
    assert torch.equal(raw(image), image[:, None])
    assert torch.equal(raw(image.flatten(1)), image[:, None])


def test_grey_images_are_repeated_for_three_channels():
    network = MobileNetV2(resolution=32)
    grey = batch((8, 8))
    expected = network.build((8, 8, 3))(grey[..., None].expand(-1, -1, -1, 3))
    assert torch.equal(network.build((8, 8))(grey), expected)
    assert torch.equal(network.build((8, 8, 1))(grey[..., None]), expected)


def test_shrinking_averages_instead_of_skipping():
    pixels = ImageInput((8, 8), (0.0,), (1.0,), resolution=2)
    pixels.reset_parameters()
    stripes = torch.tensor([1.0, 0.0, 0.0, 1.0] * 2).expand(
        1, 8, 8
    )  # both columns nearest to a new pixel are 0
    assert (pixels(stripes) > 0.3).all()


# A user's own module


def test_a_module_of_ones_own_is_used_as_it_is():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).train()
    network = as_network(module)
    assert isinstance(network, GivenModule)
    assert network.build((3,), seeded()) is module
    assert module.training
    assert network.pinned() is network
    assert clone(network).build((3,)) is module  # shared, not copied
    assert as_network(network) is network


def test_a_file_asks_for_a_users_module_again(tmp_path):
    model_file.write(tmp_path / "given.krepes", "Network", {"network": GivenModule(nn.Linear(3, 2))})
    restored = model_file.read(tmp_path / "given.krepes")[1]["network"]
    with refuses(TypeError, "torch.nn.Module"):
        restored.build((3,))
