"""The notebooks of examples/ run from an empty kernel, and print what is kept in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools import notebooks

from conftest import ROOT

nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel")
EXAMPLES = sorted((ROOT / "examples").glob("*.ipynb"))
QUICK = ("02-own-method-and-backbone",)  # the others take longer than the suite may


def by_length(path: Path) -> object:
    marks = () if path.stem in QUICK else (pytest.mark.long,)
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", [by_length(path) for path in EXAMPLES])
def test_a_notebook_prints_what_it_shows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if path.stem.endswith("competition"):
        from arena.sandboxed import missing_sandbox

        if (reason := missing_sandbox()) is not None:
            pytest.skip(f"needs bubblewrap: {reason}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    assert notebooks.differences(nbformat.read(path, as_version=4), notebooks.run(path)) == []


def test_all_six_are_there_whole_and_small() -> None:
    assert len(EXAMPLES) == 6 and {path.stem for path in EXAMPLES} > set(QUICK)
    for path in EXAMPLES:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), path.name
        assert sum(bool(cell.outputs) for cell in code) >= 3, path.name
        assert path.stat().st_size < 100_000, path.name
        # Nothing of the machine that they ran on.
        assert not re.search(r"/(?:tmp|home|root|work|Users)/", path.read_text("utf-8")), path.name


def notebook(*printed: str) -> object:
    cells = [
        nbformat.v4.new_code_cell("", outputs=[nbformat.v4.new_output("stream", name="stdout", text=text)])
        for text in printed
    ]
    return nbformat.v4.new_notebook(cells=cells)


def test_other_words_and_far_numbers_are_told() -> None:
    stored = notebook("toys: 64.3 ± 5.3 %", "n = 1,200")
    assert notebooks.differences(stored, notebook("toys: 65.1 ± 5.2 %", "n = 1,200")) == []
    (far,) = notebooks.differences(stored, notebook("toys: 54.0 ± 5.2 %", "n = 1,200"))
    assert far == "cell 0: 64.3 before, 54 now"
    (other,) = notebooks.differences(stored, notebook("toys: 64.3 ± 5.3 %", "m = 1,200"))
    assert other.startswith("cell 1 prints other words")
