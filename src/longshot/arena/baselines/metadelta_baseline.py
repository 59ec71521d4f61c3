"""MetaDelta++: the last stages of a pre-trained network, trained on batches until its time is over; exact transport.

What is trained is ``MetaDelta`` of longshot.training, how a task is solved ``metadelta_decode`` of longshot.models.
``weights`` in settings.json names the pre-trained network; "none" starts ``network`` from random weights.
"""

import torch
from api import MetaLearner
from helpers import DEVICE, BestLearner, SavedLearner, Scored, backbone, embed, settings
from torch import nn

from longshot.models import metadelta_decode
from longshot.training import ImageBatch, MetaDelta, TimeBudget, make_optimiser, parse_augmentation

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
        varied = parse_augmentation(SETTINGS["augment"])
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
        support = embed(self.module, images)
        return Scored(lambda query: metadelta_decode(support, labels, embed(self.module, query), ways))
