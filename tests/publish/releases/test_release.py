"""Releases: written the same twice, checked whole, and every difference of a copy or of the images told."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

import longshot
from conftest import RunCli
from longshot.base import UserError
from longshot.data import open_dataset
from longshot.evaluation import evaluate, write_predictions
from longshot.publish import release, verify
from longshot.tasks import Testbed, sample

ABOUT = {
    "title": "Hard | photos",
    "source_licences": {"photos": "CC0 <script>alert(1)</script>"},
    "citation": "@misc{x}",
}


@pytest.fixture(scope="module")
def images(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the photos that tests may copy again and change."""
    return Path(shutil.copytree(photos, tmp_path_factory.mktemp("release") / "photos"))


@pytest.fixture(scope="module")
def bed(images: Path) -> Testbed:
    return sample(open_dataset(images), tasks=12, seed=1)


@pytest.fixture(scope="module")
def released(images: Path, bed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("released")
    results = evaluate(bed, backbones="pixels", methods="protonet", out=out / "run")
    return release({"plain": bed}, out=out / "photos-5", runs=[results], **ABOUT)


def problems(folder: Path, images: Path) -> dict[str, str]:
    checks = verify(folder, datasets={"photos": images})
    return {check.subject: check.problem for check in checks if check.problem}


def test_a_whole_copy_has_no_problems(released: Path, images: Path) -> None:
    assert problems(released, images) == {}


def test_the_hashes_are_those_of_sha256sum(released: Path) -> None:
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=released, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": OK") == 5


def test_the_same_call_gives_the_same_bytes(released: Path, bed: Testbed, tmp_path: Path) -> None:
    again = release({"plain": bed}, out=tmp_path / "again", runs=released.parent / "run", **ABOUT)
    assert (again / "SHA256SUMS").read_text() == (released / "SHA256SUMS").read_text()


def test_the_card_tells_numbers_and_escapes_text(released: Path) -> None:
    card = (released / "README.md").read_text()
    facts = json.loads((released / "release.json").read_text())
    row = facts["baselines"][0]
    assert f"{100 * row['mean']:.2f} ± {50 * (row['high'] - row['low']):.2f}" in card
    assert "<script>" not in card and "&lt;script&gt;" in card
    assert "# Hard \\| photos" in card
    assert facts["sources"][0]["fingerprint"][:16] in card


def changed_copy(released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released, tmp_path / "copy"))


def test_changed_missing_and_foreign_files_are_told(released: Path, images: Path, tmp_path: Path) -> None:
    copy = changed_copy(released, tmp_path)
    (copy / "README.md").write_text("other")
    (copy / "notes.txt").write_text("mine")
    (copy / "testbeds" / "plain.parquet").unlink()
    differences = problems(copy, images)
    assert "changed" in differences["README.md"]
    assert "not part of the release" in differences["notes.txt"]
    assert differences["testbeds/plain.parquet"] == "it is missing"
    assert "no testbed file" in differences["testbed plain"]


def test_sums_that_point_outside_are_refused(released: Path, images: Path, tmp_path: Path) -> None:
    copy = changed_copy(released, tmp_path)
    with (copy / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  ../../etc/passwd\n")
    assert "names no file of the release" in problems(copy, images)["../../etc/passwd"]


def test_images_that_are_missing_are_counted(
    released: Path, images: Path, bed: Testbed, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(images, tmp_path / "photos"))
    (copy / bed[0].support[0]).unlink()
    differences = problems(released, copy)
    assert "8 classes and 239 images, the release's had 8 and 240" in differences["source photos"]
    assert bed[0].support[0] in differences["source photos, testbed plain"]


def test_other_pixels_under_the_same_names_are_noticed(released: Path, images: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(images, tmp_path / "photos"))
    for path in copy.rglob("*.jpg"):
        Image.new("RGB", (40, 40), "black").save(path)
    assert "images changed" in problems(released, copy)["source photos, images"]


def test_by_names_only_thumbnails_tell_other_pictures_from_copies_of_lower_quality(
    images: Path, tmp_path: Path
) -> None:
    bed = sample(open_dataset(images), tasks=12, seed=1, identity="names")
    folder = release({"plain": bed}, out=tmp_path / "release", **ABOUT)
    copy = Path(shutil.copytree(images, tmp_path / "photos"))
    for path in copy.rglob("*.jpg"):
        Image.open(path).convert("RGB").save(path, quality=80)
    assert problems(folder, copy) == {}
    assert {check.outcome for check in verify(folder, datasets={"photos": copy})} == {"same", "names"}
    for path in copy.rglob("*.jpg"):
        Image.new("RGB", (40, 40), "black").save(path)
    assert "look different" in problems(folder, copy)["source photos"]


def test_what_cannot_be_released(bed: Testbed, images: Path, released: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No testbed was given and at least 1"):
        release({}, out=tmp_path / "a", **ABOUT)
    with pytest.raises(UserError, match="only a new or empty folder is taken for a release"):
        release({"plain": bed}, out=released, **ABOUT)
    with pytest.raises(UserError, match="'birds', which is no source"):
        release({"plain": bed}, out=tmp_path / "b", title="x", source_licences={"birds": "CC0"})
    other = sample(open_dataset(images), tasks=12, seed=2)
    results = evaluate(other, backbones="pixels", methods="protonet", out=tmp_path / "run")
    with pytest.raises(UserError, match="holds nothing on the 1 testbeds"):
        release({"plain": bed}, out=tmp_path / "c", runs=[results], **ABOUT)
    assert not (tmp_path / "c").exists()


def test_from_release_to_score_on_the_command_line(
    images: Path, bed: Testbed, tmp_path: Path, run_cli: RunCli
) -> None:
    bed.save(tmp_path / "plain.parquet")
    out = tmp_path / "bench"
    run_cli("release", tmp_path / "plain.parquet", "--title", "Photos", "-o", out)
    assert "source photos" in run_cli("verify", out).stdout
    write_predictions(tmp_path / "p.parquet", bed, [task.query_label for task in bed], name="oracle")
    printed = json.loads(run_cli("score", tmp_path / "p.parquet", out, "--json").stdout)
    assert printed["scores"][0]["accuracy"] == 1.0
    (out / "README.md").unlink()
    broken = run_cli("verify", out, check=False)
    assert broken.returncode == 4 and "README.md: it is missing" in broken.stderr
    nothing = run_cli("verify", tmp_path, check=False)
    assert nothing.returncode == 2 and "is no release" in nothing.stderr


def test_a_run_by_names_is_told_on_the_card(
    run_cli: RunCli, images: Path, tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A testbed by content, evaluated by names."""
    sample(images, tasks=4, way=2, shot=1, query=3, out=tmp_path / "bed.parquet")
    monkeypatch.setenv("LONGSHOT_IDENTITY", "names")
    run_cli(
        "evaluate", "bed.parquet", "--backbone", "pixels", "--method", "protonet", "-o", "run", cwd=tmp_path
    )
    run_cli("release", "bed.parquet", "--run", "run", "--title", "T", "-o", "release", cwd=tmp_path)
    card = (tmp_path / "release" / "README.md").read_text()
    assert "dentity of the images behind 'pixels': names only of photos" in card and "names only |" in card


def test_a_name_that_is_too_long_for_a_file_is_one_sentence() -> None:
    with pytest.raises(UserError, match="3,000 letters") as caught:
        longshot.verify("n" * 3000)
    assert len(str(caught.value)) < 200
