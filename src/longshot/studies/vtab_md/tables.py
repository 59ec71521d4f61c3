"""The tables of the study VTAB+MD: aggregates, every source, settings chosen, networks; printed numbers beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.reports.sheets import Sheet, SheetCell
from longshot.statistics import Interval
from longshot.studies.engine.tables import TableFile, points
from longshot.studies.vtab_md import paper as paper
from longshot.studies.vtab_md.data import GROUPS, MD, VTAB, said_absent
from longshot.studies.vtab_md.scores import VtabScores

if TYPE_CHECKING:
    from longshot.studies.vtab_md.plan import NetworkToTrain

_KEYS = ("source", "row", "on", "title", "mean", "low", "high", "n", "mark")
_INTERVALS = (
    "Episodes: mean over episodes ± half the 95 % interval (Student t). Big episodes: share of the test images ± half "
    "Wilson's 95 % interval, which holds for other test images, not for other supports."
)


def tables(
    settings: Mapping[str, Any],
    scores: VtabScores,
    chosen: Mapping[str, Mapping[str, float]],
    picked: Mapping[str, str],
    networks: Mapping[str, tuple[NetworkToTrain, str]],
    notes: Sequence[str],
) -> list[TableFile]:
    """Every table of the study."""
    found = [aggregate_table(settings, scores, notes), sources_table(settings, scores)]
    if settings["against"] is not None and any(row.name == settings["against"] for row in scores.rows):
        found.append(differences_table(settings["against"], scores))
    if chosen:
        found.append(choices_table(settings, chosen, picked))
    if networks:
        found.append(networks_table(networks))
    return found


def aggregate_table(settings: Mapping[str, Any], scores: VtabScores, notes: Sequence[str]) -> TableFile:
    """The paper's figure 1 in numbers: a line per row; a column is named after a benchmark only where it is whole."""
    parts = scores.parts()
    records: list[dict[str, Any]] = []
    lines = []
    for row in scores.rows:
        cells = []
        for part in parts:
            found = scores.aggregate(row.name, part)
            cells.append(SheetCell(_percent(found)))
            if found is not None:
                facts = {"source": "measured", "row": row.name, "on": part.key, "title": part.title}
                records.append(
                    {**facts, "mean": found.mean, "low": found.low, "high": found.high, "n": found.n}
                )
        lines.append([SheetCell(row.name), SheetCell(row.group or "–"), *cells])
    heads = [("", "approach"), ("", "trained on"), *(("", part.title) for part in parts)]
    means = "Mean of the sources' accuracies in %, each source counting once; half² = Σ half_i² / k²."
    note = " ".join([means, *notes])
    sheets = [Sheet("VTAB+MD, aggregated", heads, [lines], note)]
    keys = _KEYS[:-1]
    if settings["published"]:
        sheets.append(paper.aggregate_sheet(settings["published"]))
        printed = paper.records(settings["published"], keys)
        records += [one for one in printed if one["on"] in paper.AGGREGATES]
    return TableFile("aggregate", sheets, records)


def sources_table(settings: Mapping[str, Any], scores: VtabScores) -> TableFile:
    """The layout of the paper's tables 4 to 9: a line per source, a column per row; what is absent is listed."""
    records: list[dict[str, Any]] = []
    blocks = []
    here = {source.name: source for source in scores.sources}
    official = any(source.official for source in scores.sources)
    for role in ("md", *GROUPS):
        block = []
        listed = [name for name in _official(role) if official or name in here]
        for name in [*listed, *(s.name for s in scores.sources if s.role == role and not s.official)]:
            if name not in here:
                block.append([SheetCell(paper.TITLES[name]), *(SheetCell("absent") for _ in scores.rows)])
                continue
            marks = scores.marks(name)
            cells = []
            for row in scores.rows:
                found = scores.interval(row.name, name)
                mark = marks.get(row.name, "")
                cells.append(SheetCell(_percent(found), mark))
                if found is not None:
                    facts = {"source": "measured", "row": row.name, "on": name, "title": here[name].title}
                    numbers = {"mean": found.mean, "low": found.low, "high": found.high, "n": found.n}
                    records.append({**facts, **numbers, "mark": mark})
            block.append([SheetCell(here[name].title), *cells])
        if block:
            blocks.append(block)
    heads = [("", "data source"), *(("", row.name) for row in scores.rows)]
    note = (
        f"Accuracy in %. {_INTERVALS} Bold: the highest mean; = where the paired 95 % interval of the difference to it "
        f"includes 0. {' '.join(said_absent(scores.sources))}"
    )
    sheets = [Sheet("VTAB+MD by source", heads, blocks, note, labels=1)]
    sheets += [paper.source_sheet(number) for number in settings["published"]]
    records += paper.records(settings["published"], _KEYS)
    return TableFile("sources", sheets, records)


