"""``examples/plugin``, installed as a package of its own: what it adds is found, listed and used by real commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]


class Shell:
    """Runs commands in a folder, with the package installed."""

    def __init__(self, folder: Path, packages: Path) -> None:
        self.folder = folder
        paths = (str(packages), os.environ.get("PYTHONPATH", ""))
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "COLUMNS": "120",
        }

    def run(self, *words: str | Path, fails: bool = False) -> str:
        """Return what ``longshot WORDS`` prints; of one that fails, what it says is wrong."""
        done = subprocess.run(
            [sys.executable, "-m", "longshot", *map(str, words)],
            cwd=self.folder, env=self._environment, capture_output=True, text=True,
        )  # fmt: skip
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    packages = tmp_path_factory.mktemp("packages")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [*pip, "--target", packages, ROOT / "examples" / "plugin"], check=True, capture_output=True
    )
    return Shell(tmp_path_factory.mktemp("desk"), packages)


@pytest.fixture(scope="module")
def photos(shell: Shell) -> Path:
    """Pictures called LABEL_NUMBER.png: six labels, each of its own colour, eight of each."""
    folder = shell.folder / "photos"
    folder.mkdir()
    for number, label in enumerate(("ant", "bee", "cow", "dog", "emu", "fox")):
        for copy in range(8):
            colour = (40 * number, 250 - 30 * number, 3 * copy)
            Image.new("RGB", (24, 24), colour).save(folder / f"{label}_{copy:03d}.png")
    return folder


@pytest.fixture(scope="module")
def testbed(shell: Shell, photos: Path) -> Path:
    words = (
        "--classes",
        "neighbouring-names(span=4)",
        "--instances",
        "first-images",
        "--way",
        "3",
        "--shot",
        "2",
    )
    shell.run(
        "sample", f"label-in-name:{photos}", *words, "--query", "2", "--tasks", "9", "-o", "near.parquet"
    )
    return shell.folder / "near.parquet"


def test_lists_have_what_it_adds(shell: Shell) -> None:
    assert "plugin example" in shell.run("doctor")
    assert "class-counts" in shell.run("--help")
    assert "median-prototypes" in shell.run("methods")
    assert "colour-grid" in shell.run("backbones")
    assert "label-in-name" in shell.run("datasets", "formats")
    assert "more-shots" in shell.run("study", "ls")
    help_text = shell.run("sample", "--help-all")
    assert "neighbouring-names" in help_text and "first-images" in help_text


def test_its_samplers_draw(testbed: Path) -> None:
    from longshot import Testbed

    tasks = list(Testbed.load(testbed))
    assert {len(task.classes) for task in tasks} == {3}
    for task in tasks:
        letters = sorted("abcdef".index(class_id[0]) for class_id in task.classes)
        assert letters[-1] - letters[0] <= 3  # within a window of four
        for label in task.classes:
            queries = {key for key in task.query if key.startswith(label)}
            expected = [
                key for key in (f"{label}_{copy:03d}.png" for copy in range(8)) if key not in queries
            ][:2]
            assert sorted(key for key in task.support if key.startswith(label)) == expected


def test_its_method_and_backbone_measure(shell: Shell, testbed: Path) -> None:
    words = ("--backbone", "colour-grid", "--method", "median-prototypes")
    assert "100.0" in shell.run("evaluate", testbed, *words, "-o", "run")  # a colour tells its class


def test_its_method_passes_the_common_test(shell: Shell) -> None:
    shell.run("methods", "check", "median-prototypes")


def test_its_command_runs(shell: Shell, testbed: Path) -> None:
    lines = shell.run("class-counts", testbed).splitlines()
    assert sum(int(line.split()[0]) for line in lines) == 27  # nine tasks of three classes


def test_its_study_runs(shell: Shell, photos: Path) -> None:
    words = ("--set", "tasks=4", "--set", "shots=[1,2]")
    printed = shell.run("study", "run", "more-shots", f"label-in-name:{photos}", *words, "-o", "study")
    assert "Accuracy by shots" in printed and (shell.folder / "study" / "report.html").is_file()


def test_a_setting_that_it_does_not_have_is_told(shell: Shell, photos: Path) -> None:
    words = ("--classes", "neighbouring-names(spam=4)", "--tasks", "2", "-o", "none.parquet")
    message = shell.run("sample", f"label-in-name:{photos}", *words, fails=True)
    assert message.count("\n") == 1 and "spam" in message and "span" in message
