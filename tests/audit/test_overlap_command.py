"""The commands ``overlap`` and ``without``, and the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

import longshot
from longshot.audit import leave_out_overlap
from longshot.base import UserError
from longshot.cli import cli
from longshot.data import known_copies, open_dataset


@pytest.fixture
def two(tmp_path: Path, fresh_cache: Path) -> tuple[str, str]:
    """Upstream Bird/<evil name> and Tool of 3 images; tested: bird (one exact copy, one mirrored) and cup."""
    rng = np.random.default_rng(3)

    def save(name: str, image: Image.Image) -> Image.Image:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        image.save(tmp_path / name)
        return image

    def new() -> Image.Image:
        noise = Image.fromarray(rng.integers(0, 256, (7, 7, 3), dtype=np.uint8))
        return noise.resize((60, 60), Image.Resampling.BICUBIC)

    birds = [save(f"up/Bird/<b>{n}&.png", new()) for n in range(3)]
    for number in range(3):
        save(f"up/Tool/{number}.png", new())
    save("test/bird/0.png", birds[0])
    save("test/bird/1.png", birds[1].transpose(Image.Transpose.FLIP_LEFT_RIGHT))
    save("test/bird/2.png", new())
    save("test/cup/0.png", new())
    return str(tmp_path / "up"), str(tmp_path / "test")


def _run(command: str, *args: str | Path, ok: bool = True) -> Result:
    done = CliRunner().invoke(cli, ["datasets", command, *map(str, args)])
    if ok:
        assert done.exit_code == 0, done.output + repr(done.exception)
    return done


def test_the_table_names_kinds_pairs_and_classes(two: tuple[str, str]) -> None:
    text = _run("overlap", *two, "--device", "cpu").output
    assert "exact" in text and "near, mirrored" in text
    assert "1 of 6" in text and "Bird" in text and "the same as" in text


def test_json_is_whole(two: tuple[str, str], tmp_path: Path) -> None:
    facts = json.loads(_run("overlap", *two, "--json", "-o", tmp_path / "o.parquet").stdout)
    assert [pair["kind"] for pair in facts["pairs"]] == ["exact", "near"]
    assert facts["pairs"][1]["mirrored"] is True
    assert facts["pairs"][0]["key_b"] == "bird/0.png"
    assert facts["relations"] == {"same": 1}


def test_embedding_neighbours(two: tuple[str, str]) -> None:
    done = _run("overlap", *two, "--json", "--backbone", "pixels", "--similarity", "-1")
    kinds = [row["pairs"] for row in json.loads(done.stdout)["counts"]]
    assert kinds[:2] == [1, 1] and kinds[2] == 6 * 4 - 2


def test_the_gate(two: tuple[str, str]) -> None:
    done = _run("overlap", *two, "--fail-if-any", ok=False)
    assert done.exit_code == 1 and "2 copies" in done.output
    assert _run("overlap", two[1], two[1], "--fail-if-any").exit_code == 0


def test_the_page_shows_the_pairs_and_escapes_names(two: tuple[str, str], tmp_path: Path) -> None:
    _run("overlap", *two, "--page", tmp_path / "o.html")
    page = (tmp_path / "o.html").read_text(encoding="utf-8")
    assert page.count("data:image/webp") == 4
    assert "<b>0" not in page and "&lt;b&gt;0&amp;" in page
    assert 'id="exact"' in page and 'id="near"' in page


def test_without_the_copies_and_without_the_classes(two: tuple[str, str], tmp_path: Path) -> None:
    _run("overlap", *two, "-o", tmp_path / "o.parquet")
    text = _run("without", two[0], tmp_path / "o.parquet", "-o", tmp_path / "up-dedup.view.json").output
    assert "deduplicated: 4 of 6 images in 2 of 2 classes" in text
    view = open_dataset(tmp_path / "up-dedup.view.json")
    assert view.sizes.tolist() == [1, 3]
    again = json.loads(_run("overlap", tmp_path / "up-dedup.view.json", two[1], "--json").stdout)
    assert again["pairs"] == []
    text = _run("without", two[0], tmp_path / "o.parquet", "--classes", "-o", tmp_path / "c.view.json").output
    assert "class-ablated: 3 of 6 images in 1 of 2 classes" in text


def test_the_same_from_python(two: tuple[str, str], tmp_path: Path) -> None:
    shared = longshot.find_overlap(*two, out=tmp_path / "o.json", device="cpu")
    pairs = shared.pairs.to_pylist()
    assert [(pair["kind"], pair["mirrored"]) for pair in pairs] == [("exact", False), ("near", True)]
    assert [(pair["key_a"], pair["key_b"]) for pair in pairs] == [
        ("Bird/<b>0&.png", "bird/0.png"),
        ("Bird/<b>1&.png", "bird/1.png"),
    ]
    assert shared.settings == {
        "neighbours": 10,
        "backbone": None,
        "similarity": None,
        "wordnet": shared.settings["wordnet"],
        "index": "exact",
    }
    assert known_copies(shared.a["fingerprint"], shared.b["fingerprint"])[0] is not None
    out = tmp_path / "up.view.json"
    view, original, variant = leave_out_overlap(
        two[0], tmp_path / "o.json", out=out, classes=True, images=True
    )
    assert (variant, view.class_ids, len(original)) == ("deduplicated and class-ablated", ("Tool",), 6)
    assert open_dataset(out).fingerprint == view.fingerprint
    with pytest.raises(UserError, match=r"At least 1 neighbour .* not 0; raise neighbours"):
        longshot.find_overlap(*two, neighbours=0)


def test_a_second_run_reads_no_image(two: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    _run("overlap", *two)
    from longshot.audit import pairs

    def fail(*_: object) -> None:
        raise AssertionError("the table was not taken from the cache")

    monkeypatch.setattr(pairs, "_fill", fail)
    _run("overlap", *two)


def test_mistakes(two: tuple[str, str], tmp_path: Path) -> None:
    for args, message in (
        ((two[0], "nowhere"), "There is no dataset"),
        ((*two, "--backbone", "pixel"), "did you mean 'pixels'"),
        ((*two, "-o", "o.csv"), "is written as .parquet or .json"),
    ):
        done = _run("overlap", *args, ok=False)
        assert isinstance(done.exception, UserError) and message in str(done.exception)
