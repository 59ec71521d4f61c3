"""The reaper: whatever is not at its end has a lease, and what nobody tends any more goes on without them."""

from __future__ import annotations

import threading
import time
import traceback
from typing import NamedTuple

import sqlalchemy as sa

from longshot.arena import entry_rules, queue, ranking
from longshot.arena.database_tables import ENDED, now, runs, sessions, submissions
from longshot.arena.services import credentials, uploads
from longshot.arena.services.office import Office

EVERY = 15.0  # seconds


class Swept(NamedTuple):
    """What one round found to do."""

    uploads: int
    runs: int
    submissions: int
    carried: int


def sweep(office: Office, lease: float | None = None) -> Swept:
    """One round over every state that is no end."""
    lease = queue.LEASE if lease is None else lease
    credentials.write_uses(office)
    swept_uploads = uploads.sweep(office)
    with queue.alone(office.store) as connection:
        silent = (runs.c.state == "running", runs.c.seen < time.time() - lease)
        count = connection.execute(sa.select(sa.func.count()).select_from(runs).where(*silent)).scalar_one()
        queue.revive(connection, lease)
        # A submission is at its end when its runs are: none waits for what will never come.
        going = sa.select(submissions.c.id).where(submissions.c.state.in_(("queued", "running")))
        unended = sa.select(runs.c.submission).where(runs.c.state.not_in(ENDED))
        stuck = connection.execute(going.where(submissions.c.id.not_in(unended))).scalars().all()
        for number in stuck:
            queue.settle(connection, number, "its runs had ended")
        connection.execute(sessions.delete().where(sessions.c.expires < now()))
    return Swept(swept_uploads, int(count), len(stuck), _carry_over(office))


def _carry_over(office: Office) -> int:
    """Enter the final for those who qualified, where it has begun and the settings say so; each job once."""
    competition = office.competition
    begun = competition.final.start is not None and any(
        phase.name == competition.final.name and phase.state == "open"
        for phase in entry_rules.timetable(competition)
    )
    if not (competition.server.carry_over and begun and competition.qualifying):
        return 0
    going = (
        submissions.c.phase == competition.qualifying.name,
        submissions.c.state.in_(("queued", "running")),
    )
    if office.store.rows(sa.select(submissions.c.id).where(*going).limit(1)):
        return 0  # the last feedback submissions may still change who qualifies
    return sum(row.get("final") is not None for row in ranking.enter_final(competition, office.store))


class Reaper(threading.Thread):
    """Sweeps every few seconds until it is stopped.

    Parameters
    ----------
    office : Office
        The competition.
    """

    def __init__(self, office: Office, every: float = EVERY) -> None:
        super().__init__(name="longshot-reaper", daemon=True)
        self.office, self.every, self.end = office, every, threading.Event()

    def run(self) -> None:
        """Sweep until the end. After a time without the database, or at the start, leases begin anew."""
        away = True
        while not self.end.wait(self.every):
            try:
                if away:
                    with queue.alone(self.office.store) as connection:
                        queue.grace(connection)
                    away = False
                sweep(self.office)
            except Exception as error:  # the database restarts: the next round may get through
                away = True
                if not isinstance(error, sa.exc.OperationalError):
                    traceback.print_exc()

    def stop(self) -> None:
        """End after the round that is under way."""
        self.end.set()
        self.join(10.0)
