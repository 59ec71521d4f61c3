"""Coverage of the interval for other classes in worlds with real confusions, on data that did not design it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.statistics.class_worlds import WORLDS, measure_coverage, read_features


@pytest.mark.long
@pytest.mark.parametrize(
    "world", WORLDS, ids=lambda world: f"{world[0].partition('.')[0]}-{world[2]}-{world[4]}"
)
def test_real_confusions_are_covered(shared: Path, world: tuple) -> None:
    """95 % within three standard errors of 150 worlds (5.3 points), and never above certainty for the mean."""
    name, backbone, count, tasks, ways, shot = world
    features, offsets = read_features(shared / "data" / name, backbone)
    shares = measure_coverage(features, offsets, count, tasks, ways, shot, 150)
    assert all(over_classes >= 0.89 for _, over_classes in shares.values()), shares
    assert shares["mean"][1] <= 0.995
    assert shares["mean"][0] < 0.8
