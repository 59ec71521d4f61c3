"""``longshot inspect --html``: a testbed as a page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.reports import render_testbed
from longshot.reports.data_pages import choose_pictured
from longshot.tasks import AnyShape, FixedShape, Testbed, describe, sample

ATTACK = "<script>window.hacked = true</script>"
SMALL = ("--tasks", "12", "--way", "3", "--shot", "2", "--query", "3")


def grey(_: str, keys: Sequence[str]) -> list[Image.Image]:
    return [Image.new("RGB", (40, 30), (90, 90, 90)) for _ in keys]


def measured(make_dataset: Any, tasks: int = 9, **columns: Sequence[Any]) -> Testbed:
    """A testbed whose tasks carry the given columns."""
    values = {name: np.asarray(column) for name, column in columns.items()}
    return sample(
        make_dataset([12] * 5),
        tasks=tasks,
        shape=FixedShape(3, 2, 2),
        measures=[lambda *_: values] if values else [],
    )


def page(bed: Testbed, **options: Any) -> str:
    return render_testbed(bed, name="bed.parquet", **{"images": grey, **options})


# --- what is there, and when ---


def test_the_origin_is_told(make_dataset) -> None:
    bed = measured(make_dataset)
    text = page(bed)
    for fact in (
        bed.content_hash,
        bed.datasets["small"],
        "fixed(query=2, shot=2, way=3)",
        "<dt>seed</dt><dd>0</dd>",
    ):
        assert fact in text


@pytest.mark.parametrize(
    ("columns", "present", "absent"),
    [
        ({}, ["Class balance of small"], ["Coarsity is", 'id="selection"', 'id="shape"', 'id="measured"']),
        ({"coarsity": np.arange(9.0)}, ["Coarsity is the mean"], ['id="selection"', 'id="measured"']),
        (
            {"loss_before": np.arange(9.0), "loss_after": np.arange(9.0) + 1},
            ['id="selection"', "Higher after selection in 9 of 9 tasks, lower in 0."],
            ['id="measured"', "the dashed line guessing"],
        ),
        ({"loss_after": np.arange(9.0)}, ['id="measured"', "loss_after"], ['id="selection"']),
        ({"steps": [1] * 9}, ["The same in every task", "steps"], ["Gradient steps"]),
        ({"refine_rounds": [0, 1, 2] * 3}, ["Frank–Wolfe rounds"], ["The same in every task"]),
        ({"mood": ["sunny"] * 9}, ["Not numbers, or empty"], ["The same in every task"]),
    ],
    ids=["nothing", "coarsity", "change", "half-a-change", "constant", "rounds", "words"],
)
def test_sections_follow_the_columns(make_dataset, columns, present, absent) -> None:
    text = page(measured(make_dataset, **columns), pictures=0)
    assert [piece for piece in present if piece not in text] == []
    assert [piece for piece in absent if piece in text] == []


def test_shapes_are_drawn_where_they_vary(make_dataset) -> None:
    shape = AnyShape(min_way=2, max_way=4, min_shot=2, max_shot=2, query=3)
    text = page(sample(make_dataset([12] * 5), tasks=20, shape=shape), pictures=0)
    assert ">Ways<" in text and ">Support size<" in text and ">Shots<" not in text


def test_every_plot_says_how_to_read_it(make_dataset) -> None:
    columns = {"coarsity": np.arange(9.0), "accuracy_before": np.ones(9), "accuracy_after": np.zeros(9)}
    text = page(measured(make_dataset, **columns), pictures=0)
    assert text.count('class="plot"') == text.count('class="reading how"') == 3


@pytest.mark.parametrize("value", [np.nan, np.inf], ids=["nan", "infinite"])
def test_unknown_measures_are_left_out(make_dataset, value: float) -> None:
    text = page(measured(make_dataset, loss_before=np.zeros(9), loss_after=[value, *range(1, 9)]), pictures=0)
    assert "Higher after selection in 8 of 8 tasks" in text


def test_names_are_escaped(make_dataset) -> None:
    dataset = make_dataset({f"{ATTACK}/{ATTACK}{i}": 12 for i in range(5)}, name=ATTACK)
    column = {f"{ATTACK}": np.arange(9.0), f"{ATTACK}_before": np.zeros(9), f"{ATTACK}_after": np.ones(9)}
    bed = sample(dataset, tasks=9, shape=FixedShape(3, 2, 2), measures=[lambda *_: column])
    text = render_testbed(bed, name=f"{ATTACK}.parquet", images=grey)
    assert "<script>window" not in text and "&lt;script&gt;window" in text


def test_the_ends_of_the_balance_are_named(make_dataset) -> None:
    uneven = measured(make_dataset)
    first, *_, last = describe.balances(uneven)[0].counts.items()
    text = page(uneven, pictures=0)
    assert f"Most often: {first[0]} ({first[1]})" in text and f"Least often: {last[0]} ({last[1]})" in text
    even = sample(make_dataset([12] * 3), tasks=4, shape=FixedShape(3, 2, 2))
    assert "Every class in 4 tasks. 0 of 3 classes outside" in page(even, pictures=0)


# --- which tasks ---


def test_both_ends_and_a_few_at_random(make_dataset) -> None:
    groups = dict(choose_pictured(measured(make_dataset, coarsity=[5.0, 1, 9, 2, 8, 5, 5, 5, 5]), 2))
    assert groups["Finest: lowest coarsity"] == [1, 3] and groups["Coarsest: highest coarsity"] == [2, 4]
    assert len(groups["Drawn at random"]) == 2 and not {1, 2, 3, 4} & set(groups["Drawn at random"])


def test_selected_images_are_ordered_by_accuracy(make_dataset) -> None:
    bed = measured(make_dataset, coarsity=np.arange(9.0), accuracy_after=[0.5, 0.1, 0.9, *[0.5] * 6])
    groups = choose_pictured(bed, 1)
    assert [rows for _, rows in groups[:2]] == [[1], [2]] and "Hardest" in groups[0][0]


@pytest.mark.parametrize("columns", [{}, {"coarsity": [3.0] * 9}], ids=["unmeasured", "constant"])
def test_only_random_tasks_without_a_scale(make_dataset, columns) -> None:
    bed = measured(make_dataset, **columns)
    assert [heading for heading, _ in choose_pictured(bed, 3)] == ["Drawn at random"]
    assert choose_pictured(bed, 3) == choose_pictured(bed, 3)


def test_no_task_is_shown_twice(make_dataset) -> None:
    bed = measured(make_dataset, tasks=3, coarsity=[1.0, 2, 3])
    rows = [row for _, group in choose_pictured(bed, 5) for row in group]
    assert sorted(rows) == [0, 1, 2]


def test_all_support_and_query_images_of_a_small_task(make_dataset) -> None:
    text = page(measured(make_dataset), pictures=2)
    assert text.count('alt="support of') == 2 * 3 * 2 and text.count('alt="query of') == 2 * 3 * 2


def test_a_missing_dataset_is_one_line(make_dataset) -> None:
    def images(name: str, keys: Sequence[str]) -> list[Image.Image]:
        raise UserError("The dataset 'small' is gone.")

    text = page(measured(make_dataset), images=images)
    assert text.count("No pictures: The dataset &#39;small&#39; is gone.") == 1
    assert "<img" not in text and "Class balance" in text


# --- the command ---


@pytest.fixture(scope="module")
def beds(photos: Path, run_cli, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A uniform, a semantic, a varied and a difficult testbed of real pictures."""
    folder = tmp_path_factory.mktemp("beds")
    kinds = {
        "uniform": SMALL,
        "semantic": (*SMALL, "--classes", "semantic"),
        "varied": ("--shape", "any", "--tasks", "12", "--way", "5", "--shot", "8", "--query", "4"),
        "difficult": (*SMALL, "--instances", "difficult", "--backbone", "pixels", "--refine", "2"),
    }
    for name, options in kinds.items():
        run_cli("sample", photos, *options, "-o", folder / f"{name}.parquet")
    return {name: folder / f"{name}.parquet" for name in kinds}


