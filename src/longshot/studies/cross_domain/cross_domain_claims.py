"""What Carrión-Ojeda et al. say about domains, starts and baselines, and how each sentence is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from longshot.base import Bools, Floats, Ints
from longshot.statistics import correlation, points
from longshot.studies.cross_domain.cross_domain_cells import (
    CROSS_DOMAIN,
    PAPERS,
    WITHIN_DOMAIN,
    Condition,
    DomainLab,
    DomainScores,
    KindTasks,
    domain_scores,
    missing_for_the_papers_best,
    printed_early_rise,
    printed_modelling,
    printed_order,
    printed_range,
    printed_share,
)
from longshot.studies.cross_domain.cross_domain_plan import PRETRAINED, RANDOM
from longshot.studies.engine.claims import (
    Claim,
    Measured,
    NotMeasured,
    clean_mean,
    left_out,
    of_correlation,
    of_resamples,
    paired,
    unpaired,
)

_RESAMPLES = 2_000
_EARLY = 5  # shots up to which the paper sees most of the gain
_LEVEL = 0.02  # points / 100 within which a gain counts as none
_TRANSDUCTIVE = (
    "MetaDelta++'s decoder sees all queries of a task at once and takes them to be balanced, the other baselines see "
    "one query at a time; tables never rank it among them."
)


def paper_claims() -> list[Claim[DomainLab]]:
    """List the claims of section 4.3 and the conclusion, in the order of the paper."""
    return [
        Claim(
            "starts",
            "Pre-trained weights help every baseline but FO-MAML",
            "section 4.3, section 5, table 5",
            _starts,
            factor="training.start",
        ),
        Claim(
            "fomaml",
            "FO-MAML gains nothing from pre-trained weights across domains",
            "section 5, table 5",
            _fomaml,
            expects="same",
            margin=_LEVEL,
            control=_other_gain,
            printed="21.1 and 21.2 across domains; within domains table 5 has 24.8 and 41.3, against the sentence",
            factor="training.start",
        ),
        Claim(
            "metadelta",
            "MetaDelta++ is the best baseline with pre-trained weights",
            "section 4.3, table 5",
            partial(_best, "metadelta", PRETRAINED),
            printed=_TRANSDUCTIVE,
            factor="baseline",
        ),
        Claim(
            "prototypical",
            "Prototypical Networks are the best baseline without pre-training",
            "section 4.3, table 5",
            partial(_best, "prototypical", RANDOM),
            factor="baseline",
        ),
        Claim(
            "scratch",
            "Train-from-scratch without pre-training is the worst baseline",
            "section 4.3, figure 3, table 5",
            partial(_best, "train-from-scratch", RANDOM),
            expects="below",
            factor="baseline",
        ),
        Claim(
            "harder",
            "Any-way any-shot tasks across domains are harder than 5-way 5-shot tasks within one",
            "section 4.3, figure 1, table 5",
            _harder,
            factor="protocol",
        ),
        Claim(
            "ways",
            "Performance falls with the number of ways",
            "section 4.3, figure 2, tables 6 and 7",
            partial(_sweep, "way"),
            expects="below",
            unit="",
        ),
        Claim(
            "shots",
            "Performance rises with the number of shots",
            "section 4.3, figure 2, tables 8 and 9",
            partial(_sweep, "shot"),
            unit="",
        ),
        Claim(
            "early",
            "The increment per shot is largest up to 5 shots",
            "section 4.3, figure 2, tables 8 and 9",
            _early,
        ),
        Claim(
            "order",
            "The ranking of methods is not influenced by the number of ways and shots: their order in the lower half "
            "of the tasks agrees with that in the upper half",
            "section 4.3, figure 2, tables 6 to 9",
            _order,
            unit="",
        ),
        Claim(
            "range",
            "The datasets show a range of difficulty: the easiest and the hardest lie apart for the best baseline",
            "section 4.3, figure 3, table 10",
            _range,
            printed=_in_words("easiest − hardest", lambda condition: [printed_range(condition)]),
        ),
        Claim(
            "modelling",
            "In every dataset the best baseline is above the worst",
            "section 4.3, figure 3, table 10",
            _modelling,
            printed=_in_words("best − worst on its ten datasets", printed_modelling),
        ),
    ]


def _in_words(subject: str, printed: Callable[[Condition], Sequence[float]]) -> str:
    """Say what the paper printed for its own datasets, which are others than here."""
    texts = [f"{' to '.join(map(points, printed(condition)))} {condition.name}" for condition in PAPERS]
    return f"{subject}: {', '.join(texts)}, in points"


def _measured_on(condition: Condition, *words: str) -> str:
    return ", ".join([*words, condition.name])


def _starts(lab: DomainLab) -> list[Measured]:
    """Measure pre-trained minus random weights on the same tasks."""
    scores = domain_scores(lab)
    return [
        gain
        for condition in PAPERS
        for method in scores.setting
        if method != "fomaml" and (gain := _gain(scores, condition, method)) is not None
    ]


def _fomaml(lab: DomainLab) -> list[Measured]:
    gain = _gain(domain_scores(lab), CROSS_DOMAIN, "fomaml")
    return [] if gain is None else [gain]


def _other_gain(lab: DomainLab) -> list[Measured]:
    """Measure what the same weights give Prototypical Networks on the same tasks: the run could have seen a gain."""
    gain = _gain(domain_scores(lab), CROSS_DOMAIN, "prototypical")
    if gain is None:
        raise NotMeasured("its control, what Prototypical Networks gain from the same weights, was not run")
    return [gain]


def _gain(scores: DomainScores, condition: Condition, method: str) -> Measured | None:
    before, after = (scores.get(condition, start, method) for start in (RANDOM, PRETRAINED))
    if before is None or after is None:
        return None
    printed = printed_share(condition, PRETRAINED, method) - printed_share(condition, RANDOM, method)
    return paired(_measured_on(condition, method), after, before, round(printed, 6))


def _best(method: str, start: str, lab: DomainLab) -> list[Measured]:
    """Measure a baseline minus every other one on the same tasks."""
    scores = domain_scores(lab)
    measured = []
    for condition in PAPERS:
        own = scores.get(condition, start, method)
        if own is None:
            raise NotMeasured(f"{method} from {start} weights was not run, or is left out")
        for other in scores.methods(condition, start):
            if other != method:
                printed = printed_share(condition, start, method) - printed_share(condition, start, other)
                label = _measured_on(condition, f"{method} − {other}")
                values = scores.values[condition, start, other]
                measured.append(paired(label, own, values, round(printed, 6)))
    return measured


def _harder(lab: DomainLab) -> list[Measured]:
    """Measure within minus cross; the tasks differ, so by Welch's formula."""
    scores = domain_scores(lab)
    measured = []
    for start in lab.settings.starts:
        for method in scores.setting:
            within, cross = (scores.get(condition, start, method) for condition in PAPERS)
            if within is not None and cross is not None:
                printed = printed_share(WITHIN_DOMAIN, start, method) - printed_share(
                    CROSS_DOMAIN, start, method
                )
                measured.append(unpaired(f"{method}, {start}", within, cross, round(printed, 6)))
    return measured


