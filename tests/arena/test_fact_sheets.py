"""Fact sheets: what they may hold, who needs one for the final, what is shown of them; the review period."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
import yaml

from longshot.arena import Competition, load, queue, ranking
from longshot.arena.database_tables import events
from longshot.arena.ranking import leaderboard_page
from longshot.arena.settings import FACT_FIELDS, FILE
from longshot.arena.store import Store
from longshot.arena.submission_check import blank_sheet, dump_sheet, missing_fields, read_sheet, stored_sheet
from longshot.base import UserError

FULL = {name: f"our {name}" for name in FACT_FIELDS}


@pytest.fixture
def store(competition: Competition) -> Store:
    return Store(competition)


@pytest.fixture
def entered(competition, store, submission):
    """Enter a submission with a sheet and give it a score in every seed."""
    folder = submission()

    def enter(team: str, sheet: dict[str, str] | None = None, **options: object) -> int:
        options = {"phase": "feedback", "league": "free-style", **options}
        text = None if sheet is None else dump_sheet(sheet)
        number = queue.enter(competition, store, folder, team=team, fact_sheet=text, **options)
        run_all(store)
        return number

    return enter


def run_all(store: Store) -> None:
    while (claimed := queue.claim(store, "w")) is not None:
        assert queue.finish(store, claimed, "w", score=0.5, duration=1.0, reason=None)


def required(competition: Competition) -> Competition:
    return competition.model_copy(update={"fact_sheet": "required"})


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sheet.yaml"
    path.write_text(text)
    return path


def test_yaml_and_json_say_the_same(tmp_path):
    path = written(tmp_path, "title: Means\nauthors: [Ada, Bob]\npretrained:\nyear: 2022\n")
    assert read_sheet(path) == {"title": "Means", "authors": "Ada, Bob", "pretrained": "", "year": "2022"}
    path.write_text(
        json.dumps({"title": "Means", "authors": ["Ada", "Bob"], "pretrained": None, "year": 2022})
    )
    assert read_sheet(path) == {"title": "Means", "authors": "Ada, Bob", "pretrained": "", "year": "2022"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("just a sentence", "holds str"),
        ("", "holds NoneType"),
        ("title: {a: 1}", "'title' of the fact sheet .* holds more than a text"),
        ("title: [unclosed", "neither YAML nor JSON"),
        ("\n".join(f"f{i}: x" for i in range(50)), "holds 50 fields"),
        ("title: " + "x" * 70_000, "has 68 KB, at most 64"),
        ("!!python/object/apply:os.system ['touch owned']", "neither YAML nor JSON"),
        ("[" * 5000, "neither YAML nor JSON"),
    ],
)
def test_what_is_no_fact_sheet(tmp_path, text, reason):
    with pytest.raises(UserError, match=reason):
        read_sheet(written(tmp_path, text))


def test_an_empty_sheet_to_fill_in_is_a_sheet_that_lacks_everything(tmp_path):
    sheet = read_sheet(written(tmp_path, blank_sheet(list(FACT_FIELDS))))
    assert missing_fields(sheet, list(FACT_FIELDS)) == list(FACT_FIELDS)


def test_a_stored_text_that_is_no_sheet_is_a_summary():
    assert stored_sheet("we did this") == {"summary": "we did this"}
    assert stored_sheet("[1]") == {"summary": "[1]"}
    assert stored_sheet(None) == {}


def test_without_its_sheet_nobody_enters_the_final(competition, store, entered):
    entered("none")
    entered("half", {"title": "t", "summary": " "})
    full = entered("full", FULL)
    rows = {row.team: row for row in ranking.enter_final(required(competition), store)}
    assert rows["none"].why_not == "no fact sheet"
    assert rows["half"].why_not == "its fact sheet lacks authors, summary, pretrained, data, code"
    assert rows["full"].feedback == full
    assert stored_sheet(store.submission(rows["full"].final)["fact_sheet"]) == FULL


def test_optional_sheets_keep_nobody_out(competition, store, entered):
    entered("none")
    assert [row.why_not for row in ranking.enter_final(competition, store)] == [""]


def test_a_sheet_that_comes_later_opens_the_final(competition, store, entered):
    number = entered("late")
    ranking.hand_in_sheet(store, number, FULL)
    assert [row.why_not for row in ranking.enter_final(required(competition), store)] == [""]
    assert store.history(number)[-2]["what"] == "its fact sheet was handed in"


def test_the_page_shows_sheets_without_the_names_behind_a_pseudonym(competition, store, entered):
    entered("Ada's group", {**FULL, "authors": "Ada Lovelace"}, pseudonym="Zorro")
    entered("Bob's group", {**FULL, "authors": "Bob Bobson"})
    page = leaderboard_page(competition, store, "feedback")
    assert "Zorro" in page and "Ada" not in page
    assert "Bob Bobson" in page
    named = leaderboard_page(competition.model_copy(update={"pseudonyms": False}), store, "feedback")
    assert "Ada Lovelace" in named and "Zorro" not in named


def test_results_are_provisional_until_the_review_is_over(competition, store, entered):
    entered("a")
    assert ranking.standing(competition, store, "feedback").startswith("provisional: only the phase 'final'")
    ranking.enter_final(competition, store)
    assert ranking.standing(competition, store, "final") == "provisional: runs are still to come"
    run_all(store)
    until = ranking.final_on(competition, store)
    assert ranking.standing(competition, store, "final") == (
        f"provisional until {until:%Y-%m-%d %H:%M} UTC: 14 days of review"
    )
    ranking.hand_in_sheet(store, 2, FULL)  # words after the last run do not begin the review anew
    assert ranking.final_on(competition, store) == until
    long_ago = (dt.datetime.now(dt.UTC) - dt.timedelta(days=20)).strftime("%Y-%m-%d %H:%M:%S")
    with store.change() as connection:
        connection.execute(events.update().values(time=long_ago))
    assert ranking.standing(competition, store, "final").startswith("final since 20")


def test_the_setting_is_checked(competition):
    path = competition.folder / FILE
    path.write_text(path.read_text() + "\nfact_sheet: maybe\n")
    with pytest.raises(
        UserError, match="setting fact_sheet = 'maybe', but it must be 'optional' or 'required'"
    ):
        load(competition.folder)


def test_the_command(run_cli, competition, store, entered, tmp_path):
    folder = competition.folder
    empty = run_cli("compete", "fact-sheet", folder).stdout
    assert list(yaml.safe_load(empty)) == list(FACT_FIELDS)
    number = entered("a")
    assert "has no fact sheet" in run_cli("compete", "fact-sheet", folder, str(number)).stdout
    sheet = written(tmp_path, "title: Nearest <b>means</b>\n")
    handed = run_cli("compete", "fact-sheet", folder, str(number), sheet).stdout
    assert handed == "submission 1 has its fact sheet; it lacks authors, summary, pretrained, data, code\n"
    assert "Nearest <b>means</b>" in run_cli("compete", "fact-sheet", folder, str(number)).stdout
    board = run_cli("compete", "leaderboard", folder).stdout
    assert "Nearest <b>means</b>" in board
    assert board.splitlines()[-1] == "provisional: only the phase 'final' ranks for good"
    refused = run_cli("compete", "fact-sheet", folder, str(number), tmp_path / "no.yaml", check=False)
    assert refused.returncode == 2 and refused.stderr.startswith("error: There is no fact sheet at")
