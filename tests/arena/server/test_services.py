"""What a server does, without HTTP: people, teams, time, quotas, boards, versions of scores, the trash, the reaper."""

from __future__ import annotations

import datetime as dt
import hashlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import longshot
from longshot.arena import Competition, connect, entry_rules, load, queue
from longshot.arena.competition_data import BlobStore, dump_tasks, load_tasks
from longshot.arena.database_tables import in_future, invitations, runs
from longshot.arena.database_tables import uploads as upload_rows
from longshot.arena.policy import Person, Refusal
from longshot.arena.server import (
    boards,
    competition_app,
    credentials,
    organising,
    people,
    submissions,
    uploads,
    worker_api,
)
from longshot.arena.server.server_context import ServerContext
from longshot.base import UserError

from .conftest import PASSWORD, PORTS, archive, change


@pytest.fixture
def context(competition: Competition, empty_database: Path) -> Iterator[ServerContext]:
    shutil.copy(empty_database, competition.folder)
    change(competition.folder, "per_day: 3, total: 4", "per_day: 3, total: 10")
    opened = ServerContext(competition.folder)
    yield opened
    opened.close()


def somebody(context: ServerContext, name: str, role: str = "participant") -> Person:
    code = people.invite(context, people.HOST, role=role).code
    people.register(context, name=name, password=PASSWORD, code=code)
    return again(context, name)


def again(context: ServerContext, name: str) -> Person:
    """The same person as the next request sees them."""
    return credentials.by_session(context, people.log_in(context, name=name, password=PASSWORD))


def leader(context: ServerContext, name: str) -> Person:
    people.found_team(context, somebody(context, name), name=name)
    return again(context, name)


def submit(context: ServerContext, person: Person, note: str = "", **wish: Any) -> int:
    data = archive(note=note)
    wish = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), **wish}
    upload = uploads.begin_upload(context, person, **wish)
    uploads.write_chunk(context, person, upload.id, 0, data)
    return uploads.finish_upload(context, person, upload.id).submission


def score(context: ServerContext, value: float | None, half: float | None = 0.1) -> int:
    claimed = queue.claim(context.store, "w")
    assert claimed is not None
    reason = None if value is not None else "boom"
    assert queue.finish(context.store, claimed, "w", score=value, half=half, duration=1.0, reason=reason)
    return claimed.submission


# --- people and teams ---


def test_open_registration_waits_for_an_organiser(context: ServerContext) -> None:
    with pytest.raises(Refusal, match="needs an invitation"):
        people.register(context, name="Ann", password=PASSWORD)
    change(context.folder, "title: small", "title: small\nserver: {registration: open, terms: terms.md}")
    (context.folder / "terms.md").write_text("Be fair.")
    with pytest.raises(UserError, match="terms were not accepted"):
        people.register(context, name="Ann", password=PASSWORD)
    account = people.register(context, name="Ann", password=PASSWORD, terms=True)
    assert account.state == "pending"
    with pytest.raises(Refusal, match="or the account is not open yet"):
        people.log_in(context, name="Ann", password=PASSWORD)
    organiser = somebody_with_terms(context, "Olga")
    assert [row.name for row in people.list_accounts(context, organiser, state="pending")] == ["Ann"]
    people.change_account(context, organiser, account.id, state="active")
    assert again(context, "ann").role == "participant"
    with pytest.raises(Refusal, match="Nobody changes their own rights"):
        people.change_account(context, organiser, organiser.account or 0, role="participant")


def somebody_with_terms(context: ServerContext, name: str) -> Person:
    code = people.invite(context, people.HOST, role="organiser").code
    people.register(context, name=name, password=PASSWORD, code=code, terms=True)
    return again(context, name)


@pytest.mark.parametrize("name", ["", " ", "a\0b", "x" * 41, "a\u202eb"])
def test_names_that_are_no_names(context: ServerContext, name: str) -> None:
    code = people.invite(context, people.HOST).code
    with pytest.raises(UserError):
        people.register(context, name=name, password=PASSWORD, code=code)


def test_names_are_one_whatever_their_case(context: ServerContext) -> None:
    somebody(context, "Ada")
    code = people.invite(context, people.HOST).code
    with pytest.raises(Refusal, match="The name 'ADA' is taken"):
        people.register(context, name=" ＡＤＡ ", password=PASSWORD, code=code)
    people.register(context, name="Eve", password=PASSWORD, code=code)  # the code was not used up


