"""Templates compiled once: the same pages, and nothing is taken from a file that does not fit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from longshot.reports.frame import CompiledTemplates


@pytest.fixture(autouse=True)
def python_keeps_what_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def render(folder: Path, text: str = "{{ value }} apples") -> str:
    templates = Environment(loader=DictLoader({"page": text}), bytecode_cache=CompiledTemplates(folder))
    return templates.get_template("page").render(value=3)


def test_a_template_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert render(tmp_path) == "3 apples"
    (file,) = tmp_path.iterdir()
    monkeypatch.setattr(Environment, "_parse", None)  # what would compile
    assert render(tmp_path) == "3 apples"
    assert list(tmp_path.iterdir()) == [file]


def test_another_text_or_a_damaged_file_is_compiled_anew(tmp_path: Path) -> None:
    render(tmp_path)
    (file,) = tmp_path.iterdir()
    intact = file.read_bytes()
    for cut in (b"", intact[:20], intact[:-5], intact[:70] + b"x" + intact[71:], b"0" * 64 + intact[64:]):
        file.write_bytes(cut)
        assert render(tmp_path) == "3 apples"
        assert file.read_bytes() == intact
    assert render(tmp_path, "{{ value }} pears") == "3 pears"
    assert render(tmp_path) == "3 apples"


def test_nothing_is_written_where_python_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert render(tmp_path / "absent") == "3 apples"
    assert not (tmp_path / "absent").exists()


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert render(tmp_path / "file") == "3 apples"
