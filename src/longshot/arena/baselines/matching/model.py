"""Matching Networks: the attention on support images, trained on tasks."""

from helpers import EpisodicLearner, EpisodicMetaLearner, matching_scores, settings

SETTINGS = settings(__file__)


class MyLearner(EpisodicLearner):
    settings = SETTINGS
    scores = staticmethod(matching_scores)


class MyMetaLearner(EpisodicMetaLearner):
    settings = SETTINGS
    learner = MyLearner
