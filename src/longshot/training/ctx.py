"""CrossTransformers: episodes solved by attention between places; half of them tell images apart, not classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from longshot.base import Episode, UserError, check_declared, count_field, number_field, with_settings
from longshot.models import CTX_KEY, CTX_VALUE, Network, ctx_heads, ctx_scores
from longshot.training.augment import parse
from longshot.training.base import EpisodicAlgorithm, ImageBatch, Step, TrainingDefaults

# SimCLR's: crops of at least 8 % of the area (0.28 of a side), flips, colour; its blur and hue are left out.
SIMCLR = "zoom(0.28)|flip|jitter(0.8)|grey(0.2)"


@with_settings
class CTXTraining(EpisodicAlgorithm):
    """L = −log softmax over c of −1/n Σ_p ‖t_p − w_p‖² (``models/methods/meta_trained.py``), mean over the queries.

    With probability ``simclr`` an episode becomes a SimCLR episode: every support image is a class of its own, the
    queries are as many of the same images per class as there were queries, and all of them are augmented strongly, each
    on its own. Such episodes keep the network from forgetting whatever does not tell the train classes apart.
    ``width``: numbers per key and per value.
    """

    name: ClassVar[str] = "ctx"
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

    @property
    def method(self) -> str:
        """The same attention for validation tasks."""
        return "ctx"

    def extras(self, network: Network, classes: int) -> Mapping[str, Tensor]:
        """Key head and value head [width, channels of the maps], as linear layers start or as they were learned."""
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
        """[Q, way] by attention between places."""
        keys, values = ctx_heads(network, network.maps(torch.cat([episode.support, episode.query])).float())
        rows = len(episode.support)
        return ctx_scores(
            keys[:rows], values[:rows], episode.support_label, keys[rows:], values[rows:], episode.way
        )


def simclr_episode(episode: Episode) -> Episode:
    """Every support image a class of its own; queries are other views of the first few images of each class.

    An image that was a query takes no part. Of a class with q queries the first q support images are asked for.
    """
    rank = _rank_in_class(episode.support_label, episode.way)
    queries = torch.bincount(episode.query_label, minlength=episode.way)
    queried = (rank < queries[episode.support_label]).nonzero().squeeze(1)
    low, high = (edge(episode.support, dim=(0, 2, 3), keepdim=True) for edge in (torch.amin, torch.amax))
    # Images come scaled for the network; colour changes are meant for values from black (0) to white (1).
    plain = (episode.support - low) / (high - low).clamp(min=1e-6)
    generator = Generator().manual_seed(int(torch.randint(2**62, ())))
    views = parse(SIMCLR)(torch.cat([plain, plain[queried]]), generator) * (high - low) + low
    count = len(plain)
    everyone = torch.arange(count, device=queried.device)
    return Episode(views[:count], everyone, views[count:], count, query_label=queried)


def _rank_in_class(label: Tensor, way: int) -> Tensor:
    """[S] number of earlier images of the same class."""
    one_hot = nn.functional.one_hot(label, way)
    return (one_hot.cumsum(0) * one_hot).sum(1) - 1
