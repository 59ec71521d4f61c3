from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import softmax
from sklearn.metrics import confusion_matrix

import longshot
from longshot.evaluation import count_confusions, find_mistakes, measure_confidences, shared_queries
from longshot.statistics import Confusion, most_confused


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


class TestConfusions:
    def test_counts_equal_scikit_learns(self, bed: longshot.Testbed, guesses: list[list[int]]) -> None:
        confusions = count_confusions(bed, np.arange(len(bed)), pa.array(guesses, pa.list_(pa.int16())))
        true = [task.classes[label] for task in bed for label in task.query_label]
        predicted = [task.classes[label] for task, row in zip(bed, guesses, strict=True) for label in row]
        names = [name for _, name in confusions.classes]
        assert names == sorted(set(names))
        assert np.array_equal(confusions.counts.toarray(), confusion_matrix(true, predicted, labels=names))

    def test_chances_equal_a_plain_loop(self, bed: longshot.Testbed, guesses: list[list[int]]) -> None:
        confusions = count_confusions(bed, np.arange(len(bed)), guesses)
        number_of = {name: i for i, (_, name) in enumerate(confusions.classes)}
        expected = np.zeros((len(number_of), len(number_of)), int)
        for task in bed:
            for label in task.query_label:
                for other in task.classes:
                    expected[number_of[task.classes[label]], number_of[other]] += 1
        assert np.array_equal(confusions.chances.toarray(), expected)

    def test_accuracy_and_rate(self, bed: longshot.Testbed, guesses: list[list[int]]) -> None:
        confusions = count_confusions(bed, np.arange(len(bed)), guesses)
        counts, chances = confusions.counts.toarray(), confusions.chances.toarray()
        assert confusions.accuracy() == pytest.approx(np.diag(counts) / np.diag(chances))
        assert confusions.rate(0, 1) == pytest.approx(counts[0, 1] / chances[0, 1])

    def test_rows_of_two_methods_add_up(self, bed: longshot.Testbed, guesses: list[list[int]]) -> None:
        once = count_confusions(bed, [3, 4], guesses[3:5])
        twice = count_confusions(bed, [3, 4, 3, 4], guesses[3:5] * 2)
        assert np.array_equal(2 * once.counts.toarray(), twice.counts.toarray())
        assert np.array_equal(2 * once.chances.toarray(), twice.chances.toarray())

    def test_predictions_must_fit(self, bed: longshot.Testbed, guesses: list[list[int]]) -> None:
        with pytest.raises(ValueError, match="one prediction per query"):
            count_confusions(bed, [0], [guesses[0][:-1]])

    def test_same_class_id_in_two_datasets_is_two_classes(self, bed: longshot.Testbed) -> None:
        table = bed.table.slice(0, 2)
        names = pa.array(["left", "right"]).dictionary_encode()
        table = table.set_column(table.column_names.index("dataset"), "dataset", names)
        two = longshot.Testbed.create(table, datasets={"left": "f1", "right": "f2"}, sampler={}, seed=0)
        labels = [task.query_label.tolist() for task in two]
        confusions = count_confusions(two, [0, 1], labels)
        assert len(confusions.classes) == two[0].way + two[1].way
        assert np.array_equal(confusions.counts.toarray(), np.diag(confusions.counts.diagonal()))


