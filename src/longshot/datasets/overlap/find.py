"""Everything that two datasets share, in one call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from longshot.core.errors import UserError
from longshot.core.outputs import PAGE, claim_output, deliver_text
from longshot.datasets import DatasetLike, as_dataset
from longshot.datasets.dataset import Dataset
from longshot.datasets.overlap.classes import shared_classes
from longshot.datasets.overlap.pairs import NEIGHBOURS, SIMILARITY, Embed, find_pairs
from longshot.datasets.overlap.record import KIND, Overlap, make_overlap, remember
from longshot.datasets.overlap.synonyms import read_nouns
from longshot.features.runtimes import with_engine
from longshot.scale import with_executor

if TYPE_CHECKING:
    from PIL.Image import Image


@with_engine
@with_executor
def find_overlap(
    dataset: DatasetLike,
    other: DatasetLike,
    *,
    backbone: str | None = None,
    similarity: float = SIMILARITY,
    neighbours: int = NEIGHBOURS,
    index: str = "auto",
    workers: int | None = None,
    device: str = "auto",
    engine: str | None = None,
    out: str | Path | None = None,
    page: str | Path | None = None,
    force: bool = False,
    pictures: int = 48,
    render: Callable[..., str] | None = None,
    on: str | None = None,
    gpus_per_worker: float | None = None,
    retry_failed: bool | None = None,
) -> Overlap:
    """Find images and classes that two datasets share: exact copies, near copies, related class names.

    A near copy survives re-encoding, resizing, other brightness or contrast, grey, a border of 6 %, crops to 80 % of
    each side, mirroring and quarter turns; every one is compared pixel by pixel.
    The overlap is remembered: an evaluation warns when a network's training data overlaps the testbed.

    Parameters
    ----------
    dataset, other : Dataset, str or Path
        What to compare; the same one twice finds copies within it.
    backbone : str, optional
        Also look at neighbours in this embedding.
    similarity : float
        Cosine in the embedding, −1 to 1, from which a pair is listed as similar.
    neighbours : int
        Pairs of each image whose pixels are compared at most.
    index : str
        How neighbours are found: "exact", "ivf" (FAISS), or "auto", which takes FAISS beyond 100,000 images on both
        sides.
    workers : int, optional
        Threads that read images; all cores by default.
    device : str
        Where to compute: "auto", "cpu", "cuda" or "mps".
    engine : str, optional
        What computes backbones, as in ``embed``.
    out : path, optional
        Also write the overlap there, as ``.parquet`` or ``.json``; ``"-"`` is the screen.
    page : path, optional
        Also write a page with pictures of the pairs.
    force : bool
        Replace what is at ``out`` and ``page``, even if Longshot did not write it.
    pictures : int
        Pairs of each kind that the page shows.
    render : callable, optional
        What makes the page: ``render(pairs, counts, facts, images=, pictures=)`` → HTML.
    on, gpus_per_worker, retry_failed : optional
        Where the work runs, as in ``embed``: "local", "ray" or "ray://HOST:PORT".

    Returns
    -------
    Overlap
        ``pairs`` (a table), ``classes``, ``counts()``, ``copies()``, ``save(path)``.

    Examples
    --------
    >>> overlap = find_overlap("toybox", "toybox", neighbours=2, out="copies.parquet")
    >>> [row["kind"] for row in overlap.counts()]
    ['exact', 'near', 'similar']
    """
    if out is not None:
        claim_output(out, KIND, force=force)
    if page is not None:
        claim_output(page, PAGE, force=force, name="page")
    if neighbours < 1:
        raise UserError(
            f"At least 1 neighbour of each image is looked at, not {neighbours}; raise {{neighbours}}."
        )
    a, b = (as_dataset(side) for side in (dataset, other))
    pairs = find_pairs(
        a,
        b,
        embed=None if backbone is None else _embedder(backbone, device),
        neighbours=neighbours,
        similarity=similarity,
        index=index,
        device=device,
        workers=workers,
    )
    nouns = read_nouns()
    settings = {
        "neighbours": neighbours,
        "backbone": backbone,
        "similarity": similarity if backbone else None,
        "wordnet": nouns is not None,
    }
    overlap = make_overlap(a, b, pairs, shared_classes(a, b, nouns), settings)
    remember(overlap)
    if out is not None:
        overlap.save(out, force=force)
    if page is not None and render is not None:
        images = pair_images(a, b)
        text = render(overlap.pairs, overlap.counts(), overlap.meta(), images=images, pictures=pictures)
        deliver_text(page, text)
    return overlap


def pair_images(dataset: Dataset, other: Dataset) -> Callable[[str, list[str]], list[Image]]:
    """``images(side, keys)`` for a page with pictures: side "a" is ``dataset``, side "b" ``other``."""

    def images(side: str, keys: list[str]) -> list[Image]:
        source = dataset if side == "a" else other
        return [source.image(int(row)) for row in source.find_rows(pa.array(keys, pa.string()))]

    return images


def _embedder(backbone: str, device: str) -> Embed:
    from longshot.features.backbones import load_backbone
    from longshot.features.extract import embed

    loaded = load_backbone(backbone, device)  # an unknown name is an error before anything runs

    def vectors(dataset: Dataset) -> Any:
        return embed(dataset, loaded, device=device).array

    return vectors
