"""Methods on images with more queries than memory holds: learned from once, scored block by block."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longshot.base import ImageTask
from longshot.data import open_dataset
from longshot.evaluation import evaluate
from longshot.models import ImageMethod, SmallNetwork, get_method
from longshot.tasks import BigEpisode, shuffled_splits

CALLS = [
    "anil",
    "bit(steps=6, lr=0.05)",
    "bit(steps=6, lr=0.05, batch=8)",
    "ctx",
    "finetune-5",
    "finetune-all(steps=3, lr=0.001)",
    "finetune-all(steps=0)",
    "lora(steps=3)",
    "maml(steps=2)",
    "md-transfer(steps=4)",
    "offset(steps=3)",
    "protomaml(steps=2)",
    "train-from-scratch(steps=4)",
]


def a_task(queries: int = 11) -> ImageTask:
    """13 support images of 4 classes, of which one has none."""
    images = torch.randn(13 + queries, 3, 16, 16, generator=torch.Generator().manual_seed(5))
    label = torch.tensor([0] * 3 + [1] * 6 + [3] * 4)
    return ImageTask(images[:13] + label[:, None, None, None], label, images[13:], way=4, seed=7)


@pytest.fixture
def network() -> SmallNetwork:
    frozen: Any = SmallNetwork().eval().requires_grad_(False)
    made: SmallNetwork = frozen
    return made


@pytest.mark.parametrize("call", CALLS)
@torch.no_grad()
def test_blocks_get_the_scores_of_the_whole(call: str, network: SmallNetwork) -> None:
    method, task = get_method(call), a_task()
    assert isinstance(method, ImageMethod)
    [together] = method.scores([task], network)
    learned = method.learned(replace(task, query=task.query[:0]), network)
    blocks = torch.cat([learned(part) for part in torch.split(task.query, 4)])
    assert torch.equal(torch.isinf(blocks), torch.isinf(together)) and torch.isinf(together[:, 2]).all()
    remaining = [0, 1, 3]
    torch.testing.assert_close(blocks[:, remaining], together[:, remaining], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "call", ["bit(steps=2)", "md-transfer(steps=2)", "finetune-5", "train-from-scratch(steps=2)"]
)
@torch.no_grad()
def test_training_happens_once(call: str, network: SmallNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    from longshot.models.methods import finetune_network, task_parameters

    steps: list[int] = []
    for module in (task_parameters, finetune_network):
        true = module.descend
        monkeypatch.setattr(
            module, "descend", lambda *arguments, true=true: (steps.append(1), true(*arguments))[1]
        )
    method = get_method(call)
    assert isinstance(method, ImageMethod)
    learned = method.learned(a_task(), network)
    taken = len(steps)
    for part in torch.split(a_task().query, 4):
        learned(part)
    assert taken > 0 and len(steps) == taken


@pytest.mark.parametrize("call", ["bit(steps=3, lr=0.05)", "ctx"])
def test_an_evaluation_in_blocks_gives_the_same_rows(
    call: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from longshot.models import get_network, save_checkpoint

    folder = tmp_path / "network"
    folder.mkdir()
    story = {"preprocessing": "decode|resize(16,16)|value_range(0,1)"}
    save_checkpoint(folder, get_network("cnn4(width=4)", size=(16, 16)), story)
    data = shuffled_splits(open_dataset(photos), seed=0)
    bed = BigEpisode(train=20, validation=10).final(data)
    all_scores = []
    for number, queries in enumerate((1024, 13)):
        monkeypatch.setattr("longshot.evaluation.compute.QUERIES", queries)
        results = evaluate(
            bed,
            backbones=str(folder),
            methods=call,
            out=tmp_path / str(number),
            datasets={data.name: data},
            workers=1,
            device="cpu",
        )
        table = results.table()
        all_scores.append((table["prediction"].to_pylist(), table["loss"].to_numpy()))
    assert len(all_scores[0][0][0]) == 48  # the last block is no whole one
    assert all_scores[0][0] == all_scores[1][0]
    np.testing.assert_allclose(all_scores[0][1], all_scores[1][1], rtol=1e-4)


@torch.no_grad()
def test_large_supports_are_drawn_as_they_are(network: SmallNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """BiT's minibatches follow the images, not the classes: 90 % of one class stay 90 %."""
    from longshot.models.methods import task_parameters

    seen: list[torch.Tensor] = []

    def count(model: Any, images: torch.Tensor, loss: Any, optimiser: Any) -> None:
        seen.append(images[:, 0, 0, 0])

    monkeypatch.setattr(task_parameters, "descend", count)
    label = torch.tensor([0] * 90 + [1] * 10)
    support = (
        label.float()[:, None, None, None].expand(100, 3, 16, 16)
        + 1e-4 * torch.arange(100)[:, None, None, None]
    )
    task = ImageTask(support, label, support[:1], way=2, seed=0)
    method = get_method("bit(steps=40, batch=50)")
    assert isinstance(method, ImageMethod)
    method.scores([task], network)
    share = float((torch.cat(seen) > 0.5).float().mean())
    assert 0.05 < share < 0.15
