"""Difficulty as a dial: supports between a uniform and a chosen one, image by image.

A task's exchanges are put in one order: the first chosen image of every class, then the second … The dial says how many
of them are made. So a support at a higher difficulty holds every chosen image of one at a lower difficulty.
"""

from __future__ import annotations

import numpy as np

from longshot.base import Floats, Ints, TaskPlan
from longshot.tasks.streams import Streams


def dialled(plan: TaskPlan, uniform: Ints, chosen: Ints, difficulty: float, streams: Streams) -> Ints:
    """Support rows at a difficulty between 0 (``uniform``) and 1 (``chosen``).

    Of the E images of a task's chosen support that the uniform one lacks, ⌊difficulty · E + u⌋ take the place of
    uniform ones of their class, where u is a number in [0, 1) that the task keeps at every difficulty: the mean number
    of exchanges is difficulty · E, however few shots a task has.

    Parameters
    ----------
    plan : TaskPlan
        Classes and shots of T tasks.
    uniform, chosen : array
        Two supports of the tasks, flat over their classes.
    difficulty : float
        From 0 to 1.
    streams : Streams
        Of the tasks: which class comes first, and u.

    Returns
    -------
    array
        Flat over classes, as the two.
    """
    if difficulty == 1:
        return chosen
    support = uniform.copy()
    if difficulty == 0:
        return support
    stream = streams.stage("dial")
    share: Floats = stream.uniform()
    first: Ints = stream.below(np.maximum(plan.classes.lengths, 1), 1)
    bounds = np.concatenate([[0], np.cumsum(plan.shots.values)]).astype(np.int64)
    slots = plan.classes.offsets
    for task in range(len(plan)):
        exchanges = []  # (number among the exchanges of its class, turn of the class, position, row)
        way = int(slots[task + 1] - slots[task])
        for slot in range(int(slots[task]), int(slots[task + 1])):
            span = slice(int(bounds[slot]), int(bounds[slot + 1]))
            before, after = uniform[span], chosen[span]
            leaving = span.start + np.flatnonzero(~np.isin(before, after))
            entering = after[~np.isin(after, before)]
            turn = (slot - int(slots[task]) - int(first[task])) % way
            exchanges += [
                (number, turn, int(position), int(row))
                for number, (position, row) in enumerate(zip(leaving, entering, strict=True))
            ]
        exchanges.sort()
        for _, _, position, row in exchanges[: int(difficulty * len(exchanges) + share[task])]:
            support[position] = row
    return support
