"""The folder of a study: bound to its settings and data, done once, told apart from others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from longshot.base import UserError
from longshot.studies import Study, get_study, layered
from longshot.studies.engine.study_folder import StudyFolder
from longshot.studies.engine.study_training import training_folder, training_step

DATA = {"name": "photos", "fingerprint": "abc"}


@pytest.fixture(scope="module")
def study() -> Study:
    return get_study("better-testbed-small")


def changed(study: Study, *changes: str) -> Study:
    return layered(study, None, list(changes))


def opened(path: Path, study: Study, **options: Any) -> StudyFolder:
    folder = StudyFolder(path, study, DATA, **options)
    folder.save()
    return folder


def test_a_step_is_done_once_for_its_inputs_and_files(tmp_path: Path, study: Study) -> None:
    folder = opened(tmp_path / "study", study)
    file, calls = tmp_path / "step.txt", []

    def work() -> None:
        calls.append(1)
        file.write_text("done")

    folder.step("step", [1], [file], work)
    again = opened(tmp_path / "study", study)
    again.step("step", [1], [file], work)
    assert [entry["did"] for entry in (*folder.did, *again.did)] == ["written", "kept"] and len(calls) == 1
    again.step("step", [2], [file], work)  # other inputs
    file.unlink()
    again.step("step", [2], [file], work)  # its file is gone
    assert len(calls) == 3
    assert list(json.loads((tmp_path / "study/study.json").read_text())["steps"]) == ["step"]


def finished(path: Path, study: Study, **options: Any) -> None:
    """A folder in which a step is done."""
    opened(path, study, **options).step("training net", [1], [], lambda: None)


def test_methods_may_change_but_tasks_may_not(tmp_path: Path, study: Study) -> None:
    finished(tmp_path / "study", study)
    opened(tmp_path / "study", changed(study, "methods=[protonet]", "backbone=pixels", "window=3"))
    with pytest.raises(UserError) as caught:
        opened(tmp_path / "study", changed(study, "tasks=9"))
    tasks = study.settings.plain()["tasks"]
    assert f"holds a study with tasks = {tasks}, now it is 9" in str(caught.value)
    finished(tmp_path / "free", study, binding=["seed"])
    opened(tmp_path / "free", changed(study, "tasks=9"), binding=["seed"])  # only the seed binds
    with pytest.raises(UserError, match="seed"):
        opened(tmp_path / "free", changed(study, "seed=1"), binding=["seed"])


def test_a_study_that_came_to_nothing_may_be_corrected(
    tmp_path: Path, study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one that failed at its second testbed: what it drew before is not taken for what is drawn now."""
    path, before = tmp_path / "study", SimpleNamespace(source="/one", fingerprint="one")
    begun = opened(path, study)
    begun.remember_sources({"a": before})
    (path / "testbeds").mkdir()
    (path / "testbeds" / "easy.parquet").write_bytes(b"")
    begun.facts["draws"]["easy"] = ""
    begun.save()
    corrected = changed(study, "tasks=9")
    assert not StudyFolder(path, corrected, DATA).has_testbed("easy")
    assert (path / "testbeds" / "easy.parquet").exists()  # an estimate writes nothing
    tasks = study.settings.plain()["tasks"]
    words = f"tasks = {tasks}, now it is 9; nothing of it is finished, so it begins anew"
    assert words in capsys.readouterr().err
    opened(path, corrected)
    assert not (path / "testbeds" / "easy.parquet").exists()
    facts = json.loads((path / "study.json").read_text())
    assert facts["settings"]["tasks"] == 9 and facts["draws"] == {} and facts["sources"] == {}
    opened(path, corrected).remember_sources({"a": before})
    opened(path, corrected).remember_sources({"a": SimpleNamespace(source="/two", fingerprint="two")})
    (path / "run").mkdir()
    (path / "run" / "run.json").write_text("{}")  # results bind it
    with pytest.raises(UserError, match=r"tasks = 9, now it is \d+, after 1 finished part; choose another"):
        StudyFolder(path, study, DATA)


