"""Engines: the same vectors as PyTorch's, the same bytes however the work is cut, and PyTorch where that cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import longshot
from longshot.base import UserError, engine_version, parse_engine, using_engine
from longshot.models import Backbone, ModuleBackbone, open_backbone
from longshot.models.features.conversion import TOLERANCE, Conversion, difference, is_convolutional

RUNTIMES = ("onnxruntime", "openvino")
SMALL = "decode|resize(24,24)|normalize(imagenet)"


class Plain(nn.Module):
    """A convolution with batch norm; maps, which are averaged."""

    preprocessing = SMALL

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.norm.running_mean += 0.1  # type: ignore[operator]

    def forward(self, images: Tensor) -> Tensor:
        return self.norm(self.conv(images)).relu()


class Undecided(Plain):
    """What it computes depends on the values of the images."""

    def forward(self, images: Tensor) -> Tensor:
        maps = self.conv(images)
        return maps.mean((2, 3)) if maps.mean() > 0.1 else maps.amax((2, 3))


class Noisy(Plain):
    """No two runs agree."""

    def forward(self, images: Tensor) -> Tensor:
        return self.conv(images + torch.randn_like(images)).mean((2, 3))


class Unwritable(Plain):
    """ONNX has no operation for singular values."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.linalg.svdvals(self.conv(images).mean(1))


def made(kind: type[Plain]) -> Plain:
    torch.manual_seed(0)
    return kind()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> longshot.Dataset:
    """Four classes of ten pictures."""
    folder, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(5)
    for label in range(4):
        (folder / f"class{label}").mkdir()
        for number in range(10):
            blobs = rng.integers(0, 255, (5, 5, 3), np.uint8)
            Image.fromarray(blobs).resize((40, 30)).save(folder / f"class{label}" / f"{number}.png")
    return longshot.open_dataset(folder)


def vectors(dataset: longshot.Dataset, backbone: object, **options: object) -> np.ndarray:
    features = longshot.embed(dataset, backbone, dtype="float32", refresh=True, **options)  # type: ignore[arg-type]
    return np.array(features.array)


@pytest.mark.parametrize("engine", RUNTIMES)
def test_the_vectors_are_pytorchs(pictures: longshot.Dataset, engine: str) -> None:
    by_torch = vectors(pictures, made(Plain), engine="torch")
    assert (
        difference(vectors(pictures, made(Plain), engine=engine), by_torch) < 1e-6
    )  # one convolution of 27 terms


def test_efficientnet_runs_in_onnx_runtime_and_agrees(pictures: longshot.Dataset) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    name = "efficientnet-lite0(size=128)"
    features = longshot.embed(pictures, name, dtype="float32")
    assert features.story["engine"] == engine_version("onnxruntime")
    apart = difference(np.array(features.array), vectors(pictures, name, engine="torch"))
    assert apart < TOLERANCE


@pytest.mark.parametrize("engine", RUNTIMES)
def test_workers_batch_size_and_threads_change_no_byte(pictures: longshot.Dataset, engine: str) -> None:
    reference = vectors(pictures, made(Plain), engine=engine)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        cut_otherwise = [
            vectors(pictures, made(Plain), engine=engine, batch_size=size, workers=count)
            for size, count in ((1, 0), (16, 1), (40, 0))
        ]
    finally:
        torch.set_num_threads(before)
    for array in cut_otherwise:
        np.testing.assert_array_equal(array, reference)


def test_the_engine_is_part_of_what_a_network_is(pictures: longshot.Dataset) -> None:
    engines = ("torch", "torch(autocast=bfloat16)", "torch(channels_last=True)", *RUNTIMES)
    views = [longshot.embed(pictures, made(Plain), engine=engine) for engine in engines]
    assert len({features.hash for features in views}) == len(engines)
    assert [features.story["engine"] for features in views] == [
        engine_version("torch"),
        f"{engine_version('torch')}(autocast='bfloat16')",
        f"{engine_version('torch')}(channels_last=True)",
        *(engine_version(name) for name in RUNTIMES),
    ]
    assert np.abs(np.float32(views[1].array) - views[0].array).max() > 1e-3  # bfloat16 has eight bits


def test_auto_takes_a_runtime_for_all_networks_on_a_cpu() -> None:
    attention = nn.Sequential(nn.Conv2d(3, 4, 8), nn.Flatten(), nn.Linear(4 * 9, 64))
    assert (is_convolutional(made(Plain)), is_convolutional(attention)) == (True, False)
    planned = []
    for module in (made(Plain), attention):
        backbone = open_backbone(module, "cpu", preprocessing=SMALL)
        assert isinstance(backbone, Backbone)
        planned.append(backbone.engine)
    assert planned == [engine_version("onnxruntime")] * 2


