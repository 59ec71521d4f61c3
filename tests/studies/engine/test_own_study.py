"""Studies of a user's own through the real command: the documented Python file, YAML files, mistakes, and kills."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from forked import ForkServer

DOCS = Path(__file__).parents[3] / "docs/howto/new-study.md"
SMALL = ("--set", "tasks=6", "--json")


def copied(folder: Path) -> Path:
    """The example of the documentation, as a user would copy it."""
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.S)
    path = folder / "more_shots.py"
    path.write_text(example, encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return copied(tmp_path)


@pytest.fixture(scope="module")
def clean(run_cli: Any, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of the documented study on the photos, and what the command printed."""
    file = copied(tmp_path_factory.mktemp("own"))
    done = run_cli("study", "run", file, photos, *SMALL, "-o", file.parent / "out")
    return file.parent / "out", json.loads(done.stdout)


def did(printed: str) -> dict[str, str]:
    return {step["step"]: step["did"] for step in json.loads(printed)["steps"]}


def test_the_documented_file_runs_and_its_page_has_the_claim(clean: tuple[Path, Any]) -> None:
    out, printed = clean
    assert set(printed["verdicts"]) == {"rise"} and set(printed["tables"]) == {"claims", "shots"}
    page = (out / "report.html").read_text("utf-8")
    for text in ("Do more shots help?", "More shots help", "testbed.shape.shot", "Accuracy by shots"):
        assert text in page
    story = json.loads((out / "study.json").read_text("utf-8"))
    assert story["recipe"] == "more_shots.py"  # not where it lies: the file may be moved


def test_a_yaml_extends_a_preset_and_a_python_file(run_cli: Any, file: Path, photos: Path) -> None:
    own = file.with_name("mine.yaml")
    own.write_text("name: mine\nextends: more_shots.py\ntitle: Mine\nsettings: {tasks: 5, shots: [1, 2]}\n")
    out = file.parent / "own"
    printed = json.loads(run_cli("study", "run", own, photos, "--json", "-o", out).stdout)
    assert {record["shot"] for record in printed["tables"]["shots"]} == {1, 2}
    assert "<title>Mine: " in (out / "report.html").read_text("utf-8")
    own.write_text(
        "extends: many-way-small\nsettings: {tasks: 4, ways: [2, 4], shots: 1, methods: [protonet]}\n"
    )
    flat = photos / "round"
    printed = json.loads(run_cli("study", "run", own, flat, "--json", "-o", file.parent / "flat").stdout)
    assert printed["tables"]["claims"][0]["number"] == "protonet, 2 → 4 ways, 1-shot"
    assert run_cli("study", "validate", own).stdout.startswith(
        f"{own} is a valid study of the recipe 'many-way'"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RECIPE = 1", "defines no RECIPE; add RECIPE = MyRecipe()"),
        ("import no_such_module", "cannot be run: ModuleNotFoundError: No module named 'no_such_module'."),
    ],
)
def test_a_file_without_a_recipe_is_one_sentence(
    run_cli: Any, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "wrong.py").write_text(text)
    out = ("-o", tmp_path / "out")
    done = run_cli("study", "run", tmp_path / "wrong.py", "toybox", *out, check=False)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    done = run_cli("study", "run", tmp_path / "none.py", "toybox", *out, check=False)
    assert done.returncode == 2 and "none.py does not exist" in done.stderr


def test_an_unfair_comparison_stops_before_anything_is_written(
    run_cli: Any, file: Path, photos: Path
) -> None:
    text = file.read_text("utf-8")
    file.write_text(text.replace('"query": 5', '"query": 5 + shot'), encoding="utf-8")
    done = run_cli("study", "run", file, photos, *SMALL, "-o", file.parent / "out", check=False)
    assert done.returncode == 2
    assert "varies testbed.shape.shot, but its sides also differ in testbed.shape.query" in done.stderr
    assert not (file.parent / "out").exists()


@pytest.fixture(scope="module")
def trained(run_cli: Any, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documented study with a network of its own, run without a break."""
    file = training_too(copied(tmp_path_factory.mktemp("trained")))
    run_cli("study", "run", file, photos, *SMALL, "-o", file.parent / "out")
    return file.parent / "out"


@pytest.mark.parametrize("where", ["training", "drawing", "evaluating"])
def test_a_killed_study_goes_on_where_it_was(
    run_cli: Any, forks: ForkServer, trained: Path, file: Path, photos: Path, where: str
) -> None:
    """kill -9 in the middle of the third step, of the second testbed, of the second unit of work."""
    text = training_too(file).read_text("utf-8")
    owner, function, call = {
        "training": ("longshot.training.steps.Stepper", "step", 3),
        "drawing": ("longshot.tasks", "sample", 2),
        "evaluating": ("longshot.evaluation.run_stores.RunFolder", "write", 2),
    }[where]
    reached = file.with_name("reached")
    stop = WAITING.format(place=owner, function=function, call=call, reached=str(reached))
    file.write_text(f"{stop}\n{text}", encoding="utf-8")
    out = file.parent / "out"
    process = forks.start("study", "run", file, photos, *SMALL, "-o", out)
    while not reached.is_file():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.kill()
    process.wait()
    # Times of a unit are written before its rows: those of a unit that another thread was writing are written again.
    done = [path for path in out.rglob("*.parquet") if path.parent.name != "seconds"]
    done = [path for path in done if path.name != "network.images.parquet"]
    files = {path: path.stat().st_mtime_ns for path in done}
    assert not (out / "report.html").exists() and bool(files) == (where != "training")
    file.write_text(text, encoding="utf-8")
    steps = did(run_cli("study", "run", file, photos, *SMALL, "-o", out).stdout)
    assert steps["training net"] == ("written" if where == "training" else "kept")
    assert steps["testbed 1-shot"] == ("written" if where == "training" else "kept")
    assert steps["testbed 5-shot"] == ("kept" if where == "evaluating" else "written")
    assert all(path.stat().st_mtime_ns == written for path, written in files.items())
    for name in ("shots.csv", "claims.csv"):
        assert (out / "tables" / name).read_bytes() == (trained / "tables" / name).read_bytes()
    weights = [next(folder.glob("trainings/*/network.safetensors")).read_bytes() for folder in (out, trained)]
    assert weights[0] == weights[1]


def training_too(file: Path) -> Path:
    """The documented file with a network that the study trains in place of the pixels."""
    text = file.read_text("utf-8").replace('backbone: str = "pixels"', 'backbone: str = "net"')
    options = '{"network": "cnn4(width=4)", "size": 16, "steps": 5, "checkpoint_every": 1, "split": "all"}'
    training = f'StudyTraining("net", data, "multiclass", {options}, [data.fingerprint])'
    text = text.replace("return Plan(draws", f'return Plan(networks={{"net": {training}}}, draws')
    file.write_text(f"from longshot.studies import StudyTraining\n{text}", encoding="utf-8")
    return file


# Put before a recipe: the process waits at the CALL-th call of PLACE.FUNCTION, and says so by a file.
WAITING = """
import pathlib
import pkgutil
import time

place = pkgutil.resolve_name("{place}")
original, calls = place.{function}, []


def waiting(*arguments, **options):
    calls.append(1)
    if len(calls) == {call}:
        pathlib.Path("{reached}").touch()
        time.sleep(600)
    return original(*arguments, **options)


place.{function} = waiting
"""
