"""Taxonomies put in place of a dataset's own, WordNet by folder names, and labels on the way to the pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import longshot
from longshot.base import UserError
from longshot.data import Dataset, class_labels, find_wordnet, read_wordnet, with_taxonomy, write_csv

# tench and goldfish, two dogs, two vegetables
WORDNET_IDS = ("n01440764", "n01443537", "n02104029", "n02105056", "n07714571", "n07716358")
FLAT = "parent,child,label\n,thing,\nthing,a,Alpha\nthing,b,\nthing,c,c\n"


@pytest.fixture
def flat(tree: Callable[..., Path]) -> Dataset:
    return longshot.open_dataset(tree({"a": 3, "b": 3, "c": 3}))


@pytest.fixture
def synsets(tree: Callable[..., Path]) -> Path:
    try:
        find_wordnet()
    except UserError as error:
        pytest.skip(f"needs WordNet 3.0 (Debian's wordnet-base): {error}")
    return tree(dict.fromkeys(WORDNET_IDS, 4))


def test_a_file_stands_in_place_of_the_datasets_own(flat: Dataset, tmp_path: Path) -> None:
    (tmp_path / "kinds.csv").write_text(FLAT)
    data = with_taxonomy(flat, tmp_path / "kinds.csv")
    assert data.taxonomy is not None and data.taxonomy.nodes == ("a", "b", "c", "thing")
    assert data.fingerprint == flat.fingerprint and data.taxonomy_from is not None
    assert class_labels(data) == {"a": "Alpha"}  # "c" says nothing new, "b" has none
    assert with_taxonomy(flat, None) is flat and class_labels(flat) == {}


def test_what_does_not_fit_is_one_sentence(flat: Dataset, tmp_path: Path) -> None:
    (tmp_path / "kinds.csv").write_text("parent,child\nthing,a\n")
    with pytest.raises(
        UserError, match=r"kinds.csv lacks 2 of the 3 classes of '.*' \('b', 'c'\); add an edge"
    ):
        with_taxonomy(flat, tmp_path / "kinds.csv")
    with pytest.raises(
        UserError, match=r"needs classes that are called by WordNet ids, .* 3 of the 3 classes"
    ):
        with_taxonomy(flat, "wordnet")
    with pytest.raises(
        UserError, match="has no taxonomy, so its classes have no distances; nest its class folders"
    ):
        longshot.sample(flat, classes="semantic", way=2, shot=1, query=1, tasks=1)
    with pytest.raises(UserError, match="has no taxonomy to reduce"):
        longshot.sample(flat, reduction="shortest-paths", way=2, shot=1, query=1, tasks=1)


def test_wordnet_is_offered_by_folder_names_and_not_assumed(synsets: Path) -> None:
    data = longshot.open_dataset(synsets)
    assert data.taxonomy is None and longshot.data.describe_dataset(data)["wordnet_ids"]
    offer = 'its classes are called by WordNet ids: give taxonomy="wordnet"'
    with pytest.raises(UserError, match=offer):
        longshot.sample(data, classes="semantic", way=2, shot=1, query=1, tasks=1)
    with pytest.raises(UserError, match=offer):
        longshot.make_split(data, semantic=True)


def test_tasks_splits_and_measures_by_wordnet(synsets: Path, tmp_path: Path) -> None:
    shape = {"way": 2, "shot": 1, "query": 1, "tasks": 6}
    bed = longshot.sample(synsets, taxonomy="wordnet", reduction="shortest-paths", **shape)
    assert bed.meta["sampler"]["taxonomy"].startswith("WordNet 3.0 ")
    assert bed.meta["sampler"]["reduction"] == "shortest-paths"
    bed.save(tmp_path / "bed.parquet")
    labels = longshot.Testbed.load(tmp_path / "bed.parquet").labels[Path(synsets).name]
    assert labels["n01440764"] == "tench" and set(labels) <= set(WORDNET_IDS)
    assert longshot.Testbed.concat([bed, bed]).labels == bed.changed(bed.table).labels == bed.labels
    plain = longshot.sample(synsets, **shape)
    assert "labels" not in plain.meta and "coarsity" not in plain.measured
    again = longshot.inspect(plain, taxonomy="wordnet", reduction="shortest-paths")
    (measured,) = again.coarsity.values()
    assert measured["mean"] == pytest.approx(bed.table["coarsity"].to_numpy().mean(), abs=1e-4)
    assert "by WordNet 3.0" in str(again) and again.facts["coarsity"]
    split = longshot.make_split(synsets, semantic=True, taxonomy="wordnet", level=8, ratios=(0.4, 0.3, 0.3))
    assert split.made["taxonomy"] == bed.meta["sampler"]["taxonomy"]
    parts = {"splits": "semantic(level=8)", "split": "train", "taxonomy": "wordnet"}
    assert (
        longshot.sample(synsets, **parts, way=2, shot=1, query=1, tasks=2).meta["sampler"]["split"] == "train"
    )
    with pytest.raises(UserError, match="taxonomy is for episodes and splits whose classes it decides"):
        longshot.train("protonet", synsets, taxonomy="wordnet", out=tmp_path / "run")
    assert longshot.measure_distances(synsets, taxonomy="wordnet").labels["n02104029"] == "kuvasz"


def test_pages_show_the_label_beside_the_id(synsets: Path, tmp_path: Path) -> None:
    bed = longshot.sample(synsets, taxonomy="wordnet", way=6, shot=1, query=2, tasks=1)
    longshot.inspect(bed, html=tmp_path / "bed.html", pictures=1, datasets={synsets.name: synsets})
    assert "<b>tench (n01440764)</b>" in (tmp_path / "bed.html").read_text("utf-8")
    results = longshot.evaluate(bed, backbones="pixels", methods="protonet", datasets={synsets.name: synsets})
    longshot.report(results, tmp_path / "run.html", datasets={synsets.name: synsets})
    text = (tmp_path / "run.html").read_text("utf-8")
    assert "<b>kuvasz (n02104029)</b>" in text  # in the pictures of tasks
    assert "as goldfish (n01443537)" in text  # in the confusions


def test_a_taxonomy_beside_the_folders_has_the_nodes_that_were_written(synsets: Path) -> None:
    part = read_wordnet().restrict(WORDNET_IDS)
    write_csv(part, synsets / "taxonomy.csv")
    data = longshot.open_dataset(synsets)
    assert data.taxonomy is not None and data.taxonomy.nodes == part.nodes
    assert class_labels(data)["n02105056"] == "groenendael"
    assert longshot.data.describe_dataset(data)["taxonomy"]["nodes"] == len(part)
