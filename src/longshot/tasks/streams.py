"""Random streams, one per task and stage: every number is a pure function of (seed, task, stage, line, draw).

Nothing is consumed in order, so neither the number of workers nor the size of a block can change a draw, and
a stage that draws more does not disturb another.

The key of a stream is what NumPy's own ``SeedSequence((seed, salt …), spawn_key=(task, stage, attempt))``
generates (two 64-bit words), computed for all tasks at once. Word number c of a stream is ``mix(mix(k₀ + c·γ)
⊕ k₁)`` with SplitMix64's finaliser as ``mix``: a counter-based generator, so words can be asked for in any
order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.base import Floats, Ints, Ragged, offsets_of

Words: TypeAlias = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio, odd
_MASK32 = np.uint64(0xFFFFFFFF)
_SPARSE = 24  # up to this many draws without replacement, moved cards are looked up rather than laid out
_CHUNK_LINES = 1 << 13  # lines worked on at a time: the arrays stay in the cache
_CHUNK_CARDS = 1 << 20  # cards laid out at a time


@dataclass(frozen=True, eq=False)
class Streams:
    """The streams of some tasks of one testbed. ``tasks`` [T] are task numbers below 2³².

    ``salt`` tells datasets apart (32-bit words of the fingerprint), ``attempt`` counts redraws of these
    tasks.
    """

    seed: int
    tasks: Ints
    salt: tuple[int, ...] = ()
    attempt: int = 0

    @classmethod
    def of(cls, seed: int, tasks: int | ArrayLike, fingerprint: str = "") -> Streams:
        """Return the streams of tasks 0 … ``tasks`` − 1 (or of the given task numbers) on one dataset."""
        numbers = np.arange(tasks) if isinstance(tasks, int) else np.asarray(tasks, dtype=np.int64)
        digest = hashlib.sha256(fingerprint.encode()).digest()
        return cls(seed, numbers, tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)))

    def __len__(self) -> int:
        return len(self.tasks)

    def take(self, positions: ArrayLike | slice, attempt: int | None = None) -> Streams:
        """Return the streams of some of these tasks, by position; with ``attempt`` those of a redraw."""
        index = positions if isinstance(positions, slice) else np.asarray(positions, dtype=np.int64)
        return Streams(self.seed, self.tasks[index], self.salt, self.attempt if attempt is None else attempt)

    def stage(self, name: str) -> Stream:
        """Return one line of random words per task, [T]."""
        return Stream(*self._keys(name), np.zeros(len(self), dtype=np.uint64))

    def slots(self, name: str, rows: Ragged) -> Stream:
        """Return one line per value of ``rows`` (say, per class of a task), [M]; line j is a task's j-th value."""
        first, second = self._keys(name)
        lengths = rows.lengths
        return Stream(np.repeat(first, lengths), np.repeat(second, lengths), rows.positions.astype(np.uint64))

    def generator(self, name: str) -> np.random.Generator:
        """Return one generator for all tasks together: for what is sequential by nature."""
        entropy = [self.seed, *self.salt]
        return np.random.default_rng(
            np.random.SeedSequence(entropy, spawn_key=(stage_word(name), self.attempt))
        )

    def _keys(self, name: str) -> tuple[Words, Words]:
        words = seed_words([self.seed, *self.salt], self.tasks, [stage_word(name), self.attempt])
        return words[0], words[1]


