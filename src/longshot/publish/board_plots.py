"""What a board shows beside its table: accuracy against difficulty, and whether rankings survive other tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from longshot.base import Floats
from longshot.reports import Column, Section, Sheet, SheetCell, charts, make_sheet
from longshot.statistics import Interval

if TYPE_CHECKING:
    from longshot.publish.leaderboard import Entry, Leaderboard

Series: TypeAlias = tuple[str, str, str]  # model, method, setting
_RESAMPLES = 1000
_SERIES = 8  # of one plot
_AGREEMENT = (
    "Kendall's τ between two rankings of the same {count} series (model × method; judges are left out): 1 is the same "
    "order, −1 the reverse; in brackets the 95 % interval, by a bootstrap over tasks."
)


def curves_section(ladder: Mapping[str, tuple[float, float]], board: Leaderboard) -> list[Section]:
    """Plot accuracy on the ladder against the accuracy that each of its testbeds was drawn for, a panel per method.

    ``ladder`` is testbed → that accuracy, and that of guessing; no section where there are less than two.
    """
    entries, name = board.ordered(), board.suite
    if len(ladder) < 2 or not entries:
        return []
    models = list(dict.fromkeys(entry.model for entry in entries))[:_SERIES]
    panels = []
    for method in dict.fromkeys(entry.method for entry in entries):
        lines = []
        for entry in (each for each in entries if each.method == method and each.model in models):
            values = [np.array(entry.scores[bed].accuracies) for bed in ladder]
            aims = np.repeat([100 * aim for aim, _ in ladder.values()], [len(value) for value in values])
            lines.append(
                charts.PlotLine(models.index(entry.model), entry.model, np.concatenate(values), aims)
            )
        chance = min(guessing for _, guessing in ladder.values())
        words = {"xlabel": "accuracy that was aimed at (%)", "prefix": f"{name}-{len(panels)}"}
        panels.append((method, charts.by_value(lines, chance=chance, **words)))
    context = {"legend": list(enumerate(models)), "panels": panels}
    return [Section(f"curves-{name}", f"{name}: accuracy against difficulty", context, "board_curves")]


def series_of(entries: Iterable[Entry]) -> dict[Series, Entry]:
    """Map (model, method, setting) to its entry."""
    return {(entry.model, entry.method, entry.setting): entry for entry in entries}


def rank_correlations(
    beds: Mapping[str, Mapping[Series, Entry]], parts: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], Interval]:
    """Compare rankings: Kendall's τ of every two ``parts``, with its interval.

    Parameters
    ----------
    beds : mapping
        Suite → series → its entry there; the series that all suites have and that judged nothing are compared.
    parts : mapping
        What is compared, such as "difficult" → its testbeds as "SUITE/NAME".

    Returns
    -------
    dict
        (part, part) → τ, of ``n`` series; empty where there are less than three series.
    """
    series = [key for key in next(iter(beds.values()), {}) if all(key in each for each in beds.values())]
    series = [key for key in series if all(each[key].average is not None for each in beds.values())]
    if len(series) < 3:
        return {}
    means = {}
    for part, names in parts.items():
        places = [name.split("/", 1) for name in names]
        means[part] = np.mean(
            [
                _resampled([beds[suite][key].scores[bed].accuracies for key in series], suite)
                for suite, bed in places
            ],
            axis=0,
        )
    found = {}
    for part, other in combinations(parts, 2):
        values = _kendall(means[part], means[other])
        low, high = np.quantile(values[1:], [0.025, 0.975])
        tau = Interval(float(values[0]), float(low), float(high), len(series))
        found[part, other] = found[other, part] = tau
    return found


def agreement(
    of: str, beds: Mapping[str, Mapping[Series, Entry]], parts: Mapping[str, Sequence[str]]
) -> Sheet | None:
    """Make a table of :func:`rank_correlations`, ``of`` what the parts are; None where there are none."""
    found = rank_correlations(beds, parts)
    if not found:
        return None

    def cell(other: str, part: str) -> SheetCell:
        if part == other:
            return SheetCell("–")
        tau = found[part, other]
        return SheetCell(tau.with_bounds("plain", 2), value=tau.mean, half=tau.half)

    columns = [Column("", str), *(Column(part, partial(cell, part), "plain") for part in parts)]
    note = _AGREEMENT.format(count=next(iter(found.values())).n)
    return make_sheet(columns, parts, f"Agreement of rankings between {of}", note=note, labels=1)


def agreement_sections(sheets: Sequence[Sheet]) -> list[Section]:
    """Show each on a page, under its title."""
    return [
        Section(f"agreement-{number}", sheet.title, {"sheet": replace(sheet, title="")}, "sheet")
        for number, sheet in enumerate(sheets)
    ]


def _resampled(accuracies: Sequence[Sequence[float]], suite: str) -> Floats:
    """Return means over all tasks, then over resamples of them: [S series, T tasks] → [1 + B, S].

    Testbeds of a suite with as many tasks have the same resamples: their tasks share queries.
    """
    table = np.array(accuracies)
    tasks = table.shape[1]
    rng = np.random.default_rng([tasks, *suite.encode()])
    weights = np.vstack([np.ones(tasks), rng.multinomial(tasks, np.full(tasks, 1 / tasks), _RESAMPLES)])
    means: Floats = weights @ table.T / tasks
    return means


def _kendall(a: Floats, b: Floats) -> Floats:
    """Return Kendall's τ-a of every two rows: the mean over pairs of series of the product of their signs."""
    first, second = np.triu_indices(a.shape[1], 1)
    products: Floats = np.sign(a[:, first] - a[:, second]) * np.sign(b[:, first] - b[:, second])
    return products.mean(axis=1)
