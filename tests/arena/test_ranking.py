"""Ranks, quotas, leases and records, held to values known by arithmetic: one step to either side would differ."""

from __future__ import annotations

import datetime as dt
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from longshot import competition as api
from longshot.arena import Competition, entry_rules, queue, ranking, submission_check
from longshot.arena.database_tables import events, now, runs, submissions, teams
from longshot.arena.inside.league import shipped_weights
from longshot.arena.store import Store, note
from longshot.arena.submission_check import LARGEST, MOST, dump_sheet, mentions, read_sheet
from longshot.base import ArchiveLimits, UserError


@pytest.fixture
def store(competition: Competition) -> Store:
    return Store(competition)


@pytest.fixture
def enter(competition, store, submission):
    """Enter a submission and give each of its seeds a score; gives its number."""
    folder = submission()

    def scored(team: str, *scores: float, **options: object) -> int:
        options = {"phase": "feedback", "league": "free-style", **options}
        number = queue.enter(competition, store, folder, team=team, **options)
        for score in scores:
            claimed = queue.claim(store, "w")
            assert queue.finish(store, claimed, "w", score=score, duration=2.5, reason=None)
        return number

    return scored


class Clock(dt.datetime):
    """A clock that stands still."""

    moment: dt.datetime

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
        return cls.moment


def lines(store: Store, number: int) -> list[str]:
    return [row["what"] for row in store.history(number)]


def test_equal_scores_in_the_same_second_go_by_number(competition, store, enter):
    first, second, third = (enter(team, 0.5) for team in "abc")
    with store.change() as connection:
        connection.execute(submissions.update().values(created="2027-01-01 00:00:02"))
        connection.execute(
            submissions.update().where(submissions.c.id == third).values(created="2027-01-01 00:00:01")
        )
    entries = ranking.leaderboard(competition, store, "feedback", "free-style")
    assert [(entry.rank, entry.submission) for entry in entries] == [(1, third), (2, first), (3, second)]


def test_an_unranked_team_takes_no_rank_from_anybody(competition, store, enter):
    enter("best", 0.9)
    enter("organisers", 0.8, ranked=False)
    enter("weak", 0.7)
    entries = ranking.leaderboard(competition, store, "feedback", "free-style")
    assert [(entry.rank, entry.team, entry.score) for entry in entries] == [
        (1, "best", 0.9),
        (None, "organisers", 0.8),
        (2, "weak", 0.7),
    ]
    enter("best", 0.85)
    assert ranking.leaderboard(competition, store, "feedback", "free-style")[0].rank == 1
    enter("weak", 0.6, ranked=False)  # a conflict of interest holds for all of a team's entries, and for good
    enter("weak", 0.95)
    assert ranking.leaderboard(competition, store, "feedback", "free-style")[0].rank is None


def test_leagues_and_phases_have_boards_of_their_own(competition, store, enter):
    enter("a", 0.5)
    enter("a", 0.4, league="meta-learning")
    enter("a", 0.3, 0.2, 0.1, phase="final")
    boards = {
        (phase, league): [entry.score for entry in ranking.leaderboard(competition, store, phase, league)]
        for phase in ("feedback", "final")
        for league in ("free-style", "meta-learning")
    }
    assert boards == {
        ("feedback", "free-style"): [0.5],
        ("feedback", "meta-learning"): [0.4],
        ("final", "free-style"): [0.1],
        ("final", "meta-learning"): [],
    }


def test_the_threshold_must_be_exceeded_not_met(competition, store, enter):
    enter("above", -0.4999)
    enter("met", -0.5)
    enter("elsewhere", -0.9, league="meta-learning")  # a league without a threshold
    rows = {row["team_name"]: row for row in ranking.qualified(competition, store, "feedback")}
    assert {team: row["enters"] for team, row in rows.items()} == {
        "above": True,
        "met": False,
        "elsewhere": True,
    }
    assert rows["met"]["why"] == "-0.500 does not exceed -0.5"


def test_only_one_final_entry_per_team_and_league(competition, store, enter):
    enter("a", 0.5)
    enter("a", 0.4, league="meta-learning")
    first = [row.final for row in ranking.enter_final(competition, store)]
    assert first == [3, 4]
    assert [row.final for row in ranking.enter_final(competition, store)] == first
    assert [row["origin"] for row in store.rows(submissions.select())] == [None, None, 1, 2]
    assert lines(store, 1)[-1] == "entered the final as submission 3"
    assert [row["seed"] for row in store.rows(runs.select().where(runs.c.submission == 3))] == [1, 2, 3]


