"""Every page of every kind of thing on every screen: trainings, studies, releases, suites, boards, datasets."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import longshot

from .conftest import Client
from .reader import SCREENS, reading

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
def laboratory(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with attributes and an ignored file, and one of everything made of it."""
    base = tmp_path_factory.mktemp("laboratory")
    images = base / "pictures"
    shutil.copytree(photos, images)
    (images / "round" / "gold" / "notes.txt").write_text("no image")
    with (images / "attributes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "light", "place", "flash"])
        for number, path in enumerate(sorted(images.rglob("*.jpg"))):
            key = path.relative_to(images).as_posix()
            writer.writerow([key, number % 17 / 4, ("kitchen", "garden")[number % 2], number % 3 == 0])
    dataset = longshot.open_dataset(images)
    longshot.embed(dataset, "pixels")
    work = base / "work"
    shape: dict[str, Any] = {"tasks": 30, "way": 4, "shot": 2, "query": 3, "seed": 2}
    beds = {}
    for name in ("uniform", "difficult", "easy"):
        judge = {} if name == "uniform" else {"judge": "pixels"}
        beds[name] = work / f"{name}.parquet"
        longshot.sample(dataset, **shape, instances=name, **judge).save(beds[name])
    methods = ["protonet", "ridge", "tim"]
    longshot.evaluate(
        list(beds.values()), backbones="pixels", methods=methods, out=work / "trial", save_scores=True
    )
    longshot.bench("pixels", suite=[beds["uniform"], beds["difficult"]], methods=methods, out=work / "bench")
    longshot.release([beds["difficult"]], title="Hard pictures", runs=[work / "trial"], out=work / "hard")
    longshot.train(
        "protonet(query=3, shot=2, way=2)",
        dataset,
        network="cnn4(width=4)",
        size=16,
        steps=20,
        validate_every=10,
        validation_tasks=10,
        out=work / "trained",
    )
    longshot.run_study(
        "many-way-small",
        images,
        settings={"ways": [2, 3], "shots": [1], "tasks": 6, "query": 2, "methods": ["protonet"]},
        out=work / "study",
        workers=1,
    )
    return work


@pytest.fixture(scope="module")
def served(laboratory: Path) -> Iterator[Client]:
    explorer = longshot.serve(laboratory, port=19320)
    yield Client(explorer)
    explorer.close()


@pytest.fixture(scope="module")
def addresses(served: Client, laboratory: Path) -> dict[str, str]:
    data, bed = served.dataset(laboratory.parent / "pictures"), served.item("testbed", "difficult")
    run, release = served.item("run", "trial"), served.item("release", "hard")
    study, training = served.item("study", "study"), served.item("training", "trained")
    served.made(f"{run}/report/results")
    sections = [link for link in served.links(run) if "/report/" in link]
    assert len(sections) > 5
    return {
        "training": training,
        "study": study,
        "release": release,
        "verification": f"{release}/verify",
        "suite's board": served.item("board", "bench"),
        "board": f"{bed}/board",
        "histograms": f"{bed}/plots",
        "why": f"{bed}/task/3/why",
        "classes of a run": f"{run}/classes",
        "plots": f"{run}/plot",
        "classes": f"{bed}/classes",
        "dataset": data,
        "taxonomy": f"{data}/taxonomy",
        "attributes": f"{data}/attributes",
        "chosen": f"{data}/images?where=place+%3D%3D+garden+and+light+%3E+2",
        "facts": f"{data}/facts",
        "suspects": f"{data}/suspects",
        **{link.rsplit("/", 1)[-1]: link for link in sections},
        "home": "/",
    }


@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_on_every_screen(
    browser: Any, served: Client, addresses: dict[str, str], screen: str
) -> None:
    with reading(browser, served, screen) as window:
        for path in addresses.values():
            served.made(path)
            window.check(path)


def test_pages_say_what_they_are_about(browser: Any, served: Client, addresses: dict[str, str]) -> None:
    with reading(browser, served) as window:
        for name, sentence in {
            "training": r"Validation accuracy[\s\S]*Episode 1",
            "study": r"Claim[\s\S]*Verdict",
            "release": r"All runs on these testbeds[\s\S]*Difficulty",
            "verification": r"checks agree",
            "board": r"Leaderboard[\s\S]*protonet[\s\S]*judge",
            "classes": r"Taxonomy[\s\S]*times in a task",
            "facts": r"1 file of other kinds",
            "chosen": r"\d+–\d+ of \d+ images",
            "plots": r"Accuracy against difficulty[\s\S]*task by task",
        }.items():
            served.made(addresses[name])
            window.open(addresses[name])
            window.wait_for(sentence, 30)


def test_arrow_keys_stay_within_the_chosen_images(
    browser: Any, served: Client, addresses: dict[str, str]
) -> None:
    with reading(browser, served) as window:
        window.open(addresses["chosen"])
        tiles = window.page.locator(".gallery a.tile")
        order = [tiles.nth(number).get_attribute("href") for number in range(3)]
        tiles.nth(0).click()
        window.arrive(order[0])
        for path in order[1:]:
            window.page.keyboard.press("ArrowRight")
            window.arrive(path)
        window.page.keyboard.press("Escape")
        window.arrive(addresses["chosen"])


def test_a_bar_of_an_attribute_leads_to_its_images(
    browser: Any, served: Client, addresses: dict[str, str]
) -> None:
    with reading(browser, served) as window:
        window.open(addresses["attributes"])
        window.page.locator("svg.bars a", has_text="garden").first.click()
        window.page.wait_for_load_state("networkidle")
        assert "1–48 of 120 images" in window.page.locator(".pager").first.inner_text()


def test_without_scripts_every_page_has_its_content(
    browser: Any, served: Client, addresses: dict[str, str]
) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        for path in addresses.values():
            served.made(path)
            answer = page.goto(f"http://127.0.0.1:{served.port}{path}")
            assert answer.status == 200 and page.locator("main section").count() > 0, path
            assert page.locator("button:visible").count() == page.locator("form button:visible").count()
    finally:
        context.close()


@pytest.mark.parametrize("name", ["training", "release", "board", "attributes", "drop", "classes"])
def test_any_view_opens_from_disk(
    browser: Any, served: Client, addresses: dict[str, str], name: str, tmp_path: Path
) -> None:
    served.made(addresses[name])
    index = served.explorer.export(addresses[name], tmp_path / "copy", pages=6)
    context = browser.new_context()
    try:
        page = context.new_page()
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.goto(index.as_uri())
        assert page.locator("main section").count() > 0
        assert page.locator("[data-served], form").count() == 0
        links = page.locator("a[href]").evaluate_all("nodes => nodes.map(node => node.getAttribute('href'))")
        assert all((index.parent / link.split("#")[0]).is_file() for link in links if link)
        assert all(url.startswith(("file:", "data:")) for url in requested)
    finally:
        context.close()
