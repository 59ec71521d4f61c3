"""What is done with a competition's folder and nothing else: its board as a page, its bundle, trials."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from longshot.arena import environments, submission_check, submission_runs
from longshot.arena.bundle_write import IMAGE, write_bundle
from longshot.arena.bundle_write import KIND as BUNDLE
from longshot.arena.competition_data import CompetitionData
from longshot.arena.ranking import leaderboard_page
from longshot.arena.sandbox import Equipment
from longshot.arena.settings import Competition, load
from longshot.arena.store import open_competition
from longshot.arena.submission_check import unpack
from longshot.arena.submission_runs import SubmissionFailed
from longshot.base import PAGE, UserError, claim_folder, claim_output, deliver_text


def write_leaderboard(folder: str | Path, page: str | Path, *, phase: str, force: bool = False) -> None:
    """Write the leaderboards of all leagues of a phase, with figures and fact sheets, as the HTML file ``page``.

    ``force`` replaces what is there, even if it is no page that Longshot wrote.
    """
    claim_output(page, PAGE, force=force, name="page")
    competition, store = open_competition(folder)
    deliver_text(page, leaderboard_page(competition, store, phase))


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


def begin_trial(competition: Competition, submission: Path, out: Path) -> tuple[Path, Equipment]:
    """Unpack a submission in the new folder ``out``; return its code, and what boxes of the competition have."""
    if out.exists():
        raise UserError(f"{out} is there already", "choose a new folder with {out}")
    submission_check.check_size(submission)
    claim_folder(out, "trial")
    equipment = environments.equipment(competition)
    try:
        return unpack(submission, out / "code"), equipment
    except UserError:
        out.rmdir()  # empty still: the next try may have the same name
        raise


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
    code, equipment = begin_trial(competition, Path(submission), out)
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
