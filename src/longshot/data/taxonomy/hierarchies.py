"""The hierarchy of a dataset's classes, or of a taxonomy file, and the distances between classes in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from longshot.base import Floats, Ints, UserError, claim_output, count
from longshot.data.dataset import with_taxonomy
from longshot.data.taxonomy import Taxonomy
from longshot.data.taxonomy.distances import (
    by_images,
    class_distances,
    extreme_pairs,
    lowest_common_ancestors,
    reduce_taxonomy,
)
from longshot.data.taxonomy.readers import MATRIX, is_taxonomy_file, read_counts, read_taxonomy, write_matrix

if TYPE_CHECKING:
    from longshot.data.dataset import Dataset


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
    """Open the hierarchy of a dataset's classes, or of a taxonomy file.

    Parameters
    ----------
    source : str, Path or Dataset
        A dataset, or a taxonomy file: a CSV with the columns parent, child and perhaps label, a JSON list of
        [parent, child] pairs, nested JSON, or WordNet's ``data.noun``.
    taxonomy : optional
        As in ``measure_distances``.

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
    """Measure the distances between all classes of a dataset or a taxonomy file, and name the nearest and the farthest.

    Parameters
    ----------
    source : str, Path or Dataset
        What ``open_taxonomy`` opens.
    kind : {"jiang-conrath", "lin", "wu-palmer", "path"}
        Which distance. The first two look at how many images lie below a node.
        ``longshot.data.class_distances`` has the formulas.
    reduction : {"shortest-paths"}, optional
        One shortest path per class, as the published tieredImageNet distances. Default: the whole taxonomy.
    pairs : int, at least 1
        Pairs to print. So many of the nearest and of the farthest.
    taxonomy : FILE|wordnet, str, Path or Taxonomy, optional
        Hierarchy above the classes: a file or wordnet. Classes of WordNet are called by its ids. Default: that
        of the dataset.
    counts : mapping, or a file, optional
        JSON {class: images}, when SOURCE is a taxonomy file. A mapping serves too.
    out : file, optional
        Write the whole matrix as CSV. ``"-"`` is the screen.
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
    """Open a taxonomy with its classes: a file's leaves, or a dataset's classes and their numbers of images."""
    from longshot.data.opening import open_dataset  # opening knows taxonomies, too

    if isinstance(source, str | Path):
        if is_taxonomy_file(source):
            from_file = read_taxonomy(source)
            return ClassHierarchy(Path(source).stem, from_file, from_file.leaves, None)
        source = open_dataset(source)
    chosen = with_taxonomy(source, taxonomy).taxonomy or Taxonomy.from_class_ids(source.class_ids)
    return ClassHierarchy(source.name, chosen, source.class_ids, source.sizes)
