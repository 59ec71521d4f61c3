"""Several records of one run as one: what evaluations that wrote to the same bucket at once have measured together."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from longshot.core.errors import UserError
from longshot.evaluation.entries import add_entry

_CELL = ("testbed", "backbone", "method", "seed")


def merged(run: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The record of all that two records of a run say; ``run`` comes first and its labels stand.

    UserError where a name means one thing here and another there.
    """
    total: dict[str, Any] = copy.deepcopy(dict(run))
    labels = _merge_networks(total, other)
    _merge_testbeds(total["testbeds"], other["testbeds"])
    for call, facts in other["methods"].items():
        add_entry(total["methods"], call, copy.deepcopy(facts), f"the method {call}")
    for label, by_dataset in other["backbones"].items():
        own = total["backbones"].setdefault(labels.get(label, label), {})
        for fingerprint, facts in by_dataset.items():
            if fingerprint in own and labels.get(label, label) != label:
                continue  # the same network under another label: its names differ, and nothing else
            add_entry(own, fingerprint, copy.deepcopy(facts), f"the backbone '{label}'")
    cells = {tuple(cell[key] for key in _CELL) for cell in total["cells"]}
    for cell in other["cells"]:
        renamed = {**cell, "backbone": labels.get(cell["backbone"], cell["backbone"])}
        if tuple(renamed[key] for key in _CELL) not in cells:
            total["cells"].append(renamed)
    for label, leaks in other.get("upstream", {}).items():
        own = total.setdefault("upstream", {}).setdefault(labels.get(label, label), {})
        own |= {content_hash: facts for content_hash, facts in leaks.items() if content_hash not in own}
    _merge_choices(total, other)
    total["sessions"] = _sessions([*total["sessions"], *other["sessions"]])
    return total


def _merge_networks(total: dict[str, Any], other: Mapping[str, Any]) -> dict[str, str]:
    """Enter the networks of ``other``; returns its labels → those that the same networks have in ``total``."""
    labels: dict[str, str] = {}
    networks = other.get("networks", {})
    if networks:
        total.setdefault("networks", {})
    for identity, facts in networks.items():
        label = facts["label"]
        for theirs, entry in total["networks"].items():
            if entry["label"] == label and theirs != identity:
                raise UserError(
                    f"Two networks were evaluated at once as '{label}' ({theirs[:12]}… and {identity[:12]}…)",
                    "give one of them a label, such as {backbones:mine=PATH}, or evaluate into another folder",
                )
        labels[label] = total["networks"].setdefault(identity, copy.deepcopy(facts))["label"]
    return labels


def _merge_testbeds(own: dict[str, Any], other: Mapping[str, Any]) -> None:
    for content_hash, facts in other.items():
        for theirs, entry in own.items():
            if entry["name"] == facts["name"] and theirs != content_hash:
                raise UserError(
                    f"Two testbeds were evaluated at once as '{facts['name']}' ({theirs[:12]}… and "
                    f"{content_hash[:12]}…)",
                    "rename one of the files or evaluate into another folder",
                )
        own.setdefault(content_hash, copy.deepcopy(facts))


def _merge_choices(total: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Settings chosen on validation tasks: a candidate that either measured on a task is measured."""
    for key, choice in other.get("choices", {}).items():
        own = total.setdefault("choices", {}).setdefault(key, copy.deepcopy(choice))
        measured = own.setdefault("measured", {})
        for candidate, values in choice.get("measured", {}).items():
            here = measured.get(candidate)
            if here is None or len(here) != len(values):
                measured.setdefault(candidate, list(values))
            else:
                pairs = zip(here, values, strict=True)
                measured[candidate] = [theirs if ours is None else ours for ours, theirs in pairs]
        own |= {name: value for name, value in choice.items() if own.get(name) is None}


def _sessions(sessions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each session once, as its own writer tells it: the one that is finished; in the order of their start."""
    by_writer: dict[Any, dict[str, Any]] = {}
    for session in sessions:
        key = (session.get("writer"), session.get("started"))
        earlier = by_writer.get(key)
        if earlier is None or earlier.get("finished") is None:
            by_writer[key] = session
    return sorted(by_writer.values(), key=lambda session: str(session.get("started")))
