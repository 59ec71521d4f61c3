"""The stages of any network: blocks in the order they run, told apart by the size of the maps they give."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from torch import Tensor, nn

from longshot.base import UserError
from longshot.models.networks.base import Network, on_black

_LISTS = (nn.Sequential, nn.ModuleList)


def last_stages(network: Network, count: int) -> list[nn.Module]:
    """The blocks of the last ``count`` stages of a network, in the order they run.

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
    >>> from longshot.models.networks.registry import get_network
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
    """All blocks with parameters in the order they run, grouped into stages."""
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
    """The parts that are not taken apart: those of the network itself, of its lists, of what holds lists of blocks."""
    inner = [child for child in module.children() if next(child.parameters(), None) is not None]
    lists = any(isinstance(child, nn.ModuleList) for child in inner)
    if not inner or not (root or lists or isinstance(module, _LISTS)):
        yield module
        return
    for child in inner:
        yield from _blocks(child, root=root and len(inner) == 1)  # a wrapper is taken off


def _sizes(network: Network, blocks: list[nn.Module]) -> dict[nn.Module, tuple[int, int] | None]:
    """Height and width of each block's maps (None: it gives no maps), in the order in which the blocks run."""
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
