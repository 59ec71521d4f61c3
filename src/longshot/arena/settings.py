"""``competition.yaml``: one file that says what is asked, on which data, within which budgets, for whom."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypeVar

import yaml
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from longshot.arena.domains import Domains, check_domains
from longshot.base import Record, UserError, read_record


class RunLimits(Record):
    """Budgets of one run of a submission."""

    model_config = ConfigDict(allow_inf_nan=False)

    seconds: PositiveFloat = 5 * 3600.0  # wall clock, meta-training and all tasks together
    cpu_seconds: NonNegativeFloat = 0.0  # processor time over all its processes; 0: no limit of its own
    memory: PositiveInt = 8 << 30  # bytes of all processes together; each also has it as its address space
    processes: PositiveInt = 64  # processes and threads
    cores: NonNegativeInt = 0  # cores of its own, which no other run has at the time; 0: those of the worker
    disk: PositiveInt = 1 << 30  # bytes it may write
    files: PositiveInt = 20_000  # files and folders it may have at a time, empty ones too
    log: PositiveInt = 1 << 20  # bytes of what it prints that are kept
    answer: PositiveInt = 64 << 20  # bytes of one message from it


class ServerSettings(Record):
    """People, uploads and how long things last."""

    # open: anybody may ask, an organiser lets them in
    registration: Literal["invitation", "open"] = "invitation"
    team_size: PositiveInt = 5  # members of a team
    upload: PositiveInt = 200 << 20  # bytes of a submission's archive
    storage: PositiveInt = 2 << 30  # bytes that all archives of a team may take together
    upload_hours: PositiveFloat = 24.0  # after which an upload that was begun and not finished goes
    session_hours: PositiveFloat = 12.0  # without a request, after which one logs in again
    logins_per_address: PositiveInt = 300  # log-ins and registrations from one address in ten minutes
    failures_per_address: PositiveInt = 100  # wrong passwords from one address in ten minutes
    failures_per_pair: PositiveInt = 10  # wrong passwords for one account from one address in ten minutes
    failures_per_account: PositiveInt = 100  # the same over all addresses but those it was logged in from
    token_days: PositiveInt = 30  # that a token lasts unless less is asked for
    free_disk: PositiveInt = 1 << 30  # bytes below which uploads and runs pause
    terms: str = ""  # a Markdown file beside competition.yaml that participants accept
    rules: str = ""  # one with the rules
    webhook: str = ""  # address that hears of announcements and submissions, as a chat room's
    carry_over: bool = False  # True: when the final begins, those who qualified enter it without an organiser


FILE = "competition.yaml"
TASK: Final = "task"
RUN: Final = "run"
DISJOINT: Final = "disjoint"
SHARED: Final = "shared"
FIXED: Final = "fixed"
PER_SUBMISSION: Final = "per-submission"
# The last three are declared by the team and allow any backbone.
League: TypeAlias = Literal["free-style", "meta-learning", "new-in-ml", "women", "rarely-represented-country"]
FREE: League = "free-style"
META: League = "meta-learning"
# Fields that a sheet is asked for unless the organiser names others, each with what to write there.
FACT_FIELDS = {
    "title": "the method in one line",
    "authors": "names and affiliations",
    "summary": "how it works, in a few sentences",
    "pretrained": "networks with learned weights that it starts from, or none",
    "data": "data beyond the competition's, or none",
    "code": "where the code is published and under which licence, or not published",
}
_MARKS = (
    (
        "isolation",
        RUN,
        "one process answered all tasks of a run and may have remembered them (isolation: run)",
    ),
    ("pools", SHARED, "an image may be support in one task and a query in another (pools: shared)"),
    ("draws", PER_SUBMISSION, "every submission answered tasks of its own (draws: per-submission)"),
)
_Member = TypeVar("_Member")
# YAML's lists; a single value stands for a list of one.
_Listed = Annotated[
    tuple[_Member, ...], BeforeValidator(lambda value: value if isinstance(value, list | tuple) else (value,))
]
# ISO, in UTC where it names no zone. YAML reads what is not quoted as a date.
_Moment = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, dt.date) else value)]
_Ways = Annotated[int, Field(ge=2)]


class CompetitionShape(Record):
    """Test tasks: N ~ U{min_way … max_way}, k ~ U{min_shot … max_shot}, ``query`` images of every class."""

    min_way: _Ways = 2
    max_way: _Ways = 20
    min_shot: PositiveInt = 1
    max_shot: PositiveInt = 20
    query: PositiveInt = 20

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for kind in ("way", "shot"):
            low, high = getattr(self, f"min_{kind}"), getattr(self, f"max_{kind}")
            if low > high:
                raise ValueError(f"min_{kind} {low} must not exceed max_{kind} {high}")
        return self


class Phase(Record):
    """One phase. ``train`` and ``test`` name datasets; every seed is one run of a submission, the worst counts."""

    name: str
    train: _Listed[str]
    test: _Listed[str]
    tasks: PositiveInt = 100  # per test dataset
    seeds: Annotated[_Listed[int], Field(min_length=1)] = (1,)
    limits: RunLimits = RunLimits()
    per_day: int = 2  # submissions of a team; 0: no limit
    total: int = 100
    # what participants get of a run; printed: for data that may be seen
    logs: Literal["system", "printed"] = "system"
    submissions: bool = True  # False: public data to practise on at home
    practice: bool = False  # True: submissions count for nothing and have no quota
    attempts_per_day: int = 50  # submissions of a team, whatever became of them; 0: no limit
    scores: Literal["shown", "hidden"] = "shown"  # hidden: for organisers alone until the phase has ended
    version: PositiveInt = 1  # of its tasks: another number draws others
    start: _Moment | None = None  # open-ended where they are missing
    end: _Moment | None = None
    threshold: Mapping[str, float] = {}  # league → score that a feedback entry must exceed
    review_days: int = 0  # after the last run, before results are final
    late_days: NonNegativeInt = 0  # after its end, in which entries are taken that have no rank

    @property
    def public(self) -> bool:
        """Tell whether its data and tasks may be handed out: nothing of it counts."""
        return self.practice or not self.submissions


class Competition(Record):
    """A competition: its folder, its data by name, its phases in order."""

    folder: Path
    title: str
    datasets: Mapping[str, str]  # name → dataset, or DATASET#BRANCH for the classes under one branch
    # of test tasks: the one of training, some of them, or others; None: not said
    domains: Domains | None = None
    domain_of: Mapping[str, str] = {}  # dataset → domain; a branch is one by itself, Meta-Album's are known
    phases: tuple[Phase, ...]
    leagues: _Listed[League] = (FREE, META)
    shape: CompetitionShape = CompetitionShape()
    classes: Literal["uniform", "alike"] = "uniform"  # of a task: any, or look-alikes
    judge: _Listed[str] = ()  # networks that say which classes are alike
    image_size: int = 128
    isolation: Literal["task", "run"] = TASK  # a process for every task, or one for the whole run
    pools: Literal["disjoint", "shared"] = DISJOINT  # disjoint: an image is support or query in all tasks
    draws: Literal["fixed", "per-submission"] = FIXED  # whether all submissions answer the same tasks
    ranks_by: Literal["last", "best", "selected"] = "last"  # which valid submission of a team counts
    pseudonyms: bool = True
    fact_sheet: Literal["optional", "required"] = "optional"  # required: nobody enters the final without
    fact_fields: _Listed[str] = tuple(FACT_FIELDS)  # what a fact sheet must say
    requirements: str = ""  # file in the folder that names packages for submissions, as pip reads it
    weights: str = (
        ""  # folder with learned weights that boxes of all leagues but the meta-learning one can read
    )
    devices: bool = False  # pass graphics processors on to the boxes
    # pages of the server, title → Markdown file in the folder, as in Overview: overview.md
    pages: Mapping[str, str] = {}
    licences: Mapping[str, str] = {}  # dataset → under which licence its images may be handed out
    database: str = ""  # SQLAlchemy URL; empty: a SQLite file in the folder
    server: ServerSettings = ServerSettings()

    def phase(self, name: str) -> Phase:
        """Find a phase by name; raise UserError with those there are."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise UserError(
            f"The competition has no phase '{name}'; it has {', '.join(phase.name for phase in self.phases)}."
        )

    def text(self, name: str) -> str:
        """Read a text beside competition.yaml; empty where there is none."""
        path = (self.folder / name).resolve()
        if not name or not path.is_relative_to(self.folder.resolve()) or not path.is_file():
            return ""
        return path.read_text(encoding="utf-8", errors="replace")[:200_000]

    @property
    def marks(self) -> list[str]:
        """List what readers of a score must know: each departure from blind tasks that are the same for all."""
        return marks(self.model_dump())

    @property
    def final(self) -> Phase:
        """Return the last phase, which ranks for good."""
        return self.phases[-1]

    @property
    def qualifying(self) -> Phase | None:
        """Return the phase whose submissions may enter the final: the last before it that takes any."""
        earlier = reversed(self.phases[:-1])
        return next((phase for phase in earlier if phase.submissions and not phase.practice), None)


