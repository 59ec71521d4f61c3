"""``longshot.bench``: run a suite on models; a card for each, and a place on the leaderboard.

The card has the models measured now and the board of all, as text, Markdown and a page.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from longshot.base import (
    Floats,
    UserError,
    claim_folder,
    count,
    note,
    with_engine,
    with_executor,
    write_json,
    write_text,
)
from longshot.publish.bench_group import GroupCard
from longshot.publish.board_plots import agreement_sections, curves_section
from longshot.publish.leaderboard import (
    Entry,
    Leaderboard,
    TestbedScore,
    check_place,
    extend_board,
    read_board,
    shipped_board,
)
from longshot.publish.suite import DEFAULT, KINDS, Suite, SuiteKind, open_suite, suite_names
from longshot.publish.suite_export import export_suite
from longshot.reports import (
    JUDGE_RULE,
    MARK_RULE,
    Column,
    Placed,
    Section,
    Sheet,
    SheetCell,
    bed_facts,
    make_sheet,
    markdown,
    notable_half,
    write_page,
)
from longshot.statistics import CLASSES, TASKS, plus_minus

if TYPE_CHECKING:
    import pyarrow as pa

    from longshot.data import Dataset
    from longshot.evaluation import Backbones, Results
    from longshot.tasks import Testbed


_NOTE = (
    f"Mean accuracy over tasks in %, ± half the 95 % interval for {TASKS}; in brackets that for {CLASSES}, where it "
    "differs by more than a fifth."
)
_MANY = 5  # testbeds, of which a terminal shows the means
_BOARD_NOTE = (
    f" {MARK_RULE} The average is over testbeds, for models that judged none of them. Times were measured on each "
    "entry's own machine."
)


@dataclass(frozen=True, eq=False)
class BenchCard:
    """The entries measured now, and the leaderboard that they are on."""

    board_file: ClassVar[str] = "leaderboard.json"  # in the folder of a bench
    suite: str
    version: str
    about: str
    kinds: Mapping[str, SuiteKind]  # of each testbed
    entries: tuple[Entry, ...]
    board: Leaderboard
    beds: tuple[dict[str, Any], ...] = ()  # what the page says about each testbed
    ladder: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # as ``curves_section`` takes it

    def summary(self) -> BenchCard | GroupCard:
        """Return what a terminal shows: the kinds of testbeds where there are many, else each of them."""
        return self if len(self.kinds) <= _MANY else GroupCard(self.title, (self,))

    @property
    def title(self) -> str:
        """Return the name of the suite with its version."""
        return f"{self.suite}, version {self.version}"

    def sheet(self) -> Sheet:
        """Return the card: one row per model × method, its accuracy on every testbed, averages per kind, costs."""
        columns = [*WHO, *(Column(name, partial(score_cell, name, {}), "percent", 2) for name in self.kinds)]
        for kind in KINDS:
            members = [name for name in self.kinds if self.kinds[name] == kind]
            if len(members) > 1:
                columns.append(Column(f"{kind} ({len(members)})", partial(_average, members), "percent", 2))
        note = _NOTE + self._marks_note(self.entries)
        return make_sheet([*columns, *COSTS], self.entries, f"Card: {self.title}", note=note)

    @cached_property
    def board_sheet(self) -> Sheet:
        """Return all entries of the board, best average first, inductive above transductive."""
        placed = {name: self.board.placed(name) for name in self.board.testbeds}
        columns = [
            *WHO,
            Column("average", lambda entry: entry.average, "percent", 2, "higher"),
            *(
                Column(name, partial(score_cell, name, placed[name]), "percent", 2, "higher")
                for name in placed
            ),
            *COSTS,
            Column("measured", lambda entry: entry.when),
            Column("with", lambda entry: f"longshot {entry.longshot}"),
        ]
        blocks: dict[str, list[list[SheetCell]]] = {}
        for entry in self.board.ordered():
            blocks.setdefault(entry.setting, []).append([column.cell(entry) for column in columns])
        note = _NOTE + _BOARD_NOTE + self._marks_note(self.board.entries)
        return Sheet(f"Leaderboard: {self.title}", columns, list(blocks.values()), note)

    @cached_property
    def agreements(self) -> list[Sheet]:
        """Return how far rankings agree between the kinds of testbeds; empty where there is little to rank."""
        return GroupCard(self.suite, (self,)).agreements

    def markdown(self) -> str:
        """Render card and board as Markdown."""
        sheets = ([self.sheet()] if self.entries else []) + [self.board_sheet, *self.agreements]
        return "\n".join(markdown(sheet) for sheet in sheets)

    def page(self) -> str:
        """Render card and board as an HTML page without any reference to another file."""
        sections = [Section("card", "Card", {"sheet": self.sheet()}, "sheet")] if self.entries else []
        sections += self.sections()
        counts = [
            count(len(self.kinds), "testbed"),
            count(len(self.entries), "entry", "entries") + " measured now",
            count(len(self.board.entries), "entry", "entries") + " on the board",
        ]
        return write_page(f"Bench: {self.title}", sections, counts=counts, sortable=True, beds=self.beds)

    def sections(self) -> list[Section]:
        """Return what a page shows of the board: places and costs, accuracy up the ladder, agreement of rankings."""
        return [
            Section("board", "Leaderboard", {"sheet": self.board_sheet}, "sheet"),
            *curves_section(self.ladder, self.board),
            *agreement_sections(self.agreements),
        ]

    def record(self) -> dict[str, Any]:
        """Return the card as plain values, for JSON."""
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
                        | {"tasks": len(score.accuracies), "judge": score.judge, "leak": score.leak_note}
                        for name, score in entry.scores.items()
                    },
                    "milliseconds_per_image": entry.milliseconds_per_image,
                    "milliseconds_per_task": entry.milliseconds_per_task,
                }
                for entry in self.entries
            ],
        }

    @staticmethod
    def _marks_note(entries: Sequence[Entry]) -> str:
        """Return what † and ‡ stand for, as far as they are there."""
        scores = [score for entry in entries for score in entry.scores.values()]
        notes = dict.fromkeys(f" {score.leak_note}." for score in scores if score.leak)
        return (f" {JUDGE_RULE}" if any(score.judge for score in scores) else "") + "".join(notes)


def score_cell(name: str, placed: Mapping[tuple[str, str, str], Placed], entry: Entry) -> SheetCell:
    """Return an entry's accuracy on a testbed with its marks: as judge, of what it saw in training, and its place."""
    score = entry.scores[name]
    own = Placed("judge") if score.judge else placed.get(entry.key, Placed(""))
    wider = notable_half(score.half, score.class_half)
    text = plus_minus(score.mean, score.half, digits=2, over_classes=wider)
    return SheetCell(text, own.mark, score.mean, score.half, note=score.leak, reason=own.reason)


