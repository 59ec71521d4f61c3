"""Before anybody comes: a new competition, baselines as real submissions, and a dry run with baselines as the teams.

A baseline is a file of ``baselines``, written as the model.py of a submission with ``helpers.py`` beside it. Names and
settings are those of the Cross-Domain MetaDL paper (section 4.2 and appendix E): what is trained holds three in ten of
its datasets out and keeps the learner that did best on them. They run inside the sandbox only.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import yaml

from longshot.arena.domains import META_ALBUM_SETS
from longshot.arena.settings import FILE, Competition, load, parse_time, template
from longshot.base import UserError, claim_folder, nearest_name, write_text

if TYPE_CHECKING:
    from longshot.arena.submission_writer import Packed

TRAIN = ("animals", "buildings", "crockery", "fish", "flowers")
FEEDBACK = ("fruits", "furniture")
FINAL = ("insects", "tools", "vehicles")
DAYS = 30  # that the phases last
FINAL_DAYS = 7
BASELINE_FILES = Path(__file__).with_name("baselines")
PUBLISHED = "cross-domain-metadl"
NONE = "none"  # weights that stand for random ones
TRAINABLE = ("efficientnet", "checkpoint", "torch_file")  # families whose networks a box can open and train
BASELINES: dict[str, str] = {
    "random": "guesses",
    "train-from-scratch": "a network from nothing for every task",
    "fine-tuning": "a network trained on batches, its last layer fitted to every task",
    "matching": "Matching Networks: trained on tasks, cosine to every support image",
    "prototypical": "Prototypical Networks: trained on tasks, distance to class means",
    "fomaml": "first-order MAML: a start from which a few steps fit a task",
    "metadelta": "MetaDelta++: the last stages of a pre-trained network, exact transport of the queries",
}
# baseline that is trained on tasks → what it is, and the function of helpers.py that scores its queries
EPISODIC = {
    "matching": ("Matching Networks: the attention on support images", "matching_scores"),
    "prototypical": ("Prototypical Networks: the distance to class means", "prototype_scores"),
}


def create(
    folder: str | Path,
    *,
    title: str = "Toybox",
    tasks: int = 20,
    minutes: float = 30,
    image_size: int = 128,
    start: str | None = None,
    days: int = DAYS,
    preset: Literal["toybox", "cross-domain-metadl"] = "toybox",
) -> Competition:
    """Make a working competition on the embedded default: the ten families of toybox are its domains.

    Parameters
    ----------
    folder : str or Path
        A new or empty folder; competition.yaml is written into it.
    title : str
        Title of the competition.
    tasks : int, at least 1
        Tasks per test dataset.
    minutes : float
        Time that a run of a submission has.
    image_size : int, 8 to 512
        Pixels of a side.
    start : DATE, str, optional
        When it begins, in UTC. As ``2027-06-15`` or ``2027-06-15 12:00``. Default: today at 00:00.
    days : int, at least 1
        Days of the feedback phase; the final follows and has 7.
    preset : {"toybox", "cross-domain-metadl"}
        Which competition. That of the Cross-Domain MetaDL paper has its own phases, limits, leagues, thresholds and
        data; of the settings above only ``start`` is for it.

    Returns
    -------
    Competition
        The settings that were written.
    """
    folder = Path(folder)
    if days < 1:
        raise UserError(f"The feedback phase would last {days} days and needs at least 1", "raise {days}")
    opening = (
        dt.datetime.now(dt.UTC).replace(hour=0, minute=0) if start is None else parse_time(start, "{start}")
    )
    try:
        closing = opening + dt.timedelta(days=days)
        end = closing + dt.timedelta(days=FINAL_DAYS)
    except OverflowError as error:
        raise UserError(
            f"{days:,} days from {opening:%Y-%m-%d} on lead beyond the year 9999", "lower {days}"
        ) from error
    claim_folder(folder, "competition", name="folder")
    folder.mkdir(parents=True, exist_ok=True)
    if preset == PUBLISHED:
        write_text(folder / FILE, _published(opening))
        return load(folder)
    names = (*TRAIN, *FEEDBACK, *FINAL)
    text = template(FILE).format(
        title=title,
        datasets="\n".join(f"  {name}: toybox#{name}" for name in names),
        memory=8 << 30,
        train=", ".join(TRAIN[:3]),
        public=", ".join(TRAIN[3:]),
        feedback=", ".join(FEEDBACK),
        final=", ".join(FINAL),
        tasks=tasks,
        seconds=round(60 * minutes),
        size=image_size,
        opening=_written(opening),
        closing=_written(closing),
        end=_written(end),
    )
    write_text(folder / FILE, text)
    return load(folder)


def _published(opening: dt.datetime) -> str:
    """Write the competition of the paper: 15 days in public, 62 of feedback, 30 of the final."""
    sets = [names.split() for names in META_ALBUM_SETS]
    datasets = {name: f"{PUBLISHED}#{name}" for name in sets[0]}
    datasets |= {name: f"meta-album/{name}" for name in (*sets[1], *sets[2])}
    starts = [_written(opening + dt.timedelta(days=days)) for days in (0, 15, 77, 107)]
    lists = [", ".join(names) for names in (*sets, sets[0][:7], sets[0][7:])]
    values = dict(zip(("opening", "feedback", "closing", "end"), starts, strict=True))
    values |= dict(zip(("first", "second", "third", "public_train", "public_test"), lists, strict=True))
    lines = "\n".join(f"  {name}: {spec}" for name, spec in datasets.items())
    return template(f"{PUBLISHED}.yaml").format(**values, datasets=lines, memory=8 << 30)


def _written(moment: dt.datetime) -> str:
    return f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M}"


def write_baseline(name: str, folder: str | Path, settings: Mapping[str, Any] | None = None) -> Path:
    """Write a baseline as a submission.

    Parameters
    ----------
    name : str
        One of ``BASELINES``.
    folder : str or Path
        A new folder.
    settings : mapping, optional
        Settings that replace those of the baseline's settings.json. ``weights`` names what the network starts from:
        ``"none"`` (random weights; the default of all but ``metadelta``), ``"efficientnet-lite0"``, or the folder of a
        trained network, which is packed into the submission.

    Returns
    -------
    Path
        ``folder``.
    """
    from longshot.arena.submission_writer import Packed, write_submission  # here: it imports torch

    folder = Path(folder)
    if name not in BASELINES:
        raise UserError(f"There is no baseline '{name}'; {nearest_name(name, BASELINES, 'there are:')}")
    if folder.exists():
        raise UserError(f"{folder} is there already; choose a new folder for the submission.")
    claim_folder(folder, "submission", name="folder")
    source = BASELINE_FILES / name.replace("-", "_")
    path = source.with_suffix(".settings.json")
    defaults = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    unknown = sorted(set(settings or {}) - set(defaults))
    if unknown:
        names = ", ".join(defaults) or "none"
        raise UserError(f"The baseline '{name}' has no setting '{unknown[0]}'; it has: {names}.")
    values, packed = {**defaults, **(settings or {})}, Packed()
    if "weights" in values:
        values["weights"] = _weights(name, str(values["weights"]), packed)
    packed.files["model.py"] = source.with_name(f"{source.name}_baseline.py")
    if name in EPISODIC:
        title, scores = EPISODIC[name]
        packed.files["model.py"] = template("episodic_model.py.txt").format(title=title, scores=scores)
    packed.files["helpers.py"] = BASELINE_FILES / "helpers.py"
    if (config := source.with_suffix(".config.json")).is_file():
        packed.files["config.json"] = config
    if values:
        packed.files["settings.json"] = json.dumps(values, indent=2) + "\n"
    write_submission(packed.files, folder)
    return folder


def _weights(baseline: str, weights: str, packed: Packed) -> str:
    """Name the weights for settings.json, and pack a trained network; raise UserError where there are none.

    Weights that cannot be had are never replaced by random ones.
    """
    from longshot.arena.submission_writer import pack_backbone
    from longshot.models import find_family

    if weights == NONE:
        return NONE
    remedy = (
        "name others with {settings:weights=FOLDER} (a trained network) or {settings:weights=efficientnet-lite0}, or "
        "say {settings:weights=none} for random ones"
    )
    try:
        if find_family(weights).module not in TRAINABLE:
            raise UserError("it is no network that can be trained in a submission")
        return pack_backbone(weights, 0, packed)
    except UserError as error:
        raise UserError(
            f"The baseline '{baseline}' cannot start from the weights '{weights}': {str(error).rstrip('.')}",
            remedy,
        ) from error


class DryRunEntry(NamedTuple):
    """How a baseline fared in one phase."""

    baseline: str
    phase: str
    league: str
    state: str
    score: float | None
    rank: int | None
    reason: str


def dry_run(
    folder: str | Path,
    *,
    baselines: Sequence[str] = ("random",),
    stand_in: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> list[DryRunEntry]:
    """Run the whole competition with baselines: every phase that takes submissions, then the final, then the board.

    It happens in a temporary folder with the competition's settings, data and secret, all phases open; the
    competition itself is not touched, but for images that are decoded on first use and stay.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    baselines : list of str
        Baseline that plays a team; repeatable. ``longshot compete baseline`` lists them.
    stand_in : bool
        Let toybox stand in for datasets that are not here yet. With 2 tasks for each.
    tell : callable
        Hears one line about the end of every run.

    Returns
    -------
    list of DryRunEntry
        Every baseline in every phase, with its rank.
    """
    from longshot.arena.store import read_secret  # here: it needs the database's extra

    original = load(folder)
    if not baselines:
        raise UserError("A dry run has 0 baselines and needs at least 1", "name one in {baselines}")
    secret = read_secret(original)
    with tempfile.TemporaryDirectory(prefix="longshot-dry-run-") as name:
        rehearsal = Path(name) / "competition"
        rehearsal.mkdir(mode=0o755)
        settings = yaml.safe_load((original.folder / FILE).read_text(encoding="utf-8"))
        settings.pop("database", None)
        settings["datasets"] = {key: _absolute(str(spec)) for key, spec in settings["datasets"].items()}
        if stand_in:
            _stand_in(settings, original, tell)
        for phase in settings["phases"].values():
            for key in ("start", "end", "threshold"):
                phase.pop(key, None)
        (rehearsal / FILE).write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        if original.requirements:
            shutil.copyfile(original.folder / original.requirements, rehearsal / original.requirements)
        (original.folder / "data").mkdir(exist_ok=True)
        (rehearsal / "data").symlink_to((original.folder / "data").resolve())
        (rehearsal / "secret").touch(mode=0o600)
        (rehearsal / "secret").write_text(secret, encoding="ascii")
        return _play(rehearsal, list(dict.fromkeys(baselines)), Path(name), tell)


def _stand_in(settings: dict[str, Any], competition: Competition, tell: Callable[[str], None]) -> None:
    """Put parts of toybox in the place of a competition's datasets, and say what differs."""
    from longshot.data import open_dataset

    parts = list(dict.fromkeys("/".join(name.split("/")[:2]) for name in open_dataset("toybox").class_ids))
    if len(parts) < len(competition.datasets):
        raise UserError(
            f"The competition has {len(competition.datasets)} datasets, and toybox has {len(parts)} parts to stand in."
        )
    settings["datasets"] = {
        name: f"toybox#{part}" for name, part in zip(competition.datasets, parts, strict=False)
    }
    settings["domains"], settings["domain_of"] = None, {}
    counts = {name: phase.tasks for name, phase in zip(settings["phases"], competition.phases, strict=True)}
    for phase in settings["phases"].values():
        phase["tasks"] = 2
    tasks = ", ".join(f"{count} in {name}" for name, count in counts.items())
    tell(
        f"stand-ins: {len(competition.datasets)} parts of toybox with 6 classes of 50 images: tasks have 2 to 6 classes"
    )
    tell(
        f"stand-ins: 2 tasks per dataset (there are {tasks} with the data), no thresholds, domains as they come"
    )


