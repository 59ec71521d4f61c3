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

from longshot.base import UserError, pick_device


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
        shared = torch.tensor([value if self.leads else 0.0], dtype=torch.float64)
        if dist.get_backend() == "nccl":
            shared = shared.to("cuda")
        dist.all_reduce(shared)
        return float(shared.item())


def check_devices(devices: int, device: torch.device, total: int, noun: str) -> None:
    """UserError where ``devices`` cannot share ``total`` images or episodes (``noun``), or are not there."""
    if device.type == "cuda" and devices > torch.cuda.device_count():
        raise UserError(
            f"{devices} devices were asked for, but PyTorch finds {torch.cuda.device_count()} CUDA devices",
            "lower {devices}",
        )
    if device.type == "mps" and devices > 1:
        raise UserError(f"There is one MPS device, not {devices}", "leave {devices} out")
    if total % devices:
        raise UserError(
            f"A step has {total} {noun}, which {devices} devices cannot share evenly",
            f"choose a {{batch}} that is a multiple of {devices}",
        )


def launch(devices: int, device: str, work: Callable[..., None], *arguments: Any) -> None:
    """Run ``work(team, device, *arguments)`` in ``devices`` processes; the first error stops them all."""
    with tempfile.TemporaryDirectory(prefix="longshot-team-") as meeting:
        meeting_point = Path(meeting, "meeting").as_uri()
        threads = max(1, torch.get_num_threads() // devices)
        try:
            spawn(_member, (devices, device, meeting_point, threads, work, arguments), nprocs=devices)  # type: ignore[no-untyped-call]
        except ProcessRaisedException:
            mistakes = sorted(Path(meeting).glob("mistake-*"))
            if not mistakes:
                raise
            raise UserError(mistakes[0].read_text(encoding="utf-8")) from None


def _member(
    rank: int,
    devices: int,
    device: str,
    meeting_point: str,
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
    dist.init_process_group(
        "nccl" if kind == "cuda" else "gloo", meeting_point, rank=rank, world_size=devices
    )
    try:
        work(Team(rank, devices), device, *arguments)
    except UserError as mistake:  # a sentence for the user, which another process cannot raise for us
        path = Path(meeting_point.removeprefix("file://")).with_name(f"mistake-{rank}")
        path.write_text(mistake.template, "utf-8")
        raise
    finally:
        dist.destroy_process_group()
