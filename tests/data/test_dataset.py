"""The Dataset itself: order, keys, fingerprint, look-ups."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from longshot.base import UserError
from longshot.data import Dataset


class Grey:
    """A store whose pixels tell the row."""

    def read(self, row: int) -> Image.Image:
        return Image.new("RGB", (2, 2), (row, row, row))


def make(sizes: dict[str, int], **extra: object) -> Dataset:
    ids = tuple(sorted(sizes))
    offsets = np.cumsum([0, *(sizes[c] for c in ids)])
    keys = pa.array([f"{c}/{i}" for c in ids for i in range(sizes[c])], pa.string())
    return Dataset("d", ids, offsets, keys, Grey(), "nowhere", **extra)  # type: ignore[arg-type]


names = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=6)


@given(st.dictionaries(names, st.integers(1, 5), min_size=1, max_size=8))
def test_class_major(sizes: dict[str, int]) -> None:
    dataset = make(sizes)
    assert len(dataset) == sum(sizes.values()) == dataset.offsets[-1]
    for index, class_id in enumerate(dataset.class_ids):
        rows = dataset.rows(index)
        assert dataset.class_index(class_id) == index
        assert rows.stop - rows.start == sizes[class_id]
        assert (dataset.labels[rows] == index).all()
        assert dataset.keys[rows.start].as_py().startswith(class_id + "/")
    assert (np.diff(dataset.labels) >= 0).all()


@given(st.dictionaries(names, st.integers(1, 3), min_size=2, max_size=5), st.data())
def test_fingerprint_changes_with_any_key(sizes: dict[str, int], data: st.DataObject) -> None:
    other = dict(sizes)
    other[data.draw(st.sampled_from(sorted(sizes)))] += 1
    assert make(sizes).fingerprint != make(other).fingerprint


def test_fingerprint_ignores_all_but_classes_and_keys() -> None:
    plain = make({"a": 2, "b": 1})
    rich = make({"a": 2, "b": 1}, attributes=pa.table({"x": [1, 2, 3]}), splits={"train": ("a",)})
    assert plain.fingerprint == rich.fingerprint


def test_fingerprint_is_stable_across_versions() -> None:
    assert make({"a": 2, "b": 1}).fingerprint.startswith("df755bf8707c8b85")


def test_names_are_the_last_part() -> None:
    assert make({"Fruit/Apple": 1, "Milk": 1}).class_names == ("Apple", "Milk")


def test_unknown_class_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'Fruit/Apple'"):
        make({"Fruit/Apple": 1, "Milk": 1}).class_index("Fruit/Aple")


def test_class_name_alone_suggests_its_id() -> None:
    with pytest.raises(UserError, match="did you mean 'Fruit/Apple'"):
        make({"Fruit/Apple": 1, "Milk": 1}).class_index("Apple")


def test_find_rows_is_the_inverse_of_keys() -> None:
    dataset = make({"a": 3, "b": 2})
    rows = np.array([4, 0, 2, 0])
    assert (dataset.find_rows(dataset.keys.take(pa.array(rows))) == rows).all()


def test_find_rows_accepts_chunks() -> None:
    dataset = make({"a": 3, "b": 2})
    assert dataset.find_rows(pa.chunked_array([["b/1"], ["a/0"]])).tolist() == [4, 0]


def test_find_rows_names_what_is_missing() -> None:
    with pytest.raises(UserError, match=r"lacks 2 images of 3 asked for \('a/9', 'z/0'\)"):
        make({"a": 3, "b": 2}).find_rows(pa.array(["a/9", "a/0", "z/0"]))


def test_split_classes() -> None:
    dataset = make({"a": 1, "b": 1, "c": 1}, splits={"train": ("c", "a"), "validation": ("b",)})
    assert dataset.split_classes("train").tolist() == [0, 2]
    assert dataset.split_classes("val").tolist() == [1]
    assert dataset.split_classes(None).tolist() == [0, 1, 2]


def test_missing_split_is_an_error_that_lists_those_there_are() -> None:
    dataset = make({"a": 1}, splits={"train": ("a",)})
    with pytest.raises(UserError, match=r"no split 'test' \(splits found: train\)"):
        dataset.split_classes("test")


def test_empty_class_is_named() -> None:
    with pytest.raises(UserError, match="1 class without images \\('b'\\)"):
        make({"a": 1, "b": 0})


def test_repeated_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="unique"):
        Dataset("d", ("a",), np.array([0, 2]), pa.array(["k", "k"]), Grey(), "nowhere")


def test_images_come_from_the_store() -> None:
    assert make({"a": 3}).image(2).getpixel((0, 0)) == (2, 2, 2)


def test_pickles() -> None:
    dataset = make({"a": 3, "b": 1})
    assert pickle.loads(pickle.dumps(dataset)).fingerprint == dataset.fingerprint
