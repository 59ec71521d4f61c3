"""Checks of ``timm:`` against timm itself, run by test_timm.py in a process of their own.

PyPI's torchvision is built for another torch: its operators are declared here, and none of them is called.
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_OPERATORS = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _OPERATORS.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import numpy as np  # noqa: E402
import timm  # noqa: E402
from PIL import Image  # noqa: E402

from longshot.base import UserError, parse_preprocessing  # noqa: E402
from longshot.models import ALIASES, ModuleBackbone, list_backbones, load_backbone  # noqa: E402
from longshot.models.backbones.timm import as_string, transform_string  # noqa: E402

FOLDER = Path(tempfile.mkdtemp())
SMALL = "decode|resize(64,64)|normalize(0.5,0.5)"
SIZES = [(h, w) for h in (37, 150, 225, 341) for w in (41, 63, 120, 224, 255, 300, 333, 481, 97, 610)]
CHECKS: list[Callable[[], None]] = []
LONG: list[Callable[[], None]] = []  # on networks of full size


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS.append(function)
    return function


def long_check(function: Callable[[], None]) -> Callable[[], None]:
    LONG.append(function)
    return function


def images(size: int = 64, count: int = 2) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def save(name: str, *, head: bool = True) -> tuple[Any, Path]:
    """A model with random weights, and the file that holds them."""
    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False).eval()
    file = FOLDER / f"{name}-{head}.pth"
    heads = model.pretrained_cfg["classifier"]
    keep = {k: v for k, v in model.state_dict().items() if head or not k.startswith(heads)}
    torch.save(keep, file)
    return model, file


def load(name: str, preprocessing: str | None = SMALL, **settings: object) -> ModuleBackbone:
    parts = [f"{key}={value if key == 'layer' else repr(str(value))}" for key, value in settings.items()]
    call = f"timm:{name}({', '.join(parts)})" if parts else f"timm:{name}"
    backbone = load_backbone(call, "cpu", preprocessing=preprocessing)
    assert isinstance(backbone, ModuleBackbone)
    return backbone


def complaint(function: Callable[[], object]) -> str:
    try:
        function()
    except UserError as error:
        return str(error)
    raise AssertionError("nothing was refused")


@check
def pixels_equal_timms_transforms_bit_for_bit() -> None:
    """Eight settings × 40 sizes, among them every crop mode."""
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    base = {"input_size": (3, 64, 64), "mean": mean, "std": std}
    settings = [
        {**base, "crop_pct": pct, "crop_mode": mode, "interpolation": kind}
        for pct, mode, kind in [
            (0.875, "center", "bilinear"),
            (0.9, "center", "bicubic"),
            (0.95, "center", "bicubic"),
            (1.0, "center", "bicubic"),
            (1.0, "squash", "bicubic"),
            (0.9, "squash", "bilinear"),
            (1.0, "border", "bicubic"),
            (0.875, "border", "bilinear"),
        ]
    ]
    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in SIZES]
    assert len(settings) == 8 and len(pictures) == 40
    for config in settings:
        transform, theirs = (
            parse_preprocessing(as_string(config)),
            timm.data.create_transform(**config, normalize=False),
        )
        for picture in pictures:
            expected = np.asarray(theirs(picture)).transpose(1, 2, 0)
            assert np.array_equal(transform.pixels(picture), expected), (config, picture.size)
        values = timm.data.create_transform(**config)(pictures[3]).numpy()
        assert np.allclose(transform(pictures[3]), values, atol=1e-6)


@check
def a_transform_that_cannot_be_repeated_is_refused() -> None:
    config = {
        "input_size": (3, 64, 48),
        "mean": (0.5,) * 3,
        "std": (0.5,) * 3,
        "crop_pct": 0.9,
        "crop_mode": "center",
        "interpolation": "bicubic",
    }
    sentence = complaint(lambda: transform_string(timm, "timm:some", config))
    assert "cannot be repeated here" in sentence and "give preprocessing" in sentence


@check
def vectors_are_those_of_timm() -> None:
    model, file = save("vit_tiny_patch16_224")
    with torch.inference_mode():
        tokens = model.forward_features(images(224))
        pooled = model.forward_head(tokens, pre_logits=True)
    own = "decode|resize(224,224)"
    auto = load("vit_tiny_patch16_224", own, weights=file)
    assert auto.pooling == "pooler" and torch.allclose(auto(images(224)), pooled, atol=1e-5)
    mean = load("vit_tiny_patch16_224", own, weights=file, pool="mean")
    assert torch.allclose(mean(images(224)), tokens[:, 1:].mean(1), atol=1e-5)
    token = load("vit_tiny_patch16_224", own, weights=file, pool="cls")
    assert torch.allclose(token(images(224)), tokens[:, 0], atol=1e-5)
    inner = load("vit_tiny_patch16_224", own, weights=file, pool="cls", layer=-2)
    with torch.inference_mode():
        ((_, before),) = model.forward_intermediates(
            images(224), indices=[10], return_prefix_tokens=True, intermediates_only=True
        )
    assert torch.allclose(inner(images(224)), before[:, 0], atol=1e-5) and inner.identity != token.identity
    assert load("vit_tiny_patch16_224", SMALL, weights=file)(images()).shape == (
        2,
        192,
    )  # positions stretched
    small = load_backbone(f"timm:vit_tiny_patch16_224(weights='{file}', size=112)", "cpu")
    assert small.name == f"timm:vit_tiny_patch16_224(size=112, weights='{file}')"
    assert "central_crop(112,even)" in small.preprocessing
    assert "has no pool=projection; it has pooler, cls, mean" in complaint(
        lambda: load("vit_tiny_patch16_224", own, weights=file, pool="projection")
    )


@check
def files_load_with_and_without_head() -> None:
    model, file = save("resnet10t")
    _, headless = save("resnet10t", head=False)
    with torch.inference_mode():
        expected = model.forward_head(model.forward_features(images()), pre_logits=True)
    first, again, other = (load("resnet10t", weights=each) for each in (file, file, headless))
    assert torch.allclose(first(images()), expected, atol=1e-5)
    assert first.identity == again.identity == other.identity
    assert torch.equal(first(images()), other(images()))


@check
def a_folder_is_a_model() -> None:
    model, file = save("resnet10t")
    timm.models.save_for_hf(model, FOLDER / "hub", safe_serialization=True)
    assert torch.equal(load(str(FOLDER / "hub"))(images()), load("resnet10t", weights=file)(images()))
    assert load(str(FOLDER / "hub"), None).preprocessing.startswith("decode|resize(")


@check
def other_weights_are_refused_by_name() -> None:
    _, file = save("resnet10t")
    tensors = torch.load(file, weights_only=True)
    del tensors["layer1.0.conv1.weight"]
    torch.save(tensors, FOLDER / "missing.pth")
    assert "layer1.0.conv1.weight" in complaint(lambda: load("resnet10t", weights=FOLDER / "missing.pth"))
    torch.save({**tensors, "extra.weight": torch.zeros(1)}, FOLDER / "extra.pth")
    assert "extra.weight" in complaint(lambda: load("resnet10t", weights=FOLDER / "extra.pth"))
    assert "there is no file" in complaint(lambda: load("resnet10t", weights=FOLDER / "absent.pth"))
    (FOLDER / "text.pth").write_text("hello")
    assert "cannot be read as tensors" in complaint(lambda: load("resnet10t", weights=FOLDER / "text.pth"))
    assert "timm has no model 'resnet19'; near it:" in complaint(lambda: load("resnet19"))
    assert "the weights are not at hand; add allow_download=True" in complaint(
        lambda: load("resnet18.tv_in1k")
    )


@long_check
def the_papers_timm_networks_are_built_by_name() -> None:
    """Names, width and pixels of those of the thirteen that come through timm; weights are random."""
    expected = {
        "resnet18": (512, "pooler", 256),
        "resnet34": (512, "pooler", 256),
        "resnet50": (2048, "pooler", 256),
        "resnet101": (2048, "pooler", 256),
        "clip_resnet50": (1024, "projection", 248),
        "densenet121": (1024, "pooler", 256),
    }
    routes = {name: alias.route for name, alias in ALIASES.items() if alias.route.startswith("timm:")}
    assert set(routes) == set(expected), set(routes) ^ set(expected)
    real = timm.create_model
    for name, (width, pool, resized) in expected.items():
        timm.create_model = lambda model, **_: real(model, pretrained=False)  # no weights on disk
        try:
            backbone = load_backbone(name, "cpu")
        finally:
            timm.create_model = real
        assert isinstance(backbone, ModuleBackbone) and backbone.label == name
        assert (backbone.pooling, backbone.dim) == (pool, width), (name, backbone.pooling, backbone.dim)
        assert backbone.preprocessing.startswith(f"decode|resize({resized}"), backbone.preprocessing
        assert "central_crop(224,even)" in backbone.preprocessing


@long_check
def resnets_equal_torchvisions() -> None:
    from torchvision import models

    for name in ("resnet18", "resnet34", "resnet50"):
        torch.manual_seed(0)
        model = getattr(models, name)().eval()
        torch.save(_stirred(model).state_dict(), FOLDER / "tv.pth")
        model.fc = torch.nn.Identity()
        _compare(f"{name}(weights='{FOLDER / 'tv.pth'}')", model)


@check
def resnet12s_equal_easyfsls() -> None:
    """The usual one, whose state dict has a classifier, and FEAT's, whose file has its own form."""
    from easyfsl.modules import feat_resnet12, resnet12

    model = _stirred(resnet12().eval())
    torch.save(model.state_dict(), FOLDER / "easyfsl.pth")
    _compare(f"resnet12-easyfsl(weights='{FOLDER / 'easyfsl.pth'}')", model)
    model = _stirred(feat_resnet12().eval())
    params = {f"encoder.{name}": value for name, value in model.state_dict().items()}
    torch.save({"params": params}, FOLDER / "feat.pth")
    _compare(f"resnet12(weights='{FOLDER / 'feat.pth'}')", model)


