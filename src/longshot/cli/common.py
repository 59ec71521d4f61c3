"""What the commands share: tables in text or JSON, and options that mean the same everywhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from longshot.cli.help import Grouped
from longshot.core.errors import UserError
from longshot.core.outputs import is_stream
from longshot.core.urls import Location, is_url, shown

if TYPE_CHECKING:
    from longshot.api.estimates import Estimate

F = TypeVar("F", bound=Callable[..., Any])


class PlaceType(click.Path):
    """A path; a URL is taken as the text it is, or refused where only paths will do."""

    def __init__(self, *, urls: bool = True, **settings: Any) -> None:
        super().__init__(path_type=Path, **settings)
        self.urls = urls

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not is_url(value):
            return super().convert(value, param, ctx)
        if not self.urls:
            name = "a path" if param is None else param.opts[0]
            raise UserError(f"{shown(value)} is a URL, and {name} takes a path on this machine.")
        return value


PATH = PlaceType(urls=False)
FILE = PlaceType(urls=False, dir_okay=False)
FOLDER = PlaceType(urls=False, file_okay=False)
PLACE = PlaceType()  # a file or folder that may be elsewhere
FILE_PLACE = PlaceType(dir_okay=False)


def json_option(function: F) -> F:
    """``--json``: print machine-readable JSON instead of a table."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(function)


def force_option(function: F) -> F:
    """``--force``: replace whatever file is there."""
    return click.option(
        "--force",
        cls=Grouped,
        rare=True,
        is_flag=True,
        help="Replace a file that is there, even if Longshot did not write it.",
    )(function)


def device_option(function: F) -> F:
    """``--device``: where tensors live."""
    return click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda", "mps"]),
        default="auto",
        show_default=True,
        help="Where to compute; auto takes an accelerator when there is one.",
    )(function)


def engine_option(function: F) -> F:
    """``--engine``: what computes backbones."""
    return click.option(
        "--engine",
        cls=Grouped,
        rare=True,
        metavar="auto|torch|onnxruntime|openvino",
        help="What computes networks on a CPU, or torch with settings: 'torch(autocast=bfloat16)'.  "
        "[default: what LONGSHOT_ENGINE says, or auto]",
    )(function)


