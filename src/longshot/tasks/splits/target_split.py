"""Splits at a target hardness: as hard as another, harder than another by some points, or at a learnt accuracy.

A search over directions and strengths, each judged by the proxy.

A split of the search has a *direction* u in the space of class embeddings and a *strength* s. Class c gets the score
s · (u·z_c) / σ + logistic noise, σ the standard deviation of u·z over classes; the lowest go to test and validation, as
in ATG. Strength 0 is a random split, infinite strength (no noise) a sorted one; s is the spread of log p_train −
log p_test over classes. Directions are the leading principal axes, both ways, and those away from clusters of classes.

1. Every direction at every strength of a grid, one seed each.
2. Around the best ones: strengths between, and other noise.
3. The best of all again, by several seeds and with transfer loss. The winner is then measured by seeds that took no
   part in choosing it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from longshot.base import Floats, Ints, Progress, UserError, count, progress
from longshot.data import SPLITS, Dataset
from longshot.statistics import percent
from longshot.tasks.splits.atg import oriented
from longshot.tasks.splits.build import Splitter, seen_through
from longshot.tasks.splits.embeddings import between, gap, ward
from longshot.tasks.splits.hardness import (
    Hardness,
    check_measurable,
    measure_hardness,
    open_reference,
)
from longshot.tasks.splits.proxy import Proxy
from longshot.tasks.splits.split import RATIOS, Parts, Split, SplitLike, assign, from_labels, part_sizes

AXES, CLUSTERS = 6, 12
STRENGTHS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0, math.inf)
BETWEEN = (0.25, 0.5, 0.75)  # places between neighbours of the grid
NOISES = 3  # draws of noise around a good place
REFINED, SHORTLIST = 10, 16  # good places that are looked around, splits that are judged again
SEARCH_SEEDS = (1000, 1001, 1002, 1003)  # none of them measures the result
NEAR = 0.005  # learnt accuracies this near to the goal are all as good
TRANSFER_WORTH = 0.1  # a point of transfer makes up for this much of a point beside the goal


@dataclass(frozen=True)
class Goal:
    """Accuracies to reach, as shares.

    With ``frozen`` and ``transfer_loss`` the split is to be like another in all three. Without them only the learnt
    accuracy counts, and of the splits that have it the best is the one that owes the least to test classes being alike.
    """

    learnt: float
    frozen: float | None = None
    transfer_loss: float | None = None

    def cost(self, frozen: float, learnt: float, transfer_loss: float | None = None) -> float:
        """Return what the search minimises; transfer loss takes part where it has been measured."""
        if self.frozen is None:
            beside = max(abs(learnt - self.learnt) - NEAR, 0.0)
            return beside - TRANSFER_WORTH * (frozen if transfer_loss is None else transfer_loss)
        misses = [abs(learnt - self.learnt), abs(frozen - self.frozen)]
        if self.transfer_loss is not None and transfer_loss is not None:
            misses.append(abs(transfer_loss - self.transfer_loss))
        return max(misses)


@dataclass(frozen=True)
class Direction:
    """A unit vector among class embeddings; classes low on it go to test."""

    name: str
    axis: Floats


@dataclass(frozen=True, order=True)
class Setting:
    """Where a split of the search lies: number of the direction, strength, number of the noise."""

    direction: int
    strength: float
    noise: int = 0


@dataclass(frozen=True, eq=False)
class Candidate:
    """A split of the search with its frozen and learnt accuracy."""

    setting: Setting
    parts: Parts
    frozen: float
    learnt: float
    transfer_loss: float | None = None  # measured for the best ones


@dataclass(frozen=True, eq=False)
class Search:
    """What was searched: the winner, how many different splits there were, and their accuracies."""

    winner: Candidate
    direction: str
    divergence: float | None  # symmetrised KL of the centroids; None for a sorted split, where it is infinite
    splits: int
    lowest: float  # learnt accuracy
    highest: float


@dataclass(frozen=True, eq=False)
class Searcher:
    """The search over splits of one dataset's classes into parts of these sizes."""

    proxy: Proxy
    embeddings: Floats  # [C, d], on the unit sphere
    sizes: tuple[int, int, int]
    seed: int = 0

    @cached_property
    def directions(self) -> list[Direction]:
        """Return leading principal axes, both ways, and directions away from clusters of classes."""
        return [
            *principal_directions(self.embeddings),
            *cluster_directions(self.embeddings, self.proxy.looked_at),
        ]

    def search(self, goal: Goal) -> Search:
        """Search for the split nearest to the goal, of all that are tried."""
        judged: dict[bytes, Candidate] = {}  # a split that comes up again is not judged again
        grid = [Setting(d, strength) for d in range(len(self.directions)) for strength in STRENGTHS]

        def cost(candidate: Candidate) -> tuple[float, Setting]:
            value = goal.cost(candidate.frozen, candidate.learnt, candidate.transfer_loss)
            return round(value, 9), candidate.setting

        def judge(setting: Setting, bar: Progress) -> None:
            parts = self.assign(setting)
            identity = b"".join(part.tobytes() for part in (parts[0], parts[2]))
            if identity not in judged:
                judged[identity] = self._judge(setting, parts)
            bar.advance()

        with progress("search", total=len(grid) + SHORTLIST, unit="splits") as bar:
            for setting in grid:
                judge(setting, bar)
            around = [
                near for c in sorted(judged.values(), key=cost)[:REFINED] for near in neighbours(c.setting)
            ]
            bar.total = len(grid) + len(around) + SHORTLIST
            for setting in around:
                judge(setting, bar)
            shortlist = []
            for candidate in sorted(judged.values(), key=cost)[:SHORTLIST]:
                shortlist.append(self._judge_well(candidate))
                bar.advance()
        winner = min(shortlist, key=cost)
        learnt = [candidate.learnt for candidate in judged.values()]
        direction = self.directions[winner.setting.direction]
        return Search(
            winner, direction.name, self._divergence(winner.setting), len(learnt), min(learnt), max(learnt)
        )

    def assign(self, setting: Setting) -> Parts:
        """Make the split at a place of the search."""
        along = self._along(setting)
        if math.isinf(setting.strength):
            return assign(along, self.sizes, self.seed)
        # the same noise at every strength: as it grows, classes change sides one by one
        noise = np.random.default_rng([self.seed, setting.direction, setting.noise]).logistic(size=len(along))
        return assign(setting.strength * along / along.std() + noise, self.sizes, self.seed)

    def _judge(self, setting: Setting, parts: Parts) -> Candidate:
        """Judge by one seed, without transfer loss: the cheapest look there is."""
        seed, (train, _, test) = SEARCH_SEEDS[0], parts
        learnt = self.proxy.accuracy(test, seed, self.proxy.learn(train))
        return Candidate(setting, parts, self.proxy.accuracy(test, seed), learnt)

    def _judge_well(self, candidate: Candidate) -> Candidate:
        """Judge by several seeds, with transfer loss."""
        parts = dict(zip(SPLITS, candidate.parts, strict=True))
        hardness = measure_hardness(self.proxy, [parts], seeds=SEARCH_SEEDS)
        return replace(
            candidate,
            frozen=hardness.frozen.mean,
            learnt=hardness.learnt.mean,
            transfer_loss=hardness.transfer_loss.mean,
        )

    def _along(self, setting: Setting) -> Floats:
        return np.asarray(self.embeddings @ self.directions[setting.direction].axis)

    def _divergence(self, setting: Setting) -> float | None:
        """Return D of the centroids m ± (t/2)·u whose log p_train − log p_test has this strength as its spread."""
        if math.isinf(setting.strength):
            return None
        axis, middle = self.directions[setting.direction].axis, self.embeddings.mean(0)
        reach = setting.strength / (4 * self._along(setting).std()) * axis  # the spread is 2 t σ
        return between("kl-symmetric", self.embeddings, middle + reach, middle - reach)


