"""Training on batches of images: ordinary cross-entropy, an ensemble that weighs itself, and MetaDelta++."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from longshot.base import Episode, UserError, choice_field, count_field, number_field, with_settings
from longshot.models import Ensemble, Network, ProtoNet, last_stages, padded_batches
from longshot.training.base import Algorithm, ImageBatch, ParameterGroup, Step, TrainingDefaults
from longshot.training.training_images import QUARTERS, turned

if TYPE_CHECKING:
    from longshot.training.training_episodes import Validation


@with_settings
class Multiclass(Algorithm):
    """L = −log softmax(W f(x) + b) over the train classes, or over scale · cos(f(x), W_c) with ``head='cosine'``.

    ``smoothing`` moves that share of the target to all classes alike. The head is not saved with the network.
    """

    name: ClassVar[str] = "multiclass"
    paper: ClassVar[str] = "Chen et al. 2019; Tian et al. 2020"
    episodic: ClassVar[bool] = False
    recipe: ClassVar[TrainingDefaults] = TrainingDefaults(optimiser="adam(lr=0.001)", batch=64, epochs=200)
    recipes: ClassVar[Mapping[str, TrainingDefaults]] = {
        "semantic": TrainingDefaults(
            optimiser="sgd(lr=0.1, momentum=0.9, weight_decay=0.0005)",
            schedule="step(at=[0.7, 0.9, 0.96], factor=0.1)",
            batch=512,
            epochs=500,
            augment="crop(8)|flip|jitter(0.4)",
        ),
    }

    head: str = choice_field("linear", "linear", "cosine")
    scale: float = number_field(10.0, above=0)
    smoothing: float = number_field(0.0)

    def extras(self, network: Network, classes: int) -> Mapping[str, Tensor]:
        """Start the head: W [C, d], uniform in ±1/√d as a linear layer starts, and b [C] of zeros."""
        bound = network.dim**-0.5
        head = {"head_weight": torch.empty(classes, network.dim).uniform_(-bound, bound)}
        return head if self.head == "cosine" else {**head, "head_bias": torch.zeros(classes)}

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Mean over the images."""
        assert isinstance(data, ImageBatch)
        vectors = network(data.images).float()
        weight = network.extras["head_weight"]
        if self.head == "cosine":
            logits = self.scale * functional.linear(
                functional.normalize(vectors, dim=1), functional.normalize(weight, dim=1)
            )
        else:
            logits = functional.linear(vectors, weight, network.extras["head_bias"])
        loss = functional.cross_entropy(logits, data.labels, label_smoothing=self.smoothing)
        return Step(loss, (logits.detach().argmax(1) == data.labels).float().mean())


_ROUNDS = 20  # of greedy selection; weights are multiples of 1/rounds kept


