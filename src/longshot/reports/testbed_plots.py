"""The plots of a testbed: histograms, class balance, a measure before and after selection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.base import Floats, Ints
from longshot.reports.svg import CHANCE, INK, MUTED, PAPER, SERIES, new_axes, new_figure, shorten, to_svg
from longshot.tasks import Balance, Change, bin_edges

_BINS = 24
_BEFORE, _AFTER = SERIES[6], SERIES[1]


def histogram(values: NDArray[Any], *, xlabel: str, prefix: str, unit: str = "tasks") -> str:
    """How often each value occurs: one bar per whole number or interval, a dashed line at the mean."""
    edges = bin_edges(values, _BINS)
    counts, _ = np.histogram(values, bins=edges)
    mean = float(values.mean())
    with new_figure(210) as figure:
        axes = new_axes(figure, (46, 12, 22, 42))
        _bars(axes, edges, counts, SERIES[0])
        axes.axvline(mean, **{**CHANCE, "zorder": 3, "color": INK})
        _above(axes, edges, mean, f"mean {mean:.4g}")
        axes.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.04 * counts.max()))
        axes.set(xlabel=shorten(xlabel, 48), ylabel=unit)
        _integer_ticks(axes.yaxis)
        if np.issubdtype(values.dtype, np.integer):
            _integer_ticks(axes.xaxis)
        axes.grid(axis="y")
        return to_svg(
            figure,
            prefix,
            f"Histogram of {xlabel}: {values.min():.4g} to {values.max():.4g}, mean {mean:.4g}",
        )


def balance(classes: Balance, *, prefix: str) -> str:
    """Tasks per class, most frequent class first, with the equal share and its usual range behind."""
    counts = np.array(list(classes.counts.values()))
    low, high = classes.usual
    places = np.arange(len(counts) + 1)
    with new_figure(230) as figure:
        axes = new_axes(figure, (46, 12, 10, 42))
        axes.stairs(counts, places, fill=True, color=SERIES[0], alpha=0.45, linewidth=0)
        axes.stairs(counts, places, color=SERIES[0], linewidth=1.4)
        axes.axhspan(low, high, color=MUTED, alpha=0.16, linewidth=0)
        axes.axhline(classes.expected, **{**CHANCE, "zorder": 3, "color": INK})
        axes.set(xlim=(0, len(counts)), ylim=(0, 1.06 * max(float(counts.max()), high)))
        _integer_ticks(axes.yaxis)
        _integer_ticks(axes.xaxis)
        axes.set(xlabel="classes, most frequent first", ylabel="tasks")
        counts_text = f"{counts[0]} to {counts[-1]} tasks per class, {classes.expected:.1f} in the mean"
        return to_svg(figure, prefix, f"Class balance of {classes.dataset}: {counts_text}")


def change(measure: Change, *, prefix: str, chance: float | None = None) -> str:
    """Two histograms on one scale, before selection above and after it below, each with its mean.

    ``chance`` marks guessing with a dashed line.
    """
    together = np.concatenate([measure.before, measure.after])
    edges = bin_edges(together, 2 * _BINS)
    row, tall = 88, 58
    rows = [("before", measure.before, _BEFORE), ("after", measure.after, _AFTER)]
    counted = [np.histogram(values, bins=edges)[0] for _, values, _ in rows]
    scale = tall / max(int(counts.max()) for counts in counted)
    with new_figure(2 * row + 46) as figure:
        axes = new_axes(figure, (12, 12, 2, 40))
        margin = 0.02 * (edges[-1] - edges[0])
        axes.set(xlim=(edges[0] - margin, edges[-1] + margin), ylim=(-2 * row, 0), yticks=[])
        axes.set_xlabel(shorten(measure.name, 48))
        for position, ((when, values, colour), counts) in enumerate(zip(rows, counted, strict=True)):
            base = -position * row - row + 8
            axes.stairs(base + scale * counts, edges, baseline=base, fill=True, color=colour, alpha=0.5)
            axes.plot(edges[[0, -1]], [base, base], color=colour, linewidth=1)
            if chance is not None:
                axes.vlines([chance], base, base + tall, **CHANCE)
            mean = float(values.mean())
            axes.plot([mean], [base], marker="o", markersize=6.5, color=colour, markeredgecolor=PAPER)
            above: Any = {"transform": axes.get_yaxis_transform(), "color": INK, "va": "bottom"}
            axes.text(0, base + tall + 3, f"{when} selection", **above)
            axes.text(1, base + tall + 3, f"mean {mean:.3f}", **above, ha="right", weight="bold")
        axes.spines["left"].set_visible(False)
        means = f"mean {measure.before.mean():.3f} before, {measure.after.mean():.3f} after"
        return to_svg(figure, prefix, f"{measure.name} before and after selection: {means}")


def _bars(axes: Any, edges: Floats, counts: Ints, colour: str) -> None:
    # Paper-coloured borders part the bars and take no width of their own from the narrowest.
    axes.bar(
        edges[:-1],
        counts,
        width=np.diff(edges),
        align="edge",
        color=colour,
        edgecolor=PAPER,
        linewidth=0.8 if len(counts) > 1 else 0,
    )


def _above(axes: Any, edges: Floats, x: float, text: str) -> None:
    """Text over the axes at ``x``, on the side where there is room."""
    right = x > (edges[0] + edges[-1]) / 2
    transform = axes.get_xaxis_transform()
    axes.text(x, 1.02, text, transform=transform, color=INK, va="bottom", ha="right" if right else "left")


def _integer_ticks(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(6, integer=True))
