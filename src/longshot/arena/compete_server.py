"""``longshot compete serve | invite | uploads | log | cancel | quota | dry-run``: a competition on a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.arena.compete_programs import (
    command,
    competition_argument,
    connected,
    folder_argument,
    score_text,
    token_option,
)
from longshot.base import json_option, print_table, verb_options


@command.command("serve")
@folder_argument
@verb_options("serve_competition", without="rates")
def serve_command(folder: Path, **settings: Any) -> None:
    """Let people take part from anywhere: accounts, teams, submissions, boards, workers; until Ctrl-C.

    \b
    Example:
      longshot compete init my-competition
      longshot compete serve my-competition
    """
    import longshot

    server = longshot.serve_competition(folder, **settings)
    click.echo(f"the competition is at {server.url}  (Ctrl-C ends it)")
    for note in server.notes:
        click.echo(f"note: {note}", err=True)
    if server.invitation:
        click.echo(
            f"there is no organiser yet; this link, good for 2 days and once, makes one:\n{server.invitation}"
        )
    server.wait()


@command.command("invite")
@folder_argument
@verb_options("arena.invite")
def invite_command(folder: Path, **settings: Any) -> None:
    """Print an invitation code, or a worker's token, from the machine that has the competition's folder.

    \b
    Example:
      longshot compete invite my-competition --role worker --name gpu-1
    """
    from longshot.arena import invite

    made = invite(folder, **settings)
    click.echo(made.secret)
    click.echo(made.use, err=True)


@command.command("uploads")
@competition_argument
@token_option
@click.option("--all", "every", is_flag=True, help="Those of all teams on a server, for organisers.")
@click.option("--delete", "unwanted", multiple=True, metavar="ID", help="Give this one up; repeatable.")
@json_option
def uploads_command(
    competition: str, token: str | None, every: bool, unwanted: tuple[str, ...], as_json: bool
) -> None:
    """List uploads that were begun and not finished, or give some up: a team may have three at a time.

    On a server those of your team; in the competition's folder those of all teams.

    \b
    Example:
      longshot compete uploads https://cup.example.org
      longshot compete uploads https://cup.example.org --delete 1f0c8e2a4b6d8f0a1c3e5a7b9d1f3a5c
      longshot compete uploads my-competition
    """
    from longshot.arena.connected_competition import local_time

    cup = connected(competition, token)
    for identity in unwanted:
        gone = cup.delete_upload(identity, every=every)
        click.echo(
            f"'{gone['name']}' of team '{gone['team']}' is {gone['state']}; the team may begin another"
        )
    if unwanted:
        return
    rows = cup.uploads(every=every)
    shown = [
        {
            "upload": row["id"],
            "team": row["team"],
            "archive": row["name"],
            "phase": row["phase"],
            "league": row["league"],
            "arrived": f"{row['received']:,} of {row['size']:,} bytes",
            "goes": local_time(row["expires"]),
        }
        for row in rows
    ]
    print_table(rows if as_json else shown, as_json=as_json, footer=None if rows else "no unfinished uploads")


@command.command("log")
@competition_argument
@click.argument("number", type=int)
@token_option
@click.option("--follow", is_flag=True, help="Wait for what is still to come.")
def log_command(competition: str, number: int, token: str | None, follow: bool) -> None:
    """Print the log of a submission.

    \b
    Example:
      longshot compete log https://cup.example.org 3 --follow
    """
    connected(competition, token).log(
        number,
        follow=follow,
        tell=lambda line: click.echo(f"{line.time}  {line.text}" if line.time else line.text),
    )


@command.command("cancel")
@competition_argument
@click.argument("number", type=int)
@token_option
def cancel_command(competition: str, number: int, token: str | None) -> None:
    """Cancel a submission that waits or runs; one that has not begun costs no quota.

    \b
    Example:
      longshot compete cancel https://cup.example.org 3
    """
    row = connected(competition, token).cancel(number)
    charged = "it costs no quota" if row["charged"] is None else "its run had begun and stays charged"
    click.echo(f"submission {number} is {row['state']}; {charged}")


@command.command("quota")
@click.argument("address")
@token_option
@json_option
def quota_command(address: str, token: str | None, as_json: bool) -> None:
    """Say what your team may still hand in on a server, and when the day's count begins anew.

    \b
    Example:
      longshot compete quota https://cup.example.org
    """
    from longshot.arena.connected_competition import local_time

    rows = connected(address, token).quota()
    shown = [
        {
            "phase": row["phase"],
            "league": row["league"],
            "today": f"{row['today']} of {row['per_day'] or '∞'}",
            "in all": f"{row['used']} of {row['total'] or '∞'}",
            "attempts today": f"{row['attempts']} of {row['attempts_per_day'] or '∞'}",
            "remaining": "∞" if row["remaining"] is None else row["remaining"],
        }
        for row in rows
    ]
    footer = f"days begin at {local_time(rows[0]['resets'])}, in {rows[0]['resets_in']}" if rows else None
    print_table(rows if as_json else shown, as_json=as_json, footer=footer)


@command.command("dry-run")
@folder_argument
@verb_options("arena.dry_run", {"baselines": {"default": ("random",), "show_default": True}}, without="tell")
@json_option
def dry_run_command(folder: Path, as_json: bool, **settings: Any) -> None:
    """Run the whole competition with baselines, in a folder of its own, before anybody else comes.

    \b
    Example:
      longshot compete dry-run my-competition --baseline random
    """
    from longshot.arena import dry_run

    entries = dry_run(folder, **settings, tell=lambda line: click.echo(line, err=True))
    rows = [
        {**entry._asdict(), "score": score_text(entry.score), "rank": entry.rank or "–"} for entry in entries
    ]
    good = all(entry.state == "scored" for entry in entries)
    print_table(rows, as_json=as_json, footer="every run was scored" if good else "not every run was scored")
    if not good:
        raise click.exceptions.Exit(1)
