"""From gaps to sentences: what a person would say about a task, strongest evidence first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from longshot.base import Ints
from longshot.diagnosis.alterations import ALTERED
from longshot.diagnosis.columns import AttributeColumn
from longshot.diagnosis.gaps import Gaps
from longshot.diagnosis.kinds import MEASURES, kind_of
from longshot.diagnosis.naming import class_scope, name_causes, task_scope

LEVEL = 0.05  # share of false discoveries that is put up with
_OTHER = ("is lower in '{}' than", "is higher in '{}' than")


@dataclass(frozen=True)
class Finding:
    """One attribute in which the support of a task, or of one of its classes, is unlike the queries."""

    attribute: str
    class_index: int | None  # position in the task's classes; None: over the whole task
    effect: float  # within-class standard deviations, or share, support minus query
    support: float  # mean over the support
    query: float
    p: float
    adjusted: float
    sentence: str
    worst: int  # the class in which the gap is widest: where the evidence is best seen
    kind: str = ""  # of cause (``kinds.kind_of``)
    symptoms: tuple[Finding, ...] = ()  # what differs as well, and is explained by this cause


def findings(gaps: Gaps, task: int, names: Sequence[str], *, level: float = LEVEL) -> list[Finding]:
    """What sets the support of one task apart, strongest evidence first.

    An attribute counts over the whole task where that is significant, else in single classes. Of attributes that go
    together the one that explains the others is the finding, and they are its symptoms (``naming``).

    Parameters
    ----------
    gaps : Gaps
        Of the whole testbed, so that p is corrected over all of it.
    task : int
        Position of the task among the bound ones.
    names : sequence
        Names of the task's classes.
    level : float
        The largest adjusted p that counts.
    """
    groups = np.flatnonzero(gaps.groups.task == task)
    over_task, in_class = _significant(gaps, task, groups, level)
    causes = []
    for named in name_causes(gaps, task_scope(gaps, task), over_task):
        cause, *symptoms = (
            _over_task(gaps, column, task, groups, names) for column in (named.column, *named.symptoms)
        )
        causes.append(_joined(cause, symptoms))
    for group, columns in in_class.items():
        for named in name_causes(gaps, class_scope(gaps, group), columns):
            cause, *symptoms = (
                _in_class(gaps, column, group, names) for column in (named.column, *named.symptoms)
            )
            causes.append(_joined(cause, symptoms))
    first = causes[:1] if over_task else []  # named to be the cause, whatever p its symptoms have
    return first + sorted(causes[len(first) :], key=lambda cause: (cause.p, cause.attribute))


def _significant(gaps: Gaps, task: int, groups: Ints, level: float) -> tuple[list[int], dict[int, list[int]]]:
    """The best column of every attribute that is significant over the task, and of the others by class."""
    over_task: list[int] = []
    in_class: dict[int, list[int]] = {}
    for members in gaps.attributes().values():
        real = [c for c in members if gaps.task_adjusted[c, task] <= level]
        if real:
            over_task.append(min(real, key=lambda c: float(gaps.task_p[c, task])))
            continue
        for group in groups.tolist():
            single = [c for c in members if gaps.adjusted[c, group] <= level]
            if single:
                in_class.setdefault(group, []).append(min(single, key=lambda c: float(gaps.p[c, group])))
    return over_task, in_class


def _joined(cause: Finding, symptoms: Sequence[Finding]) -> Finding:
    """A cause with its symptoms: together they are as sure as the surest of them."""
    surest = min([cause, *symptoms], key=lambda each: each.p)
    return replace(cause, symptoms=tuple(symptoms), p=surest.p, adjusted=surest.adjusted)


def strongest(gaps: Gaps, task: int) -> list[tuple[str, float]]:
    """Every attribute with its smallest p in the task (over all classes, or Šidák-corrected in one), smallest first.

    Significant or not: this ranks the candidates, :func:`findings` says which of them are real.
    """
    groups = np.flatnonzero(gaps.groups.task == task)
    ranked = []
    for attribute, members in gaps.attributes().items():
        over_task = np.nanmin(np.append(gaps.task_p[members, task], 1.0))
        single = np.nanmin(np.append(gaps.p[members][:, groups].ravel(), 1.0))
        corrected = -np.expm1(len(groups) * np.log1p(-min(single, 1 - 1e-16)))
        ranked.append((attribute, float(min(over_task, corrected))))
    return sorted(ranked, key=lambda candidate: (candidate[1], candidate[0]))


def _over_task(gaps: Gaps, best: int, task: int, groups: Ints, names: Sequence[str]) -> Finding:
    members = gaps.attributes()[gaps.columns[best].attribute]
    effects = gaps.effect[best, groups]
    effect = float(gaps.task_effect[best, task])
    same = int((np.sign(effects) == np.sign(effect)).sum())
    worst = int(np.nanargmax(effects * np.sign(effect)))
    means = [
        (float(np.nanmean(gaps.support[c, groups])), float(np.nanmean(gaps.query[c, groups])))
        for c in members
    ]
    support, query = means[members.index(best)]
    difference = _say([gaps.columns[c] for c in members], members.index(best), means, effect)
    extent = "in every class" if same == len(groups) else f"in {same} of {len(groups)} classes"
    return Finding(
        attribute=gaps.columns[best].attribute,
        class_index=None,
        effect=effect,
        support=support,
        query=query,
        p=float(gaps.task_p[best, task]),
        adjusted=float(gaps.task_adjusted[best, task]),
        sentence=f"{difference}, {extent}, most in '{names[worst]}'",
        worst=worst,
        kind=kind_of(gaps.columns[best].attribute),
    )


def _in_class(gaps: Gaps, best: int, group: int, names: Sequence[str]) -> Finding:
    members = gaps.attributes()[gaps.columns[best].attribute]
    position = int(gaps.groups.position[group])
    effect = float(gaps.effect[best, group])
    means = [(float(gaps.support[c, group]), float(gaps.query[c, group])) for c in members]
    difference = _say([gaps.columns[c] for c in members], members.index(best), means, effect)
    return Finding(
        attribute=gaps.columns[best].attribute,
        class_index=position,
        effect=effect,
        support=float(gaps.support[best, group]),
        query=float(gaps.query[best, group]),
        p=float(gaps.p[best, group]),
        adjusted=float(gaps.adjusted[best, group]),
        sentence=f"class '{names[position]}': {difference}",
        worst=position,
        kind=kind_of(gaps.columns[best].attribute),
    )


def _say(
    columns: Sequence[AttributeColumn], best: int, means: Sequence[tuple[float, float]], effect: float
) -> str:
    """``support is darker than the queries by 1.8 σ``, or the shares of the values that differ most."""
    column = columns[best]
    if column.attribute in ALTERED:
        sides = ("support", "the queries") if effect > 0 else ("queries", "the support")
        words = ALTERED[column.attribute].words
        verb = words if effect > 0 else re.sub("^is", "are", re.sub("^has", "have", words))
        return f"{sides[0]} {verb} {sides[1]} by {abs(effect):.1f} σ"
    if column.value is None:
        less, more = [word.format(column.attribute) for word in _OTHER]
        if column.attribute in MEASURES:
            _, less, more = MEASURES[column.attribute]
        return f"support {less if effect < 0 else more} the queries by {abs(effect):.1f} σ"
    if len(columns) == 1:
        support, query = means[0]
        return f"'{column.attribute}' in {support:.0%} of the support, {query:.0%} of the queries"
    ahead = max(range(len(columns)), key=lambda c: means[c][0] - means[c][1])
    behind = min(range(len(columns)), key=lambda c: means[c][0] - means[c][1])
    return f"{column.attribute}: support {_share(columns[ahead], means[ahead], 0)}, " + (
        f"queries {_share(columns[behind], means[behind], 1)}"
    )


def _share(column: AttributeColumn, means: tuple[float, float], side: int) -> str:
    """``all side`` or ``80 % side (queries 10 %)``."""
    share, other = means[side], means[1 - side]
    if share >= 0.995:
        return f"all {column.value}"
    return f"{share:.0%} {column.value} (against {other:.0%})"
