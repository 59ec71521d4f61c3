"""Every small preset on a folder without splits, taxonomy or attributes; claims are declared in one place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import longshot
from longshot.base import UserError
from longshot.studies import run_study, study_names

SMALL = [name for name in study_names() if name.endswith("-small")]
QUICK = {  # as little work as the settings allow: what is tested is that there is an end
    "hard-md-small": {
        "tasks": 8,
        "ablations": [],
        "why": False,
        "adapted": [],
        "shapes": ["fixed"],
        "way": 3,
        "shot": 1,
    },
    "many-way-small": {"tasks": 4, "methods": ["protonet"]},
    "divergence-correlation-small": {"tasks": 8, "way": 3, "shot": 1, "query": 2},
}
ENDS_WITH_A_PAGE = {"hard-md-small", "many-way-small", "divergence-correlation-small"}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 classes of 16 small pictures."""
    folder, rng = tmp_path_factory.mktemp("bare"), np.random.default_rng(0)
    for number in range(24):
        own = folder / f"thing {chr(97 + number)}{number}"
        own.mkdir()
        for image in range(16):
            pixels = rng.integers(0, 60, (16, 16, 3), dtype=np.uint8) + np.uint8(8 * number)
            Image.fromarray(pixels).save(own / f"{image}.png")
    return folder


def shrunk(name: str) -> dict[str, object]:
    """Settings of a preset with fewer steps of every training."""
    from longshot.studies import get_study

    changes = dict(QUICK.get(name, {}))
    networks = get_study(name).settings.plain().get("networks")
    if isinstance(networks, dict):
        changes["networks"] = {
            key: {**own, "steps": 2, "validation_tasks": 2} for key, own in networks.items()
        }
    if name.startswith("vtab-md"):
        changes["tasks"] = 2
    return changes


@pytest.mark.parametrize(
    "name", [name for name in SMALL if name not in ("cross-domain-small", "transfer-difficulty-small")]
)
def test_a_small_preset_ends_with_a_page_or_one_sentence(name: str, bare: Path, tmp_path: Path) -> None:
    out = tmp_path / "study"
    try:
        run_study(name, bare, out=out, device="cpu", workers=1, settings=shrunk(name))
    except UserError as error:
        assert name not in ENDS_WITH_A_PAGE, error
        assert not list(out.glob("trainings/*/network.safetensors")), error
        assert "\n" not in str(error)
        return
    text = (out / "report.html").read_text(encoding="utf-8")
    if (out / "trainings").is_dir():
        assert "has no splits, so the study drew one" in text
        assert "‡" not in text  # nothing that was trained on is tested on


@pytest.mark.parametrize("name", ["cross-domain-small", "transfer-difficulty-small"])
def test_what_cannot_be_had_is_said_before_anything_is_trained(name: str, tmp_path: Path) -> None:
    small_folder = tmp_path / "few"
    for label in ("a", "b", "c"):
        (small_folder / label).mkdir(parents=True)
        for image in range(3):
            Image.new("RGB", (8, 8), (image * 40, 0, 0)).save(small_folder / label / f"{image}.png")
    with pytest.raises(UserError) as error:
        run_study(name, small_folder, out=tmp_path / "study", device="cpu", workers=1)
    assert "\n" not in str(error.value) and not list(tmp_path.glob("study/trainings/*/network.safetensors"))


def test_a_study_that_was_stopped_and_corrected_goes_on_or_says_how(bare: Path, tmp_path: Path) -> None:
    """A method that does not exist stops it before anything is written; corrected, the same folder goes on."""
    out, shapes = tmp_path / "study", {"tasks": 4, "ways": [2, 4], "shots": [1], "query": 2}

    def run(method: str, **changes: int) -> Path:
        settings = {**shapes, "methods": [method], **changes}
        return run_study("many-way-small", bare, out=out, device="cpu", workers=1, settings=settings).path

    with pytest.raises(UserError, match="protonnet"):
        run("protonnet")
    run("protonet")
    (out / "report.html").unlink()  # killed before the page
    (out / "testbeds" / "2-way-1-shot.parquet").unlink()
    assert (run("protonet") / "report.html").is_file()
    with pytest.raises(UserError, match="another folder"):
        run("protonet", tasks=5)


def test_a_claim_is_one_declaration_in_one_file(bare: Path, tmp_path: Path) -> None:
    """Added in a copy of the tree, it is measured and stands on the page with its verdict."""
    root = Path(longshot.__file__).parent
    shutil.copytree(root, tmp_path / "src" / "longshot", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "src" / "longshot" / "studies" / "semantic" / "many_way.py"
    text = file.read_text(encoding="utf-8")
    declared = 'Claim("added", "Ways are added here", "nowhere", _drops),\n            Claim(\n                "drop",'
    assert text.count('Claim(\n                "drop",') == 1
    file.write_text(text.replace('Claim(\n                "drop",', declared), encoding="utf-8")
    code = (
        "import sys; from longshot.studies import run_study; run_study('many-way-small', sys.argv[1], out=sys.argv[2], "
        "settings=dict(tasks=4, ways=[2, 4], shots=[1], query=2, methods=['protonet']), device='cpu', workers=1)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    command = [sys.executable, "-c", code, str(bare), str(tmp_path / "out")]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert 'id="claim-added"' in page and "Ways are added here" in page
