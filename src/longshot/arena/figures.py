"""The figures of a competition: means by name, curves over ways and shots, how difficult the datasets are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from longshot.arena.inside.scoring import METRICS, telling_half
from longshot.reports import INK, SERIES, WIDTH, charts, new_axes, new_figure, percent_axis, shorten, to_svg

MAIN = METRICS[0]
AXIS = "normalised accuracy (%)"
LEGEND = (
    (0, "worst entry"),
    (1, "modelling difficulty: best − worst"),
    (6, "intrinsic difficulty: 100 − best"),
)


class Difficulty(NamedTuple):
    """Scores of the worst and the best entry on a dataset; ``half`` of the 95 % interval of the best."""

    name: str
    worst: float
    best: float
    half: float | None = None


def means(groups: Mapping[str, Any], prefix: str, *, one_colour: bool = False) -> str:
    """Mean with its 95 % interval per name; 0, which is guessing, stays in view (figure 1 of the paper)."""
    rows = []
    for index, (name, values) in enumerate(groups.items()):
        mean, half = 100 * values[MAIN], telling_half(values, MAIN)
        low, high = (None, None) if half is None else (mean - 100 * half, mean + 100 * half)
        note = f"{mean:.1f}" + ("" if half is None else f" ± {100 * half:.1f}")
        rows.append(charts.EstimateRow(0 if one_colour else index, name, mean, low, high, note))
    return charts.intervals(rows, xlabel=AXIS, prefix=prefix, zero=True)


def curves(series: Mapping[str, Mapping[str, Any]], xlabel: str, prefix: str) -> str:
    """Mean over a number of classes or shots, one line per name (figure 2)."""
    lines = [curve(index, name, groups) for index, (name, groups) in enumerate(series.items())]
    return charts.rolling(lines, xlabel=xlabel, ylabel=AXIS, prefix=prefix)


def curve(index: int, label: str, groups: Mapping[str, Any]) -> charts.Curve:
    """Mean over x with the band of its interval; NaN, no thin band, where a group has too few tasks."""
    keys = sorted(groups, key=int)
    means = np.array([groups[key][MAIN] for key in keys])
    halves = np.array([telling_half(groups[key], MAIN) for key in keys], np.float64)  # None becomes NaN
    return charts.Curve(index, label, np.array(keys, np.float64), means, means - halves, means + halves)


def difficulties(datasets: Sequence[Difficulty], prefix: str) -> str:
    """Bars from 0 to 100 per dataset: the worst entry, up to the best, and what the best leaves (figure 3)."""
    height = 40
    with new_figure(height * len(datasets) + 46) as figure:
        axes = new_axes(figure, (12, 12, 2, 40))
        lowest = min(0.0, *(100 * dataset.worst for dataset in datasets))
        axes.set_xlim(lowest, 100)
        axes.set_ylim(-height * len(datasets), 0)
        for position, dataset in enumerate(datasets):
            base = -position * height - height + 11
            ends = [min(0.0, 100 * dataset.worst), 100 * dataset.worst, 100 * dataset.best, 100.0]
            for (colour, _), start, end in zip(LEGEND, ends, ends[1:], strict=False):
                axes.barh(base, end - start, left=start, height=11, color=SERIES[colour])
            if dataset.half is not None:
                reach = [ends[2] - 100 * dataset.half, ends[2] + 100 * dataset.half]
                axes.plot(reach, [base, base], color=INK, linewidth=1.5)
            across = axes.get_yaxis_transform()
            note = f"{ends[1]:.1f} / {ends[2]:.1f}"
            note += "" if dataset.half is None else f" ± {100 * dataset.half:.1f}"
            room = int((WIDTH - 32 - 6.5 * len(note)) / 7.5)
            style = {"transform": across, "color": INK, "fontsize": 11, "va": "bottom"}
            axes.text(0, base + 8, shorten(dataset.name, room), **style)
            axes.text(1, base + 8, note, ha="right", **style)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(AXIS)
        percent_axis(axes.xaxis)
        spans = "; ".join(f"{each.name} {100 * each.worst:.1f} to {100 * each.best:.1f}" for each in datasets)
        return to_svg(figure, prefix, f"Worst and best entry by dataset: {spans}")
