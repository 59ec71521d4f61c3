"""From gaps to sentences: what a person would say about a task, strongest evidence first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longshot.causes.columns import AttributeColumn
from longshot.causes.gaps import Gaps
from longshot.core.arrays import Ints

LEVEL = 0.05  # share of false discoveries that is put up with
# attribute → (the support has less, the support has more)
_WORDS = {
    "brightness": ("is darker than", "is brighter than"),
    "contrast": ("has less contrast than", "has more contrast than"),
    "saturation": ("is paler than", "is more colourful than"),
    "sharpness": ("is blurrier than", "is sharper than"),
    "edges": ("has fewer edges than", "has more edges than"),
    "object_scale": ("shows smaller objects than", "shows larger objects than"),
    "noise": ("is less noisy than", "is noisier than"),
    "background": ("has a plainer background than", "has a busier background than"),
    "aspect": ("is taller than", "is wider than"),
}
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


def findings(gaps: Gaps, task: int, names: Sequence[str], *, level: float = LEVEL) -> list[Finding]:
    """What sets the support of one task apart, strongest evidence first.

    One finding per attribute: over the whole task where that is significant, else in single classes.

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
    significant: list[Finding] = []
    for members in gaps.attributes().values():
        over_task = [c for c in members if gaps.task_adjusted[c, task] <= level]
        if over_task:
            best = min(over_task, key=lambda c: float(gaps.task_p[c, task]))
            significant.append(_over_task(gaps, best, members, task, groups, names))
            continue
        for group in groups:
            in_class = [c for c in members if gaps.adjusted[c, group] <= level]
            if in_class:
                best = min(in_class, key=lambda c: float(gaps.p[c, group]))
                significant.append(_in_class(gaps, best, members, int(group), names))
    return sorted(significant, key=lambda finding: (finding.p, finding.attribute))


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


def _over_task(
    gaps: Gaps, best: int, members: Sequence[int], task: int, groups: Ints, names: Sequence[str]
) -> Finding:
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
    )


def _in_class(gaps: Gaps, best: int, members: Sequence[int], group: int, names: Sequence[str]) -> Finding:
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
    )


def _say(
    columns: Sequence[AttributeColumn], best: int, means: Sequence[tuple[float, float]], effect: float
) -> str:
    """``support is darker than the queries by 1.8 σ``, or the shares of the values that differ most."""
    column = columns[best]
    if column.value is None:
        less, more = _WORDS.get(column.attribute) or [word.format(column.attribute) for word in _OTHER]
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
