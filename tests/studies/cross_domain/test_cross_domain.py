"""The study of domains through the real command, on tiny pictures: classes, numbers, tables, going on."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from PIL import Image
from scipy import stats

from longshot.competition import published
from longshot.evaluation.results import Results
from longshot.splits.split import Split
from longshot.studies.cross_domain.scores import CROSS, OTHER, OWN, WITHIN
from longshot.testbeds.testbed import Testbed

CHANGES = [
    *("held_out=2", "network=cnn4(width=4)", "size=16", "shot=2", "train_shot=2", "query=3", "tasks=6"),
    *("train_tasks=4", "validate_every=2", "validation_tasks=4", "learner_steps=3"),
    *("within_train_tasks=4", "within_validate_every=2", "within_validation_tasks=4"),
]
METHODS = ("train-from-scratch", "fine-tuning", "matching", "prototypical", "fomaml")
CALLS = {
    "train-from-scratch": "train-from-scratch(steps=3)",
    "fine-tuning": "finetune-last(steps=3)",
    "matching": "matching",
    "prototypical": "protonet",
    "fomaml": "maml",
}


@contextmanager
def _locked(kind: int) -> Iterator[Path]:
    """The folder that all workers share: one changes it at a time, any number read it."""
    root = Path(os.environ["LONGSHOT_CACHE"]) / "test-cross-domain"
    root.mkdir(exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _draw_squares(root / "squares")
        fcntl.flock(lock, kind)
        yield root


def _draw_squares(root: Path) -> None:
    """5 domains of 6 classes of 8 pictures: a colour each, with noise."""
    if root.is_dir():
        return
    rng = np.random.default_rng(0)
    for number, colour in enumerate(rng.integers(40, 215, (30, 3))):
        folder = root / f"domain{number // 6}" / f"class{number % 6}"
        folder.mkdir(parents=True)
        for picture in range(8):
            pixels = np.clip(colour + rng.normal(0, 40, (16, 16, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{picture}.png")


def _command(root: Path, out: Path, *more: str) -> tuple[Any, ...]:
    changes = [part for change in CHANGES for part in ("--set", change)]
    return ("study", "run", "cross-domain-small", root / "squares", *changes, "-o", out, "--json", *more)


@pytest.fixture
def study(run_cli: Any) -> Iterator[Path]:
    """The folder of the study, run by whoever comes first; nobody changes it meanwhile."""
    with _locked(fcntl.LOCK_EX) as root:
        if not (root / "study/report.html").is_file():
            run_cli(*_command(root, root / "study"))
    with _locked(fcntl.LOCK_SH) as root:
        yield root / "study"


def _rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if not row.get("source", "").startswith("published")]


def _classes(bed: Path) -> set[str]:
    return {c for task in Testbed.load(bed).table["classes"].to_pylist() for c in task}


def test_networks_and_tasks_keep_to_their_classes(study: Path) -> None:
    shared = Split.load(study / "splits/run-1.json")
    stories = {
        path.parent.parent.name: json.loads(path.read_text("utf-8"))
        for path in (study / "trainings").glob("*/network/network.json")
    }
    assert len(stories) == 3 * 4
    tested = shared.made["test"]
    for name, story in stories.items():
        own = next((domain for domain in tested if f"-{domain}-" in name), None)
        split = shared if own is None else Split.load(study / "splits" / f"run-1-{own}.json")
        assert set(story["data"]["classes"]) == set(split.train)
    for domain in tested:
        split = Split.load(study / "splits" / f"run-1-{domain}.json")
        assert _classes(study / "testbeds" / f"run-1-within-domain-{domain}.parquet") <= set(split.test)
        held_out = _classes(study / "testbeds" / f"run-1-cross-domain-{domain}.parquet")
        assert held_out <= set(shared.test) and {c.split("/")[0] for c in held_out} == {domain}


def test_the_network_of_the_best_validation_is_kept(study: Path) -> None:
    rows = {(row["trained_on"], row["algorithm"]): row for row in _rows(study, "trainings")}
    assert len(rows) == 12
    for record in (study / "trainings").glob("*/validation.json"):
        listed = json.loads(record.read_text("utf-8"))
        story = json.loads((record.parent / "network/network.json").read_text("utf-8"))
        assert [validation["step"] for validation in listed] == (
            [1, 2] if "fomaml" in record.parent.name else [2, 4]
        )
        best = max(listed, key=lambda validation: validation["accuracy"])
        assert story["validation"]["step"] == best["step"] == story["training"]["step"]


def test_normalised_accuracies_and_intervals_are_those_of_the_predictions(study: Path) -> None:
    """From predictions alone: mean recall over the classes, against guessing; SciPy's t interval."""
    results = Results(study / "run")
    assert results.missing() == []
    table = results.table()
    rows = {
        (row["method"], row["column"]): row
        for row in _rows(study, "methods")
        if row["metric"] == "normalised accuracy"
    }
    assert len(rows) == 15
    for setting, trained, column in (
        (WITHIN, OWN, "within-domain"),
        (CROSS, OTHER, "cross-domain"),
        (WITHIN, OTHER, "within tasks, other domains"),
    ):
        for method in METHODS:
            label = "random weights" if method == "train-from-scratch" else trained
            mask = pc.and_(
                pc.equal(table["testbed_name"], setting),
                pc.and_(pc.equal(table["backbone"], label), pc.equal(table["method"], CALLS[method])),
            )
            own_rows = table.filter(mask).sort_by("task")
            bed = results.testbed(str(own_rows["testbed"][0]))
            scores = []
            for truth, predicted, way in zip(
                bed.table["query_label"].to_pylist(),
                own_rows["prediction"].to_pylist(),
                bed.table["way"].to_pylist(),
                strict=True,
            ):
                recalls = [np.mean(np.array(predicted)[np.array(truth) == c] == c) for c in range(way)]
                scores.append((np.mean(recalls) - 1 / way) / (1 - 1 / way))
            assert len(scores) == 12
            mean = float(np.mean(scores))
            reach = stats.t.ppf(0.975, 11) * stats.sem(scores)  # 0 where a network answers one class to all
            low, high = mean - reach, mean + reach
            row = rows[method, column]
            assert [float(row[key]) for key in ("mean", "low", "high")] == pytest.approx([mean, low, high])


