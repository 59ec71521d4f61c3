"""The paper's tables as data: whole, and consistent with each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from longshot.studies.cross_domain.cross_domain_cells import printed_table


def test_every_cell_is_there() -> None:
    shapes = {
        number: (len(printed_table(number).rows), len(printed_table(number).columns))
        for number in range(5, 11)
    }
    assert shapes == {5: (6, 4), 6: (19, 6), 7: (19, 6), 8: (20, 6), 9: (20, 6), 10: (10, 4)}


def test_tables_agree_with_each_other() -> None:
    """The mean over the ten datasets (table 10) is the overall mean (table 5), up to rounding."""
    overall = printed_table(5).rows
    for column, method in enumerate(("train-from-scratch", "metadelta") * 2):
        cells = [row[column] for row in printed_table(10).rows.values()]
        means = [cell.mean for cell in cells if cell is not None]
        expected = overall[method][column]
        assert expected is not None and sum(means) / 10 == pytest.approx(expected.mean, abs=0.06)


def test_against_the_printed_text(shared: Path) -> None:
    text = (shared / "papers" / "cross-domain-metadl.txt").read_text()
    numbers = re.findall(r"\$\s*([\d.]+)\s*\\pm\s*([\d.]+)\s*\$", text[text.index("Appendix F. Detailed") :])
    ours = [cell for number in range(5, 11) for row in printed_table(number).rows.values() for cell in row]
    assert ours == [(float(mean), float(half)) for mean, half in numbers]
