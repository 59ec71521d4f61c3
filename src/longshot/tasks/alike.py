"""Classes that look alike to networks, without a taxonomy: drawn task by task, or written down as a tree of classes.

A network sees a class as the mean of its features, scaled to unit length. Each judge ranks all other classes by the
distance of these means, and the mean rank over judges says which are nearest. The networks that are evaluated later
should be others: judges are recorded with the testbed and marked in reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from longshot.base import (
    Floats,
    Ints,
    Ragged,
    UserError,
    check_count,
    check_number,
    claim_output,
    rows_of_classes,
    with_engine,
)
from longshot.data import Dataset, DatasetLike, Taxonomy, as_dataset, distances_among, with_distances
from longshot.tasks.base import Pool, Shape
from longshot.tasks.class_samplers import BETA, NOISE_TASKS, ClassTurns, UniformClasses
from longshot.tasks.judges import Judge, check_features, embedded_judges, hash_of_judges
from longshot.tasks.streams import Streams

if TYPE_CHECKING:
    from longshot.models import BackboneLike

_HIDDEN = {"setting": False}
_CHOICES = (
    7 / 4
)  # of the nearest classes for each one taken: of the seven nearest a task of five ways takes four
_BLOCK = 512  # classes ranked at a time: fixed, so that a rank does not depend on how work is divided


@dataclass(frozen=True, eq=False)
class AlikeClasses:
    """A class and some of its nearest ones by the looks, every class about equally often.

    For each task the first class is drawn from exp(−beta · n / max n), n being its appearances so far (starting at 1),
    and way − 1 of its ``nearest`` classes by the same weights.

    Parameters
    ----------
    judges : str, Features, Judge or a list of them
        Networks that say which classes look alike: backbones by name, or features of the dataset.
    nearest : int, optional
        How many of the nearest classes a task chooses from; 7/4 of those it takes unless given, so 7 for 5 ways.
    beta : float
        How evenly classes appear; 0 or more.
    device : str
        Where backbones that are given by name compute.

    Examples
    --------
    >>> testbed = longshot.sample("toybox", tasks=5, classes=AlikeClasses("pixels"), way=3, split="test")
    >>> testbed.meta["sampler"]["classes"]["judged_by"][0]["backbone"]
    'pixels'
    """

    judges: BackboneLike | Judge | Sequence[BackboneLike | Judge] = field(metadata=_HIDDEN)
    nearest: int | None = None
    beta: float = BETA
    device: str = field(default="auto", metadata=_HIDDEN)
    judged_by: list[dict[str, str]] = field(init=False, default_factory=list)
    _ranked: dict[tuple[str, bytes, int], Ints] = field(
        init=False, default_factory=dict, metadata=_HIDDEN, repr=False
    )

    name: ClassVar[str] = "alike"
    about: ClassVar[str] = "look-alikes, as a network sees them"

    def __post_init__(self) -> None:
        several = self.judges if isinstance(self.judges, list | tuple) else [self.judges]
        panel = tuple(each for each in several if each is not None)
        if not panel:
            raise UserError(
                "{classes:alike} asks networks which classes look alike, and none is named",
                "name one with {judge:NAME} (see {list_backbones()})",
            )
        object.__setattr__(self, "judges", panel)
        named = [each.facts() if isinstance(each, Judge) else {"backbone": _name(each)} for each in panel]
        object.__setattr__(self, "judged_by", named)
        check_number("AlikeClasses", "beta", self.beta)
        if np.isinf(self.beta):
            raise UserError("AlikeClasses's beta is inf; it must be finite.")
        if self.nearest is not None:
            check_count("AlikeClasses", "nearest", self.nearest, least=1)

    @property
    def panel(self) -> tuple[Any, ...]:
        """Return the judges as they were given."""
        assert isinstance(self.judges, tuple)
        return self.judges

    @property
    def features_hash(self) -> str | None:
        """Return the hash of the features it looks at; None while judges are names."""
        judges = [each for each in self.panel if isinstance(each, Judge)]
        return hash_of_judges(judges) if len(judges) == len(self.panel) else None

    def with_features(self, dataset: Dataset, rows: Ints) -> AlikeClasses:
        """Return the same choice with the judges' features of some rows of a dataset.

        Parameters
        ----------
        dataset : Dataset
            Whose classes are drawn.
        rows : array of int
            Images of all classes that may be drawn.

        Examples
        --------
        >>> toys = longshot.open_dataset("toybox")
        >>> seen = AlikeClasses("pixels").with_features(toys, np.arange(toys.offsets[3]))
        >>> seen.panel[0].features.backbone
        'pixels'
        """
        judges: list[Judge] = []
        for each in self.panel:
            if isinstance(each, Judge):
                check_features(each, dataset.fingerprint, dataset.name, len(dataset.class_ids))
                judges.append(replace(each, features=each.features.restricted(rows)))
            else:
                judges += embedded_judges(dataset, each, rows, self.device)
        return replace(self, judges=tuple(judges))

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Draw the class numbers of each task, sorted within a task."""
        UniformClasses().groups(shape, pool)  # says what is wrong where classes are too few
        ways = shape.ways(streams, np.full(len(streams), len(pool.classes)))
        widest = int(ways.max(initial=2))
        if self.nearest is not None and self.nearest < widest - 1:
            raise UserError(
                f"{{nearest:{self.nearest}}} leaves {self.nearest + 1} classes to draw from, but a task needs {widest}",
                f"raise it to {{nearest:{widest - 1}}} or more, or lower {{way}}",
            )
        most = [
            min(self.nearest or ceil(_CHOICES * (way - 1)), len(pool.classes) - 1) for way in ways.tolist()
        ]
        near = self._nearest(pool, max(most, default=1))
        rows = draw_alike(near, ways.tolist(), most, streams.generator("alike"), self.beta)
        return Ragged.from_lengths(pool.classes[np.array(rows, dtype=np.int64)], ways)

    def _nearest(self, pool: Pool, count: int) -> Ints:
        """Return the ``count`` nearest of each class of the pool, as positions in it [P, count]; ranked once."""
        key = (pool.dataset.fingerprint, pool.classes.tobytes(), count)
        if key not in self._ranked:
            seen = self.with_features(pool.dataset, rows_of_classes(pool.dataset.offsets, pool.classes))
            from longshot.tasks.splits.embeddings import class_means  # brings SciPy

            means = [class_means(judge.features, pool.classes) for judge in seen.panel]
            self._ranked[key] = nearest_classes(means, count)
        return self._ranked[key]


