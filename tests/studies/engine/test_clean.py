"""What claims leave out: networks that chose, their children, and tasks with classes that training saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from longshot import evaluate, open_dataset, sample
from longshot.evaluation import Results
from longshot.models import TestedImages, TrainingStage, find_leaks
from longshot.studies import Claim, paired
from longshot.studies.engine.claims import judge
from longshot.studies.engine.lab import CleanScores, Scores, say_left_out

CHILDREN = 5


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight classes of eight coloured pictures, without splits, taxonomy or attributes."""
    folder, rng = tmp_path_factory.mktemp("birds"), np.random.default_rng(0)
    for number in range(8):
        own = folder / f"kind {chr(97 + number)}{number}"
        own.mkdir()
        for image in range(8):
            pixels = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8) // 3 + np.uint8(20 * number)
            Image.fromarray(pixels).save(own / f"{image}.png")
    return folder


@pytest.fixture(scope="module")
def scores(birds: Path, tmp_path_factory: pytest.TempPathFactory) -> Scores:
    """Pixels on uniform tasks and on tasks that they chose themselves."""
    data = open_dataset(birds)
    words: dict[str, Any] = {"tasks": 8, "way": 2, "shot": 1, "query": 2}
    beds = {"uniform": sample(data, **words)}
    beds["hard"] = sample(data, **words, instances="difficult", judge="pixels")
    out = tmp_path_factory.mktemp("run") / "run"
    evaluate(beds, backbones="pixels", methods="protonet", datasets={data.name: data}, out=out)
    return Scores(Results(out), beds)


def planted(scores: Scores, **changes: Any) -> Scores:
    """The scores with another record of the run."""
    results: Any = type(
        "Run", (), {"run": {**scores.results.run, **changes}, "table": scores.results.table}
    )()
    return Scores(results, scores.testbeds)


def test_a_judge_and_five_of_its_children_are_left_out_where_they_chose(scores: Scores) -> None:
    run = scores.results.run
    weights = next(iter(run["backbones"]["pixels"].values()))["networks"][0]
    for child in range(
        CHILDREN + 1
    ):  # the judge itself, then networks that started from it, ever further back
        between = [{"weights_hash": f"{child}{n}", "backbone": f"child {n}"} for n in range(child)]
        story: dict[str, Any] = {
            "networks": [{"weights_hash": "own", "backbone": "own"} if child else weights]
        }
        backbones = {"pixels": {"f": story}}
        own = planted(scores, backbones=backbones, lineage={"pixels": [*between, weights]} if child else {})
        clean = CleanScores(own, judges=False)
        assert np.isnan(clean.values("hard", "pixels", "protonet")).all(), child
        assert not np.isnan(clean.values("uniform", "pixels", "protonet")).any()
        assert not np.isnan(CleanScores(own, judges=True).values("hard", "pixels", "protonet")).any()
        [sentence] = say_left_out(clean)
        assert "chose classes or images, or started from a network that did: 'hard'" in sentence
    stranger = {"pixels": {"f": {"networks": [{"weights_hash": "own", "backbone": "own"}]}}}
    clean = CleanScores(planted(scores, backbones=stranger, lineage={}), judges=False)
    assert not np.isnan(clean.values("hard", "pixels", "protonet")).any() and say_left_out(clean) == []


def test_tasks_with_a_class_that_was_seen_are_left_out(scores: Scores) -> None:
    testbed = scores.testbeds["uniform"]
    seen = testbed[0].classes[0]
    upstream = {"pixels": {testbed.content_hash: [{"dataset": "birds", "class_ids": [seen]}]}}
    clean = CleanScores(planted(scores, upstream=upstream), judges=False)
    touched = [seen in task.classes for task in testbed]
    assert np.isnan(clean.values("uniform", "pixels", "protonet")).tolist() == touched and touched[0]
    number = f"'uniform, {sum(touched)} of 8 tasks'"
    assert number in say_left_out(clean)[0]

    def gap(own: Scores) -> Any:
        values = own.values("uniform", "pixels", "protonet")
        return [paired("pixels", values, values - 0.1)]

    [judged] = judge([Claim("id", "It is so", "table 1", gap)], clean)
    assert judged.numbers[0].measured.n == 8 - sum(touched)


LEAKS = [
    *(
        ("Granny_Smith", name)
        for name in ("Granny_Smith", "granny-smith", "fruit/GrannySmith", "003.Granny_Smith")
    ),
    *(("n02084071", name) for name in ("n02084071", "animals/n02084071", "dogs/n02084071")),
    *(("house finch", name) for name in ("House_Finch", "051.House_Finch", "birds/house-finch")),
]


@pytest.mark.parametrize(("trained", "tested"), LEAKS)
def test_ten_leaks_by_name_and_synset_are_flagged_and_a_clean_class_is_not(trained: str, tested: str) -> None:
    images = TestedImages("other", pa.array(["a", "b"]), (tested, "bench"), np.array([0, 1]), {})
    stage = TrainingStage(
        weights="w", network="n", dataset="upstream", fingerprint="own", classes=(trained, "7", "class_b")
    )
    assert find_leaks([(stage, None)], images)["class_ids"] == [tested]
    clean = TestedImages("other", pa.array(["a", "b"]), ("bench", "7"), np.array([0, 1]), {})
    assert find_leaks([(stage, None)], clean)["class_ids"] == []
