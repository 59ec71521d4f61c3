"""``longshot compare`` and ``report``: whether B is better than A, and a page or a table of runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.base import (
    PLACE,
    claim_output,
    deliver_text,
    echo_json,
    json_option,
    print_written,
    verb_options,
)
from longshot.cli.comparison_text import (
    compared_sheet,
    lines_below,
    output_kinds,
    reasons,
    to_junit,
    to_markdown,
)
from longshot.evaluation import METRICS

if TYPE_CHECKING:
    from longshot.evaluation import Outcome


EXIT_CODES: dict[Outcome | None, int] = {None: 0, "passed": 0, "failed": 1, "undecided": 3}


@click.command()
@click.argument("a", metavar="RUN_A", type=PLACE)
@click.argument("b", metavar="[RUN_B]", type=PLACE, required=False)
@verb_options("compare", {"metric": {"type": click.Choice(METRICS)}})
@click.option("--markdown", type=PLACE, metavar="FILE", help="Also write the tables as Markdown.")
@click.option(
    "--junit", type=PLACE, metavar="FILE", help="Also write the gates as JUnit's XML, for build servers."
)
@click.option("--force", is_flag=True, help="Replace what is at --markdown and --junit, whatever wrote it.")
@json_option
def compare_command(
    a: Path,
    b: Path | None,
    as_json: bool,
    markdown: Path | None,
    junit: Path | None,
    force: bool,
    per_class: bool,
    **settings: Any,
) -> None:
    """Compare RUN_B with RUN_A task by task; with one run, all its series with one another.

    \b
    Example:
      longshot sample toybox --tasks 600 -o easy.parquet
      longshot evaluate easy.parquet --backbone pixels --method protonet -o runs/old
      longshot evaluate easy.parquet --backbone pixels --method "protonet(distance='cosine')" -o runs/new
      longshot compare runs/old runs/new
      longshot compare runs/old runs/new --fail-if-worse 1.0 || echo "do not ship"
      longshot compare runs/old runs/new --fail-if-class-worse 10 --undecided pass --junit gate.xml
      longshot compare runs/old runs/new --method protonet --against "protonet(distance='cosine')"

    The interval is Student's t of the paired difference (95 %), for other tasks of these classes; 'for other classes'
    has the one for other classes like these, where it differs by more than a fifth. p is the two-sided sign-flip test,
    and 'p corr.' is corrected for the number of rows by Holm's method; 'better', 'worse' and 'tied' follow from it.

    The gate asks for both, a loss that matters and one that is no chance. A loss that matters and that chance may
    explain is undecided: the command says how many tasks would tell. The gate of classes sees what a mean
    hides, the collapse of one; its p is corrected for all classes.

    \b
    Exit codes:
      0  not worse, or no gate
      1  worse, or a class is, or a series of A is missing from B
      2  a mistake in the input, such as fewer tasks than the test could ever decide with
      3  undecided (0 with --undecided pass)
    """
    import longshot

    for name, path in (("markdown", markdown), ("junit", junit)):
        if path is not None:
            claim_output(path, output_kinds()[name], force=force, name=name)
    compared = longshot.compare(a, b, per_class=per_class, **settings)
    for path, write in ((markdown, to_markdown), (junit, to_junit)):
        if path is not None:
            deliver_text(path, write(compared))
    if as_json:
        echo_json(compared.record())
    else:
        from longshot.reports import changes_sheet, terminal

        click.echo(terminal(compared_sheet(compared)))
        for pair in compared.pairs if per_class else ():
            click.echo(f"\n{terminal(changes_sheet(pair))}")
        for line in lines_below(compared):
            click.echo(f"\n{line}")
    for line in reasons(compared):
        click.echo(line, err=True)
    if code := EXIT_CODES[compared.outcome]:
        sys.exit(code)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PLACE, metavar="RUN...")
@verb_options("report", {"out": {"default": None}}, without="images")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def report_command(
    runs: tuple[Path, ...], out: Path | None, format: str | None, as_json: bool, **settings: Any
) -> None:
    """Write one self-contained page, or the table alone, from the results of one or several runs.

    \b
    Example:
      longshot sample toybox --tasks 100 --way 5 --shot 5 --query 10 -o easy.parquet
      longshot evaluate easy.parquet --backbone pixels --method protonet -o runs/first
      longshot report runs/first -o report.html
      longshot report runs/first --format latex

    A RUN is a folder, or the URL of one, such as s3://bucket/runs/first.
    """
    import longshot

    format = "json" if as_json else format
    target: Path | str = out or ("report.html" if format in (None, "html") else "-")
    written = longshot.report(runs, target, format=format, **settings)
    if str(target) != "-":
        print_written(written)
