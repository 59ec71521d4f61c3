"""The whole way: a shifted testbed on the command line, sentences, a page with pictures, other testbeds beside it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pyarrow.csv as pacsv
import pytest
from PIL import Image

from conftest import RunCli
from forked import ForkServer
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
    explained = json.loads(run_cli("explain", beds / "shifted.parquet", "--json").stdout)
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
    assert "'dim' in 100 % of the support, 0 % of the queries, in every class" in printed
    assert "lie nearest to a support image of" in printed
    assert "Gap: matched" in printed and "--intervene" not in printed
    text = page.read_text()
    assert "<b>gold" not in text and "&lt;b&gt;gold" in text
    assert text.count("data:image/webp") > 20
    assert "dim = yes · matched" in text


def test_where_nothing_differs_the_next_step_is_named(beds: Path, run_cli: RunCli) -> None:
    printed = run_cli("explain", beds / "matched.parquet", "--no-pixels").stdout
    assert (
        "0 of 20 tasks of 'matched' have a cause" in printed and "--backbone NETWORK --intervene" in printed
    )


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


def test_an_annotated_cause_comes_before_its_symptoms_and_adds_up(
    beds: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    """Dim supports, bright queries: to raw pixels light is everything."""
    page = tmp_path / "why.html"
    arguments = ("explain", beds / "shifted.parquet", "--backbone", "pixels", "--intervene")
    printed = run_cli(*arguments, "--top", "1", "--html", page).stdout
    assert "points of accuracy are lost against supports like the queries" in printed
    assert "What to do next, with photos like the queries in dim" in printed
    assert "add 3 photos like these to every class: +" in printed
    text = page.read_text()
    assert "What is lost, and what to do" in text and "because of dim" in text and "How images look" in text
    plain = json.loads(run_cli(*arguments, "--json", "--method", "nearest-neighbour").stdout)
    assert len(plain["tasks"]) == 20  # all of them, whatever --top is
    assert all(task["findings"][0]["attribute"] == "dim" for task in plain["tasks"])
    (account,), dim = plain["accounts"], plain["interventions"][0]
    assert dim["kind"] == "dim" and dim["holds"] and dim["points"]["low"] > 0 and dim["of"] == 20
    parts = [share["points"]["mean"] for share in account["shares"]]
    assert sum(parts) == pytest.approx(account["loss"]["mean"]) and account["fresh"]
    assert account["shares"][0]["kind"] == "dim" and 0.5 < account["share"]["mean"] <= 1
    exchange = dim["examples"][0]
    odd = [int(Path(key).stem) % 2 for key in (*exchange["removed"], *exchange["added"])]
    assert odd == [1] * len(exchange["removed"]) + [0] * len(exchange["added"])
    assert plain["remedies"][0]["gain"]["low"] > 0 and plain["looks"]["shots"]


def test_a_killed_explain_goes_on_with_what_it_learnt_of_alterations(
    beds: Path, dimmed: Path, tmp_path: Path, forks: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path))
    command = ("explain", beds / "shifted.parquet", "--dataset", f"shots={dimmed}")
    killed = forks.start(*command)
    while len(learnt := list(tmp_path.rglob("*.parts-signatures/shard-*.npy"))) < 3:
        assert killed.poll() is None, killed.communicate()[1]
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    learnt = list(tmp_path.rglob("*.parts-signatures/shard-*.npy"))
    answer, printed = forks.start(*command).communicate()
    # 40 images in 93 forms, 128 at a time
    assert f"resuming: {len(learnt)} of 30 parts were read earlier" in printed
    assert "20 of 20 tasks" in answer and not list(tmp_path.rglob("*.parts-signatures"))


def test_attributes_are_written_and_read_back(dimmed: Path, tmp_path: Path, run_cli: RunCli) -> None:
    out = tmp_path / "attributes.csv"
    printed = run_cli("attributes", dimmed, "-o", out).stdout
    assert "brightness" in printed and "dim" in printed
    table = pacsv.read_csv(out)
    assert table.num_rows == 240 and {"path", "dim", "sharpness", "hue"} <= set(table.column_names)
    wrong = run_cli("attributes", dimmed, "-o", tmp_path / "a.txt", check=False)
    assert wrong.returncode == 2 and ".csv or .parquet" in wrong.stderr


def test_suggested_shifts_cost_what_evaluation_says(dimmed: Path, tmp_path: Path, run_cli: RunCli) -> None:
    """The cost of the annotation is the difference of two testbeds drawn and evaluated by the other commands."""
    shots = tmp_path / "shots"
    shutil.copytree(dimmed, shots)
    shape = ("--tasks", "20", "--way", "4", "--shot", "4", "--query", "4")
    common = ("attributes", "suggest", shots, "--backbone", "pixels", *shape)
    ranked = json.loads(run_cli(*common, "-o", shots / "attributes.csv", "--force", "--json").stdout)
    dim = next(each for each in ranked if each["attribute"] == "dim")
    means = []
    for kind in ("matched", "shifted"):
        bed = tmp_path / f"{kind}.parquet"
        run_cli("sample", shots, *shape, "--instances", kind, "--attribute", "dim", "--drop-small", "-o", bed)
        results = evaluate(bed, backbones="pixels", methods="protonet", out=tmp_path / kind)
        means.append(results.table().column("accuracy").to_numpy().mean())
    assert dim["cost"]["mean"] == pytest.approx(means[0] - means[1], abs=1e-6)
    assert dim["source"] == "annotated" and dim["cost"]["low"] > 0 and dim["adjusted"] < 0.01
    costs = [each["cost"]["mean"] for each in ranked if each["tasks"]]
    assert costs == sorted(costs, reverse=True) and {each["source"] for each in ranked} == {
        *("annotated", "pixels", "look")
    }
    assert all(bool(each["left_out"]) == (each["tasks"] == 0) for each in ranked)
    look = next(each["attribute"] for each in ranked if each["source"] == "look" and each["tasks"])
    run_cli(
        "sample",
        shots,
        *shape,
        "--drop-small",
        "--instances",
        "shifted",
        "--attribute",
        look,
        "-o",
        bed,
        "--force",
    )
    printed = run_cli(*common, "--no-pixels").stdout
    assert "query no; support yes" in printed or "query yes; support no" in printed


def test_coverage_is_told(dimmed: Path, beds: Path, tmp_path: Path, run_cli: RunCli) -> None:
    keys = open_dataset(dimmed).keys.to_pylist()
    file = tmp_path / "some.csv"
    file.write_text(
        "path,weather\n"
        + "".join(f'"{key}",{"sun" if i % 3 else "rain"}\n' for i, key in enumerate(keys[:60]))
    )
    done = run_cli("explain", beds / "shifted.parquet", "--attributes", f"shots={file}", "--no-pixels")
    assert "'weather' is known for 60 of 240 images (25 %)" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--task", "99"), "has no task 99; its 20 tasks"),
        (("--focus", "ridge"), "goes with --run only"),
        (("--attributes", "shots=nowhere.csv"), "Cannot read the attributes nowhere.csv"),
        (("--run", "nowhere"), "is not the folder of a run"),
        (("--intervene",), "no backbone is chosen; choose one, as in --backbone pixels"),
        (("--intervene", "--backbone", "pixels", "--method", "maml"), "choose a method on features"),
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
