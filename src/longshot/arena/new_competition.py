"""A working competition on the embedded default: its ten families are the domains."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from longshot.arena.settings import FILE, Competition, load, parse_time
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
