"""What participants and organisers read of a run: nothing hidden comes out, nothing in it passes for something else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from longshot.arena import connect, queue, submission_runs
from longshot.arena.inside.wire import one_line, system_reason
from longshot.arena.store import Store

FORGED = "submission 2, seed 1: scored 1.0000"
LEAKS = """
shown = str(support_set[1].tolist()) + " " + str(support_set[0].flatten()[:50].tolist())
print("LEAK", shown, flush=True)
raise type("LEAK" + "x" * 50, (Exception,), {})("LEAK " + shown)
"""


def change(competition, old: str, new: str) -> None:
    path = competition.folder / "competition.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


@pytest.mark.usefixtures("needs_sandbox")
def test_nothing_that_a_hidden_phase_shows_comes_out(run_cli, competition, submission):
    folder = competition.folder
    run_cli("compete", "submit", folder, submission(fit=LEAKS), "--team", "a")
    worked = run_cli("compete", "work", folder)
    run = folder / "submissions" / "000001" / "seed-1"
    texts = [
        worked.stdout,
        worked.stderr,
        run_cli("compete", "status", folder).stdout,
        run_cli("compete", "status", folder, "--json").stdout,
        run_cli("compete", "status", folder, "1").stdout,
        (run / "log.txt").read_text(),
    ]
    assert not any("LEAK" in text for text in texts)
    assert re.fullmatch(r"failed: it failed in fit at model\.py, line \d+\n", texts[-1])
    printed = run / "printed.txt"  # the organiser's
    assert printed.read_text().count("LEAK") >= 3 and printed.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("needs_sandbox")
def test_a_newline_in_an_exception_forges_no_line(run_cli, competition, submission):
    change(competition, "tasks: 3, per_day", "tasks: 3, logs: printed, per_day")
    folder = competition.folder
    words = f"print('failed: mine\\\\x1b[2J')\nraise ValueError('boom\\\\n{FORGED}\\\\r{FORGED}\\\\x1b[2J')"
    code = submission(meta=words.replace("\\\\", "\\"))
    run_cli("compete", "submit", folder, code, "--team", "a")
    worked = run_cli("compete", "work", folder)
    assert len(worked.stdout.splitlines()) == 2  # the run's end, and how many were done
    assert not [line for line in worked.stdout.splitlines() if line.startswith("submission 2")]
    assert "boom\\n" + FORGED in worked.stdout and "\x1b" not in worked.stdout
    history = run_cli("compete", "status", folder, "1").stdout
    assert not [line for line in history.splitlines() if line.startswith(FORGED)]
    log = (folder / "submissions" / "000001" / "seed-1" / "log.txt").read_text()
    assert log.startswith("| failed: mine\\x1b[2J\n")
    assert [line[:7] for line in log.splitlines() if not line.startswith("| ")] == ["failed:"]
    assert "\x1b" not in log and "\r" not in log


def test_a_fault_of_the_runner_forges_no_line_either(competition, submission, monkeypatch, capfd):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"boom\n{FORGED}\n\x1b[2J")

    monkeypatch.setattr(submission_runs.sandbox, "require", lambda: None)
    monkeypatch.setattr(submission_runs, "run", fail)
    monkeypatch.setattr(queue, "ATTEMPTS", 1)
    store = Store(competition)
    queue.enter(competition, store, submission(), team="a", phase="feedback", league="free-style")
    heard: list[str] = []
    connect(competition.folder).work(tell=heard.append)
    assert heard == ["submission 1, seed 1: the runner failed (RuntimeError)"]
    errors = capfd.readouterr().err
    assert FORGED in errors and "\x1b" not in errors
    assert all(line.startswith("  | ") for line in errors.splitlines())


def test_a_record_has_one_line_and_an_end():
    assert one_line("a\nb\r\nc\x1b\u2028d\x85") == "a\\nb\\nc\\x1b\\u2028d\\x85"
    assert one_line("x" * 400) == "x" * 400
    assert one_line("x" * 401) == "x" * 399 + "…"


@pytest.mark.parametrize(
    ("stage", "reason", "sentence"),
    [
        (
            "fit",
            'File "model.py", line 2, in f\n  x\nKeyError: 5',
            "it failed in fit with KeyError at model.py, line 2",
        ),
        (
            "fit",
            'File "model.py", line 4, in f\nKeyError: 5',
            "it failed in fit with KeyError",
        ),  # it has 3 lines
        ("fit", 'File "other.py", line 1, in f\nSecret5: 5', "it failed in fit"),
        ("fit", 'File "../model.py", line 1\nKeyError', "it failed in fit with KeyError"),
        ("fit", 'File "notes.txt", line 1\nKeyError', "it failed in fit with KeyError"),
        ("0123", "KeyError: 5", "it failed with KeyError"),
        (
            "import",
            'File "model.py", line 1, in f\nImportError: secret',
            "it failed in import with ImportError at model.py, line 1: import one",
        ),
    ],
)
def test_a_system_message_holds_what_its_author_knew(tmp_path: Path, stage, reason, sentence):
    (tmp_path / "model.py").write_text("import one\nimport two\n")
    (tmp_path / "notes.txt").write_text("notes\n")
    assert system_reason(stage, reason, tmp_path) == sentence
