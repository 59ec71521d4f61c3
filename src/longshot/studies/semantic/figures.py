"""The pictures of the studies of tasks by meaning: coarsity, class balance, accuracy by coarsity, quartile and ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from longshot.base import Floats
from longshot.statistics import Rolling, rolling_mean
from longshot.studies.engine.figures import axes_of, means_and_halves
from longshot.studies.semantic.common import MethodScores, leader

KIND_COLOURS = {"uniform": "#3b6fb6", "semantic": "#c8412b"}
_COLOURS = ("#c8412b", "#3b6fb6", "#8a6d1b", "#6b4c9a")
_GREY: dict[str, Any] = {"color": "#bbbbbb", "linewidth": 0.9, "zorder": 1}


def draw_histograms(coarsity: Mapping[str, Floats], path: Path) -> None:
    """Coarsity of the tasks of each testbed, as shares of its tasks (the paper's figure 1)."""
    low = min(float(values.min()) for values in coarsity.values())
    high = max(float(values.max()) for values in coarsity.values())
    edges = np.linspace(low, high if high > low else low + 1, 41)
    with axes_of(path) as axes:
        for kind, values in coarsity.items():
            weights = np.full(len(values), 100 / len(values))
            label = f"{kind} (mean {values.mean():.1f})"
            axes.hist(values, edges, weights=weights, color=KIND_COLOURS[kind], alpha=0.55, label=label)
        axes.set(xlabel="coarsity of a task (low: classes close in meaning)", ylabel="tasks (%)")
        axes.set_title("How coarse the tasks are")
        axes.legend()


def draw_balance(shares: Mapping[str, Floats], way: int, path: Path) -> None:
    """Share of tasks that each class occurs in, most frequent first (the paper's figure 3)."""
    count = len(next(iter(shares.values())))
    even = 100 * way / count
    dashed: dict[str, Any] = {"color": "#666666", "linestyle": (0, (3, 3)), "linewidth": 1}
    with axes_of(path) as axes:
        for kind, values in shares.items():
            ranks = np.arange(1, len(values) + 1)
            style = {"color": KIND_COLOURS[kind], "drawstyle": "steps-mid", "linewidth": 1.6}
            axes.plot(ranks, 100 * values, label=kind, **style)
        axes.axhline(even, label=f"all equal ({even:.2g} %)", **dashed)
        axes.set(ylim=(0, None), xlabel=f"the {count:,} classes, most frequent first")
        axes.set(ylabel="tasks with the class (%)", title="How often classes occur")
        axes.legend()


def draw_rolling(entries: Sequence[MethodScores], window: int, title: str, path: Path) -> None:
    """Rolling mean of accuracy against coarsity (the paper's figure 5); bands for the methods that are named."""
    tasks = len(entries[0].accuracy)
    width = min(window, max(2, tasks // 4))  # a window over most tasks would show nothing
    with axes_of(path) as axes:
        for entry, colour in coloured(entries):
            assert entry.coarsity is not None
            x, mean, low, high = rolling_curve(rolling_mean(entry.coarsity, entry.accuracy, width))
            if colour is None:
                axes.plot(x, mean, **_GREY)
                continue
            axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(x, mean, color=colour, linewidth=1.8, label=entry.method, zorder=2)
        axes.grid(axis="y")
        axes.set(xlabel="coarsity (low: classes close in meaning)", ylabel="accuracy (%)")
        axes.set_title(f"{title}: mean of {width} neighbouring tasks with its 95 % band{_grey_note(entries)}")
        axes.legend(loc="upper left")


def draw_parts(
    entries: Sequence[MethodScores],
    names: Sequence[str],
    values: Sequence[Sequence[Floats]],
    title: str,
    path: Path,
) -> None:
    """Mean accuracy with its 95 % interval on each part of a testbed; ``values[part][method]``."""
    with axes_of(path) as axes:
        for number, (entry, colour) in enumerate(coloured(entries)):
            mean, half = means_and_halves([part[number] for part in values])
            x = np.arange(len(names)) + (number - (len(entries) - 1) / 2) * 0.02
            style = _GREY
            if colour is not None:
                style = {"color": colour, "linewidth": 1.8, "marker": "o", "markersize": 4, "zorder": 2}
                axes.errorbar(x, mean, half, fmt="none", ecolor=colour, elinewidth=1.2)
            axes.plot(x[:-1], mean[:-1], label=entry.method if colour else None, **style)
            axes.plot(x[-1:], mean[-1:], **{**style, "marker": "o", "markersize": 4})
        axes.set_xticks(np.arange(len(names)), names)
        axes.grid(axis="y")
        axes.set_ylabel("accuracy (%)")
        axes.set_title(f"{title}: mean with its 95 % interval by quartile of coarsity{_grey_note(entries)}")
        axes.legend(loc="upper left")


def draw_ways(entries: Mapping[int, Sequence[MethodScores]], title: str, path: Path) -> None:
    """Top-1 accuracy against the number of classes in a task, with chance; way → methods."""
    order = sorted(entries)
    with axes_of(path) as axes:
        for number, (entry, colour) in enumerate(coloured(entries[order[-1]])):
            by_way = [next(e for e in entries[way] if e.method == entry.method) for way in order]
            mean, half = means_and_halves([scores.accuracy for scores in by_way])
            style = {"color": colour, "linewidth": 1.8, "zorder": 2} if colour else _GREY
            label = entry.method if colour else None
            x = np.array(order) * (1 + 0.006 * number)
            axes.errorbar(x, mean, half, marker="o", markersize=4, label=label, **style)
        x = np.geomspace(order[0], order[-1], 50)
        axes.plot(x, 100 / x, color="#666666", linestyle=(0, (3, 3)), linewidth=1, label="chance")
        axes.set_xscale("log")
        axes.set_xticks(order, [str(way) for way in order])
        axes.set_xticks([], minor=True)
        axes.set(ylim=(0, None), xlabel="classes in a task", ylabel="top-1 accuracy (%)")
        axes.grid(axis="y")
        axes.set_title(f"{title}: mean with its 95 % interval{_grey_note(entries[order[-1]])}")
        axes.legend()


def rolling_curve(means: Rolling) -> list[Floats]:
    """x and percentages of mean, low and high, one point per x.

    In a small taxonomy many tasks have the same coarsity; windows within them differ by the order of equals alone, so
    those at the same x are averaged.
    """
    x, group = np.unique(np.round(means.x, 9), return_inverse=True)
    count = np.bincount(group)
    return [x, *(100 * np.bincount(group, values) / count for values in (means.mean, means.low, means.high))]


def coloured(entries: Sequence[MethodScores]) -> list[tuple[MethodScores, str | None]]:
    """Up to four methods get a colour: best transductive, best inductive, ProtoNet, the lowest; others are grey."""
    named = [leader(entries, setting) for setting in ("transductive", "inductive")]
    named += [entry for entry in entries if entry.method.partition("(")[0] == "protonet"]
    named.append(min(entries, key=lambda entry: float(entry.accuracy.mean())))
    chosen = list(dict.fromkeys(entry.method for entry in named if entry is not None))
    if len(entries) <= len(_COLOURS):
        chosen += [entry.method for entry in entries if entry.method not in chosen]
    colours = dict(zip(chosen, _COLOURS, strict=False))
    return [(entry, colours.get(entry.method)) for entry in entries]


def _grey_note(entries: Sequence[MethodScores]) -> str:
    grey = sum(colour is None for _, colour in coloured(entries))
    return f"\ncoloured: best of each setting, ProtoNet, the lowest; grey: the other {grey}" if grey else ""
