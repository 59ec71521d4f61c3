"""What a way of training is: the loss of one step, over a batch of images or a few episodes; and all ways by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from longshot.base import Called, Episode, UserError, call_defaults, find_class, make_called, parse_call
from longshot.models import Network

if TYPE_CHECKING:
    from longshot.models import Features
    from longshot.tasks import Instances, Judge
    from longshot.training.training_episodes import Validation


class ImageBatch(NamedTuple):
    """Images of the train classes, augmented and preprocessed, on the device."""

    images: Tensor  # [B, 3, H, W] float32
    labels: Tensor  # [B] int64, position among the train classes


class Step(NamedTuple):
    """What one step gave: a loss to descend and, for people, the accuracy on what was trained on."""

    loss: Tensor  # scalar with gradient
    accuracy: Tensor  # scalar without


@dataclass(frozen=True)
class TrainingDefaults:
    """Optimiser, schedule and amounts of a way of training unless the user says otherwise; as in the papers."""

    optimiser: str = "adam(lr=0.001)"  # adam(…), sgd(lr=…, momentum=…, weight_decay=…)
    # constant, cosine, step(at=[0.7, 0.9], factor=0.1), decay(every=500, rate=0.9)
    schedule: str = "constant"
    batch: int = 64  # images of a step (batch training) or episodes of a step (episodic training)
    steps: int = 10_000
    epochs: int = 0  # where above 0, batch training makes so many passes over the images instead of ``steps``
    augment: str = ""  # as ``parse_augmentation`` reads it, e.g. crop(8)|flip|jitter(0.4)
    clip: float = 0.0  # largest norm of the gradient; 0: not clipped
    part: int = 0  # images or episodes computed at a time, their gradients added up; 0: all of a step
    validate_every: int = 0  # steps; 0: about 20 validations in a run


class ParameterGroup(NamedTuple):
    """Parameters that learn at ``rate`` times the optimiser's learning rate."""

    parameters: list[nn.Parameter]
    rate: float


