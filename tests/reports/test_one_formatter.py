"""One formatter of an estimate, and a column of the report that is one line."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import longshot
from longshot.reports import Sheet, SheetCell, terminal

from .conftest import MakeRun

SOURCE = Path(longshot.__file__).parent
PLUS_MINUS = re.compile(r"""[fF]["'].*?\} ± \{""")


def test_one_place_writes_a_mean_with_its_half() -> None:
    writers = [
        path.relative_to(SOURCE).as_posix()
        for path in sorted(SOURCE.rglob("*.py"))
        if PLUS_MINUS.search(path.read_text("utf-8"))
    ]
    assert writers == ["statistics/estimate_text.py"]
    pages = [path.name for path in sorted(SOURCE.rglob("*.j2")) if "± {{" in path.read_text("utf-8")]
    assert pages == ["macros.html.j2"]


def test_a_report_column_is_one_line(make_run: MakeRun, tmp_path: Path) -> None:
    """Added in a copy of the source, it stands on the page and in files."""
    copy = tmp_path / "src"
    shutil.copytree(SOURCE, copy / "longshot", ignore=shutil.ignore_patterns("__pycache__"))
    tables = copy / "longshot" / "reports" / "result_tables.py"
    text = tables.read_text("utf-8")
    line = '    Column("Hardest %", lambda r: float(r.cell.accuracy.min()), "percent", key="hardest"),\n'
    tables.write_text(text.replace('    Column("Std", ', line + '    Column("Std", ', 1), encoding="utf-8")
    program = (
        "import sys, longshot; longshot.report(sys.argv[1], 'page.html', pictures=0);"
        "longshot.report(sys.argv[1], 'table.csv')"
    )
    run = make_run(tasks=20)
    words = [sys.executable, "-c", program, str(run)]
    subprocess.run(
        words, cwd=tmp_path, env={"PYTHONPATH": str(copy), "PATH": "", "HOME": str(tmp_path)}, check=True
    )
    assert ">Hardest %<" in (tmp_path / "page.html").read_text("utf-8")
    assert ",hardest," in (tmp_path / "table.csv").read_text("utf-8").splitlines()[0]


def test_a_terminal_has_eighty_columns() -> None:
    """What is equal in all rows stands above; columns beyond the width follow below with their rows' names."""
    heads = [("", "testbed"), ("", "method"), *(("", f"metric {n}") for n in range(9))]
    rows = [[SheetCell("easy"), SheetCell(name), *[SheetCell("12.34 ± 5.67")] * 9] for name in ("a", "b")]
    lines = terminal(Sheet("", heads, [rows])).splitlines()
    assert lines[0] == "testbed easy" and max(map(len, lines)) <= 80
    assert sum(line.count("12.34 ± 5.67") for line in lines) == 18
