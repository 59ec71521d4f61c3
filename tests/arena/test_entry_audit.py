"""An audit of entries that learn, and of entries that brought what they know."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from longshot import competition as api

pytestmark = pytest.mark.usefixtures("needs_sandbox")
# Brightness tells the classes apart. The weights know that it does, and that 8,000 other numbers of an image do not.
LOOKUP = """
import base64, numpy as np
{source}
def seen(images):
    rows = images.numpy().reshape(len(images), -1)
    others = [np.random.default_rng(int(row.sum() * 1000)).normal(0, 0.3, len(W) - 1) for row in rows]
    return np.array([W[0] * row.mean() + other @ W[1:] for row, other in zip(rows, others)])
"""
FIT = """
rows, labels = seen(support_set[0]), support_set[1].numpy()
self.means = np.array([rows[labels == way].mean() for way in range(support_set[3])])
return Guess(self.means)
"""
PREDICT = "return np.abs(seen(query_set)[:, None] - np.asarray(self.ways)).argmin(1)"
WEIGHTS = np.r_[1, np.random.default_rng(0).normal(0, 1e-4, 8000)].astype(np.float32)
TEXT = base64.b85encode(WEIGHTS.tobytes()).decode()
SOURCES = {
    "a literal": f"W = np.frombuffer(base64.b85decode({TEXT!r}), np.float32)",
    "a file": "import os; W = np.load(os.path.join(os.path.dirname(__file__), 'weights.npy'))",
    "nothing": "W = np.r_[1.0, np.zeros(10)]",
}


@pytest.mark.parametrize("source", SOURCES)
def test_who_brought_what_it_knows_depends_on_it(run_cli, competition, submission, tmp_path, source):
    code: Path = submission(top=LOOKUP.format(source=SOURCES[source]), fit=FIT, predict=PREDICT)
    settings = competition.folder / "competition.yaml"  # three guessed tasks may be as wide as the loss
    settings.write_text(settings.read_text().replace("tasks: 3, per_day", "tasks: 12, per_day"))
    if source == "a file":
        np.save(code / "weights.npy", WEIGHTS)
    words = ("--phase", "feedback", "-o", tmp_path / "audited", "--json")
    run_cli("compete", "audit", competition.folder, code, *words)
    audit = json.loads((tmp_path / "audited" / "audit.json").read_text())
    scores = {run["variant"]: run["score"] for run in audit["runs"]}
    print(source, scores, audit["verdict"])
    assert scores["original"] > 0.9
    assert audit["depends"] is (source != "nothing")
    if source == "nothing":
        assert audit["replaced"] == [] and list(scores) == ["original"]
    else:
        assert scores["noise"] is None or scores["noise"] < 0.6
        assert audit["verdict"].startswith("depends on what it brought")
    assert ("shuffled" in scores) is (source == "a file")


def test_an_audit_refuses_a_folder_that_is_there(competition, submission, tmp_path):
    with pytest.raises(Exception, match="is there already; choose a new folder"):
        api.audit_entry(competition.folder, submission(), tmp_path)
