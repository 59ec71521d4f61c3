"""Causes that hold: how often a cause planted in the pixels is the first that ``explain`` names.

    python -m benchmarks.causes grocery128.zip        # any dataset with at least 25 classes of 40 images
    python -m benchmarks causes                       # toybox
    python -m benchmarks.causes cub 10 26 10          # 10 classes of 26 images, of which 10 are altered

25 classes of 40 images; 15 images of each class are altered and the supports are drawn from them, the queries from the
others: 60 tasks, 5-way 5-shot, 8 queries. Alterations are made here, most at strengths that the signatures were not
learnt at. Then nothing is planted in 300 random tasks. Last, what interventions cost.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

import longshot
from longshot.data import Dataset
from longshot.diagnosis.attribute_table import Pixels, measure_images, measured_pixels, pixel_gaps
from longshot.diagnosis.findings import findings
from longshot.tasks import FixedShape, ShiftedInstances

CLASSES, EACH, PLANTED = 25, 40, 15
TASKS, RANDOM, BACKBONE = 60, 5, "efficientnet-lite0(size=128)"
Picture = NDArray[np.float64]  # [H, W, 3] in 0 … 1
Plant = Callable[[Picture, np.random.Generator], Picture]


def _resized(pixels: Picture, size: tuple[int, int], how: Image.Resampling) -> Picture:
    image = Image.fromarray((np.clip(pixels, 0, 1) * 255).round().astype(np.uint8))
    return np.asarray(image.resize(size, how)) / 255


def _reduced(how: Image.Resampling) -> Plant:
    def plant(pixels: Picture, _: np.random.Generator) -> Picture:
        height, width = pixels.shape[:2]
        return _resized(_resized(pixels, (width // 4, height // 4), how), (width, height), how)

    return plant


def _jpeg(pixels: Picture, _: np.random.Generator) -> Picture:
    stream = io.BytesIO()
    Image.fromarray((pixels * 255).round().astype(np.uint8)).save(stream, "JPEG", quality=10)
    return np.asarray(Image.open(stream)) / 255


def _tinted(channel: int) -> Plant:
    return lambda pixels, _: pixels * np.where(np.arange(3) == channel, 0.7, 1.0)


def _zoomed(pixels: Picture, _: np.random.Generator) -> Picture:
    height, width = pixels.shape[:2]
    centre = pixels[height // 4 : height - height // 4, width // 4 : width - width // 4]
    return _resized(centre, (width, height), Image.Resampling.BICUBIC)


def _framed(pixels: Picture, _: np.random.Generator) -> Picture:
    height, width = pixels.shape[:2]
    frame = np.full_like(pixels, 0.5)
    small = _resized(pixels, (width // 2, height // 2), Image.Resampling.BICUBIC)
    frame[height // 4 : height // 4 + height // 2, width // 4 : width // 4 + width // 2] = small
    return frame


def _shifted(pixels: Picture, _: np.random.Generator) -> Picture:
    return ndimage.shift(pixels, (0, pixels.shape[1] // 4, 0), order=0)  # black where nothing was


def _covered(pixels: Picture, _: np.random.Generator) -> Picture:
    covered, (height, width) = pixels.copy(), pixels.shape[:2]
    covered[height // 3 : 2 * height // 3, width // 3 : 2 * width // 3] = 0
    return covered


def _blurred(pixels: Picture, _: np.random.Generator) -> Picture:
    sigma = 0.03 * pixels.shape[1]
    return ndimage.gaussian_filter(pixels, (sigma, sigma, 0))


# (title, kind that is to be named first, alteration)
PLANTS: tuple[tuple[str, str, Plant], ...] = (
    ("blur, σ = 3 % of the width", "blur", _blurred),
    ("1/4 and back, bicubic", "resolution", _reduced(Image.Resampling.BICUBIC)),
    ("1/4 and back, bilinear", "resolution", _reduced(Image.Resampling.BILINEAR)),
    ("1/4 and back, nearest", "resolution", _reduced(Image.Resampling.NEAREST)),
    ("noise, σ = 0.08", "noise", lambda pixels, rng: pixels + rng.normal(0, 0.08, pixels.shape)),
    ("brightness × 0.5", "brightness", lambda pixels, _: pixels * 0.5),
    ("brightness × 1.5", "brightness", lambda pixels, _: pixels * 1.5),
    ("contrast × 0.5", "contrast", lambda pixels, _: pixels.mean() + (pixels - pixels.mean()) * 0.5),
    ("grey", "saturation", lambda pixels, _: np.repeat(pixels @ [[0.299], [0.587], [0.114]], 3, 2)),
    ("tint, red × 0.7", "tint", _tinted(0)),
    ("tint, green × 0.7", "tint", _tinted(1)),
    ("tint, blue × 0.7", "tint", _tinted(2)),
    ("JPEG quality 10", "compression", _jpeg),
    ("turned by 90°", "orientation", lambda pixels, _: np.rot90(pixels)),
    ("turned by 180°", "orientation", lambda pixels, _: np.rot90(pixels, 2)),
    ("mirrored", "mirroring", lambda pixels, _: pixels[:, ::-1]),
    ("zoomed 2 ×", "crop", _zoomed),
    ("1/2 in a grey frame", "scale", _framed),
    ("shifted by 1/4", "position", _shifted),
    ("black square of 1/3", "occlusion", _covered),
)


def first_images(dataset: Dataset, classes: int, each: int) -> NDArray[np.uint8]:
    """The first ``each`` images of some classes that have as many, [classes, each, H, W, 3]."""
    large = np.flatnonzero(np.diff(dataset.offsets) >= each)
    chosen = large[np.linspace(0, len(large) - 1, min(classes, len(large))).round().astype(int)]
    size = dataset.image(0).size
    return np.stack(
        [
            [np.asarray(dataset.image(row).resize(size)) for row in spread(dataset, int(label), each)]
            for label in chosen
        ]
    )


def spread(dataset: Dataset, label: int, each: int) -> list[int]:
    """Rows of a class, evenly spread: neighbours are often shots of one scene."""
    rows = np.arange(dataset.offsets[label], dataset.offsets[label + 1])
    return rows[np.linspace(0, len(rows) - 1, each).astype(int)].tolist()


def altered(images: NDArray[np.uint8], plant: Plant, seed: int = 0) -> NDArray[np.uint8]:
    """Images [n, H, W, 3] with an alteration."""
    rng = np.random.default_rng(seed)
    changed = [np.clip(plant(image / 255, rng), 0, 1) * 255 for image in images]
    return np.stack(changed).round().astype(np.uint8)


def plain_dataset(images: NDArray[np.uint8], folder: Path) -> Dataset:
    """Images [classes, each, H, W, 3] as a dataset."""
    classes, each = images.shape[:2]
    path = folder / "plain.npz"
    labels = np.repeat([f"c{label:02d}" for label in range(classes)], each)
    np.savez(path, images=images.reshape(-1, *images.shape[2:]), labels=labels)
    return longshot.open_dataset(path)


def planted_tasks(dataset: Dataset, planted: int, tasks: int) -> longshot.Testbed:
    """Supports from the first ``planted`` images of each class, queries from the others."""
    position = np.concatenate([np.arange(size) for size in np.diff(dataset.offsets)])
    marked = replace(dataset, attributes=pa.table({"planted": pa.array(position < planted)}))
    rule = ShiftedInstances(query_where="not planted", support_where="planted")
    shape = FixedShape(way=5, shot=5, query=8)
    return longshot.sample(marked, tasks=tasks, shape=shape, instances=rule, seed=0, copies="allow")


def first_named(
    dataset: Dataset,
    images: NDArray[np.uint8],
    pixels: Pixels,
    tasks: longshot.Testbed,
    planted: int,
    plant: Plant,
) -> list[str]:
    """The kind that is named first in each task when the first ``planted`` images of each class are altered.

    Only these images are measured again: alterations are learnt on images that are never supports.
    """
    rows = np.flatnonzero(np.concatenate([np.arange(size) < planted for size in np.diff(dataset.offsets)]))
    changed = altered(images.reshape(-1, *images.shape[2:])[rows], plant)
    numbers = pixels.numbers.copy()
    numbers[rows] = measure_images([Image.fromarray(image) for image in changed])
    bound = tasks.bind(dataset.name, dataset.keys, dataset.fingerprint)
    gaps = pixel_gaps(replace(pixels, numbers=numbers), bound, dataset.labels)
    listed = [findings(gaps, task, tasks[task].classes) for task in range(len(tasks))]
    return [causes[0].kind if causes else "nothing" for causes in listed]


def main(
    source: str = "toybox", classes: int | str = CLASSES, each: int | str = EACH, planted: int | str = PLANTED
) -> None:
    each, planted = int(each), int(planted)
    images = first_images(longshot.open_dataset(source), int(classes), each)
    print(f"{source}: {len(images)} classes of {each} images, {TASKS} tasks each, 5-way 5-shot", flush=True)
    with tempfile.TemporaryDirectory() as name:
        dataset = plain_dataset(images, Path(name))
        pixels = measured_pixels(dataset)
        tasks = planted_tasks(dataset, planted, TASKS)
        for title, kind, plant in PLANTS:
            first = Counter(first_named(dataset, images, pixels, tasks, planted, plant))
            firsts = ", ".join(f"{named} {count}" for named, count in first.most_common(3))
            print(f"{title:28s} first in {first[kind]} of {TASKS}  ({firsts})", flush=True)
        with_finding = 0
        for seed in range(RANDOM):
            bed = longshot.sample(dataset, tasks=TASKS, way=5, shot=5, query=10, seed=seed, copies="allow")
            with_finding += sum(bool(task.findings) for task in longshot.explain(bed).tasks)
        print(f"random tasks with any finding: {with_finding} of {RANDOM * TASKS}", flush=True)
        speed(dataset)


def speed(dataset: Dataset) -> None:
    """Processor time of 200 tasks explained, and of all their suspected causes taken away."""
    bed = longshot.sample(
        dataset, tasks=200, way=5, shot=5, query=10, judge=BACKBONE, instances="difficult", copies="allow"
    )
    longshot.explain(bed, backbone=BACKBONE)  # measures and features are in the cache from here on
    for intervene in (False, True):
        start = time.process_time()
        explanation = longshot.explain(bed, backbone=BACKBONE, intervene=intervene)
        seconds = time.process_time() - start
        kinds = f", {len(explanation.interventions)} causes" if explanation.interventions else ""
        print(f"200 difficult tasks, intervene={intervene}{kinds}: {seconds:.1f} s of processor time")
        for account in explanation.accounts:
            print(account.sentence)


if __name__ == "__main__":
    main(*sys.argv[1:])
