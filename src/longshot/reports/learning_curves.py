"""Learning curves: loss and validation accuracy against the step, from the folders of trained networks.

A folder holds ``history.jsonl`` with one record per line. Read are ``step``, ``seconds``, ``loss``, and
``validation_accuracy`` with ``validation_interval``, which are null where nothing was validated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from pydantic import ValidationError

from longshot.base import Floats, LooseRecord, UserError
from longshot.reports.report_data import unique_names
from longshot.reports.svg import (
    COLOURS,
    LIGHT,
    PAGE,
    WIDTH,
    Palette,
    new_axes,
    new_figure,
    picture_kind,
    save_figure,
    series_style,
    shorten,
    to_svg,
)

Draw: TypeAlias = Callable[[Any, Sequence["TrainingHistory"], Palette], None]
HISTORY = "history.jsonl"
POINTS = 120  # of a line of losses; where there are more records, neighbours are averaged
HEIGHT = 254


class HistoryLine(LooseRecord):
    """One line of a history; what was not validated is null, as is a loss that was not a number."""

    step: float
    seconds: float
    loss: float | None
    validation_accuracy: float | None = None
    validation_interval: tuple[float, float] | None = None


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
    """Read the histories in the folders, named after them; UserError where one is missing or damaged."""
    paths = [Path(folder) for folder in folders]
    names = unique_names([path.resolve().name or str(path) for path in paths])
    return [_read(path, name) for path, name in zip(paths, names, strict=True)]


def _read(folder: Path, name: str) -> TrainingHistory:
    path = folder / HISTORY
    if not path.is_file():
        raise UserError(
            f"{folder} is not the folder of a training: it has no {HISTORY}", "{train()} writes one"
        )
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            records.append(HistoryLine.model_validate_json(line))
        except ValidationError as error:
            detail = error.errors()[0]
            reason = ": ".join(filter(None, (".".join(map(str, detail["loc"])), detail["msg"])))
            raise UserError(
                f"Line {number} of {path} is no record of a training ({reason})",
                "call {train()} again as before, it goes on from its last checkpoint",
            ) from None
    if not records:
        raise UserError(
            f"{path} holds 0 records and a learning curve needs at least 1", "let the training go on"
        )
    checked = [record for record in records if record.validation_accuracy is not None]
    accuracy = np.array([record.validation_accuracy for record in checked], np.float64)
    bounds = np.array([record.validation_interval or (math.nan, math.nan) for record in checked]).reshape(
        -1, 2
    )
    return TrainingHistory(
        name=name,
        step=np.array([record.step for record in records], np.float64),
        loss=np.array([record.loss for record in records], np.float64),
        seconds=records[-1].seconds,
        validated=np.array([record.step for record in checked], np.float64),
        accuracy=accuracy,
        low=bounds[:, 0],
        high=bounds[:, 1],
        # A training keeps a network when it beats all before it: the first of the highest.
        best=int(np.argmax(accuracy)) if len(accuracy) else None,
    )


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return at most ``POINTS`` means of neighbouring records."""
    parts = np.array_split(np.arange(len(x)), min(POINTS, len(x)))
    return np.array([x[part].mean() for part in parts]), np.array([y[part].mean() for part in parts])


def draw_loss(axes: Any, trainings: Sequence[TrainingHistory], palette: Palette) -> None:
    """Draw training loss against the step, one line per training."""
    for number, training in enumerate(trainings):
        x, y = _thinned(training.step, training.loss)
        axes.plot(x, y, **_line(number, len(x), palette))
    axes.set_ylabel("training loss")
    _finish(axes)


def draw_validation(axes: Any, trainings: Sequence[TrainingHistory], palette: Palette) -> None:
    """Draw validation accuracy with its 95 % band against the step; a star marks the network kept."""
    for number, training in enumerate(trainings):
        colour = palette.series[number % COLOURS]
        band = (training.validated, 100 * training.low, 100 * training.high)
        axes.fill_between(*band, color=colour, alpha=0.18, linewidth=0)
        if len(training.validated) == 1:  # a band of one point has no width
            axes.vlines(*band, color=colour, linewidth=1.6)
        style = _line(number, len(training.validated), palette)
        axes.plot(training.validated, 100 * training.accuracy, **style)
        best = training.best_at()
        if best is not None:
            star = {**series_style(number, 13, palette), "marker": "*", "markeredgecolor": palette.ink}
            axes.plot([best[0]], [100 * best[1]], **star, zorder=4)
    axes.set_ylabel("validation accuracy (%)")
    _finish(axes)


def _line(number: int, points: int, palette: Palette) -> dict[str, Any]:
    """Return the style of a training's line: marker at its end, or on all points where these are few."""
    every = None if points <= 12 else [points - 1]
    return {**series_style(number, 5.5, palette), "linewidth": 1.6, "markevery": every}


def _finish(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.margins(x=0.03, y=0.08)
    axes.grid(axis="y")
    axes.set_xlabel("step")


def curve_plots(trainings: Sequence[TrainingHistory], *, prefix: str = "curve") -> list[tuple[str, str]]:
    """List (what, SVG for a page): the loss, and the validation accuracy where something was validated."""
    panels: list[tuple[str, str]] = []
    for title, draw in _panels(trainings):
        with new_figure(HEIGHT) as figure:
            draw(new_axes(figure, (52, 16, 10, 44)), trainings, PAGE)
            names = ", ".join(training.name for training in trainings)
            panels.append((title, to_svg(figure, f"{prefix}{len(panels)}", f"{title} against step: {names}")))
    return panels


def _panels(trainings: Sequence[TrainingHistory]) -> list[tuple[str, Draw]]:
    panels: list[tuple[str, Draw]] = [("Training loss", draw_loss)]
    if any(len(training.validated) for training in trainings):
        panels.append(("Validation accuracy", draw_validation))
    return panels


def write_curves(folders: Sequence[str | Path], out: str | Path) -> Path:
    """Draw the learning curves of the folders into one picture (.png, .svg or .pdf) and return its path."""
    from matplotlib.lines import Line2D

    path = Path(out)
    picture_kind(path)
    trainings = read_trainings(folders)
    panels = _panels(trainings)
    several = 18 * len(trainings) if len(trainings) > 1 else 0
    width = WIDTH * len(panels)
    with new_figure(HEIGHT + several, width=width, palette=LIGHT) as figure:
        for number, (_, draw) in enumerate(panels):
            right = width - (number + 1) * WIDTH
            axes = new_axes(figure, (number * WIDTH + 52, right + 16, 10, 44 + several))
            draw(axes, trainings, LIGHT)
        if several:
            # By hand: a name that begins with an underscore is left out of a legend that Matplotlib gathers.
            handles = [Line2D([], [], **_line(number, 1, LIGHT)) for number in range(len(trainings))]
            names = [shorten(training.name, 90) for training in trainings]
            figure.legend(handles, names, loc="lower left")
        save_figure(figure, path)
    return path


def folder_curves(folder: Path) -> Path:
    """Draw the curves of one training as ``curves.svg`` in its own folder."""
    return write_curves([folder], folder / "curves.svg")
