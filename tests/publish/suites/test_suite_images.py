"""A suite that ships, on photographs: whatever archive, names or encoding they have; altered ones are named."""

from __future__ import annotations

import io
import json
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import RunCli
from longshot.publish.leaderboard import shipped_board
from longshot.publish.suite import open_suite

SUITE = "cifar100-1"


@pytest.fixture(scope="module")
def photographs(shared: Path) -> dict[str, bytes]:
    """The images of the suite's twenty classes: CLASS/NAME → bytes, of CIFAR-100's test images."""
    suite = open_suite(SUITE)
    names = {key for bed in suite.testbeds.values() for key in bed.keys("cifar100").to_pylist()}
    classes = {name.partition("/")[0] for name in names}
    with zipfile.ZipFile(shared / "data" / "cifar100-test.zip") as archive:
        images = {name: archive.read(name) for name in archive.namelist() if name.endswith(".png")}
    return {name: data for name, data in images.items() if name.partition("/")[0] in classes}


def encoded(data: bytes, kind: str, change: bool = False) -> bytes:
    pixels = np.array(Image.open(io.BytesIO(data)).convert("RGB"))
    if change:
        pixels[4:8, 4:8] ^= 64
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def test_other_names_and_another_encoding(
    photographs: dict[str, bytes], tmp_path: Path, run_cli: RunCli
) -> None:
    """Shuffled, renamed, a half encoded anew: the card has the very numbers that the board which ships has."""
    rng = random.Random(0)
    shuffled = rng.sample(sorted(photographs), len(photographs))
    folders: dict[str, str] = {}
    for number, name in enumerate(shuffled):
        folder = folders.setdefault(name.partition("/")[0], f"kind-{len(folders)}")
        file = tmp_path / "mine" / folder / f"{number:05}.{'bmp' if number % 2 else 'png'}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encoded(photographs[name], "bmp") if number % 2 else photographs[name])
    dataset = f"cifar100={tmp_path / 'mine'}"
    run_cli(
        "bench", "pixels", "-m", "protonet", "--suite", SUITE, "--dataset", dataset, "-o", tmp_path / "b"
    )  # fmt: skip
    (measured,) = json.loads((tmp_path / "b" / "card.json").read_text())["entries"]
    board = shipped_board(open_suite(SUITE))
    (shipped,) = [each for each in board.entries if (each.model, each.method) == ("pixels", "protonet")]
    assert {name: score["mean"] for name, score in measured["scores"].items()} == {
        name: score.mean for name, score in shipped.scores.items()
    }


def test_ten_altered_photographs_are_named(
    photographs: dict[str, bytes], tmp_path: Path, run_cli: RunCli
) -> None:
    suite = open_suite(SUITE)
    used = sorted(next(iter(suite.testbeds.values())).keys("cifar100").to_pylist())
    altered = random.Random(1).sample(used, 10)
    with zipfile.ZipFile(tmp_path / "altered.zip", "w") as archive:
        for name, data in photographs.items():
            archive.writestr(name, encoded(data, "png", change=True) if name in altered else data)
    dataset = f"cifar100={tmp_path / 'altered.zip'}"
    done = run_cli(
        "bench", "pixels", "-m", "protonet", "--suite", SUITE, "--dataset", dataset, check=False
    )  # fmt: skip
    assert done.returncode == 2
    assert f"10 of the {len(used):,} images of 'cifar100'" in done.stderr
    assert [name for name in sorted(altered) if f"'{name}'" in done.stderr] == sorted(altered)[:3]


def test_without_the_photographs(tmp_path: Path, fresh_cache: Path, run_cli: RunCli) -> None:
    """One sentence names every suite of the group and how to get its images."""
    done = run_cli("bench", "pixels", "--suite", "hard-photos-1", "-o", tmp_path / "b", check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    for name in ("cub-1", SUITE):
        assert f"{name}: {open_suite(name).images.rstrip('.')}" in done.stderr
