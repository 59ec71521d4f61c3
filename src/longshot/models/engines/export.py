"""A network as an ONNX file: bytes of images in, vectors out, in blocks of one shape."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor, nn
from torch.jit._trace import TracerWarning

if TYPE_CHECKING:
    from longshot.base import Preprocessing

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
        """[B, H, W, 3] uint8 → [B, d] float32."""
        output = self.run(self.module, pixels.permute(0, 3, 1, 2).float() * self.scale + self.shift)
        return (output.mean((2, 3)) if output.ndim == 4 else output).float()


def export(module: nn.Module, run: Run, transform: Preprocessing, block: int, *, strict: bool) -> bytes:
    """The ONNX file of a network for blocks of ``block`` images.

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
    block : int
        B.
    strict : bool
        Refuse a network that looks at values while it computes. Libraries look at shapes, which do not change here:
        their networks are not exported strictly.
    """
    example = torch.zeros(block, *transform.size, 3, dtype=torch.uint8)
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
                input_names=["pixels"],
                output_names=["vectors"],
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
