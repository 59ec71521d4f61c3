"""``longshot inspect``: describe a testbed and check it against its dataset."""

from __future__ import annotations

from pathlib import Path

import click

from longshot.cli.common import datasets_option, echo_json, json_option, print_written


@click.command()
@click.argument("testbed", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Check every class and image against the dataset.")
@datasets_option("Where a dataset of the testbed lives; default: where it was last seen.")
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write a page with plots and task pictures.",
)
@click.option(
    "--pictures",
    type=click.IntRange(min=0),
    help="With --html: how many tasks of each kind to show as pictures. [2]",
)
@json_option
def command(
    testbed: Path,
    verify: bool,
    datasets: dict[str, str],
    html: Path | None,
    pictures: int | None,
    as_json: bool,
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
    import longshot

    inspection = longshot.inspect(testbed, verify=verify, datasets=datasets, html=html, pictures=pictures)
    if as_json:
        page = {} if html is None else {"html": str(html.resolve())}
        echo_json({**inspection.facts, **page})
    else:
        click.echo(f"{inspection}\n")
    inspection.check()
    if verify and not as_json:
        click.echo("verified: content hash, fingerprints, and every class and image of every task")
    if html is not None and not as_json:
        print_written(html)
