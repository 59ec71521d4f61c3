"""A network trained for seconds on toybox's train classes tells its test classes apart better than pixels do."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from few_toys import FewToys
from longshot.data import open_dataset
from longshot.models import Gatherer, embed, get_method, padded_batches
from longshot.statistics import mean_interval
from longshot.tasks import FixedShape, sample
from longshot.training import train


def test_trained_beats_pixels(tmp_path: Path) -> None:
    import torch

    dataset = open_dataset("toybox")
    done = train(
        "protonet",
        dataset,
        network="cnn4(width=32)",
        size=28,
        steps=40,
        optimiser="adam(lr=0.003)",
        validation_tasks=20,
        out=tmp_path / "net",
    )
    tested = FewToys(50, "test").take(dataset)  # the pictures of other classes need not be embedded
    bed = sample(tested, tasks=100, shape=FixedShape(5, 5, 10), split="test")
    method = get_method("protonet")
    accuracy = {}
    for backbone in ("pixels", str(done.path)):
        features = embed(tested, backbone, device="cpu")
        tasks = bed.bind(tested.name, features.keys, features.fingerprint)
        accuracies = np.empty(len(tasks))
        with torch.no_grad():
            for chosen, batch, targets in padded_batches(
                tasks, method, Gatherer([features.array], torch.device("cpu"))
            ):
                accuracies[chosen] = (method.scores(batch).argmax(2) == targets).double().mean(1).numpy()
        accuracy[backbone] = accuracies
    gain = mean_interval(accuracy[str(done.path)] - accuracy["pixels"])
    assert gain.low is not None
    assert gain.low > 0.05  # paired, task by task