def on_options(function: F) -> F:
    """``--on``, ``--gpus-per-worker`` and ``--retry-failed``: where the work runs."""
    options = [
        click.option(
            "--on",
            cls=Grouped,
            rare=True,
            metavar="local|ray|ray://HOST:PORT",
            help="Where the work runs: threads here, or a Ray cluster; changes no byte.  "
            "[default: what LONGSHOT_ON says, or local]",
        ),
        click.option(
            "--gpus-per-worker",
            cls=Grouped,
            rare=True,
            type=click.FloatRange(min=0),
            help="GPUs that each worker of a cluster has.",
        ),
        click.option(
            "--retry-failed",
            cls=Grouped,
            rare=True,
            is_flag=True,
            callback=lambda _, __, value: value or None,
            help="Try units again that failed three times on a cluster.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def identity_option(function: F) -> F:
    """``--identity``: what the files that are made vouch for."""
    return click.option(
        "--identity",
        type=click.Choice(["content", "names"]),
        help="What results vouch for: the images' bytes, read once, or only their names (for huge, slow drives).  "
        "[default: what LONGSHOT_IDENTITY says, or content]",
    )(function)


def dry_run_option(function: F) -> F:
    """``--dry-run``: estimate time and disk, write nothing."""
    return click.option(
        "--dry-run", is_flag=True, help="Say what would be done, with time and disk; write nothing."
    )(function)


def seed_option(function: F) -> F:
    """``--seed``: the root of every random stream."""
    return click.option(
        "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed."
    )(function)


def splits_option(function: F) -> F:
    """``--splits SPEC``: which classes are train, validation and test."""
    return click.option(
        "--splits",
        metavar="SPEC",
        help="Which classes are train, validation and test: a split.json, random, semantic, cifar-fs, fc100, "
        "atg:cifar100@0.96.  [default: those of the dataset]",
    )(function)


def taxonomy_option(function: F) -> F:
    """``--taxonomy FILE|wordnet``: a hierarchy above the classes in place of the dataset's own."""
    return click.option(
        "--taxonomy",
        metavar="FILE|wordnet",
        help="Hierarchy above the classes: a taxonomy file, or wordnet where they are called by WordNet ids.  "
        "[default: that of the dataset]",
    )(function)


def reduction_option(function: F) -> F:
    """``--reduction``: which paths of the taxonomy count."""
    return click.option(
        "--reduction",
        type=click.Choice(["shortest-paths"]),
        help="One shortest path per class, as the published tieredImageNet distances.  [default: the whole taxonomy]",
    )(function)


def datasets_option(
    text: str = "Where a testbed's dataset lives, if not where it was before.",
) -> Callable[[F], F]:
    """``--dataset NAME=PATH``, repeatable, as the parameter ``datasets``: {NAME: PATH}."""
    return pairs_option("--dataset", "datasets", "NAME=PATH", text)


def pairs_option(flag: str, name: str, form: str, text: str) -> Callable[[F], F]:
    """A repeatable option of the form KEY=VALUE, as the parameter ``name``: {KEY: VALUE}."""

    def read(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for value in values:
            key, equals, setting = (part.strip() for part in value.partition("="))
            if not (equals and key and setting):
                raise UserError(
                    f"{flag} '{value}' must have the form {form}, such as {flag} {_EXAMPLES[form]}."
                )
            if key in pairs:
                raise UserError(f"{flag} names '{key}' twice; give it once.")
            pairs[key] = setting
        return pairs

    return click.option(flag, name, multiple=True, metavar=form, callback=read, help=text)


_EXAMPLES = {
    "NAME=PATH": "birds=./birds",
    "DATASET=FILE": "birds=birds.csv",
    "NAME=TEXT": "birds=CC-BY-4.0",
    "NAME=VALUE": "steps=500",
    "NAME=RANGE": '"lr=log(1e-4, 1e-1)"',
}


def echo_json(value: Any) -> None:
    """Print ``value`` as JSON that people can read."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_written(location: Location) -> None:
    """Where a page or picture lies now, and its size where it is here."""
    if is_url(location) or is_stream(location):
        click.echo(shown(location))
        return
    path = Path(location)
    click.echo(f"{path.resolve()} ({path.stat().st_size / 1e3:,.0f} kB)")


def print_estimate(cost: Estimate, as_json: Any) -> None:
    """What work would take, step by step and in all; ``as_json`` is the value to print instead, if any."""
    if as_json is not False:
        echo_json(as_json)
        return
    rows = [
        {
            "step": step["step"],
            "testbed": step["testbed"],
            **({"backbone": step["backbone"]} if "backbone" in step else {}),
            "method": step["method"],
            "left": f"{step['left']:,} {'tasks' if step['method'] else 'images'}",
            **({"per task": _seconds(step["per_task"])} if "per_task" in step else {}),
            "time": f"about {step['seconds']:,.1f} s",
            "disk": f"{step['bytes'] / 1e6:,.1f} MB",
        }
        for step in cost.steps
    ]
    total = f"\nIn all about {cost.seconds:,.0f} s and {cost.bytes / 1e6:,.1f} MB; nothing was written."
    print_table(rows, footer="".join(f"\nnote: {note}" for note in cost.notes) + total)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f} s" if value >= 100 else f"{value:.2g} s"


def print_table(
    rows: Sequence[Mapping[str, Any]],
    *,
    as_json: bool = False,
    title: str | None = None,
    footer: str | None = None,
) -> None:
    """Print rows (all with the same keys) as a terminal table, or as one JSON list.

    Values are shown as they are: format numbers before, so that the table says what was meant.
    """
    if as_json:
        echo_json([dict(row) for row in rows])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    columns = list(rows[0]) if rows else []
    numeric = {c: all(isinstance(row[c], int | float) for row in rows) for c in columns}
    for column in columns:
        table.add_column(column, justify="right" if numeric[column] else "left", overflow="fold")
    for row in rows:
        table.add_row(*[Text("" if row[c] is None else str(row[c])) for c in columns])
    # Off a terminal the width is unknown: never wrap what a script or a log will read.
    console = Console() if sys.stdout.isatty() else Console(width=200)
    console.print(table)
    if footer:
        click.echo(footer)
