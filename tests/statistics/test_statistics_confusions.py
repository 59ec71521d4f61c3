from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import confusion_matrix

import longshot
from longshot.statistics import confusion, mistakes, most_confused, wilson


@pytest.fixture(scope="module")
def bed(beds: Path) -> longshot.Testbed:
    return longshot.Testbed.load(beds / "any.parquet")


@pytest.fixture(scope="module")
def guesses(bed: longshot.Testbed) -> list[list[int]]:
    """Predictions that are right two times of three."""
    rng = np.random.default_rng(0)
    return [
        [int(label) if rng.random() < 2 / 3 else int(rng.integers(task.way)) for label in task.query_label]
        for task in bed
    ]


class TestCounts:
    def test_equal_scikit_learns(self, bed: longshot.Testbed, guesses: list[list[int]]) -> None:
        found = confusion(bed, np.arange(len(bed)), pa.array(guesses, pa.list_(pa.int16())))
        true = [task.classes[label] for task in bed for label in task.query_label]
        given = [task.classes[place] for task, row in zip(bed, guesses, strict=True) for place in row]
        names = [name for _, name in found.classes]
        assert names == sorted(set(names))
        assert np.array_equal(found.counts.toarray(), confusion_matrix(true, given, labels=names))

    @pytest.mark.parametrize("block", [1 << 22, 50])
    def test_chances_equal_a_plain_loop(
        self, bed: longshot.Testbed, guesses: list[list[int]], block: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("longshot.statistics.confusions._BLOCK", block)
        found = confusion(bed, np.arange(len(bed)), guesses)
        place = {name: i for i, (_, name) in enumerate(found.classes)}
        expected = np.zeros((len(place), len(place)), int)
        for task in bed:
            for label in task.query_label:
                for other in task.classes:
                    expected[place[task.classes[label]], place[other]] += 1
        assert np.array_equal(found.chances.toarray(), expected)

    def test_accuracy_and_rate(self, bed: longshot.Testbed, guesses: list[list[int]]) -> None:
        found = confusion(bed, np.arange(len(bed)), guesses)
        counts, chances = found.counts.toarray(), found.chances.toarray()
        assert found.accuracy() == pytest.approx(np.diag(counts) / np.diag(chances))
        assert found.rate(0, 1) == pytest.approx(counts[0, 1] / chances[0, 1])

    def test_rows_of_two_methods_add_up(self, bed: longshot.Testbed, guesses: list[list[int]]) -> None:
        once = confusion(bed, [3, 4], guesses[3:5])
        twice = confusion(bed, [3, 4, 3, 4], guesses[3:5] * 2)
        assert np.array_equal(2 * once.counts.toarray(), twice.counts.toarray())

    def test_predictions_must_fit(self, bed: longshot.Testbed, guesses: list[list[int]]) -> None:
        with pytest.raises(ValueError, match="one prediction per query"):
            confusion(bed, [0], [guesses[0][:-1]])


def test_same_class_id_in_two_datasets_is_two_classes(bed: longshot.Testbed) -> None:
    table = bed.table.slice(0, 2)
    names = pa.array(["left", "right"]).dictionary_encode()
    table = table.set_column(table.column_names.index("dataset"), "dataset", names)
    two = longshot.Testbed.create(table, datasets={"left": "f1", "right": "f2"}, sampler={}, seed=0)
    labels = [task.query_label.tolist() for task in two]
    found = confusion(two, [0, 1], labels)
    assert len(found.classes) == two[0].way + two[1].way
    assert np.array_equal(found.counts.toarray(), np.diag(found.counts.diagonal()))


class TestPairs:
    def test_the_planted_pair_comes_first(self, bed: longshot.Testbed) -> None:
        one, other = "round/crimson", "square/sienna"
        rows = []
        for task in bed:
            row = task.query_label.tolist()
            if one in task.classes and other in task.classes:
                swap = {task.classes.index(one): task.classes.index(other)}
                row = [swap.get(label, label) for label in row]
            rows.append(row)
        found = confusion(bed, np.arange(len(bed)), rows)
        (pair,) = most_confused(found)
        assert (pair.one, pair.other, pair.other_as_one) == (one, other, 0)
        assert pair.one_as_other == pair.mistakes == int(found.chances[*_places(found, one, other)])
        shown = mistakes(bed, np.arange(len(bed)), rows, pair.dataset, one, other, limit=3)
        assert len(shown) == 3
        for mistake in shown:
            task = bed[mistake.task]
            assert task.classes[task.query_label[task.query.index(mistake.key)]] == one
            assert other in task.classes

    def test_nothing_confused(self, bed: longshot.Testbed) -> None:
        rows = [task.query_label.tolist() for task in bed]
        assert most_confused(confusion(bed, np.arange(len(bed)), rows)) == []

    def test_evidence_counts(self) -> None:
        low, _ = wilson([40, 2], [100, 4])
        assert low[0] > low[1]


def _places(found: object, one: str, other: str) -> tuple[int, int]:
    names = [name for _, name in found.classes]  # type: ignore[attr-defined]
    return names.index(one), names.index(other)


def test_wilson_equals_statsmodels() -> None:
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    hits, trials = np.array([0, 1, 7, 50]), np.array([3, 10, 9, 50])
    low, high = proportion.proportion_confint(hits, trials, method="wilson")
    found = wilson(hits, trials)
    assert found[0] == pytest.approx(low, abs=1e-12)
    assert found[1] == pytest.approx(high, abs=1e-12)
