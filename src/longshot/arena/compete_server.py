"""``longshot compete serve | invite | uploads | log | cancel | board | quota | dry-run``: a competition on a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.arena.compete_programs import command, folder_argument, score_text
from longshot.base import PATH, UserError, json_option, print_table, verb_options

if TYPE_CHECKING:
    from longshot.arena import RemoteCompetition

folder_or_none = click.argument("folder", required=False, type=PATH)
server_option = click.option("--server", metavar="URL", help="Address of a competition server.")
token_option = click.option(
    "--token", metavar="TOKEN", help="Your token of that server.  [default: that of LONGSHOT_TOKEN]"
)
_required_server = click.option(
    "--server", metavar="URL", required=True, help="Address of a competition server."
)


def at_server(server: str, token: str | None) -> RemoteCompetition:
    """Connect to the competition at an address."""
    from longshot.arena import connect

    return connect(server, token)


def folder_or_server(server: str | None, words: list[Any], names: list[str], needed: int) -> list[Any]:
    """Sort the arguments of a command that takes FOLDER first, or none with --server."""
    texts = [word for word in words if word is not None]
    if server is None:
        if not texts:
            raise click.UsageError(f"Missing argument '{names[0]}'; or name a server with --server URL.")
        if len(texts) < needed + 1:
            raise click.UsageError(f"Missing argument '{names[len(texts)]}'.")
        return [*texts, *[None] * (len(words) - len(texts))]
    if not needed <= len(texts) < len(words):
        wish = " ".join(names[1:])
        raise click.UsageError(f"With --server the arguments are {wish or 'none'}, without a folder.")
    return [None, *texts, *[None] * (len(words) - 1 - len(texts))]


def whole_number(text: Any) -> int | None:
    """Parse a submission's number that stands where a folder may."""
    if text is None:
        return None
    if not str(text).isdecimal():
        raise UserError(f"'{text}' is no number of a submission.")
    return int(str(text))


def print_status(cup: RemoteCompetition, number: int | None, as_json: bool) -> None:
    """Print one's submissions on a server, or the history of one."""
    from longshot.arena.remote_competition import local_time

    if number is not None:
        page = cup.status(number)
        print_table([{"time": time, "what": line} for time, line in page["history"]], as_json=as_json)
        return
    rows = [
        {
            "submission": row["id"],
            "phase": row["phase"],
            "league": row["league"],
            "state": row["state"] if row["position"] is None else f"{row['state']}, number {row['position']}",
            "score": "hidden" if row["hidden"] else score_text(row["score"]),
            "submitted": local_time(row["created"]),
            "reason": (row["reason"] or "").strip().rpartition("\n")[2][:80],
        }
        for row in cup.status()
    ]
    print_table(rows, as_json=as_json, footer=cup.queue()["note"] if rows else "no submissions yet")


def print_left(cup: RemoteCompetition, phase: str, league: str) -> None:
    """Print what remains of a quota after a submission."""
    from longshot.arena.remote_competition import local_time

    for row in cup.quota():
        if (row["phase"], row["league"]) == (phase, league) and row["remaining"] is not None:
            click.echo(f"{row['remaining']} more may be handed in today")
            click.echo(f"the count begins anew at {local_time(row['resets'])}, in {row['resets_in']}")


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
@click.option(
    "--role",
    type=click.Choice(["participant", "organiser", "worker"]),
    default="participant",
    show_default=True,
    help="What it is for.",
)
@click.option("--name", default="worker", show_default=True, help="Name of a worker.")
@click.option("--days", type=int, help="How long it lasts.")
def invite_command(folder: Path, role: str, name: str, days: int | None) -> None:
    """Print an invitation code, or a worker's token, from the machine that has the competition's folder.

    \b
    Example:
      longshot compete invite my-competition --role worker --name gpu-1
    """
    from longshot.arena import invite

    made = invite(folder, role=role, name=name, days=days)
    click.echo(made.secret)
    click.echo(made.use, err=True)


