"""A working competition on the embedded default: its ten families are the domains."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
import yaml

from longshot.arena import queue, ranking, submission_runs
from longshot.arena.baselines import write_baseline
from longshot.arena.database_tables import filled, submissions, teams
from longshot.arena.settings import FILE, Competition, load, parse_time
from longshot.arena.store import open_competition, read_secret
from longshot.arena.submission_check import dump_sheet
from longshot.arena.templates import template
from longshot.base import UserError, claim_folder, write_text

TRAIN = ("animals", "buildings", "crockery", "fish", "flowers")
FEEDBACK = ("fruits", "furniture")
FINAL = ("insects", "tools", "vehicles")
DAYS, FINAL_DAYS = 30, 7  # that the phases last


def create(
    folder: str | Path,
    *,
    title: str = "Toybox",
    tasks: int = 20,
    minutes: float = 30,
    image_size: int = 128,
    start: str | None = None,
    days: int = DAYS,
) -> Competition:
    """Make a working competition on the embedded default: the ten families of toybox are its domains.

    Parameters
    ----------
    folder : str or Path
        A new or empty folder; competition.yaml is written into it.
    title : str
        Title of the competition.
    tasks : int
        Tasks per test dataset.
    minutes : float
        Time that a run of a submission has.
    image_size : int
        Pixels of a side.
    start : str, optional
        When the competition begins, as ``2027-06-15`` or ``2027-06-15 12:00``, in UTC; today at 00:00 unless given.
    days : int
        Days that the feedback phase lasts; the final begins as it ends, and lasts 7.

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


def _written(moment: dt.datetime) -> str:
    return f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M}"


# A dry run: the whole competition with baselines as its teams, in a folder of its own, before anybody else
# comes.


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
    tell: Callable[[str], None] = lambda text: None,
) -> list[DryRunEntry]:
    """Run the whole competition with baselines: every phase that takes submissions, then the final, then the board.

    It happens in a temporary folder with the competition's settings, data and secret, all phases open; the
    competition itself is not touched, but for images that are decoded on first use and stay.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    baselines : sequence of str
        Baselines that play the teams, as ``longshot compete baseline`` lists them.
    tell : callable
        Hears one line about the end of every run.

    Returns
    -------
    list of DryRunEntry
        Every baseline in every phase, with its rank.
    """
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


def _play(folder: Path, baselines: list[str], beside: Path, tell: Callable[[str], None]) -> list[DryRunEntry]:
    competition, store = open_competition(folder)
    league = competition.leagues[0]
    fields = competition.fact_fields if competition.fact_sheet == "required" else ()
    sheet = dump_sheet(dict.fromkeys(fields, "a dry run"))
    taking = [phase for phase in competition.phases[:-1] if phase.submissions]
    for baseline in baselines:
        source = write_baseline(baseline, beside / baseline)
        for phase in taking or [competition.final]:
            queue.enter(
                competition, store, source, team=baseline, phase=phase.name, league=league, fact_sheet=sheet
            )
    submission_runs.work(competition, store, tell=tell)
    if competition.qualifying is not None:
        ranking.enter_final(competition, store)
        submission_runs.work(competition, store, tell=tell)
    ranks = {
        entry.submission: entry.rank
        for phase in competition.phases
        for entry in ranking.leaderboard(competition, store, phase.name, league)
    }
    rows = store.rows(
        sa.select(submissions, teams.c.name.label("baseline"))
        .join(teams, teams.c.id == submissions.c.team)
        .order_by(submissions.c.id)
    )
    store.engine.dispose()
    return [filled(DryRunEntry, row, rank=ranks.get(row["id"]), reason=row["reason"] or "") for row in rows]


def _absolute(spec: str) -> str:
    """A dataset's path as it is seen from elsewhere: paths are relative to where the command runs, not to the file."""
    source, mark, branch = spec.partition("#")
    return f"{Path(source).resolve()}{mark}{branch}" if Path(source).exists() else spec
