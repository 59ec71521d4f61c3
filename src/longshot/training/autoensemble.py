"""An ensemble trained on batches, told to see rotations too, its members weighted on validation tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from longshot.base import Episode, UserError, count_field, number_field, with_settings
from longshot.models import Ensemble, Network, ProtoNet, batches
from longshot.training.base import Algorithm, ImageBatch, Step, TrainingDefaults
from longshot.training.images import QUARTERS, turned
from longshot.training.validation import Validation

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
        """An ensemble of ``members`` such networks."""
        return call if call.startswith("ensemble") else f"ensemble(of={call!r}, members={self.members})"

    def extras(self, network: Network, classes: int) -> Mapping[str, Tensor]:
        """Per member m: head_m [C, d] over the classes and head_turn_m [4, d], uniform in ±1/√d."""
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
    """The networks of an ensemble, or the network itself."""
    return network.each() if isinstance(network, Ensemble) else [network]


def choose_weights(network: Ensemble, validation: Validation) -> Tensor:
    """[M] weights with the best accuracy of nearest class means on the validation tasks.

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
            for _, batch, targets in batches(tasks, nearest, gatherer)
        ]
    return select(pieces, len(network.dims)).to(network.weights)


def select(pieces: Sequence[tuple[Tensor, Tensor, Tensor]], count: int) -> Tensor:
    """[M] weights from members' scores [M, B, Q, W] with targets [B, Q] and masks [B, Q] of pieces of the tasks."""

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
