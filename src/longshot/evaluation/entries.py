"""Entries of a run's record: a name means one thing, and what is said of it is added up."""

from __future__ import annotations

from typing import Any

from longshot.core.errors import UserError


def add_entry(entries: dict[str, Any], key: str, facts: dict[str, Any], described: str) -> None:
    """Record ``facts`` under a name; a name means one thing in a run, so other facts are a UserError.

    Facts that the entry lacks are added to it: a folder of an earlier version, or one that knew only the network and
    now also its features, is extended. ``described`` names the entry in the sentence.
    """
    recorded = entries.setdefault(key, facts)
    differs = sorted(name for name in {*recorded} & {*facts} if not _agree(recorded[name], facts[name]))
    if differs:
        raise UserError(
            f"The run already holds results of {described} with another {' and '.join(differs)}",
            "evaluate into another folder, so that two different things do not share a name",
        )
    entries[key] = _merged(recorded, facts)


def _agree(a: Any, b: Any) -> bool:
    """Equal wherever both say something."""
    if isinstance(a, dict) and isinstance(b, dict):
        return all(_agree(a[key], b[key]) for key in {*a} & {*b})
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_agree, a, b))
    return bool(a == b)


def _merged(a: Any, b: Any) -> Any:
    """What two values that agree say together."""
    if isinstance(a, dict) and isinstance(b, dict):
        return {**b, **{key: _merged(a[key], b.get(key, a[key])) for key in a}}
    if isinstance(a, list) and isinstance(b, list):
        return [_merged(x, y) for x, y in zip(a, b, strict=True)]
    return a
