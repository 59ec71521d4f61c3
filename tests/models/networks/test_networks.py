"""Networks: shapes, sizes against published figures, the switch of norms, DropBlock, seeds, wrong calls."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from longshot.base import UserError
from longshot.models import Ensemble, Network, count_flops, count_parameters, get_network
from longshot.models.networks import network_names
from longshot.models.networks.base import Foreign
from longshot.models.networks.resnets import DropBlock, StandardisedConv2d, groups
from longshot.models.networks.small_networks import Attention


def images(size: int = 32, count: int = 4) -> torch.Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(0))


CALLS = [
    ("cnn4", 28, 64, (64, 1, 1)),
    ("cnn4(width=8)", 84, 8, (8, 5, 5)),
    ("cnn4(width=8, flatten=True)", 84, 200, (8, 5, 5)),
    ("resnet12", 32, 640, (640, 2, 2)),
    ("resnet18", 64, 512, (512, 2, 2)),
    ("resnet18(stem='small')", 32, 512, (512, 4, 4)),
    ("resnet12-easyfsl", 32, 640, (640, 4, 4)),
    ("bit-r18", 64, 512, (512, 2, 2)),
    ("vit(width=32, depth=1)", 32, 32, (32, 4, 4)),
    ("vit(width=32, depth=1, pool='class', patch=16)", 48, 32, (32, 3, 3)),
]


@pytest.mark.parametrize(("call", "size", "dim", "shape"), CALLS)
def test_shapes(call: str, size: int, dim: int, shape: tuple[int, ...]) -> None:
    network = get_network(call, size=(size, size)).eval()
    with torch.no_grad():
        maps, vectors = network.maps(images(size)), network(images(size))
    assert maps.shape == (4, *shape)
    assert vectors.shape == (4, dim)
    assert network.dim == dim
    if "pool='class'" not in call:  # a class token is no mean of the map
        assert torch.equal(vectors, network.pool(maps))


@pytest.mark.parametrize(
    ("call", "parameters"),
    [
        ("cnn4", 113_088),
        ("resnet12", 12_424_320),
        ("resnet18", 11_176_512),
        ("resnet34", 21_284_672),
        ("resnet50", 23_508_032),
        # patches 3·64·128 + 128; a block 4·(128² + 128) + 2·(128·512) + 512 + 128 + 2·256; the last norm 256
        ("vit", 24_704 + 4 * 198_272 + 256),
    ],
)
def test_parameters_are_the_published_ones(call: str, parameters: int) -> None:
    """CNN4: 4 blocks of 9·c·64 + 64 + 128; ResNets: torchvision's, without the classifier."""
    assert count_parameters(get_network(call, size=(64, 64))) == parameters


@pytest.mark.parametrize("name", ["cnn4", "resnet12", "resnet18"])
@pytest.mark.parametrize("norm", ["batch", "group", "none"])
def test_norms_switch(name: str, norm: str) -> None:
    network = get_network(f"{name}(norm='{norm}')", size=(32, 32))
    kinds = {type(module) for module in network.modules()}
    assert (nn.BatchNorm2d in kinds) == (norm == "batch")
    assert (nn.GroupNorm in kinds) == (norm == "group")
    assert (StandardisedConv2d in kinds) == (norm == "group")
    assert (nn.Conv2d in kinds) == (norm != "group")
    loss = network(images()).square().mean()
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def test_standardised_convolution_equals_the_formula() -> None:
    layer = StandardisedConv2d(3, 5, 3, padding=1)
    flat = layer.weight.detach().double().flatten(1)
    standard = (flat - flat.mean(1, keepdim=True)) / flat.std(1, keepdim=True, correction=0)
    expected = nn.functional.conv2d(
        images().double(), standard.view(5, 3, 3, 3), layer.bias.detach().double(), padding=1
    )
    assert torch.allclose(layer(images()).double(), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("channels", "expected"), [(64, 32), (32, 16), (160, 32), (320, 32), (20, 10), (7, 1), (1, 1)]
)
def test_groups_divide_the_channels(channels: int, expected: int) -> None:
    assert groups(channels) == expected


