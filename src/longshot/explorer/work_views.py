"""Trainings, studies and releases with their cards."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from longshot.base import count
from longshot.explorer.library import Item, inner_file
from longshot.explorer.site import NotThere, Page, Site, crumbs_of, made, tabs_of
from longshot.explorer.sprites import image_gallery
from longshot.publish import without_front_matter
from longshot.reports import Column, Section, Sheet, SheetCell, heads, make_sheet, row

_ROW = re.compile(r"^\|(.*)\|\s*$")
_RULE = re.compile(r"^\|[\s:|-]+\|\s*$")


def blocks_of(text: str) -> list[dict[str, Any]]:
    """Split text into headings, tables, lists, code and paragraphs, in order; anything else stays as it is.

    >>> [block["kind"] for block in blocks_of("# A\\n\\ntext\\nmore\\n\\n| a |\\n| --- |\\n| 1 |\\n\\n- x")]
    ['heading', 'text', 'table', 'list']
    """
    blocks: list[dict[str, Any]] = []
    code: list[str] | None = None
    for line in text.splitlines():
        if line.startswith("```"):
            if code is None:
                code = []
            else:
                blocks.append({"kind": "code", "text": "\n".join(code)})
                code = None
        elif code is not None:
            code.append(line)
        else:
            _add(blocks, line)
    if code:
        blocks.append({"kind": "code", "text": "\n".join(code)})
    for block in blocks:
        if block["kind"] == "table":
            rows, width = block.pop("rows")[:120], len(block["heads"])
            lines = [row(*[*cells, *[""] * width][:width]) for cells in rows]
            names = heads(*block.pop("heads"))
            block["sheet"] = Sheet("", names, [lines], labels=width, aria="Table of the card")
    return [block for block in blocks if block["kind"] != "gap"]


def _add(blocks: list[dict[str, Any]], line: str) -> None:
    """Add one line, to the block before it where that goes on."""
    last: dict[str, Any] = blocks[-1] if blocks else {"kind": "gap"}
    if not line.strip():
        blocks.append({"kind": "gap"})
    elif line.startswith("#"):
        marks = len(line) - len(line.lstrip("#"))
        blocks.append({"kind": "heading", "level": min(marks, 3), "text": line.lstrip("# ")})
    elif _RULE.match(line) and last["kind"] == "table":
        pass
    elif cells_line := _ROW.match(line):
        cells = [_plain(cell) for cell in cells_line[1].split("|")]
        if last["kind"] == "table":
            last["rows"].append(cells)
        else:
            blocks.append({"kind": "table", "heads": cells, "rows": []})
    elif line.startswith(("- ", "* ")):
        if last["kind"] != "list":
            blocks.append({"kind": "list", "lines": []})
        blocks[-1]["lines"].append(_plain(line[2:]))
    elif last["kind"] == "text":
        last["text"] += f" {_plain(line)}"
    else:
        blocks.append({"kind": "text", "text": _plain(line)})


def _plain(text: str) -> str:
    """Strip the marks for code and bold from text."""
    return text.strip().replace("**", "").replace("`", "")


_LARGEST = 30_000_000  # bytes of a study's page
_MOST_TEXT = 60_000  # letters of a card
_PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"


def training(site: Site, item: Item) -> Page:
    """Show how a training goes: its state, curves and settings, and episodes like those it learns from."""
    settings = item.facts.get("settings", {})
    history = inner_file(item.path, "history.jsonl")
    last = None if history is None else _last_line(history)
    sections = [Section("state", "State", {"item": item, "last": last}, "training_state")]
    if history is not None and last is not None:
        stat = history.stat()
        job = {"kind": "training", "path": str(item.path), "time": stat.st_mtime_ns, "size": stat.st_size}
        curves = site.plot_worker.sections(job, of=item.id)
        if curves is None:
            waiting = "The curves are being drawn. This page is loaded again when it is done."
            sections.append(made("curves", "Learning curves", waiting))
        for each in curves or []:
            heading = each["heading"] or "Learning curves"
            sections.append(made(each["name"], heading, each["problem"], each))
    sections.append(_episodes(site, item, settings))
    plain = [
        (key, value if isinstance(value, str) else json.dumps(value))
        for key, value in settings.items()
        if value is not None
    ]
    sections.append(Section("settings", "Settings", {"facts": plain}, "facts"))
    counts = [str(settings.get(key)) for key in ("algorithm", "network", "dataset") if settings.get(key)]
    live = f"/live?item={item.id}" if item.state != "finished" else ""  # what stopped may go on
    page = Page(item.name, sections, counts=counts, crumbs=crumbs_of(item), live=live)
    page.notices += [str(note) for note in item.facts.get("notes", [])]
    return page


def _last_line(history: Path) -> dict[str, Any] | None:
    """Read the last complete record of a history; a line that is being written does not count."""
    try:
        with history.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 8192))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and "step" in record:
            return record
    return None


def _episodes(site: Site, item: Item, settings: dict[str, Any]) -> Section:
    """Show episodes drawn as the training draws them, in pictures."""
    job = {"kind": "episodes", "path": str(item.path), "settings": settings}
    samples = site.plot_worker.sections(job) if settings.get("episodes") else None
    datasets = [each for each in site.library.items() if each.kind == "dataset" and not each.problem]
    fingerprint = settings.get("fingerprint")
    owner = next((each for each in datasets if each.facts.get("fingerprint") == fingerprint), None)
    problem = ""
    if not settings.get("episodes"):
        problem = "This training learns from batches of images, not from episodes."
    elif samples is None:
        problem = "Episodes are being drawn. This page is loaded again when it is done."
    elif samples[0]["problem"]:
        problem = samples[0]["problem"]
    elif owner is None:
        problem = "The dataset of this training is not known on this machine."
    if problem or samples is None or owner is None:
        return Section(
            "episodes", "Episodes", {"problem": problem, "episodes": [], "sprite": ""}, "training_episodes"
        )
    dataset = site.opened(str(owner.facts["source"]), owner.name)
    rows: list[int] = []
    episodes = []
    for episode in samples[0]["rows"]:
        classes = []
        for each in episode:
            places = []
            for part in ("support", "query"):
                places.append(list(range(len(rows), len(rows) + len(each[part]))))
                rows += each[part]
            classes.append({"name": each["name"], "support": places[0], "query": places[1]})
        episodes.append(classes)
    gallery = image_gallery(owner, dataset, rows[:96])
    return Section(
        "episodes", "Episodes", {"problem": "", "episodes": episodes, **gallery}, "training_episodes"
    )


def study(site: Site, item: Item) -> Page:
    """Show what a study found, and what it is made of: its run, testbeds and trainings."""
    facts = item.facts
    inside = [each for each in site.library.items() if item.path in each.path.parents]
    verdicts = facts.get("verdicts") or {}
    verdicts = verdicts if isinstance(verdicts, dict) else {}
    sentences = _claims(item)
    rows = [(str(claim), sentences.get(str(claim), ""), str(verdict)) for claim, verdict in verdicts.items()]
    trainings = [each for each in inside if each.kind == "training"]
    context: dict[str, Any] = {
        "verdicts": make_sheet(VERDICTS, rows[:100], aria="Verdicts") if rows else None,
        "page": f"{item.url}/page" if inner_file(item.path, "report.html") else None,
        "runs": [each for each in inside if each.kind == "run"][:50],
        "trainings": trainings[:100],
        "testbeds": [each for each in inside if each.kind == "testbed"][:100],
        "notes": [str(note) for note in facts.get("notes") or []][:40],
    }
    counts = [
        f"recipe {facts.get('recipe')}",
        count(len(verdicts), "claim"),
        count(len(trainings), "training"),
    ]
    section = Section("study", "What it found", context, "study_overview")
    return Page(item.name, [section], counts=counts, crumbs=crumbs_of(item))


VERDICTS = (
    Column("Claim", lambda row: SheetCell(row[1], below=row[0]) if row[1] else row[0]),
    Column("Verdict", lambda row: row[2]),
)


def _claims(item: Item) -> dict[str, str]:
    """Read what each claim of a study says, from the table that it wrote."""
    path = inner_file(item.path, "tables", "claims.csv")
    if path is None:
        return {}
    with contextlib.suppress(OSError, csv.Error):
        rows = csv.DictReader(io.StringIO(_read_text(path)))
        return {str(row.get("claim") or ""): str(row.get("sentence") or "") for row in rows}
    return {}


def _read_text(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_MOST_TEXT)


def study_page(item: Item) -> tuple[bytes, str]:
    """Return the page that the study wrote, and its policy for browsers: no scripts, no requests."""
    path = inner_file(item.path, "report.html")
    if path is None:
        raise NotThere("This study has not written its page yet.")
    if path.stat().st_size > _LARGEST:
        raise NotThere("The page of this study is too large to show.")
    return path.read_bytes(), _PAGE_POLICY


def release(site: Site, item: Item) -> Page:
    """Show the card of a release."""
    path = inner_file(item.path, "README.md")
    card = "The release has no README.md." if path is None else without_front_matter(_read_text(path))
    beds = {str(bed["name"]): str(bed["content_hash"]) for bed in item.facts.get("testbeds") or ()}
    from longshot.explorer.home_views import bed_section, everybody

    sections = [
        bed_section(site, beds),
        everybody(site, beds),
        Section("card", "Card", {"blocks": blocks_of(card)}, "card_text"),
    ]
    return _release_frame(item, "", sections)


def verification(site: Site, item: Item) -> Page:
    """Show the check of a release: every file against its hash, every task against the images here."""
    sums = inner_file(item.path, "SHA256SUMS")
    stamp = sums.stat().st_mtime_ns if sums is not None else 0
    job = {"kind": "verify", "path": str(item.path), "time": stamp}
    waiting = "The release is being checked: images are read again."
    rows = site.worked(job, "Verification", waiting, partial(_release_frame, item, "verify"))[0]["rows"]
    wrong = [row for row in rows if row["problem"]]
    context = {
        "wrong": wrong[:200],
        "right": [row["subject"] for row in rows if not row["problem"]][:200],
        "total": len(rows),
    }
    return _release_frame(item, "verify", [Section("verify", "Verification", context, "verification")])


def _release_frame(item: Item, here: str, sections: list[Section]) -> Page:
    tabs = tabs_of(item.url, here, {"Card": "", "Verification": "verify"})
    counts = [f"version {item.facts.get('version')}", count(len(item.facts.get("testbeds") or ()), "testbed")]
    return Page(item.name, sections, counts=counts, crumbs=crumbs_of(item), tabs=tabs)


def why(site: Site, item: Item, number: int, query: Any) -> Page:
    """Show in what a task's support differs from its queries, by the attributes of its images."""
    from longshot.explorer.sprites import read_task
    from longshot.explorer.task_views import task_frame

    task = read_task(site.testbed(item), number)
    explained = site.plot_worker.sections(why_job(item, number if int(item.facts["tasks"]) > 600 else None))
    if explained is None:
        waiting = "The task is being looked at. This page is loaded again when it is done."
        return task_frame(site, item, task, query, "why", [made("why", "Why it is hard", waiting)])
    row = next((each for each in explained[0].get("rows", []) if each["task"] == number), None)
    lines = [] if row is None else [*row["sentences"], *row["attractions"]]
    context = {
        "lines": lines,
        "more": 0,
        "empty": explained[0]["problem"] or "Nothing sets support and queries apart beyond chance.",
    }
    sections = [Section("why", "What sets its support apart from its queries", context, "lines")]
    sections.append(Section("how", "", {"how": explained[0]["heading"]}, "why_how"))
    return task_frame(site, item, task, query, "why", sections)


def why_job(item: Item, task: int | None) -> dict[str, Any]:
    """Return what the plot worker is asked for to explain a task, or all of a testbed."""
    return {
        "kind": "why",
        "path": str(item.path),
        "hash": item.facts["hash"],
        "task": task,
        "measured": _measured_at(),  # what the pixels say is known once somebody has measured them
    }


def _measured_at() -> int:
    """Return when measures of images were last put into the cache."""
    from longshot.base import cache_places

    times = [folder.stat().st_mtime_ns for folder in cache_places("attributes") if folder.is_dir()]
    return max(times, default=0)
