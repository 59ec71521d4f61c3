"""Embedding photos: the whole command against a plain PyTorch loop, the network alone against the version before.

1,500 JPEGs of 500 × 333 with EfficientNet-Lite0 at 128 pixels, with an empty cache (the network is converted, too), in
processor seconds of whole processes; then README's four commands against one script that embeds in a plain loop and
feeds easyfsl's ProtoNet; then networks alone, blocks of 16 images on one thread.

    python -m benchmarks embedding            needs the extras efficientnet, hf, openvino, and easyfsl (see _easyfsl.py)
    python -m benchmarks.embedding network    only EfficientNet-Lite0, ViT-S/16 and ResNet-50 alone
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._photos import LITE, plain_loop, write_photos
from benchmarks.before import Program, Unavailable, run_command, run_python, source_before
from benchmarks.engines import compute, flops
from benchmarks.goals import tell
from benchmarks.rounds import Ratio, in_turns, peak_gflops, ratio

PHOTOS = 1500
TASKS, WAY, SHOT, QUERY = 600, 5, 5, 10
NETWORK_ROUNDS = 5
BLOCK = 16  # images of a round


def main(only: str = "", rounds: int = 3) -> None:
    with tempfile.TemporaryDirectory(prefix="longshot-embedding-") as name:
        folder = Path(name)
        networks(write_photos(folder / "few", 16))
        if only != "network":
            commands(folder, write_photos(folder / "photos", PHOTOS), rounds)


def quick() -> None:
    main(rounds=1)


def commands(folder: Path, photos: Path, rounds: int) -> None:
    """The whole command, and README's four, against scripts without Longshot."""
    spent: list[dict[str, float]] = []
    for _ in range(rounds):
        script = run_python(["-m", "benchmarks.embedding", "script", str(photos)])
        loop, last = (float(word) for word in str(script.answer).split()[-2:])
        shutil.rmtree(folder / "cache", ignore_errors=True)
        shutil.rmtree(folder / "run", ignore_errors=True)
        words = {
            "embed": ["embed", str(photos), "--backbone", LITE],
            "sample": [
                *("sample", str(photos), "--tasks", str(TASKS), "--way", str(WAY), "--shot", str(SHOT)),
                *("--query", str(QUERY), "-o", str(folder / "easy.parquet")),
            ],
            "evaluate": [
                *("evaluate", str(folder / "easy.parquet"), "--backbone", LITE),
                *("--method", "protonet", "-o", str(folder / "run")),
            ],
            "report": ["report", str(folder / "run"), "-o", str(folder / "report.html")],
        }
        cache = str(folder / "cache")
        taken = {verb: run_command(command, LONGSHOT_CACHE=cache).cpu for verb, command in words.items()}
        again = run_command([*words["embed"], "--refresh"], LONGSHOT_CACHE=cache).cpu
        spent.append({**taken, "again": again, "loop": loop, "script": last})
        print(
            "seconds of the processor:",
            {key: round(value, 1) for key, value in spent[-1].items()},
            flush=True,
        )
    parts = partial(_parts, photos, spent[-1])
    tell("embed-command", _against(spent, "loop", "embed"), bound=parts)
    print(f"the same with the network converted before: {_against(spent, 'loop', 'again')}")
    four = [sum(row[verb] for verb in ("embed", "sample", "evaluate", "report")) for row in spent]
    tell("four-commands", ratio([row["script"] for row in spent], four), bound=parts)


def _against(spent: list[dict[str, float]], other: str, own: str) -> Ratio:
    return ratio([row[other] for row in spent], [row[own] for row in spent])


def _parts(photos: Path, spent: dict[str, float]) -> str:
    """Where the time of the command goes."""
    from longshot.base import parse_preprocessing
    from longshot.data.stores import decode

    files = sorted(photos.glob("*/*.jpg"))[:60]
    transform = parse_preprocessing("decode|resize(146,bicubic)|central_crop(128)")
    data = [file.read_bytes() for file in files]
    began = time.process_time()
    images = [decode(content, "photo") for content in data]
    decoded = time.process_time()
    for image in images:
        transform.pixels(image)
    resized = time.process_time()
    reading, moving = (1000 * (b - a) / len(files) for a, b in ((began, decoded), (decoded, resized)))
    start = min(run_python(["-c", "import longshot.models.features.extract"]).cpu for _ in range(3))
    least = 1000 * flops(LITE) / 1e9 / peak_gflops()
    return (
        f"of {1000 * spent['embed'] / PHOTOS:.1f} ms per image Pillow takes {reading:.1f} to decode and {moving:.1f} "
        f"to resize, which the loop pays too; the network's operations take {least:.1f} at the machine's peak of "
        f"{peak_gflops():.0f} GFLOP/s; importing takes {start:.1f} s, {1000 * start / PHOTOS:.1f} ms per image; "
        f"sample, evaluate and report {spent['sample'] + spent['evaluate'] + spent['report']:.1f} s"
    )


