"""Sources of VTAB+MD: names and roles, datasets joined and cut, what is said to be absent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from longshot.base import UserError
from longshot.data import Dataset, open_dataset
from longshot.studies import get_study
from longshot.studies.engine.presets import open_data
from longshot.studies.engine.recipe import GivenDataset, given_datasets, read_given
from longshot.studies.vtab_md.vtab_md_sources import (
    MD,
    VTAB,
    CutSettings,
    StudySource,
    absence_sentences,
    cut_dataset,
    open_sources,
    relabelled,
    role_of,
    union,
)
from longshot.tasks import split_rows
from record_writers import feature, png, write_tfds

CUT = CutSettings(md=3, images=700, natural=("class",), specialized=(), structured=("viewpoint",))


def named_sources(**paths: object) -> dict[str, GivenDataset]:
    """Sources as ``open_sources`` takes them; ``role__name`` stands for ``role:name``."""
    names = {name.replace("__", ":").replace("_", "-"): path for name, path in paths.items()}
    return {name: GivenDataset(name, str(path)) for name, path in names.items()}


def test_names_tell_roles() -> None:
    assert role_of("omniglot") == ("md", "omniglot", True)
    assert role_of("dtd") == ("md", "dtd", True)  # no task of VTAB-v2
    assert role_of("pets") == ("natural", "pets", True)
    assert role_of("kitti-distance")[0] == "structured"
    assert role_of("md:mine") == ("md", "mine", False)
    assert role_of("upstream:ilsvrc_2012_v2") == ("upstream", "ilsvrc_2012_v2", False)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("vgg_flower", "is none of MD-v2's sources"),
        ("unnatural:mine", "call a source of your own by its role: md:NAME, natural:NAME"),
        ("natural:pets", "'pets' is a source of VTAB-v2 itself; write pets=PATH"),
        ("md:omniglot", "a source of MD-v2 itself"),
        ("", "is none of MD-v2's"),
    ],
)
def test_a_wrong_name_is_told(key: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        role_of(key)
    assert message in str(caught.value)


def test_what_is_given_is_named_or_plain() -> None:
    texts = ["omniglot=a/b=c.zip", "md:mine=here", "toybox", "vtab(task='pets'):tfds", "./a=b"]
    named, plain = read_given(given_datasets(texts))
    assert {name: dataset.data for name, dataset in named.items()} == {
        "omniglot": "a/b=c.zip",
        "md:mine": "here",
    }
    assert [dataset.data for dataset in plain] == ["toybox", "vtab(task='pets'):tfds", "./a=b"]
    assert read_given(given_datasets({"pets": "a=b"}))[0]["pets"].data == "a=b"
    with pytest.raises(UserError, match="'pets' is given twice"):
        read_given(given_datasets(["pets=a", "pets=b"]))


def test_two_plain_datasets_and_none_at_all_are_refused() -> None:
    study = get_study("vtab-md-small")
    with pytest.raises(UserError, match="2 datasets are given without a name"):
        open_data(study, ["toybox", "toybox"])
    with pytest.raises(UserError, match="at least 1 is needed"):
        open_data(study, [])
    with pytest.raises(UserError, match="at least 1 is needed"):
        open_data(study, ["upstream:boxes=toybox"])


def test_own_tasks_without_splits_are_shuffled_and_say_so(photos: Path) -> None:
    [source] = open_sources(named_sources(natural__pics=photos), seed=4)
    assert source.data.name == "pics" and not source.official
    assert (
        source.note == "pics: it has no column split, so its images were shuffled (seed 4) into 60/20/20 %."
    )
    assert [len(rows) for rows in split_rows(source.data).values()] == [144, 48, 48]


def test_a_tfds_folder_with_train_and_test_alone_is_a_big_episode(fresh_cache: Path, tmp_path: Path) -> None:
    pytest.importorskip("tfrecord", reason="needs the package tfrecord")
    records = {
        part: [{"image": (png(start + i), "byte"), "label": (i % 3, "int")} for i in range(size)]
        for part, start, size in (("train", 0, 20), ("test", 100, 6))
    }
    features = {"image": feature("image"), "label": feature("label", classes=3)}
    folder = write_tfds(
        tmp_path, "animals", records, features, shards=2, labels={"label": ["cat", "dog", "bird"]}
    )
    [source] = open_sources(named_sources(natural__animals=folder), seed=0)
    rows = split_rows(source.data)
    shades = {
        part: [int(np.asarray(source.data.image(int(row)))[0, 0, 0]) for row in rows[part]] for part in rows
    }
    assert shades == {"train": list(range(18)), "validation": [18, 19], "test": list(range(100, 106))}
    assert (
        not source.problem
        and "it has only train and test images and is cut as VTAB cuts CIFAR-100" in source.note
    )


def test_official_tasks_are_opened_as_such(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds neither the TFDS dataset oxford_iiit_pet"):
        open_sources(named_sources(pets=photos), seed=0)
    data = open_dataset(photos)
    lines = ["path,label,split,position"]
    for number, key in enumerate(data.keys.to_pylist()):
        split = ("train", "train", "validation", "test")[number % 4]
        lines.append(f"{photos / key},{number // 4 % 4},{split},{1000 - number}")
    table = tmp_path / "distances.csv"
    table.write_text("\n".join(lines), encoding="utf-8")
    [source] = open_sources(named_sources(kitti_distance=table), seed=0)
    assert (source.title, source.role, source.official) == ("KITTI-dist", "structured", True)
    assert [len(rows) for rows in split_rows(source.data).values()] == [120, 60, 60]
    first = str(source.data.keys[int(split_rows(source.data)["train"][0])])
    assert first == str(photos / data.keys[237].as_py())  # the lowest position


@pytest.fixture(scope="module")
def toybox() -> Dataset:
    return open_dataset("toybox")


def test_a_cut_keeps_upstream_and_test_classes_apart(toybox: Dataset) -> None:
    sources = cut_dataset(toybox, CUT, seed=0)
    assert [source.role for source in sources] == ["upstream", "md", "md", "md", "natural", "structured"]
    test = set(toybox.splits["test"])
    assert [len(source.data) for source in sources[4:]] == [700, 700]
    assert set(sources[4].data.class_ids) <= test
    number = dict(zip(toybox.keys.to_pylist(), toybox.labels.tolist(), strict=True))
    for source in sources[4:]:
        assert {toybox.class_ids[number[key]] for key in source.data.keys.to_pylist()} <= test
    assert toybox.attributes is not None
    views = dict(zip(toybox.keys.to_pylist(), toybox.attributes["viewpoint"].to_pylist(), strict=True))
    task = sources[5].data
    labels = [task.class_ids[label] for label in task.labels.tolist()]
    assert [views[key] for key in task.keys.to_pylist()] == labels


def test_an_unknown_attribute_is_left_out_and_told(toybox: Dataset) -> None:
    upstream, *tested = cut_dataset(toybox, CUT.model_copy(update={"structured": ("colour",)}), seed=0)
    assert upstream.note == "toybox has no attribute 'colour', so there is no such big episode."
    assert tested and not any(source.role == "structured" for source in tested)


def test_a_dataset_without_splits_is_halved(toybox: Dataset) -> None:
    upstream, *tested = cut_dataset(replace(toybox, splits={}), CUT, seed=0)
    train, test = upstream.data.splits["train"], upstream.data.splits["test"]
    assert (len(train), len(test)) == (120, 120) and not set(train) & set(test)
    assert "has no splits, so the study drew one" in upstream.note
    by_class = next(source for source in tested if source.role == "natural")
    assert set(by_class.data.class_ids) <= set(test)


def test_relabelled_rows_are_the_same_pictures(photos: Path) -> None:
    data = open_dataset(photos)
    labels = [str(row % 3) for row in range(len(data))]
    rows = np.arange(10, 200, 7)
    made = relabelled(data, "thirds", labels, rows)
    assert made.class_ids == ("0", "1", "2") and len(made) == len(rows)
    for row in (0, 11, len(made) - 1):
        [old] = data.find_rows(made.keys.slice(row, 1))
        assert made.image(row).tobytes() == data.image(int(old)).tobytes()
        assert made.class_ids[made.labels[row]] == labels[old]


def test_a_union_has_every_image_under_its_source(photos: Path, toybox: Dataset) -> None:
    data = {"b": toybox, "a": open_dataset(photos)}
    joined = union(data, ["a", "b"], ["b"])
    assert len(joined) == sum(len(part) for part in data.values())
    assert joined.class_ids == tuple(sorted(joined.class_ids))
    assert set(joined.splits["train"]) == {f"a/{c}" for c in data["a"].class_ids} | {
        f"b/{c}" for c in toybox.splits["train"]
    }
    assert set(joined.splits["validation"]) == {f"b/{c}" for c in toybox.splits["validation"]}
    assert joined.taxonomy is not None and set(joined.taxonomy.groups(joined.class_ids)) == {"a", "b"}
    for row in (0, 239, 240, len(joined) - 1):
        name, key = str(joined.keys[row]).split("/", 1)
        [old] = data[name].find_rows(pa.array([key], pa.string()))
        assert joined.image(row).tobytes() == data[name].image(int(old)).tobytes()
        assert (
            joined.class_ids[joined.labels[row]] == f"{name}/{data[name].class_ids[data[name].labels[old]]}"
        )


def test_absence_is_said_in_full(toybox: Dataset) -> None:
    here = [StudySource("omniglot", "md", toybox, True), StudySource("mine", "natural", toybox, False)]
    first, second, third = absence_sentences(here)
    assert first.startswith("7 of the 8 of MD-v2's sources are absent: 'Aircraft', 'Birds'")
    assert second == "None of the 18 of VTAB-v2's tasks is here."
    assert third == "1 source of your own, of neither benchmark: 'mine'."
    every = [StudySource(name, "md", toybox, True) for name in MD]
    every += [StudySource(name, task.group, toybox, True) for name, task in VTAB.items()]
    assert absence_sentences(every) == []
