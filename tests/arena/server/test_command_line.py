"""A competition from the first invitation to the final, over HTTP, with the command line as its client."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from forked import ForkServer
from longshot import competition as api
from longshot.arena import ConnectedCompetition
from longshot.base import UserError

from ..conftest import write_competition
from .conftest import Arena, Visitor, archive, change, open_arena, send
from .test_attacks import held_run, put_scores


@pytest.fixture
def served(images: Path, tmp_path: Path, empty_database: Path) -> Any:
    """The small competition with a practice phase and printed logs."""
    write_competition(tmp_path / "competition", images)
    shutil.copy(empty_database, tmp_path / "competition")
    change(tmp_path / "competition", "tasks: 3, per_day: 3", "tasks: 2, logs: printed, per_day: 3")
    change(
        tmp_path / "competition",
        "  final:",
        "  play: {train: [one], test: [two], tasks: 1, practice: true}\n  final:",
    )
    opened = open_arena(tmp_path / "competition")
    yield opened
    opened.server.close()


def at(arena: Arena, person: Visitor, *scopes: str) -> tuple[str, ...]:
    return (arena.server.url, "--token", arena.token(person, *scopes))


def handing(arena: Arena, code: Path) -> tuple[object, ...]:
    address, *token = at(arena, arena.ada)
    return (address, code, *token)


def test_a_submission_over_http_from_the_shell_to_the_board(
    served: Arena, forks: ForkServer, submission: Any
) -> None:
    """A short form: the worker's part is played by its requests, and nothing is run."""
    hand_in_from_the_shell(served, forks, submission)
    base, query = held_run(served, 1)[1:]
    served.worker.good("POST", f"{base}/log", data=b"it trains\n", query={**query, "offset": 0})
    served.worker.good("PUT", f"{base}/files/log.txt", data=b"| it trains\nscored\n", query=query)
    put_scores(served, base, query, 0.25)
    served.worker.good("POST", f"{base}/finish", {"duration": 1.0, "reason": None}, query=query)
    look_from_the_shell(served, forks)


@pytest.mark.long
@pytest.mark.usefixtures("needs_sandbox")
def test_a_submission_is_run_by_a_worker_from_the_shell(
    served: Arena, forks: ForkServer, submission: Any
) -> None:
    hand_in_from_the_shell(served, forks, submission)
    worker = (served.server.url, "--token", served.worker_token)
    worked = forks.run("compete", "work", *worker)
    assert "submission 1, seed 1: scored" in worked.stdout and "1 runs done" in worked.stdout
    look_from_the_shell(served, forks)
    assert served.ada.good("GET", "/submissions/1/scores")["overall"]["tasks"] == 2
    folder = served.folder / "submissions" / "000001" / "seed-1"
    assert (folder / "detailed_results.html").is_file() and (folder / "answers.jsonl").is_file()


def hand_in_from_the_shell(arena: Arena, forks: ForkServer, submission: Any) -> None:
    ada = at(arena, arena.ada)
    code = submission(meta="print('it trains')\nreturn MyLearner()")
    lines = forks.run("compete", "submit", ada[0], code, *ada[1:]).stdout.splitlines()
    assert lines[0] == "submission 1 of team 'Ada' is queued in phase feedback"
    assert lines[1].startswith("receipt: ") and "sha256" in lines[1]
    assert lines[2] == "2 more may be handed in today"
    assert re.search(r"00:00 UTC( \(.* here\))?, in ", lines[3])
    status = forks.run("compete", "status", *ada).stdout
    assert "queued, number 1" in status and "Waiting: 1 run. No worker is at work" in status


def look_from_the_shell(arena: Arena, forks: ForkServer) -> None:
    """What a team sees of a submission that was scored."""
    ada = at(arena, arena.ada)
    log = forks.run("compete", "log", ada[0], "1", *ada[1:], "--follow").stdout
    assert "entered into phase feedback" in log and "| it trains" in log and log.endswith("scored\n")
    board = forks.run("compete", "leaderboard", *ada).stdout
    assert "Ada" in board and "±" in board and "provisional" in board
    everybody = forks.run("compete", "leaderboard", arena.server.url, "--json").stdout
    assert json.loads(everybody)[0]["team"] == "Ada"
    quota = forks.run("compete", "quota", *ada).stdout
    assert "1 of 3" in quota and "days begin at" in quota
    assert "scored" in forks.run("compete", "status", ada[0], "1", *ada[1:]).stdout


@pytest.mark.long
@pytest.mark.usefixtures("needs_sandbox")
def test_workers_here_and_elsewhere_score_alike(served: Arena, submission: Any) -> None:
    """The same submission answers the same hidden tasks, whether its worker has the folder or a token."""
    guess = "return np.random.default_rng(len(query_set)).integers(0, self.ways, len(query_set))"
    cup = api.connect(served.server.url, served.token(served.ada))
    cup.submit(submission(predict=guess))
    assert api.connect(served.server.url, served.worker_token).work() == 1
    scores = served.ada.good("GET", "/submissions/1/scores")["overall"]
    cup = api.connect(served.folder)
    cup.rerun(1)
    assert cup.work() == 1
    assert served.ada.good("GET", "/submissions/1/scores")["overall"] == scores


