"""``longshot doctor`` imports what it calls ok."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from longshot.api.installation import EXTRAS

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


def install(site: Path, package: str, code: str, plugins: str = "") -> None:
    """Write a package as pip would leave it: metadata and a module, and the plugins that it names."""
    (site / package).mkdir(parents=True)
    (site / package / "__init__.py").write_text(code)
    record = site / f"{package}-9.9.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 9.9\n")
    (record / "entry_points.txt").write_text(f"[longshot.plugins]\n{plugins}" if plugins else "")


BROKEN = {  # package: its code
    "transformers": "raise RuntimeError('built for another torch')",
    "duckdb": "import os; os._exit(9)",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A search path on which every extra is there, imported at once, and two are broken."""
    folder = tmp_path_factory.mktemp("site")
    for package in {package for packages, _ in EXTRAS.values() for package in packages}:
        install(folder, package.replace("-", "_"), BROKEN.get(package, ""))
    code = 'from longshot.base import Plugin\nPLUGIN = Plugin("what others add")\n'
    install(folder, "added", code, "added = added:PLUGIN\ngone = added:GONE\nother = added:Plugin\n")
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="module")
def rows(run_cli: RunCli, site: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What it says there."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LONGSHOT_CACHE", str(tmp_path_factory.mktemp("cache")))
        patched.setenv("PYTHONPATH", site)
        return {row["what"]: row for row in json.loads(run_cli("doctor", "--json").stdout)}


@pytest.mark.parametrize(
    ("extra", "state", "detail"),
    [
        ("timm", "ok", "timm:NAME backbones (timm 9.9)"),
        ("hf", "broken", "RuntimeError: built for another torch"),
        ("sql", "broken", "the process ended with code 9"),
    ],
)
def test_an_extra_is_ok_when_it_can_be_imported(
    rows: dict[str, dict[str, str]], extra: str, state: str, detail: str
) -> None:
    row = rows[f"extra {extra}"]
    assert row["state"] == state and detail in row["detail"]


@pytest.mark.parametrize(
    ("name", "state", "detail"),
    [
        ("added", "ok", "what others add"),
        ("gone", "absent", "added:GONE cannot be imported: module 'added' has no attribute 'GONE'"),
        ("other", "absent", "added:Plugin is a type, and a Plugin is needed"),
    ],
)
def test_plugins_are_named(rows: dict[str, dict[str, str]], name: str, state: str, detail: str) -> None:
    assert rows[f"plugin {name}"] == {"what": f"plugin {name}", "state": state, "detail": detail}


def test_every_extra_of_users_is_asked_for() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"docs", "dev"}
    for extra, (packages, _) in EXTRAS.items():
        names = {re.split(r"[\[>=]", requirement)[0] for requirement in extras[extra]}
        assert names <= {*packages, *(package.replace("-", "_") for package in packages)}, extra


@pytest.mark.long
def test_what_is_installed_here_can_be_imported(run_cli: RunCli) -> None:
    """The modules of the real packages have the names that it imports."""
    rows = json.loads(run_cli("doctor", "--json").stdout)
    assert not [row for row in rows if row["what"].startswith("extra ") and row["state"] == "broken"]


def test_every_place_of_the_cache_is_shown(
    run_cli: RunCli, site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", site)
    (tmp_path / "file").write_text("")
    places = [tmp_path / "file" / "below", tmp_path / "first", tmp_path / "second"]
    monkeypatch.setenv("LONGSHOT_CACHE", os.pathsep.join(map(str, places)))
    rows = [row for row in json.loads(run_cli("doctor", "--json").stdout) if row["what"] == "cache"]
    assert [row["detail"].partition(":")[0] for row in rows] == list(map(str, places))
    assert rows[0]["state"] == "absent"
    assert rows[1]["detail"].endswith("written to") and rows[2]["detail"].endswith("read from")


@pytest.mark.parametrize(
    ("value", "state", "words"),
    [
        ("", "ok", "results vouch for the bytes of images (the default)"),
        ("names", "names", "results vouch for names of images only (LONGSHOT_IDENTITY=names)"),
        ("pixels", "wrong", "LONGSHOT_IDENTITY is 'pixels', but it must be content or names."),
    ],
)
def test_what_results_vouch_for_is_told(
    monkeypatch: pytest.MonkeyPatch, value: str, state: str, words: str
) -> None:
    from longshot.api import installation

    monkeypatch.setenv("LONGSHOT_IDENTITY", value)
    assert installation._identity() == {"what": "identity", "state": state, "detail": words}


def test_whether_libraries_tell_their_makers_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    from longshot.api import installation

    assert installation._telemetry()["state"] == "off"
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    row = installation._telemetry()
    assert (row["state"], row["detail"]) == ("on", "switched on by ORT_DISABLE_TELEMETRY=0")
