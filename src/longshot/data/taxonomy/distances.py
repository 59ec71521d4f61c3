"""Distances between classes, of a taxonomy or from a file, and the coarsity of tasks: how far apart their classes are.

With C classes, A nodes above them and S(v) the classes below node v, the work is Σ_v |S(v)|² cell writes,
at most A·C² and in a balanced tree of depth L about L·C² (classes are laid out depth-first, so S(v) is a
few slices and a write runs at memory speed). Memory is the C×C result and a few ints per (class, ancestor).
"""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.base import Floats, Ints, Ragged, UserError, note, progress
from longshot.data.taxonomy import Taxonomy
from longshot.data.taxonomy.graph import Ancestry

T = TypeVar("T")

KINDS = ("jiang-conrath", "lin", "wu-palmer", "path")
REDUCTIONS = ("shortest-paths",)
_LONG = 6000  # from so many classes on the work takes seconds
_BLOCK = 1 << 22  # cells of a temporary block: 32 MB of float64


def class_distances(
    taxonomy: Taxonomy,
    class_ids: Sequence[str],
    counts: ArrayLike | None = None,
    kind: str = "jiang-conrath",
    reduction: str | None = None,
) -> Floats:
    """Compute the distances between all pairs of classes, symmetric with a zero diagonal, [C, C].

    With N(v) the images of ``class_ids`` below node v (each class once, however many paths lead to it)
    and ``lca`` the common ancestor with the fewest images:

    - ``jiang-conrath``: 2 ln N(lca) − ln N(a) − ln N(b);
    - ``lin``: 1 − 2 I(lca) / (I(a) + I(b)) with I(v) = ln N(root) − ln N(v);
    - ``wu-palmer``: 1 − max over common ancestors v of 2δ(v) / (h(a,v) + h(b,v) + 2δ(v)), with h the edges
      from a class up to v and δ(v) the nodes from the root to v, both along shortest paths;
    - ``path``: min over common ancestors v of h(a,v) + h(b,v).

    Parameters
    ----------
    taxonomy : Taxonomy
        Any DAG with one root.
    class_ids : sequence [C]
        Nodes of the taxonomy, each once.
    counts : array [C], optional
        Images per class, above 0; needed by the first two.
    kind : str
        One of the four above.
    reduction : {"shortest-paths"}, optional
        First reduce the taxonomy to one shortest path per class (:meth:`Taxonomy.shortest_paths`).

    Returns
    -------
    array [C, C]
        In the order of ``class_ids``.

    Examples
    --------
    >>> food = Taxonomy.from_class_ids(["Fruit/Apple", "Fruit/Pear", "Milk"])
    >>> class_distances(food, ["Fruit/Apple", "Fruit/Pear", "Milk"], kind="path").tolist()
    [[0.0, 2.0, 3.0], [2.0, 0.0, 3.0], [3.0, 3.0, 0.0]]
    """
    if kind not in KINDS:
        raise UserError(f"There is no distance '{kind}'; choose one of {', '.join(KINDS)}.")
    _check_memory(len(class_ids))
    taxonomy = reduce_taxonomy(taxonomy, class_ids, reduction)
    above = Ancestry.of(taxonomy, class_ids)
    if kind == "path":
        result = _path(above)
    elif kind == "wu-palmer":
        result = _wu_palmer(above, taxonomy)
    else:
        images = _check_counts(class_ids, counts, kind)
        below = above.sum(images, len(taxonomy))
        result = _jiang_conrath(above, below) if kind == "jiang-conrath" else _lin(above, below)
    np.fill_diagonal(result, 0.0)
    return result


def by_images(kind: str) -> bool:
    """Tell whether a distance depends on how many images lie below a node."""
    return kind in KINDS[:2]


def extreme_pairs(matrix: Floats, count: int) -> list[tuple[int, int]]:
    """Return the ``count`` pairs i < j with the smallest values of ``matrix`` [C, C], ties in the order of the classes.

    >>> extreme_pairs(np.array([[0.0, 2.0, 1.0], [2.0, 0.0, 3.0], [1.0, 3.0, 0.0]]), 2)
    [(0, 2), (0, 1)]
    """
    best: list[tuple[float, int, int]] = []
    for i in range(len(matrix) - 1):
        row = matrix[i, i + 1 :]
        best += [(float(row[j]), i, i + 1 + int(j)) for j in np.argsort(row, kind="stable")[:count]]
        if len(best) > 1000 * count:
            best = sorted(best)[:count]
    return [(i, j) for _, i, j in sorted(best)[:count]]


