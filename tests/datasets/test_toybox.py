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

from longshot.datasets.toybox import open_toybox
from longshot.datasets.toybox.attributes import IMAGES, VIEWPOINTS, Photograph, plan
from longshot.datasets.toybox.families import FAMILIES, build, class_ids, splits
from longshot.datasets.toybox.generate import IMAGES_FILE, SEED, VERSION, draw_class, draw_share, generate
from longshot.datasets.toybox.owners import OWNERS
from longshot.datasets.toybox.scene import photograph, toy

CLEAN = Photograph("front", False, False, False, False, "centred", 1, "ben", 0)
SAMPLE = class_ids()[::12]  # two classes of each family


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
    ids = class_ids()
    assert len(ids) == 240
    assert all(len(class_id.split("/")) == 3 for class_id in ids)
    assert set(Counter(class_id.split("/")[0] for class_id in ids).values()) == {24}
    assert len(FAMILIES) == 10


def test_splits_keep_genera_whole_and_families_everywhere() -> None:
    parts = splits()
    assert {name: len(ids) for name, ids in parts.items()} == {"train": 120, "validation": 60, "test": 60}
    assert sorted(sum(parts.values(), ())) == list(class_ids())
    genera = {name: Counter(i.rsplit("/", 1)[0] for i in ids) for name, ids in parts.items()}
    assert all(set(count.values()) == {6} for count in genera.values())
    assert all({g.split("/")[0] for g in count} == set(FAMILIES) for count in genera.values())


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
    image = photograph(class_ids()[index], plan(index, SEED)[0], (SEED, index, 1, 0))
    # 0.01 of a grey level in the mean: 70 of the 7,056 pixels off by one
    np.testing.assert_allclose(image.mean(axis=(0, 1)), DRAWN_IN_VERSION_2[index], atol=0.01)


def test_no_two_classes_have_the_same_parts() -> None:
    assert len({repr(build(class_id)) for class_id in class_ids()}) == 240


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
    fronts = {c: photograph(c, CLEAN, (7, 0)).astype(float) for c in splits()["test"]}
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


def test_a_share_of_the_work_gives_the_same_bytes_as_any_other(tmp_path: Path) -> None:
    """Whoever draws a class draws the same bytes: here share 3 of 120 against the classes drawn alone."""
    ids = class_ids()
    draw_share(tmp_path, 3, 120)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["class-003.npy", "class-123.npy"]
    for index in (123, 3):  # in another order
        toy.cache_clear()
        assert np.array_equal(np.load(tmp_path / f"class-{index:03d}.npy"), draw_class(index, ids[index]))


def test_what_an_interrupted_run_drew_is_not_drawn_again(tmp_path: Path) -> None:
    ready = np.full((IMAGES, 84, 84, 3), 7, np.uint8)
    for index in range(len(class_ids())):
        np.save(tmp_path / f"class-{index:03d}.npy", ready)
    generate(tmp_path, workers=1)
    images = np.load(tmp_path / IMAGES_FILE, mmap_mode="r")
    assert images.shape == (12000, 84, 84, 3) and images[::599].min() == images[::599].max() == 7
    assert not list(tmp_path.glob("class-*.npy"))


def test_the_cached_dataset_holds_what_was_planned_and_drawn() -> None:
    dataset = open_toybox()
    assert (len(dataset), dataset.class_ids) == (12000, class_ids())
    assert dataset.keys[50 * 17 + 3].as_py() == f"{class_ids()[17]}/03"
    assert dataset.attributes is not None
    rows = dataset.attributes.slice(17 * IMAGES, IMAGES).to_pylist()
    assert rows == [dataclasses.asdict(shot) for shot in plan(17, SEED)]
    assert np.array_equal(np.asarray(dataset.image(17 * IMAGES + 3)), draw_class(17, class_ids()[17])[3])
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


_TWO = """
import longshot.datasets.toybox.opening as opening, sys, time
def draw(folder, workers):
    print("drew", flush=True)
    time.sleep(1.0)
    (folder / "done").write_text("whole")
opening.generate, opening.check_drawn = draw, bool
print((opening.ensure_drawn() / "done").read_text())
"""


def test_two_first_openings_draw_once(tmp_path: Path) -> None:
    abandoned = tmp_path / "toybox" / f".v{VERSION}-unfinished"
    abandoned.mkdir(parents=True)
    environment = os.environ | {"LONGSHOT_CACHE": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", _TWO], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    output = "".join(process.communicate(timeout=120)[0] for process in started)
    assert sorted(output.split()) == ["drew", "whole", "whole"]
    assert not abandoned.exists()
