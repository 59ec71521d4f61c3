"""What every page is made with: the templates with their filters, style sheet and script.

Templates are compiled once and kept in the package's own ``__pycache__``, as Python keeps its modules there. Whoever
can write to that folder can change the package itself, so what lies in it is trusted as the package is. Where it
cannot be written, templates are compiled each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from longshot.base import in_words, span
from longshot.reports import svg, tables
from longshot.statistics import percent, plus_minus, points

if TYPE_CHECKING:
    from longshot.tasks import Testbed


@dataclass(frozen=True)
class Section:
    """One part of a page: its anchor, its heading, and what goes into ``templates/<template>.html.j2``."""

    name: str
    heading: str
    context: dict[str, Any] = field(default_factory=dict)
    template: str = ""  # called as the section unless given


def write_page(
    title: str,
    sections: Iterable[Section],
    *,
    counts: Sequence[str],
    style: str = "",
    sortable: bool = False,
    beds: Sequence[Mapping[str, Any]] = (),
    **facts: Any,
) -> str:
    """Write a page as one text without any reference to another file.

    Parameters
    ----------
    title : str
        Heading of the page.
    sections : iterable of Section
        Its parts, in order.
    counts : sequence of str
        What the page is about, in a few words each.
    style : str
        A style sheet of its own beside the common one.
    sortable : bool
        Whether its tables can be sorted.
    beds : sequence of mappings
        ``name``, ``tasks``, ``way``, ``shot`` and ``hash`` of the testbeds shown.
    **facts
        ``backbones``, ``methods``, ``unfinished`` runs and what is vouched for ``by_name`` only, where there are any.
    """
    templates = environment()
    bodies = []
    for section in sections:
        template = templates.get_template(f"{section.template or section.name}.html.j2")
        bodies.append((section, template.render(section.context)))
    page = templates.get_template("page.html.j2").render(
        title=title,
        bodies=bodies,
        style=asset("style.css") + (asset(style) if style else ""),
        script=asset("sort.js") if sortable else "",
        counts=counts,
        beds=beds,
        **{"backbones": [], "methods": [], "unfinished": [], "by_name": [], **facts},
    )
    # A lone surrogate (a file name that is not UTF-8, kept in run.json) must not make the page unwritable.
    return page.encode("utf-8", "backslashreplace").decode("utf-8")


def bed_facts(name: str, testbed: Testbed) -> dict[str, Any]:
    """Return what the head of a page says about a testbed."""
    from longshot.tasks import say_identity

    return {
        "name": name,
        "tasks": len(testbed),
        "way": span(testbed.table["way"].to_pylist()),
        "shot": span(testbed.column("shots").values.tolist()),
        "hash": testbed.content_hash,
        "identity": say_identity(testbed.meta["content"]),
    }


def environment(*folders: Path) -> jinja2.Environment:
    """Return templates that escape all they are given; a name that is not given is an error.

    ``folders`` hold further templates: pages that are served extend those that are written.
    """
    templates = jinja2.Environment(
        # Nothing is computed while compiling: what filters make of constants may differ from one page to the next.
        optimized=False,
        loader=jinja2.FileSystemLoader([*folders, Path(__file__).with_name("templates")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        percent=percent,
        number=_number,
        whole=_whole,
        points=points,
        duration=tables.duration,
        p=tables.p_text,
        call=_call,
        estimate=_split_estimate,
    )
    # Pages that are served link numbers to their tasks; a page from disk has nothing to link to.
    templates.globals.update(colour=svg.colour, swatch=swatch, links=None, table=_show_table)
    return templates


@jinja2.pass_context
def _show_table(context: jinja2.runtime.Context, sheet: tables.Sheet | None, visible: bool = True) -> Markup:
    """Write a table as HTML, and note it where the page keeps a list ``shown_tables``, which files are made of.

    One that is not ``visible`` is only noted: the page shows its numbers in another form.
    """
    if not sheet:
        return Markup("")
    listed = context.get("shown_tables")
    if listed is not None:
        listed.append(sheet)
    template = context.environment.get_template("table.html.j2")
    text = (
        template.render(sheet=sheet, links=context.get("links"), marks=tables.HTML_MARKS) if visible else ""
    )
    return Markup(text)


def _split_estimate(text: str) -> tuple[str, str, str]:
    """Return the number, half its interval and half the one over classes of a text as ``84.3 ± 0.6 (± 1.9)``."""
    number, _, halves = text.partition(" ± ")
    half, _, wider = halves.partition(" (± ")
    return number, half, wider.rstrip(")")


def asset(name: str) -> str:
    """Read the text of a file beside the templates."""
    return Path(__file__).with_name("templates").joinpath(name).read_text(encoding="utf-8")


def _call(template: str) -> str:
    """Return a call between braces (see ``base/errors.py``) as whoever makes the page writes it."""
    return in_words(template).strip("'")


def _number(value: float, digits: int = 2) -> str:
    return plus_minus(value, unit="plain", digits=digits)


def _whole(value: int) -> str:
    return f"{value:,}"


def swatch(index: int, marker: str | None = None) -> str:
    """Draw the marker of a series (or another in its colour) in a 12 × 12 box, as SVG without user text."""
    opening = f'<svg class="swatch" viewBox="0 0 12 12" aria-hidden="true" style="fill:{svg.colour(index)}">'
    return Markup(f"{opening}{_SHAPES[marker or svg.marker(index)]}</svg>")


_SHAPES = {
    "o": '<circle cx="6" cy="6" r="4.2"/>',
    "s": '<rect x="2" y="2" width="8" height="8"/>',
    "D": '<path d="M6 1 11 6 6 11 1 6z"/>',
    "^": '<path d="M6 1.5 11 10.5H1z"/>',
    "v": '<path d="M6 10.5 11 1.5H1z"/>',
    "P": '<path d="M4 1h4v3h3v4H8v3H4V8H1V4h3z"/>',
    "X": '<path d="M3.5 1 6 3.5 8.5 1 11 3.5 8.5 6 11 8.5 8.5 11 6 8.5 3.5 11 1 8.5 3.5 6 1 3.5z"/>',
    "*": '<path d="M6 .8 7.5 4.4 11.4 4.7 8.4 7.2 9.3 11 6 8.9 2.7 11 3.6 7.2.6 4.7 4.5 4.4z"/>',
}
