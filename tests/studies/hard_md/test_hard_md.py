"""Hard-Meta-Dataset++ as a study: the same queries, every number from the rows, what is impossible told, resumable."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from longshot.base import UserError
from longshot.evaluation import Results
from longshot.models import ALIASES, split_sight
from longshot.studies import estimate_study, get_study, layered, run_study
from longshot.studies.engine.presets import open_data
from longshot.studies.engine.study_tables import published_paper
from longshot.studies.hard_md.hard_md_claims import hard_claims
from longshot.studies.hard_md.hard_md_plan import paper_backbone
from longshot.studies.hard_md.hard_md_testbeds import HardSettings
from longshot.tasks import Testbed

PRINTED = published_paper("longshot.studies.hard_md").tables
TINY = (
    *(
        "networks={}",
        "judge=pixels",
        "backbones=[pixels]",
        "adapted=[]",
        "tasks=8",
        "way=3",
        "shot=3",
        "query=5",
    ),
    *("max_way=6", "max_support=40", "candidates=24", "more_tasks=12", "semantic_tasks=8", "steps=[1, 3]"),
    *(
        "objects_tasks=6",
        "objects_query=1",
        "curated_tasks=8",
        "curated_query=2",
        "rounds=[1]",
        "greedy_rounds=1",
        "split=all",
    ),
)


@pytest.fixture(scope="module")
def done(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A whole tiny study on one source, with every ablation."""
    out = tmp_path_factory.mktemp("hard") / "study"
    study = layered(get_study("hard-md-small"), None, TINY)
    return out, run_study(study, f"shots={photos}", out=out, workers=1)


def beds(out: Path) -> dict[str, Testbed]:
    return {path.stem: Testbed.load(path) for path in sorted((out / "testbeds").glob("*.parquet"))}


@pytest.mark.parametrize("shape", ["variable", "fixed"])
def test_the_three_kinds_share_their_queries(done: tuple[Path, Any], shape: str) -> None:
    testbeds = beds(done[0])
    uniform, *chosen = (testbeds[f"shots-{kind}-{shape}"] for kind in ("uniform", "difficult", "easy"))
    for other in chosen:
        assert uniform.table["query"].equals(other.table["query"])
        assert uniform.table["shots"].equals(other.table["shots"])
        assert not uniform.table["support"].equals(other.table["support"])


def accuracy(table: pa.Table, bed: Testbed, method: str) -> np.ndarray[Any, Any]:
    mask = pc.and_(pc.equal(table["testbed"], bed.content_hash), pc.equal(table["method"], method))
    return table.filter(mask).sort_by("task")["accuracy"].to_numpy()


def test_every_number_of_the_stress_test_is_in_the_rows(done: tuple[Path, Any]) -> None:
    out, outcome = done
    rows, testbeds = Results(out / "run").table(), beds(out)
    records = next(table for table in outcome.tables if table.stem == "stress").records
    assert len(records) == 2 * 2 * 4
    for record in records:
        by_kind = {
            kind: accuracy(rows, testbeds[f"shots-{kind}-{record['shape']}"], record["method"])
            for kind in ("uniform", "difficult", "easy")
        }
        values = (
            by_kind["uniform"] - by_kind["difficult"] if record["kind"] == "drop" else by_kind[record["kind"]]
        )
        assert record["mean"] == pytest.approx(values.mean())


def test_difficult_supports_are_harder_and_easy_ones_easier(done: tuple[Path, Any]) -> None:
    out, _ = done
    rows, testbeds = Results(out / "run").table(), beds(out)
    hard, plain, easy = (
        accuracy(rows, testbeds[f"shots-{kind}-fixed"], "protonet").mean()
        for kind in ("difficult", "uniform", "easy")
    )
    assert hard < plain < easy


def test_all_tables_and_figures_are_there(done: tuple[Path, Any]) -> None:
    out, outcome = done
    stems = {table.stem for table in outcome.tables}
    expected = {
        "claims",
        "stress",
        "extraction",
        "objectives",
        "semantic",
        "steps",
        "greedy",
        "filtered",
        "tasks",
        "queries",
        "why",
    }
    assert stems == expected
    for stem in stems:
        assert (out / "tables" / f"{stem}.md").read_text()
    names = {Path(name).stem for name in outcome.figures}
    assert {
        "stress-fixed-protonet",
        "steps",
        "greedy",
        "ways",
        "gaps-shots",
    } <= names
    assert "Published, not measured here" in (out / "tables" / "extraction.md").read_text()


