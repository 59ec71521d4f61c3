"""MetaDelta++: the last stages of a pre-trained network, trained on batches until its time is over; exact transport.

What is trained is longshot.training.metadelta, how a task is solved longshot.models.methods.metadelta. ``weights`` in
settings.json names the pre-trained network; "none" starts ``network`` from random weights.
"""

import torch
from api import MetaLearner, Predictor
from helpers import DEVICE, BestLearner, SavedLearner, backbone, embed, probabilities, settings
from torch import nn

from longshot.models import decode
from longshot.training import ImageBatch, MetaDelta, TimeBudget, augment, make_optimiser

SETTINGS = settings(__file__)
BUDGET = TimeBudget(60 * SETTINGS["minutes"])  # runs from the start of the program


class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator):
        learner, algorithm = (
            MyLearner(),
            MetaDelta(stages=SETTINGS["stages"], head_rate=SETTINGS["head_rate"]),
        )
        sight, network = learner.module, learner.module.network
        print(f"starts from the weights: {SETTINGS['weights']}", flush=True)
        best = BestLearner(learner, meta_valid_generator, SETTINGS, fixed=True)
        best.judge(0)  # the start is a candidate
        for name, value in algorithm.extras(network, self.train_classes).items():
            network.extras[name] = nn.Parameter(value.to(DEVICE))
        algorithm.begin(network)
        optimiser = make_optimiser(f"adam(lr={SETTINGS['lr']})", algorithm.groups(network))
        varied = augment.parse(SETTINGS["augment"])
        generator = torch.Generator().manual_seed(torch.initial_seed() % 2**63)
        step, last, each = 0, SETTINGS["train_steps"], SETTINGS["accumulate"]
        while BUDGET.has_room() and (not last or step < last):
            network.train()
            optimiser.zero_grad()
            for images, labels in meta_train_generator(each):
                batch = ImageBatch(sight.prepare(varied(images, generator)), labels.to(DEVICE))
                outcome = algorithm.loss(network, batch)
                (outcome.loss / each).backward()
            nn.utils.clip_grad_norm_(network.parameters(), SETTINGS["clip"])
            optimiser.step()
            step += each  # batches, as the paper counts
            best.after(step, last)
            print(
                f"{step} batches: loss {outcome.loss.item():.4f}, accuracy {outcome.accuracy:.3f}", flush=True
            )
        best.judge(step)
        network.extras.clear()  # the perceptron serves training alone
        return best.chosen()


class MyLearner(SavedLearner):
    def __init__(self):
        self.module = backbone(SETTINGS)

    def fit(self, support_set):
        images, labels, _, ways, _ = support_set
        return Transported(self.module, embed(self.module, images), labels, ways)


class Transported(Predictor):
    def __init__(self, network, support, labels, ways):
        self.network, self.support, self.labels, self.ways = network, support, labels, ways

    def predict(self, query_set):
        return probabilities(decode(self.support, self.labels, embed(self.network, query_set), self.ways))
