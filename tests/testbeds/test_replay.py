"""Meta-Dataset's own episodes: bit for bit those of the reference sampler."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from longshot.core.errors import UserError
from longshot.testbeds.replay import episodes, read_source

SOURCES = ("aircraft", "dtd", "fungi", "ilsvrc_2012", "omniglot")


def spec(shared: Path, name: str) -> Path:
    return shared / "data/meta-dataset-specs" / f"{name}_dataset_spec.json"


@pytest.fixture(scope="module")
def golden(shared: Path) -> dict[str, list[list[list[int]]]]:
    return json.loads((shared / "golden/meta_dataset_episodes.json").read_text())["episodes"]


def test_the_reference_covers_the_five_sources(golden) -> None:
    assert sorted(golden) == sorted(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_episodes_equal_the_reference_bit_for_bit(shared: Path, golden, name: str) -> None:
    expected = golden[name]
    replayed = [
        [[int(c), int(k), episode.query] for c, k in zip(episode.classes, episode.shots, strict=True)]
        for episode in episodes(read_source(spec(shared, name)), len(expected), seed=1234)
    ]
    assert len(expected) == 200 and replayed == expected


def test_the_first_episodes_do_not_depend_on_how_many_follow(shared: Path) -> None:
    source = read_source(spec(shared, "aircraft"))
    short, many = (list(episodes(source, count, seed=3)) for count in (5, 20))
    assert all(np.array_equal(a.shots, b.shots) for a, b in zip(short, many, strict=False))


@pytest.mark.parametrize(("split", "nodes"), [("train", 113), ("valid", 18), ("test", 15)])
def test_eligible_nodes_of_ilsvrc(shared: Path, split: str, nodes: int) -> None:
    assert len(read_source(spec(shared, "ilsvrc_2012"), split).groups) == nodes


def test_splits_of_a_flat_source_follow_each_other(shared: Path) -> None:
    sizes = [len(read_source(spec(shared, "aircraft"), split).sizes) for split in ("train", "valid", "test")]
    assert sizes == [70, 15, 15]


def test_alphabets_cover_the_split(shared: Path) -> None:
    source = read_source(spec(shared, "omniglot"))
    assert np.array_equal(np.concatenate(source.groups), np.arange(len(source.sizes)))


def test_a_file_that_is_no_spec(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(UserError, match="not a readable Meta-Dataset dataset_spec"):
        read_source(tmp_path / "broken.json")
    with pytest.raises(UserError, match="none of Meta-Dataset's split tables"):
        read_source(tmp_path / "other.json")


def test_a_split_that_does_not_exist(shared: Path) -> None:
    with pytest.raises(UserError, match="no split 'dev'; choose train, valid or test"):
        read_source(spec(shared, "aircraft"), "dev")
