"""The recipe ``hard-md``: Hard-Meta-Dataset++, the stress test of few-shot classifiers on difficult supports.

For every source the same queries get a uniform, a difficult and an easy support; backbones and methods are evaluated on
all of them; the ablations vary how supports are chosen; what sets difficult supports apart is shown with its evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from longshot.base import UserError, count
from longshot.data import Dataset, wordnet_above
from longshot.reports import shorten
from longshot.studies.engine.comparisons import Draw
from longshot.studies.engine.lab import Plan
from longshot.studies.engine.recipe import GivenDataset, Recipe, check_names, read_given, with_class_split
from longshot.studies.engine.study_page import Drawings, Picture, axes_of
from longshot.studies.engine.study_training import slug
from longshot.studies.hard_md.hard_md_claims import QUESTION, hard_claims
from longshot.studies.hard_md.hard_md_plan import HardLab, Sources, hard_comparisons, make_hard_plan
from longshot.studies.hard_md.hard_md_scores import (
    HardScores,
    Mean,
    hard_scores,
    mean_of,
    overall,
    stress_shared,
)
from longshot.studies.hard_md.hard_md_testbeds import (
    KINDS,
    HardSettings,
    HardTestbed,
    greedy_pairs,
    main,
    steps_beds,
)

if TYPE_CHECKING:
    from longshot.diagnosis import Composition
    from longshot.studies.engine.claims import Claim
    from longshot.studies.engine.comparisons import Comparison
    from longshot.studies.engine.study_page import Drawings
    from longshot.studies.engine.study_tables import TableFile
    from longshot.tasks import Testbed


class HardMd(Recipe[HardSettings, Sources]):
    """Few-shot classifiers on difficult supports."""

    settings = HardSettings
    question = QUESTION
    # What decides the testbeds; backbones, methods, ablations and sources may be added to a folder later.
    binding = (
        *(
            "split",
            "judge",
            "shapes",
            "tasks",
            "way",
            "shot",
            "query",
            "drop_small",
            "max_way",
            "max_support",
        ),
        *("objective", "refine", "start", "seed"),
    )

    def open_data(
        self, settings: HardSettings, datasets: Sequence[GivenDataset], name: str
    ) -> dict[str, Dataset]:
        """Open the sources by name, each dataset called as its source; WordNet above classes with its ids."""
        named, plain = read_given([*(GivenDataset(None, text) for text in settings.sources), *datasets])
        sources = [(name, dataset.open()) for name, dataset in named.items()]
        sources += [(data.name, data) for data in (dataset.open() for dataset in plain)]
        if not sources:
            raise UserError(
                "The study takes at least 1 source and none was given; name a dataset, or NAME=PATH."
            )
        check_names([name for name, _ in sources])
        trained_on = {network.data or sources[0][0] for network in settings.networks.values()}
        return {
            name: replace(
                with_class_split(data, settings.seed) if name in trained_on else data,
                name=name,
                taxonomy=data.taxonomy or wordnet_above(data.class_ids),
            )
            for name, data in sources
        }

    def sources(self, data: Sources) -> Sources:
        """Return the sources by name."""
        return data

    def identity(self, data: Sources) -> dict[str, str]:
        """Return one name whatever the sources are: more may be added to a folder."""
        return {"name": "Hard-Meta-Dataset++", "fingerprint": ""}

    def plan(self, settings: HardSettings, data: Sources) -> Plan:
        """Plan networks, testbeds of every source, and all backbones on them."""
        return make_hard_plan(settings, data)

    def comparisons(self, settings: HardSettings) -> list[Comparison]:
        """List the comparisons; UserError for an unfair one."""
        return hard_comparisons(settings)

    def claims(self, settings: HardSettings) -> list[Claim[HardLab]]:
        """List what the paper says of difficult supports, and of how to choose them."""
        return hard_claims(settings)

    def work(self, lab: HardLab) -> None:
        """Carry the plan out; what fails on one source is told and left out there."""
        lab.folder.remember_sources(lab.datasets)
        lab.train_all()
        _draw_all(lab)
        _evaluate_all(lab)
        if lab.settings.why:
            lab.notes += hard_scores(lab).why.notes

    def trial(self, lab: HardLab, draw: Draw) -> Testbed | None:
        """Return a testbed for the estimate; None where it cannot be drawn, as the run would report."""
        try:
            return super().trial(lab, draw)
        except UserError:
            return None

    def tables(self, lab: HardLab) -> list[TableFile]:
        """Make all tables that the testbeds allow."""
        from longshot.studies.hard_md.hard_md_tables import hard_tables

        return hard_tables(hard_scores(lab))

    def figures(self, lab: HardLab) -> Drawings:
        """Return all figures that have numbers."""

        return hard_figures(hard_scores(lab))


def _draw_all(lab: HardLab) -> None:
    """Draw all testbeds that can be drawn; a shape that is impossible on a source is left out there."""
    beds = hard_scores(lab).planned
    impossible: dict[tuple[str, str], str] = {}  # (source, shape) → why
    reasons: dict[tuple[str, str], dict[str, str]] = {}  # (source, purpose) → setting → why
    for draw in lab.plan.draws:
        bed = beds[draw.name]
        if (bed.source, bed.shape) in impossible:
            continue
        try:
            lab.draw(draw)
        except UserError as error:
            if bed.purpose == "main":
                impossible[bed.source, bed.shape] = str(error)
            else:
                reasons.setdefault((bed.source, bed.purpose), {})[bed.setting] = str(error).rstrip(".")
    lab.absent += [
        f"{source}: tasks of {shape} shape are impossible: {reason}"
        for (source, shape), reason in impossible.items()
    ]
    for (source, purpose), by_setting in reasons.items():
        settings = ", ".join(filter(None, by_setting)) or "all of it"
        lab.absent.append(
            f"{source}: {purpose} is left out for {settings}: {next(iter(by_setting.values()))}."
        )
    if not lab.testbeds:
        raise UserError(f"No testbed can be drawn. {lab.absent[-1]}")
    lab.notes += _dropped(lab)


def _dropped(lab: HardLab) -> list[str]:
    """Say how many classes were too small for the tasks of a source and shape."""
    counts = {
        (bed.source, bed.shape): int(lab.testbeds[name].meta["sampler"].get("dropped_classes", 0))
        for name, bed in hard_scores(lab).planned.items()
        if bed.purpose == "main" and name in lab.testbeds
    }
    return [
        f"{source}: {count(number, 'class', 'classes')} with too few images for tasks of {shape} shape "
        f"{'is' if number == 1 else 'are'} left out (drop_small)."
        for (source, shape), number in counts.items()
        if number
    ]


def _evaluate_all(lab: HardLab) -> None:
    """Evaluate every backbone on every source; report and leave out one that lacks features on a source."""
    beds = hard_scores(lab).planned
    failed: set[tuple[str, str]] = set()
    evaluated = False
    for evaluation in lab.plan.evaluations:
        names = [name for name in evaluation.testbeds if name in lab.testbeds]
        if not names:
            continue
        bed, backbone = beds[names[0]], evaluation.backbone
        if (bed.source, backbone) in failed:
            continue
        try:
            lab.evaluate(names, backbone, evaluation.methods)
            evaluated = True
        except UserError as error:
            reason = str(error).rstrip(".")
            if bed.purpose == "adapted":
                lab.absent.append(
                    f"Methods that adapt the network are left out for {backbone} on {bed.source}: {reason}."
                )
            else:
                failed.add((bed.source, backbone))
                lab.absent.append(f"{backbone} is left out on {bed.source}: {reason}.")
    if not evaluated:
        raise UserError(f"No backbone could be evaluated. {lab.absent[-1]}")


_COLOURS = {"uniform": "#3b6fb6", "difficult": "#c8412b", "easy": "#4a8f4a"}
_SERIES = ("#c8412b", "#3b6fb6", "#8a6d1b", "#6b4c9a", "#4a8f4a", "#444444")
_GAPS = 10  # attributes in the picture of gaps
_BAR: dict[str, Any] = {"capsize": 2, "ecolor": "#333333"}
Bars: TypeAlias = Mapping[tuple[str, str], Mean | None]  # (name of a group, kind of a bar) → height


def hard_figures(scores: HardScores) -> Drawings:
    """Map each figure's name to what draws it; pictures without numbers are left out."""
    settings = scores.settings
    drawings: Drawings = {}
    for shape in settings.shapes:
        sources, shared = scores.sources(shape), stress_shared(scores, shape)
        for method in settings.methods if shared else ():
            title = f"{method}, {shape} shape, {mean_of(shared)}"
            bars = stress_bars(scores, shape, method, shared)
            drawings[f"stress-{shape}-{slug(method)}"] = Picture(
                f"Uniform, difficult and easy supports of the same queries: {title} (figures 1, 3 and 9). "
                f"{scores.judge} chose them.",
                partial(_stress, bars, title),
            )
        for source in sources if len(sources) > 1 else ():
            method = settings.methods[0]
            title = f"{source}, {method}, {shape} shape"
            bars = stress_bars(scores, shape, method, [source])
            drawings[f"source-{slug(source)}-{shape}"] = Picture(
                f"The same on one source: {title} (figures 11 to 30).", partial(_stress, bars, title)
            )
    purposes = {bed.purpose for bed in scores.beds}
    if "steps" in purposes:
        drawings["steps"] = Picture(
            "Accuracy against the number of steps, from each start (figures 36 to 39).",
            partial(_steps, scores),
        )
    if "greedy" in purposes:
        drawings["greedy"] = Picture(
            "Accuracy and time of FastDiffSel and of greedy search by the same loss (figures 2 and 6).",
            partial(_greedy, scores),
        )
    if "filtered" in purposes:
        drawings["ways"] = Picture(
            "Ways of chosen and of filtered tasks (figure 42).", partial(_ways, scores, settings.shapes[0])
        )
    for source, kinds in scores.why.compositions.items() if settings.why else ():
        if any(composition.value is not None for rows in kinds.values() for composition in rows):
            drawings[f"gaps-{slug(source)}"] = Picture(
                f"What the supports of {source} have that their queries have not, and the reverse (figure 5).",
                partial(_gaps, kinds, source),
            )
    return drawings


