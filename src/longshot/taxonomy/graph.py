"""Graphs as lists of neighbours in two arrays: reach, cycles, shortest paths."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from longshot.core.arrays import Ints

Adjacency = tuple[Ints, Ints]  # offsets [V+1], neighbours [E]


def adjacency(source: Ints, target: Ints, size: int) -> Adjacency:
    """Lists of targets per source, each in the order given."""
    order = np.argsort(source, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=size))]).astype(np.int64)
    return offsets, target[order]


def reach(lists: Adjacency, start: Iterable[int]) -> set[int]:
    """Everything reachable from ``start`` along the lists, ``start`` included."""
    offsets, neighbours = lists
    seen = set(start)
    stack = list(seen)
    while stack:
        at = stack.pop()
        for near in neighbours[offsets[at] : offsets[at + 1]].tolist():
            if near not in seen:
                seen.add(near)
                stack.append(near)
    return seen


def shortest_path(children: Adjacency, parents: Adjacency, top: int, bottom: int) -> list[int]:
    """The nodes of one shortest path between ``top`` and ``bottom``, which lies below it."""
    came_down: dict[int, int] = {top: -1}  # node → the one before it, on the way down from the top
    came_up: dict[int, int] = {bottom: -1}
    upper, lower = [top], [bottom]
    meeting = top if top == bottom else -1
    while meeting < 0:
        if len(upper) <= len(lower):
            upper, meeting = _advance(children, upper, came_down, came_up)
        else:
            lower, meeting = _advance(parents, lower, came_up, came_down)
    path = []
    for links in (came_down, came_up):
        at = meeting
        while at >= 0:
            path.append(at)
            at = links[at]
    return path


def _advance(
    lists: Adjacency, frontier: list[int], own: dict[int, int], other: dict[int, int]
) -> tuple[list[int], int]:
    """One step of a search from one end: (the next frontier, the first node the other end knows or −1)."""
    offsets, neighbours = lists
    following: list[int] = []
    for at in frontier:
        for near in neighbours[offsets[at] : offsets[at + 1]].tolist():
            if near not in own:
                own[near] = at
                following.append(near)
                if near in other:
                    return following, near
    return following, -1


def find_cycle(child_lists: Adjacency, parent_lists: Adjacency) -> list[int]:
    """The nodes of a cycle in order, its first one again at the end; empty where there is none.

    Takes away nodes whose parents are all gone (Kahn); what stays lies on or below a cycle.
    """
    offsets, children = (part.tolist() for part in child_lists)
    parent_offsets, parents = (part.tolist() for part in parent_lists)
    waiting = np.diff(parent_lists[0]).tolist()
    ready = [node for node, count in enumerate(waiting) if count == 0]
    gone = 0
    while ready:
        at = ready.pop()
        gone += 1
        for child in children[offsets[at] : offsets[at + 1]]:
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    if gone == len(waiting):
        return []
    # A node that waits has a parent that waits: walking upwards must come back to a node already met.
    at = next(node for node, count in enumerate(waiting) if count > 0)
    met: dict[int, None] = {}  # in order
    while at not in met:
        met[at] = None
        at = next(p for p in parents[parent_offsets[at] : parent_offsets[at + 1]] if waiting[p] > 0)
    walk = list(met)
    return [at, *reversed(walk[walk.index(at) :])]
