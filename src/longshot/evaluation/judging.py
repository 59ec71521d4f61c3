"""How a method judges tasks while they are drawn, and which networks of a run were judges of its testbeds.

A network that chose a testbed's images says nothing fair about it: tables show its numbers and rank it never. There is
one rule for all of them, and it goes by weights, not by labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from longshot.tasks import is_judge, judges_of

if TYPE_CHECKING:
    from longshot.base import Floats, TaskRows
    from longshot.models import Features


def method_accuracies(
    call: str, tasks: TaskRows, features: Features, device: str = "auto"
) -> tuple[str, Floats]:
    """The method's full call, and its accuracy on each task, [T]."""
    from longshot.base import pick_device
    from longshot.evaluation.accuracies import spread_accuracies
    from longshot.models import feature_method

    method = feature_method(call)
    return method.call, spread_accuracies(tasks, method, features.array, pick_device(device))


def judges_in(run: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """(content hash of a testbed, backbone) for each backbone of a run that chose images of the testbed.

    Parameters
    ----------
    run : mapping
        A run.json: testbeds with their metadata, backbones with their networks. Of several networks side by side one
        that judged is enough.
    """
    judging = set()
    for content_hash, meta in run.get("testbeds", {}).items():
        marks = judges_of(meta)
        for backbone, by_dataset in run.get("backbones", {}).items() if marks else ():
            networks = [network for story in by_dataset.values() for network in story.get("networks", ())]
            if any(is_judge(marks, network) for network in networks):
                judging.add((content_hash, backbone))
    return frozenset(judging)


def say_judges(run: Mapping[str, Any]) -> list[str]:
    """One sentence per testbed that networks of the run chose the images of."""
    by_testbed: dict[str, list[str]] = {}
    for content_hash, backbone in sorted(judges_in(run)):
        by_testbed.setdefault(str(run["testbeds"][content_hash]["name"]), []).append(backbone)
    return [
        f"{' and '.join(backbones)} chose the images of '{name}': "
        f"{'its' if len(backbones) == 1 else 'their'} numbers there are not to be ranked"
        for name, backbones in by_testbed.items()
    ]
