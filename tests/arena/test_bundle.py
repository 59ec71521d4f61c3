"""Codabench bundles: written, valid by the rules, run here with the platform's mounts, and refused when broken."""

from __future__ import annotations

import datetime as dt
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from longshot.arena import bundle_run as bundle_run
from longshot.arena import check_bundle, make_submission, run_bundle
from longshot.arena.bundle_check import dates
from longshot.arena.bundle_programs.sealed_pictures import Pictures, seal
from longshot.arena.bundle_write import KIND, write_bundle
from longshot.arena.competition_data import CompetitionData
from longshot.arena.settings import Phase, RunLimits
from longshot.base import UserError, claim_output


@pytest.fixture(scope="module")
def bundle(room) -> Path:
    """Of the room's competition; nobody changes it."""
    return write_bundle(room.competition, room.folder / "bundle.zip")


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


def test_ingestion_sees_no_query_label_and_no_order_that_tells_it(bundle, room):
    with inner(bundle, "ingestion-feedback-1.zip") as archive:
        run = json.loads(archive.read("run.json"))
    with inner(bundle, "input_data.zip") as archive:
        sealed = archive.read(run["images"]["two"]["file"])
    assert all("query_label" not in task for task in run["tasks"])
    stored = Pictures(seal(sealed, bytes.fromhex(run["images"]["two"]["key"])), 16)
    data = CompetitionData(room.competition)
    pixels, hidden = data.pixels("two"), data.test_tasks(room.competition.phase("feedback"), 1)
    for task, original in zip(run["tasks"], hidden, strict=True):  # renamed rows are the same images
        assert np.array_equal(stored[task["query"]], pixels[original.query])
        assert np.array_equal(stored[task["support"]], pixels[original.support])
    assert any(
        task["query"] != original.query.tolist() for task, original in zip(run["tasks"], hidden, strict=True)
    )


def test_images_are_written_once_and_a_phase_has_no_key_to_the_data_of_another(bundle):
    with zipfile.ZipFile(bundle) as archive:
        described = yaml.safe_load(archive.read("competition.yaml"))
    assert {task["input_data"] for task in described["tasks"]} == {"input_data.zip"}
    with inner(bundle, "input_data.zip") as archive:
        assert archive.namelist() == [f"images/{number}.bin" for number in range(3)]
        raw = b"".join(archive.read(name) for name in archive.namelist())
    assert b"WEBP" not in raw  # encrypted
    with inner(bundle, "ingestion-feedback-1.zip") as archive:
        assert set(json.loads(archive.read("run.json"))["images"]) == {"one", "two"}
        public = [name for name in archive.namelist() if name.startswith("host/")]
        assert not any("run.json" in name for name in public)


def test_small_images_are_kept_as_they_came_and_enlarged_to_the_same_bytes(competition, tmp_path):
    large = competition.model_copy(update={"image_size": 40})
    with zipfile.ZipFile(write_bundle(large, tmp_path / "large.zip")) as archive:
        sealed = zipfile.ZipFile(io.BytesIO(archive.read("input_data.zip")))
        program = zipfile.ZipFile(io.BytesIO(archive.read("ingestion-feedback-1.zip")))
    run = json.loads(program.read("run.json"))
    entry = run["images"]["one"]
    stored = Pictures(seal(sealed.read(entry["file"]), bytes.fromhex(entry["key"])), 40)
    assert np.array_equal(stored[run["train"][0]["rows"]], CompetitionData(large).pixels("one"))


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


def test_a_bundle_of_longshot_is_replaced_and_no_other(bundle, tmp_path):
    assert claim_output(bundle, KIND) == ".zip"
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("competition.yaml", "somebody else's")
    with pytest.raises(UserError, match="it is no bundle that Longshot wrote"):
        claim_output(tmp_path / "photos.zip", KIND)


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
    assert "By number of shots" in (tmp_path / "out" / "0" / "detailed_results.html").read_text()


