"""``verify`` and ``inspect --verify`` by the real command: what was checked, what differs, which exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import RunCli
from longshot.data import open_dataset
from longshot.publish import release, verify
from longshot.tasks import Testbed, sample

CLASSES, EACH = ("ant", "bee", "cat", "dog", "elk"), 14


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the images (PNG), a testbed of 6 tasks and a release of it."""
    root = tmp_path_factory.mktemp("world")
    rng = np.random.default_rng(3)
    for name in CLASSES:
        (root / "birds" / name).mkdir(parents=True)
        for number in range(EACH):
            pixels = rng.integers(0, 255, (20, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / "birds" / name / f"{number:02d}.png", compress_level=1)
    bed = sample(open_dataset(root / "birds"), tasks=6, way=3, shot=3, query=2, seed=1)
    bed.save(root / "bed.parquet")
    # Where the images lie is said: the other worker's, of the same names, may be in the registry by now.
    release({"bed": bed}, out=root / "release", title="Birds", datasets={"birds": root / "birds"})
    return root


@pytest.fixture
def remembered(world: Path, fresh_cache: Path, run_cli: RunCli) -> Path:
    """The world in a registry of its own: others know folders of the same names."""
    run_cli("datasets", "add", "birds", world / "birds")
    return world


@pytest.fixture
def bed(world: Path) -> Testbed:
    return Testbed.load(world / "bed.parquet")


@pytest.fixture
def copy(world: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(world / "birds", tmp_path / "birds"))


def verified(run_cli: RunCli, world: Path, copy: Path, *options: str) -> tuple[int, dict, str]:
    """Exit code, the record of the images, and what stands on standard error."""
    done = run_cli("verify", world / "release", "--dataset", f"birds={copy}", "--json", *options, check=False)
    record = next(entry["images"] for entry in json.loads(done.stdout) if "images" in entry)
    return done.returncode, record, done.stderr


def inspected(run_cli: RunCli, world: Path, copy: Path, *options: str) -> tuple[int, dict, str]:
    done = run_cli(
        "inspect",
        world / "bed.parquet",
        "--verify",
        "--dataset",
        f"birds={copy}",
        "--json",
        *options,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)["images"][0], done.stderr


LOOKS = pytest.mark.parametrize("look", [verified, inspected], ids=["verify", "inspect"])


def swap(root: Path, a: str, b: str) -> None:
    content = (root / a).read_bytes()
    shutil.copyfile(root / b, root / a)
    (root / b).write_bytes(content)


@LOOKS
def test_a_true_copy_is_the_same_by_bytes(look, run_cli, world: Path, copy: Path, bed: Testbed) -> None:
    code, record, errors = look(run_cli, world, copy)
    used = len(bed.keys("birds"))
    assert (code, errors) == (0, "")
    numbers = {name: record[name] for name in ("images", "checked", "by_bytes", "by_pixels", "by_name")}
    assert numbers == {"images": used, "checked": used, "by_bytes": used, "by_pixels": 0, "by_name": 0}


def test_both_say_in_words_what_they_checked(run_cli, remembered: Path, bed: Testbed) -> None:
    used = len(bed.keys("birds"))
    words = f"birds: {used} of {used} images checked: {used} the same by bytes, 0 by pixels, 0 by name only"
    assert words in run_cli("verify", remembered / "release").stdout
    assert words in run_cli("inspect", remembered / "bed.parquet", "--verify").stdout


@LOOKS
def test_an_image_overwritten_by_one_of_another_class_is_changed(
    look, run_cli, world: Path, copy: Path, bed: Testbed
) -> None:
    key = bed[0].support[0]
    other = next(path for path in sorted(copy.rglob("*.png")) if path.parent != (copy / key).parent)
    shutil.copyfile(other, copy / key)
    code, record, errors = look(run_cli, world, copy)
    assert code == 3 and record["changed"] == [key] and f"1 image changed ('{key}')" in errors


@LOOKS
def test_eight_pairs_of_support_images_swapped_across_classes_are_under_other_names(
    look, run_cli, world: Path, copy: Path, bed: Testbed
) -> None:
    support = sorted({key for task in bed for key in task.support})
    pairs: list[tuple[str, str]] = []
    while len(pairs) < 8:
        key = support.pop(0)
        partner = next(other for other in reversed(support) if other.split("/")[0] != key.split("/")[0])
        support.remove(partner)
        pairs.append((key, partner))
        swap(copy, key, partner)
    code, record, errors = look(run_cli, world, copy)
    assert code == 3 and record["renamed"] == 16 and record["changed"] == []
    assert "support images have another class than the testbed says" in errors


def test_a_lossless_copy_is_said_to_be_encoded_anew(run_cli, world: Path, copy: Path, bed: Testbed) -> None:
    used = bed.keys("birds").to_pylist()
    for path in copy.rglob("*.png"):
        Image.open(path).save(path, compress_level=9)
    code, record, errors = verified(run_cli, world, copy)
    assert code == 6 and record["by_pixels"] == len(used) and record["by_bytes"] == 0
    assert record["reencoded"] == used and record["changed"] == []
    assert f"{len(used)} images encoded anew with the same pixels" in errors


def test_another_picture_among_copies_that_were_encoded_anew_is_told(
    run_cli, world: Path, copy: Path, bed: Testbed
) -> None:
    key = bed[0].query[0]
    for path in copy.rglob("*.png"):
        Image.open(path).save(path, compress_level=9)
    Image.new("RGB", (24, 20), "black").save(copy / key)
    code, record, _ = verified(run_cli, world, copy)
    assert code == 3 and record["changed"] == [key] and key not in record["reencoded"]


@LOOKS
def test_a_missing_image_is_named(look, run_cli, world: Path, copy: Path, bed: Testbed) -> None:
    key = bed[0].query[0]
    (copy / key).unlink()
    code, record, errors = look(run_cli, world, copy)
    assert code == 4 and record["missing"] == [key] and record["changed"] == []
    assert f"1 image missing ('{key}')" in errors


def test_a_new_image_is_named_by_a_release(run_cli, world: Path, copy: Path) -> None:
    shutil.copyfile(copy / "ant" / "00.png", copy / "ant" / "99.png")
    code, record, errors = verified(run_cli, world, copy)
    assert code == 5 and record["new"] == ["ant/99.png"] and "1 image new ('ant/99.png')" in errors


def test_a_new_image_is_counted_by_a_testbed(run_cli, world: Path, copy: Path) -> None:
    shutil.copyfile(copy / "ant" / "00.png", copy / "ant" / "99.png")
    code, record, errors = inspected(run_cli, world, copy)
    assert code == 5 and record["more"] == 1 and "1 image new (which, only a release can tell)" in errors


@LOOKS
def test_a_sample_is_said_to_be_one(look, run_cli, remembered: Path, copy: Path, bed: Testbed) -> None:
    code, record, _ = look(run_cli, remembered, copy, "--sample", "5")
    assert code == 0 and record["checked"] == record["by_bytes"] == 5 < record["images"]
    printed = run_cli(
        "inspect",
        remembered / "bed.parquet",
        "--verify",
        "--sample",
        "5",
        "--dataset",
        f"birds={remembered / 'birds'}",
    ).stdout
    assert f"5 of {len(bed.keys('birds'))} images checked (a sample): 5 the same by bytes" in printed


@LOOKS
def test_what_was_remembered_is_read_again(look, run_cli, world: Path, copy: Path, bed: Testbed) -> None:
    from longshot.data import image_digests

    image_digests(open_dataset(copy))
    path = copy / bed[0].support[0]
    times, data = path.stat(), bytearray(path.read_bytes())
    data[-20] ^= 1
    with path.open("r+b") as file:  # same size, same inode
        file.write(data)
    import os

    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # and the same time: only reading can tell
    code, record, _ = look(run_cli, world, copy)
    assert code == 3 and record["changed"] == [bed[0].support[0]]


@LOOKS
def test_an_unreadable_image_does_not_hide_the_others(
    look, run_cli, world: Path, copy: Path, bed: Testbed
) -> None:
    first, second = bed[0].support[:2]
    (copy / first).unlink()
    (copy / first).symlink_to("/nowhere/at/all.png")
    (copy / second).write_bytes(b"no picture")
    code, record, _ = look(run_cli, world, copy)
    assert code == 3 and second in record["changed"] and first in record["changed"] + record["missing"]


def test_names_only_has_an_exit_code_of_its_own(run_cli, world: Path, tmp_path: Path) -> None:
    bed = sample(open_dataset(world / "birds"), tasks=2, way=2, shot=1, query=1, identity="names")
    bed.save(tmp_path / "names.parquet")
    done = run_cli("inspect", tmp_path / "names.parquet", "--verify", check=False)
    assert done.returncode == 7 and "0 the same by bytes, 0 by pixels" in done.stdout
    assert f"{len(bed.keys('birds'))} by name only" in done.stdout


def test_a_testbed_by_names_beside_it_hides_no_change(
    world: Path, copy: Path, bed: Testbed, tmp_path: Path
) -> None:
    by_names = sample(open_dataset(copy), tasks=2, way=2, shot=1, query=1, identity="names")
    release({"bed": bed, "names": by_names}, out=tmp_path / "mixed", title="Mixed", datasets={"birds": copy})
    keys = sorted(bed[0].support)
    swap(copy, keys[0], keys[-1])
    checks = verify(tmp_path / "mixed", datasets={"birds": copy})
    (own,) = [check for check in checks if check.subject == "source birds, testbed bed"]
    assert own.outcome == "changed" and "have another class than the testbed says" in own.problem


def test_a_sample_without_verifying_is_a_mistake(run_cli, world: Path) -> None:
    done = run_cli("inspect", world / "bed.parquet", "--sample", "5", check=False)
    assert done.returncode == 2 and "--sample 5 goes with --verify only" in done.stderr


@pytest.mark.parametrize("command", ["verify", "inspect"])
def test_exit_codes_are_in_the_help(run_cli, command: str) -> None:
    help_text = run_cli(command, "--help").stdout
    assert "Exit codes" in help_text and all(f"  {code}  " in help_text for code in (0, 2, 3, 4, 5, 7))
