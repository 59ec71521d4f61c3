"""The common test of a method: the rules that every method of Longshot keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
