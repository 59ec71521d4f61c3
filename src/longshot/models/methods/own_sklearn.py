"""A scikit-learn classifier by its import path, fitted on each task's support."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from longshot.base import TaskBatch, UserError, check_settings, parameters
from longshot.models.methods.base import LOWEST, Method, mask_absent
from longshot.models.methods.own import MethodError, Own, each_task

PREFIX = "sklearn:"


def sklearn_method(name: str, settings: Mapping[str, Any]) -> Method:
    path = name.removeprefix(PREFIX)
    module, _, attribute = path.rpartition(".")
    if not module:
        raise UserError(f"'{name}' is no import path; write it in full, as in sklearn:sklearn.svm.SVC.")
    try:
        estimator = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        if error.name == "sklearn":
            hint = "pip install scikit-learn"
            raise UserError(f"'{name}' needs scikit-learn, which is not installed: {hint}.") from error
        raise UserError(f"There is no module '{module}' for the method '{name}': {error}.") from error
    if not inspect.isclass(estimator) or not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
        raise UserError(f"'{path}' is not a class with fit and predict; name a scikit-learn classifier.")
    defaults = parameters(estimator.__init__)
    check_settings(f"'{path}'", settings, defaults)
    try:
        estimator(**settings)
    except Exception as error:
        raise UserError(f"'{name}' cannot be made: {type(error).__name__}: {error}.") from error
    version = getattr(importlib.import_module(module.partition(".")[0]), "__version__", "?")
    traits = {"name": name, "setting": "inductive", "family": "scikit-learn"}
    source = f"{module.partition('.')[0]}-{version}"
    made: type[_FromSklearn] = type(attribute, (_FromSklearn,), traits)
    return made(estimator, settings, defaults, source)


class _FromSklearn(Own, Method):
    """A classifier with fit and predict, fitted on each task's support.

    Scores are log predict_proba where it exists, else decision_function, else 0 for the predicted class and −1 for the
    others. A ``random_state`` that is left open is taken from the task.
    """

    tolerance = 1e-2  # solvers stop when they are close, and the order of sums moves where

    def __init__(
        self, made: Callable[..., Any], settings: Mapping[str, Any], defaults: Mapping[str, Any], source: str
    ) -> None:
        super().__init__(settings, defaults, source)
        self._make = made

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W], one task at a time on the CPU."""
        all_scores = batch.query.new_full((len(batch), batch.query.shape[1], batch.way), LOWEST)
        for row, where, support, label, query, _ in each_task(batch):
            settings = dict(self._given)
            if self._defaults.get("random_state", 0) is None:
                settings.setdefault("random_state", int(batch.seeds[row]) % 2**32)
            try:
                classes, scores = _fit_and_score(
                    self._make(**settings), support.cpu(), label.cpu(), query.cpu()
                )
            except Exception as error:
                raise MethodError(
                    f"{self.name} failed on {where}: {type(error).__name__}: {error}"
                ) from error
            if tuple(scores.shape) != (len(query), len(classes)):
                raise MethodError(
                    f"{self.name} gives scores of the shape {tuple(scores.shape)} for {where}; "
                    f"({len(query)}, {len(classes)}) (queries, classes) is needed."
                )
            all_scores[row, : len(query), classes.to(all_scores.device)] = scores.to(all_scores)
        return mask_absent(all_scores, batch)


def _fit_and_score(model: Any, support: Tensor, label: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """The classes that have support [C] and the scores [Q, C] in their order."""
    present = torch.unique(label)
    if len(present) == 1:  # nothing to tell apart, and most classifiers refuse it
        return present, torch.zeros(len(query), 1)
    model.fit(support.numpy(), label.numpy())
    classes = torch.as_tensor(model.classes_).long() if hasattr(model, "classes_") else present
    if hasattr(model, "predict_proba"):
        chance = torch.as_tensor(model.predict_proba(query.numpy()), dtype=torch.float32)
        return classes, chance.clamp(min=1e-12).log()
    if hasattr(model, "decision_function"):
        value = torch.as_tensor(model.decision_function(query.numpy()), dtype=torch.float32)
        # Two classes: one number per query, positive for the second.
        return classes, torch.stack((-value / 2, value / 2), 1) if value.dim() == 1 else value
    predicted = torch.as_tensor(model.predict(query.numpy())).long()
    return classes, (predicted.unsqueeze(1) == classes).float() - 1