def test_a_final_needs_a_phase_before_it(competition, store):
    alone = competition.model_copy(update={"phases": competition.phases[1:]})
    with pytest.raises(
        UserError, match="has 0 phases with submissions before its last, and a final needs one; add it to"
    ):
        ranking.enter_final(alone, store)


def test_a_final_whose_only_entry_was_cancelled_has_no_end_yet(competition, store, enter):
    enter("a", 0.4)
    (row,) = ranking.enter_final(competition, store)
    queue.cancel(store, row.final, "an organiser")
    assert ranking.standing(competition, store, "final") == "provisional: runs are still to come"


def test_the_review_lasts_its_days_to_the_second(competition, store, enter, monkeypatch):
    enter("a", 0.4)
    enter("a", 0.3, 0.2, 0.1, phase="final")
    with store.change() as connection:
        connection.execute(events.update().values(time="2027-01-01 10:00:00"))
        ended = sa.select(sa.func.max(events.c.id)).scalar_subquery()
        connection.execute(events.update().where(events.c.id == ended).values(time="2027-01-02 10:20:30"))
    end = dt.datetime(2027, 1, 16, 10, 20, 30, tzinfo=dt.UTC)
    assert ranking.final_on(competition, store) == end

    monkeypatch.setattr(ranking.dt, "datetime", Clock)
    Clock.moment = end
    assert ranking.standing(competition, store, "final") == "final since 2027-01-16 10:20 UTC"
    Clock.moment = end - dt.timedelta(seconds=1)
    assert ranking.standing(competition, store, "final") == (
        "provisional until 2027-01-16 10:20 UTC: 14 days of review"
    )


@pytest.mark.parametrize(("state", "open_still"), [("queued", True), ("running", True), ("failed", False)])
def test_the_review_waits_for_every_run(competition, store, enter, state, open_still):
    """A scored entry of the final beside one that waits, runs or failed for good."""
    for team in ("a", "b"):
        enter(team, 0.5)
    first, second = (entry.final for entry in ranking.enter_final(competition, store))
    with store.change() as connection:
        for number, became in ((first, "scored"), (second, state)):
            rows = submissions.update().where(submissions.c.id == number)
            connection.execute(rows.values(state=became, score=0.5))
            note(connection, number, "seed 1: it ended")
    assert (ranking.final_on(competition, store) is None) is open_still


def test_a_fact_sheet_that_comes_late_does_not_prolong_the_review(competition, store, enter):
    enter("a", 0.4)
    final = enter("a", 0.3, 0.2, 0.1, phase="final")
    end = ranking.final_on(competition, store)
    with store.change() as connection:
        note(connection, final, "its fact sheet was handed in")
        latest = sa.select(sa.func.max(events.c.id)).scalar_subquery()
        connection.execute(events.update().where(events.c.id == latest).values(time="2099-01-01 00:00:00"))
    assert end is not None and ranking.final_on(competition, store) == end


def test_a_tie_in_the_final_goes_to_the_earlier_feedback_submission(competition, store, enter):
    """b entered the final last, with what it had handed in first."""
    for team in ("a", "b"):
        enter(team, 0.5)
    first, second = (entry.final for entry in ranking.enter_final(competition, store))
    created = {1: "2027-01-02 00:00:00", 2: "2027-01-01 00:00:00", first: "2027-02-01 00:00:00"}
    created[second] = "2027-02-02 00:00:00"
    with store.change() as connection:
        for number, time_of in created.items():
            rows = submissions.update().where(submissions.c.id == number)
            connection.execute(rows.values(state="scored", score=0.5, created=time_of))
    board = ranking.leaderboard(competition, store, "final", "free-style")
    assert [(entry.rank, entry.submission, entry.created) for entry in board] == [
        (1, second, created[2]),
        (2, first, created[1]),
    ]


def test_a_run_is_taken_over_after_its_lease_and_not_before(store, enter, monkeypatch):
    enter("a")
    monkeypatch.setattr(queue.time, "time", lambda: 1_000.0)
    claimed = queue.claim(store, "first")
    monkeypatch.setattr(queue.time, "time", lambda: 1_060.0)
    assert queue.claim(store, "second") is None  # silent for 60 s, which is the lease
    monkeypatch.setattr(queue.time, "time", lambda: 1_060.5)
    again = queue.claim(store, "second")
    assert (again.run, again.attempt, again.seed, again.phase, again.league) == (
        claimed.run,
        2,
        1,
        "feedback",
        "free-style",
    )
    assert lines(store, 1) == [
        "entered into phase feedback, league free-style",
        "seed 1: attempt 1 began",
        "seed 1: its worker died; it waits again",
        "seed 1: attempt 2 began",
    ]


