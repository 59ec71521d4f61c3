"""Adapters: a frozen network with a few parameters of a task's own in its linear layers (transformers)."""

from __future__ import annotations

import copy
import re
from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from longshot.base import UserError, check_count, check_number, number_field, with_settings
from longshot.models.methods.finetune_network import FinetuneAll
from longshot.models.networks.base import Network

_ATTENTION = re.compile(r"attn|attention|qkv|(^|\.)([qkvo]_proj|proj|query|key|value)$")
_LAST = re.compile(r"(^|\.)(proj|out|out_proj|o_proj|fc2|shrink|linear2)$|output\.dense$")


class LowRank(nn.Module):
    """W ↦ W + scale · B A with A [r, in] random and B [out, r] zero at first: nothing changes until B does."""

    def __init__(self, weight: Tensor, rank: int, scale: float, generator: torch.Generator) -> None:
        super().__init__()
        noise = torch.randn(rank, weight.shape[1], generator=generator) / weight.shape[1] ** 0.5
        self.down = nn.Parameter(noise.to(weight))
        self.up = nn.Parameter(weight.new_zeros(weight.shape[0], rank))
        self.scale = scale

    def forward(self, weight: Tensor) -> Tensor:
        """[out, in]."""
        return weight + self.scale * (self.up @ self.down)


class Offset(nn.Module):
    """b ↦ b + δ, δ zero at first: a vector of the task's own added to what the layer gives."""

    def __init__(self, bias: Tensor) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros_like(bias))

    def forward(self, bias: Tensor) -> Tensor:
        """[out]."""
        return bias + self.offset


class _Adapter(FinetuneAll):
    """The loss and augmentation of ``finetune-all``, with everything frozen but what an adapter adds."""

    family = "adapters"
    step_cost = 2.0  # a gradient to the activations, hardly any to the weights

    def _model(self, network: Network, generator: torch.Generator) -> tuple[Network, Sequence[nn.Parameter]]:
        model = copy.deepcopy(network).requires_grad_(False)
        added = self._adapt(model, generator)
        if not added:
            raise UserError(
                f"{self.name} puts its parameters into the linear layers of a transformer, and the network "
                f"'{network.call}' has 0 of them; adapt it with finetune-all instead."
            )
        return model, [parameter for adapter in added for parameter in adapter.parameters()]

    @abstractmethod
    def _adapt(self, model: Network, generator: torch.Generator) -> Sequence[nn.Module]:
        """Put adapters into the model; the adapters."""


class LoRA(_Adapter):
    """Low-rank changes of the attention's matrices: W + scale · B A, of ``rank`` r; only A and B are trained.

    At rank 0 or scale 0 the network is the frozen one. A network whose attention cannot be told by its names gets them
    in all linear layers. ``lr=None`` chooses as ``finetune-all`` does.
    """

    name = "lora"
    paper = "Hu et al. 2021"

    def __init__(
        self,
        *,
        rank: int = 4,
        scale: float = 1.0,
        steps: int = 50,
        lr: float | None = 1e-3,
        augmentation: float = 0.9,
        distance: str = "cosine",
    ) -> None:
        super().__init__(steps=steps, lr=lr, augmentation=augmentation, distance=distance)
        check_count(self.name, "rank", rank)
        check_number(self.name, "scale", scale)
        self.rank, self.scale = rank, scale

    def _adapt(self, model: Network, generator: torch.Generator) -> Sequence[nn.Module]:
        added = []
        for module, name in _weights(model):
            adapter = LowRank(getattr(module, name), self.rank, self.scale, generator)
            parametrize.register_parametrization(module, name, adapter, unsafe=True)
            added.append(adapter)
        return added


@with_settings
class OffsetAdapter(_Adapter):
    """A learned vector added to what each attention and each pair of layers behind it gives (residual adapters).

    ``lr=None`` chooses as ``finetune-all`` does.
    """

    name = "offset"
    paper = "Xu et al. 2022"

    lr: float | None = number_field(1e-3, above=0)

    def _adapt(self, model: Network, generator: torch.Generator) -> Sequence[nn.Module]:
        added = []
        for module in _chosen(model, _LAST):
            if module.bias is not None:
                adapter = Offset(module.bias)
                parametrize.register_parametrization(module, "bias", adapter, unsafe=True)
                added.append(adapter)
        return added


def _chosen(model: Network, pattern: re.Pattern[str]) -> list[nn.Linear]:
    """Linear layers whose name fits the pattern, or all of them when none does."""
    linear = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    fitting = [module for name, module in linear.items() if pattern.search(name)]
    return fitting or list(linear.values())


def _weights(model: Network) -> list[tuple[nn.Module, str]]:
    """(layer, name of its matrix): attention's linear layers, and the joint matrix of PyTorch's own attention."""
    linears: list[tuple[nn.Module, str]] = [
        (module, "in_proj_weight")
        for module in model.modules()
        if isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None
    ]
    return linears + [(module, "weight") for module in _chosen(model, _ATTENTION)]
