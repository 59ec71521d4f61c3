"""``identity="names"``: every verb accepts it, reads at most a few images for it, records it and shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longshot
from longshot.base import UserError
from longshot.data import identity
from longshot.models import cached_pixels
from wings import wing_cases

PROBED = 16
TASKS: dict[str, Any] = {"tasks": 4, "way": 2, "shot": 1, "query": 3}


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 small images in 4 classes."""
    path = tmp_path_factory.mktemp("album") / "album.npz"
    images = np.random.default_rng(5).integers(0, 255, (60, 16, 16, 3), dtype=np.uint8)
    np.savez(path, images=images, labels=np.repeat(["ant", "bee", "cat", "dog"], 15))
    return path


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch, fresh_cache: Path) -> set[int]:
    """Rows of images whose bytes were digested."""
    rows: set[int] = set()
    original = identity._hashed

    def hashed(store: Any, chosen: Any, *settings: Any) -> Any:
        rows.update(chosen.tolist())
        return original(store, chosen, *settings)

    monkeypatch.setattr(identity, "_hashed", hashed)
    return rows


@pytest.fixture
def by_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHOT_IDENTITY", "names")


def made_split(album: Path, folder: Path) -> str:
    longshot.make_split(album, random=True, ratios=(0.5, 0.25, 0.25), out=folder / "split.json")
    return str(json.loads((folder / "split.json").read_text())["made"]["identity"])


def made_judged(album: Path, folder: Path) -> str:
    return longshot.sample(album, **TASKS, instances="difficult", judge="pixels").identity


def made_overlap(album: Path, folder: Path) -> str:
    return str(longshot.find_overlap(album, album, out=folder / "o.json").a["identity"])


def made_pixels(album: Path, folder: Path) -> str:
    dataset = longshot.open_dataset(album)
    cached_pixels(dataset, "decode|resize(8,8)")
    return dataset.identity


def made_training(album: Path, folder: Path) -> str:
    longshot.train("protonet(way=2, shot=1, query=2)", album, network="cnn4(width=4)", size=16, steps=1,
                   validation_tasks=2, split="all", out=folder / "net")  # fmt: skip
    return str(json.loads((folder / "net" / "training.json").read_text())["settings"]["images"])


def made_run(album: Path, folder: Path) -> str:
    bed = longshot.sample(album, **TASKS)
    run = longshot.evaluate(bed, backbones="pixels", methods="protonet").run
    return str(next(iter(run["backbones"]["pixels"].values()))["networks"][0]["images"])


MADE: tuple[Callable[[Path, Path], str], ...] = (
    *(made_split, made_judged, made_overlap, made_pixels, made_training, made_run),
    *chain(*wing_cases("BY_NAMES")),
)


@pytest.mark.parametrize(
    "make",
    [*MADE, *(pytest.param(make, marks=pytest.mark.long) for make in chain(*wing_cases("BY_NAMES_LONG")))],
    ids=lambda make: make.__name__,
)
def test_every_verb_reads_few_images_and_records_that_names_were_enough(
    album: Path, tmp_path: Path, by_names: None, digested: set[int], make: Callable[[Path, Path], str]
) -> None:
    assert make(album, tmp_path) == "names"
    assert len(digested) <= PROBED


def test_a_parameter_comes_before_the_variable(album: Path, by_names: None) -> None:
    assert longshot.open_dataset(album).identity == "names"
    assert longshot.open_dataset(album, identity="content").identity == "content"
    assert longshot.sample(album, **TASKS, identity="content").identity == "content"


def test_an_unknown_variable_is_one_sentence(album: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHOT_IDENTITY", "pixels")
    with pytest.raises(UserError, match=r"^LONGSHOT_IDENTITY is 'pixels', but it must be content or names"):
        longshot.open_dataset(album)


def test_it_is_shown_wherever_the_result_is(
    run_cli, album: Path, tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A testbed by content, evaluated by names: the run, its page and comparisons say so (a release: tests/publish)."""
    longshot.sample(album, **TASKS, out=tmp_path / "bed.parquet")
    monkeypatch.setenv("LONGSHOT_IDENTITY", "names")
    done = run_cli("evaluate", "bed.parquet", "--backbone", "pixels", "--method", "protonet", "-o", "run",
                   cwd=tmp_path)  # fmt: skip
    message = "dentity of the images behind 'pixels': names only of album"
    assert message in done.stdout
    assert "still have the bytes that the testbed was drawn from was not checked" in done.stderr
    run_cli("report", "run", "-o", "page.html", cwd=tmp_path)
    assert message.replace("'", "&#39;") in (tmp_path / "page.html").read_text()
    assert message in run_cli("compare", "run", "run", cwd=tmp_path).stdout