@pytest.mark.long
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
    "overlap": (lambda d: d["phases"][1].update(start="2020-01-01 00:00:00"), "a start must be later"),
    "touching": (lambda d: d["phases"][1].update(start=d["phases"][0]["end"]), "a start must be later"),
    "backwards": (lambda d: d["phases"][0].update(end="2020-01-01 00:00:00"), "before or at its start"),
    "no tasks": (lambda d: d["phases"][0].update(tasks=[]), "has no 'tasks'"),
    "no start": (lambda d: d["phases"][1].pop("start"), "has no 'start'"),
    "no date": (lambda d: d["phases"][0].update(start="soon"), "is no date such as"),
    "none a day": (
        lambda d: d["phases"][0].update(max_submissions_per_day=0),
        "without it there are 5 a day",
    ),
    "none at all": (lambda d: d["phases"][0].update(max_submissions=0), "without it there are 100 in all"),
    "time": (lambda d: d["phases"][0].update(execution_time_limit="long"), "is 'long', not seconds"),
    "output": (lambda d: d["phases"][0].update(hide_output="yes"), "must be true or false"),
    "precision": (
        lambda d: d["leaderboards"][0]["columns"][0].update(precision="four"),
        "must be a number of decimals",
    ),
    "sorting": (lambda d: d["leaderboards"][0]["columns"][0].update(sorting="up"), "must be asc or desc"),
    "no such computation": (
        lambda d: d["leaderboards"][0]["columns"][0].update(computation="worst"),
        "there is no computation 'worst'",
    ),
    "same column": (
        lambda d: d["leaderboards"][0]["columns"][1].update(index=0),
        "has the index 0 of another column",
    ),
    "page": (lambda d: d["pages"][0].update(file="logo.png"), "which is not UTF-8 text"),
    "primary": (lambda d: d["leaderboards"][0].update(primary_index=7), "'primary_index' is 7"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(bundle, mistake):
    change, words = MISTAKES[mistake]
    (*_, sentence) = [text for text in check_bundle(changed(bundle, change)) if words in text] or [""]
    assert words in sentence


def test_an_empty_page_is_named(bundle, tmp_path):
    path = changed(bundle, lambda d: None, without="terms.md")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("terms.md", "")
    assert check_bundle(path) == ["'terms' names the file terms.md, which is empty."]


def test_phases_are_ordered_by_their_index_before_they_are_compared(bundle):
    assert check_bundle(changed(bundle, lambda d: d["phases"].reverse())) == []


def test_times_are_compared_across_zones(bundle):
    def shift(described: dict[str, Any]) -> None:  # 11:30 in UTC, before the end
        described["phases"][0]["end"] = "2099-01-01 12:00:00"
        described["phases"][1]["start"] = "2099-01-01 13:30:00+02:00"

    assert any("a start must be later" in text for text in check_bundle(changed(bundle, shift)))


def phases_of(*settings: dict[str, Any]) -> list[Phase]:
    return [
        Phase(name=f"p{number}", train=("one",), test=("two",), **values)
        for number, values in enumerate(settings)
    ]


def test_phases_without_dates_follow_each_other():
    now = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
    (first, end), (second, last) = dates(phases_of({}, {}), now)
    assert first == now and end == now + dt.timedelta(days=60)
    assert second == end + dt.timedelta(seconds=1) and last is None


def test_an_end_that_is_the_next_start_is_a_second_earlier():
    moments = dates(
        phases_of({"start": "2027-01-01 12:00", "end": "2027-02-01 12:00"}, {"start": "2027-02-01 12:00"})
    )
    assert (
        str(moments[0][1]) == "2027-02-01 11:59:59+00:00" and str(moments[1][0])[:19] == "2027-02-01 12:00:00"
    )


def test_phases_that_overlap_are_refused_before_any_work():
    overlapping = phases_of(
        {"start": "2027-01-01 12:00", "end": "2027-03-01 12:00"}, {"start": "2027-02-01 12:00"}
    )
    with pytest.raises(UserError, match="ends at 2027-03-01 12:00:00, after the start of 'p1'"):
        dates(overlapping)
    with pytest.raises(UserError, match="change its times"):
        dates(phases_of({"start": "2027-01-02", "end": "2027-01-01"}))


def test_output_of_the_last_phase_is_hidden_scores_have_decimals_and_no_limit_is_zero(competition, tmp_path):
    feedback, final = competition.phases
    free = competition.model_copy(
        update={"phases": (feedback.model_copy(update={"per_day": 0, "total": 0}), final)}
    )
    with zipfile.ZipFile(write_bundle(free, tmp_path / "free.zip")) as archive:
        described = yaml.safe_load(archive.read("competition.yaml"))
        overview = archive.read("overview.md").decode()
    assert [phase["hide_output"] for phase in described["phases"]] == [False, True]
    assert [column["precision"] for column in described["leaderboards"][0]["columns"]] == [4, 4, 1]
    assert described["phases"][0]["max_submissions_per_day"] == 1_000_000
    assert "any number of submissions, 1 run." in overview and "0 submissions" not in overview
    assert "1 submission, 3 runs, of which the worst counts" in overview
    assert check_bundle(tmp_path / "free.zip") == []


def test_the_final_takes_one_entry_where_a_phase_before_lets_teams_in(competition, tmp_path):
    def most(phases: tuple[Phase, ...]) -> list[int]:
        changed_phases = competition.model_copy(update={"phases": phases})
        with zipfile.ZipFile(write_bundle(changed_phases, tmp_path / "bundle.zip")) as archive:
            described = yaml.safe_load(archive.read("competition.yaml"))
        return [phase["max_submissions"] for phase in described["phases"]]

    assert most(competition.phases) == [4, 1]
    assert most(competition.phases[1:]) == [100]  # as submit --phase final does without one


def test_a_command_of_its_own_is_refused_in_the_rehearsal_too(bundle, submission, tmp_path, needs_sandbox):
    folder = submission()
    (folder / "metadata").write_text("command: python3 model.py")
    with pytest.raises(UserError, match="is refused: its metadata is not empty"):
        run_bundle(bundle, folder, tmp_path / "out")


@pytest.mark.parametrize("linking", ["ingestion", "scoring"])
def test_a_link_that_a_foreign_program_leaves_is_not_followed(tmp_path, needs_sandbox, linking):
    """Its folder of results is written to and copied by the caller, outside of any box."""
    tmp_path.chmod(0o755)
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    names = {"ingestion": "metadata", "scoring": "detailed_results.html"}
    parts = {}
    for kind, name in names.items():
        folder = parts[f"{kind}_program"] = tmp_path / kind
        folder.mkdir()
        link = f"import os; os.symlink({str(victim)!r}, '/app/output/{name}')" if kind == linking else ""
        scores = "open('/app/output/scores.json', 'w').write('{}')" if kind == "scoring" else ""
        (folder / "main.py").write_text(f"{link}\n{scores}\n")
        (folder / "metadata.yaml").write_text("command: python3 /app/program/main.py")
    code = tmp_path / "code"
    code.mkdir(mode=0o777)
    with pytest.raises(UserError, match=r"left a (file 'metadata'|link) in its output"):
        bundle_run._run_task(parts, code, tmp_path / "out", tmp_path, RunLimits(seconds=60))
    assert victim.read_text() == "precious" and not (tmp_path / "out").exists()


def test_an_unquoted_date_is_named(bundle):
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