def test_a_sign_of_life_keeps_the_run(store, enter, monkeypatch):
    enter("a")
    monkeypatch.setattr(queue.time, "time", lambda: 1_000.0)
    claimed = queue.claim(store, "first")
    monkeypatch.setattr(queue.time, "time", lambda: 1_050.0)
    assert queue.alive(store, claimed, "first")
    assert not queue.alive(store, claimed, "another")
    monkeypatch.setattr(queue.time, "time", lambda: 1_110.0)
    assert queue.claim(store, "second") is None


def test_the_history_of_a_run_in_its_words(store, enter):
    number = enter("a", 0.123456)
    assert lines(store, number)[1:] == [
        "seed 1: attempt 1 began",
        "seed 1: scored 0.1235 in 2.5 s",
    ]
    failed = enter("b")
    claimed = queue.claim(store, "w")
    assert queue.finish(store, claimed, "w", score=None, duration=1.0, reason="boom")
    assert lines(store, failed)[-1] == "seed 1: failed: boom"
    (run,) = store.rows(runs.select().where(runs.c.submission == number))
    assert (run["state"], run["score"], run["duration"], run["attempt"]) == ("scored", 0.123456, 2.5, 1)


def test_one_death_waits_again_and_the_second_is_the_platforms_error(store, enter):
    number = enter("a")
    for attempt, state in ((1, "running"), (2, "platform error")):
        assert queue.claim(store, "w").attempt == attempt
        queue.release(store, queue.Claim(1, number, 1, "", "", attempt), "w", "it died", counted=True)
        assert store.submission(number)["state"] == state
    assert lines(store, number)[-1] == "seed 1: it died"
    assert lines(store, number)[-3] == "seed 1: it died; it waits again"


def test_a_score_of_zero_is_a_score(competition, store, enter):
    number = enter("a", 0.0)
    assert store.submission(number)["state"] == "scored"
    assert [entry.score for entry in ranking.leaderboard(competition, store, "feedback", "free-style")] == [
        0.0
    ]


def test_the_quota_of_a_day_does_not_count_yesterday(store, enter):
    for _ in range(3):
        enter("a")
    yesterday = (dt.datetime.now(dt.UTC) - dt.timedelta(days=1)).strftime("%Y-%m-%d 23:59:59")
    with store.change() as connection:
        connection.execute(submissions.update().values(charged=yesterday, state="scored"))
        connection.execute(submissions.update().where(submissions.c.id > 1).values(charged=now()))
    enter("a")
    with pytest.raises(UserError) as caught:
        enter("a")
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    assert str(caught.value).startswith(
        "Team 'a' has made 3 submissions to phase 'feedback' today (UTC), and 3 are allowed; the day's count begins "
        f"anew at {tomorrow:%Y-%m-%d} 00:00 UTC, in "
    )
    with store.change() as connection:
        connection.execute(submissions.update().values(charged=yesterday, state="scored"))
    with pytest.raises(
        UserError, match="has made 4 submissions to phase 'feedback' in all, and 4 are allowed"
    ):
        enter("a")


def test_a_phase_takes_submissions_from_its_start_to_its_end(competition, store, submission):
    folder = submission()
    now = dt.datetime.now(dt.UTC)
    near = {
        "start": (now - dt.timedelta(minutes=1)).isoformat(),
        "end": (now + dt.timedelta(minutes=9)).isoformat(),
    }

    def moved(**update: object) -> Competition:
        return competition.model_copy(update={"phases": (competition.phases[0].model_copy(update=update),)})

    options = {"team": "a", "phase": "feedback", "league": "free-style"}
    assert queue.enter(moved(**near), store, folder, **options) == 1
    with pytest.raises(UserError, match="begins on"):
        queue.enter(moved(start=near["end"]), store, folder, **options)
    with pytest.raises(UserError, match="ended on"):
        queue.enter(moved(end=near["start"]), store, folder, **options)
    with pytest.raises(UserError, match="takes no submissions: its data are there to practise on"):
        queue.enter(moved(submissions=False), store, folder, **options)