@dataclass(frozen=True, eq=False)
class Stream:
    """B lines of random words. Every method is a pure function of the line and the ``draw`` number."""

    first: Words
    second: Words
    line: Words

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def _base(self) -> Words:
        return self.first + (self.line << np.uint64(32)) * _GOLDEN

    def words(self, draw: int = 0) -> Words:
        """Return 64 random bits per line, [B]; ``draw`` below 2³²."""
        step = np.uint64(draw * int(_GOLDEN) & 0xFFFFFFFFFFFFFFFF)
        return _mix(_mix(self._base + step) ^ self.second)

    def uniform(self, draw: int = 0) -> Floats:
        """Draw floats in [0, 1) with 53 random bits, [B]."""
        return (self.words(draw) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, limit: ArrayLike, draw: int = 0) -> Ints:
        """Draw integers in 0 … limit − 1, [B]; ``limit`` (scalar or [B]) between 1 and 2³² − 1.

        The high word of words · limit, computed exactly: the bias is below limit / 2⁶⁴.
        """
        word = self.words(draw)
        n = np.asarray(limit).astype(np.uint64)
        high = (word >> np.uint64(32)) * n + (((word & _MASK32) * n) >> np.uint64(32))
        return (high >> np.uint64(32)).astype(np.int64)

    def choose(self, n: ArrayLike, k: ArrayLike) -> Ragged:
        """Choose ``k`` different numbers out of 0 … n − 1 per line, in random order; ``n``, ``k``: scalar or [B].

        A Fisher–Yates shuffle cut off after k cards. The first j of k cards do not depend on k, so a 1-shot
        support is the beginning of the 5-shot one.
        """
        sizes = np.broadcast_to(np.asarray(n, dtype=np.int64), (len(self),))
        counts = np.broadcast_to(np.asarray(k, dtype=np.int64), (len(self),))
        if np.any(counts > sizes) or np.any(counts < 0):
            bad = int(np.flatnonzero((counts > sizes) | (counts < 0))[0])
            raise ValueError(f"cannot choose {counts[bad]} out of {sizes[bad]}")
        out = Ragged(np.empty(int(counts.sum()), dtype=np.int64), offsets_of(counts))
        sparse = counts <= _SPARSE
        for lines, deal in ((np.flatnonzero(sparse), _deal_sparse), (np.flatnonzero(~sparse), _deal_dense)):
            # Longest first: the lines that still draw are then always the first ones.
            lines = lines[np.argsort(-counts[lines], kind="stable")]
            for part in _chunks(lines, sizes if deal is _deal_dense else None):
                cards = deal(self._take(part), sizes[part], counts[part])
                starts = out.offsets[:-1][part]
                for draw, dealt in enumerate(cards):
                    out.values[starts[: len(dealt)] + draw] = dealt
        return out

    def _take(self, lines: Ints) -> Stream:
        return Stream(self.first[lines], self.second[lines], self.line[lines])

    def _first(self, count: int) -> Stream:
        if count == len(self):
            return self
        return Stream(self.first[:count], self.second[:count], self.line[:count])


def _deal_sparse(stream: Stream, n: Ints, k: Ints) -> list[Ints]:
    """Deal cards by Fisher–Yates, remembering only the moved ones: O(k²) work, no deck of n cards.

    Step j swaps card j with a random card r ≥ j. ``k`` descends; step j deals to the first lines only.
    """
    dealt: list[Ints] = []
    holes: list[Ints] = []  # the places r of former steps …
    moved: list[Ints] = []  # … and the card each place holds since
    for draw in range(int(k[0]) if len(k) else 0):
        live = int(np.searchsorted(-k, -draw, side="left"))
        position = draw + stream._first(live).below(n[:live] - draw, draw)
        card, own = position.copy(), np.full(live, draw, dtype=np.int64)
        for hole, since in zip(holes, moved, strict=True):
            np.copyto(card, since[:live], where=hole[:live] == position)
            np.copyto(own, since[:live], where=hole[:live] == draw)
        dealt.append(card)
        holes.append(position)
        moved.append(own)
    return dealt


def _deal_dense(stream: Stream, n: Ints, k: Ints) -> list[Ints]:
    """Deal the same cards from decks that are laid out: O(n + k) work."""
    decks = Ragged.from_lengths(np.empty(int(n.sum()), dtype=np.int64), n)
    cards, start = decks.positions, decks.offsets[:-1]
    dealt: list[Ints] = []
    for draw in range(int(k[0]) if len(k) else 0):
        live = int(np.searchsorted(-k, -draw, side="left"))
        position = start[:live] + draw + stream._first(live).below(n[:live] - draw, draw)
        card = cards[position]
        cards[position] = cards[start[:live] + draw]
        dealt.append(card)
    return dealt


