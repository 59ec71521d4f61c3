"""The words of pages: filters of the templates, counts, spans, ends of a balance, pairs that are left out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from longshot.base import span
from longshot.reports import Sheet, data_pages, frame, page
from longshot.reports.report_data import ReportData
from longshot.reports.sections import Request, task_difficulty
from longshot.reports.summary import compare_all, summarise
from longshot.statistics import Correlation, Interval, Slope
from longshot.tasks import Balance

from .runs import cell, report_of


class TestFilters:
    @pytest.mark.parametrize(
        ("slope", "half", "text"),
        [
            (0.012, 0.003, "+1.20 [+0.90, +1.50]"),
            (0.12, 0.03, "+12.0 [+9.0, +15.0]"),
            (-0.0012, 0.0003, "−0.120 [−0.150, −0.090]"),
            (0.09, 0.01, "+9.0 [+8.0, +10.0]"),  # the widest number decides the digits
            (0.0075, 0.0025, "+0.75 [+0.50, +1.00]"),
            (0.012, math.nan, "+1.20"),
        ],
    )
    def test_a_slope_is_in_points_with_three_figures(self, slope: float, half: float, text: str) -> None:
        line = Slope(slope, slope - half, slope + half, 0.0, 0.5, 0.01, 9)
        alike = Interval(slope, slope - 1.1 * half, slope + 1.1 * half, 9)
        assert task_difficulty._slope(line, alike).text == text

    def test_an_interval_over_classes_stands_in_brackets_where_it_differs(self) -> None:
        line, wider = Slope(0.12, 0.09, 0.15, 0.0, 0.5, 0.01, 9), Interval(0.12, 0.02, 0.22, 9)
        assert task_difficulty._slope(line, wider).text == "+12.0 [+9.0, +15.0] ([+2.0, +22.0])"
        r = Correlation(0.5, 0.4, 0.6, 0.01, 9, "spearman")
        assert (
            task_difficulty._correlation(r, Interval(0.5, 0.1, 0.8, 9)).text
            == "+0.50 [+0.40, +0.60] ([+0.10, +0.80])"
        )
        assert task_difficulty._correlation(r, Interval(0.5, None, None, 9)).text == "+0.50 [+0.40, +0.60]"

    def test_a_correlation_has_its_interval_where_it_is_defined(self) -> None:
        assert (
            task_difficulty._correlation(Correlation(-0.5, -0.75, 0.25, 0.01, 9, "pearson")).text
            == "−0.50 [−0.75, +0.25]"
        )
        assert (
            task_difficulty._correlation(Correlation(0.5, math.nan, math.nan, 0.01, 3, "pearson")).text
            == "+0.50"
        )
        assert (
            task_difficulty._correlation(
                Correlation(math.nan, math.nan, math.nan, math.nan, 2, "pearson")
            ).text
            == "–"
        )

    def test_numbers(self) -> None:
        assert (frame._number(1234.5), frame._number(0.126, 1), frame._number(math.nan)) == (
            "1,234.50",
            "0.1",
            "–",
        )
        assert frame._whole(1234567) == "1,234,567"

    def test_neighbouring_heads_share_their_group(self) -> None:
        heads = [("", "a"), ("x", "b"), ("x", "c"), ("", "d"), ("x", "e")]
        assert Sheet("", heads, []).groups == [("", 1), ("x", 2), ("", 1), ("x", 1)]

    def test_every_marker_has_its_shape(self) -> None:
        swatches = [frame.swatch(index) for index in range(8)]
        assert len(set(swatches)) == 8 and "var(--s1)" in swatches[0] and "var(--s8)" in swatches[7]
        assert frame.swatch(0, "s") == frame.swatch(1).replace("var(--s2)", "var(--s1)")


def request(data: ReportData) -> Request:
    pairs = compare_all(data)
    return Request(data, pairs, summarise(data, pairs), None, 0, None)


class TestPage:
    def test_what_was_run_is_counted(self) -> None:
        data = report_of([cell([0.5, 0.5]), cell([0.5] * 3)], [cell([0.5])])
        assert page._counts(data) == ["2 testbeds", "1 backbone", "2 methods", "6 task results"]

    @pytest.mark.parametrize(
        ("values", "text"), [([5.0, 5.0], "5"), ([2.0, 20.0, 7.0], "2–20"), ([1.25, 1.5], "1.2–1.5")]
    )
    def test_a_span(self, values: list[float], text: str) -> None:
        assert span(values) == text

    def test_a_testbed_counts_each_task_once(self) -> None:
        first = cell([0.5, 0.5], [0, 1])
        second = replace(cell([0.5, 0.5], [1, 7]), way=np.array([5.0, 9.0]), shot=np.array([1.0, 2.5]))
        data = replace(report_of([first, second]), runs=({"testbeds": {}},))
        [bed] = page._beds(request(data))
        assert (bed["tasks"], bed["way"], bed["shot"], bed["chance"]) == (3, "5–9", "1–2.5", 0.2)
        assert (bed["identity"], bed["seed"], bed["sampler"]) == ("unknown", None, "")

    def test_the_most_tasks_of_a_series_are_all_of_a_testbed(self) -> None:
        data = report_of([cell([0.5, 0.5]), cell([0.5] * 3)])
        context = page.results(request(data)).context
        assert [line[3].below for line in context["means"].rows] == ["2 of 3 tasks", ""]

    def test_plots_by_shape_are_there_where_it_varies(self) -> None:
        ways = replace(cell([0.5] * 4), way=np.array([2.0, 3.0, 2.0, 3.0]))
        section = page.by_shape(request(report_of([ways])))
        assert section is not None and [panel["by"] for panel in section.context["panels"]] == ["way"]
        assert page.by_shape(request(report_of([cell([0.5] * 4)]))) is None


class TestTestbedPage:
    @pytest.mark.parametrize(
        ("counts", "sentence"),
        [
            (
                {"a": 1200, "b": 8, "c": 7, "d": 6, "e": 5},
                "Most often: a (1,200), b (8), c (7). Least often: e (5), d (6).",
            ),
            (
                {"a": 7, "b": 6, "c": 5, "d": 4, "e": 3, "f": 2, "g": 1},
                "Most often: a (7), b (6), c (5). Least often: g (1), f (2), e (3).",
            ),
            ({"a": 3, "b": 2}, "Most often: a (3), b (2)."),
            ({"a": 1, "b": 1}, "Every class in 1 task."),
        ],
    )
    def test_both_ends_of_a_balance_are_named(self, counts: dict[str, int], sentence: str) -> None:
        assert data_pages._ends(Balance("birds", counts, 1.0, 1.0)) == sentence

    def test_a_balance_names_classes_as_the_taxonomy_does(self) -> None:
        balance = Balance("birds", {"n01": 2, "n02": 1}, 1.0, 1.0, {"n01": "tench"})
        assert data_pages._ends(balance) == "Most often: tench (n01) (2), n02 (1)."

    @staticmethod
    def planted(**columns: list[float | None]) -> Any:
        tasks = len(next(iter(columns.values())))
        body = {
            "measured": list(columns),
            "table": pa.table(columns),
            "content_hash": "f" * 64,
            "__len__": lambda _: tasks,
        }
        return type("Planted", (), body)()

    def test_a_task_stands_at_one_end_and_the_lower_number_comes_first(self) -> None:
        groups = data_pages.choose_pictured(self.planted(coarsity=[2.0, 1.0, 2.0, 1.0, None]), 2)
        assert groups == [
            ("Finest: lowest coarsity", [1, 3]),
            ("Coarsest: highest coarsity", [0, 2]),
            ("Drawn at random", [4]),
        ]

    def test_accuracy_after_selection_goes_before_coarsity(self) -> None:
        bed = self.planted(coarsity=[1.0, 2.0, 3.0], accuracy_after=[0.9, 0.1, 0.5])
        (_, hardest), (_, easiest), (_, drawn_tasks) = data_pages.choose_pictured(bed, 1)
        assert (hardest, easiest, drawn_tasks) == ([1], [0], [2])
        level = self.planted(coarsity=[1.0, 2.0, 3.0], accuracy_after=[0.5, 0.5, 0.5])
        assert data_pages.choose_pictured(level, 1)[0] == ("Finest: lowest coarsity", [0])

    def test_few_tasks_are_halved(self) -> None:
        low, high = data_pages.choose_pictured(self.planted(coarsity=[1.0, 2.0, 3.0]), 3)
        assert (low[1], high[1]) == ([0], [2, 1])
        assert data_pages.choose_pictured(self.planted(coarsity=[1.0]), 3) == [("Drawn at random", [0])]


class TestOverlap:
    META: dict[str, Any] = {  # noqa: RUF012
        "a": {"name": "left", "fingerprint": "1"},
        "b": {"name": "right", "fingerprint": "2"},
        "classes": [{"a": f"a{n}", "relation": "name", "b": f"b{n}", "by": "name"} for n in range(201)],
    }

    def sections(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[str, list[Any]]:
        shown: list[Any] = []

        def write(title: str, sections: list[Any], **_: Any) -> str:
            shown.extend(sections)
            return title

        monkeypatch.setattr(data_pages, "write_page", write)
        rows = [
            {"kind": kind, "key_a": f"a{number}", "key_b": f"b{number}"}
            for kind in ("near", "exact")
            for number in range(3)
        ]
        meta = {**self.META, **options.pop("meta", {})}
        title = data_pages.render_overlap(pa.Table.from_pylist(rows), [], meta, **options)
        return title, shown

    def test_pairs_and_classes_beyond_the_limit_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def images(side: str, keys: list[str]) -> list[Image.Image]:
            return [Image.new("RGB", (8, 8), "red" if side == "a" else "blue") for _ in keys]

        title, shown = self.sections(monkeypatch, images=images, pictures=2)
        assert title == "Overlap of left and right"
        assert [section.name for section in shown] == ["counts", "classes", "exact", "near"]
        classes, exact = shown[1].context, shown[2].context
        assert (len(classes["sheet"].rows), classes["more"]) == (200, 1)
        assert ([pair["key_b"] for pair in exact["pairs"]], exact["more"]) == (["b0", "b1"], 1)
        assert exact["pairs"][0]["source_a"] != exact["pairs"][0]["source_b"]

    def test_without_images_it_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, shown = self.sections(monkeypatch)
        assert shown[2].context["pairs"] == [] and shown[2].context["problem"].startswith("No pictures: ")
        _, none_wanted = self.sections(monkeypatch, pictures=0)
        assert [section.name for section in none_wanted] == ["counts", "classes"]

    def test_one_dataset_has_copies_within(self, monkeypatch: pytest.MonkeyPatch) -> None:
        same = {"b": {"name": "left", "fingerprint": "1"}, "classes": []}
        title, shown = self.sections(monkeypatch, meta=same, pictures=0)
        assert title == "Copies within left" and [section.name for section in shown] == ["counts"]
