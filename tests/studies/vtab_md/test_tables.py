"""Tables of VTAB+MD on planted accuracies: differences between rows, chosen settings, networks' words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longshot.datasets import open_dataset
from longshot.studies import get_study
from longshot.studies.vtab_md.data import StudySource
from longshot.studies.vtab_md.plan import ApproachRow
from longshot.studies.vtab_md.scores import VtabScores
from longshot.studies.vtab_md.settings import VtabSettings
from longshot.studies.vtab_md.tables import aggregate_table, choices_table, differences_table, sources_table


@pytest.fixture(scope="module")
def scores(photos: Path) -> VtabScores:
    """A and B on episodes of dtd and fungi and on 10 images of pets; B is 0.1 above A on dtd, below on fungi."""
    data = open_dataset(photos)
    sources = [StudySource("dtd", "md", data, True), StudySource("fungi", "md", data, True)]
    sources.append(StudySource("pets", "natural", data, True))
    base = np.array([0.4, 0.6, 0.5, 0.5])
    nearly = np.array([0.001, -0.001, 0.001, -0.001])
    values = {
        ("A", "dtd"): base,
        ("B", "dtd"): base + 0.1 + nearly,
        ("A", "fungi"): base + 0.3,
        ("B", "fungi"): base + 0.1 + nearly,
        ("A", "pets"): np.array([1.0] * 7 + [0.0] * 3),
        ("B", "pets"): np.array([1.0] * 7 + [0.0] * 3),
    }
    rows = [ApproachRow(name, "pixels", "protonet", ("protonet",), 4, "", None, None) for name in "AB"]
    return VtabScores(rows, sources, values)


def test_differences_are_counted_by_what_their_intervals_exclude(scores: VtabScores) -> None:
    table = differences_table("A", scores)
    values = {record["on"]: record["difference"] for record in table.records}
    assert values == {"dtd": pytest.approx(0.1), "fungi": pytest.approx(-0.2), "pets": 0.0}
    assert {record["row"] for record in table.records} == {"B"}
    assert table.lines == ["B against A: higher on 1, lower on 1, not told apart on 1 of 3 sources."]
    alone = VtabScores(scores.rows[:1], scores.sources, scores.values)
    assert differences_table("A", alone).lines == ["There is no other row."]


def test_aggregates_count_every_source_once(scores: VtabScores) -> None:
    records = aggregate_table([], scores, []).records
    means = {(record["row"], record["on"]): record["mean"] for record in records}
    assert means["A", "md"] == pytest.approx(0.65)  # (0.5 + 0.8) / 2
    assert means["B", "md"] == pytest.approx(0.6)
    assert means["A", "natural"] == means["A", "all"] == pytest.approx(0.7)


def test_sources_have_their_means_and_marks(scores: VtabScores) -> None:
    records = sources_table([], scores).records
    cells = {(record["row"], record["on"]): (record["mean"], record["mark"]) for record in records}
    assert cells["B", "dtd"] == (pytest.approx(0.6), "best") and cells["A", "dtd"] == (pytest.approx(0.5), "")
    assert cells["A", "fungi"][1] == "best"
    assert cells["A", "pets"] == cells["B", "pets"] == (pytest.approx(0.7), "tied")


def test_the_candidate_that_was_taken_is_bold() -> None:
    settings = get_study("vtab-md-small").settings
    assert isinstance(settings, VtabSettings)
    table = choices_table(
        settings, {"BiT": {"bit(steps=1)": 0.25, "bit(steps=9)": 0.5}}, {"BiT": "bit(steps=9)"}
    )
    assert [(cell.text, cell.mark) for row in table.sheets[0].blocks[0] for cell in row[2:]] == [
        ("25.00", ""),
        ("50.00", "best"),
    ]
    assert [record["chosen"] for record in table.records] == [False, True]
    assert (
        "first 60 train images" in table.sheets[0].note
        and "first 20 validation images" in table.sheets[0].note
    )
