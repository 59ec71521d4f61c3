"""The most and the least difficult tasks as pictures: thumbnails per class, wrong predictions marked."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from longshot.base import Floats, Ints, Progress, UserError, progress
from longshot.reports.report_data import Cell, ReportData

if TYPE_CHECKING:
    from PIL.Image import Image

    from longshot.tasks import Task


FindImages: TypeAlias = Callable[[str, Sequence[str]], "list[Image]"]

SIDE = 50  # pixels of a thumbnail
QUALITY = 62
# What one task may show. Beyond it the page says how much it leaves out: 100 classes of pictures help nobody.
MAX_CLASSES, MAX_SUPPORT, MAX_QUERY = 10, 5, 12


@dataclass(frozen=True)
class Thumbnail:
    """A thumbnail as a data URI; ``predicted`` is the name of a wrong answer, None where right."""

    source: str
    key: str
    predicted: str | None = None


@dataclass(frozen=True)
class ClassRow:
    """One class of a task."""

    name: str
    id: str
    right: int
    total: int
    support: tuple[Thumbnail, ...]
    query: tuple[Thumbnail, ...]  # mistakes first
    more_support: int
    more_query: int


@dataclass(frozen=True)
class TaskPicture:
    """One task as the page shows it."""

    task: int
    way: int
    mean: float  # accuracy over the series it was chosen by
    shown: float  # accuracy of the series whose predictions are marked
    wrong: int
    total: int
    rows: tuple[ClassRow, ...]
    more_classes: int


@dataclass(frozen=True)
class Album:
    """The pictures of one testbed, or the one line that says why there are none."""

    bed: int
    series: int  # whose predictions are marked
    judges: int  # how many series chose the tasks
    hardest: tuple[TaskPicture, ...]
    easiest: tuple[TaskPicture, ...]
    problem: str | None = None


def tasks_by_difficulty(cells: Sequence[Cell]) -> tuple[Ints, Floats]:
    """Order the tasks every series has by mean accuracy over the series: hardest first, ties by number."""
    tasks = cells[0].tasks
    for cell in cells[1:]:
        tasks = np.intersect1d(tasks, cell.tasks)
    means = np.mean([cell.accuracy[np.searchsorted(cell.tasks, tasks)] for cell in cells], axis=0)
    # Rounded, because the order of summation must not decide between equal tasks.
    order = np.lexsort((tasks, np.round(means, 9)))
    return tasks[order], means[order]


def choose_extremes(
    cells: Sequence[Cell], count: int
) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Choose the ``count`` hardest and easiest tasks, (task, mean accuracy); no task is in both lists."""
    tasks, means = tasks_by_difficulty(cells)
    hard = min(count, (len(tasks) + 1) // 2)
    ranked = [(int(task), float(mean)) for task, mean in zip(tasks, means, strict=True)]
    # Among equally easy tasks the lower number comes first, as among the hard ones.
    easy = sorted(ranked[hard:], key=lambda pair: (-round(pair[1], 9), pair[0]))
    return ranked[:hard], easy[:count]


def albums(
    data: ReportData,
    images: FindImages | None,
    count: int,
    marked: dict[int, int],
    judges: Sequence[int] | None,
    beds: Sequence[int] | None = None,
) -> list[Album]:
    """Build one album per testbed with the predictions of ``marked``; the series ``judges`` choose the tasks.

    ``beds`` are the places of the testbeds to show; None: all.
    """
    pages = []
    shown = range(len(data.beds)) if beds is None else beds
    with progress("pictures", total=2 * count * len(shown), unit="tasks") as bar:
        for b in shown:
            column = [(s, cell) for s, cell in data.column(b) if judges is None or s in judges]
            if column:
                pages.append(_album(data, b, [cell for _, cell in column], marked[b], images, count, bar))
    return pages


def _album(
    data: ReportData,
    b: int,
    judges: list[Cell],
    series: int,
    images: FindImages | None,
    count: int,
    bar: Progress,
) -> Album:
    cell = data.cells[b, series]

    def without(problem: str) -> Album:
        return Album(b, series, len(judges), (), (), problem)

    if images is None:
        return without("No pictures: this report was made without access to the images.")
    if cell.predictions is None:
        return without("No pictures: the results hold no predictions.")
    hard, easy = choose_extremes(judges, count)
    try:
        hardest, easiest = (
            tuple(_picture(data.beds[b].testbed[task], cell, mean, images, bar) for task, mean in part)
            for part in (hard, easy)
        )
    except UserError as error:
        return without(f"No pictures: {error}")
    return Album(b, series, len(judges), hardest, easiest)


def _picture(task: Task, cell: Cell, mean: float, images: FindImages, bar: Progress) -> TaskPicture:
    """Read the images of one task and mark the mistakes of one series."""
    row = int(np.searchsorted(cell.tasks, task.index))
    assert cell.predictions is not None
    predicted = np.asarray(cell.predictions[row].as_py() or [], dtype=np.int64)
    truth = np.asarray(task.query_label, dtype=np.int64)
    if len(predicted) != len(truth):
        raise UserError(
            f"Task {task.index} has {len(predicted)} predictions for {len(truth)} queries: the results do "
            "not belong to the copy of the testbed in the run folder",
            "call {evaluate()} again",
        )
    rows = class_rows(task, images, predicted)
    bar.advance()
    return TaskPicture(
        task=task.index,
        way=task.way,
        mean=mean,
        shown=float(cell.accuracy[row]),
        wrong=int((predicted != truth).sum()),
        total=len(truth),
        rows=rows,
        more_classes=task.way - len(rows),
    )


def class_rows(task: Task, images: FindImages, predicted: Ints | None = None) -> tuple[ClassRow, ...]:
    """List a task's classes with thumbnails; with ``predicted`` [Q] mistakes come first, with the answer."""
    names = class_names(task.classes, task.labels)
    truth = np.asarray(task.query_label, dtype=np.int64)
    answers = truth if predicted is None else predicted
    wrong = answers != truth
    per_class = np.bincount(truth[wrong], minlength=len(names))
    # All classes in their own order while they fit, else those with most mistakes.
    chosen = np.sort(np.argsort(-per_class, kind="stable")[:MAX_CLASSES])
    plan = []
    for label in chosen:
        support = np.flatnonzero(np.asarray(task.support_label) == label)
        query = np.flatnonzero(truth == label)
        query = query[np.argsort(~wrong[query], kind="stable")]
        plan.append((int(label), support, query))
    keys = [task.support[i] for _, support, _ in plan for i in support[:MAX_SUPPORT]]
    keys += [task.query[i] for _, _, query in plan for i in query[:MAX_QUERY]]
    unique = list(dict.fromkeys(keys))
    sources = dict(zip(unique, map(thumbnail, images(task.dataset, unique)), strict=True))
    return tuple(
        ClassRow(
            name=names[label],
            id=task.classes[label],
            right=int(len(query) - per_class[label]),
            total=len(query),
            support=tuple(
                Thumbnail(sources[task.support[i]], task.support[i]) for i in support[:MAX_SUPPORT]
            ),
            query=tuple(
                Thumbnail(sources[task.query[i]], task.query[i], names[answers[i]] if wrong[i] else None)
                for i in query[:MAX_QUERY]
            ),
            more_support=max(0, len(support) - MAX_SUPPORT),
            more_query=max(0, len(query) - MAX_QUERY),
        )
        for label, support, query in plan
    )


def class_names(class_ids: Sequence[str], labels: Mapping[str, str] | None = None) -> list[str]:
    """Name classes by the last part of each id (the whole id where these repeat), after a taxonomy's label.

    >>> class_names(["n01440764", "a/b"], {"n01440764": "tench"})
    ['tench (n01440764)', 'b']
    """
    names = [class_id.rsplit("/", 1)[-1] for class_id in class_ids]
    counts = Counter(names)
    shown = [name if counts[name] == 1 else class_id for name, class_id in zip(names, class_ids, strict=True)]
    return [
        f"{labels[class_id]} ({name})" if labels and class_id in labels else name
        for name, class_id in zip(shown, class_ids, strict=True)
    ]


def thumbnail(image: Image, side: int = SIDE, *, crop: bool = True) -> str:
    """Return the middle square of an image, or all of it within that square, as a small WebP data URI."""
    from PIL import ImageOps, WebPImagePlugin  # noqa: F401  named, so that Pillow does not import all its formats
    from PIL.Image import Resampling

    fit = ImageOps.fit if crop else ImageOps.contain
    small = fit(image.convert("RGB"), (side, side), Resampling.BICUBIC)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=QUALITY, method=3)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
