"""``longshot explain``: why the tasks of a testbed are hard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import device_option, json_option, print_table
from longshot.core.errors import UserError

if TYPE_CHECKING:
    from longshot.causes.explain import Explained
    from longshot.testbeds.testbed import Testbed


@click.command()
@click.argument("testbeds", nargs=-1, required=True, metavar="TESTBED…", type=click.Path(path_type=Path))
@click.option(
    "--run", type=click.Path(path_type=Path), help="A run on the first testbed: the hardest tasks come first."
)
@click.option("--focus", metavar="TEXT", help="With --run: only the series with TEXT in its name.")
@click.option("--task", "task", type=click.IntRange(min=0), help="Explain this task alone.")
@click.option(
    "--top", type=click.IntRange(min=1), default=5, show_default=True, help="How many tasks to show."
)
@click.option(
    "--backbone", help="Also say to which class's support the queries lie nearest, by its features."
)
@click.option(
    "--attributes",
    "added",
    multiple=True,
    metavar="DATASET=FILE",
    help="A CSV with further attributes: a column path, then one per attribute.",
)
@click.option("--no-pixels", is_flag=True, help="Only annotated attributes; measure nothing from the pixels.")
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    help="Share of false discoveries that is put up with.",
)
@click.option(
    "--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with the pictures."
)
@click.option("--dataset", "datasets", multiple=True, metavar="NAME=PATH", help="Where a dataset lives now.")
@device_option
@json_option
def command(
    testbeds: tuple[Path, ...],
    run: Path | None,
    focus: str | None,
    task: int | None,
    top: int,
    backbone: str | None,
    added: tuple[str, ...],
    no_pixels: bool,
    level: float,
    page: Path | None,
    datasets: tuple[str, ...],
    device: str,
    as_json: bool,
) -> None:
    """Say in what the supports of TESTBED differ from its queries, beyond what random drawing explains.

    \b
    Example:
      longshot sample toybox --tasks 60 --instances difficult --backbone pixels -o hard.parquet
      longshot sample toybox --tasks 60 -o plain.parquet
      longshot explain hard.parquet plain.parquet --html why.html

    Attributes are the dataset's own, those of --attributes, and some measured from the pixels (brightness,
    contrast, saturation,
    hue, sharpness, edges, object scale, noise, background, aspect). The first testbed is explained task by task;
    the supports of
    the others are put beside it.
    """
    from longshot.causes.explain import explain
    from longshot.causes.words import as_json as plain
    from longshot.datasets.registry import parse_dataset_options
    from longshot.evaluation.results import Results
    from longshot.testbeds.testbed import Testbed

    beds = {path.stem: Testbed.load(path) for path in testbeds}
    if len(beds) < len(testbeds):
        raise UserError(f"{len(testbeds)} testbeds have only {len(beds)} different names; rename the files.")
    if focus is not None and run is None:
        raise UserError(f"--focus {focus} goes with --run only; say which run holds the results.")
    options: dict[str, Any] = {
        "added": parse_dataset_options(added),
        "measured": not no_pixels,
        "level": level,
        "device": device,
    }
    places = parse_dataset_options(datasets)
    first, *rest = beds
    found = explain(
        beds[first],
        datasets=_known(places, beds[first]),
        backbone=backbone,
        run=None if run is None else Results(run),
        series=focus,
        **options,
    )
    others = {name: explain(beds[name], datasets=_known(places, beds[name]), **options) for name in rest}
    if task is not None:
        found = _only(found, task)
    if as_json:
        shown = plain(found, None if task is not None else top)
        shown["others"] = {name: plain(one, 0)["composition"] for name, one in others.items()}
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    else:
        _print(found, first, others, top, several=task is None)
    if page is not None:
        _write(found, beds[first], first, others, page, places, top)
        if not as_json:
            click.echo(f"\n{page.resolve()} ({page.stat().st_size / 1e3:,.0f} kB)")


def _known(places: dict[str, str], bed: Testbed) -> dict[str, str]:
    return {name: path for name, path in places.items() if name in bed.datasets}


def _only(found: Explained, task: int) -> Explained:
    from dataclasses import replace

    one = [each for each in found.tasks if each.task == task]
    if not one:
        raise UserError(
            f"The testbed has no task {task}; its {len(found.tasks):,} tasks are numbered from 0."
        )
    return replace(found, tasks=one)


def _print(found: Explained, name: str, others: dict[str, Explained], top: int, *, several: bool) -> None:
    from longshot.causes.words import attraction_sentences, cause_rows, composition_rows, say_correlation

    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    for one in found.hardest()[:top]:
        accuracy = "" if one.accuracy is None else f", accuracy {100 * one.accuracy:.1f} %"
        click.echo(f"task {one.task} ({one.dataset}{accuracy})")
        for finding in one.findings[:6]:
            click.echo(f"  {finding.sentence}  (adjusted p {finding.adjusted:.1g})")
        if len(one.findings) > 6:
            click.echo(f"  … and {len(one.findings) - 6} more")
        if not one.findings:
            click.echo("  nothing sets support and queries apart beyond chance")
        for text in attraction_sentences(one):
            click.echo(f"  {text}")
    if not several:
        return
    explained = sum(bool(one.findings) for one in found.tasks)
    click.echo(
        f"\n{explained:,} of {len(found.tasks):,} tasks of '{name}' have a cause among the attributes."
    )
    if rows := cause_rows(found):
        print_table(rows)
    if found.loss_and_accuracy is not None:
        click.echo(
            f"\nSpearman of accuracy and inverse query loss: {say_correlation(found.loss_and_accuracy)}"
        )
    for dataset, columns in found.compositions.items():
        beds = {
            name: columns,
            **{n: o.compositions[dataset] for n, o in others.items() if dataset in o.compositions},
        }
        click.echo()
        print_table(composition_rows(beds, most=12), title=f"Support against queries, {dataset}")


def _write(
    found: Explained,
    bed: Testbed,
    name: str,
    others: dict[str, Explained],
    page: Path,
    places: dict[str, str],
    top: int,
) -> None:
    from longshot.causes.page import render_explanation
    from longshot.core.files import write_text
    from longshot.evaluation.pictures import find_images

    known = {dataset: (fingerprint,) for dataset, fingerprint in bed.datasets.items()}
    images = find_images(known, places)
    compositions = {other: one.compositions for other, one in others.items()}
    write_text(
        page, render_explanation(found, bed, name=name, others=compositions, images=images, tasks=max(top, 8))
    )
