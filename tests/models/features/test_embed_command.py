"""``longshot embed`` and ``longshot backbones`` as a user runs them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from longshot.models import Features

TINY = "decode|resize(4,4)|value_range(0,1)"


def test_embed_prints_what_was_done_then_finds_it_in_the_cache(
    photos: Path, fresh_cache: Path, run_cli
) -> None:  # type: ignore[no-untyped-def]
    first = run_cli("embed", photos, "--backbone", "pixels", "--preprocessing", TINY).stdout
    assert "240" in first
    assert ".npy" in first
    second = run_cli("embed", photos, "--backbone", "pixels", "--preprocessing", TINY).stdout
    assert "from the cache" in second


def test_embed_json_and_export(photos: Path, fresh_cache: Path, tmp_path: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    done = run_cli(
        "embed", photos, "--backbone", "pixels", "--dtype", "float32", "-o", tmp_path / "f.npy", "--json"
    )
    (row,) = json.loads(done.stdout)
    assert row["path"] == str(tmp_path / "f.npy")
    features = Features.load(tmp_path / "f.npy")
    assert features.array.dtype == np.float32
    assert features.hash == row["hash"]


def test_several_backbones_and_a_dry_run(photos: Path, fresh_cache: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    done = run_cli(
        "embed",
        photos,
        "--backbone",
        "pixels",
        "--backbone",
        "efficientnet-lite0(size=64)",
        "--dry-run",
        "--json",
    )
    rows = json.loads(done.stdout)
    assert [row["dim"] for row in rows] == [3072, 1280]
    assert all(row["seconds"] > 0 and row["bytes"] == 240 * row["dim"] * 2 for row in rows)
    assert not list(fresh_cache.glob("features/*"))


def test_skip_bad_leaves_unreadable_images_out(
    photos: Path, fresh_cache: Path, tmp_path: Path, run_cli
) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    (folder / "round/gold/003.jpg").write_bytes(b"\xff\xd8\xff nothing more")
    common = ("embed", folder, "--backbone", "pixels", "--preprocessing", TINY)
    failed = run_cli(*common, check=False)
    assert failed.returncode == 2
    assert "1 of 240 images" in failed.stderr
    assert "round/gold/003.jpg" in failed.stderr
    assert "--skip-bad" in failed.stderr
    (row,) = json.loads(run_cli(*common, "--skip-bad", "--json").stdout)
    assert (row["images"], row["skipped"]) == (239, 1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--backbone", "pixel"], "did you mean 'pixels'"),
        (["--backbone", "pixels", "--preprocessing", "decode|blur(3)"], "step 'blur(3)' is wrong"),
        (["--backbone", "npy:absent.npy"], "there is no file absent.npy"),
        (["--backbone", "pixels", "--device", "cuda"], "use --device auto or cpu"),
        (["--backbone", "pixels", "-o", "f.txt"], "ends in .txt, but a set of features is written as .npy"),
        (["--backbone", "pixels", "--backbone", "efficientnet-lite0", "-o", "f.npy"], "-o names one file"),
        (["--backbone", "hf:nobody/nothing"], "downloads nothing unasked"),
    ],
)
def test_mistakes_end_with_one_sentence(  # type: ignore[no-untyped-def]
    photos: Path, fresh_cache: Path, tmp_path: Path, run_cli, arguments: list[str], complaint: str
) -> None:
    import torch

    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    done = run_cli("embed", photos, *arguments, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("f.*"))


def test_missing_folder(run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    done = run_cli("embed", tmp_path / "absent", "--backbone", "pixels", check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")


def test_backbones_are_listed(run_cli) -> None:  # type: ignore[no-untyped-def]
    rows = json.loads(run_cli("backbones", "--json").stdout)
    by_name = {row["name"]: row for row in rows}
    assert by_name["pixels"] == {
        "name": "pixels",
        "dim": 3072,
        "installed": True,
        "install": "",
        "about": by_name["pixels"]["about"],
    }
    assert {"efficientnet-lite0", "timm:NAME", "hf:NAME", "onnx:FILE", "npy:FILE"} <= set(by_name)
    assert "pixels" in run_cli("backbones").stdout


@pytest.mark.parametrize("name", ["embed", "backbones", "cache"])
def test_help_opens_with_an_example(run_cli, name: str) -> None:  # type: ignore[no-untyped-def]
    assert f"Example:\n    longshot {name}" in run_cli(name, "--help").stdout
