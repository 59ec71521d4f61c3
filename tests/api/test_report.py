"""A report finds its pictures whoever calls."""

from __future__ import annotations

from pathlib import Path

import longshot

_PICTURE = "data:image/"


def test_pictures_are_found_without_being_asked_for(photos: Path, tmp_path: Path) -> None:
    """The hardest and the easiest task, with support and queries of their 2 classes; none where none are wanted."""
    testbed = longshot.sample(photos, tasks=3, way=2, shot=1, query=2)
    results = longshot.evaluate(
        {"few": testbed}, backbones="pixels", methods="protonet", out=tmp_path / "run"
    )
    with_pictures, without = tmp_path / "page.html", tmp_path / "plain.html"
    assert longshot.report(results, with_pictures, pictures=1) == with_pictures
    longshot.report(results, without, pictures=0)
    text = with_pictures.read_text("utf-8")
    assert text.count('class="shots support"') == text.count('class="shots query"') == 2 * 2
    assert _PICTURE in text and _PICTURE not in without.read_text("utf-8")


def test_a_folder_of_a_run_is_enough(photos: Path, tmp_path: Path) -> None:
    testbed = longshot.sample(photos, tasks=2, way=2, shot=1, query=2)
    longshot.evaluate({"few": testbed}, backbones="pixels", methods="protonet", out=tmp_path / "run")
    path = longshot.report(tmp_path / "run", tmp_path / "page.html", title="Two tasks")
    text = path.read_text("utf-8")
    assert "<h1>Two tasks</h1>" in text and _PICTURE in text
