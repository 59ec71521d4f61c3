"""``longshot compete``: run a blind competition, on one machine or on a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.arena.compete_programs import command as command
from longshot.arena.compete_programs import (
    competition_argument,
    connected,
    folder_argument,
    score_text,
    settings_option,
    token_option,
)
from longshot.arena.compete_server import serve_command as serve_command  # and those beside it
from longshot.base import PATH, json_option, print_table, verb_options


@command.command("init")
@folder_argument
@verb_options("arena.create")
def init_command(folder: Path, **settings: Any) -> None:
    """Make a working competition on the embedded default: the ten families of toybox are its domains.

    \b
    Example:
      longshot compete init my-competition
      longshot compete init my-competition --start "2027-06-15 12:00" --days 60
      longshot compete init my-competition --preset cross-domain-metadl
    """
    from longshot.arena import create

    competition = create(folder, **settings)
    names = ", ".join(phase.name for phase in competition.phases)
    click.echo(f"{folder}/competition.yaml: {len(competition.datasets)} datasets, phases {names}")
    for phase in competition.phases:
        if phase.submissions:
            click.echo(f"{phase.name}: {phase.start} to {phase.end} UTC")


@command.command("baseline")
@click.argument("name", required=False)
@click.argument("folder", required=False, type=PATH)
@settings_option
def baseline_command(name: str | None, folder: Path | None, settings: dict[str, Any]) -> None:
    """Write a baseline as a submission into FOLDER; without a name, list them.

    \b
    Example:
      longshot compete baseline prototypical proto --set network=cnn4 --set train_tasks=20 --set valid_tasks=5
    """
    from longshot.arena import BASELINES, write_baseline

    if name is None:
        print_table([{"baseline": key, "what": text} for key, text in BASELINES.items()])
        return
    click.echo(write_baseline(name, folder or Path(name), settings))


@command.command("submit")
@competition_argument
@click.argument("submission", type=PATH)
@token_option
@verb_options("arena.ConnectedCompetition.submit", {"ranked": {"flags": ["--ranked/--not-ranked"]}})
def submit_command(competition: str, submission: Path, token: str | None, **settings: Any) -> None:
    """Put a submission (a folder or a zip with a model.py) into the queue.

    On its way to a server it may break off: the same command goes on where it stopped.

    \b
    Example:
      longshot compete submit my-competition proto --team "The Prototypes"
      longshot compete submit https://cup.example.org proto
    """
    from longshot.arena.connected_competition import local_time

    cup = connected(competition, token)
    receipt = cup.submit(submission, **settings)
    queued = f"submission {receipt.submission} of team '{receipt.team}' is queued in phase {receipt.phase}"
    if "://" not in competition:
        click.echo(f"{queued}; 'longshot compete work {competition}' runs it")
        return
    click.echo(queued)
    click.echo(f"receipt: {receipt.bytes:,} bytes, sha256 {receipt.sha256}, seal {receipt.seal}")
    for row in cup.quota():
        if (row["phase"], row["league"]) == (receipt.phase, receipt.league) and row["remaining"] is not None:
            click.echo(f"{row['remaining']} more may be handed in today")
            click.echo(f"the count begins anew at {local_time(row['resets'])}, in {row['resets_in']}")


@command.command("environment")
@folder_argument
def environment_command(folder: Path) -> None:
    """Build the packages that the competition's 'requirements' ask for, once; boxes mount them read-only.

    \b
    Example:
      longshot compete environment my-competition
    """
    from longshot.arena import build_environment

    built = build_environment(folder, tell=lambda line: click.echo(line, err=True))
    if built is None:
        click.echo(
            f"{folder}/competition.yaml names no requirements: submissions have what Longshot runs with"
        )
        return
    click.echo(f"{built.path}: {', '.join(built.packages) or 'nothing beyond what Longshot runs with'}")
    for note in built.notes:
        click.echo(f"note: {note}")


@command.command("work")
@competition_argument
@token_option
@click.option("--forever", is_flag=True, help="Wait for further submissions when none is left.")
def work_command(competition: str, token: str | None, forever: bool) -> None:
    """Run waiting submissions in the sandbox until none is left. Several workers may run at once.

    Runs and hidden data come from the folder, or from a server with a token for workers.

    \b
    Example:
      longshot compete work my-competition
      longshot compete work https://cup.example.org --forever
    """
    done = connected(competition, token).work(forever=forever, tell=click.echo)
    click.echo(f"{done} runs done; no run is waiting")


@command.command("status")
@competition_argument
@click.argument("number", required=False, type=int)
@token_option
@click.option("--all", "every", is_flag=True, help="Those of all teams on a server, for organisers.")
@json_option
def status_command(
    competition: str, number: int | None, token: str | None, every: bool, as_json: bool
) -> None:
    """List submissions, or tell the history of one: in a folder those of all teams, on a server those of yours.

    \b
    Example:
      longshot compete status my-competition
      longshot compete status my-competition 3
      longshot compete status https://cup.example.org
    """
    from longshot.arena.connected_competition import local_time

    cup = connected(competition, token)
    if number is not None:
        lines = cup.status(number)["history"]
        print_table([{"time": time, "what": line} for time, line in lines], as_json=as_json)
        return
    rows = [
        {
            "submission": row["id"],
            "team": row["team"],
            "phase": row["phase"],
            "league": row["league"],
            "state": row["state"] if row["position"] is None else f"{row['state']}, number {row['position']}",
            "score": "hidden" if row["hidden"] else score_text(row["score"]),
            "submitted": row["created"] if as_json else local_time(row["created"]),
            "reason": (row["reason"] or "").strip().rpartition("\n")[2][:80],
        }
        for row in reversed(cup.status(every=every))
    ]
    print_table(rows, as_json=as_json, footer=cup.queue()["note"] if rows else "no submissions yet")


@command.command("rerun")
@competition_argument
@click.argument("number", type=int)
@token_option
def rerun_command(competition: str, number: int, token: str | None) -> None:
    """Put a submission that has ended back into the queue.

    \b
    Example:
      longshot compete rerun my-competition 3
    """
    connected(competition, token).rerun(number)
    click.echo(f"submission {number} is queued again")
