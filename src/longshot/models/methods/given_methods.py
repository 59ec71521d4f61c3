"""Methods as people hand them over: functions, modules and classifiers in memory; scikit-learn's by import path."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from longshot.base import TaskBatch, UserError, call_defaults, check_settings
from longshot.models.methods.base import LOWEST, AnyMethod, ImageMethod, Method, mask_absent
from longshot.models.methods.own_method import MethodError, Own, each_task, from_function
from longshot.models.object_identity import identify

_PLAIN = (bool, int, float, str, type(None))  # settings that a file can hold


def given_method(handed: Any) -> Method | ImageMethod:
    """Make a method of an object: a function or module of one task, a classifier with ``fit``, a class of those.

    UserError for anything else, and for code that cannot be told from another version of itself.
    """
    if isinstance(handed, type) and (issubclass(handed, AnyMethod) or hasattr(handed, "fit")):
        handed = handed()
    if isinstance(handed, Method | ImageMethod):
        return handed
    title = getattr(handed, "__name__", type(handed).__name__).strip("<>")
    if hasattr(handed, "fit") and (hasattr(handed, "predict") or hasattr(handed, "predict_proba")):
        defaults = call_defaults(type(handed).__init__)
        own = {key: value for key, value in vars(handed).items() if key in defaults}
        shown = {key: value if isinstance(value, _PLAIN) else repr(value) for key, value in own.items()}
        return _from_estimator(handed, title, shown, defaults, identify(handed, title))
    if not callable(handed):
        raise UserError(
            f"{handed!r:.40} ({type(handed).__name__}) is no method",
            "give a name of {list_methods()}, a function of (support, support_label, query, way), a classifier with "
            "fit and predict, or an object of a class derived from longshot.models.Method",
        )
    function = copy.deepcopy(handed).eval().forward if isinstance(handed, nn.Module) else handed
    if inspect.isbuiltin(function):
        raise UserError(
            f"Whether {title} has changed cannot be seen, since it is not written in Python",
            "call it in a function of your own, and give that a version: mine.version = 1",
        )
    code = getattr(inspect.unwrap(function), "__code__", None)
    path = Path(code.co_filename if code is not None else title)
    return from_function(function, title, path, identify(handed, title), {})


def sklearn_method(name: str, settings: Mapping[str, Any]) -> Method:
    """Make the method ``sklearn:module.Class`` with its settings."""
    path = name.removeprefix("sklearn:")
    module, _, attribute = path.rpartition(".")
    if not module:
        raise UserError(f"'{name}' is no import path; write it in full, as in sklearn:sklearn.svm.SVC.")
    try:
        estimator = getattr(import_module(module), attribute, None)
    except ImportError as error:
        if error.name == "sklearn":
            hint = "pip install scikit-learn"
            raise UserError(f"'{name}' needs scikit-learn, which is not installed: {hint}.") from error
        raise UserError(f"There is no module '{module}' for the method '{name}': {error}.") from error
    if not inspect.isclass(estimator) or not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
        raise UserError(f"'{path}' is not a class with fit and predict; name a scikit-learn classifier.")
    defaults = call_defaults(estimator.__init__)
    check_settings(f"'{path}'", settings, defaults)
    try:
        made = estimator(**settings)
    except Exception as error:
        raise UserError(f"'{name}' cannot be made: {type(error).__name__}: {error}.") from error
    library = module.partition(".")[0]
    version = getattr(import_module(library), "__version__", "?")
    return _from_estimator(made, name, settings, defaults, f"{library}-{version}")


def _from_estimator(
    estimator: Any, title: str, settings: Mapping[str, Any], defaults: Mapping[str, Any], source: str
) -> Method:
    traits = {"name": title, "setting": "inductive", "family": "scikit-learn"}
    made: type[_FromEstimator] = type(title, (_FromEstimator,), traits)
    return made(estimator, settings, defaults, source)


class _FromEstimator(Own, Method):
    """A classifier with fit and predict, fitted on each task's support.

    Scores are log predict_proba where it exists, else decision_function, else 0 for the predicted class and −1 for the
    others. A ``random_state`` that is left open is taken from the task.
    """

    tolerance = 1e-2  # solvers stop when they are close, and the order of sums moves where

    def __init__(
        self, estimator: Any, settings: Mapping[str, Any], defaults: Mapping[str, Any], source: str
    ) -> None:
        super().__init__(settings, defaults, source)
        self._estimator = estimator

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score one task at a time on the CPU; [B, Q, W]."""
        all_scores = batch.query.new_full((len(batch), batch.query.shape[1], batch.way), LOWEST)
        for row, where, support, label, query, _ in each_task(batch):
            fresh = copy.deepcopy(self._estimator)
            if getattr(fresh, "random_state", 0) is None:
                fresh.random_state = int(batch.seeds[row]) % 2**32
            try:
                classes, scores = _fit_and_score(fresh, support.cpu(), label.cpu(), query.cpu())
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
    """Fit a classifier; return the classes that have support [C] and the scores [Q, C] in their order."""
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
