"""Plots and tests that take long: made by a process of their own, kept in the cache, never waited for by a list.

The process is started with one job, in JSON on its input: which run or testbed, and where to put the sections.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longshot.base import UserError, atomic, cache_dir, hash_json, in_words, keep_fonts, write_json

if TYPE_CHECKING:
    from longshot.reports import Sheet

FORMAT = 8
_MOST_ELEMENTS = 1_150  # of a section, so that a page of it stays below 1,500
_ONCE = (
    "tables",
    "by_dataset",
    "others",
    "datasets",
    "sheet",
)  # what stands with the first plots of a section only
_SECONDS = 600.0
WAIT = 6.0  # seconds that a page waits; it is loaded again by itself until they are made


class PlotWorker:
    """Sections of runs and testbeds, each made once by one process at a time."""

    def __init__(self, base: Path | None = None) -> None:
        self._base = base or cache_dir("explorer", "sections")
        # A layout takes minutes, so that plots do not wait for it.
        self._turns = {True: threading.Semaphore(1), False: threading.Semaphore(1)}
        self._lock = threading.Lock()
        self._working: dict[str, threading.Event] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._closed = False
        self._latest: dict[str, list[dict[str, Any]]] = {}

    def ready(self, job: dict[str, Any]) -> list[dict[str, Any]] | None:
        """Return the sections of a job if they are made; None otherwise."""
        path = self._path(job)
        try:
            sections: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return sections

    def start(self, job: dict[str, Any]) -> threading.Event:
        """Let the job be done; the event is set when it is over."""
        key = self._path(job).name
        with self._lock:
            event = self._working.get(key)
            if event is None:
                event = self._working[key] = threading.Event()
                threading.Thread(target=self._work, args=(job, key, event), name="plots", daemon=True).start()
        return event

    def sections(
        self, job: dict[str, Any], wait: float = WAIT, *, of: str = ""
    ) -> list[dict[str, Any]] | None:
        """Return the sections; None where they are not made after ``wait`` seconds.

        ``of`` names what changes while it is shown, as a training: until the new ones are made, there are the last.
        """
        ready = self.ready(job)
        if ready is None:
            done = self.start(job)
            done.wait(0.0 if of in self._latest else wait)
            ready = self.ready(job) or self._latest.get(of)
        if of and ready is not None:
            self._latest[of] = ready
        return ready

    def progress(self, job: dict[str, Any]) -> float:
        """Return which share of a job is done, where it says so."""
        try:
            return float(self._path(job).with_suffix(".progress").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0.0

    def close(self) -> None:
        """End the processes that work."""
        self._closed = True
        for process in list(self._processes):
            with contextlib.suppress(OSError):
                process.kill()

    def _path(self, job: dict[str, Any]) -> Path:
        return self._base / f"{hash_json([FORMAT, job])[:24]}.json"

    def _work(self, job: dict[str, Any], key: str, event: threading.Event) -> None:
        path = self._path(job)
        try:
            with self._turns[job["kind"] == "map"]:
                if self._closed or path.is_file():
                    return
                environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "svg"}
                with subprocess.Popen(
                    [sys.executable, "-m", "longshot.explorer.plot_worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                    start_new_session=True,
                ) as process:
                    self._processes.append(process)
                    try:
                        process.communicate(
                            json.dumps({**job, "out": str(path)}).encode(),
                            timeout=_SECONDS * 6 if job["kind"] == "map" else _SECONDS,
                        )
                    except subprocess.TimeoutExpired:
                        process.kill()
                    if process.returncode and not path.is_file() and not self._closed:
                        problem = "The plots could not be drawn: the process that draws them ended early."
                        write_json(path, [_problem(problem)])
                    self._processes.remove(process)
        finally:
            with self._lock:
                self._working.pop(key, None)
            event.set()


def _problem(sentence: str) -> dict[str, Any]:
    return {"name": "problem", "heading": "", "html": "", "problem": sentence}


def _facts(name: str, rows: list[Any], heading: str = "") -> list[dict[str, Any]]:
    """Make a section of rows, for a page to show."""
    return [{"name": name, "heading": heading, "html": "", "problem": "", "rows": rows}]


# --- what the process does ---


class RunLinks:
    """Where the numbers of a run's sections lead."""

    def __init__(self, run: str) -> None:
        self.run = run

    def tasks(
        self, bed: Any, series: Any, dataset: str | None = None, coarsity: tuple[float, float] | None = None
    ) -> str:
        """Link to the tasks behind a mean: those of a testbed (or its name), by the accuracy of a series.

        ``dataset`` and ``coarsity`` (from, to) say of which part of them it is the mean.
        """
        from longshot.explorer.listing import address

        name = bed if isinstance(bed, str) else bed.hash[:10]
        pairs = [("bed", name), ("series", f"{series.method} · {series.backbone}")]
        if coarsity is not None:
            pairs.append(("where", f"coarsity >= {coarsity[0]!r} and coarsity <= {coarsity[1]!r}"))
        if dataset is not None and '"' not in dataset:  # a name with quotation marks has no place in a filter
            pairs.append(("where", f'dataset == "{dataset}"'))
        return address(f"/run/{self.run}/tasks", pairs)

    def confusion(self, bed: str, series: Any, true: str, predicted: str) -> str:
        """Link to the queries behind a square of the heat map."""
        from longshot.explorer.listing import address

        pairs = [
            ("bed", bed),
            ("series", f"{series.method} · {series.backbone}"),
            ("true", true),
            ("predicted", predicted),
        ]
        return address(f"/run/{self.run}/confusion", pairs)


