"""A user's own method: a class or a function from a Python file, an object in memory, a classifier of scikit-learn."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from longshot.base import (
    ImageTask,
    TaskBatch,
    TaskShape,
    UserError,
    call_defaults,
    check_settings,
    format_call,
)
from longshot.models.backbones.objects import identify
from longshot.models.methods.base import LOWEST, AnyMethod, ImageMethod, Method, mask_absent
from longshot.models.networks.base import Network

T = TypeVar("T")
_TASK_ARGUMENTS = 4  # of a function: support, support_label, query, way


class MethodError(UserError):
    """A user's method raised or returned something else than scores; never a refusal of a kind of task."""


def own_method(name: str, settings: Mapping[str, Any]) -> Method | ImageMethod:
    """Make the method behind ``file.py:Name``, with its settings."""
    file, _, attribute = name.rpartition(".py")
    path, attribute = Path(f"{file}.py"), attribute.removeprefix(":")
    if not path.is_file():
        raise UserError(
            f"There is no file {path} for the method '{name}'; give its path, as in mine.py:MyMethod."
        )
    code = path.read_bytes()
    definition = _pick(_run_file(path, code), path, attribute)
    made = _from_class if inspect.isclass(definition) else from_function
    return made(definition, f"{path}:{definition.__name__}", path, sha256(code).hexdigest()[:16], settings)


class Own(AnyMethod):
    """A method whose name, settings and identity come from elsewhere than its class."""

    def __init__(self, settings: Mapping[str, Any], defaults: Mapping[str, Any], source: str) -> None:
        self._given, self._defaults, self._source = dict(settings), dict(defaults), source

    @property
    def settings(self) -> dict[str, Any]:
        """Return every setting with the value in use."""
        return {**self._defaults, **self._given}

    @property
    def call(self) -> str:
        """Return the label, or the call as it was asked for, without the settings at their default."""
        return self.label or format_call(self.name, self._given, self._defaults)

    @property
    def identity(self) -> str:
        """Return file name (not its folder), settings, and the hash of what computes."""
        return f"{format_call(Path(self.name).name, self._given, self._defaults)}@{self._source}"


class _FromFile(Own):
    """An object of a class in a user's file (``inner``); its mistakes are told with the lines of that file."""

    def __init__(
        self, inner: Any, path: Path, settings: Mapping[str, Any], defaults: Mapping[str, Any], source: str
    ) -> None:
        super().__init__(settings, defaults, source)
        self._inner, self._path = inner, path

    def _told(self, where: str, call: Callable[[], T]) -> T:
        """Call ``call``; word what it raises with the task (``where``)."""
        try:
            return call()
        except UserError:
            raise
        except Exception as error:
            raise MethodError(f"{self.name} failed on {where}: {own_lines(error, self._path)}") from error

    def _check_scores(self, scores: Any, where: str, shape: tuple[int, ...], axes: str) -> None:
        if not isinstance(scores, Tensor) or tuple(scores.shape) != shape:
            raise MethodError(
                f"{self.name} returned {_describe(scores)} for {where}; a tensor of the shape {shape} "
                f"({axes}) is needed."
            )


# ---- a Python file


def _run_file(path: Path, code: bytes) -> ModuleType:
    """Execute the file as a module of its own; its folder can be imported from, as when it is run by Python."""
    name = f"longshot_own_{sha256(str(path.resolve()).encode() + code).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look the module up
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise MethodError(f"{path} cannot be loaded: {own_lines(error, path)}") from error
    return module