def marks(settings: Mapping[str, Any]) -> list[str]:
    """Write sentences about ``isolation``, ``pools`` and ``draws`` where they are not the default.

    >>> marks({"isolation": "run", "pools": "disjoint", "draws": "fixed"})
    ['one process answered all tasks of a run and may have remembered them (isolation: run)']
    """
    return [text for name, value, text in _MARKS if settings.get(name) == value]


def load(folder: str | Path) -> Competition:
    """Read and check ``competition.yaml``.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.

    Returns
    -------
    Competition
        Its settings; a phase's ``limits`` replace those of the whole file one by one.

    Raises
    ------
    UserError
        For the first setting that is wrong: the file, the phase, the setting, its value and what is possible.
    """
    folder = Path(folder)
    path = folder / FILE
    if not path.is_file():
        raise UserError(
            f"There is no {FILE} in {folder}", f"make a competition with {{competition.create({folder})}}"
        )
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not YAML that can be read: {reason[:300]}.") from error
    values = _by_name(values, str(path))
    limits = _by_name(values.pop("limits", {}), f"{path}, limits,")
    read_record(RunLimits, limits, f"{path}, limits,")
    phases = values.pop("phases", None)
    if not isinstance(phases, dict) or not phases:
        raise UserError(
            f"{path} has no phases and at least 1 is needed", "name one below 'phases', as in feedback"
        )
    values["phases"] = tuple(
        _phase(str(name), settings, limits, f"{path}, phase '{name}',") for name, settings in phases.items()
    )
    competition = read_record(Competition, {**values, "folder": folder}, str(path))
    _check_datasets(competition, path)
    check_domains(competition, str(path))
    return competition


