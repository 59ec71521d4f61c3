"""The self-test behind ``longshot.doctor``: what computes here gives the numbers of the reference.

Every method, objective of selection, engine and way of training in the registries computes something small twice: on
the CPU in double precision (the reference), and on the device in the precision that users get. A check compares the two
numbers by number: the largest difference, relative to the largest number (at least 1), must stay below its tolerance.
``longshot.check_method`` asks the same of one method: its promises, one by one.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from longshot.api.installation import installed
from longshot.base import progress

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from longshot.base import ImageTask
    from longshot.models import ImageMethod, Method

REFERENCE = "the CPU in double precision"
_PACKAGES = ("torch", "numpy", "onnxruntime", "openvino", "timm", "transformers")
_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[\\/][^\s\\/:'\"]+){2,}")  # what names folders of the user

_PRODUCTS = {  # operations that want operands of one type
    *("matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "linear", "cdist"),
    *("index_add", "index_add_", "scatter_add", "solve"),
}

_WAYS: dict[str, dict[str, Any]] = {  # of selection, with the settings of ``select``
    "one step": {},
    "easy": {"largest": False},
    "refined": {"refine": 2, "greedy": 1},
    "from random weights": {"start": "random", "steps": 3},
}

# device and type of floating-point numbers → what was computed, as any number of tensors
Compute: TypeAlias = Callable[["torch.device", "torch.dtype"], "list[Tensor]"]


class Absent(Exception):
    """What a check needs is not here; the sentence says what."""


@dataclass(frozen=True)
class Check:
    """Something that computes, and how far it may be from the reference."""

    kind: str  # method, selection, engine or training
    name: str
    tolerance: float
    compute: Compute


@dataclass(frozen=True)
class Outcome:
    """How a check went: "ok", "differs" (beyond the tolerance), "failed" or "absent" (both with the reason)."""

    kind: str
    name: str
    state: str
    difference: float | None
    tolerance: float
    seconds: float  # on the device, the first call included
    reason: str = ""

    @property
    def detail(self) -> str:
        """Write one line for people."""
        if self.difference is None:
            return self.reason
        return f"differs by {self.difference:.1e}, at most {self.tolerance:.0e} allowed; {self.seconds:.2f} s"


def run_selftest(device: torch.device) -> list[Outcome]:
    """Run every check on ``device``, with progress."""
    from longshot.evaluation import one_thread

    checks = list(all_checks())
    with progress("selftest", total=len(checks), unit="checks") as bar, one_thread(device):
        outcomes = []
        for check in checks:
            outcomes.append(run_check(check, device))
            bar.advance()
    return outcomes


def run_check(check: Check, device: torch.device) -> Outcome:
    """Compute on the device and by the reference, and compare."""
    import torch

    def outcome(state: str, seconds: float, difference: float | None = None, reason: str = "") -> Outcome:
        return Outcome(check.kind, check.name, state, difference, check.tolerance, seconds, reason)

    began = time.perf_counter()
    try:
        values = check.compute(device, torch.float32)
        seconds = time.perf_counter() - began
        difference = largest_difference(reference(check), values)
    except Absent as reason:
        return outcome("absent", 0.0, reason=str(reason))
    # whatever goes wrong on a machine that nobody here has seen is what is asked for
    except Exception as error:
        return outcome("failed", time.perf_counter() - began, reason=_reason(error))
    if difference == float("inf"):
        return outcome("differs", seconds, reason="other shapes, or infinite in other places")
    return outcome("ok" if difference <= check.tolerance else "differs", seconds, difference)


def reference(check: Check) -> list[Tensor]:
    """Compute the check on the CPU in double precision.

    Code that wants single precision by name gets double all the same: inside, ``.float()`` leaves doubles alone, and
    where single and double meet in a product or a solution, both are double.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            return value.double()
        return type(value)(map(widen, value)) if type(value) in (list, tuple) else value

    class Double(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            tensors = [value for value in args if isinstance(value, torch.Tensor)]
            if any(tensor.dtype == torch.float64 for tensor in tensors):
                if name == "float":
                    return args[0]
                if name in _PRODUCTS:
                    args = tuple(map(widen, args))
            return func(*args, **(kwargs or {}))

    with Double():
        return check.compute(torch.device("cpu"), torch.float64)


def largest_difference(exact: list[Tensor], values: list[Tensor]) -> float:
    """Compute the largest |a − b| / max(1, max |a|) over all pairs of tensors; ∞ where shapes or infinities differ."""
    worst = 0.0
    for expected, value in zip(exact, values, strict=True):
        first, second = expected.detach().cpu().double(), value.detach().cpu().double()
        if first.shape != second.shape or not bool((first.isfinite() == second.isfinite()).all()):
            return float("inf")
        finite = first.isfinite()
        if bool(finite.any()):
            room = max(1.0, float(first[finite].abs().max()))
            worst = max(worst, float((first[finite] - second[finite]).abs().max()) / room)
    return worst


def write_report(outcomes: list[Outcome], device: torch.device, path: Path) -> Path:
    """Write versions, hardware and outcomes as JSON, without paths or names of this machine or its user."""
    import torch

    from longshot.base import deliver_text

    name: str = device.type
    if name == "cuda":
        name = f"cuda, {torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}"
    versions = {package: installed(package) for package in _PACKAGES}
    facts = {
        "reference": REFERENCE,
        "device": name,
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "instructions": torch.backends.cpu.get_cpu_capability(),
        },
        "versions": {
            "longshot": installed("longshot"),
            "python": platform.python_version(),
            **{package: version for package, version in versions.items() if version is not None},
        },
        "checks": [asdict(outcome) for outcome in outcomes],
    }
    deliver_text(path, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    return path


def _reason(error: Exception) -> str:
    """Return the kind of error and the first line of what it says; folders are left out."""
    line = (str(error).strip().splitlines() or ["without a word"])[0]
    return f"{type(error).__name__}: {_PATH.sub('…', line)}"


# ---- what is checked: everything in the registries


def all_checks() -> Iterator[Check]:
    """List one check per registered method, objective and way of selection, engine, and way of training."""
    from longshot.base import engine_names
    from longshot.models import IMAGE_TOLERANCE, Method, get_method, image_method_names, method_names
    from longshot.tasks import OBJECTIVES
    from longshot.training import algorithm_names

    for name in method_names():
        method = get_method(name)
        assert isinstance(method, Method)
        yield Check("method", name, 10 * method.tolerance, partial(_feature_scores, method))
    for name in image_method_names():
        yield Check("method", name, IMAGE_TOLERANCE, partial(_image_scores, get_method(name)))
    for name in OBJECTIVES:
        for way, settings in _WAYS.items():
            yield Check("selection", f"{name}, {way}", 1e-3, partial(_selected, name, settings))
    for name in engine_names():
        yield Check("engine", name, 1e-4, partial(_embedded, name))
    for name in algorithm_names():
        yield Check("training", name, 1e-3, partial(_step, name))


def _feature_scores(method: Any, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    import torch

    from longshot.models import Gatherer, World, padded_batches, task_rows

    world, generator = World.make(), np.random.default_rng(3)
    shots = ([5] * 5, [1, 4, 2])
    tasks = [world.task(generator, counts, [6] * len(counts)) for counts in shots for _ in range(3)]
    scores = []
    with torch.no_grad():
        for _, batch, _ in padded_batches(task_rows(tasks), method, Gatherer([world.features], device), None):
            exact = replace(batch, support=batch.support.to(dtype), query=batch.query.to(dtype))
            scores.append(_relative(method.scores(exact))[exact.query_mask])
    return scores


def _relative(scores: Tensor) -> Tensor:
    """Subtract the best score of each query: a constant per query changes neither predictions nor probabilities."""
    return scores - scores.max(-1, keepdim=True).values


def _image_scores(method: Any, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    from longshot.models import SmallNetwork, make_task, run_image_method

    tasks = [
        _on(device, dtype, make_task([3] * 3, [4] * 3, seed)[0]) for seed in range(min(method.at_once, 2))
    ]
    return [_relative(scores) for scores in run_image_method(method, tasks, SmallNetwork().to(device, dtype))]


def _selected(
    objective: str, settings: dict[str, Any], device: torch.device, dtype: torch.dtype
) -> list[Tensor]:
    """Compute the query loss of the selected supports [T]."""
    import torch

    from longshot.models import World
    from longshot.tasks import FeatureTable, make_objective, query_tasks, select

    world, generator = World.make(), np.random.default_rng(4)
    count = len(world.features) // world.per_class
    classes = [generator.permutation(count)[:5].tolist() for _ in range(4)]
    queries = [
        [(label * world.per_class + generator.permutation(world.per_class)[:4]).tolist() for label in task]
        for task in classes
    ]
    tasks = query_tasks(classes, [[3] * 5] * 4, queries)
    offsets = np.arange(count + 1) * world.per_class

    class Table(FeatureTable):
        def _read(self, rows: Any) -> Tensor:
            return super()._read(rows).to(dtype)

    table = Table(world.features, offsets, device=device)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        return [torch.from_numpy(select(table, tasks, make_objective(objective), **settings).loss)]
    finally:
        torch.set_default_dtype(before)


def _embedded(engine: str, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """Embed made-up pixels by a small network; the reference is PyTorch's, whatever the engine."""
    import torch

    from longshot.base import RUNTIMES, missing_modules, parse_preprocessing
    from longshot.models import export_onnx, get_network, open_session

    network = get_network("cnn4(width=8)", size=(32, 32), seed=0).eval()
    transform = parse_preprocessing("decode|resize(32,32)|normalize(0.5,0.5)")
    pixels = np.random.default_rng(5).integers(0, 256, (4, 32, 32, 3), np.uint8)
    if engine in RUNTIMES and dtype == torch.float32:
        if missing_modules(engine):
            raise Absent(f"{' and '.join(missing_modules(engine))} is not installed")
        if device.type != "cpu":
            raise Absent("it computes on CPUs only")
        exported = export_onnx(
            network, lambda module, images: module(images), transform, len(pixels), strict=True
        )
        return [torch.from_numpy(open_session(engine, exported)(pixels))]
    images = transform.values(torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).to(dtype))
    with torch.no_grad():
        return [network.to(device, dtype)(images)]


def _step(name: str, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """Compute loss and gradients of one step on made-up images."""
    import torch

    from longshot.models import get_network
    from longshot.training import ImageBatch, get_algorithm

    algorithm = get_algorithm(name)
    with torch.random.fork_rng(devices=[]):  # what is learned beside the network may start at random
        torch.manual_seed(0)
        network = get_network(algorithm.network("cnn4(width=8)"), size=(16, 16), seed=0)
        for key, value in algorithm.extras(network, 4).items():
            network.extras[key] = torch.nn.Parameter(value.detach().clone())
        algorithm.begin(network)
        network = network.to(device, dtype).train()
        if algorithm.episodic:
            data: Any = [_episode(seed, device, dtype) for seed in range(2)]
        else:
            episode = _episode(0, device, dtype)
            data = ImageBatch(episode.query, episode.query_label % 4)
        loss = algorithm.loss(network, data).loss
    loss.backward()  # type: ignore[no-untyped-call]
    slopes = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    return [loss, *slopes]


def _episode(seed: int, device: torch.device, dtype: torch.dtype) -> Any:
    from longshot.base import Episode
    from longshot.models import make_task

    task, query_label = make_task([2] * 5, [3] * 5, seed)
    placed = _on(device, dtype, task)
    return Episode(
        placed.support, placed.support_label, placed.query, task.way, query_label=query_label.to(device)
    )


def _on(device: torch.device, dtype: torch.dtype, task: ImageTask) -> ImageTask:
    """Move the images and labels of a task to the device."""
    return replace(
        task,
        support=task.support.to(device, dtype),
        support_label=task.support_label.to(device),
        query=task.query.to(device, dtype),
    )


# ---- the common test of a method


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