@long_check
def bit_equals_timms() -> None:
    """timm reads the file that Longshot writes, and gives the same vectors."""
    from longshot.models import get_network
    from longshot.models.networks.checkpoint import write_published

    network = _stirred(get_network("bit-r50x1", size=(64, 64)).eval())
    write_published(network, FOLDER / "bit.npz")
    model = timm.create_model("resnetv2_50x1_bit", pretrained=False, num_classes=0).eval()
    model.load_pretrained(str(FOLDER / "bit.npz"))
    _compare(f"bit-r50x1(weights='{FOLDER / 'bit.npz'}')", model, 1e-4)  # standardising weights rounds more


def _stirred(model: Any) -> Any:
    """Norms and statistics that are not those of the start."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.ndim == 1:
                noise = torch.rand(value.shape, generator=generator)
                value.copy_(noise + 0.5 if name.endswith(("weight", "var")) else noise - 0.5)
    return model


def _compare(name: str, model: Any, bound: float = 1e-5) -> None:
    backbone = load_backbone(name, "cpu", preprocessing=SMALL)
    with torch.inference_mode():
        expected = model(images())
    assert isinstance(backbone, ModuleBackbone)
    difference = (backbone(images()) - expected).abs().max() / expected.abs().max()
    assert difference < bound, (name, difference)


@check
def dinov3s_own_processor_is_less_than_a_grey_level_away() -> None:
    """It resizes numbers, not bytes, and needs torchvision: the only one that is not met to the byte."""
    from transformers import DINOv3ViTImageProcessor

    from longshot.models.backbones.sight import as_string as processor_as_string
    from longshot.models.backbones.sight import probe_pictures

    processor = DINOv3ViTImageProcessor()
    transform = parse_preprocessing(processor_as_string(processor.to_dict()))
    for picture in probe_pictures():
        values = np.asarray(processor(images=picture, return_tensors="np")["pixel_values"][0])
        grey = np.abs(values - transform(picture)) * 255 * np.array(processor.image_std)[:, None, None]
        assert grey.max() < 1.01 and grey.mean() < 0.35, (picture.size, grey.max(), grey.mean())


@check
def timm_is_listed_as_installed() -> None:
    (row,) = [row for row in list_backbones() if row["name"] == "timm:NAME"]
    assert row["installed"]


def main() -> None:
    verdicts = {}
    for function in LONG if sys.argv[1:] == ["long"] else CHECKS:
        try:
            function()
            verdicts[function.__name__] = ""
        except Exception:
            verdicts[function.__name__] = traceback.format_exc()
    json.dump(verdicts, sys.stdout)


if __name__ == "__main__":
    main()
