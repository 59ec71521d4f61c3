"""The sweep of the study Hard-Meta-Dataset++: accuracy against difficulty, and which method falls first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from longshot.base import Floats
from longshot.reports import Sheet, heads, row
from longshot.studies.engine.figures import axes_of
from longshot.studies.engine.tables import Fact, TableFile
from longshot.studies.hard_md.scores import HardScores, Mean, cell, mean_of, overall, record
from longshot.studies.hard_md.testbeds import sweep_beds

_SERIES = ("#c8412b", "#3b6fb6", "#8a6d1b", "#6b4c9a", "#4a8f4a", "#444444")


def sweep_sources(scores: HardScores) -> list[str]:
    """Sources on which every backbone and method has every difficulty."""
    return scores.shared(sweep_beds(scores.settings).values(), scores.stress_rows())


def held_out(scores: HardScores) -> list[str]:
    """Networks that took no part in choosing; the judge alone where there is no other."""
    return [name for name in scores.backbones if name != scores.judge] or [scores.judge]


def method_curve(scores: HardScores, method: str, source: str) -> dict[float, Floats]:
    """Difficulty → accuracy of a method per task [T], mean over the held-out networks."""
    return {
        difficulty: np.mean(
            [
                values
                for backbone in held_out(scores)
                if (values := scores.accuracy(bed.of_source(source), backbone, method)) is not None
            ],
            axis=0,
        )
        for difficulty, bed in sweep_beds(scores.settings).items()
    }


def sweep_table(scores: HardScores) -> TableFile | None:
    """A row per backbone and method, a column per difficulty; and which method falls first, in words."""
    shared = sweep_sources(scores)
    if not shared:
        return None
    beds = sweep_beds(scores.settings)
    rows = []
    records: list[Fact] = []
    for backbone, method in scores.stress_rows():
        cells = row(scores.title(backbone), method)
        for difficulty, bed in beds.items():
            means = [scores.mean(bed.of_source(source), backbone, method) for source in shared]
            cells.append(cell(overall(means)))
            records += [
                record("sweep", source, "fixed", f"difficulty {difficulty:g}", backbone, method, mean)
                for source, mean in zip(shared, means, strict=True)
            ]
        rows.append(cells)
    names = [
        *heads("backbone", "method"),
        *heads(*(f"{difficulty:g}" for difficulty in beds), group="difficulty"),
    ]
    note = (
        f"Accuracy in %, {mean_of(shared)}. Difficulty: the share of the support images that is exchanged for chosen "
        f"ones, from 0 (uniform) to 1 (difficult). {scores.title(scores.judge)} chose them."
    )
    sheet = Sheet("Accuracy against difficulty, fixed shape", names, [rows], note, 2)
    return TableFile("sweep", [sheet], records, fall_sentences(scores, shared))


def fall_sentences(scores: HardScores, sources: Sequence[str]) -> list[str]:
    """What each method has lost at every difficulty, and which lost most, if the paired interval tells."""
    methods = list(scores.settings.methods)
    curves = {method: [method_curve(scores, method, source) for source in sources] for method in methods}
    sentences = []
    for difficulty in [*sweep_beds(scores.settings)][1:]:
        losses = {
            method: [curve[0.0] - curve[difficulty] for curve in by_source]
            for method, by_source in curves.items()
        }
        means = {method: overall([Mean.of(values) for values in each]) for method, each in losses.items()}
        order = sorted(methods, key=lambda method: -(means[method] or Mean(0, 0)).mean)
        texts = [f"{method} {mean.text()}" for method in order if (mean := means[method]) is not None]
        sentence = f"Difficulty {difficulty:g}, points lost by networks that took no part: {', '.join(texts)}"
        if len(order) > 1:
            pairs = zip(losses[order[0]], losses[order[1]], strict=True)
            apart = overall([Mean.of(first - second) for first, second in pairs])
            if apart is not None:
                surely = apart.mean - apart.half > 0
                sentence += (
                    f"; {order[0]} {'falls first' if surely else 'is not told apart'} ({apart.text(True)})"
                )
        sentences.append(f"{sentence}.")
    return sentences


def draw_sweep(scores: HardScores, path: Path) -> None:
    """Accuracy against difficulty, a line per method: mean over held-out networks and sources, 95 % intervals."""
    sources = sweep_sources(scores)
    with axes_of(path) as axes:
        for method, colour in zip(scores.settings.methods, _SERIES * 4, strict=False):
            curves = [method_curve(scores, method, source) for source in sources]
            points = {
                difficulty: overall([Mean.of(curve[difficulty]) for curve in curves])
                for difficulty in sweep_beds(scores.settings)
            }
            x, y, half = zip(
                *((d, 100 * mean.mean, 100 * mean.half) for d, mean in points.items() if mean is not None),
                strict=True,
            )
            style: Any = {"fmt": "-o", "color": colour, "capsize": 2, "linewidth": 1.4, "label": method}
            axes.errorbar(x, y, half, **style)
        axes.set(xlabel="difficulty (0: uniform supports, 1: difficult ones)", ylabel="accuracy (%)")
        axes.grid(axis="y")
        axes.set_title("Which method falls first?")
        axes.legend(fontsize=8)
