"""Networks whose batch norms keep their statistics, rewritten for gradient steps on a CPU: the same, with less work.

- A batch norm with fixed mean μ and deviation σ is a part of the convolution before it, W' = W γ / σ and
  b' = (b − μ) γ / σ + β, and γ and β are still trained: autograd goes through the two formulas.
- ReLU and ReLU6 work in place behind it, and their gradient is taken from the result.
- Padding that is one wider at the right and below (TensorFlow's) costs a copy of the maps. The network mirrored, images
  and kernels upside down and left to right, wants it at the left and above, where PyTorch's convolutions have it
  anyway: as much on all sides, of which a stride of 2 does not reach the last.
- The gradient to a depthwise kernel wider than 3 is taken in columns of at most 3, for which the library behind
  PyTorch has a fast kernel.
"""

from __future__ import annotations

import copy
import operator
import weakref
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from longshot.models.networks.base import Foreign, Network
from longshot.models.networks.double_backward import Window, applied, conv_slopes, convolved, pair

_FAST_COLUMNS = 3
_AGREEMENT = 1e-4  # relative, between the network and its rewriting
_ADDITIONS = (operator.add, operator.iadd, torch.add)
_CLAMPS: dict[type[nn.Module], float] = {nn.ReLU: float("inf"), nn.ReLU6: 6.0}


@dataclass(frozen=True)
class _Geometry:
    window: Window
    high: float | None = None  # the result is clamped to 0 … high; None: it is not
    alone: bool = False  # one convolution of this kind reads the result, so its gradient may be overwritten


class _ConvClamp(torch.autograd.Function):
    """clamp(conv(maps) + bias), differentiable once."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor, how: _Geometry) -> Tensor:
        result = convolved(maps, weight, bias, how.window)
        if how.high is not None:
            result.clamp_(0.0, how.high)
        ctx.how = how
        ctx.save_for_backward(maps, weight, None if how.high is None else result)
        return result

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        maps, weight, result = ctx.saved_tensors
        how: _Geometry = ctx.how
        window = how.window
        slope = slopes[0].contiguous(memory_format=torch.channels_last)
        if result is not None:
            into = slope if how.alone else torch.empty_like(slope)
            slope = torch.ops.aten.hardtanh_backward.grad_input(slope, result, 0.0, how.high, grad_input=into)
        needed = tuple(ctx.needs_input_grad[:3])
        wide = window.groups == weight.shape[0] and weight.shape[1] == 1 and weight.shape[3] > _FAST_COLUMNS
        if not wide or window.dilation != (1, 1):
            return *conv_slopes(slope, maps, weight, window, needed), None
        to_maps, _, _ = conv_slopes(slope, maps, weight, window, (needed[0], False, False))
        return to_maps, _by_columns(slope, maps, weight, window), slope.sum((0, 2, 3)), None


def _by_columns(slope: Tensor, maps: Tensor, weight: Tensor, window: Window) -> Tensor:
    """Compute the gradient to a depthwise kernel, a few of its columns at a time."""
    above, before = window.padding  # rows and columns of zeros
    rows = (slope.shape[2] - 1) * window.stride[0] + weight.shape[2]  # that the kernel touches
    columns = (slope.shape[3] - 1) * window.stride[1]
    unpadded = window._replace(padding=(0, 0))
    parts = []
    for first in range(0, weight.shape[3], _FAST_COLUMNS):
        part = weight[..., first : first + _FAST_COLUMNS]
        at_left = before - first  # where it is negative, columns are cut off
        at_right = columns + part.shape[3] - at_left - maps.shape[3]
        shifted = F.pad(maps, (at_left, at_right, above, rows - above - maps.shape[2]))
        parts.append(conv_slopes(slope, shifted, part, unpadded, (False, True, False))[1])
    return torch.cat(parts, 3)


class _ConvNorm(nn.Module):
    """A convolution, the batch norm behind it and a clamp, as one."""

    def __init__(self, conv: nn.Conv2d, norm: nn.BatchNorm2d | None, how: _Geometry) -> None:
        super().__init__()
        self.conv, self.norm, self.how, self.mirrored = conv, norm, how, False

    def forward(self, maps: Tensor) -> Tensor:
        """Apply convolution, norm and clamp: [N, C, H, W] → [N, O, H', W']."""
        weight, bias, norm = self.conv.weight, self.conv.bias, self.norm
        if norm is not None:
            assert norm.running_var is not None and norm.running_mean is not None
            scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
            shift = norm.bias - norm.running_mean * scale
            weight, bias = weight * scale.view(-1, 1, 1, 1), shift if bias is None else bias * scale + shift
        elif bias is None:
            bias = weight.new_zeros(len(weight))
        if self.mirrored and weight.shape[2:].numel() > 1:
            weight = weight.flip(2, 3)
        maps, weight = (each.contiguous(memory_format=torch.channels_last) for each in (maps, weight))
        return applied(_ConvClamp, maps, weight, bias, self.how)


class _Maps(nn.Module):
    """A network as the function from images to maps, to be traced."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Compute maps of images: [N, 3, H, W] → [N, d, h, w]."""
        if isinstance(self.network, Foreign):
            return self.network.run(self.network.module, images)
        return self.network.maps(images)


