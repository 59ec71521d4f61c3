"""A competition's own packages: built once from its requirements, mounted read-only, refused in one sentence."""

from __future__ import annotations

import threading
import zipfile
from pathlib import Path

import pytest

from longshot.arena import build_environment, environments, load, sandbox, submission_runs
from longshot.arena.competition_data import CompetitionData
from longshot.base import UserError


def wheel(folder: Path, name: str, files: dict[str, bytes], needs: str = "") -> None:
    """A package as pip installs it, of which nobody else knows."""
    facts = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{f'Requires-Dist: {needs}' if needs else ''}\n"
    )
    info = f"{name}-1.0.dist-info"
    members = {
        **files,
        f"{info}/METADATA": facts.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    members[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*members, f"{info}/RECORD")).encode()
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, data in members.items():
            archive.writestr(path, data)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    wheel(folder, "toyware", {"toyware/__init__.py": b"ANSWER = 42\n", "toyware/net.pth": bytes(2 << 20)})
    wheel(folder, "toybroken", {"toybroken.py": b"import nothing_of_that_name\n"})
    wheel(folder, "toyother", {"toyother.py": b""}, needs="torch (==0.1)")
    return folder


@pytest.fixture(autouse=True)
def offline(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip finds these wheels and nothing else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))


def require(folder: Path, text: str) -> Path:
    with (folder / "competition.yaml").open("a") as out:
        out.write("requirements: requirements.txt\n")
    (folder / "requirements.txt").write_text(text)
    return folder


LOOK = """
import sys, toyware
print("answer", toyware.ANSWER, toyware.__file__.startswith("/box/environment/"))
try:
    open("/box/environment/evil.py", "w")
except OSError as error:
    print("written", error.strerror)
import torch
print("torch", torch.__file__.startswith("/box/environment/"))
"""


def test_packages_are_built_once_and_submissions_import_them(room, needs_sandbox):
    folder = require(room.competition.folder, "# for everybody\ntoyware==1.0  # it answers\n")
    heard: list[str] = []
    built = build_environment(folder, tell=heard.append)
    assert built is not None
    assert built.packages == ("toyware 1.0",)
    assert built.notes == ()
    assert any(line.startswith("Installing collected packages: toyware") for line in heard)
    heard.clear()
    assert build_environment(folder, tell=heard.append) == built
    assert heard == []
    competition = load(folder)
    run = room.folder / "imports"
    outcome = submission_runs.run(
        CompetitionData(competition),
        competition.phases[0],
        room.submission("importing", top=LOOK, meta="open(toyware.__file__[:-11] + 'net.pth', 'rb').read()"),
        run,
        seed=1,
        league="meta-learning",
        equipment=environments.equipment(competition),
    )
    lines = (run / "log.txt").read_text().splitlines()
    assert lines[:3] == ["answer 42 True", "written Read-only file system", "torch False"]
    # the weights that a package of the environment brings along are as closed as those beside Longshot
    assert "asked for the weights /box/environment/lib/python" in str(outcome.reason)


def test_another_file_is_another_environment_and_a_comment_is_not(competition):
    def key(text: str) -> str:
        return environments._key(text)

    assert key("timm\nPOT\n") == key("# a note\n\ntimm  # networks\nPOT")
    assert len({key("timm"), key("timm==1.0"), key("timm\nPOT"), key("POT\ntimm")}) == 4


def test_what_was_not_built_is_said(run_cli, competition, submission):
    folder = require(competition.folder, "toyware==1.0\n# never built\ntoyother\n")
    for words in (
        ("work", folder),
        ("run", folder, submission(), "-o", folder / "tried"),
    ):
        done = run_cli("compete", *words, check=False)
        assert done.returncode == 2
        assert done.stderr == (
            f"error: The packages of {folder}/requirements.txt have not been built for this Python; build them with "
            f"'longshot compete environment {folder}'.\n"
        )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "no-such-package-anywhere\n",
            "Could not find a version that satisfies the requirement no-such-package",
        ),
        ("toyother\n", "Cannot install toyother"),  # torch stays: boxes compute with it
        ("this is no requirement\n", "Invalid requirement: 'this is no requirement'"),
    ],
)
def test_what_pip_cannot_install_is_one_sentence(run_cli, competition, text, sentence):
    done = run_cli("compete", "environment", require(competition.folder, text), check=False)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"error: pip cannot install the packages of the competition: {sentence}")
    assert last.endswith("or give pip a place that has them (PIP_FIND_LINKS, PIP_INDEX_URL).")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", ["-r more.txt", "-rmore.txt", "--requirement=more.txt", "-e .", "-c c.txt"])
def test_other_files_are_not_followed(competition, line):
    folder = require(competition.folder, f"toyware\n{line}\n")
    with pytest.raises(
        UserError, match=r"known by the text of this file alone; write the packages out in it\.$"
    ):
        build_environment(folder)


def test_a_file_that_is_not_there(competition):
    (require(competition.folder, "") / "requirements.txt").unlink()
    with pytest.raises(
        UserError, match=r"requirements\.txt, which cannot be read \(No such file or directory\)"
    ):
        build_environment(competition.folder)


def test_a_package_that_cannot_be_imported_is_noted(run_cli, competition):
    done = run_cli("compete", "environment", require(competition.folder, "toybroken\n"))
    note = "note: toybroken cannot be imported: No module named 'nothing_of_that_name'"
    assert done.stdout.splitlines()[1:] == [note]


def test_without_requirements_nothing_is_built(run_cli, competition):
    done = run_cli("compete", "environment", competition.folder)
    assert done.stdout.endswith("names no requirements: submissions have what Longshot runs with\n")
    assert environments.equipment(competition) == sandbox.BARE


@pytest.mark.long
def test_of_two_that_build_one_builds(competition, monkeypatch, fresh_cache):
    folder = require(competition.folder, "toyware\n")
    calls: list[str] = []
    build = environments._build

    def noted(folder_built: Path, *arguments: object) -> None:
        calls.append(folder_built.name)
        build(folder_built, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(environments, "_build", noted)
    built: list[object] = []
    threads = [threading.Thread(target=lambda: built.append(build_environment(folder))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert built[0] == built[1]
    assert [path.name for path in (fresh_cache / "environments").iterdir() if path.is_dir()] == [
        calls[0].partition(".")[0]
    ]


def test_an_attempt_that_fails_leaves_nothing(competition, fresh_cache):
    folder = require(competition.folder, "no-such-package-anywhere\n")
    with pytest.raises(UserError):
        build_environment(folder)
    assert [path for path in (fresh_cache / "environments").iterdir() if path.is_dir()] == []
