"""The folder of a training: what it holds, whether a training may go on in it, what came out, here or on a cluster.

The checkpoint is one safetensors file, replaced whole, with its facts as JSON in the header. Learning rates follow from
the step and every random number from the seed and the step, so what has to be kept are the weights, the optimiser's
moments, a few numbers, and episodes that only a former network could have chosen. On a cluster a training is one unit:
its folder travels and comes back.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from longshot.base import HEARTBEAT_FILE as HEARTBEAT
from longshot.base import Crew, Tick, UserError, atomic, canonical_json, executor, progress, write_text
from longshot.data import Dataset, as_dataset, portable_dataset
from longshot.models import WEIGHTS_FILE, Network

TRAINING, HISTORY, STATE = "training.json", "history.jsonl", "state.safetensors"
RECORD_FORMAT = 1  # of training.json
_STATE_KEY = "longshot_state_2"  # in the header of a checkpoint
_NETWORK, _OPTIMISER, _SOURCE = "network.", "optimiser.", "source."  # beginnings of names in a checkpoint


@dataclass(frozen=True)
class TrainedNetwork:
    """A finished training. ``path`` is the folder with the best network: a backbone by that path.

    Parameters
    ----------
    path : Path
        The folder.
    validation_accuracy : float or None
        Mean over the validation tasks at the best step.
    validation_interval : (float, float) or None
        Its 95 % interval.
    best_step, steps : int
        The step that is kept, and how many there were.
    seconds : float
        Of the training.
    notes : tuple of str
        What there is to know about it.

    Examples
    --------
    >>> network = longshot.train("protonet(way=3, shot=1, query=2)", "toybox", network="cnn4(width=4)", size=16,
    ...                          steps=2, validation_tasks=4, out="runs/short")
    >>> network.as_dict()["steps"]
    2
    >>> longshot.embed("toybox", str(network.path)).dim
    4
    """

    path: Path
    validation_accuracy: float | None
    validation_interval: tuple[float, float] | None
    best_step: int
    steps: int
    seconds: float
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **vars(self),
            "path": str(self.path),
            "validation_interval": self.validation_interval and list(self.validation_interval),
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
        }


def check_folder(folder: Path, identity: dict[str, Any]) -> None:
    """Refuse a folder that holds another training, with what differs."""
    path = folder / TRAINING
    if not path.is_file():
        taken = [name for name in (WEIGHTS_FILE, STATE) if (folder / name).exists()]
        if taken:
            raise UserError(
                f"The folder {folder} holds a {taken[0]} of unknown origin ({TRAINING} is missing)",
                "choose another folder {out}",
            )
        return
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        earlier = record["settings"]
        if record.get("format", RECORD_FORMAT) != RECORD_FORMAT:
            raise UserError(
                f"The training in {path} has format {record['format']}, this Longshot reads {RECORD_FORMAT}",
                "go on with the version that wrote it, or choose another folder {out}",
            )
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is damaged", "choose another folder {out}, or delete this one") from None
    now = json.loads(json.dumps(identity))
    different = [key for key in {**earlier, **now} if earlier.get(key) != now.get(key)]
    if different:
        shown = "; ".join(
            f"{key} was {_short(earlier.get(key))}, now {_short(now.get(key))}" for key in different[:3]
        )
        raise UserError(
            f"The folder {folder} holds another training ({shown})",
            "choose another folder {out}, or repeat its settings to go on with it",
        )


def cut_history(path: Path, records: int) -> None:
    """Leave out what was recorded after the checkpoint: it will be recorded again."""
    if not path.is_file():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if len(lines) > records:
        write_text(path, "".join(lines[:records]))


def read_facts(folder: Path) -> dict[str, Any] | None:
    """Read what the checkpoint of the folder remembers beside tensors; None where there is none."""
    if not (folder / STATE).is_file():
        return None
    # Not by safe_open, which opens the path twice: a training that goes on may replace the file in between.
    with (folder / STATE).open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    facts: dict[str, Any] = json.loads(header["__metadata__"][_STATE_KEY])["facts"]
    return facts


def read_seconds(folder: Path) -> float:
    """Read how long the training of the folder took up to its checkpoint; 0 where that is not on record."""
    try:
        return float(json.loads((folder / TRAINING).read_text(encoding="utf-8"))["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def read_trained(folder: Path) -> TrainedNetwork:
    """Read the outcome of the training in the folder."""
    facts = read_facts(folder)
    assert facts is not None
    notes = json.loads((folder / TRAINING).read_text(encoding="utf-8"))["notes"]
    ends = facts["best_interval"]
    return TrainedNetwork(
        path=folder,
        validation_accuracy=facts["best"],
        validation_interval=None if ends is None else (ends[0], ends[1]),
        best_step=facts["best_step"],
        steps=facts["step"],
        seconds=read_seconds(folder),
        notes=tuple(notes),
    )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


# ---- the checkpoint that a training goes on from


def save_state(
    folder: Path,
    network: Network,
    optimiser: torch.optim.Optimizer,
    source: Mapping[str, Tensor],
    facts: Mapping[str, Any],
) -> None:
    """Replace the checkpoint of ``folder``; a kill at any moment leaves the old one or the new one."""
    tensors = {_NETWORK + name: value for name, value in network.state_dict().items()}
    tensors |= {_SOURCE + name: value for name, value in source.items()}
    numbers: dict[str, Any] = {}
    for index, held in optimiser.state_dict()["state"].items():
        for name, value in held.items():
            if isinstance(value, Tensor):
                tensors[f"{_OPTIMISER}{index}.{name}"] = value
            else:
                numbers[f"{index}.{name}"] = value
    # A copy each: safetensors refuses tensors that share memory or do not lie row by row.
    copies = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
    # One entry, since several come in any order; nothing of time, so that equal trainings give equal bytes.
    header = {_STATE_KEY: canonical_json({"facts": dict(facts), "optimiser": numbers})}
    with atomic(folder / STATE) as temporary:
        save_file(copies, temporary, metadata=header)


def last_saved(folder: Path) -> int | None:
    """Return when the checkpoint of ``folder`` was written, in nanoseconds; None where there is none."""
    path = folder / STATE
    return path.stat().st_mtime_ns if path.is_file() else None


def load_state(
    folder: Path, network: Network, optimiser: torch.optim.Optimizer
) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Put the checkpoint back into network and optimiser; its facts and the source's tensors. None: there is none."""
    path = folder / STATE
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if _STATE_KEY not in header:
                raise UserError(
                    f"The checkpoint {path} has another format than this Longshot reads",
                    "go on with the version that wrote it, delete it to train from the beginning, or choose another "
                    "folder {out}",
                )
            state = json.loads(header[_STATE_KEY])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts, numbers = state["facts"], state["optimiser"]
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise UserError(
            f"The checkpoint {path} ({path.stat().st_size:,} bytes) is damaged",
            "delete it to train from the beginning, or choose another folder {out}",
        ) from error
    network.load_state_dict(_tensors_of(tensors, _NETWORK))
    held: dict[int, dict[str, Any]] = {}
    for name, value in {**_tensors_of(tensors, _OPTIMISER), **numbers}.items():
        index, _, key = name.partition(".")
        held.setdefault(int(index), {})[key] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": held})
    return facts, _tensors_of(tensors, _SOURCE)