def lowest_common_ancestors(
    taxonomy: Taxonomy, class_ids: Sequence[str], counts: ArrayLike | None = None
) -> NDArray[np.int32]:
    """Return positions in ``taxonomy.nodes`` of the common ancestor with the fewest images, [C, C].

    Ties go to the deeper node, then to the smaller id.

    Parameters
    ----------
    taxonomy : Taxonomy
        Any DAG with one root.
    class_ids : sequence [C]
        Nodes of the taxonomy, each once.
    counts : array [C], optional
        Images per class; one each where it is left out.

    Examples
    --------
    >>> food = Taxonomy.from_class_ids(["Fruit/Apple", "Fruit/Pear", "Milk"])
    >>> lowest = lowest_common_ancestors(food, ["Fruit/Apple", "Fruit/Pear", "Milk"])
    >>> food.nodes[lowest[0, 1]], food.label(food.nodes[lowest[0, 2]])
    ('Fruit', 'root')
    """
    above = Ancestry.of(taxonomy, class_ids)
    images = _check_counts(class_ids, np.ones(len(class_ids)) if counts is None else counts, "lca")
    below = above.sum(images, len(taxonomy))
    result = np.empty((above.size, above.size), np.int32)
    _paint(result, above, _from_wide_to_narrow(above, below, taxonomy.depths), np.arange(len(taxonomy)))
    result[np.diag_indices(above.size)] = above.start
    return result


def image_counts(taxonomy: Taxonomy, class_ids: Sequence[str], counts: ArrayLike) -> Floats:
    """Count N(v), the images of ``class_ids`` at or below each node; a class with several paths counts once, [V].

    >>> food = Taxonomy.from_class_ids(["Fruit/Apple", "Fruit/Pear"])
    >>> dict(zip(food.nodes, image_counts(food, ["Fruit/Apple", "Fruit/Pear"], [10, 30]).tolist(), strict=True))
    {'': 40.0, 'Fruit': 40.0, 'Fruit/Apple': 10.0, 'Fruit/Pear': 30.0}
    """
    return Ancestry.of(taxonomy, class_ids).sum(np.asarray(counts, np.float64), len(taxonomy))


def reduce_taxonomy(taxonomy: Taxonomy, class_ids: Sequence[str], reduction: str | None) -> Taxonomy:
    """Return the taxonomy that distances are computed on: the whole one, or one shortest path per class."""
    if reduction is None:
        return taxonomy
    if reduction not in REDUCTIONS:
        raise UserError(f"There is no reduction '{reduction}'; choose {' or '.join(REDUCTIONS)}, or none.")
    return taxonomy.shortest_paths(class_ids)


