"""Draw what the suites teach: ``python -m benchmarks.suite_lessons -o docs`` makes five figures, prints numbers.

All is computed from the boards that come with Longshot; nothing is measured. A series is a network with a method.
Judges of a testbed are left out of what is said about it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from longshot.publish.board_plots import rank_correlations
from longshot.publish.leaderboard import Entry, Leaderboard, shipped_board
from longshot.publish.suite import Suite, open_suite, suite_names
from longshot.reports import LIGHT, new_axes, new_figure, save_figure
from longshot.statistics import mean_interval, plus_minus

GROUP = "hard-pictures-1"
STEPS = ("easy", "uniform", "alike", "difficult", "both")
UNTRAINED = ("pixels", "random-resnet18")
METHOD = "protonet"  # of the figures that compare networks


def boards() -> dict[str, tuple[Suite, Leaderboard]]:
    """Open every suite of the group with its board."""
    suites = [open_suite(name) for name in suite_names(GROUP) or []]
    return {suite.name: (suite, plainly_named(shipped_board(suite))) for suite in suites}


def plainly_named(board: Leaderboard) -> Leaderboard:
    """Call networks that saw another size, on suites of small pictures, by their own names."""
    entries = (each.model_copy(update={"model": each.model.partition("(size=")[0]}) for each in board.entries)
    return board.model_copy(update={"entries": tuple(entries)})


def judged(entry: Entry, board: Leaderboard) -> bool:
    """Tell whether the network of an entry judged any testbed of the suite."""
    return any(
        each.scores[name].judge
        for each in board.entries
        if each.identity == entry.identity
        for name in each.scores
    )


def family(entry: Entry, board: Leaderboard) -> str:
    """Say what a network is to those that judged."""
    if judged(entry, board):
        return "judges"
    return entry.model


def mean_accuracy(entry: Entry, bed: str) -> float:
    """Return the mean accuracy on one testbed, in per cent."""
    return 100 * entry.scores[bed].mean


def draw_falls(opened: dict[str, tuple[Suite, Leaderboard]], out: Path) -> None:
    """Figure 1: accuracy from easy to hard, one panel per suite, a line per network."""
    models = sorted({entry.model for _, board in opened.values() for entry in board.entries})
    print(f"Accuracy with {METHOD}, five photos per class, %: " + ", ".join(STEPS))
    across = -(-len(opened) // 2)
    with new_figure(400, width=180 * across, palette=LIGHT) as figure:
        for number, (name, (_, board)) in enumerate(opened.items()):
            axes = figure.add_subplot(2, across, number + 1)
            for entry in (each for each in board.entries if each.method == METHOD):
                beds = [f"{step}-5" for step in STEPS if f"{step}-5" in entry.scores]
                scores = [entry.scores[bed] for bed in beds]
                numbers = " ".join(plus_minus(s.mean, s.half, digits=1) for s in scores)
                print(f"  {name:12} {entry.model:20} {numbers}")
                style = "--" if judged(entry, board) else "-"
                colour = LIGHT.series[models.index(entry.model) % len(LIGHT.series)]
                axes.plot([mean_accuracy(entry, bed) for bed in beds], style, color=colour, label=entry.model)
            axes.set_xticks(range(len(beds)), [bed.partition("-")[0] for bed in beds], rotation=40)
            axes.set_ylim(0, 100)
            axes.set_title(name)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=4, fontsize=7)
        figure.tight_layout(rect=(0, 0.07, 1, 1))
        save_figure(figure, out / "lessons-falls.svg")


def draw_drops(opened: dict[str, tuple[Suite, Leaderboard]], out: Path) -> None:
    """Figure 2: the drop from uniform to difficult tasks per method, over networks that were no judges.

    Methods are compared on the same networks and suites: the figure has the methods that all have, and what is printed
    below it all methods where they were all measured.
    """
    drops: dict[tuple[str, str], dict[str, np.ndarray[Any, Any]]] = {}
    for name, (_, board) in opened.items():
        for entry in (
            each for each in board.entries if each.model not in UNTRAINED and not judged(each, board)
        ):
            fall = np.subtract(entry.scores["difficult-5"].accuracies, entry.scores["uniform-5"].accuracies)
            drops.setdefault((name, entry.model), {})[entry.method] = 100 * fall
    most = max(drops.values(), key=len)
    for number, methods in enumerate((set.intersection(*map(set, drops.values())), set(most))):
        falls = {series: own for series, own in drops.items() if methods <= set(own)}
        rows = [(method, mean_interval(np.mean([own[method] for own in falls.values()], axis=0)))
                for method in methods]  # fmt: skip
        rows.sort(key=lambda row: row[1].mean)
        print("Drop from uniform to difficult tasks, points, mean of", ", ".join(map(" ".join, falls)))
        for method, interval in rows:
            print(f"  {method:20} {plus_minus(interval.mean, interval.half, 'plain', 1)}")
        if not number:
            _dots(out / "lessons-drops.svg", [row[0] for row in rows], [row[1].mean for row in rows],
                  [row[1].half or 0.0 for row in rows], "points lost on difficult tasks")  # fmt: skip


def draw_transfer(opened: dict[str, tuple[Suite, Leaderboard]], out: Path) -> None:
    """Figure 3: the drop of judges beside that of each network that took no part, per suite."""
    names, means, halves = [], [], []
    print("Drop from uniform to difficult tasks, points, of judges and of each network that was none:")
    for name, (_, board) in opened.items():
        groups: dict[str, list[Entry]] = {}
        for entry in (each for each in board.entries if each.method == METHOD):
            groups.setdefault(family(entry, board), []).append(entry)
        for who, entries in sorted(groups.items(), key=lambda group: (group[0] != "judges", group[0])):
            falls = [
                np.subtract(e.scores["difficult-5"].accuracies, e.scores["uniform-5"].accuracies)
                for e in entries
            ]
            interval = mean_interval(100 * np.mean(falls, axis=0))
            names.append(f"{name}: {who}")
            means.append(interval.mean)
            halves.append(interval.half or 0.0)
            print(f"  {names[-1]:34} {plus_minus(interval.mean, interval.half, 'plain', 1)}")
    _dots(out / "lessons-transfer.svg", names, means, halves, "points lost on difficult tasks")


def draw_ranks(opened: dict[str, tuple[Suite, Leaderboard]], out: Path) -> None:
    """Figure 4: Kendall's τ between the ranking on uniform tasks and on every other kind, per suite."""
    rows: list[tuple[str, float, float, float]] = []
    print("Kendall's tau between the ranking on uniform tasks and on others, [95 % interval]:")
    for name, (_, board) in opened.items():
        parts = {step: [(name, bed) for bed in (f"{step}-5", f"{step}-1")] for step in STEPS}
        taus = rank_correlations([board], parts)
        for step in (each for each in STEPS if ("uniform", each) in taus):
            tau = taus["uniform", step]
            assert tau.low is not None and tau.high is not None
            rows.append((f"{name}: {step}", tau.mean, tau.low, tau.high))
            print(f"  {rows[-1][0]:24} {tau.with_bounds('plain', 2)}, {tau.n} series")
    over_suites = rank_correlations([board for _, board in opened.values()], {
        name: [(name, bed) for bed in board.testbeds] for name, (_, board) in opened.items()
    })  # fmt: skip
    for (suite_a, suite_b), tau in over_suites.items():
        if suite_a < suite_b:
            print(f"  {suite_a + ' and ' + suite_b:24} {tau.with_bounds('plain', 2)}, {tau.n} series")
    means, lows, highs = ([row[number] for row in rows] for number in (1, 2, 3))
    spans = [np.subtract(means, lows), np.subtract(highs, means)]
    _dots(out / "lessons-ranks.svg", [row[0] for row in rows], means, spans, "Kendall's τ with uniform tasks")