def _pick(module: ModuleType, path: Path, attribute: str) -> Any:
    """Return what ``attribute`` names, or the only method in the file where it names nothing."""
    here = {
        name: value
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
    }
    methods = [
        name for name, value in here.items() if inspect.isclass(value) and issubclass(value, AnyMethod)
    ]
    functions = [name for name, value in here.items() if inspect.isfunction(value)]
    if not attribute:
        choices = methods or functions
        if len(choices) != 1:
            raise UserError(
                f"{path} holds {len(choices)} methods and 1 must be chosen: write {path}:NAME"
                + (f" with one of {', '.join(choices)}." if choices else ".")
            )
        attribute = choices[0]
    if attribute not in vars(module):
        near = get_close_matches(attribute, [*methods, *functions], n=1, cutoff=0.4)
        hint = (
            f"did you mean '{near[0]}'?" if near else f"it holds {', '.join(methods + functions) or 'none'}."
        )
        raise UserError(f"{path} has no method '{attribute}'; {hint}")
    definition = vars(module)[attribute]
    if not (
        inspect.isfunction(definition)
        or (inspect.isclass(definition) and issubclass(definition, Method | ImageMethod))
    ):
        raise UserError(
            f"'{attribute}' in {path} is neither a class derived from longshot.models.Method (or "
            f"longshot.models.ImageMethod) nor a function of (support, support_label, query, way)."
        )
    return definition


def _from_class(
    definition: type[Any], title: str, path: Path, source: str, settings: Mapping[str, Any]
) -> Method | ImageMethod:
    """Wrap the user's class with its settings, under the name of its file."""
    defaults = call_defaults(definition.__init__)
    check_settings(f"The method '{title}'", settings, defaults)
    check_setting(title, getattr(definition, "setting", None))
    try:
        inner = definition(**settings)
    except UserError:
        raise
    except Exception as error:
        raise MethodError(f"{title} cannot be made: {own_lines(error, path)}") from error
    wrapper: type[Any] = _FromImageClass if issubclass(definition, ImageMethod) else _FromClass
    traits = ("setting", "family", "paper", "kind", "version", *wrapper.traits)
    values = {"name": title, **{name: getattr(definition, name) for name in traits}}
    made: Method | ImageMethod = type(definition.__name__, (wrapper,), values)(
        inner, path, settings, defaults, source
    )
    return made


class _FromClass(_FromFile, Method):
    """A user's Method object."""

    traits = ("batch_bytes", "tolerance")

    def floats_per_task(self, shape: TaskShape) -> int:
        """Ask the user's class."""
        return int(self._inner.floats_per_task(shape))

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score by the user's class and check the shape; [B, Q, W]."""
        where = _tasks(batch)
        scores: Tensor = self._told(where, lambda: self._inner.scores(batch))
        shape = (len(batch), batch.query.shape[1], batch.way)
        self._check_scores(scores, where, shape, "tasks, queries, classes")
        return scores


class _FromImageClass(_FromFile, ImageMethod):
    """A user's ImageMethod object."""

    traits = ("at_once", "validation")

    def candidates(self) -> Sequence[ImageMethod]:
        """List the candidates of the user's class, under the same name."""
        made = self._told("candidates", self._inner.candidates)
        return [
            type(self)(candidate, self._path, candidate.settings, self._defaults, self._source)
            for candidate in made
        ]

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        """Score by the user's class and check the shapes; [Q, way] per task."""
        where = f"task {tasks[0].index}"
        returned: Any = self._told(where, lambda: self._inner.scores(tasks, network))
        for task, scores in zip(tasks, returned, strict=False):
            shape = (len(task.query), task.way)
            self._check_scores(scores, f"task {task.index}", shape, "queries, classes")
        if len(returned) != len(tasks):
            raise MethodError(f"{self.name} returned {len(returned)} scores for {len(tasks)} tasks.")
        return list(returned)

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """Ask the user's class."""
        cost = partial(self._inner.flops_per_task, way, support, query, forward)
        return float(self._told("the cost", cost))


