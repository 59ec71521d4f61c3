"""Pages: what they show, and that nothing which a team writes ever becomes HTML."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from longshot.arena import Competition, load, queue, sandbox
from longshot.arena import bundle_write as bundle
from longshot.arena.bundle_programs import handover
from longshot.arena.inside.blind_tasks import METRICS, TaskScore, student, summarize
from longshot.arena.queue import run_folder
from longshot.arena.ranking import leaderboard_page
from longshot.arena.result_pages import (
    TASK_SCORES,
    Difficulty,
    curve,
    curves_figure,
    details_page,
    difficulty_figure,
    run_title,
)
from longshot.arena.store import Store
from longshot.arena.submission_check import dump_sheet
from longshot.base import UserError

ATTACK = "<script>window.hacked=1</script>"
IMAGE = '"><img src=x onerror="window.hacked=1">'
DATASETS = (f"birds{IMAGE}", "plants", "textures")


def scores_of(level: float, seed: int, phase: str = "feedback") -> dict[str, Any]:
    """scores.json of a run that is about ``level`` good, less so with more classes and fewer shots."""
    rng = np.random.default_rng(seed)
    tasks = []
    for name, hard in zip(DATASETS, (0.0, 0.15, 0.3), strict=True):
        for _ in range(40):
            ways, shots = int(rng.integers(2, 21)), int(rng.integers(1, 21))
            value = level - hard - 0.012 * ways + 0.01 * shots + 0.05 * rng.normal()
            tasks.append(TaskScore(name, ways, shots, 0.1, dict.fromkeys(METRICS, float(value))))
    factors = dict.fromkeys(range(2, 200), 2.0)
    facts = {"phase": phase, "seed": 1, "official": True, "meta_training_seconds": 12.0, "duration": 80.0}
    return {**summarize(tasks, student(factors)), **facts}


def fill(competition: Competition, store: Store, folder: Path) -> None:
    """Four teams, one not ranked and one without a name of its own; hostile wherever a team may write."""
    sheet = {
        "title": f"Means {ATTACK}",
        IMAGE: ATTACK,
        "summary": "Nearest class means.\nAveraged over views.",
    }
    for number, (team, level, options) in enumerate(
        [
            (ATTACK, 0.8, {"fact_sheet": dump_sheet(sheet)}),
            (IMAGE, 0.65, {"fact_sheet": ATTACK}),
            ("The organisers", 0.9, {"ranked": False}),
            ("Ada and friends", 0.4, {"pseudonym": "A pseudonym of " + "x" * 25, "league": "meta-learning"}),
        ]
    ):
        options.setdefault("league", "free-style")
        entered = queue.enter(competition, store, folder, team=team, phase="feedback", **options)
        claimed = queue.claim(store, "w")
        scores = scores_of(level, number)
        mean = scores["overall"][METRICS[0]]
        assert queue.finish(store, claimed, "w", score=mean, duration=1.0, reason=None)
        folder_of_run = run_folder(competition, entered, 1)
        folder_of_run.mkdir()
        (folder_of_run / "scores.json").write_text(json.dumps(scores))
        tasks = [level - hard for hard in (0.0, 0.15, 0.3) for _ in range(2)]
        names = [name for name in DATASETS for _ in range(2)]
        write_tasks(folder_of_run, names, tasks)


def write_tasks(folder: Path, datasets: list[str], scores: list[float], draw: str = "same") -> None:
    """The record of a run task by task."""
    record = {"draw": draw, "dataset": datasets, "normalized_accuracy": scores}
    (folder / TASK_SCORES).write_text(json.dumps(record))


@pytest.fixture
def page(competition: Competition, submission, tmp_path: Path) -> Path:
    hostile = competition.model_copy(update={"title": f"Cup {ATTACK}"})
    store = Store(hostile)
    fill(hostile, store, submission())
    path = tmp_path / "board.html"
    path.write_text(leaderboard_page(hostile, store, "feedback"), encoding="utf-8")
    return path


class Seen(HTMLParser):
    """The elements of a page, their event attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.events: list[str] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.events += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check_harmless(text: str) -> str:
    seen = Seen(text)
    assert not seen.names & {"script", "img", "iframe", "object", "embed", "form"}
    assert seen.events == []
    return " ".join(seen.text)


def test_what_teams_write_stays_text(page):
    words = check_harmless(page.read_text())
    assert words.count(ATTACK) >= 4  # the title, a team, its method, its fact sheets
    assert IMAGE in words
    assert "Averaged over views." in words