@command.command("uploads")
@folder_or_none
@server_option
@token_option
@click.option("--all", "every", is_flag=True, help="Those of all teams on a server, for organisers.")
@click.option("--delete", "unwanted", multiple=True, metavar="ID", help="Give this one up; repeatable.")
@json_option
def uploads_command(
    folder: Path | None,
    server: str | None,
    token: str | None,
    every: bool,
    unwanted: tuple[str, ...],
    as_json: bool,
) -> None:
    """List uploads that were begun and not finished, or give some up: a team may have three at a time.

    With --server those of your team; with the competition's folder those of all teams.

    \b
    Example:
      longshot compete uploads --server https://cup.example.org
      longshot compete uploads --server https://cup.example.org --delete 1f0c8e2a4b6d8f0a1c3e5a7b9d1f3a5c
      longshot compete uploads my-competition
    """
    from longshot.arena import delete_upload, uploads
    from longshot.arena.remote_competition import local_time

    (folder,) = folder_or_server(server, [folder], ["FOLDER"], 0)
    cup = None if server is None else at_server(server, token)
    for identity in unwanted:
        gone = (
            delete_upload(folder, identity)._asdict()
            if cup is None
            else cup.delete_upload(identity, every=every)
        )
        click.echo(
            f"'{gone['name']}' of team '{gone['team']}' is {gone['state']}; the team may begin another"
        )
    if unwanted:
        return
    rows = [row._asdict() for row in uploads(folder)] if cup is None else cup.uploads(every=every)
    rows = [{**row, "expires": str(row["expires"])} for row in rows]
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
@click.argument("number", type=int)
@_required_server
@token_option
@click.option("--follow", is_flag=True, help="Wait for what is still to come.")
def log_command(number: int, server: str, token: str | None, follow: bool) -> None:
    """Print the log of one of your submissions.

    \b
    Example:
      longshot compete log 3 --server https://cup.example.org --follow
    """
    at_server(server, token).log(
        number,
        follow=follow,
        tell=lambda line: click.echo(f"{line.time}  {line.text}" if line.time else line.text),
    )


@command.command("cancel")
@click.argument("number", type=int)
@_required_server
@token_option
def cancel_command(number: int, server: str, token: str | None) -> None:
    """Cancel a submission of yours that waits or runs; one that has not begun costs no quota.

    \b
    Example:
      longshot compete cancel 3 --server https://cup.example.org
    """
    row = at_server(server, token).cancel(number)
    charged = "it costs no quota" if row["charged"] is None else "its run had begun and stays charged"
    click.echo(f"submission {number} is {row['state']}; {charged}")


@command.command("quota")
@_required_server
@token_option
@json_option
def quota_command(server: str, token: str | None, as_json: bool) -> None:
    """Say what your team may still hand in, and when the day's count begins anew.

    \b
    Example:
      longshot compete quota --server https://cup.example.org
    """
    from longshot.arena.remote_competition import local_time

    rows = at_server(server, token).quota()
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


@command.command("board")
@_required_server
@token_option
@click.option("--phase", help="Phase to show.  [default: the last with scores]")
@click.option("--league", help="League to show.  [default: the first]")
@click.option("--by", help="Which submission of a team counts: last, best or selected.")
@json_option
def board_command(
    server: str, token: str | None, phase: str | None, league: str | None, by: str | None, as_json: bool
) -> None:
    """Show the leaderboard of a server.

    \b
    Example:
      longshot compete board --server https://cup.example.org --league meta-learning
    """
    from longshot.arena.remote_competition import local_time
    from longshot.statistics import half_text

    board = at_server(server, token).board(phase=phase, league=league, by=by)
    rows = [
        {
            "rank": "–" if line["rank"] is None else line["rank"],
            "team": line["team"],
            "score": score_text(line["score"]),
            "interval": "" if line["half"] is None else half_text(line["half"], "plain", 4),
            "method": line["method"],
            "entries": line["entries"],
            "submitted": local_time(line["created"]),
        }
        for line in board["lines"]
    ]
    facts = [f"phase {board['phase']}, league {board['league']}, by {board['ranks_by']}", board["standing"]]
    if board["hidden"]:
        facts.append("the scores of this phase are hidden until it has ended")
    print_table(rows, as_json=as_json, footer="\n".join([*facts, *board["marks"]]))


@command.command("dry-run")
@folder_argument
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    default=("random",),
    show_default=True,
    help="Baseline that plays a team; repeatable.",
)
@click.option("--stand-in", is_flag=True, help="Let toybox stand in for datasets that are not here yet.")
@json_option
def dry_run_command(folder: Path, baselines: tuple[str, ...], stand_in: bool, as_json: bool) -> None:
    """Run the whole competition with baselines, in a folder of its own, before anybody else comes.

    \b
    Example:
      longshot compete dry-run my-competition --baseline random
    """
    from longshot.arena import dry_run

    entries = dry_run(
        folder, baselines=baselines, stand_in=stand_in, tell=lambda line: click.echo(line, err=True)
    )
    rows = [
        {**entry._asdict(), "score": score_text(entry.score), "rank": entry.rank or "–"} for entry in entries
    ]
    good = all(entry.state == "scored" for entry in entries)
    print_table(rows, as_json=as_json, footer="every run was scored" if good else "not every run was scored")
    if not good:
        raise click.exceptions.Exit(1)
