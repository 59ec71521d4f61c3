"""Codabench bundles: written, valid by the rules, run here with the platform's mounts, and refused when broken."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from longshot.competition.bundle.check import check_bundle
from longshot.competition.bundle.run import run_bundle
from longshot.competition.bundle.write import write_bundle
from longshot.competition.data import CompetitionData
from longshot.competition.submission import make_submission
from longshot.core.errors import UserError


@pytest.fixture
def bundle(competition, tmp_path) -> Path:
    return write_bundle(competition, tmp_path / "bundle.zip")


def inner(bundle: Path, name: str) -> zipfile.ZipFile:
    with zipfile.ZipFile(bundle) as archive:
        return zipfile.ZipFile(io.BytesIO(archive.read(name)))


def changed(bundle: Path, change: Callable[[dict[str, Any]], None], without: str = "") -> Path:
    """The bundle with another competition.yaml, and without one of its files."""
    target = bundle.with_name("changed.zip")
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            if name == "competition.yaml":
                described = yaml.safe_load(old.read(name))
                change(described)
                new.writestr(name, yaml.safe_dump(described))
            elif name != without:
                new.writestr(name, old.read(name))
    return target


def test_what_is_written_is_valid(bundle):
    assert check_bundle(bundle) == []


def test_dates_are_quoted_and_the_worst_of_three_seeds_counts(bundle):
    with zipfile.ZipFile(bundle) as archive:
        described = yaml.safe_load(archive.read("competition.yaml"))
    assert all(isinstance(phase["start"], str) for phase in described["phases"])
    assert described["phases"][1]["tasks"] == [1, 2, 3]
    first, second = described["leaderboards"][0]["columns"][:2]
    assert first["computation"] == "min" and first["computation_indexes"] == [str(second["index"])]
    assert second["hidden"] and described["leaderboards"][0]["primary_index"] == first["index"]


def test_ingestion_sees_no_query_label_and_no_order_that_tells_it(bundle, competition):
    with inner(bundle, "input-feedback-1.zip") as archive:
        tasks = json.loads(archive.read("tasks.json"))["tasks"]
        shuffled = np.load(io.BytesIO(archive.read("test/two.npy")))
        assert not any("truth" in name or "label" in name for name in archive.namelist())
    assert all("query_label" not in task for task in tasks)
    pixels = CompetitionData(competition).pixels("two")
    assert not np.array_equal(shuffled, pixels)
    hidden = CompetitionData(competition).test_tasks(competition.phase("feedback"), 1)
    for task, original in zip(tasks, hidden, strict=True):  # renamed rows are the same images
        assert np.array_equal(shuffled[task["query"]], pixels[original.query])


def test_a_written_out_method_runs_in_a_bundle(bundle, tmp_path, needs_sandbox):
    made = make_submission("protonet", tmp_path / "means", backbone="pixels")
    (scores,) = run_bundle(bundle, made.path, tmp_path / "out")
    assert scores["normalized_accuracy"] == 1.0  # the classes differ in brightness


def test_the_fact_sheet_is_asked_for_there_too(competition, tmp_path):
    strict = competition.model_copy(update={"fact_sheet": "required", "fact_fields": ("title", "hardware")})
    with zipfile.ZipFile(write_bundle(strict, tmp_path / "strict.zip")) as archive:
        sheet = yaml.safe_load(archive.read("competition.yaml"))["fact_sheet"]
    assert list(sheet) == ["league", "title", "hardware"]
    assert sheet["hardware"]["type"] == "text" and sheet["hardware"]["is_required"] is True


def test_a_bundle_runs_here_and_scores_as_the_competition_does(bundle, submission, tmp_path, needs_sandbox):
    # Brightness tells the classes apart, so the nearest class mean is right on every query.
    folder = submission(
        fit="""
        X, y, _, ways, _ = support_set
        return Guess([float(X[y == c].mean()) for c in range(ways)])
        """,
        predict="""
        values = query_set.mean((1, 2, 3)).numpy()
        return np.abs(values[:, None] - np.array(self.ways)).argmin(1)
        """,
    )
    (scores,) = run_bundle(bundle, folder, tmp_path / "out")
    assert scores["normalized_accuracy"] == 1.0
    assert all(np.isfinite(value) for value in scores.values())
    assert "overall" in (tmp_path / "out" / "0" / "detailed_results.html").read_text()


def test_a_submission_that_fails_in_a_bundle_is_told(bundle, submission, tmp_path, needs_sandbox):
    with pytest.raises(UserError, match=r"ingestion program ended with code 1: .*ZeroDivisionError"):
        run_bundle(bundle, submission(fit="1 / 0"), tmp_path / "out")


MISTAKES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "version": (lambda d: d.update(version=1), "'version' is 1 and must be 2"),
    "title": (lambda d: d.update(title="x" * 300), "300 letters, at most 256"),
    "terms": (lambda d: d.update(terms="nowhere.md"), "nowhere.md, which is not in the zip"),
    "image": (lambda d: d.update(image="terms.md"), "cannot be decoded"),
    "pages": (lambda d: d.update(pages=[]), "'pages' must be a list with at least 1 entry"),
    "task": (lambda d: d["tasks"][0].pop("scoring_program"), "task 0 has no 'scoring_program'"),
    "index": (lambda d: d["tasks"][1].update(index=0), "the index 0 of another task"),
    "folder": (lambda d: d["tasks"][0].update(input_data="terms.md"), "ship it as a zip"),
    "phase": (lambda d: d["phases"][0].update(tasks=[99]), "uses the task 99"),
    "end": (lambda d: d["phases"][0].pop("end"), "has no 'end'; only the last phase"),
    "migrate": (lambda d: d["phases"][0].update(auto_migrate_to_this_phase=True), "is the first and cannot"),
    "board": (lambda d: d["leaderboards"].append(d["leaderboards"][0]), "only the first counts"),
    "column": (lambda d: d["leaderboards"][0]["columns"][0].update(key="k" * 40), "40 letters, at most 36"),
    "computation": (
        lambda d: d["leaderboards"][0]["columns"][0].update(computation_indexes=["9"]),
        "over the column 9",
    ),
    "primary": (lambda d: d["leaderboards"][0].update(primary_index=7), "'primary_index' is 7"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(bundle, mistake):
    change, words = MISTAKES[mistake]
    (*_, sentence) = [text for text in check_bundle(changed(bundle, change)) if words in text] or [""]
    assert words in sentence


def test_an_unquoted_date_is_named(bundle):
    import datetime as dt

    path = changed(bundle, lambda d: d["phases"][0].update(start=dt.datetime(2027, 1, 1, 12)))
    assert any("'start' is not quoted" in text for text in check_bundle(path))


def test_a_zip_of_a_folder_is_named(bundle, tmp_path):
    path = tmp_path / "nested.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mine/competition.yaml", "version: 2")
    (sentence,) = check_bundle(path)
    assert "zip the folder's contents" in sentence


def test_what_is_no_zip(tmp_path):
    path = tmp_path / "b.zip"
    path.write_text("no")
    with pytest.raises(UserError, match="is no zip"):
        check_bundle(path)
