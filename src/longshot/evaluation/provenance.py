"""What a result must tell about where it was computed, and what its network saw before: training data that leaked."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from longshot.base import Floats, Ragged
from longshot.statistics import mean_interval
from longshot.tasks import dictionary, of_dataset, places_among, ragged

if TYPE_CHECKING:
    from longshot.evaluation.plan import EvaluationPlan
    from longshot.evaluation.results import Results
    from longshot.models import TestedImages
    from longshot.tasks import Testbed

_PACKAGES = ("longshot", "numpy", "torch", "pyarrow", "scipy", "pillow")
_OPTIONAL = ("onnxruntime", "openvino")  # engines


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def surroundings(device: str) -> dict[str, Any]:
    """Describe package versions, source revision and machine, as they stand in run.json."""
    return {
        "python": platform.python_version(),
        "packages": {
            **{name: metadata.version(name) for name in _PACKAGES},
            **{each.name: each.version for name in _OPTIONAL for each in _distributions(name)},
        },
        "revision": source_revision(),
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "device": _device_name(device),
        },
    }


def _distributions(name: str) -> list[metadata.Distribution]:
    """List the package of this name; the list is empty where it is not installed."""
    try:
        return [metadata.distribution(name)]
    except metadata.PackageNotFoundError:
        return []


@cache
def source_revision() -> str | None:
    """Return the source's Git commit ('-dirty' behind it when changed), None for an installed package."""
    here = Path(__file__).resolve()

    def git(*args: str) -> str | None:
        try:
            # Without optional locks: looking must not write to the repository's index.
            command = ["git", "--no-optional-locks", "-C", str(here.parent), *args]
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # A virtual environment may lie in somebody else's repository: the file itself must be tracked.
    if git("ls-files", "--error-unmatch", here.name) is None:
        return None
    commit = git("rev-parse", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no", str(here.parents[1]))
    return f"{commit}-dirty" if commit and changed else commit


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _device_name(device: str) -> str:
    if device.startswith("cuda"):
        import torch

        return f"{device}: {torch.cuda.get_device_name(device)}"
    return device


def record_upstream(run: dict[str, Any], plan: EvaluationPlan) -> None:
    """Enter into run.json what is known about training and test data that overlap, and warn where they do.

    ``run["upstream"][backbone][testbed hash]`` is a list, one entry per dataset of the testbed, see
    :func:`longshot.models.find_leaks`. ``run["lineage"][backbone]`` are the network's weights and those that it started
    from: a judge may be among them.
    """
    from longshot.evaluation.views import leaks_in
    from longshot.models import find_leaks, training_stages

    tested: dict[tuple[str, str], TestedImages] = {}
    for backbone in plan.backbones:
        arrays = plan.given.get(backbone)  # features that were handed over
        opens = next(iter(arrays.values())).backbone if arrays else plan.opened.names.get(backbone, "")
        stages = training_stages(opens)
        weights = [
            {"weights_hash": stage.weights, "backbone": stage.network} for stage, _ in stages if stage.weights
        ]
        if weights:
            run.setdefault("lineage", {})[backbone] = weights
        for content_hash, testbed in plan.testbeds.items() if stages else ():
            for name in testbed.datasets:
                if (content_hash, name) not in tested:
                    tested[content_hash, name] = _tested(testbed, name)
            run.setdefault("upstream", {}).setdefault(backbone, {})[content_hash] = [
                {"dataset": name, **find_leaks(stages, tested[content_hash, name])}
                for name in testbed.datasets
            ]
    for (content_hash, backbone), leak in leaks_in(run).items():
        if leak.images and backbone in plan.backbones and content_hash in plan.testbeds:
            print(f"warning: {leak.fact}.", file=sys.stderr)


def _tested(testbed: Testbed, name: str) -> TestedImages:
    """Return the images a testbed takes from a dataset: their classes and, where known, their digests."""
    from longshot.data import short_digests
    from longshot.models import SeenImages, TestedImages

    keys, content = testbed.keys(name), testbed.content[name]
    own = of_dataset(testbed.table, name)
    table = testbed.table if own.all() else testbed.table.filter(pa.array(own))
    classes, class_of = ragged(table, "classes"), np.zeros(len(keys), np.int64)
    for part in ("support", "query"):
        labels = ragged(table, f"{part}_label")
        places = places_among(table, part, keys)[ragged(table, part).values]
        class_of[places] = classes.values[np.repeat(classes.offsets[:-1], labels.lengths) + labels.values]
    ids, labels_of = tuple(dictionary(table, "classes").to_pylist()), testbed.labels.get(name, {})
    # the digests of the bytes stand before those of the pixels
    images = (
        SeenImages(*map(short_digests, np.hsplit(content.digests, 2)))
        if content.identity == "content"
        else None
    )
    return TestedImages(testbed.datasets[name], keys, ids, class_of, labels_of, images)


def record_unleaked(run: dict[str, Any], results: Results) -> None:
    """Enter into the cells of run.json what their accuracy is without what training saw, where it saw images.

    ``cell["unleaked"]`` has ``all``: the accuracy with it; ``queries``: the mean over tasks of the share of right
    answers among the queries that were not seen; ``tasks``: the mean accuracy of the tasks of which neither support nor
    query was seen. Each comes with
    half its 95 % interval and with ``n`` (of all ``of``); without a mean where nothing remains.
    """
    from longshot.evaluation.results import cell_rows

    table, flags = None, dict[tuple[str, str], tuple[Ragged, Ragged]]()
    for cell in run["cells"]:
        leaks = run.get("upstream", {}).get(cell["backbone"], {}).get(cell["testbed"], ())
        if not any(leak.get("leaked") for leak in leaks):
            continue
        table = results.table() if table is None else table
        rows, key = cell_rows(table, cell), (cell["testbed"], cell["backbone"])
        testbed = results.testbed(cell["testbed"])
        if key not in flags:
            flags[key] = _leaked_flags(testbed, "support", leaks), _leaked_flags(testbed, "query", leaks)
        cell["unleaked"] = unleaked_accuracy(testbed, *flags[key], rows)


def unleaked_accuracy(testbed: Testbed, support: Ragged, query: Ragged, rows: pa.Table) -> dict[str, Any]:
    """Compute the accuracy of result rows without leaked queries, and without tasks with any leak.

    ``support`` and ``query`` flag the images of every task of the testbed that leaked.
    """
    from longshot.evaluation.testbed_statistics import as_ragged

    tasks = rows["task"].to_numpy()
    flags, labels = query.take(tasks), testbed.column("query_label").take(tasks)
    right = as_ragged(rows["prediction"]).values == labels.values
    fresh = ~flags.values
    sizes, hits = (
        np.bincount(labels.owners[chosen], minlength=len(tasks)) for chosen in (fresh, fresh & right)
    )
    seen_support = support.take(tasks)
    touched = np.bincount(seen_support.owners[seen_support.values], minlength=len(tasks)) > 0
    clean = ~touched & (sizes == labels.lengths)
    every = np.bincount(labels.owners[right], minlength=len(tasks)) / labels.lengths
    return {
        "all": _mean(every, len(tasks), len(tasks)),
        "queries": _mean(hits[sizes > 0] / sizes[sizes > 0], int(fresh.sum()), len(fresh)),
        "tasks": _mean(every[clean], int(clean.sum()), len(tasks)),
    }


def _mean(values: Floats, number: int, of: int) -> dict[str, float | int | None]:
    """Return a mean with half its 95 % interval, as far as there are values."""
    mean, half = None, None
    if len(values):
        interval = mean_interval(values)
        mean, half = interval.mean, interval.half
    return {"mean": mean, "half": half, "n": number, "of": of}


def _leaked_flags(testbed: Testbed, part: str, leaks: Sequence[Mapping[str, Any]]) -> Ragged:
    """Flag the support or query images of every task that leaked."""
    from longshot.models import unpack_mask

    images = testbed.column(part)
    flags = np.zeros(len(images.values), np.bool_)
    for leak in leaks:
        keys = testbed.keys(leak["dataset"])
        leaked = np.append(
            unpack_mask(leak.get("leaked", ""), len(keys)), False
        )  # −1: an image of another dataset
        own = np.repeat(of_dataset(testbed.table, leak["dataset"]), images.lengths)
        flags |= own & leaked[places_among(testbed.table, part, keys)[images.values]]
    return images.with_values(flags)