def test_group_norm_does_not_look_at_other_images() -> None:
    network = get_network("cnn4(norm='group')", size=(32, 32))
    with torch.no_grad():
        assert torch.allclose(network(images())[:1], network(images()[:1]), atol=1e-5)


def test_dropblock_drops_as_often_as_it_should() -> None:
    """A place in the middle stays when none of the block² corners before it fell: (1 − γ)^(block²)."""
    torch.manual_seed(0)
    drop, block, side = 0.1, 3, 12
    layer = DropBlock(drop, block).train()
    survived = layer(torch.ones(400, 8, side, side)) != 0
    rate = drop / block**2 * side**2 / (side - block + 1) ** 2
    middle = survived[:, :, block - 1 : 1 - block, block - 1 : 1 - block].float().mean()
    assert abs(float(middle) - (1 - rate) ** block**2) < 0.005
    assert abs(float(survived.float().mean()) - (1 - drop)) < 0.01


def test_dropblock_drops_squares_and_keeps_the_mean() -> None:
    torch.manual_seed(1)
    layer = DropBlock(0.02, 4).train()
    maps = layer(torch.ones(64, 1, 10, 10))
    assert abs(float(maps.mean()) - 1) < 1e-4
    zeros = (maps == 0).float()
    squares = nn.functional.max_pool2d(-nn.functional.max_pool2d(-zeros, 4, stride=1), 4, stride=1)
    assert squares.sum() > 0  # somewhere 4 × 4 zeros lie together
    untouched = (zeros.sum((1, 2, 3)) > 0) & (zeros.sum((1, 2, 3)) < 16)
    assert not untouched.any()  # never less than one whole square
    assert torch.equal(layer.eval()(maps), maps)


def test_dropblock_is_as_rare_in_half_precision() -> None:
    torch.manual_seed(0)
    survived = DropBlock(0.02, 5).train()(torch.ones(400, 8, 10, 10, dtype=torch.bfloat16)) != 0
    exact = DropBlock(0.02, 5).train()(torch.ones(400, 8, 10, 10)) != 0
    assert abs(float(survived.float().mean()) - float(exact.float().mean())) < 0.005


def test_dropblock_larger_than_the_map() -> None:
    torch.manual_seed(0)
    assert DropBlock(0.3, 5).train()(torch.ones(50, 4, 2, 2)).isfinite().all()


def test_attention_equals_torch() -> None:
    torch.manual_seed(0)
    ours, tokens = Attention(12, 3), torch.randn(2, 5, 12)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True)
    with torch.no_grad():
        layers = (ours.query, ours.key, ours.value)
        theirs.in_proj_weight.copy_(torch.cat([layer.weight for layer in layers]))
        theirs.in_proj_bias.copy_(torch.cat([layer.bias for layer in layers]))
    theirs.out_proj = ours.out  # type: ignore[assignment]
    assert torch.allclose(ours(tokens), theirs(tokens, tokens, tokens)[0], atol=1e-6)


def test_vit_takes_other_sizes_and_tells_places_apart() -> None:
    network = get_network("vit(width=32, depth=1)", size=(32, 32)).eval()
    with torch.no_grad():
        assert network(images(64)).shape == (4, 32)
        black = torch.zeros(1, 3, 32, 32)
        black[..., :8, :8] = 1.0
        assert not torch.allclose(network(black), network(black.flip(3)), atol=1e-4)


def test_seed_decides_the_weights_and_nothing_else() -> None:
    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    network, same, other = (get_network("cnn4", size=(28, 28), seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), before)
    assert torch.equal(network.blocks[0][0].weight, same.blocks[0][0].weight)  # type: ignore[index,union-attr]
    assert not torch.equal(network.blocks[0][0].weight, other.blocks[0][0].weight)  # type: ignore[index,union-attr]


def test_flops_of_a_layer_are_counted() -> None:
    """CNN4 at 16 × 16: the first convolution 2·27·8·256, then 2·72·8·64, 16 and 4 positions."""
    network = get_network("cnn4(width=8, norm='none')", size=(16, 16)).train()
    assert count_flops(network, (16, 16)) == 2 * 8 * (27 * 256 + 72 * (64 + 16 + 4))
    assert network.training


