"""Declared once: a new sampler, method, metric, format or claim is one file, a report's column one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    "tasks/every_nth.py": '''
"""Classes by their number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from longshot.base import Ragged
from longshot.tasks.base import Pool, Shape
from longshot.tasks.class_samplers import UniformClasses


@dataclass(frozen=True)
class EveryNthClasses(UniformClasses):
    """Every nth class of the dataset."""

    n: int = 2

    name: ClassVar[str] = "every-nth"
    about: ClassVar[str] = "every nth class"

    def groups(self, shape: Shape, pool: Pool) -> Ragged:
        """Return one group of every nth class."""
        return super().groups(shape, replace(pool, classes=pool.classes[:: self.n]))
''',
    "models/methods/first_class.py": '''
"""A method that always answers the first class."""

from __future__ import annotations

import torch
from torch import Tensor

from longshot.base import TaskBatch, with_settings
from longshot.models.methods.base import Method, mask_absent


@with_settings
class FirstClass(Method):
    """Score the first class highest, whatever the images show."""

    name = "first-class"
    setting = "inductive"
    family = "constant"
    paper = "none"

    def scores(self, batch: TaskBatch) -> Tensor:
        """Return scores [B, Q, W] that fall from class to class."""
        falling = -torch.arange(batch.way, dtype=torch.float32, device=batch.query.device)
        return mask_absent(falling.expand(*batch.query_mask.shape, batch.way).clone(), batch)
''',
    "evaluation/metrics/error_rate.py": '''
"""The share of wrong answers."""

from __future__ import annotations

from typing import Any

from longshot.evaluation.metrics.base import CountMetric


class ErrorRate(CountMetric):
    """Share of queries whose highest score is another class."""

    name = "error_rate"
    title = "errors %"
    short = "errors"
    better = "lower"

    def of_counts(self, right: Any, total: Any, ways: Any) -> Any:
        """Compute 1 − Σ right / Σ total [B]."""
        return 1 - right.sum(1) / total.sum(1).clip(1)
''',
    "data/formats/dots.py": '''
"""Text files with a class and a grey value a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longshot.data.dataset import Dataset
from longshot.data.formats.base import Format
from longshot.data.opening import open_dataset


class Dots(Format):
    """One image of one grey value per line."""

    name = "dots"
    title = "lines of a class and a grey value"
    origin = "nowhere"
    layout = "FILE.dots"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Tell whether a file is of this format."""
        return path.suffix == ".dots"

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Write the lines as arrays beside the file, and open those."""
        rows = [line.split() for line in path.read_text("utf-8").splitlines()]
        images = np.stack([np.full((8, 8), int(grey), np.uint8) for _, grey in rows])
        np.savez(path.with_suffix(".npz"), images=images, labels=[label for label, _ in rows])
        return open_dataset(path.with_suffix(".npz"), name=name)
''',
}

PAGE = '''
"""How often each method was run."""

from __future__ import annotations

from collections import Counter

from longshot.explorer.library import Item
from longshot.explorer.result_views import indexed_results
from longshot.explorer.site import Page, Site, crumbs_of
from longshot.reports import Column, Section, make_sheet


def method_counts(site: Site, item: Item) -> Page:
    """Make the page: a table with a line for each method of a run."""
    counts = Counter(series.method for series in indexed_results(site, [item])[0].series)
    columns = [Column("Method", lambda line: line[0]), Column("Times", lambda line: line[1], "count")]
    sheet = make_sheet(columns, list(counts.items()), aria="Methods")
    return Page("Methods", [Section("methods", "Methods", {"sheet": sheet}, "sheet")], crumbs=crumbs_of(item))
'''
ROUTE = '        page("/run/{id}/plot",'
VISIT = """
import re, sys, urllib.request
import longshot

