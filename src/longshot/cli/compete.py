"""``longshot compete``: run a blind competition on one machine."""

from __future__ import annotations

from pathlib import Path

import click

from longshot.cli.common import json_option, print_table
from longshot.cli.compete_programs import (
    bundle_command,
    make_submission_command,
    read_settings,
    run_bundle_command,
    run_command,
    validate_command,
)
from longshot.cli.compete_results import (
    fact_sheet_command,
    final_command,
    leaderboard_command,
    open_competition,
    score_text,
)

_folder = click.argument("folder", type=click.Path(path_type=Path))


@click.group()
def command() -> None:
    """Run a blind competition: other people's code on hidden tasks, in a sandbox.

    \b
    Example:
      longshot compete init my-competition
      longshot compete baseline prototypical proto --set "network=cnn4(width=16)" --set train_tasks=20
      longshot compete submit my-competition proto --team "The Prototypes" --league meta-learning
      longshot compete work my-competition
      longshot compete leaderboard my-competition
    """


@command.command("init")
@_folder
@click.option("--title", default="Toybox", show_default=True, help="Title of the competition.")
@click.option(
    "--tasks", type=click.IntRange(min=1), default=20, show_default=True, help="Tasks per test dataset."
)
@click.option("--minutes", type=float, default=30, show_default=True, help="Time a submission has.")
@click.option(
    "--image-size", type=click.IntRange(8, 512), default=128, show_default=True, help="Pixels of a side."
)
def init_command(folder: Path, title: str, tasks: int, minutes: float, image_size: int) -> None:
    """Make a working competition on the embedded default: the ten families of toybox are its domains.

    \b
    Example:
      longshot compete init my-competition
    """
    from longshot.competition.new_competition import create

    competition = init(folder, title=title, tasks=tasks, minutes=minutes, image_size=image_size)
    names = ", ".join(phase.name for phase in competition.phases)
    click.echo(f"{folder}/competition.yaml: {len(competition.datasets)} datasets, phases {names}")


@command.command("baseline")
@click.argument("name", required=False)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--set", "given", multiple=True, metavar="KEY=VALUE", help="Replace a setting; repeat for several."
)
def baseline_command(name: str | None, folder: Path | None, given: tuple[str, ...]) -> None:
    """Write a baseline as a submission into FOLDER; without a name, list them.

    \b
    Example:
      longshot compete baseline prototypical proto --set "network=cnn4(width=16)" --set train_tasks=20
    """
    from longshot.competition.baselines import BASELINES, write_baseline

    if name is None:
        print_table([{"baseline": key, "what": text} for key, text in BASELINES.items()])
        return
    click.echo(write_baseline(name, folder or Path(name), read_settings(given)))


@command.command("submit")
@_folder
@click.argument("submission", type=click.Path(path_type=Path))
@click.option("--team", required=True, help="Name of the team.")
@click.option("--phase", help="Phase to submit to.  [default: the first that takes submissions]")
@click.option("--league", default="free-style", show_default=True, help="League to compete in.")
@click.option("--pseudonym", help="Name to show in place of the team's, given with its first submission.")
@click.option("--not-ranked", is_flag=True, help="Show the entry without a rank (conflict of interest).")
@click.option(
    "--fact-sheet",
    type=click.Path(path_type=Path),
    help="YAML or JSON that describes the method; see fact-sheet.",
)
def submit_command(
    folder: Path,
    submission: Path,
    team: str,
    phase: str | None,
    league: str,
    pseudonym: str | None,
    not_ranked: bool,
    fact_sheet: Path | None,
) -> None:
    """Put a submission (a folder or a zip with a model.py) into the queue.

    \b
    Example:
      longshot compete submit my-competition proto --team "The Prototypes"
    """
    from longshot.competition.fact_sheet import dump, read_sheet
    from longshot.competition.queue import enter

    competition, store = open_competition(folder)
    taking = [one.name for one in competition.phases if one.submissions]
    asked = phase or (taking or [competition.final.name])[0]  # where none takes any, entering says so
    number = enter(
        competition,
        store,
        submission,
        team=team,
        phase=asked,
        league=league,
        fact_sheet=dump(read_sheet(fact_sheet)) if fact_sheet else None,
        ranked=not not_ranked,
        pseudonym=pseudonym,
    )
    click.echo(f"submission {number} is queued in phase {asked}; 'longshot compete work {folder}' runs it")


@command.command("work")
@_folder
@click.option("--forever", is_flag=True, help="Wait for further submissions when none is left.")
def work_command(folder: Path, forever: bool) -> None:
    """Run waiting submissions in the sandbox until none is left. Several workers may run at once.

    \b
    Example:
      longshot compete work my-competition
    """
    from longshot.competition.worker import work

    competition, store = open_competition(folder)
    done = work(competition, store, forever=forever, told=click.echo)
    click.echo(f"{done} runs done; no run is waiting")


@command.command("status")
@_folder
@click.argument("number", required=False, type=int)
@json_option
def status_command(folder: Path, number: int | None, as_json: bool) -> None:
    """List all submissions, or tell the history of one.

    \b
    Example:
      longshot compete status my-competition
      longshot compete status my-competition 3
    """
    import sqlalchemy as sa

    from longshot.competition.store import submissions, teams

    _, store = open_competition(folder)
    if number is not None:
        store.submission(number)
        print_table(
            [{"time": row["time"], "what": row["what"]} for row in store.history(number)], as_json=as_json
        )
        return
    rows = store.rows(
        sa.select(submissions, teams.c.name.label("name"))
        .join(teams, teams.c.id == submissions.c.team)
        .order_by(submissions.c.id)
    )
    shown = [
        {
            "submission": row["id"],
            "team": row["name"],
            "phase": row["phase"],
            "league": row["league"],
            "state": row["state"],
            "score": score_text(row["score"]),
            "reason": (row["reason"] or "")
            .strip()
            .rpartition("\n")[2][:80],  # the last line says what it was
        }
        for row in rows
    ]
    print_table(shown, as_json=as_json, footer=None if rows else "no submissions yet")


@command.command("rerun")
@_folder
@click.argument("number", type=int)
def rerun_command(folder: Path, number: int) -> None:
    """Put a submission that has ended back into the queue.

    \b
    Example:
      longshot compete rerun my-competition 3
    """
    from longshot.competition.queue import rerun

    _, store = open_competition(folder)
    rerun(store, number)
    click.echo(f"submission {number} is queued again")


for _one in (
    fact_sheet_command,
    leaderboard_command,
    final_command,
    make_submission_command,
    run_command,
    bundle_command,
    validate_command,
    run_bundle_command,
):
    command.add_command(_one)
