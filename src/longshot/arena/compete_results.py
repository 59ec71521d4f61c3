"""``longshot compete fact-sheet | leaderboard | final``: what teams say of their methods, and who is where."""

from __future__ import annotations

from pathlib import Path

import click

from longshot.cli import FILE, PATH, force_option, json_option, print_table

folder_argument = click.argument("folder", type=PATH)


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
    """A score with four digits; nothing where there is none."""
    return "" if score is None else f"{score:.4f}"


@command.command("fact-sheet")
@folder_argument
@click.argument("number", required=False, type=int)
@click.argument("file", required=False, type=PATH)
def fact_sheet_command(folder: Path, number: int | None, file: Path | None) -> None:
    """Print an empty fact sheet, show that of submission NUMBER, or hand in FILE as its sheet.

    \b
    Example:
      longshot compete fact-sheet my-competition > sheet.yaml
      longshot compete fact-sheet my-competition 3 sheet.yaml
    """
    from longshot.arena import blank_fact_sheet, fact_sheet_of, hand_in_fact_sheet

    if number is None:
        click.echo(blank_fact_sheet(folder), nl=False)
    elif file is None:
        rows = [{"field": name, "text": text} for name, text in fact_sheet_of(folder, number).items()]
        print_table(rows, footer=None if rows else f"submission {number} has no fact sheet")
    else:
        lacking = hand_in_fact_sheet(folder, number, file)
        click.echo(
            f"submission {number} has its fact sheet"
            + (f"; it lacks {', '.join(lacking)}" if lacking else "")
        )


@command.command("leaderboard")
@folder_argument
@click.option("--phase", help="Phase to show.  [default: the last with scores]")
@click.option("--league", help="League to show.  [default: all]")
@click.option("--html", "page", type=FILE, help="Write a page with all leagues and plots.")
@force_option
@json_option
def leaderboard_command(
    folder: Path, phase: str | None, league: str | None, page: Path | None, force: bool, as_json: bool
) -> None:
    """Show who is where: the last valid submission of every team, ties to the earlier one.

    \b
    Example:
      longshot compete leaderboard my-competition --phase feedback --html board.html
    """
    from longshot.arena import leaderboard, write_leaderboard
    from longshot.base import PAGE, claim_output

    if page is not None:
        claim_output(page, PAGE, force=force, name="page")
    board = leaderboard(folder, phase=phase, league=league)
    rows = [
        {
            "phase": board.phase,
            "league": name,
            "rank": "–" if entry.rank is None else entry.rank,
            "team": entry.team,
            "score": score_text(entry.score),
            "method": dict(entry.sheet).get("title", ""),
            "submission": entry.submission,
            "submitted": entry.created,
        }
        for name, entries in board.leagues.items()
        for entry in entries
    ]
    print_table(rows, as_json=as_json, footer="\n".join([board.standing, *board.marks]))
    if page is not None and rows:
        write_leaderboard(folder, page, phase=board.phase, force=force)


@command.command("final")
@folder_argument
@json_option
def final_command(folder: Path, as_json: bool) -> None:
    """Enter the last valid feedback submission of every team that passed the threshold into the final.

    \b
    Example:
      longshot compete final my-competition
    """
    from longshot.arena import enter_final

    entries, standing = enter_final(folder)
    rows = [
        {
            "team": entry.team,
            "league": entry.league,
            "feedback": entry.feedback,
            "score": score_text(entry.score),
            "final": "" if entry.final is None else entry.final,
            "why not": entry.why_not,
        }
        for entry in entries
    ]
    print_table(rows, as_json=as_json, footer=standing)
