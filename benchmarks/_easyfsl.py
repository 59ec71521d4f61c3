"""easyfsl 1.5.0 as the peer of Longshot's methods: how it is imported, and which settings mean the same in both.

Needs `.venv/bin/pip install --no-deps easyfsl==1.5.0`; without it ``load`` returns None.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@cache
def load() -> Any:
    """``easyfsl.methods``; None where it is not installed."""
    return load_module("easyfsl.methods")


@cache
def load_module(name: str) -> Any:
    """A module of easyfsl, with stand-ins for the imports that it does not use itself.

    easyfsl imports torchvision's ResNet blocks (for backbones), and torchvision has no build beside a CPU torch on
    PyPI; only the names must exist.
    """
    if importlib.util.find_spec("easyfsl") is None:
        return None
    unused = type("Unused", (torch.nn.Module,), {})
    blocks = dict.fromkeys(["BasicBlock", "Bottleneck", "conv1x1", "conv3x3"], unused)
    names = {
        "torchvision": {},
        "torchvision.models": {},
        "torchvision.models.resnet": blocks,
        "pandas": {"DataFrame": unused},
    }
    stubs = {}
    for stub, attributes in names.items():
        stubs[stub] = ModuleType(stub)
        stubs[stub].__dict__.update(attributes)
    held = {stub: sys.modules.get(stub) for stub in stubs}
    sys.modules.update(stubs)
    loaded = importlib.import_module(name)
    for stub, module in held.items():  # nothing else may meet the stand-ins
        if module is None:
            del sys.modules[stub]
        else:
            sys.modules[stub] = module
    return loaded


class _NoContext(torch.nn.Module):
    """Encoders that add nothing, for easyfsl's MatchingNetworks: features reach its attention as they are."""

    def forward(self, rows: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        if state is None:
            return torch.zeros(*rows.shape[:2], 2 * rows.shape[2]), None
        return torch.zeros_like(state[0]), state[1]


@dataclass(frozen=True)
class Peer:
    """The same method in both: Longshot's call, and how easyfsl's model is made from (easyfsl.methods, d)."""

    call: str
    make: Callable[[Any, int], Any]
    sum_to_one: bool = False  # both are given rows scaled to sum to 1
    center: bool = False  # easyfsl centres on a given vector: the mean of the task's support

    def prepare(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """The features that both are given."""
        return rows / np.abs(rows).sum(1, keepdims=True).clip(1e-12) if self.sum_to_one else rows

    def scores(self, model: Any, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        """[Q, W] easyfsl's scores of one task; it adapts to the task inside."""
        if self.center:
            model.feature_centering = support.mean(0, keepdim=True)
        model.process_support_set(support, labels)
        return model(query)


def _plain(name: str, **settings: Any) -> Callable[[Any, int], Any]:
    return lambda methods, _: getattr(methods, name)(**settings)


def _matching(methods: Any, dim: int) -> Any:
    return methods.MatchingNetworks(
        feature_dimension=dim, support_encoder=_NoContext(), query_encoder=_NoContext()
    )


_TIM = {"fine_tuning_steps": 100, "fine_tuning_lr": 1e-3}
PEERS: dict[str, Peer] = {
    "ProtoNet": Peer("protonet", _plain("PrototypicalNetworks")),
    "cosine ProtoNet": Peer("protonet(distance='cosine')", _plain("SimpleShot")),
    "SimpleShot, ℓ₂": Peer(
        "simpleshot(center='none', distance='cosine')", _plain("SimpleShot", feature_normalization=2)
    ),
    "SimpleShot, centred ℓ₂": Peer(
        "simpleshot(distance='cosine')", _plain("SimpleShot", feature_normalization=2), center=True
    ),
    "Matching": Peer("matching(normalize_query=False, scale=1)", _matching),
    "BD-CSPN": Peer("bd-cspn(scale=1)", _plain("BDCSPN")),
    "LaplacianShot": Peer("laplacianshot(scale=1)", _plain("LaplacianShot", feature_normalization=2)),
    "LaplacianShot, raw": Peer("laplacianshot(normalize=False, scale=1)", _plain("LaplacianShot")),
    "Finetune": Peer("finetune", _plain("Finetune", fine_tuning_steps=10, fine_tuning_lr=1e-3)),
    "Transductive fine-tuning": Peer("transductive-finetuning", _plain("TransductiveFinetuning")),
    "TIM": Peer("tim", _plain("TIM", **_TIM)),
    # Raw rows underflow in easyfsl's exp(−10 d²); the square root of a row that sums to 1 has length 1.
    "PT-MAP": Peer("pt-map(center='none', normalize=False, steps=10)", _plain("PTMAP"), sum_to_one=True),
}
