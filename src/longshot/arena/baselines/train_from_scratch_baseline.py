"""Train-from-scratch: no meta-training, so nothing to choose; a network and its last layer learn every task anew."""

from api import Learner, MetaLearner
from helpers import DEVICE, Scored, backbone, descend, embed, settings
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
        descend(model, images, labels, SETTINGS["lr"], SETTINGS["steps"], SETTINGS["batch"])
        return Scored(lambda query: embed(model, query))

    def save(self, path_to_save):
        pass

    def load(self, path_to_load):
        pass
