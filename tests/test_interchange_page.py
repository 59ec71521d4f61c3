"""What docs/howto/interchange.md shows works as it is written there, in its order."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks._easyfsl import load_module
from conftest import ROOT, RunCli
from few_toys import FewToys
from forked import ForkServer

PAGE = ROOT / "docs" / "howto" / "interchange.md"
QUIET = "import datasets\ndatasets.disable_progress_bars()\n"


@pytest.mark.skipif(load_module("easyfsl.utils") is None, reason="needs easyfsl")
def test_the_page(
    tmp_path: Path,
    run_cli: RunCli,
    forks: ForkServer,
    own_toys: Callable[[FewToys], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("mlcroissant", reason="needs mlcroissant")
    own_toys(FewToys(20, "test"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    text = PAGE.read_text("utf-8")
    for line in re.findall(r"^    longshot (.*)$", text, re.MULTILINE):
        run_cli(*shlex.split(line), cwd=tmp_path)
    load, croissant, torch_loader, easyfsl = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert re.match(r"20 \['[a-z]+/", forks.run(program=QUIET + load, cwd=tmp_path).stdout)
    assert forks.run(program=croissant, cwd=tmp_path).stdout == "1.0.0 20\n"
    # easyfsl's imports as benchmarks/_easyfsl.py explains; the page's own lines follow.
    stand_ins = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from benchmarks._easyfsl import load_module\n"
        "load_module('easyfsl.methods'), load_module('easyfsl.utils')\n"
    )
    shapes = "print(*(tuple(part.shape) for part in (support, support_label, query, query_label)))\n"
    program = stand_ins + torch_loader + shapes + easyfsl + "print(accuracy)\n"
    printed = forks.run(program=program, cwd=tmp_path).stdout.splitlines()
    assert printed[0] == "(5, 3, 84, 84) (5,) (15, 3, 84, 84) (15,)"
    assert 0.2 < float(printed[-1]) < 1