def _average(names: Sequence[str], entry: Entry) -> float:
    return float(np.mean([entry.scores[name].mean for name in names]))


def _milliseconds(value: float | None) -> SheetCell | None:
    return None if value is None else SheetCell(f"{value:.3g}", value=value)


WHO = (
    Column("model", lambda entry: entry.model),
    Column("method", lambda entry: entry.method),
    Column("setting", lambda entry: SheetCell(entry.setting, look="tag")),
)
COSTS = (
    Column("ms/image", lambda entry: _milliseconds(entry.milliseconds_per_image), "plain", better="lower"),
    Column("ms/task", lambda entry: _milliseconds(entry.milliseconds_per_task), "plain", better="lower"),
)


@with_engine
@with_executor
def bench(
    models: Backbones,
    *,
    suite: str | Path | Sequence[str | Path] | Suite = (),
    methods: str | Sequence[str] = (),
    out: str | os.PathLike[str] | None = None,
    leaderboard: str | os.PathLike[str] | None = None,
    merge: Sequence[str | os.PathLike[str]] = (),
    board: bool = False,
    export: str | os.PathLike[str] | None = None,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    device: str = "auto",
    engine: str | None = None,
    workers: int | None = None,
    on: str | None = None,
    gpus_per_worker: float | None = None,
    retry_failed: bool | None = None,
) -> BenchCard | GroupCard:
    """Measure models on a suite: one card, and a leaderboard that others can merge.

    Parameters
    ----------
    models : str, Features, list of those, or mapping of labels to those
        Backbones as in ``evaluate``: ``"pixels"``, ``"mine=runs/proto"``, features at hand. An empty list
        measures nothing and shows the board.
    suite : SUITE, path, list of paths or Suite
        A suite that comes with Longshot, a group of such (hard-photos-1), a suite or release folder, an archive's URL
        with #sha256=…, or a testbed file; repeat for several testbeds. Default: toybox-1.
    methods : METHOD, list of str
        In place of the suite's methods; repeat for several.
    out : folder, optional
        Folder for the run, card.json, card.md, card.html and the leaderboard; nothing is kept without it. The
        same call again computes only what is missing.
    leaderboard : FILE, path, optional
        The leaderboard to extend. Default: leaderboard.json in the folder.
    merge : FILE, list of paths
        Another leaderboard of the same suite, or the folder of somebody's bench, whose predictions are scored again;
        repeat for several.
    board : bool
        Show the board that comes with the suite and measure nothing.
    export : folder, optional
        Write the suite for people without Longshot: CSV, Parquet, Croissant, a card and a loader. Nothing is measured.
    datasets, workers : optional
        As in ``evaluate``.
    device, engine, on, gpus_per_worker, retry_failed : optional
        As in ``embed``.

    Returns
    -------
    BenchCard or GroupCard
        ``entries`` measured now, and the full ``board``; ``markdown()`` and ``page()``. Of a group ``cards``, one per
        suite whose images are here.

    Examples
    --------
    >>> card = bench("pixels", suite="easy.parquet", methods="protonet")
    >>> [(entry.model, entry.method, len(entry.scores)) for entry in card.entries]
    [('pixels', 'protonet', 1)]
    """
    chosen = [methods] if isinstance(methods, str) else list(methods)
    if models and (board or export is not None):
        word = "board" if board else "export"
        raise UserError(f"{{{word}}} measures nothing, and models were given", "leave out one of them")
    options: dict[str, Any] = {"device": device, "workers": workers}
    group = None if isinstance(suite, Suite) else suite_names(suite or DEFAULT)
    if group is None:
        opened = suite if isinstance(suite, Suite) else open_suite(suite or DEFAULT, chosen)
        if export is not None:
            export_suite(opened, export)
            board = True
        return _bench_suite(opened, models, chosen, out, leaderboard, merge, datasets, options, board=board)
    if leaderboard is not None:
        raise UserError(
            f"The {count(len(group), 'suite')} of this group have a board each, and 1 file was named",
            "name a folder with {out} or one suite with {suite}",
        )
    suites = [open_suite(name, chosen) for name in group]
    strangers = sorted(set(datasets or {}) - {name for each in suites for name in each.datasets})
    if strangers:
        raise UserError(f"{{datasets}} names '{strangers[0]}', which no suite of the group uses.")
    if export is not None:
        for each in suites:
            export_suite(each, Path(export) / each.name)
    cards, missing = [], []
    for each in suites:
        own = {name: source for name, source in (datasets or {}).items() if name in each.datasets}
        folder = None if out is None else Path(out) / each.name
        if models and not images_here(each, own):
            missing.append(each)
            note(f"{each.name} is left out: its images are not here. {each.images}")
            continue
        cards.append(
            _bench_suite(each, models, chosen, folder, None, merge, own, options, board=board or not models)
        )
    if not cards:
        raise UserError(
            f"The images of 0 of {count(len(suites), 'suite')} are here, and at least 1 is needed: "
            + "; ".join(f"{each.name}: {each.images.rstrip('.')}" for each in missing),
            "say where they are with {datasets:NAME=PATH}",
        )
    summary = GroupCard(str(suite if isinstance(suite, str) else suite[0]), tuple(cards), tuple(missing))  # type: ignore[index]
    if out is not None:
        _write_card(summary, Path(out))
    return summary