def _check_memory(size: int) -> None:
    """Raise UserError before the machine runs out of memory: the result alone is 8·C² bytes."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):  # not told by this system
        return
    if 8 * size * size > memory:
        raise UserError(
            f"Distances between {size:,} classes need {8 * size * size / 1e9:.0f} GB and this machine has "
            f"{memory / 1e9:.0f} GB",
            "choose fewer classes",
        )


def _check_counts(class_ids: Sequence[str], counts: ArrayLike | None, kind: str) -> Floats:
    """Return image counts as floats; UserError for a class without images, whose logarithm does not exist, [C]."""
    if counts is None:
        raise UserError(f"The distance '{kind}' needs the number of images of each class", "give counts")
    images = np.asarray(counts, np.float64)
    if images.shape != (len(class_ids),):
        raise UserError(f"There are counts for {images.size} classes; {len(class_ids)} are needed.")
    bad = np.flatnonzero(~(images > 0) | ~np.isfinite(images))
    if len(bad):
        raise UserError(
            f"The class '{class_ids[bad[0]]}' has {images[bad[0]]:g} images and needs at least 1 for the "
            f"distance '{kind}'",
            "leave it out or use the distance 'path'",
        )
    return images


def _jiang_conrath(above: Ancestry, below: Floats) -> Floats:
    logs = _log(below)
    result = np.zeros((above.size, above.size))
    _paint(result, above, _from_wide_to_narrow(above, below), 2.0 * logs)
    own = logs[above.start]
    result -= own[:, None]
    result -= own[None, :]
    return result


def _lin(above: Ancestry, below: Floats) -> Floats:
    information = _log(below).max() - _log(below)
    result = np.zeros((above.size, above.size))
    _paint(result, above, _from_wide_to_narrow(above, below), 2.0 * information)
    own = information[above.start]
    for low in range(0, above.size, step := max(1, _BLOCK // above.size)):
        total = own[low : low + step, None] + own[None, :]
        # Two classes of no information (each holds every image) are the same set: distance 0.
        part = result[low : low + step]
        result[low : low + step] = np.where(total > 0, 1.0 - part / np.where(total > 0, total, 1.0), 0.0)
    return result


def _path(above: Ancestry) -> Floats:
    result = np.full((above.size, above.size), np.inf)

    def shorten(cells: Floats, row_hops: Ints, column_hops: Ints) -> None:
        np.minimum(cells, row_hops[:, None] + column_hops[None, :], out=cells)

    for _, classes, hops in _watched(list(above.members()), above.size):
        _over_blocks(result, classes, hops, shorten)
    return result


def _wu_palmer(above: Ancestry, taxonomy: Taxonomy) -> Floats:
    result = np.zeros((above.size, above.size))
    for node, classes, hops in _watched(list(above.members()), above.size):
        twice = 2.0 * (taxonomy.depths[node] + 1)

        def raise_similarity(cells: Floats, row_hops: Ints, column_hops: Ints, twice: float = twice) -> None:
            np.maximum(cells, twice / (row_hops[:, None] + column_hops[None, :] + twice), out=cells)

        _over_blocks(result, classes, hops, raise_similarity)
    return np.subtract(1.0, result, out=result)


def _log(below: Floats) -> Floats:
    """Return ln N(v); 0 for nodes above no class, which are never looked up, [V]."""
    return np.log(np.where(below > 0, below, 1.0))


def _from_wide_to_narrow(
    above: Ancestry, below: Floats, depths: Ints | None = None
) -> list[tuple[int, Ints]]:
    """List (node, classes below it) from the most images to the fewest: whoever paints last is the lowest ancestor.

    Of nodes above the same classes only the last is kept: they would paint the same cells.
    """
    classes_below = {node: classes for node, classes, _ in above.members()}
    nodes = np.array(sorted(classes_below), np.int64)
    deep = np.zeros(len(nodes)) if depths is None else depths[nodes]
    order = nodes[np.lexsort((-nodes, deep, -below[nodes]))].tolist()
    last = {classes_below[node].tobytes(): node for node in order}
    return [(node, classes_below[node]) for node in order if last[classes_below[node].tobytes()] == node]


def _paint(
    cells: Floats | NDArray[np.int32],
    above: Ancestry,
    nodes: list[tuple[int, Ints]],
    values: Floats | Ints,
) -> None:
    """Write values[node] over all pairs of classes below the node, node after node."""
    for node, classes in _watched(nodes, above.size):
        cells[np.ix_(classes, classes)] = values[node]


def _over_blocks(
    cells: Floats,
    classes: Ints,
    hops: Ints,
    update: Callable[[Floats, Ints, Ints], None],
) -> None:
    """Update the pairs of ``classes`` in place, in blocks that bound the temporaries."""
    step = max(1, _BLOCK // len(classes))
    for low in range(0, len(classes), step):
        where = np.ix_(classes[low : low + step], classes)
        block = cells[where]
        update(block, hops[low : low + step], hops)
        cells[where] = block


def _watched(nodes: Sequence[T], classes: int) -> Iterator[T]:
    """Yield the nodes one by one, with a progress bar where the work takes seconds."""
    if classes < _LONG:
        yield from nodes
        return
    with progress("distances", total=len(nodes), unit="nodes") as bar:
        for node in nodes:
            yield node
            bar.advance()


_TASKS_AT_ONCE = 1 << 22  # pairs looked up at once: 32 MB of float64


def coarsity(distances: Floats, classes: Ragged | ArrayLike) -> Floats:
    """Mean squared distance over the unordered pairs of classes of each task.

    κ(task) = mean over pairs a < b of d(a, b)², for T tasks at once.

    Parameters
    ----------
    distances : array [C, C]
        As of :func:`class_distances`.
    classes : ints [T, way], or Ragged where ways differ
        Positions of each task's classes.

    Returns
    -------
    array [T]
        NaN for a task of one class, which has no pair. The value of a task does not depend on the tasks beside it.

    Examples
    --------
    >>> distances = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]])
    >>> coarsity(distances, [[0, 1, 2], [0, 0, 1]]).round(3).tolist()
    [4.667, 0.667]
    """
    if not isinstance(classes, Ragged):
        return _same_way(distances, np.asarray(classes))
    result = np.full(len(classes), np.nan)
    for way in np.unique(classes.lengths).tolist():
        tasks = np.flatnonzero(classes.lengths == way)
        rows = classes.values[classes.offsets[tasks][:, None] + np.arange(way)]
        result[tasks] = _same_way(distances, rows)
    return result


def _same_way(distances: Floats, classes: NDArray[np.integer]) -> Floats:
    """Compute the coarsity [T] of tasks [T, way] of one size, in blocks that bound the memory."""
    tasks, way = classes.shape
    result = np.full(tasks, np.nan)
    if way < 2:
        return result
    first, second = np.triu_indices(way, 1)
    step = max(1, _TASKS_AT_ONCE // len(first))
    for low in range(0, tasks, step):
        block = classes[low : low + step]
        # Row by row in memory (indexing lays it out by columns): else the order of a sum depends on the block.
        pairs = np.ascontiguousarray(distances[block[:, first], block[:, second]])
        result[low : low + step] = np.square(pairs, out=pairs).mean(axis=1)
    return result


def read_distances(
    path: str | os.PathLike[str], class_ids: Sequence[str], order: Sequence[str] | None = None
) -> Floats:
    """Read distances between classes [C, C] from a CSV or ``.npy`` file; NaN for classes that the file lacks.

    A CSV may have the classes as first row and first column, as :func:`write_matrix` writes them. A matrix without
    names is in the order of ``order``, or of ``class_ids``.
    """
    file = Path(path)
    names, matrix = _read_matrix(file)
    if not names:
        names = list(class_ids if order is None else order)
        whose = "the dataset" if order is None else "the class order that was given"
        note(f"{file} names no classes; its rows are taken to be in the order of {whose}")
    size = len(names)
    if matrix.shape != (size, size):
        shape = " × ".join(f"{length:,}" for length in matrix.shape)
        raise UserError(
            f"{file} has {shape} numbers, but there are {size:,} classes",
            "write the classes as first row and first column of a CSV",
        )
    wrong = ~np.isfinite(matrix) | (matrix < 0) | ~np.isclose(matrix, matrix.T) | (np.eye(size) * matrix > 0)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise UserError(
            f"{file}: {matrix[i, j]:g} from '{names[i]}' to '{names[j]}' and {matrix[j, i]:g} back are no distance",
            "distances are 0 or more, equal both ways, and 0 from a class to itself",
        )
    numbers = {name: number for number, name in enumerate(names)}
    at = np.array([numbers.get(class_id, -1) for class_id in class_ids])
    return np.where((at < 0) | (at < 0)[:, None], np.nan, matrix[np.ix_(at, at)])


def _read_matrix(file: Path) -> tuple[list[str], Floats]:
    """Return the names of a matrix, where it has any, and its numbers."""
    if not file.is_file():
        raise UserError(f"There is no file of distances at {file}; check the path.")
    try:
        if file.suffix.lower() == ".npy":
            return [], np.load(file, allow_pickle=False).astype(np.float64)
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = [row for row in csv.reader(lines) if row]
        with contextlib.suppress(ValueError):  # the corner of a matrix with names is no number
            return [], np.array(rows, np.float64)
        names = [row[0].strip() for row in rows[1:]]
        if not names or names != [name.strip() for name in rows[0][1:]]:
            raise ValueError("the first row names other classes than the first column")
        return names, np.array([row[1:] for row in rows[1:]], np.float64)
    except (ValueError, TypeError, OSError):
        raise UserError(
            f"{file} is no matrix of distances",
            "give a .npy file, or a CSV with the classes as first row and first column",
        ) from None
