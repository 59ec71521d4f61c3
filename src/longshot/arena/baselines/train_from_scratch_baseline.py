"""Train-from-scratch: no meta-training, so nothing to choose; a network and its last layer learn every task anew."""

import torch
import torch.nn.functional as F
from api import Learner, MetaLearner, Predictor
from helpers import DEVICE, backbone, probabilities, settings
from torch import nn

SETTINGS = settings(__file__)


class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator):
        return MyLearner()


class MyLearner(Learner):
    def fit(self, support_set):
        images, labels, _, ways, _ = support_set
        network = backbone(SETTINGS)
        model = nn.Sequential(network, nn.Linear(network.dim, ways)).to(DEVICE).train()
        optimiser = torch.optim.Adam(model.parameters(), SETTINGS["lr"])
        for _ in range(SETTINGS["steps"]):
            chosen = torch.randint(len(images), (min(SETTINGS["batch"], len(images)),))
            loss = F.cross_entropy(model(images[chosen]), labels[chosen].to(DEVICE))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return Trained(model)

    def save(self, path_to_save):
        pass

    def load(self, path_to_load):
        pass


class Trained(Predictor):
    def __init__(self, model):
        self.model = model.eval()

    @torch.no_grad()
    def predict(self, query_set):
        return probabilities(torch.cat([self.model(part) for part in query_set.split(64)]))
