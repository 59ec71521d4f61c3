"""What the paper says about domains, set against the tasks at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from longshot.core.arrays import Floats, Ints
from longshot.reports.sheets import Sheet
from longshot.reports.summary import column_marks
from longshot.statistics import Interval, correlation, dataset_difficulty, mean_interval, slope, welch
from longshot.studies.cross_domain.plan import METHODS
from longshot.studies.cross_domain.scores import CROSS, OTHER, OWN, WITHIN, SettingTasks, TasksBySetting
from longshot.studies.engine.tables import Fact, TableFile, heads, points, ratio, row

_YES, _NO, _OPEN = "confirmed", "contradicted", "not decided by these tasks"


def differences_table(methods: Sequence[str], tasks: TasksBySetting) -> TableFile:
    """Within minus cross, and its two parts: where the network was trained, and the shape of the tasks."""
    records: list[Fact] = []
    rows = []
    for method in methods:
        parts = differences(tasks, method)
        trained = METHODS[method][0] is not None
        shown = [points(parts["within − cross"])]
        shown += [points(parts["training"]) if trained else "–", points(parts["shape"])]
        rows.append(row(method, *shown))
        for name, interval in parts.items():
            numbers = {"difference": interval.mean, "low": interval.low, "high": interval.high}
            records.append({"method": method, "what": name, **numbers, "tasks": interval.n})
    columns = ("own − other domains' network, same tasks", "fixed − any shape, same network")
    names = [*heads("baseline", "within − cross"), *heads(*columns, group="of that")]
    note = (
        "Points of normalised accuracy with 95 % intervals over tasks (Welch; the second column paired by task). The "
        "first is the sum of the other two. They hold for these very domains and networks. Train-from-scratch has no "
        "training to differ in."
    )
    return TableFile(
        "differences", [Sheet("From within to across domains", names, [rows], note, labels=1)], records
    )


def differences(tasks: TasksBySetting, method: str) -> dict[str, Interval]:
    """Normalised accuracy within − cross; own − other network on the same tasks; fixed − any shape, other network."""
    own, other = (tasks[WITHIN].normalised[trained, method] for trained in (OWN, OTHER))
    varied = tasks[CROSS].normalised[OTHER, method]
    return {
        "within − cross": welch(own, varied),
        "training": mean_interval(own - other),
        "shape": welch(other, varied),
    }


def claims_table(methods: Sequence[str], tasks: TasksBySetting, *, random: bool) -> TableFile:
    """The paper's sentences, what was measured, and whether it agrees."""
    cross = tasks[CROSS]
    scores = cross.scores(OTHER, methods)
    claims = [
        _harder(methods, tasks),
        _sweep("Accuracy falls with the number of ways", scores, cross.way, -1),
        _sweep("Accuracy rises with the number of shots", scores, cross.shot, 1),
        _early(scores, cross.shot),
        _order(methods, cross, scores),
    ]
    if random and "prototypical" in methods and len(methods) > 1:
        claims.insert(1, _place("prototypical", "Prototypical Networks are best without pre-training", tasks))
    if "train-from-scratch" in methods and len(methods) > 1:
        claims.insert(2, _lowest("train-from-scratch", "Train-from-scratch is the worst baseline", tasks))
    claims.append(_spread(methods, tasks))
    names = heads("the paper says", "here", "verdict")
    rows = [row(claim["claim"], claim["here"], claim["verdict"]) for claim in claims]
    note = (
        "Normalised accuracy throughout; intervals at 95 % over the tasks of these very domains and networks. A small "
        "run with short trainings can leave open, or contradict, what long ones show."
    )
    return TableFile(
        "claims", [Sheet("What the paper says, and what was seen", names, [rows], note, labels=3)], claims
    )


def _harder(methods: Sequence[str], tasks: TasksBySetting) -> dict[str, str]:
    drops = {method: differences(tasks, method)["within − cross"] for method in methods}
    listed = "; ".join(f"{method} {points(drop)}" for method, drop in drops.items())
    above = [drop.low is not None and drop.low > 0 for drop in drops.values()]
    below = [drop.high is not None and drop.high < 0 for drop in drops.values()]
    verdict = _YES if all(above) else _NO if any(below) else _OPEN
    if verdict == _OPEN and any(above):
        verdict = f"{_YES} for {sum(above)} of {len(methods)} baselines, open for the others"
    return _claim(
        "Cross-domain any-way any-shot is harder than within-domain 5-way 5-shot",
        f"within − cross, points: {listed}",
        verdict,
    )


def _place(method: str, claim: str, tasks: TasksBySetting) -> dict[str, str]:
    """Whether a baseline has the first place, shares it, or has lost it, in both settings."""
    sentences, verdicts = [], {}
    for setting, trained in ((WITHIN, OWN), (CROSS, OTHER)):
        methods = [name for kind, name in tasks[setting].normalised if kind == trained]
        scores = tasks[setting].scores(trained, methods)
        marks = dict(zip(methods, column_marks(scores), strict=True))
        verdicts[setting] = {"best": _YES, "tied": _OPEN, "": _NO}[marks[method]]
        first = ", ".join(name for name, mark in marks.items() if mark)
        sentences.append(f"{setting}: first place {first or 'not decided'}")
    return _claim(claim, "; ".join(sentences), _either(verdicts))


