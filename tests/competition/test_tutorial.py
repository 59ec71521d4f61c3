"""The organiser's guide and the participants' tutorial: every block is written or run, every output compared."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forked import ForkServer
from longshot.competition.settings import FILE, load

DOCS = Path(__file__).resolve().parents[2] / "docs"
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
SHORT = {r"^(TASKS|STEPS) = \d+": r"\1 = 2", r"^CHECK = \d+": "CHECK = 1"}


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


def follow(document: str, desk: Path, run: Run) -> int:
    """Do everything that a document says, in its order; the number of lines that were run."""
    count = 0
    for language, name, text in blocks(document):
        if language != "console":
            assert name, f"a block of {document} says not where it goes:\n{text}"
            path = desk / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(replaced(text, SHORT), encoding="utf-8")
            if path.name == FILE:
                load(path.parent)
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            line, _, shown = part.partition("\n")
            line = re.sub(r"--set steps=\d+", "--set steps=2", line)
            printed = run(line, desk)
            count += 1
            if "log.txt" not in line and "steps" not in line:  # a short training writes a short log
                # Sets: with so few tasks guessing may come out first, and there are fewer seeds.
                assert set(shape_of(printed)) == set(shape_of(shown)), line
            if " init " in line:
                path = desk / line.split()[3] / FILE
                path.write_text(replaced(path.read_text(), SMALL))
    return count


@pytest.mark.usefixtures("needs_sandbox")
@pytest.mark.parametrize(("document", "lines"), [("competition-tutorial.md", 18), ("competitions.md", 19)])
def test_a_document_works_as_it_is_written(document, lines, tmp_path, run):
    assert follow(document, tmp_path, run) >= lines


def test_every_link_leads_somewhere():
    for document in ("competitions.md", "competition-tutorial.md", "competition-server.md"):
        links = re.findall(r"\]\(((?!http)[^)#]+)", (DOCS / document).read_text("utf-8"))
        assert links or document == "competition-tutorial.md"
        assert [link for link in links if not (DOCS / link).exists()] == []