def _name(backbone: Any) -> str:
    return backbone if isinstance(backbone, str) else str(getattr(backbone, "backbone", backbone))


def nearest_classes(means: Sequence[Floats], count: int) -> Ints:
    """Rank the other classes of each class by every judge and return the first ``count`` by mean rank [P, count].

    Parameters
    ----------
    means : sequence of arrays [P, d]
        Unit class means of each judge; widths may differ.
    count : int
        Below P. Ties go to the earlier class.

    Examples
    --------
    >>> nearest_classes([np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])], 1).ravel().tolist()
    [1, 0, 1]
    """
    size = len(means[0])
    near = np.empty((size, count), np.int64)
    for start in range(0, size, _BLOCK):
        own = np.arange(start, min(start + _BLOCK, size))
        votes = np.zeros((len(own), size))
        for points in means:
            likeness = np.round(points[own] @ points.T, 9)  # the last digits depend on the machine
            likeness[np.arange(len(own)), own] = np.inf  # a class is its own nearest, and left out below
            ranks = np.empty_like(votes)
            order = np.argsort(-likeness, axis=1, kind="stable")
            np.put_along_axis(ranks, order, np.arange(size, dtype=np.float64)[None], axis=1)
            votes += ranks
        near[own] = np.argsort(votes, axis=1, kind="stable")[:, 1 : count + 1]
    return near


def draw_alike(
    near: Ints, ways: Sequence[int], most: Sequence[int], rng: np.random.Generator, beta: float
) -> list[int]:
    """Draw the classes of all tasks, one task after the other; see ``AlikeClasses``.

    Sequential by nature, as ``draw_semantic``: waiting times with mean 1/weight are drawn for all classes, the first to
    arrive is the task's first class, and the next to arrive among its nearest are the others.

    Parameters
    ----------
    near : array [P, k] of int
        The nearest classes of each class, nearest first.
    ways, most : sequence [T] of int
        Classes of each task, and from how many of the nearest they are chosen.
    rng : Generator
        The one stream of all tasks.
    beta : float
        How evenly classes appear.
    """
    turns = ClassTurns(len(near), beta)
    rows: list[int] = []
    for start in range(0, len(ways), NOISE_TASKS):
        block = list(zip(ways, most, strict=True))[start : start + NOISE_TASKS]
        noise = rng.standard_exponential((len(block), len(near)))
        for waiting, (way, choices) in zip(noise, block, strict=True):
            times = waiting * turns.mean
            first = int(times.argmin())
            candidates = near[first, :choices]
            taken = sorted([first, *candidates[times[candidates].argsort()[: way - 1]].tolist()])
            turns.count(taken)
            rows += taken
    return rows


# ---- the same as a tree


