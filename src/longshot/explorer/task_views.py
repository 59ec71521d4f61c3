"""A task in pictures: support and queries by class, what each method answered, and what lies around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import Floats, count, span
from longshot.explorer.caches import CachedTestbed
from longshot.explorer.compare_views import Candidate
from longshot.explorer.library import Item
from longshot.explorer.listing import ListState, address, cell_text, neighbours, page_number
from longshot.explorer.picture_store import LARGE, TILE
from longshot.explorer.query_answers import nearest_support, task_similarity
from longshot.explorer.run_index import read_scores
from longshot.explorer.site import NotThere, Page, Site, tabs_of
from longshot.explorer.sprites import TilePage, read_task, sprite_of, tile_page
from longshot.explorer.task_rows import CHOSEN_BY, task_table
from longshot.explorer.testbed_views import dataset_links, siblings
from longshot.reports import Section, class_names

if TYPE_CHECKING:
    from longshot.tasks import Task


CARRIED = ("run", "lead", *CHOSEN_BY, "where", "sort", "view")  # of the list that a task was opened from
_MEASURED = {  # what stands above a task, and how it is called there
    "coarsity": "coarsity",
    "difficulty": "difficulty",
    "accuracy_before": "its judge before choosing",
    "accuracy_after": "after choosing",
}
_NEAREST = 3  # supports that are shown with a query
_MARKED_SERIES = 4  # whose marks stand under each query
_RUNS = 6  # that are looked at where none is named


@dataclass(frozen=True)
class Answers(Candidate):
    """What one series answered to the queries of a task."""

    predicted: Any  # [Q] positions in the task's classes, −1 where there is none
    accuracy: float

    def agrees(self, other: Answers) -> bool:
        """Tell whether another run answered the same with the same series."""
        a, b = self.series, other.series
        same = (a.method, a.backbone, a.seed) == (b.method, b.backbone, b.seed)
        return same and np.array_equal(self.predicted, other.predicted)

    def scores(self, task: Task) -> Floats | None:
        """Return its scores [Q, way]; None where the run did not keep them."""
        flat = read_scores(self.run.path, self.bed.units[self.position], task.index)
        fits = flat is not None and len(flat) == len(task.query) * task.way
        return flat.reshape(len(task.query), task.way) if fits and flat is not None else None


def task_answers(
    site: Site, cached: CachedTestbed, content_hash: str, task: Task, run: str
) -> tuple[list[Answers], list[str]]:
    """Collect the answers of one run's series, or of all runs on this testbed; and what could not be read."""
    runs = site.library.runs_of(content_hash)
    if run:
        runs = [each for each in runs if each.digits == run.rsplit("-", 1)[-1]]
        if not runs:
            return [], [f"There is no run '{run[:60]}' on this testbed (any more)."]
    labels = cached.testbed.column("query_label")
    begin, end = int(labels.offsets[task.index]), int(labels.offsets[task.index + 1])
    given_answers: list[Answers] = []
    problems = []
    for each in runs[:_RUNS]:
        try:
            bed = site.index(each).bed(content_hash)
        except (NotThere, KeyError) as error:
            problems.append(str(error))
            continue
        for position in range(len(bed.series)):
            flat = bed.answers(position)
            if flat is None or len(flat) < end:
                continue
            predicted = np.array(flat[begin:end], np.int64)
            right = float(np.mean(predicted == np.asarray(task.query_label)))
            own = Answers(each, bed, position, predicted, right)
            # Rows that agree in several runs are shown once, as in a report.
            if (predicted >= 0).all() and not any(map(own.agrees, given_answers)):
                given_answers.append(own)
    if len(runs) > _RUNS:
        problems.append(f"Shown are the newest {_RUNS} of {len(runs)} runs on this testbed.")
    return given_answers, problems