def images_here(suite: Suite, datasets: Mapping[str, Dataset | str | Path]) -> bool:
    """Tell whether the images of a suite are on this machine, where ``datasets`` says or where they were last seen."""
    from longshot.tasks import open_datasets

    if datasets:  # what is wrong with what was named is said, not passed over
        return True
    try:
        open_datasets(next(iter(suite.testbeds.values())))
    except UserError:
        return False
    return True


def _bench_suite(
    suite: Suite,
    models: Backbones,
    chosen: list[str],
    out: str | os.PathLike[str] | None,
    leaderboard: str | os.PathLike[str] | None,
    merge: Sequence[str | os.PathLike[str]],
    datasets: Mapping[str, Dataset | str | Path] | None,
    options: dict[str, Any],
    *,
    board: bool,
) -> BenchCard:
    """Measure models on one suite, extend its board, and write the card."""
    if out is not None:
        claim_folder(out, "bench", ("card.json", "leaderboard.json", "run"))
    path = leaderboard if leaderboard is not None else None if out is None else Path(out) / "leaderboard.json"
    if path is not None:
        check_place(Path(path))
    if merge and path is None:
        raise UserError("Boards can only be merged into a file and none was named", "give {leaderboard:FILE}")
    shipped = shipped_board(suite)
    if not (models or merge or board or shipped.entries or (path is not None and Path(path).exists())):
        raise UserError(
            "There is nothing to bench: 0 models were given, and there is no leaderboard to show",
            "name a backbone, such as 'pixels'",
        )
    entries: list[Entry] = []
    if models:
        folder = None if out is None else Path(out) / "run"
        calls = chosen or list(suite.methods)
        entries = _measure(suite, models, calls, folder, {**options, "datasets": datasets})
    if path is None:
        full_board = shipped.with_entries(entries)
    else:
        theirs = [_their_board(suite, Path(each)) for each in merge]
        full_board = extend_board(Path(path), suite, entries, theirs)
    card = card_of(suite, full_board, entries)
    if out is not None:
        _write_card(card, Path(out))
    return card


