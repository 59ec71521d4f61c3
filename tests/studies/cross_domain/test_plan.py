"""The study of domains: which domains are tested, trained on and reserved, what is adapted to the data, mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.data import Dataset
from longshot.studies import get_study, layered
from longshot.studies.cross_domain.cross_domain_plan import CrossDomainSettings, make_domains
from longshot.studies.cross_domain.cross_domain_recipe import OneBranch
from longshot.tasks import FixedShape, sample


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
    data = make_domains(_settings("held_out=3", "runs=4"), dataset)
    tested = [[domain.name for domain in run.test] for run in data.runs]
    assert [len(names) for names in tested] == [3, 3, 3, 3]
    assert len({name for names in tested for name in names}) == 12  # nobody twice before everybody once
    for run, names in zip(data.runs, tested, strict=True):
        assert (len(run.train), len(run.validation)) == (7, 3)
        assert not set(names) & {*run.train, *run.validation} and not set(run.train) & set(run.validation)
        assert {c.split("/")[0] for c in run.split.train} == set(run.train)
        assert {c.split("/")[0] for c in run.split.validation} == set(run.validation)
    assert len({run.train for run in data.runs}) > 1


def test_classes_of_a_domain_are_split_70_15_15() -> None:
    data = make_domains(_settings("held_out=1", "runs=1"), _dataset(dict.fromkeys("abc", 40)))
    (domain,) = data.runs[0].test
    assert domain.split.sizes == {"train": 28, "validation": 6, "test": 6}
    assert len({c for part in domain.split.parts.values() for c in part}) == 40
    assert (domain.within.way, domain.within.shot, domain.within.query) == (5, 5, 20)
    assert (domain.any.max_way, domain.any.max_shot, domain.any.query) == (20, 20, 20)
    assert len(data.notes) == 2  # one run instead of three, and which domains; nothing had to be adapted
    assert data.notes[0] == "Not the paper's amounts, which stand in brackets: runs 1 (3)."


def test_what_few_classes_and_images_change_is_said() -> None:
    data = make_domains(_settings("held_out=1", "runs=1"), _dataset(dict.fromkeys("abc", 9), images=12))
    (domain,) = data.runs[0].test
    assert domain.split.sizes == {"train": 3, "validation": 3, "test": 3}
    assert (domain.within.way, domain.within.shot, domain.within.query) == (3, 5, 7)
    assert (domain.any.max_way, domain.any.max_shot, domain.any.query) == (9, 6, 6)
    notes = " ".join(data.notes)
    assert "the split is 3/3/3 (train, validation, test), not 70/15/15 %" in notes
    assert "tasks are 3-way 5-shot with 7 queries" in notes
    assert "have 2–9 ways, 1–6 shots and 6 queries" in notes


def test_small_domains_are_left_out_and_named() -> None:
    dataset = _dataset({"a": 6, "b": 6, "c": 6, "tiny": 5})
    data = make_domains(_settings("held_out=1", "runs=3"), dataset)
    assert "1 domain left out ('tiny')" in data.notes[0]
    assert {run.test[0].name for run in data.runs} == {"a", "b", "c"}


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
        make_domains(_settings(*changes), _dataset(sizes))
    assert message in str(caught.value)


def test_a_dataset_without_branches_is_told() -> None:
    flat = replace(_dataset({"a": 3}), class_ids=("x", "y", "z"))
    with pytest.raises(UserError, match="has 3 classes and no branches, but domains are the branches"):
        make_domains(_settings(), flat)


def test_reserved_domains_serve_pre_training_alone() -> None:
    dataset = _dataset({f"d{number}": 12 for number in range(9)})
    data = make_domains(_settings("pretrained=", "reserved=2", "held_out=3", "runs=2"), dataset)
    assert len(data.reserved) == 2
    for run in data.runs:
        used = {domain.name for domain in run.test} | {*run.train, *run.validation}
        assert len(used) == 7 and not used & set(data.reserved)
    assert {c.split("/")[0] for c in data.pretraining.splits["train"]} == set(data.reserved)
    named = make_domains(_settings("reserved=2", "held_out=3", "runs=1"), dataset)  # the preset names weights
    assert named.reserved == () and len(named.runs[0].train) + len(named.runs[0].validation) == 6


def test_pre_trained_weights_must_come_from_somewhere() -> None:
    dataset = _dataset(dict.fromkeys("abcdef", 9))
    with pytest.raises(UserError, match="'pre-trained' has no weights"):
        make_domains(_settings("pretrained=", "reserved=0", "held_out=1"), dataset)
    assert make_domains(_settings("pretrained=", "reserved=0", "held_out=1", "starts=random"), dataset).runs


def test_tasks_never_mix_domains_and_come_from_all() -> None:
    dataset = _dataset({"a": 5, "b": 9, "c": 4})
    tasks = sample(dataset, tasks=60, shape=FixedShape(5, 1, 1), classes=OneBranch(), identity="names")
    seen = [{class_id.split("/")[0] for class_id in task.classes} for task in tasks]
    assert all(len(domains) == 1 for domains in seen)
    assert set.union(*seen) == {"a", "b"}  # c has too few classes
