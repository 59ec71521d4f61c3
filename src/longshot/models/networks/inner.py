"""The inner loop of MAML and its relatives: a few gradient steps on a task's support, many tasks at once.

Every task starts from the same weights θ and from a linear head (W, b) on the network's vectors z = f_θ(x), and takes
``steps`` steps of gradient descent on the support's mean cross-entropy L_S:

    (θ, W, b) ← (θ, W, b) − lr · ∇ L_S(θ, W, b)          ('all' moves; with 'head' θ stays)

The loop is differentiable: with ``second_order`` the query's loss is differentiated through the steps; without it the
steps count as a constant move, θ' = θ + Δ, and ∂θ'/∂θ = 1.

Batch norm takes its mean and variance from the task's support images, for the support and for the queries alike, so
that no query sees another one (``SupportStatistics``).

On a CPU a task is computed by itself, by ordinary autograd with channels-last maps and the quick second derivatives of
``models/networks/double_backward.py``; on an accelerator many tasks are mapped together by ``torch.func``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, vjp, vmap
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

from longshot.base import UserError, prototypes
from longshot.models.networks.base import Network
from longshot.models.networks.double_backward import Pooling, Window, conv, norm, pair, pool

NamedTensors: TypeAlias = dict[str, Tensor]
LinearHead: TypeAlias = tuple[Tensor, Tensor]  # W [way, d], b [way]
Pull: TypeAlias = Callable[[Tensor], NamedTensors]  # ∂L/∂z [S, d] → ∂L/∂θ
Moves: TypeAlias = Literal["all", "head"]
HeadStart: TypeAlias = Literal["zero", "prototypes", "learned"]
LEARNED_HEAD = ("first_weight", "first_bias")  # names among a network's extras: W [N, d] and b [N]
_IN_NETWORK = tuple(f"extras.{name}" for name in LEARNED_HEAD)


@dataclass(frozen=True)
class InnerLoop:
    """What an inner loop does.

    ``start`` of the head: 'zero', or 'prototypes' as in ProtoMAML, W_c = 2 p_c and b_c = −‖p_c‖² with p_c the mean
    support vector of class c, so that the untrained head is the prototype classifier. 'learned': W and b are the
    network's own for up to N classes, meta-learned with θ; a task of fewer classes takes their first rows.

    (One start vector w learned for all classes would be the same as zero: Σ_c (p_c − y_c) = 0 for a softmax, so w drops
    out of every gradient, and it adds the same number to every logit.)
    """

    steps: int
    lr: float
    moves: Moves = "all"
    start: HeadStart = "zero"
    second_order: bool = True


def tasks_at_once(device: torch.device) -> int:
    """Return how many tasks are best computed side by side.

    With weights of its own per task, a convolution over many tasks is a grouped one. On a CPU it is no faster than one
    task after the other, and its graph no longer fits the cache; an accelerator wants more work per call.
    """
    return {"cuda": 16, "mps": 8}.get(device.type, 1)


class SupportStatistics(TorchFunctionMode):
    """Inside, every batch norm uses mean and variance of the first ``rows`` images of its input, differentiably.

    It catches the call to ``torch.nn.functional.batch_norm``, so it holds for any network, changes no module and no
    running statistics, and is seen by the current thread alone. ``quick``: batch norms, convolutions and
    max-pooling are those of ``models/networks/double_backward.py``, which cannot be mapped over tasks.
    """

    def __init__(self, rows: int, quick: bool = False) -> None:
        super().__init__()
        self.rows, self.quick = rows, quick

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is F.batch_norm:
            return _norm(self.rows, self.quick, *args, **(kwargs or {}))
        if self.quick and func in _QUICK:
            return _QUICK[func](*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _norm(
    rows: int,
    quick: bool,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Batch norm of [N, C, …] by the statistics of the first ``rows``; the signature is ``F.batch_norm``'s."""
    weight = input.new_ones(input.shape[1]) if weight is None else weight
    bias = input.new_zeros(input.shape[1]) if bias is None else bias
    if quick:
        return norm(input, weight, bias, eps, rows)
    over = (0, *range(2, input.dim()))
    variance, mean = torch.var_mean(input[:rows], over, correction=0)
    scale = (variance + eps).rsqrt() * weight
    shape = (-1, *[1] * (input.dim() - 2))
    return torch.addcmul((bias - mean * scale).view(shape), input, scale.view(shape))


