"""The rules of entering, through the real command and at their bounds: the final, ties, names, quotas, archives."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from longshot import competition as api
from longshot.arena import Competition, entry_rules, queue, ranking
from longshot.arena.database_tables import submissions, teams
from longshot.arena.settings import FACT_FIELDS
from longshot.arena.store import Store
from longshot.arena.submission_check import dump_sheet
from longshot.base import UserError

FULL = dict.fromkeys(FACT_FIELDS, "text")


@pytest.fixture
def store(competition: Competition) -> Store:
    return Store(competition)


def end_runs(store: Store, score: float) -> None:
    """End all that waits with this score."""
    while (claimed := queue.claim(store, "w")) is not None:
        assert queue.finish(store, claimed, "w", score=score, duration=1.0, reason=None)


def change(competition: Competition, old: str, new: str) -> None:
    path = competition.folder / "competition.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_the_final_by_hand_asks_what_the_final_asks(run_cli, competition, store, submission, tmp_path):
    """No feedback entry, another league's, below the threshold, no sheet, half a sheet, a whole one, a second entry."""
    change(competition, "title: small", "title: small\nfact_sheet: required")
    folder, code = competition.folder, submission()
    words = ["compete", "submit", folder, code, "--team", "a"]
    final = [*words, "--phase", "final"]

    def refused(*more: object) -> str:
        done = run_cli(*final, *more, check=False)
        assert done.returncode == 2 and done.stdout == ""
        return done.stderr

    none = "it has no valid submission to phase 'feedback' there, and 1 is needed; submit with --phase feedback first"
    assert none in refused()
    run_cli(*words, "--league", "meta-learning")
    end_runs(store, 0.9)
    assert none in refused()  # that was another league
    run_cli(*words)
    end_runs(store, -0.5)
    assert "-0.500 does not exceed -0.5 (submission 2 to phase 'feedback')" in refused()
    run_cli(*words)
    end_runs(store, 0.2)
    assert "in the league free-style: no fact sheet" in refused()
    half, complete = tmp_path / "half.yaml", tmp_path / "whole.yaml"
    half.write_text("title: Means\n")
    complete.write_text(json.dumps(FULL))
    assert "its fact sheet lacks authors, summary" in refused("--fact-sheet", half)
    run_cli(*words)
    end_runs(store, -0.9)
    assert "-0.900 does not exceed -0.5" in refused("--fact-sheet", complete)  # the last valid one counts
    run_cli(*words[:-1], "b", "--fact-sheet", complete)
    end_runs(store, 0.3)
    assert "submission 6 of team 'b' is queued in phase final" in run_cli(*final[:5], "b", *final[6:]).stdout
    cup = api.connect(folder)
    assert cup.status(6)["fact_sheet"] == FULL  # that of the feedback submission
    again = run_cli(*final[:5], "b", *final[6:], check=False)
    assert "it is in it already with submission 6, and 1 is allowed" in again.stderr
    entries = cup.enter_final()
    assert [(entry["team"], entry["final"]) for entry in entries if entry["final"]] == [("b", 6)]
    assert {row["phase"] for row in cup.status() if row["team"] == "a"} == {"feedback"}


def test_a_failed_final_may_be_entered_again(competition, store, submission):
    folder = submission()
    options = {"team": "a", "league": "free-style"}
    queue.enter(competition, store, folder, phase="feedback", **options)
    end_runs(store, 0.5)
    failed = queue.enter(competition, store, folder, phase="final", **options)
    assert queue.finish(store, queue.claim(store, "w"), "w", score=None, duration=1.0, reason="boom")
    assert store.submission(failed)["state"] == "failed"
    assert queue.enter(competition, store, folder, phase="final", **options) == failed + 1


