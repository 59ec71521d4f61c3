"""``competition.yaml``: one file that says what is asked, on which data, within which budgets, for whom."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml

from longshot.competition.fact_sheet import FIELDS
from longshot.competition.leagues import LEAGUES
from longshot.competition.limits import RunLimits
from longshot.core.errors import UserError

FILE = "competition.yaml"
_Record = TypeVar("_Record")


@dataclass(frozen=True)
class CompetitionShape:
    """Test tasks: N ~ U{min_way … max_way}, k ~ U{min_shot … max_shot}, ``query`` images of every class."""

    min_way: int = 2
    max_way: int = 20
    min_shot: int = 1
    max_shot: int = 20
    query: int = 20


@dataclass(frozen=True)
class Phase:
    """One phase. ``train`` and ``test`` name datasets; every seed is one run of a submission, the worst counts."""

    name: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    tasks: int = 100  # per test dataset
    seeds: tuple[int, ...] = (1,)
    limits: RunLimits = field(default_factory=RunLimits)
    per_day: int = 2  # submissions of a team; 0: no limit
    total: int = 100
    submissions: bool = True  # False: public data to practise on
    start: str | None = None  # ISO date-times in UTC; open-ended where they are missing
    end: str | None = None
    threshold: Mapping[str, float] = field(
        default_factory=dict
    )  # league → score that a feedback entry must exceed
    review_days: int = 0  # after the last run, before results are final


@dataclass(frozen=True)
class Competition:
    """A competition: its folder, its data by name, its phases in order."""

    folder: Path
    title: str
    datasets: Mapping[str, str]  # name → dataset, or DATASET#BRANCH for the classes under one branch
    phases: tuple[Phase, ...]
    leagues: tuple[str, ...] = LEAGUES[:2]
    shape: CompetitionShape = field(default_factory=CompetitionShape)
    image_size: int = 128
    strict_pools: bool = False  # an image is support or query in all tasks, never both
    pseudonyms: bool = True
    fact_sheet: str = "optional"  # required: nobody enters the final without
    fact_fields: tuple[str, ...] = tuple(FIELDS)  # what a fact sheet must say
    database: str = ""  # SQLAlchemy URL; a SQLite file in the folder unless said otherwise

    def phase(self, name: str) -> Phase:
        """A phase by name; UserError with those there are."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise UserError(
            f"The competition has no phase '{name}'; it has {', '.join(phase.name for phase in self.phases)}."
        )

    @property
    def final(self) -> Phase:
        """The last phase, which ranks for good."""
        return self.phases[-1]


def load(folder: Path) -> Competition:
    """Read and check ``competition.yaml``; UserError in one sentence for the first thing that is wrong."""
    path = folder / FILE
    if not path.is_file():
        raise UserError(
            f"There is no {FILE} in {folder}; make a competition with 'longshot compete init {folder}'."
        )
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not YAML that can be read: {reason[:300]}.") from error
    where = str(path)
    given = _mapping(given, where)
    phases = given.pop("phases", None)
    limits = _record(RunLimits, _mapping(given.pop("limits", {}), f"{where}, limits"), f"{where}, limits")
    shape = _record(CompetitionShape, _mapping(given.pop("shape", {}), f"{where}, shape"), f"{where}, shape")
    _check_shape(shape, where)
    if not isinstance(phases, dict) or not phases:
        raise UserError(f"{where} has no phases and at least 1 is needed, as in 'phases: {{feedback: …}}'.")
    read = tuple(_phase(str(name), value, limits, where) for name, value in phases.items())
    competition = _record(Competition, {**given, "folder": folder, "phases": read, "shape": shape}, where)
    _check(competition, where)
    return competition


def _phase(name: str, value: Any, limits: RunLimits, where: str) -> Phase:
    here = f"{where}, phase '{name}'"
    given = _mapping(value, here)
    own = _mapping(given.pop("limits", {}), f"{here}, limits")
    _known(RunLimits, own, f"{here}, limits")
    phase = _record(Phase, {**given, "name": name, "limits": replace(limits, **own)}, here)
    for moment in (phase.start, phase.end):
        if moment is not None:
            parse_time(moment, here)
    if phase.tasks < 1 or not phase.seeds:
        raise UserError(
            f"{here} has {phase.tasks} tasks and {len(phase.seeds)} seeds; at least 1 of each is needed."
        )
    return phase


