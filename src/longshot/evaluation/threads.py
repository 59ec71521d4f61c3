"""One thread per worker, so that numbers do not depend on how many cores there are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """Each worker computes on one thread, so that sums do not depend on how many threads share them."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
