"""The tables of the study VTAB+MD: aggregates, every source, settings chosen, networks; printed numbers beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.reports.sheets import Sheet, SheetCell
from longshot.studies.engine.tables import FIRST_PLACE, Fact, TableFile, bounds, heads, percent, points, row
from longshot.studies.engine.training import training_outcome
from longshot.studies.vtab_md import paper
from longshot.studies.vtab_md.data import GROUPS, MD, VTAB, absence_sentences
from longshot.studies.vtab_md.scores import VtabScores
from longshot.studies.vtab_md.settings import VtabSettings

if TYPE_CHECKING:
    from longshot.statistics import Interval
    from longshot.studies.vtab_md.plan import NetworkToTrain

_KEYS = ("source", "row", "on", "title", "mean", "low", "high", "n", "mark")
_INTERVALS = (
    "Episodes: mean over episodes ± half the 95 % interval (Student t). Big episodes: share of the test images ± half "
    "Wilson's 95 % interval, which holds for other test images, not for other supports."
)


def tables(
    settings: VtabSettings,
    scores: VtabScores,
    validated: Mapping[str, Mapping[str, float]],
    chosen: Mapping[str, str],
    networks: Mapping[str, tuple[NetworkToTrain, str]],
    notes: Sequence[str],
) -> list[TableFile]:
    """Every table of the study; ``validated`` and ``chosen`` are those of :func:`choices_table`."""
    written = [aggregate_table(settings.published, scores, notes), sources_table(settings.published, scores)]
    if any(approach.name == settings.against for approach in scores.rows):
        written.append(differences_table(str(settings.against), scores))
    if validated:
        written.append(choices_table(settings, validated, chosen))
    if networks:
        written.append(networks_table(networks))
    return written


def aggregate_table(published: Sequence[int], scores: VtabScores, notes: Sequence[str]) -> TableFile:
    """The paper's figure 1 in numbers: a line per row; a column is named after a benchmark only where it is whole.

    ``published`` are the paper's tables whose aggregates stand beside.
    """
    parts = scores.parts()
    records: list[Fact] = []
    rows = []
    for approach in scores.rows:
        cells = row(approach.name, approach.group or "–")
        for part in parts:
            interval = scores.aggregate(approach.name, part)
            cells += row(_percent(interval))
            if interval is not None:
                facts = {"source": "measured", "row": approach.name, "on": part.key, "title": part.title}
                records.append({**facts, **bounds(interval, "n")})
        rows.append(cells)
    names = heads("approach", "trained on", *(part.title for part in parts))
    means = "Mean of the sources' accuracies in %, each source counting once; half² = Σ half_i² / k²."
    sheets = [Sheet("VTAB+MD, aggregated", names, [rows], " ".join([means, *notes]))]
    if published:
        sheets.append(paper.aggregate_sheet(published))
        printed = paper.records(published, _KEYS[:-1])
        records += [record for record in printed if record["on"] in paper.AGGREGATES]
    return TableFile("aggregate", sheets, records)


def sources_table(published: Sequence[int], scores: VtabScores) -> TableFile:
    """The layout of the paper's tables 4 to 9: a line per source, a column per row; what is absent is listed."""
    records: list[Fact] = []
    blocks = []
    here = {source.name: source for source in scores.sources}
    official = any(source.official for source in scores.sources)
    for role in ("md", *GROUPS):
        block = []
        listed = [name for name in _official(role) if official or name in here]
        for name in [*listed, *(s.name for s in scores.sources if s.role == role and not s.official)]:
            if name not in here:
                block.append(row(paper.TITLES[name], *("absent" for _ in scores.rows)))
                continue
            title, marks = here[name].title, scores.marks(name)
            cells = row(title)
            for approach in scores.rows:
                interval, mark = scores.interval(approach.name, name), marks.get(approach.name, "")
                cells.append(SheetCell(_percent(interval), mark))
                if interval is not None:
                    facts = {"source": "measured", "row": approach.name, "on": name, "title": title}
                    records.append({**facts, **bounds(interval, "n"), "mark": mark})
            block.append(cells)
        if block:
            blocks.append(block)
    names = heads("data source", *(approach.name for approach in scores.rows))
    note = f"Accuracy in %. {_INTERVALS} {FIRST_PLACE} {' '.join(absence_sentences(scores.sources))}"
    sheets = [Sheet("VTAB+MD by source", names, blocks, note, labels=1)]
    sheets += [paper.source_sheet(number) for number in published]
    return TableFile("sources", sheets, [*records, *paper.records(published, _KEYS)])