def stress_bars(scores: HardScores, shape: str, method: str, sources: Sequence[str]) -> Bars:
    """Return accuracy by backbone and kind of support, as the mean over the sources."""
    return {
        (scores.title(backbone), kind): overall(
            [scores.mean(main(shape, kind, source), backbone, method) for source in sources]
        )
        for backbone in scores.backbones
        for kind in KINDS
    }


def _stress(bars: Bars, title: str, path: Path) -> None:
    """Draw groups of bars with intervals: one group per backbone, one bar per kind of support."""
    names = list(dict.fromkeys(name for name, _ in bars))
    crowded = len(names) > 3
    with axes_of(path, max(5.0, 1.2 + 0.9 * len(names))) as axes:
        for number, kind in enumerate(KINDS):
            _bar_series(axes, [bars[name, kind] for name in names], number - 1, kind, _COLOURS[kind])
        texts = [shorten(name, 24) for name in names]
        turned: dict[str, Any] = (
            {"rotation": 20, "ha": "right"} if crowded else {"rotation": 0, "ha": "center"}
        )
        axes.set_xticks(range(len(names)), texts, **turned)
        axes.set(ylim=(0, 100), ylabel="accuracy (%)", title=title)
        axes.grid(axis="y")
        axes.legend(ncols=len(KINDS), loc="lower right", bbox_to_anchor=(1, 1.06))  # above, clear of the bars


