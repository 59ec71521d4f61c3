"""``longshot inspect``: describe a testbed and check it against its dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import json_option
from longshot.core.errors import UserError

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed

_PICTURES = 2


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Check every class and image against the dataset.")
@click.option(
    "--dataset",
    "places",
    multiple=True,
    metavar="NAME=PATH",
    help="Where a dataset of the testbed lives; default: where it was last seen.",
)
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write a page with plots and task pictures.",
)
@click.option(
    "--pictures",
    type=click.IntRange(min=0),
    help=f"With --html: how many tasks of each kind to show as pictures. [{_PICTURES}]",
)
@json_option
def command(
    file: Path, verify: bool, places: tuple[str, ...], page: Path | None, pictures: int | None, as_json: bool
) -> None:
    """Describe a testbed: its origin, its classes, ways and shots, and what was measured.

    \b
    Examples:
      longshot sample toybox -o easy.parquet
      longshot inspect easy.parquet --verify
      longshot inspect easy.parquet --html easy.html

    The content hash is checked in any case; --verify also checks each image and class against the dataset
    and ends with exit code 2 when something differs. --html writes one self-contained page: the histograms as
    plots, and the finest and the coarsest tasks (with selected images the hardest and the easiest) and some
    random ones as pictures.
    """
    from longshot.datasets.registry import parse_dataset_options
    from longshot.testbeds import describe
    from longshot.testbeds.origin import check_names, open_datasets
    from longshot.testbeds.testbed import Testbed

    if pictures is not None and page is None:
        raise UserError(f"--pictures {pictures} goes with --html only; say which page to write.")
    testbed = Testbed.load(file)
    given = parse_dataset_options(places)
    check_names(testbed, given)
    facts: dict[str, Any] = describe.summary(testbed)
    findings = describe.verify(testbed, open_datasets(testbed, given, check=False)) if verify else []
    if page is not None:
        _write(testbed, file, page, given, _PICTURES if pictures is None else pictures)
        facts["html"] = str(page.resolve())
    if as_json:
        shown = {title: dict(rows) for title, rows in describe.histograms(testbed).items()}
        checked = {"verified": not findings, "findings": findings} if verify else {}
        click.echo(json.dumps({**facts, "histograms": shown, **checked}, indent=2, ensure_ascii=False))
    else:
        _print(file, testbed, facts)
    if findings:
        raise UserError(f"The testbed {file} does not fit its dataset: {' '.join(findings)}")
    if verify and not as_json:
        click.echo("verified: content hash, fingerprints, and every class and image of every task")
    if page is not None and not as_json:
        click.echo(f"{page.resolve()} ({page.stat().st_size / 1e3:,.0f} kB)")


def _write(testbed: Testbed, file: Path, page: Path, given: dict[str, str], pictures: int) -> None:
    from longshot.core.files import write_text
    from longshot.evaluation.pictures import find_images
    from longshot.reports.testbed_page import render_testbed

    if page.resolve() == file.resolve():
        raise UserError(f"--html {page} is the testbed itself; give the page another name.")
    known = {name: (fingerprint,) for name, fingerprint in testbed.datasets.items()}
    images = find_images(known, given) if pictures else None
    write_text(page, render_testbed(testbed, name=file.name, images=images, pictures=pictures))


def _print(file: Path, testbed: Testbed, facts: dict[str, Any]) -> None:
    from longshot.testbeds import describe
    from longshot.testbeds.origin import say_sampler

    click.echo(f"{file}: {facts['tasks']:,} tasks, content hash {facts['content_hash']}")
    for name, dataset in facts["datasets"].items():
        click.echo(f"dataset {name}: {dataset['tasks']:,} tasks, fingerprint {dataset['fingerprint']}")
    click.echo(f"sampler {say_sampler(facts['sampler'])}; seed {facts['seed']}")
    if facts["features"]:
        click.echo(f"features {facts['features']}")
    click.echo(
        f"{facts['classes']:,} classes, {facts['distinct_images']:,} different images; "
        f"made by {facts['creator']}"
    )
    for balance in describe.balances(testbed):
        click.echo(describe.say_balance(balance))
    changes = describe.changes(testbed)
    # Drawn side by side below, so not once more alone.
    paired = {f"{change.name}_{when}" for change in changes for when in ("before", "after")}
    for title, rows in describe.histograms(testbed).items():
        if title not in paired:
            click.echo(f"\n{describe.draw(title, rows)}")
    for change in changes:
        click.echo(f"\n{describe.draw_change(change)}")
    click.echo()
