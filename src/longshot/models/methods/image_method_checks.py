"""The common test of methods that need images and a network: made-up pictures, a small network, the same rules.

As in ``method_checks.py``, a check raises CheckFailed with one sentence; a method may refuse a kind of task with a
UserError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from longshot.base import ImageTask
from longshot.models.methods.base import LOWEST, ImageMethod
from longshot.models.methods.method_checks import Kept, alike, demand, may_refuse, run_all
from longshot.models.networks.base import Network

_SIDE = 16
IMAGE_TOLERANCE = 2e-2  # relative: a hundred steps of Adam carry rounding far where a gradient vanishes


class SmallNetwork(Network):
    """Patches, one block of attention, a batch norm: something for every method to adapt. d = 24, maps 4 × 4."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.call, self.size, self.dim = "small", (_SIDE, _SIDE), 24
        self.patches = nn.Conv2d(3, 24, 4, 4)
        self.norm = nn.BatchNorm2d(24)
        self.before = nn.LayerNorm(24)
        self.qkv = nn.Linear(24, 72)
        self.proj = nn.Linear(24, 24)
        generator = torch.Generator().manual_seed(seed)
        for layer in (self.patches, self.qkv, self.proj):
            assert layer.bias is not None
            nn.init.normal_(layer.weight, std=layer.weight[0].numel() ** -0.5, generator=generator)
            nn.init.zeros_(layer.bias)
        self.eval().requires_grad_(False)

    def maps(self, images: Tensor) -> Tensor:
        """Compute maps of images: [B, 3, 16, 16] → [B, 24, 4, 4]."""
        maps: Tensor = torch.relu(self.norm(self.patches(images)))
        tokens = maps.flatten(2).transpose(1, 2)
        query, key, value = self.qkv(self.before(tokens)).chunk(3, dim=2)
        mixed = (query @ key.transpose(1, 2) / 24**0.5).softmax(2) @ value
        together: Tensor = tokens + self.proj(mixed)
        return together.transpose(1, 2).reshape(maps.shape)


def make_task(shots: list[int], queries: list[int], seed: int = 0) -> tuple[ImageTask, Tensor]:
    """Make a task of noisy pictures, one pattern per class (entry of ``shots``), and its query labels [Q]."""
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randn(len(shots), 3, _SIDE, _SIDE, generator=generator)

    def pictures(labels: Tensor) -> Tensor:
        return patterns[labels] + 0.7 * torch.randn(len(labels), 3, _SIDE, _SIDE, generator=generator)

    support_label, query_label = (
        torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        for counts in (shots, queries)
    )
    task = ImageTask(
        support=pictures(support_label),
        support_label=support_label,
        query=pictures(query_label),
        way=len(shots),
        seed=seed,
        index=seed,
    )
    return task, query_label