class FixedNorms(Network):
    """A network beside its rewriting: the same parameters, the same vectors up to rounding."""

    def __init__(self, network: Network, body: fx.GraphModule, mirrored: bool) -> None:
        super().__init__()
        self.network, self.body, self.mirrored = network, body, mirrored
        self.call, self.size, self.dim, self.extras = network.call, network.size, network.dim, network.extras

    def maps(self, images: Tensor) -> Tensor:
        """Compute maps of images: [N, 3, H, W] → [N, d, h, w]."""
        maps: Tensor = self.body(images.flip(2, 3) if self.mirrored else images)
        return maps.flip(2, 3) if self.mirrored else maps

    def pool(self, maps: Tensor) -> Tensor:
        """Pool as the network does."""
        return self.network.pool(maps)


_REWRITTEN: weakref.WeakKeyDictionary[Network, FixedNorms] = weakref.WeakKeyDictionary()


def prepare_fixed_norms(network: Network) -> None:
    """Rewrite a network whose statistics stay fixed, for ``trainable_copy``; nothing where there is nothing to gain.

    Tracing changes how PyTorch calls modules for a moment: call this while no other thread computes. A network that
    cannot be traced, lies on an accelerator or would give other vectors (compared on noise) is left as it is.
    """
    weight = next(network.parameters(), None)
    if network.training or weight is None or weight.device.type != "cpu":
        return
    try:
        rewritten = _rewritten(network)
        images = torch.rand(
            2, 3, *network.size, dtype=weight.dtype, generator=torch.Generator().manual_seed(0)
        )
        with torch.no_grad():
            expected, vectors = network(images), rewritten(images)
        agrees = (expected - vectors).norm() <= _AGREEMENT * expected.norm()
    except Exception:  # tracing somebody's own module may fail in any way; it is then computed as it was
        return
    if agrees and any(module.norm is not None for module in _conv_norms(rewritten)):
        _REWRITTEN[network] = rewritten.eval()


def trainable_copy(network: Network) -> Network:
    """Copy a network with parameters that take gradients, rewritten where ``prepare_fixed_norms`` did so."""
    return copy.deepcopy(_REWRITTEN.get(network, network)).requires_grad_(True)


def _conv_norms(module: nn.Module) -> list[_ConvNorm]:
    return [part for part in module.modules() if isinstance(part, _ConvNorm)]


