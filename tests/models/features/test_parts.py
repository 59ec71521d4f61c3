"""Part of a dataset: only the wanted images are embedded, and the cache grows to the same bytes in any order."""

from __future__ import annotations

import dataclasses
import os
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

import longshot
from longshot.base import UserError, cache_dir
from longshot.data import open_dataset
from longshot.models import Features, cache_entries, embed, embed_rows, estimate_embedding, open_backbone
from longshot.models.features import engine
from longshot.models.features.cache import GrowingArray
from longshot.models.features.engine import Engine
from mutating import mutate

SMALL = "decode|resize(4,4)"
SOME = np.arange(0, 1200, 7)
OTHER = np.arange(300, 600)


def embed_some(dataset: longshot.Dataset, rows: np.ndarray) -> Features:
    return embed_rows(dataset, "pixels", rows, preprocessing=SMALL)


@pytest.fixture(scope="module")
def everything(many: Path, tmp_path_factory: pytest.TempPathFactory) -> Features:
    """The features of all images, in a cache of their own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LONGSHOT_CACHE", str(tmp_path_factory.mktemp("whole")))
        return embed(many, "pixels", preprocessing=SMALL)


@pytest.fixture
def dataset(many: Path, fresh_cache: Path) -> longshot.Dataset:
    return open_dataset(many)


def grown(cache: Path) -> Path:
    (folder,) = (cache / "features").glob("*.grown-*")
    return folder


def test_only_the_wanted_images_are_read_and_embedded(
    dataset: longshot.Dataset, everything: Features, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[int] = set()
    encoded = type(dataset.store).encoded
    monkeypatch.setattr(
        type(dataset.store), "encoded", lambda store, row: (read.add(row), encoded(store, row))[1]
    )
    features = embed_some(dataset, SOME)
    assert features.work.images == len(SOME)
    assert read == set(SOME.tolist())
    assert features.array.shape == everything.array.shape
    assert np.array_equal(features.array[SOME], everything.array[SOME])


def test_a_later_request_computes_only_what_is_missing(
    dataset: longshot.Dataset, everything: Features
) -> None:
    embed_some(dataset, SOME)
    again = embed_some(dataset, SOME[:50])
    assert again.work.cached
    joint = embed_some(dataset, np.union1d(SOME, OTHER))
    assert joint.work.images == len(np.setdiff1d(OTHER, SOME))
    assert np.array_equal(joint.array[OTHER], everything.array[OTHER])
    completed = embed(dataset, "pixels", preprocessing=SMALL)
    assert completed.work.images == 1200 - len(np.union1d(SOME, OTHER))
    assert np.array_equal(completed.array, everything.array)
    assert completed.hash == everything.hash


@pytest.mark.parametrize("order", [(SOME, OTHER), (OTHER, SOME), (np.union1d(SOME, OTHER),)])
def test_the_array_has_the_same_bytes_in_any_order(
    dataset: longshot.Dataset, everything: Features, order: tuple[np.ndarray, ...]
) -> None:
    for rows in order:
        features = embed_some(dataset, rows)
    expected = np.array(everything.array)
    expected[np.setdiff1d(np.arange(1200), np.union1d(SOME, OTHER))] = 0
    assert np.array_equal(features.array, expected)


def test_the_whole_takes_the_place_of_its_parts_and_serves_them(
    dataset: longshot.Dataset, fresh_cache: Path, everything: Features
) -> None:
    embed_some(dataset, SOME)
    assert everything.path is not None
    completed = embed(dataset, "pixels", preprocessing=SMALL)
    assert completed.path is not None
    assert completed.path.read_bytes() == everything.path.read_bytes()
    assert not list((fresh_cache / "features").glob("*.grown-*"))
    part = embed_some(dataset, OTHER)
    assert part.work.cached
    assert part.path == completed.path


def test_the_hash_is_of_network_and_images_in_use(dataset: longshot.Dataset, everything: Features) -> None:
    first = embed_some(dataset, SOME)
    embed_some(dataset, OTHER)
    again = embed_some(dataset, SOME)  # another part was embedded in between
    assert first.hash == again.hash == everything.hash_of(SOME) == everything.restricted(SOME).hash
    assert first.hash != embed_some(dataset, OTHER).hash
    assert first.view == everything.view == first.hash[:32] == everything.hash[:32]
    assert first.content == longshot.data.content_digest(
        dataset.keys.take(SOME), longshot.data.image_digests(dataset, SOME)
    )


def test_rows_that_were_not_embedded_cannot_be_used_or_saved(
    dataset: longshot.Dataset, tmp_path: Path
) -> None:
    features = embed_some(dataset, SOME)
    features.check_used(SOME[3:9])
    with pytest.raises(UserError, match=r"hold 172 of 1,200 images, and 2 images in use .*'class0/001\.png'"):
        features.check_used(np.array([0, 1, 2]))
    with pytest.raises(UserError, match="hold 172 of 1,200 images"):
        features.save(tmp_path / "part.npy")
    assert "172 of them embedded" in repr(features)


def test_a_changed_image_is_embedded_anew_and_both_are_kept(
    many: Path, fresh_cache: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(many, copy)
    before = embed_some(open_dataset(many), SOME)
    assert embed_some(open_dataset(copy), SOME).work.cached
    shutil.copy(many / "class3/299.png", copy / "class0/007.png")
    after = embed_some(open_dataset(copy), SOME)
    assert after.work.images == 1
    assert after.hash != before.hash
    assert not np.array_equal(after.array[7], before.array[7])
    assert np.array_equal(after.array[SOME[2:]], before.array[SOME[2:]])
    assert embed_some(open_dataset(many), SOME).work.cached
    assert embed_some(open_dataset(copy), SOME).work.cached


def test_names_alone_have_a_hash_that_no_part_changes(dataset: longshot.Dataset) -> None:
    by_names = dataset.with_identity("names")
    some, other = embed_some(by_names, SOME), embed_some(by_names, OTHER)
    assert some.identity == "names" and some.digests is None
    assert some.hash == other.hash == embed(by_names, "pixels", preprocessing=SMALL).hash


def _change(folder: Path) -> None:
    file = max(folder.glob("*.rows"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _cut(folder: Path) -> None:
    file = max(folder.glob("*.rows"))
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize("spoil", [_change, _cut])
def test_damage_is_told_and_mended(  # type: ignore[no-untyped-def]
    dataset: longshot.Dataset,
    fresh_cache: Path,
    capsys: pytest.CaptureFixture[str],
    everything: Features,
    spoil,
) -> None:
    embed_some(dataset, SOME)
    spoil(grown(fresh_cache))
    features = embed_some(dataset, SOME)
    messages = capsys.readouterr().err
    assert "1 piece does not have the checksum that was recorded" in messages
    assert "172 of 172 images had to be embedded anew" in messages
    assert np.array_equal(features.array[SOME], everything.array[SOME])
    assert embed_some(dataset, SOME).work.cached
    assert "damaged" not in capsys.readouterr().err


def test_a_mutated_part_is_mended(dataset: longshot.Dataset, fresh_cache: Path, everything: Features) -> None:
    rows, rng = np.arange(40), np.random.default_rng(4)
    for turn in range(40):
        embed_some(dataset, rows)
        folder = grown(fresh_cache)
        files = sorted(folder.iterdir())
        mutate(files[turn % len(files)], rng)
        assert np.array_equal(embed_some(dataset, rows).array[rows], everything.array[rows])


def test_pieces_are_joined(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    array = GrowingArray(tmp_path / "part", 9, "float32")
    array.write(np.array([1, 2, 5, 8]), values, None)
    array.write(np.array([3]), values[:1], None)
    again = GrowingArray(tmp_path / "part", 9, "float32").read()
    assert not again.damage
    assert np.flatnonzero(again.held).tolist() == [1, 2, 3, 5, 8]
    assert np.array_equal(again.array, array.array)
    assert np.array_equal(again.array[[1, 2, 3, 5, 8]], values[[0, 1, 0, 2, 3]])
    assert not GrowingArray(tmp_path / "part", 9, "float16").read().held.any()


def test_work_that_was_interrupted_goes_on(
    dataset: longshot.Dataset, everything: Features, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, check, checked = np.arange(1100), engine._check, []

    def interrupt(*arguments: object) -> None:
        checked.append(arguments)
        if len(checked) == 2:
            raise KeyboardInterrupt
        check(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(engine, "_check", interrupt)
        embed_some(dataset, rows)
    assert estimate_embedding(dataset, "pixels", preprocessing=SMALL, rows=rows)["missing"] == 1100 - 512
    again = embed_some(dataset, rows)
    assert again.work.images == 1100 - 512
    assert np.array_equal(again.array[rows], everything.array[rows])


@pytest.mark.parametrize("read_only", [False, True])
def test_rows_from_several_caches(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, everything: Features, read_only: bool
) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    dataset = open_dataset(many)
    monkeypatch.setenv("LONGSHOT_CACHE", str(shared))
    embed_some(dataset, SOME)
    before = {file: file.read_bytes() for file in grown(shared).iterdir()}
    monkeypatch.setenv("LONGSHOT_CACHE", f"{own}{os.pathsep}{shared}")
    if read_only:
        writable = cache_dir("features")
        for module in ("longshot.models.features.lookup", "longshot.models.features.array_files"):
            monkeypatch.setattr(
                f"{module}.is_writable", lambda folder: folder.is_relative_to(writable.parent)
            )
    assert embed_some(dataset, SOME).work.cached
    joint = embed_some(dataset, np.union1d(SOME, OTHER))
    assert joint.work.images == len(np.setdiff1d(OTHER, SOME))
    assert np.array_equal(joint.array[OTHER], everything.array[OTHER])
    if read_only:
        assert joint.path is not None and joint.path.is_relative_to(own)
        assert all(file.read_bytes() == data for file, data in before.items())


def test_the_cache_lists_and_prunes_what_grew(dataset: longshot.Dataset, fresh_cache: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    embed_some(dataset, SOME)
    (entry,) = [entry for entry in cache_entries() if entry.kind == "features"]
    assert "172 of 1,200 images" in entry.name
    assert entry.bytes < 172 * (48 * 2 + 16) + 1000
    run_cli("cache", "prune", "--features", "--yes")
    assert not list((fresh_cache / "features").glob("*"))


def test_an_estimate_counts_what_is_missing(dataset: longshot.Dataset) -> None:
    embed_some(dataset, SOME)
    plan = estimate_embedding(dataset, "pixels", preprocessing=SMALL, rows=np.arange(14))
    assert (plan["images"], plan["missing"], plan["bytes"]) == (14, 12, 12 * 48 * 2)
    assert estimate_embedding(dataset, "pixels", preprocessing=SMALL)["missing"] == 1200 - 172


def test_given_features_serve_for_part_of_a_dataset(dataset: longshot.Dataset, everything: Features) -> None:
    part = embed_rows(dataset, everything, SOME)
    assert part.hash == everything.hash_of(SOME)
    assert part.used is not None and np.array_equal(part.used, SOME)
    array = embed_rows(dataset, np.asarray(everything.array, np.float32), OTHER)
    assert np.array_equal(array.array[OTHER], everything.array[OTHER])


def test_an_image_that_changes_while_embedding_is_told(
    many: Path, fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(many, copy)
    check = engine._check

    def change(*arguments: object) -> None:
        shutil.copy(many / "class3/299.png", copy / "class0/007.png")
        check(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "_check", change)
    with pytest.raises(UserError, match=r"changed while they were read \('class0/007\.png'\)"):
        embed_some(open_dataset(copy), SOME)


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("efficientnet-lite0", "torch"),
        ("efficientnet-lite0", "onnxruntime"),
        ("cnn4", "torch"),
        ("resnet12", "auto"),
    ],
)
def test_a_vector_depends_neither_on_its_place_nor_on_its_neighbours(
    dataset: longshot.Dataset, name: str, engine: str
) -> None:
    from longshot.models import get_network

    size = "decode|resize(32,32)|normalize(0.498,0.502)"
    network = name if name.startswith("eff") else get_network(name, size=(32, 32), seed=0)
    backbone = open_backbone(network, "cpu", preprocessing=size, engine=engine)
    backbone.settle(dataset, range(16))
    pixels = np.random.default_rng(0).integers(0, 255, (16, 32, 32, 3), dtype=np.uint8)
    with closing(Engine(backbone, dataset, 0)) as blocks, torch.inference_mode():
        together = blocks.forward(pixels)
        order = np.random.default_rng(1).permutation(16)
        assert np.array_equal(blocks.forward(pixels[order]), together[order])
        for position in (0, 7, 15):
            among_black = np.zeros_like(pixels)
            among_black[position] = pixels[3]
            assert np.array_equal(blocks.forward(among_black)[position], together[3])


def test_a_run_goes_on_with_features_of_the_whole(dataset: longshot.Dataset, tmp_path: Path) -> None:
    """A unit is known by the images that its tasks use, however they came to be embedded."""
    testbed = longshot.sample(dataset, tasks=5, way=3, shot=1, query=2)
    run = {"methods": "protonet", "out": tmp_path / "run"}
    longshot.evaluate(testbed, backbones="pixels", datasets={dataset.name: dataset}, **run)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").glob("part-*")}
    longshot.evaluate(testbed, backbones=embed(dataset, "pixels"), **run)
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "run").glob("part-*")} == before


def test_features_of_other_images_than_the_tasks_use_are_refused(dataset: longshot.Dataset) -> None:
    testbed = longshot.sample(dataset, tasks=5, way=3, shot=1, query=2, identity="names")
    with pytest.raises(UserError, match=r"hold 172 of 1,200 images, and \d+ images in use"):
        longshot.evaluate(testbed, backbones=embed_some(dataset, SOME), methods="protonet")


def test_toybox_draws_only_the_classes_that_tasks_use(fresh_cache: Path) -> None:
    """From drawing tasks to results, in a cache of its own."""
    testbed = longshot.sample("toybox", tasks=1, way=2, shot=1, query=2, split="test", seed=3)
    longshot.evaluate(testbed, backbones="pixels", methods="protonet")
    drawn_files = [file.stem for file in fresh_cache.glob("toybox/*/class-*.npy")]
    toybox = open_dataset("toybox")
    classes = [toybox.class_ids.index(class_id) for class_id in testbed[0].classes]
    assert sorted(drawn_files) == sorted(f"class-{number:03d}" for number in classes)


def test_features_of_another_dtype_have_another_view(everything: Features) -> None:
    assert dataclasses.replace(everything, array=everything.array.astype(np.float32)).view != everything.view
