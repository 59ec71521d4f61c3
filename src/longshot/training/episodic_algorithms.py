"""Training on episodes: nearest class means (also difficult episodes), matching, attention (CTX), and MAML's family."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from longshot.base import (
    PROTOTYPE_SCALES,
    Episode,
    TaskPlan,
    TaskRows,
    UserError,
    check_declared,
    choice_field,
    count_field,
    format_call,
    number_field,
    prototype_scores,
    prototypes,
    with_settings,
)
from longshot.models import (
    CTX_KEY,
    CTX_VALUE,
    LEARNED_HEAD,
    HeadStart,
    InnerLoop,
    Moves,
    Network,
    ctx_heads,
    ctx_scores,
    has_batch_norm,
    loop_weights,
    private_copy,
    query_logits,
    tasks_at_once,
)
from longshot.tasks import DifficultInstances, Judge, Pool, Streams
from longshot.training.base import EpisodicAlgorithm, ImageBatch, Step, TrainingDefaults, embed
from longshot.training.training_images import parse_augmentation

if TYPE_CHECKING:
    from longshot.models import Features
    from longshot.tasks import Instances


@with_settings
class ProtoNetTraining(EpisodicAlgorithm):
    """L = −log softmax over w of −scale · ‖q − p_w‖², mean over the queries; every episode on its own.

    The published network compares in squared Euclidean distance; ``distance='cosine'`` with scale 10 is the variant
    of later papers.
    """

    name: ClassVar[str] = "protonet"
    paper: ClassVar[str] = "Snell et al. 2017"
    recipes: ClassVar[Mapping[str, TrainingDefaults]] = {
        "pmf": TrainingDefaults(
            optimiser="sgd(lr=0.0005, momentum=0.9)", schedule="cosine", batch=1, steps=10_000
        ),
    }

    way: int = count_field(5, least=2)
    shot: int = count_field(5, least=1)
    query: int = count_field(10, least=1)
    distance: str = choice_field("euclidean", *PROTOTYPE_SCALES)
    scale: float | None = number_field(None, above=0)

    @property
    def method(self) -> str:
        """Name the same classifier for validation tasks."""
        settings = {"distance": self.distance, "scale": self.scale}
        return format_call("protonet", settings, {"distance": "euclidean", "scale": None})

    def logits(self, network: Network, episode: Episode) -> Tensor:
        """Score the queries by the prototype classifier; [Q, way]."""
        support, query = embed(network, episode)
        means = prototypes(support, episode.support_label, episode.way)
        return prototype_scores(query, means, distance=self.distance, scale=self.scale)


@with_settings
class Matching(EpisodicAlgorithm):
    """L = −log p(w | q), p(w | q) = Σ over support x of class w of softmax_x(scale · cos(q, x)).

    Without the paper's full context embeddings (recurrent encoders over the support), as most later comparisons.
    """

    name: ClassVar[str] = "matching"
    paper: ClassVar[str] = "Vinyals et al. 2016"

    way: int = count_field(5, least=2)
    shot: int = count_field(5, least=1)
    query: int = count_field(10, least=1)
    scale: float = number_field(10.0, above=0)

    @property
    def method(self) -> str:
        """Name the same classifier for validation tasks."""
        return format_call("matching", {"scale": self.scale}, {"scale": 10.0})

    def logits(self, network: Network, episode: Episode) -> Tensor:
        """Compute log p(w | q); [Q, way]."""
        support, query = embed(network, episode)
        similar = self.scale * functional.normalize(query, dim=1) @ functional.normalize(support, dim=1).T
        attention = similar.log_softmax(1)  # [Q, S]
        members = functional.one_hot(episode.support_label, episode.way).bool().T  # [way, S]
        spread = attention.unsqueeze(1).masked_fill(~members, float("-inf"))  # [Q, way, S]
        return torch.logsumexp(spread, 2)


@dataclass(frozen=True, eq=False)
class Mixed:
    """A share of the tasks gets the support that is difficult for its queries, the others keep a uniform one."""

    difficult: DifficultInstances
    share: float
    name: ClassVar[str] = "mixed"

    @property
    def features_hash(self) -> str | None:
        """Hash of the features that difficulty is judged by."""
        return self.difficult.features_hash

    def draw(self, streams: Streams, pool: Pool, plan: TaskPlan) -> TaskRows:
        """Draw the queries of the uniform tasks and, task by task, one of the two supports."""
        hard = self.difficult.draw(streams, pool, plan)
        uniform = self.difficult.base.draw(streams, pool, plan)
        chosen = streams.stage("mix").uniform() < self.share
        order = np.where(chosen, np.arange(len(plan)), len(plan) + np.arange(len(plan)))
        mixed = TaskRows.concat([replace(rows, measured={}) for rows in (hard, uniform)]).take(order)
        return mixed.with_measured({"difficult": chosen})


@with_settings
class Adversarial(ProtoNetTraining):
    """ProtoNet's loss; a ``difficult`` share of the episodes has the support that FastDiffSel finds.

    FastDiffSel takes, for the episode's queries, the support images on which the present network's prototypes fail:
    every ``every`` steps all train images are embedded anew and the episodes until the next time are chosen.

    ``judge`` names networks that choose beside the one that learns ("BACKBONE:METHOD", or a list), ``judging`` says how
    the losses are combined, and ``difficulty`` is the dial from 0 (uniform supports) to 1, as in ``longshot.sample``.
    """

    name: ClassVar[str] = "adversarial"
    paper: ClassVar[str] = "Basu et al. 2023"
    recipes: ClassVar[Mapping[str, TrainingDefaults]] = {}

    difficult: float = number_field(0.5)
    every: int = count_field(200, least=1)
    difficulty: float = number_field(1.0)
    judge: str | list[str] | None = None
    judging: Literal["mean", "worst", "least"] = choice_field("mean", "mean", "worst", "least")

    def __post_init__(self) -> None:
        check_declared(self)
        if self.difficulty > 1:
            raise UserError(f"{self.name}'s difficulty is {self.difficulty}, but must lie between 0 and 1.")
        if not isinstance(self.judges, list) or not all(isinstance(name, str) for name in self.judges):
            raise UserError(
                f"{self.name}'s judge is {self.judge!r}, but must be a backbone or a list of backbones."
            )

    @property
    def refresh(self) -> int:
        """Return the steps between two choices."""
        return self.every

    @property
    def judges(self) -> list[str]:
        """List the networks that judge beside the one that is trained."""
        return [self.judge] if isinstance(self.judge, str) else self.judge or []

    def instances(self, features: Features, judges: Sequence[Judge] = ()) -> Instances:
        """Choose difficult supports for a share of the episodes, judged by the network itself and by ``judges``."""
        chooser = DifficultInstances(
            [Judge(features), *judges],
            judging=self.judging,
            difficulty=self.difficulty,
            objective="error",
            greedy=0,
        )
        return Mixed(chooser, self.difficult)


# SimCLR's: crops of at least 8 % of the area (0.28 of a side), flips, colour; its blur and hue are left out.
SIMCLR = "zoom(0.28)|flip|jitter(0.8)|grey(0.2)"


@with_settings
class CTXTraining(EpisodicAlgorithm):
    """L = −log softmax over c of −1/n Σ_p ‖t_p − w_p‖² (``models/methods/ctx.py``), mean over the queries.

    With probability ``simclr`` an episode becomes a SimCLR episode: every support image is a class of its own, the
    queries are as many of the same images per class as there were queries, and all of them are augmented strongly, each
    on its own. Such episodes keep the network from forgetting whatever does not tell the train classes apart.
    ``width``: numbers per key and per value.
    """

    name: ClassVar[str] = "ctx"
    method = "ctx"
    paper: ClassVar[str] = "Doersch et al. 2020"
    recipe: ClassVar[TrainingDefaults] = TrainingDefaults(optimiser="adam(lr=0.0006)", batch=1, steps=10_000)

    way: int = count_field(5, least=2)
    shot: int = count_field(5, least=1)
    query: int = count_field(10, least=1)
    width: int = count_field(128, least=1)
    simclr: float = number_field(0.5)

    def __post_init__(self) -> None:
        check_declared(self)
        if self.simclr > 1:
            raise UserError(
                f"ctx's simclr is {self.simclr!r}; it is the share of SimCLR episodes, from 0 to 1."
            )

    def extras(self, network: Network, classes: int) -> Mapping[str, Tensor]:
        """Start key and value head [width, channels of the maps] as linear layers start, or as they were learned."""
        if CTX_KEY in network.extras and len(network.extras[CTX_KEY]) == self.width:
            return {name: network.extras[name].detach() for name in (CTX_KEY, CTX_VALUE)}
        training = network.training
        with torch.no_grad():
            channels = int(network.eval().maps(torch.zeros(1, 3, *network.size)).shape[1])
        network.train(training)
        return {name: nn.Linear(channels, self.width).weight.detach() for name in (CTX_KEY, CTX_VALUE)}

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Mean over the episodes, some of them turned into SimCLR's."""
        assert not isinstance(data, ImageBatch)
        # The global generator is seeded by the step, so a resumed run turns the same episodes into SimCLR's.
        changed = [
            simclr_episode(episode) if float(torch.rand(())) < self.simclr else episode for episode in data
        ]
        return super().loss(network, changed)

    def logits(self, network: Network, episode: Episode) -> Tensor:
        """Score the queries by attention between places; [Q, way]."""
        keys, values = ctx_heads(network, network.maps(torch.cat([episode.support, episode.query])).float())
        rows = len(episode.support)
        return ctx_scores(
            keys[:rows], values[:rows], episode.support_label, keys[rows:], values[rows:], episode.way
        )