# --- ways and shots ---


def _sweep(column: str, lab: DomainLab) -> list[Measured]:
    """Measure the rank correlation of a task's mean score over the baselines with its ways or shots."""
    scores = domain_scores(lab)
    x, numbers = getattr(scores.tasks[CROSS_DOMAIN.kind], column), []
    for start in _swept(lab, scores):
        mean, label = _mean_score(scores, start), _baselines(scores, start)
        usable = ~np.isnan(mean)
        number = left_out(label)
        if usable.any():
            number = of_correlation(label, correlation(x[usable], mean[usable], "spearman"))
        numbers.append(number)
    return numbers


def _baselines(scores: DomainScores, start: str) -> str:
    return f"Spearman's r, mean of {len(scores.methods(CROSS_DOMAIN, start))} baselines, {start}"


def _mean_score(scores: DomainScores, start: str) -> Floats:
    """Return the mean over the baselines of every cross-domain task [T]; NaN where it is not clean for all."""
    mean: Floats = scores.matrix(CROSS_DOMAIN, start).mean(axis=1)
    return mean


def _early(lab: DomainLab) -> list[Measured]:
    """Measure the rise per shot up to five shots minus that from there on, by a bootstrap over tasks."""
    scores = domain_scores(lab)
    shot = scores.tasks[CROSS_DOMAIN.kind].shot
    early, late = shot <= _EARLY, shot >= _EARLY
    if min(len(np.unique(shot[part])) for part in (early, late)) < 2:
        raise NotMeasured(f"tasks have no two numbers of shots on either side of {_EARLY}")
    measured = []
    for start in _swept(lab, scores):
        mean = _mean_score(scores, start)
        usable = ~np.isnan(mean)
        parts = [part & usable for part in (early, late)]
        mean, again = np.nan_to_num(mean), _weights(len(shot))
        value = float(np.subtract(*(_slopes(shot, mean, part) for part in parts))[0])
        gaps = np.subtract(*(_slopes(shot, mean, part, again) for part in parts))
        gaps = gaps[np.isfinite(gaps)]
        label = f"points per shot up to {_EARLY} minus beyond, {start}"
        if np.isfinite(value) and len(gaps):
            printed = printed_early_rise(start)
            measured.append(of_resamples(label, value, gaps, int(usable.sum()), printed=printed))
        else:
            measured.append(left_out(label))
    return measured


def _slopes(x: Ints, y: Floats, mask: Bools, weights: Floats | None = None) -> Floats:
    """Fit least-squares slopes of y over x on the masked tasks, one for each row of weights [R, T]: [R]."""
    weighted = (np.ones((1, len(x))) if weights is None else weights) * mask
    total = weighted.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_x, mean_y = weighted @ x / total, weighted @ y / total
        slopes: Floats = (weighted @ (x * y) / total - mean_x * mean_y) / (
            weighted @ (x * x) / total - mean_x**2
        )
    return np.where(np.isfinite(slopes), slopes, np.nan)


