"""The pictures of the study Hard-Meta-Dataset++: stress test, single sources, steps, greedy search, ways, gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from longshot.reports.svg import shorten
from longshot.statistics import mean_interval
from longshot.studies.engine.figures import axes_of
from longshot.studies.hard_md.plan import KINDS, StudyTestbed
from longshot.studies.hard_md.scores import HardScores, Mean
from longshot.studies.hard_md.why import Why
from longshot.studies.transfer.plan import slug

_COLOURS = {"uniform": "#3b6fb6", "difficult": "#c8412b", "easy": "#4a8f4a"}
_GAPS = 10  # attributes in the picture of gaps
Draw = Callable[[Path], None]


def figures(
    settings: Mapping[str, Any], scores: HardScores, seconds: Mapping[str, float], why: Why | None
) -> dict[str, Draw]:
    """Name → a function that draws it; pictures without numbers are left out."""
    found: dict[str, Draw] = {}
    for shape in settings["shapes"]:
        sources = scores.sources(shape)
        for method in settings["methods"]:
            whole = {
                (scores.titles[b], kind): scores.overall(
                    [scores.mean(StudyTestbed(s, "main", shape, kind), b, method) for s in sources]
                )
                for b in scores.backbones
                for kind in KINDS
            }
            title = f"{method}, {shape} shape, mean of {len(sources)} sources"
            found[f"stress-{shape}-{slug(method)}"] = partial(_bars, whole, KINDS, title, _COLOURS)
        for source in sources:
            each = {
                (scores.titles[b], kind): scores.mean(
                    StudyTestbed(source, "main", shape, kind), b, settings["methods"][0]
                )
                for b in scores.backbones
                for kind in KINDS
            }
            title = f"{source}, {settings['methods'][0]}, {shape} shape"
            found[f"source-{slug(source)}-{shape}"] = partial(_bars, each, KINDS, title, _COLOURS)
    if "steps" in settings["ablations"] and scores.sources("fixed"):
        found["steps"] = partial(_steps, settings, scores)
    if "greedy" in settings["ablations"] and scores.sources("fixed"):
        found["greedy"] = partial(_greedy, settings, scores, seconds)
    shape = settings["shapes"][0]
    if "filtered" in settings["ablations"] and any(bed.purpose == "filtered" for bed in scores.beds):
        found["ways"] = partial(_ways, scores, shape)
    if why is not None:
        for source, kinds in why.compositions.items():
            if any(one.value is not None for rows in kinds.values() for one in rows):
                found[f"gaps-{slug(source)}"] = partial(_gaps, kinds, source)
    return found


def _bars(
    values: Mapping[tuple[str, str], Mean | None],
    kinds: Sequence[str],
    title: str,
    colours: Mapping[str, str],
    path: Path,
) -> None:
    """Groups of bars with their intervals: one group per name, one bar per kind."""
    names = list(dict.fromkeys(name for name, _ in values))
    with axes_of(path, max(5.0, 1.2 + 0.9 * len(names))) as axes:
        for number, kind in enumerate(kinds):
            known = [(place, values[name, kind]) for place, name in enumerate(names)]
            x = [place + (number - (len(kinds) - 1) / 2) * 0.27 for place, one in known if one is not None]
            heights = [100 * one.mean for _, one in known if one is not None]
            halves = [100 * one.half for _, one in known if one is not None]
            axes.bar(
                x, heights, 0.25, yerr=halves, color=colours[kind], label=kind, capsize=2, ecolor="#333333"
            )
        axes.set_xticks(
            range(len(names)),
            [shorten(name, 24) for name in names],
            rotation=20 if len(names) > 3 else 0,
            ha="right" if len(names) > 3 else "center",
        )
        axes.set_ylim(0, 100)
        axes.set_ylabel("accuracy (%)")
        axes.grid(axis="y")
        axes.set_title(title)
        axes.legend(ncols=len(kinds), loc="lower right", bbox_to_anchor=(1, 1.06))  # above, clear of the bars


def _steps(settings: Mapping[str, Any], scores: HardScores, path: Path) -> None:
    """Accuracy against the number of projected steps, and of Frank–Wolfe rounds, by source."""
    with axes_of(path) as axes:
        for source, colour in zip(scores.sources("fixed"), _cycle(), strict=False):
            first = scores.mean(StudyTestbed(source, "main", "fixed", "difficult"), scores.judge)
            for kind, counts, style in (
                ("steps", settings["steps"], "-o"),
                ("rounds", settings["rounds"], "--s"),
            ):
                points = [] if first is None else [(1 if kind == "steps" else 0, first)]
                for count in counts:
                    bed = StudyTestbed(source, "steps", "fixed", "difficult", f"{count} {kind}")
                    one = scores.mean(bed, scores.judge) if not (kind == "steps" and count == 1) else None
                    points += [] if one is None else [(count, one)]
                x, y, half = (
                    np.array(part)
                    for part in zip(*[(n, 100 * m.mean, 100 * m.half) for n, m in points], strict=True)
                )
                axes.errorbar(
                    x, y, half, fmt=style, color=colour, capsize=2, label=f"{source}, {kind}", linewidth=1.4
                )
        axes.set_xscale("symlog", linthresh=1)
        ticks = sorted({0, *settings["steps"], *settings["rounds"]})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xlabel("projected steps, or Frank–Wolfe rounds behind one step")
        axes.set_ylabel("accuracy (%)")
        axes.grid(axis="y")
        axes.set_title("Do more steps make supports harder?")
        axes.legend(fontsize=8)


def _greedy(
    settings: Mapping[str, Any], scores: HardScores, seconds: Mapping[str, float], path: Path
) -> None:
    """Accuracy against the time to choose a support, one pair of points per source."""
    with axes_of(path) as axes:
        for source, colour in zip(scores.sources("fixed"), _cycle(), strict=False):
            for label, purpose, mark in (("FastDiffSel", "main", "o"), ("greedy", "greedy", "s")):
                bed = StudyTestbed(source, purpose, "fixed", "difficult")
                one, spent = scores.mean(bed, scores.judge), seconds.get(bed.name)
                if one is not None and spent is not None:
                    x = 1000 * spent / settings["tasks"]
                    axes.errorbar(
                        x,
                        100 * one.mean,
                        100 * one.half,
                        fmt=mark,
                        color=colour,
                        capsize=2,
                        label=f"{source}, {label}",
                    )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel("time to choose a support (ms per task)")
        axes.set_ylabel("accuracy (%), lower is harder")
        axes.grid()
        axes.set_title("FastDiffSel against greedy search")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)


def _ways(scores: HardScores, shape: str, path: Path) -> None:
    """Ways of chosen and of filtered tasks, by source."""
    sources = [
        s for s in scores.sources(shape) if StudyTestbed(s, "filtered", shape, "difficult") in scores.beds
    ]
    values: dict[tuple[str, str], Mean] = {}
    for source in sources:
        for kind, purpose in (("chosen supports", "main"), ("filtered", "filtered")):
            found = Mean.of(mean_interval(scores.ways(StudyTestbed(source, purpose, shape, "difficult"))))
            values[source, kind] = found
    with axes_of(path) as axes:
        for number, (kind, colour) in enumerate((("chosen supports", "#c8412b"), ("filtered", "#8a6d1b"))):
            x = [place + (number - 0.5) * 0.36 for place in range(len(sources))]
            means = [values[source, kind] for source in sources]
            axes.bar(
                x,
                [m.mean for m in means],
                0.34,
                yerr=[m.half for m in means],
                color=colour,
                label=kind,
                capsize=2,
            )
        axes.set_xticks(range(len(sources)), sources)
        axes.set_ylabel("ways of a task")
        axes.grid(axis="y")
        axes.set_title("Are the hardest tasks those with many classes?")
        axes.legend()


def _gaps(kinds: Mapping[str, Any], source: str, path: Path) -> None:
    """|share in the support − share in the queries| for the attributes that differ most (the paper's figure 5)."""
    widest: dict[tuple[str, str], float] = {}
    for rows in kinds.values():
        for one in rows:
            if one.value is not None:
                key = (one.attribute, one.value)
                widest[key] = max(widest.get(key, 0.0), abs(one.gap.mean))
    kept = sorted(widest, key=lambda key: -widest[key])[:_GAPS]
    with axes_of(path, 7.0) as axes:
        for number, (kind, rows) in enumerate(kinds.items()):
            by = {(one.attribute, one.value): one for one in rows}
            y = [place + (number - 1) * 0.27 for place in range(len(kept))]
            means = [100 * by[key].gap.mean for key in kept]
            halves = [100 * (by[key].gap.half or 0) for key in kept]
            axes.barh(
                y, means, 0.25, xerr=halves, color=_COLOURS[kind], label=kind, capsize=2, ecolor="#333333"
            )
        axes.set_yticks(range(len(kept)), [f"{a} = {v}" if v != "yes" else a for a, v in kept])
        axes.invert_yaxis()
        axes.axvline(0, color="#333333", linewidth=0.8)
        axes.set_xlabel("share in the support minus share in the queries (points)")
        axes.set_title(f"{source}: what difficult supports are made of")
        axes.legend()


def _cycle() -> tuple[str, ...]:
    return ("#c8412b", "#3b6fb6", "#8a6d1b", "#6b4c9a", "#4a8f4a", "#444444") * 4