def simclr_episode(episode: Episode) -> Episode:
    """Turn every support image into a class of its own; queries are other views of each class's first images.

    An image that was a query takes no part. Of a class with q queries the first q support images are asked for.
    """
    rank = _rank_in_class(episode.support_label, episode.way)
    queries = torch.bincount(episode.query_label, minlength=episode.way)
    queried = (rank < queries[episode.support_label]).nonzero().squeeze(1)
    low, high = (edge(episode.support, dim=(0, 2, 3), keepdim=True) for edge in (torch.amin, torch.amax))
    # Images come scaled for the network; colour changes are meant for values from black (0) to white (1).
    plain = (episode.support - low) / (high - low).clamp(min=1e-6)
    generator = Generator().manual_seed(int(torch.randint(2**62, ())))
    views = parse_augmentation(SIMCLR)(torch.cat([plain, plain[queried]]), generator) * (high - low) + low
    count = len(plain)
    everyone = torch.arange(count, device=queried.device)
    return Episode(views[:count], everyone, views[count:], count, query_label=queried)


def _rank_in_class(label: Tensor, way: int) -> Tensor:
    """Count the earlier images of the same class; [S]."""
    one_hot = nn.functional.one_hot(label, way)
    return (one_hot.cumsum(0) * one_hot).sum(1) - 1