def test_a_final_without_a_phase_before_it_asks_for_the_sheet_alone(competition, store, submission):
    phases = (competition.phases[0].model_copy(update={"submissions": False}), competition.phases[1])
    alone = competition.model_copy(update={"phases": phases, "fact_sheet": "required"})
    options = {"team": "a", "phase": "final", "league": "free-style"}
    with pytest.raises(UserError, match="no fact sheet; hand one in with fact_sheet"):
        queue.enter(alone, store, submission(), **options)
    assert queue.enter(alone, store, submission("again"), fact_sheet=dump_sheet(FULL), **options) == 1


@pytest.mark.parametrize("directly", [False, True])
def test_ties_go_to_the_original_submission(competition, store, submission, directly):
    """The later one in feedback enters the final first, and does not gain by it."""
    folder = submission()
    for second, team in enumerate(("early", "late"), start=1):
        number = queue.enter(competition, store, folder, team=team, phase="feedback", league="free-style")
        with store.change() as connection:
            made = f"2027-01-01 00:00:0{second}"
            connection.execute(submissions.update().where(submissions.c.id == number).values(created=made))
    end_runs(store, 0.5)
    if directly:
        for team in ("late", "early"):
            queue.enter(competition, store, folder, team=team, phase="final", league="free-style")
    else:
        for row in reversed(ranking.qualified(competition, store, "feedback")):
            ranking._final_submission(competition, store, row)
    end_runs(store, 0.3)
    board = ranking.leaderboard(competition, store, "final", "free-style")
    assert [(entry.rank, entry.team, entry.submission, entry.created) for entry in board] == [
        (1, "early", 4, "2027-01-01 00:00:01"),
        (2, "late", 3, "2027-01-01 00:00:02"),
    ]


def test_other_code_in_the_final_is_as_late_as_it_is(competition, store, submission):
    """Who hands in other files than in feedback has made a new submission."""
    options = {"team": "a", "league": "free-style"}
    queue.enter(competition, store, submission(), phase="feedback", **options)
    end_runs(store, 0.5)
    other = submission("other", meta="print('other')\nreturn MyLearner()")
    number = queue.enter(competition, store, other, phase="final", **options)
    assert store.submission(number)["origin"] is None


SAME = ["Quota", "quota", "QUOTA", " quota ", "\uff31uota", "quo\u0074a", "\u00a0Quota"]


def test_a_team_is_one_however_it_is_written(run_cli, competition, store, submission):
    folder = submission()
    for name in SAME[:3]:
        run_cli("compete", "submit", competition.folder, folder, "--team", name)
    for name in SAME:
        done = run_cli("compete", "submit", competition.folder, folder, "--team", name, check=False)
        assert "has made 3 submissions to phase 'feedback' today (UTC), and 3 are allowed" in done.stderr
    assert [row["name"] for row in store.rows(teams.select())] == ["Quota"]


@pytest.mark.parametrize(
    ("first", "second"),
    [("Stra\u00dfe", "STRASSE"), ("caf\u00e9", "CAFE\u0301"), ("\ufb01ne", "Fine"), ("a  b", "A\u2003b")],
)
def test_names_that_are_one(first, second):
    assert entry_rules.same(first) == entry_rules.same(second)


@pytest.mark.parametrize(
    "name", ["a\nb", "a\tb", "a\u200bb", "a\u202eb", "a\ufe0f", "\u3164", "a\u2800", "\ufdfa" * 6]
)
def test_names_that_show_something_else_than_they_are(competition, store, submission, name):
    folder = submission()
    with pytest.raises(UserError, match=r"cannot be shown|1 to 100"):
        queue.enter(competition, store, folder, team=name, phase="feedback", league="free-style")


