"""Blind competitions: other people's code on hidden tasks, in a sandbox, scored and ranked.

``connect`` opens a competition in a folder or on a server, and its answer submits, looks, works and ranks. Organisers:
``create``, ``build_environment``, ``write_leaderboard``, ``export_bundle``, ``dry_run``, ``invite``, ``write_kit``,
``audit_entry``. Participants: ``write_baseline``, ``make_submission``, ``check_submission``, ``try_submission``.
Bundles: ``check_bundle``, ``run_bundle``. They are the commands of ``longshot compete``.
"""

from typing import Any

import lazy_loader

from longshot.base import Plugin

_open, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

PLUGIN = Plugin(
    "Blind competitions: compete.",
    commands={
        "compete": (
            "longshot.arena.compete_command:command",
            "Run a blind competition: other people's code on hidden tasks.",
        ),
    },
    command_of={
        "serve_competition": "compete serve",
        "competition.create": "compete init",
        "competition.write_baseline": "compete baseline",
        "competition.build_environment": "compete environment",
        "competition.export_bundle": "compete bundle",
        "competition.check_bundle": "compete validate",
        "competition.write_kit": "compete kit",
    },
)


def __getattr__(name: str) -> Any:
    """Open what the door names; a sentence where the extra that brings the database is not installed."""
    if name not in __all__:
        raise AttributeError(f"module 'longshot.competition' has no attribute '{name}'")
    try:
        return _open(name)
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        from longshot.base import UserError

        raise UserError(
            "Competitions need sqlalchemy", 'have it with pip install "longshot[compete]"'
        ) from error