@pytest.mark.parametrize("password", ["short", "aaaaaaaaaaaa", "x" * 201])
def test_passwords_that_are_too_weak(context: ServerContext, password: str) -> None:
    code = people.invite(context, people.HOST).code
    with pytest.raises(UserError, match="password has"):
        people.register(context, name="Ada", password=password, code=code)


def test_an_invitation_ends(context: ServerContext) -> None:
    code = people.invite(context, people.HOST).code
    with context.store.change() as connection:
        connection.execute(invitations.update().values(expires=in_future(seconds=-1)))
    with pytest.raises(Refusal, match="unknown, used or over"):
        people.register(context, name="Ada", password=PASSWORD, code=code)


def test_a_team_from_its_beginning_to_its_end(context: ServerContext) -> None:
    ada, bob, eve = leader(context, "Ada"), somebody(context, "Bob"), somebody(context, "Eve")
    team = people.join_team(context, bob, code=people.invite_to_team(context, ada).code)
    bob = again(context, "Bob")
    assert [member.name for member in team.members] == ["Ada", "Bob"] and bob.team == ada.team
    with pytest.raises(Refusal, match="already"):
        people.found_team(context, bob, name="Mine")
    with pytest.raises(Refusal, match="Only the leader"):
        people.invite_to_team(context, bob)
    with pytest.raises(Refusal, match="You lead a team with 1 others"):
        people.leave_team(context, ada)
    number = submit(context, bob)
    assert submissions.read_submission(context, ada, number).submission.team == "Ada"  # one identity
    people.transfer_team(context, ada, bob.account or 0)
    people.leave_team(context, ada)
    bob = again(context, "Bob")
    assert [member.leads for member in people.own_team(context, bob).members] == [True]  # type: ignore[union-attr]
    with pytest.raises(Refusal, match="There is no submission"):
        submissions.read_submission(context, again(context, "Ada"), number)  # it stayed with the team
    people.join_team(context, eve, code=people.invite_to_team(context, bob).code)
    people.remove_member(context, bob, eve.account or 0)
    assert again(context, "Eve").team is None
    with pytest.raises(Refusal, match="There is no member"):
        people.remove_member(context, bob, eve.account or 0)


def test_a_team_has_as_many_members_as_the_competition_allows(context: ServerContext) -> None:
    change(context.folder, "title: small", "title: small\nserver: {team_size: 1}")
    ada, bob = leader(context, "Ada"), somebody(context, "Bob")
    with pytest.raises(Refusal, match="has 1 members, and 1 are allowed"):
        people.join_team(context, bob, code=people.invite_to_team(context, ada).code)


# --- time ---


def test_a_phase_is_a_function_of_time(competition: Competition) -> None:
    change(
        competition.folder,
        "tasks: 3, per_day: 3",
        "tasks: 3, start: 2027-01-01, end: '2027-02-01 12:00', per_day: 3",
    )
    change(competition.folder, "seeds: [1, 2, 3]", "start: '2027-02-01T13:00+01:00', seeds: [1, 2, 3]")
    settings = load(competition.folder)
    border = dt.datetime(2027, 2, 1, 12, tzinfo=dt.UTC)
    second = dt.timedelta(seconds=1)

    def states(moment: dt.datetime) -> list[str]:
        return [phase.state for phase in entry_rules.timetable(settings, moment)]

    assert states(border - second) == ["open", "coming"]
    assert states(border) == ["over", "open"]  # every moment belongs to one of them
    assert states(dt.datetime(2026, 12, 31, 23, 59, 59, tzinfo=dt.UTC)) == ["coming", "coming"]
    assert entry_rules.default_phase(settings, border).name == "final"


def test_the_target_names_the_tasks(competition: Competition) -> None:
    phase = competition.phases[0]
    first = entry_rules.target(competition, phase, "secret")
    assert first == entry_rules.target(competition, phase, "secret")
    targets = [
        entry_rules.target(competition, phase, "another"),
        entry_rules.target(competition, phase.model_copy(update={"version": 2}), "secret"),
        entry_rules.target(competition, phase.model_copy(update={"tasks": 4}), "secret"),
        entry_rules.target(competition, competition.final, "secret"),
    ]
    assert len({first, *targets}) == 5


def test_another_version_of_a_phase_has_other_tasks(competition: Competition) -> None:
    from longshot.arena.competition_data import CompetitionData

    phase = competition.phases[0]
    data = CompetitionData(competition)
    first = dump_tasks(data.test_tasks(phase, 1))
    assert dump_tasks(data.test_tasks(phase.model_copy(update={"version": 2}), 1)) != first
    assert dump_tasks(load_tasks(first)) == first  # as they go over the wire


