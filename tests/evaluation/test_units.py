"""Units of work: what decides their ids, where testbeds are cut, what their files are worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longshot.base import hash_json
from longshot.evaluation import units
from longshot.evaluation.units import Unit

UNIT = Unit(
    testbed="b" * 64,
    testbed_name="easy",
    dataset="photos",
    backbone="pixels",
    features="f" * 64,
    method="protonet",
    identity="protonet 1",
    setting="inductive",
    seed=3,
    start=128,
    stop=130,
)


class TestId:
    def test_it_is_the_hash_of_what_decides_the_result(self) -> None:
        facts = ["b" * 64, "photos", "f" * 64, "protonet 1", 3, 128, 130]
        assert UNIT.id == hash_json([1, *facts])[:20] == "30a249b6856bdd48e1f3"

    @pytest.mark.parametrize(
        "change",
        [
            {"testbed": "c" * 64},
            {"dataset": "birds"},
            {"features": "e" * 64},
            {"identity": "protonet 2"},
            {"seed": 4},
            {"start": 127},
            {"stop": 131},
        ],
    )
    def test_each_of_them_changes_it(self, change: dict[str, object]) -> None:
        assert replace(UNIT, **change).id != UNIT.id  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", ["testbed_name", "backbone", "method", "setting"])
    def test_names_do_not(self, name: str) -> None:
        assert replace(UNIT, **{name: "another"}).id == UNIT.id  # type: ignore[arg-type]

    def test_length(self) -> None:
        assert len(UNIT) == 2


@pytest.mark.parametrize(
    ("tasks", "size"),
    [
        (0, 128),
        (1, 128),
        (32 * 128, 128),
        (32 * 128 + 1, 256),
        (32 * 256, 256),
        (32 * 2048 + 1, 4096),
        (32 * 4096, 4096),
        (10**7, 4096),
    ],
)
def test_a_testbed_has_at_most_32_units_between_the_bounds(tasks: int, size: int) -> None:
    assert units.chunk_size(tasks) == size


def test_chunks_cover_all_tasks_once() -> None:
    assert units.chunks(0) == []
    assert units.chunks(128) == [(0, 128)]
    assert units.chunks(129) == [(0, 128), (128, 129)]
    assert units.chunks(9, 4) == [(0, 4), (4, 8), (8, 9)]


def columns(values: list[float]) -> dict[str, object]:
    metrics = dict.fromkeys(
        ("accuracy", "balanced_accuracy", "normalized_accuracy", "top5", "loss", "mean_shot"), values
    )
    return {
        **metrics,
        "task": [7, 8],
        "way": [2, 2],
        "coarsity": [None, 1.5],
        "prediction": [[0, 1], [1]],
        "seconds": [0.25, 0.75],
    }


class TestFiles:
    def test_rows_hold_the_unit_and_its_columns(self, tmp_path: Path) -> None:
        units.write_unit(tmp_path, UNIT, columns([0.5, 1.0]))
        table = units.read_part(units.part_path(tmp_path, UNIT.id))
        assert table.schema.remove_metadata().equals(units.SCHEMA)
        assert table.slice(1).to_pylist() == [
            {
                "testbed": "b" * 64,
                "testbed_name": "easy",
                "task": 8,
                "backbone": "pixels",
                "method": "protonet",
                "seed": 3,
                **dict.fromkeys(
                    ("accuracy", "balanced_accuracy", "normalized_accuracy", "top5", "loss"), 1.0
                ),
                "dataset": "photos",
                "setting": "inductive",
                "way": 2,
                "mean_shot": 1.0,
                "coarsity": 1.5,
                "prediction": [1],
            }
        ]
        assert units.read_seconds(tmp_path, UNIT.id, 2).to_pylist() == [0.25, 0.75]

    def test_seconds_that_are_gone_or_of_other_tasks_are_nulls(self, tmp_path: Path) -> None:
        units.write_unit(tmp_path, UNIT, columns([0.5, 1.0]))
        assert units.read_seconds(tmp_path, UNIT.id, 3).to_pylist() == [None] * 3
        units.seconds_path(tmp_path, UNIT.id).unlink()
        assert units.read_seconds(tmp_path, UNIT.id, 2).to_pylist() == [None] * 2

    def test_states(self, tmp_path: Path) -> None:
        path = units.part_path(tmp_path, UNIT.id)
        assert units.part_state(tmp_path, UNIT, False) == "missing"
        units.write_unit(tmp_path, UNIT, columns([0.5, 1.0]))
        assert units.part_state(tmp_path, UNIT, False) == "done"
        assert units.part_state(tmp_path, UNIT, True) == "no scores"
        units.write_unit(tmp_path, UNIT, columns([0.5, 1.0]) | {"scores": [[0.1] * 4, [0.2] * 2]})
        assert units.part_state(tmp_path, UNIT, True) == "done"
        pq.write_table(pq.read_table(path).slice(1), path)
        assert units.part_state(tmp_path, UNIT, False) == "damaged"  # a row short
        pq.write_table(pa.table({"task": [7, 8]}), path)
        assert units.part_state(tmp_path, UNIT, False) == "damaged"  # another file


def test_arrays_become_lists() -> None:
    made = units.ragged_list([np.array([1, 2], np.int16), np.array([], np.int16), np.array([3], np.int16)])
    assert made.to_pylist() == [[1, 2], [], [3]] and made.type == pa.list_(pa.int16())
