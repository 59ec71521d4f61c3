"""The checkpoint a training goes on from: one safetensors file, replaced whole, with its facts as JSON in the header.

Learning rates follow from the step and every random number from the seed and the step, so what has to be kept are
the weights, the optimiser's moments, a few numbers, and episodes that only a former network could have chosen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from longshot.core.errors import UserError
from longshot.core.files import atomic
from longshot.networks.base import Network

FILE = "state.safetensors"
_NETWORK, _OPTIMISER, _SOURCE = "network.", "optimiser.", "source."


def save_state(
    folder: Path,
    network: Network,
    optimiser: torch.optim.Optimizer,
    source: Mapping[str, Tensor],
    facts: Mapping[str, Any],
) -> None:
    """Replace the checkpoint of ``folder``; a kill at any moment leaves the old one or the new one."""
    tensors = {_NETWORK + name: value for name, value in network.state_dict().items()}
    tensors |= {_SOURCE + name: value for name, value in source.items()}
    numbers: dict[str, Any] = {}
    for index, held in optimiser.state_dict()["state"].items():
        for name, value in held.items():
            if isinstance(value, Tensor):
                tensors[f"{_OPTIMISER}{index}.{name}"] = value
            else:
                numbers[f"{index}.{name}"] = value
    # A copy each: safetensors refuses tensors that share memory or do not lie row by row.
    copies = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
    header = {"facts": json.dumps(dict(facts)), "optimiser": json.dumps(numbers)}
    with atomic(folder / FILE) as temporary:
        save_file(copies, temporary, metadata=header)


def last_saved(folder: Path) -> int | None:
    """When the checkpoint of ``folder`` was written, in nanoseconds; None where there is none."""
    path = folder / FILE
    return path.stat().st_mtime_ns if path.is_file() else None


def load_state(
    folder: Path, network: Network, optimiser: torch.optim.Optimizer
) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Put the checkpoint back into network and optimiser; its facts and the source's tensors. None: there is none."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts, numbers = json.loads(header["facts"]), json.loads(header["optimiser"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise UserError(
            f"The checkpoint {path} ({path.stat().st_size:,} bytes) is damaged",
            "delete it to train from the beginning, or choose another folder {out}",
        ) from error
    network.load_state_dict(_part(tensors, _NETWORK))
    held: dict[int, dict[str, Any]] = {}
    for name, value in {**_part(tensors, _OPTIMISER), **numbers}.items():
        index, _, key = name.partition(".")
        held.setdefault(int(index), {})[key] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": held})
    return facts, _part(tensors, _SOURCE)


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
