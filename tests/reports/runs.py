"""Testbeds, result rows and pictures made by hand, in the format of ``evaluate``."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from longshot.base import write_json
from longshot.evaluation import Unit, new_run, testbed_path, write_unit
from longshot.reports.report_data import COLUMNS, Cell, ReportData, ReportSeries, ReportTestbed
from longshot.tasks import Testbed

Series = Mapping[str, Any]  # backbone, method, setting, skill (chance of a right answer)
NAMES = tuple(f"solid/{shape}" for shape in ("ball", "cone", "cube", "disc", "ring", "star", "wedge"))
DEFAULT: tuple[Series, ...] = (
    {"backbone": "pixels", "method": "protonet(distance='euclidean')", "setting": "inductive", "skill": 0.45},
    {"backbone": "net", "method": "protonet(distance='euclidean')", "setting": "inductive", "skill": 0.8},
    {"backbone": "net", "method": "tim(steps=100)", "setting": "transductive", "skill": 0.9},
)
# what a run records of them: the first answers as the semantic paper's does, the second does not
SETTINGS = {"protonet(distance='euclidean')": {"distance": "euclidean"}, "tim(steps=100)": {"steps": 100}}


def draw_testbed(
    tasks: int,
    *,
    vary: bool,
    names: Sequence[str],
    seed: int,
    coarsity: bool = False,
    support_from: int = 0,
    datasets: Sequence[str] = ("shapes",),
    classes_by: str = "uniform",
    shot: int = 2,
    way: int = 5,
) -> Testbed:
    """Tasks of ``way`` ways, ``shot`` shots and 4 queries a class, or of 2–6 ways and 1–5 shots.

    ``coarsity`` measures two columns, the second of them without meaning; ``support_from`` chooses other support
    images for the same queries; tasks take turns over ``datasets``.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for task in range(tasks):
        ways = int(rng.integers(2, 7)) if vary else way
        classes = [names[i] for i in sorted(rng.choice(len(names), ways, replace=False))]
        shots = rng.integers(1, 6, ways).tolist() if vary else [shot] * ways
        support = [
            (f"{c}/{support_from + i:02d}.png", label)
            for label, c in enumerate(classes)
            for i in range(shots[label])
        ]
        query = [(f"{c}/{i:02d}.png", label) for label, c in enumerate(classes) for i in range(10, 14)]
        rows.append(
            {
                "task": task,
                "dataset": datasets[task % len(datasets)],
                "classes": classes,
                "support": [key for key, _ in support],
                "query": [key for key, _ in query],
                "support_label": [label for _, label in support],
                "query_label": [label for _, label in query],
                "way": ways,
                "shots": shots,
                **({"coarsity": 10 + 7.5 * (task % 41) / 41, "noise": float(task % 17)} if coarsity else {}),
            }
        )
    sampler = {"shape": "hand", "classes": {"name": classes_by}, "instances": {"name": "uniform"}}
    fingerprints = {
        name: f"{digit:x}" * 64 for digit, name in enumerate(datasets, start=15 - len(datasets) + 1)
    }
    return Testbed.create(pa.Table.from_pylist(rows), datasets=fingerprints, sampler=sampler, seed=seed)


def columns(testbed: Testbed, series: Series, seed: int, scores: bool = False) -> dict[str, list[Any]]:
    """Results of a series that is right with probability ``skill``, a little less on every third task.

    Finer tasks are harder for it where there is coarsity; with ``scores`` it is always equally sure.
    """
    label = f"{series['backbone']}{series['method']}{seed}"
    rng = np.random.default_rng(zlib.crc32(label.encode()))
    rows = []
    for task in testbed:
        truth = np.asarray(task.query_label)
        skill = series["skill"] - (0.15 if task.index % 3 == 0 else 0)
        skill += (task.measured.get("coarsity", 13.75) - 13.75) * 0.04
        guess = rng.integers(0, task.way, len(truth))
        prediction = np.where(rng.random(len(truth)) < skill, truth, guess)
        accuracy = float(np.mean(prediction == truth))
        top5 = 1.0 if task.way <= 5 else (1 + accuracy) / 2
        rows.append(
            {
                "task": task.index,
                "accuracy": accuracy,
                "balanced_accuracy": accuracy,
                "normalized_accuracy": (accuracy - 1 / task.way) / (1 - 1 / task.way),
                "top5": top5,
                "loss": 1 - accuracy,
                "way": task.way,
                "mean_shot": float(np.mean(task.shots)),
                "coarsity": task.measured.get("coarsity"),
                "prediction": prediction.tolist(),
            }
        )
        if scores:
            rows[-1]["scores"] = (3.0 * np.eye(task.way)[prediction]).reshape(-1).tolist()
    return {name: [row[name] for row in rows] for name in rows[0]}


