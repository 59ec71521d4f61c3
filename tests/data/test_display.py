"""A dataset at a prompt and in a notebook."""

from __future__ import annotations

from pathlib import Path

from longshot.data import open_dataset


def test_a_dataset_tells_itself_in_at_most_five_lines(photos: Path) -> None:
    lines = repr(open_dataset(photos)).splitlines()
    assert lines[0].startswith("Dataset '")
    assert "  images: 240 in 8 classes, 30 a class" in lines
    assert f"  source: {photos}" in lines
    assert "  known: taxonomy" in lines
    assert len(lines) <= 5


def test_toybox_fits_into_five_lines() -> None:
    text = repr(open_dataset("toybox"))
    assert len(text.splitlines()) == 5
    assert "splits: train 120, validation 60, test 60" in text


def test_a_notebook_shows_pictures_and_escapes_names(photos: Path, tmp_path: Path) -> None:
    for number, source in enumerate(sorted(photos.rglob("*.jpg"))[:4]):
        folder = tmp_path / "set" / ("<b>bold" if number % 2 else "plain")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / source.name).write_bytes(source.read_bytes())
    html = open_dataset(tmp_path / "set")._repr_html_()
    assert html.count("<img ") == 2
    assert "data:image/jpeg;base64," in html
    assert "&lt;b&gt;bold" in html and "<b>bold" not in html


def test_an_unreadable_picture_does_not_hide_the_others(photos: Path, tmp_path: Path) -> None:
    sources = sorted(photos.rglob("*.jpg"))[:2]
    for name, data in (("good", sources[0].read_bytes()), ("bad", b"no picture")):
        folder = tmp_path / "set" / name
        folder.mkdir(parents=True)
        (folder / "image.jpg").write_bytes(data)
    html = open_dataset(tmp_path / "set")._repr_html_()
    assert html.count("<img ") == 1
    assert "bad: unreadable" in html
