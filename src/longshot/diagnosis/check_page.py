"""A checked folder to read: one screen, a page with pictures, plain values, Markdown and JUnit's XML."""

from __future__ import annotations

import shlex
import textwrap
from typing import TYPE_CHECKING, Any

from longshot.base import OutputKind, UserError, count, escape_markdown, first, note, progress, starts_with
from longshot.diagnosis.folder_check import METHODS, TITLES, WORST, FolderCheck
from longshot.evaluation import find_images, find_mistakes
from longshot.reports import (
    JUNIT_OPENING,
    Column,
    EstimateRow,
    Section,
    Sheet,
    class_names,
    environment,
    intervals,
    junit,
    make_sheet,
    markdown,
    terminal,
    thumbnail,
    write_page,
)
from longshot.statistics import TASKS, percent, plus_minus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from longshot.statistics import Interval

_HEADING = "# Check of "
MARKDOWN = OutputKind("table", {".md": starts_with(_HEADING)})
JUNIT = OutputKind("record of tests", {".xml": starts_with(JUNIT_OPENING)})
_PICTURES = 6  # of each side of a pair
_SUSPECTS = 24  # pictures of suspected labels
_SIDE = 96  # pixels
_JUDGED = " † chose these tasks itself: another network would find them easier."
_POPULATION = f"Accuracy in %, ± half its 95 % interval for {TASKS}."


def screen(check: FolderCheck) -> str:
    """Return what the terminal shows: what is in the folder, accuracies, what is mixed up, and the verdict."""
    parts = ["\n".join(map(_wrapped, summary_lines(check))), *map(terminal, _sheets(check))]
    verdict = verdict_line(check)
    parts += [_wrapped(verdict)] if verdict else []
    commands = "\n".join(f"  # {purpose}\n  {_continued(line)}" for line, purpose in next_commands(check))
    return "\n\n".join([*parts, f"Next:\n{commands}"])


