"""Published class lists by name: the paper's 20 ATG partitions, CIFAR-FS and FC100, as data beside this file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from longshot.base import UserError, count, first
from longshot.data import SPLITS, Dataset, Taxonomy
from longshot.tasks.splits.split import Split

_CIFAR = ("cifar-fs", "fc100")


@cache
def _table(name: str) -> dict[str, Any]:
    text = files(__package__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def names() -> list[str]:
    """Every published split: ``atg:DATASET@R``, ``cifar-fs``, ``fc100``."""
    atg = [
        f"atg:{name}@{r}" for name, facts in _table("atg")["datasets"].items() for r in facts["partitions"]
    ]
    return [*atg, *_CIFAR]


def list_published() -> list[dict[str, str]]:
    """Every published split, the dataset it was made for, and how many classes its parts have."""
    return [
        {
            "split": name,
            "made for": "cifar100" if name in _CIFAR else name.removeprefix("atg:").partition("@")[0],
            "train/validation/test": "/".join(str(len(members)) for members in partition(name).values()),
        }
        for name in names()
    ]


def partition(name: str) -> dict[str, list[int]]:
    """{part: class numbers} of a published split, in the order it was printed in."""
    if name in _CIFAR:
        facts = _table("cifar100")["splits"][name]
        return {part: [cifar100_names().index(c) for c in facts[part]] for part in SPLITS}
    dataset, _, divergence = name.removeprefix("atg:").partition("@")
    tables = _table("atg")["datasets"]
    if dataset not in tables:
        raise UserError(f"There is no published split '{name}'; ATG was published for {', '.join(tables)}.")
    partitions = tables[dataset]["partitions"]
    if divergence not in partitions:
        raise UserError(
            f"There is no published split '{name}': atg:{dataset} has the divergences {', '.join(partitions)}, "
            f"as in atg:{dataset}@{next(iter(partitions))}."
        )
    numbers: dict[str, list[int]] = {part: list(partitions[divergence][part]) for part in SPLITS}
    return numbers


def published_split(name: str, dataset: Dataset, order: str | Path | None = None) -> Split:
    """A published split in the class ids of a dataset.

    The tables give class numbers. They are matched by class name where the names are known (CIFAR-100, EMNIST, whatever
    the folder a class lies in), by number where the classes of the dataset are called 0, 1, 2 …, by alphabet for
    LFW, and otherwise through ``order``.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    dataset : Dataset
        The dataset that the split was made for.
    order : path, optional
        A text file with one class id a line, in the order of the numbers.
    """
    if name not in _CIFAR and not name.startswith("atg:"):
        raise UserError(f"There is no published split '{name}'; there are {', '.join(names())}.")
    numbers = partition(name)
    if name in _CIFAR:
        made_for, source = _made_for("cifar100"), _table("cifar100")["splits"][name]["source"]
    else:
        made_for, source = _made_for(name.removeprefix("atg:").partition("@")[0]), _table("atg")["source"]
    ids = _read_order(Path(order), dataset, made_for, name) if order else _find_order(dataset, made_for, name)
    parts = {part: tuple(sorted(ids[number] for number in members)) for part, members in numbers.items()}
    made = {
        "mode": "published",
        "source": source,
        "made_for": made_for["title"],
        "class_order": made_for["order"],
    }
    return Split(name, dataset.fingerprint, made, **parts)


def cifar100_names() -> list[str]:
    """CIFAR-100's fine classes in the order of their labels, which is the alphabet."""
    return sorted(fine for members in _table("cifar100")["superclasses"].values() for fine in members)


def superclass_taxonomy(dataset: Dataset) -> Taxonomy | None:
    """CIFAR-100's 20 super-classes above the classes of a copy whose folders do not spell them out; None for others."""
    try:
        ids = _find_order(dataset, _made_for("cifar100"), "cifar100")
    except UserError:
        return None
    class_id = dict(zip(cifar100_names(), ids, strict=True))
    superclasses = _table("cifar100")["superclasses"]
    edges = [("CIFAR-100", name) for name in superclasses]
    edges += [(name, class_id[fine]) for name, members in superclasses.items() for fine in members]
    return Taxonomy.from_edges(edges)


def _made_for(key: str) -> dict[str, Any]:
    facts = {k: v for k, v in _table("atg")["datasets"][key].items() if k != "partitions"}
    return {**facts, "names": cifar100_names()} if key == "cifar100" else facts


def _find_order(dataset: Dataset, made_for: dict[str, Any], split: str) -> list[str]:
    """Class ids of the dataset in the order of the table's numbers."""
    size = int(made_for["classes"])
    if "names" in made_for:
        by_name = _unique(dataset, made_for["names"])
        if all(_plain(name, made_for["names"]) in by_name for name in made_for["names"]):
            return [by_name[_plain(name, made_for["names"])] for name in made_for["names"]]
    if len(dataset.class_ids) == size and all(name.isdecimal() for name in dataset.class_names):
        numbered = {int(name): c for name, c in zip(dataset.class_names, dataset.class_ids, strict=True)}
        if set(numbered) == set(range(size)):
            return [numbered[i] for i in range(size)]
    if "least_images" in made_for:
        enough = dataset.sizes >= made_for["least_images"]
        people = [c for c, able in zip(dataset.class_ids, enough, strict=True) if able]
        if len(people) == size:
            return sorted(people, key=lambda c: c.rsplit("/", 1)[-1].replace("_", " "))
    classes = count(len(dataset.class_ids), "class", "classes")
    remedy = f"open {made_for['title']} itself"
    if len(dataset.class_ids) == size:
        classes += f" with other names ({first(dataset.class_names)})"
        rename = f"name them {first(made_for['names'], 2)} or " if "names" in made_for else ""
        remedy = f"{rename}give their order with {{order:FILE}} (one class id a line)"
    raise UserError(
        f"The split '{split}' was made for {made_for['title']} with {size} classes ({made_for['order']}), but "
        f"'{dataset.name}' has {classes}",
        remedy,
    )


def _read_order(path: Path, dataset: Dataset, made_for: dict[str, Any], split: str) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The class order {path} cannot be read ({error})", "give a text file") from error
    if len(lines) != made_for["classes"] or len(set(lines)) != len(lines):
        raise UserError(
            f"The class order {path} has {len(set(lines)):,} different lines, but '{split}' was made for "
            f"{made_for['title']} with {made_for['classes']} classes",
            "give one class id a line",
        )
    return [dataset.class_ids[dataset.class_index(line)] for line in lines]


def _plain(name: str, published: Sequence[str]) -> str:
    """A name without the spellings that differ between copies; capitals count where they tell classes apart."""
    name = name.replace(" ", "_").replace("-", "_")
    return name if len({other.lower() for other in published}) < len(published) else name.lower()


def _unique(dataset: Dataset, published: Sequence[str]) -> dict[str, str]:
    """{plain class name: class id}; a name that two classes have tells nothing and is left out."""
    plain = [_plain(name, published) for name in dataset.class_names]
    times = Counter(plain)
    return {
        name: class_id for name, class_id in zip(plain, dataset.class_ids, strict=True) if times[name] == 1
    }
