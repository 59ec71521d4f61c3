"""What organisers and participants do with a competition in a folder: submit, try, run, rank, hold the final."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from longshot.arena import environments, queue, ranking, submission_check, submission_runs, worker
from longshot.arena.bundle_write import IMAGE, write_bundle
from longshot.arena.bundle_write import KIND as BUNDLE
from longshot.arena.competition_data import CompetitionData
from longshot.arena.database_tables import submissions as submission_rows
from longshot.arena.database_tables import teams
from longshot.arena.ranking import FinalEntry, leaderboard_page
from longshot.arena.server import boards, organising, submissions
from longshot.arena.server.boards import BoardLine
from longshot.arena.server.people import HOST
from longshot.arena.server.server_context import ServerContext
from longshot.arena.settings import FREE, load
from longshot.arena.store import open_competition
from longshot.arena.submission_check import (
    FactSheet,
    blank_sheet,
    dump_sheet,
    read_sheet,
    stored_sheet,
    unpack,
)
from longshot.arena.submission_runs import SubmissionFailed
from longshot.arena.worker import WORKER, LocalClient
from longshot.base import PAGE, UserError, claim_folder, claim_output, deliver_text


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
    leagues: Mapping[str, list[BoardLine]]
    standing: str  # whether the results are final, in a few words
    marks: tuple[str, ...] = ()  # what else a reader of the scores must know

    def __len__(self) -> int:
        return sum(map(len, self.leagues.values()))


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
    with LocalClient(Path(folder), WORKER) as client:
        return worker.work(client, forever=forever, tell=tell)


def status(folder: str | Path) -> list[SubmissionStatus]:
    """List all submissions of the competition in ``folder``, oldest first."""
    _, store = open_competition(folder)
    columns = (submission_rows.c[name] for name in ("phase", "league", "state", "score", "reason"))
    rows = store.rows(
        sa.select(submission_rows.c.id.label("submission"), teams.c.name.label("team"), *columns)
        .join(teams, teams.c.id == submission_rows.c.team)
        .order_by(submission_rows.c.id)
    )
    last_lines = [(row["reason"] or "").strip().rpartition("\n")[2] for row in rows]
    return [SubmissionStatus(**{**row, "reason": line}) for row, line in zip(rows, last_lines, strict=True)]


def history(folder: str | Path, submission: int) -> list[SubmissionEvent]:
    """List what happened to a submission, oldest first."""
    with ServerContext(Path(folder)) as context:
        context.store.submission(submission)  # says where the others are listed
        page = submissions.read_submission(context, HOST, submission)
        return [SubmissionEvent(*line) for line in page.history]


def rerun(folder: str | Path, submission: int) -> None:
    """Put a submission that has ended back into the queue."""
    with ServerContext(Path(folder)) as context:
        context.store.submission(submission)
        organising.rerun_submission(context, HOST, submission)


def leaderboard(folder: str | Path, *, phase: str | None = None, league: str | None = None) -> Leaderboard:
    """Rank the last valid submission of every team, best score first, ties to the earlier one.

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
    with ServerContext(Path(folder)) as context:
        competition = context.competition
        if phase is not None:
            competition.phase(phase)
        names = [league] if league else competition.leagues
        listed = [boards.board(context, HOST, phase=phase, league=name) for name in names]
    leagues = {board.league: board.lines for board in listed}
    standing = listed[0].standing if any(leagues.values()) else "no scored submissions yet"
    return Leaderboard(listed[0].phase, leagues, standing, tuple(competition.marks))


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
    with ServerContext(Path(folder)) as context:
        entries = organising.hold_final(context, HOST)
        competition = context.competition
        return entries, ranking.standing(competition, context.store, competition.final.name)


def blank_fact_sheet(folder: str | Path) -> str:
    """Write an empty fact sheet of the competition in ``folder``, as YAML to fill in."""
    return blank_sheet(load(folder).fact_fields)


def fact_sheet_of(folder: str | Path, submission: int) -> FactSheet:
    """Return the fact sheet of a submission: field → text; empty where it has none."""
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
    fields = read_sheet(Path(sheet)) if isinstance(sheet, str | Path) else dict(sheet)
    with ServerContext(Path(folder)) as context:
        context.store.submission(submission)
        return submissions.set_sheet(context, HOST, submission, fields).submission.lacking


