"""The end of a study: its pictures, its page and the page of its run, each only where something changed.

The page has what was asked, claims with verdicts, what was compared, tables, figures, tasks and budgets.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np

from longshot.base import Floats, UserError, count, hash_json, write_text
from longshot.reports import Column, Section, Sheet, SheetCell, make_sheet, save_figure, write_page
from longshot.statistics import mean_interval
from longshot.studies.engine.claims import RULE, JudgedClaim, JudgedNumber, Verdict
from longshot.studies.engine.comparisons import Comparison
from longshot.studies.engine.study_folder import StudyJob, StudyOutcome
from longshot.studies.engine.study_tables import (
    TableFile,
    claims_table,
    mark_leaks,
    measured_text,
    number_text,
    printed_text,
)

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.evaluation import Results
    from longshot.studies.engine.presets import Study
    from longshot.studies.engine.study_folder import StudyFolder
    from longshot.studies.engine.study_tables import TableFile
    from longshot.studies.engine.study_training import TrainingRecord


_LARGE = 150_000  # bytes of an SVG beyond which the PNG stands in its place
_ALL_FIGURES = 1_500_000  # bytes of all figures; further ones are linked
_ALBUMS = 4  # testbeds whose hardest and easiest tasks are shown
_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_TESTED = ("for", "against", "open")


def study_page(study: Study, title: str, out: Path, findings: Findings, datasets: Sequence[Dataset]) -> str:
    """Write the page as one text; figures are read from the study's folder ``out``."""
    tables = [
        replace(table, sheets=[_styled(sheet) for sheet in table.sheets])
        for table in findings.tables
        if table.sheets or table.lines
    ]
    pictures = _pictures(findings, out / "figures")
    sections = [
        _question(study, findings, datasets, pictures[:1]),
        _claims(findings),
        _comparisons(findings),
        Section("tables", "Tables", {"tables": tables}, "study_tables") if tables else None,
        Section("figures", "Figures", {"figures": pictures[1:]}, "study_figures") if pictures[1:] else None,
        _tasks(out / "run", datasets),
        *_trainings(findings),
        _origin(study, out),
    ]
    verdicts = Counter(judged.verdict for judged in findings.claims)
    counts = [f"{verdicts[verdict]} {verdict}" for verdict in _VERDICTS if verdicts[verdict]]
    counts = [f"{count(len(findings.claims), 'claim')}: {', '.join(counts)}"] if counts else []
    counts += [count(len(findings.tables), "table"), count(len(findings.figures), "figure")]
    return write_page(title, [section for section in sections if section], counts=counts, style="study.css")


def _styled(sheet: Sheet) -> Sheet:
    """Return a table as the page shows it: small where it is wide, in a dashed frame where it was printed."""
    looks = ["wide"] * (len(sheet.heads) > 8) + ["printed"] * sheet.title.startswith("Published")
    return replace(sheet, style=" ".join(["sheet", *looks]))


_DATA = (
    Column("Dataset", lambda data: data.name),
    Column("Classes", lambda data: len(data.class_ids), "count"),
    Column("Images", len, "count"),
    Column(
        "Classes by split", lambda data: ", ".join(f"{len(ids)} {part}" for part, ids in data.splits.items())
    ),
)
_AT_CEILING = SheetCell("at the ceiling in time", look="verdict contradicted")
_BUDGETS = (
    Column("Network", lambda record: record.label),
    Column("Steps done", lambda record: record.steps, "count"),
    Column("Budget", lambda record: record.budget, "count"),
    Column("Ceiling", lambda record: None if record.minutes is None else 60 * record.minutes, "seconds"),
    Column("Time", lambda record: record.seconds, "seconds"),
    Column("Kept step", lambda record: record.best_step, "count"),
    Column("Validation %", lambda record: record.validation_accuracy, "percent"),
    Column("Ended", lambda record: _AT_CEILING if record.ceiling else "with its budget"),
)
_BUDGETS_NOTE = (
    "A budget is a number of steps; minutes are only a ceiling. A training that hit the ceiling had a smaller budget "
    "than its neighbours, and its cells do not compare with theirs."
)


