from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.data import Taxonomy, draw_taxonomy

CLASSES = [f"family-{a}/group-{b}/kind-{a}{b}{c}" for a in range(4) for b in range(3) for c in range(3)]


def test_png_shows_a_coloured_tree(tmp_path: Path) -> None:
    draw_taxonomy(Taxonomy.from_class_ids(CLASSES), CLASSES, tmp_path / "t.png", title="toys")
    pixels = np.asarray(Image.open(tmp_path / "t.png").convert("RGB")).astype(int)
    coloured = (pixels.max(axis=2) - pixels.min(axis=2)) > 30
    assert min(pixels.shape[:2]) > 300
    assert coloured.mean() > 0.001


def test_svg_names_every_class_and_group(tmp_path: Path) -> None:
    draw_taxonomy(Taxonomy.from_class_ids(CLASSES), CLASSES, tmp_path / "t.svg")
    text = (tmp_path / "t.svg").read_text()
    for name in ["kind-000", "kind-322", "group-1 (3 classes)", "family-3 (9 classes)"]:
        assert f"<!-- {name} -->" in text, name


def test_depth_cuts_the_tree_and_counts_what_is_below(tmp_path: Path) -> None:
    draw_taxonomy(Taxonomy.from_class_ids(CLASSES), CLASSES, tmp_path / "t.svg", depth=1)
    text = (tmp_path / "t.svg").read_text()
    assert "<!-- family-0 (9 classes) -->" in text
    assert "kind-000" not in text


def test_the_same_taxonomy_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw_taxonomy(Taxonomy.from_class_ids(CLASSES), CLASSES, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_too_many_classes_are_refused_and_depth_helps(tmp_path: Path) -> None:
    class_ids = [f"f{i % 7}/c{i:04d}" for i in range(1604)]
    taxonomy = Taxonomy.from_class_ids(class_ids)
    with pytest.raises(
        UserError, match="1,612 nodes, and a picture has room for 1,500; draw fewer of its levels"
    ):
        draw_taxonomy(taxonomy, class_ids, tmp_path / "t.svg")
    draw_taxonomy(taxonomy, class_ids, tmp_path / "t.svg", depth=1)
    assert "f6 (229 classes)" in (tmp_path / "t.svg").read_text()


def test_one_class_can_be_drawn(tmp_path: Path) -> None:
    draw_taxonomy(Taxonomy.from_class_ids(["only"]), ["only"], tmp_path / "t.png")
    assert (tmp_path / "t.png").stat().st_size > 0


def test_another_ending_is_refused_before_drawing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a picture is written as \.png or \.svg or \.pdf"):
        draw_taxonomy(Taxonomy.from_class_ids(CLASSES), CLASSES, tmp_path / "t.bmp")
