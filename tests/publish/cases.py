"""What tests that walk over every verb and command have to know of this wing (see ``tests/wings.py``)."""

from __future__ import annotations

import longshot
from remedies import Mistake

OUTPUT_FOLDERS = {"bench": "pixels --suite {bed}", "release": "{bed} --title x"}
OUTPUTS_ELSEWHERE = {("bench", "leaderboard")}  # a file that it has read before, and extends
RUN_READERS = ("release BED --run CUT --title T --licence CC0 -o OUT/release",)


def _boards() -> None:
    longshot.release("plain.parquet", out="suite", title="x")
    longshot.bench("pixels", suite="suite", methods="protonet", leaderboard="other.json")


MISTAKES = [
    Mistake("release()", "verify", ("none",), {}, {"TESTBED": "plain.parquet", "FOLDER": "none"}, {"title": "x"}),
    Mistake("published", "release", ("plain.parquet",), {"out": "bench", "title": "x", "published": "today"}),
    Mistake("leaderboard", "bench", ((),), {"suite": "suite", "methods": "protonet", "merge": ["other.json"]},
            {"FILE": "board.json"}, prepare=_boards),
]  # fmt: skip
NOT_FOLLOWED = {"suite": "needs a suite at a URL; tests/publish/suites/test_suite.py opens one by its digest"}
