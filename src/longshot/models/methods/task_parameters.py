"""Parameters of a task's own, trained on its support: a head behind all layers, or adapters in a frozen network.

Adapters are a few parameters in the linear layers (transformers).
"""

from __future__ import annotations

import copy
import math
import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parametrize

from longshot.base import (
    ImageTask,
    UserError,
    choice_field,
    count_field,
    number_field,
    prototypes,
    with_settings,
)
from longshot.models.methods.finetune_network import (
    Adapted,
    FinetuneAll,
    Support,
    descend,
    embed,
)
from longshot.models.networks.base import Network
from longshot.models.networks.fixed_norms import trainable_copy


class AdaptedHead(nn.Module):
    """Class vectors over the network's: ⟨x, w_c⟩ + b_c, or with a scale · ⟨x / ‖x‖, w_c⟩.

    ``unit`` uses w_c / ‖w_c‖ in place of w_c, which makes the second a cosine; by default where there is a scale.
    """

    def __init__(self, start: Tensor, scale: float | None, unit: bool | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(start.clone())  # [P, d]
        self.bias = nn.Parameter(start.new_zeros(len(start))) if scale is None else None
        self.scale = scale
        self.unit = scale is not None if unit is None else unit

    def forward(self, vectors: Tensor) -> Tensor:
        """Compute logits [N, P] of vectors [N, d]."""
        weight = F.normalize(self.weight, dim=1) if self.unit else self.weight
        if self.scale is None:
            return F.linear(vectors, weight, self.bias)
        return self.scale * F.normalize(vectors, dim=1) @ weight.T


class _Headed(Adapted):
    """A network trained together with a head."""

    family = "transfer"
    steps: int
    lr: float
    batch: int | None = None  # images of a step; None: the whole support
    balanced: ClassVar[bool] = True  # a step draws every class as often as the others, else every image

    def rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        return self.lr

    def _train(
        self,
        support: Support,
        model: Network,
        head: AdaptedHead,
        optimiser: torch.optim.Optimizer,
        generator: torch.Generator,
    ) -> tuple[Network, Callable[[Tensor], Tensor]]:
        """Train on the support's cross-entropy: all of it, or ``batch`` images drawn anew (repeats allowed) each step.

        Returns the network, and what scores its vectors [Q, d] then, [Q, way].
        """
        batch = self.batch if self.batch is not None and self.batch < len(support) else None
        counts = torch.bincount(support.labels)[support.labels].cpu()
        chance = 1 / counts if self.balanced else torch.ones(len(support))
        for step in range(self.steps):
            for group in optimiser.param_groups:
                group["lr"] = self.rate(step)
            images, labels = support.images, support.labels
            if batch is not None:
                chosen = torch.multinomial(chance, batch, replacement=True, generator=generator)
                images, labels = (each[chosen.to(images.device)] for each in (images, labels))

            def loss(vectors: Tensor, labels: Tensor = labels) -> Tensor:
                return F.cross_entropy(head(vectors), labels)

            descend(model, images, loss, optimiser)

        return model, lambda vectors: support.spread(head(vectors))

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """Count the support, or as much of it as a step sees, in every step, and the queries at the end."""
        return forward * (3 * self.steps * min(self.batch or support, support) + query)


@with_settings
class TrainFromScratch(_Headed):
    """The network's architecture with new random weights, trained on the support alone with a linear head.

    Adam on minibatches. Having no statistics of earlier data, batch norms use those of the minibatch while training and
    their running mean afterwards. The head starts at zero. ``fresh=False`` begins at the network's own weights: what
    the paper calls this baseline with a pre-trained backbone.
    """

    name = "train-from-scratch"
    paper = "Carrión-Ojeda et al. 2022"

    steps: int = count_field(100)
    lr: float = number_field(1e-3, above=0)
    batch: int = count_field(4, least=2)
    fresh: bool = True

    def adapted(self, task: ImageTask, network: Network) -> tuple[Network, Callable[[Tensor], Tensor]]:
        """Train on the task, the network together with a head."""
        support, generator = Support.of(task), task.generator()
        model = copy.deepcopy(network).requires_grad_(True)  # its batch norms do not keep their statistics
        if self.fresh:
            restart_layers(model, generator)
        norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
        head = AdaptedHead(support.images.new_zeros(len(support.classes), model.dim), None)
        optimiser = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=self.lr, fused=True)
        for norm in norms:
            norm.train()
        trained = self._train(support, model, head, optimiser, generator)
        for norm in norms:
            norm.eval()
        return trained


@torch.no_grad()
def restart_layers(network: Network, generator: torch.Generator) -> None:
    """Draw new weights as PyTorch starts layers: uniform within ±1/√fan-in, norms at 1 and 0, tokens N(0, 0.02²)."""
    for module in network.modules():
        own = dict(module.named_parameters(recurse=False))
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
        if isinstance(module, _BatchNorm | nn.GroupNorm | nn.LayerNorm):
            for name, parameter in own.items():
                parameter.fill_(1.0 if name == "weight" else 0.0)
            continue
        weight = own.get("weight")
        bound = None if weight is None or weight.ndim < 2 else 1 / math.sqrt(weight[0].numel())
        for parameter in own.values():
            noise = torch.empty(parameter.shape)
            noise = (
                noise.normal_(0, 0.02, generator=generator)
                if bound is None
                else noise.uniform_(-bound, bound, generator=generator)
            )
            parameter.copy_(noise)


