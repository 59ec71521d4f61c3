"""Exported networks that run: a block of bytes in, vectors out, from any number of threads.

Every block is computed by one thread. ONNX Runtime does so in the thread that calls, so that a process may fork at any
time; OpenVINO has a compiled copy of the network for each thread.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Session(Protocol):
    """Bytes [block, H, W, 3] → vectors [block, d] float32; safe to call from several threads."""

    block: int

    def __call__(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]: ...


def in_blocks(session: Session, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Vectors [n, d] of bytes [n, H, W, 3], in blocks of the session's shape, the last one filled up with black."""
    short = -len(pixels) % session.block
    if short:
        pixels = np.concatenate([pixels, np.zeros((short, *pixels.shape[1:]), np.uint8)])
    starts = range(0, len(pixels), session.block)
    vectors = np.concatenate([session(pixels[start : start + session.block]) for start in starts])
    return vectors[: len(vectors) - short]


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
            settings = {
                "INFERENCE_NUM_THREADS": 1,
                "NUM_STREAMS": 1,
                "INFERENCE_PRECISION_HINT": "f32",  # processors with bfloat16 would use that
            }
            self.local.request = self.core.compile_model(self.model, "CPU", settings).create_infer_request()
        answer = self.local.request.infer({0: pixels}, share_inputs=True)
        vectors: NDArray[np.float32] = np.array(answer[0], np.float32)
        return vectors


def open_session(engine: str, network: bytes) -> Session:
    """An exported network in ``onnxruntime`` or ``openvino``."""
    return OnnxRuntimeSession(network) if engine == "onnxruntime" else OpenVinoSession(network)
