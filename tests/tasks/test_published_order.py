"""Lists in the form of the published better-tieredImageNet testbeds: an order of classes, support alone, a variance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longshot
from longshot.base import UserError
from longshot.data import Dataset, class_distances, coarsity
from longshot.tasks import Testbed, sample
from longshot.tasks.published_names import read_class_order

SIZES = {"a/a0": 12, "a/a1": 12, "a/a2": 12, "b/b0": 12, "b/b1": 12, "b/b2": 12}
ORDER = ["b/b1", "a/a2", "b/b0", "a/a0", "b/b2", "a/a1"]  # the authors' own, not sorted
TASKS = [(0, 1, 3), (2, 4, 5), (1, 3, 5), (0, 2, 4)]  # positions in it


@pytest.fixture(scope="module")
def dataset(make_dataset: Any) -> Dataset:
    return make_dataset(SIZES)


def write(file: Path, dataset: Dataset, tasks: Sequence[Sequence[int]], wrong: float = 0.0) -> Path:
    """The list as the authors print it: one support image of each class, the variance on each row."""
    distances = class_distances(dataset.taxonomy, ORDER, [SIZES[name] for name in ORDER])
    lines, number = [",task,variance,labels,image_id,support"], 0
    for task, labels in enumerate(tasks):
        variance = float(coarsity(distances, [list(labels)])[0]) + (wrong if task == 2 else 0)
        for label in labels:
            lines.append(f"{number},{task},{variance!r},{label},{12 * label + task},True")
            number += 1
    file.write_text("\n".join(lines) + "\n")
    return file


def read(file: Path, dataset: Dataset, **settings: Any) -> Testbed:
    return sample(dataset, published=file, identity="names", **{"class_order": ORDER, **settings})


def test_labels_and_images_count_in_the_given_order(dataset: Dataset, tmp_path: Path) -> None:
    bed = read(write(tmp_path / "list.csv", dataset, TASKS), dataset, query=3, seed=7)
    assert [task.classes for task in bed] == [tuple(sorted(ORDER[c] for c in labels)) for labels in TASKS]
    for number, task in enumerate(bed):
        assert set(task.support) == {f"{name}/{number:04d}.jpg" for name in task.classes}
        assert np.bincount(task.query_label).tolist() == [3] * 3
        assert not set(task.query) & set(task.support)
        owners = [key.rsplit("/", 1)[0] for key in task.query]
        assert owners == [task.classes[label] for label in task.query_label]
    assert bed.meta["seed"] == 7 and bed.meta["sampler"]["query"] == 3
    assert "drawn uniformly from the images of their class" in bed.meta["sampler"]["queries"]
    again = read(tmp_path / "list.csv", dataset, query=3, seed=7)
    assert again.content_hash == bed.content_hash
    assert read(tmp_path / "list.csv", dataset, query=3, seed=8).content_hash != bed.content_hash


def test_a_list_of_support_is_kept_with_a_note_unless_queries_are_asked_for(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bed = read(write(tmp_path / "list.csv", dataset, TASKS), dataset)
    assert [len(task.query) for task in bed] == [0] * 4 and bed.meta["seed"] is None
    assert "its 4 tasks have no queries: query=10 draws so many" in capsys.readouterr().err


def test_a_wrong_order_is_exposed_by_the_variance(dataset: Dataset, tmp_path: Path) -> None:
    """All classes have 12 images, so that no image is out of place."""
    file = write(tmp_path / "list.csv", dataset, TASKS)
    with pytest.raises(
        UserError, match="contradicts the classes of 2 of its 4 tasks: task 2 has the coarsity"
    ) as caught:
        read(file, dataset, class_order=sorted(ORDER), query=3)
    assert "give the class_order and the taxonomy or distances that it was made with" in str(caught.value)


def test_a_wrong_order_is_exposed_by_class_sizes(make_dataset: Any, tmp_path: Path) -> None:
    dataset = make_dataset({**SIZES, "a/a0": 30})
    file = tmp_path / "list.csv"
    file.write_text("task,labels,image_id,support\n0,3,36,True\n0,4,66,True\n")
    assert read(file, dataset, query=1)[0].support == ("a/a0/0000.jpg", "b/b2/0000.jpg")
    with pytest.raises(
        UserError, match=r"line 2: by the class order image 36 belongs to class 'a/a1' \(images 30 to"
    ):
        read(file, dataset, class_order=sorted(ORDER), query=1)


def test_a_wrong_variance_names_the_task(dataset: Dataset, tmp_path: Path) -> None:
    file = write(tmp_path / "list.csv", dataset, TASKS, wrong=0.01)
    with pytest.raises(UserError, match="the classes of 1 of its 4 tasks: task 2 has the coarsity"):
        read(file, dataset, query=3)


def test_another_reduction_is_recognised(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree is its own reduction, so the reduction is played by a measure that halves."""
    from longshot.tasks import published_tasks

    def halved(pool: Any, classes: Any, reduction: str | None) -> Any:
        measure = MEASURE(pool, classes, None)
        return lambda *rows: {"coarsity": measure(*rows)["coarsity"] / (2 if reduction is None else 1)}

    MEASURE = published_tasks.coarsity_measure
    monkeypatch.setattr(published_tasks, "coarsity_measure", halved)
    file = write(tmp_path / "list.csv", dataset, TASKS)
    with pytest.raises(UserError, match='its numbers are those of reduction="shortest-paths"'):
        read(file, dataset, query=3)
    assert len(read(file, dataset, query=3, reduction="shortest-paths")) == 4