def _chunks(lines: Ints, sizes: Ints | None) -> list[Ints]:
    """Cut lines into parts that fit the cache, or into parts with a bounded number of laid-out cards."""
    if sizes is None:
        return [lines[start : start + _CHUNK_LINES] for start in range(0, len(lines), _CHUNK_LINES)]
    group = np.cumsum(sizes[lines]) // _CHUNK_CARDS
    return [part for part in np.split(lines, np.flatnonzero(np.diff(group)) + 1) if len(part)]


def _mix(word: Words) -> Words:
    """Mix by SplitMix64's finaliser: a bijection of 64 bits in which every input bit moves every output bit."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def hash_rows(rows: Ragged, salt: int) -> Words:
    """Hash each row as a set to 64 bits: the order of its values does not matter, [T]."""
    marks = _mix((rows.values.astype(np.uint64) + np.uint64(1)) * _GOLDEN + np.uint64(salt))
    total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(marks, dtype=np.uint64)])
    return _mix(total[rows.offsets[1:]] - total[rows.offsets[:-1]] + np.uint64(salt))


def stage_word(name: str) -> int:
    """Return the 32-bit word that stands for a stage's name in a spawn key."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")


def seed_words(entropy: Sequence[int], tasks: Ints, tail: Sequence[int]) -> NDArray[np.uint64]:
    """Compute ``SeedSequence(entropy, spawn_key=(task, *tail)).generate_state(2, uint64)`` for all tasks, [2, T].

    The hash is NumPy's (M. O'Neill's seed_seq_fe, pool of four 32-bit words); equality with it is tested.
    """
    fixed = [word for value in entropy for word in _uint32_words(value)]
    fixed += [0] * (4 - len(fixed))  # as NumPy: a spawn key never slips into the pool's first words
    varying: list[Any] = [*map(np.uint64, fixed), tasks.astype(np.uint64), *map(np.uint64, tail)]
    if len(tasks) and (tasks.min() < 0 or tasks.max() >= 1 << 32):
        raise ValueError("task numbers must be between 0 and 2**32 - 1")
    constant = 0x43B0D7E5

    def hashed(value: Any) -> NDArray[np.uint64]:
        nonlocal constant
        value = value ^ np.uint64(constant)
        constant = constant * 0x931E8875 & 0xFFFFFFFF
        value = value * np.uint64(constant) & _MASK32
        return np.asarray(value ^ (value >> np.uint64(16)))

    def mixed(x: NDArray[np.uint64], y: NDArray[np.uint64]) -> NDArray[np.uint64]:
        # 2⁶⁴ is a multiple of 2³²: wrapping in 64 bits and cutting afterwards is the 32-bit difference.
        value = (x * np.uint64(0xCA01F9DD) - y * np.uint64(0x4973F715)) & _MASK32
        return np.asarray(value ^ (value >> np.uint64(16)))

    with np.errstate(over="ignore"):
        pool = [hashed(value) for value in varying[:4]]
        for source in range(4):
            for target in range(4):
                if source != target:
                    pool[target] = mixed(pool[target], hashed(pool[source]))
        for value in varying[4:]:
            for target in range(4):
                pool[target] = mixed(pool[target], hashed(value))
        constant, state = 0x8B51F9DD, []
        for word in pool:
            value = word ^ np.uint64(constant)
            constant = constant * 0x58F38DED & 0xFFFFFFFF
            value = value * np.uint64(constant) & _MASK32
            state.append(value ^ (value >> np.uint64(16)))
        return np.stack([state[0] | state[1] << np.uint64(32), state[2] | state[3] << np.uint64(32)])


def _uint32_words(value: int) -> list[int]:
    """Return a non-negative integer as 32-bit words, least first; zero is one word."""
    words = [value & 0xFFFFFFFF]
    while value := value >> 32:
        words.append(value & 0xFFFFFFFF)
    return words
