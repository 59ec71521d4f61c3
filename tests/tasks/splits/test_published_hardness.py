"""CIFAR-100's published splits on the scale of hardness, against figures that were measured by sampled tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshot.data import open_dataset
from longshot.models import embed
from longshot.tasks import make_split, open_split
from longshot.tasks.splits.hardness import measure_hardness
from longshot.tasks.splits.proxy import Proxy

# frozen and learnt accuracy in %, 200 tasks each: their own interval is a point and more
MEASURED = {
    "atg:cifar100@0.04": (78.7, 74.4),
    "atg:cifar100@0.32": (75.3, 71.0),
    "atg:cifar100@0.64": (74.4, 70.4),
    "atg:cifar100@0.96": (73.1, 68.5),
    "fc100": (71.3, 65.6),
}


@pytest.mark.long
def test_published_splits_are_as_hard_as_they_were_measured(shared: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    dataset = open_dataset(shared / "data" / "cifar100-test.zip")
    # the size and the filter that the numbers were measured with
    pixels = "decode|resize(146)|central_crop(128)|normalize(0.498,0.502)"
    features = embed(dataset, "efficientnet-lite0", preprocessing=pixels)
    proxy, learnt = Proxy(features), []
    for name, (frozen, after) in MEASURED.items():
        hardness = measure_hardness(proxy, [open_split(name, dataset).positions(dataset)])
        assert 100 * hardness.frozen.mean == pytest.approx(frozen, abs=1.5), name
        assert 100 * hardness.learnt.mean == pytest.approx(after, abs=2), name
        learnt.append(hardness.learnt.mean)
    assert learnt == sorted(learnt, reverse=True)  # harder with R, and FC100 the hardest
    split = make_split(dataset, features=features, like="fc100", hardness=False)
    reached = split.made["hardness"]
    assert 100 * reached["learnt_accuracy"]["mean"] == pytest.approx(100 * learnt[-1], abs=1)
