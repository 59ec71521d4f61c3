"""Splits that need no features: published class lists by name, at random, by whole super-classes; any split opened.

The published ones are the paper's 20 ATG partitions, CIFAR-FS and FC100, as data in ``published/``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from longshot.base import Ints, UserError, call_defaults, check_settings, count, first, parse_call
from longshot.data import (
    SPLITS,
    Dataset,
    Taxonomy,
    as_dataset,
    no_taxonomy,
    taxonomy_facts,
    with_reduction,
)
from longshot.tasks.splits.split import RATIOS, Split, assign, from_labels, no_split_file, part_sizes

_CIFAR = ("cifar-fs", "fc100")


@cache
def _table(name: str) -> dict[str, Any]:
    text = files(__package__).joinpath("published", f"{name}.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def published_split_names() -> list[str]:
    """Return the name of every published split: ``atg:DATASET@R``, ``cifar-fs``, ``fc100``."""
    atg = [
        f"atg:{name}@{r}" for name, facts in _table("atg")["datasets"].items() for r in facts["partitions"]
    ]
    return [*atg, *_CIFAR]


def list_published() -> list[dict[str, str]]:
    """List every published split, the dataset it was made for, and how many classes its parts have."""
    return [
        {
            "split": name,
            "made for": "cifar100" if name in _CIFAR else name.removeprefix("atg:").partition("@")[0],
            "train/validation/test": "/".join(str(len(members)) for members in partition(name).values()),
        }
        for name in published_split_names()
    ]


def partition(name: str) -> dict[str, list[int]]:
    """Return part → class numbers of a published split, in the order it was printed in."""
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
    """Return a published split in the class ids of a dataset.

    The tables give class numbers. They are matched by class name where the names are known (CIFAR-100, EMNIST,
    mini-ImageNet, whatever the folder a class lies in), by number where the classes of the dataset are called 0, 1, 2
    …, by alphabet for LFW, and otherwise through ``order``.

    Parameters
    ----------
    name : str
        One of :func:`published_split_names`.
    dataset : Dataset
        The dataset that the split was made for.
    order : path, optional
        A text file with one class id a line, in the order of the numbers.
    """
    if name not in _CIFAR and not name.startswith("atg:"):
        raise UserError(
            f"There is no published split '{name}'; there are {', '.join(published_split_names())}."
        )
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
    """Return CIFAR-100's fine classes in the order of their labels, which is the alphabet."""
    return sorted(fine for members in _table("cifar100")["superclasses"].values() for fine in members)


def superclass_taxonomy(dataset: Dataset) -> Taxonomy | None:
    """Return CIFAR-100's 20 super-classes as a taxonomy of a copy whose folders lack them; None for other datasets."""
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
    """Return class ids of the dataset in the order of the table's numbers."""
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
    """Return a name without the spellings that differ between copies; keep capitals where they tell classes apart."""
    name = name.replace(" ", "_").replace("-", "_")
    return name if len({other.lower() for other in published}) < len(published) else name.lower()


def _unique(dataset: Dataset, published: Sequence[str]) -> dict[str, str]:
    """Return plain class name → class id, without names that two classes have."""
    plain = [_plain(name, published) for name in dataset.class_names]
    times = Counter(plain)
    return {
        name: class_id for name, class_id in zip(plain, dataset.class_ids, strict=True) if times[name] == 1
    }


def random_split(dataset: Dataset, ratios: Sequence[float] = RATIOS, seed: int = 0) -> Split:
    """Split the classes at random: what a divergence of 0 means.

    Parameters
    ----------
    dataset : Dataset
        Whose classes are divided.
    ratios : sequence of 3 floats
        Shares of train, validation and test.
    seed : int
        Random seed.
    """
    sizes = part_sizes(len(dataset.class_ids), ratios)
    parts = assign(np.zeros(len(dataset.class_ids)), sizes, seed)
    made = {"mode": "random", "ratios": list(ratios), "seed": seed}
    return from_labels(f"random(seed={seed})", dataset, parts, made)


def semantic_split(
    dataset: Dataset,
    ratios: Sequence[float] = RATIOS,
    seed: int = 0,
    level: int | None = None,
    reduction: str | None = None,
) -> Split:
    """Split by whole super-classes: no class has a sibling in another part, as in FC100 and tieredImageNet.

    Test, and of the remaining ones validation, take the super-classes whose classes sum nearest to the sizes that the
    ratios ask for.

    Parameters
    ----------
    dataset : Dataset
        With a taxonomy.
    ratios : sequence of 3 floats
        Shares of train, validation and test.
    seed : int
        Shuffles the super-classes.
    level : int, optional
        Depth of the super-classes in the taxonomy; the parents of the classes where it is left out. Those that share
        a class count as one.
    reduction : str, optional
        Which paths of the taxonomy count; see ``class_distances``.
    """
    dataset = with_reduction(dataset, reduction)
    if dataset.taxonomy is None:
        raise no_taxonomy(dataset, " to take super-classes from")
    sizes = part_sizes(len(dataset.class_ids), ratios)
    families = super_classes(dataset.taxonomy, dataset.class_ids, level)
    needed = 3 if sizes[1] else 2
    if len(families) < needed:
        at = "the parents of its classes" if level is None else f"level {level} of its taxonomy"
        raise UserError(
            f"Dataset '{dataset.name}' has {count(len(families), 'super-class', 'super-classes')} at {at}; a semantic "
            f"split needs {needed}",
            "give another {level} (see {open_taxonomy(DATASET)})",
        )
    order = np.random.default_rng(seed).permutation(len(families)).tolist()
    remaining = [families[i] for i in order]
    chosen: list[list[tuple[str, tuple[str, ...]]]] = []
    # each leaves enough for the parts after it
    for size, parts_after in ((sizes[2], needed - 1), (sizes[1], 1)):
        counts = [len(members) for _, members in remaining]
        taken = set(_nearest(counts, size, len(remaining) - parts_after) if size else ())
        chosen.append([family for i, family in enumerate(remaining) if i in taken])
        remaining = [family for i, family in enumerate(remaining) if i not in taken]
    groups = dict(zip(SPLITS, (remaining, *reversed(chosen)), strict=True))
    parts = [_positions(dataset, group) for group in groups.values()]
    made = {
        "mode": "semantic",
        "level": level,
        **taxonomy_facts(dataset, reduction),
        "ratios": list(ratios),
        "seed": seed,
        "super_classes": {part: sorted(name for name, _ in group) for part, group in groups.items()},
    }
    return from_labels(f"semantic(seed={seed})", dataset, parts, made)