def run_sections(path: str, run: str) -> list[dict[str, Any]]:
    """Make the report's sections of a run, without pictures: those have pages of their own."""
    from longshot.reports import SECTIONS, make_request, read_runs

    request = make_request(read_runs(path))
    made = [make(request) for make in SECTIONS if make.__name__ not in ("tasks", "confused")]
    return _rendered([section for section in made if section is not None], RunLinks(run))


def testbed_sections(path: str) -> list[dict[str, Any]]:
    """Show where a testbed comes from, and its histograms."""
    from longshot.reports import testbed_sections
    from longshot.tasks import Testbed, describe

    testbed = Testbed.load(path)
    return _rendered(testbed_sections(testbed, describe.summary(testbed)), None)


def training_sections(path: str) -> list[dict[str, Any]]:
    """Draw learning curves."""
    from longshot.reports import read_trainings, training_section

    return _rendered([training_section(read_trainings([path]))], None)


def board_sections(suite: str, path: str) -> list[dict[str, Any]]:
    """Show a board of a suite: the file at ``path``, or the one that comes with the suite or with each of a group."""
    from longshot.publish import bench, card_of, open_suite, read_board

    card = card_of(open_suite(suite), read_board(path)) if path else bench([], suite=suite, board=True)
    return _rendered(card.sections(), None)


def suspects(path: str) -> list[dict[str, Any]]:
    """Find images whose label looks wrong by one network's features of a dataset."""
    from longshot.models import SUSPECT_ODDS, Features, suspects_of

    features = Features.load(path, check=False)
    suspected = suspects_of(features)
    labels = np.repeat(np.arange(len(features.class_ids)), np.diff(features.offsets))
    rows = [
        {
            "row": row,
            "class": features.class_ids[int(labels[row])],
            "rival": features.class_ids[int(rival)],
            "odds": float(odds),
        }
        for row, rival, odds in zip(
            suspected.mislabelled.tolist(), suspected.rival.tolist(), suspected.odds.tolist(), strict=True
        )
    ]
    rows += [
        {"row": row, "class": features.class_ids[int(labels[row])], "why": "a copy of another image"}
        for row in ([] if features.digests is None else _repeated(features.digests))
    ]
    note = (
        f"By the features of {features.backbone}: the label is improbable, another class is at least "
        f"{SUSPECT_ODDS:,.0f} times as probable, and the images beside it are of other classes."
    )
    return _facts("suspects", rows, note)