def _rewritten(network: Network) -> FixedNorms:
    root = _Maps(network)
    graph = fx.Tracer().trace(root)
    modules: dict[str, nn.Module] = dict(root.named_modules())
    _drop_identities(graph, modules)
    mirrored = _can_be_mirrored(graph, modules)
    for number, node in enumerate(list(graph.nodes)):
        conv = _convolution(node, modules)
        if conv is None:
            continue
        source, padding = node.args[0], pair(conv.padding)
        if (
            source.op == "call_module"
            and isinstance(modules[source.target], nn.ZeroPad2d)
            and padding == (0, 0)
        ):
            zeros: Any = modules[source.target].padding  # left, right, top, bottom
            if mirrored or (zeros[0] == zeros[1] and zeros[2] == zeros[3]):
                source, padding = source.args[0], (zeros[3], zeros[1])
        norm, last = None, node
        follower = _only_user(last)
        if follower is not None and type(_module(follower, modules)) is nn.BatchNorm2d:
            norm, last = _module(follower, modules), follower
            follower = _only_user(last)
        clamp = None if follower is None else _module(follower, modules)
        high = None if clamp is None else _CLAMPS.get(type(clamp))
        last = last if high is None or follower is None else follower
        window = Window(pair(conv.stride), padding, pair(conv.dilation), conv.groups)
        name = f"conv_{number}"
        modules[name] = _ConvNorm(conv, norm, _Geometry(window, high))  # type: ignore[arg-type]
        root.add_module(name, modules[name])
        with graph.inserting_before(node):
            last.replace_all_uses_with(graph.call_module(name, (source,)))
    body = fx.GraphModule(root, graph)
    body.graph.eliminate_dead_code()
    body.recompile()
    for node in body.graph.nodes:
        module = _module(node, modules)
        if isinstance(module, _ConvNorm):
            user = _only_user(node)
            alone = user is not None and isinstance(_module(user, modules), _ConvNorm)
            module.how, module.mirrored = replace(module.how, alone=alone), mirrored
    return FixedNorms(network, body, mirrored)


def _drop_identities(graph: fx.Graph, modules: dict[str, nn.Module]) -> None:
    for node in list(graph.nodes):
        if isinstance(_module(node, modules), nn.Identity | nn.Dropout):  # in evaluation mode
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _can_be_mirrored(graph: fx.Graph, modules: dict[str, nn.Module]) -> bool:
    """Tell whether padding is wider only at the right and below, and nothing knows left from right."""
    uneven = False
    for node in graph.nodes:
        module = _module(node, modules)
        if isinstance(module, nn.ZeroPad2d):
            before, after, above, below = module.padding
            if not (before <= after <= before + 1 and above <= below <= above + 1):
                return False
            uneven |= before < after or above < below
        elif node.op in ("placeholder", "output", "get_attr") or _convolution(node, modules) is not None:
            continue
        elif not (type(module) in (nn.BatchNorm2d, *_CLAMPS) or node.target in _ADDITIONS):
            return False
    return uneven


def _convolution(node: fx.Node, modules: dict[str, nn.Module]) -> nn.Conv2d | None:
    """Return the layer of a node that is a plain convolution, called as a module or with a module's weight."""
    module = _module(node, modules)
    if type(module) is nn.Conv2d and module.padding_mode == "zeros" and not isinstance(module.padding, str):
        return module
    if node.op != "call_function" or node.target is not torch.conv2d:
        return None
    weight: Any = node.args[1]
    owner = modules.get(str(weight.target).rpartition(".")[0]) if weight.op == "get_attr" else None
    if not isinstance(owner, nn.Conv2d) or isinstance(owner.padding, str) or len(node.args) != 7:
        return None
    settings = (owner.stride, owner.padding, owner.dilation)
    same = all(pair(used) == pair(own) for used, own in zip(node.args[3:6], settings, strict=True))
    return owner if same else None


def _module(node: fx.Node, modules: dict[str, nn.Module]) -> nn.Module | None:
    return modules.get(str(node.target)) if node.op == "call_module" else None


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None
