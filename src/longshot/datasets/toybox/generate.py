"""Drawing all of toybox, by several processes, into a folder."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from longshot.core.files import atomic, explain_disk_errors, write_json
from longshot.core.progress import Progress, progress
from longshot.datasets.toybox.attributes import IMAGES, columns, plan
from longshot.datasets.toybox.families import class_ids, splits
from longshot.datasets.toybox.scene import SIDE, photograph

VERSION = 2  # raise it whenever a pixel or an attribute changes: it names the folder in the cache
SEED = 20240
IMAGES_FILE, ATTRIBUTES_FILE, CLASSES_FILE = "images.npy", "attributes.parquet", "classes.json"


def draw_class(class_index: int, class_id: str) -> NDArray[np.uint8]:
    """All photographs of one class, uint8 [50, 84, 84, 3]: a function of the class alone."""
    shots = plan(class_index, SEED)
    return np.stack([photograph(class_id, shot, (SEED, class_index, 1, n)) for n, shot in enumerate(shots)])


def generate(folder: Path, workers: int | None = None) -> None:
    """Draw the whole dataset into ``folder``; its bytes do not depend on ``workers`` (default: the usable cores).

    Classes that an interrupted run left in ``folder`` are not drawn again.
    """
    ids = class_ids()
    with explain_disk_errors(folder / IMAGES_FILE):
        with progress("drawing toybox", total=len(ids) * IMAGES, unit="images") as bar:
            bar.skip(IMAGES * sum(_part(folder, index).exists() for index in range(len(ids))))
            _share_out(folder, workers or usable_cores(), bar)
        _assemble(folder, len(ids))
        table = pa.concat_tables([pa.table(columns(plan(index, SEED))) for index in range(len(ids))])
        pq.write_table(table.combine_chunks(), folder / ATTRIBUTES_FILE)
        write_json(folder / CLASSES_FILE, {"version": VERSION, "class_ids": ids, "splits": splits()})


def draw_share(folder: Path, share: int, shares: int) -> None:
    """Draw every ``shares``-th class that is still missing, one file each, and say so on stdout after each."""
    for index, class_id in list(enumerate(class_ids()))[share::shares]:
        if _part(folder, index).exists():
            continue
        with atomic(_part(folder, index)) as temporary, temporary.open("wb") as file:
            np.save(file, draw_class(index, class_id))
        print(class_id, flush=True)


def _part(folder: Path, index: int) -> Path:
    """The file of one class until all are drawn."""
    return folder / f"class-{index:03d}.npy"


def _assemble(folder: Path, classes: int) -> None:
    """Put the classes' files behind one another into the images file, then drop them."""
    shape = (classes * IMAGES, SIDE, SIDE, 3)
    with (folder / IMAGES_FILE).open(
        "wb"
    ) as file:  # written, not mapped: a full disk is an error and no crash
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for index in range(classes):
            file.write(np.load(_part(folder, index)).tobytes())
    for index in range(classes):
        _part(folder, index).unlink()


def _share_out(folder: Path, shares: int, bar: Progress) -> None:
    """Run ``draw_share`` in ``shares`` processes.

    Interpreters of their own rather than multiprocessing: a user's script need not guard its main module.
    """
    finished: SimpleQueue[int] = SimpleQueue()  # images drawn; 0 when a process has ended
    command = [sys.executable, "-m", "longshot.datasets.toybox.generate", str(folder)]
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
        for share in range(shares):
            process = subprocess.Popen(
                [*command, str(share), str(shares)], stdout=subprocess.PIPE, text=True, env=environment
            )
            stack.enter_context(process)
            stack.callback(process.kill)  # on Ctrl-C or an error; nothing to do after a normal end
            processes.append(process)
            threading.Thread(target=listen, args=(process,), daemon=True).start()
        running = shares
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
    draw_share(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
