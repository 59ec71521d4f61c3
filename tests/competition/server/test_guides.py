"""The organiser's guide to the server and what the tutorial says about it, followed line by line on a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshot.competition.settings import FILE

from ..test_tutorial import SMALL, Run, blocks, replaced, run, shape_of
from .conftest import PORTS, Visitor, log_in

__all__ = ["run"]  # a fixture
GUIDES = ("competition-server.md", "competition-tutorial.md")
SHOWN_ADDRESS = re.compile(r"http://127\.0\.0\.1:8430|https://cup\.example\.org")
# Secrets, hashes and durations differ from run to run.
PASSING = re.compile(
    r"longshot_[\w-]{20,}|(?<=code=)[\w-]+|\b[0-9a-f]{32,}\b|\bin (\d+ h ?)?(\d+ min ?)?(\d+ s)?\b"
)
CODE = re.compile(r"[\w-]{32}")


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
                self.run(
                    f"longshot compete work --server {self.address} --token {self.worker_token}", self.folder
                )
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

    from longshot.competition.server_settings import ServerSettings

    (text,) = (text for _, name, text in blocks("competition-server.md") if name == "served/settings.yaml")
    shown = ServerSettings.model_validate(yaml.safe_load(text)["server"])
    assert shown.model_copy(update={"terms": "", "rules": ""}) == ServerSettings()
    assert set(yaml.safe_load(text)["server"]) == set(ServerSettings.model_fields)
