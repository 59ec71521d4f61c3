"""Networks for other runtimes: exported to ONNX, converted, run, and kept in the cache once they agree with PyTorch.

An exported network takes bytes of images and gives vectors, in blocks of one shape, from any number of threads. Every
block is computed by one thread. ONNX Runtime does so in the thread that calls, so that a process may fork at any time;
OpenVINO has a compiled copy of the network for each thread.
"""

from __future__ import annotations

import copy
import io
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.jit._trace import TracerWarning

from longshot.base import (
    Preprocessing,
    cache_dir,
    engine_version,
    find_cached,
    hash_text,
    note,
    read_sealed,
    write_sealed,
)
from longshot.models.backbones.base import in_blocks
from longshot.models.features.decode import decode_rows

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.models.backbones.base import ModuleBackbone


_OPSET = 17  # has every operation of the measured networks; ONNX Runtime from 1.13 and OpenVINO read it
Run: TypeAlias = Callable[[nn.Module, Tensor], Tensor]


class NotExportable(Exception):
    """A network cannot be written as a graph of fixed operations; the message says why."""


class FromBytes(nn.Module):
    """Bytes [B, H, W, 3] → vectors [B, d]: the preprocessing's values, the network, the mean over space of a map."""

    def __init__(self, module: nn.Module, run: Run, transform: Preprocessing) -> None:
        super().__init__()
        self.module, self.run = module, run
        self.scale = torch.tensor(transform.scale).reshape(1, 3, 1, 1)
        self.shift = torch.tensor(transform.shift).reshape(1, 3, 1, 1)

    def forward(self, pixels: Tensor) -> Tensor:
        """Compute vectors of bytes: [B, H, W, 3] uint8 → [B, d] float32."""
        output = self.run(self.module, pixels.permute(0, 3, 1, 2).float() * self.scale + self.shift)
        return (output.mean((2, 3)) if output.ndim == 4 else output).float()


def export_onnx(
    module: nn.Module, run: Run, transform: Preprocessing, block: int | None, *, strict: bool
) -> bytes:
    """Export a network as an ONNX file for blocks of ``block`` images, or for any number of them.

    PyTorch's exporter that follows one run is used: the other one takes eight times as long and needs one more
    package. What it cannot see are decisions that depend on the values of an image. It warns where Python looks at a
    value; with ``strict`` such a network is refused.

    Parameters
    ----------
    module : nn.Module
        In evaluation mode, on the CPU.
    run : callable
        (module, images [B, 3, H, W]) → [B, d] or a map [B, d, h, w].
    transform : Preprocessing
        Gives the size of images and their values.
    block : int or None
        B; None leaves it open, which costs a runtime some of its plans.
    strict : bool
        Refuse a network that looks at values while it computes. Libraries look at shapes, which do not change here:
        their networks are not exported strictly.
    """
    example = torch.zeros(block or 2, *transform.size, 3, dtype=torch.uint8)
    names = ("pixels", "vectors")
    file = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught, torch.no_grad(), _without_graphs():
        warnings.simplefilter("always")
        try:
            torch.onnx.export(
                FromBytes(module, run, transform).eval(),
                (example,),
                file,  # type: ignore[arg-type]  # an open file will do here
                dynamo=False,
                opset_version=_OPSET,
                input_names=names[:1],
                output_names=names[1:],
                dynamic_axes=None if block else {name: {0: "images"} for name in names},
            )
        except Exception as error:  # an exporter raises nearly anything on what it does not know
            reason = " ".join(str(error).split())[:200].rstrip(".")
            raise NotExportable(f"it cannot be exported ({type(error).__name__}: {reason})") from error
    looks = [str(warning.message) for warning in caught if issubclass(warning.category, TracerWarning)]
    if strict and looks:
        raise NotExportable(f"it looks at values while it computes ({' '.join(looks[0].split())[:100]}…)")
    return file.getvalue()


@contextmanager
def _without_graphs() -> Iterator[None]:
    """Keep the exporter from printing the whole graph where it fails: it goes past Python, straight to the output."""
    name = "_jit_onnx_log"
    log = getattr(torch._C, name, None)
    if log is None:  # another version of PyTorch
        yield
        return
    setattr(torch._C, name, lambda *_: None)
    try:
        yield
    finally:
        setattr(torch._C, name, log)


class Session(Protocol):
    """Bytes [block, H, W, 3] → vectors [block, d] float32; safe to call from several threads."""

    block: int

    def __call__(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]: ...