def neighbours(setting: Setting) -> list[Setting]:
    """Return places of the search around one of its grid: strengths on the way to the next ones, and other noise."""
    at = STRENGTHS.index(setting.strength)
    near = []
    for low, high in pairwise(STRENGTHS[max(at - 1, 0) : at + 2]):
        span = 4 * low if math.isinf(high) else high - low
        near += [replace(setting, strength=low + share * span) for share in BETWEEN]
    if math.isfinite(setting.strength):
        near += [replace(setting, noise=number) for number in range(1, NOISES)]
    return near


def principal_directions(embeddings: Floats) -> list[Direction]:
    """Return the leading principal axes of embeddings [C, d], both ways, AXES of them at most."""
    centred = embeddings - embeddings.mean(0)
    _, lengths, axes = np.linalg.svd(centred, full_matrices=False)
    directions = []
    for number in range(min(AXES, int((lengths > 1e-9 * lengths[0]).sum()))):
        axis = oriented(axes[number], centred)
        directions += [
            Direction(f"principal axis {number + 1}", axis),
            Direction(f"principal axis {number + 1}, reversed", -axis),
        ]
    return directions


def cluster_directions(embeddings: Floats, classes: Ints) -> list[Direction]:
    """Return directions from the mean of each of CLUSTERS of Ward's clusters to the mean of all."""
    from scipy.cluster.hierarchy import fcluster

    points = embeddings[classes]
    labels = fcluster(ward(points), min(CLUSTERS, len(points) // 2), "maxclust")
    middle, directions = embeddings.mean(0), []
    for number in np.unique(labels).tolist():
        away = middle - points[labels == number].mean(0)
        size, length = int((labels == number).sum()), float(np.linalg.norm(away))
        if length > 1e-9:  # a cluster around the middle has no direction
            name = f"away from cluster {number} of {labels.max()} ({size} classes)"
            directions.append(Direction(name, away / length))
    return directions


TOLERANCE = 0.01  # a point of accuracy: how far from the target a split may be


@dataclass(frozen=True)
class Target:
    """What was asked for; one of ``like``, ``harder_than`` with ``by``, and ``learnt_accuracy``."""

    like: SplitLike | None = None
    harder_than: SplitLike | None = None
    by: float | None = None  # points of accuracy
    learnt_accuracy: float | None = None  # a share

    def __post_init__(self) -> None:
        if self.harder_than is not None and self.by is None:
            raise UserError("{harder_than} needs to know by how many points of accuracy", "give {by:15}")
        if self.by is not None and not 100 * TOLERANCE <= self.by <= 100:
            raise UserError(
                f"{{by}} is {self.by:g}; it counts points of accuracy, from 1 to 100",
                "give points, as in {by:15}",
            )
        if self.learnt_accuracy is not None and not 0 < self.learnt_accuracy < 1:
            raise UserError(
                f"A learnt accuracy of {self.learnt_accuracy:g} was asked for; it is a share between 0 and 1",
                "write 65 % as {learnt_accuracy:0.65}",
            )

    @property
    def reference(self) -> SplitLike | None:
        """Return the split that the target is measured from."""
        return self.like if self.like is not None else self.harder_than


def target_split(
    dataset: Dataset,
    proxy: Proxy,
    target: Target,
    ratios: Sequence[float] | None = None,
    order: str | Path | None = None,
    seed: int = 0,
) -> Split:
    """Search for the split that meets a target; UserError that says what can be reached when none does.

    Parameters
    ----------
    dataset : Dataset
        Whose classes are divided.
    proxy : Proxy
        Its features, ready to measure.
    target : Target
        What is asked for.
    ratios : sequence of 3 floats, optional
        Shares of the parts; those of the split that it is to be like, or 0.6, 0.2 and 0.2.
    order : path, optional
        For published splits: class ids in the order of their numbers.
    seed : int
        Of the noise in the search.
    """
    spec = target.reference
    references = [] if spec is None else open_reference(spec, dataset, ratios or RATIOS, order)
    sizes = _sizes(dataset, target, references, ratios)
    splitter = Splitter(dataset, proxy.features)
    searcher = Searcher(proxy, splitter.embeddings, sizes, seed)
    # Unmeasurable before anything is searched; a split at random has as many classes as any.
    check_measurable(proxy, dict(zip(SPLITS, assign(searcher.embeddings[:, 0], searcher.sizes), strict=True)))
    called = _called(spec, references)
    draws = [split.positions(dataset) for split in references]
    reference = measure_hardness(proxy, draws, called) if draws else None
    goal = _goal(target, reference)
    search = searcher.search(goal)
    parts = search.winner.parts
    hardness = measure_hardness(proxy, [dict(zip(SPLITS, parts, strict=True))])
    if _misses(goal, hardness):
        raise _unreachable(target, goal, called, search, hardness, proxy)
    made = {
        "mode": "target",
        "target": _asked(target, goal, called, reference),
        "hardness": hardness.record(),
        "direction": search.direction,
        "strength": "sorted" if search.divergence is None else search.winner.setting.strength,
        "divergence_along": search.divergence,
        "noise": search.winner.setting.noise,
        "searched": {"splits": search.splits, "learnt_accuracy": [search.lowest, search.highest]},
        "ratios": None if ratios is None else list(ratios),
        "seed": seed,
        "gap": gap(splitter.embeddings, parts[0], parts[2]),
        **seen_through(proxy.features),
    }
    return from_labels(_name(target, called), dataset, parts, made)


def _sizes(
    dataset: Dataset, target: Target, references: Sequence[Split], ratios: Sequence[float] | None
) -> tuple[int, int, int]:
    """Return the sizes of the parts: by the ratios, or as the split has them that it is to be like."""
    total = len(dataset.class_ids)
    if target.like is None or ratios is not None or len(references) > 1:
        return part_sizes(total, RATIOS if ratios is None else ratios)
    _, validation, test = references[0].sizes.values()
    return total - validation - test, validation, test


def _goal(target: Target, reference: Hardness | None) -> Goal:
    if target.like is not None and reference is not None:
        return Goal(reference.learnt.mean, reference.frozen.mean, reference.transfer_loss.mean)
    if reference is not None and target.by is not None:
        return Goal(reference.learnt.mean - target.by / 100)
    assert target.learnt_accuracy is not None
    return Goal(target.learnt_accuracy)


def _misses(goal: Goal, hardness: Hardness) -> bool:
    """Tell whether an accuracy is off by more than the tolerance, and more than its interval leaves open."""
    pairs = [
        (hardness.learnt, goal.learnt),
        *([(hardness.frozen, goal.frozen)] if goal.frozen is not None else []),
    ]
    return any(abs(interval.mean - wish) > max(TOLERANCE, interval.half or 0.0) for interval, wish in pairs)


def _unreachable(
    target: Target, goal: Goal, called: str, search: Search, hardness: Hardness, proxy: Proxy
) -> UserError:
    """Build the error for a target that no split of the search meets, with what they reach."""
    wish = f"a {proxy.way}-way {proxy.shot}-shot learnt accuracy of {percent(goal.learnt)} %"
    if target.like is not None and goal.frozen is not None:
        wish = f"{wish} with a frozen one of {percent(goal.frozen)} %, like '{called}'"
    elif target.harder_than is not None:
        wish = f"{wish}, {target.by:g} points below '{called}'"
    nearest = f"{percent(hardness.learnt.mean)} %"
    if goal.frozen is not None:
        nearest += f" learnt and {percent(hardness.frozen.mean)} % frozen"
    return UserError(
        f"No split of these {count(proxy.features.class_ids, 'class', 'classes')} under "
        f"'{proxy.features.backbone}' has {wish}: the {search.splits} that were tried reach "
        f"{percent(search.lowest)} to {percent(search.highest)} % learnt, and the nearest has {nearest}",
        "ask for an accuracy between, or try another {seed}",
    )


def _asked(target: Target, goal: Goal, called: str, reference: Hardness | None) -> dict[str, Any]:
    """Return the target as split.json records it: what was asked, and the accuracies that it came to."""
    words: dict[str, Any] = {}
    if target.like is not None:
        words["like"] = called
    if target.harder_than is not None:
        words |= {"harder_than": called, "by": target.by}
    words["learnt_accuracy"] = goal.learnt
    if goal.frozen is not None:
        words["frozen_accuracy"] = goal.frozen
    if reference is not None:
        words["measured"] = reference.record()
    return words


def _called(spec: SplitLike | None, references: Sequence[Split]) -> str:
    """Return the name of the split that a target is measured from."""
    if not references:
        return ""
    if len(references) > 1:
        return f"{spec} × {len(references)}"
    return references[0].name


def _name(target: Target, called: str) -> str:
    if target.like is not None:
        return f"like {called}"
    if target.harder_than is not None:
        return f"{target.by:g} harder than {called}"
    return f"learnt@{target.learnt_accuracy:g}"