def _lowest(method: str, claim: str, tasks: TasksBySetting) -> dict[str, str]:
    """Whether a baseline is below every other on the same tasks, in both settings."""
    sentences, verdicts = [], {}
    for setting, trained in ((WITHIN, OWN), (CROSS, OTHER)):
        values = {
            name: scores for (kind, name), scores in tasks[setting].normalised.items() if kind == trained
        }
        level = 1 - 0.05 / (len(values) - 1)  # Bonferroni over the others
        gaps = {
            name: mean_interval(scores - values[method], level)
            for name, scores in values.items()
            if name != method
        }
        nearest = min(gaps, key=lambda name: gaps[name].mean)
        sentences.append(f"{setting}: lowest other − {method} = {points(gaps[nearest])} points ({nearest})")
        above = [gap.low is not None and gap.low > 0 for gap in gaps.values()]
        below = [gap.high is not None and gap.high < 0 for gap in gaps.values()]
        verdicts[setting] = _YES if all(above) else _NO if any(below) else _OPEN
    return _claim(claim, "; ".join(sentences), _either(verdicts))


def _sweep(claim: str, scores: Floats, x: Ints, sign: int) -> dict[str, str]:
    """Rank correlation of a task's mean score over baselines with its ways or shots."""
    rank = correlation(x, scores.mean(axis=1), "spearman")
    low, high = sorted((sign * rank.low, sign * rank.high))
    verdict = _YES if low > 0 else _NO if high < 0 else _OPEN
    return _claim(claim, f"Spearman's r {ratio(rank.r, rank.low, rank.high)}, {rank.n} tasks", verdict)


def _early(scores: Floats, shot: Ints) -> dict[str, str]:
    """Rise per shot up to five shots against the rise per shot beyond."""
    mean = scores.mean(axis=1)
    claim = "Most of the gain comes with the first five shots"
    early, late = shot <= 5, shot >= 5
    if min(len(np.unique(shot[early])), len(np.unique(shot[late]))) < 2 or min(early.sum(), late.sum()) < 4:
        return _claim(claim, "too few tasks on either side of five shots", _OPEN)
    first, then = slope(shot[early], mean[early]), slope(shot[late], mean[late])
    sentence = (
        f"points per shot: {100 * first.slope:+.1f} [{100 * first.low:+.1f}, {100 * first.high:+.1f}] up to 5, "
        f"{100 * then.slope:+.1f} [{100 * then.low:+.1f}, {100 * then.high:+.1f}] beyond"
    )
    verdict = _YES if first.low > max(then.high, 0) else _NO if first.high < then.low else _OPEN
    return _claim(claim, sentence, verdict)


def _order(methods: Sequence[str], tasks: SettingTasks, scores: Floats) -> dict[str, str]:
    """Pairs of baselines of which one is above in the lower half of ways or shots and below in the upper half."""
    pairs = list(combinations(range(len(methods)), 2))
    level = 1 - 0.05 / max(1, 4 * len(pairs))  # Bonferroni: two halves of two sweeps for every pair
    crossing = []
    for sweep, x in (("ways", tasks.way), ("shots", tasks.shot)):
        low = x <= np.median(x)
        if low.sum() < 2 or (~low).sum() < 2:
            continue
        for first_method, second_method in pairs:
            gap = scores[:, first_method] - scores[:, second_method]
            below, above = mean_interval(gap[low], level), mean_interval(gap[~low], level)
            if below.excludes(0) and above.excludes(0) and below.mean * above.mean < 0:
                crossing.append(f"{methods[first_method]} and {methods[second_method]} ({sweep})")
    sentence = (
        "; ".join(crossing) or f"none of {len(pairs)} pairs of baselines changes sides beyond its interval"
    )
    return _claim(
        "The ranking of methods does not depend on ways and shots",
        sentence,
        _NO if crossing else "not contradicted",
    )


def _spread(methods: Sequence[str], tasks: TasksBySetting) -> dict[str, str]:
    """How far the domains lie apart in intrinsic difficulty."""
    sentences, verdicts = [], []
    for setting, trained in ((WITHIN, OWN), (CROSS, OTHER)):
        scores = tasks[setting].scores(trained, methods)
        by_difficulty = sorted(
            dataset_difficulty(scores, tasks[setting].domain), key=lambda domain: domain.intrinsic.mean
        )
        easy, hard = by_difficulty[0], by_difficulty[-1]
        ends = [scores[tasks[setting].domain == domain.dataset, domain.best] for domain in (easy, hard)]
        sentences.append(
            f"{setting}: intrinsic difficulty from {100 * easy.intrinsic.mean:.0f} ({easy.dataset}) to "
            f"{100 * hard.intrinsic.mean:.0f} ({hard.dataset})"
        )
        # Bonferroni over all pairs of domains: the two ends were picked after seeing them.
        pairs = max(1, len(by_difficulty) * (len(by_difficulty) - 1) // 2)
        verdicts.append(welch(ends[0], ends[1], 1 - 0.05 / pairs).excludes(0))
    verdict = _YES if all(verdicts) else f"{_YES} in one setting" if any(verdicts) else _OPEN
    return _claim("Domains differ in difficulty", "; ".join(sentences), verdict)


def _either(verdicts: Mapping[str, str]) -> str:
    """One verdict where the settings agree, else that of each."""
    if len(set(verdicts.values())) == 1:
        return next(iter(verdicts.values()))
    return "; ".join(f"{setting}: {verdict}" for setting, verdict in verdicts.items())


def _claim(claim: str, here: str, verdict: str) -> dict[str, str]:
    return {"claim": claim, "here": here, "verdict": verdict}
