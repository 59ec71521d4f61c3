"""Releases: written the same twice, checked whole, and every difference of a copy or of the images told."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from conftest import RunCli
from longshot.core.errors import UserError
from longshot.datasets import open_dataset
from longshot.evaluation.predictions import write_predictions
from longshot.evaluation.runner import evaluate
from longshot.releases.verify import verify_release
from longshot.releases.write import About, write_release
from longshot.testbeds.sample import sample
from longshot.testbeds.testbed import Testbed

ABOUT = About("Hard | photos", licences={"photos": "CC0 <script>alert(1)</script>"}, citation="@misc{x}")


@pytest.fixture(scope="module")
def images(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the photos that tests may copy again and change."""
    return Path(shutil.copytree(photos, tmp_path_factory.mktemp("release") / "photos"))


@pytest.fixture(scope="module")
def bed(images: Path) -> Testbed:
    return sample(open_dataset(images), tasks=12, seed=1)


@pytest.fixture(scope="module")
def release(images: Path, bed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("released")
    results = evaluate(bed, backbones="pixels", methods="protonet", out=out / "run")
    return write_release(out / "photos-5", {"plain": bed}, ABOUT, runs=[results])


def problems(release: Path, images: Path) -> dict[str, str]:
    return {one.what: one.problem for one in verify_release(release, {"photos": images}) if one.problem}


def test_a_whole_copy_has_no_problems(release: Path, images: Path) -> None:
    assert problems(release, images) == {}


def test_the_hashes_are_those_of_sha256sum(release: Path) -> None:
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=release, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": OK") == 3


def test_the_same_call_gives_the_same_bytes(release: Path, bed: Testbed, tmp_path: Path) -> None:
    from longshot.evaluation.results import Results

    again = write_release(tmp_path / "again", {"plain": bed}, ABOUT, runs=[Results(release.parent / "run")])
    assert (again / "SHA256SUMS").read_text() == (release / "SHA256SUMS").read_text()


def test_the_card_tells_numbers_and_escapes_text(release: Path) -> None:
    card = (release / "README.md").read_text()
    facts = json.loads((release / "release.json").read_text())
    row = facts["baselines"][0]
    assert f"{100 * row['accuracy']:.2f} ± {100 * row['ci95']:.2f}" in card
    assert "<script>" not in card and "&lt;script&gt;" in card
    assert "# Hard \\| photos" in card
    assert facts["sources"][0]["fingerprint"][:16] in card


def changed_copy(release: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(release, tmp_path / "copy"))


def test_changed_missing_and_foreign_files_are_told(release: Path, images: Path, tmp_path: Path) -> None:
    copy = changed_copy(release, tmp_path)
    (copy / "README.md").write_text("other")
    (copy / "notes.txt").write_text("mine")
    (copy / "testbeds" / "plain.parquet").unlink()
    found = problems(copy, images)
    assert "changed" in found["README.md"]
    assert "not part of the release" in found["notes.txt"]
    assert found["testbeds/plain.parquet"] == "it is missing"
    assert "no testbed file" in found["testbed plain"]


def test_sums_that_point_outside_are_refused(release: Path, images: Path, tmp_path: Path) -> None:
    copy = changed_copy(release, tmp_path)
    with (copy / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  ../../etc/passwd\n")
    assert "names no file of the release" in problems(copy, images)["../../etc/passwd"]


def test_images_that_are_missing_are_counted(
    release: Path, images: Path, bed: Testbed, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(images, tmp_path / "photos"))
    (copy / bed[0].support[0]).unlink()
    found = problems(release, copy)
    assert "8 classes and 239 images, the release's had 8 and 240" in found["source photos"]
    assert bed[0].support[0] in found["source photos, testbed plain"]


def test_other_pixels_under_the_same_names_are_noticed(release: Path, images: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(images, tmp_path / "photos"))
    for path in copy.rglob("*.jpg"):
        Image.new("RGB", (40, 40), "black").save(path)
    assert "look different" in problems(release, copy)["source photos"]


def test_the_same_pictures_encoded_anew_are_the_same(release: Path, images: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(images, tmp_path / "photos"))
    for path in copy.rglob("*.jpg"):
        Image.open(path).convert("RGB").save(path, quality=80)
    assert problems(release, copy) == {}


def test_what_cannot_be_released(bed: Testbed, images: Path, release: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no testbeds and at least 1"):
        write_release(tmp_path / "a", {}, ABOUT)
    with pytest.raises(UserError, match="already holds something"):
        write_release(release, {"plain": bed}, ABOUT)
    with pytest.raises(UserError, match="'birds', which is no source"):
        write_release(tmp_path / "b", {"plain": bed}, About("x", licences={"birds": "CC0"}))
    other = sample(open_dataset(images), tasks=12, seed=2)
    results = evaluate(other, backbones="pixels", methods="protonet", out=tmp_path / "run")
    with pytest.raises(UserError, match="holds nothing on the 1 testbeds"):
        write_release(tmp_path / "c", {"plain": bed}, ABOUT, runs=[results])
    assert not (tmp_path / "c").exists()


def test_from_release_to_score_on_the_command_line(
    images: Path, bed: Testbed, tmp_path: Path, run_cli: RunCli
) -> None:
    bed.save(tmp_path / "plain.parquet")
    out = tmp_path / "bench"
    run_cli("release", tmp_path / "plain.parquet", "--title", "Photos", "-o", out)
    assert "source photos" in run_cli("verify", out).stdout
    write_predictions(tmp_path / "p.parquet", bed, [task.query_label for task in bed], name="oracle")
    told = json.loads(run_cli("score", tmp_path / "p.parquet", out, "--json").stdout)
    assert told["scores"][0]["accuracy"] == 1.0
    (out / "README.md").unlink()
    broken = run_cli("verify", out, check=False)
    assert broken.returncode == 2 and "README.md: it is missing" in broken.stderr
    nothing = run_cli("verify", tmp_path, check=False)
    assert nothing.returncode == 2 and "is no release" in nothing.stderr
