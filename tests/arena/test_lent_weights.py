"""Weights that an organiser lends: in the boxes of all leagues but one, read-only, found by torch without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from longshot.arena import environments, load, submission_runs
from longshot.arena.competition_data import BlobStore, CompetitionData
from longshot.base import UserError

LOOK = """
import os, torch
from pathlib import Path
lent = Path(os.environ.get("LONGSHOT_WEIGHTS", "/box/weights"))
print("FILES", sorted(path.relative_to(lent).as_posix() for path in lent.rglob("*") if path.is_file()))
try:
    weights = torch.hub.load_state_dict_from_url("https://example.org/net-1.pth", weights_only=True)
    print("SUM", float(weights["layer"].sum()))
    (lent / "x").write_text("x")
except OSError as error:
    print("MET", type(error).__name__, error.errno)
return MyLearner()
"""


@pytest.fixture
def lending(competition: Any) -> Any:
    """The small competition with a folder as torch's hub keeps it."""
    folder = competition.folder / "lent" / "torch" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save({"layer": torch.ones(3, 4)}, folder / "net-1.pth")
    settings = competition.folder / "competition.yaml"
    settings.write_text(settings.read_text() + "\nweights: lent\n")
    return load(competition.folder)


def look(competition: Any, code: Path, out: Path, league: str) -> list[str]:
    phase = competition.phases[0].model_copy(update={"tasks": 1, "logs": "printed"})
    equipment = environments.equipment(competition)
    data = CompetitionData(competition)
    submission_runs.run(data, phase, code, out, seed=1, league=league, equipment=equipment)
    return (out / "log.txt").read_text().splitlines()


@pytest.mark.usefixtures("needs_sandbox")
def test_free_style_reads_them_and_meta_learning_does_not(lending, submission, tmp_path):
    code = submission(meta=LOOK)
    lines = look(lending, code, tmp_path / "free", "free-style")
    assert "FILES ['torch/hub/checkpoints/net-1.pth']" in lines
    assert "SUM 12.0" in lines and "MET OSError 30" in lines  # a read-only file system
    lines = look(lending, code, tmp_path / "meta", "meta-learning")
    assert "FILES []" in lines and not any(line.startswith("SUM") for line in lines)


def test_they_are_listed_and_travel_to_workers_elsewhere(lending):
    ((name, size),) = environments.list_weights(lending)
    assert name == "torch/hub/checkpoints/net-1.pth" and size > 500
    blobs = BlobStore(lending.folder)
    (blob,) = blobs.keep_folder(environments.lent_weights(lending))
    assert (blob.name, blob.bytes) == (name, size)
    assert blobs.path(blob.sha256).read_bytes() == (lending.folder / "lent" / name).read_bytes()
    assert blobs.keep_folder(environments.lent_weights(lending)) == [blob]  # its note is no weights
    assert [each for each, _ in environments.list_weights(lending)] == [name]


def test_a_folder_that_is_missing_is_named(lending):
    competition = lending.model_copy(update={"weights": "elsewhere"})
    with pytest.raises(UserError, match=r"names the weights .*elsewhere, which is no folder"):
        environments.equipment(competition)
