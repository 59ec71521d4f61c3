"""What computes networks fastest on a CPU: PyTorch, ONNX Runtime, OpenVINO; `auto` was chosen by this table.

Each network at its size in blocks of 16 images, as `embed` runs it: bytes in, vectors out. One thread in milliseconds
of the processor per image; two threads, each with blocks of its own (PyTorch's transformers share every block), in
milliseconds of the clock. Sides take turns; the best of the rounds counts. Weights are random but for
EfficientNet-Lite's, which changes no speed. The last columns are the share of the machine's peak that the fastest one
reaches, what conversions take once in processor time, and how far vectors are from PyTorch's.

    python -m benchmarks engines                     needs the extras efficientnet, hf and openvino
    python -m benchmarks.engines resnet50 vit-s/16   some of the networks
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks._photos import write_photos
from benchmarks.before import Unavailable
from benchmarks.rounds import in_turns, peak_gflops, timed

ROUNDS, PAIRS = 4, 2  # with one thread, with two
ENGINES = ("torch", "onnxruntime", "openvino")


class Vectors(nn.Module):
    """A vision tower of transformers: images → its pooled output."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        pooled: Tensor = self.model(pixel_values=images).pooler_output
        return pooled


def tower(kind: str) -> nn.Module:
    """ViT-S/16, CLIP's ViT-B/32 or DINOv2's ViT-S/14, weights drawn from seed 0."""
    try:
        import transformers
    except ImportError as error:
        raise Unavailable('Towers need transformers: pip install "longshot[hf]".') from error
    torch.manual_seed(0)
    small: dict[str, Any] = {"hidden_size": 384, "num_attention_heads": 6}
    if kind == "vit":
        model = transformers.ViTModel(transformers.ViTConfig(**small, intermediate_size=1536))
    elif kind == "clip":
        model = transformers.CLIPVisionModel(transformers.CLIPVisionConfig())
    else:
        model = transformers.Dinov2Model(transformers.Dinov2Config(**small, image_size=518))
    return Vectors(model)


def own(call: str, side: int) -> nn.Module:
    """One of Longshot's own networks."""
    from longshot.models import get_network

    return get_network(call, size=(side, side))


LITES = tuple(f"efficientnet-lite{number}(size=128)" for number in range(3))
# name → (what opens it, side of its images)
NETWORKS: dict[str, tuple[Callable[[], Any], int]] = {
    **{name: (partial(str, name), 128) for name in LITES},
    "cnn4": (partial(own, "cnn4", 84), 84),
    "resnet18": (partial(own, "resnet18", 224), 224),
    "resnet50": (partial(own, "resnet50", 224), 224),
    "vit-s/16": (partial(tower, "vit"), 224),
    "clip-vit-b/32": (partial(tower, "clip"), 224),
    "dinov2-s/14": (partial(tower, "dino"), 224),
}


def compute(name: str, engine: str, folder: Path) -> tuple[Any, Any, float]:
    """An ``Engine`` of `embed` with the network by one engine, a block of bytes, and the seconds of its conversion."""
    import longshot
    from longshot.models import open_backbone
    from longshot.models.features.engine import Engine

    opener, side = NETWORKS[name]
    network = opener()
    convolutional = not isinstance(network, Vectors)
    written = "torch(channels_last=True)" if engine == "torch" and convolutional else engine
    geometry = None if isinstance(network, str) else f"decode|resize({side},{side})|normalize(imagenet)"
    backbone: Any = open_backbone(network, "cpu", preprocessing=geometry, engine=written)
    backbone.own_code = False  # transformers look at shapes
    dataset = longshot.open_dataset(folder)
    began = time.process_time()
    backbone.settle(dataset, range(len(dataset)), keep=False)
    seconds = time.process_time() - began
    if engine not in backbone.engine:
        raise RuntimeError(f"{name} is not computed by {engine}: {backbone.conversion.refusal()}")
    running = Engine(backbone, dataset, 0)
    pixels = running.decoder(range(running.block)).pixels
    return running, pixels, seconds


def flops(name: str) -> float:
    """Floating-point operations of one image."""
    from torch.utils.flop_counter import FlopCounterMode

    from longshot.models import load_backbone

    opener, side = NETWORKS[name]
    network = opener()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        if isinstance(network, str):
            backbone: Any = load_backbone(network, "cpu")
            backbone(torch.zeros(1, 3, side, side))
        else:
            network.eval()(torch.zeros(1, 3, side, side))
    return float(counter.get_total_flops())


def two_threads(running: Any, pixels: Any, shared: bool) -> Callable[[], None]:
    """Two blocks on two threads; with ``shared`` both threads on one block after the other."""
    pool = ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,))

    def work() -> None:
        with torch.inference_mode():
            if shared:
                torch.set_num_threads(2)
                running.forward(pixels), running.forward(pixels)
                torch.set_num_threads(1)
                return
        list(pool.map(_inferred(running), (pixels, pixels)))

    return work


def _inferred(running: Any) -> Callable[[Any], Any]:
    def forward(pixels: Any) -> Any:
        with torch.inference_mode():
            return running.forward(pixels)

    return forward


def main(*chosen: str) -> None:
    from longshot.base import engine_names

    torch.set_num_threads(1)
    here = [name for name in ENGINES if engine_names()[name]]
    peak = peak_gflops()
    print(f"a matrix product reaches {peak:.0f} GFLOP/s on one thread")
    columns = [f"{name}{threads}" for threads in ("", " ×2") for name in here]
    print(f"{'network':28} {'size':>4} " + " ".join(f"{column:>14}" for column in columns), end="")
    print("   of the peak   convert      apart")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["LONGSHOT_CACHE"] = f"{scratch}/cache"
        folder = write_photos(Path(scratch, "photos"), 16)
        for name in chosen or NETWORKS:
            _row(name, here, folder, peak)


def _row(name: str, here: list[str], folder: Path, peak: float) -> None:
    made = {engine: compute(name, engine, folder) for engine in here}
    pixels = made[here[0]][1]
    images = len(pixels)
    forwards = {engine: partial(_inferred(running), pixels) for engine, (running, _, _) in made.items()}
    reference = forwards["torch"]()
    apart = max(
        float(
            np.max(np.linalg.norm(forwards[engine]() - reference, axis=1) / np.linalg.norm(reference, axis=1))
        )
        for engine in here
    )
    seconds = in_turns({engine: timed(forwards[engine]) for engine in here}, ROUNDS)
    shared = name not in ("cnn4",) and not name.startswith(("efficientnet", "resnet"))
    pairs = {
        engine: timed(two_threads(running, pixels, shared and engine == "torch"), time.perf_counter)
        for engine, (running, _, _) in made.items()
    }
    clock = in_turns(pairs, PAIRS)
    cells = [1000 * min(seconds[engine]) / images for engine in here]
    cells += [1000 * min(clock[engine]) / (2 * images) for engine in here]
    reached = flops(name) * images / min(min(spent) for spent in seconds.values()) / 1e9 / peak
    convert = ", ".join(f"{made[engine][2]:.1f} s" for engine in here[1:])
    print(f"{name:28} {NETWORKS[name][1]:4} " + " ".join(f"{cell:14.2f}" for cell in cells), end="")
    print(f" {reached:13.0%}   {convert}   {apart:.0e}", flush=True)
    for running, _, _ in made.values():
        running.__exit__()


if __name__ == "__main__":
    main(*sys.argv[1:])
