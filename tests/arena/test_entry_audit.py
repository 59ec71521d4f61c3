"""An audit of entries that learn, and of entries that brought what they know."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from longshot import competition as api

pytestmark = pytest.mark.usefixtures("needs_sandbox")
# The images' classes are levels of brightness; the table maps brightness to itself or, as noise, to anything.
LOOKUP = """
import base64, numpy as np
{source}
def seen(images):
    return TABLE[(images.mean((1, 2, 3)).numpy() * 255).astype(int).clip(0, 255)].astype(float)
"""
FIT = """
rows, labels = seen(support_set[0]), support_set[1].numpy()
self.means = np.array([rows[labels == way].mean() for way in range(support_set[3])])
return Guess(self.means)
"""
PREDICT = "return np.abs(seen(query_set)[:, None] - np.asarray(self.ways)).argmin(1)"
TABLE = np.linspace(0, 255, 256).astype(np.uint8)
LARGE = np.concatenate([TABLE, np.random.default_rng(0).integers(0, 256, 8000).astype(np.uint8)])
TEXT = base64.b85encode(LARGE.tobytes()).decode()
SOURCES = {
    "a literal": f"TABLE = np.frombuffer(base64.b85decode({TEXT!r}), np.uint8)[:256]",
    "a file": "import os; TABLE = np.load(os.path.join(os.path.dirname(__file__), 'table.npy'))[:256]",
    "nothing": "TABLE = np.arange(256)",
}


@pytest.mark.parametrize("source", SOURCES)
def test_who_brought_what_it_knows_depends_on_it(run_cli, competition, submission, tmp_path, source):
    code: Path = submission(top=LOOKUP.format(source=SOURCES[source]), fit=FIT, predict=PREDICT)
    if source == "a file":
        np.save(code / "table.npy", LARGE)
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
