"""``longshot doctor`` imports what it calls ok."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


def install(site: Path, package: str, code: str) -> None:
    """A package as pip would leave it: metadata and a module."""
    (site / package).mkdir(parents=True)
    (site / package / "__init__.py").write_text(code)
    record = site / f"{package}-9.9.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 9.9\n")


@pytest.mark.parametrize(
    ("code", "state", "detail"),
    [
        ("", "ok", "timm:NAME backbones (timm 9.9)"),
        ("raise RuntimeError('built for another torch')", "broken", "RuntimeError: built for another torch"),
        ("import os; os._exit(9)", "broken", "the process ended with code 9"),
    ],
)
def test_an_extra_is_ok_when_it_can_be_imported(
    run_cli: RunCli,
    fresh_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    state: str,
    detail: str,
) -> None:
    install(tmp_path / "site", "timm", code)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    )
    rows = {row["what"]: row for row in json.loads(run_cli("doctor", "--json").stdout)}
    assert rows["extra timm"]["state"] == state and detail in rows["extra timm"]["detail"]


def test_every_place_of_the_cache_is_shown(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    places = [tmp_path / "file" / "below", tmp_path / "first", tmp_path / "second"]
    monkeypatch.setenv("LONGSHOT_CACHE", os.pathsep.join(map(str, places)))
    rows = [row for row in json.loads(run_cli("doctor", "--json").stdout) if row["what"] == "cache"]
    assert [row["detail"].partition(":")[0] for row in rows] == list(map(str, places))
    assert rows[0]["state"] == "absent"
    assert rows[1]["detail"].endswith("written to") and rows[2]["detail"].endswith("read from")
