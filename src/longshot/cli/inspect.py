"""``longshot inspect``: describe a testbed and check it against its dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import json_option
from longshot.errors import UserError

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.testbeds.testbed import Testbed


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
@json_option
def command(file: Path, verify: bool, places: tuple[str, ...], as_json: bool) -> None:
    """Describe a testbed: its origin, histograms of ways, shots and classes, and what was measured.

    \b
    Example:
      longshot sample toybox -o easy.parquet
      longshot inspect easy.parquet --verify

    The content hash is checked in any case; --verify also checks each image and class against the dataset
    and ends with exit code 2 when something differs.
    """
    from longshot.testbeds import describe
    from longshot.testbeds.testbed import Testbed

    testbed = Testbed.load(file)
    facts: dict[str, Any] = describe.summary(testbed)
    findings = describe.verify(testbed, _datasets(testbed, places)) if verify else []
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


def _print(file: Path, testbed: Testbed, facts: dict[str, Any]) -> None:
    from longshot.testbeds import describe

    click.echo(f"{file}: {facts['tasks']:,} tasks, content hash {facts['content_hash']}")
    for name, dataset in facts["datasets"].items():
        click.echo(f"dataset {name}: {dataset['tasks']:,} tasks, fingerprint {dataset['fingerprint']}")
    click.echo(f"sampler {json.dumps(facts['sampler'], ensure_ascii=False)}, seed {facts['seed']}")
    if facts["features"]:
        click.echo(f"features {facts['features']}")
    click.echo(
        f"{facts['classes']:,} classes, {facts['distinct_images']:,} different images; "
        f"made by {facts['creator']}"
    )
    for title, rows in describe.histograms(testbed).items():
        click.echo()
        click.echo(describe.draw(title, rows))
    click.echo()


def _datasets(testbed: Testbed, places: tuple[str, ...]) -> dict[str, Dataset]:
    from longshot.datasets import open_dataset
    from longshot.datasets.registry import find, parse_dataset_options

    given = parse_dataset_options(places)
    unknown = set(given) - set(testbed.datasets)
    if unknown:
        raise UserError(
            f"The testbed has no dataset '{min(unknown)}'; it has: {', '.join(testbed.datasets)}."
        )
    return {
        name: open_dataset(given[name]) if name in given else find(fingerprint, name)
        for name, fingerprint in testbed.datasets.items()
    }
