"""The verbs: what two datasets share, what is suspect in one, and a dataset without it, as a view file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from longshot.audit.copies import copy_groups
from longshot.audit.decisions import decided_rows, reviewed
from longshot.audit.pairs import NEIGHBOURS, SIMILARITY, Embed, find_pairs
from longshot.audit.record import KIND, Overlap, check_first_side, make_overlap, remember
from longshot.base import (
    PAGE,
    OutputKind,
    UserError,
    claim_output,
    deliver_text,
    delivered,
    has_columns,
    hash_file,
    is_stream,
    with_engine,
    with_executor,
)
from longshot.data import (
    VIEW_ENDING,
    VIEW_KIND,
    Dataset,
    DatasetLike,
    ViewFile,
    ViewFormat,
    as_dataset,
    leave_out_images,
    read_nouns,
    registry,
    shared_classes,
)
from longshot.models import SUSPECT_ODDS, Suspects, suspects_of

if TYPE_CHECKING:
    from PIL.Image import Image

    from longshot.models import BackboneLike

_KIND = OutputKind("list of suspects", {".csv": has_columns("key", "class", "reason", "looks_like", "odds")})


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

    A near copy survives re-encoding, resizing, other brightness, contrast or colour, borders, captions and overlays,
    crops to half of each side, any turn, mirroring and a page around it; every one is compared pixel by pixel.
    The overlap is remembered: an evaluation warns when a network's training data overlaps the testbed.

    Parameters
    ----------
    dataset, other : Dataset, str or Path
        What to compare; the same one twice finds copies within it.
    backbone : str, optional
        Also look at neighbours in this embedding (see 'longshot backbones').
    similarity : float, -1 to 1
        Cosine in the embedding from which a pair is listed as similar.
    neighbours : int, at least 1
        Pairs of each image whose pixels are compared at most.
    index : {"auto", "exact", "ivf"}
        How neighbours are found; auto takes FAISS beyond 100,000 images on both sides.
    workers : int, at least 1, optional
        Threads that read images. Default: one per core.
    device, engine, on, gpus_per_worker, retry_failed : optional
        As in ``embed``.
    out : file, optional
        Write all pairs: .parquet or .json. ``"-"`` is the screen.
    page : file, optional
        Write a page with pictures of the pairs.
    force : bool
        Replace what is at ``out`` and ``page``, even if Longshot did not write it.
    pictures : int, at least 0
        Pairs of each kind that the page shows.
    render : callable, optional
        What makes the page: ``render(pairs, counts, facts, images=, pictures=)`` → HTML.

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
    """Return ``images(side, keys)`` for a page with pictures: side "a" is ``dataset``, side "b" ``other``."""

    def images(side: str, keys: list[str]) -> list[Image]:
        source = dataset if side == "a" else other
        return [source.image(int(row)) for row in source.find_rows(pa.array(keys, pa.string()))]

    return images


def _embedder(backbone: str, device: str) -> Embed:
    from longshot.models import embed, load_backbone

    loaded = load_backbone(backbone, device)  # an unknown name is an error before anything runs

    def vectors(dataset: Dataset) -> Any:
        return embed(dataset, loaded, device=device).array

    return vectors


@with_engine
def find_suspects(
    dataset: DatasetLike,
    *,
    backbone: BackboneLike | Sequence[BackboneLike] | None = None,
    near_copies: bool = True,
    out: str | Path | None = None,
    view: str | Path | None = None,
    force: bool = False,
    workers: int | None = None,
    device: str = "auto",
    engine: str | None = None,
) -> Suspects:
    """Find images whose label looks wrong, and images that are copies of others in the same dataset.

    A label is suspected where linear discriminants on the backbones' features, fitted without the image, think it
    hardly more probable than a guess, and at most one of ten nearest images carries it. Copies are equal images and
    near copies; the first of its class is not suspected, unless copies carry different labels. What a person decided to
    keep (``review_dataset``) is not suspected.

    Parameters
    ----------
    dataset : Dataset, str or Path
        What ``open_dataset`` opens.
    backbone : str, or several
        Whose features judge the labels; repeat for several, which judge together. Default: the first that is installed.
    near_copies : bool
        Look for near copies too, which reads every image, or only for files of equal bytes.
    out : file, optional
        Write all suspects: FILE.csv. The columns are key, class, reason, looks_like, odds.
    view : file, optional
        Write the dataset without them: FILE.view.json. It opens like any dataset. Images that a person dropped go too.
    force : bool
        Replace what is at ``out`` and ``view``, even if Longshot did not write it.
    workers : optional
        As in ``find_overlap``.
    device, engine : optional
        As in ``embed``.

    Returns
    -------
    Suspects
        ``mislabelled``, ``rival``, ``odds``, ``copies`` (rows), ``mask``, ``table()``, ``facts()``.

    Examples
    --------
    >>> suspects = find_suspects("toybox", backbone="pixels", near_copies=False)
    >>> suspects.facts()["copies"]
    0
    """
    from pyarrow import csv

    from longshot.models import default_networks, embed

    if out is not None:
        claim_output(out, _KIND, force=force)
    if view is not None:
        claim_output(view, VIEW_KIND, force=force, name="view")
    data = as_dataset(dataset)
    several: list[Any] = list(backbone) if isinstance(backbone, list | tuple) else [backbone]
    networks = [each for each in several if each is not None] or default_networks()[:1]
    features = [embed(data, network, device=device) for network in networks]
    present = ~decided_rows(data)[1]
    copies = np.flatnonzero(copy_groups(data, near_copies).among(present).suspects(data.labels))
    suspects = reviewed(replace(suspects_of(*features), copies=copies, near=near_copies), data)
    if out is not None:
        with delivered(out) as temporary:
            csv.write_csv(suspects.table(), temporary)
    if view is not None:
        _write_view(suspects, data, Path(view), [each.backbone for each in features])
    return suspects


def _write_view(suspects: Suspects, dataset: Dataset, path: Path, backbones: Sequence[str]) -> None:
    dropped = dataset.keys.filter(pa.array(decided_rows(dataset)[1])).to_pylist()
    keys = [*suspects.table()["key"].to_pylist(), *dropped]
    why = {
        "variant": "without suspects",
        "backbone": ", ".join(backbones),
        "features": suspects.features.hash,
        "odds": SUSPECT_ODDS,
        **suspects.facts(),
    }
    remember_view(write_view(path, dataset, set(keys), (), why), path)


class View(NamedTuple):
    """A dataset without what it shares with another."""

    dataset: Dataset  # what the view file opens as
    original: Dataset
    variant: str  # "deduplicated", "class-ablated", or the two joined by "and"


def leave_out_overlap(
    dataset: str | Path | Dataset,
    overlap_file: str | Path,
    *,
    out: str | Path,
    classes: bool = False,
    images: bool = False,
    relations: Sequence[str] = (),
    force: bool = False,
) -> View:
    """Write ``dataset`` without what an overlap file says it shares with another dataset.

    Parameters
    ----------
    dataset : str, path or Dataset
        The first of the two datasets that were compared.
    overlap_file : path
        What :func:`find_overlap` wrote.
    out : file
        The view to write: FILE.view.json. It opens like any dataset.
    classes : bool
        Leave out classes related to B's, not single images. B is the other dataset.
    images : bool
        With ``classes``: leave out the copies of B's images as well.
    relations : list of {"same", "name", "synonym", "above", "below"}
        Which relations count for ``classes``; repeat for several. Default: all.
    force : bool
        Replace what is there, even if it is no view that Longshot wrote.
    """
    claim_output(out, VIEW_KIND, force=force)
    overlap_file, out = Path(overlap_file), Path(out)
    overlap = Overlap.load(overlap_file)
    original = as_dataset(dataset)
    check_first_side(overlap, original, overlap_file)
    images = images or not classes
    chosen = {"relations": relations} if relations else {}
    keys, class_ids = overlap.to_leave_out(images=images, classes=classes, **chosen)
    variant = " and ".join(["deduplicated"] * images + ["class-ablated"] * classes)
    why = {
        "variant": variant,
        "overlap": overlap_file.name,
        "hash": hash_file(overlap_file),
        "against": {name: overlap.b[name] for name in ("name", "fingerprint")},
    }
    view = write_view(out, original, keys, class_ids, why)
    remember_view(view, out)
    return View(view, original, variant)


def write_view(
    path: str | Path, dataset: Dataset, keys: Collection[str], classes: Collection[str], why: dict[str, Any]
) -> Dataset:
    """Write the view file and return what it opens as; ``why`` tells how it came about."""
    VIEW_KIND.ending(path)
    path, shown = Path(path), is_stream(path)
    view = leave_out_images(
        dataset, keys, classes, dataset.name if shown else path.name.removesuffix(VIEW_ENDING)
    )
    ViewFile(
        source=dataset.source,
        dataset=dataset.name,
        of=dataset.fingerprint,
        fingerprint=view.fingerprint,
        without_keys=tuple(sorted(keys)),
        without_classes=tuple(sorted(classes)),
        why=why,
    ).save(path)
    return view if shown else replace(view, source=ViewFormat().source(path.absolute()))


def remember_view(view: Dataset, path: str | Path) -> None:
    """Let a view be found again, where it is a file that can be opened."""
    if not is_stream(path):
        registry.remember(view)