def _question(
    study: Study, findings: Findings, datasets: Sequence[Dataset], lead: Sequence[dict[str, str]]
) -> Section:
    """Write what was asked, the verdicts with the figure that shows them, the data, and what is absent."""
    tree = study.settings.plain().get("taxonomy")
    unique = {dataset.name: dataset for dataset in datasets}
    columns = [
        *_DATA,
        Column("Taxonomy", lambda data: tree or ("its own" if data.taxonomy is not None else "none")),
        Column("Fingerprint", lambda data: SheetCell(data.fingerprint[:12], look="code")),
    ]
    context = {
        "study": study,
        "findings": findings,
        "data": make_sheet(columns, unique.values(), style="sheet", aria="Datasets"),
        "figures": lead,
    }
    return Section("question", "What was asked", context, "study_question")


def _claims(findings: Findings) -> Section | None:
    """Write each claim: published, measured, verdict; then the rule."""
    if not findings.claims:
        return None
    claims = []
    for judged in findings.claims:
        claim = judged.claim
        scale = 100 if claim.unit == "points" else 1
        expects = f"each number {claim.expects} {scale * claim.than:g}"
        if claim.expects == "same":
            expects = f"each number within ±{scale * claim.margin:g} of {scale * claim.than:g}"
        tally = Counter[str](each.counts for each in judged.numbers)
        measured = [each.measured.value for each in judged.numbers if each.counts in _TESTED]
        claims.append(
            {
                "judged": judged,
                "expects": expects,
                "sheet": _numbers(judged) if judged.numbers else None,
                "span": _span(measured, claim.unit),
                "printed_span": _span(_printed_values(judged.numbers), claim.unit),
                "tally": [(tally[kind], kind) for kind in (*_TESTED, "left out") if tally[kind]],
            }
        )
    return Section("claims", "What the paper claims", {"claims": claims, "rule": RULE}, "study_claims")


def _numbers(judged: JudgedClaim) -> Sheet:
    """Make the table of a claim's numbers."""
    unit = judged.claim.unit
    columns = [
        Column("Of", lambda each: each.measured.label),
        Column("Measured [95 %]", lambda each: measured_text(each.measured, unit), "plain"),
        Column("Published", lambda each: printed_text(each.measured, unit), "plain"),
        Column("p", lambda each: each.measured.p, "p"),
        Column("n", lambda each: each.measured.n, "count"),
        Column("Counts", lambda each: SheetCell(each.counts, look=f"counts-{each.counts.replace(' ', '-')}")),
    ]
    return make_sheet(columns, judged.numbers, style="sheet", aria="Numbers of the claim")


def _span(values: Sequence[float], unit: str) -> str:
    """Format a range as ``+2.7 to +12.1`` in the claim's unit; empty where there are no values."""
    return (
        " to ".join(dict.fromkeys(number_text(end, unit) for end in (min(values), max(values))))
        if values
        else ""
    )


def _printed_values(numbers: Sequence[JudgedNumber]) -> list[float]:
    ends = [each.measured.printed for each in numbers if each.measured.printed is not None]
    return [value for end in ends for value in (end if isinstance(end, tuple) else (end,))]


def _comparisons(findings: Findings) -> Section | None:
    """Write what was compared: the one factor of each comparison, and what was equal."""
    if not findings.comparisons:
        return None
    listed = [
        {"name": each.name, "factor": each.factor, "sides": each.varied(), "shared": each.shared()}
        for each in findings.comparisons
    ]
    return Section("comparisons", "What was compared", {"comparisons": listed}, "study_comparisons")


def _pictures(findings: Findings, folder: Path) -> list[dict[str, str]]:
    """Describe all figures, the telling one first: embedded in the page as long as it stays small, else linked."""
    figures, total = [], 0
    for name, draw in findings.figures.items():
        svg, png = folder / f"{name}.svg", folder / f"{name}.png"
        file, kind = (svg, "svg+xml") if svg.stat().st_size <= _LARGE else (png, "png")
        data = base64.b64encode(file.read_bytes()).decode("ascii")
        total += len(data)
        inside = total <= _ALL_FIGURES
        total -= 0 if inside else len(data)
        source = f"data:image/{kind};base64,{data}" if inside else ""
        figures.append({"name": name, "caption": getattr(draw, "caption", ""), "source": source})
    return figures


