"""``longshot check``, ``attributes`` and ``explain``: how well classes are told apart, and why tasks are hard."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.base import PLACE, echo_json, json_option, print_table, print_written, verb_options
from longshot.statistics import figures, percent

if TYPE_CHECKING:
    from longshot.diagnosis.explanation import Explanation
    from longshot.reports import Sheet
    from longshot.statistics import Verdict


EXIT_CODES: dict[Verdict | None, int] = {None: 0, "passed": 0, "failed": 1, "undecided": 3}


@click.command()
@click.argument("dataset", metavar="FOLDER")
@verb_options("check", {"judge": {"flags": ["--judge"]}})  # -b is the network that is measured
@json_option
def check_command(dataset: str, out: Path | None, as_json: bool, **settings: Any) -> None:
    """Say how well a network tells the classes of FOLDER apart, and which it mixes up.

    \b
    Examples:
      longshot check toybox
      longshot check ./my_photos --need 0.9
      longshot check ./my_photos -b efficientnet-lite0 -b efficientnet-lite2 --shot 3

    Measured are random tasks, tasks of look-alike classes, tasks with difficult references, and all classes at once,
    each at the network's own resolution. The method that serves best is chosen on other tasks than those shown.

    \b
    Exit codes:
      0  what is needed is reached, or nothing was asked for
      1  it is not reached
      2  a mistake in the input
      3  undecided: the interval holds what is needed
    """
    import longshot
    from longshot.diagnosis.folder_check import PAGE_NAME

    folder = out or Path(f"{Path(dataset.rstrip('/')).stem or 'folder'}-check")
    checked = longshot.check(dataset, out=folder, **settings)
    page = folder / PAGE_NAME
    if as_json:
        echo_json({**checked.record(), "page": str(page)})
    else:
        click.echo(checked)
        click.echo(f"\n{page.resolve()}")
    if code := EXIT_CODES[checked.verdict]:
        sys.exit(code)


class _ShowFirst(click.Group):
    """A group of commands whose first one may go without its name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowFirst)
def attributes_command() -> None:
    """Describe the attributes of images, or rank them by what a shift in them costs.

    \b
    Example:
      longshot attributes toybox                    # the same as: longshot attributes show toybox
      longshot attributes suggest toybox --backbone pixels
    """


@attributes_command.command("show")
@click.argument("dataset")
@verb_options("measure_attributes")
@json_option
def show(dataset: str, out: Path | None, as_json: bool, **settings: Any) -> None:
    """Describe the attributes of DATASET's images: annotated ones, and those measured from the pixels.

    \b
    Example:
      longshot attributes toybox -o attributes.csv

    The file has a column path and one per attribute: put beside the images as attributes.csv it makes every attribute
    usable in rules such as --query-where "brightness < 0.3".
    """
    import longshot
    from longshot.base import is_stream

    table = longshot.measure_attributes(dataset, out=out, **settings)
    print_table([_row(name, table.column(name)) for name in table.column_names], as_json=as_json)
    if out is not None and not as_json:
        shown = out if is_stream(out) else out.resolve()
        click.echo(f"\n{shown}: {table.num_columns} attributes of {table.num_rows:,} images")


@attributes_command.command("suggest")
@click.argument("dataset")
@verb_options("suggest_attributes", {"attributes": {"flags": ["--attributes"]}})
@json_option
def suggest(dataset: str, out: Path | None, as_json: bool, **settings: Any) -> None:
    """Rank attributes and looks of DATASET by what it costs when support and queries differ in them.

    \b
    Example:
      longshot attributes suggest toybox --backbone pixels
      longshot sample toybox --instances shifted --attribute viewpoint --tasks 100 -o shifted.parquet

    For each attribute shifted and matched tasks ask the same questions. The cost is matched minus shifted accuracy. A
    look is a cluster of what the backbone sees.
    """
    import longshot
    from longshot.diagnosis.trials import say_points

    ranked = longshot.suggest_attributes(dataset, out=out, **settings)
    if as_json:
        echo_json([asdict(each) for each in ranked])
        return
    rows = [
        {
            "attribute": each.attribute,
            "from": each.source,
            "matched": say_points(each.matched),
            "shifted": say_points(each.shifted),
            "cost": say_points(each.cost, signed=True),
            "adjusted p": "–" if each.adjusted is None else f"{each.adjusted:.2g}",
            "dearest": _without_name(each.dearest, each.attribute),
        }
        for each in ranked
        if each.tasks
    ]
    print_table(
        rows, title="Accuracy in %, mean over tasks ± half its 95 % interval; cost: matched minus shifted"
    )
    for each in ranked:
        if each.left_out:
            click.echo(f"note: {each.attribute} left out: {each.left_out}", err=True)
    if out is not None:
        print_written(out)


def _without_name(rules: str, name: str) -> str:
    """Shorten the two rules of a shift, for the row says which attribute they are about.

    >>> _without_name('query dim <= 0.123456; support dim > 0.123456', "dim")
    'query <= 0.123; support > 0.123'
    >>> _without_name('query "the view" == "top"; support "the view" == "side"', "the view")
    'query "top"; support "side"'
    >>> _without_name("query dim; support not dim", "dim")
    'query yes; support no'
    """
    plain = rules.replace(f'"{name}"', name).replace(f"not {name}", "no").replace(f"{name} == ", "")
    plain = plain.replace(f"{name} ", "").replace(name, "yes")
    return re.sub(r"\d+\.\d{4,}", lambda number: f"{float(number[0]):.3g}", plain)