def _official(role: str) -> list[str]:
    return list(MD) if role == "md" else [name for name, task in VTAB.items() if task.group == role]


def differences_table(against: str, scores: VtabScores) -> TableFile:
    """Every other row minus one row, on the same episodes and test images."""
    compared = [approach.name for approach in scores.rows if approach.name != against]
    differences = {
        (source.name, name): difference
        for source in scores.sources
        for name in compared
        if (difference := scores.difference(name, against, source.name)) is not None
    }
    if not differences:
        return TableFile("differences", [], [{"row": "", "minus": against}], ["There is no other row."])
    records: list[Fact] = [
        {"row": name, "minus": against, "on": source, "difference": difference.mean}
        | {"low": difference.low, "high": difference.high, "n": difference.n}
        for (source, name), difference in differences.items()
    ]
    rows = []
    for source in scores.sources:
        intervals = [differences.get((source.name, name)) for name in compared]
        texts = ("–" if interval is None else points(interval) for interval in intervals)
        rows.append(row(source.title, *texts))
    lines = []
    for name in compared:
        own = [difference for (_, compared_name), difference in differences.items() if compared_name == name]
        higher, lower = (
            sum(difference.excludes(0.0) and sign * difference.mean > 0 for difference in own)
            for sign in (1, -1)
        )
        lines.append(
            f"{name} against {against}: higher on {higher}, lower on {lower}, not told apart on "
            f"{len(own) - higher - lower} of {len(own)} sources."
        )
    names = heads("data source", *(f"{name} − {against}" for name in compared))
    note = "Points of accuracy on the same episodes or test images, 95 % interval in brackets; one training each."
    sheet = Sheet(f"Against {against}", names, [rows], note, labels=1)
    return TableFile("differences", [sheet], records, lines)


def choices_table(
    settings: VtabSettings, validated: Mapping[str, Mapping[str, float]], chosen: Mapping[str, str]
) -> TableFile:
    """What the candidates of every row came to on the validation images; one setting for all tasks.

    ``validated`` has the accuracies by row and candidate, ``chosen`` the candidate of each row that was taken.
    """
    records: list[Fact] = []
    blocks = []
    for name, candidates in validated.items():
        block = []
        for call, accuracy in candidates.items():
            taken = call == chosen[name]
            facts = {"row": name, "candidate": call, "mean_validation_accuracy": accuracy}
            records.append({**facts, "chosen": taken})
            block.append(row(name, call, SheetCell(f"{100 * accuracy:.2f}", "best" if taken else "")))
        blocks.append(block)
    names = heads("approach", "candidate", "validation accuracy (%)")
    note = (
        f"Trained on the first {settings.train:,} train images of each big episode, asked for the first "
        f"{settings.validation:,} validation images; mean over tasks. Bold: taken for all tasks."
    )
    return TableFile("choices", [Sheet("Settings chosen for big episodes", names, blocks, note)], records)


def networks_table(networks: Mapping[str, tuple[NetworkToTrain, str]]) -> TableFile:
    """What each training came to: a limit in minutes may have cut it."""
    records: list[Fact] = []
    for name, (network, path) in networks.items():
        options, outcome = network.plan.options, training_outcome(Path(path))
        records.append(
            {
                "network": name,
                "algorithm": network.plan.algorithm,
                "architecture": options.get("network") or options.get("start") or "cnn4",
                "size": options.get("size"),
                "data": network.data.name,
                "train_classes": len(network.data.splits.get("train", network.data.class_ids)),
                "steps": outcome["steps"],
                "kept_step": outcome["best_step"],
                "seconds": outcome["seconds"],
                "validation_accuracy": outcome["validation_accuracy"],
            }
        )
    names = heads(
        *("network", "algorithm", "architecture or start", "pixels", "data", "classes"),
        *("steps", "kept step", "seconds", "validation accuracy (%)"),
    )
    rows = [row(*(_plain(key, value) for key, value in record.items())) for record in records]
    note = "The network of the step with the best accuracy on tasks of the validation classes is kept."
    return TableFile("networks", [Sheet("Networks trained", names, [rows], note, labels=5)], records)


def _plain(key: str, value: Any) -> str:
    if value is None:
        return "–"
    if key == "validation_accuracy":
        return f"{100 * value:.1f}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)


def _percent(interval: Interval | None) -> str:
    return "–" if interval is None else percent(interval.mean, interval.half)