class TestPairs:
    def test_the_planted_pair_comes_first(self, bed: longshot.Testbed) -> None:
        true, other = "round/crimson", "square/sienna"
        rows = []
        for task in bed:
            row = task.query_label.tolist()
            if true in task.classes and other in task.classes:
                swap = {task.classes.index(true): task.classes.index(other)}
                row = [swap.get(label, label) for label in row]
            rows.append(row)
        confusions = count_confusions(bed, np.arange(len(bed)), rows)
        (pair,) = most_confused(confusions)
        assert (pair.first, pair.second, pair.second_as_first) == (true, other, 0)
        assert (
            pair.first_as_second
            == pair.mistakes
            == int(confusions.chances[*_positions(confusions, true, other)])
        )
        shown = find_mistakes(bed, np.arange(len(bed)), rows, pair.dataset, true, other, limit=3)
        assert len(shown) == 3
        for mistake in shown:
            task = bed[mistake.task]
            assert task.classes[task.query_label[task.query.index(mistake.key)]] == true
            assert other in task.classes

    def test_classes_that_the_testbed_lacks_have_no_mistakes(
        self, bed: longshot.Testbed, guesses: list[list[int]]
    ) -> None:
        (dataset,) = bed.datasets
        assert (
            find_mistakes(bed, np.arange(len(bed)), guesses, dataset, "round/crimson", "no such class") == []
        )

    def test_nothing_confused(self, bed: longshot.Testbed) -> None:
        rows = [task.query_label.tolist() for task in bed]
        assert most_confused(count_confusions(bed, np.arange(len(bed)), rows)) == []


class TestSharedQueries:
    def test_same_seed_with_other_support(self, dataset: longshot.Dataset) -> None:
        one_shot, five_shot = (
            longshot.sample(dataset, tasks=20, shape=longshot.FixedShape(way=3, shot=shot, query=4), seed=5)
            for shot in (1, 5)
        )
        assert shared_queries(one_shot, five_shot).all()

    def test_other_seeds_share_nothing(self, dataset: longshot.Dataset) -> None:
        seed_5, seed_6 = (
            longshot.sample(dataset, tasks=20, shape=longshot.FixedShape(way=3, shot=1, query=4), seed=seed)
            for seed in (5, 6)
        )
        assert not shared_queries(seed_5, seed_6).any()

    def test_order_within_a_task_does_not_matter(self, beds: Path) -> None:
        bed = longshot.Testbed.load(beds / "fixed.parquet")
        rows = bed.table.slice(0, 10).to_pylist()
        for row in rows:
            row["query"].reverse()
            row["query_label"].reverse()
        rows[4]["query"][0] = rows[5]["query"][0]
        other = longshot.Testbed.create(pa.Table.from_pylist(rows), datasets=bed.datasets, sampler={}, seed=0)
        assert shared_queries(bed, other).tolist() == [True] * 4 + [False] + [True] * 5

    def test_another_copy_of_the_data_is_another_dataset(self, beds: Path) -> None:
        bed = longshot.Testbed.load(beds / "fixed.parquet")
        renamed = dict.fromkeys(bed.datasets, "0" * 64)
        other = longshot.Testbed.create(bed.table, datasets=renamed, sampler={}, seed=0)
        assert not shared_queries(bed, other).any()


def test_confidences_of_a_real_run(beds: Path, features: longshot.Features, tmp_path: Path) -> None:
    results = longshot.evaluate(
        beds / "any.parquet",
        backbones=[features],
        methods=["protonet"],
        out=tmp_path / "run",
        device="cpu",
        workers=1,
        save_scores=True,
    )
    table = results.table()
    bed = results.testbed(table["testbed"][0].as_py())
    sure, right = measure_confidences(bed, table["task"].to_numpy(), table["scores"])
    offset = 0
    for row, task in zip(table.to_pylist(), bed, strict=True):
        queries = len(task.query)
        part = slice(offset, offset + queries)
        offset += queries
        assert right[part].mean() == pytest.approx(row["accuracy"])
        logits = np.array(row["scores"]).reshape(queries, task.way)
        assert sure[part] == pytest.approx(softmax(logits, axis=1).max(axis=1))
    assert offset == len(sure)


def test_scores_must_fit(beds: Path) -> None:
    bed = longshot.Testbed.load(beds / "any.parquet")
    with pytest.raises(ValueError, match="one score per class"):
        measure_confidences(bed, [0], pa.array([[0.1, 0.2]]))


def _positions(confusions: Confusion, *classes: str) -> list[int]:
    names = [name for _, name in confusions.classes]
    return [names.index(name) for name in classes]
