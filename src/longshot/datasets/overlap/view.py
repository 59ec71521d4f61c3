"""Writing a dataset without what it shares with another, as a view file (``datasets/formats/view.py`` opens it)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from longshot.core.files import hash_file
from longshot.core.outputs import claim_output, is_stream
from longshot.datasets import as_dataset, registry
from longshot.datasets.dataset import Dataset
from longshot.datasets.formats.view import ENDING, KIND, ViewFile, ViewFormat, without
from longshot.datasets.overlap.record import Overlap, check_first_side


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
    out : path
        The view file to write; its name ends with ``.view.json``. It opens like any dataset.
    classes : bool
        Leave out the classes that are related to classes of the other dataset, not single images.
    images : bool
        With ``classes``: leave out the copies of the other's images as well.
    relations : sequence of str
        Which relations count for ``classes`` (same, name, synonym, above, below); all by default.
    force : bool
        Replace what is there, even if it is no view that Longshot wrote.
    """
    claim_output(out, KIND, force=force)
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
    KIND.ending(path)
    path, shown = Path(path), is_stream(path)
    view = without(dataset, keys, classes, dataset.name if shown else path.name.removesuffix(ENDING))
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
