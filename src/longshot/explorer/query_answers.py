"""Right and wrong, query by query: two series side by side, who is taken for whom, and the nearest support."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import Bools, Floats, Ints, Ragged, UserError, cache_places
from longshot.evaluation import numbered_classes
from longshot.explorer.caches import CachedTestbed, LruCache, rows_of
from longshot.explorer.library import Item
from longshot.explorer.site import Site
from longshot.explorer.sprites import query_gallery
from longshot.tasks import Testbed

if TYPE_CHECKING:
    from longshot.explorer.compare_views import Candidate
    from longshot.tasks import Task


KINDS = ("only_a", "only_b", "neither", "both")


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Two series on the tasks that both have answered: counts per task, and which queries are of which kind."""

    tasks: Ints  # [T]
    counts: pa.Table  # task, both, only_a, only_b, neither, accuracy_a, accuracy_b, difference
    kinds: NDArray[np.int8]  # [Q] of all queries of the testbed: place in KINDS, −1 where one did not answer
    offsets: Ints

    def totals(self) -> dict[str, int]:
        """Count the queries of each kind."""
        return {kind: int((self.kinds == number).sum()) for number, kind in enumerate(KINDS)}

    def queries(self, kind: str, tasks: Ints) -> list[tuple[int, int]]:
        """List (task, place) of the queries of a kind in some tasks, in their order."""
        wanted_kind = KINDS.index(kind)
        pairs: list[tuple[int, int]] = []
        for task in tasks.tolist():
            own = self.kinds[self.offsets[task] : self.offsets[task + 1]]
            pairs += [(task, int(position)) for position in np.flatnonzero(own == wanted_kind)]
        return pairs


def side_by_side(testbed: Testbed, a: NDArray[np.int16], b: NDArray[np.int16]) -> SideBySide:
    """Compare the answers of two series to every query."""
    labels = testbed.column("query_label")
    truth = labels.values
    answered = (np.asarray(a) >= 0) & (np.asarray(b) >= 0)
    right_a, right_b = np.asarray(a) == truth, np.asarray(b) == truth
    kinds = np.full(len(truth), -1, np.int8)
    for number, mask in enumerate(
        (right_a & ~right_b, right_b & ~right_a, ~right_a & ~right_b, right_a & right_b)
    ):
        kinds[answered & mask] = number
    per_task = {kind: _per_task(kinds == number, labels) for number, kind in enumerate(KINDS)}
    complete = np.flatnonzero((_per_task(answered, labels) == labels.lengths) & (labels.lengths > 0))
    counts = {kind: values[complete] for kind, values in per_task.items()}
    asked_queries = np.maximum(labels.lengths[complete], 1)
    accuracy_a = (counts["both"] + counts["only_a"]) / asked_queries
    accuracy_b = (counts["both"] + counts["only_b"]) / asked_queries
    table = pa.table(
        {
            "task": complete,
            "disagreements": counts["only_a"] + counts["only_b"],
            **counts,
            "accuracy_a": accuracy_a,
            "accuracy_b": accuracy_b,
            "difference": accuracy_b - accuracy_a,
        }
    )
    return SideBySide(complete, table, kinds, labels.offsets)


def _per_task(mask: Bools, rows: Ragged) -> Ints:
    """Count the marked entries of each row."""
    sums = np.concatenate([[0], np.cumsum(mask)])
    counts: Ints = sums[rows.offsets[1:]] - sums[rows.offsets[:-1]]
    return counts


def confused_queries(
    testbed: Testbed, flat: NDArray[np.int16], dataset: str, true: str, predicted: str
) -> list[tuple[int, int]]:
    """List (task, place) of the queries of a class that were given to another, in task order."""
    labels = testbed.column("query_label")
    classes, names = numbered_classes(testbed)
    number_of = {name: number for number, name in enumerate(names)}
    from_class, to_class = number_of.get((dataset, true), -1), number_of.get((dataset, predicted), -1)
    if -1 in (from_class, to_class):
        return []
    held = (
        Ragged(classes.values == from_class, classes.offsets),
        Ragged(classes.values == to_class, classes.offsets),
    )
    tasks = np.flatnonzero(
        (_per_task(held[0].values, classes) > 0) & (_per_task(held[1].values, classes) > 0)
    )
    pairs: list[tuple[int, int]] = []
    for task in tasks.tolist():
        own = classes.row(task)
        places = slice(int(labels.offsets[task]), int(labels.offsets[task + 1]))
        hit = (labels.values[places] == int(np.flatnonzero(own == from_class)[0])) & (
            flat[places] == int(np.flatnonzero(own == to_class)[0])
        )
        pairs += [(task, int(position)) for position in np.flatnonzero(hit)]
    return pairs