def test_pseudonyms_are_short_and_nobody_elses(run_cli, competition, store, submission):
    folder = submission()

    def submit(team: str, pseudonym: str | None = None) -> str:
        more = [] if pseudonym is None else ["--pseudonym", pseudonym]
        done = run_cli("compete", "submit", competition.folder, folder, "--team", team, *more, check=False)
        assert done.returncode in (0, 2)
        return done.stderr

    assert submit("Ada", "Zorro") == ""
    assert "The pseudonym 'zorro' is taken; choose another --pseudonym" in submit("Bob", "zorro")
    assert "The pseudonym 'ADA' is taken" in submit("Bob", "ADA")
    assert "The name 'ZORRO' is taken; choose another --team" in submit("ZORRO")
    twin = "\u0410d\u0430"  # Ada with Cyrillic letters
    assert f"The name '{twin}' is taken" in submit(twin)
    assert f"The pseudonym '{twin}' is taken" in submit("Bob", twin)
    assert "A pseudonym has 1 to 40 letters, this one has 41" in submit("Bob", "x" * 41)
    assert "A pseudonym has 1 to 40 letters, this one has 0" in submit("Bob", " ")
    assert [row["name"] for row in store.rows(teams.select())] == ["Ada"]  # refused ones leave no team behind
    assert submit("Bob", "x" * 40) == ""
    assert submit("Ada", "zorro") == ""  # one's own, written otherwise
    assert submit("Ada", "ada") == ""  # and one's own name


TWINS = {
    "Cyrillic": ("Prototypes", "Рrоtоtуреs"),
    "Cyrillic alone": ("cop", "сор"),
    "Greek": ("Alpha Net", "Αlpha Νet"),
    "Armenian": ("Union", "Uniօn"),
    "Cherokee": ("DART", "ᎠᎪᎡᎢ"),
    "a digit for a letter": ("Lions 10", "Lions lO"),
    "a capital for a letter": ("Lions Al", "Lions AI"),
    "small capitals": ("icy", "ɪᴄʏ"),
    "two letters for one": ("Modem", "Modern"),
    "a dotless letter": ("Mini", "Mını"),
    "wide letters": ("Tiger", "\uff34iger"),
    "mathematical letters": ("Tiger", "\U0001d413iger"),
    "a click": ("Hello", "Heǀǀo"),
}


@pytest.mark.parametrize("kind", TWINS)
def test_names_that_look_alike_are_one(competition, store, submission, kind):
    (name, twin), folder = TWINS[kind], submission()
    queue.enter(competition, store, folder, team=name, phase="feedback", league="free-style")
    if entry_rules.same(name) == entry_rules.same(twin):
        queue.enter(competition, store, folder, team=twin, phase="feedback", league="free-style")
    else:
        with pytest.raises(UserError, match="is taken; choose another"):
            queue.enter(competition, store, folder, team=twin, phase="feedback", league="free-style")
    assert [row["name"] for row in store.rows(teams.select())] == [name]


def test_names_that_differ_to_the_eye_are_two(competition, store, submission):
    folder = submission()
    names = ["Ada", "Adam", "Bill", "Biil", "Team 2", "Team Z", "Людмила", "Ольга", "Νίκος"]
    for name in names:
        queue.enter(competition, store, folder, team=name, phase="feedback", league="free-style")
    assert [row["name"] for row in store.rows(teams.select())] == names


def test_a_team_has_a_quota_of_its_own_in_the_meta_learning_league(competition, store, submission):
    change(competition, "title: small", "title: small\nleagues: [free-style, meta-learning, women]")
    competition = api.load(competition.folder)
    folder = submission()

    def enter(league: str) -> int:
        return queue.enter(competition, store, folder, team="a", phase="feedback", league=league)

    assert [enter(league) for league in ("free-style", "women", "women")] == [1, 2, 3]
    for league in ("free-style", "women"):  # declared leagues do not multiply the quota
        with pytest.raises(UserError, match=r"has made 3 submissions to phase 'feedback' today \(UTC\)"):
            enter(league)
    assert [enter("meta-learning") for _ in range(3)] == [4, 5, 6]
    with pytest.raises(
        UserError, match=r"3 submissions to phase 'feedback' in the league meta-learning today"
    ):
        enter("meta-learning")
    end_runs(store, 0.5)
    cup = api.connect(competition.folder)
    for league in ("free-style", "meta-learning", "women"):
        assert [line["team"] for line in cup.board(league=league)["lines"]] == ["a"]


