"""Difficult queries: exactly the images on which a prototype classifier loses most, by its formula written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax

from longshot.base import UserError
from longshot.data import Dataset, open_dataset
from longshot.models import Features, embed
from longshot.tasks import DifficultQueryInstances, Testbed, sample

SHAPE = {"tasks": 12, "way": 3, "shot": 2, "query": 4, "seed": 3}


@pytest.fixture
def small(photos: Path) -> tuple[Dataset, Features]:
    dataset = open_dataset(photos)
    return dataset, embed(dataset, "pixels")


def _of(bed: Testbed, column: str) -> np.ndarray:
    return np.array(bed.table[column].to_pylist())


def written_out(bed: Testbed, features: Features, distance: str) -> None:
    """Every class of a task asks the images with the largest −log p(class), none of which is support."""
    tasks = bed.bind(next(iter(bed.datasets)), features.keys, features.fingerprint)
    x = np.asarray(features.array, np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for task in range(len(tasks)):
        support, label = tasks.support.row(task), tasks.support_label.row(task)
        centres = np.stack([x[support[label == c]].mean(0) for c in range(3)])
        query, query_label = tasks.query.row(task), tasks.query_label.row(task)
        for c in range(3):
            own = int(np.searchsorted(features.offsets, support[label == c][0], "right")) - 1
            rows = np.setdiff1d(np.arange(features.offsets[own], features.offsets[own + 1]), support)
            scores = -((x[rows][:, None] - centres) ** 2).sum(2)
            if distance == "cosine":
                scores = x[rows] @ (centres / np.linalg.norm(centres, axis=1, keepdims=True)).T
            losses = dict(zip(rows.tolist(), -log_softmax(scores / 0.1, axis=1)[:, c], strict=True))
            chosen = query[query_label == c].tolist()
            least = min(losses[row] for row in chosen)
            assert least >= max(loss for row, loss in losses.items() if row not in chosen) - 1e-5


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_the_queries_are_those_that_the_formula_finds_hardest(
    small: tuple[Dataset, Features], distance: str
) -> None:
    dataset, features = small
    chooser = DifficultQueryInstances(features, distance=distance)  # type: ignore[arg-type]
    bed = sample(dataset, instances=chooser, copies="allow", **SHAPE)
    written_out(bed, features, distance)
    uniform = sample(dataset, copies="allow", **SHAPE)
    same = (bed.table[column].equals(uniform.table[column]) for column in ("classes", "support"))
    assert all(same) and not bed.table["query"].equals(uniform.table["query"])
    assert (_of(bed, "accuracy_after") <= _of(bed, "accuracy_before")).all()


def test_difficulty_exchanges_a_share_of_the_queries(small: tuple[Dataset, Features]) -> None:
    dataset, features = small
    uniform = sample(dataset, **SHAPE)
    losses, shared = [], []
    for difficulty in (0.0, 0.4, 1.0):
        chooser = DifficultQueryInstances(features, difficulty=difficulty)
        bed = sample(dataset, instances=chooser, suspects="allow", **SHAPE)
        losses.append(float(_of(bed, "loss_after").mean()))
        pairs = zip(bed.table["query"].to_pylist(), uniform.table["query"].to_pylist(), strict=True)
        shared.append(sum(len(set(own) & set(other)) for own, other in pairs))
    assert losses == sorted(losses) and shared == sorted(shared, reverse=True)
    assert shared[0] == 12 * 3 * 4


def test_several_judges_and_what_is_no_prototype(small: tuple[Dataset, Features]) -> None:
    dataset, _ = small
    words = {"instances": "difficult-queries", "judge": ["pixels", "pixels:protonet(distance='cosine')"]}
    bed = sample(dataset, judging="worst", **words, **SHAPE)
    assert _of(bed, "accuracy_judge_1_after").mean() < _of(bed, "accuracy_judge_1_before").mean()
    with pytest.raises(UserError, match="Queries are chosen by prototypes"):
        sample(dataset, instances="difficult-queries", judge="pixels:ridge", **SHAPE)
