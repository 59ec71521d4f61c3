"""The leaderboard as a page, with the Cross-Domain MetaDL paper's three figures for the teams at hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longshot.competition.pages import MAIN, Facts, Part, curve, render
from longshot.competition.ranking import Entry, leaderboard, standing
from longshot.competition.settings import Competition
from longshot.competition.store import Store, now
from longshot.competition.worker import run_folder
from longshot.reports import charts

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
        sheets += [(f"{entry.team} · {league}", entry.sheet) for entry in entries if entry.sheet]
        everyone |= {entry.team: scores for entry, scores in worst.items() if scores is not None}
        rows = [
            [
                entry.team,
                "not ranked" if entry.rank is None else str(entry.rank),
                f"{entry.score:.4f}",
                "–" if scores is None else f"± {scores['overall'][f'{MAIN}_ci95'] or 0:.4f}",
                str(entry.submission),
                entry.created,
            ]
            for entry, scores in worst.items()
        ]
        columns = ["team", "rank", "normalised accuracy", "95 % interval", "submission", "submitted (UTC)"]
        parts.append(
            Part(
                f"League {league}",
                "The last valid submission of every team; ties go to the earlier.",
                columns,
                rows,
            )
        )
    if everyone:
        parts += _figures(dict(list(everyone.items())[:SHOWN]))
    if sheets:
        parts.append(Part("Fact sheets", "What the teams say of their methods.", facts=sheets))
    state = standing(competition, store, phase)
    return render(competition.title, f"phase {phase} · {state} · written {now()} UTC", parts)


def _figures(teams: Mapping[str, Mapping[str, Any]]) -> list[Part]:
    """Figures 1 to 3 of the Cross-Domain MetaDL paper for the teams at hand."""
    legend = list(enumerate(teams))
    rows = []
    for index, (team, scores) in enumerate(teams.items()):
        mean, half = 100 * scores["overall"][MAIN], 100 * (scores["overall"][f"{MAIN}_ci95"] or 0.0)
        rows.append(charts.Row(index, team, mean, mean - half, mean + half, f"{mean:.1f} ± {half:.1f}"))
    first = charts.intervals(rows, xlabel="normalised accuracy (%)", prefix="methods", zero=True)
    curves = {
        key: charts.rolling(
            [curve(i, team, scores[f"by_{key}"]) for i, (team, scores) in enumerate(teams.items())],
            xlabel=f"number of {'classes' if key == 'ways' else key}",
            prefix=key,
        )
        for key in ("ways", "shots")
    }
    datasets = {
        name: [scores["by_dataset"][name][MAIN] for scores in teams.values()]
        for name in next(iter(teams.values()))["by_dataset"]
    }
    hard = [
        [name, f"{1 - max(values):.3f}", f"{max(values) - min(values):.3f}"]
        for name, values in datasets.items()
    ]
    return [
        Part(
            "Methods",
            "Mean normalised accuracy of the worst run with its 95 % interval over tasks; 0 is guessing.",
            plots=[first],
        ),
        Part(
            "Ways and shots",
            "Mean normalised accuracy by number of classes and of images per class. Lines that do not cross mean that "
            "the order of the teams does not depend on them.",
            plots=list(curves.values()),
            legend=legend,
        ),
        Part(
            "Difficulty of the datasets",
            "Intrinsic: what the best team leaves (1 − best). Modelling: how much the choice of method matters "
            "(best − worst).",
            columns=["dataset", "intrinsic difficulty", "modelling difficulty"],
            rows=hard,
        ),
    ]


def _worst(competition: Competition, phase: str, entry: Entry) -> dict[str, Any] | None:
    """scores.json of the run that counts."""
    found = []
    for seed in competition.phase(phase).seeds:
        path: Path = run_folder(competition, entry.submission, seed) / "scores.json"
        if path.is_file():
            found.append(json.loads(path.read_text(encoding="utf-8")))
    return min(found, key=lambda scores: scores["overall"][MAIN]) if found else None
