"""What a participant does: try a submission at home, and enter it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from longshot.arena import environments, queue, submission_check, submission_runs
from longshot.arena.competition_data import CompetitionData
from longshot.arena.settings import FREE, load
from longshot.arena.store import open_competition
from longshot.arena.submission_check import dump_sheet, read_sheet, unpack
from longshot.arena.submission_runs import SubmissionFailed
from longshot.base import UserError, claim_folder


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
    out : str or Path
        A new folder for log.txt, answers.jsonl, scores.json, task_scores.json and detailed_results.html.
    phase : str, optional
        Phase whose data are used; the first unless named.
    seed : int, optional
        Seed of the run; the phase's first unless given.
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
