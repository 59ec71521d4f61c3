"""First-order MAML: meta-training looks for weights from which a few gradient steps fit a task."""

import copy

import torch
import torch.nn.functional as F
from api import MetaLearner
from helpers import DEVICE, BestLearner, SavedLearner, Scored, backbone, embed, settings
from torch import nn

SETTINGS = settings(__file__)


class MamlStart(nn.Module):
    """A network and one vector that every class starts from, so that any number of ways can begin."""

    def __init__(self):
        super().__init__()
        self.network = backbone(SETTINGS)
        self.start = nn.Parameter(torch.zeros(1, self.network.dim, device=DEVICE))

    def adapted(self, images, labels, ways):
        """Return network and head of a copy after a few steps of gradient descent on the support set."""
        network = copy.deepcopy(self.network).train()
        head = self.start.detach().repeat(ways, 1).requires_grad_()
        parameters = [*network.parameters(), head]
        for _ in range(SETTINGS["task_steps"]):
            loss = F.cross_entropy(F.linear(network(images), head), labels.to(DEVICE))
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    if gradient is not None:
                        parameter -= SETTINGS["task_lr"] * gradient
        return network, head


@torch.no_grad()
def settled(network, images):
    """Return the adapted network for use, its batch normalisation with the statistics of the support set.

    While it adapts it normalises each batch by itself and its running averages have hardly moved from their start.
    """
    for layer in network.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.momentum = 1.0
    network.train()(images)
    return network.eval()


class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator):
        learner, total = MyLearner(), SETTINGS["train_tasks"]
        model = learner.module
        optimiser = torch.optim.Adam(model.parameters(), SETTINGS["lr"])
        best = BestLearner(learner, meta_valid_generator, SETTINGS)
        for step, task in enumerate(meta_train_generator(total)):
            network, head = model.adapted(*task.support_set[:2], task.num_ways)
            scores = F.linear(network(task.query_set[0]), head)
            loss = F.cross_entropy(scores, task.query_set[1].to(DEVICE))
            moved = [*network.parameters(), head]
            gradients = torch.autograd.grad(loss / SETTINGS["meta_batch"], moved, allow_unused=True)
            with torch.no_grad():  # first order: the gradient at the end is taken for the one at the start
                add(model.start, gradients[-1].sum(0, keepdim=True))
                for parameter, gradient in zip(model.network.parameters(), gradients[:-1], strict=True):
                    add(parameter, gradient)
            if step % SETTINGS["meta_batch"] == SETTINGS["meta_batch"] - 1:
                optimiser.step()
                optimiser.zero_grad()
            if step % 100 == 0:
                self.log(task, scores.detach().argmax(1).cpu().numpy(), loss.item())
            best.after(step + 1, total)
        return best.chosen()


def add(parameter, gradient):
    """Add to a parameter's gradient."""
    if gradient is not None:
        parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


class MyLearner(SavedLearner):
    def __init__(self):
        self.module = MamlStart()

    def fit(self, support_set):
        images, labels, _, ways, _ = support_set
        network, head = self.module.adapted(images, labels, ways)
        network = settled(network, images)
        return Scored(lambda query: F.linear(embed(network, query), head))
