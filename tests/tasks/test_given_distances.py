"""Distances between classes from a file: which classes are drawn, how coarse tasks are, trees, published lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longshot
from longshot.base import UserError
from longshot.data import Dataset, coarsity, with_distances
from longshot.tasks import Testbed

SIZES = dict.fromkeys("abcdef", 6)  # a flat folder: no taxonomy
NEAR = [("a", "d"), ("b", "e"), ("c", "f")]


@pytest.fixture(scope="module")
def dataset(make_dataset: Any) -> Dataset:
    return make_dataset(SIZES)


def matrix() -> np.ndarray:
    """Pairs are 1 apart, all others 5 or a little more."""
    names = list(SIZES)
    far = 5 + np.add.outer(np.arange(6), np.arange(6)) / 100
    for first, second in NEAR:
        i, j = names.index(first), names.index(second)
        far[i, j] = far[j, i] = 1
    return far - np.diag(np.diag(far))


def write_named(file: Path, names: str = "abcdef") -> Path:
    """The matrix with its classes in another order than the dataset's."""
    at = ["abcdef".index(name) for name in names]
    rows = [
        f"{name},{','.join(map(str, row))}" for name, row in zip(names, matrix()[np.ix_(at, at)], strict=True)
    ]
    file.write_text("\n".join([f"class,{','.join(names)}", *rows, ""]))
    return file


def test_named_unnamed_and_numpy_files_say_the_same(dataset: Dataset, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "plain.csv", matrix(), delimiter=",")
    np.save(tmp_path / "plain.npy", matrix())
    files = [write_named(tmp_path / "named.csv", "fbdace"), tmp_path / "plain.csv", tmp_path / "plain.npy"]
    for file in files:
        np.testing.assert_allclose(with_distances(dataset, file).distances, matrix())


def test_tasks_are_drawn_and_measured_by_them(dataset: Dataset, tmp_path: Path) -> None:
    file = write_named(tmp_path / "named.csv")
    settings: dict[str, Any] = {"tasks": 60, "way": 2, "shot": 1, "query": 2, "allow_repeats": True}
    bed = longshot.sample(dataset, distances=file, classes="semantic", alpha=3.0, beta=1.0, **settings)
    assert {task.classes for task in bed} == set(NEAR)
    assert {task.measured["coarsity"] for task in bed} == {1.0}
    assert bed.meta["sampler"]["distances"].startswith("named.csv ")
    band = longshot.sample(dataset, distances=file, coarsity="20:30", **settings)
    assert not {task.classes for task in band} & set(NEAR)
    numbers = [["abcdef".index(name) for name in task.classes] for task in band]
    np.testing.assert_allclose(band.table["coarsity"].to_numpy(), coarsity(matrix(), numbers))
    for open_band in ("20:", (20, float("inf"))):
        again = longshot.sample(dataset, distances=file, coarsity=open_band, out=tmp_path / "o.parquet", force=True,
                                **settings)  # fmt: skip
        assert min(again.table["coarsity"].to_pylist()) >= 20
        assert longshot.Testbed.load(tmp_path / "o.parquet").meta["sampler"]["classes"].get("high") is None


def test_a_tree_of_them(dataset: Dataset, tmp_path: Path) -> None:
    tree = longshot.make_taxonomy(dataset, distances=write_named(tmp_path / "named.csv"), least=2)
    assert set(tree.groups(dataset.class_ids).values()) == set(NEAR)
    with pytest.raises(UserError, match="needs backbones or distances"):
        longshot.make_taxonomy(dataset)


def test_a_published_list_is_checked_by_its_own_matrix(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A matrix without names is in the class order of the list, here backwards; one with names exposes another."""
    backwards = matrix()[::-1, ::-1]
    np.savetxt(tmp_path / "own.csv", backwards, delimiter=",")
    lines = [",task,variance,labels,image_id,support"]
    for number, labels in enumerate([(0, 2), (1, 5), (3, 4)]):
        variance = float(backwards[labels] ** 2)
        lines += [f"0,{number},{variance!r},{label},{6 * label + number},True" for label in labels]
    (tmp_path / "list.csv").write_text("\n".join([*lines, ""]))
    settings: dict[str, Any] = {"published": tmp_path / "list.csv", "identity": "names"}
    bed = longshot.sample(dataset, class_order=list("fedcba"), distances=tmp_path / "own.csv", **settings)
    assert [task.classes for task in bed] == [("d", "f"), ("a", "e"), ("b", "c")]
    assert (
        "own.csv names no classes; its rows are taken to be in the order of the class order"
        in capsys.readouterr().err
    )
    named = write_named(tmp_path / "named.csv")
    again = longshot.sample(dataset, class_order=list("fedcba"), distances=named, **settings)
    assert again.content_hash == bed.content_hash
    with pytest.raises(UserError, match=r"contradicts the classes of \d of its 3 tasks"):
        longshot.sample(dataset, class_order=list("abcdef"), distances=named, **settings)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0,1\n1,0\n", "has 2 × 2 numbers, but there are 6 classes"),
        ("class,a,b\na,0,1\nb,2,0\n", "1 from 'a' to 'b' and 2 back are no distance"),
        ("class,a,b\na,1,1\nb,1,0\n", "1 from 'a' to 'a'"),
        ("class,a,b\na,0,1\nb,1,0\n", "lack 4 classes of 6"),
        ("what is this\n", "is no matrix of distances"),
    ],
)
def test_mistakes_are_one_sentence(dataset: Dataset, tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UserError, match=sentence):
        longshot.sample(dataset, tasks=2, way=2, shot=1, query=1, distances=tmp_path / "t.csv")


def test_the_command_takes_the_file_and_no_other_distance(run_cli: Any, tmp_path: Path) -> None:
    names = longshot.open_dataset("toybox").class_ids
    np.save(tmp_path / "t.npy", 1 - np.eye(len(names)))
    common = ["sample", "toybox", "--tasks", "3", "--way", "3", "--distances", tmp_path / "t.npy"]
    run_cli(*common, "-o", tmp_path / "bed.parquet")
    bed = Testbed.load(tmp_path / "bed.parquet")
    assert set(bed.table["coarsity"].to_pylist()) == {1.0}
    refused = run_cli(*common, "--reduction", "shortest-paths", "-o", tmp_path / "other.parquet", check=False)
    assert "--distances says how far apart classes are, --reduction too; leave one out" in refused.stderr
