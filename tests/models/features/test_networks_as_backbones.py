"""A saved network as a backbone by path, and backbones as networks that can be adapted or trained further."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import RunCli
from longshot.base import UserError
from longshot.models import (
    Backbone,
    embed,
    find_family,
    get_network,
    load_backbone,
    save_checkpoint,
)
from longshot.models.networks.base import Foreign

PREPROCESSING = "decode|resize(16,16)|normalize(0.5,0.25)"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    network = get_network("cnn4(width=8)", size=(16, 16), seed=4)
    network.extras["key"] = torch.nn.Parameter(torch.rand(2, 4))
    network(torch.rand(8, 3, 16, 16))
    return save_checkpoint(tmp_path / "runs" / "proto", network, {"preprocessing": PREPROCESSING})


def load(name: str, **settings: object) -> Backbone:
    backbone = load_backbone(name, "cpu", **settings)  # type: ignore[arg-type]
    assert isinstance(backbone, Backbone)
    return backbone


@pytest.mark.parametrize("file", ["", "network.safetensors"])
def test_a_saved_network_is_a_backbone_by_path(saved: Path, file: str) -> None:
    backbone = load(str(saved / file))
    assert backbone.name == str(saved / file)
    assert backbone.preprocessing == PREPROCESSING
    assert backbone.dim == 8
    images = torch.rand(3, 3, 16, 16)
    network = backbone.network()
    with torch.no_grad():
        assert torch.allclose(backbone(images), network(images), atol=1e-6)
    assert type(network).__name__ == "CNN4"
    assert "key" in network.extras
    assert not network.training
    assert not any(p.requires_grad for p in network.parameters())


def test_it_embeds_through_the_command_line(
    saved: Path, photos: Path, fresh_cache: Path, run_cli: RunCli
) -> None:
    done = run_cli("embed", photos, "--backbone", "runs/proto", "--device", "cpu", cwd=saved.parents[1])
    assert "runs/proto" in done.stdout
    features = embed(photos, str(saved), dtype="float32")
    network, size = load(str(saved)).network(), (16, 16)
    from longshot.base import parse_preprocessing
    from longshot.data import open_dataset

    dataset = open_dataset(photos)
    pictures = np.stack([parse_preprocessing(PREPROCESSING)(dataset.image(row)) for row in range(5)])
    assert pictures.shape[2:] == size
    with torch.no_grad():
        assert np.allclose(features.array[:5], network(torch.from_numpy(pictures)).numpy(), atol=1e-5)


def test_other_weights_are_another_backbone(saved: Path, tmp_path: Path) -> None:
    other = save_checkpoint(
        tmp_path / "b", get_network("cnn4(width=8)", size=(16, 16), seed=5), {"preprocessing": PREPROCESSING}
    )
    assert load(str(saved)).weights_hash != load(str(other)).weights_hash
    assert load(str(saved)).weights_hash == load(str(saved / "network.safetensors")).weights_hash


def test_wrong_paths_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no saved network at"):
        load(str(tmp_path))
    with pytest.raises(UserError, match=r"no saved network at .*absent\.pt"):
        load(str(tmp_path / "absent.pt"))
    torch.save({}, tmp_path / "w.pt")
    with pytest.raises(UserError, match="is a pickle"):
        load(str(tmp_path / "w.pt"))
    with pytest.raises(UserError, match="no backbone 'runs/nothing'"):
        find_family("runs/nothing")


def test_training_goes_on_from_a_saved_network(saved: Path) -> None:
    network = get_network(str(saved), size=(16, 16))
    assert network.training
    assert all(p.requires_grad for p in network.parameters())
    assert network.call == "cnn4(width=8)"
    again = save_checkpoint(saved.parent / "again", network, {"preprocessing": PREPROCESSING})
    assert load(str(again)).weights_hash == load(str(saved)).weights_hash


def test_training_goes_on_at_another_size(saved: Path, tmp_path: Path) -> None:
    assert get_network(str(saved), size=(32, 32)).size == (32, 32)
    flat = get_network("cnn4(width=8, flatten=True)", size=(16, 16))
    save_checkpoint(tmp_path / "flat", flat, {"preprocessing": PREPROCESSING})
    with pytest.raises(
        UserError, match="built for images of 16 × 16 and gives 32 numbers instead of 8 at 32 × 32"
    ):
        get_network(str(tmp_path / "flat"), size=(32, 32))


def test_efficientnet_as_a_network_keeps_its_batch_norms(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    backbone = load("efficientnet-lite0", preprocessing="decode|resize(64,64)|normalize(0.498,0.502)")
    network, images = backbone.network(), torch.rand(2, 3, 64, 64)
    assert any(isinstance(module, torch.nn.BatchNorm2d) for module in network.modules())
    with torch.no_grad():
        assert torch.allclose(backbone(images), network(images), atol=1e-4)
        assert network.maps(images).shape == (2, 1280, 2, 2)
    trained = get_network("efficientnet-lite0", size=(64, 64))
    trained(images).square().mean().backward()
    saved = load(str(save_checkpoint(tmp_path / "tuned", trained, {"preprocessing": backbone.preprocessing})))
    with torch.no_grad():
        assert torch.allclose(saved(images), trained.eval()(images), atol=1e-5)
    trained.train()
    assert all(p.grad is not None for p in trained.parameters())


def test_a_users_network_is_trained_saved_and_found_again(network: Path, tmp_path: Path) -> None:
    name = f"torch:{network}:make"
    made = get_network(name, size=(12, 12))
    assert isinstance(made, Foreign)
    assert made.maps(torch.rand(1, 3, 12, 12)).shape == (1, 20, 10, 10)
    assert isinstance(copy.deepcopy(made), Foreign)
    with torch.no_grad():
        made.module.conv.bias.add_(1.0)  # type: ignore[union-attr,operator]
    saved = save_checkpoint(tmp_path / "mine", made, {"preprocessing": "decode|resize(12,12)"})
    images = torch.rand(3, 3, 12, 12)
    with torch.no_grad():
        assert torch.allclose(load(str(saved))(images), made.eval()(images), atol=1e-6)


def test_a_saved_network_runs_no_code_that_the_user_has_not(
    network: Path, tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code.py"
    code.write_text(network.read_text())
    made = get_network(f"torch:{code}:make", size=(12, 12))
    saved = save_checkpoint(tmp_path / "mine", made, {"preprocessing": "decode|resize(12,12)"})
    assert load(str(saved)).dim == 20
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "of-somebody-else"))
    with pytest.raises(
        UserError, match=r"asks to run .*code\.py, which is not there or was never run as it is now"
    ):
        load(str(saved)).network()
    assert load(f"torch:{code}:make").dim == 20
    assert load(str(saved)).dim == 20
    code.write_text(network.read_text() + "# changed\n")
    with pytest.raises(UserError, match=r"if you trust it, run it once: longshot\.embed"):
        load(str(saved)).network()


def test_a_users_network_may_have_maps_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from torch import nn\nfrom longshot.models.networks.base import Network\n\n"
        "class Own(Network):\n    dim = 5\n    preprocessing = 'decode|resize(12,12)'\n"
        "    def __init__(self):\n        super().__init__()\n        self.conv = nn.Conv2d(3, 5, 3)\n"
        "    def maps(self, images):\n        return self.conv(images)\n"
    )
    name = f"torch:{tmp_path / 'own.py'}:Own"
    network = load(name).network()
    assert type(network).__name__ == "Own"
    assert (network.call, network.size) == (name, (12, 12))
    assert network.maps(torch.rand(2, 3, 12, 12)).shape == (2, 5, 10, 10)


def test_features_alone_are_no_network(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.zeros((3, 2)))
    for name in ("pixels", f"npy:{tmp_path / 'v.npy'}"):
        with pytest.raises(UserError, match="gives features only, and the method needs images and a network"):
            load_backbone(name, "cpu").network()
    with pytest.raises(UserError, match="no network 'pixels'"):
        get_network("pixels", size=(16, 16))


def test_a_hub_model_is_a_network(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=32,
        patch_size=8,
    )
    transformers.ViTModel(config).save_pretrained(tmp_path / "vit")
    network = get_network(f"hf:{tmp_path / 'vit'}", size=(32, 32))
    network(torch.rand(2, 3, 32, 32)).sum().backward()
    assert network.dim == 32
    with pytest.raises(UserError, match=r"gives vectors .* and no maps"):
        network.maps(torch.rand(1, 3, 32, 32))
