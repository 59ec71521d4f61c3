"""The whole way: a shifted testbed on the command line, sentences, a page with pictures, other testbeds beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.csv as pacsv
import pytest
from PIL import Image

from conftest import RunCli
from longshot.base import UserError
from longshot.data import open_dataset
from longshot.diagnosis import explain
from longshot.evaluation import evaluate
from longshot.tasks import Testbed, sample


@pytest.fixture(scope="module")
def dimmed(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The photos, every second one at a third of its light; the class 'gold' is called something with HTML in it."""
    root = tmp_path_factory.mktemp("dimmed") / "shots"
    for path in sorted(photos.rglob("*.jpg")):
        copy = root / str(path.relative_to(photos)).replace("gold", "<b>gold")
        copy.parent.mkdir(parents=True, exist_ok=True)
        image = Image.open(path)
        (image.point(lambda v: v // 3) if int(path.stem) % 2 else image).save(copy, quality=90)
    lines = ["path,dim"]
    for path in sorted(root.rglob("*.jpg")):
        lines.append(f"{path.relative_to(root)},{'true' if int(path.stem) % 2 else 'false'}")
    (root / "attributes.csv").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture(scope="module")
def beds(dimmed: Path, tmp_path_factory: pytest.TempPathFactory, run_cli: RunCli) -> Path:
    out = tmp_path_factory.mktemp("beds")
    shape = ("--tasks", "20", "--way", "5", "--shot", "4", "--query", "6")
    rules = ("--query-where", "not dim", "--support-where", "dim")
    run_cli("sample", dimmed, *shape, "--instances", "shifted", *rules, "-o", out / "shifted.parquet")
    run_cli("sample", dimmed, *shape, "--instances", "matched", *rules, "-o", out / "matched.parquet")
    return out


@pytest.mark.long
def test_brightness_is_named_beside_the_annotation(beds: Path, run_cli: RunCli) -> None:
    explained = json.loads(run_cli("explain", beds / "shifted.parquet", "--json", "--top", "20").stdout)
    firsts = [task["findings"][0]["attribute"] for task in explained["tasks"]]
    assert set(firsts) <= {"dim", "brightness", "darkened"} and len(firsts) == 20
    every = [
        {each["attribute"] for finding in task["findings"] for each in (finding, *finding["symptoms"])}
        for task in explained["tasks"]
    ]
    assert sum("brightness" in names for names in every) >= 18


def test_the_page_escapes_and_shows(beds: Path, tmp_path: Path, run_cli: RunCli) -> None:
    page = tmp_path / "why.html"
    printed = run_cli(
        "explain", beds / "shifted.parquet", beds / "matched.parquet", "--backbone", "pixels", "--html", page
    ).stdout
    assert "20 of 20 tasks of 'shifted' have a cause" in printed
    assert "'dim' in 100% of the support, 0% of the queries, in every class" in printed
    assert "lie nearest to a support image of" in printed
    assert "gap, matched" in printed
    text = page.read_text()
    assert "<b>gold" not in text and "&lt;b&gt;gold" in text
    assert text.count("data:image/webp") > 20
    assert "dim = yes · matched" in text


def test_a_run_orders_tasks_and_correlates(beds: Path, dimmed: Path, tmp_path: Path, run_cli: RunCli) -> None:
    bed = beds / "shifted.parquet"
    results = evaluate(bed, backbones="pixels", methods=["protonet", "ridge"], out=tmp_path / "run")
    explained = json.loads(
        run_cli("explain", bed, "--run", tmp_path / "run", "--focus", "ridge", "--json", "--top", "20").stdout
    )
    accuracy = [task["accuracy"] for task in explained["tasks"]]
    assert accuracy == sorted(accuracy)
    rows = results.table().to_pylist()
    ridge = {row["task"]: row["accuracy"] for row in rows if row["method"] == "ridge"}
    assert {task["task"]: task["accuracy"] for task in explained["tasks"]} == pytest.approx(ridge)
    assert -1 <= explained["accuracy_and_inverse_loss"]["r"] <= 1


def test_what_is_taken_away_comes_back(beds: Path, run_cli: RunCli) -> None:
    """Dim supports, bright queries: to raw pixels light is everything, and half of the photos are dim."""
    arguments = ("explain", beds / "shifted.parquet", "--backbone", "pixels", "--intervene", "replace")
    printed = run_cli(*arguments, "--top", "1").stdout
    assert "because of dim: 20 of 20 tasks, " in printed and "Causes taken away" in printed
    # uniform supports are half dim, which is no better than dim to raw pixels
    assert "shots: its supports are not shown to be harder than uniform ones" in printed
    plain = json.loads(run_cli(*arguments, "--json", "--method", "nearest-neighbour").stdout)
    assert plain["accounts"][0]["of"] == 20 and "sentence" in plain["accounts"][0]
    dim = next(each for each in plain["interventions"] if each["kind"] == "dim")
    assert dim["holds"] and dim["against"] == "same" and dim["recovered"]["low"] > 0
    assert dim["tasks"] <= dim["suspected"] <= dim["of"] == 20
    exchange = dim["examples"][0]
    odd = [int(Path(key).stem) % 2 for key in (*exchange["removed"], *exchange["added"])]
    assert odd == [1] * len(exchange["removed"]) + [0] * len(exchange["added"])


def test_the_same_images_altered_are_the_control(beds: Path, dimmed: Path, tmp_path: Path) -> None:
    """Without its annotation the dim light is named, and bright images lose to raw pixels when they are dimmed."""
    dataset = replace(open_dataset(dimmed), attributes=None)
    page = tmp_path / "why.html"
    explanation = explain(
        beds / "shifted.parquet",
        datasets={"shots": dataset},
        backbone="pixels",
        intervene="pixels",
        html=page,
    )
    light = next(each for each in explanation.interventions if each.kind == "brightness")
    assert light.how == "pixels" and light.against == "same" and light.tasks >= 18
    assert light.holds and light.recovered is not None and light.recovered.mean > 0.05
    assert light.sentence.startswith(f"because of brightness: {light.tasks} of 20 tasks, ")
    assert "Causes taken away" in page.read_text() and "because of brightness" in page.read_text()


def test_twins_need_a_network(beds: Path) -> None:
    with pytest.raises(
        UserError, match="embeds altered images, and the backbone is not the name of a network"
    ):
        explain(beds / "shifted.parquet", intervene="pixels", backbone="npy:features.npy")


def test_a_way_to_intervene_that_does_not_exist(beds: Path) -> None:
    with pytest.raises(UserError, match="intervene is 'repair', but it must be none, replace, pixels"):
        explain(beds / "shifted.parquet", intervene="repair", backbone="pixels")


def test_attributes_are_written_and_read_back(dimmed: Path, tmp_path: Path, run_cli: RunCli) -> None:
    out = tmp_path / "attributes.csv"
    printed = run_cli("attributes", dimmed, "-o", out).stdout
    assert "brightness" in printed and "dim" in printed
    table = pacsv.read_csv(out)
    assert table.num_rows == 240 and {"path", "dim", "sharpness", "hue"} <= set(table.column_names)
    wrong = run_cli("attributes", dimmed, "-o", tmp_path / "a.txt", check=False)
    assert wrong.returncode == 2 and ".csv or .parquet" in wrong.stderr


def test_coverage_is_told(dimmed: Path, beds: Path, tmp_path: Path, run_cli: RunCli) -> None:
    keys = open_dataset(dimmed).keys.to_pylist()
    file = tmp_path / "some.csv"
    file.write_text(
        "path,weather\n"
        + "".join(f'"{key}",{"sun" if i % 3 else "rain"}\n' for i, key in enumerate(keys[:60]))
    )
    done = run_cli("explain", beds / "shifted.parquet", "--attributes", f"shots={file}", "--no-pixels")
    assert "'weather' is known for 60 of 240 images (25%)" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--task", "99"), "has no task 99; its 20 tasks"),
        (("--focus", "ridge"), "goes with --run only"),
        (("--attributes", "shots=nowhere.csv"), "Cannot read the attributes nowhere.csv"),
        (("--run", "nowhere"), "is not the folder of a run"),
        (("--intervene", "replace"), "no backbone is chosen; choose one, as in --backbone pixels"),
        (("--intervene", "repair"), "'repair' is not one of"),
        (
            ("--intervene", "replace", "--backbone", "pixels", "--method", "maml"),
            "choose a method on features",
        ),
    ],
)
def test_mistakes_are_one_sentence(
    beds: Path, run_cli: RunCli, arguments: tuple[str, ...], sentence: str
) -> None:
    done = run_cli("explain", beds / "shifted.parquet", *arguments, check=False)
    assert done.returncode == 2 and sentence in done.stderr and "Traceback" not in done.stderr


def test_a_dataset_without_attributes_says_so(photos: Path) -> None:
    bed: Testbed = sample(open_dataset(photos), tasks=3, seed=0)
    with pytest.raises(UserError, match="has no attribute that can be compared"):
        explain(bed, no_pixels=True)
