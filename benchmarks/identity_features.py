"""What it costs that features vouch for the bytes of their images.

Wanted: opening guarded features of 1,000,000 × 512 that nothing happened to in under 0.3 s, and digests of the images
in at most 3 % of the time that embedding them through a network takes. `pixels`, which has no network, is printed
beside it: there the digests are a larger share. Embedding is measured in processor seconds, in turns, the best of them:
other work on the machine changes the clock, not the ratio.

    python -m benchmarks identity_features     needs the extra efficientnet and 50 MB of disk
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

import longshot
from longshot.data.identity import forget
from longshot.models import Features, content_of
from longshot.models.features import BLOCK
from longshot.models.features.array_files import checksum

ROWS, DIM, CLASSES = 1_000_000, 512, 1_000
OPEN_LIMIT, DIGEST_LIMIT = 0.3, 0.03
IMAGES, SIDE = 400, 256
BACKBONES = {"efficientnet-lite0(size=128)": 2, "pixels": 5}  # turns of each


def million(folder: Path) -> Path:
    """Features of zeros, whose file takes no room on the disk, as the cache keeps them."""
    path = folder / "million.npy"
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(ROWS, DIM))
    array.flush()
    features = Features(
        array=array,
        keys=pa.array([f"class{row // (ROWS // CLASSES):04d}/image{row:07d}.jpg" for row in range(ROWS)]),
        class_ids=tuple(f"class{number:04d}" for number in range(CLASSES)),
        offsets=np.arange(CLASSES + 1, dtype=np.int64) * (ROWS // CLASSES),
        dataset="million",
        fingerprint="f" * 64,
        backbone="made",
        weights_hash="w",
        preprocessing="none",
        hash="h" * 64,
        identity="content",
        content="c" * 64,
        digests=np.arange(ROWS, dtype=np.uint64),
    )
    blocks = -(-ROWS // BLOCK)
    sums = [checksum(np.zeros((BLOCK, DIM), np.float16))] * (ROWS // BLOCK)
    if len(sums) < blocks:
        sums.append(checksum(np.zeros((ROWS % BLOCK, DIM), np.float16)))
    features.write_sidecar(path, sums=sums, keys_apart=True)
    time.sleep(0.1)  # what changed a moment ago is not remembered
    return path


def photos(folder: Path) -> Path:
    """Noisy photos of about 30 kB in class folders."""
    rng = np.random.default_rng(0)
    low = rng.integers(0, 255, (IMAGES, SIDE // 8, SIDE // 8, 3), np.uint8)
    for number, small in enumerate(low):
        path = folder / f"class{number % 4}" / f"{number:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(small).resize((SIDE, SIDE)).save(path, quality=95)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    return folder


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["LONGSHOT_CACHE"] = f"{scratch}/cache"
        path = million(Path(scratch))
        seconds = []
        for _ in range(4):
            started = time.perf_counter()
            Features.load(path, check=False)
            seconds.append(time.perf_counter() - started)
        print(
            f"open 1,000,000 × 512: first {seconds[0]:.2f} s (every block is read), then {min(seconds[1:]):.3f} s"
        )
        dataset = longshot.open_dataset(photos(Path(scratch) / "photos"))
        shares = {backbone: _share(dataset, backbone, turns) for backbone, turns in BACKBONES.items()}
        assert min(seconds[1:]) < OPEN_LIMIT, f"opening took {min(seconds[1:]):.2f} s"
        share = shares["efficientnet-lite0(size=128)"]
        assert share < DIGEST_LIMIT, f"digests took {share:.1%} of embedding"


def _share(dataset: longshot.Dataset, backbone: str, turns: int) -> float:
    """Processor time of the digests over that of embedding."""
    longshot.embed(dataset, backbone, workers=0)  # loads what is loaded once
    digesting, embedding = [], []
    for _ in range(turns):
        forget(dataset.source)
        digesting.append(_spent(lambda: content_of(dataset)))
        embedding.append(_spent(lambda: longshot.embed(dataset, backbone, workers=0, refresh=True)))
    share = min(digesting) / min(embedding)
    print(
        f"embed {IMAGES} photos through {backbone}: digests {min(digesting):.3f} s, without them "
        f"{min(embedding):.2f} s, ratio {1 + share:.3f}"
    )
    return share


def _spent(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
