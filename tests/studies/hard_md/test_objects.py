"""Figure 40 on a planted world: features that follow the objects of an image, so that the answer is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from longshot.data import open_dataset
from longshot.models import embed
from longshot.studies import get_study, layered, run_study
from longshot.tasks import Testbed

OBJECTS = (1, 1, 2, 4, 4)  # of the images of a class, in turn


@pytest.fixture(scope="module")
def planted(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """Images of one object look like their class, those of four objects like the class after it."""
    data = open_dataset(photos)
    objects = np.array(OBJECTS)[np.arange(len(data)) % len(OBJECTS)]
    data = replace(data, attributes=pa.table({"objects": objects}))
    classes = len(data.class_ids)
    noise = 0.05 * np.random.default_rng(0).standard_normal((len(data), classes))
    looks = (data.labels + (objects == 4)) % classes
    folder = tmp_path_factory.mktemp("objects")
    own = replace(embed(photos, "pixels"), array=(np.eye(classes)[looks] + noise).astype(np.float32))
    own.save(folder / "planted.npy")
    changes = {
        "networks": {},
        "judge": f"npy:{folder / 'planted.npy'}",
        "adapted": [],
        "methods": ["protonet"],
        "backbones": [f"npy:{folder / 'planted.npy'}"],
        "shapes": ["fixed"],
        "tasks": 4,
        "why": False,
        "way": 8,
        "shot": 3,
        "query": 5,
        "split": "all",
        "ablations": ["objects"],
        "object_counts": [1, 4, 6],
        "objects_tasks": 8,
        "objects_query": 2,
    }
    study = layered(get_study("hard-md-small"), None, changes)
    out = folder / "study"
    return out, data, run_study(study, {"toys": data}, out=out, workers=1)


def test_difficult_supports_show_other_numbers_of_objects_than_their_queries(
    planted: tuple[Path, Any, Any],
) -> None:
    _, _, outcome = planted
    records = next(table for table in outcome.tables if table.stem == "objects").records
    by_row = {(record["query_objects"], record["support"]): record for record in records}
    assert set(by_row) == {(number, kind) for number in (1, 4) for kind in ("uniform", "difficult", "easy")}
    assert by_row[1, "difficult"]["objects"] > 3.5 and by_row[4, "difficult"]["objects"] < 2
    assert (
        by_row[1, "easy"]["distance"] < by_row[1, "uniform"]["distance"] < by_row[1, "difficult"]["distance"]
    )
    assert by_row[4, "difficult"]["accuracy"] < by_row[4, "easy"]["accuracy"]
    [claim] = [judged for judged in outcome.claims if judged.claim.id == "objects"]
    assert claim.verdict == "confirmed" and len(claim.numbers) == 2


def test_the_numbers_are_those_of_the_images(planted: tuple[Path, Any, Any]) -> None:
    """Counted anew from the keys of the testbed, image by image."""
    out, data, outcome = planted
    objects = dict(zip(data.keys.to_pylist(), data.attributes["objects"].to_pylist(), strict=True))
    records = next(table for table in outcome.tables if table.stem == "objects").records
    for record in records:
        number, kind = record["query_objects"], record["support"]
        table = Testbed.load(out / "testbeds" / f"toys-{kind}-fixed-objects-{number}-objects.parquet").table
        assert {objects[key] for keys in table["query"].to_pylist() for key in keys} == {number}
        supports = [[objects[key] for key in keys] for keys in table["support"].to_pylist()]
        distances = [np.mean([abs(each - number) for each in own]) for own in supports]
        assert record["objects"] == pytest.approx(np.mean([np.mean(own) for own in supports]))
        assert record["distance"] == pytest.approx(np.mean(distances))
        half = 2.364624 * np.std(distances, ddof=1) / np.sqrt(len(distances))  # Student's t, 7 degrees
        assert record["distance_half"] == pytest.approx(half, rel=1e-5)


def test_a_number_that_no_image_has_is_told(planted: tuple[Path, Any, Any]) -> None:
    notes = [note for note in planted[2].notes if "6 objects" in note]
    assert len(notes) == 1 and notes[0].startswith("toys: objects is left out for 6 objects: ")
