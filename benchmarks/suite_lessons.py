"""Draw what the suites teach: ``python -m benchmarks.suite_lessons -o docs`` makes five figures, prints numbers.

All is computed from the boards that come with Longshot; nothing is measured. A series is a network with a method.
Judges of a testbed are left out of what is said about it.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from longshot.publish.leaderboard import Entry, Leaderboard, shipped_board
from longshot.publish.suite import Suite, open_suite, suite_names
from longshot.reports import LIGHT, new_axes, new_figure, save_figure
from longshot.statistics import mean_interval, plus_minus

GROUP = "hard-photos-1"
STEPS = ("easy", "uniform", "alike", "difficult", "both")
METHOD = "protonet"  # of the figures that compare networks


def boards() -> dict[str, tuple[Suite, Leaderboard]]:
    """Open every suite of the group that has a board."""
    suites = [open_suite(name) for name in suite_names(GROUP) or []]
    opened = {suite.name: (suite, shipped_board(suite)) for suite in suites}
    return {name: pair for name, pair in opened.items() if pair[1].entries}


def judged(entry: Entry, board: Leaderboard) -> bool:
    """Tell whether the network of an entry judged any testbed of the suite."""
    return any(
        each.scores[name].judge
        for each in board.entries
        if each.identity == entry.identity
        for name in each.scores
    )


def mean_accuracy(entry: Entry, bed: str) -> float:
    """Return the mean accuracy on one testbed, in per cent."""
    return 100 * entry.scores[bed].mean


def draw_falls(opened: dict[str, tuple[Suite, Leaderboard]], out: Path) -> None:
    """Figure 1: accuracy from easy to hard, one panel per suite, a line per network."""
    models = sorted({entry.model for _, board in opened.values() for entry in board.entries})
    with new_figure(230, width=180 * len(opened), palette=LIGHT) as figure:
        for number, (name, (_, board)) in enumerate(opened.items()):
            axes = figure.add_subplot(1, len(opened), number + 1)
            for entry in (each for each in board.entries if each.method == METHOD):
                beds = [f"{step}-5" for step in STEPS if f"{step}-5" in entry.scores]
                style = "--" if judged(entry, board) else "-"
                colour = LIGHT.series[models.index(entry.model) % len(LIGHT.series)]
                axes.plot([mean_accuracy(entry, bed) for bed in beds], style, color=colour, label=entry.model)
            axes.set_xticks(range(len(beds)), [bed.partition("-")[0] for bed in beds], rotation=40)
            axes.set_ylim(0, 100)
            axes.set_title(name)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=4, fontsize=7)
        figure.tight_layout(rect=(0, 0.12, 1, 1))
        save_figure(figure, out / "lessons-falls.svg")


def draw_drops(opened: dict[str, tuple[Suite, Leaderboard]], out: Path) -> None:
    """Figure 2: the drop from uniform to difficult tasks per method, over networks that were no judges."""
    drops: dict[str, list[np.ndarray[Any, Any]]] = {}
    for _, board in opened.values():
        for entry in board.entries:
            if not judged(entry, board):
                fall = np.subtract(
                    entry.scores["difficult-5"].accuracies, entry.scores["uniform-5"].accuracies
                )
                drops.setdefault(entry.method, []).append(100 * fall)
    rows = sorted(((method, mean_interval(np.mean(falls, axis=0))) for method, falls in drops.items()),
                  key=lambda row: row[1].mean)  # fmt: skip
    print("Drop from uniform to difficult tasks, points, mean of networks that were no judges:")
    for method, interval in rows:
        print(f"  {method:20} {plus_minus(interval.mean, interval.half, 'plain', 1)}")
    _dots(out / "lessons-drops.svg", [row[0] for row in rows], [row[1].mean for row in rows],
          [row[1].half or 0.0 for row in rows], "points lost on difficult tasks")  # fmt: skip


def draw_transfer(opened: dict[str, tuple[Suite, Leaderboard]], out: Path) -> None:
    """Figure 3: the drop of judges beside that of networks that took no part, per suite."""
    names, means, halves = [], [], []
    print("Drop of judges and of others, points:")
    for name, (_, board) in opened.items():
        for who, judging in (("judges", True), ("others", False)):
            entries = [e for e in board.entries if e.method == METHOD and judged(e, board) == judging]
            falls = [
                np.subtract(e.scores["difficult-5"].accuracies, e.scores["uniform-5"].accuracies)
                for e in entries
            ]
            if falls:
                interval = mean_interval(100 * np.mean(falls, axis=0))
                names.append(f"{name}: {who}")
                means.append(interval.mean)
                halves.append(interval.half or 0.0)
                print(f"  {names[-1]:24} {plus_minus(interval.mean, interval.half, 'plain', 1)}")
    _dots(out / "lessons-transfer.svg", names, means, halves, "points lost on difficult tasks")


def draw_ranks(opened: dict[str, tuple[Suite, Leaderboard]], out: Path) -> None:
    """Figure 4: Kendall's τ between the rankings of series on kinds of tasks, mean over suites."""
    table = np.full((len(STEPS), len(STEPS)), math.nan)
    for (i, a), (j, b) in itertools.product(enumerate(STEPS), repeat=2):
        taus = []
        for _, board in opened.values():
            entries = [e for e in board.entries if not judged(e, board)]
            if all(f"{step}-5" in e.scores for e in entries for step in (a, b)) and len(entries) > 2:
                columns = [[mean_accuracy(e, f"{step}-5") for e in entries] for step in (a, b)]
                taus.append(kendalltau(*columns).statistic)
        table[i, j] = np.mean(taus) if taus else math.nan
    print("Kendall's tau between rankings, mean over suites:")
    for step, line in zip(STEPS, table, strict=True):
        print(f"  {step:10} " + " ".join(f"{value:6.2f}" for value in line))
    with new_figure(220, width=260, palette=LIGHT) as figure:
        axes = new_axes(figure, (60, 10, 10, 50))
        axes.imshow(table, vmin=-1, vmax=1, cmap="RdBu")
        for i, j in itertools.product(range(len(STEPS)), repeat=2):
            axes.text(j, i, f"{table[i, j]:.2f}", ha="center", va="center", fontsize=8)
        axes.set_xticks(range(len(STEPS)), STEPS, rotation=40)
        axes.set_yticks(range(len(STEPS)), STEPS)
        axes.grid(visible=False)
        save_figure(figure, out / "lessons-ranks.svg")


