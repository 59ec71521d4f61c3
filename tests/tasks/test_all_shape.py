"""Tasks of all classes at once: every class with two images takes part, small ones with what they have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import longshot
from longshot.tasks import AllShape


def photos(folder: Path, sizes: list[int]) -> longshot.Dataset:
    """Write classes of ``sizes`` images, all different."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (sum(sizes), 8, 8, 3), np.uint8)
    labels = [f"class{number:02}" for number, size in enumerate(sizes) for _ in range(size)]
    path = folder / f"photos-{'-'.join(map(str, sizes))}.npz"
    np.savez(path, images=images, labels=labels)
    return longshot.open_dataset(path)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(2, 12), min_size=2, max_size=6),
    shot=st.integers(1, 8),
    query=st.integers(1, 5),
)
def test_every_class_gives_what_it_has(tmp_path: Path, sizes: list[int], shot: int, query: int) -> None:
    dataset = photos(tmp_path, sizes)
    shape = AllShape(shot, query)
    testbed = longshot.sample(dataset, tasks=3, shape=shape, copies="allow", allow_repeats=True)
    for task in testbed:
        assert task.way == len(sizes)
        queries = np.bincount(task.query_label, minlength=task.way)
        for name, own_shots, own_queries in zip(task.classes, task.shots, queries.tolist(), strict=True):
            size = sizes[int(name.removeprefix("class"))]
            assert own_queries == min(query, max(1, size - shot))
            assert own_shots == min(shot, size - own_queries)
        assert not set(task.support) & set(task.query)


def test_a_single_image_is_left_out_and_the_others_stay(tmp_path: Path) -> None:
    dataset = photos(tmp_path, [1, 2, 9])
    testbed = longshot.sample(
        dataset, tasks=2, shape=AllShape(5, 2), copies="allow", drop_small=True, allow_repeats=True
    )
    assert [sorted(task.classes) for task in testbed] == [["class01", "class02"]] * 2
