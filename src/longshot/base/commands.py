"""What the commands share: tables in text or JSON, and options that mean the same everywhere."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import click

from longshot.base.errors import UserError
from longshot.base.outputs import is_stream
from longshot.base.urls import Location, is_url, shown_location


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
            raise UserError(f"{shown_location(value)} is a URL, and {name} takes a path on this machine.")
        return value


PATH = PlaceType(urls=False)
FILE = PlaceType(urls=False, dir_okay=False)
FOLDER = PlaceType(urls=False, file_okay=False)
PLACE = PlaceType()  # a file or folder that may be elsewhere
FILE_PLACE = PlaceType(dir_okay=False)
COUNT = click.IntRange(min=1)


# Help in groups: options under headings, the rare ones behind ``--help-all``.


class Grouped(click.Option):
    """An option under a heading, its command's without one; a ``rare`` one is shown by ``--help-all`` only."""

    def __init__(self, *args: Any, group: str | None = None, rare: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        self.rare = rare


class GroupedCommand(click.Command):
    """A command whose help lists its options under their headings, in the order they were declared.

    Options without a heading of their own stand under ``heading``; those under one of ``rare_groups`` are rare.
    """

    def __init__(
        self, *args: Any, heading: str = "Options", rare_groups: tuple[str, ...] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.heading, self.rare_groups = heading, rare_groups
        show = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_all,
            help="Show all options, also the rare ones.",
        )
        self.params.append(show)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        hidden: list[str] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None or not isinstance(param, click.Option):
                continue
            group = getattr(param, "group", None) or self.heading
            rare = getattr(param, "rare", False) or group in self.rare_groups
            if rare and not ctx.meta.get(__name__):
                hidden.append(max(param.opts, key=len))
            else:
                groups.setdefault(group, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)
        if hidden:
            with formatter.section("More, shown by --help-all"):
                formatter.write_text(" ".join(hidden))


def _show_all(context: click.Context, _: click.Parameter, wanted_all: bool) -> None:
    if wanted_all and not context.resilient_parsing:
        context.meta[__name__] = True
        click.echo(context.get_help())
        context.exit()


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Say what would be done, with time and disk; write nothing."
)
force_option = click.option(
    "--force",
    cls=Grouped,
    rare=True,
    is_flag=True,
    help="Replace a file that is there, even if Longshot did not write it.",
)


class Numbers(click.types.StringParamType):
    """Numbers with commas between: ``0.2,0.4``."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return tuple(float(part) for part in value.split(","))
        except ValueError:
            option = "" if param is None else f"{param.opts[0]} "
            raise UserError(
                f"{option}'{value}' is not a list of numbers with commas between, as in 0.2,0.4."
            ) from None


def pair_reader(flag: str, form: str) -> Callable[..., dict[str, str]]:
    """Return the callback of a repeatable option of the form KEY=VALUE, which makes {KEY: VALUE} of its values."""

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

    return read


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
    """Print where a page or picture lies now, and its size where it is here."""
    if is_url(location) or is_stream(location):
        click.echo(shown_location(location))
        return
    path = Path(location)
    click.echo(f"{path.resolve()} ({path.stat().st_size / 1e3:,.0f} kB)")


class Estimate(NamedTuple):
    """The steps of a piece of work, each with its ``seconds`` and ``bytes``, and what there is to know about them."""

    steps: list[dict[str, Any]]
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Sum over all steps."""
        return float(sum(step["seconds"] for step in self.steps))

    @property
    def bytes(self) -> int:
        """Sum over all steps."""
        return int(sum(step["bytes"] for step in self.steps))