# --- boards ---


def test_a_board_by_last_best_and_selected(context: ServerContext) -> None:
    ada = leader(context, "Ada")
    numbers = []
    for value in (0.3, 0.7, 0.5):
        numbers.append(submit(context, ada, note=str(value)))
        score(context, value)
    board = boards.board(context, ada)
    assert [(line.score, line.half, line.entries) for line in board.lines] == [(0.5, 0.1, 3)]
    assert boards.board(context, ada, by="best").lines[0].score == 0.7
    assert boards.board(context, ada, by="selected").lines[0].score == 0.5  # none is selected: the last
    submissions.select_submission(context, ada, numbers[0])
    assert boards.board(context, ada, by="selected").lines[0].score == 0.3
    submissions.select_submission(context, ada, numbers[1])
    assert boards.board(context, ada, by="selected").lines[0].score == 0.7  # one at a time
    assert [point.score for point in boards.progress(context, ada)] == [0.3, 0.7, 0.5]
    change(context.folder, "title: small", "title: small\nranks_by: best")
    assert boards.board(context, ada).lines[0].score == 0.7  # a rule that changes is the board's at once
    visitor = boards.board(context, Person())
    assert visitor.lines[0].submission is None and not visitor.lines[0].own
    with pytest.raises(Refusal, match="has no phase 'semi'; it has feedback"):
        boards.board(context, ada, phase="semi")
    with pytest.raises(UserError, match="ranks by last, best or selected"):
        boards.board(context, ada, by="luck")


def test_what_lies_in_the_trash_is_on_no_board_and_comes_back(context: ServerContext) -> None:
    ada, organiser = leader(context, "Ada"), somebody(context, "Olga", "organiser")
    first, second = (submit(context, ada, note=str(i)) for i in range(2))
    with pytest.raises(Refusal, match="cancel it first"):
        organising.delete_submission(context, organiser, first)
    for value in (0.9, 0.4):
        score(context, value)
    organising.delete_submission(context, organiser, second)
    assert boards.board(context, ada).lines[0].score == 0.9
    assert organising.trash(context, organiser).submissions == [second]
    with pytest.raises(Refusal, match="There is no submission"):
        submissions.read_submission(context, ada, second)
    allowed = submissions.allowances(context, ada)[0]
    assert allowed.today == 2  # deleting gives no quota back
    organising.delete_submission(context, organiser, second, deleted=False)
    assert boards.board(context, ada).lines[0].score == 0.4
    actions = [line.action for line in organising.audit_log(context, organiser)]
    assert actions[:2] == ["submission.restore", "submission.delete"]


# --- versions of scores ---


def test_a_phase_is_scored_anew_when_it_is_confirmed(context: ServerContext) -> None:
    ada, organiser = leader(context, "Ada"), somebody(context, "Olga", "organiser")
    number = submit(context, ada)
    wish: dict[str, Any] = {"phase": "feedback", "reason": "the tasks were too easy"}
    with pytest.raises(Refusal, match="1 submissions to phase 'feedback' wait or run"):
        organising.rescore(context, organiser, **wish, confirm="feedback")
    score(context, 0.5)
    with pytest.raises(Refusal, match="was not confirmed; confirm with 'feedback'"):
        organising.rescore(context, organiser, **wish, confirm="")
    change(context.folder, "tasks: 3, per_day", "tasks: 3, version: 2, per_day")
    with pytest.raises(UserError, match="answered other tasks"):
        organising.rescore(context, organiser, **wish, kind="score", confirm="feedback")
    before = context.store.submission(number)["target"]
    done = organising.rescore(context, organiser, **wish, confirm="feedback")
    assert (done.version, done.submissions, done.remaining) == (2, 1, 1) and done.target != before
    line = boards.board(context, ada).lines[0]
    assert line.pending and line.score == 0.5  # the board is not empty meanwhile
    score(context, 0.2)
    line = boards.board(context, ada).lines[0]
    assert not line.pending and line.score == 0.2
    versions = organising.score_versions(context, organiser, number)
    assert [(row.version, row.score) for row in versions] == [(1, 0.5), (2, 0.2)]
    assert submissions.allowances(context, ada)[0].today == 1  # it costs the team nothing
    assert organising.rescorings(context, ada)[0].remaining == 0


