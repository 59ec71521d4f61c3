"""Published task lists in the layout of the semantic task-sampling authors."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from longshot.base import UserError
from longshot.data import Dataset
from longshot.tasks import AnyShape, Testbed, sample
from longshot.tasks.published_tasks import read_published


@pytest.fixture(scope="module")
def dataset(make_dataset) -> Dataset:
    return make_dataset({f"{g}/{g}{c}": 12 for g in "ab" for c in range(4)})


@pytest.fixture(scope="module")
def bed(dataset: Dataset) -> Testbed:
    return sample(dataset, tasks=15, shape=AnyShape(max_way=5, max_shot=3, query=2))


def write(path: Path, bed: Testbed, dataset: Dataset, labels: str, images: str) -> Path:
    """The testbed as such a list, classes and images named in one of several ways."""
    rows = {key: row for row, key in enumerate(dataset.keys.to_pylist())}
    with path.open("w", newline="") as lines:
        table = csv.writer(lines)
        table.writerow(["", "task", "labels", "image_id", "support"])
        number = 0
        for task in bed:
            for part, keys, owner in (
                (True, task.support, task.support_label),
                (False, task.query, task.query_label),
            ):
                for key, label in zip(keys, owner, strict=True):
                    name = task.classes[label]
                    shown = {"id": name, "name": name.split("/")[-1], "number": dataset.class_index(name)}[
                        labels
                    ]
                    table.writerow([number, task.index, shown, key if images == "key" else rows[key], part])
                    number += 1
    return path


def content(bed: Testbed) -> list[tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]]:
    return [
        (
            frozenset(
                (key, task.classes[label])
                for key, label in zip(task.support, task.support_label, strict=True)
            ),
            frozenset(
                (key, task.classes[label]) for key, label in zip(task.query, task.query_label, strict=True)
            ),
        )
        for task in bed
    ]


@pytest.mark.parametrize("labels", ["id", "name", "number"])
@pytest.mark.parametrize("images", ["key", "row"])
def test_a_list_becomes_the_testbed_it_came_from(
    bed, dataset, tmp_path: Path, labels: str, images: str
) -> None:
    read = read_published(write(tmp_path / "list.csv", bed, dataset, labels, images), dataset)
    assert content(read) == content(bed)
    assert sorted(read.table.column("coarsity").to_pylist()) == pytest.approx(
        sorted(bed.table.column("coarsity").to_pylist())
    )


def test_the_testbed_is_bound_to_the_dataset(bed, dataset, tmp_path: Path) -> None:
    read = read_published(write(tmp_path / "list.csv", bed, dataset, "id", "key"), dataset)
    assert len(read.bind(dataset.name, dataset.keys, dataset.fingerprint)) == 15
    assert read.meta["sampler"]["name"] == "published" and read.meta["sampler"]["file"] == "list.csv"


GOOD = "task,labels,image_id,support\n0,a/a0,0,True\n0,a/a1,12,True\n0,a/a0,1,False\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task,labels,support\n", "lacks the column image_id; a published task list has task, labels"),
        ("task,labels,image_id,support\n", "lists no image"),
        (GOOD + "0,a/a9,2,True\n", "line 5: Dataset 'small' has no class 'a/a9'"),
        (GOOD + "0,a/a0,zzz,True\n", "line 5: dataset 'small' has no image 'zzz'"),
        (GOOD + "0,a/a0,999,True\n", r"line 5: dataset 'small' has no image '999'; .* \(0 to 95\)"),
        (GOOD + "0,a/a0,13,True\n", "line 5: image '13' belongs to class 'a/a1', not to 'a/a0'"),
        (GOOD + "0,a/a0,1,True\n", "line 5: image '1' occurs twice in task 0"),
        (GOOD + "0,a/a0,2,maybe\n", "line 5: support is 'maybe', but must be true or false"),
        (GOOD + "0,a/a0,,True\n", "line 5: a value is missing"),
        (
            GOOD + "0,a/a2,24,False\n",
            "line 2: task 0 is not a few-shot task: class 'a/a2' has queries but no support",
        ),
        (GOOD + "1,a/a0,3,True\n", "line 5: task 1 is not a few-shot task: it has 1 classes and 0 queries"),
    ],
)
def test_mistakes_name_the_line(dataset, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        read_published(tmp_path / "list.csv", dataset)


def test_a_file_that_is_not_there(dataset, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read as a CSV file"):
        read_published(tmp_path / "none.csv", dataset)
