"""What a new user once found to be accepted without a word, tried again through the real command.

Other cases of that list have tests beside what they are about: other pixels under equal labels and images overwritten
(``evaluation/test_content.py``), swapped supports (``releases/test_verify_images.py``), one network under several paths
(``evaluation/test_networks.py``), the gate (``evaluation/test_gate.py``), caches that cannot be written
(``datasets/test_shared_caches.py``).
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from conftest import RunCli
from longshot.base import lend_temporary
from record_writers import flat_spec, write_classes, write_spec


def picture(seed: int) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def refused(run_cli: RunCli, *arguments: Any) -> str:
    done = run_cli(*arguments, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    return done.stderr


def test_bits_flipped_and_keys_reversed_in_the_cache(
    run_cli: RunCli, tmp_path: Path, fresh_cache: Path
) -> None:
    images = np.random.default_rng(0).integers(0, 255, (40, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.repeat(["ant", "bee"], 20))
    run_cli("sample", "a.npz", "--tasks", "6", "--way", "2", "--shot", "2", "--query", "4", "-o", "t.parquet",
            cwd=tmp_path)  # fmt: skip
    evaluate = ("evaluate", "t.parquet", "--backbone", "pixels", "--method", "protonet", "--json")
    run_cli("embed", "a.npz", "--backbone", "pixels", cwd=tmp_path)
    expected = json.loads(run_cli(*evaluate, "-o", "run0", cwd=tmp_path).stdout)[0]["accuracy"]
    (array,) = fresh_cache.glob("features/*.npy")
    data = bytearray(array.read_bytes())
    for position in range(200, 40_200, 200):  # two hundred values
        data[position] ^= 16
    array.write_bytes(data)
    flipped = run_cli(*evaluate, "-o", "run1", cwd=tmp_path)
    assert "1 of 1 block does not have the checksum that was recorded" in flipped.stderr
    assert json.loads(flipped.stdout)[0]["accuracy"] == expected
    (keys,) = fresh_cache.glob("features/*.keys")
    keys.write_bytes(keys.read_bytes()[::-1])
    reversed_ = run_cli(*evaluate, "-o", "run2", cwd=tmp_path)
    assert "is damaged: the keys of the images cannot be read" in reversed_.stderr
    assert json.loads(reversed_.stdout)[0]["accuracy"] == expected
    assert "were damaged (" in run_cli("embed", "a.npz", "--backbone", "pixels", cwd=tmp_path).stderr


def test_a_missing_shard_of_a_webdataset(run_cli: RunCli, tmp_path: Path, fresh_cache: Path) -> None:
    for shard in range(3):
        with tarfile.open(tmp_path / f"data-{shard:05d}.tar", "w") as archive:
            for number in range(2):
                for ending, data in (("png", picture(2 * shard + number)), ("cls", str(number).encode())):
                    member = tarfile.TarInfo(f"{shard}{number}.{ending}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
    (tmp_path / "data-00001.tar").unlink()
    message = refused(run_cli, "datasets", "show", f"webdataset:{tmp_path}")
    assert "2 shards numbered 0 to 2, and 1 number between is missing (1)" in message


def test_a_class_file_of_records_copied_over_another(
    run_cli: RunCli, tmp_path: Path, fresh_cache: Path
) -> None:
    pytest.importorskip("tfrecord", reason="needs the package tfrecord")
    write_spec(tmp_path / "records", flat_spec([3, 3], (1, 0, 1)))
    write_classes(tmp_path / "records", {0: 3, 1: 3})
    shutil.copyfile(tmp_path / "records" / "0.tfrecords", tmp_path / "records" / "1.tfrecords")
    message = refused(run_cli, "datasets", "show", tmp_path / "records")
    assert "1.tfrecords holds records with the label 0, where 1 is its class" in message


def test_a_hugging_face_shard_copied_over_another(run_cli: RunCli, tmp_path: Path, fresh_cache: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    rows = {"image": [{"bytes": picture(row), "path": None} for row in range(6)], "label": [0, 1] * 3}
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["ant", "bee"])}
    )
    table = datasets.Dataset.from_dict(rows, features=features)
    for shard in range(3):
        table.shard(3, shard).to_parquet(tmp_path / "data" / f"train-{shard:05d}-of-00003.parquet")
    files = sorted((tmp_path / "data").iterdir())
    shutil.copyfile(files[0], files[2])
    message = refused(run_cli, "datasets", "show", f"huggingface:{tmp_path}")
    assert "train-00000-of-00003.parquet and train-00002-of-00003.parquet hold" in message


def test_other_files_empty_classes_and_a_damaged_registry(
    run_cli: RunCli, tmp_path: Path, fresh_cache: Path
) -> None:
    for name in ("ant", "bee", "cat"):
        (tmp_path / "photos" / name).mkdir(parents=True)
    for number, name in enumerate(("ant", "bee")):
        (tmp_path / "photos" / name / "1.png").write_bytes(picture(number))
    (tmp_path / "photos" / "ant" / "letter.pdf").write_bytes(b"x")
    (fresh_cache / "registry.json").write_text("{")
    done = run_cli("datasets", "show", tmp_path / "photos")
    assert "1 class folder of" in done.stderr and "without images ('cat'): left out" in done.stderr
    assert "1 file of other kinds in" in done.stderr and "ignored (.pdf 1)" in done.stderr
    assert "It is set aside as registry-damaged-1.json and made anew" in done.stderr


def test_nothing_can_be_written_but_the_output(tmp_path: Path, photos: Path) -> None:
    """Neither the cache nor any temporary folder: a system that is read-only but for one folder."""
    program = shutil.which("bwrap")
    wall = [program, "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"]
    if program is None or subprocess.run([*wall, "true"], capture_output=True).returncode:
        pytest.skip("needs bubblewrap")
    out = tmp_path / "out"
    out.mkdir()
    longshot = [sys.executable, "-m", "longshot"]
    command = [*wall, "--bind", str(out), str(out), *longshot, "sample", str(photos), "--tasks", "2", "--way", "2",
               "--shot", "1", "--query", "2", "-o", str(out / "t.parquet")]  # fmt: skip
    done = subprocess.run(
        command,
        env=os.environ | {"LONGSHOT_CACHE": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in out.iterdir()] == ["t.parquet"]  # what was lent is gone


def test_temporary_files_lie_beside_the_output_where_there_is_no_other_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", "/nowhere")
    lend_temporary(tmp_path / "run" / "t.parquet")
    lent = Path(os.environ["TMPDIR"])
    assert lent.parent == tmp_path and lent.name.startswith(".longshot-")
    assert tempfile.tempdir == str(lent)
