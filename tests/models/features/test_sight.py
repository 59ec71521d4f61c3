"""Which pixels a network sees: its own preprocessing by default, anything else in its name, in every file and table."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest
import torch

import longshot
from longshot.base import UserError, parse_preprocessing, rescale_preprocessing
from longshot.models import Backbone, get_network, load_backbone, save_checkpoint, split_sight
from longshot.models.backbones.sight import Sight

OWN = "decode|resize(256,bicubic)|central_crop(224)|normalize(0.498,0.502)"
BEFORE = "decode|resize(146)|central_crop(128)|normalize(0.498,0.502)"
LITE = [
    ("efficientnet-lite0", OWN),
    ("efficientnet-lite1", "decode|resize(272,bicubic)|central_crop(240)|normalize(0.498,0.502)"),
    ("efficientnet-lite2", "decode|resize(292,bicubic)|central_crop(260)|normalize(0.498,0.502)"),
]


def load(name: str, preprocessing: str | None = None) -> Backbone:
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra efficientnet")
    backbone = load_backbone(name, "cpu", preprocessing=preprocessing)
    assert isinstance(backbone, Backbone)
    return backbone


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        (OWN, 128, "decode|resize(146,bicubic)|central_crop(128)|normalize(0.498,0.502)"),
        ("decode|resize(32,32)|value_range(-1,1)", 16, "decode|resize(16,16)|value_range(-1,1)"),
        ("decode(reduced)|resize(60,40)|grayscale", 20, "decode(reduced)|resize(30,20)|grayscale"),
        (
            "decode|resize(248,longest,bicubic)|pad(224,fill,124,116,104)|central_crop(224,even)",
            112,
            "decode|resize(124,longest,bicubic)|pad(112,fill,124,116,104)|central_crop(112,even)",
        ),
    ],
)
def test_a_size_scales_lengths_and_nothing_else(text: str, size: int, expected: str) -> None:
    assert rescale_preprocessing(text, size) == expected
    assert rescale_preprocessing(text, min(parse_preprocessing(text).size)) == parse_preprocessing(text).text


@pytest.mark.parametrize(("name", "own"), LITE)
def test_the_default_is_the_published_preprocessing(name: str, own: str) -> None:
    backbone = load(name)
    assert (backbone.preprocessing, backbone.name, backbone.label) == (own, name, name)


@pytest.mark.parametrize(
    ("name", "preprocessing", "shown"),
    [
        ("efficientnet-lite0(size=128)", None, "efficientnet-lite0(size=128)"),
        ("efficientnet-lite0( size = 224 )", None, "efficientnet-lite0"),
        ("efficientnet-lite0", OWN, "efficientnet-lite0"),
        ("efficientnet-lite0", rescale_preprocessing(OWN, 96), "efficientnet-lite0(size=96)"),
        ("efficientnet-lite0", BEFORE, f"efficientnet-lite0(preprocessing='{BEFORE}')"),
        (
            f"efficientnet-lite0(preprocessing='{BEFORE}')",
            None,
            f"efficientnet-lite0(preprocessing='{BEFORE}')",
        ),
        ("pixels(size=8)", None, "pixels(size=8)"),
    ],
)
def test_the_name_says_what_is_not_the_networks_own(name: str, preprocessing: str | None, shown: str) -> None:
    backbone = load(name, preprocessing)
    assert backbone.name == shown
    assert backbone.label == (name if preprocessing is None else shown)
    assert load(shown).identity == backbone.identity, "the name opens what it stands for"
    assert load("mine=" + name, preprocessing).label == "mine"


def test_a_folder_and_other_settings_keep_their_place(tmp_path: Path) -> None:
    network = get_network("cnn4(width=4)", size=(16, 16))
    folder = save_checkpoint(
        tmp_path / "net", network, {"preprocessing": "decode|resize(18)|central_crop(16)"}
    )
    backbone = load_backbone(f"{folder}(size=32)")
    assert backbone.preprocessing == "decode|resize(36)|central_crop(32)"
    assert backbone.name == f"{folder}(size=32)"
    odd = tmp_path / "net(size=3)"
    folder.rename(odd)
    assert load_backbone(str(odd)).label == str(odd)
    assert split_sight("hf:some/model(pool=cls, size=96)") == ("hf:some/model(pool='cls')", Sight(size=96))


@pytest.mark.parametrize(
    ("name", "preprocessing", "complaint"),
    [
        ("pixels(size='large')", None, r"size is 'large'; give pixels, 1 to 4096, as in \(size=128\)"),
        ("pixels(size=0)", None, "size is 0"),
        ("pixels(size=True)", None, "size is True"),
        ("pixels(preprocessing=3)", None, "preprocessing is 3; give a string"),
        (
            "pixels(size=8)",
            "decode|resize(9,9)",
            "says its size or preprocessing, and another is given with it",
        ),
        ("pixels(size=8, preprocessing='decode')", None, "another is given with it"),
        ("npy:rows.npy(size=8)", None, "reads no images; leave size out"),
        ("pixels(depth=8)", None, r"There is no backbone 'pixels\(depth=8\)'; did you mean 'pixels'"),
    ],
)
def test_mistakes_in_sizes(
    name: str, preprocessing: str | None, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.npy").write_bytes(b"")
    with pytest.raises(UserError, match=complaint):
        load_backbone(name, preprocessing=preprocessing)


def test_the_name_stands_in_features_runs_and_tables(photos: Path, fresh_cache: Path, tmp_path: Path) -> None:
    """One network at its own size, at another and through a string: three series, wherever the name stands."""
    longshot.embed(photos, "pixels", preprocessing="decode|resize(7,7)").save(tmp_path / "seven.npy")
    sidecar = json.loads((tmp_path / "seven.json").read_text())
    assert sidecar["backbone"] == "pixels(preprocessing='decode|resize(7,7)')"
    testbed = longshot.sample(photos, tasks=4, way=3, shot=2, query=2)
    names = ["pixels", "pixels(size=8)", "pixels(size=16)"]
    seven = longshot.Features.load(tmp_path / "seven.npy")
    results = longshot.evaluate(
        {"easy": testbed}, backbones=[*names, seven], methods="protonet", out=tmp_path / "run"
    )
    shown = [*names, sidecar["backbone"]]
    assert [row["backbone"] for row in results.summary()] == shown
    run = json.loads((tmp_path / "run/run.json").read_text())
    assert set(run["backbones"]) == {entry["label"] for entry in run["networks"].values()} == set(shown)


def test_a_judge_at_another_size_is_still_the_judge(photos: Path, fresh_cache: Path) -> None:
    hard = longshot.sample(
        photos, tasks=4, way=3, shot=2, query=2, instances="difficult", judge="pixels(size=8)"
    )
    results = longshot.evaluate({"hard": hard}, backbones=["pixels", "pixels(size=4)"], methods="protonet")
    from longshot.evaluation import judges_in

    assert {backbone for _, backbone in judges_in(results.run)} == {"pixels", "pixels(size=4)"}
    with pytest.raises(UserError, match="one network, which cannot judge and be held out"):
        longshot.sample(
            photos,
            tasks=4,
            way=3,
            shot=2,
            query=2,
            instances="difficult",
            judge="pixels",
            held_out="pixels(size=8)",
        )


LABELS = {
    "Fruit/Apple/Granny-Smith": 948,
    "Fruit/Banana": 954,
    "Fruit/Lemon": 951,
    "Fruit/Pineapple": 953,
    "Vegetables/Cabbage": 936,
    "Vegetables/Pepper/Orange-Bell-Pepper": 945,
    "Vegetables/Pepper/Yellow-Bell-Pepper": 945,
    "Vegetables/Zucchini": 939,
}  # class of Grocery → label of ImageNet


def top_1(name: str, photographs: list[tuple[longshot.Dataset, int, int]]) -> float:
    """The share of photographs whose ImageNet label the whole network gives, its classifier included."""
    backbone = load(name)
    kind = import_module("efficientnet_lite_pytorch").EfficientNet
    network = kind.from_name(backbone.architecture)
    network.load_state_dict(torch.load(backbone.file, weights_only=True))  # type: ignore[attr-defined]
    images = torch.stack(
        [torch.from_numpy(backbone.transform(data.image(row))) for data, row, _ in photographs]
    )
    with torch.inference_mode():
        answers = network.eval()(images).argmax(1)
    return float((answers == torch.tensor([label for *_, label in photographs])).float().mean())


def test_known_photographs_get_their_imagenet_label(shared: Path) -> None:
    """With the published preprocessing the network answers as it was trained to; at 128 pixels it does not."""
    dataset = longshot.open_dataset(shared / "data" / "grocery128.zip")
    starts = {
        class_id: int(start) for class_id, start in zip(dataset.class_ids, dataset.offsets[:-1], strict=True)
    }
    photographs = [
        (dataset, starts[name] + number, label) for name, label in LABELS.items() for number in range(5)
    ]
    own, half = (top_1(name, photographs) for name in ("efficientnet-lite0", "efficientnet-lite0(size=128)"))
    assert own > 0.7
    assert own > half + 0.1
