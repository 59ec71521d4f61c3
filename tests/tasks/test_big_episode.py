"""Big episodes: the first images of train and validation, all of test, classes without support, blocks."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.data import Dataset, cut_splits
from longshot.evaluation import evaluate
from longshot.tasks import BigEpisode, Testbed, shuffled_splits, split_rows, with_splits
from longshot.tasks.big_episode import CUTS

SMALL = BigEpisode(train=12, validation=5)
CLASSES, EACH = 4, 15


@dataclass(frozen=True)
class Colours:
    """Images that are one colour each, close to that of their class."""

    values: np.ndarray

    def read(self, row: int) -> Image.Image:
        return Image.new("RGB", (20, 20), tuple(self.values[row].tolist()))


@pytest.fixture
def data() -> Dataset:
    """60 images; in the order of ``position`` train has no image of the class 'd' among its first 12."""
    rng = np.random.default_rng(3)
    rows = CLASSES * EACH
    labels = np.repeat(np.arange(CLASSES), EACH)
    colours = rng.integers(0, 256, size=(CLASSES, 3))[labels] + rng.integers(-60, 61, size=(rows, 3))
    split = np.tile(["train"] * 7 + ["validation"] * 3 + ["test"] * 5, CLASSES)
    position = np.empty(rows, np.int64)
    for part in ("train", "validation", "test"):
        members = np.flatnonzero(split == part)
        # the class 'd' last in train and validation, everything mixed in test
        late = labels[members] == CLASSES - 1 if part != "test" else np.zeros(len(members), bool)
        order = np.lexsort((rng.random(len(members)), late))
        position[members[order]] = np.arange(len(members)) * 10 + 3  # places need not be 0, 1, 2 …
    return Dataset(
        name="colours",
        class_ids=tuple("abcd"),
        offsets=np.arange(CLASSES + 1) * EACH,
        keys=pa.array([f"{'abcd'[label]}/{number}" for number, label in enumerate(labels)]),
        store=Colours(np.clip(colours, 0, 255)),
        source="colours",
        attributes=pa.table({"split": split.tolist(), "position": position}),
    )


def by_hand(data: Dataset, part: str) -> list[str]:
    """Keys of a split in the order of position, without the code under test."""
    assert data.attributes is not None
    columns = (data.keys.to_pylist(), *(data.attributes[name].to_pylist() for name in ("split", "position")))
    return [key for _, key in sorted((p, k) for k, s, p in zip(*columns, strict=True) if s == part)]


def test_the_support_are_the_first_images_of_train_and_validation(data: Dataset) -> None:
    task = SMALL.final(data)[0]
    expected = by_hand(data, "train")[:12] + by_hand(data, "validation")[:5]
    assert sorted(task.support) == sorted(expected)
    assert sorted(task.query) == sorted(by_hand(data, "test"))


def test_labels_and_shots_fit_the_classes_and_one_class_has_no_support(data: Dataset) -> None:
    task = SMALL.final(data)[0]
    assert task.classes == ("a", "b", "c", "d")
    assert [key[0] for key in task.support] == ["abcd"[label] for label in task.support_label]
    assert [key[0] for key in task.query] == ["abcd"[label] for label in task.query_label]
    assert task.shots[3] == 0 and sum(task.shots) == 17


def test_settings_are_chosen_without_a_test_image(data: Dataset) -> None:
    task = SMALL.choice(data)[0]
    assert sorted(task.support) == sorted(by_hand(data, "train")[:12])
    assert sorted(task.query) == sorted(by_hand(data, "validation")[:5])


def test_trainval_takes_train_first(data: Dataset) -> None:
    big = replace(SMALL, support="trainval")
    expected = (by_hand(data, "train") + by_hand(data, "validation"))[:17]
    bed = big.final(data)
    assert sorted(bed[0].support) == sorted(expected)
    assert bed.meta["sampler"]["big_episode"]["support"] == "trainval"
    longer = replace(big, train=25).final(data)[0]  # train has 28
    assert sorted(longer.support) == sorted((by_hand(data, "train") + by_hand(data, "validation"))[:30])


def test_blocks_share_the_support_and_lose_no_query(data: Dataset) -> None:
    bed = replace(SMALL, block=6).final(data)
    assert [len(task.query) for task in bed] == [6, 6, 6, 2]  # the last one is kept
    assert {task.support for task in bed} == {SMALL.final(data)[0].support}
    assert sorted(key for task in bed for key in task.query) == sorted(by_hand(data, "test"))


def test_query_takes_the_first_of_test(data: Dataset) -> None:
    task = replace(SMALL, query=7).final(data)[0]
    assert sorted(task.query) == sorted(by_hand(data, "test")[:7])


def test_the_testbed_is_a_function_of_data_and_settings(data: Dataset, tmp_path: Path) -> None:
    bed = SMALL.final(data)
    assert bed.content_hash == SMALL.final(data).content_hash
    assert bed.content_hash != replace(SMALL, block=6).final(data).content_hash
    bed.save(tmp_path / "bed.parquet")
    assert Testbed.load(tmp_path / "bed.parquet").content_hash == bed.content_hash


@pytest.mark.parametrize("method", ["protonet", "ridge", "nearest-neighbour"])
def test_blocks_weighted_by_their_images_are_the_whole(data: Dataset, tmp_path: Path, method: str) -> None:
    beds = {"whole": SMALL.final(data), "blocks": replace(SMALL, block=6).final(data)}
    results = evaluate(
        beds, backbones="pixels", methods=method, out=tmp_path, datasets={"colours": data}, workers=1
    )
    table = results.table()
    accuracy = {
        name: np.average(rows["accuracy"].to_numpy(), weights=[len(task.query) for task in bed])
        for name, bed in beds.items()
        for rows in [table.filter(np.array(table["testbed_name"].to_pylist()) == name)]
    }
    assert accuracy["blocks"] == pytest.approx(accuracy["whole"], abs=1e-12)
    assert 0.3 < accuracy["whole"] <= 0.75 + 1e-9  # 'd', a quarter of the queries, cannot be right
    predicted = {label for row in table["prediction"].to_pylist() for label in row}
    assert predicted <= {0, 1, 2}


def test_shuffled_splits_divide_all_images_by_seed(data: Dataset) -> None:
    bare = replace(data, attributes=None)
    first, same, other = (shuffled_splits(bare, seed) for seed in (0, 0, 1))
    parts = split_rows(first)
    assert [len(rows) for rows in parts.values()] == [36, 12, 12]
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(60))
    assert all(np.array_equal(parts[name], split_rows(same)[name]) for name in parts)
    assert not np.array_equal(parts["test"], split_rows(other)["test"])


def without(data: Dataset, column: str) -> Dataset:
    assert data.attributes is not None
    return replace(data, attributes=data.attributes.drop_columns([column]))


def changed(data: Dataset, column: str, values: list[object]) -> Dataset:
    assert data.attributes is not None
    index = data.attributes.column_names.index(column)
    return replace(data, attributes=data.attributes.set_column(index, column, pa.array(values)))


@pytest.mark.parametrize(
    ("task", "official"),
    [
        ("cifar100", {"train": 50_000, "test": 10_000}),
        ("svhn", {"train": 73_257, "test": 26_032}),
        ("clevr_count", {"train": 70_000, "validation": 15_000}),
        ("eurosat", {"train": 27_000}),
    ],
)
def test_what_is_lacking_is_cut_as_vtab_cuts_its_own(
    task: str, official: dict[str, int], shared: Path
) -> None:
    sizes = json.loads((shared / "golden" / "vtab_splits.json").read_text(encoding="utf-8"))[task]
    pieces, _ = CUTS[tuple(official)]
    slices = {part: stop - start for part, (_, start, stop) in cut_splits(pieces, official).items()}
    assert slices == {"train": sizes["train"], "validation": sizes["val"], "test": sizes["test"]}


def without_split(data: Dataset, part: str, **more: str) -> Dataset:
    """The dataset with the images of a split in another one, or in none."""
    assert data.attributes is not None
    names = [
        more.get("into", "extra") if name == part else name for name in data.attributes["split"].to_pylist()
    ]
    return replace(data, attributes=data.attributes.set_column(0, "split", [names]))


def test_train_and_test_alone_become_three_splits_in_their_order(data: Dataset) -> None:
    train, test = by_hand(data, "train"), by_hand(data, "test")
    made, words = with_splits(without_split(data, "validation"), seed=0)
    rows = split_rows(made)
    keys = {part: made.keys.take(pa.array(rows[part])).to_pylist() for part in rows}
    assert keys == {
        "train": train[:25],
        "validation": train[25:],
        "test": test,
    }  # 28 train images: 90 % are 25
    assert words.startswith("it has only train and test images and is cut as VTAB cuts CIFAR-100")
    assert BigEpisode(train=12, validation=3).final(made)[0].support


def test_a_whole_dataset_stays_as_it_is_and_one_split_is_cut_in_three(data: Dataset) -> None:
    assert with_splits(data, seed=0) == (data, "")
    alone = without_split(without_split(data, "validation", into="train"), "test")
    assert data.attributes is not None and alone.attributes is not None
    places = pa.array(np.arange(len(data)))
    alone = replace(alone, attributes=alone.attributes.set_column(1, "position", places))
    made, words = with_splits(alone, seed=0)
    assert [len(rows) for rows in split_rows(made).values()] == [24, 8, 8]  # of 40 images
    assert "EuroSAT: 60, 20 and 20 %" in words


def test_an_order_is_drawn_where_there_is_none(data: Dataset) -> None:
    assert data.attributes is not None
    unordered = replace(data, attributes=data.attributes.drop_columns(["position"]))
    made, words = with_splits(unordered, seed=3)
    assert words == "it has no column position, so the order of its images was drawn (seed 3)"
    assert sorted(split_rows(made)["test"]) == sorted(split_rows(data)["test"])
    again, _ = with_splits(unordered, seed=3)
    assert made.attributes is not None and made.attributes.equals(again.attributes)


def test_splits_without_train_images_are_refused(data: Dataset) -> None:
    with pytest.raises(UserError, match="has 0 train images among its 60"):
        with_splits(without_split(data, "train"), seed=0)


@pytest.mark.parametrize("column", ["split", "position"])
def test_a_missing_column_is_named(data: Dataset, column: str) -> None:
    with pytest.raises(UserError, match=f"'colours' has no attribute '{column}'"):
        SMALL.final(without(data, column))


def test_too_few_images_are_counted(data: Dataset) -> None:
    with pytest.raises(UserError, match="has 28 images in train, but a big episode takes the first 800"):
        BigEpisode().final(data)


def test_an_order_that_is_not_known_is_refused(data: Dataset) -> None:
    with pytest.raises(UserError, match="names a place twice among the 28 train images"):
        SMALL.final(changed(data, "position", [0] * 60))
    with pytest.raises(UserError, match="whole numbers without gaps are needed"):
        SMALL.final(changed(data, "position", [None, *range(59)]))
    numbered = changed(data, "position", list(range(60)))
    with pytest.raises(UserError, match="has 0 test images among its 60"):
        SMALL.final(changed(numbered, "split", ["train", "validation"] * 30))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"support": "first"}, "no support 'first'; choose 'train800val200' or 'trainval'"),
        ({"train": 0}, "train is 0; it must be a whole number of at least 1"),
        ({"block": 0}, "block is 0; it must be a whole number of at least 1"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        BigEpisode(**wrong)  # type: ignore[arg-type]
