"""``longshot bench``: the numbers of ``evaluate`` on a card, a board that grows, a page, the real command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longshot
from longshot.base import UserError


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Path:
    """Uniform and difficult tasks on photos, the latter judged by pixels."""
    folder = tmp_path_factory.mktemp("bench")
    dataset = longshot.open_dataset(photos)
    shape = {"tasks": 20, "way": 3, "shot": 1, "query": 2}
    longshot.sample(dataset, **shape).save(folder / "easy.parquet")
    hard = longshot.sample(dataset, **shape, instances="difficult", judge="pixels")
    hard.save(folder / "hard.parquet")
    return folder


def own_vectors(dataset: longshot.Dataset) -> longshot.Features:
    """A network of its own: noise that knows the class."""
    rng = np.random.default_rng(0)
    counts = np.diff(dataset.offsets)
    labels = np.repeat(np.arange(len(counts)), counts)
    vectors = np.eye(len(counts))[labels] + 0.4 * rng.normal(size=(len(labels), len(counts)))
    return longshot.embed(dataset, vectors.astype(np.float32))


def test_the_card_has_the_numbers_of_evaluate(world: Path, tmp_path: Path) -> None:
    suite = [world / "easy.parquet", world / "hard.parquet"]
    card = longshot.bench("pixels", suite=suite, methods=["protonet", "ridge"], out=tmp_path / "b")
    results = longshot.evaluate(suite, backbones="pixels", methods=["protonet", "ridge"])
    expected = {(row["method"], row["testbed"]): row for row in results.summary()}
    assert {(entry.method, name) for entry in card.entries for name in entry.scores} == set(expected)
    for entry in card.entries:
        for name, score in entry.scores.items():
            row = expected[entry.method, name]
            assert score.mean == pytest.approx(row["accuracy"])
            assert (score.half, score.class_half) == pytest.approx((row["ci95"], row["ci95_over_classes"]))
    assert dict(card.kinds) == {"easy": "uniform", "hard": "difficult"}
    record = json.loads((tmp_path / "b" / "card.json").read_text())
    assert [entry["method"] for entry in record["entries"]] == ["protonet", "ridge"]
    assert card.entries[0].milliseconds_per_image is not None


def test_a_judge_is_marked_and_not_ranked(world: Path, photos: Path) -> None:
    suite = [world / "easy.parquet", world / "hard.parquet"]
    other = own_vectors(longshot.open_dataset(photos))
    card = longshot.bench({"pixels": "pixels", "mine": other}, suite=suite, methods="protonet")
    by_model = {entry.model: entry for entry in card.entries}
    assert [by_model["pixels"].scores[name].judge for name in ("easy", "hard")] == [False, True]
    assert by_model["pixels"].average is None and by_model["mine"].average is not None
    assert [entry.model for entry in card.board.ordered()] == ["mine", "pixels"]
    assert by_model["mine"].milliseconds_per_image is None
    text = card.markdown()
    assert "†" in text and "is not ranked" in text


def test_a_label_does_not_hide_a_judge(world: Path) -> None:
    suite = [world / "hard.parquet"]
    (entry,) = longshot.bench("mine=pixels", suite=suite, methods="protonet").entries
    assert (entry.model, entry.scores["hard"].judge) == ("mine", True)


def test_the_page_is_whole_and_escaped(world: Path, photos: Path) -> None:
    features = own_vectors(longshot.open_dataset(photos))
    page = longshot.bench({"<b>mine": features}, suite=world / "easy.parquet", methods="protonet").page()
    assert "&lt;b&gt;mine" in page and "<b>mine" not in page
    assert "20 tasks, 3‑way, 1‑shot" in page
    assert "Leaderboard" in page and "http" not in page.replace("http://www.w3.org", "")


def test_the_command_and_a_merge(world: Path, tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    easy = str(world / "easy.parquet")
    first = run_cli("bench", "pixels", "--suite", easy, "--method", "protonet", "-o", tmp_path / "a")
    assert "pixels" in first.stdout and "leaderboard" in first.stdout
    run_cli("bench", "pixels", "--suite", easy, "--method", "ridge", "-o", tmp_path / "b")
    board = tmp_path / "b" / "leaderboard.json"
    run_cli("bench", "--suite", easy, "--merge", board, "-o", tmp_path / "a")
    entries = json.loads((tmp_path / "a" / "leaderboard.json").read_text())["entries"]
    assert [entry["method"] for entry in entries] == ["protonet", "ridge"]
    assert "ridge" in (tmp_path / "a" / "card.md").read_text()


def test_mistakes_are_one_sentence(world: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Boards can only be merged into a file"):
        longshot.bench([], suite=world / "easy.parquet", merge=[tmp_path / "b.json"])
    with pytest.raises(UserError, match="does not exist"):
        longshot.bench([], suite=world / "easy.parquet", merge=[tmp_path / "b.json"], out=tmp_path / "a")
    with pytest.raises(UserError, match="0 models were given, and there is no leaderboard to show"):
        longshot.bench([], suite=world / "easy.parquet", out=tmp_path / "none")
    with pytest.raises(UserError, match="nosuch"):
        longshot.bench("nosuch", suite=world / "easy.parquet")
