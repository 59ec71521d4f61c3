"""Learning curves: loss and validation accuracy against the step, from the folders of trained networks.

A folder holds ``history.jsonl`` with one record per line. Read are ``step``, ``seconds``, ``loss``, and
``validation_accuracy`` with ``validation_interval``, which are null where nothing was validated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.files import atomic
from longshot.reports.data import unique_names
from longshot.reports.svg import (
    COLOURS,
    LIGHT,
    PAGE,
    WIDTH,
    Palette,
    clean,
    marker,
    new_axes,
    new_figure,
    shorten,
    to_svg,
)

Floats = NDArray[np.float64]
Draw = Callable[[Any, Sequence["TrainingHistory"], Palette], None]
HISTORY = "history.jsonl"
SUFFIXES = (".png", ".svg", ".pdf")
POINTS = 120  # of a line of losses; where there are more records, neighbours are averaged
HEIGHT = 254


@dataclass(frozen=True, eq=False)
class TrainingHistory:
    """The history of one training: R records, of which V were validated; accuracies are shares (0 … 1)."""

    name: str
    step: Floats  # [R]
    loss: Floats  # [R], NaN where it was not a number
    seconds: float  # of the whole training
    validated: Floats  # [V] steps
    accuracy: Floats  # [V]
    low: Floats  # [V], NaN where there was no interval
    high: Floats  # [V]
    best: int | None  # the place in V of the network that was kept

    def best_at(self) -> tuple[int, float, float] | None:
        """Step, accuracy and half the interval (or NaN) of the network that was kept."""
        if self.best is None:
            return None
        half = float(self.high[self.best] - self.low[self.best]) / 2
        return int(self.validated[self.best]), float(self.accuracy[self.best]), half


def read_trainings(folders: Sequence[str | Path]) -> list[TrainingHistory]:
    """The histories in the folders, named after them; UserError where there is none or it is damaged."""
    paths = [Path(folder) for folder in folders]
    names = unique_names([path.resolve().name or str(path) for path in paths])
    return [_read(path, name) for path, name in zip(paths, names, strict=True)]


def _read(folder: Path, name: str) -> TrainingHistory:
    path = folder / HISTORY
    if not path.is_file():
        raise UserError(
            f"{folder} is not the folder of a training: it has no {HISTORY}; 'longshot train' writes one."
        )
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            records.append(_record(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"Line {number} of {path} is no record of a training ({error}); run the same 'longshot train' again, "
                "it goes on from its last checkpoint."
            ) from None
    if not records:
        raise UserError(
            f"{path} holds 0 records and a learning curve needs at least 1; let the training go on."
        )
    checked = [record for record in records if record["accuracy"] is not None]
    accuracy = np.array([record["accuracy"] for record in checked], np.float64)
    return TrainingHistory(
        name=name,
        step=np.array([record["step"] for record in records], np.float64),
        loss=np.array([record["loss"] for record in records], np.float64),
        seconds=records[-1]["seconds"],
        validated=np.array([record["step"] for record in checked], np.float64),
        accuracy=accuracy,
        low=np.array([record["interval"][0] for record in checked], np.float64),
        high=np.array([record["interval"][1] for record in checked], np.float64),
        # A training keeps a network when it beats all before it: the first of the highest.
        best=int(np.argmax(accuracy)) if len(accuracy) else None,
    )


def _record(found: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record as plain numbers."""
    accuracy, interval = found.get("validation_accuracy"), found.get("validation_interval")
    low, high = (math.nan, math.nan) if interval is None else interval
    return {
        "step": float(found["step"]),
        "loss": math.nan if found["loss"] is None else float(found["loss"]),
        "seconds": float(found["seconds"]),
        "accuracy": None if accuracy is None else float(accuracy),
        "interval": (float(low), float(high)),
    }


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """At most ``POINTS`` means of neighbouring records."""
    parts = np.array_split(np.arange(len(x)), min(POINTS, len(x)))
    return np.array([x[part].mean() for part in parts]), np.array([y[part].mean() for part in parts])


def draw_loss(axes: Any, trainings: Sequence[TrainingHistory], palette: Palette) -> None:
    """Training loss against the step, one line per training."""
    for place, one in enumerate(trainings):
        x, y = _thinned(one.step, one.loss)
        axes.plot(x, y, **_line(place, len(x), palette))
    axes.set_ylabel("training loss")
    _finish(axes)


