"""Training tasks and batches as a submission draws them, and the messages between it and the organiser."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longshot.arena.inside import feed, wire
from longshot.arena.inside.feed import ConfigError, FeedSource


def source(name: str, sizes: list[int], first_class: int = 0) -> FeedSource:
    """A dataset whose image number i is filled with i."""
    count = sum(sizes)
    pixels = np.repeat(np.arange(count, dtype=np.uint8), 12).reshape(count, 2, 2, 3)
    return FeedSource(name, pixels, np.concatenate([[0], np.cumsum(sizes)]), first_class)


def rows(images: torch.Tensor) -> list[int]:
    """Which images these are."""
    return [round(float(value) * 255) for value in images[:, 0, 0, 0]]


def config(**settings: Any) -> dict[str, Any]:
    return {**feed.TASKS, **settings}


def test_images_are_between_0_and_1_with_channels_first():
    pixels = np.zeros((1, 2, 3, 3), np.uint8)
    pixels[0, 1, 2] = (0, 51, 255)
    images = feed.images(pixels)
    assert images.shape == (1, 3, 2, 3) and images.dtype == torch.float32
    assert images[0, :, 1, 2].tolist() == pytest.approx([0.0, 0.2, 1.0], abs=1e-7)


def test_a_task_has_as_many_images_of_every_class_and_none_twice():
    drawn_from = source("d", [6, 6, 6], first_class=10)
    for seed in range(20):
        task = feed.draw_task(
            drawn_from, config(N=2, k=2, query_images_per_class=4), np.random.default_rng(seed)
        )
        assert (task.num_ways, task.num_shots, task.dataset) == (2, 2, "d")
        classes = [number - 10 for number in task.original_class_idx]
        for (images, labels, original), each in ((task.support_set, 2), (task.query_set, 4)):
            assert labels.tolist() == [0] * each + [1] * each
            assert original.tolist() == [10 + classes[0]] * each + [10 + classes[1]] * each
            assert [row // 6 for row in rows(images)] == [classes[0]] * each + [classes[1]] * each
        together = rows(task.support_set[0]) + rows(task.query_set[0])
        assert len(set(together)) == 12


def test_ways_and_shots_reach_their_bounds_and_no_further():
    drawn_from, rng = source("d", [5, 5, 5, 3, 2]), np.random.default_rng(0)
    settings = config(N=None, min_N=2, max_N=20, min_k=1, max_k=20, query_images_per_class=2)
    tasks = [feed.draw_task(drawn_from, settings, rng) for _ in range(200)]
    # The last class has no image beyond its queries; the smallest of the others leaves one shot.
    assert {task.num_ways for task in tasks} == {2, 3, 4}
    assert {task.num_shots for task in tasks} == {1}
    wide = [feed.draw_task(source("d", [5] * 3), settings, rng) for _ in range(200)]
    assert {task.num_shots for task in wide} == {1, 2, 3}
    fixed = feed.draw_task(source("d", [5] * 3), config(N=9, k=9, query_images_per_class=2), rng)
    assert (fixed.num_ways, fixed.num_shots) == (3, 3)


def test_a_dataset_with_one_class_of_enough_images_has_no_tasks():
    with pytest.raises(ConfigError) as caught:
        feed.draw_task(source("d", [5, 2]), config(query_images_per_class=2), np.random.default_rng(0))
    assert str(caught.value) == "dataset 'd' has 1 classes of more than 2 images, 1 are needed"


def test_batches_number_the_classes_of_all_datasets_without_a_gap():
    sources = [source("a", [2, 3], first_class=7), source("b", [4], first_class=30)]
    generate = feed.batch_generator(sources, 9, np.random.default_rng(1))
    batches = list(generate(2))
    assert len(batches) == 2
    for images, labels in batches:
        assert sorted(labels.tolist()) == [0, 0, 1, 1, 1, 2, 2, 2, 2]
        pairs = sorted(zip(labels.tolist(), rows(images), strict=True))
        assert pairs == [(0, 0), (0, 1), (1, 2), (1, 3), (1, 4), (2, 0), (2, 1), (2, 2), (2, 3)]
    (larger,) = feed.batch_generator(sources, 10, np.random.default_rng(1))(1)
    assert len(larger[1]) == 10  # more than there are: some twice


def test_datasets_are_held_out_by_number_or_by_name():
    sources = [source(name, [2, 2]) for name in "abc"]
    rng = np.random.default_rng(0)
    assert feed.hold_out(sources, None, rng) == (sources, [])
    train, held = feed.hold_out(sources, 2, rng)
    assert (len(train), len(held)) == (1, 2) and {each.name for each in (*train, *held)} == set("abc")
    train, held = feed.hold_out(sources, ["b"], rng)
    assert ([each.name for each in train], [each.name for each in held]) == (["a", "c"], ["b"])
    for validation, words in (
        (3, "3 validation datasets are wanted and there are 3 in all"),
        (["z"], "there is no dataset 'z' to validate on; there are: a, b, c"),
        (["a", "b", "c"], "all datasets are held out for validation and none is left to train on"),
    ):
        with pytest.raises(ConfigError, match=words):
            feed.hold_out(sources, validation, rng)


@pytest.mark.parametrize(("datasets", "expected"), [(2, 1), (3, 1), (5, 2), (10, 3)])
def test_a_share_of_the_datasets_is_held_out(datasets, expected):
    sources = [source(f"d{number}", [2, 2]) for number in range(datasets)]
    splits = [feed.hold_out(sources, 0.3, np.random.default_rng(seed)) for seed in range(20)]
    for train, held in splits:
        assert (len(train), len(held)) == (datasets - expected, expected)
        assert {each.name for each in (*train, *held)} == {each.name for each in sources}
    assert len({tuple(each.name for each in held) for _, held in splits}) > 1  # by the seed of the run


def test_of_one_dataset_classes_are_held_out():
    dataset = source("d", [2, 3, 4, 5, 6, 7], first_class=10)
    (train,), (held,) = feed.hold_out([dataset], 0.3, np.random.default_rng(0))
    assert (train.name, held.name, len(train.sizes), len(held.sizes)) == ("d", "d", 4, 2)
    assert sorted([*train.numbers, *held.numbers]) == list(range(10, 16))
    owner = np.repeat(np.arange(6), [2, 3, 4, 5, 6, 7])  # of each row
    (images, labels), *_ = feed.batch_generator([train], int(train.sizes.sum()), np.random.default_rng(0))(1)
    assert {(int(label), int(owner[row])) for label, row in zip(labels, rows(images), strict=True)} == {
        (position, int(number) - 10) for position, number in enumerate(train.numbers)
    }
    settings = config(N=2, k=1, query_images_per_class=1)
    for seed in range(10):
        task = feed.draw_task(held, settings, np.random.default_rng(seed))
        assert set(task.original_class_idx) == set(held.numbers)
        shown = [int(owner[row]) + 10 for row in rows(task.support_set[0])]
        assert shown == task.support_set[2].tolist()


@pytest.mark.parametrize(
    ("share", "sizes", "words"),
    [
        (0.3, [5, 5, 5], "dataset 'd' has 3 classes; 2 to validate on and 2 to train on are needed"),
        (1.5, [5] * 9, "validation_datasets is 1.5; a share must lie between 0 and 1"),
    ],
)
def test_a_share_that_cannot_be_held_out(share, sizes, words):
    with pytest.raises(ConfigError, match=words):
        feed.hold_out([source("d", sizes)], share, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "config.json is not JSON"),
        ("[]", "config.json must hold an object"),
        ('{"speed": 1}', "unknown key 'speed'; there are: train_data_format, batch_size"),
        ('{"train_config": {"n": 1}}', "train_config has an unknown key 'n'; there are: N, min_N"),
        ('{"train_data_format": "rows"}', "train_data_format is 'rows'; it must be 'task' or 'batch'"),
    ],
)
def test_what_config_json_cannot_say(tmp_path: Path, text, words):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=words):
        feed.read_config(tmp_path / "config.json")


def test_config_json_replaces_single_settings(tmp_path: Path):
    default = feed.read_config(tmp_path / "config.json")
    shots = {"k": None, "min_k": 1, "max_k": 20, "query_images_per_class": 20}
    assert default == {
        "train_data_format": "task",
        "batch_size": 16,
        "validation_datasets": None,
        "train_config": {"N": 5, "min_N": None, "max_N": None, **shots},
        "valid_config": {"N": None, "min_N": 2, "max_N": 20, **shots},
    }
    (tmp_path / "config.json").write_text(json.dumps({"batch_size": 4, "valid_config": {"k": 3}}))
    read = feed.read_config(tmp_path / "config.json")
    assert read == {**default, "batch_size": 4, "valid_config": {**feed.VALID, "k": 3}}
    assert feed.VALID["k"] is None  # the defaults themselves stay


def test_sources_count_their_classes_one_after_the_other(tmp_path: Path):
    entries = [
        {"name": name, "file": f"{name}.npy", "offsets": offsets, "classes": []}
        for name, offsets in (("a", [0, 1, 3]), ("b", [0, 2]), ("c", [0, 1, 2, 3]))
    ]
    for entry in entries:
        np.save(tmp_path / entry["file"], np.zeros((entry["offsets"][-1], 2, 2, 3), np.uint8))
    (tmp_path / "index.json").write_text(json.dumps({"datasets": entries}))
    sources = feed.open_sources(tmp_path)
    assert [(each.name, each.first_class, each.sizes.tolist()) for each in sources] == [
        ("a", 0, [1, 2]),
        ("b", 2, [2]),
        ("c", 3, [1, 1, 1]),
    ]


def through(arrays: dict[str, np.ndarray[Any, Any]], max_bytes: int) -> wire.Message:
    """A message sent and received."""
    read, write = os.pipe()
    try:
        wire.send(write, "kind", {"a": 1}, **arrays)
        return wire.receive(read, max_bytes)
    finally:
        os.close(read)
        os.close(write)


def test_a_message_comes_out_as_it_went_in():
    arrays = {
        "images": np.arange(24, dtype=np.uint8).reshape(2, 3, 4)[:, ::2],
        "labels": np.array([-1, 2**40]),
        "none": np.zeros((0, 5), np.float32),
    }
    message = through(arrays, 1_000)
    assert (message.kind, message.fields, list(message.arrays)) == ("kind", {"a": 1}, list(arrays))
    for name, array in arrays.items():
        assert message.arrays[name].dtype == array.dtype
        assert np.array_equal(message.arrays[name], array)


def test_arrays_may_have_all_the_bytes_allowed_and_not_one_more():
    arrays = {"a": np.zeros(3, np.float32), "b": np.zeros(5, np.uint8)}
    assert len(through(arrays, 17).arrays) == 2
    with pytest.raises(wire.WireError, match="more than the 16 bytes allowed were announced"):
        through(arrays, 16)
    assert through({"a": np.zeros((1,) * 8, np.uint8)}, 1).arrays["a"].ndim == 8
    with pytest.raises(wire.WireError, match="'uint8' and 9 dimensions is not allowed"):
        through({"a": np.zeros((1,) * 9, np.uint8)}, 1)
    with pytest.raises(wire.WireError, match="'int32' and 1 dimensions is not allowed"):
        through({"a": np.zeros(1, np.int32)}, 9)


def test_a_header_has_at_most_a_megabyte():
    read, write = os.pipe()
    try:
        os.write(write, ((1 << 20) + 1).to_bytes(8, "big"))
        with pytest.raises(
            wire.WireError, match="header of 1,048,577 bytes was announced, at most 1,048,576"
        ):
            wire.receive(read, 1)
        os.write(write, (0).to_bytes(8, "big"))
        with pytest.raises(wire.WireError, match="header of 0 bytes"):
            wire.receive(read, 1)
    finally:
        os.close(read)
        os.close(write)


def test_a_silent_pipe_ends_on_time():
    read, write = os.pipe()
    os.set_blocking(read, False)
    begun = time.monotonic()
    try:
        with pytest.raises(wire.Timeout):
            wire.receive(read, 1, begun + 0.2)
        assert 0.2 <= time.monotonic() - begun < 5  # not at once, and not for ever
    finally:
        os.close(read)
        os.close(write)
