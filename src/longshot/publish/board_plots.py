"""What a board shows beside its table: accuracy against difficulty, and whether rankings survive other tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from longshot.base import Floats
from longshot.reports import Column, Section, Sheet, SheetCell, charts, make_sheet
from longshot.statistics import Interval

if TYPE_CHECKING:
    from longshot.publish.leaderboard import Leaderboard

_RESAMPLES = 1000
_CURVES = "accuracy against difficulty"
_AGREEMENT = (
    "Kendall's τ between two rankings of the same {count} series (model × method; judges are left out): 1 is the same "
    "order, −1 the reverse; in brackets the 95 % interval, by a bootstrap over tasks."
)


def curves_section(ladder: Mapping[str, tuple[float, float]], board: Leaderboard) -> list[Section]:
    """Plot accuracy on the ladder against the accuracy that each of its testbeds was drawn for, a panel per method.

    ``ladder`` is testbed → that accuracy, and that of guessing; no section where there are less than two.
    """
    if len(ladder) < 2 or not board.entries:
        return []
    models = _models([board])
    methods = dict.fromkeys(entry.method for entry in board.ordered())
    panels = [
        (method, _curves(ladder, board, method, models, f"{board.suite}-{number}"))
        for number, method in enumerate(methods)
    ]
    context = {"legend": list(enumerate(models)), "panels": panels}
    return [Section(f"curves-{board.suite}", f"{board.suite}: {_CURVES}", context, "board_curves")]


def group_curves(boards: Sequence[tuple[Mapping[str, tuple[float, float]], Leaderboard]]) -> list[Section]:
    """Plot the same for several suites, a panel per suite, by the method that stands first on the first board."""
    plotted = [(ladder, board) for ladder, board in boards if len(ladder) > 1 and board.entries]
    if not plotted:
        return []
    models, method = _models([board for _, board in plotted]), plotted[0][1].entries[0].method
    panels = [(board.suite, _curves(ladder, board, method, models, board.suite)) for ladder, board in plotted]
    context = {"legend": list(enumerate(models)), "panels": panels}
    return [Section("curves", f"{_CURVES[0].upper()}{_CURVES[1:]}, {method}", context, "board_curves")]


def _models(boards: Sequence[Leaderboard]) -> list[str]:
    return list(dict.fromkeys(entry.model for board in boards for entry in board.ordered()))


def _curves(
    ladder: Mapping[str, tuple[float, float]],
    board: Leaderboard,
    method: str,
    models: Sequence[str],
    prefix: str,
) -> str:
    """Plot a line per model over the ladder of a suite."""
    lines = []
    for entry in (each for each in board.ordered() if each.method == method):
        values = [np.array(entry.scores[bed].accuracies) for bed in ladder]
        aims = np.repeat([100 * aim for aim, _ in ladder.values()], [len(value) for value in values])
        lines.append(charts.PlotLine(models.index(entry.model), entry.model, np.concatenate(values), aims))
    chance = min(guessing for _, guessing in ladder.values())
    return charts.by_value(lines, chance=chance, xlabel="accuracy that was aimed at (%)", prefix=prefix)


def rank_correlations(
    boards: Sequence[Leaderboard], parts: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[tuple[str, str], Interval]:
    """Compare rankings: Kendall's τ of every two ``parts``, with its interval.

    Parameters
    ----------
    boards : sequence of Leaderboard
        Of different suites; the series that all have and that judged nothing are compared.
    parts : mapping
        What is compared, such as "difficult" → its testbeds as (suite, name).

    Returns
    -------
    dict
        (part, part) → τ, of ``n`` series; empty where there are less than three series.
    """
    entries = {
        board.suite: {(each.model, each.method, each.setting): each for each in board.entries}
        for board in boards
    }
    series = [
        key
        for key in next(iter(entries.values()), {})
        if all(key in own and own[key].average is not None for own in entries.values())
    ]
    if len(series) < 3:
        return {}

    def resampled(suite: str, bed: str) -> Floats:
        return _resampled([entries[suite][key].scores[bed].accuracies for key in series], suite)

    means = {part: np.mean([resampled(*bed) for bed in beds], axis=0) for part, beds in parts.items()}
    taus = {}
    for part, other in combinations(parts, 2):
        values = _kendall(means[part], means[other])
        low, high = np.quantile(values[1:], [0.025, 0.975])
        tau = Interval(float(values[0]), float(low), float(high), len(series))
        taus[part, other] = taus[other, part] = tau
    return taus


def agreement(
    of: str, boards: Sequence[Leaderboard], parts: Mapping[str, Sequence[tuple[str, str]]]
) -> Sheet | None:
    """Make a table of :func:`rank_correlations`, ``of`` what the parts are; None where there are none."""
    taus = rank_correlations(boards, parts)
    if not taus:
        return None

    def cell(other: str, part: str) -> SheetCell:
        if part == other:
            return SheetCell("–")
        tau = taus[part, other]
        return SheetCell(tau.with_bounds("plain", 2), value=tau.mean, half=tau.half)

    columns = [Column("", str), *(Column(part, partial(cell, part), "plain") for part in parts)]
    note = _AGREEMENT.format(count=next(iter(taus.values())).n)
    return make_sheet(columns, parts, f"Agreement of rankings between {of}", note=note, labels=1)


def agreement_sections(sheets: Sequence[Sheet]) -> list[Section]:
    """Show each on a page, under its title."""
    return [
        Section(f"agreement-{number}", sheet.title, {"sheet": sheet}, "sheet")
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
    taus: Floats = np.mean(np.sign(a[:, first] - a[:, second]) * np.sign(b[:, first] - b[:, second]), axis=1)
    return taus
