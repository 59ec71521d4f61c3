"""Notices to an organiser's own address: what was announced, handed in and finished, as JSON with a ``text``.

Scores stay out of them, for the room that reads them may be anybody's.
"""

from __future__ import annotations

import contextlib

import sqlalchemy as sa

from longshot.arena.database_tables import announcements, events, facts, submissions, teams
from longshot.arena.server.server_context import ServerContext

TIMEOUT = 5.0  # seconds
_CURSOR, _MOST = "notices", 20  # lines of one notice


def send_notices(context: ServerContext) -> int:
    """Send what happened since the last notice; return how many lines. What cannot be sent is sent the next time."""
    address = context.competition.server.webhook
    if not address:
        return 0
    with context.store.reading() as connection:
        cursor = connection.execute(sa.select(facts.c.value).where(facts.c.name == _CURSOR)).scalar()
        latest = [sa.func.coalesce(sa.func.max(table.c.id), 0) for table in (events, announcements)]
        if cursor:
            before = [int(number) for number in str(cursor).split()]
        else:
            before = [connection.execute(sa.select(number)).scalar_one() for number in latest]
        happened = connection.execute(
            sa.select(events.c.id, events.c.submission, teams.c.name, submissions.c.state)
            .select_from(events.join(submissions, submissions.c.id == events.c.submission).join(teams))
            .where(
                events.c.id > before[0],
                sa.or_(events.c.what.like("entered into%"), events.c.what.like("seed %: %ed%")),
            )
            .order_by(events.c.id)
            .limit(_MOST)
        ).all()
        announced = connection.execute(
            sa.select(announcements.c.id, announcements.c.title)
            .where(announcements.c.id > before[1])
            .limit(_MOST)
        ).all()
    lines = [f"Announcement: {title}" for _, title in announced]
    lines += [f"Submission {number} of {team}: {state}" for _, number, team, state in happened]
    news = zip(before, (happened, announced), strict=True)
    after = [max([number, *(row[0] for row in rows)]) for number, rows in news]
    if lines and not _post(address, f"{context.competition.title}\n" + "\n".join(lines)):
        return 0
    if after != before or not cursor:
        with context.store.change() as connection:
            connection.execute(facts.delete().where(facts.c.name == _CURSOR))
            connection.execute(facts.insert().values(name=_CURSOR, value=" ".join(map(str, after))))
    return len(lines)


def _post(address: str, text: str) -> bool:
    import requests

    with contextlib.suppress(requests.exceptions.RequestException):
        answer = requests.post(address, json={"text": text}, timeout=TIMEOUT, allow_redirects=False)
        return answer.status_code < 300
    return False