@with_settings
class BiT(_Headed):
    """Big Transfer: SGD with momentum on all layers and a linear head that starts at zero.

    The learning rate rises over the first fifth of the steps and falls to a tenth after two, three and four fifths
    (the paper's rule for small data; ``schedule='constant'`` leaves it alone). The whole support in every step up to
    ``batch`` images; of more, ``batch`` are drawn for each step, every image as often as the others.
    """

    name = "bit"
    paper = "Kolesnikov et al. 2020"
    version = 2  # draws images and not classes where there are more than a batch
    balanced = False

    steps: int = count_field(500)
    lr: float = number_field(0.003, above=0)
    momentum: float = number_field(0.9)
    batch: int = count_field(512, least=1)
    schedule: str = choice_field("rule", "rule", "constant")

    def rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        if self.schedule == "constant":
            return self.lr
        fifth = self.steps / 5
        if step < fifth:
            return self.lr * step / fifth
        return self.lr * 0.1 ** max(0, math.ceil(step / fifth) - 2)

    def adapted(self, task: ImageTask, network: Network) -> tuple[Network, Callable[[Tensor], Tensor]]:
        """Train on the task, the network together with a head."""
        support, model = Support.of(task), trainable_copy(network)
        head = AdaptedHead(support.images.new_zeros(len(support.classes), model.dim), None)
        optimiser = torch.optim.SGD(
            [*model.parameters(), *head.parameters()], lr=self.lr, momentum=self.momentum, fused=True
        )
        return self._train(support, model, head, optimiser, task.generator())


@with_settings
class MDTransfer(_Headed):
    """Meta-Dataset's fine-tuning baseline: Adam on all layers and a cosine head, the whole support in every step.

    head 'cosine':  logits = scale · cos(x, w_c), as the VTAB+MD paper's search chose it
    head 'linear':  logits = ⟨x, w_c⟩ + b_c

    ``weight_norm``: class vectors at unit length; None: in a cosine head and not in a linear one. ``layers``: 'all', or
    'head' alone. ``optimiser``: 'adam' or 'sgd'. ``start``: class vectors drawn from a normal distribution (the paper),
    or the class means ('prototypes').
    """

    name = "md-transfer"
    paper = "Triantafillou et al. 2020"

    steps: int = count_field(100)
    lr: float = number_field(1e-2, above=0)
    scale: float = number_field(10.0, above=0)
    head: str = choice_field("cosine", "cosine", "linear")
    weight_norm: bool | None = choice_field(None, None, True, False)
    layers: str = choice_field("all", "all", "head")
    optimiser: str = choice_field("adam", "adam", "sgd")
    start: str = choice_field("normal", "normal", "prototypes")

    def adapted(self, task: ImageTask, network: Network) -> tuple[Network, Callable[[Tensor], Tensor]]:
        """Train on the task, the network together with a head."""
        support, model, generator = Support.of(task), trainable_copy(network), task.generator()
        start = self._start(support, model, generator)
        head = AdaptedHead(start, self.scale if self.head == "cosine" else None, self.weight_norm)
        moving = [*head.parameters(), *(model.parameters() if self.layers == "all" else ())]
        kind = torch.optim.Adam if self.optimiser == "adam" else torch.optim.SGD
        optimiser: torch.optim.Optimizer = kind(moving, lr=self.lr, fused=True)
        return self._train(support, model, head, optimiser, generator)

    def _start(self, support: Support, model: Network, generator: torch.Generator) -> Tensor:
        """Return the first class vectors [P, d]; drawn ones belong to the classes' images, not to their names."""
        count = len(support.classes)
        if self.start == "prototypes":
            return prototypes(embed(model, support.images), support.labels, count)
        noise = torch.randn(count, model.dim, generator=generator).to(support.images.device)
        # A cosine head has no length; a linear one starts near zero.
        return (noise if self.head == "cosine" else noise * 0.01)[support.first_seen()]


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
        """Add the low-rank change to the weight; [out, in]."""
        return weight + self.scale * (self.up @ self.down)


class Offset(nn.Module):
    """b ↦ b + δ, δ zero at first: a vector of the task's own added to what the layer gives."""

    def __init__(self, bias: Tensor) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros_like(bias))

    def forward(self, bias: Tensor) -> Tensor:
        """Add the offset to the bias; [out]."""
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


@with_settings
class LoRA(_Adapter):
    """Low-rank changes of the attention's matrices: W + scale · B A, of ``rank`` r; only A and B are trained.

    At rank 0 or scale 0 the network is the frozen one. A network whose attention cannot be told by its names gets them
    in all linear layers. ``lr=None`` chooses as ``finetune-all`` does.
    """

    name = "lora"
    paper = "Hu et al. 2021"

    rank: int = count_field(4)
    scale: float = number_field(1.0)
    lr: float | None = number_field(1e-3, above=0)

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
    """Choose the linear layers whose name fits the pattern, or all of them where none does."""
    linear = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    fitting = [module for name, module in linear.items() if pattern.search(name)]
    return fitting or list(linear.values())


def _weights(model: Network) -> list[tuple[nn.Module, str]]:
    """List (layer, name of its matrix): attention's linear layers, and the joint matrix of PyTorch's attention."""
    linears: list[tuple[nn.Module, str]] = [
        (module, "in_proj_weight")
        for module in model.modules()
        if isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None
    ]
    return linears + [(module, "weight") for module in _chosen(model, _ATTENTION)]