def test_a_phase_is_open_from_its_first_second_to_the_one_before_its_end(
    competition, store, submission, monkeypatch
):
    start, end = "2027-06-15 12:00:00", "2027-06-16 12:00:00"
    phase = competition.phases[0].model_copy(update={"start": start, "end": end})
    moved = competition.model_copy(update={"phases": (phase,)})
    folder, options = submission(), {"team": "a", "phase": "feedback", "league": "free-style"}
    first, last = (dt.datetime.fromisoformat(f"{moment}+00:00") for moment in (start, end))
    second = dt.timedelta(seconds=1)
    monkeypatch.setattr(entry_rules.dt, "datetime", Clock)
    for moment in (first, last - second):
        Clock.moment = moment
        queue.enter(moved, store, folder, **options)
    for moment, words in ((first - second, "begins on 2027-06-15"), (last, "ended on 2027-06-16")):
        Clock.moment = moment
        with pytest.raises(UserError, match=words):
            queue.enter(moved, store, folder, **options)


def test_names_of_100_letters_fit(store, enter):
    enter("x" * 100)
    enter("  padded ")
    assert [row["name"] for row in store.rows(teams.select())] == ["x" * 100, "padded"]
    with pytest.raises(UserError, match="has 1 to 100 letters, this one has 101"):
        enter("x" * 101)


def test_a_pseudonym_is_replaced_by_a_later_one_only(store, enter):
    enter("a", pseudonym="Zorro")
    enter("a")
    assert store.rows(teams.select())[0]["pseudonym"] == "Zorro"
    enter("a", pseudonym="Robin")
    assert store.rows(teams.select())[0]["pseudonym"] == "Robin"


def test_archives_have_numbers_of_six_digits(competition, enter):
    number = enter("a")
    assert queue.archive_path(competition, number) == competition.folder / "submissions" / "000001"
    assert (competition.folder / "submissions" / "000001" / "submission.zip").is_file()


def test_a_zip_is_kept_as_it_came(competition, store, submission, tmp_path):
    path = tmp_path / "s.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(submission() / "model.py", "model.py")
    number = queue.enter(competition, store, path, team="a", phase="feedback", league="free-style")
    stored = queue.archive_path(competition, number)
    assert [file.name for file in stored.iterdir()] == ["submission.zip"]
    assert (stored / "submission.zip").read_bytes() == path.read_bytes()
    assert stored.stat().st_mode & 0o777 == 0o755  # the sandbox's user looks into it


@pytest.mark.parametrize(("spare", "taken"), [(0, True), (-1, False)])
def test_a_zip_may_have_all_the_bytes_allowed(
    competition, store, submission, tmp_path, monkeypatch, spare, taken
):
    path = tmp_path / "s.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(submission() / "model.py", "model.py")
    limits = ArchiveLimits(bytes=path.stat().st_size + spare)
    monkeypatch.setattr(submission_check, "ArchiveLimits", lambda: limits)
    options = {"team": "a", "phase": "feedback", "league": "free-style"}
    if taken:
        assert queue.enter(competition, store, path, **options) == 1
    else:
        with pytest.raises(UserError, match="are allowed; make it smaller"):
            queue.enter(competition, store, path, **options)


def test_a_submission_that_is_not_there(competition, store):
    with pytest.raises(UserError) as caught:
        store.submission(7)
    assert str(caught.value) == "There is no submission 7 here."


@pytest.mark.parametrize(("size", "findings"), [(65_000, 0), (66_000, 1)])
def test_everything_of_a_meta_learner_has_64_kilobytes_compressed(tmp_path, size, findings):
    """Bytes of noise have as many compressed."""
    (tmp_path / "table.csv").write_bytes(np.random.default_rng(0).bytes(size))
    texts = shipped_weights(tmp_path)
    assert len(texts) == findings
    assert all(
        "at most 64 are allowed in this league, and table.csv alone has 64.5" in text for text in texts
    )


@pytest.mark.parametrize(("extra", "findings"), [(0, 0), (1, 1)])
def test_all_files_of_a_meta_learner_have_four(tmp_path, extra, findings):
    for number in range(4):
        (tmp_path / f"{number}.csv").write_bytes(b"x" * (1 << 20))
    (tmp_path / "last.csv").write_bytes(b"x" * extra)
    assert (
        shipped_weights(tmp_path) == ["it has 4.0 MB in all, at most 4 are allowed in this league"][:findings]
    )


