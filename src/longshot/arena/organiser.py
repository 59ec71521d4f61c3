"""What an organiser does: run what is queued, see how submissions fared, rank them, hold the final."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from longshot.arena import queue, ranking, submission_runs
from longshot.arena.bundle_write import IMAGE, write_bundle
from longshot.arena.bundle_write import KIND as BUNDLE
from longshot.arena.database_tables import submissions, teams
from longshot.arena.ranking import BoardEntry, leaderboard_page
from longshot.arena.settings import Competition, load
from longshot.arena.store import Store, open_competition
from longshot.arena.submission_check import FactSheet, blank_sheet, missing_fields, read_sheet, stored_sheet
from longshot.base import PAGE, claim_output, deliver_text

if TYPE_CHECKING:
    from longshot.arena.server.server_context import ServerContext
    from longshot.arena.server.uploads import UnfinishedUpload


class SubmissionStatus(NamedTuple):
    """Where a submission stands."""

    submission: int
    team: str
    phase: str
    league: str
    state: str  # queued, running, scored or failed
    score: float | None  # worst normalised accuracy over the seeds
    reason: str  # why it failed: the last line; empty where it did not


class SubmissionEvent(NamedTuple):
    """Something that happened to a submission."""

    time: str  # UTC
    event: str


@dataclass(frozen=True)
class Leaderboard:
    """Who is where in a phase."""

    phase: str
    leagues: Mapping[str, list[BoardEntry]]
    standing: str  # whether the results are final, in a few words
    marks: tuple[str, ...] = ()  # what else a reader of the scores must know

    def __len__(self) -> int:
        return sum(map(len, self.leagues.values()))


class FinalEntry(NamedTuple):
    """What became of a team's last valid submission to the phase before the final."""

    team: str
    league: str
    feedback: int  # number of that submission
    score: float
    final: int | None  # number of the submission to the final, where it entered
    why_not: str


def work(
    folder: str | Path, *, forever: bool = False, tell: Callable[[str], None] = lambda text: None
) -> int:
    """Run waiting submissions in the sandbox. Several workers may run at once.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    forever : bool
        Wait for further submissions when none is left.
    tell : callable
        Hears one line about the end of every run.

    Returns
    -------
    int
        The number of runs done.
    """
    return submission_runs.work(*open_competition(folder), forever=forever, tell=tell)


def status(folder: str | Path) -> list[SubmissionStatus]:
    """All submissions of the competition in ``folder``, oldest first."""
    _, store = open_competition(folder)
    columns = (submissions.c[name] for name in ("phase", "league", "state", "score", "reason"))
    rows = store.rows(
        sa.select(submissions.c.id.label("submission"), teams.c.name.label("team"), *columns)
        .join(teams, teams.c.id == submissions.c.team)
        .order_by(submissions.c.id)
    )
    last_lines = [(row["reason"] or "").strip().rpartition("\n")[2] for row in rows]
    return [SubmissionStatus(**{**row, "reason": line}) for row, line in zip(rows, last_lines, strict=True)]


def history(folder: str | Path, submission: int) -> list[SubmissionEvent]:
    """What happened to a submission, oldest first."""
    _, store = open_competition(folder)
    store.submission(submission)
    return [SubmissionEvent(row["time"], row["what"]) for row in store.history(submission)]


def rerun(folder: str | Path, submission: int) -> None:
    """Put a submission that has ended back into the queue."""
    _, store = open_competition(folder)
    queue.rerun(store, submission)


def leaderboard(folder: str | Path, *, phase: str | None = None, league: str | None = None) -> Leaderboard:
    """The last valid submission of every team, best score first, ties to the earlier one.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    phase : str, optional
        Phase to show; the last with scores unless named.
    league : str, optional
        League to show; all unless named.

    Returns
    -------
    Leaderboard
        Entries by league; without any where nothing has been scored yet.
    """
    competition, store = open_competition(folder)
    leagues = [league] if league else competition.leagues
    for name in [phase] if phase else [each.name for each in reversed(competition.phases)]:
        entries = {each: ranking.leaderboard(competition, store, name, each) for each in leagues}
        if any(entries.values()):
            standing = ranking.standing(competition, store, name)
            return Leaderboard(name, entries, standing, tuple(competition.marks))
    return Leaderboard(name, entries, "no scored submissions yet", tuple(competition.marks))


def write_leaderboard(folder: str | Path, page: str | Path, *, phase: str, force: bool = False) -> None:
    """Write the leaderboards of all leagues of a phase, with figures and fact sheets, as the HTML file ``page``.

    ``force`` replaces what is there, even if it is no page that Longshot wrote.
    """
    claim_output(page, PAGE, force=force, name="page")
    competition, store = open_competition(folder)
    deliver_text(page, leaderboard_page(competition, store, phase))