@with_settings
class AutoEnsemble(Algorithm):
    """L = mean over the members of −log softmax(W f(x)) of the class + ``rotation`` · that of the quarter turn.

    This is MetaDelta as the Cross-Domain MetaDL paper describes it, an ensemble that weighs itself; ``metadelta`` is
    what the winners' MetaDelta++ runs. Every member sees every image of the batch in an orientation drawn for it alone,
    and has a head for the train classes and one for the four orientations. Before each validation the members' weights
    are chosen on the validation tasks (``choose_weights``). ``members``: how many copies of the network, from different
    random weights; a network that is an ensemble already is taken as it is.
    """

    name: ClassVar[str] = "autoensemble"
    paper: ClassVar[str] = "Chen et al. 2021"
    episodic: ClassVar[bool] = False
    recipe: ClassVar[TrainingDefaults] = TrainingDefaults(
        optimiser="adam(lr=0.001)", batch=64, steps=10_000, augment="crop(8)|flip", clip=5.0
    )

    members: int = count_field(3, least=1)
    rotation: float = number_field(1.0)

    def network(self, call: str) -> str:
        """Return the call of an ensemble of ``members`` such networks."""
        return call if call.startswith("ensemble") else f"ensemble(of={call!r}, members={self.members})"

    def extras(self, network: Network, classes: int) -> Mapping[str, Tensor]:
        """Start per member m head_m [C, d] over the classes and head_turn_m [4, d], uniform in ±1/√d."""
        heads = {}
        for number, member in enumerate(members(network)):
            bound = member.dim**-0.5
            heads[f"head_{number}"] = torch.empty(classes, member.dim).uniform_(-bound, bound)
            heads[f"head_turn_{number}"] = torch.empty(QUARTERS, member.dim).uniform_(-bound, bound)
        return heads

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Mean over members and images; the accuracy is that of the members' mean probabilities."""
        assert isinstance(data, ImageBatch)
        if data.images.shape[2] != data.images.shape[3]:
            raise UserError(
                f"autoensemble turns images by 90 degrees, so they must be square, not {data.images.shape[2]} × "
                f"{data.images.shape[3]}; end the preprocessing with central_crop({min(data.images.shape[2:])})."
            )
        losses, votes = [], []
        for number, member in enumerate(members(network)):
            # The global generator is seeded by the step: a resumed run turns the same images.
            turns = torch.randint(QUARTERS, (len(data.labels),)).to(data.images.device)
            vectors = member(turned(data.images, turns)).float()
            logits = functional.linear(vectors, network.extras[f"head_{number}"])
            aside = functional.linear(vectors, network.extras[f"head_turn_{number}"])
            loss = functional.cross_entropy(logits, data.labels)
            losses.append(loss + self.rotation * functional.cross_entropy(aside, turns))
            votes.append(logits.detach().softmax(1))
        right = torch.stack(votes).mean(0).argmax(1) == data.labels
        return Step(torch.stack(losses).mean(), right.float().mean())

    def settle(self, network: Network, validation: Validation) -> None:
        """Choose the members' weights on the validation tasks."""
        if isinstance(network, Ensemble) and len(network.dims) > 1:
            network.weights.copy_(choose_weights(network, validation))


def members(network: Network) -> list[Network]:
    """List the networks of an ensemble, or the network itself."""
    return network.each() if isinstance(network, Ensemble) else [network]


def choose_weights(network: Ensemble, validation: Validation) -> Tensor:
    """Choose the weights [M] with the best accuracy of nearest class means on the validation tasks.

    Greedy selection with replacement (Caruana et al. 2004): a member is added 20 times over, each time the one that
    helps most, and the best of the 20 mixtures is taken, or equal weights where none is better. The scores of the joint
    vectors are the weighted sums of the members' own, so every member is run once.
    """
    network.weights.fill_(1.0)  # members side by side, unweighted
    nearest = ProtoNet()
    tasks, gatherer = validation.by_features(network, network.dims)
    with torch.no_grad():
        pieces = [
            (torch.stack([nearest.scores(view) for view in batch.split()]), targets, batch.query_mask)
            for _, batch, targets in padded_batches(tasks, nearest, gatherer)
        ]
    return select(pieces, len(network.dims)).to(network.weights)


def select(pieces: Sequence[tuple[Tensor, Tensor, Tensor]], count: int) -> Tensor:
    """Choose weights [M] from members' scores [M, B, Q, W] with targets [B, Q] and masks [B, Q] of pieces of tasks."""

    def accuracy(weights: Tensor) -> float:
        total, tasks = 0.0, 0
        for scores, targets, mask in pieces:
            mixed = torch.einsum("m,mbqw->bqw", weights.to(scores), scores.nan_to_num(neginf=-1e30))
            right = ((mixed.argmax(2) == targets) & mask).sum(1) / mask.sum(1)
            total, tasks = total + float(right.sum()), tasks + len(right)
        return total / tasks

    equal = torch.full((count,), 1 / count)
    best, weights = accuracy(equal), equal
    votes = torch.zeros(count)
    for round_ in range(1, _ROUNDS + 1):
        tried = [accuracy((votes + vote) / round_) for vote in torch.eye(count)]
        chosen = max(range(count), key=lambda m: tried[m])
        votes[chosen] += 1
        if tried[chosen] > best:
            best, weights = tried[chosen], votes / round_
    return weights


MOMENTUM = 0.1  # of the running statistics of batch norms
LAYERS = 3  # of the perceptron