def task_frame(site: Site, item: Item, task: Task, query: Any, here: str, sections: list[Section]) -> Page:
    """Make the page of a task around some sections; arrow keys lead to its neighbours in the list."""
    base = f"{item.url}/task"
    run = str(query.get("run", ""))
    state = ListState.read(f"{base}/{task.index}", query, fixed=("run", "lead", *CHOSEN_BY))
    carried = state.parameters(page=1, columns=())
    table = task_table(site, item, site.testbed(item).tasks, query)
    own = tuple(pair for pair in state.fixed if pair[0] in CHOSEN_BY)
    default, back = "task", address(f"{item.url}/tasks", state.parameters(page=1, columns=(), fixed=own))
    if run:
        owner = site.library.find("run", run)
        if owner is not None and not owner.problem:
            try:
                bed = site.index(owner).bed(item.facts["hash"])
                table = task_table(site, item, bed.table, query, bed)
                default = "accuracy"
                fixed = (("bed", item.facts["hash"][:10]), *own)
                back = address(f"{owner.url}/tasks", state.parameters(page=1, columns=(), fixed=fixed))
            except (NotThere, KeyError):
                pass
    before, after, position, total = neighbours(table, state, task.index, default)
    keys = {"Escape": back}
    if before is not None:
        keys["ArrowLeft"] = address(f"{base}/{before}", carried)
    if after is not None:
        keys["ArrowRight"] = address(f"{base}/{after}", carried)
    inner = f"{base}/{task.index}"
    names = {"Pictures": "", "Why": "why"}
    tabs = [(name, address(url, carried), own) for name, url, own in tabs_of(inner, here, names)]
    facts = [
        f"{task.way}-way",
        f"{span(task.shots)}-shot",
        count(len(task.query), "query", "queries"),
        task.dataset,
    ]
    facts += [
        f"{words} {cell_text(value, name)}"
        for name, words in _MEASURED.items()
        if isinstance(value := task.measured.get(name), int | float)
    ]
    facts.append(f"{position:,} of {total:,} in this list" if position else "not in this list")
    crumbs = [("Explorer", "/"), (item.name, item.url), ("tasks", back)]
    steps = [
        (rel, keys[key])
        for rel, key in (("prev", "ArrowLeft"), ("next", "ArrowRight"), ("up", "Escape"))
        if key in keys
    ]
    return Page(
        f"Task {task.index:,}", sections, counts=facts, crumbs=crumbs, tabs=tabs, keys=keys, steps=steps
    )


def task_pictures(site: Site, item: Item, number: int, query: Any) -> Page:
    """Show support and queries by class; every query with what each series answered."""
    cached = site.testbed(item)
    task = read_task(cached, number)
    tiles = tile_page(task, page_number(query, "classes"))
    given_answers, problems = task_answers(site, cached, item.facts["hash"], task, str(query.get("run", "")))
    section = Section(
        "pictures",
        "Support and queries",
        _context(site, item, task, tiles, given_answers, query, cached),
        "task_pictures",
    )
    page = task_frame(site, item, task, query, "", [section])
    page.notices += problems
    return page


def _context(
    site: Site,
    item: Item,
    task: Task,
    tiles: TilePage,
    every: list[Answers],
    query: Any,
    cached: CachedTestbed,
) -> dict[str, Any]:
    names = class_names(task.classes, task.labels)
    marked = every[:_MARKED_SERIES]
    carried = [(key, str(query[key])) for key in CARRIED if query.get(key)]
    base = f"{item.url}/task/{task.index}"
    lead = next((each for each in every if each.id == query.get("lead")), every[0] if every else None)
    scores = None if lead is None else lead.scores(task)
    measured = task_similarity(site, cached, task, every)
    nearest = None if measured is None else np.argsort(-measured[0], axis=1, kind="stable")[:, :_NEAREST]
    rows = []
    for label in tiles.classes:
        own = [tile for tile in tiles.tiles if tile.label == label]
        shown: list[dict[str, Any]] = []
        for tile in (tile for tile in own if tile.part == "query"):
            wrong = [each for each in every if each.predicted[tile.position] != label]
            marks = [
                {
                    "right": each.predicted[tile.position] == label,
                    "index": index,
                    "answer": names[each.predicted[tile.position]],
                }
                for index, each in enumerate(marked)
            ]
            takers: dict[str, list[str]] = {}  # by the class that they took it for
            for each in wrong[:6]:
                takers.setdefault(names[each.predicted[tile.position]], []).append(each.series.label)
            answer = "; ".join(f"{name} by {', '.join(labels)}" for name, labels in takers.items())
            shown.append(
                {
                    "tile": tile,
                    "marks": marks,
                    "wrong": len(wrong),
                    "text": f"{names[label]}, {'right by all' if not wrong else 'taken for ' + answer}"
                    if every
                    else names[label],
                    "url": address(f"{base}/query/{tile.position}", carried),
                    "near": "" if nearest is None else " ".join(map(str, nearest[tile.position].tolist())),
                    **_led(lead, scores, tile.position, label, names),
                }
            )
        shown.sort(key=lambda each: -each["wrong"])
        right = [
            f"{int(np.sum((each.predicted == label) & (np.asarray(task.query_label) == label)))}"
            for each in marked
        ]
        rows.append(
            {
                "id": task.classes[label],
                "name": names[label],
                "support": [
                    {"tile": tile, "url": address(f"{base}/support/{tile.position}", carried)}
                    for tile in own
                    if tile.part == "support"
                ],
                "query": shown,
                "queries": int(np.sum(np.asarray(task.query_label) == label)),
                "right": right,
            }
        )
    return {
        "rows": rows,
        "tiles": tiles,
        "sprite": sprite_of(base, cached, task, tiles),
        "every": [
            {
                "index": index if index < _MARKED_SERIES else None,
                "series": each.series,
                "run": each.run,
                "accuracy": each.accuracy,
                "url": address(base, [*(pair for pair in carried if pair[0] != "lead"), ("lead", each.id)]),
                "leads": each is lead,
            }
            for index, each in enumerate(every)
        ],
        "lead": lead,
        "near_by": "" if measured is None else measured[1],
        "large": f"{base.lstrip('/')}/%-{item.facts['hash'][:10]}.jpg",
        "supports": _switch(site, item, task, query),
        "pages": [
            (page, address(base, [*carried, ("classes", str(page))]), page == tiles.page)
            for page in range(1, tiles.pages + 1)
        ][:40],
        "side": TILE,
        "datasets": dataset_links(site, {task.dataset: cached.testbed.datasets[task.dataset]}),
    }