def _play(folder: Path, baselines: list[str], beside: Path, tell: Callable[[str], None]) -> list[DryRunEntry]:
    from longshot.arena.connected_competition import connect

    competition, cup = load(folder), connect(folder)
    league = competition.leagues[0]
    fields = competition.fact_fields if competition.fact_sheet == "required" else ()
    sheet = dict.fromkeys(fields, "a dry run")
    taking = [phase for phase in competition.phases[:-1] if phase.submissions]
    for baseline in baselines:
        source = write_baseline(baseline, beside / baseline)
        for phase in taking or [competition.final]:
            cup.submit(source, team=baseline, phase=phase.name, league=league, fact_sheet=sheet)
    cup.work(tell=tell)
    if competition.qualifying is not None:
        cup.enter_final()
        cup.work(tell=tell)
    boards = [cup.board(phase=phase.name, league=league) for phase in competition.phases]
    ranks = {line["submission"]: line["rank"] for board in boards for line in board["lines"]}
    return [
        DryRunEntry(
            row["team"],
            row["phase"],
            row["league"],
            row["state"],
            row["score"],
            ranks.get(row["id"]),
            (row["reason"] or "").strip().rpartition("\n")[2],
        )
        for row in reversed(cup.status())
    ]


def _absolute(spec: str) -> str:
    """Return a dataset's path as seen from elsewhere: paths are relative to where the command runs, not to the file."""
    source, mark, branch = spec.partition("#")
    return f"{Path(source).resolve()}{mark}{branch}" if Path(source).exists() else spec
