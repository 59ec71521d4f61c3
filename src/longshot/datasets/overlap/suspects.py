"""The verb ``longshot.find_suspects``: labels that look wrong and copies within one dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from longshot.core.outputs import Kind, claim_output, delivered, has_columns
from longshot.datasets import DatasetLike, as_dataset
from longshot.datasets.formats.view import KIND as VIEW
from longshot.datasets.overlap.pairs import KINDS, find_pairs
from longshot.features.runtimes import with_engine
from longshot.features.suspects import ODDS, Suspects, suspects_of

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.backbones import BackboneLike

_KIND = Kind("list of suspects", {".csv": has_columns("key", "class", "reason", "looks_like", "odds")})


@with_engine
def find_suspects(
    dataset: DatasetLike,
    *,
    backbone: BackboneLike,
    near_copies: bool = True,
    out: str | Path | None = None,
    view: str | Path | None = None,
    force: bool = False,
    workers: int | None = None,
    device: str = "auto",
    engine: str | None = None,
) -> Suspects:
    """Find images whose label looks wrong, and images that are copies of others in the same dataset.

    A label is suspected where another class is at least 100 times as probable: every image is judged by a linear
    discriminant on the backbone's features that was fitted without it, as in confident learning. Copies are equal
    files and near copies; the first of its class is not suspected, unless copies carry different labels.

    Parameters
    ----------
    dataset : Dataset, str or Path
        What ``open_dataset`` opens.
    backbone : str
        Whose features judge the labels; see ``list_backbones``.
    near_copies : bool
        Look for near copies too, which reads every image; otherwise only for files of equal bytes.
    out : path, optional
        Also write the suspects there as CSV: key, class, reason, looks_like, odds.
    view : path, optional
        Also write the dataset without them: a file that ends with ``.view.json`` and opens like any dataset.
    force : bool
        Replace what is at ``out`` and ``view``, even if Longshot did not write it.
    workers : int, optional
        Threads that read images; all cores by default.
    device : str
        Where to compute: "auto", "cpu", "cuda" or "mps".
    engine : str, optional
        What computes backbones, as in ``embed``.

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

    from longshot.features.extract import embed

    if out is not None:
        claim_output(out, _KIND, force=force)
    if view is not None:
        claim_output(view, VIEW, force=force, name="view")
    data = as_dataset(dataset)
    features = embed(data, backbone, device=device)
    near = None
    if near_copies:
        pairs = find_pairs(data, data, workers=workers, device=device)
        near = pairs.rows[pairs.kind < KINDS.index("similar")]
    suspects = suspects_of(features, near)
    if out is not None:
        with delivered(out) as temporary:
            csv.write_csv(suspects.table(), temporary)
    if view is not None:
        _write_view(suspects, data, Path(view))
    return suspects


def _write_view(suspects: Suspects, dataset: Dataset, path: Path) -> None:
    from longshot.datasets.overlap.view import remember_view, write_view

    keys = suspects.table()["key"].to_pylist()
    why = {
        "variant": "without suspects",
        "backbone": suspects.features.backbone,
        "features": suspects.features.hash,
        "odds": ODDS,
        **suspects.facts(),
    }
    remember_view(write_view(path, dataset, set(keys), (), why), path)
