"""Suspected causes of one dataset's tasks, put to the trial: features, suspicions, interventions, uniform supports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from longshot.base import Floats, Ints, TaskRows, UserError, pick_device
from longshot.diagnosis.account import Account, make_account
from longshot.diagnosis.gaps import Gaps
from longshot.diagnosis.interventions import DRAWS, Intervention, judge, replace_suspects
from longshot.diagnosis.suspicions import Suspicion, suspect_attributes, suspect_embeddings, suspect_labels
from longshot.diagnosis.swaps import Swaps, uniform_supports
from longshot.diagnosis.twins import EmbedTwins, altered_arm
from longshot.models import suspects_of
from longshot.reports import class_names

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.models import Features
    from longshot.tasks import Testbed

WAYS_TO_INTERVENE = ("none", "replace", "pixels")


@dataclass(frozen=True, eq=False)
class Trial:
    """One dataset's tasks: their interventions, not judged yet, and accuracy as they are and with uniform supports."""

    dataset: str
    interventions: Sequence[Intervention]
    tasks: Ints  # [T] numbers
    accuracy: Floats  # [T]
    uniform: Floats  # [T]


def check_intervention(intervene: str, backbone: object) -> None:
    """UserError for a way to intervene that does not exist, or without a backbone to evaluate with."""
    if intervene not in WAYS_TO_INTERVENE:
        raise UserError(f"{{intervene}} is '{intervene}', but it must be {', '.join(WAYS_TO_INTERVENE)}.")
    if intervene != "none" and backbone is None:
        raise UserError(
            f"{{intervene:{intervene}}} evaluates tasks again, and no backbone is chosen",
            "choose one, as in {backbone:pixels}",
        )
    if intervene == "pixels" and (not isinstance(backbone, str) or backbone.startswith("npy:")):
        raise UserError(
            "{intervene:pixels} embeds altered images, and the backbone is not the name of a network",
            "choose one, as in {backbone:pixels}, or {intervene:replace}",
        )


def try_causes(
    testbed: Testbed,
    dataset: Dataset,
    bound: TaskRows,
    gaps: Gaps,
    features: Features,
    *,
    method: str = "protonet",
    device: str = "auto",
    draws: int = DRAWS,
    embed_pairs: EmbedTwins | None = None,
) -> Trial:
    """Take every suspected cause away from the tasks of one dataset, and evaluate them with uniform supports too.

    With ``embed_pairs`` the control of an alteration are the same images altered on their pixels.
    """
    from longshot.evaluation import spread_accuracies
    from longshot.models import feature_method

    chosen = feature_method(method)
    where = pick_device(device)

    def evaluate(tasks: TaskRows) -> Floats:
        return spread_accuracies(tasks, chosen, features.array, where)

    groups, offsets = gaps.groups, features.offsets

    def evaluate_altered(suspicion: Suspicion, swaps: Swaps) -> Floats:
        assert embed_pairs is not None
        rows = len(features.keys)
        tasks, twins = altered_arm(suspicion, swaps, bound, groups, rows, embed_pairs)
        joined = np.concatenate([features.array, twins.astype(features.array.dtype)])
        return spread_accuracies(tasks, chosen, joined, where)

    interventions = replace_suspects(
        suspicions_of(gaps, features),
        bound,
        groups,
        offsets,
        evaluate,
        evaluate_altered=None if embed_pairs is None else evaluate_altered,
        dataset=dataset.name,
        keys=lambda rows: [str(dataset.keys[int(row)].as_py()) for row in rows],
        class_names=class_names(list(dataset.class_ids), testbed.labels.get(dataset.name)),
        draws=draws,
    )
    uniform = evaluate(uniform_supports(bound, groups, offsets, draws=draws)).reshape(draws, -1).mean(0)
    return Trial(dataset.name, interventions, bound.tasks, evaluate(bound), uniform)


def suspicions_of(gaps: Gaps, features: Features) -> list[Suspicion]:
    """Everything that is suspected: attributes, shifts in embedding space, doubtful labels."""
    return [
        *suspect_attributes(gaps, features.offsets),
        *suspect_embeddings(features, gaps.groups),
        *suspect_labels(suspects_of(features), gaps.groups),
    ]


def conclude(trials: Sequence[Trial]) -> tuple[list[Intervention], list[Account]]:
    """Judge the interventions of all datasets together, and account for what the supports cost in each."""
    judged = judge([each for trial in trials for each in trial.interventions])
    accounts = [
        make_account(trial.dataset, trial.tasks, trial.accuracy, trial.uniform, judged) for trial in trials
    ]
    return judged, accounts
