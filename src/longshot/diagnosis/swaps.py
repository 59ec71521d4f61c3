"""Tasks with some of their supports exchanged for other images of the same class: without a cause, with it, any.

Twins are images altered on their pixels and embedded again, so that nothing differs from the original but the cause.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import Ints, TaskRows
from longshot.data import Dataset, ImageStore, array_bytes
from longshot.diagnosis.alterations import FORMS, alter
from longshot.diagnosis.attribute_gaps import Groups
from longshot.diagnosis.suspicions import Suspicion, members_of
from longshot.models import embed

if TYPE_CHECKING:
    from PIL.Image import Image

    from longshot.models import BackboneLike


@dataclass(frozen=True)
class Swap:
    """The images exchanged in one class of one task, as rows of the dataset: ``removed[i]`` became ``added[i]``."""

    group: int
    removed: Ints
    added: Ints


@dataclass(frozen=True, eq=False)
class Swaps:
    """The n tasks of a suspicion in which images could be exchanged, R draws of each.

    Attributes
    ----------
    positions : ints [n]
        The tasks, as positions in the bound tasks.
    without : TaskRows [R · n]
        Draw after draw: supports that have the cause are replaced by images without it.
    same : TaskRows [R · n], optional
        As many of them are replaced by other images that have the cause as well. None where fewer than half of the
        groups have such images.
    at_random : TaskRows [R · n]
        As many supports of the same classes, whichever they are, are replaced by any images.
    first : sequence of Swap
        What was exchanged in the first draw of ``without``.
    images : int
        Supports exchanged in one draw.
    shared : float
        Share of the images that came at random which have the cause.
    barren : ints
        Suspected groups left alone because no image outside the task is without the cause.
    spent : ints
        Groups left alone because no other image has the cause, so that ``same`` could not be drawn.
    scarce : ints
        Groups where not all supports that have the cause could be replaced, because too few images are there.
    """

    positions: Ints
    without: TaskRows
    same: TaskRows | None
    at_random: TaskRows
    first: tuple[Swap, ...]
    images: int
    shared: float
    barren: Ints
    spent: Ints
    scarce: Ints


@dataclass(frozen=True, eq=False)
class _Choice:
    """What may be exchanged in one group: rows of the dataset, and positions in the flat supports."""

    group: int
    supports: Ints  # positions of the class's supports in the flat supports of all tasks
    suspects: Ints  # those of them that have the cause
    clean: Ints  # rows outside the task without the cause
    same: Ints  # rows outside the task with it
    pool: Ints  # rows outside the task

    def count(self, same: bool) -> int:
        """Count how many can be exchanged; with ``same`` also by as many images that have the cause."""
        return min(len(self.suspects), len(self.clean), *([len(self.same)] if same else []))


def plan_swaps(
    suspicion: Suspicion,
    bound: TaskRows,
    groups: Groups,
    offsets: Ints,
    *,
    draws: int,
    seed: int = 0,
    paired: bool = True,
) -> Swaps | None:
    """Exchange the supports of every suspected group, ``draws`` times.

    Images come from the class's own, without those of the task. What is drawn depends on the kind, the task's number
    and the class, and on nothing else.

    Parameters
    ----------
    suspicion : Suspicion
        A kind of cause and where it is suspected.
    bound : TaskRows
        All tasks of the dataset.
    groups : Groups
        Their classes.
    offsets : ints [C + 1]
        Where the rows of each class begin and end.
    draws : int
        R, how often images are drawn.
    seed : int
        Another seed draws other images.
    paired : bool
        Also draw ``same``.

    Returns
    -------
    Swaps or None
        None where no group has an image without the cause.
    """
    choices = _choices(suspicion, bound, groups, offsets)
    possible = [choice for choice in choices if choice.count(same=False)]
    if not possible:
        return None
    matched = [choice for choice in possible if choice.count(same=True)]
    same = paired and 2 * len(matched) >= len(possible)
    usable = matched if same else possible
    positions = np.unique(groups.task[[choice.group for choice in usable]])
    repeated = bound.take(np.tile(positions, draws))
    size = len(repeated.support.values) // draws
    arms = [repeated.support.values.reshape(draws, size).copy() for _ in range(3)]
    # from a place in the flat supports of all tasks to the same image's place in the chosen ones
    shift = np.zeros(len(bound), np.int64)
    shift[positions] = repeated.support.offsets[: len(positions)] - bound.support.offsets[positions]
    salt = zlib.crc32(suspicion.kind.encode())
    line = np.arange(draws)[:, None]
    swaps, shared, total = [], 0, 0
    for choice in usable:
        task, number = int(groups.task[choice.group]), choice.count(same)
        entropy = [seed, salt, int(bound.tasks[task]), int(groups.position[choice.group])]
        generator = np.random.default_rng(entropy)
        removed = _choose(generator, choice.suspects, draws, number)
        added = _choose(generator, choice.clean, draws, number)
        arms[0][line, removed + shift[task]] = added
        swaps.append(Swap(choice.group, bound.support.values[removed[0]], added[0]))
        if same:
            arms[1][line, removed + shift[task]] = _choose(generator, choice.same, draws, number)
        spread = _choose(generator, choice.supports, draws, number)
        any_image = _choose(generator, choice.pool, draws, number)
        arms[2][line, spread + shift[task]] = any_image
        shared += int(np.isin(any_image, choice.same).sum())
        total += any_image.size
    without, with_it, at_random = (
        replace(repeated, support=repeated.support.with_values(arm.reshape(-1))) for arm in arms
    )
    return Swaps(
        positions=positions,
        without=without,
        same=with_it if same else None,
        at_random=at_random,
        first=tuple(swaps),
        images=total // draws,
        shared=shared / total,
        barren=np.array([choice.group for choice in choices if not len(choice.clean)], np.int64),
        spent=np.array([c.group for c in possible if not len(c.same)] if same else [], np.int64),
        scarce=np.array([c.group for c in usable if c.count(same) < len(c.suspects)], np.int64),
    )


def exchanged(swaps: Swaps, bound: TaskRows, groups: Groups) -> tuple[Ints, Ints]:
    """Locate images that came in ``swaps.without``: positions in its flat supports, and the group of each."""
    draws = len(swaps.without) // len(swaps.positions)
    before = bound.take(np.tile(swaps.positions, draws)).support.values
    changed = np.flatnonzero(before != swaps.without.support.values)
    size = len(before) // draws
    chosen = np.concatenate(
        [
            groups.support_group[bound.support.offsets[p] : bound.support.offsets[p + 1]]
            for p in swaps.positions
        ]
    )
    return changed, chosen[changed % size]


def uniform_supports(
    bound: TaskRows, groups: Groups, offsets: Ints, *, draws: int, seed: int = 0
) -> TaskRows:
    """Draw supports of the same tasks at random from their classes without the queries, [draws · T] tasks."""
    repeated = bound.take(np.tile(np.arange(len(bound)), draws))
    values = repeated.support.values.reshape(draws, -1).copy()
    for group, (supports, queries) in enumerate(_members(groups)):
        if not len(supports):
            continue
        label = int(groups.label[group])
        free = np.ones(offsets[label + 1] - offsets[label], np.bool_)
        free[groups.query[queries] - offsets[label]] = False
        entropy = [seed, int(bound.tasks[groups.task[group]]), int(groups.position[group])]
        rows = np.flatnonzero(free) + offsets[label]
        values[:, supports] = _choose(np.random.default_rng(entropy), rows, draws, len(supports))
    return replace(repeated, support=repeated.support.with_values(values.reshape(-1)))


def _choices(suspicion: Suspicion, bound: TaskRows, groups: Groups, offsets: Ints) -> list[_Choice]:
    members = _members(groups)
    choices = []
    for group, having, lacking in zip(
        suspicion.groups.tolist(), suspicion.having, suspicion.lacking, strict=True
    ):
        supports, queries = members[group]
        start = int(offsets[groups.label[group]])
        rows = bound.support.values[supports] - start
        outside = np.ones(len(having), np.bool_)
        outside[rows] = False
        outside[groups.query[queries] - start] = False
        choices.append(
            _Choice(
                group=group,
                supports=supports,
                suspects=supports[having[rows]],
                clean=np.flatnonzero(outside & lacking) + start,
                same=np.flatnonzero(outside & having) + start,
                pool=np.flatnonzero(outside) + start,
            )
        )
    return choices


def _members(groups: Groups) -> list[tuple[Ints, Ints]]:
    """Locate the supports and the queries of each group in the flat arrays of all tasks."""
    sides = (members_of(side, len(groups)) for side in (groups.support_group, groups.query_group))
    return list(zip(*sides, strict=True))


def _choose(generator: np.random.Generator, values: Ints, draws: int, count: int) -> Ints:
    """Draw rows of values, each without repetition; [draws, count]."""
    chosen: Ints = values[generator.random((draws, len(values))).argsort(1)[:, :count]]
    return chosen


EmbedTwins: TypeAlias = Callable[[Ints, Ints], NDArray[np.float32]]  # rows [P], forms [P] → features [P, d]


@dataclass(frozen=True, eq=False)
class AlteredStore:
    """Images of another store, each in one form of an alteration: row i is ``rows[i]`` in form ``forms[i]``."""

    store: ImageStore
    rows: Ints
    forms: Ints

    def read(self, row: int) -> Image:
        """Return the altered image of one row."""
        source, form = int(self.rows[row]), int(self.forms[row])
        return alter(self.store.read(source), *FORMS[form], np.random.default_rng([form, source]))

    def encoded(self, row: int) -> bytes:
        """Return the bytes of its pixels, for its digest."""
        return array_bytes(np.asarray(self.read(row)))

    def stamps(self, rows: Ints) -> Ints:
        """Return −1 for each row, since no file is behind it; [M, 3]."""
        return np.full((len(rows), 3), -1, np.int64)


def embed_twins(dataset: Dataset, backbone: BackboneLike, device: str) -> EmbedTwins:
    """Make a function that embeds altered images of a dataset."""

    def embed_pairs(rows: Ints, forms: Ints) -> NDArray[np.float32]:
        keys = pa.array(
            [f"{dataset.keys[int(r)].as_py()}#{FORMS[f][0]}-{f}" for r, f in zip(rows, forms, strict=True)]
        )
        twins = Dataset(
            name=f"{dataset.name}-altered",
            class_ids=("altered",),
            offsets=np.array([0, len(rows)]),
            keys=keys,
            store=AlteredStore(dataset.store, rows, forms),
            source=dataset.source,
        )
        return np.asarray(embed(twins, backbone, device=device).array, np.float32)

    return embed_pairs


def altered_arm(
    suspicion: Suspicion,
    swaps: Swaps,
    bound: TaskRows,
    groups: Groups,
    first_row: int,
    embed_pairs: EmbedTwins,
) -> tuple[TaskRows, NDArray[np.float32]]:
    """Return the tasks of ``swaps.without``, where every image that came in is altered as the support was.

    Returns
    -------
    tasks : TaskRows
        Rows from ``first_row`` on are altered images.
    features : array [P, d]
        Theirs.
    """
    assert suspicion.forms is not None
    changed, group = exchanged(swaps, bound, groups)
    form_of = dict(zip(suspicion.groups.tolist(), suspicion.forms.tolist(), strict=True))
    support = swaps.without.support
    pairs = np.stack([support.values[changed], [form_of[each] for each in group.tolist()]], 1)
    distinct, position = np.unique(pairs, axis=0, return_inverse=True)
    values = support.values.copy()
    values[changed] = first_row + position.reshape(-1)
    features = embed_pairs(distinct[:, 0], distinct[:, 1])
    return replace(swaps.without, support=support.with_values(values)), features
