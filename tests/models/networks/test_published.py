"""Published weights: BiT's arrays against a forward pass in NumPy, names of others, files that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from longshot.base import UserError
from longshot.models import (
    ModuleBackbone,
    Network,
    convert_checkpoint,
    count_parameters,
    get_network,
    load_backbone,
    load_checkpoint,
    network_class,
)
from longshot.models.networks.checkpoint import read_published

SIZE = 32
GEOMETRY = f"decode|resize({SIZE},{SIZE})|normalize(0.5,0.5)"
Array = NDArray[Any]


def write_published(network: Network, file: Path) -> Path:
    """Write a BiT network as the ``.npz`` that its authors publish, without a head."""
    own = network.state_dict()
    arrays = {there: own[here].numpy() for there, here in network.published_names().items()}  # type: ignore[operator]
    np.savez(file, **{name: a.transpose(2, 3, 1, 0) if a.ndim == 4 else a for name, a in arrays.items()})
    return file


def images(count: int = 2, size: int = SIZE) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def random_network(call: str) -> Network:
    """A network all of whose weights matter: norms and statistics are not those of the start."""
    network = get_network(call, size=(SIZE, SIZE), seed=1).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in network.state_dict().items():
            if value.ndim == 1:
                noise = torch.rand(value.shape, generator=generator)
                value.copy_(noise + 0.5 if name.endswith(("weight", "var")) else noise - 0.5)
    return network


def numpy_bit(arrays: dict[str, Array], pixels: Array, units: tuple[int, ...], letters: str) -> Array:
    """BiT's forward pass written from its description, in double precision, [B, H, W, 3] → [B, d]."""

    def conv(maps: Array, name: str, stride: int = 1) -> Array:
        kernel = arrays[f"{name}/standardized_conv2d/kernel"].astype(np.float64)
        kernel = (kernel - kernel.mean((0, 1, 2))) / np.sqrt(kernel.var((0, 1, 2)) + 1e-10)
        border = kernel.shape[0] // 2
        padded = np.pad(maps, ((0, 0), (border, border), (border, border), (0, 0)))
        windows = sliding_window_view(padded, kernel.shape[:2], axis=(1, 2))[:, ::stride, ::stride]
        return np.einsum("bijcuv,uvco->bijo", windows, kernel, optimize=True)

    def active(maps: Array, name: str) -> Array:
        grouped = maps.reshape(*maps.shape[:3], 32, -1)
        mean, var = grouped.mean((1, 2, 4), keepdims=True), grouped.var((1, 2, 4), keepdims=True)
        normal = ((grouped - mean) / np.sqrt(var + 1e-5)).reshape(maps.shape)
        return np.maximum(0, normal * arrays[f"{name}/group_norm/gamma"] + arrays[f"{name}/group_norm/beta"])

    maps = np.pad(conv(pixels, "resnet/root_block", 2), ((0, 0), (1, 1), (1, 1), (0, 0)))
    maps = sliding_window_view(maps, (3, 3), axis=(1, 2))[:, ::2, ::2].max((4, 5))
    for block, count in enumerate(units, 1):
        for unit in range(1, count + 1):
            name, stride = f"resnet/block{block}/unit{unit:02d}", 2 if block > 1 and unit == 1 else 1
            out = active(maps, f"{name}/a")
            shortcut = conv(out, f"{name}/a/proj", stride) if unit == 1 else maps
            for letter in letters:
                out = out if letter == "a" else active(out, f"{name}/{letter}")
                strided = letter == ("a" if letters == "ab" else "b")
                out = conv(out, f"{name}/{letter}", stride if strided else 1)
            maps = out + shortcut
    return active(maps, "resnet").mean((1, 2))


@pytest.mark.parametrize(
    ("call", "units", "letters", "dim"),
    [("bit-r18", (2, 2, 2, 2), "ab", 512), ("bit-r50x1", (3, 4, 6, 3), "abc", 2048)],
)
def test_bit_equals_numpy_and_survives_its_published_file(
    call: str, units: tuple[int, ...], letters: str, dim: int, tmp_path: Path
) -> None:
    network = random_network(call)
    file = write_published(network, tmp_path / "bit.npz")
    arrays = dict(np.load(file))
    with torch.no_grad():
        vectors = network(images())
    expected = numpy_bit(arrays, images().double().permute(0, 2, 3, 1).numpy(), units, letters)
    assert vectors.shape == (2, dim)
    assert np.abs(vectors.numpy() - expected).max() < 1e-4 * np.abs(expected).max()
    head = {
        "resnet/head/conv2d/kernel": np.zeros((1, 1, dim, 3), np.float32),
        "resnet/head/conv2d/bias": np.zeros(3),
    }
    np.savez(file, **arrays, **head)
    backbone = load_backbone(f"{call}(weights='{file}')", "cpu", preprocessing=GEOMETRY)
    assert isinstance(backbone, ModuleBackbone) and backbone.dim == dim
    again = backbone.network().state_dict()
    assert all(torch.equal(value, again[name]) for name, value in network.state_dict().items())
    assert torch.allclose(backbone(images()), vectors, atol=1e-4 * float(vectors.abs().max()))


@pytest.mark.parametrize(
    ("call", "arrays", "parameters"), [("bit-r50x1", 153, 23_500_352), ("bit-r101x3", 306, 381_789_888)]
)
def test_bit_has_the_published_arrays(call: str, arrays: int, parameters: int) -> None:
    kind: Any = network_class(call)
    with torch.device("meta"):  # 1.5 GB otherwise
        network = kind(size=(224, 224))
    assert len(network.published_names()) + 2 == arrays  # kernel and bias of the head
    assert count_parameters(network) == parameters
    assert set(network.published_names().values()) == set(network.state_dict())
    shape = {
        there: tuple(network.state_dict()[here].shape) for there, here in network.published_names().items()
    }
    wide = network.width
    assert shape["resnet/root_block/standardized_conv2d/kernel"] == (64 * wide, 3, 7, 7)
    assert shape["resnet/block2/unit01/a/proj/standardized_conv2d/kernel"] == (512 * wide, 256 * wide, 1, 1)
    assert shape["resnet/block4/unit03/c/group_norm/gamma"] == (512 * wide,)
    assert shape["resnet/group_norm/beta"] == (2048 * wide,)


