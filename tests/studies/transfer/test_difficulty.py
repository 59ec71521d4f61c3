"""The study of transfer difficulty through the real command, on tiny pictures: files, numbers, going on, mistakes."""

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

from longshot.base import UserError
from longshot.data import open_dataset
from longshot.evaluation import Results
from longshot.studies import read_changes, run_study
from longshot.studies.engine.study_training import training_outcome
from longshot.tasks import Split, Testbed

CHANGES = [
    *(
        "divergences=[0.04, 5]",
        "way=3",
        "shots=[1, 2]",
        "query=3",
        "tasks=6",
        "steps=2",
        "train_shot=2",
        "inner_steps=2",
        "size=16",
    ),
    "network=cnn4(width=8)",
]


def _options(*more: str) -> list[str]:
    return [part for change in (*CHANGES, *more) for part in ("--set", change)]


def _rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@contextmanager
def _locked(kind: int) -> Iterator[Path]:
    """The folder that all workers share: one changes it at a time, any number read it."""
    root = Path(os.environ["LONGSHOT_CACHE"]) / "test-transfer"
    root.mkdir(exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _draw_squares(root / "squares")
        fcntl.flock(lock, kind)
        yield root


def _draw_squares(root: Path) -> None:
    """16 classes of 8 pictures: a colour each, with noise."""
    if root.is_dir():
        return
    rng = np.random.default_rng(0)
    for number, colour in enumerate(rng.integers(40, 215, (16, 3))):
        folder = root / f"class{number:02d}"
        folder.mkdir(parents=True)
        for picture in range(8):
            pixels = np.clip(colour + rng.normal(0, 40, (16, 16, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{picture}.png")


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the pictures for this worker."""
    root = tmp_path_factory.mktemp("pictures") / "squares"
    _draw_squares(root)
    return root


def _run(run_cli: Any, root: Path) -> dict[str, Any]:
    """The whole study with all five methods into the shared folder; what the command says."""
    command = ("study", "run", "transfer-difficulty-small", root / "squares", *_options())
    printed: dict[str, Any] = json.loads(run_cli(*command, "-o", root / "study", "--json").stdout)
    return printed


@pytest.fixture
def study(run_cli: Any) -> Iterator[Path]:
    """The folder of the study, run by whoever comes first; nobody changes it meanwhile."""
    with _locked(fcntl.LOCK_EX) as root:
        if not (root / "study/report.html").is_file():
            _run(run_cli, root)
    with _locked(fcntl.LOCK_SH) as root:
        yield root / "study"


def test_every_split_has_its_testbeds_of_its_own_classes(study: Path, squares: Path) -> None:
    dataset = open_dataset(squares)
    names = {"R-0.04", "R-5", "random"}
    assert {path.stem for path in (study / "splits").iterdir()} == names
    for name in names:
        split = Split.load(study / "splits" / f"{name}.json")
        assert split.sizes == {"train": 10, "validation": 3, "test": 3}
        assert sorted(c for part in split.parts.values() for c in part) == list(dataset.class_ids)
        bed = Testbed.load(study / "testbeds" / f"{name}-test-2-shot.parquet")
        assert {c for task in bed.table["classes"].to_pylist() for c in task} == set(split.test)
    bed = Testbed.load(study / "testbeds" / "R-5-train-2-shot.parquet")
    assert {c for task in bed.table["classes"].to_pylist() for c in task} <= set(
        Split.load(study / "splits" / "R-5.json").train
    )


def test_networks_saw_the_train_classes_of_their_split_alone_for_equal_steps(study: Path) -> None:
    """Four networks for each split, and the one that gave the embedding, trained on all classes."""
    folders = [path.parent for path in study.rglob("training.json")]
    assert len(folders) == 13
    for folder in folders:
        story = json.loads((folder / "training.json").read_text("utf-8"))
        assert story["settings"]["train classes"] == (16 if folder.name.startswith("all-classes") else 10)
        assert training_outcome(folder)["steps"] == 2


def test_accuracies_are_the_means_of_the_rows(study: Path) -> None:
    table = Results(study / "run").table()
    rows = [row for shot in (1, 2) for row in _rows(study, f"accuracies-{shot}-shot")]
    assert len(rows) == 3 * 2 * 5
    solved_by = {"multiclass": "protonet", "finetune": "finetune-5(distance='euclidean', lr=0.001)"}
    for row in rows:
        bed = f"{row['split'].replace(' = ', '-')}-test-{row['shot']}-shot"
        trained = "multiclass" if row["method"] == "finetune" else row["method"]
        mask = pc.and_(
            pc.equal(table["testbed_name"], bed),
            pc.and_(
                pc.equal(table["method"], solved_by.get(row["method"], row["method"])),
                pc.match_substring(table["backbone"], f"-{trained}-"),
            ),
        )
        accuracy = table.filter(mask)["accuracy"].to_numpy()
        assert len(accuracy) == 6
        assert float(row["mean"]) == pytest.approx(float(accuracy.mean()))


def test_the_page_holds_the_study(study: Path) -> None:
    tables = {
        "claims",
        "splits",
        "accuracies-1-shot",
        "accuracies-2-shot",
        "slopes",
        "adaptation",
        "certificates",
    }
    assert {path.stem for path in (study / "tables").iterdir()} == tables
    assert {path.name for path in (study / "figures").glob("*.png")} == {
        "classes.png",
        "sets.png",
        "accuracy-1-shot.png",
        "accuracy-2-shot.png",
    }
    page = (study / "report.html").read_text("utf-8")
    for text in (
        "How does accuracy fall as the test classes get",
        "MAML degrades more slowly",
        "Adapting the same network or not",
        "Published: Arnold and Sha, 2021, table 4",
        "R = 5 maml 2-shot",  # its budget
        "Learning curves",
    ):
        assert text in page
    assert len(page) < 3_000_000


def test_only_what_is_missing_is_made_again_and_the_same(run_cli: Any) -> None:
    """A lost training and a lost table: both come back, nothing else is done, the numbers do not change."""
    with _locked(fcntl.LOCK_EX) as root:
        folder = root / "study"
        if not (folder / "report.html").is_file():
            _run(run_cli, root)
        before = _rows(folder, "accuracies-2-shot")
        removed = next(path for path in (folder / "trainings").iterdir() if "R-5-protonet" in path.name)
        shutil.rmtree(removed)
        (folder / "tables/slopes.md").unlink()
        steps = _run(run_cli, root)["steps"]
        made = [step["step"] for step in steps if step["did"] == "written"]
        assert made[:2] == ["training R = 5 protonet 2-shot", "tables"]
        assert set(made[2:]) <= {"report"}
        assert sum(step["step"].startswith("training") for step in steps) == 13
        assert _rows(folder, "accuracies-2-shot") == before


def test_a_dry_run_counts_the_trainings(squares: Path, run_cli: Any, tmp_path: Path) -> None:
    done = run_cli(
        "study",
        "run",
        "transfer-difficulty-small",
        squares,
        *_options(),
        "-o",
        tmp_path / "x",
        "--dry-run",
        "--json",
    )
    estimate = json.loads(done.stdout)
    assert len(estimate["steps"]) == 13
    assert all(step["seconds"] > 0 for step in estimate["steps"])
    assert estimate["notes"] == ["Times are those of the trainings; drawing and evaluation come on top."]
    assert not (tmp_path / "x").exists()


@pytest.mark.long
def test_a_search_for_every_network_has_equal_trials_and_keeps_the_best(
    squares: Path, tmp_path: Path
) -> None:
    """Two splits of each of two divergences, from pixels; the same call again finds everything done."""
    pytest.importorskip("optuna")
    changes = (
        "methods=[protonet]",
        "backbone=pixels",
        "shots=2",
        "also=[]",
        "splits_per_divergence=2",
        "tune=2",
    )
    settings = read_changes([*CHANGES, *changes])
    for _ in range(2):
        outcome = run_study("transfer-difficulty-small", squares, out=tmp_path / "out", settings=settings)
    assert not [step for step in outcome.did if step["did"] != "kept"]
    searches = [path.parent for path in (tmp_path / "out").rglob("trials.json")]
    assert len(searches) == 4
    for search in searches:
        trials = json.loads((search / "trials.json").read_text("utf-8"))
        assert [trial["parameters"]["lr"] for trial in trials] == [1e-4, 1e-2]
        assert {training_outcome(path)["steps"] for path in (search / "networks").iterdir()} == {2}
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert "R = 5 #2 protonet 2-shot, best of 2" in page and "single draws" in page


@pytest.mark.long
def test_the_small_preset_on_toybox(run_cli: Any, tmp_path: Path) -> None:
    """As anyone would run it first: the page has every claim with a verdict."""
    run_cli("study", "run", "transfer-difficulty-small", "toybox", "-o", tmp_path / "out")
    facts = json.loads((tmp_path / "out/study.json").read_text("utf-8"))
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert len(facts["verdicts"]) == 9 and len(page) < 3_000_000
    assert all(verdict in page for verdict in facts["verdicts"].values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("way=5", "a split has 3 test classes, but tasks are 5-way: 25 classes are needed"),
        ("also=[given]", "has 0 train and 0 test classes, but tasks are 3-way"),
        ("also=[semantic]", "has no taxonomy"),
        ("also=[nosuch]", "nosuch"),
        (
            "mode=random",
            "mode = 'random', but it must be 'principal', 'paper' or published splits as atg:cifar100",
        ),
        (
            "methods=[maml, cnn]",
            "methods.1 = 'cnn', but it must be 'maml', 'anil', 'protonet', 'multiclass' or 'finetune'",
        ),
        ("divergences=[0.1, 0.1]", "divergences = [0.1, 0.1], but its values must all be different"),
        ("minutes=0", "a number above 0"),
        ("tune=1", "tune = 1, but it must be 0, or at least 2 learning rates to choose from"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(
    squares: Path, tmp_path: Path, change: str, message: str
) -> None:
    out = tmp_path / "out"
    with pytest.raises(UserError) as caught:
        settings = read_changes([*CHANGES, change])
        run_study("transfer-difficulty-small", squares, out=out, settings=settings)
    assert message in str(caught.value)
    assert not out.exists()