def draw_ladder(opened: dict[str, tuple[Suite, Leaderboard]], out: Path) -> None:
    """Figure 5: what networks that took no part reach on tasks of a stated accuracy."""
    print(f"Accuracy on the ladder, % ({METHOD}), networks that took no part:")
    with new_figure(240, width=320, palette=LIGHT) as figure:
        axes = new_axes(figure, (45, 10, 10, 40))
        axes.plot([20, 100], [20, 100], color=LIGHT.muted, linestyle=":")
        for number, (name, (suite, board)) in enumerate(opened.items()):
            stated = {bed: 100 * aim for bed, (aim, _) in suite.ladder.items()}
            for entry in (e for e in board.entries if e.method == METHOD and not judged(e, board)):
                scores = [entry.scores[bed] for bed in stated]
                colour = LIGHT.series[number % len(LIGHT.series)]
                style = "s--" if entry.model == "resnet50" else "o-"
                if entry.model in ("resnet50", "efficientnet-lite2"):
                    axes.plot(list(stated.values()), [100 * s.mean for s in scores], style, color=colour,
                              markersize=3, label=f"{name}, {entry.model}", linewidth=0.8)  # fmt: skip
                print(f"  {name:12} {entry.model:20} " + ", ".join(
                    f"{aim:.0f} → {plus_minus(s.mean, s.half, digits=1)}"
                    for aim, s in zip(stated.values(), scores, strict=True)))  # fmt: skip
        axes.legend(fontsize=6)
        axes.set_xlabel("stated accuracy, %")
        axes.set_ylabel("measured, %")
        save_figure(figure, out / "lessons-ladder.svg")


def _dots(
    path: Path, names: Sequence[str], means: Sequence[float], halves: Sequence[Any], label: str
) -> None:
    """Draw estimates with intervals, a line each."""
    with new_figure(40 + 16 * len(names), width=380, palette=LIGHT) as figure:
        axes = new_axes(figure, (190, 10, 8, 32))
        axes.errorbar(means, range(len(names)), xerr=halves, fmt="o", color=LIGHT.series[0], markersize=3)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlabel(label)
        save_figure(figure, path)


def say_shifts(opened: dict[str, tuple[Suite, Leaderboard]], out: Path) -> None:
    """Print what networks reach where references and queries are of different kinds; no figure."""
    print(
        f"Accuracy with {METHOD}, %, where references and queries differ in kind, and on Meta-Dataset's episodes:"
    )
    for name, (suite, board) in opened.items():
        beds = [bed for bed, kind in suite.kinds.items() if kind in ("shifted", "varied")]
        for bed in beds:
            scores = {e.model: e.scores[bed] for e in board.entries if e.method == METHOD}
            numbers = (f"{model} {plus_minus(s.mean, s.half, digits=1)}" for model, s in scores.items())
            print(f"  {name}/{bed}: " + ", ".join(numbers))


def draw_all(out: Path) -> None:
    """Draw all figures, and print all numbers."""
    out.mkdir(parents=True, exist_ok=True)
    opened = boards()
    for draw in (draw_falls, draw_drops, draw_transfer, draw_ranks, draw_ladder, say_shifts):
        draw(opened, out)


def main() -> None:
    """Read the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    draw_all(parser.parse_args().out)


if __name__ == "__main__":
    main()
