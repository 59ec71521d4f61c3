"""The page of a study: what was asked, claims with verdicts, what was compared, tables, figures, tasks, budgets."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from longshot.base import UserError, count
from longshot.reports import Section, write_page
from longshot.studies.engine.claims import RULE, JudgedNumber, Verdict
from longshot.studies.engine.tables import measured_text, printed_text

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.studies.engine.finish import Findings
    from longshot.studies.engine.presets import Study
    from longshot.studies.engine.tables import TableFile

_LARGE = 150_000  # bytes of an SVG beyond which the PNG stands in its place
_ALL_FIGURES = 1_500_000  # bytes of all figures; further ones are linked
_ALBUMS = 4  # testbeds whose hardest and easiest tasks are shown
_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


def study_page(study: Study, title: str, out: Path, findings: Findings, datasets: Sequence[Dataset]) -> str:
    """The page as one text; figures are read from the study's folder ``out``."""
    sections = [
        _question(study, findings, datasets),
        _claims(findings),
        _comparisons(findings),
        _tables(findings.tables),
        _figures(findings, out / "figures"),
        _tasks(out / "run", datasets),
        *_trainings(findings),
        _origin(study, out),
    ]
    verdicts = Counter(judged.verdict for judged in findings.claims)
    counts = [f"{verdicts[verdict]} {verdict}" for verdict in _VERDICTS if verdicts[verdict]]
    counts = [f"{count(len(findings.claims), 'claim')}: {', '.join(counts)}"] if counts else []
    counts += [count(len(findings.tables), "table"), count(len(findings.figures), "figure")]
    return write_page(title, [section for section in sections if section], counts=counts, style="study.css")


def _question(study: Study, findings: Findings, datasets: Sequence[Dataset]) -> Section:
    """What was asked, on which data, and what is absent."""
    unique = {dataset.name: dataset for dataset in datasets}
    data = [
        {
            "name": dataset.name,
            "classes": len(dataset.class_ids),
            "images": len(dataset),
            "splits": ", ".join(f"{len(ids)} {part}" for part, ids in dataset.splits.items()),
            "taxonomy": dataset.taxonomy is not None,
            "fingerprint": dataset.fingerprint,
        }
        for dataset in unique.values()
    ]
    verdicts = [(judged.claim.id, judged.claim.sentence, judged.verdict) for judged in findings.claims]
    context = {"question": findings.question, "paper": study.paper, "data": data, "verdicts": verdicts}
    absent = {"absent": list(findings.absent), "notes": list(findings.notes)}
    return Section("question", "What was asked", {**context, **absent}, "study_question")


def _claims(findings: Findings) -> Section | None:
    """Each claim: published, measured, verdict; then the rule."""
    if not findings.claims:
        return None
    claims = []
    for judged in findings.claims:
        claim = judged.claim
        numbers = [
            {
                "label": each.measured.label,
                "printed": printed_text(each.measured, claim.unit),
                "measured": measured_text(each.measured, claim.unit),
                "p": each.p,
                "counts": each.counts,
                "n": each.measured.n,
            }
            for each in judged.numbers
        ]
        scale = 100 if claim.unit == "points" else 1
        expects = f"each number {claim.expects} {scale * claim.than:g}"
        if claim.expects == "same":
            expects = f"each number within ±{scale * claim.margin:g} of {scale * claim.than:g}"
        tally = Counter(each.counts for each in judged.numbers)
        claims.append(
            {
                **{
                    key: getattr(claim, key)
                    for key in ("id", "sentence", "where", "printed", "factor", "unit")
                },
                "verdict": judged.verdict,
                "reason": judged.reason,
                "expects": expects,
                "numbers": numbers,
                "span": _span([each.measured.value for each in judged.numbers], claim.unit),
                "printed_span": _span(_printed_values(judged.numbers), claim.unit),
                "tally": [(tally[kind], kind) for kind in ("for", "against", "open") if tally[kind]],
            }
        )
    return Section("claims", "What the paper claims", {"claims": claims, "rule": RULE}, "study_claims")


def _span(values: Sequence[float], unit: str) -> str:
    """``+2.7 to +12.1`` in the claim's unit; nothing where there are no values."""
    scale, digits = (100, 1) if unit == "points" else (1, 2)
    ends = [f"{scale * end:+.{digits}f}" for end in (min(values), max(values))] if values else []
    return " to ".join(dict.fromkeys(ends))


def _printed_values(numbers: Sequence[JudgedNumber]) -> list[float]:
    ends = [each.measured.printed for each in numbers if each.measured.printed is not None]
    return [value for end in ends for value in (end if isinstance(end, tuple) else (end,))]


def _comparisons(findings: Findings) -> Section | None:
    """What was set against what: the one factor of each, and what was equal."""
    if not findings.comparisons:
        return None
    listed = [
        {"name": each.name, "factor": each.factor, "sides": each.varied(), "shared": each.shared()}
        for each in findings.comparisons
    ]
    return Section("comparisons", "What was compared", {"comparisons": listed}, "study_comparisons")


def _tables(tables: Sequence[TableFile]) -> Section | None:
    listed = [table for table in tables if table.sheets or table.lines]
    return Section("tables", "Tables", {"tables": listed}, "study_tables") if listed else None


def _figures(findings: Findings, folder: Path) -> Section | None:
    """Pictures in the page as long as it stays small; the rest by link."""
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
    return Section("figures", "Figures", {"figures": figures}, "study_figures") if figures else None


def _tasks(run: Path, datasets: Sequence[Dataset]) -> Section | None:
    """The hardest and the easiest task of a few testbeds."""
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
    """Budgets of all trainings, and the learning curves."""
    from longshot.reports import read_trainings, training_section

    records = list(findings.trainings.values())
    if not records:
        return []
    folders = [Path(record.path) for record in records]
    curves = [folder for folder in folders if (folder / "history.jsonl").is_file()]
    sections = [Section("budgets", "Trainings and their budgets", {"records": records}, "study_budgets")]
    return [*sections, training_section(read_trainings(curves))] if curves else sections


def _origin(study: Study, out: Path) -> Section:
    """Where the rest is: the run's own page, files, settings."""
    settings = [(key, json.dumps(value, ensure_ascii=False)) for key, value in study.settings.plain().items()]
    context = {"study": study, "settings": settings, "folder": out.name}
    return Section("origin", "All results, files and settings", context, "study_origin")
