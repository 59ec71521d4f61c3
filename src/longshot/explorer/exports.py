"""Views as folders that open from disk, and the links that give a page's tables as files."""

from __future__ import annotations

import asyncio
import io
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from longshot.base import UserError, claim_folder
from longshot.explorer.listing import address
from longshot.explorer.web_server import App

PAGES, MOST_PAGES = 25, 200
_URL = re.compile(r"url\('(/[^']*)'\)")
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_ENDINGS = {"image/jpeg": ".jpg", "text/css": ".css", "text/javascript": ".js", "image/svg+xml": ".svg"}


def export_files(app: App, view: str, pages: int = PAGES) -> dict[str, bytes]:
    """Collect the files of a static copy: name → content; ``index.html`` is the view.

    Parameters
    ----------
    app : ASGI application
        What answers, without its guard.
    view : str
        Address of the page, as ``/run/first-1a2b3c4d5e/tasks?sort=-spread``.
    pages : int
        How many pages to copy at most, beginning with those that the view links to.

    Returns
    -------
    dict
        UserError where the view cannot be shown.
    """
    if not view.startswith("/") or view.startswith("//"):
        raise UserError("A view is the address of a page of this explorer, from its first slash on.")
    copy = _Copy(app, max(1, min(pages, MOST_PAGES)))
    # In a thread of its own: a notebook's thread has an event loop that runs already.
    with ThreadPoolExecutor(1, "export") as pool:
        return pool.submit(lambda: asyncio.run(copy.make(view))).result()


def export_folder(app: App, view: str, out: Path, pages: int = PAGES) -> Path:
    """Write a static copy of a view into a new or empty folder; its ``index.html``."""
    claim_folder(out, "copy of a view")
    for name, content in export_files(app, view, pages).items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return out / "index.html"


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Pack files into one archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(f"longshot-view/{name}", content)
    return buffer.getvalue()


class _Copy:
    """One copy under way."""

    def __init__(self, app: App, pages: int) -> None:
        self.app, self.pages = app, pages
        self.names: dict[str, str] = {}  # address → file
        self.files: dict[str, bytes] = {}
        self.assets: dict[str, str] = {}

    async def make(self, view: str) -> dict[str, bytes]:
        waiting = [view]
        self.names[view] = "index.html"
        while waiting:
            address = waiting.pop(0)
            status, kind, body = await self._get(address)
            if status != 200 or not kind.startswith("text/html"):
                if address == view:
                    raise UserError(f"The view {view[:80]} cannot be shown, so it cannot be copied.")
                self.files[self.names[address]] = (
                    b"<!doctype html><title>gone</title><p>This page was not there.</p>"
                )
                continue
            # Only what the view itself links to is followed: a copy of a list has its tasks, not all of the explorer.
            follow = address == view
            text = body.decode("utf-8")
            parser = _Rewriter(lambda link, follow=follow: self._page(link, waiting, follow))  # type: ignore[misc]
            parser.feed(text)
            parser.close()
            page = parser.text
            for link in dict.fromkeys([*parser.resources, *_URL.findall(page.replace("&#39;", "'"))]):
                name = await self._asset(link)
                page = page.replace(escape(link), name).replace(link, name)
            self.files[self.names[address]] = page.encode("utf-8")
        return self.files

    def _page(self, link: str, waiting: list[str], follow: bool) -> str | None:
        """Return the file of a page that is copied too; None for one that is not."""
        link = link.split("#", 1)[0]
        path = urlsplit(link).path
        if link in self.names:
            return self.names[link]
        if not follow or path in ("/", "/export", "/live") or "as=" in link or len(self.names) >= self.pages:
            return None
        words = re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-")[-50:].strip("-")
        self.names[link] = f"{len(self.names):03d}-{words}.html"
        waiting.append(link)
        return self.names[link]

    async def _asset(self, link: str) -> str:
        if link not in self.assets:
            status, kind, body = await self._get(link)
            ending = _ENDINGS.get(kind.split(";", 1)[0], "")
            name = f"files/{len(self.assets):04d}{ending}"
            self.assets[link] = name if status == 200 and ending else ""
            if self.assets[link]:
                self.files[name] = body
        return self.assets[link]

    async def _get(self, address: str) -> tuple[int, str, bytes]:
        """Request an address without a network; return status, type and body."""
        path, _, query = address.partition("?")
        scope: dict[str, Any] = {"type": "http", "method": "GET", "headers": [(b"host", b"export")]}
        scope |= {"path": path, "query_string": query.encode("utf-8", "replace")}
        head: dict[str, Any] = {}
        body = bytearray()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            head.update(message)
            body.extend(message.get("body", b""))

        await self.app(scope, receive, send)
        kind = dict(head["headers"]).get(b"content-type", b"").decode("latin-1")
        return int(head["status"]), kind, bytes(body)


class _Rewriter(HTMLParser):
    """Writes a page again: links to files, or none; forms and what asks the server are left out."""

    def __init__(self, page: Callable[[str], str | None]) -> None:
        super().__init__(convert_charrefs=False)
        self._page, self._parts = page, list[str]()
        self.resources: list[str] = []
        self._skipped, self._skipping = 0, ""  # how deep inside which element

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipped:
            self._skipped += tag == self._skipping
            return
        if tag == "form" or "data-served" in dict(attrs):
            self._skipped, self._skipping = 1, tag
            return
        shown = []
        for name, value in attrs:
            written = value
            if value is not None and value.startswith("/"):
                if tag in ("link", "script", "img") and name in ("href", "src"):
                    self.resources.append(value)
                elif name == "href" or name.startswith("data-"):
                    written = self._page(value)
                    if written is None:
                        continue
            if name == "data-live":
                written = ""
            if name == "download":
                continue
            shown.append(name if written is None else f'{name}="{escape(written)}"')
        self._parts.append(f"<{' '.join([tag, *shown])}>")

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= tag == self._skipping
        elif tag not in _VOID:
            self._parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._parts.append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")

    def handle_decl(self, decl: str) -> None:
        self._parts.append(f"<!{decl}>")


def table_links(numbers: Sequence[int], here: str) -> str:
    """Return the line below a section that gives its tables, numbered in their page, as files."""
    path, _, query = here.partition("?")
    parts = []
    for position, number in enumerate(numbers, 1):
        end = address("", [("table", str(number))]).lstrip("?")
        base = f"{path}?{query}&{end}" if query else f"{path}?{end}"
        name = "The table" if len(numbers) == 1 else f"Table {position}"
        kinds = ", ".join(
            f'<a href="{escape(f"{base}&as={kind}")}" download aria-label="{name} as {title}">{title}</a>'
            for title, kind in (("CSV", "csv"), ("Parquet", "parquet"), ("JSON", "json"))
        )
        parts.append(f"{name}: {kinds}")
    return f'<p class="files dim" data-served>{" · ".join(parts)}</p>' if parts else ""
