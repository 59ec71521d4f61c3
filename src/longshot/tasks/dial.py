"""Tasks of a chosen accuracy: what makes them hard in a stated order, calibrated on some networks, certified on others.

Every ingredient adds steps to a path from the easiest tasks over uniform ones to the hardest:

    easy       supports that judges succeed on, before the uniform tasks
    classes    classes that look alike
    supports   difficult supports
    shots      half the shots, then one
    ways       twice as many classes, then four times; before the easy supports three classes, then two

A step holds all those before it. Accuracies of the steps are those of the calibrating networks on tasks of a seed of
their own, whose queries nobody chose on. A target between two neighbouring steps a and b is met by a share
f = (accuracy_a − target) / (accuracy_a − accuracy_b) of tasks of b among tasks of a: linear for every network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from longshot.base import Floats, Ints, TaskRows, UserError, note
from longshot.statistics import mean_interval, percent
from longshot.tasks.base import Pool
from longshot.tasks.content import named_only, used_keys
from longshot.tasks.judges import (
    Judge,
    TaskScorer,
    as_list,
    check_different,
    embedded_judges,
    measure_drops,
    named_networks,
)
from longshot.tasks.measures import NetworkDrop, predict_network, rounded
from longshot.tasks.testbed import Testbed

if TYPE_CHECKING:
    from longshot.data import Dataset

INGREDIENTS = ("easy", "classes", "supports", "shots", "ways")
_CALIBRATION = 300  # tasks of each step on which accuracy is measured
_OTHER_SEED = 1_000_003  # apart from the user's: calibrating tasks, and those of the harder of two steps
# (words of ``sample``, number of tasks, seed) → testbed
Drawn = Callable[[Mapping[str, Any], int, int], Testbed]


class Step(NamedTuple):
    """A place on the path: what it is called, and the words of ``sample`` that draw it."""

    name: str
    words: Mapping[str, Any]


class Panel(NamedTuple):
    """Who chooses, who calibrates and who certifies; no network is in two of them, unless none is left to calibrate."""

    judges: Sequence[Any]
    calibrate: Sequence[Any]
    held_out: Sequence[Any]


def check_target(settings: Mapping[str, Any], choices: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ingredients in their order; UserError for a target or a choice that the dial cannot follow."""
    target, ingredients = settings["target_accuracy"], settings.get("ingredients") or INGREDIENTS
    listed = ingredients if isinstance(ingredients, str) else ",".join(ingredients)
    names = tuple(name.strip() for name in listed.split(",") if name.strip())
    if not 0 < target < 1:
        raise UserError(
            f"{{target_accuracy:{target}}} is no accuracy", "give a share between 0 and 1, such as 0.55"
        )
    for name in names:
        if name not in INGREDIENTS or names.count(name) > 1:
            raise UserError(
                f"'{name}' is {'named twice' if name in INGREDIENTS else 'nothing'} that makes tasks hard or easy",
                f"choose among {', '.join(INGREDIENTS)}, each at most once",
            )
    if settings.get("difficulty") is not None:
        raise UserError("{target_accuracy} finds the difficulty that {difficulty} sets", "leave one out")
    for choice, word in {"shape": "fixed", "instances": "uniform", "classes": "uniform"}.items():
        if choices[choice] != word and (choice != "classes" or choice in names):
            remaining = ",".join(name for name in names if name != "classes")
            instead = f", or {{ingredients:{remaining}}}" if choice == "classes" else ""
            raise UserError(
                f"{{target_accuracy:{target:g}}} chooses the {choice} itself, and {{{choice}}} is given",
                f"leave it out{instead}",
            )
    return names


