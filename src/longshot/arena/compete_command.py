"""``longshot compete``: run a blind competition, on one machine or on a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.arena.compete_programs import command as command
from longshot.arena.compete_programs import folder_argument, read_settings, score_text
from longshot.arena.compete_server import (
    at_server,
    folder_or_none,
    folder_or_server,
    print_left,
    print_status,
    server_option,
    token_option,
    whole_number,
)
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
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Replace a setting; repeatable.")
def baseline_command(name: str | None, folder: Path | None, settings: tuple[str, ...]) -> None:
    """Write a baseline as a submission into FOLDER; without a name, list them.

    \b
    Example:
      longshot compete baseline prototypical proto --set network=cnn4 --set train_tasks=20 --set valid_tasks=5
    """
    from longshot.arena import BASELINES, write_baseline

    if name is None:
        print_table([{"baseline": key, "what": text} for key, text in BASELINES.items()])
        return
    click.echo(write_baseline(name, folder or Path(name), read_settings(settings)))


@command.command("submit")
@folder_or_none
@click.argument("submission", required=False, type=PATH)
@server_option
@token_option
@click.option("--team", help="Name of the team; a server knows yours by the token.")
@click.option("--phase", help="Phase to submit to.  [default: the first that takes submissions]")
@click.option("--league", default="free-style", show_default=True, help="League to compete in.")
@click.option("--pseudonym", help="Name to show in place of the team's, given with its first submission.")
@click.option("--not-ranked", is_flag=True, help="Show the entry without a rank (conflict of interest).")
@click.option("--fact-sheet", type=PATH, help="YAML or JSON that describes the method; see fact-sheet.")
def submit_command(
    folder: Path | None,
    submission: Path | None,
    server: str | None,
    token: str | None,
    team: str | None,
    phase: str | None,
    league: str,
    pseudonym: str | None,
    not_ranked: bool,
    fact_sheet: Path | None,
) -> None:
    """Put a submission (a folder or a zip with a model.py) into the queue.

    With --server it goes to a server: broken off, the same command goes on where it stopped.

    \b
    Example:
      longshot compete submit my-competition proto --team "The Prototypes"
      longshot compete submit proto --server https://cup.example.org
    """
    from longshot.arena import submit
    from longshot.arena.submission_check import read_sheet

    folder, submission = folder_or_server(server, [folder, submission], ["FOLDER", "SUBMISSION"], 1)
    if server is not None:
        cup = at_server(server, token)
        sheet = None if fact_sheet is None else read_sheet(fact_sheet)
        receipt = cup.submit(submission, phase=phase, league=league, fact_sheet=sheet)
        queued = f"submission {receipt.submission} of team '{receipt.team}' is queued"
        click.echo(f"{queued} in phase {receipt.phase}")
        click.echo(f"receipt: {receipt.bytes:,} bytes, sha256 {receipt.sha256}, seal {receipt.seal}")
        print_left(cup, receipt.phase, receipt.league)
        return
    if team is None:
        raise click.UsageError("Missing option '--team'.")
    entered = submit(
        folder,
        submission,
        team=team,
        phase=phase,
        league=league,
        pseudonym=pseudonym,
        ranked=not not_ranked,
        fact_sheet=fact_sheet,
    )
    click.echo(
        f"submission {entered.number} is queued in phase {entered.phase}; 'longshot compete work {folder}' runs it"
    )


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
@folder_or_none
@server_option
@token_option
@click.option("--forever", is_flag=True, help="Wait for further submissions when none is left.")
def work_command(folder: Path | None, server: str | None, token: str | None, forever: bool) -> None:
    """Run waiting submissions in the sandbox until none is left. Several workers may run at once.

    With --server runs and hidden data come from a server, with a token for workers.

    \b
    Example:
      longshot compete work my-competition
      longshot compete work --server https://cup.example.org --forever
    """
    from longshot.arena import work

    (folder,) = folder_or_server(server, [folder], ["FOLDER"], 0)
    if server is not None:
        done = at_server(server, token).work(forever=forever, tell=click.echo)
    else:
        assert folder is not None
        done = work(folder, forever=forever, tell=click.echo)
    click.echo(f"{done} runs done; no run is waiting")


@command.command("status")
@folder_or_none
@click.argument("number", required=False)
@server_option
@token_option
@json_option
def status_command(
    folder: Path | None, number: str | None, server: str | None, token: str | None, as_json: bool
) -> None:
    """List all submissions, or tell the history of one; on a server those of your team.

    \b
    Example:
      longshot compete status my-competition
      longshot compete status my-competition 3
      longshot compete status --server https://cup.example.org
    """
    from longshot.arena import history, status

    folder, text = folder_or_server(server, [folder, number], ["FOLDER", "NUMBER"], 0)
    chosen = whole_number(text)
    if server is not None:
        print_status(at_server(server, token), chosen, as_json)
        return
    assert folder is not None
    if chosen is not None:
        lines = history(folder, chosen)
        print_table([{"time": line.time, "what": line.event} for line in lines], as_json=as_json)
        return
    rows = [
        {**row._asdict(), "score": score_text(row.score), "reason": row.reason[:80]} for row in status(folder)
    ]
    print_table(rows, as_json=as_json, footer=None if rows else "no submissions yet")


@command.command("rerun")
@folder_argument
@click.argument("number", type=int)
def rerun_command(folder: Path, number: int) -> None:
    """Put a submission that has ended back into the queue.

    \b
    Example:
      longshot compete rerun my-competition 3
    """
    from longshot.arena import rerun

    rerun(folder, number)
    click.echo(f"submission {number} is queued again")
