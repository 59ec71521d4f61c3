"""Where tensors live: ``auto|cpu|cuda|mps`` as a device that exists, and how to tell that its memory ran out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshot.base.errors import UserError

if TYPE_CHECKING:
    import torch


def pick_device(name: str = "auto") -> torch.device:
    """The device called ``name`` (also ``cuda:1``); ``auto`` takes CUDA, then MPS, then the CPU."""
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"There is no device '{name}'; choose auto, cpu, cuda or mps.") from None
    usable = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }.get(device.type)
    if usable is None:
        raise UserError(f"Device '{name}' is of a kind Longshot does not use; choose auto, cpu, cuda or mps.")
    if (device.index or 0) >= usable:
        raise UserError(
            f"Device '{name}' was asked for, but PyTorch finds {usable} of that kind on this machine",
            "use {device:auto} or cpu",
        )
    return device


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, on a device or in the machine."""
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # What torch says on CPUs differs by system; some devices raise a plain RuntimeError.
    phrases = ("not enough memory", "allocate memory", "out of memory")
    return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in phrases)
