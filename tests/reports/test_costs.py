"""Time beside accuracy: the front, the table, the plot, the page."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as Xml
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

from longshot.reports import costs, read_runs, render_report
from longshot.reports.costs import Point, scatter
from longshot.reports.result_tables import metrics_sheet
from longshot.reports.summary import summarise
from longshot.reports.tables import arrow, duration

from .conftest import MakeRun
from .runs import DEFAULT

Run = Callable[..., "CompletedProcess[str]"]
KINDS = ("frozen", "adapted", "meta-trained")
SERIES = [
    {**series, "method": f"method-{kind}", "seconds": seconds, "kind": kind}
    for series, seconds, kind in zip(DEFAULT, (0.002, 0.5, 0.1), KINDS, strict=True)
]


@pytest.fixture
def run(make_run: MakeRun) -> Path:
    return make_run(series=SERIES)


def test_the_front_is_what_nothing_dominates() -> None:
    rng = np.random.default_rng(3)
    seconds, accuracy = rng.integers(1, 9, 60).astype(float), rng.integers(1, 9, 60).astype(float)
    expected = [
        not any(
            s <= seconds[i] and a >= accuracy[i] and (s, a) != (seconds[i], accuracy[i])
            for s, a in zip(seconds, accuracy, strict=True)
        )
        for i in range(60)
    ]
    assert costs.pareto(seconds, accuracy).tolist() == expected and 0 < sum(expected) < 60


def test_equals_share_the_front() -> None:
    assert costs.pareto(np.array([1.0, 1.0, 2.0]), np.array([0.5, 0.5, 0.5])).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (4.2e-5, "42.0 µs"),
        (0.00123, "1.23 ms"),
        (0.4567, "457 ms"),
        (12.34, "12.3 s"),
        (90, "1.50 min"),
        (7200, "2.00 h"),
        (float("nan"), "–"),
    ],
)
def test_times_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_medians_and_totals_come_from_the_rows(run: Path) -> None:
    data = read_runs(run)
    bed_costs = costs.costs(data, summarise(data), 0)
    assert [cost.entry.series for cost in bed_costs] == [0, 2, 1]  # the quickest first
    for cost in bed_costs:
        seconds = data.cells[0, cost.entry.series].metrics["seconds"]
        assert (cost.median, cost.total) == (float(np.median(seconds)), float(seconds.sum()))
    assert [cost.front for cost in bed_costs] == [True, True, False]


def test_the_kind_comes_from_the_record_of_the_run(run: Path) -> None:
    assert [series.kind for series in read_runs(run).series] == list(KINDS)
    record = json.loads((run / "run.json").read_text())
    for method in record["methods"].values():
        del method["kind"]
    (run / "run.json").write_text(json.dumps(record))
    assert {series.kind for series in read_runs(run).series} == {"frozen"}


def test_flat_rows_have_kind_and_times(run: Path) -> None:
    row = arrow(metrics_sheet(read_runs(run))).to_pylist()[1]
    assert row["kind"] == "adapted"
    assert row["seconds_median"] == pytest.approx(0.5) and row["seconds_total"] == pytest.approx(15)


def test_without_times_there_is_no_section(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_runs(make_run())
    for cell in data.cells.values():
        monkeypatch.setitem(dict_of(cell.metrics), "seconds", np.full(len(cell.tasks), np.nan))
    assert 'id="cost"' not in render_report(data)


def dict_of(context: Any) -> dict[str, Any]:
    assert isinstance(context, dict)
    return context


def test_times_of_different_machines_carry_a_notice(run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    for name, notices in (
        ("quick", "Measured on quick, 2 cores, cpu."),
        ("slow", "taken on different machines (quick, "),
    ):
        machine = {"processor": name, "cores": 2, "device": "cpu", "system": "any"}
        record["sessions"].append({"started": "2026-01-02T03:04:05+00:00", "machine": machine})
        (run / "run.json").write_text(json.dumps(record))
        assert notices in render_report(read_runs(run), pictures=0)


def points(places: list[tuple[float, float]]) -> list[Point]:
    front = costs.pareto(np.array([x for x, _ in places]), np.array([y for _, y in places]))
    return [
        Point(i, i + 1, f"m{i}", KINDS[i % 3], x, y, y - 0.01, y + 0.01, bool(front[i]))
        for i, (x, y) in enumerate(places)
    ]


def numbers(svg: str) -> list[str]:
    texts = [element.text or "" for element in Xml.fromstring(svg).iter() if element.tag.endswith("text")]
    return [text for text in texts if re.fullmatch(r"\d{1,2}", text)]


def test_every_point_has_its_number_even_in_one_place() -> None:
    svg = scatter(points([(0.01, 0.5)] * 24), prefix="p")
    assert set(map(str, range(1, 25))) <= set(numbers(svg))


def test_one_point_and_wide_spans_can_be_drawn() -> None:
    for places in ([(0.01, 0.5)], [(1e-6, 0.1), (3000.0, 0.9)]):
        svg = scatter(points(places), prefix="p")
        assert not re.search(r"#[0-9a-f]{6}\b", svg) and "nan" not in svg.lower()


def test_the_page(run: Path) -> None:
    text = render_report(read_runs(run), pictures=0)
    section = text[text.index('<section id="cost">') :]
    section = section[: section.index("</section>")]
    assert section.count('class="plot"') == 2 and section.count("<td>front</td>") == 4
    assert all(f"<td>{kind}</td>" in section for kind in KINDS)
