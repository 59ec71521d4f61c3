"""Prototypical Networks: the distance to class means, trained on tasks."""

from helpers import EpisodicLearner, EpisodicMetaLearner, prototype_scores, settings

SETTINGS = settings(__file__)


class MyLearner(EpisodicLearner):
    settings = SETTINGS
    scores = staticmethod(prototype_scores)


class MyMetaLearner(EpisodicMetaLearner):
    settings = SETTINGS
    learner = MyLearner