class Algorithm(Called, ABC):
    """A way of training. The constructor takes keyword settings with defaults and stores them, nothing else."""

    paper: ClassVar[str]
    episodic: ClassVar[bool]  # True: ``loss`` gets episodes; False: a Batch
    recipe: ClassVar[TrainingDefaults] = TrainingDefaults()
    recipes: ClassVar[Mapping[str, TrainingDefaults]] = {}  # others from the papers, by name
    judges_start: ClassVar[bool] = False  # the network that training starts from is a candidate too
    validation_shape: ClassVar[tuple[int, int, int] | None] = None  # way, shot, query; None: as its episodes

    @property
    def method(self) -> str:
        """Call of the method that validation tasks are solved with; a subclass may set a plain string."""
        return "protonet"

    @property
    def refresh(self) -> int:
        """Return after how many steps ``instances`` chooses the episodes anew by the network's features; 0: never."""
        return 0

    def extras(self, network: Network, classes: int) -> Mapping[str, Tensor]:
        """Start values of what is learned beside the network (put into ``network.extras``); none by default.

        A network that training goes on from has former ones in ``network.extras``: hand those back to keep them.
        Names that start with ``head_`` serve training alone and are left out of the saved network.
        """
        return {}

    @property
    def judges(self) -> list[str]:
        """List the networks that choose images beside the one that is trained: ``BACKBONE[:METHOD]``."""
        return []

    def instances(self, features: Features, judges: Sequence[Judge] = ()) -> Instances:
        """Choose the images of the next ``refresh`` steps' episodes by the network's features of the train classes.

        ``judges`` are those of :attr:`judges`, with their features of the same images.
        """
        raise TypeError(f"{self.name} does not choose images by features")

    def begin(self, network: Network) -> None:
        """Make the network ready to be trained, its extras included: freeze what stays; nothing by default."""
        return

    def groups(self, network: Network) -> list[ParameterGroup]:
        """Return what is trained and how fast: everything at the same rate unless overridden."""
        return [ParameterGroup(list(network.parameters()), 1.0)]

    def network(self, call: str) -> str:
        """Return the call of the network to train where the user names ``call``: that one unless overridden."""
        return call

    def settle(self, network: Network, validation: Validation) -> None:
        """Choose on validation tasks what descent does not learn, as an ensemble's weights; before each validation."""
        return

    @abstractmethod
    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Compute one step over a Batch (not episodic) or Episodes; ``network`` is in training mode."""


class EpisodicAlgorithm(Algorithm):
    """Training on episodes: the mean over episodes of −log softmax(logits) of the true class, mean over queries."""

    episodic: ClassVar[bool] = True
    recipe: ClassVar[TrainingDefaults] = TrainingDefaults(optimiser="adam(lr=0.001)", batch=1, steps=10_000)

    def logits(self, network: Network, episode: Episode) -> Tensor:
        """Score the episode's queries, [Q, way]; a subclass that overrides ``loss`` needs none."""
        raise NotImplementedError

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Mean over the episodes, each counting the same."""
        assert not isinstance(data, ImageBatch)
        losses, right = [], []
        for episode in data:
            logits = self.logits(network, episode)
            losses.append(functional.cross_entropy(logits, episode.query_label))
            right.append((logits.detach().argmax(1) == episode.query_label).float().mean())
        return Step(torch.stack(losses).mean(), torch.stack(right).mean())


def embed(network: Network, episode: Episode) -> tuple[Tensor, Tensor]:
    """Compute vectors of support [S, d] and query [Q, d], through the network together."""
    vectors: Tensor = network(torch.cat([episode.support, episode.query])).float()
    return vectors[: len(episode.support)], vectors[len(episode.support) :]


# name → module:class, imported only when the algorithm is asked for
ALGORITHMS: dict[str, str] = {
    "adversarial": "longshot.training.episodic_algorithms:Adversarial",
    "anil": "longshot.training.episodic_algorithms:ANILTraining",
    "autoensemble": "longshot.training.batch_algorithms:AutoEnsemble",
    "ctx": "longshot.training.episodic_algorithms:CTXTraining",
    "fomaml": "longshot.training.episodic_algorithms:FOMAML",
    "maml": "longshot.training.episodic_algorithms:MAMLTraining",
    "matching": "longshot.training.episodic_algorithms:Matching",
    "metadelta": "longshot.training.batch_algorithms:MetaDelta",
    "multiclass": "longshot.training.batch_algorithms:Multiclass",
    "protomaml": "longshot.training.episodic_algorithms:ProtoMAMLTraining",
    "protonet": "longshot.training.episodic_algorithms:ProtoNetTraining",
}


def algorithm_names() -> list[str]:
    """List the names of the registered algorithms, sorted."""
    return sorted(ALGORITHMS)


def algorithm_class(name: str) -> type[Algorithm]:
    """Find the class registered under ``name``; UserError with the nearest name where there is none."""
    kind: type[Algorithm] = find_class("algorithm", name, ALGORITHMS, "{training.list_algorithms()}")
    return kind


def list_algorithms() -> list[dict[str, Any]]:
    """List every algorithm and recipe: name, what it trains on, paper, settings, optimiser, schedule, amounts.

    Examples
    --------
    >>> "protonet" in {row["name"] for row in list_algorithms()}
    True
    """
    rows = []
    for name in algorithm_names():
        kind = algorithm_class(name)
        settings = ", ".join(f"{key}={value!r}" for key, value in call_defaults(kind.__init__).items())
        for recipe_name, recipe in {"": kind.recipe, **kind.recipes}.items():
            rows.append(
                {
                    "name": name,
                    "trains on": "episodes" if kind.episodic else "batches",
                    "paper": kind.paper,
                    "settings": settings,
                    "recipe": recipe_name,
                    "optimiser": recipe.optimiser,
                    "schedule": recipe.schedule,
                    "batch": recipe.batch,
                    "length": f"{recipe.epochs} epochs" if recipe.epochs else f"{recipe.steps:,} steps",
                    "augment": recipe.augment,
                }
            )
    return rows


def get_algorithm(algorithm: str | Algorithm) -> Algorithm:
    """Make an algorithm from its call, as ``protonet(way=20)``; an Algorithm object is returned as it is.

    UserError: unknown name (with the nearest), unknown setting (with the valid ones and their defaults).

    Examples
    --------
    >>> get_algorithm("protonet(way=20, shot=5)").call
    'protonet(way=20)'
    """

    if isinstance(algorithm, Algorithm):
        return algorithm
    if not isinstance(algorithm, str):
        raise UserError(
            f"{{algorithm}} is {algorithm!r} ({type(algorithm).__name__}), but it must be the name of an algorithm "
            f"with its settings, as in 'protonet(way=20)'; there are {', '.join(algorithm_names())}."
        )
    name, settings = parse_call(algorithm)
    made: Algorithm = make_called("algorithm", name, algorithm_class(name), settings)
    return made