def test_the_board_says_who_is_where_and_until_when(page):
    words = check_harmless(page.read_text())
    assert "provisional: only the phase 'final' ranks for good" in words
    assert "League free-style" in words and "League meta-learning" in words
    assert "not ranked" in words
    assert "Ada" not in words and "A pseudonym of" in words
    for heading in ("Methods", "Ways and shots", "Difficulty of the datasets", "Fact sheets"):
        assert heading in words


def planted(overall: float, half: float | None, **datasets: float) -> dict[str, Any]:
    """scores.json with the same values in every metric."""

    def group(mean: float) -> dict[str, Any]:
        halves = dict.fromkeys([f"{metric}_ci95" for metric in METRICS], half)
        return {"tasks": 4, **dict.fromkeys(METRICS, mean), **halves}

    return {
        "overall": group(overall),
        "by_dataset": {name: group(mean) for name, mean in datasets.items()},
        "by_ways": {"2": group(overall), "10": group(overall)},
        "by_shots": {"1": group(overall)},
    }


def enter_planted(
    competition: Competition, store: Store, folder: Path, team: str, phase: str, *runs: dict[str, Any]
) -> None:
    """A team with these scores.json, one for each seed of the phase."""
    number = queue.enter(competition, store, folder, team=team, phase=phase, league="free-style")
    for seed, scores in enumerate(runs, start=1):
        claimed = queue.claim(store, "w")
        score = scores["overall"][METRICS[0]]
        assert queue.finish(store, claimed, "w", score=score, duration=1.0, reason=None)
        run_folder(competition, number, seed).mkdir()
        (run_folder(competition, number, seed) / "scores.json").write_text(json.dumps(scores))
        means = {name: group[METRICS[0]] for name, group in scores["by_dataset"].items()}
        names = [name for name in means for _ in range(2)]
        values = [means[name] + change for name in means for change in (-0.0625, 0.0625)]
        write_tasks(run_folder(competition, number, seed), names, values, f"seed {seed}")


def table_rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    body = re.search(r"<tbody>(.*?)</tbody>", text[text.index(f"{heading}</h2>") :], re.DOTALL)
    assert body is not None
    rows = re.findall(r"<tr>(.*?)</tr>", body[1], re.DOTALL)
    return [
        [
            re.sub(r"<span[^>]*>|</span>", "", cell).strip()
            for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
        ]
        for row in rows
    ]


def test_the_board_shows_the_worst_run_and_the_difficulty_of_datasets(competition, submission):
    store, folder = Store(competition), submission()
    good = [planted(mean, 0.0321, easy=0.9, hard=0.6) for mean in (0.75, 0.5, 0.625)]
    good[1] = planted(0.5, 0.0123, easy=0.875, hard=0.5)
    for team in ("good", "bad"):  # the final asks for a valid feedback submission
        queue.enter(competition, store, folder, team=team, phase="feedback", league="free-style")
        assert queue.finish(store, queue.claim(store, "w"), "w", score=0.5, duration=1.0, reason=None)
    enter_planted(competition, store, folder, "good", "final", *good)
    bad = [planted(mean, None, easy=0.25, hard=-0.125) for mean in (0.25, 0.2, 0.125)]
    enter_planted(competition, store, folder, "bad", "final", *bad)
    text = leaderboard_page(competition, store, "final")
    rows = table_rows(text, "League free-style")
    # nobody says what the method is; the difference is (0.8917 − 0.25 + 0.5667 + 0.125) / 2 over the same tasks
    assert [row[:6] for row in rows] == [
        ["1", "good", "0.5000", "± 0.0123", "–", "3"],
        ["2", "bad", "0.1250", "–", "0.6667 ± 0.0282", "4"],
    ]
    rows = table_rows(text, "Difficulty of the datasets")
    # over the tasks of all three runs: (0.9 + 0.875 + 0.9) / 3 and (0.6 + 0.5 + 0.6) / 3 of the best
    assert [row[:5] for row in rows] == [
        ["easy", "good · free-style", "bad · free-style", "0.892", "0.250"],
        ["hard", "good · free-style", "bad · free-style", "0.567", "-0.125"],
    ]
    for row, best in zip(rows, ([0.9, 0.875, 0.9], [0.6, 0.5, 0.6]), strict=True):
        tasks = np.array([mean + change for mean in best for change in (-0.0625, 0.0625)])
        worst = 0.25 if row[0] == "easy" else -0.125
        paired = np.array(
            [mean - worst for mean in best for _ in range(2)]
        )  # both move alike from task to task
        for cell, values in ((row[5], 1 - tasks), (row[6], paired)):
            half = stats.t.ppf(0.975, 5) * values.std(ddof=1) / 6**0.5
            assert cell == f"{values.mean():.3f} ± {half:.3f}"
    assert "Over all 2 entries of the phase and all their runs." in text
    assert "Here and in" not in text  # all of them are drawn