def card_of(suite: Suite, board: Leaderboard, entries: Sequence[Entry] = ()) -> BenchCard:
    """Make the card of a suite with a board of it; ``entries`` were measured now."""
    return BenchCard(
        suite=suite.name,
        version=suite.version,
        about=suite.about,
        kinds=dict(suite.kinds),
        entries=tuple(entries),
        board=board,
        beds=tuple(bed_facts(name, testbed) for name, testbed in suite.testbeds.items()),
        ladder=suite.ladder,
    )


def _write_card(card: BenchCard | GroupCard, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "card.json", card.record())
    write_text(folder / "card.md", card.markdown())
    write_text(folder / "card.html", card.page())


def _their_board(suite: Suite, path: Path) -> tuple[Leaderboard, Path]:
    """Read somebody's board; of a bench folder the run is read, and its predictions are scored again."""
    if not path.is_dir():
        return read_board(path), path
    from longshot.evaluation import Results

    own = path / suite.name if (path / suite.name).is_dir() else path
    results = Results(own / "run")
    if unfinished := results.missing():
        raise UserError(
            f"The run in {own} is not finished: {count(len(unfinished), 'unit')} missing",
            "ask for it when it is",
        )
    board = read_board(own / "leaderboard.json")
    scored = {entry.key: entry for entry in run_entries(suite, results)}
    claimed = [entry for entry in board.entries if entry.key in scored]
    if len(claimed) < len(scored):
        raise UserError(
            f"The leaderboard in {own} lacks {count(len(scored) - len(claimed), 'entry', 'entries')} that its run's "
            "predictions give: it was changed, or made by another version",
            "ask for the folder as bench wrote it",
        )
    return board.model_copy(update={"entries": tuple(claimed)}), own


def _measure(
    suite: Suite, models: Backbones, methods: list[str], folder: Path | None, options: dict[str, Any]
) -> list[Entry]:
    """Evaluate, and make an entry of every backbone × method."""
    from longshot.evaluation import EvaluationPlan, evaluate

    try:
        plan = EvaluationPlan(suite.testbeds, models, methods, **options, seed=0)
        plan.settle()
    except UserError as error:
        if not suite.images or options["datasets"] or images_here(suite, {}):
            raise
        raise UserError(
            f"The images of '{suite.name}' are not here. {suite.images.rstrip('.')}",
            f"say where they are with {{datasets:{suite.datasets[0]}=PATH}}",
        ) from error
    speeds = {plan.opened.identities[label]: plan.milliseconds_per_image(label) for label in plan.backbones}
    results = evaluate(suite.testbeds, backbones=models, methods=methods, out=folder, **options)
    return run_entries(suite, results, speeds, {method.call for method in plan.methods})


