"""The starting kit: a stranger has the zip and an empty home, and comes from it to a scored entry."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longshot import competition as api
from longshot.base import UserError

from ..conftest import write_competition
from .conftest import Arena, change, open_arena


@pytest.fixture(scope="module")
def served(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """The small competition with a public phase, and two pages."""
    folder = tmp_path_factory.mktemp("kit") / "competition"
    write_competition(folder, images)
    change(folder, "phases:", "phases:\n  public: {train: [one], test: [two], tasks: 4, submissions: false}")
    change(folder, "[one], test: [two], tasks: 3", "[one], test: [three], tasks: 3")
    change(
        folder, "title: small", "title: small\nlicences: {one: CC0, two: CC BY 4.0}\npages: {Data: data.md}"
    )
    (folder / "data.md").write_text(
        "# Where they come from\n<script>alert(1)</script> [x](javascript:alert(1))\n"
    )
    opened = open_arena(folder)
    yield opened
    opened.server.close()


@pytest.fixture(scope="module")
def kit(served: Arena) -> bytes:
    return served.visitor.api("GET", "/kit").body


def test_the_server_hands_the_kit_out(served, kit):
    with zipfile.ZipFile(io.BytesIO(kit)) as archive:
        names = archive.namelist()
        readme = archive.read("kit/README.md").decode()
        settings = archive.read("kit/competition.yaml").decode()
        notebook = json.loads(archive.read("kit/notebook.ipynb"))
    assert {"kit/data/one.npz", "kit/data/two.npz", "kit/pages/Data.md"} <= set(names)
    assert "kit/data/three.npz" not in names  # hidden
    assert "three" not in settings and "final" not in settings and str(served.folder) not in settings
    assert "| CC BY 4.0 |" in readme and "64 KB compressed" in readme
    assert len(notebook["cells"]) == 6
    shipped = {name.split("/")[2] for name in names if name.startswith("kit/baselines/")}
    assert shipped == {*api.BASELINES} - {"metadelta"}
    front = served.visitor.ask("GET", "/").body.decode()
    assert 'href="/api/v1/kit"' in front and 'href="/pages/Data"' in front


def test_pages_of_organisers_are_safe(served):
    page = served.visitor.ask("GET", "/pages/Data").body.decode()
    assert "<h2>Where they come from</h2>" in page
    assert (
        "<script>alert" not in page
        and "&lt;script&gt;alert(1)" in page
        and "javascript:alert" not in page.replace("[x](javascript:alert(1))", "")
    )
    assert served.visitor.ask("GET", "/pages/Other").status == 404
    assert served.visitor.ask("GET", "/pages/..%2Fsecret").status == 404


def test_the_secret_of_hidden_tasks_is_in_no_kit(served, kit):
    secret = (served.folder / "secret").read_text().strip()
    with zipfile.ZipFile(io.BytesIO(kit)) as archive:
        assert all(secret.encode() not in archive.read(name) for name in archive.namelist())


@pytest.mark.usefixtures("needs_sandbox")
def test_a_stranger_comes_from_the_zip_to_a_scored_entry(served, kit, tmp_path, monkeypatch):
    """Every step is a command in the unpacked kit, with nothing else in the home."""
    home = tmp_path / "home"
    home.mkdir()
    with zipfile.ZipFile(io.BytesIO(kit)) as archive:
        archive.extractall(home)
    token = served.token(served.ada)
    environment = {
        **{
            name: os.environ[name] for name in ("PATH", "PYTHONPATH", "OMP_NUM_THREADS") if name in os.environ
        },
        "HOME": str(home),
        "LONGSHOT_TOKEN": token,
    }

    def longshot(*words: Any) -> str:
        command = [sys.executable, "-m", "longshot", "compete", *map(str, words)]
        done = subprocess.run(command, cwd=home / "kit", env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "normalised accuracy" in longshot("run", ".", "baselines/random", "-o", "tried")
    at_home = json.loads((home / "kit" / "tried" / "scores.json").read_text())
    monkeypatch.chdir(tmp_path)
    at_server = api.try_submission(served.folder, home / "kit" / "baselines" / "random", tmp_path / "there")
    assert at_home["overall"] == at_server["overall"]
    assert "can be submitted" in longshot("check", "baselines/random", "--league", "meta-learning")
    assert "is queued" in longshot("submit", served.server.url, "baselines/random")
    assert api.connect(served.server.url, served.worker_token).work() == 1
    assert "scored" in longshot("status", served.server.url, 1)
    page = served.ada.ask("GET", "/submissions/1").body.decode()
    assert "By dataset" in page and "By number of shots" in page
    board = served.ada.ask("GET", "/board").body.decode()
    assert "Difficulty of the datasets" in board and "Behind the one above" in board


def test_a_kit_says_what_it_lacks(images, tmp_path):
    folder = tmp_path / "competition"
    write_competition(folder, images)
    with pytest.raises(UserError, match="0 phases with public data and a kit needs one"):
        api.write_kit(folder, tmp_path / "kit.zip")
    change(folder, "phases:", "phases:\n  public: {train: [one], test: [two], submissions: false}")
    with pytest.raises(UserError, match="licence of 'one' is not said"):
        api.write_kit(folder, tmp_path / "kit.zip")
    shutil.rmtree(folder)
