"""The leaderboard as a page, with the Cross-Domain MetaDL paper's three figures for the teams at hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from longshot.competition import figures
from longshot.competition.pages import Facts, PagePart, render
from longshot.competition.ranking import BoardEntry, leaderboard, standing
from longshot.competition.settings import Competition
from longshot.competition.store import Store, now
from longshot.competition.worker import run_folder

COLUMNS = ("rank", "team", "method", "normalised accuracy", "95 % interval", "submission", "submitted (UTC)")
SHOWN = 8  # teams drawn in the figures: more colours cannot be told apart


def leaderboard_page(competition: Competition, store: Store, phase: str) -> str:
    """The leaderboards of all leagues of a phase, then who is how good on what."""
    parts, everyone = [], dict[str, Mapping[str, Any]]()
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
        parts.append(
            PagePart(
                f"League {league}",
                "The last valid submission of every team; of several seeds the worst counts; ties go to the earlier.",
                COLUMNS,
                rows,
                texts=3,
            )
        )
    if everyone:
        parts += _figures(dict(list(everyone.items())[:SHOWN]), len(everyone))
    if sheets:
        parts.append(PagePart("Fact sheets", "What the teams say of their methods.", facts=sheets))
    state = standing(competition, store, phase)
    return render(competition.title, f"phase {phase} · {state} · written {now()} UTC", parts)


def _figures(teams: Mapping[str, Mapping[str, Any]], entries: int) -> list[PagePart]:
    """Figures 1 to 3 of the Cross-Domain MetaDL paper for the teams at hand, which may be the first of more."""
    overall = {team: scores["overall"] for team, scores in teams.items()}
    lines = [
        figures.curves(
            {team: scores[f"by_{key}"] for team, scores in teams.items()}, f"number of {counted}", key
        )
        for key, counted in (("ways", "classes"), ("shots", "shots"))
    ]
    parts = [
        PagePart(
            "Methods",
            "Mean normalised accuracy of the worst run with its 95 % interval over tasks; 0 is guessing."
            + (
                f" Here and below: the first {len(teams)} of {entries} entries."
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
    names = list(next(iter(teams.values()))["by_dataset"])
    means = {name: [scores["by_dataset"][name][figures.MAIN] for scores in teams.values()] for name in names}
    datasets = [figures.Difficulty(name, min(values), max(values)) for name, values in means.items()]
    rows = [[each.name, f"{1 - each.best:.3f}", f"{each.best - each.worst:.3f}"] for each in datasets]
    parts.append(
        PagePart(
            "Difficulty of the datasets",
            "Intrinsic: what the best team leaves (1 − best). Modelling: how much the choice of method matters "
            "(best − worst).",
            ["dataset", "intrinsic difficulty", "modelling difficulty"],
            rows,
            plots=[figures.difficulties(datasets, "difficulty")],
            legend=list(figures.LEGEND),
            squares=True,
        )
    )
    return parts


def _half(scores: Mapping[str, Any] | None) -> str:
    half = None if scores is None else scores["overall"][f"{figures.MAIN}_ci95"]
    return "–" if half is None else f"± {half:.4f}"


def _worst(competition: Competition, phase: str, entry: BoardEntry) -> dict[str, Any] | None:
    """scores.json of the run that counts."""
    folders = (run_folder(competition, entry.submission, seed) for seed in competition.phase(phase).seeds)
    paths = [folder / "scores.json" for folder in folders]
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    return min(runs, key=lambda scores: float(scores["overall"][figures.MAIN]), default=None)
