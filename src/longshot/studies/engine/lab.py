"""Where a study does its work: trains, draws and evaluates in its folder, each only where something is missing.

`Scores` has what the run measured, by testbed, network and method: the one place that selects its rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Bools, Floats, Ints, UserError, first
from longshot.studies.engine.claims import Measured, paired, unpaired
from longshot.studies.engine.study_folder import Calls, Data, Settings, StudyJob
from longshot.studies.engine.study_training import TRAININGS

if TYPE_CHECKING:
    from longshot.base import TaskRows
    from longshot.data import Dataset
    from longshot.evaluation import Results
    from longshot.models import Features
    from longshot.studies.engine.comparisons import Draw, Side
    from longshot.studies.engine.study_folder import StudyFolder
    from longshot.studies.engine.study_training import StudyTraining, TrainingRecord
    from longshot.tasks import Testbed


class Scores:
    """Looks numbers up in the rows of a run.

    Parameters
    ----------
    results : Results
        The run.
    testbeds : mapping
        Testbeds by name.
    networks : mapping
        Networks that the study trained: name → path. Other backbones go by their own names.
    """

    def __init__(
        self, results: Results, testbeds: Mapping[str, Testbed], networks: Mapping[str, str] | None = None
    ) -> None:
        self.results, self.testbeds, self.networks = results, testbeds, networks or {}
        self._rows: dict[tuple[str, str, str], pa.Table] = {}

    @cached_property
    def _table(self) -> pa.Table:
        return self.results.table()

    def rows(self, testbed: str, backbone: str, method: str) -> pa.Table:
        """Return the result rows of one testbed, backbone and method by task; none if not evaluated."""
        key = (testbed, backbone, method)
        if key not in self._rows:
            named = self.recorded(backbone)
            self._rows[key] = select_rows(self._table, self.testbeds[testbed], named, method)
        return self._rows[key]

    def recorded(self, backbone: str) -> str:
        """Return what the run calls a backbone."""
        from longshot.models import backbone_name

        return recorded_name(self.results.run, backbone_name(self.networks.get(backbone, backbone)))

    def has(self, testbed: str, backbone: str, method: str) -> bool:
        """Tell whether there are rows."""
        return testbed in self.testbeds and self.rows(testbed, backbone, method).num_rows > 0

    def values(self, testbed: str, backbone: str, method: str, metric: str = "accuracy") -> Floats:
        """Return a column of the rows by task, [T]; shares where it is an accuracy, NaN where a task is not clean."""
        rows = self.rows(testbed, backbone, method)
        return np.where(self.clean(testbed, backbone, rows["task"].to_numpy()), numbers(rows, metric), np.nan)

    def clean(self, testbed: str, backbone: str, tasks: Ints) -> Bools:
        """Tell for which of some tasks [T] of a testbed a network's numbers may be taken: here for all."""
        return np.ones(len(tasks), np.bool_)

    def chose(self, testbed: str, backbone: str) -> bool:
        """Tell whether a network, or one that it started from, chose images of a testbed."""
        content_hash = self.testbeds[testbed].content_hash
        return any((content_hash, name) in self._judging for name in self.labels(backbone))

    @cached_property
    def _judging(self) -> frozenset[tuple[str, str]]:
        from longshot.evaluation import judges_in

        return judges_in(self.results.run)

    def labels(self, backbone: str) -> list[str]:
        """Return all names that the run has for a backbone, wherever the study lay."""
        network = _inside_study(self.recorded(backbone))
        return [name for name in self.results.run.get("backbones", {}) if _inside_study(name) == network]

    def column(self, testbed: str, name: str) -> Floats:
        """Return a column of a testbed itself, [T]: ``coarsity`` and the like."""
        return numbers(self.testbeds[testbed].table, name)

    def setting(self, method: str) -> str:
        """Return the setting of a method: ``inductive`` or ``transductive``."""
        return str(self.results.run["methods"][method]["setting"])

    def by_setting(self, methods: Iterable[str]) -> list[str]:
        """Sort the methods: inductive ones first, else in their order."""
        return sorted(methods, key=self.setting)

    def of(self, side: Side, *, method: str = "", backbone: str = "", metric: str = "accuracy") -> Floats:
        """Return the values of a side, [T]; ``method`` and ``backbone`` where the side leaves them open."""
        if side.testbed is None:
            raise ValueError(f"the side '{side.label}' names no testbed")
        return self.values(side.testbed.name, side.backbone or backbone, side.method or method, metric)

    def difference(
        self, label: str, first: Side, second: Side, printed: Any = None, **which: str
    ) -> Measured:
        """Measure ``first`` minus ``second``: paired by task where the queries are the same, or by Welch."""
        compare = paired if self.same_tasks(first, second) else unpaired
        return compare(label, self.of(first, **which), self.of(second, **which), printed)

    def same_tasks(self, first: Side, second: Side) -> bool:
        """Tell whether task i of both sides asks the same queries of the same classes."""
        assert first.testbed is not None and second.testbed is not None
        if first.testbed.name == second.testbed.name:
            return True
        tables = [
            self.testbeds[side.testbed.name].table for side in (first, second) if side.testbed is not None
        ]
        if tables[0].num_rows != tables[1].num_rows:
            return False
        columns = [[table[name].to_pylist() for name in ("classes", "query")] for table in tables]
        return bool(columns[0] == columns[1])


