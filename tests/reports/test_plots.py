"""Plots are valid, themed, repeatable SVG, whatever the labels say."""

from __future__ import annotations

import re
import xml.etree.ElementTree as Xml

import numpy as np
import pytest

from longshot.reports import charts, svg

LABEL = 'a$b$ <i>&amp; #010101 id="x" url(#y) ' + "\x07 日本"
RNG = np.random.default_rng(0)


def lines(count: int = 3, label: str = "series") -> list[charts.PlotLine]:
    return [
        charts.PlotLine(i, f"{label} {i}", RNG.integers(0, 21, 80) / 20, RNG.integers(2, 8, 80).astype(float))
        for i in range(count)
    ]


def draw(kind: str, data: list[charts.PlotLine], prefix: str = "p") -> str:
    if kind == "distribution":
        return charts.plot_distribution(data, 0.2, prefix=prefix)
    return charts.by_value(data, xlabel="way", chance=None, prefix=prefix)


KINDS = ("distribution", "by_value")


@pytest.mark.parametrize("kind", KINDS)
def test_valid_xml_with_the_label_as_text(kind: str) -> None:
    root = Xml.fromstring(draw(kind, lines(label=LABEL)))
    assert LABEL.replace("\x07", "�") in root.attrib["aria-label"]


def test_a_label_is_drawn_as_it_is() -> None:
    root = Xml.fromstring(draw("distribution", lines(label='$a$ #010101 id="x"')))
    assert '$a$ #010101 id="x" 0' in [element.text for element in root.iter()]


@pytest.mark.parametrize("kind", KINDS)
def test_every_colour_is_a_variable(kind: str) -> None:
    text = draw(kind, lines())
    assert not re.search(r"#[0-9a-f]{6}\b", text)
    assert "var(--s1)" in text and "var(--muted)" in text


@pytest.mark.parametrize("kind", KINDS)
def test_references_find_their_ids(kind: str) -> None:
    text = draw(kind, lines(), prefix="q")
    ids = re.findall(r'\bid="([^"]+)"', text)
    references = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))
    assert len(ids) == len(set(ids)) and all(name.startswith("q-") for name in ids)
    assert references == set(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_data_give_equal_bytes(kind: str) -> None:
    data = lines()
    assert draw(kind, data) == draw(kind, data)


@pytest.mark.parametrize("kind", KINDS)
def test_one_task_can_be_drawn(kind: str) -> None:
    Xml.fromstring(draw(kind, [charts.PlotLine(0, "one", np.array([0.5]), np.array([5.0]))]))


def test_density_keeps_its_mass_inside() -> None:
    grid = np.linspace(0, 1, 201)
    heights = charts.density(np.full(50, 1.0), grid)
    assert heights.max() == 1 and heights.argmax() == 200


def test_density_peaks_where_the_values_are() -> None:
    grid = np.linspace(0, 1, 201)
    values = np.concatenate([np.full(20, 0.2), np.full(80, 0.7)])
    assert grid[charts.density(values, grid).argmax()] == pytest.approx(0.7, abs=0.01)


def test_few_values_stand_for_themselves() -> None:
    groups = charts.bins(np.array([2.0, 5.0, 5.0, 20.0]))
    assert [(group.label, int(group.rows.sum())) for group in groups] == [("2", 1), ("5", 2), ("20", 1)]


def test_many_values_become_ranges_that_hold_every_task_once() -> None:
    values = RNG.random(500) * 19 + 1
    groups = charts.bins(values)
    assert len(groups) == 8
    assert np.array_equal(np.sum([group.rows for group in groups], axis=0), np.ones(500))


def test_ranges_survive_heavy_ties() -> None:
    values = np.concatenate([np.full(400, 5.0), np.arange(20.0)])
    assert np.sum([group.rows for group in charts.bins(values)]) == 420


def test_more_series_than_colours_differ_by_marker() -> None:
    looks = {(svg.colour(i), svg.marker(i)) for i in range(2 * svg.COLOURS)}
    assert len(looks) == 2 * svg.COLOURS


def test_long_labels_keep_both_ends() -> None:
    assert svg.shorten("a" * 40 + "b" * 40, 31) == "a" * 20 + "…" + "b" * 10
