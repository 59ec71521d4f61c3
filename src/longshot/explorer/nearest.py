"""Which support images lie nearest to a query, by the features that lie in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from longshot.base import Floats, Ints, UserError
from longshot.explorer.listing import address
from longshot.explorer.shelf import ShelvedTestbed
from longshot.explorer.site import Site
from longshot.explorer.tiles import sprite_of, tile_page
from longshot.reports import class_names

if TYPE_CHECKING:
    from longshot.explorer.pages.compare import Candidate
    from longshot.tasks import Task


def _vectors(features: str, backbone: str, fingerprint: str, images: int, rows: Ints) -> Floats | None:
    """The features of some rows of a dataset as the cache has them: of those in use, or of all its images."""
    import json

    from longshot.base import cache_places
    from longshot.models import grown_arrays, open_array, sidecar

    for kind in ("float16", "float32") if features else ():
        for grown in grown_arrays(features, images, kind):
            if grown.holds(rows, None).all():
                return np.asarray(grown.array[rows], np.float64)
    for path in (path for folder in cache_places("features") for path in sorted(folder.glob("*.npy"))):
        try:
            facts = json.loads(sidecar(path).read_text(encoding="utf-8"))
            if (facts["fingerprint"], facts["backbone"], facts["rows"]) == (fingerprint, backbone, images):
                return np.asarray(open_array(path)[rows], np.float64)
        except (UserError, OSError, ValueError, KeyError, TypeError):
            continue
    return None


def nearest_support(
    site: Site,
    shelved: ShelvedTestbed,
    task: Task,
    position: int,
    every: Sequence[Candidate],
    base: str,
    carried: list[tuple[str, str]],
) -> tuple[list[dict[str, Any]], str]:
    """The support images that lie nearest to a query by the features of a series; and why there are none."""
    names = class_names(task.classes, task.labels)
    fingerprint = shelved.testbed.datasets[task.dataset]
    for each in every:
        features = site.index(each.run).features.get(each.series.backbone, {}).get(fingerprint, "")
        try:
            dataset = site.dataset(task.dataset, fingerprint)
            rows = dataset.find_rows(pa.array([task.query[position], *task.support]))
        except UserError:
            continue
        vectors = _vectors(features, each.series.backbone, fingerprint, len(dataset), rows)
        if vectors is None:
            continue
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        similar = vectors[1:] @ vectors[0]
        order = np.argsort(-similar, kind="stable")[:8]
        pages = [tile_page(task, number) for number in range(1, tile_page(task, 1).pages + 1)]
        lies = {
            tile.position: (tiles, tile) for tiles in pages for tile in tiles.tiles if tile.part == "support"
        }
        near = [
            {
                "style": lies[int(index)][1].style if int(index) in lies else "",
                "sprite": sprite_of(base.removesuffix("/support"), shelved, task, lies[int(index)][0])
                if int(index) in lies
                else "",
                "key": task.support[int(index)],
                "name": names[int(task.support_label[index])],
                "same": int(task.support_label[index]) == int(task.query_label[position]),
                "similar": float(similar[index]),
                "url": address(f"{base}/{int(index)}", carried),
            }
            for index in order
        ]
        return near, f"By the cosine of {each.series.backbone}'s features."
    return (
        [],
        "The cache holds no features of a backbone that was evaluated here, so the nearest support is not known.",
    )
