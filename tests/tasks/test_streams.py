"""Streams: equal to NumPy's seeding, independent of blocks, uniform and uncorrelated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from longshot.base import Ragged
from longshot.tasks import Streams
from longshot.tasks import streams as module
from longshot.tasks.streams import hash_rows, seed_words, stage_word

# A p-value below this in a fixed-seed test means a broken generator, not bad luck.
ALARM = 1e-4


@given(
    st.lists(st.integers(0, 2**70), min_size=1, max_size=6),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 2**32 - 1), max_size=3),
)
def test_keys_are_those_of_numpys_seed_sequence(entropy: list[int], task: int, tail: list[int]) -> None:
    theirs = np.random.SeedSequence(entropy, spawn_key=(task, *tail)).generate_state(2, np.uint64)
    assert seed_words(entropy, np.array([task]), tail)[:, 0].tolist() == theirs.tolist()


def test_a_stream_uses_the_documented_seed_sequence() -> None:
    streams = Streams.of(7, 3, "fingerprint")
    key = np.random.SeedSequence([7, *streams.salt], spawn_key=(2, stage_word("query"), 0))
    assert streams.stage("query").first[2] == key.generate_state(2, np.uint64)[0]


@given(st.integers(0, 2**40), st.lists(st.integers(0, 10_000), min_size=1, max_size=20))
def test_a_task_does_not_know_its_neighbours(seed: int, tasks: list[int]) -> None:
    together = Streams.of(seed, np.array(tasks), "x").stage("s").words(3)
    alone = [Streams.of(seed, np.array([task]), "x").stage("s").words(3)[0] for task in tasks]
    assert together.tolist() == alone


def test_floats_are_in_the_half_open_unit_interval_and_uniform() -> None:
    values = Streams.of(0, 100_000, "x").stage("u").uniform()
    assert values.min() >= 0 and values.max() < 1
    assert stats.kstest(values, "uniform").pvalue > ALARM


@pytest.mark.parametrize("limit", [2, 7, 160, 1300])
def test_integers_below_a_limit_are_uniform(limit: int) -> None:
    values = Streams.of(1, 200_000, "x").stage("b").below(limit)
    assert stats.chisquare(np.bincount(values, minlength=limit)).pvalue > ALARM


def test_integers_below_the_largest_limit_reach_both_ends() -> None:
    values = Streams.of(1, 50_000, "x").stage("b").below(2**32 - 1)
    assert values.min() < 2**20 and 2**32 - 2**20 < values.max() < 2**32 - 1


def pairs(kind: str) -> tuple[np.ndarray, np.ndarray]:
    streams = Streams.of(5, 200_001, "x")
    stage = streams.stage("a")
    rows = Ragged(np.zeros(400_002, dtype=np.int64), np.arange(0, 400_003, 2))
    by_line = streams.slots("a", rows).uniform().reshape(-1, 2)
    return {
        "neighbouring tasks": lambda: (stage.uniform()[:-1], stage.uniform()[1:]),
        "neighbouring draws": lambda: (stage.uniform(0), stage.uniform(1)),
        "lines of a task": lambda: (by_line[:, 0], by_line[:, 1]),
        "stages": lambda: (stage.uniform(), streams.stage("b").uniform()),
        "seeds": lambda: (stage.uniform(), Streams.of(6, 200_001, "x").stage("a").uniform()),
        "datasets": lambda: (stage.uniform(), Streams.of(5, 200_001, "y").stage("a").uniform()),
        "attempts": lambda: (stage.uniform(), streams.take(slice(None), attempt=1).stage("a").uniform()),
    }[kind]()


KINDS = [
    "neighbouring tasks",
    "neighbouring draws",
    "lines of a task",
    "stages",
    "seeds",
    "datasets",
    "attempts",
]


@pytest.mark.parametrize("kind", KINDS)
def test_two_streams_are_jointly_uniform(kind: str) -> None:
    first, second = pairs(kind)
    cells = np.histogram2d(first, second, bins=32, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(cells.ravel()).pvalue > ALARM


def test_every_bit_is_fair_and_changes_with_the_task() -> None:
    words = Streams.of(3, 65_537, "x").stage("bits").words()
    for sample in (words, words[1:] ^ words[:-1]):
        ones = np.unpackbits(sample.view(np.uint8)).reshape(len(sample), 64).sum(0)
        deviation = (ones - len(sample) / 2) / np.sqrt(len(sample) / 4)
        assert np.abs(deviation).max() < 5


SIZES = st.integers(1, 60)


@settings(deadline=None)
@given(st.integers(0, 2**33), st.lists(st.tuples(SIZES, st.floats(0, 1)), min_size=1, max_size=12), st.data())
def test_choices_are_different_numbers_in_range(seed: int, lines: list, data: st.DataObject) -> None:
    n = np.array([size for size, _ in lines])
    k = np.array([round(size * part) for size, part in lines])
    chosen = Streams.of(seed, len(n), "x").stage("c").choose(n, k)
    assert chosen.lengths.tolist() == k.tolist()
    for line, size in enumerate(n):
        row = chosen.row(line)
        assert len(set(row.tolist())) == len(row) and (not len(row) or (row.min() >= 0 and row.max() < size))


@settings(deadline=None)
@given(st.integers(0, 2**33), st.lists(st.tuples(SIZES, st.floats(0, 1)), min_size=1, max_size=12))
def test_both_ways_of_dealing_deal_the_same_cards(seed: int, lines: list) -> None:
    n = np.array([size for size, _ in lines])
    k = np.array([round(size * part) for size, part in lines])
    order = np.argsort(-k, kind="stable")
    stream = Streams.of(seed, order, "x").stage("c")
    sparse, dense = (deal(stream, n[order], k[order]) for deal in (module._deal_sparse, module._deal_dense))
    assert [cards.tolist() for cards in sparse] == [cards.tolist() for cards in dense]


def test_chunks_change_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    n, k = np.arange(1, 400), np.arange(1, 400) // 3
    stream = Streams.of(2, len(n), "x").stage("c")
    together = stream.choose(n, k)
    monkeypatch.setattr(module, "_CHUNK_LINES", 7)
    monkeypatch.setattr(module, "_CHUNK_CARDS", 500)
    assert np.array_equal(stream.choose(n, k).values, together.values)


def test_fewer_choices_are_the_beginning_of_more() -> None:
    stream = Streams.of(2, 50, "x").stage("c")
    short, many = stream.choose(100, 5).padded(-1), stream.choose(100, 60).padded(-1)
    assert np.array_equal(short, many[:, :5])


@pytest.mark.parametrize(("n", "k"), [(5, 2), (6, 6), (30, 26)])
def test_each_ordered_pair_of_choices_is_equally_likely(n: int, k: int) -> None:
    first, *_, last = Streams.of(4, 60_000, "x").stage("c").choose(n, k).padded(-1).T
    cells = np.bincount(first * n + last, minlength=n * n).reshape(n, n)
    assert np.all(np.diag(cells) == 0)
    assert stats.chisquare(cells[~np.eye(n, dtype=bool)]).pvalue > ALARM


def test_every_subset_is_equally_likely() -> None:
    chosen = np.sort(Streams.of(4, 100_000, "x").stage("c").choose(8, 3).padded(-1), axis=1)
    _, counts = np.unique(chosen, axis=0, return_counts=True)
    assert len(counts) == 56 and stats.chisquare(counts).pvalue > ALARM


def test_more_choices_than_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot choose 4 out of 3"):
        Streams.of(0, 2, "x").stage("c").choose([9, 3], 4)


def test_a_sequential_generator_differs_by_stage() -> None:
    streams = Streams.of(0, 1, "x")
    assert streams.generator("a").random() != streams.generator("b").random()


def test_row_hashes_see_sets() -> None:
    rows = Ragged.from_lists([[1, 2], [2, 1], [1, 3], [], [1]])
    hashes = hash_rows(rows, 1)
    assert hashes[0] == hashes[1] and len(set(hashes.tolist())) == 4