def run_image_method(
    method: ImageMethod, tasks: list[ImageTask], network: Network | None = None
) -> list[Tensor]:
    """Score tasks, at most ``at_once`` at a time, and check shapes; open settings take the middle candidate."""
    candidates = method.candidates()
    settled = candidates[len(candidates) // 2] if candidates else method
    shared = network or SmallNetwork()
    task_scores: list[Tensor] = []
    with torch.no_grad():
        for start in range(0, len(tasks), method.at_once):
            task_scores += settled.scores(tasks[start : start + method.at_once], shared)
    for task, scores in zip(tasks, task_scores, strict=True):
        shape = (len(task.query), task.way)
        demand(tuple(scores.shape) == shape, f"scores have the shape {tuple(scores.shape)}, not {shape}")
        demand(not scores.requires_grad, "scores still carry a gradient")
    return task_scores


def check_learns(method: ImageMethod) -> None:
    """Require accuracy far above chance on easy tasks."""
    made = [make_task([5] * 3, [6] * 3, seed) for seed in range(3)]
    all_scores = run_image_method(method, [task for task, _ in made])
    hits = [scores.argmax(1) == label for scores, (_, label) in zip(all_scores, made, strict=True)]
    accuracy = float(torch.cat(hits).float().mean())
    demand(accuracy > 0.6, f"accuracy on easy 3-way tasks is {accuracy:.2f}, not above 0.60")


def check_determinism(method: ImageMethod) -> None:
    """Require the same bits from the same call, with random numbers from the task's seed alone."""
    tasks = [make_task([3] * 3, [2] * 3, 1)[0]]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first = run_image_method(method, tasks)[0]
        torch.manual_seed(2)
        second = run_image_method(method, tasks)[0]
    demand(torch.equal(first, second), "two runs on the same task differ")


def check_network_kept(method: ImageMethod) -> None:
    """Require that the shared network stays as it was: weights, statistics, mode, no gradients."""
    network = SmallNetwork()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    modes = [module.training for module in network.modules()]
    run_image_method(method, [make_task([2] * 3, [2] * 3, 2)[0]], network)
    after = network.state_dict()
    demand(after.keys() == before.keys(), "the shared network has other parameters after the call")
    same = all(torch.equal(before[name], after[name]) for name in before)
    demand(same, "the shared network's weights or statistics changed")
    demand([module.training for module in network.modules()] == modes, "the shared network's mode changed")
    untouched = all(p.grad is None and not p.requires_grad for p in network.parameters())
    demand(untouched, "the shared network's parameters were left with gradients")


def check_input_kept(method: ImageMethod) -> None:
    """Require that the method does not write into the images it is given."""
    task, _ = make_task([2] * 3, [2] * 3, 3)
    support, query = task.support.clone(), task.query.clone()
    run_image_method(method, [task])
    demand(
        torch.equal(support, task.support) and torch.equal(query, task.query),
        "the method writes into its input",
    )


def check_class_order(method: ImageMethod) -> None:
    """Require that renaming the classes of a task renames the columns of its scores."""
    task, _ = make_task([4, 2, 3], [3, 3, 3], 4)
    new = torch.tensor([2, 0, 1])
    order = new[task.support_label].argsort(stable=True)  # support comes sorted by label
    renamed = replace(task, support=task.support[order], support_label=new[task.support_label][order])
    before, after = run_image_method(method, [task])[0], run_image_method(method, [renamed])[0]
    _alike(before, after[:, new], "the order of classes")


def check_setting(method: ImageMethod) -> None:
    """Require that a method marked inductive does not look at the other queries."""
    if method.setting == "transductive":
        return
    task, _ = make_task([3] * 3, [4] * 3, 5)
    fewer = replace(task, query=task.query[::3])
    before, after = run_image_method(method, [task])[0], run_image_method(method, [fewer])[0]
    _alike(before[::3], after, "leaving out other queries (in a method marked inductive)")


def check_together(method: ImageMethod) -> None:
    """Require that tasks handed over together score as they do alone."""
    if method.at_once == 1:
        return
    tasks = [make_task([2] * 3, [2] * 3, seed)[0] for seed in range(min(method.at_once, 3))]
    for together, task in zip(run_image_method(method, tasks), tasks, strict=True):
        _alike(run_image_method(method, [task])[0], together, "other tasks beside it")


@may_refuse
def check_absent_class(method: ImageMethod) -> None:
    """Require the lowest score for a class without support, or a refusal with its reason."""
    task, _ = make_task([3, 0, 2, 2], [2, 2, 2, 2], 6)
    scores = run_image_method(method, [task])[0]
    demand(bool((scores[:, 1] == LOWEST).all()), "a class without support has a score above −∞")
    demand(bool(scores[:, [0, 2, 3]].isfinite().all()), "an absent class makes other scores infinite")


def check_single_shot(method: ImageMethod) -> None:
    """Require finite scores from one support image per class."""
    scores = run_image_method(method, [make_task([1] * 4, [2] * 4, 7)[0]])[0]
    demand(bool(scores.isfinite().all()), "scores of a one-shot task are not finite")


def _alike(first: Tensor, second: Tensor, change: str) -> None:
    alike(first.numpy(), second.numpy(), change, IMAGE_TOLERANCE)


IMAGE_CHECKS: dict[str, Callable[[ImageMethod], str | None]] = {
    "learns": check_learns,
    "determinism": check_determinism,
    "network kept": check_network_kept,
    "input kept": check_input_kept,
    "class order": check_class_order,
    "setting": check_setting,
    "together": check_together,
    "absent class": check_absent_class,
    "single shot": check_single_shot,
}


def run_image_checks(method: ImageMethod) -> Iterator[Kept]:
    """Run every check of a method on images, one after the other."""
    return run_all(method, IMAGE_CHECKS)
