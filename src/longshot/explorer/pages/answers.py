"""What each series answered to each query of a task, with its score, as a table."""

from __future__ import annotations

from typing import Any

from longshot.explorer.index import read_scores
from longshot.explorer.library import Item
from longshot.explorer.listing import address, page_number
from longshot.explorer.pages.task import CARRIED, answers, frame, shares
from longshot.explorer.site import Page, Site
from longshot.explorer.tiles import read_task, sprite_of, tile_page
from longshot.reports import Section, class_names

_SERIES = 8  # columns of a page


def answers_table(site: Site, item: Item, number: int, query: Any) -> Page:
    """A row per query: its picture, its class, and per series the class that it gave and the share of its score."""
    shelved = site.testbed(item)
    task = read_task(shelved, number)
    tiles = tile_page(task, page_number(query, "classes"))
    every, problems = answers(site, shelved, item.facts["hash"], task, str(query.get("run", "")))
    names = class_names(task.classes, task.labels)
    carried = [(key, str(query[key])) for key in CARRIED if query.get(key)]
    base = f"{item.url}/task/{task.index}"
    shown = every[:_SERIES]
    scores = []
    for each in shown:
        flat = read_scores(each.run.path, each.bed.units[each.position], task.index)
        fits = flat is not None and len(flat) == len(task.query) * task.way
        scores.append(flat.reshape(len(task.query), task.way) if fits and flat is not None else None)
    rows: list[dict[str, Any]] = []
    for tile in (tile for tile in tiles.tiles if tile.part == "query"):
        cells = []
        for each, own in zip(shown, scores, strict=True):
            answer = int(each.predicted[tile.position])
            share = None if own is None else float(shares(own[tile.position])[answer])
            cells.append({"name": names[answer], "right": answer == tile.label, "share": share})
        rows.append(
            {
                "tile": tile,
                "name": names[tile.label],
                "wrong": sum(not cell["right"] for cell in cells),
                "cells": cells,
                "url": address(f"{base}/query/{tile.position}", carried),
            }
        )
    rows.sort(key=lambda row: -row["wrong"])
    context = {
        "rows": rows,
        "series": [each.series for each in shown],
        "more": len(every) - len(shown),
        "kept": any(own is not None for own in scores),
        "sprite": sprite_of(base, shelved, task, tiles),
        "pages": [
            (page, address(f"{base}/answers", [*carried, ("classes", str(page))]), page == tiles.page)
            for page in range(1, tiles.pages + 1)
        ][:40],
        "hidden": tiles.hidden_queries,
    }
    page = frame(
        site,
        item,
        task,
        query,
        "answers",
        [Section("answers", "Every query and what it was taken for", context, "task_answers")],
    )
    page.notices += problems
    return page
