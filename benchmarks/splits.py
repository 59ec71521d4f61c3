"""Splits: L-BFGS against 7,000 SGD steps in PyTorch, what R does to accuracy, and the cost of a target hardness.

Speed and exactness: made-up class means of 640 numbers (like those after a ReLU), 100, 608 and 1,000 classes, all four
published R, both from the same random start, in processor seconds on one thread. Wanted: at least 100 × at 100 classes
and 30 × at 1,000; J no higher than SGD's, D within 1 % of R; 21,841 classes of 768 numbers under a minute.
Where SGD diverges it is stopped after 500 steps and its time is fourteen times theirs. The last two rows give it a step
size that does not diverge.

Accuracy: which mode makes few-shot accuracy on the test classes fall with R? On features of real images: frozen and
learnt accuracy and transfer loss of the proxy (``tasks/splits/hardness.py``), with random, semantic
and published splits.

Target: processor seconds of a split at a target hardness, with everything it is measured beside. Wanted: under 60 at
100 classes, from cached features.

    python -m benchmarks splits                                     speed and growth, about 10 minutes
    python -m benchmarks.splits speed --classes 1000                one part: speed, growth, accuracy or target
    python -m benchmarks.splits accuracy DATASET… --backbone NAME   on datasets of your own
    python -m benchmarks.splits target DATASET… --backbone NAME
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.tasks.splits.atg import SplitObjective, minimise, on_axis, random_start
from longshot.tasks.splits.embeddings import gap

Array = NDArray[np.float64]
PUBLISHED = (0.04, 0.32, 0.64, 0.96)
STEPS, STEP_SIZE, MOMENTUM = 7_000, 0.1, 0.9  # of the published optimiser
EARLY = 500  # steps after which SGD is looked at


def made_up(classes: int, dim: int = 640, seed: int = 0) -> Array:
    """Class means of features like those after a ReLU, on the unit sphere: a shared profile, groups, noise."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal(dim) * 0.5 - 0.3
    groups = rng.standard_normal((classes, 8)) @ rng.standard_normal((8, dim)) / 6
    means = np.maximum(shared + groups + 0.3 * rng.standard_normal((classes, dim)), 0)
    return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True))


def seconds(work: Callable[[], object]) -> tuple[object, float]:
    """What ``work`` returns, and its processor seconds."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def published_loss(
    objective: SplitObjective, embeddings: torch.Tensor, centroids: torch.Tensor
) -> torch.Tensor:
    """J as published, for autograd: embeddings [M, d], centroids [2, d]."""
    distances = (embeddings**2).sum(1) - 2 * centroids @ embeddings.T + (centroids**2).sum(1, keepdim=True)
    log_p, log_q = torch.log_softmax(-objective.temperature * distances, 1)
    mixture = torch.logaddexp(log_p, log_q) - math.log(2)
    there = (log_p.exp() * (log_p - log_q)).sum()
    if objective.measure == "kl-symmetric":
        divergence = there + (log_q.exp() * (log_q - log_p)).sum()
    elif objective.measure == "kl":
        divergence = there
    else:
        divergence = (centroids[0] - centroids[1]).norm()
    return torch.as_tensor(-mixture.sum() + objective.penalty * (divergence - objective.target) ** 2)


def sgd(objective: SplitObjective, start: Array, step_size: float = STEP_SIZE, steps: int = STEPS) -> Array:
    """The published optimiser in float32, PyTorch's default; it ends early when the centroids have left for good."""
    embeddings = torch.from_numpy(objective.embeddings).float()
    centroids = torch.tensor(start, dtype=torch.float32, requires_grad=True)
    optimiser = torch.optim.SGD([centroids], lr=step_size, momentum=MOMENTUM)
    for step in range(steps):
        optimiser.zero_grad()
        published_loss(objective, embeddings, centroids).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if step + 1 == EARLY and not float(centroids.detach().abs().max()) < 1e6:
            break
    return centroids.detach().double().numpy()


