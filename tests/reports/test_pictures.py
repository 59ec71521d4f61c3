"""Which tasks are shown, and that marks follow the predictions."""

from __future__ import annotations

import base64
import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.reports import pictures, read_runs
from longshot.reports.report_data import COLUMNS, Cell

from .conftest import MakeRun
from .runs import DEFAULT, draw_images, read_rows


def cell(accuracy: list[float]) -> Cell:
    values = np.asarray(accuracy)
    return Cell(np.arange(len(values)), dict.fromkeys(COLUMNS, values), values, values, None)


def test_hardest_and_easiest_by_the_mean_over_series() -> None:
    hard, easy = pictures.choose_extremes([cell([0.9, 0.1, 0.5, 0.6]), cell([0.9, 0.3, 0.5, 0.4])], 1)
    assert hard == [(1, pytest.approx(0.2))] and easy == [(0, pytest.approx(0.9))]


def test_equal_tasks_go_by_number() -> None:
    hard, easy = pictures.choose_extremes([cell([0.5] * 6)], 2)
    assert [task for task, _ in hard] == [0, 1] and [task for task, _ in easy] == [2, 3]


def test_no_task_is_both_hard_and_easy() -> None:
    hard, easy = pictures.choose_extremes([cell([0.1, 0.2, 0.3])], 5)
    assert [task for task, _ in hard] == [0, 1] and [task for task, _ in easy] == [2]


def test_class_names_are_last_parts_unless_they_repeat() -> None:
    assert pictures.class_names(["a/x", "b/x", "b/y"]) == ["a/x", "b/x", "y"]


def test_thumbnail_is_a_small_picture() -> None:
    source = pictures.thumbnail(Image.new("RGB", (300, 200), (200, 30, 30)))
    image = Image.open(io.BytesIO(base64.b64decode(source.split(",", 1)[1])))
    assert image.size == (pictures.SIDE, pictures.SIDE) and len(source) < 2000


def test_marks_equal_the_predictions(make_run: MakeRun) -> None:
    run = make_run(beds={"one": False})
    data = read_runs(run)
    album = pictures.albums(data, draw_images, 2, {0: 1}, None)[0]
    testbed = data.beds[0].testbed
    assert testbed is not None
    rows = {
        row["task"]: row
        for row in read_rows(run).to_pylist()
        if row["method"] == data.series[1].method and row["backbone"] == "net"
    }
    for shown in (*album.hardest, *album.easiest):
        task = testbed[shown.task]
        expected = {
            key: task.classes[answer].rsplit("/")[-1]
            for key, answer, truth in zip(
                task.query, rows[shown.task]["prediction"], task.query_label, strict=True
            )
            if answer != truth
        }
        assert {
            s.key: s.predicted for row in shown.rows for s in row.query if s.predicted is not None
        } == expected
        assert shown.wrong == len(expected)


def test_a_large_task_shows_its_worst_classes_and_says_what_is_left_out(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "MAX_CLASSES", 2)
    monkeypatch.setattr(pictures, "MAX_QUERY", 3)
    album = pictures.albums(read_runs(make_run(beds={"one": False})), draw_images, 1, {0: 0}, None)[0]
    task = album.hardest[0]
    assert len(task.rows) == 2 and task.more_classes == 3
    assert [row.more_query for row in task.rows] == [1, 1]


def test_missing_images_become_one_line(make_run: MakeRun) -> None:
    def images(name: str, keys: object) -> list[Image.Image]:
        raise UserError(f"The dataset '{name}' is not known here.")

    album = pictures.albums(
        read_runs(make_run(beds={"one": False}, series=DEFAULT[:1])), images, 1, {0: 0}, None
    )[0]
    assert album.problem == "No pictures: The dataset 'shapes' is not known here." and album.hardest == ()


def test_mistakes_come_first_with_the_answer_that_was_given() -> None:
    task: Any = SimpleNamespace(
        classes=["solid/ball", "solid/cone"],
        dataset="shapes",
        support=["b0", "c0"],
        support_label=[0, 1],
        query=["b1", "b2", "b3", "c1"],
        query_label=[0, 0, 0, 1],
        labels={},
    )
    ball, cone = pictures.class_rows(task, draw_images, np.array([0, 1, 0, 1]))
    assert [(shot.key, shot.predicted) for shot in ball.query] == [("b2", "cone"), ("b1", None), ("b3", None)]
    assert (ball.right, ball.total, cone.right, cone.total) == (2, 3, 1, 1)
    plain, _ = pictures.class_rows(task, draw_images)
    assert [shot.key for shot in plain.query] == ["b1", "b2", "b3"] and plain.right == 3
