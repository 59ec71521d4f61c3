"""The queue: quotas, claims, deaths, ends; a run is counted once whatever happens."""

from __future__ import annotations

import stat
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from longshot.arena import Competition, connect, queue, ranking, submission_check
from longshot.arena.database_tables import runs
from longshot.arena.settings import parse_time
from longshot.arena.store import Store
from longshot.arena.submission_check import unpack
from longshot.base import ArchiveLimits, UserError


@pytest.fixture
def store(competition: Competition) -> Store:
    return Store(competition)


@pytest.fixture
def enter(competition, store, submission):
    folder = submission()

    def enter_submission(team: str = "a", phase: str = "feedback", **options: object) -> int:
        options.setdefault("league", "free-style")
        return queue.enter(competition, store, folder, team=team, phase=phase, **options)

    return enter_submission


def score(store: Store, value: float | None, reason: str | None = None) -> queue.Claim:
    """Claim the next run and end it."""
    claimed = queue.claim(store, "w")
    assert claimed is not None
    assert queue.finish(store, claimed, "w", score=value, duration=1.0, reason=reason)
    return claimed


def test_runs_are_claimed_in_order_and_once(store, enter):
    numbers = [enter(team) for team in "abc"]
    assert [queue.claim(store, "w").submission for _ in numbers] == numbers
    assert queue.claim(store, "w") is None


def test_many_workers_claim_every_run_once(store, enter):
    numbers = [enter(f"team {i}") for i in range(12)]

    def drain(worker: int) -> list[int]:
        claims = []
        while (claimed := queue.claim(store, f"w{worker}")) is not None:
            claims.append(claimed.submission)
        return claims

    with ThreadPoolExecutor(6) as pool:
        claimed = [number for part in pool.map(drain, range(6)) for number in part]
    assert sorted(claimed) == numbers


def test_the_quota_of_a_day(enter):
    for _ in range(3):
        enter()
    with pytest.raises(
        UserError, match=r"has made 3 submissions to phase 'feedback' today \(UTC\), and 3 are allowed"
    ):
        enter()
    enter("another team")


def test_the_quota_in_all(competition, store, submission):
    folder = submission()
    phases = tuple(phase.model_copy(update={"per_day": 0}) for phase in competition.phases)
    generous = competition.model_copy(update={"phases": phases})
    for _ in range(4):
        queue.enter(generous, store, folder, team="a", phase="feedback", league="free-style")
    with pytest.raises(UserError, match="4 are allowed"):
        queue.enter(generous, store, folder, team="a", phase="feedback", league="free-style")


def test_dates(competition, store, submission):
    folder = submission()
    for change, words in (({"start": "2999-01-01"}, "begins on"), ({"end": "2000-01-01 12:00"}, "ended on")):
        moved = competition.model_copy(update={"phases": (competition.phases[0].model_copy(update=change),)})
        with pytest.raises(UserError, match=words):
            queue.enter(moved, store, folder, team="a", phase="feedback", league="free-style")


def test_unknown_league_and_phase(enter):
    with pytest.raises(UserError, match="no league 'chess'"):
        enter(league="chess")
    with pytest.raises(UserError, match="no phase 'semifinal'"):
        enter(phase="semifinal")


def test_a_dead_worker_loses_its_run_and_cannot_count_it(store, enter):
    enter()
    dead = queue.claim(store, "dead")
    with store.change() as connection:
        connection.execute(runs.update().values(seen=time.time() - queue.LEASE - 1))
    again = queue.claim(store, "living")
    assert again.run == dead.run and again.attempt == 2
    assert not queue.alive(store, dead, "dead")
    assert not queue.finish(store, dead, "dead", score=0.9, duration=1.0, reason=None)
    assert queue.finish(store, again, "living", score=0.5, duration=1.0, reason=None)
    assert not queue.finish(store, again, "living", score=0.7, duration=1.0, reason=None)
    assert store.submission(dead.submission)["score"] == 0.5


def test_what_kills_its_worker_twice_is_the_platforms_error_and_refunded(store, enter):
    number = enter()
    for _ in range(queue.ATTEMPTS):
        assert queue.claim(store, "w").submission == number
        with store.change() as connection:
            connection.execute(runs.update().values(seen=0.0))
    assert queue.claim(store, "w") is None
    submission = store.submission(number)
    assert submission["state"] == "platform error" and "died 2 times" in submission["reason"]
    assert "costs no quota" in submission["reason"] and submission["charged"] is None
    for _ in range(3):  # the whole quota of the day is there
        enter()


