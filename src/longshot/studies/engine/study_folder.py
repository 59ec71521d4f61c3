"""A study to run, and its folder: study.json tells what it is; testbeds and steps that are done are not done again.

A folder is bound to its settings by the first step or result that is finished with them. A study that failed before
that may be corrected in its folder: testbeds that it drew are drawn anew.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import Field

from longshot.base import (
    LooseRecord,
    UserError,
    canonical_json,
    claim_folder,
    count,
    hash_json,
    note,
    read_json,
    write_json,
)
from longshot.data import Dataset
from longshot.studies.engine.comparisons import StudySettings
from longshot.tasks import Testbed

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.evaluation import Results
    from longshot.studies.engine.claims import JudgedClaim
    from longshot.studies.engine.presets import Study
    from longshot.studies.engine.study_tables import TableFile
    from longshot.tasks import Testbed


FORMAT = 1
# What may change from run to run in one folder: the run is extended, tables and figures follow.
_FREE = ("methods", "backbone", "window")
_GROWING = ("steps", "draws", "sources", "extraction_seconds")  # what every step adds to


class StudyStory(LooseRecord):
    """What study.json says of a study that was run before."""

    format: Literal[1]
    recipe: str
    version: int
    dataset: dict[str, str]
    settings: dict[str, Any]
    steps: dict[str, str]
    sources: dict[str, dict[str, str]] = Field(default_factory=dict)
    draws: dict[str, str] = Field(default_factory=dict)
    extraction_seconds: dict[str, float] = Field(default_factory=dict)


class StudyFolder:
    """Opens or makes a study's folder; UserError when it holds something else that has come to anything.

    Parameters
    ----------
    path : Path
        The folder; nothing is written before :meth:`save`.
    study : Study
        What is run in it.
    dataset : mapping
        ``name`` and ``fingerprint`` of what it is run on.
    binding : sequence of str, optional
        Settings that decide the testbeds and may not change in this folder; by default all but methods and backbone.
    """

    def __init__(
        self, path: Path, study: Study, dataset: Mapping[str, str], binding: Sequence[str] | None = None
    ) -> None:
        self.path, self.names = path, type(study.settings).model_fields
        self.did: list[dict[str, str]] = []
        settings = study.settings.plain()
        bound = settings if binding is None else {key: settings[key] for key in binding}
        recipe = Path(study.recipe).name  # one's own recipe is a file, which may be moved
        identity = {"recipe": recipe, "version": study.version, "dataset": dict(dataset)}
        # Testbeds of settings that came to nothing; removed when study.json is written.
        self._given_up: list[Path] = []
        self.before = self._read()
        if self.before is not None:
            now = {**bound, **identity}
            before = {**self.before.settings, **{key: getattr(self.before, key) for key in identity}}
            for key in now:
                if key not in _FREE and canonical_json(before.get(key)) != canonical_json(now[key]):
                    change = f"{key} = {_short(before.get(key))}, now it is {_short(now[key])}"
                    self._give_up(
                        f"{path} holds a study with {change}",
                        "choose another folder with {out}, or repeat its settings to go on with it",
                        self.before.steps,
                        self.before.draws,
                    )
                    self.before = None
                    break
        self.facts: dict[str, Any] = {
            "format": FORMAT,
            "study": study.name,
            "recipe": recipe,
            "version": study.version,
            "paper": study.paper,
            "dataset": dict(dataset),
            "settings": bound,
            "notes": [],
            **{name: getattr(self.before, name, {}) for name in _GROWING},
        }

    def _read(self) -> StudyStory | None:
        """Read study.json of the folder; None for a new or empty one."""
        claim_folder(self.path, "study", ("study.json",))
        file = self.path / "study.json"
        return read_json(StudyStory, file, "The study") if file.exists() else None

    def _give_up(self, fact: str, remedy: str, steps: Iterable[str], draws: Iterable[str]) -> None:
        """Leave a study that came to nothing; UserError of ``fact`` and ``remedy`` where steps or results are there."""
        done = [*steps, *self.path.glob("*/run.json")]
        if done:
            raise UserError(f"{fact}, after {count(done, 'finished part')}", remedy)
        note(f"{fact}; nothing of it is finished, so it begins anew")
        self._given_up = [self._testbed_file(name) for name in draws]

    def save(self, **facts: Any) -> None:
        """Write study.json, with further facts."""
        while self._given_up:
            self._given_up.pop().unlink(missing_ok=True)
        self.facts.update(facts)
        write_json(self.path / "study.json", self.facts)

    def remember_sources(self, datasets: Mapping[str, Dataset]) -> None:
        """Note which dataset each source is, beside earlier ones.

        UserError where a name stood for another dataset and something is finished with it.
        """
        before = self.facts["sources"]
        for name, dataset in datasets.items():
            earlier = before.get(name, {}).get("fingerprint", dataset.fingerprint)
            if earlier != dataset.fingerprint:
                self._give_up(
                    f"The source '{name}' of {self.path} was another dataset ({before[name].get('source', 'unknown')}) "
                    "than it is now",
                    "write NAME=PATH to call it otherwise, or choose another folder with {out}",
                    self.facts["steps"],
                    self.facts["draws"],
                )
                self.facts |= {"draws": {}, "extraction_seconds": {}}
                before = {}
                break
        own = {
            name: {"source": dataset.source, "fingerprint": dataset.fingerprint}
            for name, dataset in datasets.items()
        }
        self.save(sources={**before, **own})

    def step(self, name: str, inputs: Any, files: Sequence[Path], work: Callable[[], None]) -> None:
        """Do ``work`` unless it was done with the same inputs and its files are there."""
        if self.done(name, inputs) and all(file.is_file() for file in files):
            self.log(name, "kept")
            return
        work()
        self.facts["steps"][name] = hash_json(inputs)
        self.save()
        self.log(name, "written")

    def done(self, name: str, inputs: Any) -> bool:
        """Tell whether a step was done with these inputs."""
        return bool(self.facts["steps"].get(name) == hash_json(inputs))

    def draw(self, name: str, draw: Callable[[], Testbed], settings: Any = None) -> Testbed:
        """Return the testbed from the folder; draw it if missing, damaged, or of other ``settings``.

        The seconds of drawing are remembered in study.json under ``extraction_seconds``.
        """
        path = self._testbed_file(name)
        digest = "" if settings is None else hash_json(settings)
        if self.has_testbed(name, settings):
            try:
                testbed = Testbed.load(path)
            except UserError:
                self.log(f"testbed {name}", "damaged, drawn anew")
            else:
                self.log(f"testbed {name}", "kept")
                return testbed
        began = time.monotonic()
        testbed = self.sampled(draw)
        spent = time.monotonic() - began
        testbed.save(path, force=True)
        self.facts["draws"][name] = digest
        self.facts["extraction_seconds"][name] = round(spent, 4)
        self.save()
        self.log(f"testbed {name}", "written")
        return testbed

    def has_testbed(self, name: str, settings: Any = None) -> bool:
        """Tell whether a testbed of these settings was drawn into the folder."""
        digest = "" if settings is None else hash_json(settings)
        file = self._testbed_file(name)
        drawn_so = self.facts["draws"].get(name, digest) == digest
        return drawn_so and file not in self._given_up and file.is_file()

    def _testbed_file(self, name: str) -> Path:
        return self.path / "testbeds" / f"{name}.parquet"

    def sampled(self, draw: Callable[[], Testbed]) -> Testbed:
        """Draw; an error that names a parameter of which the study has several (``shots``) names that setting."""
        try:
            return draw()
        except UserError as error:
            template = error.template
            for name in ("way", "shot"):
                if name not in self.names and f"{name}s" in self.names:
                    template = template.replace(f"{{{name}}}", f"{{{name}s}}")
            raise UserError(template) from error

    def log(self, name: str, became: str) -> None:
        """Remember what became of a step."""
        self.did.append({"step": name, "did": became})
        print(f"{name}: {became}", file=sys.stderr, flush=True)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:119]}…"


Settings = TypeVar("Settings", bound=StudySettings)
Data = TypeVar("Data")
Testbeds: TypeAlias = Mapping[str, "Testbed"]
DatasetsByName: TypeAlias = Mapping[str, Dataset]
Calls: TypeAlias = str | Sequence[str]  # methods


@dataclass(frozen=True)
class StudyOutcome:
    """What a study left in its folder."""

    path: Path
    notes: Sequence[str]
    did: Sequence[dict[str, str]]
    tables: Sequence[TableFile]
    figures: Sequence[str]
    claims: Sequence[JudgedClaim] = ()


class StudyEstimate(NamedTuple):
    """What is left to do (step, testbed, method, left, seconds, bytes of each), and what there is to know about it."""

    steps: list[dict[str, Any]]
    notes: Sequence[str]


@dataclass(frozen=True, eq=False)
class StudyJob(Generic[Settings, Data]):
    """A study to run: its settings, the data it runs on, the folder it goes to, and what computes."""

    study: Study
    settings: Settings
    data: Data
    out: Path
    device: str = "auto"
    workers: int | None = None

    def evaluate(
        self,
        testbeds: Testbeds,
        backbone: str | Mapping[str, str],
        methods: Calls,
        datasets: DatasetsByName,
        into: str = "run",
    ) -> Results:
        """Evaluate methods on testbeds with a backbone (or label → backbone), into a folder of the study."""
        from longshot.evaluation import evaluate

        options = self._options(testbeds, datasets, into)
        return evaluate(testbeds, backbones=backbone, methods=methods, **options)

    def estimate(
        self, testbeds: Testbeds, backbone: str, methods: Calls, datasets: DatasetsByName
    ) -> list[dict[str, Any]]:
        """Estimate what ``evaluate`` would take in time and disk; write nothing."""
        from longshot.evaluation import estimate_evaluation

        options = self._options(testbeds, datasets, "run")
        return estimate_evaluation(testbeds, backbones=backbone, methods=methods, **options)

    def _options(self, testbeds: Testbeds, datasets: DatasetsByName, into: str) -> dict[str, Any]:
        """Return the options of an evaluation: where to, with what, and the datasets that are used."""
        used = {name for testbed in testbeds.values() for name in testbed.datasets}
        machine = {"device": self.device, "workers": self.workers, "seed": self.settings.seed}
        own = {name: data for name, data in datasets.items() if name in used}
        return {"out": self.out / into, "datasets": own, **machine}


TableFormat: TypeAlias = Literal["md", "latex", "csv"]
_ENDINGS = {"md": "md", "latex": "tex", "csv": "csv"}


class _Story(LooseRecord):
    """What study.json says about the tables."""

    format: Literal[1] = 1
    title: str = ""
    tables: tuple[str, ...] = Field(default=())


def study_tables(folder: str | Path, format: TableFormat = "md") -> str:
    """Return all tables of a study as text, in the order of its page.

    Parameters
    ----------
    folder : path
        The folder of a study that was run.
    format : {"md", "latex", "csv"}
        Markdown, LaTeX (booktabs), or CSV in full precision with a line ``# NAME`` before each table.

    Returns
    -------
    str
        The tables, one below the other.

    Examples
    --------
    >>> print(study_tables("studies/better")[:20])  # doctest: +SKIP
    # Uniform tasks agai
    """
    path = Path(folder)
    if format not in _ENDINGS:
        raise UserError(f"There is no format '{format}'; the formats are {', '.join(_ENDINGS)}.")
    if not (path / "study.json").is_file():
        raise UserError(
            f"{path} is not the folder of a study: it has no study.json",
            "{run_study(NAME, DATASET, out=FOLDER)} makes one",
        )
    story = read_json(_Story, path / "study.json", "The study")
    files = {stem: path / "tables" / f"{stem}.{_ENDINGS[format]}" for stem in story.tables}
    missing = [str(file) for file in files.values() if not file.is_file()]
    if missing or not files:
        fact = (
            f"{len(missing)} of its {len(files)} tables are missing, such as {missing[0]}"
            if files
            else "it has none"
        )
        raise UserError(f"The tables of {path} cannot be printed: {fact}; run the study again as before.")
    texts = {stem: file.read_text(encoding="utf-8").strip() for stem, file in files.items()}
    sign, gap = {"md": ("##", "\n\n"), "latex": ("%", "\n"), "csv": ("#", "\n")}[format]
    title = [f"# {story.title}"] if format == "md" else []
    return "\n\n".join([*title, *(f"{sign} {stem}{gap}{text}" for stem, text in texts.items())]) + "\n"
