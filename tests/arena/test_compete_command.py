"""The whole of a competition through the real command: init, submit, work, leaderboard, final, pages, bundle."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("needs_sandbox")
SCRIPT = "<script>alert(1)</script>"


def test_the_street_of_a_competition(run_cli, competition, submission, tmp_path):
    folder = competition.folder
    run_cli("compete", "baseline", "random", tmp_path / "guess")
    run_cli("compete", "submit", folder, tmp_path / "guess", "--team", SCRIPT)
    broken = submission("broken", fit="raise ValueError('<b>boom</b>')")
    run_cli("compete", "submit", folder, broken, "--team", "Broken")
    worked = run_cli("compete", "work", folder)
    assert "submission 1, seed 1: scored" in worked.stdout
    assert "submission 2, seed 1: failed: it failed in fit" in worked.stdout
    status = json.loads(run_cli("compete", "status", folder, "--json").stdout)
    assert [row["state"] for row in status] == ["scored", "failed"]
    assert re.fullmatch(r"it failed in fit with ValueError at model\.py, line \d+", status[1]["reason"])
    log = (folder / "submissions" / "000002" / "seed-1" / "log.txt").read_text()
    assert log == f"failed: {status[1]['reason']}\n"
    page = tmp_path / "board.html"
    board = json.loads(run_cli("compete", "leaderboard", folder, "--html", page, "--json").stdout)
    run_cli("compete", "leaderboard", folder, "--html", page)  # its own page is replaced
    assert [(row["rank"], row["team"]) for row in board] == [(1, SCRIPT)]
    text = page.read_text()
    assert SCRIPT not in text and "&lt;script&gt;" in text
    assert "Broken" not in text
    entered = json.loads(run_cli("compete", "final", folder, "--json").stdout)
    assert [row["final"] for row in entered] == [3]
    run_cli("compete", "work", folder)
    final = json.loads(run_cli("compete", "leaderboard", folder, "--json").stdout)
    assert [(row["phase"], row["rank"]) for row in final] == [("final", 1)]
    history = run_cli("compete", "status", folder, "3").stdout
    assert len(re.findall(r"seed \d: scored", history)) == 3
    details = (folder / "submissions" / "000003" / "seed-2" / "detailed_results.html").read_text()
    assert "By number of shots" in details


def test_trying_without_entering(run_cli, competition, submission, tmp_path):
    done = run_cli("compete", "run", competition.folder, submission(), "-o", tmp_path / "tried")
    assert done.stdout.startswith("normalised accuracy 0.0000 ±")
    assert not list(Path(competition.folder, "submissions").glob("*"))
    unsafe = run_cli(
        "compete", "run", competition.folder, submission("again"), "-o", tmp_path / "own", "--unsafe"
    )
    assert unsafe.stdout.splitlines()[0] == done.stdout.splitlines()[0]
    assert json.loads((tmp_path / "own" / "scores.json").read_text())["official"] is False


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("submit", "{c}", "{c}/nothing", "--team", "a"), "There is no submission at"),
        (("submit", "{c}", "{c}", "--team", "a", "--league", "chess"), "There is no league 'chess'"),
        (("submit", "{c}", "{c}"), "is a team's, and none is named; name it with --team."),
        (("rerun", "{c}", "9"), "There is no submission 9"),
        (("work", "{c}/nothing"), "There is no competition.yaml in"),
        (("baseline", "prototypes", "x"), "did you mean 'prototypical'?"),
        (("baseline", "random", "x", "--set", "speed=9"), "has no setting 'speed'"),
        (("validate", "{c}/competition.yaml"), "is no zip"),
    ],
)
def test_mistakes_end_in_one_sentence(run_cli, competition, tmp_path, words, reason):
    done = run_cli(
        "compete", *(word.format(c=competition.folder) for word in words), cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and reason in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_meta_learner_may_not_ship_weights(run_cli, competition, submission):
    folder = submission()
    (folder / "net.pth").write_bytes(b"weights")
    (folder / "table.dat").write_bytes(np.random.default_rng(0).bytes(70_000))
    words = ("submit", competition.folder, folder, "--team", "a", "--league", "meta-learning")
    for done in (
        run_cli("compete", *words, check=False),
        run_cli("compete", "check", folder, "--league", "meta-learning", check=False),
    ):
        assert done.returncode == 2 and "allows no saved weights" in done.stderr
        assert "net.pth looks like saved weights" in done.stderr
        # 70,000 bytes of noise are 68.4 KB, however they are compressed.
        assert "at most 64 are allowed in this league, and table.dat alone has 68.4" in done.stderr
    assert "can be submitted" in run_cli("compete", "check", folder).stdout  # in another league
