"""Formats that packages add: opened by name, listed, and told by their files behind Longshot's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from longshot.base import Plugin, UserError
from longshot.data import Dataset, Format, assemble, list_formats, open_dataset
from longshot.data.formats import recognise


class Herbarium(Format):
    """Sheets whose class stands before the first dash of their names."""

    name = "herbarium"
    title = "scanned sheets of a herbarium"
    origin = "a museum"
    layout = "herbarium.txt, sheets/CLASS-NUMBER.png"

    def __init__(self, *, upper: bool = False) -> None:
        self.upper = upper

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return (path / "herbarium.txt").is_file()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        files = sorted(file.name for file in (path / "sheets").iterdir())
        classes = [file.partition("-")[0].upper() if self.upper else file.partition("-")[0] for file in files]
        return assemble(name, self.source(path), classes, [f"sheets/{file}" for file in files], path)


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    formats = {
        "herbarium": f"{__name__}:Herbarium",
        "cifar": "no_such_package:Never",  # Longshot's own is not replaced
        "broken": "no_such_package:Never",
    }
    plugin = Plugin("formats of a museum", formats=formats)
    monkeypatch.setattr("longshot.base.plugins._entry_points", lambda: ({"museum": plugin}, {}))


@pytest.fixture
def sheets(tmp_path: Path, save_image: Callable[..., None]) -> Path:
    for number, kind in enumerate(("fern", "fern", "moss")):
        save_image(tmp_path / "sheets" / f"{kind}-{number}.png", (number, 0, 0))
    (tmp_path / "herbarium.txt").write_text("of 1897")
    return tmp_path


def test_a_folder_is_opened_by_the_name_of_a_foreign_format(plugged: None, sheets: Path) -> None:
    dataset = open_dataset(f"herbarium(upper=True):{sheets}")
    assert dataset.class_ids == ("FERN", "MOSS") and len(dataset) == 3
    assert dataset.image(2).getpixel((0, 0)) == (2, 0, 0)
    assert dataset.source == f"herbarium(upper=True):{sheets}"
    assert open_dataset(dataset.source).fingerprint == dataset.fingerprint


def test_a_foreign_format_is_told_by_its_files(plugged: None, sheets: Path) -> None:
    assert open_dataset(sheets).class_ids == ("fern", "moss")
    (sheets / "sheets" / "herbarium.txt").write_text("")
    assert isinstance(recognise(sheets), Herbarium)
    (sheets / "annotations").mkdir()  # may be COCO's, and is not
    assert isinstance(recognise(sheets), Herbarium)
    with pytest.raises(UserError, match=r"no_such_package:Never cannot be imported: No module named"):
        open_dataset(f"broken:{sheets}")


def test_foreign_formats_are_listed_behind_longshots_own(
    plugged: None, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list_formats()
    assert "no_such_package:Never cannot be imported" in capsys.readouterr().err
    assert rows[-1] == {
        "format": "herbarium(upper=False)",
        "what": Herbarium.title,
        "files": Herbarium.layout,
        "from": Herbarium.origin,
    }
    assert len([row for row in rows if row["format"].startswith("cifar")]) == 1


def test_a_name_that_no_plugin_has_is_told(sheets: Path) -> None:
    assert recognise(sheets) is None
    with pytest.raises(UserError, match="herbarium"):
        open_dataset(f"herbarium:{sheets}")
