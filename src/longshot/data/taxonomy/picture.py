"""A taxonomy to look at: what a command says of it, as a tree with counts per node, and as a picture of rings.

Rings go from the root outwards, one equal sector per class.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
    in_words,
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
    from matplotlib.figure import Figure

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


_LABELLED = 400  # above so many sectors their names would be too small to read
_PITCH = 0.125  # inches along the outer circle per sector name
_HOLE = 0.85  # inches: radius of the root
_CHARACTER = 0.56 / 72  # inches of width per point of font size, on average
_INK = "#1b1f24"
_GREY = (0.55, 0.57, 0.60)  # what lies above the families


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
    """Write a PNG, SVG or PDF. ``depth`` cuts the tree; cut branches are sectors of their own.

    ``force`` replaces what is there, even if it is no picture that Longshot drew.
    """
    kind = claim_output(path, PICTURE, force=force, name="picture").lstrip(".")
    import matplotlib

    figure = _figure(display_tree(taxonomy, class_ids, images), depth, title)
    stamp = picture_stamp(kind)
    # Fixed ids: the same taxonomy gives the same file.
    with delivered(path) as temporary, matplotlib.rc_context({"svg.hashsalt": "longshot"}):
        figure.savefig(temporary, format=kind, dpi=130, metadata=stamp, bbox_inches="tight", pad_inches=0.2)


def _figure(top: Branch, depth: int | None, title: str) -> Figure:
    from matplotlib.collections import PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Wedge

    sectors, rings = _layout(top, depth)
    leaves = [item for item in sectors if item.last]
    named = len(leaves) <= _LABELLED
    margin = 0.25 + (max(_width(_outer_text(item.branch), 7) for item in leaves) if named else 0.0)
    radius = max(_HOLE + 0.5 * rings, len(leaves) * _PITCH / math.tau if named else 5.5, 1.8)
    step = (radius - _HOLE) / max(rings, 1)
    half = radius + margin
    figure = Figure(figsize=(2 * half, 2 * half))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-half, half), ylim=(-half, half))  # data units are inches
    axes.axis("off")
    colours = _family_colours(max(item.family for item in sectors) + 1)
    wedges, faces = [], []
    for item in sectors if named else _merge(sectors):
        if item.depth == 0:
            continue
        inner = _HOLE + (item.depth - 1) * step
        outer = radius if item.last else inner + step
        wedges.append(Wedge((0, 0), outer, item.start, item.stop, width=outer - inner))
        base = colours[item.family] if item.family >= 0 else _GREY
        faces.append(_mix(base, 0.30 + 0.45 * item.depth / max(rings, 1)))
        if item.last and named:
            _write_outside(axes, item, radius)
        if not item.last:
            _write_inside(axes, item, inner, inner + step)
    edge = 0.8 if named else 0.15
    axes.add_collection(PatchCollection(wedges, facecolors=faces, edgecolors="white", linewidths=edge))
    _write_centre(axes, title if title and top.name == "root" else top.name)
    note = "" if named else in_words(f" ({len(leaves):,} are too many to name; draw fewer with {{depth}})")
    images = "" if top.images is None else f", {top.images:,} images"
    text = f"{title or top.name}: {top.classes:,} classes{images}{note}"
    reach = margin if any(abs(item.middle - 90) < 60 for item in leaves) else 0.3
    axes.text(0, radius + (reach if named else 0.3), text, ha="center", va="bottom", size=12, color=_INK)
    return figure


class _Sector:
    """A branch with its place: depth, degrees from ``start`` to ``stop``, family (−1 above all families)."""

    def __init__(self, branch: Branch, depth: int, last: bool) -> None:
        self.branch, self.depth, self.last = branch, depth, last
        self.start = self.stop = 0.0
        self.family = -1

    @property
    def middle(self) -> float:
        """Return the angle in the middle, in degrees."""
        return (self.start + self.stop) / 2


def _layout(top: Branch, depth: int | None) -> tuple[list[_Sector], int]:
    """Lay out the sectors of all branches down to ``depth``, and count the rings. Leaves have equal angles."""
    shown = [(level, branch) for level, branch in top.walk() if depth is None or level <= depth]
    sectors = [_Sector(b, level, not b.children or level == depth) for level, b in shown]
    leaves = [item for item in sectors if item.last]
    angle = 360 / len(leaves)
    for number, item in enumerate(leaves):
        # clockwise from twelve o'clock, as one reads a clock; wedges want start < stop
        item.start, item.stop = 90 - (number + 1) * angle, 90 - number * angle
    families, family, below = _families(top), -1, 0
    for item in sectors:  # parents before children: what is deeper than a family's top belongs to it
        if id(item.branch) in families:
            family, below = family + 1, item.depth
        item.family = family if id(item.branch) in families or (family >= 0 and item.depth > below) else -1
    open_sectors: list[_Sector] = []  # the nearest following sector of each depth, read backwards
    for item in reversed(sectors):
        if not item.last:
            inside = [s for s in open_sectors if s.depth == item.depth + 1]
            item.start, item.stop = min(s.start for s in inside), max(s.stop for s in inside)
        open_sectors = [s for s in open_sectors if s.depth <= item.depth] + [item]
    return sectors, max(item.depth for item in sectors)


def _merge(sectors: list[_Sector]) -> list[_Sector]:
    """Merge neighbouring nameless leaves of one parent into one sector: thousands of hairlines show nothing."""
    merged: list[_Sector] = []
    for item in sectors:
        if item.last and merged and merged[-1].last and merged[-1].depth == item.depth:
            merged[-1].start = item.start  # sectors run clockwise, so the next one starts lower
        else:
            merged.append(item)
    return merged


def _families(top: Branch) -> set[int]:
    """Choose the branches (by identity) that get a colour each: the root's children.

    One that holds most classes is opened into its own children, so that a picture of WordNet is not one colour.
    """
    families = list(top.children)
    while families and len(families) < 8:
        widest = max(families, key=lambda branch: branch.classes)
        if widest.classes < 0.4 * top.classes or not widest.children:
            break
        families.remove(widest)
        families.extend(widest.children)
    return {id(branch) for branch in families}


def _write_outside(axes: Any, item: _Sector, radius: float) -> None:
    """Write a sector's name along its ray, outside the last ring."""
    angle = math.radians(item.middle)
    right = math.cos(angle) >= 0
    x, y = ((radius + 0.06) * f(angle) for f in (math.cos, math.sin))
    rotation = item.middle if right else item.middle + 180
    side = "left" if right else "right"
    style = {"rotation_mode": "anchor", "va": "center", "size": 7, "color": _INK}
    axes.text(x, y, _outer_text(item.branch), rotation=rotation, ha=side, **style)


