"""Verbs that load torch when they are imported: check a method, train and tune, find what datasets share."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from longshot.api.tuning import TuningResult
from longshot.api.tuning import tune as run_tuning
from longshot.audit import Overlap
from longshot.audit import find_overlap as find
from longshot.reports import folder_curves
from longshot.training import TrainedNetwork
from longshot.training import train as run_training

if TYPE_CHECKING:
    from longshot.models import ImageMethod, Method


class MethodCheck(NamedTuple):
    """How a method did by one rule."""

    check: str
    result: str  # "kept", "refused" or "broken"
    rule: str
    reason: str


def check_method(method: str | Method | ImageMethod) -> list[MethodCheck]:
    """Run the common test on a method: the rules that every method of Longshot keeps.

    Parameters
    ----------
    method : str or Method
        A name with its settings (``"protonet(distance='cosine')"``), ``"mine.py:MyMethod"``,
        ``"sklearn:sklearn.svm.SVC"``, or a method object.

    Returns
    -------
    list of MethodCheck
        One per rule, with ``result`` "kept", "refused" (the method says that it cannot do such tasks) or "broken".

    Examples
    --------
    >>> {row.result for row in check_method("protonet")}
    {'kept'}
    """
    import torch

    from longshot.base import progress
    from longshot.evaluation import one_thread
    from longshot.models import CHECKS, IMAGE_CHECKS, ImageMethod, get_method, run_checks, run_image_checks

    chosen = get_method(method)
    rules: dict[str, Any]
    if isinstance(chosen, ImageMethod):
        rules, outcomes = {**IMAGE_CHECKS}, run_image_checks(chosen)
    else:
        rules, outcomes = {**CHECKS}, run_checks(chosen)
    rows = []
    with progress("check", total=len(rules), unit="rules") as bar, one_thread(torch.device("cpu")):
        for name, result, reason in outcomes:
            rule = (rules[name].__doc__ or "").strip().splitlines()[0]
            rows.append(MethodCheck(name, result, rule, reason))
            bar.advance()
    return rows


@wraps(run_training)
def train(*arguments: Any, **settings: Any) -> TrainedNetwork:
    return run_training(*arguments, **{"curves": folder_curves, **settings})


@wraps(run_tuning)
def tune(*arguments: Any, **settings: Any) -> TuningResult:
    return run_tuning(*arguments, **{"curves": folder_curves, **settings})


@wraps(find)
def find_overlap(*arguments: Any, **settings: Any) -> Overlap:
    """Find what two datasets share as ``longshot.audit`` does, with the page of its pictures."""
    from longshot.reports import render_overlap

    return find(*arguments, **{"render": render_overlap, **settings})
