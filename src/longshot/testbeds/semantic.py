"""Classes by meaning: fine-grained yet balanced tasks, and tasks of a chosen coarsity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from longshot.errors import UserError
from longshot.ragged import Ragged
from longshot.taxonomy.coarsity import coarsity
from longshot.taxonomy.distances import class_distances
from longshot.testbeds.base import Pool, Shape
from longshot.testbeds.streams import Streams

ALPHA, BETA = 0.383, 100.0  # the semantic task-sampling paper's settings
_BAND_ALPHAS = (0.0, 0.2, 0.4, 0.8, 1.6)  # from uniform to very fine: what the coarsity band proposes from
_BAND_ROUNDS = 60


def pool_distances(pool: Pool, distance: str, reduction: str | None) -> NDArray[np.float64]:
    """[P, P] distances between the pool's classes, from the dataset's taxonomy and its image counts.

    Counts are those of the pool's own classes: N(v) counts images of classes that can be drawn.
    """
    taxonomy = pool.dataset.taxonomy
    if taxonomy is None:
        raise UserError(
            f"Dataset '{pool.dataset.name}' has no taxonomy, so its classes have no distances; nest its class "
            "folders (Fruit/Apple, Fruit/Pear …), add a taxonomy.csv or give a parent column."
        )
    counts = pool.sizes[pool.classes]
    return class_distances(taxonomy, pool.class_ids, counts, kind=distance, reduction=reduction)


@dataclass(frozen=True)
class Semantic:
    """Classes close in meaning, every class about equally often.

    P = exp(−alpha · D) with a zero diagonal, n = appearances so far (starting at 1). For each task the first
    class is drawn from exp(−beta · n / max n); further ones from that penalty times P[c] of every class c
    taken. ``oversample`` times as many tasks are drawn, repeated class sets dropped and the wanted number
    kept at random; the counter includes the dropped ones. ``distinct=False`` keeps repeated class sets.
    """

    alpha: float = ALPHA
    beta: float = BETA
    distance: str = "jiang-conrath"
    reduction: str | None = None
    oversample: int = 2
    distinct: bool = True
    name: ClassVar[str] = "semantic"

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not (np.isfinite(value) and value >= 0):
                raise UserError(
                    f"The semantic sampler's {name} is {value}, but must be a number of 0 or more."
                )
        if self.oversample < 1:
            raise UserError(f"The oversampling factor is {self.oversample}, but must be 1 or more.")

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Class numbers of each task, sorted within a task."""
        distances = pool_distances(pool, self.distance, self.reduction)
        wanted = len(streams)
        rng = streams.generator("semantic")
        # A task's number of ways stays with it: the spare draws repeat the shapes of the wanted ones.
        ways = np.tile(shape.ways(streams, np.full(wanted, len(pool.classes))), self.oversample)
        drawn = draw_semantic(distances, ways, rng, alpha=self.alpha, beta=self.beta)
        if not self.distinct:
            chosen = drawn.slice(0, wanted)
        else:
            chosen = drawn.take(self._keep(drawn, distances, wanted, ways, rng, pool))
        return chosen.with_values(pool.classes[chosen.values])

    def _keep(
        self,
        drawn: Ragged,
        distances: NDArray[np.float64],
        wanted: int,
        ways: NDArray[np.int64],
        rng: np.random.Generator,
        pool: Pool,
    ) -> NDArray[np.int64]:
        """Positions of the kept draws: distinct class sets, one for each wanted task, with its ways."""
        first = _first_of_each(drawn)
        if len(first) < wanted:
            raise UserError(
                f"The semantic sampler found only {len(first):,} different class sets of '{pool.dataset.name}' in "
                f"{len(drawn):,} draws, but {wanted:,} tasks were asked for; ask for fewer (--tasks "
                f"{len(first)}), lower --alpha, or allow repeats (--allow-repeats)."
            )
        # Sorted by coarsity before the draw, as the paper does: the result does not depend on drawing order.
        order = first[np.argsort(coarsity(distances, drawn.take(first)), kind="stable")]
        kept = np.sort(rng.choice(order, size=wanted, replace=False))
        if (ways == ways[0]).all():
            return kept
        return _match_ways(kept, first, ways, wanted)


