"""Classes as results: their tables from a run, and the gate of ``longshot compare`` that sees one class collapse."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

import longshot
from longshot.base import UserError

Run = Callable[..., CompletedProcess[str]]
TASKS = 60


def ridge(support: np.ndarray, label: np.ndarray, query: np.ndarray, way: int) -> np.ndarray:
    """Score by the distance to class means."""
    support, label, query = (np.asarray(part) for part in (support, label, query))
    means = np.stack([support[label == number].mean(0) for number in range(way)])
    return -((query[:, None] - means[None]) ** 2).sum(-1)


def blind(support: np.ndarray, label: np.ndarray, query: np.ndarray, way: int) -> np.ndarray:
    """Score as the other, but never choose the first of eight classes."""
    scores = ridge(support, label, query, way)
    scores[:, 0] = scores.min() - 1
    return scores


@pytest.fixture(scope="module")
def runs(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    bed = longshot.sample(
        photos, shape=longshot.AllShape(2, 3), tasks=TASKS, allow_repeats=True, copies="allow", seed=3
    )
    bed.save(folder / "all.parquet")
    for name, method in (("old", ridge), ("new", blind)):
        longshot.evaluate(
            folder / "all.parquet", backbones="pixels", methods={"means": method}, out=folder / name
        )
    return folder


def test_per_class_holds_every_class_and_sums_to_the_mean(runs: Path) -> None:
    results = longshot.Results(runs / "old")
    records = results.per_class()
    assert len(records) == 8 and all(record["queries"] == TASKS * 3 for record in records)
    mean = np.mean([record["accuracy"] for record in records])
    assert mean == pytest.approx(results.summary()[0]["accuracy"])
    assert len(records.to_pandas()) == 8 and "<table" in records._repr_html_() and len(repr(records)) < 200


def test_a_row_of_the_confusion_sums_to_the_queries_of_its_class(runs: Path) -> None:
    results = longshot.Results(runs / "old")
    confusion = results.confusion()
    frame = confusion.to_pandas()
    assert (frame.sum(axis=1) == TASKS * 3).all()
    right = {record["class"]: record["accuracy"] for record in results.per_class()}
    assert [frame.loc[name, name] / (TASKS * 3) for name in frame.index] == pytest.approx(
        [right[name] for name in frame.index]
    )
    assert len(repr(confusion).splitlines()) <= 4


def test_the_gate_of_classes_names_the_class_that_collapsed(run_cli: Run, runs: Path, tmp_path: Path) -> None:
    files = ("--markdown", tmp_path / "gate.md", "--junit", tmp_path / "gate.xml")
    gate = ("--fail-if-class-worse", "10")
    done = run_cli("compare", runs / "old", runs / "new", *gate, *files, check=False)
    assert done.returncode == 1, done.stderr
    assert f"({TASKS} tasks, p " in done.stderr and "fell from" in done.stderr
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    names = {each.attrib["name"] for each in suite if each.find("failure") is not None}
    first = longshot.Testbed.load(runs / "all.parquet")[0].classes[0]
    assert first in names and len(suite) == 9
    assert (tmp_path / "gate.md").read_text().startswith("# Comparison of ")
    same = run_cli("compare", runs / "old", runs / "old", *gate)
    assert same.returncode == 0 and "none is worse beyond chance" in same.stdout


def test_the_report_of_classes_replaces_itself(run_cli: Run, runs: Path, tmp_path: Path) -> None:
    for _ in range(2):
        run_cli("report", runs / "old", "--per-class", "-o", tmp_path / "classes.csv")
    lines = (tmp_path / "classes.csv").read_text().splitlines()
    assert lines[0].startswith("testbed,series,name,dataset,class,accuracy") and len(lines) == 9
    page = longshot.report(runs / "old", tmp_path / "page.html", per_class=True, pictures=0).read_text()
    assert 'id="classes"' in page and page.count('id="classes"') == 1


def test_a_gate_that_could_never_decide_says_so(photos: Path, tmp_path: Path) -> None:
    bed = longshot.sample(
        photos, shape=longshot.AllShape(2, 3), tasks=3, allow_repeats=True, copies="allow", seed=3
    )
    results = longshot.evaluate(bed, backbones="pixels", methods={"means": ridge})
    with pytest.raises(UserError, match="no class is in more than 3 tasks"):
        longshot.compare(results, results, fail_if_class_worse=10)


def test_comparisons_and_tasks_have_a_short_repr(runs: Path) -> None:
    compared = longshot.compare(runs / "old", runs / "new", per_class=True)
    assert len(repr(compared).splitlines()) == 2 and "worse" in repr(compared)
    assert len(compared.to_pandas()) == 1 and len(compared.per_class()) == 8
    assert len(repr(longshot.Testbed.load(runs / "all.parquet")[0])) < 300
