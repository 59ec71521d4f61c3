"""The study of domains through the real command, on tiny pictures: all six baselines from both starts, and going on."""

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
import pytest
from PIL import Image
from scipy import stats

from longshot.evaluation import Results
from longshot.studies.cross_domain.cross_domain_cells import BASELINES, CONDITIONS, printed_table
from longshot.tasks import Split, Testbed

CHANGES = [
    *("held_out=1", "reserved=1", "network=cnn4(width=4)", "size=16", "shot=2", "train_shot=2", "query=3"),
    *(
        "tasks=8",
        "train_tasks=4",
        "validate_every=2",
        "validation_tasks=4",
        "learner_steps=3",
        "pretrain_steps=2",
    ),
]
STARTS = ("random", "pre-trained")


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
    """4 domains of 6 classes of 8 pictures: a colour each, with noise."""
    if root.is_dir():
        return
    rng = np.random.default_rng(0)
    for number, colour in enumerate(rng.integers(40, 215, (24, 3))):
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
    (tested,) = shared.made["test"]
    own = Split.load(study / f"splits/run-1-{tested}.json")
    stories = {
        path.parent.name: json.loads(path.read_text("utf-8"))
        for path in (study / "trainings").glob("*/network.json")
    }
    trained = {name: story for name, story in stories.items() if name.startswith("run-1") and "data" in story}
    assert len(trained) == 2 * 5 * 2  # starts, trained baselines, own and shared
    for name, story in trained.items():
        assert set(story["data"]["classes"]) == set((own if f"-{tested}-" in name else shared).train)
    (before,) = (story for name, story in stories.items() if name.startswith("pre-trained"))
    used = {c.split("/")[0] for c in (*shared.train, *shared.validation, *shared.test)}
    assert not used & {c.split("/")[0] for c in before["data"]["classes"]}
    assert _classes(study / f"testbeds/run-1-within-domain-{tested}.parquet") <= set(own.test)
    for kind in ("all-classes", "cross-domain"):
        held_out = _classes(study / f"testbeds/run-1-{kind}-{tested}.parquet")
        assert held_out <= set(shared.test) and not held_out <= set(own.test)


def test_the_best_network_is_kept_and_metadelta_may_keep_its_start(study: Path) -> None:
    for folder in (study / "trainings").glob("run-1-*"):
        if not (folder / "history.jsonl").is_file():
            continue
        lines = [json.loads(line) for line in (folder / "history.jsonl").read_text("utf-8").splitlines()]
        judged = {
            line["step"]: line["validation_accuracy"]
            for line in lines
            if line["validation_accuracy"] is not None
        }
        chosen = json.loads((folder / "network.json").read_text("utf-8"))["validation"]
        assert list(judged) == (
            [1, 2] if "fomaml" in folder.name else [1] if "metadelta" in folder.name else [2, 4]
        )
        if chosen["step"] == 0:
            assert "metadelta" in folder.name and chosen["accuracy"] >= max(judged.values())
        else:
            assert chosen["accuracy"] == max(judged.values()) == judged[chosen["step"]]


def test_normalised_accuracies_and_intervals_are_those_of_the_predictions(study: Path) -> None:
    """From predictions alone: mean recall over the classes, against guessing; SciPy's t interval."""
    results = Results(study / "run")
    assert results.missing() == []
    rows = {(row["method"], row["column"]): row for row in _rows(study, "methods")}
    assert len(rows) == len(BASELINES) * len(CONDITIONS) * len(STARTS)
    table = results.table()
    names, backbones, calls = (table[name].to_pylist() for name in ("testbed_name", "backbone", "method"))
    for method, call in (
        ("train-from-scratch", "train-from-scratch(fresh=False, steps=3)"),
        ("fomaml", "maml"),
    ):
        within = "random-weights" if method == "train-from-scratch" else "-pre-trained-fomaml"
        chosen = [
            row
            for row, (bed, network, solver) in enumerate(zip(names, backbones, calls, strict=True))
            if bed.startswith("run-1-within-domain")
            and solver == call
            and ("other-domains" not in network)
            and (within in network or "pre-trained-weights" in network)
        ]
        own = table.take(chosen).sort_by("task")
        bed = results.testbed(str(own["testbed"][0]))
        scores = []
        for truth, predicted, way in zip(
            bed.table["query_label"].to_pylist(),
            own["prediction"].to_pylist(),
            bed.table["way"].to_pylist(),
            strict=True,
        ):
            recalls = [np.mean(np.array(predicted)[np.array(truth) == c] == c) for c in range(way)]
            scores.append((np.mean(recalls) - 1 / way) / (1 - 1 / way))
        mean = float(np.mean(scores))
        reach = stats.t.ppf(0.975, len(scores) - 1) * stats.sem(scores)
        row = rows[method, "within-domain, pre-trained"]
        assert [float(row[key]) for key in ("mean", "low", "high")] == pytest.approx(
            [mean, mean - reach, mean + reach]
        )


