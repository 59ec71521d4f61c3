"""Several suites under one name: what is here is measured, what is missing is named, and one card says it all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longshot
from longshot.base import UserError
from longshot.publish import BenchCard, GroupCard, Leaderboard
from longshot.publish.bench_group import comparable_boards, entry_ranks
from longshot.publish.leaderboard import Entry, TestbedScore
from longshot.publish.suite import open_suite, write_suite
from longshot.statistics import meta_dataset_ranks


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Path:
    """Two suites and a group of them and a third, whose images are nowhere."""
    folder = tmp_path_factory.mktemp("suites")
    dataset = longshot.open_dataset(photos)
    shape = {"tasks": 12, "way": 3, "shot": 1, "query": 2}
    for number, name in enumerate(("birds-1", "boats-1")):
        beds = folder / "beds" / name
        beds.mkdir(parents=True)
        longshot.sample(dataset, **shape, seed=number).save(beds / "uniform.parquet")
        hard = longshot.sample(dataset, **shape, seed=number, instances="difficult", judge="pixels")
        hard.save(beds / "difficult.parquet")
        suite = open_suite([beds / "uniform.parquet", beds / "difficult.parquet"], ["protonet"])
        write_suite(suite, folder / name)
    record = json.loads((folder / "birds-1" / "suite.json").read_text())
    for name in ("birds-1", "boats-1"):
        record = json.loads((folder / name / "suite.json").read_text())
        facts = {"name": name, "images": f"Get {name} from its makers."}
        (folder / name / "suite.json").write_text(json.dumps(record | facts))
    (folder / "all-1.json").write_text(json.dumps({"about": "Both.", "suites": ["birds-1", "boats-1"]}))
    return folder


@pytest.fixture(autouse=True)
def _own_suites(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshot.publish.suite.SHIPPED", shipped)


def own_vectors(photos: Path, noise: float) -> longshot.Features:
    rng = np.random.default_rng(0)
    dataset = longshot.open_dataset(photos)
    counts = np.diff(dataset.offsets)
    labels = np.repeat(np.arange(len(counts)), counts)
    vectors = np.eye(len(counts))[labels] + noise * rng.normal(size=(len(labels), len(counts)))
    return longshot.embed(dataset, vectors.astype(np.float32))


def test_one_card_over_the_suites(photos: Path, tmp_path: Path) -> None:
    models = {"good": own_vectors(photos, 0.3), "poor": own_vectors(photos, 1.5)}
    card = longshot.bench(models, suite="all-1", out=tmp_path / "b", datasets={photos.name: photos})
    assert isinstance(card, GroupCard) and [each.suite for each in card.cards] == ["birds-1", "boats-1"]
    rows = {row[0].text: {column.head: cell for column, cell in zip(card.sheet().columns, row, strict=True)}
            for row in card.sheet().rows}  # fmt: skip
    uniform = np.mean([e.scores["uniform"].mean for e in card.entries if e.model == "good"])
    assert rows["good"]["uniform"].value == pytest.approx(uniform)
    drops = [
        np.mean(np.subtract(e.scores["difficult"].accuracies, e.scores["uniform"].accuracies))
        for e in card.entries
        if e.model == "poor"
    ]
    assert rows["poor"]["drop"].value == pytest.approx(np.mean(drops))
    assert rows["good"]["rank"].value < rows["poor"]["rank"].value
    assert (tmp_path / "b" / "birds-1" / "leaderboard.json").is_file() and (
        tmp_path / "b" / "card.html"
    ).is_file()


def test_ranks_are_those_of_meta_dataset(photos: Path, tmp_path: Path) -> None:
    models = {"good": own_vectors(photos, 0.3), "poor": own_vectors(photos, 1.5)}
    (card, _) = longshot.bench(models, suite="all-1", datasets={photos.name: photos}).cards
    scores = [entry.scores["uniform"] for entry in card.entries]
    expected = meta_dataset_ranks([s.mean for s in scores], [s.half for s in scores])
    assert [entry_ranks(card.entries)[entry.key][0] for entry in card.entries] == expected.tolist()


def test_images_that_are_nowhere_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path))
    with pytest.raises(
        UserError, match=r"images of 0 of 2 suites are here.*birds-1: Get birds-1 from its makers"
    ):
        longshot.bench("pixels", suite="all-1")


def test_a_folder_is_merged_by_what_its_predictions_say(photos: Path, tmp_path: Path) -> None:
    places = {"datasets": {photos.name: photos}, "suite": "birds-1"}
    longshot.bench({"good": own_vectors(photos, 0.3)}, out=tmp_path / "theirs", **places)
    card = longshot.bench(
        {"poor": own_vectors(photos, 1.5)}, out=tmp_path / "ours", merge=[tmp_path / "theirs"], **places
    )
    assert {entry.model for entry in card.board.entries} == {"good", "poor"}
    board = tmp_path / "theirs" / "leaderboard.json"
    record = json.loads(board.read_text())
    record["entries"][0]["scores"]["uniform"]["accuracies"][0] = 0.123
    board.write_text(json.dumps(record))
    with pytest.raises(UserError, match="lacks 1 entry that its run's predictions give"):
        longshot.bench([], out=tmp_path / "ours", merge=[tmp_path / "theirs"], **places)


def test_without_longshot(photos: Path, tmp_path: Path) -> None:
    """The loader finds the images of every task by their bytes, in a plain Python that knows no Longshot."""
    longshot.bench([], suite="birds-1", export=tmp_path / "plain")
    code = (
        "import json, load_suite; print(json.dumps([[[str(path), label] for path, label in support + query] "
        "for support, query in load_suite.load(%r, %r)]))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", code % ("testbeds/uniform.csv", str(photos))],
        cwd=tmp_path / "plain", capture_output=True, text=True, check=True,
    )  # fmt: skip
    testbed = open_suite("birds-1").testbeds["uniform"]
    expected = [
        [[str(photos / key), int(label)] for keys, labels in ((t.support, t.support_label), (t.query, t.query_label))
         for key, label in zip(keys, labels, strict=True)]
        for t in testbed
    ]  # fmt: skip
    assert json.loads(done.stdout) == expected
    assert "Get birds-1 from its makers" in (tmp_path / "plain" / "README.md").read_text()


def a_board(suite: str, **means: float) -> BenchCard:
    """A card of two testbeds with one series for each name, which ends in its accuracy on both."""
    rng = np.random.default_rng(0)
    entries = tuple(
        Entry(
            model=model.replace("_128", "(size=128)"), identity=model, method="protonet", setting="inductive",
            scores={
                bed: TestbedScore(
                    accuracies=tuple(mean + rng.normal(0, 0.01, 20)), half=0.005, class_half=None, judge=False
                )
                for bed in ("uniform", "difficult")
            },
            milliseconds_per_image=2.0, milliseconds_per_task=None, when="", longshot="",
        )
        for model, mean in means.items()
    )  # fmt: skip
    beds = {"uniform": "u", "difficult": "d"}
    board = Leaderboard(suite=suite, version="1", digest=suite, testbeds=beds, entries=entries)
    return BenchCard(suite, "1", "", {"uniform": "uniform", "difficult": "difficult"}, (), board)


def rows_of(cards: tuple[BenchCard, ...]) -> list[dict[str, Any]]:
    sheet = GroupCard("all", cards).board_sheet
    return [
        {column.head: cell for column, cell in zip(sheet.columns, row, strict=True)} for row in sheet.rows
    ]


def test_means_and_ranks_are_over_the_suites_that_all_rows_share() -> None:
    """Who was measured on the easier suite alone is named below, without a mean and without a place."""
    cards = (a_board("easy-1", good=0.9, poor=0.8, brief=0.95), a_board("hard-1", good=0.5, poor=0.4))
    rows = rows_of(cards)
    assert [row["model"].text for row in rows] == ["good", "poor", "brief"]
    assert [row["suites"].text for row in rows] == ["2 of 2", "2 of 2", "1 of 2, not hard-1"]
    assert rows[0]["uniform"].value == pytest.approx(0.7, abs=0.01)
    assert [row["rank"].value for row in rows] == [1, 2, None]  # as without the third
    assert [rows[2][head].text for head in ("uniform", "difficult", "drop")] == ["–"] * 3
    assert rows[2]["fails at"].text.startswith("easy-1/")
    note = GroupCard("all", cards).board_sheet.note
    assert "over the same 2 suites for all" in note
    assert all(len(board.entries) == 2 for board in comparable_boards(cards))


def test_a_network_at_another_size_is_one_series_where_its_own_is_missing() -> None:
    cards = (a_board("large-1", net=0.9, poor=0.8), a_board("small-1", net_128=0.5, poor=0.4))
    rows = rows_of(cards)
    assert [(row["model"].text, row["suites"].text) for row in rows] == [
        ("net", "2 of 2"),
        ("poor", "2 of 2"),
    ]
    assert "On small-1 rows show net(size=128)." in (GroupCard("all", cards).board_sheet.note)
    two_cards = (cards[0], a_board("small-1", net_128=0.5, net=0.6, poor=0.4))
    assert sorted((row["model"].text, row["suites"].text) for row in rows_of(two_cards)) == [
        ("net", "2 of 2"), ("net(size=128)", "1 of 2, not large-1"), ("poor", "2 of 2"),
    ]  # fmt: skip
