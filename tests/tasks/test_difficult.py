"""Difficult, easy and greedy instances: settings and errors on small photos, accuracies on real features."""

from __future__ import annotations

import dataclasses
import fcntl
import os
from pathlib import Path

import numpy as np
import pytest

from longshot.base import UserError
from longshot.data import Dataset, open_dataset
from longshot.models import Features, embed, grown_arrays
from longshot.tasks import (
    AnyShape,
    DifficultInstances,
    EasyInstances,
    FixedShape,
    GreedyInstances,
    ImageLimits,
    Testbed,
    UniformInstances,
    attribute_shares,
    sample,
    settings_of,
)

SHAPE = FixedShape(way=5, shot=5, query=10)
LITE = "efficientnet-lite0(size=84)"  # as small as toybox's pictures


def embedded(dataset: Dataset, backbone: str, cache: Path) -> Features:
    """Features, computed by one test process while the others wait."""
    with (cache / "difficult.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return embed(dataset, backbone)


@pytest.fixture
def small(photos: Path, cache: Path) -> tuple[Dataset, Features]:
    dataset = open_dataset(photos)
    return dataset, embedded(dataset, "pixels", cache)


def first_classes(dataset: Dataset, count: int) -> Dataset:
    """The first classes of a dataset, to embed in seconds; class-major rows, so the images are the same rows."""
    rows = int(dataset.offsets[count])
    return dataclasses.replace(
        dataset,
        class_ids=dataset.class_ids[:count],
        offsets=dataset.offsets[: count + 1],
        keys=dataset.keys[:rows],
        attributes=dataset.attributes.slice(0, rows) if dataset.attributes is not None else None,
        taxonomy=None,
        splits={},
    )


CLASSES = {
    "grocery": 20,
    "toybox": 40,
}  # with 20 of toybox the effect of viewpoints is not sure


@pytest.fixture(scope="module", params=["grocery", pytest.param("toybox", marks=pytest.mark.long)])
def real(request: pytest.FixtureRequest) -> World:
    """Classes of Grocery (natural photos) and of toybox through an ImageNet-trained network."""
    if request.param == "toybox":
        return request.getfixturevalue("toys")
    path = request.getfixturevalue("shared") / "data" / "grocery128.zip"
    return World.of(first_classes(open_dataset(path), CLASSES["grocery"]))


@pytest.fixture(scope="module")
def toys() -> World:
    """Classes of toybox, with their attributes."""
    return World.of(first_classes(open_dataset("toybox"), CLASSES["toybox"]))


def draw(
    dataset: Dataset,
    instances: object,
    tasks: int = 100,
    shape: object = SHAPE,
    limits: ImageLimits | None = None,
) -> Testbed:
    return sample(
        dataset,
        tasks=tasks,
        shape=shape,  # type: ignore[arg-type]
        instances=instances,  # type: ignore[arg-type]
        seed=3,
        drop_small=True,
        limits=limits,
    )


def accuracies(testbed: Testbed, features: Features) -> np.ndarray:
    """Nearest-prototype accuracy per task, with any features of the dataset."""
    bound = testbed.bind(features.dataset, features.keys, features.fingerprint)
    unit = np.asarray(features.array, dtype=np.float32)
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    result = []
    for i in range(len(testbed)):
        support, label = unit[bound.support.row(i)], bound.support_label.row(i)
        centres = np.stack([support[label == j].mean(0) for j in range(label.max() + 1)])
        nearest = ((unit[bound.query.row(i)][:, None] - centres) ** 2).sum(-1).argmin(1)
        result.append((nearest == bound.query_label.row(i)).mean())
    return np.array(result)


@dataclasses.dataclass(frozen=True)
class World:
    """A dataset with its features, and the testbeds that several tests look at."""

    dataset: Dataset
    features: Features
    beds_by_kind: dict[str, Testbed] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, dataset: Dataset) -> World:
        cache = Path(os.environ["LONGSHOT_CACHE"])
        return cls(dataset, embedded(dataset, LITE, cache))

    def bed(self, kind: str) -> Testbed:
        """100 tasks with these supports."""
        if kind not in self.beds_by_kind:
            instances = {
                "uniform": UniformInstances(),
                "easy": EasyInstances(self.features),
                "difficult": DifficultInstances(self.features),
                "refined": DifficultInstances(self.features, refine=5, greedy=1),
            }
            self.beds_by_kind[kind] = draw(self.dataset, instances[kind])
        return self.beds_by_kind[kind]

    def accuracies(self, kind: str) -> np.ndarray:
        return accuracies(self.bed(kind), self.features)