@pytest.mark.long
def test_answers_are_scored_anew_without_running_anything(
    context: ServerContext, needs_sandbox: None
) -> None:
    """A new scorer: the answers of the run are read, the submission is not started."""

    ada, organiser = leader(context, "Ada"), somebody(context, "Olga", "organiser")
    number = submit(context, ada)
    assert connect(context.folder).work() == 1
    first = submissions.read_submission(context, ada, number).submission.score
    folder = context.folder / "submissions" / f"{number:06d}"
    (folder / "submission.zip").rename(folder / "away.zip")  # nothing to run
    organising.rescore(
        context, organiser, phase="feedback", reason="a new scorer", kind="score", confirm="feedback"
    )
    assert connect(context.folder).work() == 1
    assert submissions.read_submission(context, ada, number).submission.score == first
    assert (folder / "seed-1" / "answers.jsonl").is_file() and (folder / "seed-1" / "log.txt").is_file()


def test_the_final_is_entered_once_by_name(context: ServerContext) -> None:
    ada, organiser = leader(context, "Ada"), somebody(context, "Olga", "organiser")
    submit(context, ada)
    score(context, 0.5)
    entries = [organising.hold_final(context, organiser) for _ in range(3)]
    assert len({entry[0].final for entry in entries}) == 1
    row = context.store.submission(entries[0][0].final or 0)
    assert row["job"].startswith("carry/final/free-style/team-1/") and row["target"][:16] in row["job"]


def test_the_final_begins_by_itself_where_the_settings_say_so(context: ServerContext) -> None:
    ada = leader(context, "Ada")
    submit(context, ada)
    score(context, 0.5)
    assert competition_app.sweep(context).carried == 0
    change(context.folder, "title: small", "title: small\nserver: {carry_over: true}")
    change(context.folder, "seeds: [1, 2, 3]", "start: '2999-01-01', seeds: [1, 2, 3]")
    assert competition_app.sweep(context).carried == 0  # not yet
    change(context.folder, "2999-01-01", "2020-01-01")
    assert [competition_app.sweep(context).carried for _ in range(2)] == [1, 1]
    assert submissions.list_submissions(context, ada).total == 2  # and once


# --- the reaper, the disk, the queue ---


def test_a_server_that_starts_makes_the_checks_of_one_that_died(context: ServerContext) -> None:
    ada = leader(context, "Ada")
    data = archive()
    upload = uploads.begin_upload(context, ada, size=len(data), sha256=hashlib.sha256(data).hexdigest())
    uploads.write_chunk(context, ada, upload.id, 0, data)
    with context.store.change() as connection:  # a moment ago
        connection.execute(upload_rows.update().values(state="checking", seen=time.time()))
    with pytest.raises(Refusal, match="The upload is being checked"):
        uploads.finish_upload(context, ada, upload.id)
    longshot.serve_competition(context.folder, port=next(PORTS)).close()
    assert uploads.finish_upload(context, ada, upload.id).submission == 1


def test_every_state_that_is_no_end_is_swept(context: ServerContext) -> None:
    ada = leader(context, "Ada")
    data = archive()
    wish = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    upload = uploads.begin_upload(context, ada, **wish)  # type: ignore[arg-type]
    uploads.write_chunk(context, ada, upload.id, 0, data)
    with context.store.change() as connection:  # its server died while it was looked at
        connection.execute(upload_rows.update().values(state="checking", seen=time.time() - 1000))
    assert competition_app.sweep(context).uploads == 1
    number = uploads.finish_upload(context, ada, upload.id).submission
    for expected in ("running", "platform error"):
        queue.claim(context.store, "dead")
        with context.store.change() as connection:
            connection.execute(runs.update().values(seen=0.0))
        assert competition_app.sweep(context).runs == 1
        assert context.store.submission(number)["state"] == expected
    assert submissions.allowances(context, ada)[0].today == 0  # refunded
    abandoned = uploads.begin_upload(context, ada, size=3, sha256="0" * 64)
    uploads.write_chunk(context, ada, abandoned.id, 0, b"x")
    with context.store.change() as connection:
        connection.execute(upload_rows.update().where(upload_rows.c.state == "open").values(seen=0.0))
    assert competition_app.sweep(context).uploads == 1
    assert uploads.read_upload(context, ada, abandoned.id).state == "expired"
    assert not list((context.folder / "uploads").glob("*.part"))


