"""Several devices share the episodes or images of every step: plain ``torch.distributed``, one process each.

Gradients are averaged with one sum over all numbers. The result is that of a single device with the same total,
up to rounding, as long as the parts of a step do not see each other: episodes never do; batch norm sees the images of
its own device.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import ProcessRaisedException, spawn

from longshot.core.devices import pick_device
from longshot.core.errors import UserError


@dataclass(frozen=True)
class Team:
    """This process among ``size`` that train together; alone by default."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process validates and writes."""
        return self.rank == 0

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over the processes, in place, in one exchange."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1).float() for tensor in tensors])
        dist.all_reduce(flat)
        flat /= self.size
        start = 0
        for tensor in tensors:
            tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()

    def share(self, value: float) -> float:
        """The leading process's number, in every process."""
        if self.size == 1:
            return value
        told = torch.tensor([value if self.leads else 0.0], dtype=torch.float64)
        if dist.get_backend() == "nccl":
            told = told.to("cuda")
        dist.all_reduce(told)
        return float(told.item())


def check_devices(devices: int, device: torch.device, total: int, what: str) -> None:
    """UserError where ``devices`` cannot share ``total`` images or episodes, or are not there."""
    if devices < 1:
        raise UserError(f"Training runs on 1 or more devices, not {devices}.")
    if device.type == "cuda" and devices > torch.cuda.device_count():
        raise UserError(
            f"{devices} devices were asked for, but PyTorch finds {torch.cuda.device_count()} CUDA devices; "
            f"lower --devices."
        )
    if device.type == "mps" and devices > 1:
        raise UserError(f"There is one MPS device, not {devices}; leave --devices out.")
    if total % devices:
        raise UserError(
            f"A step has {total} {what}, which {devices} devices cannot share evenly; choose a --batch that is a "
            f"multiple of {devices}."
        )


def launch(devices: int, device: str, work: Callable[..., None], *arguments: Any) -> None:
    """Run ``work(team, device, *arguments)`` in ``devices`` processes; the first error stops them all."""
    with tempfile.TemporaryDirectory(prefix="longshot-team-") as meeting:
        place = Path(meeting, "meeting").as_uri()
        threads = max(1, torch.get_num_threads() // devices)
        try:
            spawn(_member, (devices, device, place, threads, work, arguments), nprocs=devices)  # type: ignore[no-untyped-call]
        except ProcessRaisedException:
            told = sorted(Path(meeting).glob("mistake-*"))
            if not told:
                raise
            raise UserError(told[0].read_text(encoding="utf-8")) from None


def _member(
    rank: int,
    devices: int,
    device: str,
    place: str,
    threads: int,
    work: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    kind = pick_device(device).type
    if kind == "cuda":
        device = f"cuda:{rank}"
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(threads)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the processes are all on this machine
    dist.init_process_group("nccl" if kind == "cuda" else "gloo", place, rank=rank, world_size=devices)
    try:
        work(Team(rank, devices), device, *arguments)
    except UserError as mistake:  # a sentence for the user, which another process cannot raise for us
        Path(place.removeprefix("file://")).with_name(f"mistake-{rank}").write_text(str(mistake), "utf-8")
        raise
    finally:
        dist.destroy_process_group()