CODE = """\
import torch
net(pretrained=True)
net(pretrained=False)
net(pretrained=None)
net(weights="IMAGENET1K_V1")
net(weights=Weights.DEFAULT)
net(weights=None)
mean(weights=[1, 2])
mean(weights=0.5)
hub.load_state_dict_from_url("x")
from_pretrained("x")
plain(other="IMAGENET1K_V1")
net(weights="ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""


def test_calls_that_ask_for_learned_weights_by_line(tmp_path):
    (tmp_path / "model.py").write_text(CODE)
    (tmp_path / "net.PTH").write_bytes(b"")
    (tmp_path / "broken.py").write_text("def")
    assert shipped_weights(tmp_path) == ["net.PTH looks like saved weights"]
    assert mentions(tmp_path) == [
        "model.py:2 asks for pretrained=True",
        "model.py:5 asks for weights='IMAGENET1K_V1'",
        "model.py:6 asks for weights=Weights.DEFAULT",
        "model.py:10 calls load_state_dict_from_url",
        "model.py:11 calls from_pretrained",
        "model.py:13 asks for weights='ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLM",
    ]


@pytest.mark.parametrize(("fields", "size"), [(40, 10), (1, 64 << 10)])
def test_the_largest_fact_sheets(tmp_path, fields, size):
    assert (MOST, LARGEST) == (40, 65_536)
    path = tmp_path / "sheet.yaml"
    path.write_text("".join(f"f{number}: x\n" for number in range(fields)).ljust(size))
    assert len(read_sheet(path)) == fields
    path.write_text(path.read_text() + ("\nmore: x\n" if fields == 40 else " "))
    with pytest.raises(UserError, match="holds 41 fields" if fields == 40 else "has 64 KB, at most 64"):
        read_sheet(path)


def test_a_competition_in_a_folder_says_what_the_store_holds(competition, store, enter):
    sheet = {"title": "Means", "authors": "Ada"}
    enter("Ada's group", 0.5, pseudonym="Zorro", fact_sheet=dump_sheet(sheet))
    failed = enter("b")
    claimed = queue.claim(store, "w")
    assert queue.finish(store, claimed, "w", score=None, duration=1.0, reason="line 1\nboom\n")
    folder = competition.folder
    cup = api.connect(folder)
    names = ("id", "team", "phase", "league", "state", "score", "reason")
    assert [tuple(row[name] for name in names) for row in cup.status()] == [
        (2, "b", "feedback", "free-style", "failed", None, "line 1\nboom\n"),
        (1, "Ada's group", "feedback", "free-style", "scored", 0.5, None),
    ]
    assert [line for _, line in cup.status(failed)["history"]] == lines(store, failed)
    assert [cup.status(number)["fact_sheet"] for number in (1, 2)] == [sheet, {}]
    assert cup.hand_in_fact_sheet(2, {"title": "t", "data": "none"}) == [
        "authors",
        "summary",
        "pretrained",
        "code",
    ]
    board = cup.board()
    assert (board["phase"], board["league"]) == ("feedback", "free-style")
    assert board["standing"] == "provisional: only the phase 'final' ranks for good"
    (line,) = board["lines"]
    assert (line["rank"], line["team"], line["method"], line["submission"]) == (1, "Zorro", "Means", 1)
    assert cup.board(league="meta-learning")["lines"] == cup.board(phase="final")["lines"] == []
    with pytest.raises(UserError, match="no phase 'semifinal'; it has feedback, final"):
        cup.board(phase="semifinal")
    names = ("team", "league", "feedback", "score", "final", "why_not")
    assert [tuple(row[name] for name in names) for row in cup.enter_final()] == [
        ("Ada's group", "free-style", 1, 0.5, 3, "")
    ]
    assert cup.board(phase="final")["standing"] == "provisional: runs are still to come"
    assert cup.rerun(failed)["state"] == "queued"
    assert cup.cancel(failed)["state"] == "cancelled"
    assert "put back into the queue" in " ".join(line.text for line in cup.log(failed))
    page = folder / "board.html"
    api.write_leaderboard(folder, page, phase="feedback")
    assert "Zorro" in page.read_text()


def test_a_submission_enters_the_first_phase_that_takes_any(competition, submission, tmp_path: Path):
    sheet = tmp_path / "sheet.yaml"
    sheet.write_text("title: Means\n")
    cup = api.connect(competition.folder)
    receipt = cup.submit(submission(), team="a", fact_sheet=sheet)
    assert (receipt.submission, receipt.phase, receipt.team) == (1, "feedback", "a")
    assert cup.status(1)["fact_sheet"] == {"title": "Means"}
    assert cup.status(1)["submission"]["sha256"] == receipt.sha256


def test_every_public_name_is_there():
    assert all(getattr(api, name) is not None for name in api.__all__)
    with pytest.raises(AttributeError, match=r"longshot\.competition' has no attribute 'nothing'"):
        api.nothing  # noqa: B018


def test_time_is_utc_to_the_second(store):
    from longshot.arena.database_tables import now

    before = time.time()
    moment = dt.datetime.strptime(now(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=dt.UTC).timestamp()
    assert before - 1 <= moment <= time.time()
