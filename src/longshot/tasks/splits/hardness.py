"""How hard a split is for few-shot learning: how alike its test classes are, and what its train classes cost them.

Two numbers, measured apart by the proxy of ``proxy.py``:

class similarity   the *frozen* accuracy on tasks of the test classes, which no train class has touched;
transfer loss      accuracy after learning from as many *other* train classes minus accuracy after learning from these,
                   for the same tasks. Other train classes are drawn from all classes that are not in the task.

So a random split loses nothing on average: the loss is what a split costs beyond the choice of its test classes.
What it is harder than random by, in *learnt* accuracy, is the loss plus what its test classes are harder by whatever
one learns from. Any split can be held against random and semantic splits of the same classes, and published ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from longshot.base import Floats, Ints, UserError, count, note, progress
from longshot.data import Dataset, with_taxonomy
from longshot.models import Features
from longshot.statistics import Interval, mean_interval
from longshot.tasks.splits.build import seen_through
from longshot.tasks.splits.proxy import Proxy, Unmeasurable
from longshot.tasks.splits.published_splits import (
    open_split,
    published_split,
    published_split_names,
    random_split,
    semantic_split,
    superclass_taxonomy,
)
from longshot.tasks.splits.split import RATIOS, Split

SEEDS = 12  # of supports and of other train classes, for one split
FOLDS = 4  # groups of test classes, each with other train classes of its own, per seed
DRAWS = 20  # random or semantic splits that stand for their kind
KINDS = ("random", "semantic")


@dataclass(frozen=True)
class Hardness:
    """Accuracies as shares, each with its 95 % interval over seeds, or over splits where there are several."""

    frozen: Interval  # accuracy on the test classes: class similarity
    learnt: Interval  # after the discriminants of the train classes
    transfer_loss: Interval  # learnt on other classes − learnt on these
    way: int
    shot: int
    splits: int = 1

    @classmethod
    def over(cls, values: Floats, proxy: Proxy, splits: int = 1) -> Hardness:
        """Return the hardness over values [n, 3] of ``seed_hardness``, one row per seed or split."""
        frozen, learnt, loss = (mean_interval(column) for column in values.T)
        return cls(frozen, learnt, loss, proxy.way, proxy.shot, splits)

    @property
    def other(self) -> float:
        """Return the mean accuracy after learning from other train classes."""
        return self.learnt.mean + self.transfer_loss.mean

    def record(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "frozen_accuracy": self.frozen.as_dict(),
            "learnt_accuracy": self.learnt.as_dict(),
            "other_accuracy": self.other,
            "transfer_loss": self.transfer_loss.as_dict(),
            "way": self.way,
            "shot": self.shot,
            "splits": self.splits,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Hardness:
        """Read back what ``record`` made, as split.json holds it."""
        return cls(
            Interval(**record["frozen_accuracy"]),
            Interval(**record["learnt_accuracy"]),
            Interval(**record["transfer_loss"]),
            *(record[name] for name in ("way", "shot", "splits")),
        )


def measure_hardness(
    proxy: Proxy, draws: Sequence[Mapping[str, Ints]], name: str = "", seeds: Sequence[int] = range(SEEDS)
) -> Hardness:
    """Measure one split by several seeds, or several splits of one kind by one seed each; Unmeasurable if too small.

    Parameters
    ----------
    proxy : Proxy
        The features that it is seen through.
    draws : sequence of mappings
        Of each split: train and test → positions of their classes. Intervals are over seeds for one split, over splits
        for several.
    name : str
        What the split is called, for errors.
    seeds : sequence of int
        Draws of supports and of other train classes, for one split.
    """
    values = []
    for number, parts in enumerate(draws):
        check_measurable(proxy, parts, name)
        learnt = proxy.learn(parts["train"])
        own_seeds = seeds if len(draws) == 1 else [number]
        values += [seed_hardness(proxy, parts, seed, learnt) for seed in own_seeds]
    return Hardness.over(np.array(values), proxy, len(draws))


def seed_hardness(proxy: Proxy, parts: Mapping[str, Ints], seed: int, learnt: Floats) -> Floats:
    """Return frozen accuracy, learnt accuracy and transfer loss by one seed, [3]; ``learnt`` is the learnt map."""
    test = proxy.tested(parts["test"], seed)
    frozen, accuracy = proxy.accuracy(test, seed), proxy.accuracy(test, seed, learnt)
    return np.array([frozen, accuracy, _transfer_loss(proxy, parts["train"], test, seed, learnt)])


def _transfer_loss(proxy: Proxy, train: Ints, test: Ints, seed: int, learnt: Floats) -> float:
    """Average over groups of test classes, as small as a task allows: more classes are then other ones.

    The group's own classes are never learnt from. Both maps solve the same tasks with the same supports.
    """
    rng = proxy.stream("others", seed)
    train_size = int(np.isin(train, proxy.looked_at).sum())
    groups = np.array_split(rng.permutation(test), max(1, len(test) // proxy.way))[:FOLDS]
    losses = []
    for group in groups:
        allowed = proxy.looked_at[~np.isin(proxy.looked_at, group)]
        other = proxy.learn(rng.choice(allowed, train_size, replace=False))
        losses.append(proxy.accuracy(group, seed, other) - proxy.accuracy(group, seed, learnt))
    return float(np.mean(losses))


def check_measurable(proxy: Proxy, parts: Mapping[str, Ints], name: str = "") -> None:
    """Raise Unmeasurable unless there are tasks of the test classes and something to learn from."""
    test, train = (int(np.isin(parts[part], proxy.looked_at).sum()) for part in ("test", "train"))
    called = f"Split '{name}'" if name else "The split"
    if test < proxy.way:
        raise Unmeasurable(
            f"{called} has {count(test, 'test class', 'test classes')}, and a task has {proxy.way}",
            "lower {way} or give the test part more classes",
        )
    if train < 2:
        raise Unmeasurable(f"{called} has {count(train, 'train class', 'train classes')}; 2 are needed.")


# ---- beside other splits of the same classes --------------------------------------------------------


def draw_splits(kind: str, dataset: Dataset, ratios: Sequence[float] = RATIOS) -> list[Split]:
    """Draw the first DRAWS random or semantic splits of a dataset.

    CIFAR-100 whose folders do not spell out its super-classes is divided by the published ones.
    """
    if kind == "random":
        return [random_split(dataset, ratios, seed) for seed in range(DRAWS)]
    if dataset.taxonomy is None:
        dataset = with_taxonomy(dataset, superclass_taxonomy(dataset))
    return [semantic_split(dataset, ratios, seed) for seed in range(DRAWS)]


def reference_splits(
    dataset: Dataset, ratios: Sequence[float] = RATIOS, order: str | Path | None = None
) -> dict[str, list[Split]]:
    """Return name → splits of every reference that fits the dataset: ``random × 20``, ``semantic × 20``, published.

    Parameters
    ----------
    dataset : Dataset
        Whose classes are divided.
    ratios : sequence of 3 floats
        Of the random and semantic splits.
    order : path, optional
        For published splits whose class names are not known: one class id a line, in the order of their numbers.

    Returns
    -------
    dict of lists of Split
        Without those that do not fit: semantic splits where there are no super-classes, lists for other datasets.
    """
    references: dict[str, list[Split]] = {}
    for kind in KINDS:
        try:
            references[f"{kind} × {DRAWS}"] = draw_splits(kind, dataset, ratios)
        except UserError:  # no taxonomy, or too few super-classes
            continue
    for name in published_split_names():
        try:
            references[name] = [published_split(name, dataset, order)]
        except UserError:  # made for another dataset
            continue
    return references


def open_reference(
    spec: Split | str | Path,
    dataset: Dataset,
    ratios: Sequence[float] = RATIOS,
    order: str | Path | None = None,
) -> list[Split]:
    """Open the splits that ``spec`` stands for: DRAWS of them for a bare ``random`` or ``semantic``, else one."""
    if spec in KINDS:
        return draw_splits(str(spec), dataset, ratios)
    return [open_split(spec, dataset, order=order)]


def measure_references(
    proxy: Proxy, references: Mapping[str, Sequence[Split]], dataset: Dataset
) -> dict[str, Hardness]:
    """Measure every reference whose parts are large enough for tasks: name → hardness."""
    measured = {}
    with progress("references", total=len(references), unit="splits") as bar:
        for name, splits in references.items():
            try:
                measured[name] = measure_hardness(proxy, [split.positions(dataset) for split in splits], name)
            except Unmeasurable:  # said once, of the split that is looked at: it has the same sizes
                continue
            bar.advance()
    return measured


def with_hardness(
    splits: Sequence[Split],
    dataset: Dataset,
    features: Features,
    way: int,
    shot: int,
    ratios: Sequence[float] = RATIOS,
    order: str | Path | None = None,
) -> list[Split]:
    """Add ``made["hardness"]`` and, on the same scale, ``made["references"]``; note where parts are too small."""
    try:
        proxy = Proxy(features, way, shot)
        hardness = [
            split.made.get("hardness")
            or measure_hardness(proxy, [split.positions(dataset)], split.name).record()
            for split in splits
        ]
    except Unmeasurable as error:
        note(f"how hard the split is was not measured: {error}")
        return list(splits)
    references = measure_references(proxy, reference_splits(dataset, ratios, order), dataset)
    records = [{"split": name, **reference.record()} for name, reference in references.items()]
    return [
        dataclasses.replace(
            split, made={**split.made, **seen_through(features), "hardness": record, "references": records}
        )
        for split, record in zip(splits, hardness, strict=True)
    ]