explorer = longshot.serve(".", port=18437)
get = lambda path: urllib.request.urlopen("http://127.0.0.1:18437" + path).read().decode()
run = re.search(r\'href="(/run/[^"/?]*)"\', get("/?kind=run")).group(1)
print(get(run + "/methods"))
print(get(run + "/methods?table=1&as=csv"))
explorer.close()
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with one file more for each."""
    copy = tmp_path_factory.mktemp("one-file")
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES.items():
        (copy / "src" / "longshot" / name).write_text(text.lstrip(), encoding="utf-8")
    lines = [
        f"{label} {grey}"
        for start, label in enumerate("abcdefgh")
        for grey in range(30 * start, 30 * start + 30)
    ]
    (copy / "greys.dots").write_text("\n".join(lines), encoding="utf-8")
    run(
        copy,
        "sample",
        "greys.dots",
        "-t",
        "6",
        "--way",
        "3",
        "--shot",
        "2",
        "--query",
        "4",
        "-o",
        "bed.parquet",
    )
    run(copy, "evaluate", "bed.parquet", "-b", "pixels", "-m", "first-class", "-m", "protonet", "-o", "run")
    return copy


def run(tree: Path, *words: str) -> str:
    """What the real command prints in the copy."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "longshot", *words], cwd=tree, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_format(tree: Path) -> None:
    """A path is told by it, it stands in the list, and it can be named."""
    for dataset in ("greys.dots", "dots:greys.dots"):
        assert json.loads(run(tree, "datasets", "show", dataset, "--quick", "--json"))["classes"] == 8
    assert "dots" in [row["format"] for row in json.loads(run(tree, "datasets", "formats", "--json"))]


def test_a_sampler(tree: Path) -> None:
    """Its word stands in help with its meaning, takes its settings, and draws."""
    text = " ".join(run(tree, "sample", "--help").split())
    assert "every-nth" in text and "every-nth: every nth class" in text
    facts = ["--way", "3", "--shot", "2", "--query", "4", "-t", "5", "--json"]
    run(tree, "sample", "greys.dots", "--classes", "every-nth(n=2)", *facts, "-o", "nth.parquet")
    described = run(tree, "inspect", "nth.parquet", "--json")
    assert '"every-nth"' in described
    assert json.loads(described)["classes"] <= 4


def test_a_method(tree: Path) -> None:
    """It is listed and evaluated: the first of three classes is right once in three."""
    assert "first-class" in [row["name"] for row in json.loads(run(tree, "methods", "--json"))]
    assert np.allclose(column(tree, "first-class", "accuracy"), 1 / 3)


def test_a_metric(tree: Path) -> None:
    """It is a column of results and of summaries, and runs are compared by it: fewer errors are better."""
    errors, accuracies = (column(tree, "protonet", name) for name in ("error_rate", "accuracy"))
    assert np.array_equal(errors, 1 - accuracies)
    text = run(tree, "compare", "run", "-m", "first-class", "--against", "protonet", "--metric", "error_rate")
    assert "error_rate in %, lower is better" in text and text.rstrip().endswith("better")
    assert "Errors %" in run(tree, "evaluate", "bed.parquet", "-b", "pixels", "-m", "protonet", "-o", "run")
    assert "--metric [accuracy|balanced_accuracy|normalized_accuracy|top5|loss|error_rate]" in run(
        tree, "compare", "--help"
    )


def test_an_explorer_page_is_two_files(tree: Path) -> None:
    """A module that makes the page, and its address in the list: the page stands in the frame, its table is a file."""
    package = tree / "src" / "longshot" / "explorer"
    (package / "method_views.py").write_text(PAGE.lstrip(), encoding="utf-8")
    addresses = (package / "app.py").read_text(encoding="utf-8")
    assert addresses.count(ROUTE) == 1
    line = '        page("/run/{id}/methods", of("run", lambda site, item, _: method_counts(site, item))),\n'
    importing = "from longshot.explorer.method_views import method_counts\n"
    anchor = "from longshot.explorer.library import Item\n"
    changed = addresses.replace(ROUTE, line + ROUTE).replace(anchor, anchor + importing)
    (package / "app.py").write_text(changed, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-c", VISIT]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "<title>Methods" in done.stdout and 'href="/?kind=run"' in done.stdout
    assert done.stdout.split()[-3:] == ['"Method","Times"', '"first-class",1', '"protonet",1']


def test_a_report_column_is_one_line(tree: Path) -> None:
    """It stands on the page and in every file that is made of the table."""
    line = '    Column("Half", lambda r: r.entry.half, "percent", 2, key="half_width"),\n'
    anchor = '    Column("Tasks", lambda r: r.entry.n, "count", key="n"),\n'
    change(tree, "reports/result_tables.py", anchor, line + anchor)
    rows = json.loads(run(tree, "report", "run", "--format", "json"))
    assert [row["half_width"] for row in rows] == pytest.approx([(r["high"] - r["low"]) / 2 for r in rows])
    assert "half_width" in run(tree, "report", "run", "--format", "csv").splitlines()[0].split(",")
    run(tree, "report", "run", "-o", "page.html", "--pictures", "0")
    assert ">Half</th>" in (tree / "page.html").read_text("utf-8")


def test_a_claim_is_one_file(tree: Path) -> None:
    """It is measured, judged, and stands on the study's page and in its files."""
    claim = """            Claim(
                "above-guessing",
                "Every task is answered better than by guessing",
                "nowhere",
                lambda lab: [Measured("one number", 0.25, 0.2, 0.3, 0.0001, 20)],
            ),
"""
    anchor = '            Claim(\n                "drop",\n'
    change(tree, "studies/semantic/many_way.py", anchor, claim + anchor)
    settings = [
        "--set",
        "tasks=4",
        "--set",
        "ways=[3,5]",
        "--set",
        "shots=[1]",
        "--set",
        "methods=[protonet]",
    ]
    run(tree, "study", "run", "many-way-small", "greys.dots", *settings, "-o", "study")
    assert "Every task is answered better than by guessing" in (tree / "study" / "report.html").read_text(
        "utf-8"
    )
    verdicts = (tree / "study" / "tables" / "claims.csv").read_text("utf-8")
    (line,) = [line for line in verdicts.splitlines() if line.startswith("above-guessing,")]
    assert "confirmed" in line


def change(tree: Path, name: str, before: str, after: str) -> None:
    """Replace what stands once in a file of the copy."""
    path = tree / "src" / "longshot" / name
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), encoding="utf-8")


def column(tree: Path, method: str, name: str) -> NDArray[np.float64]:
    """One column of the results of a method, over its tasks."""
    parts = [pq.read_table(path) for path in sorted((tree / "run").glob("part-*.parquet"))]
    values = [part[name].to_numpy() for part in parts if part["method"][0].as_py() == method]
    return np.concatenate(values)
