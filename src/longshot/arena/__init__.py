"""Blind competitions: other people's code on hidden tasks, in a sandbox, scored and ranked.

Organisers: ``create``, ``build_environment``, ``work``, ``status``, ``history``, ``rerun``, ``leaderboard``,
``write_leaderboard``, ``enter_final``, ``blank_fact_sheet``, ``export_bundle``, ``dry_run``, ``invite``, ``uploads``,
``delete_upload``. Participants:
``write_baseline``, ``make_submission``, ``check_submission``, ``try_submission``, ``submit``, ``fact_sheet_of``,
``hand_in_fact_sheet``; on a server ``connect``, whose answer submits, looks and works.
Bundles: ``check_bundle``, ``run_bundle``. All but the checks take the competition's folder first. They are the
commands of ``longshot compete``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; the same names as in the table below
    from longshot.arena.baselines import BASELINES as BASELINES
    from longshot.arena.baselines import write_baseline as write_baseline
    from longshot.arena.bundle.check import check_bundle as check_bundle
    from longshot.arena.bundle.run import run_bundle as run_bundle
    from longshot.arena.check import check_submission as check_submission
    from longshot.arena.environments import build_environment as build_environment
    from longshot.arena.new_competition import create as create
    from longshot.arena.organiser import blank_fact_sheet as blank_fact_sheet
    from longshot.arena.organiser import delete_upload as delete_upload
    from longshot.arena.organiser import enter_final as enter_final
    from longshot.arena.organiser import export_bundle as export_bundle
    from longshot.arena.organiser import fact_sheet_of as fact_sheet_of
    from longshot.arena.organiser import hand_in_fact_sheet as hand_in_fact_sheet
    from longshot.arena.organiser import history as history
    from longshot.arena.organiser import invite as invite
    from longshot.arena.organiser import leaderboard as leaderboard
    from longshot.arena.organiser import rerun as rerun
    from longshot.arena.organiser import status as status
    from longshot.arena.organiser import uploads as uploads
    from longshot.arena.organiser import work as work
    from longshot.arena.organiser import write_leaderboard as write_leaderboard
    from longshot.arena.participant import submit as submit
    from longshot.arena.participant import try_submission as try_submission
    from longshot.arena.rehearsal import dry_run as dry_run
    from longshot.arena.remote import RemoteCompetition as RemoteCompetition
    from longshot.arena.remote import connect as connect
    from longshot.arena.settings import Competition as Competition
    from longshot.arena.settings import load as load
    from longshot.arena.submission import make_submission as make_submission

# module → its public names, imported on first use: a submission's process needs none of it
_MODULES = {
    "new_competition": "create",
    "settings": "Competition load",
    "organiser": "work status history rerun leaderboard write_leaderboard enter_final export_bundle "
    "blank_fact_sheet fact_sheet_of hand_in_fact_sheet invite uploads delete_upload",
    "check": "check_submission",
    "environments": "build_environment",
    "participant": "submit try_submission",
    "submission": "make_submission",
    "baselines": "BASELINES write_baseline",
    "remote": "connect RemoteCompetition",
    "rehearsal": "dry_run",
    "bundle.check": "check_bundle",
    "bundle.run": "run_bundle",
}
_PUBLIC = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'longshot.competition' has no attribute '{name}'")
    try:
        return getattr(import_module(f"longshot.competition.{_PUBLIC[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("sqlalchemy", "alembic"):
            raise
        from longshot.base.errors import UserError

        raise UserError(
            f"Competitions need {error.name}", 'have it with pip install "longshot[compete]"'
        ) from error