def _wrapped(line: str) -> str:
    return textwrap.fill(line, 80, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def _continued(line: str) -> str:
    """Continue a command that is wider than 80 columns on lines of its options, so that it can be pasted."""
    return line if len(line) <= 78 else line.replace(" --", " \\\n    --")


def summary_lines(check: FolderCheck) -> list[str]:
    """Say what is in the folder, what did not take part, and who chose what."""
    data, sheet = check.sheet.dataset, check.sheet
    suspected = 0 if check.suspects is None else len(check.suspects.mislabelled)
    lines = [
        f"{data.name}: {count(len(data.class_ids), 'class', 'classes')}, {count(len(data), 'image')}, "
        f"{int(data.sizes.min()):,} to {int(data.sizes.max()):,} a class"
    ]
    if sheet.facts["skipped"]:
        lines.append(
            f"unreadable and left out: {count(len(sheet.facts['skipped']), 'image')} ({first(sheet.facts['skipped'])})"
        )
    lines += [f"left out: {line}" for line in sheet.facts["left_out"]]
    if sheet.copies is not None and len(sheet.copies.later):
        lines.append(sheet.copies.words(data.labels))
    if suspected:
        verb = "label looks" if suspected == 1 else "labels look"
        lines.append(f"{suspected:,} {verb} wrong to {check.judge}")
    lines += list(check.left_out)
    lines.append(f"{check.judge} chose which classes look alike and which references are difficult")
    for backbone, method in check.methods.items():
        lines.append(f"{method} serves {backbone} best, of {', '.join(METHODS)} (chosen on other tasks)")
    return lines


def measured_sheet(check: FolderCheck) -> Sheet:
    """Return the table of accuracies by kind of tasks."""
    columns = (
        Column("Tasks", lambda row: TITLES[row.kind], key="tasks"),
        Column("Accuracy %", lambda row: row.accuracy, "percent", key="accuracy"),
        Column("Backbone", lambda row: row.backbone + (" †" if row.judged else ""), key="backbone"),
        Column("Ways", lambda row: row.way, "count", key="way"),
        Column("Photos", lambda row: row.shot, "count", key="shot"),
    )
    marks = _JUDGED if any(row.judged for row in check.measured) else ""
    return make_sheet(columns, check.measured, "How well classes are told apart", note=_POPULATION + marks)


def curve_sheet(check: FolderCheck) -> Sheet:
    """Return accuracy on all classes against the number of reference photos per class."""
    photos = [number for number, _ in next(iter(check.curve.values()))]
    rows = [
        (number, {name: dict(points)[number] for name, points in check.curve.items()}) for number in photos
    ]

    def of(name: str) -> Any:
        return lambda row: row[1][name]

    columns = [Column("Photos per class", lambda row: row[0], "count", key="photos")]
    columns += [Column(name, of(name), "percent", key=name) for name in check.curve]
    return make_sheet(columns, rows, "All classes at once, by number of reference photos")


def class_sheet(check: FolderCheck) -> Sheet:
    """Return the worst classes of the problem of all classes."""
    names = _names(check)
    columns = (
        Column("Class", lambda row: names[row.class_id], key="class"),
        Column("Accuracy %", lambda row: row.accuracy, "percent", key="accuracy"),
        Column("Queries", lambda row: row.queries, "count", key="queries"),
        Column("Most often taken for", lambda row: names.get(row.taken_for, "–"), key="taken_for"),
        Column("%", lambda row: row.taken_share if row.taken_for else None, "percent", key="taken_share"),
    )
    title = f"The worst classes of {len(check.classes):,} ({check.best.backbone}, all classes at once)"
    return make_sheet(columns, check.classes[:WORST], title)


def pair_sheet(check: FolderCheck) -> Sheet:
    """Return the pairs of classes that are confused most."""
    names = _names(check)
    columns = (
        Column("Class", lambda pair: names[pair.first], key="first"),
        Column("and", lambda pair: names[pair.second], key="second"),
        Column("Confused %", lambda pair: pair.rate, "percent", key="rate"),
        Column("Queries", lambda pair: pair.chances, "count", key="queries"),
    )
    return make_sheet(columns, check.pairs, "The pairs that are confused most")


def _sheets(check: FolderCheck) -> list[Sheet]:
    sheets = [measured_sheet(check), curve_sheet(check), class_sheet(check)]
    return [*sheets, pair_sheet(check)] if check.pairs else sheets


def verdict_line(check: FolderCheck) -> str:
    """Say whether what is needed is reached, and with how many photos it would be; empty without a need."""
    if check.need is None:
        return ""
    best, needed = check.best, check.photos_needed()
    photos = f"{count(check.shot, 'photo')} per class"
    reached = f"{_estimate(best.accuracy)} % with {photos}, {percent(check.need)} % needed"
    most, accuracy = check.curve[best.backbone][-1]
    if check.verdict == "passed":
        return f"Passed: {best.backbone} reaches {reached}."
    word = "Failed" if check.verdict == "failed" else "Undecided"
    if needed is not None:
        remedy = f"{count(needed, 'photo')} per class would surely reach it"
    elif most > check.shot:
        remedy = f"even {count(most, 'photo')} per class do not surely reach it ({_estimate(accuracy)} %)"
    else:
        remedy = "more could not be tried"
    return f"{word}: {best.backbone} has {reached}; {remedy}."


def next_commands(check: FolderCheck) -> list[tuple[str, str]]:
    """Return three commands to go on with, to be pasted as they stand, and what each is for."""
    target = shlex.quote(check.target)
    try:
        folder = shlex.quote(str(check.results.path.parent))
    except UserError:  # results in memory: the folder that the command would have made
        folder = "FOLDER"
    return [
        (f"longshot serve {folder} --browser", "every task and mistake in the browser"),
        (f"longshot datasets suspects {target} --backbone {check.judge}", "images whose label looks wrong"),
        (
            f"longshot explain {folder}/alike-difficult.parquet --run {folder}/run --no-pixels",
            "why tasks are hard",
        ),
    ]


def record(check: FolderCheck) -> dict[str, Any]:
    """Return everything as plain values, for JSON."""
    return {
        "dataset": check.sheet.facts_as_json(),
        "left_out": list(check.left_out),
        "suspects": None if check.suspects is None else check.suspects.table().to_pylist(),
        "judge": check.judge,
        "methods": dict(check.methods),
        "measured": [
            {**vars(row), "accuracy": row.accuracy.as_dict(), "title": TITLES[row.kind]}
            for row in check.measured
        ],
        "curve": {
            name: [{"photos": photos, **accuracy.as_dict()} for photos, accuracy in points]
            for name, points in check.curve.items()
        },
        "classes": [{**vars(score), "accuracy": score.accuracy.as_dict()} for score in check.classes],
        "pairs": [{**vars(pair), "rate": pair.rate} for pair in check.pairs],
        "need": check.need,
        "photos_needed": check.photos_needed(),
        "verdict": check.verdict,
    }


def to_markdown(check: FolderCheck) -> str:
    """Return the screen as Markdown, for a comment on a change."""
    lines = [f"- {line}" for line in summary_lines(check)]
    verdict = verdict_line(check)
    heading = [f"{_HEADING}{escape_markdown(check.sheet.dataset.name)}", ""]
    return "\n".join(
        [*heading, *([f"**{verdict}**", ""] if verdict else []), *lines, "", *map(markdown, _sheets(check))]
    )


def to_junit(check: FolderCheck) -> str:
    """Return the verdict and every class below what is needed as JUnit's XML: failures of a build."""
    need = check.need
    dataset = check.sheet.dataset.name
    verdict = verdict_line(check) if check.verdict in ("failed", "undecided") else ""
    cases = [(dataset, "all classes", verdict)]
    for score in check.classes:
        high = score.accuracy.mean if score.accuracy.high is None else score.accuracy.high
        low = need is not None and high < need
        reason = f"{score.name}: {_estimate(score.accuracy)} %, below {percent(need)} %" if low else ""
        cases.append((dataset, score.class_id, reason))
    return junit("check", cases)


def render_check(check: FolderCheck) -> str:
    """Return the page as one text without any reference to another file."""
    data = check.sheet.dataset
    summary = {
        "verdict": verdict_line(check),
        "kind": check.verdict or "",
        "lines": summary_lines(check),
        "sheet": measured_sheet(check),
        "svg": _plot_measured(check),
        "commands": next_commands(check),
    }
    curve = {"sheet": curve_sheet(check), "svg": _plot_curve(check)}
    classes = {
        "sheet": class_sheet(check),
        "pairs": pair_sheet(check) if check.pairs else None,
        "pictured": _pictured_pairs(check),
    }
    sections = [
        Section("verdict", "How well classes are told apart", summary, "check_summary"),
        Section("photos", "How many photos are needed", curve, "check_curve"),
        Section("classes", "What is mixed up", classes, "check_classes"),
    ]
    if suspects := _pictured_suspects(check):
        sections.append(Section("suspects", "Labels to look at", {"groups": suspects}, "dataset_odd"))
    sections.append(Section("facts", "What is in the folder", {"facts": check.sheet.rows()}, "dataset_facts"))
    counts = [count(len(data.class_ids), "class", "classes"), count(len(data), "image")]
    return write_page(f"Check of {data.name}", sections, counts=counts, style="dataset.css", sortable=True)


def fragment(check: FolderCheck) -> str:
    """Return the tables as HTML, for notebooks."""
    template = environment().get_template("check_notebook.html.j2")
    return template.render(
        verdict=verdict_line(check),
        lines=summary_lines(check),
        sheets=_sheets(check),
        name=check.sheet.dataset.name,
    )


def _plot_measured(check: FolderCheck) -> str:
    order = {name: number for number, name in enumerate(check.methods)}
    rows = [
        _dot(order[row.backbone], _titled(check, TITLES[row.kind], row.backbone), row.accuracy)
        for row in check.measured
    ]
    return intervals(rows, xlabel="accuracy (%)", prefix="kinds")


def _plot_curve(check: FolderCheck) -> str:
    rows = [
        _dot(number, _titled(check, count(photos, "photo"), name), accuracy)
        for number, (name, points) in enumerate(check.curve.items())
        for photos, accuracy in points
    ]
    return intervals(rows, xlabel="accuracy on all classes at once (%)", prefix="photos")


def _titled(check: FolderCheck, title: str, backbone: str) -> str:
    return f"{title} · {backbone}" if len(check.methods) > 1 else title


def _dot(colour: int, label: str, accuracy: Interval) -> EstimateRow:
    low, high = (None if end is None else 100 * end for end in (accuracy.low, accuracy.high))
    return EstimateRow(colour, label, 100 * accuracy.mean, low, high, _estimate(accuracy))


def _estimate(accuracy: Interval) -> str:
    return plus_minus(accuracy.mean, accuracy.half)


def _names(check: FolderCheck) -> dict[str, str]:
    """Map the id of a class to its name: the last part, or the whole id where last parts repeat."""
    ids = check.sheet.dataset.class_ids
    return dict(zip(ids, class_names(ids), strict=True))


def _pictured_pairs(check: FolderCheck) -> list[dict[str, Any]]:
    """Return the mistakes of the worst pairs as pictures, each direction with photos of the class it was taken for."""
    best, names = check.best, _names(check)
    rows = check.results.select(testbed="all", backbone=best.backbone, method=best.method).table()
    answers = rows["task"].to_numpy(), rows["prediction"]
    pictured = []
    with progress("pictures", total=len(check.pairs), unit="pairs") as bar:
        for pair in check.pairs:
            directions = []
            for true, predicted in ((pair.first, pair.second), (pair.second, pair.first)):
                mistakes = find_mistakes(check.testbed, *answers, pair.dataset, true, predicted, limit=200)
                keys = list(dict.fromkeys(mistake.key for mistake in mistakes))[:_PICTURES]
                if keys:
                    directions.append(
                        {
                            "true": names[true],
                            "predicted": names[predicted],
                            "mistakes": _pictures(check, keys),
                            "examples": _pictures(check, _examples(check, predicted)),
                        }
                    )
            pictured.append({"pair": pair, "directions": directions})
            bar.advance()
    return pictured


def _examples(check: FolderCheck, class_id: str) -> list[str]:
    """Return the keys of some images of a class, spread over it."""
    data = check.sheet.dataset
    number = data.class_ids.index(class_id)
    first, last = int(data.offsets[number]), int(data.offsets[number + 1])
    rows = range(first, last)[:: max(1, (last - first) // _PICTURES)][:_PICTURES]
    return [str(data.keys[row].as_py()) for row in rows]


def _pictured_suspects(check: FolderCheck) -> list[Mapping[str, Any]]:
    """Return the images whose label looks wrong, with the class that they look like."""
    if check.suspects is None or not len(check.suspects.mislabelled):
        return []
    table = [row for row in check.suspects.table().to_pylist() if row["reason"] == "label"]
    rows = sorted(table, key=lambda row: -row["odds"])[:_SUSPECTS]
    names, pictures = _names(check), _pictures(check, [row["key"] for row in rows])
    for picture, row in zip(pictures, rows, strict=True):
        picture["key"] = f"{names[row['class']]}: looks like {names[row['looks_like']]} ({row['key']})"
    verb = "looks" if len(table) == 1 else "look"
    shown = f": the {len(rows)} that look most so" if len(rows) < len(table) else ""
    heading = f"{count(len(table), 'label')} {verb} wrong to {check.judge}{shown}"
    return [{"heading": heading, "pictures": pictures}]


def _pictures(check: FolderCheck, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return thumbnails as data URIs with their keys."""
    data = check.sheet.dataset
    try:
        loaded = find_images(datasets={data.name: data})(data.name, list(keys))
    except UserError as error:
        note(f"No pictures: {error}")
        return []
    return [{"key": key, "source": thumbnail(image, _SIDE)} for key, image in zip(keys, loaded, strict=True)]
