"""Published splits: the tables as printed, and how their numbers become class ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from longshot.base import UserError
from longshot.data import Dataset
from longshot.tasks import open_split
from longshot.tasks.splits import published_splits
from longshot.tasks.splits.published_splits import (
    cifar100_names,
    partition,
    published_split,
    published_split_names,
)

Make = Callable[..., Dataset]
SUPER = published_splits._table("cifar100")["superclasses"]


@pytest.fixture
def cifar(dataset_of: Make) -> Dataset:
    """CIFAR-100 as many keep it: fine classes in folders of their superclass, so in another order than the labels."""
    return dataset_of([f"{above}/{fine}" for above, members in SUPER.items() for fine in members])


def test_the_tables_are_the_papers(shared: Path) -> None:
    golden = json.loads((shared / "golden" / "atg_partitions.json").read_text())
    ours = {
        name: {r: partition(f"atg:{name}@{r}") for r in divergences} for name, divergences in golden.items()
    }
    assert ours == golden
    assert len([name for name in published_split_names() if name.startswith("atg:")]) == 20


def test_every_table_is_a_partition() -> None:
    for name in published_split_names():
        if name.startswith("atg:"):
            parts = partition(name)
            everyone = sorted(number for members in parts.values() for number in members)
            assert everyone == list(range(len(everyone))), name
            assert len(parts["validation"]) == len(parts["test"]) == len(everyone) // 5, name


def test_class_names_carry_the_numbers_whatever_the_folders(cifar: Dataset) -> None:
    split = published_split("atg:cifar100@0.96", cifar)
    expected = {cifar100_names()[number] for number in partition("atg:cifar100@0.96")["test"]}
    assert {c.split("/")[1] for c in split.test} == expected
    assert split.made["made_for"] == "CIFAR-100"


def test_spellings_of_names_do_not_matter(dataset_of: Make) -> None:
    spelt = dataset_of([name.replace("_", " ").title() for name in cifar100_names()])
    assert "Aquarium Fish" in published_split("cifar-fs", spelt).train


def test_cifar_fs_and_fc100_are_partitions_of_cifar100(cifar: Dataset) -> None:
    assert open_split("cifar-fs", cifar).sizes == {"train": 64, "validation": 16, "test": 20}
    fc100 = open_split("fc100", cifar)
    assert fc100.sizes == {"train": 60, "validation": 20, "test": 20}
    homes = {part: {c.split("/")[0] for c in members} for part, members in fc100.parts.items()}
    assert homes["test"] == {"aquatic_mammals", "insects", "medium_mammals", "people"}
    assert homes["validation"] == {
        "large_carnivores",
        "large_omnivores_and_herbivores",
        "non-insect_invertebrates",
        "small_mammals",
    }
    assert len(homes["train"]) == 12


def test_numbered_classes_are_taken_by_number(dataset_of: Make) -> None:
    numbered = dataset_of([str(i) for i in range(608)])  # "10" sorts before "2"
    split = open_split("atg:tiered-imagenet@0.04", numbered)
    assert set(split.test) == {str(i) for i in partition("atg:tiered-imagenet@0.04")["test"]}


def test_capitals_tell_emnists_letters_apart(dataset_of: Make) -> None:
    letters = dataset_of(list("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))
    order = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    split = open_split("atg:emnist@0.32", letters)
    assert set(split.test) == {order[i] for i in partition("atg:emnist@0.32")["test"]}


def test_mini_imagenets_order_puts_the_animals_where_the_partitions_have_them(dataset_of: Make) -> None:
    """Independent of how the list was made: from R = 0.32 the partitions keep animals from other things.

    28 or 29 of the 35 animals are then away from the train classes, where 14 would be by chance; in the order of all
    WordNet ids it is 20 or 21.
    """
    names = json.loads(
        Path(published_splits.__file__).with_name("published").joinpath("atg.json").read_text()
    )
    mini = dataset_of(sorted(names["datasets"]["mini-imagenet"]["names"]))
    for divergence in ("0.32", "0.64", "0.96"):
        split = open_split(f"atg:mini-imagenet@{divergence}", mini)
        animals = [name for name in (*split.validation, *split.test) if name < "n026600"]
        assert len([name for name in mini.class_ids if name < "n026600"]) == 35 and len(animals) >= 28


def test_faces_with_ten_images_go_by_alphabet(dataset_of: Make) -> None:
    many = dataset_of([f"Person_{i:04d}" for i in range(158)], images=10)
    ids = (*many.class_ids, "Rare_Person")
    keys = pa.concat_arrays([many.keys, pa.array(["Rare_Person/0.png"])])
    faces = Dataset("lfw", ids, np.append(many.offsets, len(keys)), keys, many.store, "nowhere")
    split = open_split("atg:lfw10@0.64", faces)
    assert set(split.test) == {f"Person_{i:04d}" for i in partition("atg:lfw10@0.64")["test"]}


def test_an_order_file_names_the_classes(dataset_of: Make, tmp_path: Path) -> None:
    dataset = dataset_of([f"n{i:08d}" for i in range(100)])
    backwards = list(reversed(dataset.class_ids))
    (tmp_path / "order.txt").write_text("\n".join(backwards))
    split = open_split("atg:mini-imagenet@0.64", dataset, order=tmp_path / "order.txt")
    assert set(split.test) == {backwards[i] for i in partition("atg:mini-imagenet@0.64")["test"]}
    (tmp_path / "order.txt").write_text("\n".join(backwards[:50]))
    with pytest.raises(UserError, match=r"has 50 different lines, but .* with 100 classes"):
        open_split("atg:mini-imagenet@0.64", dataset, order=tmp_path / "order.txt")


@pytest.mark.parametrize(
    ("spec", "classes", "message"),
    [
        (
            "atg:cifar100@0.96",
            82,
            r"made for CIFAR-100 with 100 classes .* has 82 classes; open CIFAR-100 itself",
        ),
        (
            "fc100",
            100,
            r"100 classes with other names \('c000', 'c001', 'c002' and 97 more\); name them 'apple'",
        ),
        ("atg:mini-imagenet@0.04", 100, r"each by WordNet id.* order=FILE"),
        ("atg:cifar100@0.5", 100, r"has the divergences 0\.04, 0\.32, 0\.64, 0\.96"),
        ("atg:birds@0.04", 100, "ATG was published for cifar100, mini-imagenet"),
        ("fc200", 100, "There is no split 'fc200'"),
        ("nowhere/split.json", 100, "There is no split file nowhere/split.json"),
        ("random(sead=1)", 100, "no setting 'sead'; its settings and their defaults: ratios="),
        ("random(seed='x')", 100, "do not fit"),
    ],
)
def test_what_does_not_fit_is_one_sentence(dataset_of: Make, spec: str, classes: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_split(spec, dataset_of([f"c{i:03d}" for i in range(classes)]))


def test_a_file_and_a_recipe_open_the_same_way(dataset_of: Make, tmp_path: Path) -> None:
    dataset = dataset_of([f"f{i % 5}/c{i:02d}" for i in range(30)])
    split = open_split("semantic(seed=3, level=1)", dataset)
    split.save(tmp_path / "split.json")
    assert open_split(tmp_path / "split.json", dataset) == split
    assert open_split("random(seed=2, ratios=(0.5, 0.2, 0.3))", dataset).sizes["test"] == 9


def test_a_list_by_hand_is_opened_in_class_ids(dataset_of: Make, tmp_path: Path) -> None:
    dataset = dataset_of([f"f{i % 5}/c{i:02d}" for i in range(30)])
    (tmp_path / "hand.json").write_text(json.dumps({"train": ["c01", "c02"], "test": ["c03"]}))
    split = open_split(tmp_path / "hand.json", dataset)
    assert split.parts == {"train": ("f1/c01", "f2/c02"), "validation": (), "test": ("f3/c03",)}
    assert split.apply(dataset).splits == {"train": ("f1/c01", "f2/c02"), "test": ("f3/c03",)}
