"""How FastDiffSel's time per task grows: linear in the pool, flat in the number of tasks; plotted in docs.

Processor time on one thread, the best of three runs: other work on the machine only ever adds time.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.fastdiffsel import make_features, make_tasks
from longshot.base import atomic
from longshot.tasks import FeatureTable, make_objective, select

POOLS = (500, 1300, 5000, 15000, 50000)
TASKS = (100, 300, 1000, 3000, 10000)
PICTURE = Path(__file__).parents[1] / "docs" / "difficult-scaling.png"


def seconds_per_task(
    array: NDArray[np.float16], classes: int, images: int, count: int, repeats: int = 3
) -> float:
    """Best of the repeats, class sums and scales computed anew each time."""
    offsets = np.arange(0, classes * images + 1, images, dtype=np.int64)
    tasks, _ = make_tasks(offsets, count)
    best = np.inf
    for _ in range(repeats):
        began = time.process_time()
        select(FeatureTable(array, offsets), tasks, make_objective("error"))
        best = min(best, time.process_time() - began)
    return float(best) / count


def main() -> None:
    """Print both series, their slopes, and write the picture."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        make_features(path, classes=6, images=max(POOLS), dim=128)
        array = np.load(path, mmap_mode="r")
        by_pool = [seconds_per_task(array, 6, images, 200) for images in POOLS]
        by_count = [seconds_per_task(array, 200, 500, count) for count in TASKS]
    per_image, fixed = np.polyfit(POOLS, by_pool, 1)
    fit = float(np.corrcoef(POOLS, by_pool)[0, 1] ** 2)
    print(f"{'images per class':>20}{'ms/task':>10}   (200 tasks, 6 classes, 128-d)")
    for images, seconds in zip(POOLS, by_pool, strict=True):
        print(f"{images:>20,}{1000 * seconds:>10.3f}")
    print(
        f"a straight line, {1000 * fixed:.2f} ms + {1e6 * per_image:.3f} µs per image, explains {100 * fit:.1f} %"
    )
    print(f"{'tasks':>20}{'ms/task':>10}   (200 classes of 500 images, 128-d)")
    for count, seconds in zip(TASKS, by_count, strict=True):
        print(f"{count:>20,}{1000 * seconds:>10.3f}")
    print(f"{TASKS[-1]:,} tasks cost {by_count[-1] / by_count[-3]:.2f} × as much per task as {TASKS[-3]:,}")
    draw(by_pool, by_count)
    print(f"wrote {PICTURE.relative_to(Path(__file__).parents[1])}")


def draw(by_pool: list[float], by_count: list[float]) -> None:
    """Both series side by side, log–log, with the straight line that fits the first."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (by_images, by_tasks) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    by_images.loglog(POOLS, [1000 * s for s in by_pool], "o-", color="#1f5fa8", label="measured")
    per_image, fixed = np.polyfit(POOLS, by_pool, 1)
    line = [1000 * (fixed + per_image * n) for n in POOLS]
    by_images.loglog(POOLS, line, ":", color="#777777", label="straight line through them")
    by_images.set(xlabel="images per class", ylabel="ms per task", title="linear in the pool")
    by_images.legend(frameon=False)
    by_tasks.loglog(TASKS, [1000 * s for s in by_count], "o-", color="#1f5fa8")
    by_tasks.set(xlabel="number of tasks", title="flat in the number of tasks", ylim=(0.01, 100))
    for axis in (by_images, by_tasks):
        axis.grid(True, which="major", color="#dddddd")
        axis.spines[["top", "right"]].set_visible(False)
    with atomic(PICTURE) as temporary:
        figure.savefig(temporary, format="png", dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main()