GARBAGE = {
    "no zip": (b"garbage", "it is no zip that can be read"),
    "empty": (b"", "it is no zip that can be read"),
    "no model": ({"readme.md": "x"}, "there is no model.py at its top"),
    "no Python": ({"model.py": "def ("}, "its model.py is no Python: line 1"),
    "null bytes": ({"model.py": "x = 1\0"}, "its model.py is no Python"),
    "no classes": (
        {"model.py": "x = 1"},
        "its model.py defines 0 of the 2 classes that are needed; add MyMetaLearner",
    ),
    "one class": (
        {"model.py": "class MyLearner: pass"},
        "defines 1 of the 2 classes that are needed; add MyMetaLearner.",
    ),
    "a class within": ({"model.py": "class MyLearner:\n  class MyMetaLearner: pass"}, "defines 1 of the 2"),
    "config": ({"config.json": "{"}, "config.json is not JSON"),
    "setting": ({"config.json": '{"speed": 9}'}, "config.json has an unknown key 'speed'"),
    "number": ({"config.json": '{"train_config": 9}'}, "its config.json cannot be read (TypeError)"),
    "depth": ({"config.json": "[" * 200_000}, "its config.json cannot be read (RecursionError)"),
    "outside": ({"../evil.py": "x"}, "the path '../evil.py' in it is not allowed"),
}


def pack(path: Path, content: bytes | dict[str, str]) -> Path:
    if isinstance(content, bytes):
        path.write_bytes(content)
        return path
    with zipfile.ZipFile(path, "w") as archive:
        classes = "class MyMetaLearner: pass\nclass MyLearner: pass\n"
        for name, text in (
            {"model.py": classes} | content if "readme.md" not in content else content
        ).items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_told_at_home_and_uses_no_quota(competition, store, tmp_path, kind):
    content, reason = GARBAGE[kind]
    path = pack(tmp_path / "mine.zip", content)
    sentences = []
    for attempt in (
        lambda: api.check_submission(path),
        lambda: api.connect(competition.folder).submit(path, team="a"),
    ):
        with pytest.raises(UserError) as caught:
            attempt()
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]  # the same code
    assert reason in sentences[0] and "mine.zip" in sentences[0]
    assert store.rows(submissions.select()) == store.rows(teams.select()) == []
    assert not list((competition.folder / "submissions").iterdir())


@pytest.mark.parametrize(
    "code",
    [
        "from mine import *",
        "from mine import MyMetaLearner, MyLearner",
        "try:\n  from a import MyMetaLearner\nexcept ImportError:\n  MyMetaLearner = None\nimport b as MyLearner",
        "if True:\n  class MyMetaLearner: pass\n  MyLearner = MyMetaLearner",
        "globals().update(make())",
        "exec(open('real.py').read())",
    ],
)
def test_classes_may_come_from_anywhere(tmp_path, code):
    assert api.check_submission(pack(tmp_path / "s.zip", {"model.py": code})).files == 1


def test_the_check_needs_no_competition(run_cli, tmp_path):
    run_cli("compete", "baseline", "random", "guess", cwd=tmp_path)
    done = run_cli("compete", "check", "guess", "--league", "meta-learning", cwd=tmp_path)
    assert done.stdout.startswith("guess can be submitted: 2 files, ")
    (tmp_path / "guess" / "network.py").write_text("def load():\n    return resnet(pretrained=True)\n")
    noted = run_cli("compete", "check", "guess", "--league", "meta-learning", cwd=tmp_path).stdout
    assert "note: network.py:2 asks for pretrained=True; the league refuses it where it runs" in noted
    for words, reason in (
        (("nothing",), "There is no submission at nothing"),
        (("guess", "--league", "chess"), "There is no league 'chess'"),
    ):
        done = run_cli("compete", "check", *words, cwd=tmp_path, check=False)
        assert done.returncode == 2 and reason in done.stderr and len(done.stderr.splitlines()) == 1
