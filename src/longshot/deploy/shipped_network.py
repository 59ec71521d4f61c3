"""The network of a shipped model: bytes of photos to vectors, by ONNX Runtime, or by the installed backbone it
names.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import local
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from longshot.base import Preprocessing, UserError, note, parse_preprocessing, progress
from longshot.models import Backbone, ModuleBackbone, NotExportable, difference, export_onnx, read_pixels

if TYPE_CHECKING:
    from longshot.data import ImageStore

BLOCK = 16  # photos that the network sees at once, at most
TOLERANCE = 1e-4  # between the exported network and PyTorch, in lengths of a vector
Photo: TypeAlias = "tuple[ImageStore, int]"  # where a photo is read, and its row there


@dataclass(frozen=True, eq=False)
class ShippedNetwork:
    """Bytes [n, H, W, 3] → vectors [n, d]; ``onnx`` is the file, empty where the backbone itself computes."""

    transform: Preprocessing
    run: Callable[[NDArray[np.uint8]], NDArray[np.float32]]
    onnx: bytes = b""

    def vectors(self, photos: Sequence[Photo]) -> tuple[NDArray[np.float32], dict[int, str]]:
        """Compute the vectors [n, d] of the photos that can be read, and say why others cannot: position → reason."""
        threads, own = torch.get_num_threads(), local()
        blocks = [photos[start : start + BLOCK] for start in range(0, len(photos), BLOCK)]

        def compute(block: Sequence[Photo]) -> tuple[NDArray[np.float32] | None, list[str]]:
            pixels, reasons = [], []
            if not hasattr(own, "stores"):
                own.stores = {}  # each thread reads through its own copy
            for store, row in block:
                if id(store) not in own.stores:
                    own.stores[id(store)] = copy.deepcopy(store) if len(blocks) > 1 else store
                try:
                    pixels.append(read_pixels(own.stores[id(store)], self.transform, row))
                    reasons.append("")
                except Exception as error:  # readers of images raise nearly anything on damaged files
                    text = str(getattr(error, "reason", "") or error) or type(error).__name__
                    reasons.append(" ".join(text.split()).rstrip("."))
            return (self.run(np.stack(pixels)) if pixels else None), reasons

        parts: list[NDArray[np.float32]] = []
        bad: dict[int, str] = {}
        with progress("photos", len(photos), "photos") as bar, ThreadPoolExecutor(threads) as pool:
            spread = pool.map if len(blocks) > 1 else map  # a thread costs a single photo too much
            answers: Iterator[tuple[NDArray[np.float32] | None, list[str]]] = spread(compute, blocks)
            for number, (values, reasons) in enumerate(answers):
                bad |= {BLOCK * number + at: reason for at, reason in enumerate(reasons) if reason}
                parts += [] if values is None else [values]
                bar.advance(len(reasons))
        return (np.concatenate(parts) if parts else np.zeros((0, 1), np.float32)), bad


def onnx_network(file: bytes, preprocessing: str) -> ShippedNetwork:
    """Open a network that was exported for any number of photos."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # threads of its own would compete with ours
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session: Any = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def run(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = session.run(["vectors"], {"pixels": pixels})[0]
        return vectors

    return ShippedNetwork(parse_preprocessing(preprocessing), run, file)


def backbone_network(backbone: Backbone) -> ShippedNetwork:
    """Let a backbone compute, as it is installed here."""
    if backbone.takes_pictures:
        raise UserError(
            f"Backbone '{backbone.label}' takes whole pictures, and a shipped model hands it pixels of one size",
            "choose another {backbone}",
        )
    backbone.prepare()

    def run(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            return backbone.from_bytes(pixels)

    return ShippedNetwork(backbone.transform, run)


def ship_network(backbone: Backbone, examples: NDArray[np.uint8]) -> ShippedNetwork:
    """Export a backbone's network for any number of photos, where the file agrees with PyTorch on examples.

    A network that cannot be exported computes as it is; a note says so.
    """
    plain = backbone_network(backbone)
    module: nn.Module = backbone.module if isinstance(backbone, ModuleBackbone) else nn.Identity()
    run = (
        type(backbone).run
        if isinstance(backbone, ModuleBackbone)
        else lambda _, images: backbone.forward(images)
    )
    strict = isinstance(backbone, ModuleBackbone) and backbone.own_code
    try:
        return exported(module, run, backbone.transform, examples, plain.run(examples), strict=strict)
    except NotExportable as error:
        if backbone.label.startswith("torch:"):
            raise UserError(
                f"'{backbone.label}' is your own code, which a model cannot hold, and {error}",
                "choose another {backbone}",
            ) from error
        note(
            f"the model names '{backbone.label}' instead of holding the network, so who opens it needs that: {error}"
        )
        return plain


def exported(
    module: nn.Module,
    run: Callable[..., Any],
    transform: Preprocessing,
    examples: NDArray[np.uint8],
    reference: NDArray[np.float32],
    *,
    strict: bool,
) -> ShippedNetwork:
    """Export a module; NotExportable where that fails or the file disagrees with ``reference`` on the examples."""
    file = export_onnx(module.cpu(), run, transform, None, strict=strict)
    try:
        network = onnx_network(file, transform.text)
        answers = network.run(examples), np.concatenate([network.run(each[None]) for each in examples[:2]])
    except Exception as error:  # a runtime raises classes of its own
        raise NotExportable(f"ONNX Runtime cannot run it ({' '.join(str(error).split())[:200]})") from error
    apart = max(difference(answers[0], reference), difference(answers[1], reference[:2]))
    if not apart <= TOLERANCE:
        raise NotExportable(f"the exported network is {apart:.1e} away from PyTorch, more than {TOLERANCE:g}")
    return network
