"""Fine-tuning: a network trained on batches of all training classes; for every task only a last layer is fitted."""

import torch
import torch.nn.functional as F
from api import MetaLearner
from helpers import DEVICE, BestLearner, SavedLearner, Scored, backbone, descend, embed, settings
from torch import nn

SETTINGS = settings(__file__)


class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator):
        learner, total = MyLearner(), SETTINGS["train_steps"]
        network = learner.module
        head = nn.Linear(network.dim, self.train_classes).to(DEVICE)
        optimiser = torch.optim.Adam([*network.parameters(), *head.parameters()], SETTINGS["lr"])
        best = BestLearner(learner, meta_valid_generator, SETTINGS)
        network.train()
        for step, (images, labels) in enumerate(meta_train_generator(total)):
            scores = head(network(images))
            loss = F.cross_entropy(scores, labels.to(DEVICE))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if step % 100 == 0:
                self.log((images, labels), scores.detach().argmax(1).cpu().numpy(), loss.item())
            best.after(step + 1, total)
        return best.chosen()


class MyLearner(SavedLearner):
    def __init__(self):
        self.module = backbone(SETTINGS)

    def fit(self, support_set):
        images, labels, _, ways, _ = support_set
        features = embed(self.module, images)
        head = nn.Linear(features.shape[1], ways).to(DEVICE)
        descend(head, features, labels, *(SETTINGS[f"task_{name}"] for name in ("lr", "steps", "batch")))
        return Scored(lambda query: head(embed(self.module, query)))
