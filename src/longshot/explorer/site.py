"""What all pages share: the library, indexes, testbeds, datasets, pictures, templates."""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from markupsafe import Markup

from longshot.base import UserError, in_bytes
from longshot.explorer import listing
from longshot.explorer.caches import CachedTestbed, TestbedCache
from longshot.explorer.exports import table_links
from longshot.explorer.library import PLURALS, Item, Library
from longshot.explorer.picture_store import Decoders, PictureStore
from longshot.explorer.plot_worker import PlotWorker
from longshot.explorer.run_index import Indexes, RunIndex
from longshot.reports import Section, Sheet, arrow, frame

if TYPE_CHECKING:
    from jinja2 import Environment

    from longshot.data import Dataset
    from longshot.explorer.run_scores import RunScores

TEMPLATES = Path(__file__).with_name("templates")
_DATASETS = 4  # held open
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class NotThere(Exception):
    """What was asked for is not there (any more); the sentence goes on the page."""


@dataclass
class Page:
    """A page before it is HTML."""

    title: str
    sections: list[Section]
    counts: Sequence[str] = ()
    crumbs: Sequence[tuple[str, str]] = ()  # (name, address) of what lies above it
    tabs: Sequence[tuple[str, str, bool]] = ()  # (name, address, whether it is this page)
    notices: list[str] = field(default_factory=list)
    live: str = ""  # address to ask whether something changed
    keys: Mapping[str, str] = field(default_factory=dict)  # key → address
    steps: Sequence[tuple[str, str]] = ()  # (rel, address) of the neighbours, as links


class Instead(Exception):
    """A page that stands in for the one that was asked for."""

    def __init__(self, page: Page) -> None:
        super().__init__(page.title)
        self.page = page


