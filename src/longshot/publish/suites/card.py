"""What a bench tells: the card of the models measured now, and the board of all, as text, Markdown and a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longshot.base import count
from longshot.publish.suites.leaderboard import Entry, Leaderboard, TestbedScore
from longshot.publish.suites.suite import KINDS, Kind
from longshot.reports import Section, Sheet, SheetCell, heads, markdown, percent, row, write_page
from longshot.statistics import differs

JUDGE = "†"
_NOTE = (
    "Mean accuracy over tasks in %, ± half the 95 % interval; in brackets the one for other classes too, where it "
    "differs by more than a fifth."
)
_JUDGE_NOTE = (
    f" {JUDGE} chose the images of this testbed: its number says how it judges itself, and it is not ranked."
)
_BOARD_NOTE = (
    " Bold: first place of its setting on the testbed; = where several share it, because Holm-corrected sign-flip "
    "tests on the same tasks do not tell them apart. The average is over testbeds, for models that judged none of "
    "them. Times were measured on each entry's own machine."
)


@dataclass(frozen=True, eq=False)
class BenchCard:
    """The entries measured now, and the leaderboard that they are on."""

    suite: str
    version: str
    about: str
    kinds: Mapping[str, Kind]  # of each testbed
    entries: tuple[Entry, ...]
    board: Leaderboard
    beds: tuple[dict[str, Any], ...] = ()  # what the page says about each testbed

    @property
    def title(self) -> str:
        """Suite with its version."""
        return f"{self.suite}, version {self.version}"

    def rows(self) -> list[dict[str, str]]:
        """One row per model × method: its accuracy on every testbed, averages per kind, costs."""
        return [self._row(entry) for entry in self.entries]

    def _row(self, entry: Entry) -> dict[str, str]:
        columns = {name: score_text(entry.scores[name]) for name in self.kinds}
        by_kind = {}
        for kind in KINDS:
            members = [entry.scores[name].mean for name in self.kinds if self.kinds[name] == kind]
            if len(members) > 1:
                by_kind[f"{kind} ({len(members)})"] = percent(float(np.mean(members)), 2)
        return {
            "model": entry.model,
            "method": entry.method,
            "setting": entry.setting,
            **columns,
            **by_kind,
            "ms/image": _milliseconds(entry.milliseconds_per_image),
            "ms/task": _milliseconds(entry.milliseconds_per_task),
        }

    def sheet(self) -> Sheet:
        """The card as a table."""
        rows = self.rows()
        body = [row(*cells.values()) for cells in rows]
        note = _NOTE + self._judge_note(self.entries)
        return Sheet(f"Card: {self.title}", heads(*rows[0]), [body], note, labels=3)

    def board_sheet(self) -> Sheet:
        """All entries of the board, best average first, inductive above transductive."""
        names = list(self.board.testbeds)
        marks = {name: self.board.marks(name) for name in names}
        blocks: dict[str, list[list[SheetCell]]] = {}
        for entry in self.board.ordered():
            cells = [
                SheetCell(score_text(entry.scores[name]), marks[name].get(entry.key, "")) for name in names
            ]
            average = "–" if entry.average is None else percent(entry.average, 2)
            costs = (_milliseconds(entry.milliseconds_per_image), entry.when, f"longshot {entry.longshot}")
            line = row(entry.model, entry.method, entry.setting, average, *cells, *costs)
            blocks.setdefault(entry.setting, []).append(line)
        titles = heads("model", "method", "setting", "average", *names, "ms/image", "measured", "with")
        note = _NOTE + _BOARD_NOTE + self._judge_note(self.board.entries)
        return Sheet(f"Leaderboard: {self.title}", titles, list(blocks.values()), note, 3)

    def markdown(self) -> str:
        """Card and board as Markdown."""
        sheets = ([self.sheet()] if self.entries else []) + [self.board_sheet()]
        return "\n".join(markdown(sheet) for sheet in sheets)

    def page(self) -> str:
        """Card and board as an HTML page without any reference to another file."""
        sections = [Section("card", "Card", {"sheet": self.sheet()}, "sheet")] if self.entries else []
        sections.append(Section("board", "Leaderboard", {"sheet": self.board_sheet()}, "sheet"))
        counts = [
            count(len(self.kinds), "testbed"),
            count(len(self.entries), "entry", "entries") + " measured now",
            count(len(self.board.entries), "entry", "entries") + " on the board",
        ]
        return write_page(f"Bench: {self.title}", sections, counts=counts, sortable=True, beds=self.beds)

    def record(self) -> dict[str, Any]:
        """The card as plain values, for JSON."""
        return {
            "suite": self.suite,
            "version": self.version,
            "digest": self.board.digest,
            "testbeds": {
                name: {"kind": kind, "content_hash": self.board.testbeds[name]}
                for name, kind in self.kinds.items()
            },
            "entries": [
                {
                    **{
                        key: getattr(entry, key)
                        for key in ("model", "identity", "method", "setting", "average")
                    },
                    "scores": {
                        name: {"mean": score.mean, "half": score.half, "class_half": score.class_half}
                        | {"tasks": len(score.accuracies), "judge": score.judge}
                        for name, score in entry.scores.items()
                    },
                    "milliseconds_per_image": entry.milliseconds_per_image,
                    "milliseconds_per_task": entry.milliseconds_per_task,
                }
                for entry in self.entries
            ],
        }

    @staticmethod
    def _judge_note(entries: Sequence[Entry]) -> str:
        judged = any(score.judge for entry in entries for score in entry.scores.values())
        return _JUDGE_NOTE if judged else ""


def score_text(score: TestbedScore) -> str:
    """``84.31 ± 0.62 (± 1.90)``, with a dagger where the network judged itself."""
    text = percent(score.mean, 2) + ("" if score.half is None else f" ± {percent(score.half, 2)}")
    if score.class_half is not None and differs(score.half, score.class_half):
        text += f" (± {percent(score.class_half, 2)})"
    return f"{text} {JUDGE}" if score.judge else text


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