@pytest.fixture(scope="module")
def pages(beds: dict[str, Path], run_cli) -> dict[str, Path]:
    for path in beds.values():
        run_cli("inspect", path, "--html", path.with_suffix(".html"), "--pictures", "1")
    return {name: path.with_suffix(".html") for name, path in beds.items()}


@pytest.mark.parametrize(
    ("kind", "present"),
    [
        ("uniform", "Finest: lowest coarsity"),
        ("semantic", "semantic(alpha="),
        ("varied", ">Ways<"),
        ("difficult", "Hardest: lowest accuracy after selection"),
    ],
)
def test_the_command_writes_each_kind(pages: dict[str, Path], kind: str, present: str) -> None:
    text = pages[kind].read_text(encoding="utf-8")
    assert present in text and "data:image/webp;base64," in text and "No pictures" not in text


def test_the_terminal_shows_balance_coarsity_and_change(beds: dict[str, Path], run_cli) -> None:
    out = run_cli("inspect", beds["difficult"]).stdout
    for text in ("class balance of", "\ncoarsity\n", "\nloss 0.", " after selection: higher in", " before █"):
        assert text in out
    assert "loss_before" not in out


def test_the_change_as_json(beds: dict[str, Path], run_cli, tmp_path: Path) -> None:
    done = run_cli("inspect", beds["difficult"], "--json", "--html", tmp_path / "page.html")
    facts = json.loads(done.stdout)
    assert facts["changes"]["loss"]["after"] > facts["changes"]["loss"]["before"]
    assert facts["changes"]["loss"]["tasks"] == 12 and Path(facts["html"]).is_file()


