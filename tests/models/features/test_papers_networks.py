"""The papers' networks by the papers' names: routes, and those of ``hf:`` built from their configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import longshot
from conftest import RunCli
from longshot.base import UserError, rescale_preprocessing
from longshot.models import ALIASES, ModuleBackbone, load_backbone
from longshot.models.backbones import hf, resolve_alias

transformers: Any = pytest.importorskip("transformers")
_IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
_IN, _HALF = "normalize(0.485,0.456,0.406,0.229,0.224,0.225)", "normalize(0.5,0.5,0.5,0.5,0.5,0.5)"
_CLIP = "normalize(0.48145466,0.4578275,0.40821073,0.26862954,0.26130258,0.27577711)"
_SMALL = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
_TEXT = {
    "hidden_size": 8,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "vocab_size": 9,
    "num_hidden_layers": 1,
}
_IDS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
_PATCHES = {"patch_size": 16, "num_hidden_layers": 1}
_ViT, _DeiT = ("ViTImageProcessorPil", {}), ("DeiTImageProcessorPil", _IMAGENET)
_SQUASHED = "decode|resize(224,224,bicubic)|"
_CROPPED = f"decode|resize(256,256,bicubic)|central_crop(224)|{_IN}"
# the paper's name → saved class, configuration (one layer of all), processor, width, preprocessing
NETWORKS: dict[str, tuple[str, str, dict[str, Any], tuple[str, dict[str, Any]], int, str]] = {
    "dino_small_patch16": (
        *("ViTForImageClassification", "ViTConfig", _SMALL),
        *(("ViTImageProcessorPil", {"resample": 3, **_IMAGENET}), 384, _SQUASHED + _IN),
    ),
    "dino_base_patch16": (
        *("ViTForImageClassification", "ViTConfig", {}),
        *(("ViTImageProcessorPil", {"resample": 3, **_IMAGENET}), 768, _SQUASHED + _IN),
    ),
    "vit_base_21k": ("ViTModel", "ViTConfig", {}, _ViT, 768, f"decode|resize(224,224)|{_HALF}"),
    "vit_small_1k": ("ViTForImageClassification", "ViTConfig", _SMALL, _DeiT, 384, _CROPPED),
    "vit_base_1k": ("ViTForImageClassification", "ViTConfig", {}, _DeiT, 768, _CROPPED),
    "beit_base_21k": (
        *("BeitForMaskedImageModeling", "BeitConfig", {"use_mask_token": True, "use_mean_pooling": True}),
        *(("BeitImageProcessorPil", {}), 768, _SQUASHED + _HALF),
    ),
    "clip_vit_base": (
        *("CLIPModel", "CLIPConfig", {"text_config": _TEXT | _IDS, "vision_config": _PATCHES}),
        *(("CLIPImageProcessorPil", {}), 512, f"decode|resize(224,bicubic)|central_crop(224)|{_CLIP}"),
    ),
}
POOLS = {"beit_base_21k": "pooler", "clip_vit_base": "projection"}  # of the others: cls


def test_all_thirteen_have_a_route_or_a_word_for_a_person() -> None:
    hard = {name: alias for name, alias in ALIASES.items() if "Hard" in alias.papers}
    assert len(hard) == 13
    assert {name for name, alias in hard.items() if not alias.route} == {"dino_resnet50"}
    assert {name for name, alias in hard.items() if alias.route.startswith("hf:")} == set(NETWORKS)
    # the other five are built with timm itself, in real_timm.py


@pytest.mark.parametrize("name", NETWORKS)
def test_a_papers_network_is_built_from_its_configuration(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, config, settings, (processor, own), width, preprocessing = NETWORKS[name]
    torch.manual_seed(0)
    settings = settings if config == "CLIPConfig" else {**_PATCHES, **settings}
    model = getattr(transformers, kind)(getattr(transformers, config)(**settings))
    model.save_pretrained(tmp_path)
    getattr(transformers, processor)(**own).save_pretrained(tmp_path)
    requested: list[str] = []

    def snapshot(bare: str, model: str, allowed: bool) -> Path:
        requested.append(f"hf:{model}")
        return tmp_path

    monkeypatch.setattr(hf, "_snapshot", snapshot)
    backbone = load_backbone(name, "cpu")
    assert isinstance(backbone, ModuleBackbone)
    assert backbone.label == name and requested == [ALIASES[name].route.partition("(")[0]]
    assert (backbone.pooling, backbone.dim) == (POOLS.get(name, "cls"), width)
    assert backbone.preprocessing == preprocessing
    if name not in ("dino_small_patch16", *POOLS):  # one of each kind
        return
    at_128 = load_backbone(
        name, "cpu", preprocessing="decode|resize(146)|central_crop(128,even)|normalize(imagenet)"
    )
    assert isinstance(at_128, ModuleBackbone)  # as the paper has it: positions are stretched
    assert at_128(torch.zeros(1, 3, 128, 128)).shape == (1, width)
    by_name = load_backbone(f"{name}(size=128)", "cpu")
    assert (by_name.label, by_name.preprocessing) == (
        f"{name}(size=128)",
        rescale_preprocessing(preprocessing, 128),
    )


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        (
            "dino_resnet50",
            r"in no library .*; fetch https://dl.fbaipublicfiles.com/dino/.*resnet50\(weights=",
        ),
        ("GoogLeNet", r"'GoogLeNet' \(ATG\) .*torchvision.models.googlenet.*torch:net.py:make"),
    ],
)
def test_networks_without_a_route_say_what_to_fetch(name: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        load_backbone(name)


def test_names_are_read_whatever_their_dashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_alias("DenseNet-121") == "timm:densenet121.tv_in1k"
    assert resolve_alias("ResNet-18") == "timm:resnet18.tv_in1k"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resnet18").mkdir()
    assert resolve_alias("resnet18") == "resnet18"  # a folder of that name


def test_one_backbone_in_detail(run_cli: RunCli, tmp_path: Path) -> None:
    kind, _, settings, (processor, own), *_ = NETWORKS["dino_small_patch16"]
    config = transformers.ViTConfig(**{**_PATCHES, **settings})
    getattr(transformers, kind)(config).save_pretrained(tmp_path)
    getattr(transformers, processor)(**own).save_pretrained(tmp_path)
    (row,) = longshot.list_backbones(f"hf:{tmp_path}")
    assert (row["pooling"], row["dim"], row["size"], row["problem"]) == ("cls", 384, [224, 224], "")
    assert row["preprocessing"].startswith("decode|resize(224,224,bicubic)|")
    (row,) = longshot.list_backbones("clip_vit_base")
    assert row["opens"] == ALIASES["clip_vit_base"].route and "downloads nothing unasked" in row["problem"]
    (row,) = json.loads(run_cli("backbones", "pixels", "--json").stdout)
    assert (row["pooling"], row["dim"]) == ("every pixel", 3072)
    assert "fetch https://" in run_cli("backbones", "dino_resnet50").stdout
    assert "no backbone 'pixel'" in run_cli("backbones", "pixel", check=False).stderr
