"""Fine-tuning: a network trained on batches of all training classes; for every task only a last layer is fitted."""

from api import MetaLearner
from helpers import DEVICE, BestLearner, SavedLearner, Scored, backbone, descend, embed, settings, train
from torch import nn

SETTINGS = settings(__file__)


class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator):
        learner, total = MyLearner(), SETTINGS["train_steps"]
        network = learner.module
        head = nn.Linear(network.dim, self.train_classes).to(DEVICE)
        parameters = [*network.parameters(), *head.parameters()]
        best = BestLearner(learner, meta_valid_generator, SETTINGS)
        passes = ((batch, head(network(batch[0])), batch[1]) for batch in meta_train_generator(total))
        return train(self, learner, parameters, passes, best, SETTINGS["lr"], total)


class MyLearner(SavedLearner):
    def __init__(self):
        self.module = backbone(SETTINGS)

    def fit(self, support_set):
        images, labels, _, ways, _ = support_set
        features = embed(self.module, images)
        head = nn.Linear(features.shape[1], ways).to(DEVICE)
        descend(head, features, labels, *(SETTINGS[f"task_{name}"] for name in ("lr", "steps", "batch")))
        return Scored(lambda query: head(embed(self.module, query)))
