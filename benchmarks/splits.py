"""ATG splits: L-BFGS with the closed-form gradient against 7,000 SGD steps in PyTorch, and what R does to accuracy.

Speed and exactness: made-up class means of 640 numbers (like those after a ReLU), 100, 608 and 1,000 classes, all four
published R, both from the same random start, in processor seconds on one thread. Wanted: at least 100 × at 100 classes
and 30 × at 1,000; J no higher than SGD's, D within 1 % of R; 21,841 classes of 768 numbers under a minute.
Where SGD diverges it is stopped after 500 steps and its time is fourteen times theirs. The last two rows give it a step
size that does not diverge.

Accuracy: which mode makes few-shot accuracy on the test classes fall with R? On features of real images: ProtoNet on
frozen features (which never saw the train classes, so it shows only how alike the test classes are), and ProtoNet
after a linear discriminant analysis of the train classes (the cheapest thing that learns from them: transfer).

    python -m benchmarks splits                                     speed and growth, about 10 minutes
    python -m benchmarks.splits speed --classes 1000                one part: speed, growth or accuracy
    python -m benchmarks.splits accuracy DATASET… --backbone NAME   on datasets of your own
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh

from longshot.splits.assign import assign, part_sizes
from longshot.splits.divergences import gap
from longshot.splits.objective import SplitObjective
from longshot.splits.optimise import minimise, random_start
from longshot.splits.principal import on_axis
from longshot.splits.sgd import MOMENTUM, STEP_SIZE, STEPS, published_loss

Array = NDArray[np.float64]
PUBLISHED = (0.04, 0.32, 0.64, 0.96)
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


def proto(rows: NDArray[np.float32], offsets: NDArray[np.int64], classes: NDArray[np.int64]) -> float:
    """Mean accuracy in % of ProtoNet over 600 tasks of 5 ways, 5 shots, 10 queries."""
    rng, sizes, right = np.random.default_rng(0), np.diff(offsets), []
    able = classes[sizes[classes] >= 15]
    for _ in range(600):
        picked = [offsets[c] + rng.permutation(sizes[c])[:15] for c in rng.choice(able, 5, replace=False)]
        means = np.stack([rows[r[:5]].mean(0) for r in picked])
        queries = np.concatenate([rows[r[5:]] for r in picked])
        nearest = ((means**2).sum(1) - 2 * queries @ means.T).argmin(1)
        right.append((nearest == np.repeat(np.arange(5), 10)).mean())
    return 100 * float(np.mean(right))


def discriminants(rows: NDArray[np.float32], offsets: NDArray[np.int64], train: NDArray[np.int64]) -> Array:
    """[d, k] linear discriminants of the train classes, k = 128 at most; the within-class covariance shrunk by 0.1."""
    means = np.stack([rows[offsets[c] : offsets[c + 1]].mean(0) for c in train])
    inner = np.concatenate([rows[offsets[c] : offsets[c + 1]] - m for c, m in zip(train, means, strict=True)])
    within = (inner.T @ inner / len(inner)).astype(np.float64)
    within += 0.1 * np.trace(within) / len(within) * np.eye(len(within))
    outer = (means - means.mean(0)).astype(np.float64)
    size, axes = len(within), min(128, len(train) - 1)
    return np.asarray(eigh(outer.T @ outer / len(means), within, subset_by_index=[size - axes, size - 1])[1])


def accuracy(datasets: list[str], backbone: str, repeats: int = 5) -> None:
    """Test accuracy against R for each mode; random modes are means over ``repeats`` seeds."""
    from longshot.datasets import open_dataset
    from longshot.features.extract import embed
    from longshot.splits.build import SplitRecipe, Splitter

    modes = {
        "paper, axis start": SplitRecipe(mode="paper"),
        "paper, random start": SplitRecipe(mode="paper", start="random"),
        "principal, sorted": SplitRecipe(assignment="sorted"),
        "principal, drawn": SplitRecipe(),
    }
    targets = (*PUBLISHED, 1.28, 4.0)
    for name in datasets:
        dataset = open_dataset(name)
        features = embed(dataset, backbone)
        splitter = Splitter(dataset, features)
        rows = np.asarray(features.array, np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        print(f"{dataset.name}, {backbone}, {len(dataset.class_ids)} classes: frozen / discriminants / gap")
        print("mode                 " + "".join(f"R = {r:<18g}" for r in targets))

        def judge(
            train: NDArray[np.int64],
            test: NDArray[np.int64],
            rows: NDArray[np.float32] = rows,
            s: Splitter = splitter,
        ) -> tuple[float, float, float]:
            offsets = s.features.offsets
            learnt = rows @ discriminants(rows, offsets, train).astype(np.float32)
            return proto(rows, offsets, test), proto(learnt, offsets, test), gap(s.embeddings, train, test)

        for mode, recipe in modes.items():
            seeds = range(repeats) if mode in ("paper, random start", "principal, drawn") else range(1)
            cells, judged = [], {}
            for target in targets:
                scores = []
                for seed in seeds:
                    split = splitter.split(target, SplitRecipe(**{**vars(recipe), "seed": seed}))
                    if split.test not in judged:
                        judged[split.test] = judge(
                            split.classes(dataset, "train"), split.classes(dataset, "test")
                        )
                    scores.append(judged[split.test])
                cells.append(np.mean(scores, 0))
            print(
                f"{mode:<21}" + "".join(f"{a:5.1f} / {b:5.1f} / {g:.2f}  " for a, b, g in cells), flush=True
            )
        sizes = part_sizes(len(dataset.class_ids))
        partitions = [assign(np.zeros(sum(sizes)), sizes, seed) for seed in range(repeats)]
        a, b, g = np.mean([judge(train, test) for train, _, test in partitions], 0)
        print(f"{'random':<21}{a:5.1f} / {b:5.1f} / {g:.2f}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    speed()
    growth()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["speed", "growth", "accuracy"])
    parser.add_argument("datasets", nargs="*", default=["toybox"])
    parser.add_argument("--backbone", default="efficientnet-lite0")
    parser.add_argument("--classes", type=int, nargs="+", default=[100, 608, 1000], help="of the part speed")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.part == "accuracy":
        accuracy(chosen.datasets or ["toybox"], chosen.backbone)
    elif chosen.part == "speed":
        speed(tuple(chosen.classes))
    else:
        growth()