def _tasks(run: Path, datasets: Sequence[Dataset]) -> Section | None:
    """Show the hardest and the easiest task of a few testbeds."""
    from longshot.evaluation import find_images
    from longshot.reports import albums, read_runs

    try:
        data = read_runs(run)
    except UserError:
        return None
    images = find_images(datasets={dataset.name: dataset for dataset in datasets})
    step = max(1, -(-len(data.beds) // _ALBUMS))
    beds = list(range(0, len(data.beds), step))
    best = {b: max(data.column(b), key=lambda each: float(each[1].accuracy.mean()))[0] for b in beds}
    pictures = albums(data, images, 1, best, None, beds)
    context = {"albums": pictures, "beds": data.beds, "series": data.series}
    return Section("tasks", "Hardest and easiest tasks", context)


def _trainings(findings: Findings) -> list[Section]:
    """Show the budgets of all trainings, and the learning curves."""
    from longshot.reports import read_trainings, training_section

    records = list(findings.trainings.values())
    if not records:
        return []
    folders = [Path(record.path) for record in records]
    curves = [folder for folder in folders if (folder / "history.jsonl").is_file()]
    sheet = make_sheet(_BUDGETS, records, style="sheet", note=_BUDGETS_NOTE, aria="Trainings")
    sections = [Section("budgets", "Trainings and their budgets", {"sheet": sheet}, "sheet")]
    return [*sections, training_section(read_trainings(curves))] if curves else sections


def _origin(study: Study, out: Path) -> Section:
    """Point to the rest: the run's own page, files, settings."""
    settings = [(key, json.dumps(value, ensure_ascii=False)) for key, value in study.settings.plain().items()]
    context = {"study": study, "settings": settings, "folder": out.name}
    return Section("origin", "All results, files and settings", context, "study_origin")


SUFFIXES = (".png", ".svg")


@dataclass(frozen=True)
class Picture:
    """A figure with what it shows, for the page; called with a path without suffix it draws itself."""

    caption: str
    draw: Callable[[Path], None]

    def __call__(self, path: Path) -> None:
        self.draw(path)


# figure name → what draws it to a path without suffix
Drawings: TypeAlias = dict[str, Callable[[Path], None]]
_STYLE: Any = {
    "svg.hashsalt": "longshot",  # equal pictures give equal bytes
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": "#dddddd",
    "legend.frameon": False,
}


@contextmanager
def axes_of(path: Path, width: float = 7.0) -> Iterator[Any]:
    """Open axes to draw on, so many inches wide; then write them as ``path`` with every suffix."""
    with figure_of(path, (width, 4)) as figure:
        yield figure.add_subplot()


@contextmanager
def figure_of(path: Path, size: tuple[float, float]) -> Iterator[Any]:
    """Open a figure of so many inches; then write it as ``path`` with every suffix."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        save_picture(figure, path)


def save_picture(figure: Any, path: Path) -> None:
    """Write a figure as ``path`` with every suffix; no date in it, so that equal pictures give equal bytes."""
    for suffix in SUFFIXES:
        save_figure(figure, path.with_name(path.name + suffix))


def on_both(draw: Callable[[Path], None], path: Path) -> None:
    """Draw to ``path`` with every suffix, by a function that writes one file."""
    for suffix in SUFFIXES:
        draw(path.with_name(path.name + suffix))


def means_and_halves(values: Iterable[Floats]) -> tuple[Floats, Floats]:
    """Compute mean and half the 95 % interval of each array of shares, in per cent [n]; 0 for one value."""
    intervals = [mean_interval(shares) for shares in values]
    mean = np.array([100 * interval.mean for interval in intervals])
    return mean, np.array([100 * (interval.half or 0.0) for interval in intervals])


RUN_PAGE = "run.html"
# testbeds beyond which the run's page has plots of the first ones only and one task of each kind, and beyond three
# times as many no pictures of tasks: the study's own page has them
_MANY = 8
_NAMED = 4  # datasets that a title names


@dataclass(frozen=True)
class Findings:
    """What a study found: tables, figures, claims with verdicts, comparisons, and what there is to know about it."""

    tables: Sequence[TableFile]
    figures: Drawings
    claims: Sequence[JudgedClaim] = ()
    comparisons: Sequence[Comparison] = ()
    absent: Sequence[str] = ()
    notes: Sequence[str] = ()
    question: str = ""
    trainings: Mapping[str, TrainingRecord] = field(default_factory=dict)

    def all_tables(self) -> list[TableFile]:
        """List the claims first, then every table of the study."""
        return [*([claims_table(self.claims)] if self.claims else []), *self.tables]


def finish(
    job: StudyJob[Any, Any],
    folder: StudyFolder,
    results: Results,
    findings: Findings,
    datasets: Sequence[Dataset],
) -> StudyOutcome:
    """Write what a study found.

    ``datasets`` are all sources of the study: the page is titled after them and shows pictures of their tasks.
    """
    from longshot.evaluation import leaks_in

    study, out = job.study, folder.path
    leaks = leaks_in(results.run)
    called = {str(record.path): name for name, record in findings.trainings.items()}
    findings = replace(
        findings,
        tables=mark_leaks(
            findings.tables, [(backbone, leak) for (_, backbone), leak in leaks.items()], called
        ),
        notes=[*_known_by_name(datasets), *findings.notes, *(f"{leak.note}." for leak in leaks.values())],
    )
    tables = findings.all_tables()
    hashes = {facts["name"]: content_hash for content_hash, facts in results.run["testbeds"].items()}
    units = sorted(unit for cell in results.run["cells"] for unit in cell["units"])
    inputs = [study.settings.plain(), hashes, units, study.version, version("longshot")]
    texts = {out / "tables" / name: text for table in tables for name, text in table.texts().items()}

    def write_tables() -> None:
        for path, text in texts.items():
            write_text(path, text)

    folder.step("tables", [inputs, list(texts.values())], list(texts), write_tables)
    pictures = [out / "figures" / f"{name}{suffix}" for name in findings.figures for suffix in SUFFIXES]

    def draw_figures() -> None:
        for name, draw in findings.figures.items():
            draw(out / "figures" / name)

    folder.step("figures", inputs, pictures, draw_figures)
    names = list(dict.fromkeys(dataset.name for dataset in datasets))
    if len(names) > _NAMED:
        names = [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
    title = f"{study.title or study.name}: {', '.join(names)}"
    folder.save(
        tables=[table.stem for table in tables],
        absent=list(findings.absent),
        notes=[*findings.absent, *findings.notes],
        verdicts={claim.claim.id: claim.verdict for claim in findings.claims},
        title=title,
    )
    run_page, page = out / RUN_PAGE, out / "report.html"
    folder.step(
        "run page", inputs, [run_page], lambda: _write_run_page(datasets, out / "run", run_page, title)
    )
    shown = [inputs, hash_json(list(texts.values())), folder.facts["notes"], findings.question, title]

    folder.step(
        "report", shown, [page], lambda: write_text(page, study_page(study, title, out, findings, datasets))
    )
    listed = [str(path.relative_to(out)) for path in pictures]
    return StudyOutcome(out, folder.facts["notes"], folder.did, tables, listed, findings.claims)


def _known_by_name(datasets: Sequence[Dataset]) -> list[str]:
    """Write a sentence for every dataset whose images are identified only by their names."""
    names = dict.fromkeys(dataset.name for dataset in datasets if dataset.identity == "names")
    return [
        f"{name} is known by the names of its images alone: other pictures under these names would go unnoticed."
        for name in names
    ]


def _write_run_page(datasets: Sequence[Dataset], run: Path, page: Path, title: str) -> None:
    """Write the usual report of the run, with pictures from the datasets: fewer where testbeds are many."""
    from longshot.evaluation import find_images
    from longshot.reports import read_runs, render_report

    images = find_images(datasets={dataset.name: dataset for dataset in datasets})
    data = read_runs(run)
    pictures = 2 if len(data.beds) <= _MANY else 1 if len(data.beds) <= 3 * _MANY else 0
    text = render_report(data, images=images, pictures=pictures, title=f"All results: {title}", plotted=_MANY)
    write_text(page, text)
