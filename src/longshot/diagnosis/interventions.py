"""Does a suspected cause hold? Take it away, evaluate again, and compare with a change that leaves it alone.

``replace``: the supports that have the cause are replaced by images of the same class without it. Any replacement
brings accuracy back where supports were chosen to be difficult, so it is compared with two others of as many images:

- *same*: the same supports, replaced by other images that have the cause as well. Only the cause differs.
- *random*: supports of the same classes at random, replaced by any images. Where few images have the cause this takes
  it away too.

``pixels``: where the support looks altered, *same* are not other images but the very images of *without*, altered on
their pixels in the form nearest to what is seen, and embedded. So nothing but the cause differs, and none of the
dataset's images need have it.

All are drawn several times, and a task's number is the mean over its draws. With a_t, w_t, s_t and r_t the accuracy of
task t as it is, without the cause, with the same cause and after random replacement,

    gain = mean (w_t − a_t),  recovered = mean (w_t − s_t) ± t_{n−1} · s / √n,  beyond_random = mean (w_t − r_t) ± …

Where other images that have the cause are missing, recovered is taken against random replacement. A cause holds when
recovered is above 0 and its p (paired t test), corrected by Holm over all kinds, is at most 0.05; so its 95 % interval
never includes the control.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from longshot.base import Floats, Ints, TaskRows, count, progress
from longshot.diagnosis.attribute_gaps import Groups
from longshot.diagnosis.suspicions import MEANINGS, Suspicion
from longshot.diagnosis.swaps import Swaps, plan_swaps
from longshot.statistics import Interval, holm, mean_interval, plus_minus, t_p_value

DRAWS = 5  # replacements drawn per task
LEVEL = 0.05  # chance of claiming any cause that does not hold
REPLACE, PIXELS = "replace", "pixels"
Evaluate: TypeAlias = Callable[[TaskRows], Floats]  # tasks → accuracy of each, [T]
EvaluateAltered: TypeAlias = Callable[[Suspicion, Swaps], Floats]  # → accuracy of each task of ``without``


@dataclass(frozen=True)
class Exchange:
    """Supports of one class of one task, and the images that took their place: keys, in order."""

    task: int
    class_name: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    towards: str = ""  # the class that the support leans to


@dataclass(frozen=True)
class Intervention:
    """What came back when one suspected cause was taken away from the tasks of a dataset.

    Attributes
    ----------
    dataset, kind : str
        Where, and which cause.
    how : {"replace", "pixels"}
        By other images, or by altering images.
    suspected, of : int
        Tasks in which it is suspected, and tasks of the dataset.
    tasks : int
        Tasks in which it could be taken away: n of the intervals.
    images : int
        Images exchanged or altered, over these tasks.
    accuracy : float, optional
        Mean over these tasks as they are.
    against : {"same", "random"}
        The control behind ``recovered``.
    gain, control, random : Interval, optional
        Change of accuracy without the cause, under the control, and after random replacement. None where n is 0.
    recovered, beyond_random : Interval, optional
        ``gain`` minus ``control`` and minus ``random``, paired by task.
    p, adjusted : float, optional
        Of ``recovered``, and after Holm's correction over all kinds; None where n is below 2.
    holds : bool
        Whether it is claimed.
    shared : float, optional
        Share of the images that came at random which have the cause too.
    notes : tuple of str
        Why it could not be taken away, or not everywhere.
    by_task : mapping
        Task number → recovered.
    examples : tuple of Exchange
        What was exchanged, in the first draw.
    """

    dataset: str
    kind: str
    how: str
    suspected: int
    of: int
    tasks: int = 0
    images: int = 0
    accuracy: float | None = None
    gain: Interval | None = None
    against: str = "random"
    control: Interval | None = None
    random: Interval | None = None
    recovered: Interval | None = None
    beyond_random: Interval | None = None
    p: float | None = None
    adjusted: float | None = None
    holds: bool = False
    shared: float | None = None
    notes: tuple[str, ...] = ()
    by_task: Mapping[int, float] = field(default_factory=dict)
    examples: tuple[Exchange, ...] = ()

    @property
    def meaning(self) -> str:
        """Describe the kind in words."""
        return MEANINGS.get(self.kind, self.kind)

    @property
    def sentence(self) -> str:
        """Say ``because of blur: 31 of 60 tasks, 9.4 ± 2.1 points come back``, or that it does not hold."""
        where = f"{self.meaning}: {self.tasks:,} of {count(self.of, 'task')}"
        if self.recovered is None:
            return (
                f"{self.meaning}: suspected in {self.suspected:,} of {count(self.of, 'task')}, but not tested"
            )
        points, verb = (
            say_points(self.recovered),
            "come back" if self.holds else "come back, which may be chance",
        )
        if self.against == "random":
            compared = " against replacing as many at random"
        else:
            compared = f" ({say_points(self.beyond_random, signed=True)} against replacing as many at random)"
        return f"{'because of' if self.holds else 'not shown:'} {where}, {points} points {verb}{compared}"


def say_points(interval: Interval | None, *, signed: bool = False) -> str:
    """Return an interval in points of accuracy; a dash where there is none."""
    return "–" if interval is None else plus_minus(interval.mean, interval.half, "points", signed=signed)


def replace_suspects(
    suspicions: Sequence[Suspicion],
    bound: TaskRows,
    groups: Groups,
    offsets: Ints,
    evaluate: Evaluate,
    *,
    evaluate_altered: EvaluateAltered | None = None,
    dataset: str = "",
    keys: Callable[[Ints], Sequence[str]] | None = None,
    class_names: Sequence[str] = (),
    draws: int = DRAWS,
    seed: int = 0,
) -> list[Intervention]:
    """Replace the suspected supports, kind by kind; all draws and the control of a kind are one evaluation.

    Parameters
    ----------
    suspicions : sequence of Suspicion
        The kinds to try.
    bound : TaskRows
        T tasks of one dataset.
    groups : Groups
        Their classes.
    offsets : ints [C + 1]
        Where the rows of each class begin and end.
    evaluate : callable
        TaskRows → accuracy of each task.
    evaluate_altered : callable, optional
        The same for the tasks of ``Swaps.without`` with the images that came in altered; without it, alterations are
        compared with other images as well.
    dataset : str
        Its name.
    keys : callable, optional
        Rows → keys, for ``examples``; without it there are none.
    class_names : sequence [C]
        Names of the dataset's classes, for notes and examples.
    draws : int
        How often replacements are drawn.
    seed : int
        Another seed draws others.

    Returns
    -------
    list of Intervention
        One per kind; ``adjusted`` and ``holds`` are not set yet (``judge_interventions`` sets them over all).
    """
    before = evaluate(bound)
    interventions = []
    with progress("replace", total=len(suspicions), unit="causes") as bar:
        for suspicion in suspicions:
            by_pixels = evaluate_altered is not None and suspicion.altered
            if by_pixels:
                suspicion = suspicion.only_altered()
            swaps = plan_swaps(
                suspicion, bound, groups, offsets, draws=draws, seed=seed, paired=not by_pixels
            )
            tried = Intervention(
                dataset,
                suspicion.kind,
                PIXELS if by_pixels else REPLACE,
                suspected=len(np.unique(groups.task[suspicion.groups])),
                of=len(bound),
                notes=_notes(suspicion, swaps, groups, class_names, by_pixels),
            )
            if swaps is not None:
                n = len(swaps.positions)
                arms = [swaps.without, swaps.at_random, *([] if swaps.same is None else [swaps.same])]
                accuracy = evaluate(TaskRows.concat(arms)).reshape(len(arms), draws, n).mean(1)
                same = None if swaps.same is None else accuracy[2]
                if by_pixels and evaluate_altered is not None:
                    same = evaluate_altered(suspicion, swaps).reshape(draws, n).mean(0)
                tried = replace(
                    measured(
                        tried,
                        bound.tasks[swaps.positions],
                        before[swaps.positions],
                        without=accuracy[0],
                        random=accuracy[1],
                        same=same,
                    ),
                    images=swaps.images,
                    shared=swaps.shared,
                    examples=_examples(suspicion, swaps, bound, groups, keys, class_names),
                )
            interventions.append(tried)
            bar.advance()
    return interventions


def measured(
    tried: Intervention, tasks: Ints, before: Floats, *, without: Floats, random: Floats, same: Floats | None
) -> Intervention:
    """Fill in an intervention from the accuracy of n tasks before, without the cause and under controls."""
    control = random if same is None else same
    difference = without - control
    return replace(
        tried,
        tasks=len(tasks),
        accuracy=float(before.mean()),
        against="random" if same is None else "same",
        gain=mean_interval(without - before),
        control=mean_interval(control - before),
        random=mean_interval(random - before),
        recovered=mean_interval(difference),
        beyond_random=mean_interval(without - random),
        p=p_of_mean(difference),
        by_task=dict(zip(tasks.tolist(), difference.tolist(), strict=True)),
    )


def judge_interventions(interventions: Sequence[Intervention], *, level: float = LEVEL) -> list[Intervention]:
    """Correct for the number of kinds and say which hold; those that bring back most come first."""
    tested = [each for each in interventions if each.p is not None]
    adjusted = dict(zip(map(id, tested), holm([each.p or 0.0 for each in tested]).tolist(), strict=True))
    judged = []
    for each in interventions:
        p = adjusted.get(id(each))
        holds = p is not None and p <= level and each.recovered is not None and each.recovered.mean > 0
        judged.append(replace(each, adjusted=p, holds=holds))
    return sorted(
        judged,
        key=lambda each: (not each.holds, -(each.recovered.mean if each.recovered else -math.inf), each.kind),
    )


def p_of_mean(values: Floats) -> float | None:
    """Compute the two-sided p of the t test that the mean of n values is 0; None for fewer than two."""
    if len(values) < 2:
        return None
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
    if error == 0:
        return 0.0 if mean else 1.0
    return t_p_value(mean / error, len(values) - 1)


def _notes(
    suspicion: Suspicion, swaps: Swaps | None, groups: Groups, class_names: Sequence[str], by_pixels: bool
) -> tuple[str, ...]:
    """Say in one sentence where images with or without the cause are missing or too few."""

    def named(members: Ints) -> str:
        labels = np.unique(groups.label[members])
        name = f" (first '{class_names[labels[0]]}')" if len(class_names) else ""
        return f"{count(len(labels), 'class', 'classes')}{name}"

    if swaps is None:
        return (
            f"{suspicion.kind}: not tested, for no image outside the tasks is without it, in "
            f"{named(suspicion.groups)}; replacement needs at least 1 per class.",
        )
    notes = []
    if len(swaps.barren):
        notes.append(f"no other image is without it in {named(swaps.barren)}")
    if len(swaps.spent):
        notes.append(f"no other image has it to compare with in {named(swaps.spent)}")
    if len(swaps.scarce):
        notes.append(f"too few other images for every support in {named(swaps.scarce)}")
    if swaps.same is None and not by_pixels:
        notes.append(
            "too few other images have it, so that random replacement is the only control "
            f"({swaps.shared:.0%} of its images have it)"
        )
    return (f"{suspicion.kind}: {'; '.join(notes)}.",) if notes else ()


def _examples(
    suspicion: Suspicion,
    swaps: Swaps,
    bound: TaskRows,
    groups: Groups,
    keys: Callable[[Ints], Sequence[str]] | None,
    class_names: Sequence[str],
) -> tuple[Exchange, ...]:
    if keys is None:
        return ()
    exchanges = []
    towards = {} if suspicion.towards is None else dict(zip(suspicion.groups, suspicion.towards, strict=True))
    for swap in swaps.first:
        task = int(bound.tasks[groups.task[swap.group]])
        name = class_names[int(groups.label[swap.group])] if len(class_names) else ""
        leans = class_names[int(towards[swap.group])] if swap.group in towards and len(class_names) else ""
        exchanges.append(Exchange(task, name, tuple(keys(swap.removed)), tuple(keys(swap.added)), leans))
    return tuple(exchanges)
