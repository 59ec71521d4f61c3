"""The built site: strict, complete, opened from disk in a browser, and nothing fetched."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.doc_blocks import ROOT, page_name, pages

DOCS = ROOT / "docs"
WIDTHS = (390, 1280)
LOOKED_AT = (
    "index.html",
    "start/index.html",
    "howto/index.html",
    "concepts/statistics.html",
    "reference/cli/sample.html",
    "reference/api/sample.html",
    "reference/api/index.html",
    "benchmarks.html",
)


def test_every_page_is_in_the_site(site: Path) -> None:
    written = [page_name(page) for page in pages() if page.is_relative_to(DOCS)]
    assert [name for name in written if not (site / f"{name}.html").is_file()] == []


def test_every_command_has_a_page_with_all_its_options(site: Path) -> None:
    import click

    from longshot.cli import cli

    context = click.Context(cli, info_name="longshot")
    for name in cli.list_commands(context):
        text = (site / "reference" / "cli" / f"{name}.html").read_text("utf-8")
        for command in _all(cli.get_command(context, name), context):
            for parameter in command.params:
                if isinstance(parameter, click.Option) and not parameter.hidden:
                    flag = max(parameter.opts, key=len)
                    assert re.search(rf"{re.escape(flag)}\b", text), f"longshot {name} {flag}"


def _all(command: Any, context: Any) -> list[Any]:
    inner = (
        [command.get_command(context, name) for name in command.list_commands(context)]
        if hasattr(command, "commands")
        else []
    )
    return [command, *(below for each in inner for below in _all(each, context))]


@pytest.mark.parametrize("folder", ["howto", "studies", "reference"])
def test_the_navigation_names_every_page_once(site: Path, folder: str) -> None:
    """Those that are put in order, then the others of the folder."""
    text = (site / folder / "index.html").read_text("utf-8")
    navigation = text[text.index("bd-docs-nav") : text.index("</nav>", text.index("bd-docs-nav"))]
    links = re.findall(r'href="([\w-]+)\.html"', navigation)
    assert len(links) == len(set(links))
    written = {path.stem for path in (DOCS / folder).glob("*.md")} - {"index"}
    assert written <= set(links)


def test_every_verb_and_noun_has_a_page(site: Path) -> None:
    import longshot

    for name in (*longshot._VERBS, *longshot._NOUNS):
        text = (site / "reference" / "api" / f"{name}.html").read_text("utf-8")
        assert f'id="longshot.{name}"' in text, name
    assert "Parameters" in (site / "reference" / "api" / "sample.html").read_text("utf-8")


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    """Links may lead out; scripts, styles, pictures and fonts come with the site."""
    loaded = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)=\"((?:https?:)?//[^\"]+)\"")
    imported = re.compile(r"(?:@import|url\()\s*[\"']?((?:https?:)?//[^\"')]+)")
    for path in site.rglob("*.html"):
        assert loaded.findall(path.read_text("utf-8")) == [], path.name
    for path in site.rglob("*.css"):
        assert imported.findall(path.read_text("utf-8")) == [], path.name


@pytest.mark.parametrize(
    "fault", ["[a](nowhere.md)", "[a](index.md#no-such-heading)", "![a](nowhere.png)", "{ref}`nowhere`"]
)
def test_a_broken_link_fails_the_build(fault: str, tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text(f"# A page\n\n{fault}\n")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "-c",
        str(DOCS),
        "-D",
        "extensions=myst_parser,mathml",
    ]
    command += [
        "-D",
        "html_theme=basic",
        "-D",
        "html_theme_options.navbar_align=",
        str(tmp_path),
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "index.md:3" in done.stderr, done.stderr


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_the_site_in_a_browser(site: Path, browser: Any, width: int) -> None:
    look_at(site, browser, width, LOOKED_AT)


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_in_a_browser(site: Path, browser: Any, width: int) -> None:
    look_at(
        site,
        browser,
        width,
        [
            name
            for path in sorted(site.rglob("*.html"))
            if not (name := path.relative_to(site).as_posix()).startswith("_")
        ],
    )


def look_at(site: Path, browser: Any, width: int, names: Any) -> None:
    """From disk: no request elsewhere, no complaint, no sideways scrolling, a heading."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    foreign: list[str] = []
    complaints: list[str] = []
    page.on(
        "request",
        lambda request: request.url.startswith(("file:", "data:", "blob:")) or foreign.append(request.url),
    )
    page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    for name in names:
        page.goto((site / name).as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{name} is {wide} pixels wider than {width}"
        assert (foreign, complaints) == ([], []), name
        assert page.locator("h1").count() >= 1, name
    page.close()


@pytest.mark.browser
def test_the_search_finds_a_page(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto((site / "search.html").as_uri() + "?q=taxonomy")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li a").count() >= 3
    page.close()


def test_a_formula_is_mathml(site: Path) -> None:
    texts = [path.read_text("utf-8") for path in (site / "concepts").glob("*.html")]
    assert any("<math" in text and "<mfrac>" in text for text in texts)
    assert all("mathjax" not in text.lower() for text in texts)


def test_the_settings_page_names_every_variable_and_extra() -> None:
    import tomllib

    text = (DOCS / "reference" / "settings.md").read_text("utf-8")
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    variables = set(re.findall(r"LONGSHOT_[A-Z_]+[A-Z]", source))
    assert {name for name in variables if f"`{name}`" not in text} == set()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert [name for name in extras if f"| `{name}` |" not in text] == []
