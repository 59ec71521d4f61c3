"""Splits at a target hardness: what is asked for is reached, recorded and repeated, or told to be out of reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longshot.base import UserError
from longshot.data import Dataset
from longshot.models import Features
from longshot.tasks import Split, make_split, part_sizes
from longshot.tasks.splits import hardness, target_split
from longshot.tasks.splits.hardness import Hardness, measure_hardness, reference_splits
from longshot.tasks.splits.proxy import Proxy
from longshot.tasks.splits.published_splits import random_split
from longshot.tasks.splits.target_split import STRENGTHS, Goal, Searcher, Setting, neighbours

ALONE = {"hardness": False}  # without the references, which take time
DRAWS = 6


@pytest.fixture(scope="module", autouse=True)
def small_search() -> Iterator[None]:
    """Fewer directions and references: tens of splits are tried instead of hundreds."""
    with pytest.MonkeyPatch.context() as patch:
        for name, number in (("AXES", 3), ("CLUSTERS", 4), ("REFINED", 4), ("SHORTLIST", 4)):
            patch.setattr(target_split, name, number)
        patch.setattr(hardness, "DRAWS", DRAWS)
        yield


@pytest.fixture(scope="module")
def families() -> tuple[Dataset, Features]:
    """48 classes in six families of eight, 20 images each: alike within a family, and each has its own directions."""
    import pyarrow as pa

    from longshot.data import Taxonomy

    ids = tuple(f"family{f}/class{c}" for f in range(6) for c in range(8))
    keys = pa.array([f"{c}/{i}.png" for c in ids for i in range(20)])
    offsets = np.arange(49) * 20
    dataset = Dataset(
        "families",
        ids,
        offsets,
        keys,
        None,
        "nowhere",
        taxonomy=Taxonomy.from_class_ids(ids),
        identity="names",
    )
    rng = np.random.default_rng(0)
    means = 3 + np.repeat(1.2 * rng.standard_normal((6, 24)), 8, axis=0)
    for family in range(6):
        means[8 * family : 8 * family + 8, 4 * family : 4 * family + 4] += 1.2 * rng.standard_normal((8, 4))
    array = means[dataset.labels] + 1.3 * rng.standard_normal((len(dataset), 24))
    features = Features(
        array=array.astype(np.float32),
        keys=dataset.keys,
        class_ids=ids,
        offsets=offsets,
        dataset="families",
        fingerprint=dataset.fingerprint,
        backbone="made-up",
        weights_hash="w",
        preprocessing="none",
        hash="h",
        identity="names",
    )
    return dataset, features


@pytest.fixture(scope="module")
def harder(families: tuple[Dataset, Features]) -> Split:
    """8 points harder than random, with everything that is measured beside it."""
    dataset, features = families
    return make_split(dataset, features=features, harder_than="random", by=8)


def _measured(split: Split, families: tuple[Dataset, Features]) -> Hardness:
    dataset, features = families
    return measure_hardness(Proxy(features), [split.positions(dataset)])


def test_harder_than_random_by_points(harder: Split, families: tuple[Dataset, Features]) -> None:
    target, reached = harder.made["target"], Hardness.from_record(harder.made["hardness"])
    assert harder.name == f"8 harder than random × {DRAWS}"
    random = target["measured"]["learnt_accuracy"]["mean"]
    assert target["learnt_accuracy"] == pytest.approx(random - 0.08)
    assert reached.learnt.mean == pytest.approx(target["learnt_accuracy"], abs=0.015)
    assert reached == _measured(harder, families)
    assert harder.sizes == dict(zip(("train", "validation", "test"), part_sizes(48), strict=True))


def test_references_stand_beside_it(harder: Split) -> None:
    names = [record["split"] for record in harder.made["references"]]
    assert names == [f"random × {DRAWS}", f"semantic × {DRAWS}"]
    random, semantic = (Hardness.from_record(dict(list(r.items())[1:])) for r in harder.made["references"])
    assert random.splits == DRAWS and random.learnt.n == DRAWS
    assert semantic.frozen.mean < random.frozen.mean
    assert abs(random.transfer_loss.mean) < 0.02


def test_the_same_seed_gives_the_same_split(
    families: tuple[Dataset, Features], harder: Split, tmp_path: Path
) -> None:
    dataset, features = families
    again = make_split(dataset, features=features, harder_than="random", by=8, **ALONE)
    assert again.parts == harder.parts
    again.save(tmp_path / "a.json")
    loaded = Split.load(tmp_path / "a.json")
    assert loaded.made["target"] == harder.made["target"]
    assert loaded.made["hardness"] == harder.made["hardness"]
    assert (loaded.made["direction"], loaded.made["strength"]) == (
        again.made["direction"],
        again.made["strength"],
    )


def test_like_a_split_has_its_sizes_and_its_hardness(families: tuple[Dataset, Features]) -> None:
    dataset, features = families
    wish = random_split(dataset, (0.5, 0.25, 0.25), seed=3)
    split = make_split(dataset, features=features, like=wish, **ALONE)
    assert split.sizes == wish.sizes == {"train": 24, "validation": 12, "test": 12}
    assert split.name == "like random(seed=3)"
    ours, theirs = _measured(split, families), _measured(wish, families)
    assert ours.learnt.mean == pytest.approx(theirs.learnt.mean, abs=0.02)
    assert ours.frozen.mean == pytest.approx(theirs.frozen.mean, abs=0.02)
    assert Hardness.from_record(split.made["target"]["measured"]) == theirs


def test_an_accuracy_out_of_reach_says_what_is_in_reach(families: tuple[Dataset, Features]) -> None:
    dataset, features = families
    with pytest.raises(UserError) as error:
        make_split(dataset, features=features, learnt_accuracy=0.21)
    message = str(error.value)
    assert (
        "No split of these 48 classes under 'made-up' has a 5-way 5-shot learnt accuracy of 21.0 %" in message
    )
    low, high = (float(word) for word in message.split(" reach ")[1].split(" % ")[0].split(" to "))
    assert 21 < low < high < 100
    middle = (low + high) / 200
    split = make_split(dataset, features=features, learnt_accuracy=round(middle, 3), **ALONE)
    assert _measured(split, families).learnt.mean == pytest.approx(middle, abs=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learnt_accuracy": 65}, "it is a share between 0 and 1; write 65 % as learnt_accuracy=0.65"),
        ({"harder_than": "random"}, "harder_than needs to know by how many points of accuracy; give by=15"),
        ({"harder_than": "random", "by": 0.15}, "by is 0.15; it counts points of accuracy, from 1 to 100"),
        ({"like": "random", "learnt_accuracy": 0.6}, "but like and learnt_accuracy were given"),
        ({"like": "random", "by": 5}, "by belongs to harder_than, not to like"),
        ({"like": "fc100"}, "The split 'fc100' was made for CIFAR-100 with 100 classes"),
        ({"like": "nothing"}, "There is no split 'nothing'"),
        ({"like": "random", "mode": "paper"}, "mode belongs to divergence and sweep, not to like"),
        ({"like": "random", "way": 10}, "has 9 test classes, and a task has 10; lower way"),
        ({"like": "random", "shot": 20}, "48 classes of 'families' have fewer than 21 images"),
    ],
)
def test_contradictions_and_misfits_are_one_sentence(
    families: tuple[Dataset, Features], settings: dict[str, Any], message: str
) -> None:
    dataset, features = families
    with pytest.raises(UserError) as error:
        make_split(dataset, features=features, **settings)
    assert message in str(error.value)


def test_a_target_without_features_asks_for_them(families: tuple[Dataset, Features]) -> None:
    with pytest.raises(UserError, match="A split at a divergence or a target looks at features"):
        make_split(families[0], like="random")


def test_any_kind_of_split_is_measured_through_features(families: tuple[Dataset, Features]) -> None:
    dataset, features = families
    split = make_split(dataset, random=True, features=features)
    assert Hardness.from_record(split.made["hardness"]) == _measured(split, families)
    assert split.made["features"] == "h" and len(split.made["references"]) == 2
    assert "hardness" not in make_split(dataset, random=True).made
    assert "hardness" not in make_split(dataset, divergence=0.5, features=features, hardness=False).made


def test_parts_too_small_for_tasks_are_a_note(
    features_of: Callable[..., Features],
    dataset_of: Callable[..., Dataset],
    capsys: pytest.CaptureFixture[str],
) -> None:
    dataset = dataset_of([f"c{i}" for i in range(10)], 8)
    split = make_split(dataset, features=features_of(dataset), divergence=0.5)
    assert "hardness" not in split.made
    assert (
        "how hard the split is was not measured: Split 'principal@0.5' has 2 test classes"
        in capsys.readouterr().err
    )


# ---- the search ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def searcher(families: tuple[Dataset, Features]) -> Searcher:
    from longshot.tasks import class_embeddings

    return Searcher(Proxy(families[1]), class_embeddings(families[1]), part_sizes(48))


def test_without_noise_classes_are_sorted_along_the_direction(searcher: Searcher) -> None:
    for number in (0, 1, len(searcher.directions) - 1):
        along = searcher.embeddings @ searcher.directions[number].axis
        train, validation, test = searcher.assign(Setting(number, math.inf))
        assert along[train].min() > along[np.concatenate([validation, test])].max()
    first, reverse = (searcher.assign(Setting(number, math.inf))[2] for number in (0, 1))
    assert not set(first) & set(reverse)


def test_strength_moves_classes_over_step_by_step(searcher: Searcher) -> None:
    """The same noise at every strength: neighbours on the scale share more test classes than its ends."""
    tests = [set(searcher.assign(Setting(0, strength))[2].tolist()) for strength in STRENGTHS]
    assert len(tests[2] & tests[3]) > len(tests[0] & tests[-1])
    assert searcher.assign(Setting(0, 2.0, 1))[2].tolist() != searcher.assign(Setting(0, 2.0))[2].tolist()


def test_the_recorded_divergence_has_the_strength_as_its_spread(searcher: Searcher) -> None:
    from longshot.tasks.splits.embeddings import log_class_probabilities

    setting = Setting(0, 2.0)
    axis = searcher.directions[0].axis
    reach = 2.0 / (4 * (searcher.embeddings @ axis).std()) * axis
    middle = searcher.embeddings.mean(0)
    log_p, log_q = (log_class_probabilities(searcher.embeddings, middle + s * reach) for s in (1, -1))
    assert (log_p - log_q).std() == pytest.approx(2.0)
    expected = float((np.exp(log_p) - np.exp(log_q)) @ (log_p - log_q))
    assert searcher._divergence(setting) == pytest.approx(expected)


def test_places_around_one_of_the_grid() -> None:
    strengths = [near.strength for near in neighbours(Setting(3, 4.0))]
    assert strengths == [3.25, 3.5, 3.75, 4.5, 5.0, 5.5, 4.0, 4.0]
    assert [near.strength for near in neighbours(Setting(3, 0.0))] == [0.25, 0.5, 0.75, 0.0, 0.0]
    assert [near.strength for near in neighbours(Setting(3, math.inf))] == [20.0, 30.0, 40.0]
    assert {near.direction for near in neighbours(Setting(3, 1.0))} == {3}


def test_what_a_goal_prefers() -> None:
    """Near the learnt accuracy, more transfer is better; to be like another, the worst of the three counts."""
    goal = Goal(0.6)
    assert goal.cost(0.75, 0.604) < goal.cost(0.65, 0.6) < goal.cost(0.75, 0.65)
    assert goal.cost(0.7, 0.6, 0.05) < goal.cost(0.7, 0.6, 0.01)
    alike = Goal(0.6, 0.7, 0.02)
    assert alike.cost(0.7, 0.6) == pytest.approx(0)
    assert alike.cost(0.71, 0.6, 0.05) == pytest.approx(0.03)
    assert alike.cost(0.75, 0.61, 0.02) == pytest.approx(0.05)


def test_references_that_do_not_fit_are_left_out(dataset_of: Callable[..., Dataset]) -> None:
    flat = dataset_of([f"c{i}" for i in range(20)], taxonomy=None)
    assert list(reference_splits(flat)) == [f"random × {DRAWS}"]


def test_cifar_100_in_plain_folders_has_all_references(dataset_of: Callable[..., Dataset]) -> None:
    from longshot.tasks.splits.published_splits import cifar100_names

    flat = dataset_of(cifar100_names(), taxonomy=None)
    references = reference_splits(flat)
    atg = [f"atg:cifar100@{r}" for r in ("0.04", "0.32", "0.64", "0.96")]
    assert list(references) == [f"random × {DRAWS}", f"semantic × {DRAWS}", *atg, "cifar-fs", "fc100"]
    semantic = references[f"semantic × {DRAWS}"][0]
    assert {part: len(names) for part, names in semantic.made["super_classes"].items()} == {
        "train": 12,
        "validation": 4,
        "test": 4,
    }