def speed(sizes: tuple[int, ...] = (100, 608, 1000)) -> None:
    """The table of ratios; the last rows give SGD a step size that does not diverge."""
    small = SplitObjective(made_up(10, 20), 0.1)  # imports and first calls are nobody's work
    minimise(small, np.zeros((2, 20)))
    sgd(small, np.ones((2, 20)), steps=10)
    print("classes  R     SGD s   J−M ln M   D        L-BFGS s  J−M ln M   D        ratio")
    for classes in sizes:
        embeddings, ratios = made_up(classes), []
        for target in PUBLISHED:
            objective = SplitObjective(embeddings, target)
            start = random_start(embeddings.shape[1], np.random.default_rng(0))
            slow, slow_seconds = seconds(lambda o=objective, s=start: sgd(o, s))
            fast, fast_seconds = seconds(lambda o=objective, s=start: minimise(o, s))
            with np.errstate(all="ignore"):
                theirs = objective.evaluate(slow)  # type: ignore[arg-type]
            if not theirs.penalised < 1e6:
                slow_seconds *= STEPS / EARLY
            ours = fast.terms  # type: ignore[attr-defined]
            ratios.append(slow_seconds / fast_seconds)
            print(
                f"{classes:7,}  {target:<4}  {slow_seconds:5.1f}   "
                f"{theirs.penalised:<9.2g}  {theirs.divergence:<7.4g}  "
                f"{fast_seconds:7.3f}   {ours.penalised:<9.2g}  {ours.divergence:<7.4g}  {ratios[-1]:5.0f} ×",
                flush=True,
            )
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        goal = {100: "wanted 100", 1000: "wanted 30"}.get(classes, "")
        print(f"{classes:7,}  geometric mean {mean:.0f} ×, least {min(ratios):.0f} ×  {goal}")
    for classes in (size for size in sizes if size > 100):
        gentle = SplitObjective(made_up(classes), 0.96)
        start = random_start(640, np.random.default_rng(0))
        terms = gentle.evaluate(sgd(gentle, start, step_size=0.01))
        outcome = f"J−M ln M {terms.penalised:.2g}, D {terms.divergence:.4g}"
        print(f"{classes:7,}  0.96  SGD with step size 0.01: {outcome}", flush=True)


def growth() -> None:
    """Seconds of both modes as the number of classes grows, to ImageNet-21k's."""
    print("classes  dimensions  principal s  paper s  steps  D at R = 0.64")
    for classes, dim in ((1_000, 768), (5_460, 768), (21_841, 768)):
        objective = SplitObjective(made_up(classes, dim), 0.64)
        placed, axis_seconds = seconds(lambda o=objective: on_axis(o))
        fitted, paper_seconds = seconds(lambda o=objective, p=placed: minimise(o, p.centroids))  # type: ignore[attr-defined]
        print(
            f"{classes:7,}  {dim:10,}  {axis_seconds:11.2f}  {paper_seconds:7.2f}  "
            f"{fitted.steps:5,}  {fitted.terms.divergence:.4f}",  # type: ignore[attr-defined]
            flush=True,
        )


