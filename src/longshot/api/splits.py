"""Splits drawn: the classes of a dataset in the plane, coloured by part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longshot.datasets import DatasetLike
    from longshot.features.backbones import BackboneLike


def plot_splits(
    splits: Sequence[str],
    dataset: DatasetLike,
    *,
    backbone: BackboneLike,
    out: str | Path,
    order: str | Path | None = None,
    device: str = "auto",
) -> None:
    """Draw the classes in the plane of their first two principal components, one panel per split.

    Parameters
    ----------
    splits : sequence of str
        Files, published splits, "random" or "semantic", as ``compare_splits`` takes them.
    dataset : Dataset, str or Path
        Whose classes the splits name.
    backbone : str or object
        Whose features give the class embeddings; anything that ``embed`` takes.
    out : path
        The picture: ``.png``, ``.svg`` or ``.pdf``.
    order : path, optional
        For published splits: a text file with one class id a line, in the order of their numbers.
    device : str
        auto, cpu, cuda or mps.
    """
    from longshot.datasets import as_dataset
    from longshot.features.extract import embed
    from longshot.reports.split_plots import SplitPanel, class_map
    from longshot.splits.comparing import open_splits
    from longshot.splits.embeddings import class_embeddings

    opened = as_dataset(dataset)
    named = open_splits(splits, opened, order=order)
    panels = [SplitPanel(name, split.positions(opened)) for name, split in named.items()]
    features = embed(opened, backbone, device=device)
    title = f"{opened.name}, {len(opened.class_ids):,} classes, {features.backbone}"
    class_map(class_embeddings(features), panels, Path(out), title)
