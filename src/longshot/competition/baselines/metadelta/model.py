"""MetaDelta++ (small): one network with several heads trained on batches with rotations, weighed on validation tasks.

The heads project the network's features; each is trained to tell all training classes and the rotation of the image.
A task is solved by prototypes under every head, and their probabilities are averaged with weights that served best
on validation tasks.
"""

import numpy as np
import torch
import torch.nn.functional as F
from api import MetaLearner, Predictor
from helpers import DEVICE, SavedLearner, backbone, embed, prepared, probabilities, prototype_scores, settings
from torch import nn

SETTINGS = settings(__file__)


class MultiHead(nn.Module):
    """A network with several heads that project its features, and the weight of each in the mean."""

    def __init__(self):
        super().__init__()
        self.network = backbone(SETTINGS["network"])
        dim = self.network.dim
        self.heads = nn.ModuleList(nn.Linear(dim, dim) for _ in range(SETTINGS["heads"])).to(DEVICE)
        weights = torch.full((len(self.heads),), 1 / len(self.heads), device=DEVICE)
        self.register_buffer("weights", weights)

    def head_scores(self, support, labels, query, ways):
        """[heads, n, N] log-probabilities of every head, from features."""
        views = [(F.normalize(h(support), dim=1), F.normalize(h(query), dim=1)) for h in self.heads]
        return torch.stack([(10 * prototype_scores(s, labels, q, ways)).log_softmax(1) for s, q in views])

    def mixed(self, support, labels, query, ways):
        """[n, N] log of the weighted mean of the heads' probabilities."""
        scores = self.head_scores(support, labels, query, ways)
        return (self.weights.view(-1, 1, 1) * scores.exp()).sum(0).clamp(min=1e-9).log()


class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator):
        model = MultiHead()
        dim, classes = model.network.dim, self.train_classes
        classifiers = nn.ModuleList(nn.Linear(dim, classes) for _ in model.heads).to(DEVICE)
        turn = nn.Linear(dim, 4).to(DEVICE)  # which way the image was turned
        parameters = [*model.parameters(), *classifiers.parameters(), *turn.parameters()]
        optimiser = torch.optim.Adam(parameters, SETTINGS["lr"])
        model.network.train()
        for step, (images, labels) in enumerate(meta_train_generator(SETTINGS["train_steps"])):
            turns = torch.randint(4, (len(images),))
            turned = torch.stack(
                [image.rot90(k, (1, 2)) for image, k in zip(images, turns.tolist(), strict=True)]
            )
            features, labels = model.network(prepared(turned)), labels.to(DEVICE)
            scores = torch.stack([c(h(features)) for c, h in zip(classifiers, model.heads, strict=True)])
            loss = F.cross_entropy(scores.flatten(0, 1), labels.repeat(len(scores)))
            loss = loss + SETTINGS["rotation"] * F.cross_entropy(turn(features), turns.to(DEVICE))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if step % 100 == 0:
                self.log((images, labels.cpu()), scores.detach().mean(0).argmax(1).cpu().numpy(), loss.item())
        if meta_valid_generator is not None:
            weigh(model, meta_valid_generator)
        return MyLearner(model)


@torch.no_grad()
def weigh(model, meta_valid_generator):
    """Set the heads' weights to the best of random mixtures on validation tasks."""
    scored = []
    for task in meta_valid_generator(SETTINGS["valid_tasks"]):
        support, query = (embed(model.network, part[0]) for part in (task.support_set, task.query_set))
        scores = model.head_scores(support, task.support_set[1], query, task.num_ways).exp()
        scored.append((scores, task.query_set[1].to(DEVICE)))
    count = len(model.heads)
    candidates = np.random.default_rng(0).dirichlet(np.ones(count), 50)
    candidates = torch.as_tensor(np.vstack([np.eye(count), np.full((1, count), 1 / count), candidates]))
    best = None
    for weights in candidates.float().to(DEVICE):
        right = [((weights.view(-1, 1, 1) * s).sum(0).argmax(1) == t).float().mean() for s, t in scored]
        accuracy = torch.stack(right).mean().item()
        if best is None or accuracy > best:
            best, model.weights = accuracy, weights


class MyLearner(SavedLearner):
    def __init__(self, model=None):
        self.module = model or MultiHead()

    @torch.no_grad()
    def fit(self, support_set):
        images, labels, _, ways, _ = support_set
        return Mixture(self.module, embed(self.module.network, images), labels, ways)


class Mixture(Predictor):
    def __init__(self, model, support, labels, ways):
        self.model, self.support, self.labels, self.ways = model, support, labels, ways

    @torch.no_grad()
    def predict(self, query_set):
        query = embed(self.model.network, query_set)
        return probabilities(self.model.mixed(self.support, self.labels, query, self.ways))