def make_steps(names: Sequence[str], way: int, shot: int, classes: int) -> list[Step]:
    """Return the path: easy supports first if they are among the ingredients, then uniform tasks, then the others.

    >>> [step.name for step in make_steps(("supports", "shots"), way=5, shot=5, classes=20)]
    ['uniform', 'supports', 'supports, 2 shots', 'supports, 1 shot']
    """
    options: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "classes": [("alike classes", {"classes": "alike"})],
        "supports": [("supports", {"instances": "difficult"})],
        "shots": [
            ("1 shot" if k == 1 else f"{k} shots", {"shot": k})
            for k in sorted({shot // 2, 1} - {0, shot}, reverse=True)
        ],
        "ways": [(f"{w} ways", {"way": w}) for w in (2 * way, 4 * way) if w <= classes],
    }
    easy: dict[str, Any] = {"instances": "easy"} if "easy" in names else {}
    steps = [Step(f"{w} ways", {**easy, "way": w}) for w in (2, 3) if w < way and "ways" in names]
    steps += [*([Step("easy supports", easy)] if easy else []), Step("uniform", {})]
    labels: list[str] = []
    words: dict[str, Any] = {}
    for name in names:
        for label, change in options.get(name, ()):
            words = {**words, **change}
            steps.append(Step(", ".join([*labels, label]), words))
        if options.get(name):
            labels.append(options[name][-1][0])
    return steps


def choose_panel(settings: Mapping[str, Any]) -> Panel:
    """Return the networks that are named, and for the parts without any those that are installed."""
    from longshot.models import default_networks

    named = {part: named_networks(settings.get(part)) for part in ("judge", "calibrate", "held_out")}
    taken = {str(network) for networks in named.values() for network, _ in networks}
    spare = [name for name in default_networks() if name not in taken and name != "pixels"]
    chosen = {part: as_list(settings.get(part)) for part in named}
    if settings.get("features") is None and not chosen["judge"]:
        chosen["judge"] = [spare.pop(0) if spare else "pixels"]
    if not chosen["held_out"] and len(spare) > 1:
        chosen["held_out"] = [spare.pop()]
    if not chosen["calibrate"]:
        chosen["calibrate"] = spare  # of photos two are nearer to a third than one is
    return Panel(chosen["judge"], chosen["calibrate"], chosen["held_out"])


def reach_target(
    sampled: Drawn,
    dataset: Dataset,
    rows: Ints,
    settings: Mapping[str, Any],
    names: Sequence[str],
    *,
    tasks: int,
    seed: int,
    classes: int,
    score: TaskScorer,
    device: str = "auto",
) -> Testbed:
    """Draw tasks on which networks that took no part have the target accuracy.

    Parameters
    ----------
    sampled : callable
        ``sample`` of this dataset: words, number of tasks and seed → testbed.
    dataset : Dataset
        What tasks are drawn from.
    rows : array of int
        Its images that tasks may have.
    settings : mapping
        Those of ``sample``, with ``target_accuracy``.
    names : sequence of str
        Ingredients in their order.
    tasks, seed : int
        Tasks to draw.
    classes : int
        Classes that may be drawn.
    score : callable
        How networks are measured.
    device : str
        Where to compute.

    Returns
    -------
    Testbed
        ``meta["sampler"]["target"]`` holds the steps with their accuracies, the two that were mixed, and the accuracy
        of the held-out networks on the tasks with its 95 % interval.
    """
    target, panel = float(settings["target_accuracy"]), choose_panel(settings)
    judges, calibrate, held_out = (
        embedded_judges(dataset, list(part), rows, device)
        for part in (panel.judges, panel.calibrate, panel.held_out)
    )
    check_different(judges, [*calibrate, *held_out])
    check_different(calibrate, held_out)
    if not calibrate:
        note(
            "no other network is named or installed, so the judges calibrate: others will find the tasks easier"
        )
    measuring = calibrate or judges

    def draw(step: Step, number: int, own_seed: int) -> Testbed:
        words = {"suspects": list(panel.judges), **step.words}
        if "classes" in words or "instances" in words:
            words["judge"] = list(panel.judges)
        if "instances" in words:
            words |= {"fresh_queries": True, **_search_settings(settings)}
        return sampled(words, number, own_seed)

    def accuracy(testbed: Testbed, networks: Sequence[Judge]) -> Floats:
        """Return the mean accuracy of some networks on each task."""
        bound = testbed.bind(dataset.name, dataset.keys, dataset.fingerprint)
        each = [score(network.method, bound, network.features, device)[1] for network in networks]
        means: Floats = np.mean(each, axis=0)
        return means

    shot, way = settings.get("shot") or 5, settings.get("way") or 5
    steps = make_steps(names, way, shot, classes)
    start = next(number for number, step in enumerate(steps) if step.name == "uniform")
    beds: dict[int, Testbed] = {}
    reached: dict[int, float] = {}

    def at(number: int) -> float:
        if number not in reached:
            beds[number] = draw(steps[number], min(tasks, _CALIBRATION), seed + _OTHER_SEED)
            reached[number] = float(accuracy(beds[number], measuring).mean())
        return reached[number]

    order = range(start - 1, -1, -1) if at(start) < target else range(start, len(steps) - 1)
    number = next((each for each in order if at(each) >= target >= at(each + 1)), None)
    if number is None:
        every = [at(each) for each in range(len(steps))]
        raise UserError(
            f"{{target_accuracy:{target:g}}} cannot be reached on '{dataset.name}': accuracy is {max(every):.3f} on "
            f"{steps[int(np.argmax(every))].name} and {min(every):.3f} on {steps[int(np.argmin(every))].name}",
            "choose a target between, or allow more with {ingredients}",
        )
    high, low = at(number), at(number + 1)
    share = (high - target) / max(high - low, 1e-9)
    harder = round(share * tasks)
    parts = [
        draw(steps[number + side], count, seed + side * 2 * _OTHER_SEED)
        for side, count in ((0, tasks - harder), (1, harder))
        if count
    ]
    places = np.random.default_rng([seed, tasks]).permutation(tasks)
    columns = [name for name in parts[0].table.column_names if name in parts[-1].table.column_names]
    table = pa.concat_tables([part.table.select(columns) for part in parts]).take(pa.array(places))
    table = table.set_column(table.column_names.index("task"), "task", pa.array(np.arange(tasks)))
    table = table.append_column("harder", pa.array((places >= tasks - harder).astype(np.int8)))
    joined = (
        parts[-1]
        .changed(table, content={dataset.name: named_only(len(used_keys(table, dataset.name)))}, seed=seed)
        .with_content({dataset.name: dataset})
    )
    uniform, final = (
        bed.bind(dataset.name, dataset.keys, dataset.fingerprint) for bed in (beds[start], joined)
    )
    drops = [
        drop
        for part, members in (("judge", judges), ("calibrating", calibrate), ("held out", held_out))
        for drop in measure_drops(part, members, uniform, final, score, device)  # type: ignore[arg-type]
    ]
    certified = mean_interval(accuracy(joined, held_out)) if held_out else None
    free = [NetworkDrop(**drop) for drop in drops if drop["part"] != "judge"]
    facts = {
        "accuracy": target,
        "with": list(names),
        "steps": [[steps[each].name, rounded(at(each))] for each in sorted(reached)],  # in the path's order
        "between": [steps[number].name, steps[number + 1].name],
        "harder": round(share, 4),
        "certified": certified and {end: rounded(getattr(certified, end)) for end in ("mean", "low", "high")},
        "further": {name: rounded(value) for name, value in predict_network(free)} if len(free) > 1 else None,
    }
    sampler = {**parts[-1].meta["sampler"], "tasks": tasks, "target": facts, "drops": drops}
    return joined.changed(joined.table, sampler=sampler)


def say_target(sampler: Mapping[str, Any]) -> list[str]:
    """Say what a dial was set to and what it met; nothing for tasks without a target.

    ``target 0.45: 62 % of tasks are [supports], the others [uniform]; held out 0.456 (0.443 to 0.469)``
    """
    facts = sampler.get("target")
    if not facts:
        return []
    met = facts["certified"]
    ends = "" if met is None or met["low"] is None else f" ({met['low']:.3f} to {met['high']:.3f})"
    certified = "nobody was held out" if met is None else f"held out {met['mean']:.3f}{ends}"
    gap = 0.0 if met is None else met["mean"] - facts["accuracy"]
    if abs(gap) > 0.02:
        certified += f", {percent(abs(gap))} points {'above' if gap > 0 else 'below'} the target"
    easier, harder = facts["between"]
    share = f"{percent(facts['harder'], 0)} %"
    return [
        f"target {facts['accuracy']:g}: {share} of tasks are [{harder}], the others [{easier}]; {certified}",
        "steps: " + "; ".join(f"{name} {value:.3f}" for name, value in facts["steps"]),
    ]


def fresh_queries(tasks: TaskRows, pool: Pool, entropy: Sequence[int]) -> tuple[TaskRows, Ints]:
    """Replace the queries that supports were chosen on by others of the same classes: (tasks, queries replaced [T]).

    Where a class has too few other images, old queries stay.

    Parameters
    ----------
    tasks : TaskRows
        With the plan that they were drawn for.
    pool : Pool
        What they were drawn from.
    entropy : sequence of int
        Of the random stream; every task has its own.
    """
    streams = [np.random.default_rng([*entropy, int(task), 1]) for task in tasks.tasks]
    used = tasks.slot_query

    def others(task: int, slot: int, free: Ints, number: int) -> Ints:
        return streams[task].permutation(free[~np.isin(free, used.row(slot))])[:number]

    return replace_queries(tasks, pool, others)


def replace_queries(
    tasks: TaskRows, pool: Pool, pick: Callable[[int, int, Ints, int], Ints]
) -> tuple[TaskRows, Ints]:
    """Replace queries by what ``pick(task, slot, rows, number)`` takes of the rows that may be asked.

    These are the rows of the slot's class that are neither support nor a copy of one. Returns (tasks, queries [T] that
    were taken); where fewer are taken, old queries stay.
    """
    query, replaced = tasks.query.values.copy(), np.zeros(len(tasks), np.int64)
    plan, allowed = tasks.plan, pool.query_mask
    begins = np.concatenate([[0], np.cumsum(plan.queries.values)])
    for task in range(len(tasks)):
        support = tasks.support.row(task)
        for slot in range(*plan.slots_of(task)):
            label, part = int(plan.classes.values[slot]), slice(int(begins[slot]), int(begins[slot + 1]))
            rows = np.arange(pool.dataset.offsets[label], pool.dataset.offsets[label + 1])
            free = np.ones(len(rows), np.bool_) if allowed is None else allowed[rows]
            free &= ~np.isin(rows, support)
            if pool.twins is not None:
                free &= ~np.isin(pool.twins[rows], support)
            chosen = pick(task, slot, rows[free], part.stop - part.start)
            query[part.start : part.start + len(chosen)] = chosen
            replaced[task] += len(chosen)
    return replace(tasks, query=tasks.query.with_values(query)), replaced


def _search_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that say how supports are searched for."""
    names = ("objective", "temperature", "distance_metric", "raw_features", "refine", "greedy", "judging")
    return {name: settings[name] for name in names if settings.get(name) is not None}