def test_the_figures_show_the_first_eight_of_nine(competition, submission):
    phases = tuple(phase.model_copy(update={"per_day": 0}) for phase in competition.phases)
    generous, folder = competition.model_copy(update={"phases": phases}), submission()
    store = Store(generous)
    for number in range(8):
        enter_planted(
            generous, store, folder, f"team {number}", "feedback", planted(number / 10, 0.01, easy=0.5)
        )
    assert "Here and in the next figure" not in leaderboard_page(generous, store, "feedback")
    enter_planted(generous, store, folder, "last", "feedback", planted(-0.1, 0.01, easy=-0.5))
    text = leaderboard_page(generous, store, "feedback")
    assert "Here and in the next figure: the first 8 of 9 entries." in text
    assert len(table_rows(text, "League free-style")) == 9
    (row,) = table_rows(text, "Difficulty of the datasets")
    # over all nine, the last included; of equal ones the first on the board
    assert row[1:5] == ["team 7 · free-style", "last · free-style", "0.500", "-0.500"]
    assert row[6] == "1.000 ± 0.000"
    assert "Over all 9 entries" in text


def test_counts_have_whole_ticks_and_nothing_is_above_100():
    group = {METRICS[0]: 1.0, f"{METRICS[0]}_ci95": 0.0}
    texts = Seen(curves_figure({"right": {"2": group, "3": group}}, "number of classes", "c")).text
    ticks = [text.strip() for text in texts if re.fullmatch(r"\s*\d+(\.\d+)?\s*", text)]
    assert {"2", "3", "90", "100"} <= set(ticks)
    assert all(float(tick).is_integer() and "." not in tick and float(tick) <= 100 for tick in ticks)


def test_difficulty_of_two_tasks_has_no_interval(competition, submission):
    """Two tasks at 0.2 and 0.8: 0.5 ± 3.8."""
    store = Store(competition)
    enter_planted(competition, store, submission(), "a", "feedback", planted(0.5, 0.01, easy=0.5))
    write_tasks(run_folder(competition, 1, 1), ["easy", "easy"], [0.2, 0.8])
    (row,) = table_rows(leaderboard_page(competition, store, "feedback"), "Difficulty of the datasets")
    assert row[3:] == ["0.500", "0.500", "0.500", "–"]


def test_a_curve_has_its_points_in_order_and_its_band():
    group = {METRICS[0]: 0.5, f"{METRICS[0]}_ci95": 0.125}
    line = curve(3, "name", {"10": group, "2": {METRICS[0]: 0.25, f"{METRICS[0]}_ci95": None}})
    assert (line.index, line.label) == (3, "name")
    points = (line.x, line.y, line.low, line.high)
    np.testing.assert_equal(points, [[2, 10], [0.25, 0.5], [np.nan, 0.375], [np.nan, 0.625]])


def test_details_of_a_run(tmp_path):
    words = check_harmless(details_page(f"{ATTACK} 3", scores_of(0.7, 0)))
    assert f"{ATTACK} 3" in words and f"birds{IMAGE}" in words
    assert "12.0 s of meta-training, 80.0 s in all" in words
    unofficial = check_harmless(details_page("x", {**scores_of(0.7, 0), "official": False}))
    assert "unofficial: run without a sandbox" in unofficial


def test_normalised_accuracy_is_called_so_on_every_axis(page):
    text = page.read_text() + details_page("x", scores_of(0.7, 0))
    heard = [label for label in re.findall(r'aria-label="(.*?)"', text) if " against number of " in label]
    assert len(heard) == 4
    assert all(label.startswith("normalised accuracy (%) against number of ") for label in heard)
    seen = Seen(text).text
    assert seen.count("accuracy (%)") == 0
    assert seen.count("normalised accuracy (%)") == 7  # two by name, one of bars, four over numbers


