"""Names, files and images that mean harm, or are damaged, or vanish while they are shown."""

from __future__ import annotations

import io
import json
import re
import shutil
import zlib
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.reports.runs import DEFAULT, write_run

import longshot
from longshot.base import write_text
from longshot.explorer.decoder import PIXELS
from longshot.explorer.picture_store import Decoders

from .conftest import Client
from .reader import reading

ATTACK = "<script>window.hacked = true</script>"
RIGHT_TO_LEFT = "abc\u202egnp.exe"
LONG = "x" * 5000


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose classes, methods, testbeds and folder have names that mean harm."""
    folder = tmp_path_factory.mktemp("hostile")
    names = [f"{ATTACK}/{ATTACK}{RIGHT_TO_LEFT}\x07{i}" for i in range(6)] + [LONG]
    series = [*DEFAULT[:2], {**DEFAULT[0], "backbone": LONG, "method": f"{ATTACK}('\"&)"}]
    beds = {"fixed" + ATTACK: False, "any' onerror='x": {"vary": True}}
    write_run(folder / "run 'a' \"b\" &amp; \u202e", tasks=12, beds=beds, series=series, names=names)
    (folder / "training").mkdir()
    write_text(
        folder / "training" / "training.json",
        '{"settings": {"algorithm": "<img src=x onerror=alert(1)>"}, "notes": ["<b>"]}',
    )
    log = {"step": 3, "loss": 0.5, "seconds": 1.0, "best": ATTACK, "note": f"{ATTACK}{RIGHT_TO_LEFT}"}
    write_text(folder / "training" / "history.jsonl", json.dumps(log) + "\n{broken\n")
    sign = {"work": "train", "state": "stopped", "time": 1.0, "done": 1, "total": 2, "unit": ATTACK}
    write_text(
        folder / "training" / "heartbeat.json", json.dumps({**sign, "note": f"{ATTACK}\x1b[31m{LONG}"})
    )
    (folder / "release").mkdir()
    card = f"# {ATTACK}\n\n| {ATTACK} |\n| --- |\n| {RIGHT_TO_LEFT} |\n\n- [x](javascript:alert(1))\n"
    write_text(folder / "release" / "README.md", card)
    write_text(
        folder / "release" / "release.json", json.dumps({"title": ATTACK, "version": ATTACK, "testbeds": []})
    )
    (folder / "study").mkdir()
    write_text(folder / "study" / "study.json", '{"title": "<script>1</script>", "verdicts": {"<i>": "<u>"}}')
    write_text(folder / "study" / "report.html", "<script>fetch('http://evil.example')</script><p>hello</p>")
    return folder


@pytest.fixture(scope="module")
def served(hostile: Path) -> Iterator[Client]:
    explorer = longshot.serve(hostile, port=18820)
    yield Client(explorer)
    explorer.close()


OUR_TAGS = {
    *(
        "html",
        "head",
        "meta",
        "link",
        "title",
        "script",
        "body",
        "header",
        "div",
        "p",
        "a",
        "svg",
        "circle",
        "h1",
        "h2",
    ),
    *(
        "h3",
        "h4",
        "nav",
        "main",
        "section",
        "form",
        "label",
        "input",
        "button",
        "ul",
        "li",
        "span",
        "b",
        "i",
        "table",
    ),
    *(
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
        "fieldset",
        "legend",
        "article",
        "dl",
        "dt",
        "dd",
    ),
    *(
        "code",
        "select",
        "option",
        "figure",
        "figcaption",
        "img",
        "path",
        "rect",
        "text",
        "footer",
        "br",
        "kbd",
        "pre",
        "bdi",
        "wbr",
        "polyline",
        "canvas",
        "noscript",
        "datalist",
    ),
}


class Tags(HTMLParser):
    """What a browser would make of a page: its tags, scripts and handlers of events."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.scripts: list[tuple[str, str | None]] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.scripts += [(tag, dict(attrs).get("src"))] if tag == "script" else []
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def pages_of(client: Client) -> list[str]:
    kinds = ("/run/", "/testbed/", "/training/", "/study/", "/release/")
    home = [link for link in client.links("/") if link.startswith(kinds)]
    items = list(dict.fromkeys("/".join(link.split("?")[0].split("/")[:3]) for link in home))
    deeper = [f"{link}/tasks" for link in items if link.startswith(("/run/", "/testbed/"))]
    deeper += [f"{link}/task/0" for link in items if link.startswith("/testbed/")]
    deeper += [f"{link}/classes" for link in items if link.startswith("/testbed/")]
    deeper += [f"{link}/confusion" for link in items if link.startswith("/run/")]
    return list(dict.fromkeys(["/", *items, *deeper, *home]))


