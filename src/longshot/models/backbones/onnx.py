"""``onnx:FILE``: a network in an ONNX file with one image input [B, 3, H, W] float32 and vectors out.

With several outputs the last [B, d] one counts, else the last [B, d, h, w] one, averaged over space. A file with a
fixed B is run B images at a time. Which pixels it takes is given, or stands in its metadata under ``preprocessing``.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from longshot.base import UserError, hash_file, pick_device
from longshot.models.backbones.base import Backbone
from longshot.models.backbones.sight import Sight, own_sight
from longshot.models.engines import parse_engine

_ANY_SIZE = 224  # in the example for a file that takes any


class Onnx(Backbone):
    """An ONNX Runtime session; safe to run from several threads."""

    reentrant = True
    content: bytes | None = None  # of the file, where this is a copy on another machine

    def __init__(self, name: str, path: Path, sight: Sight, device: str) -> None:
        self.path, self.accelerated = path, pick_device(device).type == "cuda"
        self.shape = _input_shape(name, self.file_session)
        height, width = (side if isinstance(side, int) else None for side in self.shape[2:])
        example = f"decode|resize({height or _ANY_SIZE},{width or _ANY_SIZE})|normalize(imagenet)"
        own = self.file_session.get_modelmeta().custom_metadata_map.get("preprocessing")
        remedy = f"write {Sight(example).named(name)}, or put it into the file's metadata as 'preprocessing'"
        super().__init__(name, hash_file(path), own_sight(sight, own, f"Backbone '{name}'", remedy), device)
        made = self.transform.size
        size = (height or made[0], width or made[1])
        if size != made:
            raise UserError(
                f"Backbone '{name}' takes images of {size[0]} × {size[1]}, but preprocessing '{self.preprocessing}' "
                f"makes {made[0]} × {made[1]}; end it with resize({size[0]},{size[1]})."
            )

    @property
    def engine(self) -> str:
        """The runtime, with its version."""
        import onnxruntime

        return f"onnxruntime {onnxruntime.__version__}"

    def use_engine(self, engine: str | None) -> None:
        """UserError for another engine: the file is written for this one."""
        name = parse_engine(engine).name
        if name not in ("auto", "onnxruntime"):
            raise UserError(f"Backbone '{self.name}' runs in onnxruntime", "leave {engine} out")

    def portable(self, *, network: bool = True) -> Self:
        twin = super().portable(network=network)
        twin.__dict__.pop("file_session", None)
        twin.content = self.path.read_bytes()
        return twin

    @cached_property
    def file_session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # our threads run blocks side by side
        options.log_severity_level = 3
        usable = onnxruntime.get_available_providers()
        cuda = ["CUDAExecutionProvider"] if self.accelerated and "CUDAExecutionProvider" in usable else []
        source = self.content if self.content is not None else str(self.path)
        try:
            return onnxruntime.InferenceSession(source, options, providers=[*cuda, "CPUExecutionProvider"])
        except Exception as error:  # the runtime's own classes are not exported
            raise UserError(f"{self.path} is no ONNX network that runs here: {_say(error)}.") from error

    def forward(self, images: Tensor) -> Tensor:
        batch = images.contiguous().cpu().numpy()
        step = self.shape[0] if isinstance(self.shape[0], int) else len(batch)
        parts = []
        for start in range(0, len(batch), step):
            block = batch[start : start + step]
            short = step - len(block)
            if short:  # only for files with a fixed batch: blank images fill it up
                block = np.concatenate([block, np.zeros((short, *block.shape[1:]), block.dtype)])
            parts.append(self._run(block)[: step - short])
        return torch.from_numpy(np.concatenate(parts)).to(images.device)

    def _run(self, batch: Any) -> Any:
        name = self.file_session.get_inputs()[0].name
        try:
            outputs = self.file_session.run(None, {name: batch})
        except Exception as error:
            raise UserError(
                f"Backbone '{self.name}' failed on images {list(batch.shape)}: {_say(error)}",
                "try another {preprocessing}",
            ) from error
        arrays = [o for o in outputs if isinstance(o, np.ndarray) and o.dtype.kind == "f"]
        chosen = [o for o in arrays if o.ndim == 2] or [o for o in arrays if o.ndim == 4]
        if not chosen:
            shapes = ", ".join(str(list(np.shape(o))) for o in outputs)
            raise UserError(f"Backbone '{self.name}' gives {shapes}; an output [B, d] of floats is needed.")
        return chosen[-1].astype(np.float32)


def _say(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")  # the runtime's messages run over several lines


def _input_shape(name: str, session: Any) -> list[int | str | None]:
    inputs = session.get_inputs()
    shape = list(inputs[0].shape)
    if len(inputs) != 1 or len(shape) != 4 or inputs[0].type != "tensor(float)" or shape[1] not in (3, None):
        shown = ", ".join(f"{i.name} {i.shape} {i.type}" for i in inputs)
        raise UserError(f"Backbone '{name}' takes {shown}; one input [B, 3, H, W] of float32 is needed.")
    return shape


def load(name: str, *, device: str, sight: Sight, allow_download: bool) -> Onnx:
    """The file's network."""
    path = Path(name.removeprefix("onnx:"))
    if not path.is_file():
        raise UserError(f"Backbone '{name}': there is no file {path}; give the path of an .onnx file.")
    return Onnx(name, path, sight, device)