def _conv(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Apply a convolution with ``torch.conv2d``'s signature; PyTorch does padding by a word and single images."""
    if isinstance(padding, str) or input.dim() != 4:
        return torch.conv2d(input, weight, bias, stride, padding, dilation, groups)
    window = Window(pair(stride), pair(padding), pair(dilation), groups)
    return conv(input, weight, bias, window)


def _max_pool(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Pool, with ``torch.max_pool2d``'s signature."""
    kernel = pair(kernel_size)
    pooling = Pooling(kernel, pair(stride or kernel), pair(padding), pair(dilation), ceil_mode)
    return pool(input, pooling)


_QUICK: dict[Callable[..., Any], Callable[..., Tensor]] = {torch.conv2d: _conv, torch.max_pool2d: _max_pool}


def private_copy(network: Network) -> Network:
    """Copy the modules around the same weights, in evaluation mode (no dropout).

    ``functional_call`` puts weights into a module for the length of a call, so two threads cannot share one.
    """
    tensors = [*network.parameters(), *network.buffers()]
    return copy.deepcopy(network, {id(tensor): tensor for tensor in tensors}).eval()


def has_batch_norm(network: Network) -> bool:
    """Tell whether some layer normalises over the images of a batch."""
    return any(isinstance(module, _BatchNorm) for module in network.modules())


def body_weights(network: Network) -> NamedTensors:
    """Return the weights that turn images into vectors: all but ``extras``."""
    return {name: value for name, value in network.named_parameters() if not name.startswith("extras.")}


def loop_weights(network: Network, loop: InnerLoop) -> NamedTensors:
    """Return the weights that an inner loop starts from: the body's, and the head's where its start is learned."""
    weights = body_weights(network)
    if loop.start == "learned":
        weights |= {path: network.extras[name] for path, name in zip(_IN_NETWORK, LEARNED_HEAD, strict=True)}
    return weights


def query_logits(
    network: Network,
    weights: Mapping[str, Tensor],
    loop: InnerLoop,
    support: Tensor,
    label: Tensor,
    query: Tensor,
    way: int,
) -> Tensor:
    """Run every task's inner loop from ``weights`` and score its queries, −∞ without support; [E, Q, way].

    ``network`` is a ``private_copy``, ``weights`` its ``loop_weights``; support [E, S, 3, H, W], label [E, S] in
    0…way−1, query [E, Q, 3, H, W].
    """
    alone = len(support) == 1 and support.device.type == "cpu"
    body = _Body(network, support.shape[1], has_batch_norm(network), alone)
    shared = {name: value for name, value in weights.items() if name not in _IN_NETWORK}
    if alone:  # convolutions, pooling and norms are quicker in this layout, by up to ten times
        shared = {name: _channels_last(value) for name, value in shared.items()}
        support, query = (_channels_last(images[0]).unsqueeze(0) for images in (support, query))
    learned = _learned_rows(weights, way) if loop.start == "learned" else None

    def solve(support: Tensor, label: Tensor, query: Tensor) -> Tensor:
        return _solved(body, shared, learned, loop, support, label, query, way)

    if len(support) == 1:  # mapping over a single task would only cost
        return solve(support[0], label[0], query[0]).unsqueeze(0)
    logits: Tensor = vmap(solve)(support, label, query)
    return logits


def _channels_last(values: Tensor) -> Tensor:
    """Put images or kernels into channels-last layout; other tensors stay."""
    return values.contiguous(memory_format=torch.channels_last) if values.dim() == 4 else values


def _learned_rows(weights: Mapping[str, Tensor], way: int) -> LinearHead:
    """Return the learned start of the head for ``way`` classes; UserError where it was learned for fewer."""
    weight, bias = (weights[name] for name in _IN_NETWORK)
    if way > len(weight):
        raise UserError(
            f"The network's head was learned for tasks of up to {len(weight)} classes, and this one has {way}; train "
            "it for more, or let the head start at zero (head='zero')."
        )
    return weight[:way], bias[:way]


@dataclass(frozen=True)
class _Body:
    """Images to vectors with given weights; batch norm by the task's support, the first ``rows`` images."""

    network: Network
    rows: int
    normed: bool
    alone: bool  # one task by itself on a CPU

    def __call__(self, weights: NamedTensors, images: Tensor) -> Tensor:
        with SupportStatistics(self.rows, quick=self.alone) if self.normed or self.alone else nullcontext():
            vectors: Tensor = functional_call(self.network, weights, (images,))
        return vectors

    def both(self, weights: NamedTensors, support: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """Compute vectors of support and queries in one pass."""
        vectors = self(weights, torch.cat((support, query)))
        return vectors[: self.rows], vectors[self.rows :]

    def queries(self, weights: NamedTensors, support: Tensor, query: Tensor) -> Tensor:
        """Compute vectors of the queries; the support comes along where its statistics are needed."""
        return self.both(weights, support, query)[1] if self.normed else self(weights, query)


def _solved(
    body: _Body,
    weights: NamedTensors,
    learned: LinearHead | None,
    loop: InnerLoop,
    support: Tensor,
    label: Tensor,
    query: Tensor,
    way: int,
) -> Tensor:
    """Solve one task as ``query_logits`` does; ``learned``: the start of the head, where it is learned. [Q, way]."""
    absent = F.one_hot(label, way).sum(0) == 0
    if loop.moves == "head":
        vectors, query_vectors = body.both(weights, support, query)
        head = _moved_head(learned or _start(loop, vectors, label, way), loop, vectors, label, absent)
        return _logits(head, query_vectors, absent)
    needs_start = loop.start == "prototypes"
    # A head that starts at zero or was learned does not depend on θ: no pass over the support is needed to know it.
    vectors = body(weights, support) if needs_start else support.new_zeros(1, body.network.dim)
    head = learned or _start(loop, vectors, label, way)
    if loop.second_order:
        weights, head = _moved(body, weights, head, loop, support, label, absent)
    else:
        with torch.no_grad():
            new_weights, new_head = _moved(body, weights, head, loop, support, label, absent)
        weights = {name: _shifted(value, new_weights[name]) for name, value in weights.items()}
        head = (_shifted(head[0], new_head[0]), _shifted(head[1], new_head[1]))
    return _logits(head, body.queries(weights, support, query), absent)


def _shifted(start: Tensor, end: Tensor) -> Tensor:
    """Return ``end`` by value with ∂/∂start = 1: the way between them counts as a constant."""
    return start + (end - start).detach()


def _start(loop: InnerLoop, vectors: Tensor, label: Tensor, way: int) -> LinearHead:
    """Start the head at zero or at the prototypes; vectors [S, d], label [S]."""
    if loop.start == "zero":
        return vectors.new_zeros(way, vectors.shape[1]), vectors.new_zeros(way)
    means = prototypes(vectors, label, way)
    return 2 * means, -means.square().sum(1)


def _logits(head: LinearHead, vectors: Tensor, absent: Tensor) -> Tensor:
    """Compute vectors Wᵀ + b, −∞ for classes without support; [N, way]."""
    return (vectors @ head[0].T + head[1]).masked_fill(absent, float("-inf"))


def _head_slopes(
    head: LinearHead, vectors: Tensor, label: Tensor, absent: Tensor
) -> tuple[LinearHead, Tensor]:
    """Compute the gradient of the support's mean cross-entropy to (W, b) and to the vectors [S, d].

    With δ = (softmax(z Wᵀ + b) − y) / S: δᵀ z, Σ δ and δ W.
    """
    logits = _logits(head, vectors, absent)
    delta = (logits.softmax(1) - F.one_hot(label, logits.shape[1])) / len(vectors)
    return (delta.T @ vectors, delta.sum(0)), delta @ head[0]


def _moved_head(
    head: LinearHead, loop: InnerLoop, vectors: Tensor, label: Tensor, absent: Tensor
) -> LinearHead:
    """Move the head by all steps on fixed vectors [S, d]."""
    for _ in range(loop.steps):
        slope, _ = _head_slopes(head, vectors, label, absent)
        if not loop.second_order:
            slope = (slope[0].detach(), slope[1].detach())
        head = _descended(head, slope, loop.lr)
    return head


def _moved(
    body: _Body,
    weights: NamedTensors,
    head: LinearHead,
    loop: InnerLoop,
    support: Tensor,
    label: Tensor,
    absent: Tensor,
) -> tuple[NamedTensors, LinearHead]:
    """Move weights and head by all steps.

    At a zero head the loss does not depend on the vectors, ∂L/∂z = (p − y) W / S = 0: the first step moves the head
    alone, and the second uses the vectors of the first. The same numbers as without the shortcut, one pass fewer.
    """
    pull: Pull | None = None
    for step in range(loop.steps):
        if pull is None:
            vectors, pull = _with_pull(body, weights, support)
        slope, back = _head_slopes(head, vectors, label, absent)
        head = _descended(head, slope, loop.lr)
        if step == 0 and loop.start == "zero":
            continue
        down = pull(back)
        weights = {name: value - loop.lr * down[name] for name, value in weights.items()}
        pull = None
    return weights, head


def _with_pull(body: _Body, weights: NamedTensors, support: Tensor) -> tuple[Tensor, Pull]:
    """Compute the support's vectors [S, d] and the way back from a gradient on them to one on the weights."""
    if body.alone:
        return _with_plain_pull(body, weights, support)
    results: Any = vjp(lambda moving: body(moving, support), weights)  # its type covers auxiliary results too
    vectors, pull = results
    return vectors, lambda back: pull(back)[0]


def _with_plain_pull(body: _Body, weights: NamedTensors, support: Tensor) -> tuple[Tensor, Pull]:
    """Do the same by ordinary autograd, which is differentiated again where gradients are tracked."""
    again = torch.is_grad_enabled()
    if not again:
        weights = {name: value.detach().requires_grad_() for name, value in weights.items()}
    with torch.enable_grad():
        vectors = body(weights, support)

    def pull(back: Tensor) -> NamedTensors:
        slopes = torch.autograd.grad(
            vectors, tuple(weights.values()), back, create_graph=again, materialize_grads=True
        )
        return dict(zip(weights, slopes, strict=True))

    return vectors if again else vectors.detach(), pull


def _descended(head: LinearHead, slope: LinearHead, lr: float) -> LinearHead:
    return head[0] - lr * slope[0], head[1] - lr * slope[1]