def test_names_stay_text(served: Client) -> None:
    pages = pages_of(served)
    assert len(pages) > 8
    for path in pages:
        answer = served.get(path)
        assert answer.status == 200, path
        tags = Tags()
        tags.feed(answer.text)
        assert [src for tag, src in tags.scripts if not str(src).startswith("/static/")] == [], path
        assert tags.handlers == [] and tags.names <= OUR_TAGS, path
        assert "\x07" not in answer.text and "\u202e" not in answer.text


@pytest.mark.browser
def test_a_browser_runs_none_of_it(browser: Any, served: Client) -> None:
    with reading(browser, served, "phone") as window:
        for path in pages_of(served)[:9]:
            window.open(path)
            assert window.page.evaluate("window.hacked") is None, path
            assert window.page.evaluate("document.documentElement.scrollWidth") <= window.width, path
            assert not [text for text in window.messages if "policy" in text], path
            assert all(url.startswith((window.base, "data:")) for url in window.requests), path


def test_attributes_and_images_that_mean_harm(tmp_path: Path) -> None:
    folder = tmp_path / "pictures" / f"<img src=x>{RIGHT_TO_LEFT}"
    folder.mkdir(parents=True)
    for number in range(3):
        Image.new("RGB", (40, 40), (60 * number, 9, 9)).save(folder / f"{number}.png")
    key = folder.name
    lines = ["path,<b>note</b>,size", f'{key}/0.png,"{ATTACK}",1', f'{key}/1.png,"{"y" * 5000}",2']
    (folder.parent / "attributes.csv").write_text("\n".join([*lines, f'{key}/2.png,"a \u202e b",3']))
    longshot.open_dataset(folder.parent)
    (folder / "0.png").write_bytes(bomb())  # changed after it was scanned
    (folder / "1.png").write_bytes(b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
    explorer = longshot.serve(tmp_path, port=19220)
    client = Client(explorer)
    try:
        data = client.dataset(folder.parent)
        for path in (data, f"{data}/images", f"{data}/attributes", f"{data}/image/0", f"{data}/facts"):
            answer = client.get(path)
            tags = Tags()
            tags.feed(answer.text)
            assert answer.status == 200 and tags.names <= OUR_TAGS and tags.handlers == [], path
            assert "\u202e" not in answer.text
        for row in range(3):
            answer = client.get(f"{data}/image-{row}.jpg")
            assert answer.headers["content-type"] == "image/jpeg" and answer.body.startswith(b"\xff\xd8")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert b"svg" not in answer.body
    finally:
        explorer.close()


def test_a_link_inside_an_item_shows_nothing_from_outside(tmp_path: Path, explored: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "words.txt").write_text("the password is swordfish")
    shown = tmp_path / "shown"
    for name in ("release", "study", "training"):
        (shown / name).mkdir(parents=True)
    write_text(shown / "release" / "release.json", '{"title": "r", "version": "1", "testbeds": []}')
    (shown / "release" / "README.md").symlink_to(secret / "words.txt")
    write_text(shown / "study" / "study.json", '{"title": "s", "verdicts": {"a": "b"}}')
    (shown / "study" / "report.html").symlink_to(secret / "words.txt")
    (shown / "study" / "tables").symlink_to(secret)
    write_text(secret / "claims.csv", "claim,sentence\na,swordfish")
    write_text(shown / "training" / "training.json", '{"settings": {"algorithm": "x"}}')
    write_text(secret / "history.jsonl", '{"step": 4711, "seconds": 1.0}')
    (shown / "training" / "history.jsonl").symlink_to(secret / "history.jsonl")
    shutil.copytree(explored / "runs" / "first", shown / "run")
    part = sorted((shown / "run").glob("part-*.parquet"))[0]
    part.rename(secret / part.name)
    part.symlink_to(secret / part.name)
    explorer = longshot.serve(shown, port=19225)
    client = Client(explorer)
    try:
        kinds = ("/release/", "/study/", "/training/", "/run/")
        for link in [link for link in client.links("/") if link.startswith(kinds)]:
            for path in (link, f"{link}/page"):
                page = client.get(path).text
                assert "swordfish" not in page and "4,711" not in page, path
        assert "links are not followed" in client.get(client.item("run", "run")).text
    finally:
        explorer.close()


def test_a_studys_page_runs_nothing(served: Client) -> None:
    study = next(link for link in served.links("/") if link.startswith("/study/"))
    answer = served.get(f"{study}/page")
    assert answer.status == 200 and b"hello" in answer.body
    policy = answer.headers["content-security-policy"]
    assert "sandbox" in policy and "script-src" not in policy and "default-src 'none'" in policy


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path, explored: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "linked").symlink_to(explored)
    (inside / "file.parquet").symlink_to(explored / "easy.parquet")
    explorer = longshot.serve(inside, port=18920)
    try:
        page = Client(explorer).get("/").text
        assert "/run/" not in page and "/testbed/" not in page
    finally:
        explorer.close()