def test_a_network_that_looks_at_values_stays_with_pytorch_and_says_so_once(
    pictures: longshot.Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    features = longshot.embed(pictures, made(Undecided))
    note = capsys.readouterr().err
    assert "computes with PyTorch instead of onnxruntime: it looks at values while it computes" in note
    assert features.story["engine"] == engine_version("torch")
    assert features.hash == longshot.embed(pictures, made(Undecided), engine="torch").hash
    longshot.embed(pictures, made(Undecided), refresh=True)
    assert "note" not in capsys.readouterr().err


def test_a_network_that_onnx_cannot_write_stays_with_pytorch_in_one_sentence(
    pictures: longshot.Dataset, capfd: pytest.CaptureFixture[str]
) -> None:
    """PyTorch would print the whole graph past Python, hence the look at what the process writes."""
    longshot.embed(pictures, made(Unwritable))
    printed = capfd.readouterr()
    assert "PyTorch instead of onnxruntime: it cannot be exported (UnsupportedOperatorError" in printed.err
    assert "graph(" not in printed.out + printed.err


def test_a_network_that_disagrees_stays_with_pytorch(
    pictures: longshot.Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    features = longshot.embed(pictures, made(Noisy))
    note = capsys.readouterr().err
    assert "on 16 images of 'pictures" in note and "away from PyTorch, more than 0.0001" in note
    assert features.story["engine"] == engine_version("torch")


def test_an_evaluation_knows_a_network_by_the_engine_that_it_ends_with(
    pictures: longshot.Dataset, tmp_path: Path, fresh_cache: Path
) -> None:
    testbed = longshot.sample(pictures, tasks=3, way=3, shot=2, query=2)
    for _ in range(2):  # a second call extends the run: it must be the same network
        results = longshot.evaluate(
            testbed,
            backbones={"net": made(Undecided)},
            methods="protonet",
            datasets={pictures.name: pictures},
            out=tmp_path / "run",
        )
    expected = longshot.embed(pictures, made(Undecided), engine="torch").backbone_identity
    assert list(results.run["networks"]) == [expected]


def test_a_verb_hands_its_engine_to_all_that_it_opens(
    pictures: longshot.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSHOT_ENGINE", "openvino")
    with using_engine("torch(compile=True)"):
        assert parse_engine(None).compile
        assert parse_engine("onnxruntime").name == "onnxruntime"
    assert parse_engine(None).name == "openvino"
    testbed = longshot.sample(pictures, tasks=2, way=3, shot=2, query=2)
    results = longshot.evaluate(
        testbed, backbones=made(Plain), methods="protonet", datasets={pictures.name: pictures}, engine="torch"
    )
    assert list(results.run["networks"]) == [
        longshot.embed(pictures, made(Plain), engine="torch").backbone_identity
    ]


def test_a_converted_network_that_is_damaged_is_converted_again(
    pictures: longshot.Dataset, fresh_cache: Path
) -> None:
    before = vectors(pictures, made(Plain))
    (file,) = (fresh_cache / "converted").iterdir()
    file.write_bytes(file.read_bytes()[:-3] + b"abc")
    np.testing.assert_array_equal(vectors(pictures, made(Plain)), before)
    backbone = open_backbone(made(Plain), "cpu")
    assert isinstance(backbone, ModuleBackbone)
    assert Conversion(backbone, "onnxruntime").network() is not None


def test_an_estimate_converts_without_writing(pictures: longshot.Dataset, fresh_cache: Path) -> None:
    assert longshot.estimate("embed", pictures, made(Plain), engine="onnxruntime").seconds > 0
    assert not (fresh_cache / "converted").exists()


def test_a_fork_computes_with_a_network_that_was_opened_before(pictures: longshot.Dataset) -> None:
    reference = vectors(pictures, made(Plain), engine="onnxruntime")
    child = os.fork()
    if child == 0:
        same = np.array_equal(vectors(pictures, made(Plain), engine="onnxruntime"), reference)
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("onnx", "Longshot has no engine 'onnx'; choose 'auto'"),
        ("openvino(threads=2)", "Engine 'openvino' has no settings"),
        ("torch(autocast=int8)", "it is 'float16', 'bfloat16' or None"),
        ("torch(compile=3)", "it is True or False"),
    ],
)
def test_what_no_engine_is(engine: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        parse_engine(engine)
    assert words in str(error.value)


def test_a_runtime_on_an_accelerator_is_refused() -> None:
    backbone = open_backbone(made(Plain), "cpu")
    assert isinstance(backbone, ModuleBackbone)
    backbone.device = torch.device("cuda")
    with pytest.raises(UserError, match="computes on a CPU, and the device is cuda"):
        backbone.use_engine("openvino")


def test_the_relative_difference_is_the_largest_of_all_rows() -> None:
    reference = np.array([[3.0, 4.0], [0.0, 2.0]], np.float32)
    assert difference(reference + np.array([[0, 0], [0.5, 0]], np.float32), reference) == pytest.approx(0.25)
    assert np.isnan(difference(np.full((2, 2), np.nan, np.float32), reference))