def test_the_worst_of_three_seeds_counts(competition, store, enter):
    enter()
    score(store, 0.6)
    number = enter(phase="final")
    for value in (0.5, 0.3, 0.4):
        assert store.submission(number)["state"] in ("queued", "running")
        score(store, value)
    assert store.submission(number)["score"] == 0.3


def test_one_failed_seed_fails_the_submission(store, enter):
    enter()
    score(store, 0.6)
    number = enter(phase="final")
    score(store, 0.5)
    score(store, None, "it failed in fit: boom")
    assert queue.claim(store, "w") is None
    assert store.submission(number)["reason"] == "it failed in fit: boom"


def test_rerun(store, enter):
    number = enter()
    with pytest.raises(UserError, match="is queued; only one that has ended"):
        queue.rerun(store, number)
    score(store, 0.1)
    queue.rerun(store, number)
    score(store, 0.2)
    assert store.submission(number)["score"] == 0.2
    assert [row["what"] for row in store.history(number)].count("put back into the queue") == 1


def test_ranks_ties_to_the_earlier_and_unranked_entries(competition, store, enter):
    for team, value in (("slow", 0.5), ("organisers", 0.9), ("late", 0.5), ("best", 0.7)):
        enter(team, ranked=team != "organisers")
        score(store, value)
    entries = ranking.leaderboard(competition, store, "feedback", "free-style")
    assert [(entry.rank, entry.team) for entry in entries] == [
        (None, "organisers"),
        (1, "best"),
        (2, "slow"),
        (3, "late"),
    ]


def test_the_last_valid_submission_goes_to_the_final(competition, store, enter):
    enter("a", pseudonym="Zorro")
    score(store, 0.9)
    last = enter("a")
    score(store, 0.2)
    enter("a")
    score(store, None, "boom")
    enter("weak")
    score(store, -0.9)
    (entered, refused) = ranking.enter_final(competition, store)
    assert entered.feedback == last and entered.final is not None
    assert refused.why_not == "-0.900 does not exceed -0.5"
    assert ranking.enter_final(competition, store)[0].final == entered.final  # once
    assert ranking.final_on(competition, store) is None
    for _ in range(3):
        score(store, 0.1)
    (line,) = ranking.leaderboard(competition, store, "final", "free-style")
    assert (line.rank, line.team) == (1, "Zorro")
    assert (ranking.final_on(competition, store) - parse_time(line.created, "")).days >= 14


def zip_with(path: Path, name: str, data: bytes = b"", *, link: bool = False, count: int = 1) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.py", "")
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (stat.S_IFLNK if link else stat.S_IFREG) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, data)
        for number in range(1, count):
            archive.writestr(f"{number}", b"")
    return path


def test_hostile_archives_are_refused_before_they_count(
    competition, store, submission, tmp_path, monkeypatch
):
    monkeypatch.setattr(submission_check, "unpack", partial(unpack, limits=ArchiveLimits(bytes=20 << 20)))
    script = "<script>alert(1)</script>"
    zips = {
        "is not allowed": zip_with(tmp_path / "a.zip", "../evil.py", b"x"),
        "is a link": zip_with(tmp_path / "b.zip", "labels", b"/etc/shadow", link=True),
        "more than the 20 MB": zip_with(tmp_path / "c.zip", "zeros", bytes(21 << 20)),
        "3,001 files, at most 2,000": zip_with(tmp_path / "d.zip", "0", count=3_000),
        "no model.py": tmp_path / "e.zip",
        "no zip that can be read": tmp_path / "f.zip",
    }
    with zipfile.ZipFile(zips["no model.py"], "w") as archive:
        archive.writestr(script, "")
    zips["no zip that can be read"].write_bytes(b"garbage")
    options = {"team": "a", "phase": "feedback", "league": "free-style"}
    for reason, path in zips.items():
        with pytest.raises(UserError, match=f"The archive {path.name} cannot be taken: .*{reason}"):
            queue.enter(competition, store, path, **options)
    assert not list((competition.folder / "submissions").iterdir())
    assert not list(tmp_path.rglob("evil.py"))
    folder = submission()
    for number in (1, 2, 3):  # the whole quota of a day
        assert queue.enter(competition, store, folder, **options) == number


