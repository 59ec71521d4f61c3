"""The explorer in a real browser: content, keys, addresses, names, roles, contrast; nothing is asked for elsewhere."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from .conftest import Client
from .reader import SCREENS, Reader, reading

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(client: Client, photos: Path) -> dict[str, str]:
    """Every kind of page."""
    run, easy = client.item("run", "first"), client.item("testbed", "easy")
    data = client.dataset(photos)
    chosen = next(
        link for link in client.links(f"/compare?run={run.rsplit('/', 1)[-1]}") if "series=" in link
    )
    square = next(link for link in client.links(f"{run}/confusion") if "predicted=" in link)
    return {
        "home": "/",
        "run": run,
        "tasks": f"{run}/tasks?sort=-spread",
        "task": f"{easy}/task/3",
        "query": f"{easy}/task/3/query/1",
        "compare": chosen,
        "confusion": square,
        "dataset": data,
        "board": f"{easy}/board",
        "testbed": easy,
        "classes": f"{easy}/classes",
        "grid": f"{run}/tasks?view=grid",
        "classes of a run": f"{run}/classes",
        "class of a run": f"{run}/class?bed=easy&class=round/gold",
        "map": f"{data}/map",
        "suspects": f"{data}/suspects",
        "review": f"{data}/review",
        "datasets": "/?kind=dataset",
        "tasks of a class": f"{easy}/tasks?class=round/gold",
        "plot": f"{run}/plot",
        "pairs": f"/compare?run={run.rsplit('/', 1)[-1]}",
        "class": f"{data}/images?class=round/crimson",
        "image": f"{data}/image/5",
        "taxonomy": f"{data}/taxonomy",
        "facts": f"{data}/facts",
        "absent": f"{easy}/task/999",
        "testbed tasks": f"{easy}/tasks?where=way+%3E+2&page=1",
        "results": f"{run}/report/results",
        "distribution": f"{run}/report/distribution",
        "provenance": f"{run}/report/provenance",
        "histograms": f"{easy}/plots",
    }


@pytest.fixture(scope="module")
def reader(browser: Any, client: Client) -> Iterator[Reader]:
    window = Reader(browser, client, "desktop")
    yield window
    window.context.close()


SHORT = ("home", "run", "tasks", "task", "plot", "class of a run", "map", "compare")


@pytest.mark.parametrize("screen", [pytest.param("desktop", marks=pytest.mark.long), "phone"])
def test_pages_are_silent_small_and_named(
    browser: Any, client: Client, pages: dict[str, str], screen: str
) -> None:
    with reading(browser, client, screen) as window:
        for name in SHORT:
            window.check(pages[name])


@pytest.mark.long
@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_on_every_screen(browser: Any, client: Client, pages: dict[str, str], screen: str) -> None:
    with reading(browser, client, screen) as window:
        for name, path in pages.items():
            client.made(path)
            if name != "absent":  # a 404 is noted on the console by the browser itself
                window.check(path)


def test_a_filter_round_trips_through_the_address(reader: Reader, pages: dict[str, str]) -> None:
    reader.open(pages["tasks"])
    reader.page.fill("#where", "ridge@pixels < 0.9")
    reader.page.click("form.filter button")
    reader.page.wait_for_load_state("networkidle")
    assert "where=" in reader.page.url and "sort=-spread" in reader.page.url
    rows = reader.page.locator("table.tasks tbody tr").count()
    assert f"1–{rows} of {rows} tasks" in reader.page.locator(".pager").first.inner_text()
    reader.page.locator("table.tasks thead th a", has_text="task").first.click()
    reader.page.wait_for_load_state("networkidle")
    assert reader.page.input_value("#where") == "ridge@pixels < 0.9"
    reader.page.go_back()
    assert "sort=-spread" in reader.page.url


def test_arrow_keys_walk_through_the_list(reader: Reader, pages: dict[str, str]) -> None:
    reader.open(pages["tasks"])
    links = reader.page.locator("table.tasks tbody td:first-child a")
    order = [links.nth(number).inner_text() for number in range(3)]
    links.nth(0).click()
    reader.arrive(f"/task/{order[0]}?")
    for task in order[1:]:
        reader.page.keyboard.press("ArrowRight")
        reader.arrive(f"/task/{task}?")
    reader.page.keyboard.press("ArrowLeft")
    reader.arrive(f"/task/{order[1]}?")
    reader.page.keyboard.press("Escape")
    reader.arrive("/tasks?")
    assert "sort=-spread" in reader.page.url


def test_pictures_are_there_and_open_large(reader: Reader, pages: dict[str, str]) -> None:
    reader.open(pages["task"])
    painted = reader.page.evaluate(
        """async () => {
            const tile = document.querySelector(".tile"), url = getComputedStyle(tile).backgroundImage.slice(5, -2);
            const image = new Image();
            image.src = url;
            await image.decode();
            return [image.naturalWidth, tile.offsetWidth];
        }"""
    )
    assert painted == [12 * 96, 96]
    reader.page.locator(".query .tile").first.click()
    reader.page.wait_for_load_state("networkidle")
    image = reader.page.locator("dialog figure.large img")
    width = image.evaluate("async (image) => { await image.decode(); return image.naturalWidth; }")
    assert width > 30
    assert reader.page.locator("dialog .shots .tile").count() == 3  # its nearest supports
    assert reader.violations() == []
    reader.page.keyboard.press("Escape")
    assert reader.page.locator("dialog").count() == 0 and "/task/3" in reader.page.url


def test_two_lists_on_a_page_keep_each_others_state(reader: Reader, pages: dict[str, str]) -> None:
    reader.open(f"{pages['compare']}&kind=both&where=both+%3E+0&sort=task")
    before = reader.page.locator("table.tasks tbody tr").count()
    reader.page.locator(".quad a", has_text="both wrong").click()
    reader.page.wait_for_load_state("networkidle")
    assert "kind=neither" in reader.page.url and "sort=task" in reader.page.url
    assert reader.page.input_value("#where") == "both > 0"
    reader.page.locator("table.tasks thead th a", has_text="difference").click()
    reader.page.wait_for_load_state("networkidle")
    assert "kind=neither" in reader.page.url and "where=both" in reader.page.url
    assert reader.page.locator("table.tasks tbody tr").count() == before


@pytest.mark.parametrize("kind", ["SVG", "PNG"])
def test_a_plot_is_saved_as_it_is_seen(reader: Reader, pages: dict[str, str], kind: str) -> None:
    reader.open(pages["plot"])
    with reader.page.expect_download() as saving:
        reader.page.locator("figure .save button", has_text=kind).first.click()
    data = Path(saving.value.path()).read_bytes()
    assert data.startswith(b"\x89PNG") if kind == "PNG" else b"<circle" in data
    assert len(data) > 2000


def test_pages_are_whole_without_scripts(browser: Any, client: Client, pages: dict[str, str]) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{client.port}{pages['tasks']}")
        assert page.locator("table.tasks tbody tr").count() == 24
        page.locator("table.tasks tbody a").first.click()
        assert page.locator(".grows .tile").count() == 4 * (2 + 3)
    finally:
        context.close()


def test_an_exported_view_opens_from_disk(
    browser: Any, client: Client, pages: dict[str, str], tmp_path: Path
) -> None:
    answer = client.get(f"/export?view={pages['tasks'].replace('?', '%3F')}&pages=8")
    with zipfile.ZipFile(BytesIO(answer.body)) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / "longshot-view"
    context = browser.new_context()
    try:
        page = context.new_page()
        asked_for: list[str] = []
        page.on("request", lambda request: asked_for.append(request.url))
        page.goto((folder / "index.html").as_uri())
        assert page.locator("table.tasks tbody tr").count() == 24
        assert page.evaluate("getComputedStyle(document.body).margin") == "0px"  # its style sheet is there
        linked = page.locator('a[href]:not([href=""])').evaluate_all(
            "links => links.map(link => link.getAttribute('href'))"
        )
        assert linked and all((folder / link).is_file() for link in linked)
        tasks = [link for link in linked if re.search(r"task-\d+\.html$", link)]
        page.goto((folder / tasks[0]).as_uri() if tasks else (folder / linked[0]).as_uri())
        assert {urlsplit(url).scheme for url in asked_for} <= {"file", "data"}
    finally:
        context.close()
