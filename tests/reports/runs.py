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

from longshot.testbeds.testbed import Testbed

SCHEMA = pa.schema(
    {
        "testbed": pa.string(),
        "testbed_name": pa.string(),
        "task": pa.int64(),
        "backbone": pa.string(),
        "method": pa.string(),
        "seed": pa.int64(),
        "accuracy": pa.float64(),
        "balanced_accuracy": pa.float64(),
        "normalized_accuracy": pa.float64(),
        "top5": pa.float64(),
        "loss": pa.float64(),
        "dataset": pa.string(),
        "setting": pa.string(),
        "way": pa.int16(),
        "mean_shot": pa.float64(),
        "coarsity": pa.float64(),
        "seconds": pa.float64(),
        "prediction": pa.list_(pa.int16()),
    }
)
Series = Mapping[str, Any]  # backbone, method, setting, skill (chance of a right answer)
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


def result_rows(testbed: Testbed, name: str, series: Series, seed: int) -> list[dict[str, Any]]:
    """Rows of a series that is right with probability ``skill``, a little less on every third task."""
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
                "testbed": testbed.content_hash,
                "testbed_name": name,
                "task": task.index,
                "backbone": series["backbone"],
                "method": series["method"],
                "seed": series.get("seed", 0),
                "accuracy": accuracy,
                "balanced_accuracy": accuracy,
                "normalized_accuracy": (accuracy - 1 / task.way) / (1 - 1 / task.way),
                "top5": None if task.way < 5 else 1.0,
                "loss": 1 - accuracy,
                "dataset": task.dataset,
                "setting": series["setting"],
                "way": task.way,
                "mean_shot": float(np.mean(task.shots)),
                "coarsity": None,
                "seconds": 0.001,
                "prediction": prediction.tolist(),
            }
        )
    return rows


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
