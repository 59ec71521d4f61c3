"""Testbeds, result rows and pictures made by hand, in the format of ``evaluate``."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from longshot.evaluation.results import new_run, testbed_path
from longshot.evaluation.units import Unit, write_unit
from longshot.files import write_json
from longshot.testbeds.testbed import Testbed

Series = Mapping[str, Any]  # backbone, method, setting, skill (chance of a right answer)
NAMES = tuple(f"solid/{shape}" for shape in ("ball", "cone", "cube", "disc", "ring", "star", "wedge"))
DEFAULT: tuple[Series, ...] = (
    {"backbone": "pixels", "method": "protonet(distance='euclidean')", "setting": "inductive", "skill": 0.45},
    {"backbone": "net", "method": "protonet(distance='euclidean')", "setting": "inductive", "skill": 0.8},
    {"backbone": "net", "method": "tim(steps=100)", "setting": "transductive", "skill": 0.9},
)


def draw_testbed(tasks: int, *, vary: bool, names: Sequence[str], seed: int) -> Testbed:
    """Tasks of 5 ways, 2 shots and 4 queries a class, or of 2–6 ways and 1–5 shots."""
    rng = np.random.default_rng(seed)
    rows = []
    for task in range(tasks):
        way = int(rng.integers(2, 7)) if vary else 5
        classes = [names[i] for i in sorted(rng.choice(len(names), way, replace=False))]
        shots = rng.integers(1, 6, way).tolist() if vary else [2] * way
        support = [
            (f"{c}/{i:02d}.png", label) for label, c in enumerate(classes) for i in range(shots[label])
        ]
        query = [(f"{c}/{i:02d}.png", label) for label, c in enumerate(classes) for i in range(10, 14)]
        rows.append(
            {
                "task": task,
                "dataset": "shapes",
                "classes": classes,
                "support": [key for key, _ in support],
                "query": [key for key, _ in query],
                "support_label": [label for _, label in support],
                "query_label": [label for _, label in query],
                "way": way,
                "shots": shots,
            }
        )
    return Testbed.create(
        pa.Table.from_pylist(rows), datasets={"shapes": "f" * 64}, sampler={"shape": "hand"}, seed=seed
    )


def columns(testbed: Testbed, series: Series, seed: int) -> dict[str, list[Any]]:
    """Results of a series that is right with probability ``skill``, a little less on every third task."""
    label = f"{series['backbone']}{series['method']}{seed}"
    rng = np.random.default_rng(zlib.crc32(label.encode()))
    rows = []
    for task in testbed:
        truth = np.asarray(task.query_label)
        skill = series["skill"] - (0.15 if task.index % 3 == 0 else 0)
        guess = rng.integers(0, task.way, len(truth))
        prediction = np.where(rng.random(len(truth)) < skill, truth, guess)
        accuracy = float(np.mean(prediction == truth))
        rows.append(
            {
                "task": task.index,
                "accuracy": accuracy,
                "balanced_accuracy": accuracy,
                "normalized_accuracy": (accuracy - 1 / task.way) / (1 - 1 / task.way),
                "top5": 1.0,
                "loss": 1 - accuracy,
                "way": task.way,
                "mean_shot": float(np.mean(task.shots)),
                "coarsity": None,
                "prediction": prediction.tolist(),
            }
        )
    return {name: [row[name] for row in rows] for name in rows[0]}


def write_run(
    path: Path,
    *,
    tasks: int = 30,
    beds: Mapping[str, bool] | None = None,
    series: Sequence[Series] = DEFAULT,
    names: Sequence[str] = NAMES,
) -> Path:
    """A run folder as ``evaluate`` writes it; ``beds`` maps names of testbeds to whether their shape varies."""
    run = new_run()
    for seed, (name, vary) in enumerate((beds or {"fixed": False, "any": True}).items()):
        testbed = draw_testbed(tasks, vary=vary, names=names, seed=seed)
        testbed.save(testbed_path(path, testbed.content_hash))
        run["testbeds"][testbed.content_hash] = {"name": name}
        for one in series:
            method, setting, method_seed = one["method"], one["setting"], one.get("seed", 0)
            identity = f"{method} {setting} {one['skill']}"
            unit = Unit(
                testbed.content_hash,
                name,
                "shapes",
                one["backbone"],
                one["backbone"],
                method,
                identity,
                setting,
                method_seed,
                0,
                tasks,
            )
            write_unit(path, unit, columns(testbed, one, seed), [0.001] * tasks)
            run["methods"][method] = {"setting": setting}
            run["cells"].append(
                {
                    "testbed": testbed.content_hash,
                    "backbone": one["backbone"],
                    "method": method,
                    "seed": method_seed,
                    "units": [unit.id],
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


def read_rows(run: Path) -> pa.Table:
    """All result rows of a run folder, read without Longshot."""
    return pa.concat_tables([pq.read_table(part) for part in sorted(run.glob("part-*.parquet"))])
