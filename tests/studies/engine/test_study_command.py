"""``longshot study`` ls, show and validate through the real command."""

from __future__ import annotations

import json
import subprocess
import sys
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
    for word in ("paper:", "version:", "checked:", "tasks: 5000"):
        assert word in shown
    file = tmp_path / "mine.yaml"
    file.write_text(shown, encoding="utf-8")
    printed = run_cli("study", "validate", file).stdout
    assert "is a valid study of the recipe 'better-testbed' with " in printed


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


def test_tables_prints_all_of_them_in_every_format(run_cli: Any, better: Path) -> None:
    shown = run_cli("study", "tables", better).stdout
    order = [shown.index(f"## {stem}\n") for stem in ("claims", "1-shot", "5-shot", "testbeds")]
    assert order == sorted(order) and shown.startswith("# Uniform tasks against")
    latex = run_cli("study", "tables", better, "--format", "latex").stdout
    assert (
        latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 6
    )  # two of them beside published ones
    rows = run_cli("study", "tables", better, "--format", "csv").stdout.splitlines()
    assert rows[0] == "# claims" and rows[1].startswith("claim,sentence,where,verdict,claim_p,number,value")


def test_tables_of_no_study_are_one_sentence(run_cli: Any, tmp_path: Path) -> None:
    done = run_cli("study", "tables", tmp_path, check=False)
    assert done.returncode == 2
    assert "is not the folder of a study: it has no study.json; 'longshot study run" in done.stderr


def test_listing_the_studies_does_not_load_torch() -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\nfrom longshot.cli import cli\n"
        "done = CliRunner().invoke(cli, ['study', 'ls'])\n"
        "assert done.exit_code == 0 and 'many-way-small' in done.stdout, done.output\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
