"""The command's root: help, versions, mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from longshot.cli.main import commands

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


def test_help_lists_every_command(run_cli: RunCli) -> None:
    text = run_cli("--help").stdout
    assert all(f"\n  {name} " in text for name in commands())


@pytest.mark.parametrize("name", commands())
def test_each_help_opens_with_an_example(run_cli: RunCli, name: str) -> None:
    assert (
        f"longshot {name}" in run_cli(name, "--help").stdout.split("Options:")[0].split("Usage:", 1)[1][20:]
    )


def test_a_mistyped_command_gets_a_suggestion(run_cli: RunCli) -> None:
    done = run_cli("evalute", check=False)
    assert done.returncode == 2
    assert "Did you mean 'evaluate'?" in done.stderr


NAMED = [  # a command for each way in which a name or path comes in; NAME stands for it
    "verify NAME",
    "verify toybox --dataset x=NAME",
    "inspect NAME",
    "datasets show NAME",
    "datasets add mine NAME",
    "datasets check NAME",
    "embed NAME --backbone pixels",
    "embed toybox --backbone NAME",
    "backbones NAME",
    "taxonomy show NAME",
    "attributes NAME",
    "split NAME --random",
    "splits compare NAME NAME",
    "sample NAME --tasks 2 -o bed.parquet",
    "sample toybox --tasks 2 -o NAME.parquet",
    "explain NAME",
    "methods check NAME.py:own",
    "evaluate NAME --backbone pixels --method protonet -o run",
    "compare NAME NAME",
    "report NAME",
    "serve NAME --port 9999",
    "study run NAME toybox -o study",
    "study run NAME.yaml toybox -o study",
    "study run many-way-small NAME -o study",
    "study run many-way-small toybox -o NAME",
    "study run many-way-small toybox --config NAME.yaml -o study",
    "study tables NAME",
    "bench NAME",
    "release NAME --title T -o out",
    "score NAME NAME",
    "train protonet NAME -o net",
    "train protonet toybox -o NAME",
    "tune NAME toybox -o tuned",
    "compete init NAME",
    "compete status NAME",
]


def test_a_name_that_is_too_long_for_a_file_is_a_sentence(run_cli: RunCli, tmp_path: Path) -> None:
    lines = [line.replace("NAME", "n" * 3000) for line in NAMED]
    for line in [*lines, f"verify {'n' * 300}", f"verify {'n/' * 3000}"]:
        done = run_cli(*line.split(), check=False, cwd=tmp_path)
        printed = done.stderr.strip().splitlines()
        assert done.returncode == 2 and "Traceback" not in done.stderr, (line[:60], done.stderr[-600:])
        assert printed[-1].lower().startswith("error: "), (line[:60], printed[-1][:200])
    assert list(tmp_path.iterdir()) == []


def test_importing_longshot_and_asking_for_help_load_nothing_heavy() -> None:
    code = (
        "import sys, longshot, longshot.cli.main\n"
        "from click.testing import CliRunner\n"
        "assert CliRunner().invoke(longshot.cli.main.cli, ['--help']).exit_code == 0\n"
        "heavy = {'torch', 'pandas', 'scipy', 'matplotlib', 'pyarrow', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
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
