"""The paper's tables as data: whole, and consistent with each other."""

from __future__ import annotations

import re

import pytest

from longshot.competition.published import table
from longshot.core.errors import UserError


def test_every_cell_is_there():
    shapes = {number: (len(table(number).rows), len(table(number).columns)) for number in range(5, 11)}
    assert shapes == {5: (6, 4), 6: (19, 6), 7: (19, 6), 8: (20, 6), 9: (20, 6), 10: (10, 4)}


def test_tables_agree_with_each_other():
    # The mean over the ten datasets (table 10) is the overall mean (table 5), up to rounding.
    overall = table(5).rows
    for column, method, position in (
        (0, "train-from-scratch", 0),
        (1, "metadelta", 1),
        (2, "train-from-scratch", 2),
        (3, "metadelta", 3),
    ):
        cells = [row[column][0] for row in table(10).rows.values()]
        assert sum(cells) / 10 == pytest.approx(overall[method][position][0], abs=0.06)


def test_against_the_printed_text(shared):
    text = (shared / "papers" / "cross-domain-metadl.txt").read_text()
    printed = re.findall(r"\$\s*([\d.]+)\s*\\pm\s*([\d.]+)\s*\$", text[text.index("Appendix F. Detailed") :])
    ours = [cell for number in range(5, 11) for row in table(number).rows.values() for cell in row]
    assert ours == [(float(mean), float(half)) for mean, half in printed]


def test_no_such_table():
    with pytest.raises(UserError, match="no published table 4"):
        table(4)
