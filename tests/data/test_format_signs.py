"""Which formats are asked about a path: those whose sign is seen there."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from longshot.data.formats import _SIGNS, FORMATS, possible_formats
from longshot.data.formats.base import Format


def test_formats_that_tell_paths_by_names_are_all_asked_where_a_sign_is_seen(tmp_path: Path) -> None:
    (tmp_path / "one" / "inner").mkdir(parents=True)
    assert possible_formats(tmp_path / "one") == list(
        FORMATS
    )  # a single folder: what lies deeper may be meant
    for name in ("cat", "dog"):
        (tmp_path / "plain" / name).mkdir(parents=True)
    assert possible_formats(tmp_path / "plain") == []
    (tmp_path / "plain" / "Annotations").mkdir()  # as a file system may spell it
    assert possible_formats(tmp_path / "plain") == ["coco"]


def test_only_formats_that_tell_nothing_by_names_are_never_asked() -> None:
    for name, where in FORMATS.items():
        module, _, attribute = where.partition(":")
        own = getattr(import_module(module), attribute).recognise.__func__ is not Format.recognise.__func__
        assert own == (_SIGNS.get(name) != ""), name
