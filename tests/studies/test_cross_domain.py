"""The study of domains: who is trained on what, the cadence, the numbers, going on, mistakes."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from PIL import Image
from scipy import stats

from longshot.competition import published
from longshot.datasets.dataset import Dataset
from longshot.errors import UserError
from longshot.evaluation.results import Results
from longshot.splits.split import Split
from longshot.studies.cross_domain_claims import claims_table, differences
from longshot.studies.cross_domain_plan import make_plan
from longshot.studies.cross_domain_scores import CROSS, OTHER, OWN, WITHIN, Tasks
from longshot.studies.cross_domain_tables import grouped
from longshot.studies.cross_domain_train import OneBranch, Training
from longshot.studies.presets import get_study, layered
from longshot.testbeds.base import Pool
from longshot.testbeds.instances import UniformInstances
from longshot.testbeds.shapes import Fixed
from longshot.testbeds.testbed import Testbed
from longshot.training.episodes import draw_tasks

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


def _dataset(sizes: Mapping[str, int], images: int = 40) -> Dataset:
    """Classes without pictures: domain → number of classes."""
    ids = sorted(f"{name}/c{number:03d}" for name, count in sizes.items() for number in range(count))
    keys = [f"{class_id}/{image}" for class_id in ids for image in range(images)]
    offsets = np.arange(len(ids) + 1) * images
    return Dataset("made", tuple(ids), offsets, pa.array(keys), _NoPictures(), "nowhere")


class _NoPictures:
    def read(self, row: int) -> Image.Image:
        raise AssertionError("no picture is needed")


def _settings(*changes: str) -> dict[str, Any]:
    return layered(get_study("cross-domain"), None, changes).settings


def test_domains_are_held_out_in_turn_and_the_others_split_seven_to_three() -> None:
    dataset = _dataset({f"d{number}": 40 for number in range(13)})
    plan = make_plan(_settings("held_out=3", "runs=4"), dataset)
    tested = [[domain.name for domain in run.test] for run in plan.runs]
    assert [len(names) for names in tested] == [3, 3, 3, 3]
    assert len({name for names in tested for name in names}) == 12  # nobody twice before everybody once
    for run, names in zip(plan.runs, tested, strict=True):
        assert (len(run.train), len(run.validation)) == (7, 3)
        assert not set(names) & {*run.train, *run.validation} and not set(run.train) & set(run.validation)
        assert {c.split("/")[0] for c in run.split.train} == set(run.train)
        assert {c.split("/")[0] for c in run.split.validation} == set(run.validation)
    assert len({run.train for run in plan.runs}) > 1


def test_classes_of_a_domain_are_split_70_15_15() -> None:
    plan = make_plan(_settings("held_out=1", "runs=1"), _dataset(dict.fromkeys("abc", 40)))
    (domain,) = plan.runs[0].test
    assert domain.split.sizes == {"train": 28, "validation": 6, "test": 6}
    assert len({c for part in domain.split.parts.values() for c in part}) == 40
    assert (domain.within.way, domain.within.shot, domain.within.query) == (5, 5, 20)
    assert (domain.any.max_way, domain.any.max_shot, domain.any.query) == (20, 20, 20)
    assert len(plan.notes) == 2  # one run instead of three, and which domains; nothing had to be adapted
    assert plan.notes[0] == "Not the paper's amounts, which stand in brackets: runs 1 (3)."


def test_what_few_classes_and_images_change_is_said() -> None:
    plan = make_plan(_settings("held_out=1", "runs=1"), _dataset(dict.fromkeys("abc", 9), images=12))
    (domain,) = plan.runs[0].test
    assert domain.split.sizes == {"train": 3, "validation": 3, "test": 3}
    assert (domain.within.way, domain.within.shot, domain.within.query) == (3, 5, 7)
    assert (domain.any.max_way, domain.any.max_shot, domain.any.query) == (9, 6, 6)
    told = " ".join(plan.notes)
    assert "the split is 3/3/3 (train, validation, test), not 70/15/15 %" in told
    assert "tasks are 3-way 5-shot with 7 queries" in told
    assert "have 2–9 ways, 1–6 shots and 6 queries" in told


def test_small_domains_are_left_out_and_named() -> None:
    dataset = _dataset({"a": 6, "b": 6, "c": 6, "tiny": 5})
    plan = make_plan(_settings("held_out=1", "runs=3"), dataset)
    assert "1 domain left out ('tiny')" in plan.notes[0]
    assert {run.test[0].name for run in plan.runs} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("sizes", "changes", "message"),
    [
        (
            {"a": 9, "b": 9},
            [],
            "has 2 domains of 6 or more classes with 2 or more images (0 have less), but 5 are needed",
        ),
        ({"a": 9, "b": 9, "c": 9}, ["domains=[a, d]"], "has no domain 'd'; it has 3: 'a', 'b', 'c'."),
        (
            dict.fromkeys("abcd", 9),
            ["domains=[a, b, c]", "test_domains=[d]"],
            "'d' is not among the 3 domains",
        ),
    ],
)
def test_too_few_domains_are_told(sizes: dict[str, int], changes: list[str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        make_plan(_settings(*changes), _dataset(sizes))
    assert message in str(caught.value)


def test_a_dataset_without_branches_is_told() -> None:
    flat = replace(_dataset({"a": 3}), class_ids=("x", "y", "z"))
    with pytest.raises(UserError, match="has 3 classes and no branches, but domains are the branches"):
        make_plan(_settings(), flat)


def test_the_papers_cadence() -> None:
    settings = _settings()
    shared = [5000, 10000, 15000, 20000, 25000, 30000]
    own = [750, 1500, 2250, 3000, 3750, 4290]
    assert Training(0, None, "protonet").legs(settings) == shared
    assert Training(0, "a", "multiclass").legs(settings) == own
    assert Training(0, None, "fomaml").legs(settings) == [tasks // 2 for tasks in shared]  # two tasks a step
    assert Training(0, None, "matching").amounts(settings)[2] == 300
    assert Training(0, "a", "matching").amounts(settings)[2] == 100


def test_tasks_never_mix_domains_and_come_from_all() -> None:
    dataset = _dataset({"a": 5, "b": 9, "c": 4})
    drawn = draw_tasks(
        Pool(dataset, np.arange(18)),
        60,
        0,
        shape=Fixed(5, 1, 1),
        classes=OneBranch(),
        instances=UniformInstances(),
    )
    seen = [
        {dataset.class_ids[dataset.labels[row]].split("/")[0] for row in drawn.support.row(task)}
        for task in range(60)
    ]
    assert all(len(domains) == 1 for domains in seen)
    assert set.union(*seen) == {"a", "b"}  # c has too few classes


def test_neighbours_stand_together_until_there_are_enough() -> None:
    values = np.array([2] * 6 + [3] * 2 + [5] * 4 + [9] * 3)
    assert [(label, int(mine.sum())) for label, mine in grouped(values, 6)] == [("2", 6), ("3–9", 9)]
    assert [label for label, _ in grouped(np.array([4, 7]))] == ["4–7"]


def _tasks(rng: np.random.Generator, count: int, levels: Mapping[tuple[str, str], float]) -> Tasks:
    way, shot = rng.integers(2, 21, count), rng.integers(1, 21, count)
    scores = {
        key: level - 0.01 * way + 0.01 * shot + rng.normal(0, 0.02, count) for key, level in levels.items()
    }
    return Tasks(np.repeat(["a", "b"], count // 2), way, shot, scores, scores)


def test_differences_are_those_of_scipy_and_add_up() -> None:
    rng = np.random.default_rng(0)
    tasks = {
        WITHIN: _tasks(rng, 40, {(OWN, "matching"): 0.6, (OTHER, "matching"): 0.5}),
        CROSS: _tasks(rng, 40, {(OTHER, "matching"): 0.3}),
    }
    found = differences(tasks, "matching")
    own, other = (tasks[WITHIN].normalised[trained, "matching"] for trained in (OWN, OTHER))
    varied = tasks[CROSS].normalised[OTHER, "matching"]
    welch = stats.ttest_ind(own, varied, equal_var=False).confidence_interval()
    paired = stats.ttest_rel(own, other).confidence_interval()
    assert (found["within − cross"].low, found["within − cross"].high) == pytest.approx(
        (welch.low, welch.high)
    )
    assert (found["training"].low, found["training"].high) == pytest.approx((paired.low, paired.high))
    assert found["within − cross"].mean == pytest.approx(found["training"].mean + found["shape"].mean)


@pytest.mark.parametrize(
    ("prototypical", "scratch", "gain_within", "verdict"),
    [(0.5, 0.2, 0.2, "confirmed"), (0.2, 0.5, -0.2, "contradicted")],
)
def test_claims_follow_the_numbers(
    prototypical: float, scratch: float, gain_within: float, verdict: str
) -> None:
    rng = np.random.default_rng(0)
    methods = ["train-from-scratch", "prototypical"]
    levels = dict(zip(methods, (scratch, prototypical), strict=True))
    within = {(t, m): v + gain_within for t in (OWN, OTHER) for m, v in levels.items()}
    tasks = {
        WITHIN: _tasks(rng, 60, within),
        CROSS: _tasks(rng, 60, {(OTHER, m): v for m, v in levels.items()}),
    }
    verdicts = {r["claim"]: r["verdict"] for r in claims_table(methods, tasks, random=True).records}
    for claim in (
        "Cross-domain any-way any-shot is harder than within-domain 5-way 5-shot",
        "Prototypical Networks are best without pre-training",
        "Train-from-scratch is the worst baseline",
    ):
        assert verdicts[claim] == verdict
    assert verdicts["Accuracy falls with the number of ways"] == "confirmed"
    assert verdicts["Accuracy rises with the number of shots"] == "confirmed"
    assert verdicts["The ranking of methods does not depend on ways and shots"] == "not contradicted"


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
        assert [one["step"] for one in listed] == ([1, 2] if "fomaml" in record.parent.name else [2, 4])
        best = max(listed, key=lambda one: one["accuracy"])
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
            mine = table.filter(mask).sort_by("task")
            bed = results.testbed(str(mine["testbed"][0]))
            scores = []
            for truth, said, way in zip(
                bed.table["query_label"].to_pylist(),
                mine["prediction"].to_pylist(),
                bed.table["way"].to_pylist(),
                strict=True,
            ):
                recalls = [np.mean(np.array(said)[np.array(truth) == c] == c) for c in range(way)]
                scores.append((np.mean(recalls) - 1 / way) / (1 - 1 / way))
            assert len(scores) == 12
            mean = float(np.mean(scores))
            low, high = stats.t.interval(0.95, 11, mean, stats.sem(scores))
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
    said = json.loads(run_cli(*_command(study.parent, tmp_path / "moved")).stdout)
    assert {step["did"] for step in said["steps"]} == {"kept"}
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
        lost, cut = (
            next((folder / "trainings").glob(f"*other-domains-{n}-*")) for n in ("matching", "fomaml")
        )
        shutil.rmtree(lost / "network")
        record = cut / "validation.json"
        record.write_text(json.dumps(json.loads(record.read_text("utf-8"))[:1]), "utf-8")
        (folder / "tables/ways.md").unlink()
        steps = json.loads(run_cli(*_command(root, folder)).stdout)["steps"]
        assert [s["step"] for s in steps if s["did"] == "written"] == [
            "training run 1 other domains matching",
            "training run 1 other domains fomaml",
            "tables",
        ]
        assert [_rows(folder, name) for name in ("methods", "domains")] == before


def test_a_dry_run_counts_trainings_and_writes_nothing(run_cli: Any, tmp_path: Path) -> None:
    with _locked(fcntl.LOCK_SH) as root:
        done = run_cli(*_command(root, tmp_path / "x", "--dry-run", "--set", "methods=[prototypical]"))
    found = json.loads(done.stdout)
    assert [step["step"].rsplit(" ", 1)[1] for step in found["steps"]] == ["protonet"] * 3
    assert found["notes"][-1].startswith("3 trainings are left, of 4 tasks or batches (shared networks)")
    assert not (tmp_path / "x").exists()
