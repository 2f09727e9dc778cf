"""Weight files that do not fit, are damaged, or want to run code; and rows that a network cannot take."""

from __future__ import annotations

import os
import pickle
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.base import clone
from torch import nn

from krepes.networks import (
    MLP,
    ConvNet,
    EfficientNetLite0,
    GivenModule,
    MobileNetV2,
    ResMLP,
    ResNet,
    ResNet18,
    as_network,
    file_digest,
)
from refusals import refuses

SHAPE = (5,)
ENDINGS = (".npz", ".safetensors", ".pth", ".pt")


def small(**parameters) -> MLP:
    return MLP((4, 3), **parameters)


def numbers(seed: int = 5) -> dict[str, torch.Tensor]:
    return small().build(SHAPE, torch.Generator().manual_seed(seed)).state_dict()


def write(path, tensors) -> str:
    if path.suffix == ".npz":
        np.savez_compressed(path, **{name: value.numpy() for name, value in tensors.items()})
    elif path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save(tensors, path)
    return str(path)


def build(path, **parameters) -> nn.Module:
    return small(weights=path, **parameters).build(SHAPE)


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_gives_the_numbers_back(tmp_path, ending):
    path = write(tmp_path / f"weights{ending}", numbers())
    X = torch.rand(3, 5, generator=torch.Generator().manual_seed(0))
    expected = small().build(SHAPE, torch.Generator().manual_seed(5))(X)
    assert torch.equal(build(path)(X), expected)
    assert torch.equal(build(tmp_path / f"weights{ending}")(X), expected)  # a Path
    assert not torch.equal(small().build(SHAPE)(X), expected)


@pytest.mark.parametrize("ending", ENDINGS)
def test_names_that_are_missing_unexpected_or_misshapen_are_listed(tmp_path, ending):
    tensors = numbers()
    tensors["3.weight"] = tensors["3.weight"].mT.contiguous()
    tensors["extra.weight"] = tensors.pop("1.bias")
    with refuses(ValueError, "4 arrays") as error:
        build(write(tmp_path / f"weights{ending}", tensors))
    assert "1 missing (1.bias)" in str(error.value)
    assert "1 unexpected (extra.weight)" in str(error.value)
    assert "1 of another shape (3.weight (4, 3) instead of (3, 4))" in str(error.value)


def test_many_names_are_cut_short(tmp_path):
    path = write(tmp_path / "weights.npz", {f"layer{i}": torch.zeros(1) for i in range(20)})
    with refuses(ValueError, "20", "layer0", "layer4"):
        build(path)


@pytest.mark.parametrize(("network", "classifier"), [(ResNet18(), "fc"), (MobileNetV2(), "classifier.1")])
def test_a_classifier_and_counters_may_be_there_or_not(tmp_path, network, classifier):
    module = network.build((32, 32, 3), torch.Generator().manual_seed(3))
    tensors = {name: value for name, value in module.state_dict().items() if "num_batches" not in name}
    tensors[f"{classifier}.weight"] = torch.zeros(1000, 2)
    tensors[f"{classifier}.bias"] = torch.zeros(1000)
    path = write(tmp_path / "weights.pth", tensors)
    found = clone(network).set_params(weights=path).build((32, 32, 3))
    assert all(torch.equal(value, found.state_dict()[name]) for name, value in module.state_dict().items())


def test_weights_of_another_depth_are_refused(tmp_path):
    path = write(tmp_path / "weights.safetensors", ResNet(18).build((32, 32, 3)).state_dict())
    with refuses(ValueError, "missing", "layer1.2.conv1.weight"):
        ResNet(34, weights=path).build((32, 32, 3))


def test_state_dicts_inside_checkpoints_and_of_parallel_modules_are_found(tmp_path):
    tensors = {f"module.{name}": value for name, value in numbers().items()}
    path = write(tmp_path / "checkpoint.pt", {"state_dict": tensors, "epoch": 3})
    assert torch.equal(build(path)[1].weight, numbers()["1.weight"])


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_no_code_of_a_file_is_run(tmp_path):
    """A pickled call in place of a tensor, in every format that could hold one."""
    target = tmp_path / "ran"
    torch.save({"1.weight": Bomb(target)}, tmp_path / "bomb.pt")
    (tmp_path / "raw.pth").write_bytes(pickle.dumps({"1.weight": Bomb(target)}))
    np.savez(tmp_path / "bomb.npz", **{"1.weight": np.array([Bomb(target)], dtype=object)})
    for name in ("bomb.pt", "raw.pth", "bomb.npz"):
        with refuses(ValueError, name):
            build(tmp_path / name)
    assert not target.exists()


def test_absurd_sizes_are_refused_before_anything_is_allocated(tmp_path):
    """A header that declares 4 TB fits neither the bytes that follow nor the network."""
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
    member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    path = tmp_path / "huge.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name in numbers():
            archive.writestr(f"{name}.npy", member)
    with refuses(ValueError, "huge.npz"):
        build(path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_damaged_files_are_refused_by_name(tmp_path, ending):
    path = tmp_path / f"weights{ending}"
    write(path, {name: torch.randn(64, 64) for name in "abc"})
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"not weights at all", b""):
        path.write_bytes(content)
        with refuses(ValueError, f"weights{ending}"):
            build(path)


