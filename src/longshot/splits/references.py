"""What any split can be held against: random and semantic splits of the same classes, published ones that fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from longshot.core.arrays import Ints
from longshot.core.errors import UserError
from longshot.core.progress import progress
from longshot.core.wording import note
from longshot.datasets.dataset import Dataset
from longshot.datasets.hierarchy import with_taxonomy
from longshot.features.features import Features
from longshot.splits import published
from longshot.splits.assign import RATIOS
from longshot.splits.build import seen_through
from longshot.splits.hardness import Hardness, measure_draws, measure_hardness
from longshot.splits.opening import open_split
from longshot.splits.proxy import Proxy, Unmeasurable
from longshot.splits.simple import random_split, semantic_split
from longshot.splits.split import Split

DRAWS = 20  # random or semantic splits that stand for their kind
KINDS = ("random", "semantic")


def draw_splits(kind: str, dataset: Dataset, ratios: Sequence[float] = RATIOS) -> list[Split]:
    """The first DRAWS random or semantic splits of a dataset.

    CIFAR-100 whose folders do not spell out its super-classes is divided by the published ones.
    """
    if kind == "random":
        return [random_split(dataset, ratios, seed) for seed in range(DRAWS)]
    if dataset.taxonomy is None:
        dataset = with_taxonomy(dataset, published.superclass_taxonomy(dataset))
    return [semantic_split(dataset, ratios, seed) for seed in range(DRAWS)]


def reference_splits(
    dataset: Dataset, ratios: Sequence[float] = RATIOS, order: str | Path | None = None
) -> dict[str, list[Split]]:
    """Name → splits of every reference that fits the dataset: ``random × 20``, ``semantic × 20``, published ones.

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
    for name in published.names():
        try:
            references[name] = [published.published_split(name, dataset, order)]
        except UserError:  # made for another dataset
            continue
    return references


def open_reference(
    spec: Split | str | Path,
    dataset: Dataset,
    ratios: Sequence[float] = RATIOS,
    order: str | Path | None = None,
) -> list[Split]:
    """The splits that ``spec`` stands for: DRAWS of them for a bare ``random`` or ``semantic``, else one."""
    if spec in KINDS:
        return draw_splits(str(spec), dataset, ratios)
    return [open_split(spec, dataset, order=order)]


def hardness_of(proxy: Proxy, draws: Sequence[Mapping[str, Ints]], name: str = "") -> Hardness:
    """Over seeds for the parts of one split, over splits for those of several; Unmeasurable where too small."""
    return measure_hardness(proxy, draws[0], name) if len(draws) == 1 else measure_draws(proxy, draws, name)


def measure_references(
    proxy: Proxy, references: Mapping[str, Sequence[Split]], dataset: Dataset
) -> dict[str, Hardness]:
    """Name → hardness of every reference whose parts are large enough for tasks."""
    measured = {}
    with progress("references", total=len(references), unit="splits") as bar:
        for name, splits in references.items():
            try:
                measured[name] = hardness_of(proxy, [split.positions(dataset) for split in splits], name)
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
    """The splits with ``made["hardness"]`` and, on the same scale, ``made["references"]``; a note where too small."""
    try:
        proxy = Proxy(features, way, shot)
        hardness = [
            split.made.get("hardness")
            or measure_hardness(proxy, split.positions(dataset), split.name).record()
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
