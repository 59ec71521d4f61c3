"""Steps shared by several devices (plain ``torch.distributed``, one process each); trainings side by side on a cluster.

Gradients are averaged with one sum over all numbers. The result is that of a single device with the same total,
up to rounding, as long as the parts of a step do not see each other: episodes never do; batch norm sees the images of
its own device.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import ProcessRaisedException, spawn

from longshot.base import HEARTBEAT_FILE as HEARTBEAT
from longshot.base import Crew, Tick, UserError, atomic, executor, pick_device, progress
from longshot.data import Dataset, as_dataset, portable_dataset
from longshot.training.folders import TRAINING, read_facts


@dataclass(frozen=True)
class Team:
    """This process among ``size`` that train together; alone by default."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Tell whether this process validates and writes."""
        return self.rank == 0

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over the processes, in place, in one exchange."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1).float() for tensor in tensors])
        dist.all_reduce(flat)
        flat /= self.size
        start = 0
        for tensor in tensors:
            tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()

    def share(self, value: float) -> float:
        """Return the leading process's number in every process."""
        if self.size == 1:
            return value
        shared = torch.tensor([value if self.leads else 0.0], dtype=torch.float64)
        if dist.get_backend() == "nccl":
            shared = shared.to("cuda")
        dist.all_reduce(shared)
        return float(shared.item())


def check_devices(devices: int, device: torch.device, total: int, noun: str) -> None:
    """Refuse ``devices`` that cannot share ``total`` images or episodes (``noun``), or are not there."""
    if device.type == "cuda" and devices > torch.cuda.device_count():
        raise UserError(
            f"{devices} devices were asked for, but PyTorch finds {torch.cuda.device_count()} CUDA devices",
            "lower {devices}",
        )
    if device.type == "mps" and devices > 1:
        raise UserError(f"There is one MPS device, not {devices}", "leave {devices} out")
    if total % devices:
        raise UserError(
            f"A step has {total} {noun}, which {devices} devices cannot share evenly",
            f"choose a {{batch}} that is a multiple of {devices}",
        )


def launch(devices: int, device: str, work: Callable[..., None], *arguments: Any) -> None:
    """Run ``work(team, device, *arguments)`` in ``devices`` processes; the first error stops them all."""
    with tempfile.TemporaryDirectory(prefix="longshot-team-") as meeting:
        meeting_point = Path(meeting, "meeting").as_uri()
        threads = max(1, torch.get_num_threads() // devices)
        try:
            spawn(_member, (devices, device, meeting_point, threads, work, arguments), nprocs=devices)  # type: ignore[no-untyped-call]
        except ProcessRaisedException:
            mistakes = sorted(Path(meeting).glob("mistake-*"))
            if not mistakes:
                raise
            raise UserError(mistakes[0].read_text(encoding="utf-8")) from None


def _member(
    rank: int,
    devices: int,
    device: str,
    meeting_point: str,
    threads: int,
    work: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    kind = pick_device(device).type
    if kind == "cuda":
        device = f"cuda:{rank}"
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(threads)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the processes are all on this machine
    dist.init_process_group(
        "nccl" if kind == "cuda" else "gloo", meeting_point, rank=rank, world_size=devices
    )
    try:
        work(Team(rank, devices), device, *arguments)
    except UserError as mistake:  # a sentence for the user, which another process cannot raise for us
        path = Path(meeting_point.removeprefix("file://")).with_name(f"mistake-{rank}")
        path.write_text(mistake.template, "utf-8")
        raise
    finally:
        dist.destroy_process_group()


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
