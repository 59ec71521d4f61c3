"""The application: which address shows what. It only reads."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from longshot.base import UserError
from longshot.explorer import downloads
from longshot.explorer.board_views import shipped_board_page, shipped_boards, suite_board
from longshot.explorer.caches import giving_back_memory
from longshot.explorer.class_views import class_page, confusion, run_classes
from longshot.explorer.compare_views import compare_series
from longshot.explorer.dataset_views import (
    dataset_attributes,
    dataset_classes,
    dataset_facts,
    dataset_image,
    dataset_images,
    dataset_taxonomy,
)
from longshot.explorer.exports import PAGES, export_files, export_folder, zipped
from longshot.explorer.home_views import home, suite, testbed_board
from longshot.explorer.library import Item
from longshot.explorer.map_views import dataset_map, map_colour, map_places
from longshot.explorer.picture_store import PICTURE_TYPE
from longshot.explorer.plot_views import run_plot
from longshot.explorer.review_views import (
    dataset_review,
    dataset_suspects,
    forget_dataset,
    read_form,
    take_decision,
)
from longshot.explorer.run_views import run_overview, run_section, run_tasks
from longshot.explorer.site import Instead, NotThere, Page, Site, ago, made
from longshot.explorer.sprites import image_large, image_sprite, large_picture, query_sprite, sprite, strip
from longshot.explorer.task_views import task_image, task_pictures
from longshot.explorer.testbed_views import testbed_classes, testbed_overview, testbed_plots, testbed_tasks
from longshot.explorer.web_server import App, Guard
from longshot.explorer.work_views import release, study, study_page, training, verification, why
from longshot.reports import table_bytes

_PICTURE_THREADS = 4  # that wait for decoders; lists have threads of their own
_WAITING = b"This page is loaded again when it is done."
_FOREVER = "private, max-age=31536000, immutable"


def build_app(
    roots: Sequence[Path],
    hosts: set[str],
    *,
    token: str | None = None,
    framed: bool = False,
    any_address: bool = False,
    review: bool = False,
) -> BuiltApp:
    """Build the application and what belongs to it."""
    site = Site(roots, review=review)
    pool = ThreadPoolExecutor(_PICTURE_THREADS, "pictures")
    pool.submit(site.decoders.warm)
    pool.submit(site.library.items)

    def absent(request: Request, error: Exception) -> Response:
        return _sentence(site, "There is no such page.", 404)

    def broken(request: Request, error: Exception) -> Response:
        print("".join(traceback.format_exception(error)), file=sys.stderr)
        return _sentence(
            site, f"This page could not be made ({type(error).__name__}); the server goes on.", 500
        )

    def archive(request: Request) -> Response:
        """Return a static copy of a view as a zip archive."""
        text = str(request.query_params.get("pages", PAGES))
        try:
            files = export_files(
                app, str(request.query_params.get("view", "")), int(text) if text.isdecimal() else PAGES
            )
        except UserError as error:
            return _sentence(site, str(error), 404)
        headers = {
            "content-disposition": 'attachment; filename="longshot-view.zip"',
            "cache-control": "no-store",
        }
        return Response(zipped(files), media_type="application/zip", headers=headers)

    app = Starlette(exception_handlers={404: absent, 500: broken})
    app.routes.extend([*routes(site, pool), Route("/export", archive)])
    guarded = Guard(app, hosts, token=token, framed=framed, any_address=any_address, writes=review)

    def stop() -> None:
        pool.shutdown(wait=False, cancel_futures=True)
        site.close()

    def export(view: str, out: Path, pages: int) -> Path:
        return export_folder(app, view, out, pages)

    def add(root: Path) -> list[Item]:
        if root not in site.library.roots:
            site.library.roots.append(root)
        return site.library.items(fresh=True)

    return BuiltApp(guarded, stop, export, add)


class BuiltApp(NamedTuple):
    """The application behind its guard, and what can be done with it.

    ``stop`` ends it, ``export(view, out, pages)`` writes a view to a folder, ``add(root)`` shows one more folder.
    """

    app: App
    stop: Callable[[], None]
    export: Callable[[str, Path, int], Path]
    add: Callable[[Path], list[Item]]


def routes(site: Site, pool: ThreadPoolExecutor) -> list[Route]:
    """List the routes of all addresses."""

    def page(path: str, make: Callable[[Request], Page | Response]) -> Route:
        return Route(path, _page_endpoint(site, make))

    def of(kind: str, make: Callable[..., Page | Response]) -> Callable[[Request], Page | Response]:
        return lambda request: make(site, site.item(kind, request.path_params["id"]), request.query_params)

    def in_task(make: Callable[..., Page]) -> Callable[[Request], Page]:
        def show(request: Request) -> Page:
            item = site.item("testbed", request.path_params["id"])
            return make(site, item, request.path_params["task"], request.query_params)

        return show

    def image(request: Request) -> Page:
        item, where = site.item("testbed", request.path_params["id"]), request.path_params
        return task_image(site, item, where["task"], where["part"], where["position"], request.query_params)

    def one_image(request: Request) -> Page:
        item = site.item("dataset", request.path_params["id"])
        return dataset_image(site, item, request.path_params["row"], request.query_params)

    def written_page(_: Site, item: Item, __: Any) -> Response:
        data, policy = study_page(item)
        return HTMLResponse(data, headers={"content-security-policy": policy})

    def section(request: Request) -> Page:
        item = site.item("run", request.path_params["id"])
        return run_section(site, item, request.path_params["name"], request.query_params)

    def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in site.assets:
            return Response("There is no such file.", 404, media_type="text/plain")
        kind, data = site.assets[name]
        return Response(data, media_type=kind, headers={"cache-control": _FOREVER})

    def live(request: Request) -> Response:
        """Report what is running, as JSON; 304 while nothing changes."""
        digits = str(request.query_params.get("item", "")).rsplit("-", 1)[-1]
        items = [each for each in site.library.items() if each.sign is not None or each.digits == digits]
        facts = [_live_facts(site, each) for each in items if not digits or each.digits == digits]
        tag = f'"{hashlib.sha256(repr([{**each, "age": 0, "spark": 0} for each in facts]).encode()).hexdigest()[:20]}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        return JSONResponse({"items": facts, "time": time.time()}, headers={"etag": tag})

    return [
        page("/", lambda request: home(site, request.query_params, request.cookies)),
        _picture_route(site, pool, "/{kind}/{id}/strip.jpg", strip),
        _picture_route(site, pool, "/{kind}/{id}/task/{task:int}/strip.jpg", strip),
        page("/run/{id}", of("run", lambda site, item, _: run_overview(site, item))),
        page("/run/{id}/tasks", of("run", downloads.or_file(run_tasks))),
        page("/run/{id}/plot", of("run", run_plot)),
        page("/run/{id}/report/{name}", section),
        page("/testbed/{id}", of("testbed", lambda site, item, _: testbed_overview(site, item))),
        page("/testbed/{id}/tasks", of("testbed", downloads.or_file(testbed_tasks))),
        page("/testbed/{id}/classes", of("testbed", downloads.or_file(testbed_classes))),
        page("/testbed/{id}/plots", of("testbed", lambda site, item, _: testbed_plots(site, item))),
        page("/testbed/{id}/task/{task:int}", in_task(task_pictures)),
        page("/testbed/{id}/task/{task:int}/{part}/{position:int}", image),
        _picture_route(site, pool, "/testbed/{id}/task/{task:int}/sprite-{page:int}-{name}.jpg", sprite),
        _picture_route(
            site, pool, "/testbed/{id}/task/{task:int}/{part}-{position:int}-{name}.jpg", large_picture
        ),
        _picture_route(site, pool, "/testbed/{id}/queries/{listed}/{name}.jpg", query_sprite),
        page("/testbed/{id}/board", of("testbed", lambda site, item, _: testbed_board(site, item))),
        page("/run/{id}/confusion", of("run", confusion)),
        page("/run/{id}/classes", of("run", run_classes)),
        page("/run/{id}/class", of("run", class_page)),
        page("/compare", lambda request: downloads.or_file(compare_series)(site, request.query_params)),
        page("/board/{id}", of("board", lambda site, item, _: suite_board(site, item))),
        page("/boards", lambda _: shipped_boards(site)),
        page("/boards/{name}", lambda request: shipped_board_page(site, request.path_params["name"])),
        page("/suite/{id}", of("suite", lambda site, item, _: suite(site, item))),
        page("/dataset/{id}", of("dataset", dataset_classes)),
        page("/dataset/{id}/images", of("dataset", dataset_images)),
        page("/dataset/{id}/image/{row:int}", one_image),
        page("/dataset/{id}/taxonomy", of("dataset", lambda site, item, _: dataset_taxonomy(site, item))),
        page("/dataset/{id}/attributes", of("dataset", dataset_attributes)),
        page("/dataset/{id}/facts", of("dataset", lambda site, item, _: dataset_facts(site, item))),
        page("/dataset/{id}/review", of("dataset", dataset_review)),
        _form_route(site, "/dataset/{id}/review", take_decision),
        _form_route(site, "/dataset/{id}/forget", forget_dataset),
        page("/dataset/{id}/map", of("dataset", dataset_map)),
        page("/dataset/{id}/map.bin", of("dataset", map_places)),
        page("/dataset/{id}/map-colour", of("dataset", map_colour)),
        page("/dataset/{id}/suspects", of("dataset", dataset_suspects)),
        _picture_route(site, pool, "/dataset/{id}/images/{listed}/{name}.jpg", image_sprite),
        _picture_route(site, pool, "/dataset/{id}/image-{row:int}.jpg", image_large),
        page("/testbed/{id}/task/{task:int}/why", in_task(why)),
        page("/training/{id}", of("training", lambda site, item, _: training(site, item))),
        page("/study/{id}", of("study", lambda site, item, _: study(site, item))),
        page("/study/{id}/page", of("study", written_page)),
        page("/release/{id}", of("release", lambda site, item, _: release(site, item))),
        page("/release/{id}/verify", of("release", lambda site, item, _: verification(site, item))),
        Route("/static/{version}/{name}", asset),
        Route("/live", live),
    ]


def _page_endpoint(site: Site, make: Callable[[Request], Page | Response]) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        number = str(request.query_params.get("table", ""))
        try:
            if number:
                return _table_file(site, make, request, number)
            with giving_back_memory():
                shown = make(request)
        except Instead as instead:
            shown = instead.page
        except (NotThere, UserError) as error:
            return _sentence(site, str(error), 404)
        except OSError as error:
            return _sentence(site, f"A file could not be read: {error.strerror or error}.", 404)
        if isinstance(shown, Response):
            return shown
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        text = site.render(shown, here).encode("utf-8", "backslashreplace")
        tag = f'"{hashlib.sha256(text).hexdigest()[:24]}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        headers = {"etag": tag}
        if _WAITING in text:
            # Something is being made: the browser asks again, with or without scripts.
            headers["refresh"] = "3"
        return HTMLResponse(text, headers=headers)

    return endpoint


def _table_file(
    site: Site, make: Callable[[Request], Page | Response], request: Request, number: str
) -> Response:
    """Return one table of a page as a file; the page is made without ``table`` and ``as``."""
    kind = str(request.query_params.get("as", "csv"))
    pairs = [pair for pair in request.query_params.multi_items() if pair[0] not in ("table", "as")]
    plain = Request({**request.scope, "query_string": urlencode(pairs).encode()})
    page = make(plain)
    if isinstance(page, Response) or kind not in ("csv", "parquet", "json"):
        raise NotThere("A table can be had as CSV, Parquet or JSON.")
    tables = site.tables(page)
    if not number.isdecimal() or not 1 <= int(number[:6]) <= len(tables):
        raise NotThere(f"This page has {len(tables)} tables, and there is no table '{number[:20]}'.")
    data = table_bytes(tables[int(number) - 1], kind)
    return downloads.attachment(data, f"{page.title}-table-{number}", kind)


def _sentence(site: Site, sentence: str, status: int) -> HTMLResponse:
    """Make a page with one sentence."""
    page = Page("Not here", [made("problem", "", sentence)], crumbs=[("Explorer", "/")])
    return HTMLResponse(site.render(page), status_code=status)


def _picture_route(
    site: Site, pool: ThreadPoolExecutor, path: str, make: Callable[..., tuple[bytes, bool]]
) -> Route:
    """Make the route of a picture, drawn in own threads; browsers keep it if its address fixes the bytes."""

    async def endpoint(request: Request) -> Response:
        loop = asyncio.get_running_loop()
        try:
            data, lasting = await loop.run_in_executor(pool, make, site, dict(request.path_params))
        except (NotThere, UserError, OSError, ValueError, KeyError) as error:
            return Response(
                str(error)[:300], 404, media_type="text/plain", headers={"cache-control": "no-store"}
            )
        return Response(
            data, media_type=PICTURE_TYPE, headers={"cache-control": _FOREVER if lasting else "no-cache"}
        )

    return Route(path, endpoint)


def _form_route(site: Site, path: str, act: Callable[[Site, Item, dict[str, str]], Page | Response]) -> Route:
    """Make the route of a form that changes something; without ``review`` the guard lets no such request through."""

    async def endpoint(request: Request) -> Response:
        try:
            fields = await read_form(request, site)
        except UserError as error:
            return _sentence(site, str(error), 403)
        return await run_in_threadpool(
            _page_endpoint(
                site, lambda asking: act(site, site.item("dataset", asking.path_params["id"]), fields)
            ),
            request,
        )

    return Route(path, endpoint, methods=["POST"])


def _live_facts(site: Site, item: Item) -> dict[str, Any]:
    sign = item.sign
    facts: dict[str, Any] = {"id": item.id, "state": item.state, "changed": round(item.changed, 1)}
    if sign is not None:
        facts |= {name: getattr(sign, name) for name in ("done", "total", "unit", "note")}
        facts["age"], facts["spark"] = ago(sign.age), site.scores.spark(item)
    return facts
