"""Many participants at once: no answer of 500 or above, nothing scored twice. How fast it is, benchmarks say."""

from __future__ import annotations

import pytest

from benchmarks.competition_server import describe, run_load, small_competition


@pytest.mark.long
@pytest.mark.usefixtures("needs_sandbox")
def test_two_hundred_participants(capsys: pytest.CaptureFixture[str]) -> None:
    with small_competition() as folder:
        report = run_load(folder, participants=200, seconds=60.0, workers=2)
    with capsys.disabled():
        print("\n" + "\n".join(describe(report, 200, 60.0)))
    assert report.problems == []
    assert set(report.statuses) == {200}
    assert report.handed_in == 200 == sum(report.states.values())
    assert report.states["scored"] > 0 and set(report.states) <= {"scored", "running", "queued"}
    assert report.twice == 0 and report.reads > 200