def accuracy(datasets: list[str], backbone: str, repeats: int = 5) -> None:
    """How hard splits are at every R of each mode, and references; random modes are means over ``repeats`` seeds."""
    from longshot.data import open_dataset
    from longshot.models import embed
    from longshot.tasks import SplitRecipe, Splitter
    from longshot.tasks.splits.hardness import (
        Hardness,
        measure_hardness,
        reference_splits,
    )
    from longshot.tasks.splits.proxy import Proxy

    modes = {
        "paper, axis start": SplitRecipe(mode="paper"),
        "paper, random start": SplitRecipe(mode="paper", start="random"),
        "principal, sorted": SplitRecipe(assignment="sorted"),
        "principal, drawn": SplitRecipe(),
    }

    def show(label: str, hardness: Hardness, gaps: list[float]) -> None:
        cells = [
            f"{100 * interval.mean:5.1f} ± {100 * (interval.half or 0):<4.1f}"
            for interval in (hardness.frozen, hardness.learnt, hardness.transfer_loss)
        ]
        print(f"{label:<30}{'  '.join(cells)}  {np.mean(gaps):.2f}", flush=True)

    for name in datasets:
        dataset = open_dataset(name)
        features = embed(dataset, backbone)
        splitter, proxy = Splitter(dataset, features), Proxy(features)
        print(f"{dataset.name}, {backbone}, {len(dataset.class_ids)} classes")
        print(f"{'split':<30}frozen        learnt        transfer loss gap")

        def gap_of(parts: dict[str, NDArray[np.int64]], s: Splitter = splitter) -> float:
            return gap(s.embeddings, parts["train"], parts["test"])

        for mode, recipe in modes.items():
            chance = mode in ("paper, random start", "principal, drawn")
            for target in (
                (*PUBLISHED, 1.28, 4.0, 1000.0) if mode == "principal, drawn" else (*PUBLISHED, 4.0)
            ):
                recipes = [
                    SplitRecipe(**{**vars(recipe), "seed": seed}) for seed in range(repeats if chance else 1)
                ]
                draws = [splitter.split(target, each).positions(dataset) for each in recipes]
                hardness = measure_hardness(proxy, draws)
                show(f"{mode}, R = {target:g}", hardness, [gap_of(parts) for parts in draws])
        for label, splits in reference_splits(dataset).items():
            draws = [split.positions(dataset) for split in splits]
            show(label, measure_hardness(proxy, draws), [gap_of(parts) for parts in draws])


def target(datasets: list[str], backbone: str) -> None:
    """Processor seconds of splits at a target hardness, from cached features, and how near they come."""
    from longshot.base import UserError
    from longshot.data import open_dataset
    from longshot.models import embed
    from longshot.tasks import make_split
    from longshot.tasks.splits.hardness import Hardness

    for name in datasets:
        dataset = open_dataset(name)
        features = embed(dataset, backbone)
        wishes: list[dict[str, object]] = [
            {"like": "random"},
            {"like": "semantic"},
            {"harder_than": "random", "by": 5},
            {"harder_than": "random", "by": 15},
            {"learnt_accuracy": 0.65},
        ]
        if len(dataset.class_ids) == 100:
            wishes = [{"like": "fc100"}, {"like": "cifar-fs"}, *wishes]
        print(f"{dataset.name}, {backbone}, {len(dataset.class_ids)} classes, learnt accuracy in %")
        print(f"{'asked for':<28}{'wanted':<8}{'learnt':<13}{'frozen':<13}{'transfer loss':<15}seconds")
        for wish in wishes:
            wish_text = ", ".join(f"{key}={value}" for key, value in wish.items())
            try:
                split, spent = seconds(lambda d=dataset, f=features, w=wish: make_split(d, features=f, **w))  # type: ignore[misc]
            except UserError as error:
                print(f"{wish_text:<28}{error}", flush=True)
                continue
            made = split.made  # type: ignore[attr-defined]
            reached = Hardness.from_record(made["hardness"])
            cells = [
                f"{100 * interval.mean:.1f} ± {100 * (interval.half or 0):.1f}"
                for interval in (reached.learnt, reached.frozen, reached.transfer_loss)
            ]
            accuracy_text = f"{100 * made['target']['learnt_accuracy']:.1f}"
            print(
                f"{wish_text:<28}{accuracy_text:<8}{cells[0]:<13}{cells[1]:<13}{cells[2]:<15}{spent:.1f}",
                flush=True,
            )


def main() -> None:
    torch.set_num_threads(1)
    speed()
    growth()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["speed", "growth", "accuracy", "target"])
    parser.add_argument("datasets", nargs="*", default=["toybox"])
    parser.add_argument("--backbone", default="efficientnet-lite0(size=128)")
    parser.add_argument("--classes", type=int, nargs="+", default=[100, 608, 1000], help="of the part speed")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.part in ("accuracy", "target"):
        measure = accuracy if chosen.part == "accuracy" else target
        measure(chosen.datasets or ["toybox"], chosen.backbone)
    elif chosen.part == "speed":
        speed(tuple(chosen.classes))
    else:
        growth()