class CleanScores(Scores):
    """Scores for claims, by the rules of judges and of leaks: what is not clean is NaN, and listed in ``left_out``.

    A network that chose images of a testbed, or that started from one that did, has no clean task of it, unless
    ``judges`` are allowed. A task with a class that a network saw in training (by content, name or WordNet id) is not
    clean for that network.
    """

    def __init__(self, scores: Scores, *, judges: bool) -> None:
        super().__init__(scores.results, scores.testbeds, scores.networks)
        self.judges = judges
        self.left_out: dict[tuple[str, str], list[str]] = {}  # (network, why) → testbeds
        self._unclean: dict[tuple[str, str], frozenset[int] | None] = {}  # tasks; None: all of them

    def clean(self, testbed: str, backbone: str, tasks: Ints) -> Bools:
        """Tell which of some tasks [T] of a testbed are clean for a network."""
        if (testbed, backbone) not in self._unclean:
            self._unclean[testbed, backbone] = self._find_unclean(testbed, backbone)
        unclean = self._unclean[testbed, backbone]
        return np.array([unclean is not None and task not in unclean for task in tasks.tolist()], np.bool_)

    def _find_unclean(self, testbed: str, backbone: str) -> frozenset[int] | None:
        run, content_hash = self.results.run, self.testbeds[testbed].content_hash
        if not self.judges and self.chose(testbed, backbone):
            why = "chose classes or images, or started from a network that did"
            self.left_out.setdefault((backbone, why), []).append(testbed)
            return None
        seen = {
            class_id
            for name in self.labels(backbone)
            for entry in run.get("upstream", {}).get(name, {}).get(content_hash, ())
            for class_id in entry.get("class_ids", ())
        }
        if not seen:
            return frozenset()
        listed = self.testbeds[testbed].table["classes"].to_pylist()
        unclean = frozenset(task for task, classes in enumerate(listed) if seen.intersection(classes))
        if unclean:
            words = f"{testbed}, {len(unclean):,} of {len(listed):,} tasks"
            self.left_out.setdefault((backbone, "saw classes of the tasks in training"), []).append(words)
        return unclean


def say_left_out(scores: Scores) -> list[str]:
    """Return a sentence for every network that claims left something of out, and why."""
    left_out = scores.left_out if isinstance(scores, CleanScores) else {}
    return [
        f"Left out of the claims: {network}, which {reason}: {first(testbeds, 4)}."
        for (network, reason), testbeds in left_out.items()
    ]


def select_rows(table: pa.Table, testbed: Testbed, backbone: str, method: str) -> pa.Table:
    """Select the rows of one testbed, backbone and method by task, even if the study's folder has moved.

    A folder that was moved has its networks under two names, and may have the same rows twice; one of each is taken.
    """
    network = _inside_study(backbone)
    same = [name for name in table["backbone"].unique().to_pylist() if _inside_study(name) == network]
    mask = pc.and_(pc.equal(table["testbed"], testbed.content_hash), pc.equal(table["method"], method))
    rows = table.filter(pc.and_(mask, pc.is_in(table["backbone"], pa.array(same, pa.string()))))
    _, first = np.unique(rows["task"].to_numpy(), return_index=True)
    return rows.take(first)


