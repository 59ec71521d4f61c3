"""Meta-Dataset's own episodes: bit for bit those of the reference sampler."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import longshot
from conftest import ROOT
from longshot.base import UserError, hash_json
from longshot.data import read_spec
from longshot.tasks import replay
from longshot.tasks.published_names import find_classes
from longshot.tasks.replay import episode_rows, episodes, hash_episodes, read_source
from record_writers import flat_spec, write_spec

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
    replayed = episode_rows(episodes(read_source(spec(shared, name)), len(expected), seed=1234))
    assert len(expected) == 200 and replayed == expected


def test_the_first_episodes_do_not_depend_on_how_many_follow(shared: Path) -> None:
    source = read_source(spec(shared, "aircraft"))
    short, many = (episode_rows(episodes(source, count, seed=3)) for count in (5, 20))
    assert short == many[:5]


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
    with pytest.raises(UserError, match=r"broken\.json is not valid JSON"):
        read_source(tmp_path / "broken.json")
    with pytest.raises(UserError, match="none of Meta-Dataset's split tables"):
        read_source(tmp_path / "other.json")


def test_a_split_that_does_not_exist(shared: Path) -> None:
    with pytest.raises(UserError, match="no split 'held'; choose train, valid or test"):
        read_source(spec(shared, "aircraft"), "held")


@pytest.mark.parametrize(
    ("name", "split"),
    [("mscoco", "train"), ("traffic_sign", "train"), ("traffic_sign", "valid"), ("ilsvrc_2012_v2", "test")],
)
def test_a_split_without_classes_is_one_sentence(shared: Path, name: str, split: str) -> None:
    with pytest.raises(
        UserError, match=rf"{name} has 0 {split} classes, but an episode needs 5; choose another"
    ):
        read_source(spec(shared, name), split)


def test_a_seed_that_the_reference_cannot_take(shared: Path) -> None:
    with pytest.raises(UserError, match="lies between 0 and 4,294,967,295"):
        episodes(read_source(spec(shared, "dtd")), 1, seed=2**32)


def test_the_hashes_in_the_docs_are_those_the_command_prints(shared: Path, golden, capsys) -> None:
    replay.main([str(path) for path in sorted((shared / "data/meta-dataset-specs").glob("*_spec.json"))])
    printed = capsys.readouterr().out
    assert printed in (ROOT / "docs" / "howto" / "replay.md").read_text(encoding="utf-8")
    for name, rows in golden.items():
        assert (
            f"| {name} | test | {len(read_source(spec(shared, name)).sizes)} | `{hash_json(rows)}` |"
            in printed
        )


# ---- as a testbed -------------------------------------------------------------------------------------


SIZES = [4, 30, 40, 25, 26, 27, 60, 35, 22, 21, 24, 31]
NAMES = [f"{number:02d}.kind {chr(65 + number)}/x" for number in range(12)]


@pytest.fixture
def small_spec(tmp_path: Path) -> Path:
    """Four train, no validation and eight test classes."""
    write_spec(tmp_path, flat_spec(SIZES, (4, 0, 8)))
    return tmp_path / "dataset_spec.json"


def test_a_testbed_has_the_episodes_and_images_of_longshots_stream(small_spec: Path, make_dataset) -> None:
    dataset = make_dataset(dict(zip((name.replace("/", "_") for name in NAMES), SIZES, strict=True)))
    testbed = longshot.sample(dataset, replay=small_spec, split="test", tasks=6, seed=5, identity="names")
    expected = episode_rows(episodes(read_source(small_spec), 6, seed=5))
    for task, episode in zip(testbed, expected, strict=True):
        assert [c[:2] for c in task.classes] == [f"{4 + position:02d}" for position, _, _ in episode]
        assert list(task.shots) == [shot for _, shot, _ in episode]
        assert len(task.query) == sum(query for _, _, query in episode)
        assert not set(task.support) & set(task.query)
    sampler = testbed.meta["sampler"]
    assert sampler["shape"]["images"] == "by Longshot's own stream"
    assert sampler["episodes_sha256"] == hash_episodes(read_source(small_spec), 6, seed=5)
    again = longshot.sample(dataset, replay=small_spec, split="test", tasks=4, seed=5, identity="names")
    assert [task.support for task in again] == [task.support for task in testbed][:4]


def test_classes_are_found_however_they_are_spelled(small_spec: Path, make_dataset) -> None:
    spellings = {
        "ids of the reader": [f"{n:04d}-{name.replace('/', '_')}" for n, name in enumerate(NAMES)],
        "below a folder": [f"group/{name.replace('/', ' ')}" for name in NAMES],
        "other case, no number": [name[3:].upper().replace("/", "-") for name in NAMES],
    }
    for names in spellings.values():
        dataset = make_dataset(dict(zip(names, SIZES, strict=True)))
        numbers = find_classes(read_spec(small_spec), "test", dataset)
        assert [dataset.class_ids[number] for number in numbers] == names[4:]


def test_two_names_of_one_class_are_refused(small_spec: Path, make_dataset) -> None:
    raw = json.loads(small_spec.read_text())
    raw["class_names"]["5"] = "KIND e x"
    small_spec.write_text(json.dumps(raw))
    dataset = make_dataset({f"kind {chr(65 + number)} x": 50 for number in range(12)})
    with pytest.raises(UserError, match="Class 'kind E x' of 'small' answers to 2 test classes"):
        find_classes(read_spec(small_spec), "test", dataset)


def test_mistakes_with_a_replay_are_one_sentence(small_spec: Path, make_dataset, capsys) -> None:
    dataset = make_dataset(dict(zip((name.replace("/", "_") for name in NAMES), SIZES, strict=True)))
    mistakes = {
        "has 4 train classes, but an episode needs 5": {"split": "train"},
        "follows one split of the spec; say which with split=": {},
        "so shape does not go with it": {"split": "test", "shape": "any"},
        "so way does not go with it": {"split": "test", "way": 5},
        "so coarsity does not go with it": {"split": "test", "coarsity": "1:2"},
        "so drop_small does not go with it": {"split": "test", "drop_small": True},
        "no rule may limit them": {"split": "test", "disjoint_pools": True},
    }
    for sentence, settings in mistakes.items():
        with pytest.raises(UserError, match=sentence):
            longshot.sample(dataset, replay=small_spec, tasks=3, **settings)
    with pytest.raises(UserError, match="has 0 of the 8 test classes of small, and a replay needs all"):
        longshot.sample(make_dataset([40] * 12), replay=small_spec, split="test", tasks=3)
    fewer = make_dataset({name.replace("/", "_"): 20 for name in NAMES})
    with pytest.raises(UserError, match=r"has 20 images, but episode \d+ of small takes \d+ of it"):
        longshot.sample(fewer, replay=small_spec, split="test", tasks=20)
    assert (
        "8 of the 8 test classes have other numbers of images in 'small' than in the spec"
        in capsys.readouterr().err
    )


def test_the_command_replays(small_spec: Path, tmp_path: Path, run_cli) -> None:
    for name, size in zip(NAMES, SIZES, strict=True):
        folder = tmp_path / "own" / name.replace("/", "_")
        folder.mkdir(parents=True)
        for number in range(size):
            Image.new("RGB", (2, 2), (number, len(name), 0)).save(folder / f"{number}.png")
    out = tmp_path / "replayed.parquet"
    arguments = ("--replay", small_spec, "--split", "test", "--tasks", "7", "--seed", "1234", "-o", out)
    facts = json.loads(run_cli("sample", tmp_path / "own", *arguments, "--json").stdout)
    assert facts["tasks"] == 7 and facts["sampler"]["shape"]["source"] == "small"
    assert facts["sampler"]["episodes_sha256"] == hash_episodes(read_source(small_spec), 7)
