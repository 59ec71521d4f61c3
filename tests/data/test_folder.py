"""Folders of class folders, on disk and in a zip."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.data import ImageError, describe_dataset, open_dataset, stores

MakeTree = Callable[[Mapping[str, int]], Path]


def test_nested_folders_give_ids_and_taxonomy(tree: MakeTree) -> None:
    dataset = open_dataset(tree({"Fruit/Apple/Granny": 2, "Fruit/Pear": 3, "Milk": 1}))
    assert dataset.class_ids == ("Fruit/Apple/Granny", "Fruit/Pear", "Milk")
    assert dataset.sizes.tolist() == [2, 3, 1]
    assert dataset.keys[0].as_py() == "Fruit/Apple/Granny/000.png"
    assert dataset.taxonomy is not None
    assert dataset.taxonomy.parents("Fruit/Apple/Granny") == ("Fruit/Apple",)
    assert dataset.name == "pictures"


def test_flat_folders_have_no_taxonomy(tree: MakeTree) -> None:
    assert open_dataset(tree({"a": 1, "b": 1})).taxonomy is None


def test_a_folder_with_images_and_folders_is_a_class_too(tree: MakeTree) -> None:
    dataset = open_dataset(tree({"dog": 2, "dog/poodle": 3}))
    assert (dataset.class_ids, dataset.sizes.tolist()) == (("dog", "dog/poodle"), [2, 3])


def test_other_files_are_ignored(tree: MakeTree) -> None:
    root = tree({"a": 1, "b": 1})
    for name in (
        "a/Thumbs.db",
        "a/.hidden.png",
        "a/notes.txt",
        "README.md",
        ".git/x.png",
        "__MACOSX/a/._1.png",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    assert len(open_dataset(root)) == 2


def test_images_beside_the_class_folders_are_told(
    tree: MakeTree, capsys: pytest.CaptureFixture[str], save_image: Callable[..., None]
) -> None:
    root = tree({"a": 1})
    save_image(root / "cover.png")
    assert len(open_dataset(root)) == 1
    assert "1 image directly in" in capsys.readouterr().err


def test_links_back_do_not_loop(tree: MakeTree) -> None:
    root = tree({"a": 1})
    (root / "a" / "loop").symlink_to(root)
    assert len(open_dataset(root)) == 1


def test_linked_class_folders_are_followed(
    tree: MakeTree, tmp_path: Path, save_image: Callable[..., None]
) -> None:
    root = tree({"a": 1})
    save_image(tmp_path / "elsewhere" / "1.png")
    (root / "b").symlink_to(tmp_path / "elsewhere")
    assert open_dataset(root).class_ids == ("a", "b")


@pytest.mark.parametrize("top", ["", "pictures"])
def test_zip_copy_has_the_same_fingerprint_and_pixels(
    tree: MakeTree, tmp_path: Path, top: str, save_image: Callable[..., None], zip_of: Callable[..., Path]
) -> None:
    root = tree({"x/ä": 2, "x/b": 1, "y": 2})
    save_image(root / "y" / "9.png", (7, 8, 9))
    folder, packed = open_dataset(root), open_dataset(zip_of(root, tmp_path / "copy.zip", top))
    assert folder.fingerprint == packed.fingerprint
    assert packed.image(len(packed) - 1).tobytes() == folder.image(len(folder) - 1).tobytes()


def test_a_zip_of_one_class_keeps_its_name(
    tree: MakeTree, tmp_path: Path, zip_of: Callable[..., Path]
) -> None:
    assert open_dataset(zip_of(tree({"cat": 2}), tmp_path / "z.zip")).class_ids == ("cat",)


def test_grocery_store(shared: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(shared / "data" / "grocery128.zip")
    assert (len(dataset.class_ids), len(dataset)) == (82, 5421)
    assert "Fruit/Apple/Granny-Smith" in dataset.class_ids
    assert dataset.image(17).size == (128, 128)
    assert dataset.taxonomy is not None and dataset.taxonomy.depths.max() == 3


@pytest.mark.parametrize(("part", "characters"), [("background", 964), ("evaluation", 659)])
def test_omniglot(shared: Path, fresh_cache: Path, part: str, characters: int) -> None:
    dataset = open_dataset(shared / "data" / "omniglot" / f"images_{part}.zip")
    assert len(dataset.class_ids) == characters
    assert set(dataset.sizes.tolist()) == {20}
    assert dataset.image(0).size == (105, 105)


def test_a_zip_is_read_in_forked_processes(
    tree: MakeTree, tmp_path: Path, zip_of: Callable[..., Path]
) -> None:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    dataset = open_dataset(zip_of(tree({"a": 40, "b": 40}), tmp_path / "z.zip"))
    dataset.image(0)  # opened here first: children must not share its position
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        images = list(pool.map(dataset.store.read, range(80)))
    expected = [(number, 0, label) for label in range(2) for number in range(40)]
    assert [image.getpixel((0, 0)) for image in images] == expected


def test_rescan_finds_new_files(tree: MakeTree, save_image: Callable[..., None]) -> None:
    root = tree({"a": 2, "b": 2})
    before = open_dataset(root)
    save_image(root / "b" / "new.png")
    after = open_dataset(root)
    assert (len(before), len(after)) == (4, 5)


def test_unchanged_folder_is_not_walked_again(tree: MakeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree({"a": 2, "b": 2})
    for folder in (root, root / "a", root / "b"):
        os.utime(folder, (1_600_000_000, 1_600_000_000))
    before = open_dataset(root)
    monkeypatch.setattr(os, "scandir", lambda _: pytest.fail("walked"))
    assert open_dataset(root).fingerprint == before.fingerprint


def test_damaged_scan_cache_is_replaced(tree: MakeTree, fresh_cache: Path) -> None:
    root = tree({"a": 2})
    open_dataset(root)
    for file in (fresh_cache / "scans").iterdir():
        file.write_bytes(b"PAR1 nonsense")
    assert len(open_dataset(root)) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux allows names that are not UTF-8")
def test_names_that_are_not_utf8(tree: MakeTree, tmp_path: Path) -> None:
    root = tree({"a": 1})
    folder = os.fsencode(root) + b"/caf\xe9"
    Path(os.fsdecode(folder)).mkdir()
    Image.new("RGB", (2, 2), (1, 2, 3)).save(tmp_path / "i.png")
    (tmp_path / "i.png").rename(os.fsdecode(folder + b"/\xff\\1.png"))
    dataset = open_dataset(root)
    assert dataset.class_ids == ("a", "caf\\xe9")
    assert dataset.keys[1].as_py() == "caf\\xe9/\\xff\\x5c1.png"
    assert dataset.image(1).getpixel((0, 0)) == (1, 2, 3)
    assert open_dataset(root).fingerprint == dataset.fingerprint  # also from the cached scan


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux allows names that are not UTF-8")
def test_a_root_that_is_not_utf8(tmp_path: Path, fresh_cache: Path, save_image: Callable[..., None]) -> None:
    save_image(tmp_path / "r" / "a" / "1.png")
    root = os.fsencode(tmp_path) + b"/r\xe9"
    (tmp_path / "r").rename(os.fsdecode(root))
    dataset = open_dataset(os.fsdecode(root))
    assert dataset.source.endswith("r\\xe9")
    assert open_dataset(dataset.source).image(0).size == (6, 5)


def test_zip_names_from_unix_match_the_folder(
    tree: MakeTree, tmp_path: Path, zip_of: Callable[..., Path]
) -> None:
    packed = zip_of(tree({"QQ": 1}), tmp_path / "z.zip").read_bytes()
    # As Info-ZIP writes it: raw UTF-8 bytes, the flag that says so unset.
    (tmp_path / "z.zip").write_bytes(packed.replace(b"QQ", "ä".encode()))
    assert open_dataset(tmp_path / "z.zip").class_ids == ("ä",)


def test_very_long_names(tree: MakeTree, tmp_path: Path, save_image: Callable[..., None]) -> None:
    root = tree({"a": 1})
    deep = root.joinpath(*["n" * 200] * 6)
    save_image(deep / ("x" * 251 + ".png"))
    dataset = open_dataset(root)
    assert dataset.image(1).size == (6, 5)
    assert len(dataset.keys[1].as_py()) == 6 * 201 + 255


def test_split_file(tree: MakeTree) -> None:
    root = tree({"x/a": 1, "x/b": 1, "c": 1})
    (root / "split.json").write_text(json.dumps({"name": "s", "train": ["x/a", "b"], "val": ["c"]}))
    assert open_dataset(root).splits == {"train": ("x/a", "x/b"), "validation": ("c",)}


def test_split_file_inside_a_zip(tree: MakeTree, tmp_path: Path, zip_of: Callable[..., Path]) -> None:
    root = tree({"a": 1, "b": 1})
    (root / "split.json").write_text('{"train": ["a"], "test": ["b"]}')
    assert open_dataset(zip_of(root, tmp_path / "z.zip", "top")).splits == {"train": ("a",), "test": ("b",)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"train": ["zebra"]}', "names 1 class .*'zebra'"),
        ('{"train": ["a"], "test": ["a"]}', "puts class 'a' in both train and test"),
        ("{", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"name": "x"}', r"no list under train, validation or test \(found: name\)"),
    ],
)
def test_bad_split_files(tree: MakeTree, text: str, message: str) -> None:
    root = tree({"a": 1, "b": 1})
    (root / "split.json").write_text(text)
    with pytest.raises(UserError, match=message):
        open_dataset(root)


def test_train_and_test_folders_are_splits(tree: MakeTree) -> None:
    dataset = open_dataset(tree({"train/x/a": 1, "train/b": 1, "val/x/c": 1, "test/d": 1}))
    assert dataset.splits == {
        "train": ("train/b", "train/x/a"),
        "validation": ("val/x/c",),
        "test": ("test/d",),
    }
    assert dataset.taxonomy is not None
    assert dataset.taxonomy.groups(dataset.class_ids)["x"] == ("train/x/a", "val/x/c")


def test_a_class_in_several_split_folders_is_one_class(
    tree: MakeTree, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tree({"train/a": 2, "train/x/b": 1, "test/a": 1, "test/x/b": 1})
    dataset = open_dataset(root)
    assert (dataset.class_ids, dataset.sizes.tolist(), dataset.splits) == (("a", "x/b"), [3, 2], {})
    assert dataset.keys.to_pylist()[:3] == ["test/a/000.png", "train/a/000.png", "train/a/001.png"]
    assert dataset.attributes is not None
    assert dataset.attributes["split"].to_pylist() == ["test", "train", "train", "test", "train"]
    assert dataset.taxonomy is not None and dataset.taxonomy.groups(dataset.class_ids)["x"] == ("x/b",)
    assert dataset.or_as == (f'4 classes by folder: "folders(splits=False):{root}"',)
    assert f"It could also be {dataset.or_as[0]}" in capsys.readouterr().err
    assert open_dataset(f"folders(splits=False):{root}").class_ids == (
        "test/a",
        "test/x/b",
        "train/a",
        "train/x/b",
    )


def test_files_beside_classes_that_are_put_together(tree: MakeTree) -> None:
    root = tree({"train/a": 1, "train/b": 1, "test/a": 1, "test/b": 1})
    (root / "split.json").write_text('{"train": ["a"], "test": ["b"]}')
    (root / "attributes.csv").write_text("path,blur\ntest/b/000.png,3\n")
    dataset = open_dataset(root)
    assert dataset.splits == {"train": ("a",), "test": ("b",)} and dataset.attributes is not None
    assert dataset.attributes.column_names == ["blur", "split"]
    assert dataset.attributes["blur"].to_pylist() == [None, None, 3, None]


def test_attributes_file(tree: MakeTree) -> None:
    root = tree({"a": 2, "b": 1})
    (root / "attributes.csv").write_text("path,blur,owner\nb/000.png,0.5,eve\na/000.png,0.25,bob\n")
    attributes = open_dataset(root).attributes
    assert attributes is not None
    assert attributes.to_pydict() == {"blur": [0.25, None, 0.5], "owner": ["bob", None, "eve"]}


def test_attributes_of_no_image_are_an_error(tree: MakeTree) -> None:
    root = tree({"a": 1})
    (root / "attributes.csv").write_text("path,blur\nz.png,1\n")
    with pytest.raises(UserError, match="None of the 1 paths"):
        open_dataset(root)


def test_attributes_need_a_key_column(tree: MakeTree) -> None:
    root = tree({"a": 1})
    (root / "attributes.csv").write_text("blur,owner\n1,2\n")
    with pytest.raises(UserError, match=r"needs a column key or path \(found: blur, owner\)"):
        open_dataset(root)


def test_taxonomy_file_overrides_folders(tree: MakeTree) -> None:
    root = tree({"x/a": 1, "x/b": 1})
    (root / "taxonomy.csv").write_text(
        "parent,child\nthing,plant\nthing,animal\nplant,a\nanimal,x/b\nplant,x/b\n"
    )
    taxonomy = open_dataset(root).taxonomy
    assert taxonomy is not None
    assert taxonomy.parents("x/b") == ("animal", "plant")
    assert taxonomy.parents("x/a") == ("plant",)


def test_taxonomy_file_must_hold_every_class(tree: MakeTree) -> None:
    root = tree({"a": 1, "b": 1})
    (root / "taxonomy.csv").write_text("parent,child\nthing,a\n")
    with pytest.raises(UserError, match=r"lacks 1 class of 2 \('b'\)"):
        open_dataset(root)


def test_an_empty_class_folder_is_noted_and_left_out(
    tree: MakeTree, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tree({"a": 1, "b": 0})
    (root / "b" / "x.txt").write_text("")
    dataset = open_dataset(root)
    assert dataset.class_ids == ("a",)
    assert f"note: 1 class folder of {root} without images ('b'): left out." in capsys.readouterr().err
    assert describe_dataset(dataset)["left_out"] == [
        f"1 class folder of {root} without images ('b'): left out",
        f"1 file of other kinds in {root} was ignored (.txt 1)",
    ]
    assert open_dataset(root).left_out == dataset.left_out  # also when the scan is remembered


def test_an_empty_class_folder_in_a_zip_is_left_out(
    tree: MakeTree, tmp_path: Path, zip_of: Callable[..., Path]
) -> None:
    dataset = open_dataset(zip_of(tree({"a": 1, "x/b": 0}), tmp_path / "z.zip", "top"))
    assert dataset.class_ids == ("a",)
    assert "1 class folder of" in dataset.left_out[0] and "'x/b'" in dataset.left_out[0]


def test_ignored_files_are_counted_by_kind(
    tree: MakeTree,
    tmp_path: Path,
    zip_of: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_heif(monkeypatch)
    root = tree({"a": 2, "b": 1})
    for number in range(10):
        (root / "a" / f"IMG_{number}.HEIC").write_bytes(b"x")
    for name in ("a/list.pdf", "b/list.pdf", "README.md", "LICENSE", "a/Thumbs.db", "b/.hidden"):
        (root / name).write_bytes(b"x")
    (root / "split.json").write_text('{"train": ["a"], "test": ["b"]}')
    assert len(open_dataset(root)) == 3
    expected = (
        f"note: 12 files of other kinds in {root} were ignored (.HEIC 10, .pdf 2); HEIC needs the package"
    )
    assert expected in capsys.readouterr().err
    packed = zip_of(root, tmp_path / "z.zip", "top")
    assert len(open_dataset(packed)) == 3
    assert "12 files of other kinds in" in capsys.readouterr().err


def test_a_folder_of_heic_alone_says_what_reads_them(tree: MakeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    without_heif(monkeypatch)
    root = tree({"a": 0})
    (root / "a" / "1.heic").write_bytes(b"x")
    with pytest.raises(
        UserError,
        match=r"no images \(1 file of other kinds found \(.heic 1\)\); HEIC needs .*longshot\[heif\]",
    ):
        open_dataset(root)


def without_heif(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if pillow-heif were not installed."""
    monkeypatch.setattr(stores, "EXTENSIONS", stores.EXTENSIONS - stores.HEIF_EXTENSIONS)
    monkeypatch.setattr(stores, "HAS_HEIF", False)
    monkeypatch.setattr("longshot.data.scan.HAS_HEIF", False)