def _tensors_of(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


Files: TypeAlias = dict[str, bytes]
Curves: TypeAlias = Callable[[Path], object]


@dataclass(frozen=True)
class TrainingJob:
    """One call of ``train``."""

    algorithm: str
    options: Mapping[str, Any]
    out: Path
    dataset: Dataset | str | Path | None = None  # that of all jobs where it is not said


@dataclass(frozen=True)
class _Sent:
    """A job on its way: the number of its dataset, and what its folder holds so far."""

    job: TrainingJob
    dataset: int
    files: Files


class Trainer:
    """A worker: it holds the datasets, trains in a folder of its own and answers with the files."""

    def __init__(self, datasets: Sequence[Dataset], curves: Curves | None) -> None:
        self.datasets, self.curves = datasets, curves

    def __call__(self, sent: _Sent, tick: Tick) -> Files | tuple[str, str]:
        """Train and return the folder's files, or the two parts of a UserError where the training cannot be done."""
        from longshot.training.loop import train

        with tempfile.TemporaryDirectory(prefix="longshot-training-") as folder:
            out = Path(folder)
            write_files(out, sent.files)
            data = self.datasets[sent.dataset]
            try:
                train(sent.job.algorithm, data, out=out, curves=self.curves, **sent.job.options)
            except UserError as error:
                return error.fact, error.remedy
            tick(1)
            return read_files(out)


def train_elsewhere(
    jobs: Sequence[TrainingJob], dataset: Dataset | str | Path | None, curves: Curves | None
) -> list[UserError | None]:
    """Train on the workers of a cluster what is not trained yet; the error of each job that failed.

    Here nothing is done: ``train`` does it when it is called. What an interrupted training had reached goes along.
    """
    pool = executor()
    errors: list[UserError | None] = [None] * len(jobs)
    todo = [number for number, job in enumerate(jobs) if not _finished(job)]
    if not pool.distant or not todo:
        return errors
    opened: dict[int, Dataset] = {}
    numbers: dict[int, int] = {}
    for number in todo:
        own = jobs[number].dataset
        data = as_dataset(dataset if own is None else own)  # type: ignore[arg-type]
        opened[number] = data
        numbers.setdefault(id(data), len(numbers))
    unique = {numbers[id(data)]: data for data in opened.values()}
    portable = [portable_dataset(pool, unique[number]) for number in range(len(unique))]
    crew = Crew(Trainer, (portable, curves), torch.get_num_threads())

    def sent() -> Any:
        for number in todo:
            job = replace(jobs[number], dataset=None)
            yield number, _Sent(job, numbers[id(opened[number])], read_files(jobs[number].out))

    with (
        progress("train", len(todo), "networks") as bar,
        closing(pool.map(crew, sent(), bar, count=len(todo), chunk=1)) as trained,
    ):
        for number, answer in trained:
            if isinstance(answer, tuple):
                errors[number] = UserError(*answer)
            else:
                write_files(jobs[number].out, answer)
    return errors


def read_files(folder: Path) -> Files:
    """Read every file of a folder: relative path → content; nothing where there is no folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != HEARTBEAT)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_files(folder: Path, files: Files) -> None:
    """Write files into a folder, the one that says what the folder is last."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(files, key=lambda name: (name == TRAINING, name)):
        with atomic(folder / name) as temporary:
            temporary.write_bytes(files[name])


def _finished(job: TrainingJob) -> bool:
    facts = read_facts(job.out)
    return facts is not None and bool(facts.get("finished"))
