"""The pictures of the studies of tasks by meaning: coarsity, class balance, accuracy by coarsity, quartile and ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.core.arrays import Floats
from longshot.studies.engine.figures import axes_of
from longshot.studies.semantic.scores import MethodScores, leader

if TYPE_CHECKING:
    from longshot.statistics import Rolling

KINDS = {"uniform": "#3b6fb6", "semantic": "#c8412b"}
_COLOURS = ("#c8412b", "#3b6fb6", "#8a6d1b", "#6b4c9a")


def histograms(values: Mapping[str, Floats], path: Path) -> None:
    """Coarsity of the tasks of each testbed, as shares of its tasks (the paper's figure 1)."""
    low = min(float(one.min()) for one in values.values())
    high = max(float(one.max()) for one in values.values())
    edges = np.linspace(low, high if high > low else low + 1, 41)
    with axes_of(path) as axes:
        for kind, one in values.items():
            weights = np.full(len(one), 100 / len(one))
            label = f"{kind} (mean {one.mean():.1f})"
            axes.hist(one, edges, weights=weights, color=KINDS[kind], alpha=0.55, label=label)
        axes.set_xlabel("coarsity of a task (low: classes close in meaning)")
        axes.set_ylabel("tasks (%)")
        axes.set_title("How coarse the tasks are")
        axes.legend()


def balance(shares: Mapping[str, Floats], way: int, path: Path) -> None:
    """Share of tasks that each class occurs in, most frequent first (the paper's figure 3)."""
    with axes_of(path) as axes:
        for kind, one in shares.items():
            place = np.arange(1, len(one) + 1)
            axes.plot(place, 100 * one, color=KINDS[kind], drawstyle="steps-mid", label=kind, linewidth=1.6)
        count = len(next(iter(shares.values())))
        even = 100 * way / count
        axes.axhline(
            even, color="#666666", linestyle=(0, (3, 3)), linewidth=1, label=f"all equal ({even:.2g} %)"
        )
        axes.set_ylim(0)
        axes.set_xlabel(f"the {count:,} classes, most frequent first")
        axes.set_ylabel("tasks with the class (%)")
        axes.set_title("How often classes occur")
        axes.legend()


def rolling(entries: Sequence[MethodScores], window: int, title: str, path: Path) -> None:
    """Rolling mean of accuracy against coarsity (the paper's figure 5); bands for the methods that are named."""
    from longshot.statistics import rolling_mean

    tasks = len(entries[0].accuracy)
    width = min(window, max(2, tasks // 4))  # a window over most tasks would show nothing
    with axes_of(path) as axes:
        for entry, colour in _shown(entries):
            assert entry.coarsity is not None
            x, mean, low, high = _curve(rolling_mean(entry.coarsity, entry.accuracy, width))
            if colour is None:
                axes.plot(x, mean, color="#bbbbbb", linewidth=0.9, zorder=1)
                continue
            axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(x, mean, color=colour, linewidth=1.8, label=entry.method, zorder=2)
        axes.grid(axis="y")
        axes.set_xlabel("coarsity (low: classes close in meaning)")
        axes.set_ylabel("accuracy (%)")
        axes.set_title(f"{title}: mean of {width} neighbouring tasks with its 95 % band{_rest(entries)}")
        axes.legend(loc="upper left")


def parts(
    entries: Sequence[MethodScores],
    names: Sequence[str],
    values: Sequence[Sequence[Floats]],
    title: str,
    path: Path,
) -> None:
    """Mean accuracy with its 95 % interval on each part of a testbed; ``values[part][method]``."""
    from longshot.statistics import mean_interval

    colours = {entry.method: colour for entry, colour in _shown(entries)}
    with axes_of(path) as axes:
        for number, entry in enumerate(entries):
            colour = colours[entry.method]
            found = [mean_interval(part[number]) for part in values]
            mean = np.array([100 * one.mean for one in found])
            x = np.arange(len(names)) + (number - (len(entries) - 1) / 2) * 0.02
            style: dict[str, Any] = {"color": "#bbbbbb", "linewidth": 0.9, "zorder": 1}
            if colour is not None:
                style = {"color": colour, "linewidth": 1.8, "marker": "o", "markersize": 4, "zorder": 2}
                half = [100 * (one.half or 0.0) for one in found]
                axes.errorbar(x, mean, half, fmt="none", ecolor=colour, elinewidth=1.2)
            axes.plot(x[:-1], mean[:-1], label=entry.method if colour else None, **style)
            axes.plot(x[-1:], mean[-1:], **{**style, "marker": "o", "markersize": 4})
        axes.set_xticks(np.arange(len(names)), names)
        axes.grid(axis="y")
        axes.set_ylabel("accuracy (%)")
        axes.set_title(f"{title}: mean with its 95 % interval by quartile of coarsity{_rest(entries)}")
        axes.legend(loc="upper left")


def ways(entries: Mapping[int, Sequence[MethodScores]], title: str, path: Path) -> None:
    """Top-1 accuracy against the number of classes in a task, with chance; way → methods."""
    from longshot.statistics import mean_interval

    order = sorted(entries)
    with axes_of(path) as axes:
        for number, (entry, colour) in enumerate(_shown(entries[order[-1]])):
            mine = [next(e for e in entries[way] if e.method == entry.method) for way in order]
            found = [mean_interval(one.accuracy) for one in mine]
            mean = [100 * one.mean for one in found]
            shown = colour or "#bbbbbb"
            axes.errorbar(
                np.array(order) * (1 + 0.006 * number),
                mean,
                [100 * (one.half or 0.0) for one in found],
                color=shown,
                linewidth=1.8 if colour else 0.9,
                marker="o",
                markersize=4,
                zorder=2 if colour else 1,
                label=entry.method if colour else None,
            )
        x = np.geomspace(order[0], order[-1], 50)
        axes.plot(x, 100 / x, color="#666666", linestyle=(0, (3, 3)), linewidth=1, label="chance")
        axes.set_xscale("log")
        axes.set_xticks(order, [str(way) for way in order])
        axes.set_xticks([], minor=True)
        axes.set_ylim(0)
        axes.grid(axis="y")
        axes.set_xlabel("classes in a task")
        axes.set_ylabel("top-1 accuracy (%)")
        axes.set_title(f"{title}: mean with its 95 % interval{_rest(entries[order[-1]])}")
        axes.legend()


def _curve(found: Rolling) -> list[Floats]:
    """x and percentages of mean, low and high, one point per x.

    In a small taxonomy many tasks have the same coarsity; windows within them differ by the order of equals alone, so
    those at one place are averaged.
    """
    x, place = np.unique(np.round(found.x, 9), return_inverse=True)
    count = np.bincount(place)
    return [x, *(100 * np.bincount(place, one) / count for one in (found.mean, found.low, found.high))]


def _shown(entries: Sequence[MethodScores]) -> list[tuple[MethodScores, str | None]]:
    """Up to four methods get a colour: best transductive, best inductive, ProtoNet, the lowest; others are grey."""
    named = [leader(entries, setting) for setting in ("transductive", "inductive")]
    named += [entry for entry in entries if entry.method == "protonet"]
    named.append(min(entries, key=lambda entry: float(entry.accuracy.mean())))
    chosen = list(dict.fromkeys(entry.method for entry in named if entry is not None))
    if len(entries) <= len(_COLOURS):
        chosen += [entry.method for entry in entries if entry.method not in chosen]
    colours = dict(zip(chosen, _COLOURS, strict=False))
    return [(entry, colours.get(entry.method)) for entry in entries]


def _rest(entries: Sequence[MethodScores]) -> str:
    grey = sum(colour is None for _, colour in _shown(entries))
    return f"\ncoloured: best of each setting, ProtoNet, the lowest; grey: the other {grey}" if grey else ""
