"""The leaderboard as a page, with the Cross-Domain MetaDL paper's three figures for the teams at hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longshot.arena import figures
from longshot.arena.difficulty import PhaseDifficulty, TaskRecord, phase_difficulty, read_records
from longshot.arena.domains import describe, phase_domains
from longshot.arena.inside.scoring import telling, telling_half, with_half
from longshot.arena.pages import Facts, PagePart, render
from longshot.arena.queue import run_folder
from longshot.arena.ranking import BoardEntry, leaderboard, standing
from longshot.arena.settings import Competition, Phase
from longshot.arena.store import Store
from longshot.arena.tables import now

COLUMNS = ("rank", "team", "method", "normalised accuracy", "95 % interval", "submission", "submitted (UTC)")
METHOD = COLUMNS.index("method")
SHOWN = 8  # teams drawn in the figures: more colours cannot be told apart


def leaderboard_page(competition: Competition, store: Store, phase: str) -> str:
    """The leaderboards of all leagues of a phase, then who is how good on what."""
    parts, everyone = [], dict[str, Mapping[str, Any]]()
    records: dict[str, list[TaskRecord] | None] = {}
    sheets: list[Facts] = []
    for league in competition.leagues:
        entries = leaderboard(competition, store, phase, league)
        if not entries:
            continue
        worst = {entry: _worst(competition, phase, entry) for entry in entries}
        named = {
            entry: entry.team if len(competition.leagues) == 1 else f"{entry.team} · {league}"
            for entry in worst
        }
        everyone |= {named[entry]: scores for entry, scores in worst.items() if scores is not None}
        records |= {named[entry]: read_records(_run_folders(competition, phase, entry)) for entry in entries}
        sheets += [(named[entry], entry.sheet) for entry in entries if entry.sheet]
        rows = [
            [
                "not ranked" if entry.rank is None else str(entry.rank),
                entry.team,
                dict(entry.sheet).get("title", ""),
                f"{entry.score:.4f}",
                _half(scores),
                str(entry.submission),
                entry.created,
            ]
            for entry, scores in worst.items()
        ]
        columns = list(COLUMNS)
        if not any(row[METHOD] for row in rows):  # nobody says: the scores are nearer on a small screen
            for cells in (columns, *rows):
                del cells[METHOD]
        parts.append(
            PagePart(
                f"League {league}",
                "The last valid submission of every team; of several seeds the worst counts; ties go to the earlier.",
                columns,
                rows,
                texts=len(columns) - 4,
            )
        )
    if competition.domains is not None:
        parts.append(_domains(competition, competition.phase(phase)))
    if everyone:
        parts += _figures(dict(list(everyone.items())[:SHOWN]), len(everyone))
    if difficulty := phase_difficulty(records):
        parts.append(_difficulty(difficulty))
    if sheets:
        parts.append(PagePart("Fact sheets", "What the teams say of their methods.", facts=sheets))
    state = standing(competition, store, phase)
    facts = [f"phase {phase}", state, *competition.marks, f"written {now()} UTC"]
    return render(competition.title, " · ".join(facts), parts)


def _domains(competition: Competition, phase: Phase) -> PagePart:
    """What was trained on and what is tested, domain by domain."""
    groups = phase_domains(competition, phase)
    rows = [
        [name, ", ".join(groups.train.get(name, ())) or "–", ", ".join(groups.test.get(name, ())) or "–"]
        for name in sorted({*groups.train, *groups.test})
    ]
    return PagePart("Domains", describe(competition, phase), ["domain", "training", "test"], rows, texts=3)


def _figures(teams: Mapping[str, Mapping[str, Any]], entries: int) -> list[PagePart]:
    """Figures 1 and 2 of the Cross-Domain MetaDL paper for the teams at hand, which may be the first of more."""
    overall = {team: scores["overall"] for team, scores in teams.items()}
    lines = [
        figures.curves(
            {team: scores[f"by_{key}"] for team, scores in teams.items()}, f"number of {counted}", key
        )
        for key, counted in (("ways", "classes"), ("shots", "shots"))
    ]
    return [
        PagePart(
            "Methods",
            "Mean normalised accuracy of the worst run with its 95 % interval over tasks; 0 is guessing."
            + (
                f" Here and in the next figure: the first {len(teams)} of {entries} entries."
                if entries > len(teams)
                else ""
            ),
            plots=[figures.means(overall, "methods")],
        ),
        PagePart(
            "Ways and shots",
            "Mean normalised accuracy by number of classes and of images per class. Lines that do not cross mean that "
            "the order of the teams does not depend on them.",
            plots=lines,
            legend=list(enumerate(teams)),
        ),
    ]


def _difficulty(difficulty: PhaseDifficulty) -> PagePart:
    """Figure 3 and its numbers, over all entries of the phase."""
    count = len(difficulty.entries)
    bars, rows = [], []
    for each in difficulty.datasets:
        best, worst = 1 - each.intrinsic.mean, 1 - each.intrinsic.mean - each.modelling.mean
        bars.append(figures.Difficulty(each.dataset, worst, best, telling(each.intrinsic.half)))
        ends = [difficulty.entries[each.best], difficulty.entries[each.worst]]
        modelling = with_half(each.modelling.mean, each.modelling.half, 3) if count > 1 else "–"
        rows.append(
            [
                each.dataset,
                *ends,
                f"{best:.3f}",
                f"{worst:.3f}",
                with_half(each.intrinsic.mean, each.intrinsic.half, 3),
                modelling,
            ]
        )
    note = (
        f"Over all {count} {'entry' if count == 1 else 'entries'} of the phase and all their runs. Intrinsic: what "
        "the best entry leaves (1 − best), for 1 can be reached. Modelling: how much the choice of method matters "
        "(best − worst). ± is half of the 95 % interval over tasks"
        + ("" if difficulty.paired else ", every entry having tasks of its own")
        + ", given which entry was best and which worst; so few tasks that it would say nothing have none."
    )
    if count == 1:
        note += " One entry says nothing about the choice of method."
    if difficulty.left_out:
        note += f" {difficulty.left_out} more without scores task by task: run them again to have them here."
    columns = [
        "dataset",
        "best entry",
        "worst entry",
        "best",
        "worst",
        "intrinsic difficulty",
        "modelling difficulty",
    ]
    return PagePart(
        "Difficulty of the datasets",
        note,
        columns,
        rows,
        texts=3,
        plots=[figures.difficulties(bars, "difficulty")],
        legend=list(figures.LEGEND),
        squares=True,
    )


def _half(scores: Mapping[str, Any] | None) -> str:
    half = None if scores is None else telling_half(scores["overall"], figures.MAIN)
    return "–" if half is None else f"± {half:.4f}"


def _worst(competition: Competition, phase: str, entry: BoardEntry) -> dict[str, Any] | None:
    """scores.json of the run that counts."""
    paths = [folder / "scores.json" for folder in _run_folders(competition, phase, entry)]
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    return min(runs, key=lambda scores: float(scores["overall"][figures.MAIN]), default=None)


def _run_folders(competition: Competition, phase: str, entry: BoardEntry) -> list[Path]:
    """Where the runs of an entry lie, one per seed."""
    return [run_folder(competition, entry.submission, seed) for seed in competition.phase(phase).seeds]