# ---- MAML and its relatives: weights from which a few gradient steps on a support solve the task


class _InnerLoops(EpisodicAlgorithm):
    """The query loss after an inner loop on the support, averaged over the episodes of a step."""

    moves: ClassVar[Moves] = "all"
    start: HeadStart = "zero"
    second_order: ClassVar[bool] = True

    steps: int
    lr: float
    way: int

    @property
    def loop(self) -> InnerLoop:
        """Return the inner loop in training."""
        return InnerLoop(self.steps, self.lr, self.moves, self.start, self.second_order)

    def extras(self, network: Network, classes: int) -> Mapping[str, Tensor]:
        """Return ``inner`` = [lr, steps], so that methods repeat the loop of the training; it is never trained.

        With a learned start of the head its weights and biases for ``way`` classes, which are.
        """
        extras = {"inner": torch.tensor([self.lr, float(self.steps)])}
        if self.start == "learned":
            former = [network.extras[name].detach() for name in LEARNED_HEAD if name in network.extras]
            if not former or len(former[0]) != self.way:
                former = [value.detach() for value in torch.nn.Linear(network.dim, self.way).parameters()]
            extras |= dict(zip(LEARNED_HEAD, former, strict=True))
        return extras

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Mean over the episodes; see ``meta_step``."""
        assert not isinstance(data, ImageBatch)
        return meta_step(network, self.loop, data)


@with_settings
class MAMLTraining(_InnerLoops):
    """Model-agnostic meta-learning, differentiated through the inner steps (second order).

    ``head``: where the head of every task starts. 'zero', for any number of classes in any order, or 'learned': one
    for ``way`` classes is meta-learned with the network, as in the paper.
    """

    name = "maml"
    paper = "Finn et al. 2017"
    method = "maml"
    recipe = TrainingDefaults(optimiser="adam(lr=0.001)", batch=2, steps=10_000)

    steps: int = count_field(5, least=1)
    lr: float = number_field(0.01, above=0)
    head: HeadStart = choice_field("zero", "zero", "learned")
    way: int = count_field(5, least=2)
    shot: int = count_field(5, least=1)
    query: int = count_field(10, least=1)

    def __post_init__(self) -> None:
        check_declared(self)
        self.start = self.head


class FOMAML(MAMLTraining):
    """MAML that takes the inner steps for a constant move: no second derivatives."""

    name = "fomaml"
    second_order = False


class ANILTraining(MAMLTraining):
    """Almost no inner loop: the steps move the head alone, differentiated through (second order)."""

    name = "anil"
    paper = "Raghu et al. 2020"
    method = "anil"
    moves = "head"


@with_settings
class ProtoMAMLTraining(_InnerLoops):
    """FO-MAML whose head starts as the prototype classifier: W = 2p, b = −‖p‖²; p is differentiated through."""

    name = "protomaml"
    paper = "Triantafillou et al. 2020"
    method = "protomaml"
    start = "prototypes"
    second_order = False
    recipe = TrainingDefaults(optimiser="adam(lr=0.0004)", batch=1, steps=10_000)

    steps: int = count_field(10, least=1)
    lr: float = number_field(0.0054, above=0)
    way: int = count_field(5, least=2)
    shot: int = count_field(5, least=1)
    query: int = count_field(10, least=1)


# ---- the gradient of a meta-step: groups of tasks side by side, on as many threads as PyTorch may use


class _Part(NamedTuple):
    loss: Tensor  # sum over the group's tasks of the mean query loss
    right: Tensor  # sum over tasks of the share of queries that are right
    gradients: tuple[Tensor, ...]


class _Computed(torch.autograd.Function):
    """A loss whose gradients are known already: backward hands them out."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, gradients: Sequence[Tensor], *weights: Tensor) -> Tensor:
        ctx.save_for_backward(*gradients)
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        return None, None, *(slopes[0] * gradient for gradient in ctx.saved_tensors)


