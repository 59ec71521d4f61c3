"""The wheel builds and works outside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_its_data_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "longshot/py.typed" in names
    assert any(name.endswith(".j2") for name in names)
    presets = {
        path.relative_to(ROOT / "src").as_posix()
        for path in ROOT.glob("src/longshot/studies/*/presets/*.yaml")
    }
    assert presets
    assert presets <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"longshot"}


def test_the_installed_wheel_runs_outside_the_repository(
    wheel: Path, tmp_path: Path, fresh_cache: Path, photos: Path
) -> None:
    site = tmp_path / "site"
    install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run([sys.executable, *install], check=True)
    # The editable install stays importable, so the wheel goes first on the path, and the command proves where it is.
    environment = os.environ | {"PYTHONPATH": str(site)}

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run("-c", "import longshot; print(longshot.__file__)").startswith(str(site))
    street = [
        ["sample", str(photos), "--tasks", "20", "-o", "a.parquet"],
        ["evaluate", "a.parquet", "--backbone", "pixels", "--method", "protonet", "-o", "run"],
        ["report", "run", "-o", "report.html"],
    ]
    for arguments in street:
        run("-m", "longshot.cli.main", *arguments)
    assert "protonet" in (tmp_path / "report.html").read_text("utf-8")
