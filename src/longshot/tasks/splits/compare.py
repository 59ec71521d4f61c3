"""Compare splits of the same classes (hardness, divergences, gap, nearest classes), and class trees with a taxonomy.

A divergence here is that of the class distributions of two centroids, the mean embedding of the train classes and that
of the test classes, so any split has one, however it was made. ATG's own centroids lie further out than the means of
the classes they end up with, so a split made for R = 0.96 has a smaller number here; numbers of this table compare with
each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import Floats, Ints, UserError, count, first, note, progress, with_engine
from longshot.data import (
    SPLITS,
    Dataset,
    TaxonomyLike,
    as_dataset,
    no_taxonomy,
    with_reduction,
    with_taxonomy,
)
from longshot.models import Features, embed
from longshot.tasks.splits.embeddings import (
    MEASURES,
    TreeGap,
    between,
    class_embeddings,
    far_pairs,
    flatten,
    gap,
    linkage_hops,
    nearest_of,
    taxonomy_hops,
    tree_gap,
    ward,
)
from longshot.tasks.splits.hardness import Hardness, measure_hardness, reference_splits
from longshot.tasks.splits.proxy import Proxy, Unmeasurable
from longshot.tasks.splits.published_splits import open_split
from longshot.tasks.splits.split import SHOT, WAY, Split, SplitLike

if TYPE_CHECKING:
    from longshot.models import BackboneLike


@dataclass(frozen=True)
class Nearest:
    """A test class and the train class with the nearest embedding; ``distance`` is Euclidean, 0 … 2."""

    test: str
    train: str
    distance: float


@dataclass(frozen=True)
class SplitComparison:
    """One split under one set of class embeddings."""

    split: str
    backbone: str
    sizes: Mapping[str, int]  # classes per part
    divergences: Mapping[str, float]  # by name, as in ``divergences.MEASURES``
    gap: float  # ‖mean of the train classes − mean of the test classes‖
    validation_gap: float | None  # the same for the validation classes; None without any
    nearest: tuple[Nearest, ...]  # one per test class, in the order of the classes
    spacing: float  # mean distance of a train class from the nearest other train class; NaN for one class
    shared_test: float = 1.0  # share of the test classes that the first of several splits tests, too
    hardness: Hardness | None = None  # None where it was not measured, or parts are too small
    reference: bool = False  # not asked for: random, semantic or published, to hold the others against

    @property
    def distances(self) -> Floats:
        """Return the distance of every test class from its nearest train class."""
        return np.array([pair.distance for pair in self.nearest])

    def record(self) -> dict[str, Any]:
        """Return one row of the table across splits, in full precision."""
        distances = self.distances
        return {
            "split": self.split,
            "backbone": self.backbone,
            **self.sizes,
            **self.divergences,
            "gap": self.gap,
            "validation_gap": self.validation_gap,
            "nearest_mean": float(distances.mean()),
            "nearest_min": float(distances.min()),
            "nearest_max": float(distances.max()),
            "train_spacing": None if np.isnan(self.spacing) else self.spacing,
            "hardness": None if self.hardness is None else self.hardness.record(),
            "reference": self.reference,
        }


def compare_split(
    name: str, parts: Mapping[str, Ints], embeddings: Floats, class_ids: Sequence[str], backbone: str = ""
) -> SplitComparison:
    """Measure one split under one set of class embeddings.

    Parameters
    ----------
    name : str
        What the split is called.
    parts : mapping
        train, validation and test → positions of their classes. Classes that are in no part count among the C over
        which the class distributions are taken.
    embeddings : array [C, d]
        As of ``class_embeddings``.
    class_ids : sequence [C]
        What the classes are called.
    backbone : str
        What they are seen through.

    Returns
    -------
    SplitComparison
        Divergences, gap, and the nearest train class of every test class.
    """
    train, test = parts["train"], parts["test"]
    for part in ("train", "test"):
        if not len(parts[part]):
            raise UserError(
                f"Split '{name}' has 0 {part} classes and at least 1 is needed to compare train and test",
                "add some",
            )
    flat = flatten(embeddings)
    centres = flat[train].mean(0), flat[test].mean(0)
    distances, neighbours = nearest_of(flat[test], flat[train])
    pairs = zip(test.tolist(), train[neighbours].tolist(), distances.tolist(), strict=True)
    apart, _ = nearest_of(flat[train], flat[train], itself=False)
    validation = parts.get("validation", np.empty(0, np.int64))
    return SplitComparison(
        split=name,
        backbone=backbone,
        sizes={part: len(parts.get(part, ())) for part in SPLITS},
        divergences={measure: between(measure, flat, *centres) for measure in MEASURES},
        gap=gap(flat, train, test),
        validation_gap=gap(flat, train, validation) if len(validation) else None,
        nearest=tuple(Nearest(class_ids[i], class_ids[j], distance) for i, j, distance in pairs),
        spacing=float(apart.mean()) if len(train) > 1 else float("nan"),
    )


def pooled(name: str, comparisons: Sequence[SplitComparison]) -> SplitComparison:
    """Pool splits of one kind, such as random ones: numbers are means, nearest classes those of all of them."""
    gaps = [comparison.validation_gap for comparison in comparisons if comparison.validation_gap is not None]
    return replace(
        comparisons[0],
        split=name,
        divergences={
            measure: float(np.mean([comparison.divergences[measure] for comparison in comparisons]))
            for measure in comparisons[0].divergences
        },
        gap=float(np.mean([comparison.gap for comparison in comparisons])),
        validation_gap=float(np.mean(gaps)) if gaps else None,
        nearest=tuple(pair for comparison in comparisons for pair in comparison.nearest),
        spacing=float(np.mean([comparison.spacing for comparison in comparisons])),
        shared_test=float(np.mean([comparison.shared_test for comparison in comparisons])),
    )


def shared_test(parts: Mapping[str, Ints], other: Mapping[str, Ints]) -> float:
    """Return the share of the test classes of ``parts`` that are test classes of ``other`` too."""
    return float(np.isin(parts["test"], other["test"]).mean())


def unassigned(name: str, parts: Mapping[str, Ints], class_ids: Sequence[str]) -> str:
    """Say which classes no part names; empty when there are none."""
    assigned = {int(position) for positions in parts.values() for position in positions}
    free = [class_id for position, class_id in enumerate(class_ids) if position not in assigned]
    if not free:
        return ""
    verb = "is" if len(free) == 1 else "are"
    return f"split '{name}': {count(free, 'class', 'classes')} {verb} in no part ({first(free)})"


NEAR_IN_TREE = "near in the tree, far in the taxonomy"
FAR_IN_TREE = "far in the tree, near in the taxonomy"


@dataclass(frozen=True)
class OddPair:
    """Two classes that a tree and the taxonomy see differently."""

    which: str  # NEAR_IN_TREE or FAR_IN_TREE
    backbone: str
    first: str
    second: str
    tree_hops: int
    taxonomy_hops: int


@dataclass(frozen=True)
class TreeComparison:
    """Trees of classes, one per backbone, and the taxonomy, each against each."""

    gaps: Sequence[tuple[str, str, TreeGap]]  # two names; the taxonomy is called ``taxonomy``
    pairs: Sequence[OddPair]


@with_engine
def compare_splits(
    splits: SplitLike | Sequence[SplitLike] | Mapping[str, SplitLike],
    dataset: Dataset | str | Path,
    *,
    backbones: BackboneLike | Sequence[BackboneLike],
    order: str | Path | None = None,
    hardness: bool = True,
    references: bool = True,
    way: int = WAY,
    shot: int = SHOT,
    device: str = "auto",
    engine: str | None = None,
) -> list[SplitComparison]:
    """Measure splits under one or several backbones: how hard they are, four divergences, gap, nearest train classes.

    Divergences are those of the mean train and the mean test class, so that any split has them and they compare with
    each other; ATG's own centroids lie further out than these means.

    Parameters
    ----------
    splits : Split, str, path, sequence or mapping
        What ``open_split`` takes. A file is called by its name without ending, another split by its own name or
        by what was written; a mapping gives names.
    dataset : Dataset, str or path
        Dataset whose classes the splits name: a name or a path.
    backbones : str, object or list
        Backbone whose features give the class embeddings; repeat for several. Anything that ``embed`` takes.
    order : path, optional
        For published splits: text file with one class id a line, in the order of their numbers.
    hardness : bool
        Measure class similarity and transfer loss.
    references : bool
        Add random, semantic and fitting published splits. Of random and semantic ones, means of 20 are taken.
    way : int, at least 2
        Classes of the tasks by which hardness is measured.
    shot : int, at least 1
        Support images per class in those tasks.
    device, engine : optional
        As in ``embed``.

    Returns
    -------
    list of SplitComparison
        Every split under the first backbone, then under the second …

    Examples
    --------
    >>> compared = compare_splits(["random(seed=1)", "semantic"], "toybox", backbones="pixels", references=False)
    >>> [comparison.split for comparison in compared]
    ['random(seed=1)', 'semantic']
    >>> compared[1].hardness.frozen.mean < compared[0].hardness.frozen.mean
    True
    """
    opened = as_dataset(dataset)
    asked_for = open_splits(splits, opened, order=order)
    named = {name: [split] for name, split in asked_for.items()}
    if references:
        named |= {name: r for name, r in reference_splits(opened, order=order).items() if name not in named}
    parts = {name: [split.positions(opened) for split in listed] for name, listed in named.items()}
    comparisons = []
    for backbone, features in embed_all(opened, backbones, device).items():
        proxy = _proxy(features, way, shot) if hardness else None
        embeddings = class_embeddings(features)
        first_parts = next(iter(parts.values()))[0]
        with progress("compare", total=len(parts), unit="splits") as bar:
            for name, draws in parts.items():
                measured = []
                for positions in draws:
                    comparison = compare_split(name, positions, embeddings, features.class_ids, backbone)
                    measured.append(replace(comparison, shared_test=shared_test(positions, first_parts)))
                comparisons.append(
                    replace(
                        pooled(name, measured),
                        hardness=_hardness(proxy, draws, name, quiet=name not in asked_for),
                        reference=name not in asked_for,
                    )
                )
                bar.advance()
    for name in asked_for:
        if text := unassigned(name, parts[name][0], opened.class_ids):
            note(text)
    return comparisons


def _proxy(features: Features, way: int, shot: int) -> Proxy | None:
    """Return what measures hardness under these features; None, with a note, where classes have too few images."""
    try:
        return Proxy(features, way, shot)
    except Unmeasurable as error:
        note(f"how hard the splits are was not measured: {error}")
        return None


def _hardness(
    proxy: Proxy | None, draws: Sequence[Mapping[str, Ints]], name: str, quiet: bool
) -> Hardness | None:
    """Measure one split or several draws; None where parts are too small, with a note unless ``quiet``."""
    if proxy is None:
        return None
    try:
        return measure_hardness(proxy, draws, name)
    except Unmeasurable as error:
        if not quiet:
            note(f"how hard it is was not measured: {error}")
        return None


@with_engine
def compare_trees(
    dataset: Dataset | str | Path,
    *,
    backbones: BackboneLike | Sequence[BackboneLike],
    taxonomy: TaxonomyLike | None = None,
    reduction: str | None = None,
    pairs: int = 3,
    device: str = "auto",
    engine: str | None = None,
) -> TreeComparison:
    """Compare Ward's clustering of class embeddings with a taxonomy, in hops between classes.

    Parameters
    ----------
    dataset : Dataset, str or path
        Whose classes are clustered.
    backbones : str, object or list
        Backbone whose features give the class embeddings; repeat for several. There is a tree for each; with
        several, they are compared with each other, too.
    taxonomy, reduction : optional
        As in ``measure_distances``.
    pairs : int, at least 0
        Pairs to print that a tree and the taxonomy see most differently. So many per backbone and
        direction.
    device, engine : optional
        As in ``embed``.

    Examples
    --------
    >>> compare_trees("toybox", backbones="pixels").gaps[0][2].hops  # doctest: +SKIP
    """
    opened = as_dataset(dataset)
    class_ids = opened.class_ids
    above = with_reduction(with_taxonomy(opened, taxonomy), reduction).taxonomy
    if above is None:
        raise no_taxonomy(opened, " to compare with")
    hierarchy = taxonomy_hops(above, class_ids)
    trees = {
        backbone: linkage_hops(ward(class_embeddings(features)))
        for backbone, features in embed_all(opened, backbones, device).items()
    }
    gaps = [
        (name, against, tree_gap(hops, other_hops))
        for (name, hops), (against, other_hops) in combinations([*trees.items(), ("taxonomy", hierarchy)], 2)
    ]
    odd = []
    for backbone, tree in trees.items():
        odd += [
            OddPair(NEAR_IN_TREE, backbone, first, second, near, far)
            for first, second, near, far in far_pairs(tree, hierarchy, class_ids, pairs)
        ]
        odd += [
            OddPair(FAR_IN_TREE, backbone, first, second, far, near)
            for first, second, near, far in far_pairs(hierarchy, tree, class_ids, pairs)
        ]
    return TreeComparison(gaps, odd)


def open_splits(
    splits: SplitLike | Sequence[SplitLike] | Mapping[str, SplitLike],
    dataset: Dataset,
    *,
    order: str | Path | None = None,
) -> dict[str, Split]:
    """Open the splits by name, in the class ids of ``dataset``; :func:`compare_splits` says how they are named."""
    if isinstance(splits, Mapping):
        return {name: open_split(split, dataset, order=order) for name, split in splits.items()}
    opened: dict[str, Split] = {}
    for split in [splits] if isinstance(splits, Split | str | Path) else splits:
        written = split.name if isinstance(split, Split) else str(split)
        name = Path(written).stem if Path(written).is_file() else written
        if name in opened:
            raise UserError(f"Two of the splits are called '{name}'", "give each once, or rename a file")
        opened[name] = open_split(split, dataset, order=order)
    return opened


def embed_all(
    dataset: Dataset, backbones: BackboneLike | Sequence[BackboneLike], device: str
) -> dict[str, Features]:
    """Embed the dataset with each backbone; return the features by the name that was given or that they have."""
    listed: Any = backbones if isinstance(backbones, list | tuple) else [backbones]
    embedded: dict[str, Features] = {}
    for backbone in listed:
        if not (isinstance(backbone, str) and backbone in embedded):
            features = embed(dataset, backbone, device=device)
            embedded[backbone if isinstance(backbone, str) else features.backbone] = features
    return embedded