def test_a_full_disk_lets_things_wait_and_fails_nothing(context: ServerContext) -> None:
    ada = leader(context, "Ada")
    number = submit(context, ada)
    change(context.folder, "title: small", f"title: small\nserver: {{free_disk: {1 << 60}}}")
    with pytest.raises(Refusal, match="MB of free disk and needs") as caught:
        submit(context, ada, note="another")
    assert caught.value.status == 503 and caught.value.retry
    token = credentials.create_worker_token(context, people.HOST, name="w")
    worker = credentials.by_token(context, token.token)
    claiming = worker_api.claim_job(context, worker, worker="w")
    assert claiming.job is None and "free disk" in str(claiming.wait)
    state = boards.queue_state(context, Person())
    assert [(each.state, "free disk" in str(each.why)) for each in state.workers] == [("paused", True)]
    assert context.store.submission(number)["state"] == "queued"


def test_an_organiser_pauses_the_queue(context: ServerContext) -> None:
    ada, organiser = leader(context, "Ada"), somebody(context, "Olga", "organiser")
    submit(context, ada)
    organising.pause(context, organiser, why="the disk is exchanged")
    assert queue.claim(context.store, "w") is None
    assert (
        boards.queue_state(context, ada).note == "The queue pauses: the disk is exchanged. Nothing is lost."
    )
    organising.pause(context, organiser, why=None)
    assert queue.claim(context.store, "w") is not None


def test_the_queue_says_who_is_next_and_who_works(context: ServerContext) -> None:
    ada, bob = leader(context, "Ada"), leader(context, "Bob")
    numbers = [submit(context, ada), submit(context, bob), submit(context, ada, note="2")]
    places = [
        submissions.read_submission(context, ada, n).submission.position for n in (numbers[0], numbers[2])
    ]
    assert places == [1, 3]
    assert boards.queue_state(context, Person()).note.startswith("Waiting: 3 runs. No worker is at work")
    queue.claim(context.store, "here:1:2")
    state = boards.queue_state(context, Person())
    assert (state.waiting, state.running) == (2, 1)
    assert [(worker.name, worker.state) for worker in state.workers] == [("here", "running")]


# --- logs ---


def test_a_log_is_tailed_line_by_line(context: ServerContext) -> None:
    change(context.folder, "tasks: 3, per_day", "tasks: 3, logs: printed, per_day")
    ada = leader(context, "Ada")
    number = submit(context, ada)
    claimed = queue.claim(context.store, "w")
    assert claimed is not None
    live = submissions.live_log(context.folder / "submissions" / f"{number:06d}", 1, claimed.attempt)
    live.write_bytes(b"first\nsec")
    part = submissions.tail(context, ada, number)
    assert part.text == "| first\n" and not part.ended and len(part.messages) == 2
    live.write_bytes(b"first\nsecond\x1b[2J\n")
    part = submissions.tail(context, ada, number, cursor=part.cursor)
    assert part.text == "| second\\x1b[2J\n" and part.messages == []
    with pytest.raises(UserError, match="cursor is none"):
        submissions.tail(context, ada, number, cursor="1.1")
    with pytest.raises(Refusal, match="There is no run with seed 7"):
        submissions.tail(context, ada, number, seed=7)
    queue.release(context.store, claimed, "w", "the worker was stopped", counted=False)
    queue.claim(context.store, "w")
    with context.store.change() as connection:
        connection.execute(runs.update().values(attempt=2))
    live.unlink()
    submissions.live_log(live.parent, 1, 2).write_bytes(b"again\n")
    part = submissions.tail(context, ada, number, cursor=part.cursor)
    assert part.restarted and part.text == "| again\n"


def test_settings_that_cannot_be_read_leave_those_before(context: ServerContext) -> None:
    path = context.folder / "competition.yaml"
    text = path.read_text()
    path.write_text("title: [")
    assert context.competition.title == "small"
    path.write_text(text.replace("small", "larger"))
    assert context.competition.title == "larger"


@pytest.mark.long
def test_blobs_are_the_same_however_often_they_are_asked_for(context: ServerContext) -> None:
    blobs = BlobStore(context.folder)
    competition = context.competition
    phase = competition.phases[0]
    while not blobs.ready(competition, [phase]):
        time.sleep(0.02)
    first = blobs.files(competition, phase, 1, 1)
    assert (
        blobs.files(competition, phase, 1, 2)
        == first
        == BlobStore(context.folder).files(competition, phase, 1, 1)
    )
    for blob in (*first.training, *first.images, first.tasks):
        path = blobs.path(blob.sha256)
        assert path is not None and hashlib.sha256(path.read_bytes()).hexdigest() == blob.sha256
    for name in ("../secret", "x", "", "0" * 64, first.tasks.sha256.upper()):
        assert blobs.path(name) is None
    assert Path(blobs.folder).stat().st_mode & 0o077 == 0
