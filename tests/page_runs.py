"""Does what a page of the documentation says: files are written, commands and programs run, outputs compared."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import yaml
from tools.doc_blocks import ROOT, Block

import longshot
from arena.sandboxed import missing_sandbox
from benchmarks._easyfsl import load_module
from few_toys import FewToys
from forked import ForkedProcess, ForkServer
from page_outputs import differences
from remote_servers import KEYS, s3_client, s3_server

# A page's competition in small: fewer and smaller tasks on smaller images, one seed, shorter trainings.
SMALL_COMPETITION = {
    r"image_size: \d+": "image_size: 32",
    r"shape: .*": "shape: {min_way: 2, max_way: 4, min_shot: 1, max_shot: 3, query: 4}",
    r"tasks: \d+": "tasks: 1",
    r"seeds: \[.*\]": "seeds: [1]",
}
SHORT_TRAININGS = {
    r"^(TASKS|STEPS) = \d+": r"\1 = 2",
    r"^CHECK = \d+": "CHECK = 1",
    r"--set steps=\d+": "--set steps=2",
}
_COMPETITION = "competition.yaml"
SHARED = ("toybox", "copies", "converted", "features", "pixels", "digests", "attributes")
# easyfsl's imports as benchmarks/_easyfsl.py explains.
_EASYFSL = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from benchmarks._easyfsl import load_module
load_module("easyfsl.methods"), load_module("easyfsl.utils")
"""
# One process per page runs its Python blocks, one file after another; it is told of a file through a pipe.
_DRIVER = """
import contextlib, io, sys, traceback
names = {"__name__": "__main__"}
with open(sys.argv[1]) as requests:
    for line in requests:
        path, printed = line.strip(), io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(open(path, encoding="utf-8").read(), path, "exec"), names)
            state = "done"
        except BaseException:
            state = traceback.format_exc()
        with open(path + ".out", "w", encoding="utf-8") as file:
            file.write(printed.getvalue())
        with open(path + ".state.part", "w", encoding="utf-8") as file:
            file.write(state)
        __import__("os").replace(path + ".state.part", path + ".state")
"""