def test_orders_are_read_from_lists_json_and_columns(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("\n".join(ORDER))
    (tmp_path / "plain.json").write_text(json.dumps(ORDER))
    (tmp_path / "authors.json").write_text(json.dumps({"class_names": ORDER, "class_roots": []}))
    (tmp_path / "table.csv").write_text("number,class\n" + "".join(f"{i},{c}\n" for i, c in enumerate(ORDER)))
    names = ("list.txt", "plain.json", "authors.json", "table.csv:class")
    assert all(read_class_order(f"{tmp_path}/{name}") == ORDER for name in names)
    (tmp_path / "kind.json").write_text("{}")
    for source, sentence in (
        ("table.csv:clas", "has no column 'clas'; its columns are number, class"),
        ("none.txt", "none.txt cannot be read: No such file"),
        ("kind.json", "holds no list of class names"),
    ):
        with pytest.raises(UserError, match=sentence):
            read_class_order(f"{tmp_path}/{source}")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"class_order": ["a/a0", "cat"]},
            "names 2 classes, and 1 is not among the 6 of 'small' \\('cat'\\)",
        ),
        ({"class_order": ["a/a0", "a0"]}, "names the class 'a0' twice"),
        (
            {"class_order": ORDER[:3]},
            "line 4: labels is '3', but with class_order it must be a position among",
        ),
        (
            {"query": 12},
            "has 11 images beside the support of task 0, but 12 queries were asked for; pass query=11",
        ),
        ({"way": 5}, "way says how to draw, but published draws no task; leave it out"),
        ({"classes": "semantic"}, "classes says how to draw, but published draws no task"),
        ({"published": None}, "class_order goes with published only"),
    ],
)
def test_mistakes_are_one_sentence(dataset: Dataset, tmp_path: Path, settings: Any, sentence: str) -> None:
    file = write(tmp_path / "list.csv", dataset, TASKS)
    with pytest.raises(UserError, match=sentence):
        sample(dataset, identity="names", **{"published": file, "class_order": ORDER, **settings})


def test_a_list_with_queries_of_its_own_takes_no_others(dataset: Dataset, tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    file.write_text("task,labels,image_id,support\n0,0,0,True\n0,1,12,True\n0,1,13,False\n")
    with pytest.raises(
        UserError, match=r"query=2 draws queries for a list without any, but .* lists its own"
    ):
        read(file, dataset, query=2)


def test_the_command_imports_in_the_order_and_refuses_another(
    run_cli: Any, photos: Path, tmp_path: Path
) -> None:
    data = longshot.open_dataset(photos)
    order = list(reversed(data.class_ids))  # 8 classes of 30 images
    (tmp_path / "order.json").write_text(json.dumps({"class_names": order}))
    distances = class_distances(data.taxonomy, order, data.sizes)
    variance = float(coarsity(distances, [[0, 1, 7]])[0])
    rows = [f"{n},0,{variance!r},{label},{30 * label + 4},True" for n, label in enumerate((0, 1, 7))]
    (tmp_path / "list.csv").write_text("\n".join([",task,variance,labels,image_id,support", *rows, ""]))
    command = (
        "sample",
        photos,
        "--import",
        tmp_path / "list.csv",
        "--query",
        "2",
        "-o",
        tmp_path / "bed.parquet",
    )
    run_cli(*command, "--class-order", tmp_path / "order.json", "--reduction", "shortest-paths")
    (task,) = Testbed.load(tmp_path / "bed.parquet")
    assert task.classes == tuple(sorted([order[0], order[1], order[7]])) and len(task.query) == 6
    assert task.measured["coarsity"] == pytest.approx(variance)
    swapped = rows[2].replace(",7,214,", ",2,64,")  # another super-class
    (tmp_path / "list.csv").write_text(
        "\n".join([",task,variance,labels,image_id,support", *rows[:2], swapped])
    )
    done = run_cli(*command, "--class-order", tmp_path / "order.json", check=False)
    assert done.returncode == 2 and "contradicts the classes of 1 of its 1 tasks" in done.stderr
