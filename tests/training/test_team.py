"""Two processes share every step and end with the network of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from longshot.base import UserError
from longshot.training import train
from longshot.training.distributed import Team, launch


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
    alone = train(call, photos, out=tmp_path / "one", **options)
    together = train(call, photos, out=tmp_path / "two", devices=2, **options)
    assert together.steps == alone.steps == 6
    assert together.validation_accuracy == pytest.approx(alone.validation_accuracy, abs=0.02)
    start = train(
        call, photos, out=tmp_path / "start", **{**options, "steps": 1, "optimiser": "sgd(lr=1e-12)"}
    )
    assert start.steps == 1
    before, single, shared = (
        load_file(tmp_path / name / "state.safetensors") for name in ("start", "one", "two")
    )
    # Both sum the same terms in another order. A float32 sum of n terms is off by at most n·u of the sum of their
    # sizes (u = 2⁻²⁴) in any order, so the two networks part by no more than 2·n·u of the way that training moved
    # them; n is what one weight's gradient adds up: 4 episodes of 10 images of 16 × 16 places.
    share = 2 * (4 * 10 * 16 * 16) * 2.0**-24
    trained = [name for name in single if not torch.equal(single[name], before[name])]
    assert trained
    for name, value in single.items():
        way = (value - before[name]).abs().max().item() if name in trained else 0.0
        torch.testing.assert_close(value, shared[name], rtol=0, atol=share * way)


def fails(team: Team, device: str) -> None:
    raise UserError(f"Process {team.rank} of {team.size} tells of its mistake.")


@pytest.mark.long
def test_a_mistake_in_a_process_is_told() -> None:
    with pytest.raises(UserError, match=r"Process \d of 2 tells of its mistake"):
        launch(2, "cpu", fails)
