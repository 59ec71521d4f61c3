"""The page in a real browser, from disk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longshot.api import report
from longshot.reports import SECTIONS, read_runs
from longshot.reports.summary import summarise

from .conftest import MakeRun
from .runs import DEFAULT, draw_images, write_history, write_run

pytestmark = pytest.mark.browser
ATTACK = "<script>window.hacked = true</script>"


class Opened:
    """A page opened from disk, with everything it said and asked for."""

    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.resolve().as_uri())

    def texts(self, selector: str) -> list[str]:
        return [" ".join(text.split()) for text in self.page.locator(selector).all_text_contents()]


@pytest.fixture(autouse=True)
def closed(browser: Any) -> Iterator[None]:
    """What a test opened is closed after it: every open page costs a process."""
    before = list(browser.contexts)
    yield
    for context in browser.contexts:
        if context not in before:
            context.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run whose class, method and testbed names are hostile and long, and its page."""
    names = [f"{ATTACK}/{ATTACK}{'x' * 40}{i}" for i in range(7)]
    series = [*DEFAULT, {**DEFAULT[0], "backbone": "n" * 60, "method": f"{ATTACK}(" + "a=1, " * 20 + ")"}]
    folder = tmp_path_factory.mktemp("written")
    beds = {
        "fixed": {"coarsity": True},
        "any" + "-y" * 40: {"vary": True, "coarsity": True, "datasets": ("shapes", f"{ATTACK}{'d' * 50}")},
    }
    run = write_run(folder / "run", tasks=60, beds=beds, series=series, names=names, scores=True)
    trained = write_history(folder / f"net{'-z' * 60}")
    page = report(run, folder / "page.html", images=draw_images, training=[trained])
    return run, page


def test_opens_from_disk_silently(browser: Any, written: tuple[Path, Path]) -> None:
    opened = Opened(browser, written[1])
    assert opened.messages == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [written[1].resolve().as_uri()]
    assert opened.page.evaluate("window.hacked === undefined")


def test_table_shows_the_numbers(browser: Any, written: tuple[Path, Path]) -> None:
    data = read_runs(written[0])
    entries = summarise(data)
    shown = Opened(browser, written[1]).texts(".results tbody td.num")
    ordered = [entries[bed, s] for s in range(len(data.series)) for bed in range(len(data.beds))]
    expected = [
        f"{100 * entry.mean:.1f} ± {100 * entry.half:.1f}"
        + (
            ""
            if entry.notable_class_half is None
            else f" ± {100 * entry.notable_class_half:.1f} over classes"
        )
        + (f" {entry.placed.reason}" if entry.placed.reason else "")
        for entry in ordered
    ]
    assert [re.sub(r"^(best|tie) ", "", text) for text in shown] == expected


@pytest.mark.parametrize("width", [390, 320, 768, 1280])
def test_no_sideways_scrolling(browser: Any, written: tuple[Path, Path], width: int) -> None:
    opened = Opened(browser, written[1], viewport={"width": width, "height": 844})
    opened.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def luminance(colour: str) -> float:
    """Relative luminance of an ``rgb(…)`` colour (WCAG)."""
    channels = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.fixture(scope="module", params=["light", "dark"])
def coloured(browser: Any, written: tuple[Path, Path], request: pytest.FixtureRequest) -> tuple[str, Any]:
    """A colour scheme and the page opened in it."""
    return request.param, Opened(browser, written[1], color_scheme=request.param).page


@pytest.mark.parametrize(
    "selector",
    [
        "body",
        ".how",
        ".plot text",
        "td.best .value",
        ".shot.wrong figcaption",
        ".tag.trans",
        ".facts td",
    ],
)
def test_text_stands_out_in_both_schemes(coloured: tuple[str, Any], selector: str) -> None:
    scheme, page = coloured
    contrasts = page.evaluate(
        """selector => {
            let element = document.querySelector(selector), behind = element;
            const style = getComputedStyle(element);
            const ink = element instanceof SVGElement ? style.fill : style.color;
            while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
            return [ink, getComputedStyle(behind).backgroundColor];
        }""",
        selector,
    )
    ink, paper = (luminance(colour) for colour in contrasts)
    assert (paper < 0.05) if scheme == "dark" else (paper > 0.8)
    assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5


def test_wrong_predictions_are_marked(browser: Any, make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(beds={"one": False}, series=DEFAULT[:1])
    opened = Opened(browser, report(run, tmp_path / "page.html", images=draw_images, pictures=2))
    cell = read_runs(run).cells[0, 0]
    testbed = read_runs(run).beds[0].testbed
    assert testbed is not None and cell.predictions is not None
    tasks = [int(text.split()[1]) for text in opened.texts(".task h4")]
    assert len(tasks) == 4
    wrong = sum(
        answer != truth
        for task in tasks
        for answer, truth in zip(cell.predictions[task].as_py(), testbed[task].query_label, strict=True)
    )
    assert opened.page.locator(".task .shot.wrong").count() == wrong > 0
    assert opened.page.locator(".query .shot").count() == 4 * 20
    assert opened.page.evaluate(
        "[...document.images].every(image => image.complete && image.naturalWidth > 0)"
    )


def test_a_click_sorts_the_table(browser: Any, written: tuple[Path, Path]) -> None:
    opened = Opened(browser, written[1])
    opened.page.locator(".results thead th").nth(3).locator("button").click()
    cells = opened.page.locator(".results tbody tr td:nth-of-type(3)")
    values = [float(cells.nth(i).get_attribute("data-value")) for i in range(cells.count())]
    assert len(values) == 4 and values == sorted(values, reverse=True)


def test_complete_without_scripts(browser: Any, written: tuple[Path, Path]) -> None:
    opened = Opened(browser, written[1], java_script_enabled=False)
    assert len(opened.texts(".results tbody tr")) == 4
    sections = opened.page.locator("section").evaluate_all("all => all.map(s => s.id)")
    assert sections == [
        make.__name__ for make in SECTIONS if make.__name__ != "overlap"
    ]  # these runs trained nothing
    plots = {name: opened.page.locator(f"#{name} svg.plot").count() for name in sections}
    assert {name: count for name, count in plots.items() if count} == {
        "paired": 2, "cost": 2, "distribution": 2, "by_shape": 2, "difficulty": 4, "drop": 1, "ranks": 2,
        "calibrated": 2, "training": 2,
    }  # fmt: skip


@pytest.mark.parametrize("width", [390, 1280])
def test_no_text_of_a_plot_is_cut_or_covered(browser: Any, written: tuple[Path, Path], width: int) -> None:
    page = Opened(browser, written[1], viewport={"width": width, "height": 844}).page
    problems = page.evaluate(
        """() => {
            const found = [];
            for (const plot of document.querySelectorAll("svg.plot")) {
                const frame = plot.getBoundingClientRect();
                const texts = [...plot.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
                for (const [text, r] of texts)
                    if (r.left < frame.left - 1 || r.right > frame.right + 1 || r.bottom > frame.bottom + 1)
                        found.push("cut: " + text);
                texts.forEach(([one, a], i) => texts.slice(i + 1).forEach(([other, b]) => {
                    if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
                        found.push(one + " over " + other);
                }));
            }
            return found;
        }"""
    )
    assert problems == []


def test_prints(browser: Any, written: tuple[Path, Path]) -> None:
    opened = Opened(browser, written[1], color_scheme="dark")
    assert opened.page.pdf(format="A4").startswith(b"%PDF")
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert luminance(opened.page.evaluate("getComputedStyle(document.body).backgroundColor")) == 1