def write_run(
    path: Path,
    *,
    tasks: int = 30,
    beds: Mapping[str, bool | Mapping[str, Any]] | None = None,
    series: Sequence[Series] = DEFAULT,
    names: Sequence[str] = NAMES,
    scores: bool = False,
) -> Path:
    """A run folder as ``evaluate`` writes it; ``beds`` maps names of testbeds to whether their shape varies.

    A testbed can have options of ``draw_testbed`` instead.
    """
    run = new_run()
    for seed, (name, shape) in enumerate((beds or {"fixed": False, "any": True}).items()):
        options = {"vary": shape} if isinstance(shape, bool) else shape
        testbed = draw_testbed(tasks, **{"vary": False, "seed": seed, "names": names, **options})
        testbed.save(testbed_path(path, testbed.content_hash))
        run["testbeds"][testbed.content_hash] = {"name": name}
        for measured in series:
            method, setting, method_seed = measured["method"], measured["setting"], measured.get("seed", 0)
            identity = f"{method} {setting} {measured['skill']}"
            results = columns(testbed, measured, seed, scores)
            owners = testbed.table.column("dataset").to_pylist()
            units = []
            for dataset in dict.fromkeys(owners):  # a unit holds tasks of one dataset
                rows = [row for row, owner in enumerate(owners) if owner == dataset]
                unit = Unit(
                    testbed.content_hash,
                    name,
                    dataset,
                    measured["backbone"],
                    measured["backbone"],
                    method,
                    identity,
                    setting,
                    method_seed,
                    0,
                    len(rows),
                )
                part = {key: [values[row] for row in rows] for key, values in results.items()}
                write_unit(path, unit, part | {"seconds": [measured.get("seconds", 0.001)] * len(rows)})
                units.append(unit.id)
            run["methods"][method] = {
                "setting": setting,
                "kind": measured.get("kind", "frozen"),
                "settings": SETTINGS.get(method, {}),
            }
            run["cells"].append(
                {
                    "testbed": testbed.content_hash,
                    "backbone": measured["backbone"],
                    "method": method,
                    "seed": method_seed,
                    "units": units,
                }
            )
    run["sessions"].append({"started": "2026-01-02T03:04:05+00:00"})
    write_json(path / "run.json", run)
    return path


def draw_images(dataset: str, keys: Sequence[str]) -> list[Image.Image]:
    """A plain picture per key; its colour is a function of the key."""
    images = []
    for key in keys:
        number = zlib.crc32(key.encode())
        images.append(Image.new("RGB", (90, 70), (number & 255, number >> 8 & 255, number >> 16 & 255)))
    return images


def cell(accuracy: Sequence[float] | np.ndarray, tasks: Sequence[int] | None = None, **changes: Any) -> Cell:
    """Rows of 5 ways and 1 shot whose every metric is the accuracy; tasks are numbered from 0 unless given."""
    values = np.asarray(accuracy, dtype=float)
    ones = np.ones(len(values))
    numbers = np.arange(len(values)) if tasks is None else np.asarray(tasks)
    return replace(Cell(numbers, dict.fromkeys(COLUMNS, values), 5 * ones, ones, None), **changes)


def task_columns(tasks: int) -> dict[str, Any]:
    """Columns of tasks with five of eight classes of one dataset and a query each."""
    names = pa.array([f"class {number}" for number in range(8)])
    rows = np.arange(tasks)[:, None]
    numbers = ((3 * rows + np.array([0, 1, 2, 4, 5]) * (1 + 2 * (rows % 3))) % 8).reshape(-1)
    classes = pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), names)
    return {
        "dataset": pa.array(["pets"] * tasks).dictionary_encode(),
        "classes": pa.ListArray.from_arrays(pa.array(np.arange(0, 5 * tasks + 1, 5), pa.int32()), classes),
        "query_label": pa.array([[0]] * tasks),
    }


@dataclass(frozen=True)
class _Unknown:
    """A testbed of which nothing is known but its size and classes: none is paired with one of another size."""

    size: int
    meta: Mapping[str, Any] = field(default_factory=dict)
    measured: tuple[str, ...] = ()
    datasets: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.size

    @property
    def table(self) -> pa.Table:
        return pa.table(task_columns(1000))


def report_of(*beds: Sequence[Cell]) -> ReportData:
    """Testbeds called 0, 1 …, the i-th cell of each belonging to series i."""
    count = max(map(len, beds))
    testbeds: list[Any] = [_Unknown(number + 1) for number in range(len(beds))]
    return ReportData(
        runs=(),
        names=(),
        missing=(),
        beds=tuple(ReportTestbed(str(b), str(b), testbed) for b, testbed in enumerate(testbeds)),
        series=tuple(ReportSeries("net", f"m{s}", "inductive") for s in range(count)),
        cells={(b, s): cell for b, cells in enumerate(beds) for s, cell in enumerate(cells)},
    )


def read_rows(run: Path) -> pa.Table:
    """All result rows of a run folder, read without Longshot."""
    return pa.concat_tables([pq.read_table(part) for part in sorted(run.glob("part-*.parquet"))])


def write_history(folder: Path, records: int = 40, every: int = 10, **changes: Any) -> Path:
    """A history whose loss falls; validated every so often, best in the middle."""
    folder.mkdir(parents=True)
    lines = []
    for step in range(1, records + 1):
        checked = every and step % every == 0
        mean = 0.8 - abs(step - records // 2) / (4 * records)
        record = {
            "step": step,
            "seconds": 1.5 * step,
            "loss": 2 / step,
            "train_accuracy": 0.5,
            "lr": 0.01,
            "validation_accuracy": mean if checked else None,
            "validation_interval": [mean - 0.02, mean + 0.02] if checked else None,
            "best": bool(checked),
        }
        lines.append(json.dumps({**record, **changes}))
    (folder / "history.jsonl").write_text("\n".join(lines) + "\n")
    return folder
