"""The demo runs the whole street and shows what toybox was made to show."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

import longshot
from few_toys import FewToys
from forked import ForkServer
from longshot.cli.machine_commands import BACKBONES
from longshot.evaluation import Results


def check_the_demo(
    run_cli: Callable[..., subprocess.CompletedProcess[str]], out: Path
) -> subprocess.CompletedProcess[str]:
    done = run_cli("demo", "--tasks", "100", "-o", out)
    report = out / "report.html"
    assert f"report: {report}" in done.stdout
    assert "look-alikes" in report.read_text("utf-8")
    accuracies = {(r["testbed"], r["backbone"]): r["accuracy"] for r in Results(out / "run").summary()}
    run = Results(out / "run").run
    pixels, lite = BACKBONES
    assert set(run["backbones"]) == {pixels, lite}
    (story,) = run["backbones"][lite].values()
    assert "central_crop(84)" in story["networks"][0]["preprocessing"]
    network = {bed: accuracies[bed, lite] for bed in ("mixed", "look-alikes")}
    assert network["mixed"] > network["look-alikes"] + 0.2
    assert network["mixed"] > accuracies["mixed", "pixels"] + 0.2
    return done


def test_the_demo(
    run_cli: Callable[..., subprocess.CompletedProcess[str]],
    forks: ForkServer,
    own_toys: Callable[[FewToys], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """On the classes that it tests on, with as many pictures as five shots and ten queries leave a choice of."""
    own_toys(FewToys(20, "test"))
    out = tmp_path / "a folder"
    printed = check_the_demo(run_cli, out).stdout
    # As they stand, comments and all, when they are pasted.
    lines = [shlex.split(line, comments=True) for line in printed.split("\nNext:\n")[1].strip().splitlines()]
    expected = [verb for verb in ("serve", "sample", "explain") if verb not in longshot._ABSENT]
    assert [line[:2] for line in lines] == [["longshot", verb] for verb in expected]
    pasted = {line[1]: line[1:] for line in lines}
    run_cli(*pasted["sample"], cwd=tmp_path)
    assert (out / "hard.parquet").is_file()
    if "explain" in pasted:
        assert "task" in run_cli(*pasted["explain"], cwd=tmp_path).stdout
    if "serve" in pasted:
        _check_serving(forks, pasted["serve"], tmp_path, monkeypatch)


def _check_serving(
    forks: ForkServer, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", "true")  # the command that does nothing
    server = forks.start(*words, cwd=tmp_path)

    def said() -> str:
        return "".join(path.read_text() for path in (server.out, server.err) if path.exists())

    try:
        while "http://" not in said():
            assert server.poll() is None, said()
            time.sleep(0.05)
        (address,) = set(re.findall(r"http://[\d.]+:\d+/", said()))
        with urllib.request.urlopen(address) as answer:
            assert "look-alikes" in answer.read().decode()
    finally:
        server.kill()
        server.wait()


@pytest.mark.long
def test_the_demo_on_all_of_toybox(
    run_cli: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    check_the_demo(run_cli, tmp_path / "out")
