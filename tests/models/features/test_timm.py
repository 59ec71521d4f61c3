"""``timm:`` with the real package, in a process of its own (see real_timm.py), and what is said where it is not."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from longshot.base import UserError
from longshot.models import list_backbones, load_backbone

PEERS = Path(sys.prefix) / "peers"  # made by tools/setup.sh
SCRIPT = Path(__file__).with_name("real_timm.py")
TORCH = importlib.metadata.version("torch").partition("+")[0]


@pytest.mark.long
@pytest.mark.parametrize("which", ["short", "long"])
def test_against_timm_itself(which: str, tmp_path: Path) -> None:
    """All checks of real_timm.py in one process, whose imports cost more than they do; long: networks of full size."""
    if not (PEERS / "timm").is_dir():
        pytest.skip(f"timm is not in {PEERS}; tools/setup.sh puts it there with the extra dev")
    paths = [str(PEERS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), which], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    verdicts: dict[str, str] = json.loads(done.stdout)  # a check's name → its traceback, or nothing
    assert len(verdicts) == (3 if which == "long" else 9)
    assert not any(verdicts.values()), "\n".join(f"{name}: {text}" for name, text in verdicts.items() if text)


def test_absent_timm_is_told_with_the_torch_that_is_there() -> None:
    if all(row["installed"] for row in list_backbones() if row["name"] == "timm:NAME"):
        pytest.skip("timm is installed here")
    with pytest.raises(UserError, match=rf'to have it: pip install "longshot\[timm\]" torch=={TORCH}'):
        load_backbone("timm:resnet18")


def test_a_broken_timm_is_told(tmp_path: Path) -> None:
    """A torchvision of another build breaks timm's import; that ends in one sentence with the pip command."""
    for name in ("timm", "torchvision"):
        (tmp_path / name).mkdir()
        text = "raise RuntimeError('operator torchvision::nms does not exist')" if name == "timm" else ""
        (tmp_path / name / "__init__.py").write_text(text)
    code = "from longshot.models.backbones import load_backbone as f\nf('timm:resnet18')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (
        "UserError: Backbone 'timm:resnet18': timm cannot be imported (RuntimeError: operator" in done.stderr
    )
    assert f"torch=={TORCH}" in done.stderr