def enter_final(folder: str | Path) -> tuple[list[FinalEntry], str]:
    """Enter the last valid submission of every team that qualified into the final, once.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.

    Returns
    -------
    list of FinalEntry
        Every team of the phase before, with the reason where it does not enter.
    str
        Whether the final's results are final, in a few words.
    """
    competition, store = open_competition(folder)
    entries = final_entries(competition, store)
    return entries, ranking.standing(competition, store, competition.final.name)


def final_entries(competition: Competition, store: Store) -> list[FinalEntry]:
    """Enter those who qualified, once, and say of every team what became of it."""
    return [
        FinalEntry(row["team_name"], row["league"], row["id"], row["score"], row.get("final"), row["why"])
        for row in ranking.enter_final(competition, store)
    ]


def blank_fact_sheet(folder: str | Path) -> str:
    """An empty fact sheet of the competition in ``folder``, as YAML to fill in."""
    return blank_sheet(load(folder).fact_fields)


def fact_sheet_of(folder: str | Path, submission: int) -> FactSheet:
    """The fact sheet of a submission: field → text; empty where it has none."""
    _, store = open_competition(folder)
    return stored_sheet(store.submission(submission)["fact_sheet"])


def hand_in_fact_sheet(
    folder: str | Path, submission: int, sheet: str | Path | Mapping[str, str]
) -> list[str]:
    """Give a submission its fact sheet, or another one in place of the former.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    submission : int
        Number of the submission.
    sheet : path or mapping
        YAML or JSON that describes the method, or its fields.

    Returns
    -------
    list of str
        Fields that the competition asks for and the sheet does not fill in.
    """
    competition, store = open_competition(folder)
    fields = read_sheet(Path(sheet)) if isinstance(sheet, str | Path) else dict(sheet)
    ranking.hand_in_sheet(store, submission, fields)
    return missing_fields(fields, competition.fact_fields)


class Invited(NamedTuple):
    """What somebody needs to come in, shown once."""

    secret: str  # the code of an invitation, or the token of a worker
    use: str  # what to do with it
    expires: str  # UTC


def invite(
    folder: str | Path, *, role: str = "participant", name: str = "worker", days: int | None = None
) -> Invited:
    """Let somebody into the competition's server, from the machine that has its folder.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    role : str
        ``participant`` or ``organiser``: a code for one account; ``worker``: a token for a machine.
    name : str
        Name of a worker.
    days : int, optional
        How long it lasts: 14 for codes and what the competition allows for tokens, unless given.

    Returns
    -------
    Invited
        The secret, which is kept nowhere, and what to do with it.

    Examples
    --------
    >>> import longshot.arena as competition
    >>> competition.create("private-cup", tasks=1, image_size=16).title
    'Toybox'
    >>> competition.invite("private-cup", role="worker").secret[:9]
    'longshot_'
    """
    from longshot.arena.server import credentials, people

    with _office(folder) as office:
        if role == "worker":
            token = credentials.create_worker_token(office, people.HOST, name=name, days=days)
            use = f"a worker's token until {token.expires} UTC: longshot compete work with it and the server"
            return Invited(token.token, use, token.expires)
        lasting = people.INVITED_DAYS if days is None else days
        invitation = people.invite(office, people.HOST, role=role, days=lasting)
        use = f"a code for one {role} until {invitation.expires} UTC: open /register?code=CODE on the server"
        return Invited(invitation.code, use, invitation.expires)


def uploads(folder: str | Path) -> list[UnfinishedUpload]:
    """All teams' uploads to the competition's server that were begun and not finished, the oldest first.

    Examples
    --------
    >>> import longshot.arena as competition
    >>> competition.create("quiet-cup", tasks=1, image_size=16).title
    'Toybox'
    >>> competition.uploads("quiet-cup")
    []
    """
    from longshot.arena.server import people, uploads

    with _office(folder) as office:
        return uploads.list_uploads(office, people.HOST, every=True)


def delete_upload(folder: str | Path, upload: str) -> UnfinishedUpload:
    from longshot.arena.server import people, uploads

    with _office(folder) as office:
        return uploads.delete_upload(office, people.HOST, upload, every=True)


@contextmanager
def _office(folder: str | Path) -> Iterator[ServerContext]:
    """What the competition's server does, from the machine that has its folder."""

    office = ServerContext(Path(folder))
    try:
        yield office
    finally:
        office.close()


def export_bundle(
    folder: str | Path,
    out: str | Path,
    *,
    docker_image: str = IMAGE,
    league: str | None = None,
    force: bool = False,
) -> Path:
    """Write the competition in ``folder`` as a Codabench bundle (version 2), the zip ``out``; gives ``out``.

    ``docker_image`` runs the bundle's programs; it needs Python, NumPy, torch and Pillow. ``league`` writes that league
    alone: programs are not told which league a team chose, so the meta-learning league's rule needs its own bundle.
    ``force`` replaces what is there, even if it is no bundle that Longshot wrote.
    """
    claim_output(out, BUNDLE, force=force)
    return write_bundle(load(folder), Path(out), docker_image=docker_image, league=league)
