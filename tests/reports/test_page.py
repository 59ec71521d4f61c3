"""The page as text: whole, escaped, repeatable, small."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

import longshot
from longshot.base import UserError, speak_as
from longshot.cli import ShellFace
from longshot.reports import SECTIONS, read_runs, render_report

from .conftest import MakeRun
from .runs import DEFAULT, draw_images, write_history, write_run

ATTACK = "<script>alert('x')</script>\" onload=\"alert(2)"


class Tags(HTMLParser):
    """Counts scripts and collects attributes as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts, self.attributes, self.ids = 0, set[str](), list[str]()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]


def page(run: Path | list[Path], **options: object) -> str:
    return render_report(read_runs(run), images=draw_images, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that no test changes."""
    return write_run(tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture(scope="module")
def plain_page(plain_run: Path) -> str:
    return page(plain_run)


def test_user_strings_are_escaped_everywhere(make_run: MakeRun) -> None:
    series = [{"backbone": ATTACK, "method": ATTACK, "setting": "inductive", "skill": 0.5}]
    series += [{**series[0], "method": f"{ATTACK}{i}", "setting": "transductive"} for i in range(2)]
    options = {"vary": True, "coarsity": True, "datasets": (f"{ATTACK}a", f"{ATTACK}b")}
    beds = {ATTACK: options, f"{ATTACK}2": {**options, "support_from": 20, "seed": 0}}
    run = make_run(beds=beds, series=series, names=[f"{ATTACK}{i}" for i in range(8)], scores=True)
    tags = Tags(page(run, title=ATTACK))
    assert tags.scripts == 1 and "onload" not in tags.attributes


def test_nothing_is_fetched(plain_page: str) -> None:
    assert all(address.startswith(("data:", "#")) for address in Tags(plain_page).addresses)
    assert not re.search(r"@import|url\((?!#)", plain_page)


def test_ids_are_unique(plain_page: str) -> None:
    ids = Tags(plain_page).ids
    assert len(ids) == len(set(ids))


def test_calls_are_written_as_the_maker_of_the_page_writes_them(plain_run: Path, plain_page: str) -> None:
    assert "longshot.evaluate(…, save_scores=True)" in plain_page
    before = speak_as(ShellFace())
    try:
        assert "longshot evaluate … --save-scores<" in page(plain_run)
    finally:
        speak_as(before)


def test_equal_runs_give_equal_pages(plain_run: Path, plain_page: str, tmp_path: Path) -> None:
    copy = shutil.copytree(plain_run, tmp_path / "elsewhere" / plain_run.name)
    assert plain_page == page(copy)


def test_every_section_is_there(make_run: MakeRun, tmp_path: Path) -> None:
    beds = {"one": {"coarsity": True}, "two": {"vary": True}}
    inductive = [{**series, "setting": "inductive"} for series in DEFAULT]
    text = page(make_run(beds=beds, series=inductive), training=[write_history(tmp_path / "net")])
    assert {make.__name__ for make in SECTIONS} - {"overlap"} <= set(
        Tags(text).ids
    )  # these runs trained nothing


def test_a_fixed_shape_has_no_plot_by_way(make_run: MakeRun) -> None:
    assert "by_shape" not in Tags(page(make_run(beds={"one": False}))).ids


def test_beyond_some_testbeds_only_the_table_of_results_has_all(make_run: MakeRun) -> None:
    run = make_run(beds={"one": False, "two": False})
    all_plots, one_plot = (render_report(read_runs(run), pictures=0, plotted=plotted) for plotted in (2, 1))
    assert all_plots == render_report(read_runs(run), pictures=0)
    assert "plots and tests of the first 1 testbeds" in one_plot and len(one_plot) < len(all_plots)
    section = one_plot.partition('id="results"')[2].partition("<section")[0]
    assert "one" in section and "two" in section
    distribution = one_plot.partition('id="distribution"')[2].partition("<section")[0]
    assert distribution.count("<svg") == 1


def test_no_pictures_wanted_no_section(make_run: MakeRun) -> None:
    assert "tasks" not in Tags(page(make_run(), pictures=0)).ids


def test_without_images_the_page_says_so(make_run: MakeRun) -> None:
    text = render_report(read_runs(make_run()))
    assert text.count("No pictures: this report was made without access to the images.") == 2


def test_an_unfinished_run_says_so(make_run: MakeRun) -> None:
    run = make_run()
    min(run.glob("part-*.parquet")).unlink()
    assert "is not finished: 1 unit of work missing" in page(run)


def test_one_task_one_series(make_run: MakeRun) -> None:
    text = page(make_run(tasks=1, beds={"one": False}, series=DEFAULT[:1]))
    assert "reaches" in text and not re.search(r"\bnan\b", text.lower())


def test_transductive_is_marked_in_plots_legends_and_tables(make_run: MakeRun) -> None:
    text = page(make_run(), pictures=0)
    sections = dict(re.findall(r'<section id="(\w+)">(.*?)</section>', text, re.DOTALL))
    assert "tim(steps=100) · net (t)" in sections["distribution"]
    tag = '<span class="tag trans">transductive</span>'
    rows = [row for row in re.findall(r"<tr>.*?</tr>", text, re.DOTALL) if "tim(steps=100)" in row]
    assert len(rows) > 5 and all('class="tag trans"' in row for row in rows)
    assert re.search(r"tim\(steps=100\) · net</span>&nbsp;" + tag, sections["by_shape"])


def test_focus_chooses_the_marked_series(make_run: MakeRun) -> None:
    text = page(make_run(), focus="PIXELS")
    assert "Chosen by one series; marked are the predictions of" in text


def test_unknown_focus_names_the_series(make_run: MakeRun) -> None:
    with pytest.raises(UserError, match=r"'nothing' in its name; there are 3: 'protonet"):
        page(make_run(), focus="nothing")


def test_many_series_fit(make_run: MakeRun) -> None:
    series = [{**DEFAULT[0], "backbone": f"net{i}", "skill": 0.3 + i / 60} for i in range(30)]
    text = page(make_run(beds={"one": True}, tasks=12, series=series), pictures=0)
    assert (
        "(6 series left out: the plot holds 24)" in text and "(22 series left out: the plot holds 8)" in text
    )
    assert "(5 series left out: the plot holds 24)" in text


def test_600_tasks_of_four_series_stay_small(make_run: MakeRun) -> None:
    series = [{**DEFAULT[0], "backbone": f"net{i}", "skill": 0.4 + i / 10} for i in range(4)]
    beds = {"fixed": {"coarsity": True}, "any": {"vary": True, "coarsity": True}}
    assert len(page(make_run(tasks=600, beds=beds, series=series, scores=True))) < 1_500_000


def test_unknown_format(make_run: MakeRun) -> None:
    with pytest.raises(UserError, match="no report format 'pdf'; the formats are html, md, csv, latex, json"):
        render_report(read_runs(make_run()), format="pdf")


def test_public_function_writes_the_file(make_run: MakeRun, tmp_path: Path) -> None:
    path = longshot.report(make_run(), tmp_path / "new" / "page.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
