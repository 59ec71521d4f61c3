"""The study divergence-correlation: task embeddings and divergences by hand, correlations against SciPy."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from scipy import stats

from longshot.data import open_dataset
from longshot.evaluation import Results
from longshot.models import embed
from longshot.studies.transfer.transfer_scores import MEASURES, divergences, task_embeddings
from longshot.tasks import Testbed, fit_gaussian, gaussian_divergence


@pytest.fixture(scope="module")
def folder(photos: Path, run_cli: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from the photos upstream to themselves downstream: 12 tasks, 3-way 2-shot."""
    out = tmp_path_factory.mktemp("correlation") / "study"
    changes = [f"downstream=[{photos}]", "tasks=12", "way=3", "shot=2", "query=4"]
    options = [part for change in changes for part in ("--set", change)]
    run_cli("study", "run", "divergence-correlation-small", photos, *options, "-o", out)
    return out


def _unit(points: np.ndarray) -> np.ndarray:
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def test_correlations_are_those_of_scipy_over_the_rows(folder: Path) -> None:
    with (folder / "tables/correlations.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 4
    table = Results(folder / "run").table().sort_by("task")
    accuracy = table.filter(pc.equal(table["method"], "protonet"))["accuracy"].to_numpy()
    for row in rows:
        measured = json.loads((folder / "divergences" / f"{row['dataset']}.json").read_text("utf-8"))
        theirs = stats.pearsonr(measured[row["model"]][row["measure"]], accuracy)
        bounds = theirs.confidence_interval(0.95)
        numbers = [float(row[key]) for key in ("r", "low", "high", "p")]
        assert numbers == pytest.approx([theirs.statistic, bounds.low, bounds.high, theirs.pvalue])
        assert row["tasks"] == "12"


def test_the_papers_table_stands_beside(folder: Path) -> None:
    text = (folder / "tables/correlations.md").read_text("utf-8")
    assert "| symmetrised KL | **−0.73** | **−0.43** | −0.49 | **−0.43** |" in text
    assert "not measured here" in text
    assert len(list((folder / "figures").glob("*.png"))) == 1


def test_a_task_is_the_unit_means_of_its_support(folder: Path, photos: Path) -> None:
    features = embed(open_dataset(photos), "pixels")
    testbed = Testbed.load(next((folder / "testbeds").glob("*.parquet")))
    embeddings = task_embeddings(testbed, features)
    assert embeddings.shape == (12, 3, features.dim)
    rows = {key: number for number, key in enumerate(features.keys.to_pylist())}
    task = testbed[7]
    for label in range(3):
        of_class = [
            rows[key] for key, own in zip(task.support, task.support_label, strict=True) if own == label
        ]
        mean = np.asarray(features.array[sorted(of_class)], np.float64).mean(0)
        np.testing.assert_allclose(embeddings[7, label], mean / np.linalg.norm(mean), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dim", [40, 12])
def test_divergences_on_the_span_are_those_in_all_dimensions(dim: int) -> None:
    """20 upstream classes: 40 dimensions are more than they and a task span, 12 are fewer."""
    rng = np.random.default_rng(0)
    upstream, tasks = _unit(rng.normal(size=(20, dim))), _unit(rng.normal(size=(3, 4, dim)))
    measured = divergences(upstream, tasks, 0.001)
    for number, task in enumerate(tasks):
        gaussians = fit_gaussian(upstream, 0.001), fit_gaussian(task, 0.001)
        for measure in MEASURES:
            direct = gaussian_divergence(measure, *gaussians)
            assert measured["gaussian"][measure][number] == pytest.approx(direct, rel=1e-6)


def test_again_nothing_is_computed(folder: Path, photos: Path, run_cli: Any) -> None:
    changes = [f"downstream=[{photos}]", "tasks=12", "way=3", "shot=2", "query=4"]
    options = [part for change in changes for part in ("--set", change)]
    done = run_cli("study", "run", "divergence-correlation-small", photos, *options, "-o", folder, "--json")
    steps = json.loads(done.stdout)["steps"]
    assert {step["did"] for step in steps} == {"kept"}
    assert any(step["step"].startswith("divergences") for step in steps)


def test_without_downstream_and_splits_it_says_what_to_do(photos: Path, run_cli: Any, tmp_path: Path) -> None:
    done = run_cli("study", "run", "divergence-correlation-small", photos, "-o", tmp_path / "no", check=False)
    assert done.returncode == 2
    assert "There are 4 classes in the test split" in done.stderr  # the half that the study drew of eight
    assert not list(tmp_path.glob("no/run/*"))


def test_the_page_has_the_claims_and_both_comparisons(folder: Path) -> None:
    page = (folder / "report.html").read_text("utf-8")
    for text in (
        "claim-negative",
        "Wasserstein-2",
        "Pearson",
        "Divergences on the same tasks",
        "not measured here",
    ):
        assert text in page
    assert len(page.encode()) < 3_000_000
    with (folder / "tables/claims.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["claim"] for row in rows} == {"negative", "best", "worst", "weak"}
    own = {row["number"].split(",")[0]: float(row["value"]) for row in rows if row["claim"] == "negative"}
    gap = next(row for row in rows if row["number"].startswith("symmetrised KL − Euclidean"))
    assert float(gap["value"]) == pytest.approx(own["symmetrised KL"] - own["Euclidean"])
