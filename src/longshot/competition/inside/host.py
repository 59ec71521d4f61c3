"""The program inside the sandbox: meta-train the submission, then answer task after task over the pipe.

    python -m inside.host SUBMISSION DATA WORK READ_FD WRITE_FD

Everything printed goes to the participant's log. Labels of queries never come here.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import api, feed, league, wire

MAX_MESSAGE = 4 << 30  # from the organiser, who is trusted
MAX_REASON = 4000  # characters of a traceback that are sent on
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
        """``data``: a task, a batch or (X, y); ``predictions``: labels [n] or probabilities [n, N]."""
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


def main() -> None:
    submission, data, work = (Path(argument) for argument in sys.argv[1:4])
    incoming, outgoing = int(sys.argv[4]), int(sys.argv[5])
    try:
        begin = wire.receive(incoming, MAX_MESSAGE)
        if begin.fields.get("from_nothing"):
            watches.append(league.Watch(str(submission)))
        learner_class = train(submission, data, work, int(begin.fields["seed"]), outgoing)
        serve(learner_class, submission, work / "learner", incoming, outgoing)
    except Failure as failure:
        print(failure.reason, file=sys.stderr, flush=True)
        wire.send(outgoing, "failed", {"stage": failure.stage, "reason": failure.reason})
        sys.exit(3)


def train(submission: Path, data: Path, work: Path, seed: int, outgoing: int) -> Any:
    """Import model.py, meta-train, save the learner; gives the learner's class."""
    sys.path.insert(0, str(submission))  # its own modules first
    if not (submission / "api.py").exists():
        sys.modules["api"] = api
    os.chdir(work)
    opened = feed.open_sources(data)
    os.environ["IMAGE_SIZE"] = str(opened[0].pixels.shape[1])  # known before a network is made
    with stage("import", submission):
        model = importlib.import_module("model")
    missing = [name for name in ("MyMetaLearner", "MyLearner") if not hasattr(model, name)]
    if missing:
        raise Failure("import", f"model.py has no class {missing[0]}")
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
    folder = work / "learner"
    folder.mkdir()
    with stage("save", submission):
        learner.save(str(folder))
    wire.send(outgoing, "trained")
    return type(learner)


def serve(learner_class: Any, submission: Path, folder: Path, incoming: int, outgoing: int) -> None:
    """Answer tasks: a fresh learner for each, loaded from what training saved; queries come only after the fit."""
    while True:
        message = wire.receive(incoming, MAX_MESSAGE)
        if message.kind == "end":
            return
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
    """A prediction as an array that can travel: whole numbers as int64, others as float32."""
    if isinstance(predicted, torch.Tensor):
        predicted = predicted.detach().cpu().numpy()
    array = np.asarray(predicted)
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind != "f":
        raise Failure("predict", f"predict returned {array.dtype} values; numbers are needed")
    return array.astype(np.float32)


def seed_everything(seed: int) -> None:
    """One seed for all the generators a submission is likely to use."""
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
    """A request that the league does not allow fails the submission, whatever came of it."""
    for watch in watches:
        if watch.broken:
            raise Failure("league", watch.broken)


if __name__ == "__main__":
    main()
