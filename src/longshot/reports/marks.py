"""Who is first in a column: the one rule for bold, ties and judges, and its one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from longshot.base import Floats
from longshot.evaluation import SIGNIFICANCE, enough_resamples

MARK_RULE = (
    "Bold (best): the highest mean of its setting, which paired sign-flip tests on the same tasks (5 %, corrected by "
    "Holm for all comparisons of the table) separate from every other; = (tie): not separated from the highest."
)
JUDGE_RULE = (
    "† (judge): chose classes or images of that testbed, or has the weights of a network that did or descends from "
    "one, and is not ranked on it."
)
ALONE = "alone in its setting"
TOO_FEW = "not tested: fewer than two tasks in common"
Key = TypeVar("Key", bound=Hashable)


class Placed(NamedTuple):
    """A mark ("best", "tied", "judge" or none), why the highest has none, and the corrected p against the highest."""

    mark: str
    reason: str = ""
    p: float = math.nan


def first_places(
    means: Mapping[Key, float],
    groups: Mapping[Key, str],
    p_value: Callable[[Key, Key], float | None],
    *,
    judges: frozenset[Key] = frozenset(),
    untested: str = TOO_FEW,
    higher_is_better: bool = True,
) -> dict[Key, Placed]:
    """Mark the first places of one column.

    Every group has its own. Whoever the corrected test does not separate from the best mean shares the place: alone
    there is "best", several are all "tied". A mark stands for a test that was made, so a group with one member, or one
    that could not be tested against the best, has none, and the best of it says why. Judges take no place.

    Parameters
    ----------
    means : mapping
        Row → mean.
    groups : mapping
        Row → what it is ranked among, as its setting.
    p_value : callable
        ``p_value(best, row)`` gives the corrected p of two rows, None where they were not tested.
    judges : frozenset
        Rows that chose the tasks.
    untested : str
        Why tests are missing, where they are.
    higher_is_better : bool
        Whether the highest mean is the best.
    """
    placed = {key: Placed("judge") for key in means if key in judges}
    sign = 1 if higher_is_better else -1
    for group in dict.fromkeys(groups[key] for key in means):
        members = [key for key in means if groups[key] == group and key not in judges]
        if not members:
            continue
        best = max(members, key=lambda key: sign * round(means[key], 12))
        p_values = {key: p_value(best, key) for key in members if key != best}
        placed |= {key: Placed("", p=math.nan if p is None else p) for key, p in p_values.items()}
        if not p_values or None in p_values.values():
            placed[best] = Placed("", untested if p_values else ALONE)
            continue
        tied = [key for key, p in p_values.items() if p is not None and p >= SIGNIFICANCE]
        placed[best] = Placed("tied" if tied else "best")
        placed |= {key: Placed("tied", p=placed[key].p) for key in tied}
    return placed


def place_column(
    accuracy: Floats, settings: Sequence[str] | None = None, judges: Sequence[bool] | None = None
) -> list[Placed]:
    """Place M series on the same T tasks alone, corrected within these tasks, [T, M].

    For parts of a testbed, such as a quartile, and for boards. ``settings`` [M] are those of the series where there is
    more than one, ``judges`` [M] says which of them chose the tasks.
    """
    from longshot.statistics import compare_many, holm

    tasks, number = accuracy.shape
    groups = list(settings) if settings is not None else [""] * number
    judging = frozenset(i for i, judge in enumerate(judges or ()) if judge)
    pairs = [
        (i, j)
        for i, j in combinations(range(number), 2)
        if groups[i] == groups[j] and tasks > 1 and not judging & {i, j}
    ]
    p_values: dict[tuple[int, int], float] = {}
    if pairs:
        before, after = (accuracy[:, [pair[side] for pair in pairs]] for side in (0, 1))
        tested = compare_many(before, after, resamples=enough_resamples(len(pairs)))
        p_values = dict(zip(pairs, map(float, holm([each.p for each in tested])), strict=True))
    placed = first_places(
        dict(enumerate(np.mean(accuracy, axis=0).tolist())),
        dict(enumerate(groups)),
        lambda i, j: p_values.get((min(i, j), max(i, j))),
        judges=judging,
    )
    return [placed[i] for i in range(number)]


def column_marks(accuracy: Floats, settings: Sequence[str] | None = None) -> list[str]:
    """Return the marks of :func:`place_column` alone."""
    return [placed.mark for placed in place_column(accuracy, settings)]