def test_greedy_has_its_time_and_accuracy(done: tuple[Path, Any]) -> None:
    records = next(table for table in done[1].tables if table.stem == "greedy").records
    searches = ("FastDiffSel", "greedy search")
    kinds = {f"{search}, {objective}" for search in searches for objective in ("prototype", "error")}
    assert {record["kind"] for record in records} == kinds
    assert all(record["milliseconds"] > 0 for record in records)


def test_the_same_command_does_nothing_again(done: tuple[Path, Any], photos: Path, capsys: Any) -> None:
    out, _ = done
    before = {path: path.stat().st_mtime_ns for path in (out / "testbeds").iterdir()}
    study = layered(get_study("hard-md-small"), None, TINY)
    again = run_study(study, f"shots={photos}", out=out, workers=1)
    assert {path: path.stat().st_mtime_ns for path in (out / "testbeds").iterdir()} == before
    steps = {step["step"]: step["did"] for step in again.did}
    assert set(steps.values()) == {"kept"}


def test_the_estimate_counts_what_the_run_would_evaluate(photos: Path, tmp_path: Path) -> None:
    study = layered(get_study("hard-md-small"), None, [*TINY, "ablations=[greedy, objects]"])
    estimate = estimate_study(study, f"shots={photos}", out=tmp_path / "study", workers=1)
    evaluated = [step for step in estimate.steps if step["step"] == "evaluate"]
    stress, searches = 2 * 3 * 2, 2 * 2  # shapes × kinds × methods; losses × searches
    assert len(evaluated) == stress + searches and {step["left"] for step in evaluated} == {8}
    assert (
        "shots: objects is left out: none of its attributes counts the objects of an image." in estimate.notes
    )
    assert not (tmp_path / "study").exists()


def test_quartiles_are_those_of_the_coarsity_of_a_taxonomy(done: tuple[Path, Any]) -> None:
    """Nested folders are a taxonomy; the means are those of the rows, task by task."""
    out, outcome = done
    rows, testbeds = Results(out / "run").table(), beds(out)
    table = next(table for table in outcome.tables if table.stem == "semantic")
    coarsity = testbeds["shots-uniform-fixed-semantic"].table["coarsity"].to_numpy()
    bounds = np.quantile(coarsity, [0.25, 0.5, 0.75])
    for kind in ("uniform", "difficult"):
        values = accuracy(rows, testbeds[f"shots-{kind}-fixed-semantic"], "protonet")
        for number in range(4):
            inside = [
                value for value, each in zip(values, coarsity, strict=True) if sum(each > bounds) == number
            ]
            [record] = [
                record for record in table.records if record["kind"] == f"{kind}, quartile {number + 1}"
            ]
            assert record["mean"] == (pytest.approx(np.mean(inside)) if inside else None)


def test_a_shape_that_is_impossible_is_told_not_shrunk(photos: Path, tmp_path: Path) -> None:
    changes = [*TINY, "shot=28", "ablations=[]", "why=false", "drop_small=false"]
    study = layered(get_study("hard-md-small"), None, changes)
    outcome = run_study(study, f"shots={photos}", out=tmp_path / "study", workers=1)
    notes = [note for note in outcome.notes if "impossible" in note]
    assert (
        len(notes) == 1
        and "shots: tasks of fixed shape are impossible" in notes[0]
        and "30 images" in notes[0]
    )
    records = next(table for table in outcome.tables if table.stem == "stress").records
    assert {record["shape"] for record in records} == {"variable"}


def test_small_classes_are_left_out_and_counted(photos: Path, tmp_path: Path) -> None:
    """One class with 7 of the 8 images that a task needs does not take its source out of the study."""
    source = shutil.copytree(photos, tmp_path / "shots")
    for path in sorted((source / "round" / "gold").glob("*.jpg"))[7:]:
        path.unlink()
    changes = [*TINY, "ablations=[]", "why=false", "shapes=[fixed]"]
    outcome = run_study(
        layered(get_study("hard-md-small"), None, changes), f"shots={source}", out=tmp_path / "o", workers=1
    )
    assert (
        "shots: 1 class with too few images for tasks of fixed shape is left out (drop_small)."
        in outcome.notes
    )