def write_heic(path: Path) -> None:
    heif = pytest.importorskip("pillow_heif", reason="needs the package pillow-heif")
    gradient = np.zeros((48, 64, 3), np.uint8)
    gradient[:, 32:] = (200, 100, 50)
    heif.from_pillow(Image.fromarray(gradient)).save(path, quality=95)


def test_heic_photographs_are_read(tree: MakeTree) -> None:
    root = tree({"a": 1})
    write_heic(root / "a" / "IMG_1.HEIC")
    dataset = open_dataset(root)
    assert dataset.keys.to_pylist()[-1] == "a/IMG_1.HEIC"
    picture = np.asarray(dataset.image(len(dataset) - 1)).astype(int)
    assert picture.shape == (48, 64, 3)
    assert np.abs(picture[24, 48] - [200, 100, 50]).max() < 12


def test_a_scan_from_before_heic_could_be_read_is_made_anew(
    tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree({"a": 1})
    write_heic(root / "a" / "IMG_1.HEIC")
    with monkeypatch.context() as patched:
        without_heif(patched)
        assert len(open_dataset(root)) == 1
    assert len(open_dataset(root)) == 2


def test_an_heic_under_another_name_is_told(tree: MakeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree({"a": 1})
    write_heic(root / "a" / "photo.heic")
    (root / "a" / "photo.heic").rename(root / "a" / "z.jpg")
    without_heif(monkeypatch)
    with pytest.raises(ImageError, match=r"z.jpg: it is an HEIC image; HEIC needs the package pillow-heif"):
        open_dataset(root).image(1)


def test_folder_without_images(tmp_path: Path, fresh_cache: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.txt").write_text("")
    with pytest.raises(UserError, match=r"holds no images \(1 file of other kinds found \(.txt 1\)\)"):
        open_dataset(tmp_path / "d")


def test_folder_of_images_without_classes(
    tmp_path: Path, fresh_cache: Path, save_image: Callable[..., None]
) -> None:
    save_image(tmp_path / "d" / "1.png")
    with pytest.raises(UserError, match="1 image but no class folders"):
        open_dataset(tmp_path / "d")


def test_missing_folder_suggests_a_near_name(tree: MakeTree) -> None:
    with pytest.raises(UserError, match=r"did you mean '.*/pictures'"):
        open_dataset(tree({"a": 1}).parent / "picture")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.98])
def test_damaged_zips(tree: MakeTree, tmp_path: Path, share: float, zip_of: Callable[..., Path]) -> None:
    intact = zip_of(tree({"a": 3}), tmp_path / "z.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(intact[: int(len(intact) * share)])
    with pytest.raises(UserError, match="not a whole zip archive"):
        open_dataset(tmp_path / "cut.zip")


@pytest.mark.parametrize("name", ["../evil/1.png", "/abs/1.png", "a/../../1.png"])
def test_unsafe_zip_members(tmp_path: Path, fresh_cache: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr(name, b"x")
    with pytest.raises(UserError, match="unsafe path"):
        open_dataset(tmp_path / "z.zip")


def test_unknown_kind_of_file(tmp_path: Path, fresh_cache: Path) -> None:
    (tmp_path / "x.docx").write_bytes(b"x")
    with pytest.raises(UserError, match="no dataset that Longshot opens"):
        open_dataset(tmp_path / "x.docx")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may list every folder")
def test_folder_that_may_not_be_listed(tree: MakeTree) -> None:
    root = tree({"a": 1, "b": 1})
    (root / "b").chmod(0)
    try:
        with pytest.raises(UserError, match=r"Cannot list folder .*/b: permission denied"):
            open_dataset(root)
    finally:
        (root / "b").chmod(0o755)


def test_opening_needs_neither_torch_nor_pandas(tree: MakeTree) -> None:
    code = f"""
import sys
class Absent:  # pyarrow imports pandas by itself where it is installed; we do without
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "pandas"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from longshot import open_dataset
open_dataset({str(tree({"a": 1}))!r}).image(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
