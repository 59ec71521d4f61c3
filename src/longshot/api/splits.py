"""Splits drawn: the classes of a dataset in the plane, coloured by part, or splits by how hard they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.base import UserError

if TYPE_CHECKING:
    from longshot.data import Dataset, DatasetLike
    from longshot.models import BackboneLike


def plot_splits(
    splits: Sequence[str],
    dataset: DatasetLike,
    *,
    backbone: BackboneLike,
    out: str | Path,
    force: bool = False,
    of: str = "classes",
    order: str | Path | None = None,
    references: bool = True,
    way: int = 5,
    shot: int = 5,
    device: str = "auto",
    engine: str | None = None,
) -> None:
    """Draw the classes in the plane of their first two principal components, or how hard the splits are.

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
    force : bool
        Replace what is there, even if it is no picture that Longshot drew.
    of : {"classes", "hardness"}
        A panel of classes for each split, or all splits by class similarity and transfer loss.
    order : path, optional
        For published splits: a text file with one class id a line, in the order of their numbers.
    references : bool
        Of hardness: whether to add random, semantic and published splits.
    way, shot : int
        Of hardness: classes of the tasks, and support images of each.
    device : str
        auto, cpu, cuda or mps.
    engine : str, optional
        What computes the backbone, as in ``embed``.
    """
    from longshot.base import PICTURE, claim_output
    from longshot.data import as_dataset

    claim_output(out, PICTURE, force=force)
    opened = as_dataset(dataset)
    seen = {"device": device, "engine": engine}
    if of == "hardness":
        shape = {"way": way, "shot": shot}
        _plot_hardness(
            splits, opened, Path(out), backbones=backbone, order=order, references=references, **shape, **seen
        )
    elif of == "classes":
        _plot_classes(splits, opened, backbone, Path(out), order, seen)
    else:
        raise UserError(f"There is no picture of '{of}'; there are classes and hardness.")


def _plot_classes(
    splits: Sequence[str],
    dataset: Dataset,
    backbone: BackboneLike,
    out: Path,
    order: str | Path | None,
    seen: dict[str, Any],
) -> None:
    """One panel per split."""
    from longshot.models import embed
    from longshot.reports import SplitPanel, class_map
    from longshot.tasks import class_embeddings, open_splits

    named = open_splits(splits, dataset, order=order)
    panels = [SplitPanel(name, split.positions(dataset)) for name, split in named.items()]
    features = embed(dataset, backbone, **seen)
    title = f"{dataset.name}, {len(dataset.class_ids):,} classes, {features.backbone}"
    class_map(class_embeddings(features), panels, out, title)


def _plot_hardness(splits: Sequence[str], dataset: Dataset, out: Path, **settings: Any) -> None:
    """One point per split."""
    from longshot.reports import HardnessPoint, hardness_map
    from longshot.tasks import compare_splits

    compared = compare_splits(splits, dataset, **settings)
    points = [
        HardnessPoint(
            comparison.split,
            hardness.frozen.mean,
            hardness.frozen.half or 0.0,
            hardness.transfer_loss.mean,
            hardness.transfer_loss.half or 0.0,
            comparison.reference,
        )
        for comparison in compared
        if (hardness := comparison.hardness) is not None
    ]
    shape = f"{settings['way']}-way {settings['shot']}-shot"
    if not points:
        raise UserError(f"None of the splits can be measured by {shape} tasks", "lower {way} or {shot}")
    hardness_map(points, out, f"{dataset.name}, {compared[0].backbone}, {shape}")
