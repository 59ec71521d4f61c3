"""What a network is to training and to methods that adapt one: images to maps, maps to vectors.

A module that Longshot did not write (timm, transformers, the user's own file) becomes one that can be trained, several
networks become one, and any network tells its stages and what it costs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from longshot.base import UserError, check_count

if TYPE_CHECKING:
    from collections.abc import Mapping


class Network(nn.Module, ABC):
    """Images [B, 3, H, W] → vectors [B, dim], by way of maps [B, dim, h, w].

    A network that flattens its maps into the vector (``cnn4(flatten=True)``) has maps of fewer channels than ``dim``.
    """

    call: str = ""  # what the registry builds it from: cnn4(width=32)
    size: tuple[int, int]  # height and width of the images it was built for
    dim: int  # d, width of the vectors
    preprocessing: str | None = None  # the pixels it was trained on, where it was
    # learned beside the network (a first head for MAML, attention for CTX); often empty
    extras: nn.ParameterDict

    def __init__(self, extras: Mapping[str, Tensor] | None = None) -> None:
        super().__init__()
        self.extras = nn.ParameterDict({name: nn.Parameter(value) for name, value in (extras or {}).items()})

    def facts(self) -> dict[str, object]:
        """Return what the sidecar of the saved network says of it beyond its call, as JSON."""
        return {}

    @abstractmethod
    def maps(self, images: Tensor) -> Tensor:
        """Compute maps before pooling (a transformer's patches as a map): [B, 3, H, W] → [B, dim, h, w]."""

    def pool(self, maps: Tensor) -> Tensor:
        """Average over positions, unless the network does otherwise: [B, dim, h, w] → [B, dim]."""
        return maps.mean((2, 3))

    def forward(self, images: Tensor) -> Tensor:
        """Compute vectors of images: [B, 3, H, W] → [B, dim]."""
        return self.pool(self.maps(images))


def on_black(network: nn.Module, size: tuple[int, int]) -> Tensor:
    """Run a network on one black image of height × width in evaluation mode; its mode stays as it was."""
    weights = next(network.parameters(), None)
    device = weights.device if weights is not None else torch.device("cpu")
    training = network.training
    try:
        with torch.no_grad():
            output: Tensor = network.eval()(torch.zeros(1, 3, *size, device=device))
    finally:
        network.train(training)
    return output


# module and images [B, 3, H, W] → vectors [B, d] or maps [B, d, h, w]
RunModule: TypeAlias = Callable[[nn.Module, Tensor], Tensor]


class Foreign(Network):
    """``run(module, images)`` gives maps [B, d, h, w], which are averaged, or vectors [B, d], which are taken."""

    def __init__(self, name: str, module: nn.Module, run: RunModule, size: tuple[int, int]) -> None:
        super().__init__()
        self.call, self.size, self.module, self.run = name, size, module, run
        self.dim = int(on_black(self.train(module.training), size).shape[1])

    def maps(self, images: Tensor) -> Tensor:
        """Compute maps of images, where the module gives them: [B, 3, H, W] → [B, d, h, w]."""
        output = self.run(self.module, images)
        if output.ndim != 4:
            raise UserError(
                f"Network '{self.call}' gives vectors {list(output.shape)} and no maps [B, d, h, w], which are "
                f"needed here; take a convolutional network, or one of Longshot's own."
            )
        return output

    def forward(self, images: Tensor) -> Tensor:
        """Compute vectors of images: [B, 3, H, W] → [B, d]."""
        output = self.run(self.module, images)
        return self.pool(output) if output.ndim == 4 else output


_LISTS = (nn.Sequential, nn.ModuleList)


def last_stages(network: Network, count: int) -> list[nn.Module]:
    """Return the blocks of the last ``count`` stages of a network, in the order they run.

    A stage is a run of blocks whose maps have one size: for a ResNet its layers 1 to 4, for a CNN4 its four
    convolutions. A network whose maps never change (a transformer) is cut into four stages of about equally many
    blocks.

    Parameters
    ----------
    network : Network
        Any; it is run once on a black image, in evaluation mode.
    count : int
        Stages from the end.

    Returns
    -------
    list of Module
        Blocks with parameters. UserError where there are fewer stages.

    Examples
    --------
    >>> from longshot.models.networks import get_network
    >>> network = get_network("resnet18", size=(64, 64))
    >>> last_stages(network, 2) == list(network.blocks[4:])
    True
    """
    stages = find_stages(network)
    if count > len(stages):
        raise UserError(
            f"The network '{network.call}' has {len(stages)} stages and the last {count} are to be trained",
            f"train at most {len(stages)} stages",
        )
    return [block for stage in stages[len(stages) - count :] for block in stage]


def find_stages(network: Network) -> list[list[nn.Module]]:
    """Group all blocks with parameters into stages, in the order they run."""
    blocks = [block for block in _blocks(network, root=True) if next(block.parameters(), None) is not None]
    sizes = _sizes(network, blocks)
    ran = list(sizes)  # in the order in which they ran
    maps = {size for size in sizes.values() if size is not None}
    if len(maps) < 2 or None in sizes.values():
        parts = min(4, len(ran))
        bounds = [len(ran) * number // parts for number in range(parts + 1)]
        return [ran[start:end] for start, end in pairwise(bounds)]
    stages: list[list[nn.Module]] = []
    previous = None
    for block in ran:
        if sizes[block] != previous:
            stages.append([])
        stages[-1].append(block)
        previous = sizes[block]
    return stages


def _blocks(module: nn.Module, root: bool = False) -> Iterator[nn.Module]:
    """Yield the parts that are not split further: of the network itself, its lists, and what holds lists of blocks."""
    inner = [child for child in module.children() if next(child.parameters(), None) is not None]
    lists = any(isinstance(child, nn.ModuleList) for child in inner)
    if not inner or not (root or lists or isinstance(module, _LISTS)):
        yield module
        return
    for child in inner:
        yield from _blocks(child, root=root and len(inner) == 1)  # a wrapper is taken off


def _sizes(network: Network, blocks: list[nn.Module]) -> dict[nn.Module, tuple[int, int] | None]:
    """Measure height and width of each block's maps (None: no maps), in the order in which the blocks run."""
    sizes: dict[nn.Module, tuple[int, int] | None] = {}

    def look(block: nn.Module, _: object, output: object) -> None:
        maps = isinstance(output, Tensor) and output.ndim == 4
        sizes[block] = (output.shape[2], output.shape[3]) if maps else None  # type: ignore[attr-defined]

    hooks = [block.register_forward_hook(look) for block in blocks]
    try:
        on_black(network, network.size)
    finally:
        for hook in hooks:
            hook.remove()
    return sizes


def count_flops(network: nn.Module, size: tuple[int, int]) -> float:
    """Count the floating-point operations (a multiply-add is two) of ``network`` on one image of height × width."""
    counter = FlopCounterMode(display=False)
    with counter:
        on_black(network, size)
    return float(counter.get_total_flops())


def count_parameters(network: nn.Module) -> int:
    """Count the numbers that training may change."""
    return sum(parameter.numel() for parameter in network.parameters())


_MEMBERS = 3


class Ensemble(Network):
    """[√w₁ v₁/‖v₁‖, √w₂ v₂/‖v₂‖, …]: two images differ by Σ_m w_m · (squared distance of member m's unit vectors).

    ``of``: the call of a network, ``members`` of which (3) start from different random weights, or a list of calls;
    ``build_member(call, size)`` makes each. The weights w [M] sum to 1 and are equal until something is known of the
    members.
    """

    weights: Tensor

    def __init__(
        self,
        *,
        size: tuple[int, int],
        build_member: Callable[[str, tuple[int, int]], Network],
        of: str | Sequence[str] = "cnn4",
        members: int | None = None,
    ) -> None:
        super().__init__()
        if members is not None:
            check_count("ensemble", "members", members, least=1)
        calls = [of] * (_MEMBERS if members is None else members) if isinstance(of, str) else list(of)
        if not calls or (members is not None and members != len(calls)):
            raise UserError(
                f"An ensemble of {len(calls)} networks is named with members={members}; leave members out, or name one "
                f"network as of='cnn4'."
            )
        self.members = nn.ModuleList(build_member(call, size) for call in calls)
        self.dims = [member.dim for member in self.each()]
        self.dim = sum(self.dims)
        self.register_buffer("weights", torch.full((len(calls),), 1 / len(calls)))

    def each(self) -> list[Network]:
        """List the members."""
        return [cast(Network, member) for member in self.members]

    def facts(self) -> dict[str, object]:
        """Return the members with their weights."""
        pairs = zip(self.each(), self.weights.tolist(), strict=True)
        return {"members": [{"network": member.call, "weight": weight} for member, weight in pairs]}

    def maps(self, images: Tensor) -> Tensor:
        """Refuse: members' maps differ in size and meaning, so there is no common one."""
        raise UserError(
            f"The network '{self.call}' is an ensemble and has no map of its own; take a single network."
        )

    def forward(self, images: Tensor) -> Tensor:
        """Compute the weighted vectors of all members: [B, 3, H, W] → [B, d₁ + d₂ + …]."""
        units = [F.normalize(member(images), dim=1) for member in self.each()]
        return torch.cat([unit * weight.sqrt() for unit, weight in zip(units, self.weights, strict=True)], 1)