def test_another_recipe_version_or_dataset_is_refused(tmp_path: Path, study: Study) -> None:
    path = tmp_path / "study"
    finished(path, study)
    for other, data, key in (
        (replace(study, version=study.version + 1), DATA, "version"),
        (replace(study, recipe="many-way"), DATA, "recipe"),
        (study, {**DATA, "fingerprint": "abd"}, "dataset"),
    ):
        with pytest.raises(UserError, match=f"holds a study with {key} = "):
            StudyFolder(path, other, data)


def test_a_long_setting_is_cut_in_the_sentence(tmp_path: Path, study: Study) -> None:
    for length, ending in ((118, '"'), (119, "…")):  # with its quotes 120 and 121 characters
        path = tmp_path / str(length)
        StudyFolder(path, study, {**DATA, "name": "x" * length}, binding=[]).save(steps={"a step": ""})
        facts = json.loads((path / "study.json").read_text())
        facts["recipe"] = "x" * length
        (path / "study.json").write_text(json.dumps(facts))
        with pytest.raises(UserError) as caught:
            StudyFolder(path, study, {**DATA, "name": "x" * length}, binding=[])
        shown = str(caught.value).partition("recipe = ")[2].partition(", now")[0]
        assert len(shown) == 120 and shown.endswith(ending)


def test_a_place_that_holds_something_else_is_refused(tmp_path: Path, study: Study) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(UserError, match="is a file, but a study goes into a folder"):
        StudyFolder(file, study, DATA)
    with pytest.raises(UserError, match="holds 1 other file, such as 'file', and no study"):
        StudyFolder(tmp_path, study, DATA)
    (tmp_path / "empty").mkdir()
    assert StudyFolder(tmp_path / "empty", study, DATA).before is None


def test_an_error_names_the_setting_that_the_study_has(tmp_path: Path, study: Study) -> None:
    def draw() -> Any:
        raise UserError("Too few images", "give a smaller {way} or {shot}")

    with pytest.raises(UserError) as caught:
        StudyFolder(tmp_path / "study", study, DATA).sampled(draw)
    assert "{shots}" in caught.value.template and "{way}" in caught.value.template  # one way, several shots


def test_a_training_is_named_by_what_decides_it() -> None:
    names = [training_folder("R = 0.04 maml", identity) for identity in ([1], [2], [1])]
    assert names[0] == names[2] != names[1]
    label, _, digest = names[0].rpartition("-")
    assert label == "R-0.04-maml" and len(digest) == 8
    assert training_step("x", 7, 60.0) == {
        "step": "train x",
        "testbed": "",
        "method": "",
        "left": 7,
        "seconds": 60.0,
        "bytes": 0,
    }


def test_a_source_may_be_added_but_not_replaced(tmp_path: Path, study: Study) -> None:
    first, other = (SimpleNamespace(source=f"/{name}", fingerprint=name) for name in ("one", "two"))
    path = tmp_path / "study"
    opened(path, study).remember_sources({"a": first})
    opened(path, study).remember_sources({"b": other})
    assert set(json.loads((path / "study.json").read_text())["sources"]) == {"a", "b"}
    finished(path, study)
    with pytest.raises(UserError, match=r"The source 'a' of .* was another dataset \(/one\)"):
        opened(path, study).remember_sources({"a": other})


def test_the_command_that_the_error_asks_for_goes_on_in_the_folder(run_cli: Any, tmp_path: Path) -> None:
    for number in range(6):
        image = tmp_path / "pictures" / "ab"[number % 2] / f"{number}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20), (40 * number, 9, 9)).save(image)
    command = ["study", "run", "many-way-small", tmp_path / "pictures", "-o", tmp_path / "study"]
    settings = ("ways=[2]", "shots=[1]", "query=2", "methods=[protonet]", "backbone=pixels")
    command += [word for setting in settings for word in ("--set", setting)]
    failed = run_cli(*command, "--set", "tasks=50", check=False)
    assert failed.returncode == 2 and "ask for fewer (--set tasks=9)" in failed.stderr
    done = run_cli(*command, "--set", "tasks=9")
    assert "tasks = 50, now it is 9; nothing of it is finished, so it begins anew" in done.stderr
    assert (tmp_path / "study" / "report.html").is_file()
    again = run_cli(*command, "--set", "tasks=8", check=False)
    assert again.returncode == 2 and "choose another folder with -o, or repeat its settings" in again.stderr