def _weights(tasks: int) -> Floats:
    """Count how often each task occurs in every resample, [R, T]."""
    rng = np.random.default_rng(0)
    return rng.multinomial(tasks, np.full(tasks, 1 / tasks), _RESAMPLES).astype(np.float64)


def _order(lab: DomainLab) -> list[Measured]:
    """Correlate the baselines' ranks on tasks of few and of many ways or shots (Spearman, by a bootstrap)."""
    scores = domain_scores(lab)
    measured = []
    for start in _swept(lab, scores):
        methods = scores.methods(CROSS_DOMAIN, start)
        if len(methods) < 3:
            raise NotMeasured(f"an order of {len(methods)} baselines says nothing; it needs 3")
        table = scores.matrix(CROSS_DOMAIN, start)
        usable = ~np.isnan(table).any(axis=1)
        for column, name in (("way", "ways"), ("shot", "shots")):
            label = f"Spearman's r between few and many {name}, {start}"
            low = lower_half(scores.tasks[CROSS_DOMAIN.kind], column)
            if low.all():
                raise NotMeasured(f"all tasks have the same number of {name}")
            if not (low & usable).any() or not (~low & usable).any():
                measured.append(left_out(label))
                continue
            own, low = table[usable], low[usable]
            value = float(_agreement(np.ones((1, len(low))), own, low)[0])
            again = _agreement(_weights(len(low)), own, low)
            printed = printed_order(name, start, methods)
            measured.append(of_resamples(label, value, again, len(low), printed=printed, scale=(-1, 1)))
    return measured


def lower_half(tasks: KindTasks, column: str) -> Bools:
    """Mark the tasks of fewer ways or shots: half, or as near to it as equal numbers allow, [T]."""
    x = getattr(tasks, column)
    mask: Bools = x <= np.median(x)
    return mask if not mask.all() else x < x.max()


def _agreement(weights: Floats, scores: Floats, low: Bools) -> Floats:
    """Correlate the ranks of the baselines' means on both sides; scores [T, M], weights [R, T]: [R]."""
    from scipy.stats import rankdata

    sides = []
    for mask in (low, ~low):
        total = np.maximum((weights * mask).sum(axis=1, keepdims=True), 1)
        order = rankdata(np.round((weights * mask) @ scores / total, 12), axis=1)
        sides.append(order - order.mean(axis=1, keepdims=True))
    norms = np.sqrt((sides[0] ** 2).sum(axis=1) * (sides[1] ** 2).sum(axis=1))
    agreement: Floats = (sides[0] * sides[1]).sum(axis=1) / np.maximum(norms, 1e-12)
    return agreement


def _swept(lab: DomainLab, scores: DomainScores) -> Sequence[str]:
    """List the starts that have baselines across domains."""
    return [start for start in lab.settings.starts if scores.methods(CROSS_DOMAIN, start)]


# --- difficulty of domains ---


def _papers_two(lab: DomainLab, condition: Condition) -> tuple[Floats, Floats]:
    """Return the paper's best and worst baseline: MetaDelta++ pre-trained, train-from-scratch from random."""
    scores = domain_scores(lab)
    best = scores.get(condition, PRETRAINED, "metadelta")
    worst = scores.get(condition, RANDOM, "train-from-scratch")
    if best is None or worst is None:
        absent = ", ".join(missing_for_the_papers_best(lab.settings)) or "one of the two"
        raise NotMeasured(f"{absent} was not run, or is left out")
    return best, worst


def _range(lab: DomainLab) -> list[Measured]:
    """Measure the easiest minus the hardest domain; chosen on every other task, measured on the rest."""
    scores = domain_scores(lab)
    measured = []
    for condition in PAPERS:
        best, _ = _papers_two(lab, condition)
        domain = scores.tasks[condition.kind].domain
        if len(scores.domains) < 2:
            raise NotMeasured("there is one tested domain, and a range needs two")
        odd = np.arange(len(domain)) % 2 == 1
        means = {name: clean_mean(best[(domain == name) & ~odd]) for name in scores.domains}
        easy, hard = (pick(means, key=lambda name: means[name]) for pick in (max, min))
        ends = [best[(domain == name) & odd] for name in (easy, hard)]
        label = _measured_on(condition, f"{easy} − {hard}")
        measured.append(unpaired(label, ends[0], ends[1]))
    return measured


def _modelling(lab: DomainLab) -> list[Measured]:
    """Measure the paper's best minus its worst baseline, domain by domain."""
    scores = domain_scores(lab)
    measured = []
    for condition in PAPERS:
        best, worst = _papers_two(lab, condition)
        domain = scores.tasks[condition.kind].domain
        for name in scores.domains:
            label, here = _measured_on(condition, name), domain == name
            measured.append(paired(label, best[here], worst[here]))
    return measured