def test_tables_stand_beside_the_papers_and_figures_are_there(study: Path) -> None:
    names = {"methods", "differences", "domains", "ways", "shots", "difficulty", "claims", "trainings"}
    assert {path.stem for path in (study / "tables").iterdir()} == names
    for name, number in (("methods", 5), ("ways", 6), ("shots", 8), ("difficulty", 10)):
        text = (study / "tables" / f"{name}.md").read_text("utf-8")
        assert f"Published: Carrión-Ojeda et al., 2022, table {number}" in text
        assert "Not measured here." in text
        cells = [cell for row in published.table(number).rows.values() for cell in row]
        assert all(f"{mean:.1f} ± {half:.1f}" in text for mean, half in cells)
    figures = {path.name for path in (study / "figures").iterdir()}
    assert figures == {
        f"{n}{s}" for n in ("methods", "ways-and-shots", "difficulty") for s in (".png", ".svg")
    }
    assert (study / "report.html").is_file()


def test_a_moved_folder_goes_on(study: Path, run_cli: Any, tmp_path: Path) -> None:
    """Networks are found by their place in the folder: nothing is trained or computed again."""
    shutil.copytree(study, tmp_path / "moved")
    printed = json.loads(run_cli(*_command(study.parent, tmp_path / "moved")).stdout)
    assert {step["did"] for step in printed["steps"]} == {"kept"}
    assert _rows(tmp_path / "moved", "methods") == _rows(study, "methods")


def test_ties_are_not_bold(study: Path) -> None:
    marks = {row["mark"] for row in _rows(study, "methods")}
    assert "tied" in marks
    text = (study / "tables/methods.md").read_text("utf-8").split("Published")[0]
    assert " = |" in text and "** =" not in text


def test_only_what_is_missing_is_made_again_and_the_same(run_cli: Any) -> None:
    """A lost network, a training cut short and a lost table: they come back, with the same numbers."""
    with _locked(fcntl.LOCK_EX) as root:
        folder = root / "study"
        if not (folder / "report.html").is_file():
            run_cli(*_command(root, folder))
        before = [_rows(folder, name) for name in ("methods", "domains")]
        without_network, cut = (
            next((folder / "trainings").glob(f"*other-domains-{n}-*")) for n in ("matching", "fomaml")
        )
        shutil.rmtree(without_network / "network")
        record = cut / "validation.json"
        record.write_text(json.dumps(json.loads(record.read_text("utf-8"))[:1]), "utf-8")
        (folder / "tables/ways.md").unlink()
        steps = json.loads(run_cli(*_command(root, folder)).stdout)["steps"]
        written = [step["step"] for step in steps if step["did"] == "written"]
        assert written[:3] == [
            "training run 1 other domains matching",
            "training run 1 other domains fomaml",
            "tables",
        ]
        assert set(written[3:]) <= {"report"}  # made again where the seconds it tells are others
        assert [_rows(folder, name) for name in ("methods", "domains")] == before


def test_a_dry_run_counts_trainings_and_writes_nothing(run_cli: Any, tmp_path: Path) -> None:
    with _locked(fcntl.LOCK_SH) as root:
        done = run_cli(*_command(root, tmp_path / "x", "--dry-run", "--set", "methods=[prototypical]"))
    estimate = json.loads(done.stdout)
    assert [step["step"].rsplit(" ", 1)[1] for step in estimate["steps"]] == ["protonet"] * 3
    assert estimate["notes"][-1].startswith("3 trainings are left, of 4 tasks or batches (shared networks)")
    assert not (tmp_path / "x").exists()