def test_files_that_are_damaged_or_vanish_are_told(tmp_path: Path, explored: Path) -> None:
    folder = tmp_path / "shown"
    shutil.copytree(explored, folder)
    explorer = longshot.serve(folder, port=19020)
    client = Client(explorer)
    try:
        run, bed = client.item("run", "first"), client.item("testbed", "easy")
        assert client.get(run).status == 200
        part = next((folder / "runs" / "first").glob("part-*.parquet"))
        part.write_bytes(part.read_bytes()[:-40])
        page = client.get(run)
        assert page.status == 200 and "damaged" in page.text
        (folder / "runs" / "first" / "run.json").write_text("{")
        explorer.add(folder)
        answer = client.get(run)
        assert answer.status == 404 and "is damaged" in unescape(answer.text)
        shutil.rmtree(folder / "runs")
        (folder / "easy.parquet").unlink()
        explorer.add(folder)
        assert client.get(run).status == 404
        assert "any more" in client.get(bed).text
        assert client.get("/").status == 200
    finally:
        explorer.close()


@pytest.mark.usefixtures("fresh_cache")  # elsewhere the same photos lie unchanged, and would do
def test_an_image_that_was_changed_is_not_passed_off_as_the_one(tmp_path: Path, photos: Path) -> None:
    images = tmp_path / "photos"
    shutil.copytree(photos / "round", images)
    bed = longshot.sample(images, tasks=2, way=2, shot=1, query=1)
    bed.save(tmp_path / "beds" / "two.parquet")
    explorer = longshot.serve(tmp_path / "beds", port=19120)
    client = Client(explorer)
    try:
        page = f"{client.item('testbed', 'two')}/task/0"
        Image.new("RGB", (60, 60), "white").save(images / bed[0].query[0])
        (images / bed[0].support[0]).unlink()
        longshot.open_dataset(images, refresh=True)
        sprite = unescape(re.search(r"url\((?:&#39;|')([^)]*?)(?:&#39;|')\)", client.get(page).text)[1])
        answer = client.get(sprite)
        assert answer.status == 200 and "immutable" not in answer.headers["cache-control"]
        sheet = np.asarray(Image.open(io.BytesIO(answer.body)).convert("RGB"))
        tiles = [sheet[:96, 96 * at : 96 * at + 96].astype(int) for at in range(4)]
        grey = [np.ptp(tile, axis=2).mean() < 4 for tile in tiles]  # photos are coloured
        assert sum(grey) == 2  # crossed out: one is gone, one is another picture
    finally:
        explorer.close()


def bomb() -> bytes:
    """A PNG of a few hundred bytes that says it has a billion pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")

    side = 32_000
    head = side.to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    body = zlib.compress(b"\0" * 100_000, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def test_bombs_and_rubbish_are_crossed_out() -> None:
    good = io.BytesIO()
    Image.new("RGB", (50, 40), "red").save(good, "PNG")
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    images = [good.getvalue(), bomb(), b"rubbish", b"", svg, good.getvalue()[:50]]
    assert PIXELS < 32_000**2
    decoders = Decoders(1)
    try:
        picture, problems = decoders.sheet(images, side=32, columns=6, square=True)
        assert [bool(problem) for problem in problems] == [False, True, True, True, True, True]
        shown = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))[16, 16]
        assert shown[0] > 200 > 60 > shown[1]
        again, _ = decoders.sheet([good.getvalue()], side=32, columns=1, square=True)
        assert again.startswith(b"\xff\xd8")  # it lives on, and what it gives is JPEG whatever came in
    finally:
        decoders.close()


def test_a_decoder_that_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    decoders = Decoders(1)
    try:
        decoders.warm()
        for process in list(decoders._running):
            process.kill()
        good = io.BytesIO()
        Image.new("RGB", (8, 8), "blue").save(good, "PNG")
        picture, problems = decoders.sheet([good.getvalue()], side=16, columns=1, square=True)
        assert picture.startswith(b"\xff\xd8") and problems == [""]
    finally:
        decoders.close()
