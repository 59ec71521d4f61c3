from __future__ import annotations

import re
from pathlib import Path

import pytest

from longshot.base import UserError
from longshot.models import find_variant, get_method, method_names
from longshot.reports import published
from longshot.reports.published import published_names

PAPER = published("semantic")


def test_three_tables_of_six_methods_and_six_columns() -> None:
    assert published_names() == ["semantic"]
    assert [len(PAPER.select(table=table)) for table in (1, 2, 3)] == [36, 36, 36]
    assert PAPER.tasks == 5000


def test_every_number_is_printed_in_the_paper(shared: Path) -> None:
    """Each row's numbers, in order, stand in one line of the paper's text."""
    lines = (shared / "papers/semantic-task-sampling.txt").read_text(encoding="utf-8").splitlines()
    printed = {tuple(re.findall(r"\d+\.\d\d", line)) for line in lines}
    for table in (1, 2, 3):
        for method in {number.method for number in PAPER.numbers}:
            row: list[str] = []
            for number in PAPER.select(table=table, method=method):
                row.append(f"{100 * number.mean:.2f}")
                row += [] if number.half is None else [f"{100 * number.half:.2f}"]
            assert tuple(row) in printed


def test_whole_is_the_mean_of_its_quartiles_but_where_a_note_says_so() -> None:
    """Four equal quartiles average to the whole, up to rounding: a misread digit would show."""
    odd = set()
    for table in (1, 2):
        for number in PAPER.select(table=table, part="whole", sampling="semantic"):
            parts = [
                PAPER.select(table=table, method=number.method, part=f"quartile {i}")[0].mean
                for i in (1, 2, 3, 4)
            ]
            if abs(sum(parts) / 4 - number.mean) > 0.0002:
                odd.add((table, number.label))
    assert odd == {(1, "Transductive Finetuning")}
    assert "Transductive Finetuning" in PAPER.notes[0]


def test_methods_are_those_of_the_registry() -> None:
    assert {number.method for number in PAPER.numbers} <= set(method_names())


def test_the_settings_that_decide_are_those_of_the_variant() -> None:
    """The variant's calls answer as the paper's methods; one setting changed, and the method is another."""
    methods = {call.partition("(")[0]: get_method(call) for call in find_variant(PAPER.variant).calls}
    assert set(methods) == {number.method for number in PAPER.numbers}
    for number in PAPER.numbers:
        assert number.alike(methods[number.method].settings)
    tim = PAPER.select(method="tim")[0]
    assert not tim.alike({**methods["tim"].settings, "steps": 100}) and not tim.alike({})
    assert PAPER.select(method="protonet")[0].alike(get_method("protonet").settings)


def test_source_is_named() -> None:
    assert PAPER.source["short"] == "Bennequin et al., 2022"
    assert [note.split(":")[0] for note in PAPER.notes] == ["Table 1", "Table 2"]


def test_unknown_paper() -> None:
    with pytest.raises(UserError, match="no published numbers called 'other'; there are semantic"):
        published("other")
