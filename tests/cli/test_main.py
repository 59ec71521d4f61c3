"""The command's root: help, versions, mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from longshot.cli.main import COMMANDS

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


def test_help_lists_every_command(run_cli: RunCli) -> None:
    text = run_cli("--help").stdout
    assert all(f"\n  {name} " in text for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_help_opens_with_an_example(run_cli: RunCli, name: str) -> None:
    assert (
        f"longshot {name}" in run_cli(name, "--help").stdout.split("Options:")[0].split("Usage:", 1)[1][20:]
    )


def test_a_mistyped_command_gets_a_suggestion(run_cli: RunCli) -> None:
    done = run_cli("evalute", check=False)
    assert done.returncode == 2
    assert "Did you mean 'evaluate'?" in done.stderr


def test_importing_longshot_and_asking_for_help_load_nothing_heavy() -> None:
    code = (
        "import sys, longshot, longshot.cli.main\n"
        "from click.testing import CliRunner\n"
        "assert CliRunner().invoke(longshot.cli.main.cli, ['--help']).exit_code == 0\n"
        "heavy = {'torch', 'pandas', 'scipy', 'matplotlib', 'pyarrow', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_listing_the_studies_does_not_load_torch() -> None:
    code = (
        "import sys, longshot.cli.main\n"
        "from click.testing import CliRunner\n"
        "done = CliRunner().invoke(longshot.cli.main.cli, ['study', 'ls'])\n"
        "assert done.exit_code == 0 and 'many-way-small' in done.stdout, done.output\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_can_be_imported() -> None:
    import longshot

    for name in longshot.__all__:
        assert getattr(longshot, name) is not None


def test_doctor_reports_as_json(run_cli: RunCli, fresh_cache: Path) -> None:
    rows = {row["what"]: row for row in json.loads(run_cli("doctor", "--json").stdout)}
    assert rows["longshot"]["state"] == "ok"
    assert str(fresh_cache) in rows["cache"]["detail"]
    assert {"torch", "device", "sandbox", "extra hf"} <= set(rows)


def test_the_help_of_sample_fits_two_screens(run_cli: RunCli) -> None:
    """The rare options stand behind --help-all: by name in the short help, described in the long one."""
    short, long = (run_cli("sample", flag).stdout for flag in ("--help", "--help-all"))
    assert len(short.splitlines()) <= 100
    assert "\n  --temperature " not in short and "--temperature" in short
    assert "\n  --temperature" in long and "--help-all:" not in long
