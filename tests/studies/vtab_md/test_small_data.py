"""Data that are too small for the protocol: what is reduced or left out is said, and the study goes on."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from longshot.base import UserError
from longshot.data import Dataset
from longshot.studies import Lab, StudyOutcome, get_study, layered
from longshot.studies.engine.presets import run_opened
from longshot.studies.engine.recipe import GivenDataset
from longshot.studies.vtab_md.vtab_md_plan import make_vtab_plan
from longshot.studies.vtab_md.vtab_md_sources import StudySource, open_sources

NETWORK = {"network": "cnn4(width=4)", "size": 16, "data": ["upstream"], "steps": 2, "validation_tasks": 4}
CHANGES: dict[str, Any] = {
    "tasks": 2,
    "max_way": 5,
    "max_query": 2,
    "max_support": 10,
    "networks": {
        "proto": {"algorithm": "protonet", **NETWORK, "episodes": "meta-dataset"},
        "wide": {"algorithm": "protonet(way=9, shot=2, query=2)", **NETWORK},
    },
    "rows": {
        "Same": {"backbone": "pixels", "md": "protonet", "vtab": ["protonet", "protonet(distance='cosine')"]},
        "Trained": {"backbone": "proto", "method": "protonet"},
        "Too wide": {"backbone": "wide", "method": "protonet"},
    },
    "comparisons": {},
    "published": [],
    "figures": {},
}
STUDY = layered(get_study("vtab-md-small"), None, CHANGES)


def part(data: Dataset, name: str, **classes: int) -> Dataset:
    """The dataset with the first so many classes in each of some splits."""
    ids = iter(data.class_ids)
    splits = {split: tuple(next(ids) for _ in range(count)) for split, count in classes.items()}
    return replace(data, name=name, splits=splits)


def with_columns(data: Dataset, parts: dict[str, int]) -> Dataset:
    """The dataset as a task: so many images of every split, in an order that is not by class."""
    names = [split for split, count in parts.items() for _ in range(count)]
    names += ["extra"] * (len(data) - len(names))
    order = np.random.default_rng(0).permutation(len(data))
    split = np.empty(len(data), object)
    split[order] = names
    position = np.empty(len(data), np.int64)
    position[order] = np.arange(len(data))
    return replace(data, attributes=pa.table({"split": split.tolist(), "position": position}))


@pytest.fixture(scope="module")
def sources(squares: Dataset) -> list[StudySource]:
    """Two tasks with other splits than train, validation and test, sources of few classes, three validation classes."""
    datasets = {
        "md:three": part(squares, "three", test=3),
        "md:single": part(squares, "single", test=1),
        "natural:halves": with_columns(squares, {"train": 100, "test": 40}),
        "natural:queries": with_columns(squares, {"test": 20, "validation": 10}),
        "structured:tiny": with_columns(squares, {"train": 30, "validation": 3, "test": 9}),
        "upstream:up": part(squares, "up", train=6, validation=3),
    }
    return open_sources({name: GivenDataset(name, data) for name, data in datasets.items()}, seed=0)


@pytest.fixture(scope="module")
def outcome(sources: list[StudySource], tmp_path_factory: pytest.TempPathFactory) -> StudyOutcome:
    """A run that was interrupted at the second evaluation, and the same command again."""
    out = tmp_path_factory.mktemp("small") / "out"
    evaluate, calls = Lab.evaluate, []

    def interrupted(self: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return evaluate(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Lab, "evaluate", interrupted)
        run_opened(STUDY, sources, out, device="cpu", workers=1)
    return run_opened(STUDY, sources, out, device="cpu", workers=1)


def test_train_and_test_alone_are_cut_and_the_sizes_are_the_real_ones(outcome: StudyOutcome) -> None:
    notes = "\n".join(outcome.notes)
    assert "halves: it has only train and test images and is cut as VTAB cuts CIFAR-100" in notes
    assert (
        "The big episodes of 'halves' learn from the first 60 train images and the first 10 validation images: "
        "there are no more, 60 + 20 were asked for." in notes
    )
    assert (
        "The big episodes of 'tiny' learn from the first 30 train images and the first 3 validation" in notes
    )
    assert "train800val200" not in notes


def test_a_source_that_cannot_be_had_is_left_out_alone(outcome: StudyOutcome) -> None:
    left_out = [note for note in outcome.notes if "is left out" in note]
    assert left_out[0].startswith("queries is left out: Dataset 'queries' has 0 train images")
    assert (
        "single is left out: 1 class with at least 2 images to draw episodes from, and 2 are needed."
        in left_out
    )
    with (outcome.path / "tables" / "sources.csv").open(encoding="utf-8", newline="") as file:
        assert {row["on"] for row in csv.DictReader(file)} == {"three", "halves", "tiny"}


def test_few_classes_narrow_episodes_and_validation_with_a_note(outcome: StudyOutcome) -> None:
    notes = "\n".join(outcome.notes)
    assert "three: episodes of 3 ways, where the protocol has 5 or more" in notes
    assert "Network proto: validation tasks have 3 ways instead of 5 or more" in notes


def test_a_network_without_enough_classes_takes_its_row_alone(outcome: StudyOutcome) -> None:
    [note] = [note for note in outcome.notes if "'Too wide'" in note]
    assert "its network 'wide' cannot be trained. There are 6 train classes in 'up'" in note
    for option in ("--", "lower", "way,"):
        assert option not in note  # no advice about options of another command


def test_what_was_done_before_the_interruption_is_kept(outcome: StudyOutcome) -> None:
    steps = {step["step"]: step["did"] for step in outcome.did}
    assert steps["training proto"] == steps["testbed halves"] == "kept"
    assert steps["report"] == "written"


def test_no_source_at_all_is_an_error_that_names_the_last_reason(sources: list[StudySource]) -> None:
    alone = [source for source in sources if source.name in ("queries", "up")]
    with pytest.raises(
        UserError, match=r"No source can be tested on\. queries is left out: Dataset 'queries' has 0"
    ):
        make_vtab_plan(STUDY.settings, alone)  # type: ignore[arg-type]
