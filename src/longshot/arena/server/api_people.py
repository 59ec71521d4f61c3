"""Operations for everybody, for a person with their account and team, and for a team with uploads and submissions."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from longshot import __version__
from longshot.arena.client import Receipt
from longshot.arena.kit import write_kit
from longshot.arena.policy import Person, Refusal, not_there, permit
from longshot.arena.queue import run_folder
from longshot.arena.server import boards, credentials, organising, people, submissions, uploads
from longshot.arena.server.operations import (
    Begun,
    FileAnswer,
    Operation,
    Written,
    delete,
    get,
    patch,
    plain,
    post,
    put,
)
from longshot.arena.server.server_context import Line, ServerContext
from longshot.arena.server.submissions import may_see_score, own_row
from longshot.base import hash_text


class Me(NamedTuple):
    """Who asks."""

    role: str
    name: str
    scopes: list[str]
    team: people.Team | None
    csrf: str | None


class Registered(NamedTuple):
    """An account that was made."""

    account: people.Account
    waits: bool  # for an organiser's approval


def me(context: ServerContext, person: Person) -> Me:
    """Say who asks, with their team."""
    team = None if person.team is None else people.team(context, person.team)
    return Me(person.role, person.name, sorted(person.scopes), team, None)


def _begun(context: ServerContext, secret: str) -> Begun:
    """Answer whoever has just begun a session."""
    asker = me(context, credentials.by_session(context, secret))
    return Begun(secret, asker._replace(csrf=context.csrf(secret)))


@lru_cache(4096)
def _line(line: boards.BoardLine) -> str:
    """Write a line of a board as JSON: most lines are the same for everybody who looks."""
    return json.dumps(plain(line), allow_nan=False)


def read_board(
    context: ServerContext,
    person: Person,
    *,
    phase: str | None = None,
    league: str | None = None,
    by: str | None = None,
) -> Written:
    """Show the leaderboard of a phase and league."""
    board = boards.board(context, person, phase=phase, league=league, by=by)
    empty = json.dumps(plain(board._replace(lines=[])), allow_nan=False)
    lines = ", ".join(map(_line, board.lines))
    return Written(empty.replace('"lines": []', f'"lines": [{lines}]', 1))


def register(
    context: ServerContext,
    person: Person,
    *,
    name: Line,
    password: Line,
    code: str | None = None,
    terms: bool = False,
) -> Registered:
    """Make an account."""
    account = people.register(context, name=name, password=password, code=code, terms=terms)
    return Registered(account, account.state == "pending")


def log_in(context: ServerContext, person: Person, *, name: Line, password: Line) -> Begun:
    """Log in."""
    if person.session is not None:  # another session begins: the old one ends
        credentials.end_session(context, person)
    return _begun(context, people.log_in(context, name=name, password=password))


def log_out(context: ServerContext, person: Person) -> Begun:
    """Log out."""
    permit(person, "session.end")
    credentials.end_session(context, person)
    return Begun(None, None)


def change_password(context: ServerContext, person: Person, *, old: Line, new: Line) -> Begun:
    """Change one's password; all other sessions end."""
    if person.via != "session":
        raise Refusal(403, "This is done in the browser: no token may do it.")
    return _begun(context, people.change_password(context, person, old=old, new=new))


def read_kit(context: ServerContext, person: Person) -> FileAnswer:
    """Hand out the starting kit, which is made once for every state of the settings."""
    permit(person, "competition.read")
    competition = context.competition
    texts = [competition.text(name) for name in competition.pages.values()]
    folder = context.folder / "data"
    path = folder / f"kit-{hash_text(__version__, competition.model_dump_json(), *texts)[:16]}.zip"
    if not path.is_file():
        folder.mkdir(exist_ok=True)
        for former in folder.glob("kit-*.zip"):
            former.unlink(missing_ok=True)
        write_kit(context.folder, path)
    return FileAnswer(path, "application/zip", "kit.zip")


