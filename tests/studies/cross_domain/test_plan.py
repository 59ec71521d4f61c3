"""The study of domains: who is trained on what, the cadence, statistics and verdicts, mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from scipy import stats

from longshot.core.errors import UserError
from longshot.datasets.dataset import Dataset
from longshot.studies import get_study, layered
from longshot.studies.cross_domain.claims import claims_table, differences
from longshot.studies.cross_domain.plan import make_plan
from longshot.studies.cross_domain.scores import CROSS, OTHER, OWN, WITHIN, SettingTasks
from longshot.studies.cross_domain.settings import CrossDomainSettings
from longshot.studies.cross_domain.tables import grouped
from longshot.studies.cross_domain.training import DomainTraining, OneBranch
from longshot.testbeds.base import Pool
from longshot.testbeds.instances import UniformInstances
from longshot.testbeds.shapes import FixedShape
from longshot.training.episodes import draw_tasks


def _dataset(sizes: Mapping[str, int], images: int = 40) -> Dataset:
    """Classes without pictures: domain → number of classes."""
    ids = sorted(f"{name}/c{number:03d}" for name, count in sizes.items() for number in range(count))
    keys = [f"{class_id}/{image}" for class_id in ids for image in range(images)]
    offsets = np.arange(len(ids) + 1) * images
    return Dataset("made", tuple(ids), offsets, pa.array(keys), _NoPictures(), "nowhere")


class _NoPictures:
    def read(self, row: int) -> Image.Image:
        raise AssertionError("no picture is needed")


def _settings(*changes: str) -> CrossDomainSettings:
    settings = layered(get_study("cross-domain"), None, changes).settings
    assert isinstance(settings, CrossDomainSettings)
    return settings


def test_domains_are_held_out_in_turn_and_the_others_split_seven_to_three() -> None:
    dataset = _dataset({f"d{number}": 40 for number in range(13)})
    plan = make_plan(_settings("held_out=3", "runs=4"), dataset)
    tested = [[domain.name for domain in run.test] for run in plan.runs]
    assert [len(names) for names in tested] == [3, 3, 3, 3]
    assert len({name for names in tested for name in names}) == 12  # nobody twice before everybody once
    for run, names in zip(plan.runs, tested, strict=True):
        assert (len(run.train), len(run.validation)) == (7, 3)
        assert not set(names) & {*run.train, *run.validation} and not set(run.train) & set(run.validation)
        assert {c.split("/")[0] for c in run.split.train} == set(run.train)
        assert {c.split("/")[0] for c in run.split.validation} == set(run.validation)
    assert len({run.train for run in plan.runs}) > 1


def test_classes_of_a_domain_are_split_70_15_15() -> None:
    plan = make_plan(_settings("held_out=1", "runs=1"), _dataset(dict.fromkeys("abc", 40)))
    (domain,) = plan.runs[0].test
    assert domain.split.sizes == {"train": 28, "validation": 6, "test": 6}
    assert len({c for part in domain.split.parts.values() for c in part}) == 40
    assert (domain.within.way, domain.within.shot, domain.within.query) == (5, 5, 20)
    assert (domain.any.max_way, domain.any.max_shot, domain.any.query) == (20, 20, 20)
    assert len(plan.notes) == 2  # one run instead of three, and which domains; nothing had to be adapted
    assert plan.notes[0] == "Not the paper's amounts, which stand in brackets: runs 1 (3)."


def test_what_few_classes_and_images_change_is_said() -> None:
    plan = make_plan(_settings("held_out=1", "runs=1"), _dataset(dict.fromkeys("abc", 9), images=12))
    (domain,) = plan.runs[0].test
    assert domain.split.sizes == {"train": 3, "validation": 3, "test": 3}
    assert (domain.within.way, domain.within.shot, domain.within.query) == (3, 5, 7)
    assert (domain.any.max_way, domain.any.max_shot, domain.any.query) == (9, 6, 6)
    notes = " ".join(plan.notes)
    assert "the split is 3/3/3 (train, validation, test), not 70/15/15 %" in notes
    assert "tasks are 3-way 5-shot with 7 queries" in notes
    assert "have 2–9 ways, 1–6 shots and 6 queries" in notes


def test_small_domains_are_left_out_and_named() -> None:
    dataset = _dataset({"a": 6, "b": 6, "c": 6, "tiny": 5})
    plan = make_plan(_settings("held_out=1", "runs=3"), dataset)
    assert "1 domain left out ('tiny')" in plan.notes[0]
    assert {run.test[0].name for run in plan.runs} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("sizes", "changes", "message"),
    [
        (
            {"a": 9, "b": 9},
            [],
            "has 2 domains of 6 or more classes with 2 or more images (0 have less), but 5 are needed",
        ),
        ({"a": 9, "b": 9, "c": 9}, ["domains=[a, d]"], "has no domain 'd'; it has 3: 'a', 'b', 'c'."),
        (
            dict.fromkeys("abcd", 9),
            ["domains=[a, b, c]", "test_domains=[d]"],
            "'d' is not among the 3 domains",
        ),
    ],
)
def test_too_few_domains_are_told(sizes: dict[str, int], changes: list[str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        make_plan(_settings(*changes), _dataset(sizes))
    assert message in str(caught.value)


def test_a_dataset_without_branches_is_told() -> None:
    flat = replace(_dataset({"a": 3}), class_ids=("x", "y", "z"))
    with pytest.raises(UserError, match="has 3 classes and no branches, but domains are the branches"):
        make_plan(_settings(), flat)


def test_the_papers_cadence() -> None:
    settings = _settings()
    shared = [5000, 10000, 15000, 20000, 25000, 30000]
    own = [750, 1500, 2250, 3000, 3750, 4290]
    assert DomainTraining(0, None, "protonet").legs(settings) == shared
    assert DomainTraining(0, "a", "multiclass").legs(settings) == own
    assert DomainTraining(0, None, "fomaml").legs(settings) == [
        tasks // 2 for tasks in shared
    ]  # two tasks a step
    assert DomainTraining(0, None, "matching").amounts(settings)[2] == 300
    assert DomainTraining(0, "a", "matching").amounts(settings)[2] == 100


def test_tasks_never_mix_domains_and_come_from_all() -> None:
    dataset = _dataset({"a": 5, "b": 9, "c": 4})
    tasks = draw_tasks(
        Pool(dataset, np.arange(18)),
        60,
        0,
        shape=FixedShape(5, 1, 1),
        classes=OneBranch(),
        instances=UniformInstances(),
    )
    seen = [
        {dataset.class_ids[dataset.labels[row]].split("/")[0] for row in tasks.support.row(task)}
        for task in range(60)
    ]
    assert all(len(domains) == 1 for domains in seen)
    assert set.union(*seen) == {"a", "b"}  # c has too few classes


def test_neighbours_stand_together_until_there_are_enough() -> None:
    values = np.array([2] * 6 + [3] * 2 + [5] * 4 + [9] * 3)
    assert [(label, int(mask.sum())) for label, mask in grouped(values, 6)] == [("2", 6), ("3–9", 9)]
    assert [label for label, _ in grouped(np.array([4, 7]))] == ["4–7"]


def _tasks(rng: np.random.Generator, count: int, levels: Mapping[tuple[str, str], float]) -> SettingTasks:
    way, shot = rng.integers(2, 21, count), rng.integers(1, 21, count)
    scores = {
        key: level - 0.01 * way + 0.01 * shot + rng.normal(0, 0.02, count) for key, level in levels.items()
    }
    return SettingTasks(np.repeat(["a", "b"], count // 2), way, shot, scores, scores)


def test_differences_are_those_of_scipy_and_add_up() -> None:
    rng = np.random.default_rng(0)
    tasks = {
        WITHIN: _tasks(rng, 40, {(OWN, "matching"): 0.6, (OTHER, "matching"): 0.5}),
        CROSS: _tasks(rng, 40, {(OTHER, "matching"): 0.3}),
    }
    intervals = differences(tasks, "matching")
    own, other = (tasks[WITHIN].normalised[trained, "matching"] for trained in (OWN, OTHER))
    varied = tasks[CROSS].normalised[OTHER, "matching"]
    welch = stats.ttest_ind(own, varied, equal_var=False).confidence_interval()
    paired = stats.ttest_rel(own, other).confidence_interval()
    assert (intervals["within − cross"].low, intervals["within − cross"].high) == pytest.approx(
        (welch.low, welch.high)
    )
    assert (intervals["training"].low, intervals["training"].high) == pytest.approx((paired.low, paired.high))
    assert intervals["within − cross"].mean == pytest.approx(
        intervals["training"].mean + intervals["shape"].mean
    )


@pytest.mark.parametrize(
    ("prototypical", "scratch", "gain_within", "verdict"),
    [(0.5, 0.2, 0.2, "confirmed"), (0.2, 0.5, -0.2, "contradicted")],
)
def test_claims_follow_the_numbers(
    prototypical: float, scratch: float, gain_within: float, verdict: str
) -> None:
    rng = np.random.default_rng(0)
    methods = ["train-from-scratch", "prototypical"]
    levels = dict(zip(methods, (scratch, prototypical), strict=True))
    within = {(t, m): v + gain_within for t in (OWN, OTHER) for m, v in levels.items()}
    tasks = {
        WITHIN: _tasks(rng, 60, within),
        CROSS: _tasks(rng, 60, {(OTHER, m): v for m, v in levels.items()}),
    }
    verdicts = {r["claim"]: r["verdict"] for r in claims_table(methods, tasks, random=True).records}
    for claim in (
        "Cross-domain any-way any-shot is harder than within-domain 5-way 5-shot",
        "Prototypical Networks are best without pre-training",
        "Train-from-scratch is the worst baseline",
    ):
        assert verdicts[claim] == verdict
    assert verdicts["Accuracy falls with the number of ways"] == "confirmed"
    assert verdicts["Accuracy rises with the number of shots"] == "confirmed"
    assert verdicts["The ranking of methods does not depend on ways and shots"] == "not contradicted"