class Site:
    """The state of one server; nothing in it belongs to one reader."""

    def __init__(self, roots: Sequence[Path], *, review: bool = False) -> None:
        self.library = Library(roots)
        self.csrf = (
            secrets.token_hex(16) if review else ""
        )  # what forms must bring; without it nothing is written
        self.indexes, self.testbed_cache, self.plot_worker = Indexes(), TestbedCache(), PlotWorker()
        self.decoders = Decoders()
        self.pictures = PictureStore(self.decoders)
        self._datasets: OrderedDict[str, tuple[Dataset, float]] = OrderedDict()
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the processes it started."""
        self.decoders.close()
        self.plot_worker.close()
        self.scores.close()

    @cached_property
    def scores(self) -> RunScores:
        """Scores of runs for the first page."""
        from longshot.explorer.run_scores import RunScores  # which knows this module

        return RunScores(self)

    # --- what pages ask for ---

    def item(self, kind: str, identity: str) -> Item:
        """Find an item by its id; NotThere where there is none, or it is damaged."""
        item = self.library.find(kind, identity)
        if item is None:
            raise NotThere(
                f"There is no {kind} '{identity[:60]}' under the folders that are shown (any more)."
            )
        if item.problem:
            raise NotThere(f"The {kind} {item.name} cannot be shown. {item.problem}")
        return item

    def index(self, run: Item) -> RunIndex:
        """Open the index of a run; NotThere with the reason where it cannot be read."""
        try:
            return self.indexes.open(run.path, live=run.state == "running")
        except (UserError, OSError, ValueError, KeyError) as error:
            reason = str(error) if isinstance(error, UserError) else "its files cannot be read."
            raise NotThere(f"The run {run.name} cannot be shown: {reason}") from error

    def worked(
        self, job: dict[str, Any], heading: str, work: str, frame: Callable[[list[Section]], Page]
    ) -> list[dict[str, Any]]:
        """Return what the worker makes of a job; Instead a page that says that ``work`` goes on, or why it is not."""
        parts = self.plot_worker.sections(job)
        problem = f"{work} This page is loaded again when it is done."
        if parts is not None:
            problem = next((each["problem"] for each in parts if each["problem"]), "")
        if parts is None or problem:
            raise Instead(frame([made("waiting", heading, problem)]))
        return parts

    def testbed(self, item: Item) -> CachedTestbed:
        """Open the tasks of a testbed; another copy is taken where one is damaged."""
        problem = ""
        copies = [
            item,
            *(each for each in self.library.testbeds(item.facts["hash"]) if each.path != item.path),
        ]
        for copy in copies:
            try:
                return self.testbed_cache.open(copy)
            except (UserError, OSError, ValueError) as error:
                problem = problem or (
                    str(error) if isinstance(error, UserError) else "its file cannot be read."
                )
        raise NotThere(f"The testbed {item.name} cannot be shown: {problem}")

    def testbed_item(self, content_hash: str) -> Item | None:
        """Find the item of a testbed by its hash."""
        listed = [each for each in self.library.items() if each.kind == "testbed"]
        return next((each for each in listed if each.facts.get("hash") == content_hash), None)

    def dataset(self, name: str, fingerprint: str) -> Dataset:
        """Open the dataset of a testbed by fingerprint, even if its files changed; UserError if not found."""
        from longshot.data import registry

        return self._held(
            f"{name} {fingerprint}", lambda: registry.reopen_dataset(fingerprint, name, or_changed=True)
        )

    def opened(self, source: str, name: str) -> Dataset:
        """Open a dataset by its source."""
        from longshot.data import open_dataset

        return self._held(f"source {source}", lambda: open_dataset(source, name=name))

    def _held(self, key: str, open_now: Any) -> Dataset:
        with self._lock:
            held = self._datasets.get(key)
            if held is not None and time.monotonic() - held[1] < 300:
                self._datasets.move_to_end(key)
                return held[0]
            dataset: Dataset = open_now()
            self._datasets[key] = (dataset, time.monotonic())
            while len(self._datasets) > _DATASETS:
                self._datasets.popitem(last=False)
            return dataset

    # --- HTML ---

    @cached_property
    def templates(self) -> Environment:
        """Load the templates of pages that are served, above those of pages that are written."""
        templates = frame.environment(TEMPLATES)
        templates.filters.update(show=listing.cell_text, ago=ago, bytes=in_bytes, name=breakable)
        templates.globals.update(
            style_url=self.asset_url("explorer.css"), script_url=self.asset_url("explorer.js")
        )
        return templates

    @cached_property
    def assets(self) -> dict[str, tuple[str, bytes]]:
        """Name → type and content of what pages link to."""
        styles = "".join(
            frame.asset(name) for name in ("style.css", "testbed.css", "study.css", "overlap.css")
        )
        # Words stay whole: what is longer than its line breaks, and nothing else.
        styles = styles.replace("overflow-wrap: anywhere", "overflow-wrap: break-word")
        own = {
            name: TEMPLATES.joinpath(name).read_text(encoding="utf-8")
            for name in ("explorer.css", "explorer.js", "map.js")
        }
        script = frame.asset("sort.js").replace("\n\n", "\n") + own["explorer.js"] + own["map.js"]
        return {
            "explorer.css": ("text/css; charset=utf-8", (styles + own["explorer.css"]).encode()),
            "explorer.js": ("text/javascript; charset=utf-8", script.encode()),
        }

    def asset_url(self, name: str) -> str:
        """Return the address of an asset, which changes with its content."""
        return f"/static/{hashlib.sha256(self.assets[name][1]).hexdigest()[:12]}/{name}"

    def render(self, page: Page, here: str = "") -> str:
        """Render a page as HTML, its sections as those of a report; ``here`` is its own address."""
        bodies, number = [], 0
        for section, body, tables in self._rendered(page):
            numbers = range(number + 1, number + 1 + len(tables))
            bodies.append((section, body + (table_links(numbers, here) if here else "")))
            number += len(tables)
        text = self.templates.get_template("explorer.html.j2").render(
            title=page.title,
            heading=breakable(page.title),
            bodies=bodies,
            counts=list(page.counts),
            page=page,
            export=listing.address("/export", [("view", here)]) if here else "",
            beds=[],
            backbones=[],
            methods=[],
            unfinished=[],
            by_name=[],
        )
        return without_unseen(text)

    def tables(self, page: Page) -> list[pa.Table]:
        """Return the tables of a page in their order, with full precision: what files are made of."""
        return [table for _, _, tables in self._rendered(page) for table in tables]

    def _rendered(self, page: Page) -> Iterator[tuple[Section, str, list[pa.Table]]]:
        """Yield each section with its HTML and its tables; one that the plot worker drew brings both along."""
        for section in page.sections:
            shown: list[Sheet] = []
            template = self.templates.get_template(f"{section.template or section.name}.html.j2")
            body = template.render(section.context, shown_tables=shown)
            drawn_before = [pa.table(columns) for columns in section.context.get("drawn_tables", ())]
            yield section, body, [*drawn_before, *map(arrow, shown)]


def made(name: str, heading: str, problem: str = "", section: Mapping[str, Any] | None = None) -> Section:
    """Return a section that the plot worker drew, or a sentence that says why it is not there (yet)."""
    html, tables = (section or {}).get("html", ""), (section or {}).get("tables", ())
    return Section(name, heading, {"html": html, "problem": problem, "drawn_tables": tables}, "made")


def crumbs_of(item: Item) -> list[tuple[str, str]]:
    """Return what lies above the page of an item: the first page, and the list of its kind."""
    return [("Explorer", "/"), (PLURALS[item.kind], f"/?kind={item.kind}")]


def tabs_of(base: str, here: str, names: Mapping[str, str]) -> list[tuple[str, str, bool]]:
    """List tabs by title; ``names`` gives the ends of their addresses, ``here`` is that of the open one."""
    return [(title, f"{base}/{end}" if end else base, here == end) for title, end in names.items()]


def without_unseen(text: str) -> str:
    """Replace control characters and marks that turn the direction of writing in HTML.

    They could make a name look like another.
    """
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text.encode("utf-8", "backslashreplace").decode("utf-8"))


_BREAKS = re.compile(r"(?<=[_./·])(?=[^\W_])|(?<=[a-z])(?=[A-Z])")


@lru_cache(4_096)
def breakable(name: str) -> Markup:
    """Return a name that keeps its own direction and breaks between its parts, not inside a word.

    >>> breakable("177.Prothonotary_Warbler")
    Markup('<bdi>177.<wbr>Prothonotary_<wbr>Warbler</bdi>')
    """
    return Markup("<bdi>{}</bdi>").format(Markup("<wbr>").join(_BREAKS.split(str(name))))


def ago(seconds: float) -> str:
    """Say in words how long ago it was.

    >>> ago(4), ago(150), ago(9000), ago(200000)
    ('4 s ago', '2 min ago', '2 h ago', '2 days ago')
    """
    for size, unit in ((86400 * 2, 86400), (7200, 3600), (120, 60)):
        if seconds >= size:
            return f"{seconds // unit:,.0f} {'days' if unit == 86400 else 'h' if unit == 3600 else 'min'} ago"
    return f"{max(0.0, seconds):.0f} s ago"