def _official(role: str) -> list[str]:
    return list(MD) if role == "md" else [name for name, task in VTAB.items() if task.group == role]


def differences_table(against: str, scores: VtabScores) -> TableFile:
    """Every other row minus one row, on the same episodes and test images."""
    others = [row.name for row in scores.rows if row.name != against]
    records: list[dict[str, Any]] = []
    lines, rows = [], []
    for source in scores.sources:
        cells = []
        for name in others:
            found = scores.difference(name, against, source.name)
            cells.append(SheetCell("–" if found is None else points(found)))
            if found is not None:
                facts = {"row": name, "minus": against, "on": source.name}
                records.append(
                    {**facts, "difference": found.mean, "low": found.low, "high": found.high, "n": found.n}
                )
        rows.append([SheetCell(source.title), *cells])
    for name in others:
        apart = [(s.title, d) for s in scores.sources if (d := scores.difference(name, against, s.name))]
        up, down = ([t for t, d in apart if d.excludes(0.0) and sign * d.mean > 0] for sign in (1, -1))
        lines.append(
            f"{name} against {against}: higher on {len(up)}, lower on {len(down)}, not told apart on "
            f"{len(apart) - len(up) - len(down)} of {len(apart)} sources."
        )
    heads = [("", "data source"), *(("", f"{name} − {against}") for name in others)]
    note = "Points of accuracy on the same episodes or test images, 95 % interval in brackets; one training each."
    if not records:
        return TableFile("differences", [], [{"row": "", "minus": against}], ["There is no other row."])
    return TableFile(
        "differences", [Sheet(f"Against {against}", heads, [rows], note, labels=1)], records, lines
    )


def choices_table(
    settings: Mapping[str, Any], chosen: Mapping[str, Mapping[str, float]], picked: Mapping[str, str]
) -> TableFile:
    """What the candidates of every row came to on the validation images; one setting for all tasks."""
    records = [
        {"row": row, "candidate": call, "mean_validation_accuracy": value, "chosen": call == picked[row]}
        for row, candidates in chosen.items()
        for call, value in candidates.items()
    ]
    blocks = [
        [
            [
                SheetCell(row),
                SheetCell(call),
                SheetCell(f"{100 * value:.2f}", "best" if call == picked[row] else ""),
            ]
            for call, value in candidates.items()
        ]
        for row, candidates in chosen.items()
    ]
    heads = [("", "approach"), ("", "candidate"), ("", "validation accuracy (%)")]
    note = (
        f"Trained on the first {settings['train']:,} train images of each big episode, asked for the first "
        f"{settings['validation']:,} validation images; mean over tasks. Bold: taken for all tasks."
    )
    return TableFile("choices", [Sheet("Settings chosen for big episodes", heads, blocks, note)], records)


def networks_table(networks: Mapping[str, tuple[NetworkToTrain, str]]) -> TableFile:
    """What each training came to: a limit in minutes may have cut it."""
    from longshot.training.folders import read_trained

    records: list[dict[str, Any]] = []
    for name, (network, path) in networks.items():
        found = read_trained(Path(path))
        facts = {
            "network": name,
            "algorithm": network.given["algorithm"],
            "architecture": network.given.get("network") or network.given.get("start") or "cnn4",
            "size": network.given.get("size"),
            "data": network.data.name,
            "train_classes": len(network.data.splits.get("train", network.data.class_ids)),
        }
        done = {"steps": found.steps, "kept_step": found.best_step, "seconds": round(found.seconds, 1)}
        records.append({**facts, **done, "validation_accuracy": found.validation_accuracy})
    heads = [
        *(
            ("", head)
            for head in ("network", "algorithm", "architecture or start", "pixels", "data", "classes")
        ),
        *(("", head) for head in ("steps", "kept step", "seconds", "validation accuracy (%)")),
    ]
    rows = [[SheetCell(_plain(key, value)) for key, value in record.items()] for record in records]
    note = "The network of the step with the best accuracy on tasks of the validation classes is kept."
    return TableFile("networks", [Sheet("Networks trained", heads, [rows], note, labels=5)], records)


def _plain(key: str, value: Any) -> str:
    if value is None:
        return "–"
    if key == "validation_accuracy":
        return f"{100 * value:.1f}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)


def _percent(found: Interval | None) -> str:
    if found is None:
        return "–"
    return f"{100 * found.mean:.2f}" + ("" if found.half is None else f" ± {100 * found.half:.2f}")