def lay_out(path: str, layout: str, out: str) -> list[dict[str, Any]]:
    """Lay the images of a dataset out in the plane by features; places and clusters go to a file beside ``out``."""
    from longshot.explorer.map_layout import clusters, components, neighbour_layout
    from longshot.models import open_array

    told_share = Path(out).with_suffix(".progress")
    points = components(open_array(Path(path)))

    def tell(share: float) -> None:
        told_share.write_text(f"{share:.4f}", encoding="ascii")

    places = points[:, :2] if layout == "components" else neighbour_layout(points, tell)
    low, high = places.min(axis=0), places.max(axis=0)
    middle, reach = (low + high) / 2, max(float((high - low).max()), 1e-9)
    scaled = np.clip((places - middle) / reach + 0.5, 0, 1) * 65535
    groups = clusters(points, min(12, len(points)))
    target = Path(out).with_suffix(".npy")
    with atomic(target) as temporary, temporary.open("wb") as file:
        np.save(file, np.column_stack([scaled.round(), groups]).astype(np.uint16), allow_pickle=False)
    return [{**_facts("map", [])[0], "file": str(target)}]


def dataset_sheet(path: str) -> list[dict[str, Any]]:
    """Describe a dataset as a table, and pick images of it to look at."""
    from longshot import show_dataset

    sheet = show_dataset(path)
    return _facts("sheet", [sheet.rows(), sheet.to_look_at()])


def _repeated(values: NDArray[Any]) -> list[int]:
    """List the rows whose value an earlier row has."""
    firsts = np.unique(values, return_index=True)[1]
    return [int(row) for row in np.setdiff1d(np.arange(len(values)), firsts)]


def verify_release(path: str) -> list[dict[str, Any]]:
    """Check each file, testbed and source of a release."""
    from longshot.publish import verify

    rows = [{"subject": check.subject, "problem": check.problem} for check in verify(path)]
    return _facts("verify", rows)


def explain_tasks(path: str, task: int | None) -> list[dict[str, Any]]:
    """Explain what sets the support of tasks apart: of all, or of one where there are too many."""
    from longshot.diagnosis import attraction_sentences, explain_testbed, is_measured
    from longshot.tasks import Testbed, open_datasets

    testbed = Testbed.load(path)
    if task is not None:
        part = testbed.table.slice(task, 1)
        testbed = testbed.changed(part.set_column(part.schema.get_field_index("task"), "task", [[0]]))
    testbed, datasets = open_datasets(testbed, {})
    # Measuring takes minutes, so it is not done for a page; what an explanation has measured before is used.
    measured = all(is_measured(dataset) for dataset in datasets.values())
    if not measured and not any(dataset.attributes is not None for dataset in datasets.values()):
        sentence = in_words(
            "The dataset records no attributes of its images; {explain(…)} measures some from the pixels."
        )
        return [_problem(sentence)]
    explanation = explain_testbed(testbed, datasets, no_pixels=not measured)
    rows = [
        {
            "task": each.task if task is None else task,
            "sentences": [finding.sentence for finding in each.findings],
            "causes": [finding.attribute for finding in each.findings],
            "attractions": attraction_sentences(each),
        }
        for each in explanation.tasks
    ]
    how = "the dataset records, and that were measured from the pixels" if measured else "the dataset records"
    return _facts("why", rows, how)


