"""CURE-OR: conditions read from file names, and viewpoint-shifted tasks from the command line."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from longshot import open_dataset
from longshot.base import UserError
from longshot.data.formats.pattern import OBJECTS
from longshot.tasks import Testbed

Save = Callable[..., None]


@pytest.fixture
def cure(tmp_path: Path, fresh_cache: Path, save_image: Save) -> Path:
    """Six objects × five views × two backgrounds × two cameras, in a folder per challenge as published."""
    root = tmp_path / "CURE-OR"
    objects = (1, 5, 20, 34, 66, 100)
    for number, view, background, device in product(objects, range(1, 6), (1, 5), (1, 4)):
        name = f"{background}_{device}_{view}_{number:03d}_01_0.jpg"
        save_image(root / "01_no_challenge" / name, (2 * number, 40 * view, 40 * background))
    save_image(root / "14_grayscale_blur" / "Level_5" / "2_3_4_020_14_5.jpg")
    return root


def test_the_objects_are_the_published_ones() -> None:
    assert len(set(OBJECTS)) == 100
    assert [int(c.split("/")[1][:3]) for c in OBJECTS] == list(range(1, 101))
    sizes = {
        kind: sum(c.startswith(f"{kind}/") for c in OBJECTS) for kind in {c.split("/")[0] for c in OBJECTS}
    }
    assert sizes == {"toy": 23, "personal": 10, "office": 14, "household": 27, "sports": 10, "health": 16}


def test_names_become_attributes(cure: Path) -> None:
    dataset = open_dataset(f"cure-or:{cure}")
    assert dataset.attributes is not None
    assert dataset.class_ids == tuple(sorted(OBJECTS[n - 1] for n in (1, 5, 20, 34, 66, 100)))
    assert dataset.sizes.tolist().count(20) == 5 and len(dataset) == 121
    rows = dict(zip(dataset.keys.to_pylist(), dataset.attributes.to_pylist(), strict=True))
    assert rows["2_3_4_020_14_5.jpg"] == {
        "viewpoint": "side",
        "orientation": "right",
        "background": "2d-living-room",
        "device": "lg-leon",
        "challenge": "blur",
        "level": 5,
        "grayscale": True,
    }
    assert rows["1_4_5_034_01_0.jpg"] == {
        "viewpoint": "top",
        "orientation": "top",
        "background": "white",
        "device": "logitech-c920",
        "challenge": "none",
        "level": 0,
        "grayscale": False,
    }
    views = [rows[f"5_1_{view}_001_01_0.jpg"]["viewpoint"] for view in range(1, 6)]
    assert views == ["front", "side", "back", "side", "top"]


def test_every_row_reads_its_own_file(cure: Path) -> None:
    dataset = open_dataset(f"cure-or(challenges=False):{cure}")
    assert len(dataset) == 120
    for row, key in enumerate(dataset.keys.to_pylist()):
        background, _, view, number, _, _ = (int(part) for part in key[:-4].split("_"))
        red, green, blue = dataset.image(row).getpixel((2, 2))  # type: ignore[misc]
        assert max(abs(red - 2 * number), abs(green - 40 * view), abs(blue - 40 * background)) < 12
        assert dataset.class_ids[dataset.labels[row]] == OBJECTS[number - 1]


def test_folders_do_not_matter(cure: Path) -> None:
    before = open_dataset(f"cure-or:{cure}").fingerprint
    for file in sorted(cure.rglob("*.jpg")):
        file.rename(cure / file.name)
    for folder in sorted((f for f in cure.rglob("*") if f.is_dir()), reverse=True):
        folder.rmdir()
    assert open_dataset(f"cure-or:{cure}").fingerprint == before


def test_the_numbers_of_the_small_version(
    tmp_path: Path, fresh_cache: Path, save_image: Save, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 3):
        save_image(tmp_path / "mini" / f"1_1_1_{number:03d}_01_0.jpg")
    plain = open_dataset(f"cure-or:{tmp_path / 'mini'}")
    assert "if this is mini-CURE-OR, say cure-or(mini=True)" in capsys.readouterr().err
    assert plain.class_ids == ("health/003-medicine-spray", "household/001-coca-cola-bottle-red")
    small = open_dataset(f"cure-or(mini=True):{tmp_path / 'mini'}")
    assert small.class_ids == ("personal/099-canon-camera", "sports/005-baseball")


def test_names_of_another_form_are_refused(cure: Path, save_image: Save, run_cli: Any) -> None:
    save_image(cure / "01_no_challenge" / "IMG_1234.jpg")
    done = run_cli("datasets", "add", "c", cure, "--as", "cure-or", check=False)
    assert done.returncode == 2
    assert "1 image of 122 below" in done.stderr and "01_no_challenge/IMG_1234.jpg" in done.stderr


@pytest.mark.parametrize(
    ("name", "part"), [("1_1_6_001_01_0.jpg", "orientation"), ("1_1_1_101_01_0.jpg", "object")]
)
def test_numbers_out_of_range_are_refused(cure: Path, save_image: Save, name: str, part: str) -> None:
    save_image(cure / "01_no_challenge" / name)
    with pytest.raises(UserError, match=rf"1 image of .*{name}.* number for the {part} outside 1 to"):
        open_dataset(f"cure-or:{cure}")


def test_the_same_file_in_two_folders_is_refused(cure: Path, save_image: Save) -> None:
    save_image(cure / "copies" / "1_1_1_001_01_0.jpg")
    with pytest.raises(UserError, match=r"1 image of .*'1_1_1_001_01_0.jpg'.* more than one folder"):
        open_dataset(f"cure-or:{cure}")


def test_viewpoint_shifts_from_the_command_line(cure: Path, tmp_path: Path, run_cli: Any) -> None:
    """Appendix D.3: queries from one group of views; support from the others (shifted) or from the same (matched)."""
    run_cli("datasets", "add", "cure", cure, "--as", "cure-or(challenges=False)")
    shape = ("--rule", "cure-or-viewpoint", "--shot", "2", "--query", "2", "--tasks", "30")
    shape += ("--copies", "allow")  # the made-up pictures are of one colour each
    for kind in ("shifted", "matched"):
        run_cli("sample", "cure", "--instances", kind, *shape, "-o", tmp_path / f"{kind}.parquet")
    shifted, matched = (Testbed.load(tmp_path / f"{kind}.parquet") for kind in ("shifted", "matched"))
    view = dict(zip("12345", ("ends", "side", "ends", "side", "top"), strict=True))
    met = set()
    for harder, matching in zip(shifted, matched, strict=True):
        query = {view[key.split("_")[2]] for key in harder.query}
        assert list(harder.query) == list(matching.query) and len(query) == 1
        assert not query & {view[key.split("_")[2]] for key in harder.support}
        assert query == {view[key.split("_")[2]] for key in matching.support}
        met |= query
    assert met == {"ends", "side", "top"}


def test_own_rules_over_the_attributes(cure: Path, tmp_path: Path, run_cli: Any) -> None:
    run_cli("datasets", "add", "cure", cure, "--as", "cure-or")
    rules = (
        "--query-where",
        "background == white",
        "--support-where",
        "background == 3d-office and not grayscale",
    )
    out = tmp_path / "rooms.parquet"
    run_cli(
        "sample",
        "cure",
        "--instances",
        "shifted",
        *rules,
        "--shot",
        "3",
        "--query",
        "3",
        "--tasks",
        "8",
        "--copies",
        "allow",
        "-o",
        out,
    )
    for task in Testbed.load(out):
        assert all(key.startswith("1_") for key in task.query)
        assert all(key.startswith("5_") for key in task.support)


def test_files_of_other_kinds_are_named(cure: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cure / "01_no_challenge" / "notes.pdf").write_bytes(b"x")
    dataset = open_dataset(f"cure-or:{cure}")
    sentence = "1 file of other kinds in"
    assert sentence in capsys.readouterr().err
    assert any(text.startswith(sentence) and "(.pdf 1)" in text for text in dataset.left_out)
