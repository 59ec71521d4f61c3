"""ORBIT: users, videos, clutter and frame-by-frame annotations in the published form; shifted tasks of one user."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longshot import open_dataset
from longshot.base import UserError
from longshot.tasks import Testbed

Save = Callable[..., None]
ISSUES = ("object_not_present", "framing", "viewpoint", "blur", "occlusion", "overexposed", "underexposed")
THINGS = ("bag", "cane", "face mask", "keys", "watering can")
USERS = {"train": ("P177",), "validation": ("P204",), "test": ("P519", "P999")}
FRAMES = 6


def annotation(kind: str, frame: int) -> dict[str, Any]:
    """As published: boxes for clutter, issues for clean, nulls where the object is not in the frame."""
    if kind == "clutter":
        if frame == 0:
            return {"object_bounding_box": None, "object_not_present_issue": True}
        box = {"x": 10, "y": 20, "w": 540, "h": 270}
        return {"object_bounding_box": box, "object_not_present_issue": False}
    if frame == 0:
        return {f"{issue}_issue": None for issue in ISSUES} | {"object_not_present_issue": True}
    flags = {f"{issue}_issue": False for issue in ISSUES}
    return flags | {"blur_issue": frame % 2 == 0, "framing_issue": frame == 4}


@pytest.fixture
def orbit(tmp_path: Path, fresh_cache: Path, save_image: Save) -> Path:
    """Four users × five objects × (two clean videos, one cluttered) × six frames."""
    root = tmp_path / "orbit_benchmark_224"
    for split, users in USERS.items():
        (root / "annotations" / split).mkdir(parents=True)
        for user in users:
            for item in THINGS:
                for kind, number in (("clean", 0), ("clean", 1), ("clutter", 0)):
                    video = f"{user}--{item}--{kind}--Zj_{number}"
                    annotations = {}
                    for frame in range(FRAMES):
                        name = f"{video}-{frame + 1:05d}.jpg"
                        save_image(root / split / user / item / kind / video / name, (10 * frame, 9, 9))
                        annotations[name] = annotation(kind, frame)
                    (root / "annotations" / split / f"{video}.json").write_text(json.dumps(annotations))
    return root


def rows_of(dataset: Any) -> dict[str, dict[str, Any]]:
    return dict(zip(dataset.keys.to_pylist(), dataset.attributes.to_pylist(), strict=True))


def test_a_class_is_one_users_object(orbit: Path) -> None:
    dataset = open_dataset(f"orbit:{orbit}")
    assert len(dataset.class_ids) == 20 and set(dataset.sizes.tolist()) == {3 * FRAMES}
    assert {split: len(members) for split, members in dataset.splits.items()} == {
        "train": 5,
        "validation": 5,
        "test": 10,
    }
    assert "P999/watering can" in dataset.splits["test"]
    row = dataset.keys.to_pylist().index(
        "test/P519/keys/clean/P519--keys--clean--Zj_1/P519--keys--clean--Zj_1-00006.jpg"
    )
    assert dataset.class_ids[dataset.labels[row]] == "P519/keys"
    assert abs(dataset.image(row).getpixel((0, 0))[0] - 50) < 8  # type: ignore[index]


def test_annotations_become_attributes(orbit: Path) -> None:
    rows = rows_of(open_dataset(f"orbit:{orbit}"))
    clean = "train/P177/bag/clean/P177--bag--clean--Zj_0/P177--bag--clean--Zj_0-{:05d}.jpg"
    clutter = "train/P177/bag/clutter/P177--bag--clutter--Zj_0/P177--bag--clutter--Zj_0-{:05d}.jpg"
    video = {"user": "P177", "video": "P177--bag--clean--Zj_0", "video_type": "clean", "clutter": False}
    none = dict.fromkeys(ISSUES[1:])
    assert rows[clean.format(5)] == video | {
        **dict.fromkeys(ISSUES, False),
        "blur": True,
        "framing": True,
        "quality_issues": 2,
        "object_area": None,
    }
    absent = {"object_not_present": True, **none, "quality_issues": None, "object_area": None}
    assert rows[clean.format(1)] == video | absent
    assert rows[clean.format(2)]["quality_issues"] == 0
    video |= {"video": "P177--bag--clutter--Zj_0", "video_type": "clutter", "clutter": True}
    shown = {"object_not_present": False, **none, "quality_issues": None, "object_area": 0.125}
    assert rows[clutter.format(3)] == video | shown


def test_coverage_is_told(orbit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (orbit / "annotations" / "train" / "P177--bag--clean--Zj_0.json").unlink()
    rows = rows_of(open_dataset(f"orbit:{orbit}", name="o"))
    gone = [row for row in rows.values() if row["video"] == "P177--bag--clean--Zj_0"]
    assert len(gone) == FRAMES and all(row[issue] is None for row in gone for issue in ISSUES)
    # 40 clean videos of 6 frames, less the first of each (nothing in sight) and the video above
    assert "quality issues of 'o' are annotated for 195 of 360 frames (54 %)" in capsys.readouterr().err


def test_a_changed_annotation_is_seen(orbit: Path) -> None:
    file = orbit / "annotations" / "train" / "P177--bag--clean--Zj_0.json"
    key = "train/P177/bag/clean/P177--bag--clean--Zj_0/P177--bag--clean--Zj_0-00002.jpg"
    assert rows_of(open_dataset(f"orbit:{orbit}"))[key]["blur"] is False
    annotations = json.loads(file.read_text())
    annotations[key.rsplit("/", 1)[1]]["blur_issue"] = True
    file.write_text(json.dumps(annotations, indent=1))
    assert rows_of(open_dataset(f"orbit:{orbit}"))[key]["blur"] is True


def test_every_other_frame(orbit: Path) -> None:
    dataset = open_dataset(f"orbit(step=2):{orbit}")
    assert set(dataset.sizes.tolist()) == {3 * FRAMES // 2}
    rows = rows_of(dataset)
    assert {key[-9:-4] for key in rows} == {"00001", "00003", "00005"}
    every_frame = rows_of(open_dataset(f"orbit:{orbit}"))
    assert all(rows[key] == every_frame[key] for key in rows)


def test_one_split_by_itself(orbit: Path) -> None:
    dataset = open_dataset(f"orbit:{orbit / 'test'}")
    assert len(dataset.class_ids) == 10 and not dataset.splits
    assert dataset.attributes is not None and dataset.attributes["blur"].null_count < len(dataset)


def test_the_unfiltered_form(tmp_path: Path, fresh_cache: Path, save_image: Save) -> None:
    for kind in ("clean", "clutter", "clutter-pan"):
        save_image(tmp_path / "unfiltered" / "P100" / "mug" / kind / f"P100--mug--{kind}--a" / "1.jpg")
    dataset = open_dataset(f"orbit:{tmp_path / 'unfiltered'}")
    assert dataset.class_ids == ("P100/mug",) and dataset.attributes is not None
    assert dataset.attributes["clutter"].to_pylist() == [False, True, True]
    assert dataset.attributes["blur"].null_count == 3


def test_annotations_without_frames(orbit: Path) -> None:
    for split in USERS:
        (orbit / split).rename(orbit.parent / split)
    with pytest.raises(
        UserError, match=r"has annotations but none of the folders train, validation and test"
    ):
        open_dataset(f"orbit:{orbit}")


def test_an_annotated_frame_that_is_not_there(orbit: Path, run_cli: Any) -> None:
    video = orbit / "test" / "P519" / "keys" / "clean" / "P519--keys--clean--Zj_0"
    (video / f"{video.name}-00003.jpg").unlink()
    done = run_cli("datasets", "add", "o", orbit, "--as", "orbit", check=False)
    assert done.returncode == 2
    assert f"{video.name}.json annotates 1 frame of 6 that" in done.stderr and "-00003.jpg" in done.stderr


def test_an_annotated_video_that_is_not_there(orbit: Path) -> None:
    (orbit / "annotations" / "test" / "P519--lamp--clean--Zj_9.json").write_text("{}")
    with pytest.raises(
        UserError, match=r"annotates 1 video of which there are no frames \('P519--lamp--clean--Zj_9'\)"
    ):
        open_dataset(f"orbit:{orbit}")


def test_a_flag_of_another_form(orbit: Path) -> None:
    file = orbit / "annotations" / "train" / "P177--bag--clean--Zj_0.json"
    file.write_text(json.dumps({"P177--bag--clean--Zj_0-00001.jpg": {"blur_issue": "yes"}}))
    with pytest.raises(
        UserError, match=r"annotation of P177--bag--clean--Zj_0-00001.jpg in .* is not of ORBIT's form"
    ):
        open_dataset(f"orbit:{orbit}")


def test_frames_elsewhere_are_refused(orbit: Path, save_image: Save) -> None:
    save_image(orbit / "train" / "P177" / "bag" / "1.jpg")
    with pytest.raises(UserError, match=r"P177/bag are not where ORBIT's frames are"):
        open_dataset(f"orbit:{orbit}")


def test_clutter_shifts_of_one_user_from_the_command_line(orbit: Path, tmp_path: Path, run_cli: Any) -> None:
    """Appendix D.2.1: clean queries; support in clutter (shifted) or clean (matched); all of one user."""
    run_cli("datasets", "add", "orbit", orbit, "--as", "orbit")
    shape = ("--rule", "orbit-clutter", "--split", "test", "--shot", "3", "--query", "2", "--tasks", "12")
    shape += ("--copies", "allow")  # the made-up frames are of one colour each
    for kind in ("shifted", "matched"):
        run_cli("sample", "orbit", "--instances", kind, *shape, "-o", tmp_path / f"{kind}.parquet")
    shifted, matched = (Testbed.load(tmp_path / f"{kind}.parquet") for kind in ("shifted", "matched"))
    users = set()
    for harder, matching in zip(shifted, matched, strict=True):
        owner = {key.split("/")[1] for key in (*harder.query, *harder.support, *matching.support)}
        assert len(owner) == 1
        users |= owner
        assert list(harder.query) == list(matching.query)
        assert {key.split("/")[3] for key in (*harder.query, *matching.support)} == {"clean"}
        assert {key.split("/")[3] for key in harder.support} == {"clutter"}
    assert users == {"P519", "P999"}


def test_quality_shifts_take_annotated_frames(orbit: Path, tmp_path: Path, run_cli: Any) -> None:
    """Appendix D.2.2: queries without an issue, support with one at least."""
    run_cli("datasets", "add", "orbit", orbit, "--as", "orbit")
    out = tmp_path / "quality.parquet"
    shape = ("--rule", "orbit-quality", "--shot", "2", "--query", "2", "--tasks", "10", "--copies", "allow")
    run_cli("sample", "orbit", "--instances", "shifted", *shape, "-o", out)
    rows = rows_of(open_dataset("orbit"))
    for task in Testbed.load(out):
        assert {rows[key]["quality_issues"] for key in task.query} == {0}
        assert all(rows[key]["quality_issues"] > 0 for key in task.support)


def test_files_of_other_kinds_are_named(orbit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (orbit / "train/P177/bag/clean" / "notes.pdf").write_bytes(b"x")
    dataset = open_dataset(f"orbit:{orbit}")
    sentence = "1 file of other kinds in"
    assert sentence in capsys.readouterr().err
    assert any(text.startswith(sentence) and "(.pdf 1)" in text for text in dataset.left_out)