def export_bundle(
    folder: str | Path,
    out: str | Path,
    *,
    docker_image: str = IMAGE,
    league: str | None = None,
    force: bool = False,
) -> Path:
    """Write a competition as a Codabench bundle (version 2).

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    out : file
        Zip to write.
    docker_image : str
        Image that runs the programs; it needs Python, NumPy, torch and Pillow.
    league : str, optional
        Write this league alone; only so its programs keep to the league's rule. They are not told which a team chose.
    force : bool
        Replace what is there, even if it is no bundle that Longshot wrote.

    Returns
    -------
    Path
        ``out``.
    """
    claim_output(out, BUNDLE, force=force)
    return write_bundle(load(folder), Path(out), docker_image=docker_image, league=league)


class Entered(NamedTuple):
    """A submission that waits for a worker."""

    number: int
    phase: str


def submit(
    folder: str | Path,
    submission: str | Path,
    *,
    team: str,
    phase: str | None = None,
    league: str = FREE,
    pseudonym: str | None = None,
    ranked: bool = True,
    fact_sheet: str | Path | Mapping[str, str] | None = None,
) -> Entered:
    """Put a submission into the queue, after the same check as ``check_submission`` makes: what fails it uses no quota.

    The last phase asks for what ``enter_final`` asks for: a valid submission of the team in the same league to the
    phase before, above the threshold, and a whole fact sheet where one is required; one entry of a team and league.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    submission : str or Path
        A folder or a zip with a model.py.
    team : str
        Name of the team, 1 to 100 letters; upper and lower case, width of letters and white space do not count.
    phase : str, optional
        Phase to submit to; the first that takes submissions unless named.
    league : str
        League to compete in; a team may compete in several. The meta-learning league has a quota of its own.
    pseudonym : str, optional
        Name to show in place of the team's: 1 to 40 letters, and nobody else's name or pseudonym.
    ranked : bool
        False: the team's entries are shown without a rank (conflict of interest).
    fact_sheet : path or mapping, optional
        YAML or JSON that describes the method, or its fields.

    Returns
    -------
    Entered
        The submission's number and its phase.
    """
    competition, store = open_competition(folder)
    taking = [each.name for each in competition.phases if each.submissions and not each.practice]
    chosen = phase or (taking or [competition.final.name])[0]  # where none takes any, entering says so
    sheet = read_sheet(Path(fact_sheet)) if isinstance(fact_sheet, str | Path) else fact_sheet
    number = queue.enter(
        competition,
        store,
        Path(submission),
        team=team,
        phase=chosen,
        league=league,
        fact_sheet=dump_sheet(sheet) if sheet else None,
        ranked=ranked,
        pseudonym=pseudonym,
    )
    return Entered(number, chosen)


def try_submission(
    folder: str | Path,
    submission: str | Path,
    out: str | Path,
    *,
    phase: str | None = None,
    seed: int | None = None,
    unsafe: bool = False,
) -> dict[str, Any]:
    """Run a submission without entering it: the same program, the same scores, no leaderboard.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    submission : str or Path
        A folder or a zip with a model.py.
    out : folder
        A new folder for log.txt, answers.jsonl, scores.json, task_scores.json and detailed_results.html.
    phase : str, optional
        Phase whose data to use. Default: the first.
    seed : int, optional
        Seed of the run. Default: the phase's first.
    unsafe : bool
        Run without the sandbox: for your own code only, never official.

    Returns
    -------
    dict
        scores.json: ``overall``, ``by_dataset``, ``by_ways``, ``by_shots`` and how the run went.

    Raises
    ------
    SubmissionFailed
        With the reason, where the submission fails.
    """
    competition, out = load(folder), Path(out)
    chosen = competition.phase(phase) if phase else competition.phases[0]
    if out.exists():
        raise UserError(f"{out} is there already", "choose a new folder with {out}")
    claim_folder(out, "trial")
    submission_check.check_size(Path(submission))
    equipment = environments.equipment(competition)
    try:
        code = unpack(Path(submission), out / "code")
    except UserError:
        out.rmdir()  # empty still: the next try may have the same name
        raise
    outcome = submission_runs.run(
        CompetitionData(competition),
        chosen,
        code,
        out,
        seed=chosen.seeds[0] if seed is None else seed,
        trusted=unsafe,
        equipment=equipment,
    )
    shutil.rmtree(out / "code")
    if outcome.scores is None:
        raise SubmissionFailed(f"The submission failed: {outcome.reason} (see {out / 'log.txt'})")
    return outcome.scores
