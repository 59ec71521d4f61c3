"""Toybox: its plan, the truth of its attributes, and how it comes into the cache."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from longshot.data.toybox import (
    FOLDER,
    IMAGES,
    SEED,
    VERSION,
    draw_class,
    draw_classes,
    open_toybox,
    species,
)
from longshot.data.toybox.photographs import (
    OWNERS,
    VIEWPOINTS,
    Photograph,
    build,
    photograph,
    plan,
    toy,
)

CLASS_IDS = tuple(species())
FAMILIES = {class_id.split("/")[0] for class_id in CLASS_IDS}
CLEAN = Photograph("front", False, False, False, False, "centred", 1, "ben", 0)
SAMPLE = CLASS_IDS[::12]  # two classes of each family


def mean_change(**change: object) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pictures [20, 84, 84, 3] of the sample, clean and with one attribute changed, all else drawn alike."""
    changed = dataclasses.replace(CLEAN, **change)  # type: ignore[arg-type]
    pairs = [(photograph(c, CLEAN, (7, i)), photograph(c, changed, (7, i))) for i, c in enumerate(SAMPLE)]
    clean, other = zip(*pairs, strict=True)
    return np.stack(clean).astype(float), np.stack(other).astype(float)


def sharpness(images: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variance of the Laplacian of the grey picture, per image."""
    g = images.mean(axis=3)
    laplacian = g[:, 1:-1, :-2] + g[:, 1:-1, 2:] + g[:, :-2, 1:-1] + g[:, 2:, 1:-1] - 4 * g[:, 1:-1, 1:-1]
    return laplacian.var(axis=(1, 2))


def test_ten_families_of_24_classes_on_three_levels() -> None:
    ids = CLASS_IDS
    assert len(ids) == 240
    assert all(len(class_id.split("/")) == 3 for class_id in ids)
    assert set(Counter(class_id.split("/")[0] for class_id in ids).values()) == {24}
    assert len(FAMILIES) == 10


def test_splits_keep_genera_whole_and_families_everywhere() -> None:
    parts = open_toybox().splits
    assert {name: len(ids) for name, ids in parts.items()} == {"train": 120, "validation": 60, "test": 60}
    assert sorted(sum(parts.values(), ())) == list(CLASS_IDS)
    genera = {name: Counter(i.rsplit("/", 1)[0] for i in ids) for name, ids in parts.items()}
    assert all(set(count.values()) == {6} for count in genera.values())
    assert all({g.split("/")[0] for g in count} == FAMILIES for count in genera.values())


# One class of each family: mean red, green and blue of its first photograph in version 2.
DRAWN_IN_VERSION_2 = {
    10: (163.146, 129.532, 94.959),
    34: (165.846, 137.749, 121.547),
    58: (112.500, 95.085, 101.545),
    82: (159.767, 123.430, 97.780),
    106: (156.475, 156.592, 163.669),
    130: (177.870, 160.505, 133.230),
    154: (159.583, 133.354, 97.912),
    178: (57.214, 53.978, 56.722),
    202: (153.858, 121.239, 106.623),
    226: (125.285, 136.018, 142.839),
}


@pytest.mark.parametrize("index", list(DRAWN_IN_VERSION_2))
def test_pictures_are_those_of_this_version(index: int) -> None:
    """Who changes a picture raises VERSION. On another processor single pixels may be rounded differently."""
    assert VERSION == 2
    image = photograph(CLASS_IDS[index], plan(index, SEED)[0], (SEED, index, 1, 0))
    # 0.01 of a grey level in the mean: 70 of the 7,056 pixels off by one
    np.testing.assert_allclose(image.mean(axis=(0, 1)), DRAWN_IN_VERSION_2[index], atol=0.01)


def test_no_two_classes_have_the_same_parts() -> None:
    assert len({repr(build(class_id)) for class_id in CLASS_IDS}) == 240


@pytest.mark.parametrize("index", [0, 1, 2, 3, 101, 239])
def test_each_class_is_balanced(index: int) -> None:
    shots = plan(index, SEED)
    assert len(shots) == IMAGES
    assert min(Counter(s.viewpoint for s in shots).values()) >= 12
    assert set(Counter(s.viewpoint for s in shots)) == set(VIEWPOINTS)
    assert Counter(s.owner for s in shots) == {owner.name: 5 for owner in OWNERS}
    assert len({(s.owner, s.viewpoint) for s in shots}) == 40
    assert sum(s.quality_issues > 0 for s in shots) == 14
    assert all(
        s.quality_issues == s.blur + s.occlusion + s.over_exposed + s.under_exposed + (s.framing != "centred")
        for s in shots
    )
    assert not any(s.over_exposed and s.under_exposed for s in shots)
    assert Counter(s.clutter for s in shots) == {1: 26, 2: 12, 3: 8, 4: 4}


def test_viewpoints_give_different_pictures() -> None:
    for i, class_id in enumerate(SAMPLE):
        views = [
            photograph(class_id, dataclasses.replace(CLEAN, viewpoint=v), (7, i)).astype(float)
            for v in VIEWPOINTS
        ]
        apart = [np.abs(a - b).mean() for n, a in enumerate(views) for b in views[:n]]
        assert min(apart) > 2, (class_id, apart)


def test_blurred_pictures_are_less_sharp() -> None:
    clean, blurred = mean_change(blur=True)
    assert (sharpness(blurred) < 0.6 * sharpness(clean)).all()


def test_exposure_changes_brightness() -> None:
    clean, bright = mean_change(over_exposed=True)
    _, dark = mean_change(under_exposed=True)
    axes = (1, 2, 3)
    assert (bright.mean(axis=axes) > clean.mean(axis=axes) + 40).all()
    assert (dark.mean(axis=axes) < 0.6 * clean.mean(axis=axes)).all()


def test_an_occluder_hides_part_of_the_toy() -> None:
    for i, class_id in enumerate(SAMPLE):
        clean = photograph(class_id, CLEAN, (7, i)).astype(float)
        covered = photograph(class_id, dataclasses.replace(CLEAN, occlusion=True), (7, i)).astype(float)
        changed = (np.abs(clean - covered).max(axis=2) > 25).mean()
        assert 0.02 < changed < 0.75, (class_id, changed)


def test_small_framing_shows_less_of_the_toy_and_cut_off_moves_it_to_the_border() -> None:
    def toy_pixels(framing: str) -> NDArray[np.bool_]:
        """Where the picture is far from the grey of its backdrop."""
        shot = dataclasses.replace(CLEAN, framing=framing)
        first = photograph("vehicles/cars/orange-saloon", shot, (7, 1)).astype(int)
        empty = np.array([176, 179, 181])
        return np.abs(first - empty).max(axis=2) > 60

    assert toy_pixels("small").mean() < 0.5 * toy_pixels("centred").mean()
    edge = np.ones((84, 84), bool)
    edge[2:-2, 2:-2] = False
    assert toy_pixels("cut-off")[edge].sum() > toy_pixels("centred")[edge].sum() + 5


def test_clutter_adds_things() -> None:
    clean, two = mean_change(clutter=2)
    _, four = mean_change(clutter=4)
    changed = [(np.abs(clean - other).max(axis=3) > 25).mean(axis=(1, 2)) for other in (two, four)]
    assert (changed[0] > 0).mean() > 0.9
    assert (changed[1] > changed[0]).mean() > 0.9


def test_an_owner_has_a_style() -> None:
    """Corners (backdrop) of one owner's pictures are closer to each other than to those of other owners."""
    corners = np.array(
        [
            [
                photograph(c, dataclasses.replace(CLEAN, owner=o.name), (7, i))[:6].mean(axis=(0, 1))
                for o in OWNERS
            ]
            for i, c in enumerate(SAMPLE)
        ]
    )
    within = corners.std(axis=0).mean()
    between = corners.mean(axis=0).std(axis=0).mean()
    assert between > 1.5 * within


def test_species_of_a_genus_look_more_alike_than_families() -> None:
    """The mean difference of fronts in the same pose, pixel by pixel."""
    fronts = {c: photograph(c, CLEAN, (7, 0)).astype(float) for c in open_toybox().splits["test"]}
    ids = list(fronts)
    near = [
        np.abs(fronts[a] - fronts[b]).mean()
        for a in ids
        for b in ids
        if a < b and a.rsplit("/", 1)[0] == b.rsplit("/", 1)[0]
    ]
    far = [
        np.abs(fronts[a] - fronts[b]).mean()
        for a in ids
        for b in ids
        if a < b and a.split("/")[0] != b.split("/")[0]
    ]
    assert np.mean(near) < 0.5 * np.mean(far)


def test_a_class_drawn_by_any_process_has_the_bytes_of_the_class_drawn_alone(tmp_path: Path) -> None:
    """Four classes by two processes, one of them against the same class drawn here after another one."""
    draw_classes(tmp_path, [9, 100, 3, 123], workers=2)
    assert {path.stem for path in tmp_path.iterdir()} == {f"class-{n:03d}" for n in (3, 9, 100, 123)}
    toy.cache_clear()
    assert np.array_equal(np.load(tmp_path / "class-123.npy"), draw_class(123, CLASS_IDS[123]))


def test_the_shipped_attributes_are_those_of_the_plan() -> None:
    planned = [shot for index in range(240) for shot in plan(index, SEED)]
    attributes = open_toybox().attributes
    assert attributes is not None
    assert attributes.to_pydict() == {
        field.name: [getattr(shot, field.name) for shot in planned]
        for field in dataclasses.fields(Photograph)
    }


def test_the_cached_dataset_holds_what_was_planned_and_drawn() -> None:
    dataset = open_toybox()
    assert (len(dataset), dataset.class_ids) == (12000, CLASS_IDS)
    assert dataset.keys[50 * 17 + 3].as_py() == f"{CLASS_IDS[17]}/03"
    assert dataset.attributes is not None
    assert np.array_equal(np.asarray(dataset.image(17 * IMAGES + 3)), draw_class(17, CLASS_IDS[17])[3])
    assert dataset.taxonomy is not None
    assert len(dataset.taxonomy.groups(dataset.class_ids)) == 40
    assert len(dataset.split_classes("test")) == 60


def test_a_cached_toybox_opens_at_once_and_its_store_travels() -> None:
    dataset = open_toybox()
    started = time.process_time()
    open_toybox()
    assert time.process_time() - started < 0.5
    assert len(pickle.dumps(dataset.store)) < 1000
    assert pickle.loads(pickle.dumps(dataset.store)).read(5).size == (84, 84)


_FILL = """
import sys, numpy as np
from longshot.data import toybox
draw = toybox.draw_class
def told(index, class_id):
    print("drew", index, flush=True)
    return draw(index, class_id)
toybox.draw_class = told
toybox.ToyStore().prepare(np.array([50 * int(n) for n in sys.argv[1:]]))
"""


@pytest.mark.long
def test_two_processes_at_once_draw_every_class_once(tmp_path: Path) -> None:
    started = [_fill(tmp_path, numbers) for numbers in (["3", "4"], ["4", "5"])]
    output = "".join(process.communicate(timeout=120)[0] for process in started)
    assert sorted(output.split("\n")) == ["", "drew 3", "drew 4", "drew 5"]
    file = tmp_path / "toybox" / FOLDER / "class-004.npy"
    assert np.array_equal(np.load(file), draw_class(4, CLASS_IDS[4]))


def test_a_killed_process_leaves_whole_classes_and_the_next_goes_on(tmp_path: Path) -> None:
    first = _fill(tmp_path, ["3", "4"])
    assert first.stdout is not None
    lines = [first.stdout.readline(), first.stdout.readline()]
    first.kill()
    first.communicate()
    assert lines == ["drew 3\n", "drew 4\n"]  # killed while it drew class 4
    output = _fill(tmp_path, ["3", "4"]).communicate(timeout=120)[0]
    assert output == "drew 4\n"
    for index in (3, 4):
        file = tmp_path / "toybox" / FOLDER / f"class-{index:03d}.npy"
        assert np.array_equal(np.load(file), draw_class(index, CLASS_IDS[index]))


def _fill(cache: Path, numbers: list[str]) -> subprocess.Popen[str]:
    environment = os.environ | {"LONGSHOT_CACHE": str(cache)}
    command = [sys.executable, "-c", _FILL, *numbers]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