def test_a_flipped_byte_in_compressed_numbers_is_noticed(tmp_path):
    path = tmp_path / "weights.npz"
    tensors = numbers()
    write(path, tensors)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("3.weight.npy")
    content[info.header_offset + 30 + len(info.filename) + 20 + info.compress_size // 2] ^= 0xFF
    path.write_bytes(bytes(content))
    with refuses(ValueError, "weights.npz"):
        build(path)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_numbers_that_are_not_finite_are_refused(tmp_path, value):
    tensors = numbers()
    tensors["3.bias"] = torch.full((3,), value)
    with refuses(ValueError, "NaN", "3.bias"):
        build(write(tmp_path / "weights.pt", tensors))


def test_integers_are_refused_and_other_floats_converted(tmp_path):
    tensors = numbers()
    doubles = write(tmp_path / "doubles.npz", {name: value.double() for name, value in tensors.items()})
    assert build(doubles)[1].weight.dtype == torch.float32
    assert torch.equal(build(doubles)[1].weight, tensors["1.weight"])
    tensors["1.weight"] = torch.ones(4, 5, dtype=torch.int8)
    with refuses(ValueError, "1.weight", "torch.int8"):
        build(write(tmp_path / "quantised.safetensors", tensors))


def test_files_that_are_no_weights_are_refused(tmp_path):
    with refuses(FileNotFoundError, "weights=None"):
        build(tmp_path / "nowhere.npz")
    (tmp_path / "weights.h5").write_bytes(b"")
    with refuses(ValueError, "'.h5'"):
        build(tmp_path / "weights.h5")
    with refuses(ValueError, "state_dict"):
        build(write(tmp_path / "tensor.pt", torch.zeros(3)))
    with refuses(ValueError, "checkpoint.pt", "epoch", "tensors"):
        build(write(tmp_path / "checkpoint.pt", {"epoch": 3}))


def test_a_pinned_network_takes_its_own_file_only(tmp_path):
    path = write(tmp_path / "weights.npz", numbers())
    network = small(weights=tmp_path / "weights.npz").pinned()
    assert network.get_params()["weights"] == path
    assert network.weights_digest == file_digest(path)
    network.build(SHAPE)
    assert network.pinned().weights_digest == network.weights_digest
    write(tmp_path / "weights.npz", numbers(seed=6))
    with refuses(ValueError, "weights_digest=None"):
        network.build(SHAPE)
    clone(network).set_params(weights_digest=None).build(SHAPE)
    assert small().pinned().get_params() == small().get_params()


@pytest.mark.parametrize(
    ("network", "shape", "message"),
    [
        (ConvNet(), (5,), ("images", "resmlp", "mlp")),
        (MobileNetV2(), (8, 8, 3, 2), "(8, 8, 3, 2)"),
        (EfficientNetLite0(), (8, 8, 4), ("4 channels", "3")),
        (EfficientNetLite0(resolution=0), (8, 8, 3), ("resolution=0", "1")),
        (ResNet(depth=19), (8, 8), ("depth=19", "18", "34", "50")),
        (MLP(widths=()), SHAPE, "sequence"),
        (MLP(widths="64"), SHAPE, "sequence"),
        (MLP(widths=(8, 0)), SHAPE, ("widths=0", "1")),
        (MLP(activation="swish"), SHAPE, ("relu", "gelu", "tanh", "erf")),
        (MLP(parametrization="mup"), SHAPE, ("standard", "ntk")),
        (MLP(weight_variance=0.0), SHAPE, ("number", "> 0")),
        (ConvNet(channels=[]), (8, 8), "sequence"),
        (ConvNet(kernel_size=4), (8, 8), ("odd", "number")),
        (ConvNet(pooling="sum"), (8, 8), ("average", "max", "none")),
        (ResMLP(n_tokens=0), SHAPE, ("n_tokens=0", "1")),
        (ResMLP(width=True), SHAPE, ("width=True", "1")),
        (ResMLP(width=3, bottleneck=4), SHAPE, "width=3"),
        (ResMLP(), (), "(54,)"),
        (ResMLP(), (4, 0), ("shape", "row")),
    ],
)
def test_what_a_network_cannot_be_built_for_is_explained(network, shape, message):
    with refuses(ValueError, message):
        network.build(shape)


@pytest.mark.parametrize("network", [ConvNet((4,)), ResMLP(width=8)])
def test_integer_pixels_are_not_taken_for_numbers_in_the_unit_interval(network):
    with refuses(TypeError, "255"):
        network.build((8, 8))(torch.zeros(1, 8, 8, dtype=torch.uint8))


def test_images_of_one_pixel_pass_through_pooling():
    assert ConvNet((4, 6, 8)).build((1, 1))(torch.rand(2, 1, 1)).shape == (2, 8)


def test_what_is_no_network_is_explained():
    with refuses(ValueError, "'efficientnet_lite0'"):
        as_network("efficientnet-lite-0")
    with refuses(TypeError, "Linear(...)", "module"):
        as_network(nn.Linear)
    with refuses(TypeError, "Network", "object"):
        as_network(3)
    with refuses(TypeError, "torch.nn.Module"):
        GivenModule().build((3,))
    with refuses(TypeError, "weights=-1", "path"):
        MLP(weights=-1).build((3,))