@dataclass(frozen=True)
class CoarsityBand:
    """Tasks whose coarsity lies between ``low`` and ``high``; nothing is said about balance.

    Candidates are proposed by semantic draws (without the balance penalty) at five strengths, from uniform to
    very fine, and those in the band are kept in the order they came.
    """

    low: float = 0.0
    high: float = np.inf
    distance: str = "jiang-conrath"
    reduction: str | None = None
    name: ClassVar[str] = "coarsity-band"

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise UserError(
                f"The coarsity band {self.low:g}:{self.high:g} is empty; give two numbers LO:HI, 0 ≤ LO < HI."
            )

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Class numbers of each task, sorted within a task."""
        distances = pool_distances(pool, self.distance, self.reduction)
        rng = streams.generator("coarsity")
        ways = shape.ways(streams, np.full(len(streams), len(pool.classes)))
        found: dict[int, NDArray[np.int64]] = {}
        seen: set[tuple[int, ...]] = set()
        least, most = np.inf, -np.inf
        for _ in range(_BAND_ROUNDS):
            missing = np.array([t for t in range(len(streams)) if t not in found], dtype=np.int64)
            if not len(missing):
                break
            for alpha in _BAND_ALPHAS:
                drawn = draw_semantic(distances, ways[missing], rng, alpha=alpha, beta=0.0)
                measured = coarsity(distances, drawn)
                least, most = min(least, measured.min()), max(most, measured.max())
                for position in np.flatnonzero((measured >= self.low) & (measured <= self.high)):
                    members = tuple(drawn.row(int(position)).tolist())
                    task = int(missing[position])
                    if task not in found and members not in seen:
                        found[task] = drawn.row(int(position))
                        seen.add(members)
        if len(found) < len(streams):
            proposals = _BAND_ROUNDS * len(_BAND_ALPHAS) * len(streams)
            raise UserError(
                f"Only {len(found):,} of {len(streams):,} tasks of '{pool.dataset.name}' with different classes and a "
                f"coarsity between {self.low:g} and {self.high:g} turned up in {proposals:,} draws: those drawn range "
                f"from {least:.1f} to {most:.1f}; widen --coarsity or ask for fewer tasks."
            )
        rows = Ragged.from_lists([found[t] for t in range(len(streams))])
        return rows.with_values(pool.classes[rows.values])


def draw_semantic(
    distances: NDArray[np.float64],
    ways: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    alpha: float,
    beta: float,
) -> Ragged:
    """Positions 0…C−1 of the classes of each task, sorted; ``ways`` [T] classes each. See ``Semantic``.

    Sequential by nature: the penalty of a task depends on all earlier ones. About 40 µs for five of 160 classes.
    """
    potential = np.exp(-alpha * distances)
    np.fill_diagonal(potential, 0.0)
    count = len(potential)
    appearances = np.ones(count)
    luck = rng.random((len(ways), int(ways.max())))
    rows = []
    for task in range(len(ways)):
        # Subtracting the least appearances scales the whole penalty, which drawing undoes: no underflow.
        chance = np.exp((appearances.min() - appearances) * (beta / appearances.max()))
        taken = np.empty(ways[task], dtype=np.int64)
        for place in range(ways[task]):
            sums = np.cumsum(chance)
            total = sums[-1]
            if not total > 0:
                raise UserError(
                    f"With alpha = {alpha:g} and beta = {beta:g} the chance of every further class vanishes; "
                    "lower --alpha or --beta."
                )
            pick = min(int(np.searchsorted(sums, luck[task, place] * total, side="right")), count - 1)
            taken[place] = pick
            chance *= potential[pick]
        appearances[taken] += 1
        taken.sort()
        rows.append(taken)
    return Ragged.from_lengths(np.concatenate(rows), ways)


def _first_of_each(drawn: Ragged) -> NDArray[np.int64]:
    """Positions of the first occurrence of each class set, ascending (rows are sorted already)."""
    seen: dict[bytes, int] = {}
    for position in range(len(drawn)):
        seen.setdefault(drawn.row(position).tobytes(), position)
    return np.fromiter(seen.values(), dtype=np.int64, count=len(seen))


def _match_ways(
    kept: NDArray[np.int64], first: NDArray[np.int64], ways: NDArray[np.int64], wanted: int
) -> NDArray[np.int64]:
    """With ways that vary, task t keeps its own draw where that is the first of its class set, else a spare one.

    The number of ways of task t must stay the shape's; a spare draw of the same task has it by construction.
    """
    usable = set(first.tolist())
    chosen, rank = [], {int(p): i for i, p in enumerate(kept)}
    for task in range(wanted):
        own = [p for p in range(task, len(ways), wanted) if p in usable]
        if not own:
            raise UserError(
                f"Task {task} with {ways[task]} ways repeats an earlier class set in every draw; lower --alpha or "
                "allow repeats (--allow-repeats)."
            )
        chosen.append(min(own, key=lambda p: (p not in rank, p)))
    return np.array(chosen, dtype=np.int64)