def numbers(rows: pa.Table, column: str = "accuracy") -> Floats:
    """Return a column of result rows as float64 [T]."""
    values: Floats = rows[column].to_numpy().astype(np.float64)
    return values


def recorded_name(run: Mapping[str, Any], network: str) -> str:
    """Return the name that a run has for a network in a folder; equal weights go by the first of their names.

    A training may keep the very weights that it started from, and two such trainings end in one network.
    ``A + B`` names several side by side.
    """
    from longshot.models import backbone_parts

    recorded = run.get("backbones", {})
    if any(_inside_study(name) == _inside_study(network) for name in recorded):
        return network
    sidecars = [Path(part) / "network.json" for part in backbone_parts(network)]
    if not all(sidecar.is_file() for sidecar in sidecars):
        return network
    weights = [json.loads(sidecar.read_text(encoding="utf-8"))["weights_hash"] for sidecar in sidecars]
    for name, by_dataset in recorded.items():
        for facts in by_dataset.values():
            if [each.get("weights_hash") for each in facts["networks"]] == weights:
                return str(name)
    return network


def _inside_study(backbone: str) -> str:
    """Strip the path of the study from a backbone that is one of its networks."""
    from longshot.models import backbone_parts

    return " + ".join(_inside(part) for part in backbone_parts(backbone))


def _inside(backbone: str) -> str:
    parts = Path(backbone).parts
    if TRAININGS not in parts[:-1]:
        return backbone
    return "/".join(parts[len(parts) - 1 - parts[::-1].index(TRAININGS) :])


Value = TypeVar("Value")


@dataclass(frozen=True)
class Evaluation:
    """Methods to run on testbeds through a backbone: any backbone, or a network of the study by its name."""

    testbeds: Sequence[str]
    backbone: str
    methods: Calls


@dataclass(frozen=True)
class Plan:
    """What a study will do, before anything is computed.

    ``networks`` are trained in order (one may start from an earlier one by its name), then ``draws`` are drawn, then
    ``evaluations`` run. ``absent`` are sentences on what cannot be had and why, ``notes`` on what is worth knowing.
    """

    networks: Mapping[str, StudyTraining] = field(default_factory=dict)
    draws: Sequence[Draw] = ()
    evaluations: Sequence[Evaluation] = ()
    absent: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(eq=False)