@with_settings
class MetaDelta(Algorithm):
    """L = −log softmax(MLP(f(x))) of the class, for the last ``stages`` of f and a perceptron d → d/2 → d/2 → classes.

    What comes before those stages keeps its weights and its running statistics. The perceptron learns ``head_rate``
    times as fast as the network and is thrown away afterwards: tasks are solved by the decoder (the method
    ``metadelta``). A step adds up the gradients of ten batches of 64. The network that did best on validation tasks is
    kept, the one that training starts from among them.
    """

    name: ClassVar[str] = "metadelta"
    paper: ClassVar[str] = "Chen et al. 2021"
    episodic: ClassVar[bool] = False
    method = "metadelta"
    judges_start: ClassVar[bool] = True
    validation_shape: ClassVar[tuple[int, int, int]] = (5, 5, 5)
    recipe: ClassVar[TrainingDefaults] = TrainingDefaults(
        optimiser="adam(lr=0.0001)",
        batch=640,
        part=64,
        steps=2_000,
        augment="crop(16)|flip",
        clip=5.0,
        validate_every=5,
    )

    stages: int = count_field(2, least=1)
    head_rate: float = number_field(10.0, above=0)

    def begin(self, network: Network) -> None:
        """Freeze all but the last stages; all batch norms get the momentum of the winners' code."""
        network.requires_grad_(False)
        for block in last_stages(network, self.stages):
            block.requires_grad_(True)
        network.extras.requires_grad_(True)
        for module in network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.momentum = MOMENTUM

    def extras(self, network: Network, classes: int) -> Mapping[str, Tensor]:
        """Start the perceptron's weights (Xavier, uniform) and biases (0), layer by layer: head_w0, head_b0, …"""
        widths = (network.dim, network.dim // 2, network.dim // 2, classes)
        layers: dict[str, Tensor] = {}
        for number in range(LAYERS):
            weight = torch.empty(widths[number + 1], widths[number])
            layers[f"head_w{number}"] = nn.init.xavier_uniform_(weight)
            layers[f"head_b{number}"] = torch.zeros(widths[number + 1])
        return layers

    def groups(self, network: Network) -> list[ParameterGroup]:
        """Train the network's last stages at the optimiser's rate, the perceptron at ``head_rate`` times that."""
        head = {id(parameter) for parameter in network.extras.parameters()}
        trained = [p for p in network.parameters() if p.requires_grad and id(p) not in head]
        return [ParameterGroup(trained, 1.0), ParameterGroup([*network.extras.parameters()], self.head_rate)]

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Mean cross-entropy over the batch."""
        assert isinstance(data, ImageBatch)
        hold_frozen(network)
        logits = perceptron(network, network(data.images).float())
        right = logits.detach().argmax(1) == data.labels
        return Step(functional.cross_entropy(logits, data.labels), right.float().mean())


def perceptron(network: Network, vectors: Tensor) -> Tensor:
    """Score vectors [B, d] by the perceptron among the network's extras, ReLU between its layers; [B, C]."""
    for number in range(LAYERS):
        weight, bias = (network.extras[f"head_{kind}{number}"] for kind in "wb")
        vectors = functional.linear(vectors if number == 0 else vectors.relu(), weight, bias)
    return vectors


def hold_frozen(network: Network) -> None:
    """Put what is frozen into evaluation mode: its running statistics stay as they are."""
    for module in network.modules():
        parameters = list(module.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            module.eval()


class TimeBudget:
    """Time from now on; ``has_room`` before each round of work ends it before it is overdrawn.

    Parameters
    ----------
    seconds : float
        How long the work may take.
    clock : callable
        Gives the time in seconds.

    Examples
    --------
    >>> moments = iter([0.0, 1.0, 5.0, 8.0])  # made at 0; rounds begin at 1 and 5 and would begin at 8
    >>> budget = TimeBudget(11, clock=lambda: next(moments))
    >>> budget.has_room(), budget.has_room(), budget.has_room()
    (True, True, False)
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.end = clock, clock() + seconds
        self.round_began: float | None = None
        self.longest = 0.0

    def has_room(self) -> bool:
        """Tell whether a round as long as the longest so far would end in time; the next one begins now."""
        now = self.clock()
        if self.round_began is not None:
            self.longest = max(self.longest, now - self.round_began)
        self.round_began = now
        return now + self.longest < self.end