@with_engine
def make_taxonomy(
    dataset: DatasetLike,
    *,
    backbones: BackboneLike | Sequence[BackboneLike] | None = None,
    distances: str | Path | None = None,
    least: int = 5,
    out: str | Path | None = None,
    force: bool = False,
    device: str = "auto",
    engine: str | None = None,
) -> Taxonomy:
    """Make a taxonomy of classes by their looks: groups of look-alikes, and above them branches of like groups.

    Ward's clustering of class means, whose smallest clusters of at least ``least`` classes are the groups. A class that
    is far from all joins the group that is nearest to it.

    Parameters
    ----------
    dataset : Dataset, str or path
        Whose classes are put in order.
    backbones : str, object or list of those
        Network whose features say which classes look alike; repeat for several. Anything that
        ``embed`` takes; several count alike.
    distances : file, optional
        In place of a network: distances between the classes, a CSV or .npy file. As in ``sample``.
    least : int, at least 2
        Classes of a group, at least. Siblings of so many ways can be drawn from every group.
    out : file, optional
        Edge list to write (CSV: parent, child, label). Labels are made of the names of classes, for people to edit.
    force : bool
        Replace what is there.
    device, engine : optional
        As in ``embed``.

    Returns
    -------
    Taxonomy
        What ``sample``, ``make_split``, ``train`` and ``inspect`` take as ``taxonomy``.

    Examples
    --------
    >>> tree = make_taxonomy("toybox", backbones="pixels", out="looks.csv")
    >>> min(len(members) for members in tree.groups(longshot.open_dataset("toybox").class_ids).values()) >= 5
    True
    """
    from longshot.data import EDGES, write_csv
    from longshot.models import embed
    from longshot.tasks.splits.embeddings import class_means

    check_count("make_taxonomy", "least", least, least=2)
    if out is not None:
        claim_output(out, EDGES, force=force)
    data = as_dataset(dataset)
    several: list[Any] = list(backbones) if isinstance(backbones, list | tuple) else [backbones]
    several = [backbone for backbone in several if backbone is not None]
    every = np.arange(len(data.class_ids))
    if bool(several) == (distances is not None):
        raise UserError("A tree of classes needs {backbones} or {distances}", "give one of them")
    if distances is not None:
        points = _scaled(distances_among(with_distances(data, distances), every))
    else:
        means = [class_means(embed(data, backbone, device=device), every) for backbone in several]
        points = np.concatenate(means, axis=1)
    tree = group_classes(points, data.class_ids, data.class_names, least)
    if out is not None:
        write_csv(tree, out)
    return tree


def _scaled(distances: Floats) -> Floats:
    """Place classes [C, C] so that their distances are as given, or near (classical scaling).

    >>> points = _scaled(np.array([[0.0, 3.0, 4.0], [3.0, 0.0, 5.0], [4.0, 5.0, 0.0]]))
    >>> [round(float(np.linalg.norm(points[i] - points[j])), 6) for i, j in ((0, 1), (0, 2), (1, 2))]
    [3.0, 4.0, 5.0]
    """
    centring = np.eye(len(distances)) - 1 / len(distances)
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    points: Floats = vectors * np.sqrt(np.maximum(values, 0))
    return points


def group_classes(points: Floats, class_ids: Sequence[str], names: Sequence[str], least: int) -> Taxonomy:
    """Group classes at ``points`` [C, d] into a tree whose lowest inner nodes have ``least`` classes or more."""
    from longshot.tasks.splits.embeddings import ward

    groups: list[list[int]] = []
    loose: dict[int, list[int]] = {
        leaf: [leaf] for leaf in range(len(points))
    }  # clusters too small for a group
    branches: dict[int, Any] = {}  # the other clusters: the number of a group, or a pair of branches
    for number, pair in enumerate(ward(points)[:, :2].astype(np.int64).tolist(), len(points)):
        small, large = [c for c in pair if c in loose], [branches.pop(c) for c in pair if c in branches]
        members = [leaf for cluster in small for leaf in loose.pop(cluster)]
        if len(large) == 2:
            branches[number] = tuple(large)
        elif large:
            below = list(_leaves(large[0]))
            centres = np.stack([points[groups[group]].mean(0) for group in below])
            for leaf in members:
                groups[below[int(np.linalg.norm(centres - points[leaf], axis=1).argmin())]].append(leaf)
            branches[number] = large[0]
        elif len(members) < min(least, len(points)):
            loose[number] = members
        else:
            branches[number] = len(groups)
            groups.append(members)
    (top,) = branches.values()
    edges: list[tuple[str, str]] = []
    labels: dict[str, str] = {}
    waiting = [("all", top)]
    while waiting:
        node, branch = waiting.pop()
        members = [leaf for group in _leaves(branch) for leaf in groups[group]]
        labels[node] = _label(points[members], [names[leaf] for leaf in members]) if labels else "all classes"
        if isinstance(branch, tuple):
            parts = [
                (f"group {part + 1}" if isinstance(part, int) else f"branch {len(labels)}.{side}", part)
                for side, part in enumerate(branch, 1)
            ]
            edges += [(node, name) for name, _ in parts]
            waiting += parts
        else:
            edges += [(node, class_ids[leaf]) for leaf in sorted(members)]
    return Taxonomy.from_edges(edges, labels)


def _leaves(branch: Any) -> list[int]:
    """List the groups below a branch, which may be deep."""
    groups, waiting = [], [branch]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting += part
        else:
            groups.append(part)
    return groups


def _label(points: Floats, names: Sequence[str]) -> str:
    """Name a node by the two classes nearest to its middle, ``Rusty Blackbird, Bronzed Cowbird and 5 more``."""
    order = np.argsort(np.linalg.norm(points - points.mean(0), axis=1), kind="stable")
    typical = ", ".join(names[position] for position in order[:2].tolist())
    return f"{typical} and {len(names) - 2} more" if len(names) > 2 else typical