def test_cancel_and_practice(served: Arena, forks: ForkServer, code_folder: Path) -> None:
    ada = at(served, served.ada)
    for number in range(1, 5):  # more than a day's quota
        done = forks.run("compete", "submit", ada[0], code_folder, *ada[1:], "--phase", "play")
        assert done.stdout.startswith(f"submission {number} of team 'Ada' is queued in phase play")
    assert "46 more may be handed in today" in done.stdout  # of all attempts
    cancelled = forks.run("compete", "cancel", ada[0], "2", *ada[1:])
    assert cancelled.stdout == "submission 2 is cancelled; it costs no quota\n"
    again = forks.run("compete", "cancel", ada[0], "2", *ada[1:], check=False)
    assert again.returncode == 2 and "is cancelled; only one that waits or runs" in again.stderr


BAD = {
    "unknown token": "The token is not one of this competition; make one on the server's page.",
    "unknown league": "There is no league 'chess' here; there are: free-style, meta-learning.",
    "unknown phase": "The competition has no phase 'semi'; it has feedback, play, final.",
    "closed phase": "Phase 'feedback' ended on 2020-01-01 00:00; nothing can be submitted to it any more.",
    "coming phase": "Phase 'feedback' begins on 2999-01-01 00:00; submit from then on.",
    "no team": "Submissions belong to a team, and you are in none; make a team or join one first.",
    "too large": "The submission has 0.0 MB, at most 0.0 are allowed; make it smaller.",
}


def test_one_sentence_for_a_mistake_whoever_asks(served: Arena, forks: ForkServer, code_folder: Path) -> None:
    """The API's problem, Python and the command line say the same, and nothing was entered."""
    settings = (served.folder / "competition.yaml").read_text()
    for mistake, sentence in BAD.items():
        (served.folder / "competition.yaml").write_text(settings)
        say_it(served, forks, code_folder, mistake, sentence)
    assert served.organiser.good("GET", "/organiser/submissions")["total"] == 0


def say_it(arena: Arena, forks: ForkServer, code: Path, mistake: str, sentence: str) -> None:
    """Make a mistake on every face."""
    person, wish = arena.ada, {}
    if mistake == "no team":
        person = arena.register("Nora")
    token = arena.token(person)
    if mistake == "unknown token":
        token = "longshot_nothing"
    elif mistake == "unknown league":
        wish = {"league": "chess"}
    elif mistake == "unknown phase":
        wish = {"phase": "semi"}
    elif mistake == "closed phase":
        change(arena.folder, "per_day: 3", "end: '2020-01-01 00:00', per_day: 3")
        wish = {"phase": "feedback"}
    elif mistake == "coming phase":
        change(arena.folder, "per_day: 3", "start: '2999-01-01 00:00', per_day: 3")
        wish = {"phase": "feedback"}
    elif mistake == "too large":
        change(arena.folder, "title: small", "title: small\nserver: {upload: 10}")
    bearer = Visitor(arena.port, {"Authorization": f"Bearer {token}"})
    problem = bearer.api("POST", "/uploads", {"size": 3000, "sha256": "0" * 64, **wish})
    assert problem.headers["content-type"] == "application/problem+json"
    assert problem.detail == sentence and problem.json["status"] == problem.status >= 400
    with pytest.raises(UserError) as caught:
        api.connect(arena.server.url, token).submit(code, **wish)
    assert str(caught.value) == sentence
    if mistake in ("unknown token", "closed phase"):  # the command prints what Python raises
        flags = [word for name, value in wish.items() for word in (f"--{name}", value)]
        there = (arena.server.url, code, "--token", token)
        printed = forks.run("compete", "submit", *there, *flags, check=False)
        assert (printed.returncode, printed.stderr) == (2, f"error: {sentence}\n")


def test_a_quota_that_is_used_up(served: Arena, forks: ForkServer, code_folder: Path) -> None:
    for number in range(3):
        send(served.ada, archive(note=str(number)))
    refused = forks.run("compete", "submit", *handing(served, code_folder), check=False)
    sentence = (
        "error: Team 'Ada' has made 3 submissions to phase 'feedback' today (UTC), and 3 are allowed; "
        "the day's count begins anew at "
    )
    assert refused.returncode == 2 and refused.stderr.startswith(sentence)
    assert forks.run("compete", "submit", *handing(served, code_folder), "--league", "meta-learning").stdout


def test_an_archive_that_is_refused_here_is_not_sent(
    served: Arena, forks: ForkServer, submission: Any
) -> None:
    code = submission()
    (code / "model.py").write_text("x = 1\n")
    printed = forks.run("compete", "submit", *handing(served, code), check=False)
    assert printed.returncode == 2
    assert printed.stderr == (
        "error: The submission submission cannot be taken: its model.py defines 0 of the 2 classes that are needed; "
        "add MyMetaLearner and MyLearner.\n"
    )
    assert served.organiser.good("GET", "/organiser/submissions")["total"] == 0