def test_a_dataset_that_is_gone_leaves_a_page_without_pictures(
    photos: Path, run_cli, fresh_cache: Path, tmp_path: Path
) -> None:
    shutil.copytree(photos, tmp_path / "gone")
    run_cli("sample", "gone", *SMALL, "-o", "a.parquet", cwd=tmp_path)
    (tmp_path / "gone").rename(tmp_path / "moved")
    run_cli("inspect", "a.parquet", "--html", "without.html", cwd=tmp_path)
    text = (tmp_path / "without.html").read_text(encoding="utf-8")
    assert text.count("No pictures: ") == 1 and "<img" not in text
    run_cli("inspect", "a.parquet", "--html", "with.html", "--dataset", "gone=moved", cwd=tmp_path)
    assert "<img" in (tmp_path / "with.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pictures", "3"], "--pictures 3 goes with --html only"),
        (["--html", "uniform.parquet"], "ends in .parquet, but a page is written as .html"),
        (["--html", "a.html", "--dataset", "other=x"], "no dataset 'other'; it has: "),
    ],
)
def test_mistakes(beds: dict[str, Path], run_cli, options: list[str], message: str) -> None:
    before = beds["uniform"].read_bytes()
    done = run_cli("inspect", "uniform.parquet", *options, cwd=beds["uniform"].parent, check=False)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert beds["uniform"].read_bytes() == before


# --- in a real browser ---


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["semantic", "varied", "difficult"])
def test_opens_from_disk_silently_and_fits_a_phone(browser: Any, pages: dict[str, Path], kind: str) -> None:
    opened = browser.new_context(viewport={"width": 390, "height": 844}).new_page()
    printed: list[str] = []
    requested: list[str] = []
    opened.on("console", lambda message: printed.append(message.text))
    opened.on("pageerror", lambda error: printed.append(str(error)))
    opened.on("request", lambda request: requested.append(request.url))
    address = pages[kind].resolve().as_uri()
    opened.goto(address)
    opened.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert [url for url in requested if not url.startswith("data:")] == [address] and printed == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    assert opened.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert opened.locator("header dt").all_text_contents() == ["Testbeds"]


@pytest.mark.browser
def test_hostile_names_stay_text_and_fit_a_phone(browser: Any, make_dataset, tmp_path: Path) -> None:
    long = f"{ATTACK}{'x' * 120}"
    dataset = make_dataset({f"{long}/{long}{i}": 12 for i in range(5)}, name=long)
    column = {long: np.arange(9.0), f"{long}_before": np.zeros(9), f"{long}_after": np.ones(9)}
    bed = sample(dataset, tasks=9, shape=FixedShape(3, 2, 2), measures=[lambda *_: column])
    (tmp_path / "page.html").write_text(
        render_testbed(bed, name=f"{long}.parquet", images=grey), encoding="utf-8"
    )
    opened = browser.new_context(viewport={"width": 390, "height": 844}).new_page()
    opened.goto((tmp_path / "page.html").as_uri())
    assert opened.evaluate("window.hacked === undefined")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