def print_estimate(cost: Estimate, as_json: Any) -> None:
    """Print what work would take, step by step and in all; ``as_json`` is the value to print instead, if any."""
    if as_json is not False:
        echo_json(as_json)
        return
    rows = [
        {
            **{name: step[name] for name in ("step", "testbed", "backbone", "method") if name in step},
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


def escape_markdown(text: str) -> str:
    """Escape text so that Markdown shows it as it is; underscores inside a word need no escape and keep their looks."""
    text = re.sub(r"([\\`*<>|\[\]~])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


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
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    columns = list(rows[0]) if rows else []
    numeric = {c: all(isinstance(row[c], int | float) for row in rows) for c in columns}
    for column in columns:
        table.add_column(column, justify="right" if numeric[column] else "left", overflow="fold")
    for row in rows:
        table.add_row(*[Text("" if row[c] is None else str(row[c])) for c in columns])
    print_rich(table)
    if footer:
        click.echo(footer)


def fit_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    labels: Sequence[bool],
    *,
    title: str = "",
    width: int = 80,
) -> str:
    """Return a table of at most ``width`` columns as text.

    Words that are equal in all rows stand in a line above it. Columns that do not fit follow below, with the words of
    their rows again; words beyond 32 letters are broken.

    >>> print(fit_table(["testbed", "method", "%"], [["easy", "protonet", "40.1"], ["easy", "ridge", "9.3"]],
    ...                 [True, True, False]))
    testbed easy
    method       %
    protonet  40.1
    ridge      9.3
    """
    equal = [n for n, word in enumerate(labels) if word and rows and len({row[n] for row in rows}) == 1]
    if all(n in equal for n, word in enumerate(labels) if word):
        equal = equal[1:]  # a row needs a name
    lines = [title] if title else []
    above = " · ".join(f"{heads[n]} {rows[0][n]}".strip() for n in equal if rows[0][n])
    lines += textwrap.wrap(above, width, break_on_hyphens=False)
    words = [n for n, word in enumerate(labels) if word and n not in equal]
    cells = [[textwrap.wrap(text, 32, break_on_hyphens=False) or [""] for text in row] for row in rows]
    sizes = [
        max(map(len, [heads[n], *(part for row in cells for part in row[n])])) for n in range(len(heads))
    ]
    parts: list[list[int]] = [[]]
    for n in (n for n, word in enumerate(labels) if not word):
        if parts[-1] and sum(sizes[m] + 2 for m in (*words, *parts[-1], n)) - 2 > width:
            parts.append([])
        parts[-1].append(n)
    for number, part in enumerate(parts):
        shown = [*words, *part]
        lines += [""] if number else []
        for row in ([[head] for head in heads], *cells):
            for deep in range(max(len(row[n]) for n in shown)):
                texts = [row[n][deep] if deep < len(row[n]) else "" for n in shown]
                aligned = [
                    t.ljust(sizes[n]) if labels[n] else t.rjust(sizes[n])
                    for t, n in zip(texts, shown, strict=True)
                ]
                lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def html_table(rows: Sequence[Mapping[str, Any]], caption: str = "") -> str:
    """Return rows with the same keys as an HTML table, for notebooks; every text is escaped.

    >>> html_table([{"tasks": "a<b"}])
    '<table><thead><tr><th dir="auto">tasks</th></tr></thead><tbody><tr><td dir="auto">a&lt;b</td></tr></tbody></table>'
    """
    head = f"<thead>{_html_row('th', rows[0])}</thead>" if rows else ""
    body = "".join(_html_row("td", row.values()) for row in rows)
    return f"<table>{_html_caption(caption)}{head}<tbody>{body}</tbody></table>"


def html_facts(facts: Mapping[str, str], caption: str = "") -> str:
    """Return named texts as an HTML table of two columns, for notebooks; every text is escaped.

    >>> html_facts({"tasks": "a<b"})
    '<table><tr><th>tasks</th><td>a&lt;b</td></tr></table>'
    """
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts.items())
    return f"<table>{_html_caption(caption)}{''.join(rows)}</table>"


def _html_row(tag: str, texts: Iterable[Any]) -> str:
    cells = (f'<{tag} dir="auto">{escape(str(text))}</{tag}>' for text in texts)
    return f"<tr>{''.join(cells)}</tr>"


def _html_caption(text: str) -> str:
    return f"<caption>{escape(text)}</caption>" if text else ""


def print_rich(value: Any) -> None:
    """Print what rich draws. Off a terminal the width is unknown: never wrap what a script or a log will read."""
    from rich.console import Console

    (Console() if sys.stdout.isatty() else Console(width=200)).print(value)
