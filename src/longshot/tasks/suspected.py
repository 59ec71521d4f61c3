"""Suspected images in testbeds: left out of the draw, and their share told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from longshot.base import UserError
from longshot.tasks.origin import sampler_parts

if TYPE_CHECKING:
    from longshot.models import Suspects
    from longshot.tasks.judges import Judge
    from longshot.tasks.testbed import Testbed


def find_excluded(judges: Sequence[Judge]) -> Suspects:
    """The images of a dataset whose label any judge doubts, and copies of equal bytes; UserError without a judge."""
    from longshot.models import joint_suspects

    if not judges:
        raise UserError(
            "{exclude_suspects:True} leaves out images that a judge suspects, but these tasks have no judge",
            "draw from the view that {find_suspects(DATASET, backbone=NAME, view=FILE)} writes",
        )
    return joint_suspects([judge.features for judge in judges])


def say_suspects(testbed: Testbed) -> str | None:
    """One sentence on suspected images among the supports; None where no judge looked.

    ``suspected labels and copies: 4.2 % of the chosen supports, 1.1 % of uniform ones``
    """
    import pyarrow.compute as pc

    if "suspects_after" not in testbed.measured:
        return None
    before, after = (pc.mean(testbed.table[f"suspects_{when}"]).as_py() for when in ("before", "after"))
    if before is None or after is None:
        return None
    left_out = [
        facts["excluded_suspects"]
        for facts in sampler_parts(testbed.meta["sampler"])
        if "excluded_suspects" in facts
    ]
    more = ""
    if left_out:
        labels, copies = (sum(facts[name] for facts in left_out) for name in ("mislabelled", "copies"))
        more = f"; left out: {labels:,} with a doubtful label, {copies:,} copies"
    return (
        f"suspected labels and copies: {100 * after:.1f} % of the chosen supports, "
        f"{100 * before:.1f} % of uniform ones{more}"
    )
