"""How classes lie to each other: hierarchies, distances in them, and splits drawn in the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from longshot.base import Floats, Ints, UserError, count

if TYPE_CHECKING:
    from longshot.data import Dataset, DatasetLike, Taxonomy
    from longshot.models import BackboneLike


class ClassHierarchy(NamedTuple):
    """A taxonomy with the classes that it is looked at for."""

    name: str
    taxonomy: Taxonomy
    class_ids: tuple[str, ...]
    images: Ints | None  # per class; None where only the taxonomy is known


class ClassPair(NamedTuple):
    """Two classes, how far they are apart, and the lowest node above both."""

    which: str  # "nearest" or "farthest"
    distance: float
    first: str
    second: str
    below: str


class ClassDistances(NamedTuple):
    """Distances between the classes of a hierarchy."""

    name: str
    class_ids: tuple[str, ...]
    labels: Mapping[str, str]  # of nodes and classes that have one
    matrix: Floats  # [C, C]
    pairs: list[ClassPair]
    mean_square: float  # over all pairs of different classes
    assumed: bool  # no images were known, so that every class counted as one


def open_taxonomy(source: str | Path | Dataset, *, taxonomy: str | Path | Taxonomy | None = None) -> Taxonomy:
    """The hierarchy of a dataset's classes, or of a taxonomy file.

    Parameters
    ----------
    source : str, Path or Dataset
        A dataset, or a taxonomy file: a CSV with the columns parent, child and perhaps label, a JSON list of
        [parent, child] pairs, nested JSON, or WordNet's ``data.noun``.
    taxonomy : str, Path or Taxonomy, optional
        Use this hierarchy in place of the dataset's own: a file, or ``"wordnet"`` for classes that are called by
        WordNet ids.

    Returns
    -------
    Taxonomy
        For a dataset without nested folders or a taxonomy: its classes below one root.

    Examples
    --------
    >>> file = Path("animals.csv")
    >>> _ = file.write_text("parent,child\\nanimal,bird\\nanimal,fish\\nbird,wren\\n")
    >>> open_taxonomy(file).leaves
    ('fish', 'wren')
    """
    return class_hierarchy(source, taxonomy).taxonomy


def measure_distances(
    source: str | Path | Dataset,
    *,
    kind: str = "jiang-conrath",
    reduction: str | None = None,
    pairs: int = 5,
    taxonomy: str | Path | Taxonomy | None = None,
    counts: str | Path | Mapping[str, int] | None = None,
    out: str | Path | None = None,
    force: bool = False,
) -> ClassDistances:
    """Distances between all classes of a dataset or a taxonomy file, and which are the nearest and the farthest.

    Parameters
    ----------
    source : str, Path or Dataset
        What ``open_taxonomy`` opens.
    kind : {"jiang-conrath", "lin", "wu-palmer", "path"}
        Which distance; the first two look at how many images lie below a node. ``longshot.data.class_distances`` has
        the formulas.
    reduction : {"shortest-paths"}, optional
        Compute on one shortest path per class, as the published tieredImageNet distances do.
    pairs : int
        How many of the nearest and of the farthest pairs to name.
    taxonomy : str, Path or Taxonomy, optional
        Use this hierarchy in place of the dataset's own: a file, or ``"wordnet"`` for classes that are called by
        WordNet ids.
    counts : mapping or path, optional
        Images per class, or a JSON file of them, where the source does not tell.
    out : path, optional
        Also write the matrix as CSV; ``"-"`` is the screen.
    force : bool
        Replace what is there, even if Longshot did not write it.

    Returns
    -------
    ClassDistances
        ``matrix`` [C, C] in the order of ``class_ids``, ``pairs``, ``mean_square``.

    Examples
    --------
    >>> file = Path("animals.csv")
    >>> _ = file.write_text("parent,child\\nanimal,bird\\nanimal,fish\\nbird,wren\\nbird,crow\\n")
    >>> distances = measure_distances(file, kind="path", pairs=1)
    >>> distances.pairs[0]
    ClassPair(which='nearest', distance=2.0, first='crow', second='wren', below='bird')
    """
    import numpy as np

    from longshot.base import claim_output
    from longshot.data import (
        MATRIX,
        by_images,
        class_distances,
        extreme_pairs,
        lowest_common_ancestors,
        read_counts,
        reduce_taxonomy,
        write_matrix,
    )

    if out is not None:
        claim_output(out, MATRIX, force=force)
    name, tree, class_ids, images = class_hierarchy(source, taxonomy)
    if len(class_ids) < 2:
        raise UserError(f"{name} has {count(class_ids, 'class', 'classes')}; distances need at least 2.")
    if counts is not None:
        images = read_counts(counts, class_ids)
    weights = np.ones(len(class_ids)) if images is None else images
    matrix = class_distances(tree, class_ids, weights, kind, reduction)
    if out is not None:
        write_matrix(out, class_ids, matrix)
    part = reduce_taxonomy(tree, class_ids, reduction)
    lowest = lowest_common_ancestors(part, class_ids, weights)
    chosen = [
        ClassPair(
            which, float(matrix[i, j]), class_ids[i], class_ids[j], part.label(part.nodes[lowest[i, j]])
        )
        for which, sign in (("nearest", 1), ("farthest", -1))
        for i, j in extreme_pairs(sign * matrix, pairs)
    ]
    mean = float(np.square(matrix).sum() / (len(matrix) * (len(matrix) - 1)))
    return ClassDistances(
        name, class_ids, tree.labels, matrix, chosen, mean, images is None and by_images(kind)
    )


def class_hierarchy(
    source: str | Path | Dataset, taxonomy: str | Path | Taxonomy | None = None
) -> ClassHierarchy:
    """As :func:`open_taxonomy`, with the classes: a file's leaves, or a dataset's classes with their images."""
    from longshot.data import Taxonomy, is_taxonomy_file, open_dataset, read_taxonomy, with_taxonomy

    if isinstance(source, str | Path):
        if is_taxonomy_file(source):
            from_file = read_taxonomy(source)
            return ClassHierarchy(Path(source).stem, from_file, from_file.leaves, None)
        source = open_dataset(source)
    chosen = with_taxonomy(source, taxonomy).taxonomy or Taxonomy.from_class_ids(source.class_ids)
    return ClassHierarchy(source.name, chosen, source.class_ids, source.sizes)


def plot_splits(
    splits: Sequence[str],
    dataset: DatasetLike,
    *,
    backbone: BackboneLike,
    out: str | Path,
    force: bool = False,
    of: str = "classes",
    order: str | Path | None = None,
    references: bool = True,
    way: int = 5,
    shot: int = 5,
    device: str = "auto",
    engine: str | None = None,
) -> None:
    """Draw the classes in the plane of their first two principal components, or how hard the splits are.

    Parameters
    ----------
    splits : sequence of str
        Files, published splits, "random" or "semantic", as ``compare_splits`` takes them.
    dataset : Dataset, str or Path
        Whose classes the splits name.
    backbone : str or object
        Whose features give the class embeddings; anything that ``embed`` takes.
    out : path
        The picture: ``.png``, ``.svg`` or ``.pdf``.
    force : bool
        Replace what is there, even if it is no picture that Longshot drew.
    of : {"classes", "hardness"}
        A panel of classes for each split, or all splits by class similarity and transfer loss.
    order : path, optional
        For published splits: a text file with one class id a line, in the order of their numbers.
    references : bool
        Of hardness: whether to add random, semantic and published splits.
    way, shot : int
        Of hardness: classes of the tasks, and support images of each.
    device : str
        auto, cpu, cuda or mps.
    engine : str, optional
        What computes the backbone, as in ``embed``.
    """
    from longshot.base import PICTURE, claim_output
    from longshot.data import as_dataset

    claim_output(out, PICTURE, force=force)
    opened = as_dataset(dataset)
    seen = {"device": device, "engine": engine}
    if of == "hardness":
        shape = {"way": way, "shot": shot}
        _plot_hardness(
            splits, opened, Path(out), backbones=backbone, order=order, references=references, **shape, **seen
        )
    elif of == "classes":
        _plot_classes(splits, opened, backbone, Path(out), order, seen)
    else:
        raise UserError(f"There is no picture of '{of}'; there are classes and hardness.")


def _plot_classes(
    splits: Sequence[str],
    dataset: Dataset,
    backbone: BackboneLike,
    out: Path,
    order: str | Path | None,
    seen: dict[str, Any],
) -> None:
    """One panel per split."""
    from longshot.models import embed
    from longshot.reports import SplitPanel, class_map
    from longshot.tasks import class_embeddings, open_splits

    named = open_splits(splits, dataset, order=order)
    panels = [SplitPanel(name, split.positions(dataset)) for name, split in named.items()]
    features = embed(dataset, backbone, **seen)
    title = f"{dataset.name}, {len(dataset.class_ids):,} classes, {features.backbone}"
    class_map(class_embeddings(features), panels, out, title)


def _plot_hardness(splits: Sequence[str], dataset: Dataset, out: Path, **settings: Any) -> None:
    """One point per split."""
    from longshot.reports import HardnessPoint, hardness_map
    from longshot.tasks import compare_splits

    compared = compare_splits(splits, dataset, **settings)
    points = [
        HardnessPoint(
            comparison.split,
            hardness.frozen.mean,
            hardness.frozen.half or 0.0,
            hardness.transfer_loss.mean,
            hardness.transfer_loss.half or 0.0,
            comparison.reference,
        )
        for comparison in compared
        if (hardness := comparison.hardness) is not None
    ]
    shape = f"{settings['way']}-way {settings['shot']}-shot"
    if not points:
        raise UserError(f"None of the splits can be measured by {shape} tasks", "lower {way} or {shot}")
    hardness_map(points, out, f"{dataset.name}, {compared[0].backbone}, {shape}")
