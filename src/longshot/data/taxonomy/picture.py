"""A taxonomy to look at: what a command says of it, as a tree with counts per node, and as a picture of that tree."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from longshot.base import (
    PICTURE,
    Floats,
    Ints,
    UserError,
    claim_output,
    count,
    delivered,
    picture_stamp,
)
from longshot.data.dataset import with_taxonomy
from longshot.data.taxonomy import Taxonomy
from longshot.data.taxonomy.distances import (
    by_images,
    class_distances,
    extreme_pairs,
    image_counts,
    lowest_common_ancestors,
    reduce_taxonomy,
)
from longshot.data.taxonomy.readers import MATRIX, is_taxonomy_file, read_counts, read_taxonomy, write_matrix

if TYPE_CHECKING:
    from longshot.data.dataset import Dataset


@dataclass
class Branch:
    """A node to show. ``labels`` holds a whole chain of single children, top first; ``node`` is its last."""

    node: str
    labels: list[str]
    classes: int
    images: int | None
    also_below: tuple[str, ...] = ()
    children: list[Branch] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the last label of the chain."""
        return self.labels[-1]

    def walk(self) -> Iterator[tuple[int, Branch]]:
        """Yield (depth, branch) from the top, parents before children, in order."""
        stack = [(0, self)]
        while stack:
            depth, branch = stack.pop()
            yield depth, branch
            stack.extend((depth + 1, child) for child in reversed(branch.children))


def display_tree(taxonomy: Taxonomy, class_ids: Sequence[str], images: ArrayLike | None = None) -> Branch:
    """Build the part of the taxonomy above ``class_ids`` as a tree; ``images`` [C] are images per class.

    A node with several parents stands below the first and names the others. ``classes`` and ``images`` of a
    node count each class below it once, in the DAG. A chain of single children becomes one branch.
    """
    part = taxonomy.restrict(class_ids)
    classes = image_counts(part, class_ids, np.ones(len(class_ids)))
    counts = image_counts(part, class_ids, images) if images is not None else None
    shown = set(class_ids)
    branches = {
        node: Branch(
            node,
            [part.label(node)],
            int(classes[i]),
            int(counts[i]) if counts is not None else None,
            tuple(part.label(parent) for parent in part.parents(node)[1:]),
        )
        for i, node in enumerate(part.nodes)
    }
    for node in part.nodes:
        branches[node].children = [branches[c] for c in part.children(node) if part.parents(c)[0] == node]
    top = branches[part.root]
    for _, branch in reversed(list(top.walk())):  # drop what only has classes that stand below other parents
        branch.children = [child for child in branch.children if child.children or child.node in shown]
    for _, branch in top.walk():  # the walk goes on from the children a branch has after this
        while len(branch.children) == 1 and branch.node not in shown:
            only = branch.children[0]
            if only.name != branch.name:  # "Lemon › Lemon" says nothing that "Lemon" does not
                branch.labels.extend(only.labels)
            branch.node, branch.children, branch.also_below = only.node, only.children, only.also_below
            branch.classes, branch.images = only.classes, only.images
    if len(top.labels) > 1 and taxonomy.label(taxonomy.root) == "root":
        top.labels = top.labels[1:]  # the unnamed root above a single family
    return top


_MOST = 1500  # rows: more are higher than a PNG may be
_ROW, _INDENT = 0.19, 0.3  # inches: height of a row, width of a level
_LETTER = 0.085  # inches that a letter takes, at most
_INK, _GREY = "#1b1f24", "#9aa0a8"


def draw_taxonomy(
    taxonomy: Taxonomy,
    class_ids: Sequence[str],
    path: str | os.PathLike[str],
    *,
    images: ArrayLike | None = None,
    depth: int | None = None,
    title: str = "",
    force: bool = False,
) -> None:
    """Write the tree that the terminal shows as a PNG, SVG or PDF, a row for each node, a colour for each family.

    Parameters
    ----------
    taxonomy : Taxonomy
        What to draw.
    class_ids : sequence [C] of str
        Classes: the nodes above them are drawn.
    path : path
        Ends in ``.png``, ``.svg`` or ``.pdf``.
    images : array [C], optional
        Images per class.
    depth : int, optional
        Draw so many levels below the root.
    title : str
        What stands above; by default the name of the root.
    force : bool
        Replace what is there, even if it is no picture that Longshot drew.
    """
    kind = claim_output(path, PICTURE, force=force, name="picture").lstrip(".")
    top = display_tree(taxonomy, class_ids, images)
    rows = [(level, branch) for level, branch in top.walk() if depth is None or level <= depth]
    if len(rows) > _MOST:
        raise UserError(
            f"The taxonomy has {len(rows):,} nodes, and a picture has room for {_MOST:,}",
            "draw fewer of its levels",
        )
    import matplotlib
    from matplotlib.figure import Figure

    texts = [_row_text(branch) for _, branch in rows]
    width = max(
        _INDENT * (level + 1) + _LETTER * len(text) for (level, _), text in zip(rows, texts, strict=True)
    )
    figure = Figure(figsize=(width, _ROW * (len(rows) + 2)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-_INDENT, width - _INDENT), ylim=(_ROW * (len(rows) + 0.5), -1.5 * _ROW))  # in inches
    axes.axis("off")
    axes.text(-_INDENT / 2, -_ROW, title or top.name, size=11, va="center", weight="bold", color=_INK)
    families = 0
    colour, above = _GREY, dict[int, float]()  # level → the height of the last node there
    for number, ((level, branch), text) in enumerate(zip(rows, texts, strict=True)):
        y = _ROW * number
        if level == 1:
            colour, families = f"C{families % 10}", families + 1
        if level:
            x = _INDENT * (level - 1)
            stem = above[level - 1] + 0.45 * _ROW
            axes.plot([x, x, x + 0.6 * _INDENT], [stem, y, y], color=colour if level > 1 else _GREY, lw=1)
        above[level] = y
        weight = "normal" if not branch.children else "bold"
        axes.text(_INDENT * (level - 0.3), y, text, size=8, va="center", weight=weight, color=_INK)
    stamp = picture_stamp(kind)
    # Fixed ids: the same taxonomy gives the same file.
    with delivered(path) as temporary, matplotlib.rc_context({"svg.hashsalt": "longshot"}):
        figure.savefig(temporary, format=kind, dpi=130, metadata=stamp)


def _row_text(branch: Branch) -> str:
    """Write a node with what lies below it: ``Fruit › Citrus (6 classes, 300 images)``."""
    name = " › ".join(branch.labels)
    parts = [count(branch.classes, "class", "classes")] if branch.children else []
    if branch.images is not None:
        parts.append(count(branch.images, "image"))
    return f"{name} ({', '.join(parts)})" if parts else name


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
        How distances are computed. The first two look at how many images lie below a node.
        ``longshot.data.class_distances`` has the formulas.
    reduction : {"shortest-paths"}, optional
        One shortest path per class, as the published tieredImageNet distances. Default: the whole taxonomy.
    pairs : int, at least 1
        Pairs to print. So many of the nearest and of the farthest.
    taxonomy : FILE|wordnet, str, Path or Taxonomy, optional
        Hierarchy above the classes: a file or wordnet. Classes of WordNet are called by its ids. Default: that
        of the dataset.
    counts : mapping, or a file, optional
        Images per class, for a taxonomy file: JSON {class: images}. A mapping serves too.
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
