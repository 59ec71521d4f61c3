"""Interventions and accounts as rows of tables, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from longshot.diagnosis.account import Account
from longshot.diagnosis.interventions import Intervention, say_points


def intervention_rows(interventions: Sequence[Intervention]) -> list[dict[str, Any]]:
    """One row per kind that could be taken away, those that hold first."""
    several = len({each.dataset for each in interventions}) > 1
    rows = []
    for each in interventions:
        if each.recovered is None:
            continue
        row: dict[str, Any] = {"dataset": each.dataset} if several else {}
        row |= {
            "cause": each.kind,
            "tasks": f"{each.tasks:,} of {each.of:,}",
            "accuracy": f"{100 * (each.accuracy or 0):.1f}",
            "without it": say_points(each.gain, signed=True),
            "with it": say_points(each.control, signed=True) if each.against == "same" else "",
            "at random": say_points(each.random, signed=True),
            "comes back": say_points(each.recovered, signed=True),
            "adjusted p": "–" if each.adjusted is None else f"{each.adjusted:.2g}",
            "holds": "yes" if each.holds else "no",
        }
        rows.append(row)
    return rows


def account_rows(accounts: Sequence[Account]) -> list[dict[str, Any]]:
    """One row per kind that holds, and what none of them explains."""
    rows = []
    for account in accounts:
        for share in account.shares:
            row: dict[str, Any] = {"dataset": account.dataset} if len(accounts) > 1 else {}
            row |= {
                "explained by": share.meaning,
                "tasks": f"{share.tasks:,} of {account.of:,}",
                "points": say_points(share.points),
            }
            rows.append(row)
    return rows