def meta_step(
    network: Network, loop: InnerLoop, episodes: Sequence[Episode], *, together: int | None = None
) -> Step:
    """Mean over the episodes of the query loss after the inner loop, with its gradient; accuracy on the queries.

    Episodes of equal shape are computed ``together``, as many as suit the device. The graph through an inner loop is
    large, so it is differentiated and freed group by group; on a CPU groups run on threads of their own. The running
    statistics of batch norms, which the inner loop does not use, follow the supports, so that the network also serves
    as a frozen backbone.
    """
    weights = loop_weights(network, loop)
    device = next(iter(weights.values())).device
    groups = list(_groups(episodes, together or tasks_at_once(device)))
    threads = min(len(groups), torch.get_num_threads()) if device.type == "cpu" else 1
    copies = [private_copy(network) for _ in range(threads)]

    def work(first: int) -> list[_Part]:
        # Every thread takes every threads-th group, with a network of its own: functional_call is not shared.
        if threads > 1:
            torch.set_num_threads(1)
        return [_part(copies[first], weights, loop, group) for group in groups[first::threads]]

    if threads == 1:
        parts = work(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            by_thread = list(pool.map(work, range(threads)))
        parts = [by_thread[number % threads][number // threads] for number in range(len(groups))]
    _follow(network, episodes)
    gradients = [
        torch.stack(alike).sum(0) / len(episodes)
        for alike in zip(*(part.gradients for part in parts), strict=True)
    ]
    loss = torch.stack([part.loss for part in parts]).sum() / len(episodes)
    right = torch.stack([part.right for part in parts]).sum() / len(episodes)
    computed: Any = _Computed
    return Step(computed.apply(loss, gradients, *weights.values()), right)


def _groups(episodes: Sequence[Episode], most: int) -> Iterator[list[Episode]]:
    """Group episodes of equal shape, at most ``most`` together, in the order of their first one."""
    shapes: dict[tuple[int, int, int], list[Episode]] = defaultdict(list)
    for episode in episodes:
        shapes[len(episode.support), len(episode.query), episode.way].append(episode)
    for alike in shapes.values():
        for start in range(0, len(alike), most):
            yield alike[start : start + most]


def _part(network: Network, weights: dict[str, Tensor], loop: InnerLoop, group: Sequence[Episode]) -> _Part:
    """Compute loss, accuracy and gradients of one group."""
    support, label, query, target = (
        torch.stack([getattr(episode, name) for episode in group])
        for name in ("support", "support_label", "query", "query_label")
    )
    logits = query_logits(network, weights, loop, support, label, query, group[0].way)
    loss = functional.cross_entropy(logits.flatten(0, 1), target.flatten()) * len(group)
    gradients = torch.autograd.grad(loss, tuple(weights.values()), materialize_grads=True)
    right = (logits.detach().argmax(2) == target).float().mean(1).sum()
    return _Part(loss.detach(), right, gradients)


def _follow(network: Network, episodes: Sequence[Episode]) -> None:
    """Let the running statistics of batch norms follow the supports at the shared weights."""
    if network.training and has_batch_norm(network):
        with torch.no_grad():
            images = torch.cat([episode.support for episode in episodes])
            network(images.contiguous(memory_format=torch.channels_last))  # quicker by half on a CPU