def _row(name: str, values: Any) -> dict[str, Any]:
    """Describe an attribute: its kind, its coverage and a summary of its values."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    coverage = 1 - values.null_count / max(1, len(values))
    if pa.types.is_floating(values.type) or pa.types.is_integer(values.type):
        low, middle, high = np.nanquantile(values.cast(pa.float64()).to_numpy(), [0.05, 0.5, 0.95])
        summary = f"{figures(middle)} ({figures(low)} to {figures(high)} in nine of ten)"
    else:
        counted = sorted(pc.value_counts(values).to_pylist(), key=lambda value: -value["counts"])
        summary = ", ".join(
            f"{value['values']} {percent(value['counts'] / len(values), 0)} %" for value in counted[:5]
        )
        summary += f", {len(counted) - 5} more" if len(counted) > 5 else ""
    return {
        "attribute": name,
        "kind": str(values.type),
        "known for": f"{percent(coverage)} %",
        "values": summary,
    }


@click.command()
@click.argument("testbeds", nargs=-1, required=True, metavar="TESTBED…", type=PLACE)
@verb_options("explain", {"attributes": {"flags": ["--attributes"]}})
@json_option
def explain_command(
    testbeds: tuple[Path, ...], task: int | None, top: int, html: Path | None, as_json: bool, **settings: Any
) -> None:
    """Say in what the supports of TESTBED differ from its queries, beyond what random drawing explains.

    \b
    Example:
      longshot sample toybox --tasks 60 --instances difficult --backbone pixels -o hard.parquet
      longshot sample toybox --tasks 60 -o plain.parquet
      longshot explain hard.parquet plain.parquet --backbone efficientnet-lite0 --intervene --html why.html

    Attributes are the dataset's own, those of --attributes, how images look to --backbone, and some measured from the
    pixels. What differs in the pixels is traced to one alteration that explains it (blur, resolution, noise, light,
    colour, compression, orientation, crop, scale, position, cover, background), with its symptoms under it. The first
    testbed is explained task by task; the supports of the others are set beside its own.

    A difference need not be a cause. --intervene takes the suspected causes away, jointly, and evaluates again. It says
    how many points each costs, how much of the loss they explain together, and what to add.
    """
    import longshot
    from longshot.diagnosis.explanation_page import as_json as plain

    explanation = longshot.explain(list(testbeds), task=task, top=top, html=html, **settings)
    if as_json:
        echo_json(plain(explanation))
        return
    _print(explanation, top, several=task is None)
    if html is not None:
        click.echo()
        print_written(html)


def _print_interventions(explanation: Explanation) -> None:
    """Print what is lost, by which causes, and what to add."""
    if not explanation.accounts:
        return
    from longshot.diagnosis import explanation_page as page

    for account in explanation.accounts:
        click.echo(account.sentence)
    _print_sheet(page.account_sheet(explanation.accounts))
    _print_sheet(page.intervention_sheet(explanation.interventions))
    if explanation.remedies:
        causes = ", ".join(explanation.remedies[0].causes)
        click.echo(f"\nWhat to do next, with photos like the queries in {causes}")
    for remedy in explanation.remedies:
        click.echo(f"  {remedy.sentence}")
    click.echo()


def _print_sheet(sheet: Sheet | None) -> None:
    """Print a table below an empty line, where there is one."""
    from longshot.reports import terminal

    if sheet is not None:
        click.echo(f"\n{terminal(sheet)}")


def _print(explanation: Explanation, top: int, *, several: bool) -> None:
    from longshot.diagnosis import explanation_page as page

    for note in explanation.notes:
        click.echo(f"note: {note}", err=True)
    if several:
        _print_interventions(explanation)
    for task in explanation.hardest()[:top]:
        accuracy = "" if task.accuracy is None else f", accuracy {percent(task.accuracy)} %"
        click.echo(f"task {task.task} ({task.dataset}{accuracy})")
        for finding in task.findings[:6]:
            click.echo(f"  {finding.sentence}  (adjusted p {finding.adjusted:.1g})")
            if symptoms := page.say_symptoms(finding):
                click.echo(f"      {symptoms}")
        if len(task.findings) > 6:
            click.echo(f"  … and {len(task.findings) - 6} more")
        if not task.findings:
            click.echo("  nothing sets support and queries apart beyond chance")
        for text in page.attraction_sentences(task):
            click.echo(f"  {text}")
    if not several:
        return
    explained = sum(bool(task.findings) for task in explanation.tasks)
    counted = f"{explained:,} of {len(explanation.tasks):,} tasks of '{explanation.name}'"
    click.echo(f"\n{counted} have a cause among the attributes.")
    if not (explained or explanation.accounts):
        click.echo("A network sees more: --backbone NETWORK --intervene says what the loss is made of.")
    _print_sheet(page.cause_sheet(explanation))
    if explanation.loss_and_accuracy is not None:
        together = page.say_correlation(explanation.loss_and_accuracy)
        click.echo(f"\nSpearman of accuracy and inverse query loss: {together}")
    for dataset in explanation.compositions:
        _print_sheet(
            page.composition_sheet(
                explanation.beside(dataset), f"Support against queries, {dataset}", most=12
            )
        )