def _led(
    lead: Answers | None, scores: Floats | None, position: int, label: int, names: Sequence[str]
) -> dict[str, Any]:
    """Return what stands below a query: the class that the leading series gave it, and the share of its score."""
    if lead is None:
        return {"answer": "", "share": None, "framed": False}
    answer = int(lead.predicted[position])
    share = None if scores is None else float(shares(scores[position])[answer])
    return {"answer": names[answer], "share": share, "framed": answer != label}


def _switch(site: Site, item: Item, task: Task, query: Any) -> list[tuple[str, str, bool]]:
    """List the testbeds that ask this task's queries of other supports, by how these were chosen."""
    twins = twins_of(site, item, task.index)
    run = site.library.find("run", str(query.get("run", "")))
    choices = []
    for each, cached in twins if len(twins) > 1 else []:
        known_there = run is not None and each.facts["hash"] in run.facts.get("testbeds", {})
        pairs = [("run", run.id)] if run is not None and known_there else []
        words = f"{_instances(cached) or 'other'} support"
        choices.append((words, address(f"{each.url}/task/{task.index}", pairs), each is item))
    return choices


def twins_of(site: Site, item: Item, number: int) -> list[tuple[Item, CachedTestbed]]:
    """List the testbeds, this one first, whose task of the same number asks the same queries."""
    own = site.testbed(item)
    twins = [(item, own)]
    for each in siblings(site, item):
        try:
            other = site.testbed(each)
        except NotThere:
            continue
        if int(other.asks[number]) == int(own.asks[number]):
            twins.append((each, other))
    return twins


def _instances(cached: CachedTestbed) -> str:
    """Return how the support of a testbed was chosen, in a word."""
    sampler = cached.testbed.meta["sampler"]
    instances = sampler.get("instances", {}) if isinstance(sampler, dict) else {}
    return str(instances.get("name", "")) if isinstance(instances, dict) else str(instances)


def task_image(site: Site, item: Item, number: int, part: str, position: int, query: Any) -> Page:
    """Show one picture of a task, large; for a query also the answers with scores and its nearest support."""
    cached = site.testbed(item)
    task = read_task(cached, number)
    if part not in ("query", "support"):
        raise NotThere("A task has support and query images.")
    keys, labels = (task.query, task.query_label) if part == "query" else (task.support, task.support_label)
    if not 0 <= position < len(keys):
        raise NotThere(f"Task {number} has {len(keys)} {part} images, and there is no number {position}.")
    names = class_names(task.classes, task.labels)
    carried = [(key, str(query[key])) for key in CARRIED if query.get(key)]
    base = f"{item.url}/task/{task.index}"
    rows: list[dict[str, Any]] = []
    near: dict[str, Any] = {"tiles": []}
    note = ""
    if part == "query":
        every, _ = task_answers(site, cached, item.facts["hash"], task, str(query.get("run", "")))
        for each in every:
            scores = each.scores(task)
            own = None if scores is None else shares(scores[position])
            answer = int(each.predicted[position])
            rows.append(
                {
                    "series": each.series,
                    "run": each.run,
                    "answer": names[answer],
                    "right": answer == int(labels[position]),
                    "scores": []
                    if own is None
                    else sorted(zip(own.tolist(), names, strict=True), reverse=True)[:8],
                }
            )
        near, note = nearest_support(site, item, cached, task, position, every, carried)
    context: dict[str, Any] = {
        "part": part,
        "key": keys[position],
        "class_name": names[int(labels[position])],
        "class_id": task.classes[int(labels[position])],
        "rows": rows,
        "near": near,
        "note": note,
        "large": f"{base}/{part}-{position}-{item.facts['hash'][:10]}.jpg",
        "side": LARGE,
        "back": address(base, carried),
    }
    section = Section("image", f"{part.capitalize()} image", context, "task_image")
    page = task_frame(site, item, task, query, "image", [section])
    sides = (("prev", "ArrowLeft", position - 1), ("next", "ArrowRight", position + 1))
    inside = [
        (rel, key, address(f"{base}/{part}/{at}", carried)) for rel, key, at in sides if 0 <= at < len(keys)
    ]
    page.keys = {"Escape": context["back"]} | {key: url for _, key, url in inside}
    page.steps = [(rel, url) for rel, _, url in inside]
    page.title = f"Task {task.index:,}, {part} {position}"
    return page


def shares(scores: Floats) -> Floats:
    """Convert scores to shares that sum to 1, as a softmax gives them."""
    finite = np.where(np.isfinite(scores), scores, -1e9)
    grown = np.exp(finite - finite.max())
    shares: Floats = grown / grown.sum()
    return shares
