"""Samplers of other packages: their words draw testbeds, in Python and on the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

import longshot
from longshot import UserError
from longshot.base import Plugin, PythonFace, Ragged, TaskPlan, TaskRows, speak_as
from longshot.cli import cli
from longshot.tasks import (
    FixedShape,
    Pool,
    Shape,
    Streams,
    Testbed,
    draw_queries,
    draw_within,
    make_classes,
    make_shape,
    sample,
    skip_past,
    slots_to_rows,
)


@pytest.fixture(autouse=True)
def python_face() -> Iterator[None]:
    """A command that is refused while it is parsed ends its process; here it must not leave its words behind."""
    before = speak_as(PythonFace())
    yield
    speak_as(before)


COUNTS = {"tasks": 6, "way": 3, "shot": 2, "query": 3}
OPTIONS = ["--tasks", "6", "--way", "3", "--shot", "2", "--query", "3"]


@dataclass(frozen=True)
class EveryNth:
    """Only every n-th class."""

    n: int = 2
    name: ClassVar[str] = "every-nth"

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Class numbers of each task."""
        group = Ragged.from_lists([pool.classes[:: self.n]])
        return draw_within(streams, shape, group, np.zeros(len(streams), np.int64))


@dataclass(frozen=True)
class FirstImages:
    """The first images of a class that are no queries."""

    name: ClassVar[str] = "first-images"
    features_hash: ClassVar[str | None] = None

    def draw(self, streams: Streams, pool: Pool, plan: TaskPlan) -> TaskRows:
        """The queries of every sampler, and the images before them."""
        query = draw_queries(streams, pool, plan)
        free = Ragged.from_lists([np.arange(shots) for shots in plan.shots.values])
        support = slots_to_rows(skip_past(free, query), pool, plan)
        return TaskRows.from_plan(plan, support, slots_to_rows(query, pool, plan), tasks=streams.tasks)


@dataclass(frozen=True)
class Pairs(FixedShape):
    """Two classes a task."""

    way: int = 2
    name: ClassVar[str] = "pairs"


class NoSampler:
    """Draws nothing."""


def plug(monkeypatch: pytest.MonkeyPatch, plugins: dict[str, Plugin]) -> None:
    monkeypatch.setattr("longshot.base.plugins._entry_points", lambda: (plugins, {}))


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Plugin(
        "Samplers of a test.",
        shapes={"pairs": f"{__name__}:Pairs"},
        classes={"every-nth": f"{__name__}:EveryNth", "none-such": f"{__name__}:NoSampler"},
        instances={"first-images": f"{__name__}:FirstImages"},
    )
    plug(monkeypatch, {"mine": plugin})


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> Any:
        raise AssertionError("entry points were looked at")

    monkeypatch.setattr("longshot.base.plugins._entry_points", look)


@pytest.mark.usefixtures("plugged")
def test_words_of_a_plugin_draw_what_its_objects_draw() -> None:
    by_words = sample("toybox", classes="every-nth(n=3)", instances="first-images", **COUNTS)
    by_objects = sample("toybox", classes=EveryNth(3), instances=FirstImages(), **COUNTS)
    assert by_words.content_hash == by_objects.content_hash
    assert by_words.meta["sampler"]["classes"] == {"name": "every-nth", "n": 3}
    assert by_words.meta["sampler"]["instances"] == {"name": "first-images"}
    allowed = longshot.open_dataset("toybox").class_ids[::3]
    assert {class_id for task in by_words for class_id in task.classes} <= {*allowed}


@pytest.mark.usefixtures("plugged")
def test_samplers_of_a_plugin_ask_the_questions_of_others() -> None:
    first = sample("toybox", instances="first-images", **COUNTS)
    uniform = sample("toybox", **COUNTS)
    assert [task.query for task in first] == [task.query for task in uniform]
    assert [task.support for task in first] != [task.support for task in uniform]
    assert not any(set(task.support) & set(task.query) for task in first)


@pytest.mark.usefixtures("plugged")
def test_a_shape_of_a_plugin() -> None:
    assert make_shape("pairs(shot=1)", {}) == Pairs(shot=1)
    assert {task.way for task in sample("toybox", shape="pairs", tasks=4)} == {2}


@pytest.mark.usefixtures("plugged")
def test_the_command_draws_the_same(tmp_path: Path) -> None:
    out = tmp_path / "nth.parquet"
    words = ["--classes", "every-nth(n=3)", "--instances", "first-images"]
    done = CliRunner().invoke(
        cli, ["sample", "toybox", *OPTIONS, *words, "-o", str(out)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    expected = sample("toybox", classes="every-nth(n=3)", instances="first-images", **COUNTS)
    assert Testbed.load(out).content_hash == expected.content_hash


@pytest.mark.usefixtures("plugged")
def test_help_and_errors_of_the_command_list_the_words() -> None:
    text = CliRunner().invoke(cli, ["sample", "--help"]).output
    assert "fixed|all|any|meta-dataset|like:FILE|pairs" in text
    assert "siblings|every-nth|none-such]" in text
    assert "matched|shifted|first-images]" in "".join(text.split())
    wrong = CliRunner().invoke(cli, ["sample", "toybox", "--classes", "every-third", "-o", "x.parquet"])
    assert isinstance(wrong.exception, UserError)
    assert str(wrong.exception) == "There are no classes 'every-third'; did you mean 'every-nth'?"


def test_without_plugins_help_lists_longshots_own(monkeypatch: pytest.MonkeyPatch) -> None:
    plug(monkeypatch, {})
    text = CliRunner().invoke(cli, ["sample", "--help"]).output
    assert "--shape [fixed|all|any|meta-dataset|like:FILE]\n" in text
    assert "--classes [uniform|alike|bilevel|hierarchical|semantic|siblings]\n" in text


@pytest.mark.usefixtures("plugged")
@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("every-third", "There are no classes 'every-third'; did you mean 'every-nth'"),
        ("every-nth(m=3)", "has no setting 'm'; its settings and their defaults: n=2"),
        ("every-nth(n=3", "the closing parenthesis is missing"),
        ("none-such", "The parameter classes is <.*NoSampler.*>; give one of uniform, .*every-nth"),
    ],
)
def test_what_is_wrong_is_one_sentence(word: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make_classes(word, {})


@pytest.mark.usefixtures("plugged")
def test_settings_of_longshots_words_do_not_go_with_those_of_plugins() -> None:
    with pytest.raises(UserError, match='level=1 goes with classes="bilevel" or "siblings" only'):
        sample("toybox", classes="every-nth", level=1)


@pytest.mark.usefixtures("forbidden")
def test_longshots_own_words_look_at_no_entry_points(tmp_path: Path) -> None:
    arguments = ["toybox", *OPTIONS, "--classes", "siblings", "-o", str(tmp_path / "own.parquet")]
    assert CliRunner().invoke(cli, ["sample", *arguments], catch_exceptions=False).exit_code == 0


def test_uniform_tasks_are_drawn_without_what_selects() -> None:
    program = (
        "import sys; from longshot.tasks import sample; sample('toybox', tasks=2, way=3); "
        "print([name for name in sys.modules if name.startswith(('longshot.tasks.sel', 'longshot.tasks.diff'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
