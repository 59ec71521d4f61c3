"""What run.json says about the data a network was trained on and the testbed it is measured on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longshot.data import Dataset, open_dataset
from longshot.evaluation.provenance import record_upstream
from longshot.models import get_network, save_checkpoint
from longshot.tasks import FixedShape, Testbed, sample


@pytest.fixture(scope="module")
def dataset(photos: Path) -> Dataset:
    return open_dataset(photos)


@pytest.fixture(scope="module")
def testbed(dataset: Dataset) -> Testbed:
    return sample(dataset, tasks=4, shape=FixedShape(way=3, shot=2, query=2), seed=1)


def _network(folder: Path, dataset: Dataset, classes: list[str]) -> str:
    data = {"dataset": dataset.name, "fingerprint": dataset.fingerprint, "classes": classes}
    story = {"preprocessing": "decode|resize(16,16)|value_range(0,1)", "data": data}
    return str(save_checkpoint(folder, get_network("cnn4(width=8)", size=(16, 16)), story))


def _record(testbed: Testbed, *backbones: str) -> dict[str, Any]:
    run: dict[str, Any] = {}
    record_upstream(
        run,
        {name: name for name in backbones},
        {testbed.content_hash: testbed},
        {testbed.content_hash: "bed"},
    )
    return run


def test_training_on_test_classes_is_recorded_and_told(
    tmp_path: Path, dataset: Dataset, testbed: Testbed, capsys: pytest.CaptureFixture[str]
) -> None:
    name = _network(tmp_path / "net", dataset, list(dataset.class_ids[:4]))
    (leak,) = _record(testbed, name)["upstream"][name][testbed.content_hash]
    tasks = list(testbed)
    classes = {c for task in tasks for c in task.classes}
    keys = {key for task in tasks for key in (*task.support, *task.query)}
    assert leak["of_images"] == len(keys) and leak["of_classes"] == len(classes)
    seen = {key for key in keys if key.rsplit("/", 1)[0] in dataset.class_ids[:4]}
    assert leak["images"] == len(seen) > 0
    warning = capsys.readouterr().err
    assert warning.startswith("warning: ") and f"{len(seen)} of {len(keys)} test images" in warning


def test_training_on_other_classes_is_recorded_without_a_warning(
    tmp_path: Path, dataset: Dataset, testbed: Testbed, capsys: pytest.CaptureFixture[str]
) -> None:
    used = {c for task in testbed for c in task.classes}
    name = _network(tmp_path / "net", dataset, [c for c in dataset.class_ids if c not in used])
    (leak,) = _record(testbed, name)["upstream"][name][testbed.content_hash]
    assert (leak["how"], leak["images"], leak["classes"]) == ("same dataset", 0, 0)
    assert capsys.readouterr().err == ""


def test_a_backbone_that_tells_nothing_is_not_recorded(testbed: Testbed) -> None:
    assert _record(testbed, "pixels") == {}


def test_each_of_several_networks_side_by_side_is_looked_at(
    tmp_path: Path, dataset: Dataset, testbed: Testbed
) -> None:
    network = _network(tmp_path / "one", dataset, list(dataset.class_ids[:1]))
    two = _network(tmp_path / "two", dataset, list(dataset.class_ids))
    name = f"{network} + {two} + pixels"
    leaks = _record(testbed, name)["upstream"][name][testbed.content_hash]
    assert len(leaks) == 2 and leaks[1]["images"] == leaks[1]["of_images"]