def super_classes(
    taxonomy: Taxonomy, class_ids: Sequence[str], level: int | None = None
) -> list[tuple[str, tuple[str, ...]]]:
    """Return disjoint (name, classes), sorted by name: groups that share a class are joined, ``a + b`` by name."""
    groups = taxonomy.groups(class_ids) if level is None else taxonomy.groups_at(class_ids, level)
    from scipy.cluster.hierarchy import DisjointSet

    joined = DisjointSet(groups)
    home: dict[str, str] = {}
    for group, members in groups.items():
        for member in members:
            joined.merge(group, home.setdefault(member, group))
    families = []
    for names in map(sorted, joined.subsets()):
        everyone = sorted({member for group in names for member in groups[group]})
        families.append((" + ".join(name or taxonomy.label(name) for name in names), tuple(everyone)))
    return sorted(families)


def _nearest(sizes: Sequence[int], target: int, most: int) -> list[int]:
    """Choose at most ``most`` sizes whose sum is nearest to ``target``, at least one; fewer and earlier first.

    Subset sums: ``fewest[s]`` is the smallest number of the sizes seen so far that sum to s.
    """
    limit = max(2 * target, min(sizes))
    unreached = len(sizes) + 1
    fewest = np.full(limit + 1, unreached)
    fewest[0] = 0
    history: list[Ints] = []
    for size in sizes:
        history.append(fewest.copy())
        if size <= limit:
            fewest[size:] = np.minimum(fewest[size:], history[-1][: limit + 1 - size] + 1)
    sums = np.flatnonzero((fewest <= most) & (np.arange(limit + 1) > 0))
    total = int(sums[np.argmin(np.abs(sums - target))])
    taken = []
    for i in range(len(sizes) - 1, -1, -1):
        if history[i][total] > fewest[total]:  # without size i this sum takes more, so it is in
            taken.append(i)
            total -= sizes[i]
        fewest = history[i]
    return sorted(taken)


def _positions(dataset: Dataset, families: Sequence[tuple[str, tuple[str, ...]]]) -> Ints:
    return np.array([dataset.class_index(c) for _, members in families for c in members], dtype=np.int64)


_MADE = {"random": random_split, "semantic": semantic_split}


def open_split(
    spec: Split | str | Path, dataset: Dataset | str | Path, *, order: str | Path | None = None
) -> Split:
    """Open the split that ``spec`` names, check it against ``dataset`` and return it in its class ids.

    Parameters
    ----------
    spec : Split, str or path
        A path of a split.json; ``random`` or ``random(seed=3, ratios=(0.5, 0.2, 0.3))``; ``semantic`` or
        ``semantic(level=1, seed=3)``; ``atg:cifar100@0.96``, ``cifar-fs``, ``fc100``.
    dataset : Dataset, str or path
        Whose classes the split divides.
    order : path, optional
        For published lists whose class names are not known: one class id a line, in the order of their numbers.

    Examples
    --------
    >>> open_split("random(seed=1)", "toybox").name
    'random(seed=1)'
    """
    dataset = as_dataset(dataset)
    text = str(spec)
    if isinstance(spec, Split) or Path(text).is_file():
        split = spec if isinstance(spec, Split) else Split.load(text)
        parts = split.resolve(dataset)
        # checked once; from here on it is a split of this dataset
        members = {part: parts.get(part, ()) for part in SPLITS}
        return Split(split.name, dataset.fingerprint, split.story, **members)
    if text in published_split_names() or text.startswith("atg:"):
        return published_split(text, dataset, order)
    name, settings = parse_call(text)
    if name in _MADE:
        defaults = {k: v for k, v in call_defaults(_MADE[name]).items() if k != "dataset"}
        check_settings(f"The split '{name}'", settings, defaults)
        try:
            return _MADE[name](dataset, **settings)
        except (TypeError, ValueError) as error:
            raise UserError(f"The settings of the split '{text}' do not fit ({error}).") from error
    if text.endswith(".json") or "/" in text:
        raise no_split_file(text)
    raise UserError(
        f"There is no split '{text}': give the path of a split.json, random, semantic, or a published one "
        f"({', '.join(name for name in published_split_names() if '@' not in name)}, atg:cifar100@0.96 …)."
    )


def with_split(
    dataset: Dataset, spec: Split | str | Path | None, *, order: str | Path | None = None
) -> Dataset:
    """Return ``dataset`` with the split that ``spec`` names in place of its own; unchanged when ``spec`` is None."""
    return dataset if spec is None else open_split(spec, dataset, order=order).apply(dataset)
