"""``longshot compete fact-sheet | leaderboard | final``: what teams say of their methods, and who is where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import json_option, print_table
from longshot.core.errors import UserError

if TYPE_CHECKING:
    from longshot.competition.settings import Competition
    from longshot.competition.store import Store

_folder = click.argument("folder", type=click.Path(path_type=Path))


def open_competition(folder: Path) -> tuple[Competition, Store]:
    """The settings of the competition in ``folder`` and its memory."""
    try:
        import sqlalchemy  # noqa: F401
    except ImportError as error:
        raise UserError(
            'Competitions need sqlalchemy; to have it: pip install "longshot[compete]"'
        ) from error
    from longshot.competition.settings import load
    from longshot.competition.store import Store

    competition = load(folder)
    return competition, Store(competition)


def score_text(value: float | None) -> str:
    """A score with four digits; nothing where there is none."""
    return "" if value is None else f"{value:.4f}"


@click.command("fact-sheet")
@_folder
@click.argument("number", required=False, type=int)
@click.argument("file", required=False, type=click.Path(path_type=Path))
def fact_sheet_command(folder: Path, number: int | None, file: Path | None) -> None:
    """Print an empty fact sheet, show that of submission NUMBER, or hand in FILE as its sheet.

    \b
    Example:
      longshot compete fact-sheet my-competition > sheet.yaml
      longshot compete fact-sheet my-competition 3 sheet.yaml
    """
    from longshot.competition.fact_sheet import blank, missing, read_sheet, stored
    from longshot.competition.ranking import hand_in_sheet

    competition, store = open_competition(folder)
    if number is None:
        click.echo(blank(competition.fact_fields), nl=False)
        return
    if file is None:
        sheet = stored(store.submission(number)["fact_sheet"])
        rows = [{"field": name, "text": text} for name, text in sheet.items()]
        print_table(rows, footer=None if rows else f"submission {number} has no fact sheet")
        return
    sheet = read_sheet(file)
    hand_in_sheet(store, number, sheet)
    lacking = missing(sheet, competition.fact_fields)
    click.echo(
        f"submission {number} has its fact sheet" + (f"; it lacks {', '.join(lacking)}" if lacking else "")
    )


@click.command("leaderboard")
@_folder
@click.option("--phase", help="Phase to show.  [default: the last with scores]")
@click.option("--league", help="League to show.  [default: all]")
@click.option(
    "--html", "page", type=click.Path(path_type=Path), help="Write a page with all leagues and plots."
)
@json_option
def leaderboard_command(
    folder: Path, phase: str | None, league: str | None, page: Path | None, as_json: bool
) -> None:
    """Show who is where: the last valid submission of every team, ties to the earlier one.

    \b
    Example:
      longshot compete leaderboard my-competition --phase feedback --html board.html
    """
    from longshot.competition.ranking import leaderboard, standing

    competition, store = open_competition(folder)
    rows: list[dict[str, Any]] = []
    for name in [phase] if phase else [one.name for one in reversed(competition.phases)]:
        for one in [league] if league else competition.leagues:
            rows += [
                {
                    "phase": name,
                    "league": one,
                    "rank": "–" if entry.rank is None else entry.rank,
                    "team": entry.team,
                    "score": score_text(entry.score),
                    "method": dict(entry.sheet).get("title", ""),
                    "submission": entry.submission,
                    "submitted": entry.created,
                }
                for entry in leaderboard(competition, store, name, one)
            ]
        if rows:
            break
    said = standing(competition, store, rows[0]["phase"]) if rows else "no scored submissions yet"
    print_table(rows, as_json=as_json, footer=said)
    if page is not None and rows:
        from longshot.competition.board import leaderboard_page
        from longshot.core.files import write_text

        write_text(page, leaderboard_page(competition, store, rows[0]["phase"]))


@click.command("final")
@_folder
@json_option
def final_command(folder: Path, as_json: bool) -> None:
    """Enter the last valid feedback submission of every team that passed the threshold into the final.

    \b
    Example:
      longshot compete final my-competition
    """
    from longshot.competition.ranking import enter_final, standing

    competition, store = open_competition(folder)
    rows = [
        {
            "team": row["team_name"],
            "league": row["league"],
            "feedback": row["id"],
            "score": score_text(row["score"]),
            "final": row.get("final", ""),
            "why not": row["why"],
        }
        for row in enter_final(competition, store)
    ]
    print_table(rows, as_json=as_json, footer=standing(competition, store, competition.final.name))
