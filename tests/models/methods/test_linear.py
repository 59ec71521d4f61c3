"""Ridge and logistic regression against scikit-learn on the same problems."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as SklearnRidge

from longshot.models import World, get_method
from longshot.models.methods.method_checks import Example, _mixed, _some, run_method


def rows(world: World, task: Example, normalize: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    support, query = (world.features[part].astype(np.float64) for part in (task.support, task.query))
    if normalize:
        support, query = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (support, query))
    return support, query


@pytest.mark.parametrize("shot", [5, 12])  # fewer and more rows than features
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_ridge_equals_scikit_learn(normalize: bool, intercept: bool, shot: int) -> None:
    world, tasks = _some(shot=shot, count=10)
    method = get_method(f"ridge(penalty=0.5, scale=1, normalize={normalize}, intercept={intercept})")
    for task, scores in zip(tasks, run_method(method, world, tasks), strict=True):
        support, query = rows(world, task, normalize)
        model = SklearnRidge(alpha=0.5, fit_intercept=intercept).fit(support, np.eye(5)[task.support_label])
        np.testing.assert_allclose(scores, model.predict(query), atol=2e-4)


@pytest.mark.parametrize(("C", "normalize"), [(10.0, True), (1.0, True), (1.0, False)])
def test_logistic_regression_equals_scikit_learn(C: float, normalize: bool) -> None:
    world, tasks = _mixed(12)
    equal, total = 0, 0
    for task, scores in zip(
        tasks, run_method(get_method(f"logistic(C={C}, normalize={normalize})"), world, tasks), strict=True
    ):
        if task.way == 2:  # scikit-learn then fits one vector instead of two: another penalty
            continue
        support, query = rows(world, task, normalize)
        model = LogisticRegression(C=C, tol=1e-8, max_iter=20_000).fit(support, task.support_label)
        expected = model.decision_function(query)
        centred = scores - scores.mean(1, keepdims=True)
        np.testing.assert_allclose(centred, expected - expected.mean(1, keepdims=True), atol=0.02)
        equal += int((scores.argmax(1) == expected.argmax(1)).sum())
        total += len(query)
    assert equal >= 0.995 * total