def test_an_interval_that_says_nothing_is_not_shown():
    scores = {**scores_of(0.7, 0), "by_dataset": planted(0.5, None, few=0.55)["by_dataset"]}
    for half, cell in ((4.76, "0.5500"), (0.501, "0.5500"), (0.5, "0.5500 ± 0.5000"), (None, "0.5500")):
        scores["by_dataset"] = planted(0.5, half, few=0.55)["by_dataset"]
        page = details_page("x", scores)
        assert table_rows(page, "By dataset")[0][2] == cell
        figure = re.search(r'normalised accuracy \(%\): few ([^"]*)"', page)
        assert figure is not None
        assert figure[1] == ("55.0 ± 50.0" if half == 0.5 else "55.0")


@pytest.mark.parametrize(
    ("folder", "title"),
    [("tried", "tried"), ("a/tried", "tried"), ("c/submissions/000012/seed-2", "Submission 12")],
)
def test_a_page_has_a_heading_wherever_it_is_written(folder, title):
    assert f"<h1>{title}</h1>" in details_page(run_title(Path(folder)), scores_of(0.7, 0))


def test_details_written_by_a_bundle_are_harmless(tmp_path):
    key = "ab" * 32
    task = {"dataset": IMAGE, "ways": 2, "shots": 1, "query_label": [0, 1]}
    answered = {"answers": [{"predicted": [0, 1], "seconds": 0.1}], "meta_training_seconds": 1.0}
    for name in ("ref", "res", "submission"):
        (tmp_path / name).mkdir()
    (tmp_path / "ref" / "truth.json").write_text(json.dumps({"tasks": [task], "t95": {}, "key": key}))
    handover.hand_on(tmp_path / "submission", tmp_path / "res", answered, key)
    (tmp_path / "res" / "metadata").write_text("ingestionExitCode: 0\n")
    beside = (sandbox.PROGRAM.parent, sandbox.PACKAGE / "statistics")  # a bundle has their files beside it
    room = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, beside))}
    command = [sys.executable, str(bundle.PROGRAMS / "bundle_scoring.py"), str(tmp_path), str(tmp_path)]
    subprocess.run(command, check=True, env=room, timeout=120)
    assert IMAGE in check_harmless((tmp_path / "detailed_results.html").read_text())


def test_bars_of_difficulty_reach_from_the_worst_to_the_best():
    figure = difficulty_figure([Difficulty(ATTACK, 0.25, 0.75), Difficulty("b", -0.1, 0.5)], "d")
    assert "25.0 / 75.0" in figure and "−10.0 / 50.0" in figure
    assert ATTACK not in figure
    assert "25.0 / 75.0 ± 4.0" in difficulty_figure([Difficulty("a", 0.25, 0.75, 0.04)], "d")


@pytest.mark.browser
def test_in_a_browser_no_script_runs(browser, page):
    opened = browser.new_page(viewport={"width": 1000, "height": 800})
    messages: list[str] = []
    opened.on("console", lambda message: messages.append(message.text))
    opened.on("pageerror", lambda error: messages.append(str(error)))
    opened.goto(page.resolve().as_uri())
    assert opened.evaluate("window.hacked === undefined && document.scripts.length === 0")
    assert messages == []
    assert opened.locator("section table").first.locator("tbody tr").count() == 3
    for width in (1000, 360):  # a phone: nothing but the tables may be wider than the screen
        opened.set_viewport_size({"width": width, "height": 800})
        assert opened.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    opened.close()


MARKS = {
    (
        "isolation",
        "run",
    ): "one process answered all tasks of a run and may have remembered them (isolation: run)",
    ("pools", "shared"): "an image may be support in one task and a query in another (pools: shared)",
    ("draws", "per-submission"): "every submission answered tasks of its own (draws: per-submission)",
}


@pytest.mark.parametrize(("setting", "value"), MARKS)
def test_what_departs_from_blind_tasks_is_marked_everywhere(competition, submission, run_cli, setting, value):
    mark = MARKS[setting, value]
    path = competition.folder / "competition.yaml"
    path.write_text(f"{path.read_text()}\n{setting}: {value}\n")
    changed = load(competition.folder)
    store = Store(changed)
    fill(changed, store, submission())
    assert mark in "".join(Seen(leaderboard_page(changed, store, "feedback")).text)
    assert mark not in "".join(Seen(leaderboard_page(competition, store, "feedback")).text)
    assert run_cli("compete", "leaderboard", competition.folder).stdout.splitlines()[-1] == mark
    assert mark in "".join(Seen(details_page("x", {**scores_of(0.7, 0), setting: value})).text)
    if setting != "pools":  # which a bundle may share
        with pytest.raises(UserError, match=f"set '{setting}: (task|fixed)'"):
            bundle.write_bundle(changed, competition.folder / "bundle.zip")