def surely_above(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the 95 % interval of the paired difference a − b lies above zero."""
    difference = a - b
    return bool(difference.mean() - 1.96 * difference.std(ddof=1) / np.sqrt(len(difference)) > 0)


def column(testbed: Testbed, name: str) -> np.ndarray:
    return testbed.table[name].to_numpy()


def test_queries_are_those_of_the_uniform_testbed(small: tuple[Dataset, Features]) -> None:
    dataset, features = small
    uniform = draw(dataset, UniformInstances(), 20)
    for instances in (
        DifficultInstances(features),
        EasyInstances(features),
        GreedyInstances(features, rounds=1),
    ):
        bed = draw(dataset, instances, 20)
        assert [bed[i].query for i in range(20)] == [uniform[i].query for i in range(20)]
        assert all(not set(bed[i].support) & set(bed[i].query) for i in range(20))


def test_before_is_the_uniform_support_and_after_the_selected_one(small: tuple[Dataset, Features]) -> None:
    dataset, features = small
    bed = draw(dataset, DifficultInstances(features, refine=1), 20)
    uniform = draw(dataset, UniformInstances(), 20)
    np.testing.assert_allclose(column(bed, "accuracy_before"), accuracies(uniform, features), atol=1e-6)
    np.testing.assert_allclose(column(bed, "accuracy_after"), accuracies(bed, features), atol=1e-6)
    assert np.all(column(bed, "loss_after") > column(bed, "loss_before"))


def test_the_file_tells_features_and_settings(small: tuple[Dataset, Features], tmp_path: Path) -> None:
    dataset, features = small
    path = tmp_path / "difficult.parquet"
    draw(dataset, DifficultInstances(features, refine=2), 10).save(path)
    meta = Testbed.load(path).meta
    chooser = meta["sampler"]["instances"]
    assert meta["features"] == features.hash
    assert chooser["name"] == "difficult"
    assert (chooser["objective"], chooser["temperature"], chooser["refine"]) == ("prototype", 0.1, 2)
    assert [judge["backbone"] for judge in chooser["judged_by"]] == ["pixels"]


def test_a_judge_sees_only_the_classes_of_the_split(photos: Path, fresh_cache: Path) -> None:
    """By name it embeds no others; given as features of the whole dataset it draws the same testbed."""
    opened = open_dataset(photos)
    dataset = dataclasses.replace(
        opened, splits={"test": opened.class_ids[2:6], "train": opened.class_ids[:2]}
    )
    settings = {"tasks": 5, "way": 3, "shot": 2, "query": 3, "split": "test", "instances": "difficult"}
    by_name = sample(dataset, judge="pixels", **settings)
    rows = np.arange(dataset.offsets[2], dataset.offsets[6])
    (grown,) = grown_arrays(by_name.meta["features"][:32], len(dataset), "float16")
    assert np.flatnonzero(grown.held).tolist() == rows.tolist()
    features = embed(dataset, "pixels")
    assert by_name.meta["features"] == features.hash_of(rows)
    assert sample(dataset, judge=features, **settings).content_hash == by_name.content_hash
    chooser = DifficultInstances(features)
    assert sample(dataset, **{**settings, "instances": chooser}).content_hash == by_name.content_hash


def test_blocks_and_workers_do_not_change_the_testbed(small: tuple[Dataset, Features]) -> None:
    dataset, features = small
    hashes = {
        sample(dataset, tasks=30, shape=SHAPE, instances=instances, block=block, workers=workers).content_hash
        for block, workers in ((4096, 1), (7, 1), (7, 2))
        for instances in [DifficultInstances(features, refine=2, greedy=1, start="random", step_size=2000.0)]
    }
    assert len(hashes) == 1


def test_any_way_any_shot(small: tuple[Dataset, Features]) -> None:
    dataset, features = small
    bed = draw(dataset, DifficultInstances(features, refine=1, greedy=1), 15, AnyShape())
    assert len(set(column(bed, "way").tolist())) > 1
    # where shots leave no choice the support is the whole pool, summed in another order: equal up to rounding
    assert np.all(column(bed, "loss_after") >= column(bed, "loss_before") - 1e-6)


@pytest.mark.parametrize("objective", ["prototype", "ridge", "task2vec"])
def test_every_objective_draws(small: tuple[Dataset, Features], objective: str) -> None:
    dataset, features = small
    bed = draw(dataset, DifficultInstances(features, objective=objective, refine=1), 4)
    assert np.all(column(bed, "loss_after") > column(bed, "loss_before"))


def test_a_base_gives_the_queries_and_is_told() -> None:
    @dataclasses.dataclass(frozen=True)
    class Ruled(UniformInstances):
        pass

    @dataclasses.dataclass(frozen=True)
    class Other:
        name = "other"
        features = None
        rule: str = "viewpoint == front"

    features = Features.__new__(Features)
    for name in ("backbone", "weights_hash", "hash"):
        object.__setattr__(features, name, "pixels")
    assert "queries_of" not in settings_of(DifficultInstances(features, base=Ruled()))
    assert settings_of(DifficultInstances(features, base=Other()))["queries_of"] == {  # type: ignore[arg-type]
        "name": "other",
        "rule": "viewpoint == front",
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": "prototypes"}, "'error' or 'prototype' or 'ridge' or 'task2vec'"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"distance": "manhattan"}, "'euclidean' or 'cosine'"),
        ({"start": "zero"}, "'uniform' or 'random'"),
        ({"projection": "l2"}, "'l1' or 'simplex' or 'none'"),
        ({"steps": 0}, "steps is 0"),
        ({"step_size": -1.0}, "step_size is -1.0"),
        ({"refine": -1}, "refine is -1"),
    ],
)
def test_a_wrong_option_is_told(
    small: tuple[Dataset, Features], options: dict[str, object], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        DifficultInstances(small[1], **options)  # type: ignore[arg-type]


def test_no_rounds_is_told(small: tuple[Dataset, Features]) -> None:
    with pytest.raises(UserError, match="rounds is 0"):
        GreedyInstances(small[1], rounds=0)


def test_features_of_another_dataset_are_refused(small: tuple[Dataset, Features]) -> None:
    dataset, features = small
    other = dataclasses.replace(features, fingerprint="0" * 64)
    with pytest.raises(UserError, match="embed that dataset"):
        draw(dataset, DifficultInstances(other), 5)


def test_easy_above_uniform_above_difficult_above_refined(real: World) -> None:
    kinds = ("easy", "uniform", "difficult", "refined")
    easy, uniform, difficult, refined = (real.accuracies(kind) for kind in kinds)
    assert surely_above(easy, uniform)
    assert surely_above(uniform, difficult)
    assert difficult.mean() >= refined.mean()


def test_an_exact_round_is_harder_than_a_step(real: World) -> None:
    """Why the default has one."""
    step = draw(real.dataset, DifficultInstances(real.features, greedy=0), 100)
    assert surely_above(accuracies(step, real.features), real.accuracies("difficult"))


def test_difficulty_transfers_to_another_backbone(real: World, cache: Path) -> None:
    other = embedded(real.dataset, "pixels", cache)
    assert surely_above(accuracies(real.bed("uniform"), other), accuracies(real.bed("refined"), other))


def test_bounded_error_is_harder_for_the_judge_than_cross_entropy(real: World) -> None:
    """It spends nothing on queries that are lost already. Nobody but the judge is asked here."""
    instances = DifficultInstances(real.features, objective="error", refine=5, greedy=1)
    bounded = accuracies(draw(real.dataset, instances), real.features)
    assert surely_above(real.accuracies("refined"), bounded)


FRONT_BACK = ImageLimits(query_where="viewpoint in (front, back)")


def likeness(testbed: Testbed, dataset: Dataset) -> np.ndarray:
    """Share of each task's support that is seen from the front or the back, as its queries are."""
    shares = attribute_shares(testbed, dataset, "viewpoint")
    return shares["front"] + shares["back"]


def test_difficult_supports_show_other_viewpoints_than_the_query(toys: World) -> None:
    """The paper's figure 5."""
    dataset, features = toys.dataset, toys.features
    uniform = draw(dataset, UniformInstances(), 100, limits=FRONT_BACK)
    difficult = draw(dataset, DifficultInstances(features), 100, limits=FRONT_BACK)
    assert surely_above(likeness(uniform, dataset), likeness(difficult, dataset))


def test_easy_supports_show_the_viewpoints_of_the_query(toys: World) -> None:
    """The paper's figure 5."""
    dataset, features = toys.dataset, toys.features
    uniform = draw(dataset, UniformInstances(), 100, limits=FRONT_BACK)
    easy = draw(dataset, EasyInstances(features), 100, limits=FRONT_BACK)
    assert surely_above(likeness(easy, dataset), likeness(uniform, dataset))
