"""What a network saw of its test images in training: by file, by pixels, by near copies, by classes; and clean sets."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from longshot.audit import find_overlap, leave_out_overlap
from longshot.data import Dataset, open_dataset, read_nouns, seen_classes
from longshot.models.leaks import (
    Stage,
    TestedImages,
    TrainingStage,
    digest_images,
    find_leaks,
    imagenet_classes,
    published_stage,
    read_seen,
    unpack_mask,
    write_seen,
)


def _noise(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (24, 24, 3), np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def trained(tmp_path: Path) -> Dataset:
    """Three classes of four images."""
    for number, name in enumerate(("tabby", "collie", "parrot")):
        for image in range(4):
            _noise(tmp_path / "trained" / name / f"{image}.png", 10 * number + image)
    return open_dataset(tmp_path / "trained")


def _stage(dataset: Dataset, rows: Any = None) -> Stage:
    classes = (
        dataset.class_ids if rows is None else tuple(dataset.class_ids[c] for c in set(dataset.labels[rows]))
    )
    facts = {"dataset": dataset.name, "fingerprint": dataset.fingerprint, "classes": classes}
    return TrainingStage(**facts), digest_images(dataset, rows)


def _tested(dataset: Dataset, *, by_content: bool = True) -> TestedImages:
    facts = (dataset.fingerprint, dataset.keys, dataset.class_ids, np.asarray(dataset.labels, np.int64), {})
    seen = digest_images(dataset)
    assert seen is not None
    return TestedImages(*facts, seen) if by_content else TestedImages(*facts)


def test_the_same_bytes_under_other_names_are_found(trained: Dataset, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "trained" / "tabby", tmp_path / "test" / "first")
    for image in range(5):
        _noise(tmp_path / "test" / "second" / f"{image}.png", 900 + image)
    tested = _tested(open_dataset(tmp_path / "test"))
    leak = find_leaks([_stage(trained)], tested)
    assert (leak["how"], leak["images"], leak["of_images"], leak["levels"]) == ("content", 4, 9, {"files": 4})
    assert (leak["classes"], leak["of_classes"], leak["class_ids"]) == (1, 2, ["first"])
    exact = find_overlap(trained, tmp_path / "test").of_kinds("exact")
    assert exact["key_b"].to_pylist() == [f"first/{image}.png" for image in range(4)]
    seen = unpack_mask(leak["leaked"], 9)
    assert [key for key, hit in zip(tested.keys.to_pylist(), seen, strict=True) if hit] == [
        f"first/{image}.png" for image in range(4)
    ]


def test_encoded_anew_without_loss_is_found_by_pixels(trained: Dataset, tmp_path: Path) -> None:
    for image in range(3):
        path = tmp_path / "test" / "class_1" / f"{image}.bmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.open(tmp_path / "trained" / "collie" / f"{image}.png").save(path)
    shutil.copy(tmp_path / "trained" / "collie" / "3.png", path.with_name("3.png"))
    leak = find_leaks([_stage(trained)], _tested(open_dataset(tmp_path / "test")))
    assert (leak["images"], leak["levels"]) == (4, {"files": 1, "pixels": 3})


def test_only_images_that_were_trained_on_count(trained: Dataset) -> None:
    """The test classes of the very same dataset are clean, by digests and by names alone."""
    first = np.arange(4)  # collie, by name
    leak = find_leaks([_stage(trained, first)], _tested(trained))
    assert (leak["images"], leak["classes"], leak["class_ids"]) == (4, 1, ["collie"])
    stage, _ = _stage(trained, first)
    by_name = find_leaks([(stage, None)], _tested(trained, by_content=False))
    assert (by_name["how"], by_name["images"], by_name["levels"]) == ("names", 4, {"names": 4})


def test_a_clean_set_has_no_leak(trained: Dataset, tmp_path: Path) -> None:
    for name in ("anvil", "kettle"):
        for image in range(3):
            _noise(tmp_path / "test" / name / f"{image}.png", 500 + image + len(name))
    leak = find_leaks([_stage(trained)], _tested(open_dataset(tmp_path / "test")))
    assert (leak["how"], leak["images"], leak["classes"], leak["leaked"]) == ("content", 0, 0, "")


def test_what_an_ancestor_saw_its_descendants_saw(trained: Dataset, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "trained" / "parrot", tmp_path / "own" / "bird")
    own = open_dataset(tmp_path / "own")
    write_seen(tmp_path, [digest_images(own), None, digest_images(trained)])
    seen = read_seen(tmp_path)
    assert sorted(seen) == [0, 2] and len(seen[0].files) == 4 and len(seen[2].pixels) == 12
    stages = [
        (_stage(own)[0], seen[0]),
        (published_stage("efficientnet-lite0"), None),
        (_stage(trained)[0], seen[2]),
    ]
    leak = find_leaks(stages, _tested(trained))
    assert (leak["images"], leak["levels"]) == (12, {"files": 12})  # each image once, whoever saw it
    assert leak["upstream"] == "own, ImageNet-1k, trained" and leak["not_known"] == ["ImageNet-1k"]


def test_near_copies_come_from_an_earlier_comparison(photos: Path, tmp_path: Path, fresh_cache: Path) -> None:
    """Nobody searches for them in an evaluation; where both datasets were compared before they count."""
    up = open_dataset(photos)
    for number, file in enumerate(sorted((photos / "round" / "gold").iterdir())[:6]):
        picture = Image.open(file)
        (tmp_path / "test" / "other").mkdir(parents=True, exist_ok=True)
        picture.save(tmp_path / "test" / "other" / f"{number}.jpg", quality=80)
        _noise(tmp_path / "test" / "noise" / f"{number}.png", number)
    tested = open_dataset(tmp_path / "test")
    assert find_leaks([_stage(up)], _tested(tested))["images"] == 0
    copied = set(find_overlap(up, tested).copies()["key_b"].to_pylist())
    leak = find_leaks([_stage(up)], _tested(tested))
    assert (
        leak["how"] == "content, near copies" and leak["levels"] == {"near": len(copied)} and len(copied) >= 4
    )
    find_overlap(up, tested, out=tmp_path / "shared.json")
    without = leave_out_overlap(up, tmp_path / "shared.json", out=tmp_path / "up.view.json")
    assert find_leaks([_stage(without.dataset)], _tested(tested))["images"] == 0


def test_classes_are_told_by_synset_and_by_name(tmp_path: Path) -> None:
    assert len(set(imagenet_classes())) == 1000
    ids = ["animals/n02123045", "n02084071"]  # tabby is one of the 1,000; dog is above some of them
    assert seen_classes(imagenet_classes(), ids, {}) == {"animals/n02123045"}
    if read_nouns() is not None:
        names = ["pets/Tabby_cat", "001.Granny-Smith", "class_7", "some-gadget"]
        labelled = {"class_7": "Border collie"}
        found_by_name = seen_classes(imagenet_classes(), names, labelled, read_nouns())
        assert found_by_name == {"pets/Tabby_cat", "001.Granny-Smith", "class_7"}


@pytest.mark.parametrize("name", ["7", "class_3", "char01", "Category 2", "b", "folder-x"])
def test_names_that_say_nothing_match_nothing(name: str) -> None:
    assert seen_classes([name, "tabby"], [name], {}) == set()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("efficientnet-lite2", True),
        ("timm:vit_base_patch16_224.augreg_in21k_ft_in1k", True),
        ("hf:microsoft/resnet-50", True),
        ("hf:facebook/dinov2-small", False),
        ("timm:vit_base_patch32_clip_224.openai", False),
        ("pixels", False),
        ("runs/in1k", False),
    ],
)
def test_published_weights_are_known_by_name(name: str, expected: bool) -> None:
    assert (published_stage(name).dataset is not None) is expected


def test_the_list_of_classes_is_that_of_ilsvrc(shared: Path) -> None:
    import json

    counts = json.loads((shared / "golden" / "ilsvrc_counts.json").read_text(encoding="utf-8"))
    assert set(imagenet_classes()) == set(counts)
