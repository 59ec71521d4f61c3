"""How the time of embed, sample, select and evaluate grows with tasks, images, classes, ways and width.

One factor is doubled again and again while the others stay. Processor time on one thread, the best of three runs:
other work on the machine only ever adds time. The exponent is the slope of log time against log size over the last
three sizes, where fixed costs show least: 1 is proportional, 0 does not matter. Features and pictures are
made up. The picture goes to `docs/benchmarks-growth.png`.

    python -m benchmarks growth            about two minutes
    python -m benchmarks.growth sample     one of the verbs
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

import longshot
from benchmarks.fastdiffsel import make_tasks
from benchmarks.methods import draw, ours
from benchmarks.rounds import timed
from longshot.base import atomic
from longshot.data import Dataset
from longshot.models import feature_method, get_network
from longshot.tasks import FeatureTable, make_objective, select

PICTURE = Path(__file__).parents[1] / "docs" / "benchmarks-growth.png"
Work = Callable[[], object]
# verb → what stays where it is not the factor; factor → sizes
FIXED = {
    "embed": {"images": 320, "classes": 8, "width": 32},
    "sample": {"tasks": 2000, "images": 200, "classes": 100, "ways": 5},
    "select": {"tasks": 100, "images": 400, "classes": 40, "ways": 5, "width": 128},
    "evaluate": {"tasks": 200, "images": 200, "classes": 100, "ways": 5, "width": 256},
}
SIZES = {
    "embed": {"images": (160, 320, 640, 1280), "classes": (4, 8, 16, 32), "width": (16, 32, 64, 128)},
    "sample": {
        "tasks": (2000, 4000, 8000, 16000),
        "images": (100, 400, 1600, 6400),
        "classes": (50, 200, 800, 3200),
        "ways": (5, 10, 20, 40),
    },
    "select": {
        "tasks": (100, 200, 400, 800),
        "images": (400, 800, 1600, 3200),
        "classes": (20, 40, 80, 160),
        "ways": (5, 10, 20, 40),
        "width": (128, 256, 512, 1024),
    },
    "evaluate": {
        "tasks": (200, 400, 800, 1600),
        "images": (100, 200, 400, 800),
        "classes": (50, 100, 200, 400),
        "ways": (5, 10, 20, 40),
        "width": (128, 256, 512, 1024),
    },
}


def embed(folder: Path, images: int, classes: int, width: int) -> Work:
    """CNN4 of some width over pictures of 32 × 32 pixels; ``images`` in all."""
    generator = np.random.default_rng(0)
    file = folder / f"{images}-{classes}.npz"
    pictures = generator.integers(0, 256, (images, 32, 32, 3), dtype=np.uint8)
    np.savez(file, images=pictures, labels=np.arange(images) * classes // images)
    dataset = longshot.open_dataset(file)
    network = get_network(f"cnn4(width={width})", size=(32, 32), seed=0)
    steps = "decode|resize(32,32)|normalize(0.5,0.5)"
    options = {"preprocessing": steps, "engine": "torch", "workers": 0, "device": "cpu", "refresh": True}
    return lambda: longshot.embed(dataset, network, **options)


def sample(_: Path, tasks: int, images: int, classes: int, ways: int) -> Work:
    """Uniform tasks, 5-shot with 10 queries, of classes that have ``images`` each; no picture is read."""
    ids = tuple(f"class{number:04d}" for number in range(classes))
    keys = pa.array([f"{class_id}/{number:05d}" for class_id in ids for number in range(images)])
    dataset = Dataset("made", ids, np.arange(classes + 1) * images, keys, None, "made up")
    dataset.fingerprint  # noqa: B018  computed once, before the clock runs
    return lambda: longshot.sample(
        dataset, tasks=tasks, way=ways, shot=5, query=10, identity="names", copies="allow"
    )


def _features(classes: int, images: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((classes * images, width), dtype=np.float32)
    return rows + np.repeat(np.arange(classes, dtype=np.float32), images)[:, None] / 50, np.arange(
        classes + 1
    ) * images


def select_supports(_: Path, tasks: int, images: int, classes: int, ways: int, width: int) -> Work:
    """FastDiffSel with the bounded error; ``images`` in each class."""
    rows, offsets = _features(classes, images, width)
    chosen, _uniform = make_tasks(offsets, tasks, way=ways)
    objective = make_objective("error")
    return lambda: select(FeatureTable(rows, offsets), chosen, objective)


def evaluate(_: Path, tasks: int, images: int, classes: int, ways: int, width: int) -> Work:
    """ProtoNet, 5-shot with 10 queries, gathering included."""
    rows, offsets = _features(classes, images, width)
    bound = draw(offsets, tasks, ways, 5)
    return partial(ours, rows, bound, feature_method("protonet"), tasks)


VERBS: dict[str, Callable[..., Work]] = {
    "embed": embed,
    "sample": sample,
    "select": select_supports,
    "evaluate": evaluate,
}


def exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """The slope of log time against log size over the last three sizes."""
    return float(np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)[0])


def measure(*chosen: str) -> dict[str, dict[str, list[float]]]:
    """Print and return the seconds: verb → factor → one for each size."""
    torch.set_num_threads(1)
    measured: dict[str, dict[str, list[float]]] = {}
    print(f"{'':10}{'factor':<9}{'sizes':<28}{'milliseconds':<40}{'exponent':>8}")
    with tempfile.TemporaryDirectory(prefix="longshot-growth-") as name:
        os.environ["LONGSHOT_CACHE"] = name
        for verb in chosen or VERBS:
            for factor, sizes in SIZES[verb].items():
                seconds = []
                for size in sizes:
                    side = timed(VERBS[verb](Path(name), **{**FIXED[verb], factor: size}))
                    seconds.append(min(side() for _ in range(3)))
                measured.setdefault(verb, {})[factor] = seconds
                spent = " ".join(f"{1000 * value:8.1f}" for value in seconds)
                numbers = " ".join(map(str, sizes))
                print(
                    f"{verb:10}{factor:<9}{numbers:<28}{spent:<40}{exponent(sizes, seconds):8.2f}", flush=True
                )
    return measured


def quick() -> None:
    """All numbers; the picture stays."""
    measure()


def main(*chosen: str) -> None:
    measured = measure(*chosen)
    if len(measured) == len(VERBS):
        plot(measured)
        print(f"wrote {PICTURE.relative_to(PICTURE.parents[1])}")


def plot(measured: dict[str, dict[str, list[float]]]) -> None:
    """A panel per verb: time against size, both relative to the smallest, log–log."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.2), layout="constrained")
    for axes, (verb, series) in zip(
        figure.subplots(1, len(measured), sharey=True), measured.items(), strict=True
    ):
        for factor, seconds in series.items():
            sizes = SIZES[verb][factor]
            label = f"{factor}, {exponent(sizes, seconds):.2f}"
            axes.loglog(
                np.divide(sizes, sizes[0]), np.divide(seconds, seconds[0]), "o-", markersize=3, label=label
            )
        axes.set(title=verb, xlabel="size, of the smallest")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.legend(frameon=False, fontsize=8, title="factor, exponent", title_fontsize=8)
        axes.grid(True, which="major", color="#dddddd")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("time, of the smallest")
    with atomic(PICTURE) as temporary:
        figure.savefig(temporary, format="png", dpi=130)


if __name__ == "__main__":
    main(*sys.argv[1:])
