"""The study many-way through the real command: numbers, shapes that shrink, shapes that are impossible."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from longshot.base import UserError
from longshot.evaluation import Results
from longshot.studies import get_study, layered
from longshot.studies.semantic.many_way import possible


def test_the_table_holds_the_numbers_of_the_results(many: Path) -> None:
    with (many / "tables/many-way.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    # 5 ways: top-1 at two shots; 60 ways: top-1 and top-5 at two shots; three methods
    assert len(rows) == 3 * (2 + 4)
    table = Results(many / "run").table()
    for row in rows:
        same = [("testbed_name", row["testbed"]), ("method", row["method"])]
        own_rows = table.filter(pc.and_(*(pc.equal(table[name], value) for name, value in same)))
        assert float(row["mean"]) == pytest.approx(float(np.mean(own_rows[row["metric"]].to_numpy())))
        assert int(row["tasks"]) == own_rows.num_rows == 6
        assert set(own_rows["way"].to_pylist()) == {int(row["way"])}


def test_fewer_classes_than_asked_for_are_said(many: Path) -> None:
    notes = json.loads((many / "study.json").read_text("utf-8"))["notes"]
    assert (
        "100-way 5-shot became 60-way 5-shot: 60 of 60 classes have the 15 images that 5-shot tasks need."
        in notes
    )
    assert {path.stem for path in (many / "testbeds").iterdir()} == {
        f"{way}-way-{shot}-shot" for way in (5, 60) for shot in (1, 5)
    }


def test_layout_and_published_numbers_of_table_3(many: Path) -> None:
    text = (many / "tables/many-way.md").read_text("utf-8")
    own, theirs = (line for line in text.splitlines() if line.startswith("| method"))
    heads = ["5-way: 1-shot top-1", "5-way: 5-shot top-1"]
    heads += [f"60-way: {shot}-shot top-{top}" for shot in (1, 5) for top in (1, 5)]
    assert own == f"| method | setting | {' | '.join(heads)} |"
    assert theirs == own.replace("60-way", "100-way")
    assert "52.08 ± 0.35" in text
    assert (many / "figures/ways-5-shot.png").is_file()


def _possible(sizes: list[int], **changes: Any) -> tuple[list[tuple[int, int]], list[str]]:
    dataset = SimpleNamespace(
        name="herbs", sizes=np.array(sizes), split_classes=lambda _: np.arange(len(sizes))
    )
    settings = layered(get_study("many-way"), None, changes).settings
    return possible(settings, dataset)  # type: ignore[arg-type]


def test_enough_of_everything_gives_all_shapes_and_no_note() -> None:
    assert _possible([20] * 120) == ([(5, 1), (100, 1), (5, 5), (100, 5)], [])


def test_small_classes_are_left_out_and_counted() -> None:
    shapes, notes = _possible([20] * 110 + [12] * 4)
    assert shapes == [(5, 1), (100, 1), (5, 5), (100, 5)]
    assert notes == ["4 classes with fewer than 15 images are left out of 5-shot tasks."]


def test_classes_with_just_enough_images_count() -> None:
    shapes, notes = _possible([15] * 100)  # 5 shots and 10 queries
    assert (shapes, notes) == ([(5, 1), (100, 1), (5, 5), (100, 5)], [])


def test_impossible_shapes_are_named_in_one_sentence() -> None:
    shapes, notes = _possible([12] * 30)
    assert shapes == [(5, 1), (30, 1)]
    assert notes[-1] == (
        "Impossible on 'herbs': 5-way 5-shot, 100-way 5-shot; 0 of 30 classes have the 15 images that 5-shot tasks "
        "need; ask for fewer ways, shots or query."
    )


def test_few_classes_do_not_shrink_below_the_next_ways() -> None:
    with pytest.raises(UserError, match="5-way 1-shot, 100-way 1-shot, 5-way 5-shot, 100-way 5-shot; 4 of 4"):
        _possible([50] * 4)
    assert _possible([50] * 5)[0] == [(5, 1), (5, 5)]


def test_without_dropping_a_small_class_makes_the_shape_impossible() -> None:
    shapes, notes = _possible([20] * 119 + [12], drop_small=False)
    assert shapes == [(5, 1), (100, 1)]
    assert "119 of 120 classes" in notes[0] and "drop_small=True" in notes[0]


def test_a_dataset_without_taxonomy_works_and_an_impossible_one_stops(
    run_cli: Any, photos: Path, tmp_path: Path
) -> None:
    flat = photos / "round"  # 4 classes of 30 images
    changes = ("--set", "methods=[protonet, bd-cspn]", "--set", "tasks=5", "--set", "ways=[2, 100]", "--json")
    done = json.loads(run_cli("study", "run", "many-way-small", flat, *changes, "-o", tmp_path / "a").stdout)
    assert "100-way 1-shot became 4-way 1-shot" in done["notes"][0]
    assert done["tables"]["claims"][0]["number"] == "protonet, 2 → 4 ways, 1-shot"
    done = run_cli("study", "run", "many-way-small", flat, "-o", tmp_path / "b", check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: Impossible on 'round': 5-way 1-shot")
    assert not (tmp_path / "b").exists()
