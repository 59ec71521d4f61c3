"""One format and one reader for the printed numbers of all papers."""

from __future__ import annotations

import pytest

from longshot.base import UserError, read_record
from longshot.studies.engine.study_tables import PublishedTable, published_paper

PAPERS = ("hard_md", "transfer", "vtab_md", "cross_domain")


@pytest.mark.parametrize("name", PAPERS)
def test_every_papers_file_is_whole(name: str) -> None:
    paper = published_paper(f"longshot.studies.{name}")
    assert paper.source.short and paper.unit
    for table in paper.tables.values():
        assert all(len(cells) == len(table.columns) for cells in table.rows.values())
        assert len(table.sheet("t").heads) == 1 + len(table.columns)
    with pytest.raises(UserError, match="There is no published 'table 99' here; there are "):
        paper.table("table 99")


def test_cells_have_intervals_where_they_were_printed() -> None:
    rows = {"a": [1, [2.5, 0.25], None], "b": [3, [2], 4]}
    values = {"columns": ["x", ["5-shot", "y"], "z"], "rows": rows, "best": "max"}
    table = read_record(PublishedTable, values, "The table")
    assert [table.text(cell) for cell in table.rows["a"]] == ["1.00", "2.50 ± 0.25", "–"]
    assert table.value("b", ("5-shot", "y")) == (2, None) and table.value("c", "x") is None
    marks = [[cell.mark for cell in line] for line in table.sheet("t", {"a": "A"}).blocks[0]]
    assert marks == [["", "", "best", ""], ["", "best", "", "best"]]
    assert [number.mean for _, _, number in table.numbers()] == [1, 3, 2.5, 2, 4]
