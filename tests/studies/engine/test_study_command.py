"""``longshot study`` ls, show and validate through the real command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from longshot.studies import study_names


def test_ls_names_all_studies(run_cli: Any) -> None:
    shown = run_cli("study", "ls").stdout
    assert all(name in shown for name in study_names())
    records = json.loads(run_cli("study", "ls", "--json").stdout)
    assert [record["name"] for record in records] == study_names()
    assert records[0]["settings"]["alpha"] == 0.383


def test_what_show_prints_is_valid(run_cli: Any, tmp_path: Path) -> None:
    shown = run_cli("study", "show", "better-testbed").stdout
    for word in ("paper:", "version: 1", "checked:", "tasks: 5000"):
        assert word in shown
    file = tmp_path / "mine.yaml"
    file.write_text(shown, encoding="utf-8")
    printed = run_cli("study", "validate", file).stdout
    assert "is a valid study of the recipe 'better-testbed' with 13 settings" in printed


def test_validate_names_a_mistake(run_cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("recipe: many-way\nsettings:\n  ways: [5, few]\n", encoding="utf-8")
    done = run_cli("study", "validate", file, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().endswith(
        "has the setting ways.1 = 'few', but it must be a whole number of 2 or more."
    )


def test_an_unknown_study_ends_with_one_sentence(run_cli: Any, tmp_path: Path) -> None:
    done = run_cli("study", "run", "many-ways", "toybox", "-o", tmp_path / "out", check=False)
    assert done.returncode == 2
    assert done.stderr == "error: There is no study 'many-ways'; did you mean 'many-way'?\n"
