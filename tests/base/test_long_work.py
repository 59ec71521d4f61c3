"""What long work says while it runs."""

from __future__ import annotations

import pytest

from longshot.base.long_work import Progress


def test_the_time_left_is_that_of_the_units_of_late(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("longshot.base.long_work.time.monotonic", lambda: now[0])
    bar = Progress("evaluate", 1_110, "tasks")
    for _ in range(10):  # quick units, as those of cached features
        now[0] += 1
        bar.advance(100)
    for _ in range(60):
        now[0] += 1
        bar.advance()
    assert "1,060 of 1,110 tasks, 15 tasks/s, 50 s left" in capsys.readouterr().err


def test_skipped_units_do_not_shorten_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("longshot.base.long_work.time.monotonic", lambda: now[0])
    bar = Progress("evaluate", 200, "tasks")
    bar.skip(100)
    for _ in range(10):
        now[0] += 1
        bar.advance()
    assert "110 of 200 tasks, 1 tasks/s, 90 s left" in capsys.readouterr().err
