"""What a submission is made of: a MetaLearner gives a Learner, a Learner fitted to a task gives a Predictor.

Submissions say ``from api import MetaLearner, Learner, Predictor``; this file is on their path when they bring none.

    meta_learner = MyMetaLearner(train_classes, total_classes, logger)
    learner = meta_learner.meta_fit(meta_train_generator, meta_valid_generator)
    learner.save(folder)
    for every task:
        learner = MyLearner(); learner.load(folder)
        predictor = learner.fit((X, y, original_y, n_ways, k_shots))
        predictor.predict(X_query)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


class Predictor(ABC):
    """A classifier for the queries of one task."""

    @abstractmethod
    def predict(self, query_set: Any) -> np.ndarray[Any, Any]:
        """Classify float32 images [n, 3, 128, 128] in 0…1: probabilities [n, N] or labels [n] in 0…N−1."""


class Learner(ABC):
    """Learns a task from its support set. Made without arguments, then loaded: a fresh one for every task."""

    @abstractmethod
    def fit(self, support_set: tuple[Any, Any, Any, int, int]) -> Predictor:
        """Learn (X [N·k, 3, 128, 128], y [N·k] in 0…N−1, original_y [N·k], N, k); return a Predictor.

        ``original_y`` are class numbers across training datasets; in meta-test it repeats ``y``.
        """

    @abstractmethod
    def save(self, path_to_save: str) -> None:
        """Write all that ``load`` needs into the folder ``path_to_save``."""

    @abstractmethod
    def load(self, path_to_load: str) -> None:
        """Read what ``save`` wrote."""


class MetaLearner(ABC):
    """Learns from many tasks, or from batches of all training classes, how to learn."""

    def __init__(self, train_classes: int, total_classes: int, logger: Any) -> None:
        """Keep the facts and the logging function.

        ``train_classes``: ways of a training task, or all training classes when training on batches;
        ``total_classes``: classes of the training datasets together; ``logger``: keeps the scores of training.
        """
        self.train_classes = train_classes
        self.total_classes = total_classes
        self.log: Callable[..., None] = logger.log

    @abstractmethod
    def meta_fit(
        self,
        meta_train_generator: Callable[[int], Iterator[Any]],
        meta_valid_generator: Callable[[int], Iterator[Any]] | None,
    ) -> Learner:
        """Learn from two generators, called with a number of tasks (or batches) to yield; the second may be None."""