@pytest.mark.parametrize(
    "call", ["bit-r18", "resnet34(stem='small')", "resnet50(stem='small')", "resnet12-easyfsl"]
)
def test_they_train(call: str) -> None:
    """A short step down the gradient lowers the loss by as much as the gradient says."""
    network = get_network(call, size=(SIZE, SIZE))
    labels = torch.tensor([0, 1, 0, 1])

    def loss() -> torch.Tensor:
        return torch.nn.functional.cross_entropy(network(images(4))[:, :2], labels)

    before = loss()
    gradients = torch.autograd.grad(before, list(network.parameters()))
    step = 1e-3 / sum(float(gradient.square().sum()) for gradient in gradients)
    with torch.no_grad():
        for parameter, gradient in zip(network.parameters(), gradients, strict=True):
            parameter -= step * gradient
        gain = float(before - loss())
    assert 5e-4 < gain < 2e-3


def published(network: Network) -> dict[str, torch.Tensor]:
    """The network's tensors under the names of torchvision, FEAT and easyfsl."""
    back = {here: there for there, here in network.published_names().items()}  # type: ignore[operator]
    tensors = {}
    for name, value in network.state_dict().items():
        layer, _, tensor = name.rpartition(".")
        tensors[f"{back[layer]}.{tensor}"] = value
    return tensors


@pytest.mark.parametrize("form", ["plain", "params", "prefix"])
def test_checkpoints_of_training_scripts(form: str, tmp_path: Path) -> None:
    """FEAT's own file: under ``params``, behind ``encoder.``, with its attention and without the batches' counters."""
    network = random_network("resnet12")
    tensors = published(network)
    saved: dict[str, Any] = {**tensors, "fc.weight": torch.zeros(3, 640), "fc.bias": torch.zeros(3)}
    if form != "plain":
        counted = {k: v for k, v in tensors.items() if "num_batches" not in k}
        prefix = "encoder." if form == "params" else "module.backbone."
        saved = {f"{prefix}{k}": v for k, v in counted.items()} | {"slf_attn.fc.weight": torch.zeros(3)}
        saved = {"params": saved} if form == "params" else {"state_dict": saved}
    torch.save(saved, tmp_path / "file.pth")
    backbone = load_backbone(f"resnet12(weights='{tmp_path / 'file.pth'}')", "cpu", preprocessing=GEOMETRY)
    assert isinstance(backbone, ModuleBackbone)
    with torch.no_grad():
        assert torch.allclose(backbone(images()), network(images()), atol=1e-5)


def test_converted_and_trained_further(tmp_path: Path) -> None:
    network = random_network("resnet18")
    torch.save(published(network), tmp_path / "tv.pth")
    folder = convert_checkpoint(tmp_path / "tv.pth", tmp_path / "net", "resnet18", GEOMETRY)
    again, _ = load_checkpoint(folder)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in network.state_dict().items())
    start = get_network(f"resnet18(weights='{tmp_path / 'tv.pth'}')", size=(48, 48))
    assert start.call == "resnet18" and start.size == (48, 48) and start.training
    start(images(2, 48)).sum().backward()


def test_their_own_pixels(tmp_path: Path) -> None:
    torch.save(random_network("resnet18").state_dict(), tmp_path / "own.pt")
    backbone = load_backbone(f"resnet18(weights={tmp_path / 'own.pt'})", "cpu")  # quotes are not needed
    assert backbone.preprocessing == "decode|resize(256)|central_crop(224,even)|normalize(imagenet)"


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that are not, or not all of, what they should be."""
    folder = tmp_path_factory.mktemp("wrong")
    tensors = published(get_network("resnet18", size=(SIZE, SIZE)))
    torch.save(tensors, folder / "r18.pth")
    torch.save({**tensors, "layer9.weight": torch.zeros(1)}, folder / "more.pth")
    torch.save({k: v for k, v in tensors.items() if k != "layer4.1.bn2.weight"}, folder / "less.pth")
    for name in ("text.pth", "text.npz"):
        (folder / name).write_text("hello")
    return folder


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ("resnet18(weights='{0}/absent.pth')", "There is no file .*absent.pth"),
        ("resnet18(weights='{0}/text.pth')", "cannot be read as a dictionary of tensors"),
        ("bit-r18(weights='{0}/text.npz')", "cannot be read as arrays"),
        (
            "resnet34(weights='{0}/r18.pth')",
            r"another architecture than 'resnet34': of 216 tensors \d+ missing \(",
        ),
        ("resnet18(weights='{0}/less.pth')", r"of 120 tensors 1 missing \('blocks.7.main.4.weight'\)"),
        ("resnet18(weights='{0}/more.pth')", r"1 unexpected \('layer9.weight'\)"),
        ("resnet19(weights='{0}/r18.pth')", "no network 'resnet19'; did you mean 'resnet1"),
    ],
)
def test_wrong_files_are_told(call: str, complaint: str, wrong: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        load_backbone(call.format(wrong), "cpu", preprocessing=GEOMETRY)


def test_arrays_of_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.array([{}], dtype=object))
    with pytest.raises(UserError, match="cannot be read as arrays"):
        read_published(tmp_path / "x.npz", get_network("bit-r18", size=(SIZE, SIZE)))
