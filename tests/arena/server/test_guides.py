"""The organiser's guide to the server and what the tutorial says about it, followed line by line on a real server."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forked import ForkServer
from longshot.arena.settings import FILE

from .conftest import PORTS, Visitor, log_in

DOCS = Path(__file__).resolve().parents[3] / "docs" / "howto"
# A command by itself, one whose failure is shown, one that writes a file: none needs a shell and Python started anew.
COMMAND = re.compile(r"longshot (?P<words>[^|&;<>$`]*?)(?P<ignored> \|\| true)?(?: > (?P<file>\S+))?")
BLOCK = re.compile(
    r"^(?:<!-- not-run: ([^\n]*) -->\n)?```(\w*) ?([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE
)
# The documents' competition in small: fewer and smaller tasks on smaller images, one seed, shorter trainings.
SMALL = {
    r"image_size: \d+": "image_size: 32",
    r"shape: .*": "shape: {min_way: 2, max_way: 4, min_shot: 1, max_shot: 3, query: 4}",
    r"tasks: \d+": "tasks: 1",
    r"seeds: \[.*\]": "seeds: [1]",
}
GUIDES = ("competition-server.md", "competition-tutorial.md")
SHOWN_ADDRESS = re.compile(r"http://127\.0\.0\.1:8430|https://cup\.example\.org")
# Secrets, hashes and durations differ from run to run.
PASSING = re.compile(
    r"longshot_[\w-]{20,}|(?<=code=)[\w-]+|\b[0-9a-f]{32,}\b|\bin (\d+ h ?)?(\d+ min ?)?(\d+ s)?\b"
)
CODE = re.compile(r"[\w-]{32}")


def blocks(document: str, *, elsewhere: str = "") -> list[tuple[str, str, str]]:
    """(language, file it is to be written to, text) of every fenced block that is run.

    ``elsewhere`` is the test that also runs those that need a server.
    """
    fenced = []
    for reason, language, name, text in BLOCK.findall((DOCS / document).read_text("utf-8")):
        if language == "text" or (reason and not (elsewhere and elsewhere in reason)):
            continue
        first = text.partition("\n")[0]
        fenced.append((language, name or (first[2:] if first.startswith("# ") else ""), text))
    return fenced


def replaced(text: str, changes: dict[str, str]) -> str:
    for pattern, by in changes.items():
        text = re.sub(pattern, by, text, flags=re.MULTILINE)
    return text


def shape_of(text: str) -> list[str]:
    """Lines without their numbers and spacing: what must agree although the hidden tasks differ.

    So few tasks as here may have no interval that says anything; then it is not printed.
    """
    lines = (re.sub(r"[-−]?\d[\d.,:]*", "#", line) for line in text.strip().splitlines())
    return [" ".join(line.replace(" ± #", "").split()) for line in lines]


Run = Callable[[str, Path], str]


@pytest.fixture
def run(forks: ForkServer, monkeypatch: pytest.MonkeyPatch) -> Run:
    """What a line prints, errors that it tells included."""
    folders = [str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")

    def print_line(line: str, desk: Path) -> str:
        if match := COMMAND.fullmatch(line):
            done = forks.run(*shlex.split(match["words"]), cwd=desk, check=False)
            if match["ignored"]:
                done.returncode = 0
            if match["file"]:
                (desk / match["file"]).write_text(done.stdout, encoding="utf-8")
                done.stdout = ""
        elif line.startswith("python "):
            done = forks.run(program=(desk / line.split()[1]).read_text("utf-8"), cwd=desk, check=False)
        else:
            done = subprocess.run(["bash", "-c", line], cwd=desk, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        error = done.stderr[done.stderr.index("error:") :] if "error:" in done.stderr else ""
        return done.stdout + error

    return print_line


def shape(text: str) -> set[str]:
    plain = SHOWN_ADDRESS.sub("ADDRESS", PASSING.sub("…", text))
    return set(shape_of("\n".join("CODE" if CODE.fullmatch(line) else line for line in plain.splitlines())))


class Desk:
    """A reader's folder, with the server that the guide has them start."""

    def __init__(self, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.run, self.monkeypatch = folder, run, monkeypatch
        self.port = next(PORTS)
        self.address = f"http://127.0.0.1:{self.port}"
        self.server: subprocess.Popen[str] | None = None
        self.printed = ""  # by the line before
        self.worker_token = ""

    def do(self, line: str) -> str:
        """What a line of the guide prints."""
        line = SHOWN_ADDRESS.sub(self.address, line)
        if line == "longshot compete serve cup":
            command = [sys.executable, "-m", "longshot", *line.split()[1:], "--port", str(self.port)]
            self.server = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True)
            assert self.server.stdout is not None
            printed = "".join(self.server.stdout.readline() for _ in range(3))
        elif line.startswith("export LONGSHOT_TOKEN="):
            text = self.printed.strip()
            # What 'invite' printed is a worker's token, or a code with which a participant gets one.
            if text.startswith("longshot_"):
                token = self.worker_token = text
            else:
                token = self.enter(text)
            self.monkeypatch.setenv("LONGSHOT_TOKEN", token)
            printed = ""
        elif not line.startswith("longshot "):
            done = subprocess.run(["bash", "-c", line], cwd=self.folder, capture_output=True, text=True)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            printed = done.stdout
        else:
            if line.startswith("longshot compete log "):  # "A worker takes the first one."
                self.run(f"longshot compete work {self.address} --token {self.worker_token}", self.folder)
            printed = self.run(line, self.folder)
        self.printed = printed
        return printed.replace(self.address, "http://127.0.0.1:8430")

    def enter(self, code: str) -> str:
        """What the tutorial has a participant do in the browser: an account, a team, a token."""
        visitor, password = Visitor(self.port), "correct horse battery staple"
        visitor.good("POST", "/accounts", {"name": "Ada", "password": password, "code": code})
        person = log_in(visitor, "Ada", password)
        person.good("POST", "/team", {"name": "Ada and Bob"})
        return str(
            person.good("POST", "/tokens", {"name": "laptop", "scopes": ["submit", "read-own"]})["token"]
        )


@pytest.fixture
def desk(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, run, monkeypatch)
    yield made
    if made.server is not None:
        made.server.terminate()
        made.server.wait(60)


@pytest.mark.long
@pytest.mark.usefixtures("needs_sandbox")
def test_the_guides_work_as_they_are_written(desk: Desk) -> None:
    count = 0
    for document in GUIDES:
        fenced = blocks(document, elsewhere=Path(__file__).name)
        if document == "competition-tutorial.md":  # the sections before are run by its own test
            fenced = [block for block in fenced if block not in blocks(document)]
        for language, name, text in fenced:
            if language != "console":
                path = desk.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                continue
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, _, expected = part.partition("\n")
                assert shape(desk.do(line)) == shape(expected), line
                count += 1
                if " init " in line:
                    path = desk.folder / line.split()[3] / FILE
                    path.write_text(replaced(path.read_text(), SMALL))
    assert count >= 18
    assert (desk.folder / "backup" / "competition.db").stat().st_size > 0


def test_the_settings_that_the_guide_shows_are_the_defaults() -> None:
    import yaml

    from longshot.arena.settings import ServerSettings

    (text,) = (text for _, name, text in blocks("competition-server.md") if name == "served/settings.yaml")
    shown = ServerSettings.model_validate(yaml.safe_load(text)["server"])
    assert shown.model_copy(update={"terms": "", "rules": ""}) == ServerSettings()
    assert set(yaml.safe_load(text)["server"]) == set(ServerSettings.model_fields)
