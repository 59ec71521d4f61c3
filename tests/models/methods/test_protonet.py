"""ProtoNet against a direct computation of its formula, task by task in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_softmax

from longshot.models import World, get_method
from longshot.models.methods.method_checks import Example, _mixed, run_method


def reference(world: World, task: Example, distance: str, scale: float) -> NDArray[np.float64]:
    features = world.features.astype(np.float64)
    scores = np.empty((len(task.query), task.way))
    for label in range(task.way):
        mean = features[task.support[task.support_label == label]].mean(0)
        for number, row in enumerate(task.query):
            if distance == "euclidean":
                scores[number, label] = -scale * ((features[row] - mean) ** 2).sum()
            else:
                cosine = features[row] @ mean / np.linalg.norm(features[row]) / np.linalg.norm(mean)
                scores[number, label] = scale * cosine
    return scores


@pytest.mark.parametrize(("distance", "scale"), [("euclidean", 1.0), ("cosine", 10.0), ("cosine", 3.0)])
def test_probabilities_follow_the_formula(distance: str, scale: float) -> None:
    world, tasks = _mixed()
    method = get_method(f"protonet(distance={distance!r}, scale={scale})")
    for task, scores in zip(tasks, run_method(method, world, tasks), strict=True):
        expected = log_softmax(reference(world, task, distance, scale), axis=1)
        np.testing.assert_allclose(log_softmax(scores.astype(np.float64), axis=1), expected, atol=2e-4)


@pytest.mark.parametrize(("distance", "scale"), [("euclidean", 1), ("cosine", 10)])
def test_default_scale(distance: str, scale: int) -> None:
    world, tasks = _mixed(4)
    default = run_method(get_method(f"protonet(distance={distance!r})"), world, tasks)
    scaled = run_method(get_method(f"protonet(distance={distance!r}, scale={scale})"), world, tasks)
    assert all(np.array_equal(a, b) for a, b in zip(default, scaled, strict=True))
