"""Splits that are as hard as another, harder than another by some points, or at a learnt accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from longshot.base import UserError, count
from longshot.data import SPLITS, Dataset
from longshot.tasks.splits.assign import RATIOS, assign, part_sizes
from longshot.tasks.splits.build import Splitter, seen_through
from longshot.tasks.splits.divergences import gap
from longshot.tasks.splits.hardness import (
    Hardness,
    check_measurable,
    hardness_of,
    measure_hardness,
    open_reference,
)
from longshot.tasks.splits.proxy import Proxy
from longshot.tasks.splits.search import Goal, Search, Searcher
from longshot.tasks.splits.split import Split, from_labels

if TYPE_CHECKING:
    SplitLike: TypeAlias = Split | str | Path

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
        """The split that the target is measured from."""
        return self.like if self.like is not None else self.harder_than


def target_split(
    dataset: Dataset,
    proxy: Proxy,
    target: Target,
    ratios: Sequence[float] | None = None,
    order: str | Path | None = None,
    seed: int = 0,
) -> Split:
    """The split that meets a target; UserError that says what can be reached when none does.

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
    _check_sizes(proxy, searcher)
    called = _called(spec, references)
    draws = [split.positions(dataset) for split in references]
    reference = hardness_of(proxy, draws, called) if draws else None
    goal = _goal(target, reference)
    search = searcher.search(goal)
    parts = search.winner.parts
    hardness = measure_hardness(proxy, dict(zip(SPLITS, parts, strict=True)))
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
    """Of the parts: by the ratios, or as the one split has them that it is to be like."""
    total = len(dataset.class_ids)
    if target.like is None or ratios is not None or len(references) > 1:
        return part_sizes(total, RATIOS if ratios is None else ratios)
    _, validation, test = references[0].sizes.values()
    return total - validation - test, validation, test


def _check_sizes(proxy: Proxy, searcher: Searcher) -> None:
    """Unmeasurable before anything is searched; a split at random has as many classes as any."""
    parts = assign(searcher.embeddings[:, 0], searcher.sizes)
    check_measurable(proxy, dict(zip(SPLITS, parts, strict=True)))


def _goal(target: Target, reference: Hardness | None) -> Goal:
    if target.like is not None and reference is not None:
        return Goal(reference.learnt.mean, reference.frozen.mean, reference.transfer_loss.mean)
    if reference is not None and target.by is not None:
        return Goal(reference.learnt.mean - target.by / 100)
    assert target.learnt_accuracy is not None
    return Goal(target.learnt_accuracy)


def _misses(goal: Goal, hardness: Hardness) -> bool:
    """Whether an accuracy is off by more than the tolerance, and more than its interval leaves open."""
    pairs = [
        (hardness.learnt, goal.learnt),
        *([(hardness.frozen, goal.frozen)] if goal.frozen is not None else []),
    ]
    return any(abs(interval.mean - wish) > max(TOLERANCE, interval.half or 0.0) for interval, wish in pairs)


def _unreachable(
    target: Target, goal: Goal, called: str, search: Search, hardness: Hardness, proxy: Proxy
) -> UserError:
    """The error for a target that no split of the search meets, with what they reach."""
    wish = f"a {proxy.way}-way {proxy.shot}-shot learnt accuracy of {100 * goal.learnt:.1f} %"
    if target.like is not None and goal.frozen is not None:
        wish = f"{wish} with a frozen one of {100 * goal.frozen:.1f} %, like '{called}'"
    elif target.harder_than is not None:
        wish = f"{wish}, {target.by:g} points below '{called}'"
    nearest = f"{100 * hardness.learnt.mean:.1f} %"
    if goal.frozen is not None:
        nearest += f" learnt and {100 * hardness.frozen.mean:.1f} % frozen"
    return UserError(
        f"No split of these {count(proxy.features.class_ids, 'class', 'classes')} under "
        f"'{proxy.features.backbone}' has {wish}: the {search.splits} that were tried reach "
        f"{100 * search.lowest:.1f} to {100 * search.highest:.1f} % learnt, and the nearest has {nearest}",
        "ask for an accuracy between, or try another {seed}",
    )


def _asked(target: Target, goal: Goal, called: str, reference: Hardness | None) -> dict[str, Any]:
    """The target as split.json tells it: what was asked, and the accuracies that it came to."""
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
    """What the split is called that a target is measured from."""
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