PUBLIC_OPERATIONS: list[Operation] = [
    get("/kit", "competition.read", read_kit, file="application/zip", heavy=True),
    get("/competition", "competition.read", boards.competition_info),
    get("/board", "board.read", read_board, answer=boards.Board, steady=True),
    get("/progress", "board.read", boards.progress, steady=True),
    get("/queue", "queue.read", boards.queue_state),
    get(
        "/announcements",
        "announcements.read",
        organising.list_announcements,
        fixed={"trash": False},
        steady=True,
    ),
    get("/rescorings", "competition.read", organising.rescorings, steady=True),
    post("/accounts", "account.register", register, costly=True),
    post("/session", "session.begin", log_in, answer=Me, costly=True),
    post("/password", "account.register", people.reset_password, costly=True),
    delete("/session", "session.end", log_out, answer=None),
    get("/me", "account.read", me),
    post("/me/password", "account.change", change_password, answer=Me, costly=True),
    get("/tokens", "token.list", credentials.list_tokens),
    post("/tokens", "token.create", credentials.create_token),
    delete("/tokens/{number:int}", "token.revoke", credentials.revoke_token),
    get("/team", "team.read", people.own_team),
    post("/team", "team.change", people.found_team),
    patch("/team", "team.change", people.change_team),
    post("/team/invitations", "team.change", people.invite_to_team),
    post("/team/join", "team.change", people.join_team),
    post("/team/merge", "team.change", people.merge_team),
    post("/team/leave", "team.change", people.leave_team),
    post("/team/transfer", "team.change", people.transfer_team),
    delete("/team/members/{account:int}", "team.change", people.remove_member),
]


def read_scores(
    context: ServerContext, person: Person, number: int, *, seed: int | None = None
) -> dict[str, Any]:
    """Read scores.json of one run, for its team, where scores are shown."""
    row = own_row(context, person, "submission.read", number)
    page = submissions.read_submission(context, person, number)
    seeds = [run.seed for run in page.runs if run.state == "scored"]
    chosen = seed if seed is not None else (seeds or [0])[0]
    path = run_folder(context.competition, number, chosen) / "scores.json"
    if chosen not in seeds or not may_see_score(context, person, row) or not path.is_file():
        raise not_there("score", f"of submission {number} to be seen")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def read_receipt(context: ServerContext, person: Person, number: int) -> Receipt:
    """Return the receipt of a submission, for its team."""
    own_row(context, person, "submission.read", number)
    return uploads.receipt(context, number)


_SUBMISSION = "/submissions/{number:int}"
TEAM_OPERATIONS: list[Operation] = [
    get("/quota", "quota.read", submissions.allowances),
    get("/uploads", "upload.list", uploads.list_uploads, fixed={"every": False}),
    post("/uploads", "upload.begin", uploads.begin_upload),
    get("/uploads/{identity}", "upload.read", uploads.read_upload),
    put("/uploads/{identity}", "upload.write", uploads.write_chunk, raw=uploads.CHUNK, heavy=True),
    delete("/uploads/{identity}", "upload.delete", uploads.delete_upload),
    post("/uploads/{identity}/finish", "upload.finish", uploads.finish_upload, heavy=True),
    get("/submissions", "submission.list", submissions.list_submissions, fixed={"every": False}, steady=True),
    get(_SUBMISSION, "submission.read", submissions.read_submission, steady=True),
    get(f"{_SUBMISSION}/receipt", "submission.read", read_receipt),
    get(f"{_SUBMISSION}/log", "submission.log", submissions.tail),
    get(f"{_SUBMISSION}/scores", "submission.read", read_scores),
    post(f"{_SUBMISSION}/cancel", "submission.cancel", submissions.cancel_submission),
    post(f"{_SUBMISSION}/select", "submission.select", submissions.select_submission),
    put(f"{_SUBMISSION}/fact-sheet", "submission.sheet", submissions.set_sheet),
]