class PageRun:
    """A folder, a cache and a Python process for one page.

    Parameters
    ----------
    forks : ForkServer
        Starts commands and programs.
    folder : Path
        An empty folder: ``desk`` in it is where commands run.
    cache : Path
        The tests' cache, whose features and converted networks are shared.
    photos : Path
        What ``needs: my_photos`` lays on the desk.
    long : bool
        Whether blocks marked ``long`` are run.
    """

    def __init__(self, forks: ForkServer, folder: Path, cache: Path, photos: Path, long: bool) -> None:
        self.forks, self.folder, self.cache, self.photos, self.long = forks, folder, cache, photos, long
        self.desk = folder / "desk"
        self.desk.mkdir()
        self.python: ForkedProcess | None = None
        self.competes = False
        self.count = 0
        self.servers = contextlib.ExitStack()
        self._use_cache(SHARED)

    def follow(self, blocks: list[Block]) -> int:
        """Do all blocks in order; the number of commands and programs that were run."""
        for block in blocks:
            try:
                self._follow(block)
            except AssertionError as error:
                raise AssertionError(f"block at line {block.line}: {error}") from None
        return self.count

    def close(self) -> None:
        """End the page's Python process, and its servers."""
        self.servers.close()
        if self.python is not None:
            self.pipe.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.python.wait(60)
            self.python.kill()

    def _follow(self, block: Block) -> None:
        marks = block.marks
        if block.kind == "needs":
            self._lay_out(block.text)
        elif block.kind == "setup":
            for line in block.text.strip().split("\n"):
                self._command(line, "", {})
        elif block.name:
            path = self.desk / block.name
            path.parent.mkdir(parents=True, exist_ok=True)
            text = _replaced(block.text, SHORT_TRAININGS) if self.competes else block.text
            path.write_text(_smaller(text, marks) + "\n", encoding="utf-8")
            if path.name == _COMPETITION:
                longshot.competition.load(path.parent)
        elif "not-run" in marks or ("long" in marks and not self.long):
            return
        elif block.kind == "console":
            assert block.text.startswith("$ "), "a console block begins with a command after '$ '"
            for command, shown in block.commands():
                self._command(_smaller(command, marks), shown, marks)
        elif block.kind == "python":
            self._program(_smaller(block.text, marks), block.output, marks)
        elif block.kind in ("yaml", "json"):
            yaml.safe_load(block.text)

    def _lay_out(self, text: str) -> None:
        subject, _, name = text.partition(" as ")
        if subject == "small-competition":
            reason = missing_sandbox()
            if reason is not None:
                pytest.skip(f"needs bubblewrap: {reason}")
            self.competes = True
        elif subject == "few-toys":
            self._use_cache(("toybox", "converted"))
            os.environ.update(FewToys(20).tell())
        elif subject == "easyfsl":
            if load_module("easyfsl.utils") is None:
                pytest.skip("needs easyfsl")
            self._program(_EASYFSL, None, {})
        elif subject == "bucket":
            self._start_bucket()
        else:
            assert subject == "my_photos", f"nobody knows how to lay out '{subject}'"
            (self.desk / (name or subject)).symlink_to(self.photos)

    def _start_bucket(self) -> None:
        """An S3 interface on loopback whose bucket ``shelf`` holds the photos, as a zip and as a folder."""
        for package in ("moto", "s3fs"):
            pytest.importorskip(package, reason=f"needs the package {package}")
        address = self.servers.enter_context(s3_server())
        environment = self.servers.enter_context(pytest.MonkeyPatch.context())
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": address}.items():
            environment.setenv(name, value)
        client = s3_client(address)
        client.create_bucket(Bucket="shelf")
        archive = self.folder / "photos.zip"
        with zipfile.ZipFile(archive, "w") as file:
            for path in sorted(self.photos.rglob("*.jpg")):
                name = path.relative_to(self.photos).as_posix()
                file.write(path, name)
                client.put_object(Bucket="shelf", Key=f"photos/{name}", Body=path.read_bytes())
        client.put_object(Bucket="shelf", Key="photos.zip", Body=archive.read_bytes())

    def _use_cache(self, shared: tuple[str, ...]) -> None:
        own = self.folder / f"cache-{len(shared)}"
        own.mkdir()
        for name in shared:
            (self.cache / name).mkdir(exist_ok=True)
            (own / name).symlink_to(self.cache / name)
        os.environ["LONGSHOT_CACHE"] = str(own)

    def _command(self, command: str, shown: str, marks: dict[str, str]) -> None:
        if self.competes:
            command = _replaced(command, SHORT_TRAININGS)
            # A short training writes a short log; else lines agree but for numbers, order and how often they come.
            short = "steps=" in command or "log.txt" in command
            marks = {"compare": "nothing" if short else "lines", **marks}
        command, ignored, _ = command.partition(" || true")
        done = self._run(command)
        if ignored:
            done.returncode = 0
        if self.competes and " init " in command:
            path = self.desk / command.split()[3] / _COMPETITION
            path.write_text(_replaced(path.read_text("utf-8"), SMALL_COMPETITION), encoding="utf-8")
        fails = bool(re.search(r"^error: ", shown, re.MULTILINE)) and not ignored
        wanted_code = int(marks["exit"]) if "exit" in marks else None
        right = done.returncode == wanted_code if wanted_code is not None else (done.returncode != 0) == fails
        assert right, f"$ {command}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        error = re.search(r"^error: .*", done.stderr, re.MULTILINE | re.DOTALL)
        notes = re.findall(r"^(?:note|warning): .*", done.stderr, re.MULTILINE)
        lines = shown.split("\n")
        shown_notes = [line for line in lines if re.match(r"(note|warning): ", line)]
        for note in shown_notes:
            near = [printed for printed in notes if not _differ(note, printed, marks)]
            assert near, f"$ {command}\nshown: {note}\nprinted notes:\n" + "\n".join(notes)
        rest_shown = "\n".join(line for line in lines if line not in shown_notes)
        printed = self._plain(done.stdout + (error[0] if error else ""))
        difference = _differ(rest_shown, printed, marks)
        assert not difference, f"$ {command}\n{difference}"
        self.count += 1

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        """By the server of forks where it is one command of Longshot or a program; by a shell otherwise."""
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        target = None
        if len(words) > 2 and words[-2] == ">":
            target, words = self.desk / words[-1], words[:-2]
        simple = (
            not any(set(word) <= set("();<>|&") for word in words)
            and "$" not in command
            and "`" not in command
        )
        if words[0] in ("longshot", "python") and simple and words[1] not in ("-m", "-c"):
            program = words[0] == "python"
            text = (self.desk / words[1]).read_text("utf-8") if program else None
            done = self.forks.run(*words[2 if program else 1 :], program=text, cwd=self.desk, check=False)
            if target is not None:
                target.write_text(done.stdout, encoding="utf-8")
                done.stdout = ""
            return done
        paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
        environment = {**os.environ, "PATH": os.pathsep.join(paths)}
        shell = ["bash", "-c", command]
        return subprocess.run(
            shell, cwd=self.desk, capture_output=True, text=True, env=environment, timeout=1200
        )

    def _program(self, text: str, shown: str | None, marks: dict[str, str]) -> None:
        if self.python is None:
            pipe = self.folder / "requests"
            os.mkfifo(pipe)
            self.python = self.forks.start(pipe, program=_DRIVER, cwd=self.desk)
            self.pipe = pipe.open("w", encoding="utf-8")
        self.count += 1
        path = self.folder / f"block{self.count}.py"
        path.write_text(text, encoding="utf-8")
        self.pipe.write(f"{path}\n")
        self.pipe.flush()
        state = path.with_name(path.name + ".state")
        while not state.exists():
            assert self.python.poll() is None, f"the page's Python ended during\n{text}"
            time.sleep(0.01)
        outcome = state.read_text("utf-8")
        assert outcome == "done", f"{text}\n{outcome}"
        if shown is not None:
            printed = self._plain(path.with_name(path.name + ".out").read_text("utf-8"))
            difference = _differ(shown, printed, marks)
            assert not difference, f"{text}\n{difference}"

    def _plain(self, text: str) -> str:
        """Paths as a reader would see them: below the folder they are in."""
        return text.replace(f"{self.desk}/", "").replace(str(self.desk), ".")