def parse_time(moment: str, where: str) -> dt.datetime:
    """An ISO date-time, in UTC where it names no zone."""
    try:
        read = dt.datetime.fromisoformat(moment)
    except ValueError as error:
        raise UserError(f"{where}: '{moment}' is no date and time such as '2027-06-15 12:00'.") from error
    return read if read.tzinfo else read.replace(tzinfo=dt.UTC)


def _check(competition: Competition, where: str) -> None:
    for phase in competition.phases:
        for name in (*phase.train, *phase.test):
            if name not in competition.datasets:
                raise UserError(
                    f"{where}, phase '{phase.name}' names the dataset '{name}', which is not among "
                    f"{', '.join(competition.datasets)}."
                )
        if not phase.train or not phase.test:
            raise UserError(
                f"{where}, phase '{phase.name}' has {len(phase.train)} datasets to train and {len(phase.test)} to "
                f"test on; at least 1 of each is needed."
            )
        both = sorted(set(phase.train) & set(phase.test))
        if both:
            raise UserError(
                f"{where}, phase '{phase.name}' trains and tests on '{both[0]}'; a test set must be unseen."
            )
    unknown = [league for league in competition.leagues if league not in LEAGUES]
    if unknown:
        raise UserError(f"{where} names the league '{unknown[0]}'; there are: {', '.join(LEAGUES)}.")
    if competition.fact_sheet not in ("optional", "required"):
        raise UserError(f"{where}: fact_sheet is '{competition.fact_sheet}'; write optional or required.")


def _check_shape(shape: CompetitionShape, where: str) -> None:
    if not (
        2 <= shape.min_way <= shape.max_way and 1 <= shape.min_shot <= shape.max_shot and shape.query >= 1
    ):
        raise UserError(
            f"{where}, shape: ways {shape.min_way}…{shape.max_way}, shots {shape.min_shot}…{shape.max_shot} and "
            f"{shape.query} queries are no shape; ways start at 2, shots and queries at 1."
        )


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{where} must hold settings by name, but it holds {type(value).__name__}.")
    return {str(key): one for key, one in value.items()}


def _known(record: type[Any], given: Mapping[str, Any], where: str) -> None:
    names = [one.name for one in fields(record)]
    for key in given:
        if key not in names:
            near = get_close_matches(key, names, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(names)}."
            raise UserError(f"{where} has an unknown setting '{key}'; {hint}")


def _record(record: type[_Record], given: Mapping[str, Any], where: str) -> _Record:
    """A record from plain values: names and kinds are checked against the class itself."""
    _known(record, given, where)
    values: dict[str, Any] = {}
    for one in fields(record):  # type: ignore[arg-type]
        if one.name in given:
            values[one.name] = _fit(given[one.name], str(one.type), f"{where}: {one.name}")
    try:
        return record(**values)
    except TypeError as error:
        missing = str(error).rpartition(":")[2].strip()
        raise UserError(f"{where} lacks {missing}; add it.") from error


def _fit(value: Any, kind: str, where: str) -> Any:
    """``value`` as the annotation ``kind`` wants it, or a UserError that says what is wanted."""
    if kind.startswith("tuple"):
        listed = list(value) if isinstance(value, list | tuple) else [value]
        inner = kind.removeprefix("tuple[").partition(",")[0]
        return tuple(_fit(one, inner, where) for one in listed)
    wanted: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "str": (str,),
        "bool": (bool,),
        "str | None": (str, type(None), dt.datetime, dt.date),
    }
    accepted = wanted.get(kind)
    if accepted is not None and (
        not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted)
    ):
        raise UserError(f"{where} is {value!r}, but it must be {kind.replace(' | None', ' or nothing')}.")
    return str(value) if isinstance(value, dt.date) else value