def test_calls_are_canonical() -> None:
    assert get_network("cnn4(norm='batch', width=32)", size=(28, 28)).call == "cnn4(width=32)"
    bit = ["bit-r101x3", "bit-r18", "bit-r50x1"]
    resnets = ["resnet12", "resnet12-easyfsl", "resnet18", "resnet34", "resnet50"]
    assert network_names() == [*bit, "cnn4", "ensemble", *resnets, "vit"]


@pytest.mark.parametrize(
    ("call", "size", "complaint"),
    [
        ("cnn5", 28, "no network 'cnn5'; did you mean 'cnn4'"),
        ("zebra", 28, "no network 'zebra'; there are bit-r101x3, .*cnn4"),
        ("cnn4(filters=3)", 28, r"The network 'cnn4' has no setting 'filters'; .*width=64"),
        ("cnn4(size=3)", 28, "has no setting 'size'"),
        ("cnn4(width=0)", 28, "width is 0; it must be a whole number of at least 1"),
        ("cnn4(norm='layer')", 28, "cnn4 has no norm 'layer'; choose 'batch' or 'group' or 'none'"),
        ("cnn4", 12, "16 × 16 pixels or more, not 12 × 12"),
        ("resnet12", 8, "16 × 16 pixels or more, not 8 × 8"),
        ("resnet12(drop=1)", 32, "it must be below 1"),
        ("resnet18(stem='huge')", 32, "no stem 'huge'"),
        ("vit(patch=7)", 32, "patches of 7 × 7, and 32 × 32 pixels do not divide"),
        ("vit(width=30)", 32, "divisible by 4 and by the number of heads, 4"),
    ],
)
def test_wrong_calls_are_told(call: str, size: int, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        get_network(call, size=(size, size))


def test_an_ensemble_weighs_its_members() -> None:
    """Squared distances of the joint vectors are the weighted sum of the members' on unit vectors."""
    network = get_network("ensemble(of='cnn4(width=8)', members=2)", size=(16, 16)).eval()
    assert isinstance(network, Ensemble)
    network.weights.copy_(torch.tensor([0.3, 0.7]))
    with torch.no_grad():
        joint = network(images(16))
        apart = [nn.functional.normalize(member(images(16)), dim=1) for member in network.each()]
    assert joint.shape == (4, network.dim) == (4, 16)
    expected = sum(w * torch.cdist(v, v).square() for w, v in zip((0.3, 0.7), apart, strict=True))
    assert torch.allclose(torch.cdist(joint, joint).square(), expected, atol=1e-5)
    assert not torch.allclose(apart[0], apart[1], atol=1e-3)  # different random weights
    members = network.facts()["members"]
    assert isinstance(members, list)
    assert members[1] == {"network": "cnn4(width=8)", "weight": pytest.approx(0.7)}
    with pytest.raises(UserError, match="is an ensemble and has no map of its own"):
        network.maps(images(16))


def test_an_ensemble_of_different_networks() -> None:
    call = "ensemble(of=['cnn4(width=8)', 'vit(width=16, depth=1)'])"
    network = get_network(call, size=(16, 16))
    assert network.call == call
    assert network.dim == 24
    with pytest.raises(UserError, match="An ensemble of 2 networks is named with members=3"):
        get_network(call[:-1] + ", members=3)", size=(16, 16))
    with pytest.raises(UserError, match="no network 'cnn5'"):
        get_network("ensemble(of='cnn5')", size=(16, 16))


def _run(module: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    output: torch.Tensor = module(batch)
    return output


def test_foreign_modules_give_maps_or_refuse() -> None:
    convolution = Foreign("mine", nn.Conv2d(3, 7, 3), _run, (8, 8))
    assert convolution.dim == 7
    assert convolution.maps(images(8)).shape == (4, 7, 6, 6)
    assert torch.allclose(convolution(images(8)), convolution.maps(images(8)).mean((2, 3)))
    flat: Network = Foreign("flat", nn.Sequential(nn.Flatten(), nn.Linear(192, 5)), _run, (8, 8))
    assert flat(images(8)).shape == (4, 5)
    with pytest.raises(UserError, match=r"Network 'flat' gives vectors \[4, 5\] and no maps"):
        flat.maps(images(8))