def _differ(shown: str, printed: str, marks: dict[str, str]) -> str:
    compare = marks.get("compare", "words" if "small" in marks else "numbers")
    assert compare in ("numbers", "words", "lines", "nothing"), f"compare: {compare} means nothing"
    if compare == "nothing":
        return ""
    if compare == "lines":
        return "" if _kinds(shown) == _kinds(printed) else f"--- shown\n{shown}\n--- printed\n{printed}"
    return differences(shown, printed, float(marks.get("tolerance", 2)), compare == "words")


def _kinds(text: str) -> set[str]:
    """The lines that occur, without numbers; an interval of too few tasks may be missing."""
    lines = (re.sub(r"[-−]?\d[\d.,:]*", "#", line) for line in text.strip().splitlines())
    return {" ".join(line.replace(" ± #", "").split()) for line in lines}


def _replaced(text: str, changes: dict[str, str]) -> str:
    for pattern, by in changes.items():
        text = re.sub(pattern, by, text, flags=re.MULTILINE)
    return text


def _smaller(text: str, marks: dict[str, str]) -> str:
    """With the values of ``small: steps=4`` in place of those of ``--steps 200``, ``steps=200`` and ``steps: 200``."""
    for setting in shlex.split(marks.get("small", "")):
        name, _, value = setting.partition("=")
        pattern = rf"(?<![\w-])((?:--)?{re.escape(name)}(?: |=|: | = ))(?:\[[^\]]*\]|\{{[^}}]*\}}|[\w.\-]+)"
        text = re.sub(pattern, lambda match, value=value: match[1] + value, text)
    return text