def script(photos: Path) -> None:
    """The peer: features by a plain loop, tasks by NumPy, easyfsl's ProtoNet; prints when each was done."""
    from benchmarks import _easyfsl

    torch.set_num_threads(1)
    features, classes = plain_loop(photos)
    loop = time.process_time()
    methods = _easyfsl.load()
    if methods is None:
        raise Unavailable("The peer needs easyfsl: pip install --no-deps easyfsl==1.5.0.")
    generator, names = np.random.default_rng(0), sorted(set(classes))
    rows = {name: np.flatnonzero(np.array(classes) == name) for name in names}
    labels = torch.arange(WAY).repeat_interleave(SHOT)
    answers = torch.arange(WAY).repeat_interleave(QUERY)
    vectors, right = torch.from_numpy(features), []
    for _ in range(TASKS):
        drawn_rows = [
            generator.choice(rows[name], SHOT + QUERY, replace=False)
            for name in generator.choice(names, WAY, replace=False)
        ]
        model = methods.PrototypicalNetworks(torch.nn.Identity())
        model.process_support_set(vectors[np.concatenate([part[:SHOT] for part in drawn_rows])], labels)
        scores = model(vectors[np.concatenate([part[SHOT:] for part in drawn_rows])])
        right.append((scores.argmax(1) == answers).float().mean().item())
    print(f"accuracy {np.mean(right):.3f}, seconds:", loop, time.process_time())


def block_of(name: str, engine: str | None, folder: str) -> Callable[[], None]:
    """A block of 16 photos through a network, as `embed` of either version does it."""
    torch.set_num_threads(1)
    running: Any
    if engine is not None:
        running, pixels, _ = compute(name, engine, Path(folder))
    else:
        import longshot
        from longshot.models import load_backbone
        from longshot.models.features.engine import Engine

        backbone: Any = load_backbone(name, "cpu")
        dataset = longshot.open_dataset(folder)
        if hasattr(backbone, "settle"):
            backbone.settle(dataset, range(len(dataset)), keep=False)
        running = Engine(backbone, dataset, 0)
        pixels = running.decoder(range(running.block)).pixels

    def work() -> None:
        with torch.inference_mode():
            running.forward(pixels)

    return work


def networks(photos: Path) -> None:
    """Networks alone: EfficientNet-Lite0 against the version before, ViT-S/16 and ResNet-50 against eager PyTorch."""
    target = "benchmarks.embedding:block_of"
    cache = {"LONGSHOT_CACHE": str(photos.parent / "cache-networks")}
    try:
        before = source_before()
    except Unavailable as error:
        print(f"not measured: {error}")
    else:
        # 128 pixels were its default, and no part of its name
        old = Program(target, ["efficientnet-lite0", None, str(photos)], before, cache)
        with Program(target, [LITE, None, str(photos)], None, cache) as now, old:
            seconds = in_turns({"before": old.cpu, "now": now.cpu}, 2 * NETWORK_ROUNDS)
        tell(
            "embed-network", ratio(seconds["before"], seconds["now"]), partial(_share, LITE, seconds, "auto")
        )
    for key, name, engine in (
        ("resnet-network", "resnet50", "onnxruntime"),
        ("vit-network", "vit-s/16", "onnxruntime"),
        ("vit-network-openvino", "vit-s/16", "openvino"),
    ):
        eager = Program(target, [name, "torch", str(photos)], None, cache)
        with Program(target, [name, engine, str(photos)], None, cache) as now, eager:
            seconds = in_turns({"before": eager.cpu, "now": now.cpu}, NETWORK_ROUNDS)
        tell(key, ratio(seconds["before"], seconds["now"]), partial(_share, name, seconds, engine))


def _share(name: str, seconds: dict[str, list[float]], engine: str) -> str:
    """How near a network is to the machine's peak."""
    done = BLOCK * flops(name) / 1e9
    now, other = (done / min(seconds[side]) / peak_gflops() for side in ("now", "before"))
    return (
        f"operations: engine {engine} reaches {now:.0%} of the {peak_gflops():.0f} GFLOP/s of a matrix product on one "
        f"thread, the other side {other:.0%}, so {1 / other:.2f} × would be the peak itself"
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if sys.argv[1:2] == ["script"]:
        script(Path(sys.argv[2]))
    else:
        main(*sys.argv[1:2])
