"""A run of many tasks over a dataset of many images, made without evaluating anything: the explorer's benchmark."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image, ImageDraw

from longshot.base import Ragged, write_json
from longshot.evaluation import testbed_path
from longshot.evaluation.run_record import new_run
from longshot.evaluation.units import Unit, chunks, ragged_list, write_unit
from longshot.tasks import Testbed, columns

WAY, SHOT, QUERY = 5, 5, 15
METHODS = {"protonet": 0.62, "ridge": 0.66, "simpleshot": 0.63, "tim": 0.70}


def write_images(folder: Path, classes: int, per_class: int) -> None:
    """``classes`` folders of ``per_class`` small JPEGs; a hundred different pictures, under many names."""
    rng = np.random.default_rng(0)
    pictures = []
    for number in range(100):
        image = Image.fromarray(rng.integers(60, 200, (96, 96, 3), dtype=np.uint8)).resize((160, 120))
        ImageDraw.Draw(image).ellipse((30, 20, 120, 100), fill=f"hsl({number * 3}, 70%, 50%)")
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=80)
        pictures.append(buffer.getvalue())
    for label in range(classes):
        inner = folder / f"class-{label:04d}"
        inner.mkdir(parents=True, exist_ok=True)
        for number in range(per_class):
            (inner / f"{number:04d}.jpg").write_bytes(pictures[(label * 7 + number) % len(pictures)])


def draw_testbed(tasks: int, classes: int, per_class: int, name: str, fingerprint: str) -> Testbed:
    """5-way 5-shot tasks with 15 queries a class, drawn in one go."""
    rng = np.random.default_rng(1)
    chosen = (
        np.argsort(rng.random((tasks, classes)), axis=1)[:, :WAY]
        if tasks * classes < 2e7
        else _distinct(rng, tasks, classes)
    )
    chosen = np.sort(chosen, axis=1)
    images = np.argsort(rng.random((tasks * WAY, 64)), axis=1)[:, : SHOT + QUERY] % per_class
    rows = chosen.reshape(-1, 1) * per_class + images
    keys = pa.array(
        [f"class-{row // per_class:04d}/{row % per_class:04d}.jpg" for row in range(classes * per_class)]
    )
    ids = pa.array([f"class-{label:04d}" for label in range(classes)])

    def strings(values: np.ndarray, width: int, names: pa.Array) -> pa.Array:
        return columns.strings(Ragged.from_lengths(values.reshape(-1), np.full(tasks, width)), names)

    def labels(count: int) -> pa.Array:
        return ragged_list([np.repeat(np.arange(WAY, dtype=np.int16), count)] * tasks)

    table = pa.table(
        {
            "task": np.arange(tasks),
            "dataset": pa.array([name] * tasks),
            "classes": strings(chosen, WAY, ids),
            "support": strings(rows[:, :SHOT], WAY * SHOT, keys),
            "query": strings(rows[:, SHOT:], WAY * QUERY, keys),
            "support_label": labels(SHOT),
            "query_label": labels(QUERY),
            "way": np.full(tasks, WAY, np.int16),
            "shots": ragged_list([np.full(WAY, SHOT, np.int16)] * tasks),
            "coarsity": rng.gamma(3.0, 4.0, tasks),
        }
    )
    sampler = {"shape": {"name": "fixed"}, "classes": {"name": "uniform"}, "instances": {"name": "uniform"}}
    return Testbed.create(table, datasets={name: fingerprint}, sampler=sampler, seed=0)


def _distinct(rng: np.random.Generator, tasks: int, classes: int) -> np.ndarray:
    """``WAY`` different classes for each task."""
    chosen = rng.integers(0, classes, (tasks, WAY))
    while True:
        ordered = np.sort(chosen, axis=1)
        again = (np.diff(ordered, axis=1) == 0).any(axis=1)
        if not again.any():
            return chosen
        chosen[again] = rng.integers(0, classes, (int(again.sum()), WAY))


def write_run(folder: Path, testbed: Testbed, name: str = "uniform") -> Path:
    """Results of four methods on a testbed, as ``evaluate`` writes them."""
    rng = np.random.default_rng(2)
    run = new_run()
    testbed.save(testbed_path(folder, testbed.content_hash))
    run["testbeds"][testbed.content_hash] = {"name": name, "tasks": len(testbed)}
    dataset = next(iter(testbed.datasets))
    truth = np.repeat(np.arange(WAY, dtype=np.int16), QUERY)
    hard = rng.normal(0, 0.08, len(testbed))
    coarsity = (
        testbed.table["coarsity"].to_numpy()
        if "coarsity" in testbed.measured
        else np.full(len(testbed), np.nan)
    )
    for method, skill in METHODS.items():
        setting = "transductive" if method == "tim" else "inductive"
        units = []
        for start, stop in chunks(len(testbed)):
            count = stop - start
            right = rng.random((count, len(truth))) < np.clip(skill + hard[start:stop, None], 0, 1)
            guess = rng.integers(0, WAY, (count, len(truth)), dtype=np.int16)
            predicted = np.where(right, truth, guess).astype(np.int16)
            accuracy = (predicted == truth).mean(axis=1)
            unit = Unit(
                testbed.content_hash, name, dataset, "net", "net", method, method, setting, 0, start, stop
            )
            rows = {
                "task": np.arange(start, stop),
                "accuracy": accuracy,
                "balanced_accuracy": accuracy,
                "normalized_accuracy": (accuracy - 1 / WAY) / (1 - 1 / WAY),
                "top5": np.ones(count),
                "loss": 1.6 - accuracy,
                "way": np.full(count, WAY, np.int16),
                "mean_shot": np.full(count, float(SHOT)),
                "coarsity": coarsity[start:stop],
                "prediction": ragged_list(list(predicted)),
            }
            write_unit(folder, unit, rows | {"seconds": [0.001] * count})
            units.append(unit.id)
        run["methods"][method] = {"setting": setting, "kind": "frozen", "settings": {}}
        run["cells"].append(
            {"testbed": testbed.content_hash, "backbone": "net", "method": method, "seed": 0, "units": units}
        )
    run["sessions"].append({"started": "2026-01-02T03:04:05+00:00", "finished": "2026-01-02T03:14:05+00:00"})
    write_json(folder / "run.json", run)
    return folder
