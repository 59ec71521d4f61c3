"""``longshot compete``: make and try submissions and bundles, say what a method is, and see who is where.

make-submission, check, run, bundle, validate, run-bundle; fact-sheet, leaderboard, final. Where a command takes a
COMPETITION, that is its folder or its server's address.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.base import (
    FILE,
    PATH,
    UserError,
    count,
    force_option,
    is_stream,
    json_option,
    print_table,
    verb_options,
)

if TYPE_CHECKING:
    from longshot.arena import ConnectedCompetition

folder_argument = click.argument("folder", type=PATH)
competition_argument = click.argument("competition")
token_option = click.option(
    "--token", metavar="TOKEN", help="Your token of a server.  [default: that of LONGSHOT_TOKEN]"
)


def _settings(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """Parse ``KEY=VALUE`` texts as settings; values are JSON where they can be read so, else texts."""
    settings: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"'{text}' is no setting; write KEY=VALUE, as in --set train_tasks=20.")
        try:
            settings[key] = json.loads(value)
        except ValueError:
            settings[key] = value
    return settings


settings_option = click.option(
    *("--set", "settings"),
    multiple=True,
    callback=_settings,
    metavar="KEY=VALUE",
    help="Replace a setting; repeatable.",
)


def connected(competition: str, token: str | None) -> ConnectedCompetition:
    """Connect to the competition in a folder or at an address."""
    from longshot.arena import connect

    return connect(competition, token)


@click.group()
def command() -> None:
    """Run a blind competition: other people's code on hidden tasks, in a sandbox.

    \b
    Example:
      longshot compete init my-competition
      longshot compete baseline prototypical proto --set network=cnn4 --set train_tasks=20 --set valid_tasks=5
      longshot compete submit my-competition proto --team "The Prototypes" --league meta-learning
      longshot compete work my-competition
      longshot compete leaderboard my-competition
    """


def score_text(score: float | None) -> str:
    """Format a score with four digits; empty where there is none."""
    return "" if score is None else f"{score:.4f}"


@command.command("fact-sheet")
@competition_argument
@click.argument("number", required=False, type=int)
@click.argument("file", required=False, type=PATH)
@token_option
def fact_sheet_command(competition: str, number: int | None, file: Path | None, token: str | None) -> None:
    """Print an empty fact sheet, show that of submission NUMBER, or hand in FILE as its sheet.

    \b
    Example:
      longshot compete fact-sheet my-competition > sheet.yaml
      longshot compete fact-sheet my-competition 3 sheet.yaml
    """
    from longshot.arena.submission_check import blank_sheet

    cup = connected(competition, token)
    if number is None:
        click.echo(blank_sheet(cup.info()["fact_fields"]), nl=False)
    elif file is None:
        rows = [{"field": name, "text": text} for name, text in cup.status(number)["fact_sheet"].items()]
        print_table(rows, footer=None if rows else f"submission {number} has no fact sheet")
    else:
        lacking = cup.hand_in_fact_sheet(number, file)
        click.echo(
            f"submission {number} has its fact sheet"
            + (f"; it lacks {', '.join(lacking)}" if lacking else "")
        )


@command.command("leaderboard")
@competition_argument
@token_option
@verb_options("arena.ConnectedCompetition.board")
@click.option("--html", "page", type=FILE, help="Write a page with all leagues and plots, of a folder.")
@force_option
@json_option
def leaderboard_command(
    competition: str, token: str | None, page: Path | None, force: bool, as_json: bool, **choice: Any
) -> None:
    """Show the leaderboard: one valid submission of every team, the last unless the competition says otherwise.

    Of equal ones the earlier leads.

    \b
    Example:
      longshot compete leaderboard my-competition --phase feedback --html board.html
      longshot compete leaderboard https://cup.example.org --league meta-learning
    """
    from longshot.arena import write_leaderboard
    from longshot.arena.connected_competition import local_time
    from longshot.base import PAGE, claim_output
    from longshot.statistics import half_text

    if page is not None:
        claim_output(page, PAGE, force=force, name="page")
    cup = connected(competition, token)
    leagues = [choice["league"]] if choice["league"] else cup.info()["leagues"]
    boards = [cup.board(**{**choice, "league": league}) for league in leagues]
    rows = [
        {
            "phase": board["phase"],
            "league": board["league"],
            "rank": "–" if line["rank"] is None else line["rank"],
            "team": line["team"],
            "score": score_text(line["score"]),
            "interval": "" if line["half"] is None else half_text(line["half"], "plain", 4),
            "method": line["method"],
            "submission": "" if line["submission"] is None else line["submission"],
            "submitted": line["created"] if as_json else local_time(line["created"]),
        }
        for board in boards
        for line in board["lines"]
    ]
    facts = [boards[0]["standing"] if rows else "no scored submissions yet", *boards[0]["marks"]]
    if boards[0]["hidden"]:
        facts.append("the scores of this phase are hidden until it has ended")
    print_table(rows, as_json=as_json, footer="\n".join(facts))
    if page is not None and rows:
        write_leaderboard(competition, page, phase=boards[0]["phase"], force=force)


@command.command("final")
@competition_argument
@token_option
@json_option
def final_command(competition: str, token: str | None, as_json: bool) -> None:
    """Enter the last valid feedback submission of every team that passed the threshold into the final.

    \b
    Example:
      longshot compete final my-competition
    """
    cup = connected(competition, token)
    rows = [
        {
            "team": entry["team"],
            "league": entry["league"],
            "feedback": entry["feedback"],
            "score": score_text(entry["score"]),
            "final": "" if entry["final"] is None else entry["final"],
            "why not": entry["why_not"],
        }
        for entry in cup.enter_final()
    ]
    standing = cup.board(phase=cup.info()["phases"][-1]["name"])["standing"]
    print_table(rows, as_json=as_json, footer=standing)


@command.command("make-submission")
@click.argument("method_or_network", metavar="METHOD_OR_NETWORK")
@click.argument("out", type=PATH)
@verb_options("arena.make_submission", without="settings")
@settings_option
def make_submission_command(method_or_network: str, out: Path, **settings: Any) -> None:
    """Write any method, or any trained network, as a submission: a folder, or a zip where OUT ends so.

    \b
    Example:
      longshot compete make-submission "tim(steps=100)" tim --backbone efficientnet-lite0
      longshot compete make-submission runs/net net.zip
      longshot compete make-submission protonet own --train protonet --backbone "cnn4(width=16)" --set steps=20
    """
    from longshot.arena import make_submission

    made = make_submission(method_or_network, out, **settings)
    click.echo(f"{made.path}: {made.title}")
    if made.weights:
        click.echo(
            f"it has the learned weights of {made.weights[0]}: the meta-learning league does not take it"
        )


@command.command("run")
@folder_argument
@click.argument("submission", type=PATH)
@verb_options("arena.try_submission", {"out": {"flags": ["-o", "--out"]}})
def run_command(folder: Path, submission: Path, out: Path, **settings: Any) -> None:
    """Try a submission without entering it: the same program, the same scores, no leaderboard.

    \b
    Example:
      longshot compete run my-competition proto --phase public -o tried
    """
    from longshot.arena import try_submission
    from longshot.arena.inside.blind_tasks import telling_half
    from longshot.statistics import plus_minus

    scores = try_submission(folder, submission, out, **settings)
    overall = scores["overall"]
    half = telling_half(overall, "normalized_accuracy")
    shown = plus_minus(overall["normalized_accuracy"], half, "plain", 4)
    click.echo(f"normalised accuracy {shown} over {overall['tasks']} tasks")
    click.echo(f"{out / 'detailed_results.html'}: by dataset, ways and shots")


@command.command("check")
@click.argument("archive", type=PATH)
@verb_options("arena.check_submission")
def check_command(archive: Path, league: str) -> None:
    """Check a submission at home as 'submit' does before it takes it; nothing is run and no competition is needed.

    \b
    Example:
      longshot compete check proto.zip --league meta-learning
    """
    from longshot.arena import check_submission

    checked = check_submission(archive, league=league)
    size = (
        f"{checked.bytes / 2**20:,.1f} MB" if checked.bytes >= 1 << 20 else f"{checked.bytes / 2**10:,.1f} KB"
    )
    click.echo(f"{archive} can be submitted: {count(checked.files, 'file')}, {size}")
    for line in checked.notes:
        click.echo(f"note: {line}; the league refuses it where it runs")


@command.command("bundle")
@folder_argument
@verb_options("arena.export_bundle", {"out": {"flags": ["-o", "--out"]}})
def bundle_command(folder: Path, out: Path, **settings: Any) -> None:
    """Write the competition as a Codabench bundle (version 2).

    \b
    Example:
      longshot compete bundle my-competition -o bundle.zip
      longshot compete bundle my-competition -o meta.zip --league meta-learning
    """
    from longshot.arena import export_bundle

    path = export_bundle(folder, out, **settings)
    size = "" if is_stream(path) else f": {path.stat().st_size / 2**20:,.1f} MB"
    click.echo(f"{path}{size}; 'longshot compete validate {path}' checks it")


@command.command("kit")
@folder_argument
@verb_options("arena.write_kit", {"out": {"flags": ["-o", "--out"]}})
def kit_command(folder: Path, out: Path, force: bool) -> None:
    """Write the starting kit: public data, settings, baselines, a notebook. A server hands it out by itself.

    \b
    Example:
      longshot compete kit my-competition -o kit.zip
    """
    from longshot.arena import write_kit

    path = write_kit(folder, out, force=force)
    click.echo(f"{path}: {path.stat().st_size / 2**20:,.1f} MB; unpacked, its README.md says how to begin")


@command.command("audit")
@folder_argument
@click.argument("submission")
@verb_options("arena.audit_entry", {"out": {"flags": ["-o", "--out"]}})
@json_option
def audit_command(folder: Path, submission: str, out: Path, as_json: bool, **settings: Any) -> None:
    """Run an entry again with noise in place of what it brought, and with its weights shuffled: what does it lose?

    \b
    Example:
      longshot compete audit my-competition 3 -o audited
    """
    from longshot.arena import audit_entry
    from longshot.statistics import plus_minus

    audit = audit_entry(folder, submission, out, **settings)
    rows = [
        {
            "run": run.variant,
            "score": score_text(run.score),
            "loses": ""
            if run.loss is None or run.variant == "original"
            else plus_minus(run.loss, run.half or 0.0, "plain", 4),
            "reason": run.reason[:80],
        }
        for run in audit.runs
    ]
    notes = [f"replaced: {', '.join(audit.replaced[:10])}"] if audit.replaced else []
    print_table(rows, as_json=as_json, footer="\n".join([*notes, audit.verdict]))


@command.command("validate")
@click.argument("bundle", type=PATH)
def validate_command(bundle: Path) -> None:
    """Check any Codabench bundle against the rules of its unpacker; exits with 1 when something is wrong.

    \b
    Example:
      longshot compete validate bundle.zip
    """
    from longshot.arena import check_bundle

    mistakes = check_bundle(bundle)
    for mistake in mistakes:
        click.echo(mistake)
    if mistakes:
        raise click.exceptions.Exit(1)
    click.echo(f"{bundle} is a valid bundle")


@command.command("run-bundle")
@click.argument("bundle", type=PATH)
@click.argument("submission", type=PATH)
@verb_options("arena.run_bundle", {"out": {"flags": ["-o", "--out"]}})
def run_bundle_command(bundle: Path, submission: Path, out: Path, phase: str | None) -> None:
    """Run a bundle's own programs on a submission, in the sandbox, with the platform's mounts.

    \b
    Example:
      longshot compete run-bundle bundle.zip proto -o tried
    """
    from longshot.arena import run_bundle

    rows = run_bundle(bundle, submission, out, phase=phase)
    # Any bundle's scores; of ours the intervals and datasets stay in scores.json.
    shown = [
        {
            "task": task,
            **{
                key.replace("_", " "): f"{value:.4f}"
                for key, value in row.items()
                if not key.endswith("_ci95") and not key.startswith("dataset_")
            },
        }
        for task, row in enumerate(rows)
    ]
    print_table(shown, footer=f"{out}: scores.json and detailed_results.html of every task")
