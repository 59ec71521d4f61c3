"""``longshot report``: a page or a table from the results of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshot.core.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image

    from longshot.datasets.dataset import Dataset
    from longshot.reports.data import ReportData
    from longshot.reports.pictures import FindImages

_SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".csv": "csv", ".tex": "latex", ".json": "json"}


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="File to write, - for the screen. [default: report.html; the screen for the other formats]",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["html", "md", "csv", "latex", "json"]),
    help="A whole page, or the table alone. [default: by the file's ending, else html]",
)
@click.option(
    "--pictures",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="How many of the hardest and of the easiest tasks to show per testbed.",
)
@click.option(
    "--focus", metavar="TEXT", help="Choose and mark those tasks by the series with TEXT in its name."
)
@click.option(
    "--dataset", "datasets", multiple=True, metavar="NAME=PATH", help="Where the images of a dataset are now."
)
@click.option(
    "--layout",
    type=click.Choice(["plain", "quartiles", "ways", "cost"]),
    default="plain",
    show_default=True,
    help="Of md and latex tables. As in the semantic-sampling paper, quartiles: by coarsity (its tables 1 and 2), "
    "ways: by the number of classes, top-1 and top-5 (its table 3). cost: time per task beside accuracy.",
)
@click.option(
    "--published", metavar="PAPER", help="Put a paper's own numbers beside, marked as published: semantic."
)
@click.option(
    "--training",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder of 'longshot train' whose learning curves to show; may be given several times.",
)
@click.option("--title", help="Heading of the page.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(
    runs: tuple[Path, ...],
    out: Path | None,
    format_: str | None,
    pictures: int,
    focus: str | None,
    datasets: tuple[str, ...],
    layout: str,
    published: str | None,
    training: tuple[Path, ...],
    title: str | None,
    as_json: bool,
) -> None:
    """Write one self-contained page, or the table alone, from the results of one or several runs.

    \b
    Example:
      longshot sample toybox --tasks 100 --way 5 --shot 5 --query 10 -o easy.parquet
      longshot evaluate easy.parquet --backbone pixels --method protonet -o runs/first
      longshot report runs/first -o report.html
      longshot report runs/first --format latex
      longshot report runs/first --format md --layout quartiles --published semantic
    """
    from longshot.core.files import write_text
    from longshot.datasets.registry import parse_dataset_options
    from longshot.reports.data import load
    from longshot.reports.report import render

    kind = "json" if as_json else format_ or _kind(out)
    overrides = parse_dataset_options(datasets)
    data = load(list(runs))
    images = registry_images(overrides, fingerprints(data)) if kind == "html" and pictures else None
    text = render(
        data,
        format=kind,
        images=images,
        pictures=pictures,
        title=title,
        focus=focus,
        layout=layout,
        published=published,
        training=training,
    )
    if str(out) == "-" or (out is None and kind != "html"):
        click.echo(text, nl=False)
        return
    path = out or Path("report.html")
    write_text(path, text)
    click.echo(f"{path.resolve()} ({len(text.encode()) / 1e3:,.0f} kB)")


def _kind(out: Path | None) -> str:
    """The format that a file's ending stands for; a page for no file and for the screen."""
    if out is None or str(out) == "-":
        return "html"
    kind = _SUFFIXES.get(out.suffix.lower())
    if kind is None:
        raise UserError(
            f"The ending of '{out}' is none of {', '.join(_SUFFIXES)}; use one of them or say --format."
        )
    return kind


def fingerprints(data: ReportData) -> dict[str, tuple[str, ...]]:
    """Dataset name → fingerprints, as the runs' testbeds give them; one name can stand for several datasets."""
    found: dict[str, tuple[str, ...]] = {}
    for bed in data.beds:
        for name, fingerprint in sorted(bed.testbed.datasets.items()) if bed.testbed is not None else ():
            found[name] = tuple(dict.fromkeys((*found.get(name, ()), fingerprint)))
    return found


def registry_images(
    overrides: Mapping[str, str], known: Mapping[str, Sequence[str]] | None = None
) -> FindImages:
    """``images(dataset, keys)`` for a report: from ``overrides`` (name → path), else from the registry.

    ``known`` gives the fingerprints behind a name; a name it lacks is opened as a registered name.
    """
    opened: dict[str, list[Dataset]] = {}

    def places(name: str) -> list[Dataset]:
        from longshot.datasets import open_dataset, registry

        if name in overrides:
            return [open_dataset(overrides[name])]
        if known and name in known:
            return [registry.find(fingerprint, name) for fingerprint in known[name]]
        return [open_dataset(name)]

    def images(name: str, keys: Sequence[str]) -> list[Image]:
        import pyarrow as pa

        if name not in opened:
            opened[name] = places(name)
        problem: UserError | None = None
        for dataset in opened[name]:
            try:
                rows = dataset.find_rows(pa.array(keys, pa.string()))
            except UserError as error:
                problem = error
                continue
            return [dataset.image(int(row)) for row in rows]
        raise problem or UserError(f"The dataset '{name}' is not known; give it with --dataset {name}=PATH.")

    return images
