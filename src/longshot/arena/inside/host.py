"""A process of a submission: it meta-trains, or answers tasks, as the messages that come through its pipe say.

Everything printed goes to the participant's log. Labels of queries never come here.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import api, feed, league, wire

MAX_MESSAGE = 4 << 30  # from the organiser, who is trusted
MAX_REASON = 4000  # characters of a traceback that are sent on
# in the folder that meta-training leaves: what ``save`` wrote, the learner's class
LEARNER, CLASS = "learner", "class"
watches: list[league.Watch] = []  # one where the submission must learn from nothing


class Failure(Exception):
    """A stage of the submission failed; the text is for its author."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(reason)
        self.stage, self.reason = stage, reason[-MAX_REASON:]


class Logger:
    """Scores of training, one JSON line each in the log, as submissions expect it of ``logger.log``."""

    def __init__(self) -> None:
        self.count = 0

    def log(self, data: Any, predictions: Any, loss: float | None = None, meta_train: bool = True) -> None:
        """Record ``predictions``, labels [n] or probabilities [n, N], on ``data``: a task, a batch or (X, y)."""
        self.count += 1
        labels = data.query_set[1] if hasattr(data, "query_set") else data[1]
        predicted, truth = np.asarray(predictions), np.asarray(labels)
        predicted = predicted.argmax(1) if predicted.ndim == 2 else predicted
        line = {
            "record": self.count,
            "phase": "meta-train" if meta_train else "meta-validation",
            "accuracy": float((predicted == truth).mean()) if predicted.shape == truth.shape else None,
            "loss": None if loss is None else float(loss),
        }
        print(json.dumps(line), flush=True)


def live(
    submission: Path,
    data: Path,
    trained: Path,
    incoming: int,
    outgoing: int,
    *,
    from_nothing: bool = False,
    closed: Iterable[str] = (),
) -> int:
    """Train ("begin") and answer ("task") until "end", or until nobody is there; gives the exit code.

    ``trained`` is the folder through which meta-training hands its learner to the processes of the tasks, and the only
    thing they have of it. ``from_nothing``: it may ask neither for the network nor for weights that others learned, of
    which ``closed`` are the paths that merely cannot be read.
    """
    if from_nothing:
        watches.append(league.Watch(str(submission), closed))
    learner_class = None
    try:
        model = import_model(submission, data)
        while (message := wire.receive(incoming, MAX_MESSAGE)).kind != "end":
            if message.kind == "begin":
                learner_class = train(model, submission, data, trained, int(message.fields["seed"]))
                wire.send(outgoing, "trained")
                continue
            if learner_class is None:
                with stage("import", submission):
                    learner_class = find_class(model, trained)
            answer(learner_class, submission, trained / LEARNER, message, incoming, outgoing)
    except Failure as failure:
        print(failure.reason, file=sys.stderr, flush=True)
        wire.send(outgoing, "failed", {"stage": failure.stage, "reason": failure.reason})
        return 3
    except wire.WireError:
        return 4
    return 0


def import_model(submission: Path, data: Path) -> Any:
    """Import the submission's model.py, its own modules before all others."""
    sys.path.insert(0, str(submission))
    if not (submission / "api.py").exists():
        sys.modules["api"] = api
    if (
        "IMAGE_SIZE" not in os.environ
    ):  # known before a network is made; the processes of tasks have no data to look at
        os.environ["IMAGE_SIZE"] = str(feed.image_size(data))
    with stage("import", submission):
        model = importlib.import_module("model")
    missing = [name for name in ("MyMetaLearner", "MyLearner") if not hasattr(model, name)]
    if missing:
        raise Failure("import", f"model.py has no class {missing[0]}")
    return model


def train(model: Any, submission: Path, data: Path, trained: Path, seed: int) -> Any:
    """Train the submission's meta-learner and save its learner; return the learner's class."""
    opened = feed.open_sources(data)
    seed_everything(seed)
    rng = np.random.default_rng(seed)
    try:
        config = feed.read_config(submission / "config.json")
        sources, held_out = feed.hold_out(opened, config["validation_datasets"], rng)
    except feed.ConfigError as error:
        raise Failure("config", str(error)) from error
    total = sum(len(source.sizes) for source in sources)
    if config["train_data_format"] == "task":
        ways = config["train_config"]["N"] or config["train_config"]["max_N"]
        training: Any = feed.task_generator(sources, config["train_config"], rng)
    else:
        ways = total
        training = feed.batch_generator(sources, int(config["batch_size"]), rng)
    validation = feed.task_generator(held_out, config["valid_config"], rng) if held_out else None
    with stage("meta_fit", submission):
        learner = model.MyMetaLearner(ways, total, Logger()).meta_fit(training, validation)
    (trained / LEARNER).mkdir()
    with stage("save", submission):
        learner.save(str(trained / LEARNER))
        learner_class = type(learner)
        name = f"{learner_class.__module__}:{learner_class.__qualname__}"
        (trained / CLASS).write_text(name, encoding="utf-8")
    return learner_class


def find_class(model: Any, trained: Path) -> Any:
    """Find the class of the learner that meta-training gave; MyLearner where its name leads nowhere."""
    module, _, path = (trained / CLASS).read_text(encoding="utf-8").partition(":")
    try:
        return attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError):  # made inside a function, say
        return model.MyLearner


def answer(
    learner_class: Any, submission: Path, folder: Path, message: wire.Message, incoming: int, outgoing: int
) -> None:
    """Answer a task with a fresh learner, loaded from what training saved; queries come only after the fit."""
    ways, shots = int(message.fields["ways"]), int(message.fields["shots"])
    seed_everything(int(message.fields["seed"]))
    labels = torch.from_numpy(message.arrays["labels"])
    with stage("load", submission):
        learner = learner_class()
        learner.load(str(folder))
    with stage("fit", submission):
        support = (feed.images(message.arrays["support"]), labels, labels.clone(), ways, shots)
        predictor = learner.fit(support)
    wire.send(outgoing, "fitted")
    query = wire.receive(incoming, MAX_MESSAGE)
    with stage("predict", submission):
        predicted = predictor.predict(feed.images(query.arrays["query"]))
    wire.send(outgoing, "predicted", predicted=plain(predicted))


def plain(predicted: Any) -> np.ndarray[Any, Any]:
    """Convert a prediction to an array that can travel: whole numbers as int64, others as float32."""
    if isinstance(predicted, torch.Tensor):
        predicted = predicted.detach().cpu().numpy()
    array = np.asarray(predicted)
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind != "f":
        raise Failure("predict", f"predict returned {array.dtype} values; numbers are needed")
    return array.astype(np.float32)


def seed_everything(seed: int) -> None:
    """Seed all the generators a submission is likely to use."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 – submissions use the global one
    torch.manual_seed(seed)


@contextmanager
def stage(name: str, submission: Path) -> Iterator[None]:
    """Turn whatever the submission raises into a Failure with its own lines of the traceback."""
    try:
        yield
    except Failure:
        raise
    except BaseException as error:  # SystemExit included: a submission may not end the host quietly
        _keep_to_the_rule()
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename.startswith(str(submission))]
        lines = traceback.format_list(own or frames[-1:])
        text = "".join(lines).replace(f"{submission}/", "")
        raise Failure(name, f"{text}{type(error).__name__}: {error}") from error
    _keep_to_the_rule()


def _keep_to_the_rule() -> None:
    """Fail a submission that made a request which the league does not allow, whatever came of it."""
    for watch in watches:
        if watch.broken:
            raise Failure("league", watch.broken)
