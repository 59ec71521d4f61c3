"""The report's warning about training data that overlaps a testbed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from longshot.base import write_json
from longshot.reports import environment, read_runs
from longshot.reports.page import overlap
from longshot.reports.sections import Request
from longshot.reports.summary import compare_all, summarise

from .conftest import MakeRun

LEAK = {
    "dataset": "shapes",
    "upstream": "<i>web</i>",
    "how": "content, near copies",
    "images": 12,
    "levels": {"files": 10, "near": 2},
    "of_images": 1200,
    "classes": 3,
    "of_classes": 7,
}


def _request(folder: Path, upstream: dict[str, list[dict[str, Any]]] | None) -> Request:
    """The run with what is known about the network "net", by testbed hash ("*": the first testbed of the run)."""
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    if upstream is not None:
        first = read_runs(folder).beds[0].hash
        run["upstream"] = {"net": {first if bed == "*" else bed: leaks for bed, leaks in upstream.items()}}
        write_json(folder / "run.json", run)
    data = read_runs(folder)
    pairs = compare_all(data)
    return Request(data, pairs, summarise(data, pairs), None, 0, None)


def test_a_run_that_knows_nothing_has_no_section(make_run: MakeRun) -> None:
    assert overlap(_request(make_run(), None)) is None


def test_an_overlap_is_a_warning_with_counts_and_escaped_names(make_run: MakeRun) -> None:
    section = overlap(_request(make_run(), {"*": [LEAK]}))
    assert section is not None
    text = environment().get_template("overlap.html.j2").render(section.context)
    assert "‡ net was trained on 12 of the 1,200 images of" in text and "on 3 of its 7 classes" in text
    assert "10 the same file, 2 a near copy" in text
    assert "without them not known before the evaluation is finished" in text
    assert "<i>web" not in text and "&lt;i&gt;web" in text


def test_nothing_shared_and_nothing_known_are_told_without_a_warning(make_run: MakeRun) -> None:
    none = {**LEAK, "images": 0, "classes": 0}
    unknown = {**LEAK, "how": "unknown", "images": None, "classes": None}
    section = overlap(_request(make_run(), {"*": [none, unknown]}))
    assert section is not None and section.context["notes"] == []
    text = environment().get_template("overlap.html.j2").render(section.context)
    assert "‡" not in text and "0 of 1,200" in text and "unknown" in text


def test_testbeds_that_the_report_does_not_show_are_left_out(make_run: MakeRun) -> None:
    assert overlap(_request(make_run(), {"0" * 64: [LEAK]})) is None
