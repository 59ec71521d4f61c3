"""One card over several suites: means, ranks, how far models fall from easy to hard tasks, and where they fail."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from longshot.base import Floats, count
from longshot.publish.board_plots import agreement, agreement_sections, curves_section, group_curves
from longshot.publish.suite import KINDS, SuiteKind
from longshot.reports import Column, Section, Sheet, SheetCell, markdown, write_page
from longshot.statistics import mean_interval, meta_dataset_ranks, percent, plus_minus

if TYPE_CHECKING:
    from longshot.publish.bench_suite import BenchCard
    from longshot.publish.leaderboard import Entry, Leaderboard
    from longshot.publish.suite import Suite

_NOTE = (
    "Accuracy in %, means over suites, ± half the 95 % interval for other tasks of these classes. The drop is from the "
    "uniform tasks to the same queries with difficult supports, in points. A rank is taken on every testbed by "
    "Meta-Dataset's rule (whoever is not outside the joint interval shares it) and averaged within a setting; networks "
    "that judged a testbed have none (†). Times are those of each entry's own machine."
)
_PARTIAL = (
    " Means and ranks are over the same {suites} for all: a row below the line lacks some of them, named in it, and "
    "has neither."
)
_SIZE = re.compile(r"\(size=\d+\)$")

_APART = ("ladder", "shifted", "varied")  # kinds whose testbeds ask different things


class SeriesOverSuites(NamedTuple):
    """A model with a method on every suite that it was measured on."""

    model: str
    method: str
    setting: str
    entries: dict[str, Entry]  # suite → its entry there
    lacks: tuple[str, ...]  # the suites that it was not measured on


# What a suite's card says of an entry: mean, half width, and whether the network was a judge.
_Estimates: TypeAlias = "Callable[[BenchCard, Entry], list[tuple[float, float, bool]]]"


@dataclass(frozen=True, eq=False)
class GroupCard:
    """The cards of several suites, and what they say together."""

    board_file: ClassVar[str] = "SUITE/leaderboard.json"
    group: str
    cards: tuple[BenchCard, ...]
    missing: tuple[Suite, ...] = ()  # whose images are not here

    def summary(self) -> GroupCard:
        """Return what a terminal shows: all of it."""
        return self

    @property
    def entries(self) -> tuple[Entry, ...]:
        """List what was measured now, suite after suite."""
        return tuple(entry for card in self.cards for entry in card.entries)

    def sheet(self) -> Sheet:
        """Return one row per model × method measured now."""
        return self._summary(lambda card: card.entries, f"Card: {self.group}")

    @cached_property
    def board_sheet(self) -> Sheet:
        """Return one row per model × method on the boards of all suites."""
        return self._summary(lambda card: card.board.entries, f"Leaderboard: {self.group}")

    def _summary(self, entries: Callable[[BenchCard], Sequence[Entry]], title: str) -> Sheet:
        ranks = {board.suite: entry_ranks(board.entries) for board in comparable_boards(self.cards)}

        def rank(series: SeriesOverSuites) -> float | None:
            return None if series.lacks else _mean_rank(series, ranks)

        columns = [
            Column("model", lambda each: each.model),
            Column("method", lambda each: each.method),
            Column("setting", lambda each: SheetCell(each.setting, look="tag")),
            *([Column("suites", self._suites)] if len(self.cards) > 1 else []),
            Column("rank", rank, "plain", 1, "lower"),
            *(
                Column(kind, partial(self._over_suites, "percent", partial(_of_kind, kind)), "percent", 1)
                for kind in KINDS
                if kind not in _APART and any(kind in card.kinds.values() for card in self.cards)
            ),
            Column("drop", partial(self._over_suites, "points", _drops), "points", 1),
            Column("fails at", self._worst, "percent"),
            *(
                Column(head, partial(_cost, cost), "plain", 3, "lower")
                for head, cost in (
                    ("ms/image", "milliseconds_per_image"),
                    ("ms/task", "milliseconds_per_task"),
                )
            ),
        ]
        # A series without a rank is a judge somewhere, or was not measured everywhere.
        series = sorted(series_over_suites(self.cards, entries), key=lambda each: rank(each) or math.inf)
        blocks: list[list[list[SheetCell]]] = [[], [], []]
        for each in series:
            block = 2 if each.lacks else int(each.setting == "transductive")
            blocks[block].append([column.cell(each) for column in columns])
        note = _NOTE + (_PARTIAL.format(suites=count(len(self.cards), "suite")) if blocks[-1] else "")
        note += "".join(f" {suite.name} is left out: its images are not here." for suite in self.missing)
        return Sheet(
            title, columns, [block for block in blocks if block], note + self._sizes(series), labels=3
        )

    def _suites(self, series: SeriesOverSuites) -> SheetCell:
        """Say on how many suites a series was measured, and on which or not on which."""
        words = f"{len(series.entries)} of {len(self.cards)}"
        if series.lacks:
            shorter = len(series.entries) < len(series.lacks)
            words += f": {', '.join(series.entries)}" if shorter else f", not {', '.join(series.lacks)}"
        return SheetCell(words, value=len(series.entries))

    def _sizes(self, series: Sequence[SeriesOverSuites]) -> str:
        """Name the networks that saw another size than their own, suite by suite."""
        sentences = []
        for card in self.cards:
            there = [
                (each.model, each.entries[card.suite].model) for each in series if card.suite in each.entries
            ]
            resized = dict.fromkeys(name for model, name in there if name != model)
            sentences += [f" On {card.suite} rows show {', '.join(resized)}."] if resized else []
        return "".join(sentences)

    def _over_suites(
        self, unit: Literal["percent", "points"], estimates: _Estimates, series: SeriesOverSuites
    ) -> SheetCell | None:
        """Average the estimates within each suite, then the suites; marked where the network judged one of them.

        A series that lacks a suite has no average: it would be one of easier or harder tasks than those of others.
        """
        if series.lacks:
            return None
        per_suite: list[tuple[float, float]] = []
        judged = False
        for card in self.cards:
            entry = series.entries.get(card.suite)
            own = estimates(card, entry) if entry else []
            if own:
                per_suite.append(_pooled([(mean, half) for mean, half, _ in own]))
                judged = judged or any(judge for *_, judge in own)
        if not per_suite:
            return None
        mean, half = _pooled(per_suite)
        return SheetCell(plus_minus(mean, half, unit), "judge" if judged else "", mean, half)

    def _worst(self, series: SeriesOverSuites) -> SheetCell:
        """Name the testbed with the lowest accuracy that the model did not judge."""
        scores = [
            (score.mean, f"{suite}/{name}")
            for suite, entry in series.entries.items()
            for name, score in entry.scores.items()
            if not score.judge
        ]
        if not scores:
            return SheetCell("–")
        mean, name = min(scores)
        return SheetCell(f"{name} ({percent(mean)})", value=mean)

    @cached_property
    def agreements(self) -> list[Sheet]:
        """Return how far rankings agree between kinds of testbeds, and between suites."""
        boards = comparable_boards(self.cards)
        by_suite = {board.suite: [(board.suite, name) for name in board.testbeds] for board in boards}
        by_kind = beds_by_kind(self.cards)
        sheets = [agreement("kinds of tasks", boards, by_kind), agreement("suites", boards, by_suite)]
        return [sheet for sheet in sheets if sheet]

    def markdown(self) -> str:
        """Render the card, and those of every suite, as Markdown."""
        own = [self.sheet()] if self.entries else []
        return "\n".join(
            [
                *(markdown(sheet) for sheet in (*own, self.board_sheet, *self.agreements)),
                *(card.markdown() for card in self.cards),
            ]
        )

    def page(self) -> str:
        """Render the card as an HTML page, with those of every suite."""
        sections = [Section("card", "Card", {"sheet": self.sheet()}, "sheet")] if self.entries else []
        sections += self.sections()
        for card in self.cards:
            own = Section(f"suite-{card.suite}", card.suite, {"sheet": card.board_sheet}, "sheet")
            sections += [own, *curves_section(card.ladder, card.board)]
        counts = [
            count(len(self.cards), "suite"),
            count(len(self.entries), "entry", "entries") + " measured now",
        ]
        beds = tuple(bed for card in self.cards for bed in card.beds)
        return write_page(f"Bench: {self.group}", sections, counts=counts, sortable=True, beds=beds)

    def sections(self) -> list[Section]:
        """Return what a page shows of the boards together: ranks and costs, accuracy up the ladder, agreement."""
        boards = zip((card.ladder for card in self.cards), comparable_boards(self.cards), strict=True)
        return [
            Section("board", "Leaderboard", {"sheet": self.board_sheet}, "sheet"),
            *group_curves(list(boards)),
            *agreement_sections(self.agreements),
        ]

    def record(self) -> dict[str, Any]:
        """Return the card as plain values, for JSON."""
        return {
            "group": self.group,
            "missing": [suite.name for suite in self.missing],
            "suites": [card.record() for card in self.cards],
        }


def _cost(name: str, series: SeriesOverSuites) -> SheetCell | None:
    """Average what a series cost on its suites, where all were timed."""
    costs = [getattr(entry, name) for entry in series.entries.values()]
    if None in costs:
        return None
    return SheetCell(f"{np.mean(costs):.3g}", value=float(np.mean(costs)))


def _of_kind(kind: SuiteKind, card: BenchCard, entry: Entry) -> list[tuple[float, float, bool]]:
    """List mean, half width and whether it was a judge on every testbed of a kind."""
    scores = [score for name, score in entry.scores.items() if card.kinds[name] == kind]
    return [(score.mean, score.half or 0.0, score.judge) for score in scores]


def _drops(card: BenchCard, entry: Entry) -> list[tuple[float, float, bool]]:
    """List the paired drops from uniform tasks to the same queries with difficult supports."""
    drops = []
    for name in (name for name, kind in card.kinds.items() if kind == "difficult"):
        hard, plain = entry.scores[name], entry.scores.get(name.replace("difficult", "uniform"))
        if plain and plain is not hard and len(plain.accuracies) == len(hard.accuracies):
            drop = mean_interval(np.array(hard.accuracies) - np.array(plain.accuracies))
            drops.append((drop.mean, drop.half or 0.0, hard.judge))
    return drops


def beds_by_kind(cards: Sequence[BenchCard]) -> dict[str, list[tuple[str, str]]]:
    """List the testbeds of every kind, as (suite, name): the parts that rankings are compared on."""
    beds = [(kind, (card.suite, name)) for card in cards for name, kind in card.kinds.items()]
    present = [kind for kind in KINDS if any(kind == each for each, _ in beds)]
    return {kind: [bed for each, bed in beds if each == kind] for kind in present}


def series_over_suites(
    cards: Sequence[BenchCard], entries: Callable[[BenchCard], Sequence[Entry]]
) -> list[SeriesOverSuites]:
    """Gather the entries of several suites by model, method and setting.

    A network at another size than its own, as ``net(size=128)`` on a suite of small pictures, belongs to the series
    ``net`` where the suite has no other entry of it. Several entries of one name on a suite are several series.
    """
    own_names = {(e.model, e.method, card.suite) for card in cards for e in entries(card)}
    models = {model for model, _, _ in own_names}
    series: dict[tuple[str, str, str, int], dict[str, Entry]] = {}
    for card in cards:
        numbers: Counter[tuple[str, str, str]] = Counter()
        for entry in entries(card):
            plain = _SIZE.sub("", entry.model)
            borrowed = plain in models and (plain, entry.method, card.suite) not in own_names
            key = (plain if borrowed else entry.model, entry.method, entry.setting)
            series.setdefault((*key, numbers[key]), {})[card.suite] = entry
            numbers[key] += 1
    return [
        SeriesOverSuites(
            model, method, setting, own, tuple(card.suite for card in cards if card.suite not in own)
        )
        for (model, method, setting, _), own in series.items()
    ]


def comparable_boards(cards: Sequence[BenchCard]) -> list[Leaderboard]:
    """Return the boards with the series that all of them have, each called by one name everywhere."""
    series = [each for each in series_over_suites(cards, lambda card: card.board.entries) if not each.lacks]
    return [
        card.board.model_copy(
            update={
                "entries": tuple(
                    each.entries[card.suite].model_copy(update={"model": each.model}) for each in series
                )
            }
        )
        for card in cards
    ]


def entry_ranks(entries: Sequence[Entry]) -> dict[tuple[str, str, str], list[float]]:
    """Rank entries on every testbed within their setting, judges of any left out: entry key → its ranks."""
    ranks: dict[tuple[str, str, str], list[float]] = {}
    for setting in {entry.setting for entry in entries}:
        for name in entries[0].scores:
            members = [each for each in entries if each.setting == setting and each.average is not None]
            if len(members) < 2:
                continue
            scores = [each.scores[name] for each in members]
            own_ranks: Floats = meta_dataset_ranks([s.mean for s in scores], [s.half or 0.0 for s in scores])
            for entry, rank in zip(members, own_ranks.tolist(), strict=True):
                ranks.setdefault(entry.key, []).append(rank)
    return ranks


def _mean_rank(
    series: SeriesOverSuites, ranks: dict[str, dict[tuple[str, str, str], list[float]]]
) -> float | None:
    """Average the ranks of a series, each suite counting the same; None where it has none in some suite."""
    own = [ranks[suite].get(entry.key) for suite, entry in series.entries.items()]
    return float(np.mean([np.mean(places) for places in own if places])) if all(own) else None


def _pooled(estimates: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Average independent means with half widths: the half widths add up in squares."""
    halves = [half for _, half in estimates]
    return float(np.mean([mean for mean, _ in estimates])), math.hypot(*halves) / len(halves)
