"""Drawing classes of toybox into a folder, a file each, by several processes where there are many."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from longshot.base import Progress, atomic, explain_disk_errors, progress
from longshot.data.toybox.attributes import IMAGES, plan
from longshot.data.toybox.families import class_ids
from longshot.data.toybox.opening import SEED, array_digests, class_file, write_record
from longshot.data.toybox.scene import photograph

_FEW = 3  # classes that this process draws itself: they take less time than starting others


def draw_class(class_index: int, class_id: str) -> NDArray[np.uint8]:
    """All photographs of one class, uint8 [50, 84, 84, 3]: a function of the class alone."""
    shots = plan(class_index, SEED)
    return np.stack([photograph(class_id, shot, (SEED, class_index, 1, n)) for n, shot in enumerate(shots)])


def save_class(folder: Path, class_index: int) -> None:
    """Draw one class into its file in ``folder``, which appears whole, and put its digest on record beside it."""
    images = draw_class(class_index, class_ids()[class_index])
    file = class_file(folder, class_index)
    with atomic(file) as temporary, temporary.open("wb") as opened:
        np.save(opened, images)
    write_record(file, array_digests(images))


def draw_classes(folder: Path, indices: Sequence[int], workers: int | None = None) -> None:
    """Draw classes into ``folder``; their bytes do not depend on ``workers`` (default: the usable cores)."""
    workers = min(workers or usable_cores(), len(indices))
    with (
        explain_disk_errors(folder),
        progress("drawing toybox", total=len(indices) * IMAGES, unit="images") as bar,
    ):
        if workers > 1 and len(indices) > _FEW:
            _share_out(folder, [list(indices[share::workers]) for share in range(workers)], bar)
            return
        for index in indices:
            save_class(folder, index)
            bar.advance(IMAGES)


def _share_out(folder: Path, shares: Sequence[Sequence[int]], bar: Progress) -> None:
    """Let a process draw each share.

    Interpreters of their own rather than multiprocessing: a user's script need not guard its main module.
    """
    finished: SimpleQueue[int] = SimpleQueue()  # images drawn; 0 when a process has ended
    command = [sys.executable, "-m", "longshot.data.toybox.generate", str(folder)]
    # One thread each: the arrays are small, and the processes fill the cores.
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }

    def listen(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for _ in process.stdout:
            finished.put(IMAGES)
        finished.put(0)

    with ExitStack() as stack:
        processes = []
        for share in shares:
            process = subprocess.Popen(
                [*command, *map(str, share)], stdout=subprocess.PIPE, text=True, env=environment
            )
            stack.enter_context(process)
            stack.callback(process.kill)  # on Ctrl-C or an error; nothing to do after a normal end
            processes.append(process)
            threading.Thread(target=listen, args=(process,), daemon=True).start()
        running = len(shares)
        while running:
            count = finished.get()
            bar.advance(count)
            running -= count == 0
        codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError(f"drawing toybox failed: its processes ended with codes {codes}")


def usable_cores() -> int:
    """The cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    for number in sys.argv[2:]:
        save_class(Path(sys.argv[1]), int(number))
        print(number, flush=True)
