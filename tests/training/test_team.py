"""Two processes share every step and end with the network of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from longshot.core.errors import UserError
from longshot.training.distributed import Team, launch
from longshot.training.loop import train


def test_two_devices_train_the_network_of_one(photos: Path, tmp_path: Path) -> None:
    # Group norm: running statistics of batch norm are averaged over devices instead of kept one after the other.
    options: dict[str, Any] = {
        "network": "cnn4(width=4, norm='group')",
        "size": 16,
        "steps": 6,
        "batch": 4,
        "optimiser": "sgd(lr=0.05)",
        "augment": "crop(2)|flip",
        "validation_tasks": 10,
        "device": "cpu",
    }
    call = "protonet(way=2, shot=2, query=3)"
    alone = train(photos, call, out=tmp_path / "one", **options)
    together = train(photos, call, out=tmp_path / "two", devices=2, **options)
    assert together.steps == alone.steps == 6
    assert together.validation_accuracy == pytest.approx(alone.validation_accuracy, abs=0.02)
    one, two = (load_file(tmp_path / name / "state.safetensors") for name in ("one", "two"))
    moved = load_file(tmp_path / "one" / "network.safetensors")
    assert moved
    for name, value in one.items():
        torch.testing.assert_close(value, two[name], rtol=1e-4, atol=1e-6)


def fails(team: Team, device: str) -> None:
    raise UserError(f"Process {team.rank} of {team.size} tells of its mistake.")


def test_a_mistake_in_a_process_is_told() -> None:
    with pytest.raises(UserError, match=r"Process \d of 2 tells of its mistake"):
        launch(2, "cpu", fails)