def test_what_fails_is_told_and_the_queue_goes_on(competition, store, submission, needs_sandbox):
    """An archive that is damaged after it was taken, a submission that raises hostile text, one that works."""
    script = "<script>alert(1)</script>"
    raising = f"raise ValueError({script!r} + '\\x1b[2J\\x00' + chr(0xd800))"
    sources = [submission("damaged"), submission("hostile", meta=raising), submission("good")]
    for team, source in enumerate(sources):
        queue.enter(competition, store, source, team=f"t{team}", phase="feedback", league="free-style")
    with zipfile.ZipFile(queue.archive_path(competition, 1) / "submission.zip", "w") as damaged:
        damaged.writestr("read.me", "nothing else")
    assert connect(competition.folder).work() == len(sources)
    for number, reason in enumerate(
        ["no model.py", "it failed in meta_fit with ValueError at model.py"], start=1
    ):
        row = store.submission(number)
        assert row["state"] == "failed" and reason in row["reason"]
        assert reason in (queue.archive_path(competition, number) / "seed-1" / "log.txt").read_text()
    runs_of = [queue.archive_path(competition, number) / "seed-1" for number in (1, 2)]
    assert [sorted(path.name for path in run.iterdir()) for run in runs_of] == [
        ["log.txt"],
        ["log.txt", "printed.txt"],
    ]
    assert f"ValueError: {script}\\x1b[2J\\x00\\ud800" in (runs_of[1] / "printed.txt").read_text()
    assert store.submission(len(sources))["state"] == "scored"


def test_a_submission_too_large_to_be_taken(competition, store, tmp_path):
    with (tmp_path / "big.zip").open("wb") as out:
        out.truncate(501 << 20)
    with pytest.raises(UserError, match="has 501 MB, at most 500 are allowed"):
        queue.enter(competition, store, tmp_path / "big.zip", team="a", phase="feedback", league="free-style")
    assert not list((competition.folder / "submissions").glob("*"))


def test_an_entry_that_is_refused_leaves_nothing(competition, store, enter):
    for _ in range(3):
        enter()
    with pytest.raises(UserError, match="3 are allowed"):
        enter()
    names = sorted(path.name for path in (competition.folder / "submissions").iterdir())
    assert names == ["000001", "000002", "000003"]


@pytest.mark.parametrize("team", ["", " ", "a\0b", "x\x1b[2J", "y" * 101])
def test_names_that_are_no_names(enter, team):
    with pytest.raises(UserError, match="name"):
        enter(team)


def test_a_run_given_back_waits_again_and_costs_nothing(store, enter):
    number = enter()
    for _ in range(queue.ATTEMPTS + 1):
        claimed = queue.claim(store, "w")
        queue.release(store, claimed, "w", "the worker was stopped", counted=False)
    assert queue.claim(store, "w").attempt == 1
    assert store.submission(number)["state"] == "running"


def test_a_run_that_its_runner_cannot_do_ends_after_one_retry(store, enter):
    number = enter()
    for _ in range(queue.ATTEMPTS):
        queue.release(store, queue.claim(store, "w"), "w", "the runner failed", counted=True)
    assert queue.claim(store, "w") is None
    assert store.submission(number)["reason"] == "platform error: the runner failed; it costs no quota"


def test_a_submission_is_charged_when_its_first_run_begins(store, enter):
    number = enter()
    assert store.submission(number)["charged"] is None
    score(store, 0.5)
    assert store.submission(number)["charged"] is not None


def test_what_is_cancelled_before_it_began_costs_nothing(store, enter):
    numbers = [enter() for _ in range(3)]
    assert queue.cancel(store, numbers[2], "its team") == "queued"
    enter()
    claimed = queue.claim(store, "w")
    assert queue.cancel(store, numbers[0], "its team") == "running"
    assert not queue.alive(store, claimed, "w")
    assert not queue.finish(store, claimed, "w", score=0.9, duration=1.0, reason=None)
    assert store.submission(numbers[0])["state"] == "cancelled"
    with pytest.raises(UserError, match="3 are allowed"):  # one that ran is charged
        enter()
    with pytest.raises(UserError, match="is cancelled; only one that waits or runs"):
        queue.cancel(store, numbers[0], "its team")


def test_no_finite_score_no_entry(competition, store, enter):
    number = enter()
    score(store, float("nan"))
    assert store.submission(number)["reason"] == "its score is not a finite number"
    assert ranking.leaderboard(competition, store, "feedback", "free-style") == []
