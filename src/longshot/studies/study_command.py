"""``longshot study``: the papers' protocols, ready to run on any dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from longshot.base import (
    PATH,
    dry_run_option,
    echo_json,
    json_option,
    print_estimate,
    print_table,
    verb_options,
)
from longshot.reports import terminal

if TYPE_CHECKING:
    from longshot.studies import StudyOutcome


@click.group()
def command() -> None:
    """Run a paper's protocol on a dataset of your own: testbeds, results, tables, figures and a page.

    \b
    Example:
      longshot study ls
      longshot study run better-testbed-small toybox -o studies/better
      longshot study run many-way-small toybox --set "methods=[protonet, bd-cspn]" -o studies/many
      longshot study run mine.yaml toybox -o studies/mine
      longshot study tables studies/better --format latex
    """


@command.command("ls")
@json_option
def list_presets(as_json: bool) -> None:
    """List the studies.

    \b
    Example:
      longshot study ls
    """
    from longshot.studies import list_studies

    studies = list_studies()
    if as_json:
        print_table([study._asdict() for study in studies], as_json=True)
        return
    rows = [
        {
            "study": study.name,
            "version": study.version,
            "what": study.title,
            "tasks": study.settings.get("tasks", ""),
            "backbone": study.settings.get("backbone", ""),
            "paper": ", ".join(study.paper.split(", ")[:2]),
        }
        for study in studies
    ]
    print_table(rows)


@command.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Print a study's file: paper, version, how it was checked, settings. A start for a file of your own.

    \b
    Example:
      longshot study show better-testbed
      longshot study show better-testbed > mine.yaml
    """
    from longshot.studies import get_study

    click.echo(get_study(name).text, nl=False)


@command.command("validate")
@click.argument("file", type=PATH)
@json_option
def validate(file: Path, as_json: bool) -> None:
    """Check a study file of your own before running it with --config.

    \b
    Example:
      longshot study show many-way > mine.yaml
      longshot study validate mine.yaml
    """
    from longshot.studies import read_study

    study = read_study(file)
    if as_json:
        plain = study.settings.plain()
        settings = {key: plain[key] for key in study.named}
        echo_json({"recipe": study.recipe, "settings": settings})
        return
    click.echo(f"{file} is a valid study of the recipe '{study.recipe}' with {len(study.named)} settings.")


@command.command("tables")
@click.argument("folder", type=PATH)
@click.option(
    "--format",
    "format",
    type=click.Choice(["md", "latex", "csv"]),
    default="md",
    help="Markdown, LaTeX (booktabs), or CSV in full precision.",
)
def tables(folder: Path, format: Literal["md", "latex", "csv"]) -> None:
    """Print every table of a study that was run: its claims with their verdicts first.

    \b
    Example:
      longshot study tables studies/better
      longshot study tables studies/better --format latex > tables.tex
    """
    from longshot.studies import study_tables

    click.echo(study_tables(folder, format), nl=False)


@command.command("run")
@click.argument("study", metavar="NAME")
@click.argument("datasets", metavar="DATASET", nargs=-1)
@verb_options("run_study", {"settings": {"flags": ["--set"], "callback": None}})
@dry_run_option
@json_option
def run(
    study: str,
    datasets: tuple[str, ...],
    settings: tuple[str, ...],
    out: Path,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run the study NAME on DATASET into a folder; again, it does only what is missing.

    NAME is a study of 'longshot study ls', or a file of your own: YAML that extends one, or Python that defines a
    recipe (a program that runs with your rights; see docs/howto/new-study.md).

    \b
    Example:
      longshot study run better-testbed-small toybox -o studies/better
      longshot study run better-testbed ./my_photos --backbone pixels --set tasks=600 -o studies/mine
      longshot study run vtab-md-small omniglot=images_evaluation.zip upstream:toybox=toybox \\
        -o studies/md

    The folder gets report.html (the study: claims with verdicts, tables, figures), run.html (all results of the run),
    tables/ (.md, .tex, .csv), figures/ (.png, .svg), testbeds/, run/ (see 'longshot report', 'longshot compare') and
    study.json. Settings: those of the study, then --config, then --set. A study over several datasets takes them as
    NAME=PATH.
    """
    import longshot
    from longshot.studies import read_changes

    options |= {"out": out, "settings": read_changes(settings)}
    if dry_run:
        cost = longshot.estimate("run_study", study, datasets, **options)
        print_estimate(cost, as_json and {"steps": cost.steps, "notes": list(cost.notes)})
        return
    outcome = longshot.run_study(study, datasets, **options)
    if as_json:
        echo_json(_facts(outcome))
        return
    for judged in outcome.claims:
        click.echo(f"{judged.verdict}: {judged.claim.sentence}.")
    for table in outcome.tables:
        if table.stem == "claims" and outcome.claims:  # too long for a terminal; it stands on the page
            continue
        for sheet in table.sheets[:1]:
            click.echo(terminal(sheet))
        click.echo("".join(f"{line}\n" for line in table.lines))
    for note in outcome.notes:
        click.echo(f"note: {note}")
    click.echo(f"{out / 'report.html'}: the study; tables/ and figures/ beside it, rows per task in run/")


def _facts(outcome: StudyOutcome) -> dict[str, Any]:
    """Return the facts that --json prints."""
    return {
        "out": str(outcome.path),
        "notes": list(outcome.notes),
        "steps": list(outcome.did),
        "tables": {table.stem: list(table.records) for table in outcome.tables},
        "verdicts": {judged.claim.id: judged.verdict for judged in outcome.claims},
        "findings": [line for table in outcome.tables for line in table.lines],
        "figures": list(outcome.figures),
    }
