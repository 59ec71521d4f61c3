"""The section ``server`` of competition.yaml: what ``longshot compete serve`` lets people do."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveFloat, PositiveInt

from longshot.base import Record


class ServerSettings(Record):
    """People, uploads and how long things last."""

    registration: Literal["invitation", "open"] = (
        "invitation"  # open: anybody may ask, an organiser lets them in
    )
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
    carry_over: bool = False  # True: when the final begins, those who qualified enter it without an organiser