def from_function(
    function: Callable[..., Any], title: str, path: Path, source: str, settings: Mapping[str, Any]
) -> Method:
    """Wrap a function of one task with its settings; ``path`` is the file whose lines an error names."""
    signature = list(inspect.signature(function).parameters.values())
    if len(signature) < _TASK_ARGUMENTS or any(p.default is not p.empty for p in signature[:_TASK_ARGUMENTS]):
        raise UserError(
            f"The function {title} takes ({', '.join(p.name for p in signature)}); 4 arguments come first: "
            f"support, support_label, query, way. Settings follow, with defaults."
        )
    defaults = dict(list(call_defaults(function).items())[_TASK_ARGUMENTS:])
    for setting, default in defaults.items():
        if default is inspect.Parameter.empty:
            raise UserError(f"The setting '{setting}' of the function {title} has no default; give it one.")
    check_settings(f"The method '{title}'", settings, defaults)
    # A function is handed all queries of a task: unless it says otherwise, it may have looked at them together.
    setting = getattr(function, "setting", "transductive")
    check_setting(title, setting)
    made: type[_FromFunction] = type(title, (_FromFunction,), {"name": title, "setting": setting})
    return made(function, path, settings, defaults, source)


class _FromFunction(_FromFile, Method):
    """A user's function of one task: f(support [S, d], support_label [S], query [Q, d], way) → scores [Q, way]."""

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score one task at a time; [B, Q, W]."""
        all_scores = batch.query.new_full((len(batch), batch.query.shape[1], batch.way), LOWEST)
        for row, where, support, label, query, way in each_task(batch):
            returned, scores = self._told(where, partial(self._scored, support, label, query, way))
            if tuple(scores.shape) != (len(query), way):
                raise MethodError(
                    f"{self.name} returned {_describe(returned)} for {where}; the shape ({len(query)}, {way}) "
                    f"(queries, classes) is needed."
                )
            all_scores[row, : len(query), :way] = scores
        return mask_absent(all_scores, batch)

    def _scored(self, *task: Any) -> tuple[Any, Tensor]:
        returned = self._inner(*task, **self._given)
        return returned, torch.as_tensor(returned, dtype=torch.float32, device=task[0].device)


def each_task(batch: TaskBatch) -> Iterator[tuple[int, str, Tensor, Tensor, Tensor, int]]:
    """Yield (row, "task 7", support [S, d], labels [S], query [Q, d], way) of every task, without padding."""
    shots = (batch.support_label >= 0).sum(1).tolist()
    queries = batch.query_mask.sum(1).tolist()
    for row, (shot, query, way) in enumerate(zip(shots, queries, batch.ways.tolist(), strict=True)):
        # Copies: a function that works in place must not write into the features of the next method.
        support, label = batch.support[row, :shot].clone(), batch.support_label[row, :shot].clone()
        yield row, _tasks(batch, row), support, label, batch.query[row, :query].clone(), way


def _tasks(batch: TaskBatch, row: int | None = None) -> str:
    """Name tasks for messages: "task 7" or "tasks 0 to 39"."""
    if batch.index is None:
        return "a task" if row is not None else f"a batch of {len(batch)} tasks"
    if row is not None or len(batch) == 1:
        return f"task {int(batch.index[row or 0])}"
    return f"tasks {int(batch.index.min())} to {int(batch.index.max())}"


def _describe(value: Any) -> str:
    if isinstance(value, Tensor) or hasattr(value, "shape"):
        return f"scores of the shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"


def check_setting(title: str, setting: Any) -> None:
    if setting not in ("inductive", "transductive"):
        raise UserError(
            f'{title} has the setting {setting!r}; write setting = "inductive" (one query at a time) or '
            f'"transductive" (may look at the other queries of the task) in it.'
        )


def own_lines(error: Exception, path: Path) -> str:
    """Word an error for its author: "ZeroDivisionError: division by zero" and the lines of the user's file."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).name == path.name:
        text = (error.text or "").strip()
        return f"{type(error).__name__}: {error.msg}\n  {path.name}, line {error.lineno}\n    {text}"
    own = path.resolve()
    lines = [
        f"  {path.name}, line {frame.lineno}, in {frame.name}\n    {frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve() == own
    ]
    return "\n".join([f"{type(error).__name__}: {error}", *lines])


# ---- methods that are objects in memory, and scikit-learn's by import path


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