def test_the_page_holds_the_study(done: tuple[Path, Any]) -> None:
    page = (done[0] / "report.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 3_000_000
    expected = (
        "Stress test",
        "FastDiffSel against greedy search",
        "random",
        "section 5.3.1",
        "20 to 30 points",
    )
    assert [text for text in expected if text not in page] == []
    assert "All methods fall on difficult supports" in page and "Published, not measured here" in page


def test_the_search_with_the_steps_starts_where_it_says(done: tuple[Path, Any]) -> None:
    """The same number of steps from two starts; the rest of the settings is the same."""
    samplers = {
        start: dict(
            beds(done[0])[f"shots-difficult-fixed-steps-{start}-3-steps"].meta["sampler"]["instances"]
        )
        for start in ("uniform", "random")
    }
    assert [samplers[start].pop("start") for start in samplers] == ["uniform", "random"]
    assert samplers["uniform"] == samplers["random"] and samplers["uniform"]["steps"] == 3


@pytest.mark.long
def test_a_source_is_added_later_and_a_backbone_that_it_lacks_is_told(photos: Path, tmp_path: Path) -> None:
    from longshot.models import embed

    other = shutil.copytree(photos / "round", tmp_path / "round")
    shutil.copytree(photos / "square", tmp_path / "round" / "more")
    embed(photos, "pixels").save(tmp_path / "one.npy")
    backbones = f"backbones=[pixels, 'npy:{tmp_path / 'one.npy'}']"
    changes = [*TINY, backbones, "ablations=[]", "why=false", "shapes=[fixed]", "methods=[protonet]"]
    study = layered(get_study("hard-md-small"), None, changes)
    out = tmp_path / "study"
    first = run_study(study, {"shots": photos}, out=out, workers=1)
    assert not any("left out" in note for note in first.notes)
    times = {path.name: path.stat().st_mtime_ns for path in (out / "testbeds").iterdir()}
    outcome = run_study(study, {"shots": photos, "others": other}, out=out, workers=1)
    assert {name: (out / "testbeds" / name).stat().st_mtime_ns for name in times} == times
    assert len(list((out / "testbeds").iterdir())) == 2 * len(times)
    assert any("is left out on others" in note for note in outcome.notes)
    text = (out / "tables" / "stress.md").read_text()
    assert "–" in text and "shots alone: drop" in text  # the mean is over what all rows share, for all rows
    assert "<title>" in (page := (out / "report.html").read_text()) and ": shots, others</title>" in page
    with pytest.raises(UserError, match=r"The source 'shots' of .* was another dataset"):
        run_study(study, {"shots": other}, out=out, workers=1)


def test_sources_need_names_of_their_own(photos: Path) -> None:
    study = layered(get_study("hard-md-small"), None, TINY)
    with pytest.raises(UserError, match="at least 1 source and none was given"):
        open_data(study, [])
    with pytest.raises(UserError, match="Two sources are called"):
        open_data(study, [photos, photos])


def test_the_judge_at_another_size_is_refused_as_a_network_of_its_own(photos: Path, tmp_path: Path) -> None:
    """The same weights chose the supports, whatever pixels they saw."""
    study = layered(get_study("hard-md-small"), None, (*TINY, "judge=pixels(size=8)"))
    with pytest.raises(
        UserError, match=r"'pixels\(size=8\)' chooses the supports and 'pixels' is the same network"
    ):
        run_study(study, f"shots={photos}", out=tmp_path / "study", workers=1)


def test_the_presets_name_the_papers_pixels() -> None:
    settings = get_study("hard-md").settings.plain()
    assert {split_sight(name)[1].size for name in (settings["judge"], *settings["backbones"])} == {128}
    assert split_sight(get_study("hard-md-training").settings.plain()["judge"])[1].size == 128
    assert split_sight(get_study("vtab-md").settings.plain()["backbone"])[1].size == 126


def test_printed_numbers_are_the_papers(shared: Path) -> None:
    text = (shared / "papers" / "hard-meta-dataset.txt").read_text(encoding="utf-8")
    lines = [re.findall(r"\d+\.\d+|\d+", line) for line in text.splitlines()]
    printed = {tuple(map(float, numbers)) for numbers in lines if numbers}
    for name, table in PRINTED.items():
        for row, cells in table.rows.items():
            values = tuple(cell.mean for cell in cells if cell is not None)
            matches = [line for line in printed if line[-len(values) :] == values]
            assert matches, (name, row)


def test_the_papers_networks_have_names_here() -> None:
    columns = {name for table in PRINTED.values() for name in table.heads}
    networks = {name for name in columns if re.match(r"(dino|resnet|vit|beit|clip)_?", name)}
    assert networks - {"beit_base_1k"} <= set(ALIASES)  # the print has beit_base under two names
    assert paper_backbone("clip_vit_base").startswith("hf:") and paper_backbone("pixels") == "pixels"


def test_the_presets_are_whole() -> None:
    for name in ("hard-md", "hard-md-small"):
        study = get_study(name)
        assert study.recipe == "hard-md"
        assert json.dumps(study.settings.plain())


@pytest.mark.long
def test_networks_trained_here_are_compared_by_task(photos: Path, tmp_path: Path) -> None:
    options = "algorithm: 'protonet(way=3, shot=2, query=3)', steps: 2, split: all, holdout: 0.0"
    networks = f"{{one: {{{options}, network: 'cnn4(width=4)', size: 16}}, two: {{{options}, start: one}}}}"
    changes = [*TINY, f"networks={networks}", "judge=one", "backbones=[one, two]", "methods=[protonet]"]
    study = layered(
        get_study("hard-md-small"), None, [*changes, "ablations=[]", "why=false", "shapes=[fixed]"]
    )
    out = tmp_path / "study"
    before = estimate_study(study, f"shots={photos}", out=out, workers=1)
    assert [step["step"] for step in before.steps] == ["train one", "train two"]  # two starts from one
    assert not out.exists()
    outcome = run_study(study, f"shots={photos}", out=out, workers=1)
    after = estimate_study(study, f"shots={photos}", out=out, workers=1)
    assert len(after.steps) == 2 * 3 and sum(step["left"] for step in after.steps) == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Trainings and their budgets" in page and "training.start" in page
    table = next(table for table in outcome.tables if table.stem == "trained")
    assert [(record["kind"], record["backbone"]) for record in table.records] == [
        ("uniform", "two − one"),
        ("difficult", "two − one"),
    ]
    rows = Results(out / "run").table().to_pylist()
    bed = beds(out)["shots-difficult-fixed"].content_hash
    by = {
        name: {
            row["task"]: row["accuracy"]
            for row in rows
            if row["testbed"] == bed and f"/{name}-" in row["backbone"]
        }
        for name in ("one", "two")
    }
    expected = np.mean([by["two"][task] - by["one"][task] for task in by["one"]])
    assert table.records[1]["mean"] == pytest.approx(expected)
    assert "table 4" in (out / "tables" / "trained.md").read_text()


def test_a_source_without_annotations_has_no_curated_tasks(done: tuple[Path, Any]) -> None:
    assert any("shots: curated is left out: none of the rules fits it" in note for note in done[1].notes)


@pytest.mark.long
def test_curated_shifts_ask_the_same_questions(tmp_path: Path) -> None:
    from longshot.data import open_dataset, take_branch

    toys = {"toys": take_branch(open_dataset("toybox"), "vehicles")}
    study = layered(
        get_study("hard-md-small"), None, [*TINY, "ablations=[curated]", "why=false", "shapes=[fixed]"]
    )
    outcome = run_study(study, toys, out=tmp_path / "study", workers=1)
    table = next(table for table in outcome.tables if table.stem == "curated")
    rules = {record["kind"].split(", ")[1] for record in table.records}
    assert {"cure-or-viewpoint", "coco-objects"} <= rules
    testbeds = beds(tmp_path / "study")
    matched, shifted = (
        testbeds[f"toys-{kind}-fixed-curated-cure-or-viewpoint"] for kind in ("matched", "shifted")
    )
    assert matched.table["query"].equals(shifted.table["query"])
    assert not matched.table["support"].equals(shifted.table["support"])


@pytest.mark.long
def test_the_small_preset_on_toybox(run_cli: Any, browser: Any, tmp_path: Path) -> None:
    """As anyone would run it first: both pages are small, and a reader finds every claim with its verdict."""
    out = tmp_path / "out"
    run_cli("study", "run", "hard-md-small", "toybox", "-o", out)
    assert all((out / name).stat().st_size < 3_000_000 for name in ("report.html", "run.html"))
    verdicts = json.loads((out / "study.json").read_text("utf-8"))["verdicts"]
    settings = get_study("hard-md-small").settings
    assert isinstance(settings, HardSettings)
    assert set(verdicts) == {claim.id for claim in hard_claims(settings)}
    assert "not measured" not in verdicts.values()
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(f"file://{out / 'report.html'}")
    text = page.inner_text("body")
    for sentence in ("All methods fall on difficult supports", "Trainings and their budgets", "figure 40"):
        assert sentence in text
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
