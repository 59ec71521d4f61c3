"""Tables of VTAB+MD on planted accuracies: differences between rows, chosen settings, networks' words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longshot.data import open_dataset
from longshot.studies import get_study, layered
from longshot.studies.vtab_md.vtab_md_figures import vtab_figures as make_figures
from longshot.studies.vtab_md.vtab_md_networks import ApproachRow
from longshot.studies.vtab_md.vtab_md_scores import VtabScores, choose
from longshot.studies.vtab_md.vtab_md_sources import StudySource, VtabSettings
from longshot.studies.vtab_md.vtab_md_tables import (
    aggregate_table,
    choices_table,
    differences_table,
    sources_table,
)


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
    # four episodes tell nothing apart, however equal their differences: all share the first place, none is marked
    assert cells["B", "dtd"] == (pytest.approx(0.6), "") and cells["A", "dtd"] == (pytest.approx(0.5), "")
    assert cells["A", "fungi"][1] == ""
    assert cells["A", "pets"] == cells["B", "pets"] == (pytest.approx(0.7), "")


def test_printed_aggregates_stand_below_the_measured_ones(scores: VtabScores) -> None:
    table = aggregate_table([4], scores, ["A note."])
    assert table.sheets[1].title == "Published: Dumoulin et al., 2021, table 4"
    assert [sheet.note.endswith("A note.") for sheet in table.sheets] == [True, False]


def heights(axes: Any) -> dict[str, list[float]]:
    return {
        bars.get_label(): [round(bar.get_height(), 6) for bar in bars]
        for bars in axes.containers
        if hasattr(bars, "patches")
    }


def test_pictures_show_the_numbers(scores: VtabScores, canvas: Any) -> None:
    kinds = {"one": "aggregate", "two": "md", "three": "vtab", "four": "both", "five": "grid"}
    figures = {
        name: {"kind": kind, "reference": "A" if kind == "md" else None} for name, kind in kinds.items()
    }
    settings = layered(get_study("vtab-md-small"), None, {"figures": figures, "published": []}).settings
    assert isinstance(settings, VtabSettings)
    drawings = make_figures(settings, scores)
    assert set(drawings) == {"one", "two", "three", "four"}  # no row has a resolution
    [axes] = canvas(drawings["one"])
    assert heights(axes) == {"A": [65.0, 70.0, 70.0], "B": [60.0, 70.0, 70.0]}
    [axes] = canvas(drawings["two"])
    assert heights(axes) == {"A": [50.0, 80.0], "B": [60.0, 60.0]}
    middles = [
        bar.get_x() + bar.get_width() / 2
        for bars in axes.containers
        if hasattr(bars, "patches")
        for bar in bars
    ]
    assert middles == pytest.approx([-0.15, 0.85, 0.15, 1.15])
    mean = next(line for line in axes.lines if line.get_label() == "mean of A")
    assert mean.get_ydata() == pytest.approx([65.0, 65.0])
    [axes] = canvas(drawings["three"])
    assert heights(axes) == {"A": [70.0], "B": [70.0]}
    above, below = canvas(drawings["four"])
    assert heights(above)["A"] == [50.0, 80.0] and heights(below)["A"] == [70.0]


def test_a_grid_has_a_line_per_network(scores: VtabScores, canvas: Any) -> None:
    sizes = {"A": 84, "B": 64}
    rows = [replace(row, capacity="cnn4", resolution=sizes[row.name]) for row in scores.rows]
    sized = VtabScores(rows, scores.sources, scores.values)
    figures = {"grid": {"kind": "grid"}}
    settings = layered(get_study("vtab-md-small"), None, {"figures": figures, "published": []}).settings
    assert isinstance(settings, VtabSettings)
    first, second = canvas(make_figures(settings, sized)["grid"])
    assert first.containers[0][0].get_xdata() == pytest.approx([64, 84])
    assert first.containers[0][0].get_ydata() == pytest.approx([60.0, 50.0])
    assert second.containers[0][0].get_ydata() == pytest.approx([60.0, 80.0])


def test_the_candidate_that_was_taken_is_bold() -> None:
    answers = {
        "bit(steps=1)": [np.repeat([1.0, 0.0], [5, 15])],
        "bit(steps=9)": [np.repeat([1.0, 0.0], [10, 10])],
    }
    choice = choose("BiT", answers, [np.repeat([0.0, 1.0], [19, 1])])
    table = choices_table([choice])
    assert [(cell.text, cell.mark) for row in table.sheets[0].blocks[0] for cell in row[2:4]] == [
        ("25.00", ""),
        ("5.00", ""),
        ("50.00", "best"),
        ("5.00", ""),
    ]
    assert [record["chosen"] for record in table.records] == [False, True]
    assert "the one listed first is taken" in table.sheets[0].note