_sidecars = LruCache(1)


def feature_files() -> dict[tuple[str, str], Path]:
    """Map (fingerprint, backbone) to the features of whole datasets that the cache holds."""
    from longshot.models import sidecar

    folders = [folder for folder in cache_places("features") if folder.is_dir()]

    def read() -> dict[tuple[str, str], Path]:
        held: dict[tuple[str, str], Path] = {}
        for path in (path for folder in folders for path in sorted(folder.glob("*.npy"))):
            try:
                facts = json.loads(sidecar(path).read_text(encoding="utf-8"))
                held.setdefault((str(facts["fingerprint"]), str(facts["backbone"])), path)
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return held

    return _sidecars.get(tuple((folder, folder.stat().st_mtime_ns) for folder in folders), read)


def networks_of(fingerprint: str) -> list[str]:
    """List the networks through which the cache holds a whole dataset, raw pixels last."""
    names = [backbone for held, backbone in feature_files() if held == fingerprint]
    return sorted(names, key=lambda name: (name == "pixels", name))


def _vectors(features: str, backbone: str, fingerprint: str, images: int, rows: Ints) -> Floats | None:
    """Read the features of some rows from the cache: those of images in use, or of the whole dataset."""
    from longshot.models import grown_arrays, open_array

    for kind in ("float16", "float32") if features else ():
        for grown in grown_arrays(features, images, kind):
            if grown.holds(rows, None).all():
                return np.asarray(grown.array[rows], np.float64)
    path = feature_files().get((fingerprint, backbone))
    try:
        array = None if path is None else open_array(path)
    except (UserError, OSError, ValueError):
        return None
    return None if array is None or len(array) != images else np.asarray(array[rows], np.float64)


_similar = LruCache(16)


def task_similarity(
    site: Site, cached: CachedTestbed, task: Task, every: Sequence[Candidate]
) -> tuple[Floats, str] | None:
    """Return the cosine of every query with every support [Q, S] and whose features gave it; None without features."""
    fingerprint = cached.testbed.datasets[task.dataset]
    for backbone, run in {each.series.backbone: each.run for each in every}.items():
        features = site.index(run).features.get(backbone, {}).get(fingerprint, "")

        def measure(backbone: str = backbone, features: str = features) -> Floats | None:
            if not features and (fingerprint, backbone) not in feature_files():
                return None
            try:
                dataset = site.dataset(task.dataset, fingerprint)
            except UserError:
                return None
            rows = rows_of(dataset, [*task.query, *task.support])
            if (rows < 0).any():
                return None
            vectors = _vectors(features, backbone, fingerprint, len(dataset), rows)
            if vectors is None:
                return None
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
            similar: Floats = vectors[: len(task.query)] @ vectors[len(task.query) :].T
            return similar

        similar = _similar.get((cached.testbed.content_hash, task.index, backbone, features), measure)
        if similar is not None:
            return similar, backbone
    return None


def nearest_support(
    site: Site,
    item: Item,
    cached: CachedTestbed,
    task: Task,
    position: int,
    every: Sequence[Candidate],
    carried: Any,
) -> tuple[dict[str, Any], str]:
    """Arrange the support images nearest to a query by the features of a series; or tell why there are none."""
    measured = task_similarity(site, cached, task, every)
    if measured is None:
        return {"tiles": []}, (
            "The cache holds no features of a backbone that was evaluated here, so the nearest support is not known."
        )
    similar, backbone = measured[0][position], measured[1]
    nearest = np.argsort(-similar, kind="stable")[:8].tolist()
    gallery = query_gallery(item, cached, [(task.index, f"s{at}") for at in nearest], carried)
    for tile, at in zip(gallery["tiles"], nearest, strict=True):
        tile["same"] = int(task.support_label[at]) == int(task.query_label[position])
        tile["similar"] = float(similar[at])
    return gallery, f"By the cosine of {backbone}'s features."
