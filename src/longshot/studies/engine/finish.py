"""The end of a study: tables, figures, the study's page and the page of its run, each only where something changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.base import hash_json, write_text
from longshot.studies.engine.claims import JudgedClaim
from longshot.studies.engine.comparisons import Comparison
from longshot.studies.engine.figures import SUFFIXES, Drawings
from longshot.studies.engine.job import StudyJob, StudyOutcome
from longshot.studies.engine.tables import TableFile, claims_table

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.evaluation import Results
    from longshot.studies.engine.folder import StudyFolder
    from longshot.studies.engine.training import TrainingRecord

RUN_PAGE = "run.html"
# testbeds beyond which the run's page has plots of the first ones only and one task of each kind, and beyond three
# times as many no pictures of tasks: the study's own page has them
_MANY = 8


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
        """The claims first, then every table of the study."""
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
    study, out = job.study, folder.path
    findings = replace(findings, notes=[*_known_by_name(datasets), *findings.notes])
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
    title = f"{study.title or study.name}: {_few(names)}"
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

    def write_report() -> None:
        from longshot.studies.engine.page import study_page

        write_text(page, study_page(study, title, out, findings, datasets))

    folder.step("report", shown, [page], write_report)
    listed = [str(path.relative_to(out)) for path in pictures]
    return StudyOutcome(out, folder.facts["notes"], folder.did, tables, listed, findings.claims)


def _few(names: Sequence[str], most: int = 4) -> str:
    """The names, or the first of them and how many more there are."""
    shown = names if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return ", ".join(shown)


def _known_by_name(datasets: Sequence[Dataset]) -> list[str]:
    """A sentence for every dataset of which only the names of its images are vouched for."""
    names = dict.fromkeys(dataset.name for dataset in datasets if dataset.identity == "names")
    return [
        f"{name} is known by the names of its images alone: other pictures under these names would go unnoticed."
        for name in names
    ]


def _write_run_page(datasets: Sequence[Dataset], run: Path, page: Path, title: str) -> None:
    """The usual report of the run, with pictures from the datasets at hand: fewer where there are many testbeds."""
    from longshot.evaluation import find_images
    from longshot.reports import read_runs, render_report

    images = find_images(datasets={dataset.name: dataset for dataset in datasets})
    data = read_runs(run)
    pictures = 2 if len(data.beds) <= _MANY else 1 if len(data.beds) <= 3 * _MANY else 0
    text = render_report(data, images=images, pictures=pictures, title=f"All results: {title}", plotted=_MANY)
    write_text(page, text)