def draw_episodes(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Draw two episodes of the shape and classes that a training draws, as rows of its dataset."""
    import pyarrow as pa

    from longshot.data import registry
    from longshot.tasks import sample

    dataset = registry.reopen_dataset(str(settings["fingerprint"]), str(settings["dataset"]))
    episodes = settings["episodes"]
    shape, classes = dict(episodes["shape"]), dict(episodes["classes"])
    choices = {"shape": shape.pop("name"), "classes": classes.pop("name")}
    simple = {**shape, **classes}.items()
    settings = {**choices, **{key: value for key, value in simple if isinstance(value, int | float | str)}}
    split = "train" if "train" in dataset.splits else None
    testbed = sample(dataset, tasks=2, seed=0, split=split, copies="allow", **settings)
    drawn_episodes = []
    for task in testbed:
        parts = {"support": (task.support, task.support_label), "query": (task.query, task.query_label)}
        rows = {part: dataset.find_rows(pa.array(keys)) for part, (keys, _) in parts.items()}
        drawn_episodes.append(
            [
                {"name": class_id.rsplit("/", 1)[-1]}
                | {
                    part: rows[part][np.asarray(labels) == label][:8].tolist()
                    for part, (_, labels) in parts.items()
                }
                for label, class_id in enumerate(task.classes[:8])
            ]
        )
    return _facts("episodes", drawn_episodes)


def _rendered(sections: list[Any], links: Any) -> list[dict[str, Any]]:
    from longshot.reports import arrow, environment

    templates = environment()
    rendered: list[dict[str, Any]] = []
    for section in sections:
        template = templates.get_template(f"{section.template or section.name}.html.j2")
        parts = _parts(partial(_render, template, links), section.context)
        facts = {"name": section.name, "heading": section.heading, "problem": "", "parts": len(parts)}
        for number, (html, sheets) in enumerate(parts, 1):
            tables = [arrow(sheet).to_pydict() for sheet in sheets]
            rendered.append({**facts, "html": html, "part": number, "tables": tables})
    return rendered


def _render(template: Any, links: Any, context: dict[str, Any], sheets: list[Sheet]) -> str:
    """Return a section as HTML, and add its tables to ``sheets``."""
    html: str = template.render(context, links=links, shown_tables=sheets)
    return html


def _parts(
    render: Callable[[dict[str, Any], list[Sheet]], str], context: dict[str, Any]
) -> list[tuple[str, list[Sheet]]]:
    """Cut a section into as many parts as its plots need, none with more elements than a page bears."""
    sheets: list[Sheet] = []
    html = render(context, sheets)
    panels = context.get("panels")
    elements = len(re.findall(r"<[a-zA-Z]", html))
    if elements <= _MOST_ELEMENTS or not isinstance(panels, list) or len(panels) < 2:
        return [(html, sheets)]
    middle = len(panels) // 2
    again = {**context, "panels": panels[middle:], **{name: [] for name in _ONCE if name in context}}
    return [*_parts(render, {**context, "panels": panels[:middle]}), *_parts(render, again)]


def main() -> None:
    """Do the job that stands on the input."""
    job = json.loads(sys.stdin.read())
    keep_fonts()
    with contextlib.suppress(OSError):
        os.nice(5)
    makers = {
        "run": lambda: run_sections(job["path"], job["run"]),
        "testbed": lambda: testbed_sections(job["path"]),
        "training": lambda: training_sections(job["path"]),
        "board": lambda: board_sections(job["suite"], job["path"]),
        "verify": lambda: verify_release(job["path"]),
        "why": lambda: explain_tasks(job["path"], job["task"]),
        "episodes": lambda: draw_episodes(job["settings"]),
        "suspects": lambda: suspects(job["path"]),
        "map": lambda: lay_out(job["path"], job["layout"], job["out"]),
        "sheet": lambda: dataset_sheet(job["path"]),
    }
    try:
        sections: list[dict[str, Any]] = makers[job["kind"]]()
    except UserError as error:
        sections = [_problem(str(error))]
    except Exception as error:
        sections = [_problem(f"This could not be made ({type(error).__name__}).")]
    write_json(job["out"], [{key: _text(value) for key, value in section.items()} for section in sections])


def _text(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value


if __name__ == "__main__":
    main()