def _phase(name: str, values: Any, limits: Mapping[str, Any], where: str) -> Phase:
    """Read a phase whose limits are those of the file, but for its own."""
    values = _by_name(values, where)
    own = _by_name(values.get("limits", {}), f"{where} limits,")
    phase = read_record(Phase, {**values, "name": name, "limits": {**limits, **own}}, where)
    for moment in (phase.start, phase.end):
        if moment is not None:
            parse_time(moment, where)
    return phase


def template(name: str) -> str:
    """Return a text of ``templates`` with ``{names}`` to be filled in."""
    return Path(__file__).with_name("templates").joinpath(name).read_text("utf-8")


def parse_time(moment: str, where: str) -> dt.datetime:
    """Parse an ISO date-time, in UTC where it names no zone.

    Examples
    --------
    >>> parse_time("2027-06-15 12:00", "The phase").isoformat()
    '2027-06-15T12:00:00+00:00'
    """
    try:
        parsed = dt.datetime.fromisoformat(moment)
    except ValueError as error:
        raise UserError(
            f"{where} names the time '{moment}', which is no date and time such as '2027-06-15 12:00'."
        ) from error
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)


def _check_datasets(competition: Competition, path: Path) -> None:
    """Raise UserError where a phase names no datasets, unknown ones, or the same to train and to test on."""
    for phase in competition.phases:
        where = f"{path}, phase '{phase.name}',"
        for name in (*phase.train, *phase.test):
            if name not in competition.datasets:
                raise UserError(
                    f"{where} names the dataset '{name}', which is not among {', '.join(competition.datasets)}."
                )
        if not phase.train or not phase.test:
            raise UserError(
                f"{where} has {len(phase.train)} datasets to train and {len(phase.test)} to test on; at least 1 of "
                f"each is needed."
            )
        seen = sorted(set(phase.train) & set(phase.test))
        if seen:
            raise UserError(f"{where} trains and tests on '{seen[0]}'; a test set must be unseen.")
        for trained, tested in product(phase.train, phase.test):
            specs = competition.datasets[trained], competition.datasets[tested]
            if _overlap(*specs):
                raise UserError(
                    f"{where} trains on '{trained}' ({specs[0]}) and tests on '{tested}' ({specs[1]}), which have "
                    f"classes in common; a test set must be unseen."
                )


def _overlap(first: str, second: str) -> bool:
    """Tell whether two datasets are one, or a branch of the other.

    >>> _overlap("toybox#fish", "toybox"), _overlap("toybox#fish", "toybox#fish/sea"), _overlap("a#fish", "b#fish")
    (True, True, False)
    """
    (source, _, branch), (other, _, limb) = first.partition("#"), second.partition("#")
    parts = sorted((branch.split("/") if branch else [], limb.split("/") if limb else []), key=len)
    return source == other and parts[0] == parts[1][: len(parts[0])]


def _by_name(values: Any, where: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise UserError(f"{where} must hold settings by name, but it holds {type(values).__name__}.")
    return {str(key): value for key, value in values.items()}