def _write_inside(axes: Any, item: _Sector, inner: float, outer: float) -> None:
    """Write an inner node's name where it fits best: across its sector or along the ray; shortened if need be."""
    middle = (inner + outer) / 2
    opening = math.radians(item.stop - item.start)
    # a straight line across a ring: the chord of the inner third, at most a quarter of the circle
    across = 2 * (inner + (outer - inner) / 3) * math.sin(min(opening, math.pi / 2) / 2)
    along, thickness = outer - inner, middle * opening
    for size in (9, 8, 7, 6):
        height = size * 1.15 / 72
        lines = item.branch.name
        if _width(lines, size) <= across * 0.95 and height <= along:
            return _turn(axes, item, middle, lines, size, across=True)
        if _width(lines, size) <= along * 0.92 and height <= thickness:
            return _turn(axes, item, middle, lines, size, across=False)
    if thickness < 6 * 1.15 / 72:
        return None
    room, turned = max((across * 0.95, True), (along * 0.92, False))
    letters = int(room / (6 * _CHARACTER)) - 1
    if letters < 4:
        return None
    return _turn(axes, item, middle, item.branch.name[:letters].rstrip() + "…", 6, across=turned)


def _turn(axes: Any, item: _Sector, radius: float, text: str, size: int, *, across: bool) -> None:
    angle = math.radians(item.middle)
    rotation = item.middle - 90 if across else item.middle
    if math.cos(math.radians(rotation)) < 0:  # never upside down
        rotation += 180
    x, y = radius * math.cos(angle), radius * math.sin(angle)
    axes.text(x, y, text, rotation=rotation, ha="center", va="center", size=size, color=_INK)


def _write_centre(axes: Any, name: str) -> None:
    import textwrap

    lines = textwrap.wrap(name, 14)[:3]
    axes.text(0, 0, "\n".join(lines), ha="center", va="center", size=10, color=_INK, weight="bold")


def _outer_text(branch: Branch) -> str:
    name = branch.name if len(branch.name) <= 34 else branch.name[:33] + "…"
    return name if not branch.children else f"{name} ({branch.classes:,})"


def _width(text: str, size: float) -> float:
    """Estimate the inches that a text takes."""
    return len(text) * size * _CHARACTER


def _family_colours(count: int) -> list[tuple[float, float, float]]:
    """Choose one colour per family: tab10's while they last, then evenly spaced hues."""
    import colorsys

    import matplotlib

    if count <= 10:
        return [matplotlib.colormaps["tab10"](i)[:3] for i in range(count)]
    # hues in steps of the golden ratio: neighbours always differ
    return [colorsys.hls_to_rgb((0.6 + i * 0.618034) % 1, 0.5, 0.6) for i in range(count)]


def _mix(colour: tuple[float, float, float], white: float) -> tuple[float, float, float]:
    red, green, blue = (part + (1 - part) * white for part in colour)
    return red, green, blue


# ---- the hierarchy


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