def _bar_series(axes: Any, means: Sequence[Mean | None], offset: int, label: str, colour: str) -> None:
    """Draw one bar per group that has a number, so many bars beside the group's middle."""
    present = [(index + offset * 0.27, mean) for index, mean in enumerate(means) if mean is not None]
    heights, halves = ([100 * getattr(mean, part) for _, mean in present] for part in ("mean", "half"))
    axes.bar([x for x, _ in present], heights, 0.25, yerr=halves, color=colour, label=label, **_BAR)


def _steps(scores: HardScores, path: Path) -> None:
    """Draw accuracy against projected steps from both starts, and against Frank–Wolfe rounds, by source."""
    settings = scores.settings
    styles = {"uniform": "-o", "random": ":^", "rounds": "--s"}
    with axes_of(path) as axes:
        for source, colour in zip(scores.sources("fixed"), cycle(_SERIES), strict=False):
            for kind, style in styles.items():
                points = steps_points(scores, source, kind)
                if not points:
                    continue
                x, y, half = zip(*((n, 100 * mean.mean, 100 * mean.half) for n, mean in points), strict=True)
                line: Any = {"color": colour, "capsize": 2, "linewidth": 1.4}
                label = "rounds behind 1 step" if kind == "rounds" else f"steps, {kind} start"
                axes.errorbar(x, y, half, fmt=style, label=f"{source}, {label}", **line)
        axes.set_xscale("symlog", linthresh=1)
        ticks = sorted({0, *settings.steps, *settings.rounds})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set(xlabel="projected steps, or Frank–Wolfe rounds behind one step", ylabel="accuracy (%)")
        axes.grid(axis="y")
        axes.set_title(f"Do more steps make supports harder? Objective '{settings.objective}'")
        axes.legend(fontsize=8)