class Lab(Generic[Settings, Data]):
    """A study at work: its job, plan, folder and datasets by name, and what there is so far."""

    job: StudyJob[Settings, Data]
    plan: Plan
    folder: StudyFolder
    datasets: Mapping[str, Dataset]
    absent: list[str]
    notes: list[str]
    testbeds: dict[str, Testbed] = field(default_factory=dict)
    networks: dict[str, TrainingRecord] = field(default_factory=dict)
    _results: Results | None = None
    _scores: Scores | None = None
    _features: dict[tuple[str, str], Features] = field(default_factory=dict)
    _made: dict[str, Any] = field(default_factory=dict)
    _shared: dict[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """Return the study's settings."""
        return self.job.settings

    @property
    def data(self) -> Data:
        """Return the data that the study was given."""
        return self.job.data

    def train(self, name: str, training: StudyTraining) -> TrainingRecord:
        """Train a network, or find it trained; afterwards it goes by its name as a backbone, judge or start."""
        trained = {label: record.path for label, record in self.networks.items()}
        self.networks[name] = training.started_from(trained).record(self.folder, self.job.device)
        record = self.networks[name]
        if record.ceiling:
            self.notes.append(f"The training of {name} hit its ceiling in time: {record.in_words}.")
        return record

    def train_all(self) -> dict[str, TrainingRecord]:
        """Train the networks of the plan, or find them trained; on a cluster side by side, as far as starts allow."""
        from longshot.reports import folder_curves
        from longshot.training import train_elsewhere

        waiting = dict(self.plan.networks)
        while waiting:
            ready = {
                name: training
                for name, training in waiting.items()
                if str(training.options.get("start")) not in waiting
            } or waiting
            trained = {label: record.path for label, record in self.networks.items()}
            jobs = [
                job
                for training in ready.values()
                if not (started := training.started_from(trained)).finished(self.folder)
                and (job := started.job(self.folder, self.job.device)) is not None
            ]
            for error in train_elsewhere(jobs, None, folder_curves):
                if error is not None:
                    raise error
            for name in ready:
                self.train(name, waiting.pop(name))
        ordered = {name: self.networks.pop(name) for name in self.plan.networks}
        self.networks |= ordered
        return ordered

    def backbone(self, name: str) -> str:
        """Return the path of a network of the study; any other backbone stays. ``A + B`` names several."""
        from longshot.models import backbone_name, backbone_parts

        parts = [self.networks[part].path if part in self.networks else part for part in backbone_parts(name)]
        return backbone_name(" + ".join(str(part) for part in parts))

    def draw(self, draw: Draw) -> Testbed:
        """Draw a testbed, or find it drawn; the seconds it took are remembered in study.json."""
        data = self.datasets[draw.source]
        testbed = self.folder.draw(
            draw.name, lambda: draw.draw(data, self.backbone, self.job.device), self._inputs(draw)
        )
        self.testbeds[draw.name] = testbed
        return testbed

    def drawn(self, draw: Draw) -> bool:
        """Tell whether the folder has the testbed."""
        return self.folder.has_testbed(draw.name, self._inputs(draw))

    def _inputs(self, draw: Draw) -> Any:
        """Return what decides a testbed; a judging network of the study is identified by its training."""
        from longshot.studies.engine.comparisons import networks_of
        from longshot.tasks import split_method

        named = [
            split_method(network)[0]
            for part in ("judge", "held_out")
            for network in networks_of(draw.words, part)
            if isinstance(network, str)
        ]
        trained = [Path(self.networks[name].path).name for name in named if name in self.networks]
        return [draw.settings, *trained] if trained else draw.settings

    def seconds(self, testbed: str) -> float | None:
        """Return how long drawing a testbed took; None where it was not timed."""
        seconds: float | None = self.folder.facts.get("extraction_seconds", {}).get(testbed)
        return seconds

    def features(self, source: str, backbone: str, tasks: TaskRows | None = None) -> Features:
        """Embed a dataset by a backbone or a network of the study; with ``tasks`` only their images."""
        from longshot.base import used_rows
        from longshot.models import embed, embed_rows

        if tasks is not None:
            data, rows = self.datasets[source], used_rows([tasks])
            return embed_rows(data, self.backbone(backbone), rows, device=self.job.device)

        key = (source, self.backbone(backbone))
        if key not in self._features:
            self._features[key] = embed(self.datasets[source], key[1], device=self.job.device)
        return self._features[key]

    def evaluate(self, testbeds: Iterable[str], backbone: str, methods: Calls, into: str = "run") -> Results:
        """Evaluate methods on testbeds; rows that are there already are kept."""
        named = {name: self.testbeds[name] for name in testbeds}
        path = self.backbone(backbone)
        label = _inside_study(path)  # so that rows do not say where the study lies
        chosen = path if label == path else {label: path}
        results = self.job.evaluate(named, chosen, methods, self.datasets, into)
        if into == "run":
            self._results, self._scores = results, None
        return results

    @property
    def results(self) -> Results:
        """Return all results that were evaluated into the study's run."""
        if self._results is None:
            raise UserError("The study evaluated nothing, so there is nothing to report.")
        return self._results

    @property
    def scores(self) -> Scores:
        """Return the numbers of the run."""
        if self._scores is None:
            paths = {name: str(record.path) for name, record in self.networks.items()}
            self._scores = Scores(self.results, self.testbeds, paths)
        return self._scores

    def cleaned(self, *, judges: bool = False) -> Lab[Settings, Data]:
        """Return the lab as claims see it: the numbers of networks and tasks that are not clean are NaN."""
        return replace(self, _scores=CleanScores(self.scores, judges=judges), _made={})

    def once(self, name: str, make: Callable[[], Value], *, of_scores: bool = True) -> Value:
        """Return what tables, figures and claims share, made when it is first asked for.

        What is read off the scores is made again for claims, which see only clean numbers.
        """
        made = self._made if of_scores else self._shared
        if name not in made:
            made[name] = make()
        value: Value = made[name]
        return value

    def step(self, name: str, inputs: Any, files: Sequence[Any], work: Any) -> None:
        """Run any other work once: see ``StudyFolder.step``."""
        self.folder.step(name, inputs, files, work)