def test_a_server_that_is_not_there(forks: ForkServer, code_folder: Path, monkeypatch: Any) -> None:
    from longshot.arena import client

    monkeypatch.setattr(client, "LONGEST", 0.01)
    cup = ConnectedCompetition(client.Client("http://127.0.0.1:9", "longshot_x", tries=2))
    sentence = (
        "The server http://127.0.0.1:9 does not answer: Connection refused; look at its address and your network, "
        "and try again."
    )
    with pytest.raises(UserError) as caught:
        cup.submit(code_folder)
    assert str(caught.value) == sentence
    for address, words in (
        ("ftp://x", "'ftp://x' is no address of a server"),
        (
            "http://cup.example.org",
            "'http://cup.example.org' would send your token over the network as it is",
        ),
    ):
        printed = forks.run("compete", "leaderboard", address, check=False)
        assert printed.returncode == 2 and printed.stderr.startswith(f"error: {words}")


def test_a_clock_that_is_wrong(served: Arena, monkeypatch: Any) -> None:
    from longshot.arena import client

    cup = api.connect(served.server.url, served.token(served.ada))
    real = client.time.time
    problem = served.ada.api("GET", "/me", headers={"Longshot-Time": f"{real() - 3 * 3600:.0f}"})
    assert problem.status == 409 and problem.detail.startswith(
        "Your clock differs from the server's by 180 minutes, "
    )

    class Behind:
        sleep = staticmethod(client.time.sleep)

        @staticmethod
        def time() -> float:
            return real() - 3 * 3600

    monkeypatch.setattr(client, "time", Behind)
    with pytest.raises(
        UserError, match=r"by 180 minutes, and 10 are allowed; the server has .* set your clock"
    ):
        cup.info()
    for text in ("now", "nan", "1e999"):
        assert served.visitor.api("GET", "/board", headers={"Longshot-Time": text}).status in (409, 422)


def test_an_upload_goes_on_where_it_broke_off(served: Arena, code_folder: Path, monkeypatch: Any) -> None:
    """The connection dies after the first piece; the same call sends the others only."""
    from longshot.arena.server import uploads

    monkeypatch.setattr(uploads, "CHUNK", 100)
    cup = api.connect(served.server.url, served.token(served.ada))
    real, sent = ConnectedCompetition._put, []

    def put(self: Any, identity: str, offset: int, piece: bytes) -> Any:
        if len(sent) == 1:
            sent.append(-1)
            raise UserError("The line is dead.")
        sent.append(offset)
        return real(self, identity, offset, piece)

    monkeypatch.setattr(ConnectedCompetition, "_put", put)
    with pytest.raises(UserError, match="line is dead"):
        cup.submit(code_folder)
    receipt = cup.submit(code_folder)
    assert sent[0] == 0 and sent[1] == -1 and sent[2] == 100  # not from the beginning
    assert receipt.submission == 1 and cup.status()[0]["sha256"] == receipt.sha256


def test_invitations_from_the_folder(served: Arena, forks: ForkServer) -> None:
    code = forks.run("compete", "invite", served.folder).stdout.strip()
    wish = {"name": "Ina", "password": "a long enough one", "code": code}
    assert served.visitor.good("POST", "/accounts", wish)["account"]["role"] == "participant"
    token = forks.run("compete", "invite", served.folder, "--role", "worker", "--name", "gpu").stdout.strip()
    assert Visitor(served.port, {"Authorization": f"Bearer {token}"}).api("GET", "/work").status == 200


def test_words_that_do_not_fit_together(forks: ForkServer, tmp_path: Path) -> None:
    for words, sentence in (
        (("submit", "a"), "Missing argument 'SUBMISSION'."),
        (("submit",), "Missing argument 'COMPETITION'."),
        (("status", "a"), "There is no competition.yaml in a"),
        (("status", "ftp://x"), "'ftp://x' is no address of a server"),
    ):
        printed = forks.run("compete", *words, check=False, cwd=tmp_path)
        assert printed.returncode == 2 and sentence in printed.stderr


@pytest.mark.long
@pytest.mark.usefixtures("needs_sandbox")
def test_a_dry_run_of_the_whole_competition(served: Arena, forks: ForkServer) -> None:
    before = sorted(path.name for path in (served.folder / "submissions").glob("*"))
    done = forks.run("compete", "dry-run", served.folder, "--json")
    rows = json.loads(done.stdout)
    assert [(row["baseline"], row["phase"], row["state"]) for row in rows] == [
        ("random", "feedback", "scored"),
        ("random", "play", "scored"),
        ("random", "final", "scored"),
    ]
    assert sorted(path.name for path in (served.folder / "submissions").glob("*")) == before