def run_entries(
    suite: Suite,
    results: Results,
    speeds: Mapping[str, float | None] | None = None,
    calls: Iterable[str] | None = None,
) -> list[Entry]:
    """Make an entry of every backbone × method that a run has on every testbed of a suite.

    ``speeds`` are milliseconds per image of the networks that are meant, by identity, ``calls`` the methods; the folder
    of a run may hold others from before, and may call a network by another label. None: all that are there.
    """
    table, run = results.table(), results.run
    identities = run["networks"] if speeds is None else speeds
    labels = {run["networks"][identity]["label"]: identity for identity in identities}
    calls = set(run["methods"] if calls is None else calls)
    names = {testbed.content_hash: name for name, testbed in suite.testbeds.items()}
    cells: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for cell in run["cells"]:
        if cell["backbone"] in labels and cell["method"] in calls and cell["testbed"] in names:
            cells.setdefault((cell["backbone"], cell["method"]), {})[names[cell["testbed"]]] = cell
    return [
        _entry(suite, results, table, by_testbed, labels[backbone], (speeds or {}).get(labels[backbone]))
        for (backbone, _), by_testbed in cells.items()
        if set(by_testbed) == set(suite.testbeds)
    ]


def _entry(
    suite: Suite,
    results: Results,
    table: pa.Table,
    cells: Mapping[str, dict[str, Any]],
    identity: str,
    milliseconds_per_image: float | None,
) -> Entry:
    """Build the entry of one series on every testbed of the suite, from the cells of its run."""
    from longshot.evaluation import accuracy_halves, cell_rows, judges_in, leaks_in

    backbone, method = (next(iter(cells.values()))[key] for key in ("backbone", "method"))
    judging, leaks = judges_in(results.run), leaks_in(results.run)
    scores, seconds = {}, []
    for name in suite.testbeds:
        rows = cell_rows(table, cells[name])
        accuracies = _scored_again(suite.testbeds[name], rows)
        half, class_half = accuracy_halves(suite.testbeds[name], rows)
        cell = (suite.testbeds[name].content_hash, backbone)
        leak = leaks.get(cell)
        scores[name] = TestbedScore(
            accuracies=tuple(accuracies.tolist()),
            half=half,
            class_half=class_half,
            judge=cell in judging,
            leak=leak.mark if leak else "",
            leak_note=leak.note if leak else "",
        )
        seconds += rows["seconds"].to_pylist()
    return Entry(
        model=backbone,
        identity=identity,
        method=method,
        setting=results.run["methods"][method]["setting"],
        scores=scores,
        milliseconds_per_image=milliseconds_per_image,
        milliseconds_per_task=None if None in seconds else 1000 * sum(seconds) / len(seconds),
        when=datetime.now(UTC).date().isoformat(),
        longshot=version("longshot"),
    )


def _scored_again(testbed: Testbed, rows: pa.Table) -> Floats:
    """Compute the accuracy of every task from its predictions; UserError where the rows say otherwise."""
    labels, tasks = testbed.column("query_label"), rows["task"].to_numpy()
    truth = labels.take(tasks)
    answers = rows["prediction"].combine_chunks().flatten().to_numpy()
    if len(answers) != len(truth.values):
        raise UserError(
            f"A run has {len(answers):,} predictions for {len(truth.values):,} queries of {testbed.name}"
        )
    accuracies: Floats = np.add.reduceat(answers == truth.values, truth.offsets[:-1]) / truth.lengths
    differing = int((np.abs(accuracies - rows["accuracy"].to_numpy()) > 1e-6).sum())
    if differing:
        raise UserError(
            f"The accuracy of {count(differing, 'task')} of a run is not what its predictions give: it was changed",
            "measure again",
        )
    return accuracies