def test_the_page_has_the_study(study: Path) -> None:
    """Claims with the paper's numbers, comparisons, tables beside the published ones, figures, budgets."""
    names = {"methods", "starts", "differences", "difficulty", "claims"}
    names |= {f"{table}-{start}" for table in ("domains", "ways", "shots") for start in STARTS}
    assert {path.stem for path in (study / "tables").iterdir()} == names
    for name, number in (("methods", 5), ("ways-random", 6), ("shots-pre-trained", 9), ("difficulty", 10)):
        text = (study / f"tables/{name}.md").read_text("utf-8")
        cells = [cell for _, _, cell in printed_table(number).numbers()]
        assert "Not measured here." in text and all(
            f"{mean:.1f} ± {half:.1f}" in text for mean, half in cells
        )
    page = (study / "report.html").read_text("utf-8")
    assert len(page) < 3_000_000
    for words in (
        "MetaDelta++ is the best baseline with pre-trained weights",
        "training.start",
        "Published: Carrión-Ojeda et al., 2022, table 5",
        "Trainings and their budgets",
    ):
        assert words in page
    facts = json.loads((study / "study.json").read_text("utf-8"))
    assert set(facts["verdicts"]) >= {"starts", "metadelta", "prototypical", "harder"}
    assert {path.stem for path in (study / "figures").iterdir()} == {
        *("methods", "difficulty", "ways-and-shots-random", "ways-and-shots-pre-trained")
    }


def test_a_moved_folder_goes_on(study: Path, run_cli: Any, tmp_path: Path) -> None:
    """Networks are found by their place in the folder: nothing is trained or computed again."""
    shutil.copytree(study, tmp_path / "moved")
    printed = json.loads(run_cli(*_command(study.parent, tmp_path / "moved")).stdout)
    assert {step["did"] for step in printed["steps"]} == {"kept"}
    assert _rows(tmp_path / "moved", "methods") == _rows(study, "methods")


def test_a_dry_run_counts_trainings_and_writes_nothing(run_cli: Any, tmp_path: Path) -> None:
    with _locked(fcntl.LOCK_SH) as root:
        done = run_cli(*_command(root, tmp_path / "x", "--dry-run", "--set", "methods=[prototypical]"))
    steps = [step["step"] for step in json.loads(done.stdout)["steps"]]
    assert [step.rsplit(" ", 1)[1] for step in steps] == ["weights"] * 2 + ["protonet"] * 4
    assert not (tmp_path / "x").exists()


@pytest.mark.long
def test_the_small_preset_on_toybox(run_cli: Any, tmp_path: Path) -> None:
    """Every training with its budget, every claim measured, the page small."""
    printed = json.loads(
        run_cli("study", "run", "cross-domain-small", "toybox", "-o", tmp_path / "x", "--json").stdout
    )
    assert len(printed["verdicts"]) == 12 and "not measured" not in printed["verdicts"].values()
    assert not any("LEFT OUT" in note for note in printed["notes"])
    page = (tmp_path / "x/report.html").read_text("utf-8")
    assert len(page) < 3_000_000 and page.count("with its budget") == 2 + 2 * 5 * 3