def draw_ladder(opened: dict[str, tuple[Suite, Leaderboard]], out: Path) -> None:
    """Figure 5: what networks that took no part reach on tasks of a stated accuracy."""
    print("Accuracy on the ladder, % (protonet), networks that took no part:")
    with new_figure(240, width=300, palette=LIGHT) as figure:
        axes = new_axes(figure, (45, 10, 10, 40))
        axes.plot([30, 100], [30, 100], color=LIGHT.muted, linestyle=":")
        for number, (name, (suite, board)) in enumerate(opened.items()):
            steps = [bed for bed, kind in suite.kinds.items() if kind == "ladder"]
            stated = [float(bed.partition("-")[2]) for bed in steps]
            for entry in (e for e in board.entries if e.method == METHOD and not judged(e, board)):
                reached = [mean_accuracy(entry, bed) for bed in steps]
                axes.plot(stated, reached, "o-", color=LIGHT.series[number % len(LIGHT.series)], markersize=3,
                          label=name, linewidth=0.8)  # fmt: skip
                print(f"  {name:12} {entry.model:24} " + " ".join(
                    f"{aim:.0f}→{value:.1f}" for aim, value in zip(stated, reached, strict=True)))  # fmt: skip
        unique = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        axes.legend(unique.values(), unique.keys(), fontsize=7)
        axes.set_xlabel("stated accuracy, %")
        axes.set_ylabel("measured, %")
        save_figure(figure, out / "lessons-ladder.svg")


def _dots(
    path: Path, names: Sequence[str], means: Sequence[float], halves: Sequence[float], label: str
) -> None:
    """Draw estimates with intervals, a line each."""
    with new_figure(40 + 16 * len(names), width=320, palette=LIGHT) as figure:
        axes = new_axes(figure, (130, 10, 8, 32))
        axes.errorbar(means, range(len(names)), xerr=halves, fmt="o", color=LIGHT.series[0], markersize=3)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlabel(label)
        save_figure(figure, path)


def main() -> None:
    """Draw all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    opened = boards()
    for draw in (draw_falls, draw_drops, draw_transfer, draw_ranks, draw_ladder):
        draw(opened, out)


if __name__ == "__main__":
    main()
