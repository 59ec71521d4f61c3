"""``longshot compare`` and ``report``: whether B is better than A, and a page or a table of runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.base import (
    PLACE,
    OutputKind,
    claim_output,
    count,
    deliver_text,
    echo_json,
    escape_markdown,
    json_option,
    print_written,
    starts_with,
    verb_options,
)
from longshot.evaluation import METRICS
from longshot.statistics import percent

if TYPE_CHECKING:
    from longshot.evaluation import ClassChange, Compared, RunComparison
    from longshot.statistics import Verdict

EXIT_CODES: dict[Verdict | None, int] = {None: 0, "passed": 0, "failed": 1, "undecided": 3}


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
        from longshot.reports import changes_sheet, compared_sheet, terminal

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


_HEADING = "# Comparison of "


def lines_below(compared: RunComparison) -> list[str]:
    """Write the lines under the table: what was not compared, what cannot be told, and a gate that holds."""
    lines = []
    if compared.unmatched:
        lines.append(f"Without a partner, not compared: {'; '.join(compared.unmatched)}.")
    fewest, least = compared.fewest_tasks, min(pair.result.n for pair in compared.pairs)
    if least < fewest:
        lines.append(
            f"{count(least, 'task')} cannot tell: the test can reach p < 0.05 from {fewest} tasks on "
            f"({count(len(compared.pairs), 'comparison')})."
        )
    lines += [f"{line[0].upper()}{line[1:]}." for line in compared.names_only]
    lines += [f"{line}." for line in (*compared.judges, *compared.leaks)]
    if compared.unit == "nats" and any(pair.a.method != pair.b.method for pair in compared.pairs):
        lines.append("Scores of different methods have different scales: their losses do not compare.")
    if compared.fail_if_class_worse is not None:
        lines += _lines_of_classes(compared)
    if compared.outcome == "passed" and compared.fail_if_worse is not None:
        bound = f"{compared.fail_if_worse:g} {compared.unit if compared.fail_if_worse != 1 else compared.unit[:-1]}"
        lines.append(f"Passed: nothing is worse by more than {bound} beyond chance.")
        lines += [f"Passed although undecided: {_loss(pair, compared)}." for pair in compared.undecided]
        if compared.missing:
            lines.append(f"Passed although missing from {compared.b}: {'; '.join(compared.missing)}.")
    return lines


def reasons(compared: RunComparison) -> list[str]:
    """Say why the gate does not hold, one line each."""
    if compared.outcome == "undecided":
        return [*_open_losses(compared), "Evaluate more tasks, or let this pass with --undecided pass."]
    if compared.outcome != "failed":
        return []
    lines = [_failed(compared)] if compared.failures else []
    if compared.missing and not compared.allow_missing:
        lines.append(
            f"failed: {compared.b} lacks what {compared.a} has: {'; '.join(compared.missing)}. Evaluate it there, or "
            "accept it with --allow-missing."
        )
    lines += [f"failed: {_class_loss(pair, change)}." for pair, change in compared.class_failures]
    return lines + _open_losses(compared)


def _open_losses(compared: RunComparison) -> list[str]:
    lines = [f"undecided: {_loss(pair, compared)}." for pair in compared.undecided]
    return lines + [
        f"undecided: {_class_loss(pair, change)}, but chance may explain it."
        for pair, change in compared.class_undecided
    ]


def _lines_of_classes(compared: RunComparison) -> list[str]:
    """Say that no class is worse, and of which the tasks are too few to tell."""
    changes = [change for pair in compared.pairs for change in pair.classes]
    fewest, lines = compared.fewest_tasks_of_classes, []
    if not compared.class_failures:
        lines.append(
            f"Of {count(len(changes), 'class', 'classes')} none is worse beyond chance where a loss of "
            f"{compared.fail_if_class_worse:g} points is not ruled out."
        )
    if short := sum(change.tasks < fewest for change in changes):
        lines.append(
            f"{count(short, 'class', 'classes')} cannot be judged: the test of all classes can reach p < 0.05 from "
            f"{fewest} tasks with the class on."
        )
    if compared.outcome == "passed":
        lines += [f"Passed although undecided: {_class_loss(*each)}." for each in compared.class_undecided]
    return lines


def _class_loss(pair: Compared, change: ClassChange) -> str:
    return (
        f"{change.class_id} fell from {percent(change.before)} to {percent(change.after)} % with {pair.b} on "
        f"'{pair.testbed}' ({count(change.tasks, 'task')}, p {_p(change.p_holm)})"
    )


def output_kinds() -> dict[str, OutputKind]:
    """Return what may be replaced at the files of a comparison."""
    from longshot.reports import JUNIT_OPENING

    return {
        "markdown": OutputKind("comparison", {".md": starts_with(_HEADING)}),
        "junit": OutputKind("record of tests", {".xml": starts_with(JUNIT_OPENING)}),
    }


def to_markdown(compared: RunComparison) -> str:
    """Return the tables and what follows from them as Markdown, for a comment on a change."""
    from longshot.reports import changes_sheet, compared_sheet, markdown

    sheets = [compared_sheet(compared), *(changes_sheet(pair) for pair in compared.pairs if pair.classes)]
    lines = [escape_markdown(f"- {line}") for line in (*lines_below(compared), *reasons(compared))]
    head = f"{_HEADING}{escape_markdown(f'{compared.a} and {compared.b or compared.a}')}"
    return "\n".join([head, "", *map(markdown, sheets), *lines, ""])


def to_junit(compared: RunComparison) -> str:
    """Return a test case for every pair of series, every class and every missing series as JUnit's XML."""
    from longshot.reports import junit

    open_fails = compared.undecided_policy == "fail"
    losses = {id(pair) for pair in (*compared.failures, *(compared.undecided if open_fails else ()))}
    wrong = (*compared.class_failures, *(compared.class_undecided if open_fails else ()))
    class_losses = {id(change) for _, change in wrong}
    cases = []
    for pair in compared.pairs:
        group = f"{pair.testbed}: {pair.b}"
        cases.append((group, "all classes", _loss(pair, compared) if id(pair) in losses else ""))
        for change in pair.classes:
            cases.append(
                (group, change.class_id, _class_loss(pair, change) if id(change) in class_losses else "")
            )
    gone = "" if compared.allow_missing else f"{compared.b} lacks it"
    return junit("compare", [*cases, *(("missing", series, gone) for series in compared.missing)])


def _failed(compared: RunComparison) -> str:
    failures, unit = compared.failures, compared.unit
    worst = min(failures, key=lambda pair: pair.gain)
    return (
        f"failed: {worst.b} in {compared.b} is worse than {worst.a} in {compared.a} by "
        f"{-worst.gain * compared.scale:.2f} {unit} on '{worst.testbed}' (p {_p(worst.p_holm)}), more than the "
        f"{compared.fail_if_worse:g} allowed"
        + (f"; {len(failures) - 1} more fail" if len(failures) > 1 else "")
        + "."
    )


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def _loss(pair: Compared, compared: RunComparison) -> str:
    """Say by how much a loss is beyond the bound, and how many tasks would tell whether it is chance."""
    needed = pair.tasks_to_decide()
    more = "" if needed is None else f"; {pair.result.n:,} tasks were compared, about {needed:,} would tell"
    chance = f", but chance may explain it (p {_p(pair.p_holm)}){more}"
    return (
        f"{pair.b} in {compared.b} is worse by {-pair.gain * compared.scale:.2f} {compared.unit} on '{pair.testbed}', "
        f"more than the {compared.fail_if_worse:g} allowed"
        + (chance if pair.verdict == "tied" else f" (p {_p(pair.p_holm)})")
    )