def draw_validation(axes: Any, trainings: Sequence[TrainingHistory], palette: Palette) -> None:
    """Validation accuracy with its 95 % band against the step; a star where the best network was kept."""
    for place, one in enumerate(trainings):
        shown = palette.series[place % COLOURS]
        axes.fill_between(one.validated, 100 * one.low, 100 * one.high, color=shown, alpha=0.18, linewidth=0)
        if len(one.validated) == 1:  # a band of one point has no width
            axes.vlines(one.validated, 100 * one.low, 100 * one.high, color=shown, linewidth=1.6)
        style = _line(place, len(one.validated), palette)
        axes.plot(one.validated, 100 * one.accuracy, **style)
        best = one.best_at()
        if best is not None:
            axes.plot(
                [best[0]],
                [100 * best[1]],
                marker="*",
                markersize=13,
                color=shown,
                markeredgecolor=palette.ink,
                markeredgewidth=0.7,
                zorder=4,
            )
    axes.set_ylabel("validation accuracy (%)")
    _finish(axes)


def _line(place: int, points: int, palette: Palette) -> dict[str, Any]:
    """The line of a training with the marker of the legend at its end; on all points where these are few."""
    return {
        "color": palette.series[place % COLOURS],
        "linewidth": 1.6,
        "marker": marker(place),
        "markersize": 5.5,
        "markeredgecolor": palette.paper,
        "markeredgewidth": 0.7,
        "markevery": None if points <= 12 else [points - 1],
    }


def _finish(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.margins(x=0.03, y=0.08)
    axes.grid(axis="y")
    axes.set_xlabel("step")


def plots(trainings: Sequence[TrainingHistory], *, prefix: str = "curve") -> list[tuple[str, str]]:
    """(what, SVG for a page): the loss, and the validation accuracy where something was validated."""
    found: list[tuple[str, str]] = []
    for what, draw in _panels(trainings):
        with new_figure(HEIGHT) as figure:
            draw(new_axes(figure, left=52, right=16, top=10, bottom=44), trainings, PAGE)
            names = ", ".join(one.name for one in trainings)
            found.append((what, to_svg(figure, f"{prefix}{len(found)}", f"{what} against step: {names}")))
    return found


def _panels(trainings: Sequence[TrainingHistory]) -> list[tuple[str, Draw]]:
    found: list[tuple[str, Draw]] = [("Training loss", draw_loss)]
    if any(len(one.validated) for one in trainings):
        found.append(("Validation accuracy", draw_validation))
    return found


def write_curves(folders: Sequence[str | Path], out: str | Path) -> Path:
    """Draw the learning curves of the folders into one picture (.png, .svg or .pdf) and return its path."""
    from matplotlib.lines import Line2D

    path = Path(out)
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"The ending of '{path}' is none of {', '.join(SUFFIXES)}; use one of them.")
    trainings = read_trainings(folders)
    panels = _panels(trainings)
    several = 18 * len(trainings) if len(trainings) > 1 else 0
    width = WIDTH * len(panels)
    with new_figure(HEIGHT + several, width=width, palette=LIGHT) as figure:
        for place, (_, draw) in enumerate(panels):
            right = width - (place + 1) * WIDTH
            axes = new_axes(figure, left=place * WIDTH + 52, right=right + 16, top=10, bottom=44 + several)
            draw(axes, trainings, LIGHT)
        if several:
            # By hand: a name that begins with an underscore is left out of a legend that Matplotlib gathers.
            handles = [Line2D([], [], **_line(place, 1, LIGHT)) for place in range(len(trainings))]
            names = [shorten(one.name, 90) for one in trainings]
            figure.legend(handles, names, loc="lower left", frameon=False, labelcolor=LIGHT.ink)
        kind = path.suffix.lower()[1:]
        with atomic(path) as temporary:
            metadata = (
                {"Title": clean("Learning curves")}
                if kind == "png"
                else {"Date": None}
                if kind == "svg"
                else {}
            )
            figure.savefig(temporary, format=kind, dpi=150, metadata=metadata)
    return path