def steps_points(scores: HardScores, source: str, kind: str) -> list[tuple[int, Mean]]:
    """Map the number of steps from a start, or of rounds, to the accuracy of the judge."""
    beds = steps_beds(scores.settings)[kind]
    means = {n: scores.mean(bed.of_source(source), scores.judge) for n, bed in beds.items()}
    return [(number, mean) for number, mean in means.items() if mean is not None]


def _greedy(scores: HardScores, path: Path) -> None:
    """Draw accuracy against the time to choose a support: a pair of points per source and objective."""
    with axes_of(path) as axes:
        colours = cycle(_SERIES)
        for source in scores.sources("fixed"):
            for objective, pair in greedy_pairs(scores.settings).items():
                colour = next(colours)
                for label, bed, mark in zip(("FastDiffSel", "greedy"), pair, "os", strict=True):
                    own = bed.of_source(source)
                    mean, spent = scores.mean(own, scores.judge), scores.lab.seconds(own.name)
                    if mean is not None and spent is not None:
                        x = 1000 * spent / scores.settings.tasks
                        name = f"{source}, {label}, {objective}"
                        style: Any = {"fmt": mark, "color": colour, "capsize": 2, "label": name}
                        axes.errorbar(x, 100 * mean.mean, 100 * mean.half, **style)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set(xlabel="time to choose a support (ms per task)", ylabel="accuracy (%), lower is harder")
        axes.grid()
        axes.set_title("FastDiffSel against greedy search, by the same objective")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)


def _ways(scores: HardScores, shape: str, path: Path) -> None:
    """Draw the ways of chosen and of filtered tasks, by source."""
    filtered = HardTestbed("", "filtered", shape, "difficult")
    sources = [source for source in scores.sources(shape) if filtered.of_source(source) in scores.beds]
    kinds = (("chosen supports", main(shape, "difficult"), "#c8412b"), ("filtered", filtered, "#8a6d1b"))
    with axes_of(path) as axes:
        for number, (label, bed, colour) in enumerate(kinds):
            x = [index + (number - 0.5) * 0.36 for index in range(len(sources))]
            means = [Mean.of(scores.ways(bed.of_source(source))) for source in sources]
            halves = [mean.half for mean in means]
            style: Any = {"yerr": halves, "color": colour, "label": label, "capsize": 2}
            axes.bar(x, [mean.mean for mean in means], 0.34, **style)
        axes.set_xticks(range(len(sources)), sources)
        axes.set(ylabel="ways of a task", title="Are the hardest tasks those with many classes?")
        axes.grid(axis="y")
        axes.legend()


def widest_gaps(kinds: Mapping[str, Sequence[Composition]], most: int = _GAPS) -> list[tuple[str, str]]:
    """Find (attribute, value) of the largest |share in the support − share in the queries| over all kinds."""
    widest: dict[tuple[str, str], float] = {}
    for compositions in kinds.values():
        for composition in compositions:
            if composition.value is not None:
                key = (composition.attribute, composition.value)
                widest[key] = max(widest.get(key, 0.0), abs(composition.gap.mean))
    return sorted(widest, key=lambda key: -widest[key])[:most]


def _gaps(kinds: Mapping[str, Sequence[Composition]], source: str, path: Path) -> None:
    """Draw the gaps between support and queries for the attributes that differ most (figure 5)."""
    keys = widest_gaps(kinds)
    with axes_of(path, 7.0) as axes:
        for number, (kind, compositions) in enumerate(kinds.items()):
            gaps = {
                (composition.attribute, composition.value): composition.gap for composition in compositions
            }
            y = [index + (number - 1) * 0.27 for index in range(len(keys))]
            halves = [100 * (gaps[key].half or 0) for key in keys]
            means = [100 * gaps[key].mean for key in keys]
            axes.barh(y, means, 0.25, xerr=halves, color=_COLOURS[kind], label=kind, **_BAR)
        labels = [f"{attribute} = {value}" if value != "yes" else attribute for attribute, value in keys]
        axes.set_yticks(range(len(keys)), labels)
        axes.invert_yaxis()
        axes.axvline(0, color="#333333", linewidth=0.8)
        axes.set_xlabel("share in the support minus share in the queries (points)")
        axes.set_title(f"{source}: what difficult supports are made of")
        axes.legend()


RECIPE = HardMd()
