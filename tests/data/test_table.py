"""CSV, TSV and Parquet tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longshot.base import UserError
from longshot.data import open_dataset

MakeTree = Callable[[Mapping[str, int]], Path]


@pytest.fixture
def root(tree: MakeTree) -> Path:
    return tree({"a": 2, "b": 1})


def write(root: Path, text: str, name: str = "table.csv") -> Path:
    (root / name).write_bytes(text.encode())
    return root / name


def test_paths_labels_and_typed_attributes(root: Path) -> None:
    table = write(
        root,
        "path,label,blur,frontal,owner\nb/000.png,bee,1,true,x\na/001.png,ant,2,false,y\n./a/000.png,ant,3,true,z\n",
    )
    dataset = open_dataset(table)
    assert (dataset.class_ids, dataset.sizes.tolist()) == (("ant", "bee"), [2, 1])
    assert dataset.keys.to_pylist() == ["a/000.png", "a/001.png", "b/000.png"]
    assert dataset.attributes is not None
    assert dataset.attributes.to_pydict() == {
        "blur": [3, 2, 1],
        "frontal": [True, False, True],
        "owner": ["z", "y", "x"],
    }
    assert [str(t) for t in dataset.attributes.schema.types] == ["int64", "bool", "string"]
    assert dataset.image(2).size == (6, 5)


def test_table_of_a_folder_has_its_fingerprint(root: Path) -> None:
    table = write(root, "path,label\na/000.png,a\na/001.png,a\nb/000.png,b\n")
    assert open_dataset(table).fingerprint == open_dataset(root).fingerprint


def test_parquet(root: Path) -> None:
    columns = {
        "file": ["b/000.png", "a/000.png"],
        "category": pa.array(["q", "p"]).dictionary_encode(),
        "n": [1.5, 2.5],
    }
    pq.write_table(pa.table(columns), root / "t.parquet")
    dataset = open_dataset(root / "t.parquet")
    assert dataset.class_ids == ("p", "q")
    assert dataset.attributes is not None and dataset.attributes["n"].to_pylist() == [2.5, 1.5]


def test_tab_separated_with_other_names_and_a_byte_order_mark(root: Path) -> None:
    assert open_dataset(write(root, "\ufeffFilename\tClass\na/000.png\tx\n", "t.tsv")).class_ids == ("x",)


def test_labels_that_look_like_numbers_stay_text(root: Path) -> None:
    assert open_dataset(write(root, "path,label\na/000.png,007\nb/000.png,7\n")).class_ids == ("007", "7")


def test_parent_column_gives_a_taxonomy(root: Path) -> None:
    table = write(root, "path,label,parent\na/000.png,ant,Insect/Hymenoptera\nb/000.png,cat,Mammal\n")
    taxonomy = open_dataset(table).taxonomy
    assert taxonomy is not None
    assert taxonomy.ancestors("ant") == {"ant", "Insect/Hymenoptera", "Insect", ""}


def test_several_parents_make_a_dag(root: Path) -> None:
    table = write(root, "path,label,parent\na/000.png,bat,Mammal\na/001.png,bat,Flyer\nb/000.png,bee,Flyer\n")
    taxonomy = open_dataset(table).taxonomy
    assert taxonomy is not None and set(taxonomy.parents("bat")) == {"Flyer", "Mammal"}


def test_label_that_is_its_own_parent(root: Path) -> None:
    with pytest.raises(UserError, match="cycle"):
        open_dataset(write(root, "path,label,parent\na/000.png,kiwi,kiwi\n"))


def test_split_column(root: Path) -> None:
    table = write(root, "path,label,split\na/000.png,x,train\na/001.png,x,train\nb/000.png,y,val\n")
    dataset = open_dataset(table)
    assert dataset.splits == {"train": ("x",), "validation": ("y",)}
    assert dataset.attributes is None


def test_split_of_images_is_an_attribute(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(root, "path,label,split\na/000.png,x,train\na/001.png,x,test\nb/000.png,y,test\n")
    dataset = open_dataset(table)
    assert dataset.splits == {}
    assert dataset.attributes is not None and dataset.attributes.column_names == ["split"]
    assert "divides the images of class 'x'" in capsys.readouterr().err


def test_backslashes_of_windows(root: Path) -> None:
    assert open_dataset(write(root, "path,label\na\\000.png,x\n")).keys.to_pylist() == ["a/000.png"]


def test_absolute_paths(root: Path, tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    table = write(tmp_path / "tables", f"path,label\n{root}/a/000.png,x\n")
    assert open_dataset(table).image(0).size == (6, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,kind\na/000.png,x\na/001.png,y\n", r"no column for the label \(found: path, kind\)"),
        ("a,b\n1,2\n", r"no column for the path and the label \(found: a, b\)"),
        ("path,label\n", "has no rows"),
        (
            "path,label\na/000.png,x\nz1.png,x\nz2.png,x\n",
            r"2 files of 3 that do not exist \('z1.png', 'z2.png'\)",
        ),
        (
            "path,label\na/000.png,x\na/001.png,\n",
            "'label' .* is empty in 1 row of 2 \\(the first is row 2\\)",
        ),
        ("path,label\na/000.png,x\n./a/000.png,y\n", "1 file more than once"),
        ("path,label\na/000.png,x,3\n", "Cannot read .* as a CSV file"),
        ("", "no column|Cannot read"),
    ],
)
def test_bad_tables(root: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_dataset(write(root, text))


def test_latin1_table(root: Path) -> None:
    (root / "t.csv").write_bytes("path,label\na/000.png,café\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"in UTF-8|holds binary"):
        open_dataset(root / "t.csv")


def test_truncated_parquet(root: Path) -> None:
    pq.write_table(pa.table({"path": ["a/000.png"], "label": ["x"]}), root / "t.parquet")
    (root / "t.parquet").write_bytes((root / "t.parquet").read_bytes()[:-9])
    with pytest.raises(UserError, match=r"Cannot read .* as a Parquet file"):
        open_dataset(root / "t.parquet")
