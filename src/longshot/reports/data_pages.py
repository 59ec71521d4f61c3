"""Pages about data: a testbed, where it comes from and what its tasks are like; what two datasets share.

The frame, the colours and the thumbnails are those of the report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import UserError, count, progress, span
from longshot.reports import testbed_plots as plots
from longshot.reports.frame import Section, bed_facts, write_page
from longshot.reports.pictures import MAX_CLASSES, ClassRow, FindImages, class_rows, thumbnail
from longshot.reports.tables import Column, SheetCell, make_sheet, part_cell
from longshot.statistics import figures
from longshot.tasks import (
    Task,
    Testbed,
    describe,
    is_network_column,
    recorded_drops,
    sampler_settings,
    say_others,
)

if TYPE_CHECKING:
    from PIL.Image import Image

    from longshot.tasks import Share


_NAMED = 3  # classes named at each end of the class balance


@dataclass(frozen=True)
class PlotPanel:
    """A plot with its caption, a line of facts and a line on how to read it."""

    caption: str
    svg: str
    facts: str
    how: str


@dataclass(frozen=True)
class Shown:
    """A task as the page shows it."""

    task: int
    facts: str
    rows: tuple[ClassRow, ...]
    more_classes: int


def render_testbed(
    testbed: Testbed,
    *,
    name: str,
    images: FindImages | None = None,
    pictures: int = 2,
    title: str | None = None,
) -> str:
    """Render the page of a testbed as one text without any reference to another file.

    ``images(dataset_name, keys) -> list of PIL images`` gives the pictures; without it, or when it raises a
    ``UserError``, the page says so in one line. ``pictures`` is how many tasks of each kind are shown, 0 for none.
    """
    facts = describe.summary(testbed)
    parts = testbed_sections(testbed, facts)
    if pictures:
        parts.append(_tasks(testbed, images, pictures))
    return write_page(
        title or f"Testbed {name}",
        parts,
        counts=[
            count(facts["tasks"], "task"),
            count(facts["classes"], "class", "classes"),
            count(facts["distinct_images"], "image"),
        ],
        style="testbed.css",
        beds=[bed_facts(name, testbed)],
    )


def testbed_sections(testbed: Testbed, facts: Mapping[str, Any]) -> list[Section]:
    """Build all sections but the pictures; ``facts`` are ``describe.summary(testbed)``."""
    makers = (_origin, _drops, _changes, _classes, _shape, _others)
    return [part for make in makers if (part := make(testbed, facts)) is not None]


# --- the sections, in the order of the page ---


def _plots(name: str, heading: str, panels: list[PlotPanel], **facts: Any) -> Section:
    return Section(name, heading, {"panels": panels, **facts}, "testbed_plots")


def _origin(testbed: Testbed, facts: Mapping[str, Any]) -> Section:
    """Show sampler settings, seed, hashes and datasets."""
    settings = sampler_settings(facts["sampler"])
    record = json.dumps(testbed.meta, indent=2, ensure_ascii=False, sort_keys=True)
    return Section(
        "origin", "Origin", {"facts": facts, "settings": settings, "record": record}, "testbed_origin"
    )


def _drops(testbed: Testbed, facts: Mapping[str, Any]) -> Section | None:
    """Show what the chosen supports cost the judges, and networks that took no part."""
    recorded = recorded_drops(facts["sampler"])
    names = [*testbed.datasets, *[""] * len(recorded)]
    draws = [
        (dataset, make_sheet(_DROPS, drops, aria="Drops of judges and held-out networks"), say_others(drops))
        for dataset, drops in zip(names, recorded, strict=False)
        if drops
    ]
    if not draws:
        return None
    held_out = any(drop.part == "held out" for drops in recorded for drop in drops)
    values = {"draws": draws, "held_out": held_out, "several": len(draws) > 1}
    return Section("drops", "For the judges, and for others", values, "testbed_drops")


def _share_cell(share: Share, *, signed: bool = False) -> SheetCell:
    return SheetCell(share.text(signed=signed), value=share.mean, half=share.half)


_DROPS = (
    Column("Network", lambda drop: drop.name),
    Column("Part", lambda drop: drop.part),
    Column("Uniform", lambda drop: _share_cell(drop.uniform), "percent"),
    Column("Chosen", lambda drop: _share_cell(drop.chosen), "percent"),
    Column("Drop", lambda drop: _share_cell(drop.drop, signed=True), "points"),
)


def _changes(testbed: Testbed, _: Mapping[str, Any]) -> Section | None:
    """Show loss and accuracy before and after the selection of images, and the rounds it took."""
    chance = float(np.mean(1 / testbed.table.column("way").to_numpy()))
    panels = []
    own = [change for change in _varying(testbed) if not is_network_column(change.name)]
    for number, change in enumerate(own):
        guess = chance if change.name == "accuracy" else None
        panels.append(
            PlotPanel(
                change.name[:1].upper() + change.name[1:],
                plots.change(change, prefix=f"change{number}", chance=guess),
                f"Higher after selection in {change.raised:,} of {count(len(change.after), 'task')}, lower in "
                f"{change.lowered:,}.",
                "Above the tasks with support images drawn at random, below the same tasks and queries with the "
                "selected support images; the dot is the mean"
                + (", the dashed line guessing." if guess is not None else ".")
                + " The further apart the hills, the more the selection did.",
            )
        )
    return _plots("selection", "Before and after selection", panels) if panels else None


def _varying(testbed: Testbed) -> list[describe.Change]:
    """Return the measures before and after selection that are not one number throughout."""
    return [change for change in describe.changes(testbed) if np.ptp([change.before, change.after])]


def _classes(testbed: Testbed, _: Mapping[str, Any]) -> Section:
    """Show how far apart in meaning the classes of a task are, and how evenly classes occur."""
    panels = [*_coarsity(testbed), *_balance(testbed)]
    return _plots("classes", "Coarsity and class balance", panels)


def _coarsity(testbed: Testbed) -> list[PlotPanel]:
    """Plot how far apart in meaning the classes of the tasks are, where it was measured."""
    values = describe.measured(testbed, "coarsity") if "coarsity" in testbed.measured else None
    if values is None or not len(values):
        return []
    quartiles = " / ".join(f"{value:.2f}" for value in np.percentile(values, [25, 50, 75]))
    panel = PlotPanel(
        "Coarsity",
        plots.histogram(values, xlabel="coarsity of the task", prefix="coarsity"),
        f"Mean {values.mean():.2f}, quartiles {quartiles}, {values.min():.2f} to {values.max():.2f}.",
        "Coarsity is the mean squared distance between the classes of a task in the taxonomy. Left: look-alike "
        "classes (fine), right: classes that have little to do with each other (coarse).",
    )
    return [panel]


def _balance(testbed: Testbed) -> list[PlotPanel]:
    """Plot how evenly the classes occur, one panel per dataset."""
    panels = []
    for number, balance in enumerate(describe.balances(testbed)):
        low, high = balance.usual
        panels.append(
            PlotPanel(
                f"Class balance of {balance.dataset}",
                plots.balance(balance, prefix=f"balance{number}"),
                f"{_ends(balance)} {balance.outside:,} of "
                f"{count(len(balance.counts), 'class', 'classes')} outside {low:.1f} to {high:.1f}.",
                "One step per class that occurs. The dashed line is the equal share, the band where about 95 % of "
                "the classes lie when every class is equally likely. A steep staircase through the band: the mean "
                "accuracy speaks for few classes.",
            )
        )
    return panels


def _shape(testbed: Testbed, _: Mapping[str, Any]) -> Section | None:
    """Show ways, shots, support and query sizes, each where it varies."""
    sizes: list[tuple[str, str, str, NDArray[Any], str]] = [
        (
            "Ways",
            "classes per task",
            "tasks",
            testbed.table.column("way").to_numpy(),
            "Classes per task: the more, the rarer a lucky guess.",
        ),
        (
            "Shots",
            "support images per class",
            "classes of tasks",
            testbed.column("shots").values,
            "Support images of each class of each task; broad means unequal classes or unequal tasks.",
        ),
        (
            "Support size",
            "support images per task",
            "tasks",
            testbed.column("support").lengths,
            "All images a method learns from in a task.",
        ),
        (
            "Queries",
            "queries per task",
            "tasks",
            testbed.column("query").lengths,
            "Images asked in a task; with few of them a task's accuracy is a coarse number.",
        ),
    ]
    panels = [
        PlotPanel(name, plots.histogram(values, xlabel=xlabel, prefix=f"shape{number}", unit=unit), "", how)
        for number, (name, xlabel, unit, values, how) in enumerate(sizes)
        if len(values) and values.min() < values.max()
    ]
    return _plots("shape", "Ways, shots and sizes", panels) if panels else None


def _others(testbed: Testbed, _: Mapping[str, Any]) -> Section | None:
    """Show other measured numbers as histograms; what is the same in all tasks, or no number, in words."""
    pairs = {f"{change.name}_{when}" for change in _varying(testbed) for when in ("before", "after")}
    panels, constant, silent = [], [], []
    for number, name in enumerate(name for name in testbed.measured if name not in pairs | {"coarsity"}):
        values = describe.measured(testbed, name)
        if values is None or not len(values):
            silent.append(name)
            continue
        low, high = figures(values.min(), 4), figures(values.max(), 4)
        if values.min() == values.max():
            constant.append((name, low))
        else:
            panels.append(
                PlotPanel(
                    name,
                    plots.histogram(values, xlabel=name, prefix=f"measured{number}"),
                    f"{low} to {high}, known for {count(len(values), 'task')}.",
                    _MEANINGS.get(name, "As the sampler measured it, one value per task."),
                )
            )
    if not (panels or constant or silent):
        return None
    return _plots("measured", "Other measures", panels, constant=constant, silent=silent)


_MEANINGS = {
    "refine_rounds": "Frank–Wolfe rounds that changed the support; 0: the first choice could not be improved.",
    "greedy_rounds": "Rounds of greedy swaps; fewer than allowed: no swap helped any more.",
    "steps": "Gradient steps of the selection.",
}


def _tasks(testbed: Testbed, images: FindImages | None, number: int) -> Section:
    """Show pictures of the tasks at both ends of the scale and of a few at random."""
    context: dict[str, Any] = {"groups": [], "problem": None}
    part = Section("tasks", "Tasks as pictures", context, "testbed_tasks")
    if images is None:
        context["problem"] = "No pictures: this page was made without access to the images."
        return part
    groups = choose_pictured(testbed, number)
    try:
        with progress("pictures", total=sum(len(rows) for _, rows in groups), unit="tasks") as bar:
            for heading, rows in groups:
                shown = []
                for row in rows:
                    shown.append(_shown(testbed[row], images))
                    bar.advance()
                context["groups"].append((heading, shown))
    except UserError as error:
        context.update(groups=[], problem=f"No pictures: {error}")
    return part


def choose_pictured(testbed: Testbed, number: int) -> list[tuple[str, list[int]]]:
    """Choose the tasks to show, (heading, rows): both ends of accuracy after selection, else of coarsity.

    Then as many at random, the same in each run: the content hash is the seed. No task is shown twice; among
    equal ones the lower number comes first.
    """
    scales = (
        (
            "accuracy_after",
            "Hardest: lowest accuracy after selection",
            "Easiest: highest accuracy after selection",
        ),
        ("coarsity", "Finest: lowest coarsity", "Coarsest: highest coarsity"),
    )
    groups: list[tuple[str, list[int]]] = []
    for column, lowest, highest in scales:
        if column not in testbed.measured or describe.measured(testbed, column) is None:
            continue
        values = testbed.table.column(column).cast(pa.float64()).to_numpy()
        finite = np.flatnonzero(np.isfinite(values))
        if len(finite) < 2 or values[finite].min() == values[finite].max():
            continue
        order = finite[np.argsort(values[finite], kind="stable")]
        low = order[: min(number, len(order) // 2)].tolist()
        down = finite[np.argsort(-values[finite], kind="stable")].tolist()
        groups = [(lowest, low), (highest, [row for row in down if row not in low][:number])]
        break
    taken = {row for _, rows in groups for row in rows}
    remaining = np.array([row for row in range(len(testbed)) if row not in taken], dtype=np.int64)
    if len(remaining):
        rng = np.random.default_rng(int(testbed.content_hash[:16], 16))
        picked = np.sort(rng.choice(remaining, min(number, len(remaining)), replace=False))
        groups.append(("Drawn at random", picked.tolist()))
    return groups


def _shown(task: Task, images: FindImages) -> Shown:
    rows = class_rows(task, images)
    facts = [f"{task.way}-way", f"{span(task.shots)}-shot", task.dataset]
    numbers = {name: value for name, value in task.measured.items() if isinstance(value, int | float)}
    if "coarsity" in numbers:
        facts.append(f"coarsity {numbers['coarsity']:.2f}")
    for name in ("accuracy", "loss"):
        before, after = numbers.get(f"{name}_before"), numbers.get(f"{name}_after")
        if before is not None and after is not None:
            facts.append(f"{name} {before:.2f} → {after:.2f}")
    return Shown(task.index, " · ".join(facts), rows, task.way - min(task.way, MAX_CLASSES))


# --- words ---


def _ends(balance: describe.Balance) -> str:
    """Name the classes at both ends of a balance, whose ``counts`` come from the most frequent down."""
    counts, ids = balance.counts, list(balance.counts)
    if counts[ids[0]] == counts[ids[-1]]:
        return f"Every class in {count(counts[ids[0]], 'task')}."
    most, least = ids[:_NAMED], ids[_NAMED:][-_NAMED:][::-1]
    ends = [
        f"{when} often: "
        + ", ".join(f"{balance.named(class_id)} ({counts[class_id]:,})" for class_id in group)
        + "."
        for when, group in (("Most", most), ("Least", least))
        if group
    ]
    return " ".join(ends)


# --- what two datasets share ---

Pictures: TypeAlias = Callable[[str, list[str]], "list[Image]"]  # side ("a" or "b") and keys → images

_HEADINGS = {"exact": "Exact copies", "near": "Near copies", "similar": "Neighbours in the embedding"}
_CLASSES = 200  # related classes listed; beyond it the page says how many it leaves out


def render_overlap(
    pairs: pa.Table,
    counts: Sequence[Mapping[str, Any]],
    meta: Mapping[str, Any],
    *,
    images: Pictures | None = None,
    pictures: int = 48,
    title: str | None = None,
) -> str:
    """Render the page of an overlap as one text without any reference to another file.

    ``pairs`` has the columns of an overlap file, ``counts`` one row per kind, ``meta`` the facts about both datasets.
    """
    a, b = meta["a"], meta["b"]
    within = a["fingerprint"] == b["fingerprint"]
    shown = [row for row in counts if row["kind"] != "similar" or meta["settings"]["backbone"]]
    columns = (
        Column("Kind", lambda row: row["kind"]),
        Column("Pairs", lambda row: row["pairs"], "count"),
        Column(f"Images of {a['name']}", lambda row: part_cell(row["images_a"], a["images"]), "count"),
        Column(f"Images of {b['name']}", lambda row: part_cell(row["images_b"], b["images"]), "count"),
        Column("Across classes", lambda row: row["across"], "count"),
        Column("Across splits", lambda row: row["across_splits"], "count"),
    )
    facts = {"a": a, "b": b, "meta": meta, "sheet": make_sheet(columns, shown, aria="Counts")}
    sections = [Section("counts", "What they share", facts, "overlap_counts")]
    if meta["classes"]:
        related = list(meta["classes"])[:_CLASSES]
        by_class = (
            Column(f"Class of {a['name']}", lambda row: row["a"]),
            Column("Relation", lambda row: row["relation"]),
            Column(f"Class of {b['name']}", lambda row: row["b"]),
            Column("By", lambda row: row["by"]),
        )
        sheet = make_sheet(by_class, related, aria="Related classes")
        context = {"a": a, "b": b, "sheet": sheet, "more": len(meta["classes"]) - len(related)}
        sections.append(Section("classes", "Related classes", context, "overlap_classes"))
    with progress("pictures", total=None, unit="pairs") as bar:
        for kind, heading in _HEADINGS.items():
            table = pairs.filter(pc.equal(pairs["kind"], kind))
            if not table.num_rows or not pictures:
                continue
            chosen = table.slice(0, pictures).to_pylist()
            context = {"a": a, "b": b, "kind": kind, "more": table.num_rows - len(chosen), "problem": None}
            try:
                context["pairs"] = _with_pictures(chosen, images)
            except UserError as error:
                context.update(pairs=[], problem=f"No pictures: {error}")
            bar.advance(len(chosen))
            sections.append(Section(kind, heading, context, "overlap_pairs"))
    return write_page(
        title or (f"Copies within {a['name']}" if within else f"Overlap of {a['name']} and {b['name']}"),
        sections,
        counts=[f"{row['pairs']:,} {row['kind']}" for row in counts],
        style="overlap.css",
        sortable=True,
    )


def _with_pictures(pairs: list[dict[str, Any]], images: Pictures | None) -> list[dict[str, Any]]:
    """Return the pairs with both pictures as data URIs."""
    if images is None:
        raise UserError("this page was made without access to the images.")
    sources = {
        side: [thumbnail(image) for image in images(side, [pair[f"key_{side}"] for pair in pairs])]
        for side in "ab"
    }
    return [
        {**pair, "source_a": source_a, "source_b": source_b}
        for pair, source_a, source_b in zip(pairs, sources["a"], sources["b"], strict=True)
    ]