class OnnxRuntimeSession:
    """ONNX Runtime on the CPU."""

    def __init__(self, network: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session: Any = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
        self.block = int(self.session.get_inputs()[0].shape[0])

    def __call__(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = self.session.run(None, {"pixels": pixels})[0]
        return vectors


class OpenVinoSession:
    """OpenVINO on the CPU, in float32 whatever the processor could do."""

    def __init__(self, network: bytes) -> None:
        import openvino

        self.core: Any = openvino.Core()
        self.model: Any = self.core.read_model(model=network)
        self.block = int(self.model.input(0).shape[0])
        self.local = threading.local()

    def __call__(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        if not hasattr(self.local, "request"):
            # f32: processors with bfloat16 would use that
            settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
            self.local.request = self.core.compile_model(self.model, "CPU", settings).create_infer_request()
        answer = self.local.request.infer({0: pixels}, share_inputs=True)
        vectors: NDArray[np.float32] = np.array(answer[0], np.float32)
        return vectors


def open_session(engine: str, network: bytes) -> Session:
    """Open an exported network in ``onnxruntime`` or ``openvino``."""
    return OnnxRuntimeSession(network) if engine == "onnxruntime" else OpenVinoSession(network)


_COMPARED = 16  # images, at most
TOLERANCE = 1e-4  # largest ‖converted − PyTorch‖ / ‖PyTorch‖ of an image's vector
_RULES = "longshot converted 2"
# Images that a converted network sees at once. Convolutions gain from sixteen; the tokens of four images fill a matrix
# product already, and more only outgrow the cache (ViT-S/16 in ONNX Runtime: 99 ms an image in fours, 112 in sixteens).
_CONVOLVED, _OTHER = 16, 4


class Conversion:
    """A network for one engine and one shape of blocks: in the cache, refused, or not yet tried."""

    def __init__(self, backbone: ModuleBackbone, engine: str) -> None:
        self.backbone, self.engine = backbone, engine
        transform = backbone.transform
        self.key = hash_text(
            _RULES,
            type(backbone).__name__,
            backbone.architecture,
            backbone.weights_hash,
            backbone.pooling,
            repr((transform.size, transform.scale, transform.shift)),
            engine_version(engine),
        )
        self._network: bytes | None = None
        self._refusal = ""

    def network(self) -> bytes | None:
        """Return the ONNX file; None where there is none that agrees with PyTorch."""
        if self._network is None:
            self._network = _read(f"{self.key}.onnx")
        return self._network

    def portable(self, backbone: ModuleBackbone) -> Conversion:
        """Copy it for a backbone in another process, with the ONNX file in it."""
        self.network()
        twin = copy.copy(self)
        twin.backbone = backbone
        return twin

    def refusal(self) -> str:
        """Return why the network stays with PyTorch; empty where nothing says so."""
        return self._refusal or (_read(f"{self.key}.refused") or b"").decode()

    @property
    def settled(self) -> bool:
        """Tell whether the cache holds the outcome."""
        endings = (".onnx", ".refused")
        return any(find_cached("converted", f"{self.key}{ending}") is not None for ending in endings)

    def settle(self, dataset: Dataset, rows: Sequence[int], *, keep: bool) -> None:
        """Convert the network unless that was done or refused before; compare with PyTorch on images at hand.

        Parameters
        ----------
        dataset : Dataset
            Where the images come from.
        rows : sequence of int
            Those to choose from; up to sixteen of them are compared, evenly spread.
        keep : bool
            Write to the cache how it ended.
        """
        if self.network() is not None or self.refusal():
            return
        pixels = self._images(dataset, rows)
        if not len(pixels):  # embedding will say which images cannot be read
            self._refusal = "no image could be read to compare with"
            return
        try:
            network = self._convert(pixels, dataset.name)
        except NotExportable as error:
            self._refusal = str(error)
            note(f"backbone '{self.backbone.label}' computes with PyTorch instead of {self.engine}: {error}")
            if keep:
                write_sealed(cache_dir("converted") / f"{self.key}.refused", self._refusal.encode())
            return
        self._network = network
        if keep:
            write_sealed(cache_dir("converted") / f"{self.key}.onnx", network)

    def _convert(self, pixels: NDArray[np.uint8], dataset: str) -> bytes:
        """Export the network; NotExportable where that fails or the file disagrees on these images."""
        with torch.inference_mode():
            reference = self.backbone.from_bytes(pixels)
        backbone = self.backbone
        block = _CONVOLVED if is_convolutional(backbone.module) else _OTHER
        network = export_onnx(
            backbone.module, type(backbone).run, backbone.transform, block, strict=backbone.own_code
        )
        try:
            session = open_session(self.engine, network)
            answer = in_blocks(session, session.block, pixels)
        except Exception as error:  # a runtime raises classes of its own
            reason = " ".join(str(error).split())[:200].rstrip(".")
            raise NotExportable(f"{self.engine} cannot run it ({reason})") from error
        apart = difference(answer, reference)
        if not apart <= TOLERANCE:
            raise NotExportable(
                f"on {len(pixels)} images of '{dataset}' it is {apart:.1e} away from PyTorch, more than {TOLERANCE:g}"
            )
        return network

    def session(self) -> Session:
        """Open the converted network, ready to run."""
        network = self.network()
        assert network is not None
        return open_session(self.engine, network)

    def _images(self, dataset: Dataset, rows: Sequence[int]) -> NDArray[np.uint8]:
        pieces = []
        for position in np.unique(np.linspace(0, len(rows) - 1, _COMPARED).astype(np.int64)):
            row = int(rows[int(position)])
            decoded = decode_rows(dataset.store, self.backbone.transform, range(row, row + 1))
            if not decoded.bad:
                pieces.append(decoded.pixels)
        return np.concatenate(pieces) if pieces else np.empty((0, 0, 0, 3), np.uint8)


def difference(vectors: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    """Return the largest ‖v − r‖ / ‖r‖ over the rows of two arrays [n, d]; NaN where one holds NaN."""
    norms = np.linalg.norm(reference.astype(np.float64), axis=1)
    gaps = np.linalg.norm(vectors.astype(np.float64) - reference, axis=1)
    return float(np.max(gaps / np.maximum(norms, np.finfo(np.float32).tiny)))


def _read(name: str) -> bytes | None:
    path = find_cached("converted", name)
    content = read_sealed(path) if path is not None else None
    return None if content is None else bytes(content)


def is_convolutional(module: nn.Module) -> bool:
    """Tell whether convolutions hold most of a network's weights."""
    convolved = {
        id(part.weight): part.weight.numel() for part in module.modules() if isinstance(part, nn.Conv2d)
    }
    total = sum(parameter.numel() for parameter in module.parameters())
    return 2 * sum(convolved.values()) > total
