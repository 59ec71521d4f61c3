"""``longshot splits``: look at class splits, compare them, draw them, and set class trees beside a taxonomy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from longshot.cli.common import device_option, json_option, print_table
from longshot.cli.splits_rows import PARTS, comparison_row, gap_row, pair_row, plain, print_rows

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features
    from longshot.splits.compare import Places
    from longshot.splits.split import Split
    from longshot.splits.trees import Counts

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def command() -> None:
    """Look at splits of classes, compare them under any backbone, draw them.

    \b
    Example:
      longshot split toybox --backbone pixels --divergence 0.64 -o far.json
      longshot splits show far.json
      longshot splits compare far.json random --dataset toybox --backbone pixels
      longshot splits plot far.json random --dataset toybox --backbone pixels -o splits.png
      longshot splits tree toybox --backbone pixels

    'longshot split' makes splits; wherever a SPLIT is named here, it may be a file, a published split
    ('longshot splits list'), random, random(seed=3) or semantic.
    """


def _backbones(function: F) -> F:
    """``--backbone``, repeatable."""
    return click.option(
        "--backbone",
        "backbones",
        multiple=True,
        required=True,
        help="Backbone whose features give the class embeddings; repeat for several.",
    )(function)


def _dataset(function: F) -> F:
    """``--dataset``, needed."""
    return click.option(
        "--dataset", "dataset", required=True, help="Dataset whose classes the splits name: a name or a path."
    )(function)


def _order(function: F) -> F:
    """``--order``, for published splits whose class names are not known."""
    return click.option(
        "--order",
        type=click.Path(path_type=Path),
        help="For published splits: text file with one class id a line, in the order of their numbers.",
    )(function)


@command.command("list")
@json_option
def list_splits(as_json: bool) -> None:
    """List the published splits by name, with the dataset each was made for.

    \b
    Example:
      longshot splits list
    """
    from longshot.splits.published import names, partition

    rows = []
    for name in names():
        made_for = name.removeprefix("atg:").partition("@")[0] if name.startswith("atg:") else "cifar100"
        sizes = "/".join(str(len(members)) for members in partition(name).values())
        rows.append({"split": name, "made for": made_for, "train/validation/test": sizes})
    print_table(rows, as_json=as_json)


@command.command("show")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--classes", "with_classes", is_flag=True, help="List the classes of every part too.")
@json_option
def show(file: Path, with_classes: bool, as_json: bool) -> None:
    """Print what a split file holds: sizes, how it was made, its classes.

    \b
    Example:
      longshot split toybox --backbone pixels --divergence 0.64 -o far.json
      longshot splits show far.json --classes
    """
    from longshot.splits.split import Split

    split = Split.load(file)
    if as_json:
        parts = {part: list(members) for part, members in split.parts.items()}
        facts = {"name": split.name, "fingerprint": split.fingerprint, "made": split.made}
        click.echo(json.dumps({**facts, "sizes": split.sizes, **parts}, indent=2, ensure_ascii=False))
        return
    sizes = ", ".join(f"{count:,} {part}" for part, count in split.sizes.items())
    click.echo(f"{split.name}: {sizes}")
    click.echo(f"dataset fingerprint: {split.fingerprint[:12] or 'none, a list by hand'}")
    for key, value in split.made.items():
        click.echo(f"  {key}: {plain(value)}")
    if with_classes:
        for part, members in split.parts.items():
            click.echo(f"\n{part}")
            for member in members:
                click.echo(f"  {member}")


@command.command("compare")
@click.argument("splits", nargs=-1, required=True, metavar="SPLIT…")
@_dataset
@_backbones
@click.option(
    "--classes", "with_classes", is_flag=True, help="List every test class with its nearest train class."
)
@click.option("--markdown", is_flag=True, help="Print a Markdown table.")
@_order
@device_option
@json_option
def compare(
    splits: tuple[str, ...],
    dataset: str,
    backbones: tuple[str, ...],
    with_classes: bool,
    markdown: bool,
    order: Path | None,
    device: str,
    as_json: bool,
) -> None:
    """Measure splits under one or several backbones: four divergences, gap, nearest train classes.

    \b
    Example:
      longshot split toybox --backbone pixels --divergence 0.64 -o far.json
      longshot splits compare far.json random --dataset toybox --backbone pixels

    Divergences are those of the mean train and the mean test class, so that any split has them, and they
    compare with each other; ATG's own centroids lie further out than these means.
    """
    from longshot.splits.compare import compare_split

    opened = _open_dataset(dataset)
    parts = {name: _positions(split, opened) for name, split in _open(splits, opened, order).items()}
    found = [
        compare_split(name, places, _embeddings(features), features.class_ids, backbone)
        for backbone in dict.fromkeys(backbones)
        for features in [_features(opened, backbone, device)]
        for name, places in parts.items()
    ]
    _tell_unassigned(parts, opened.class_ids)
    shared = _shared(parts)
    if as_json:
        records = [
            {
                **one.record(),
                "shared_test": shared[one.split],
                "nearest": [vars(near) for near in one.nearest],
            }
            for one in found
        ]
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
        return
    rows = [comparison_row(one, shared[one.split]) for one in found]
    print_rows(rows, markdown, f"{opened.name}: {len(opened.class_ids):,} classes")
    if with_classes:
        for one in found:
            near = sorted(one.nearest, key=lambda pair: -pair.distance)
            listed = [
                {"test class": p.test, "nearest train class": p.train, "distance": f"{p.distance:.3f}"}
                for p in near
            ]
            click.echo()
            print_rows(listed, markdown, f"{one.split}, {one.backbone}: farthest test classes first")


@command.command("tree")
@click.argument("dataset")
@_backbones
@click.option("--taxonomy", type=click.Path(path_type=Path), help="Taxonomy file; else the dataset's own.")
@click.option("--pairs", type=click.IntRange(min=0), default=3, show_default=True, help="Odd pairs to print.")
@click.option("--markdown", is_flag=True, help="Print a Markdown table.")
@device_option
@json_option
def tree(
    dataset: str,
    backbones: tuple[str, ...],
    taxonomy: Path | None,
    pairs: int,
    markdown: bool,
    device: str,
    as_json: bool,
) -> None:
    """Ward clustering of class embeddings against a taxonomy, in hops between classes.

    \b
    Example:
      longshot splits tree toybox --backbone pixels

    'hops' is the mean over pairs of classes of the difference in edges between them; 'chance' the same after
    the classes changed places at random. With several backbones their trees are compared with each other too.
    """
    from longshot.splits.trees import far_pairs, linkage_hops, taxonomy_hops, tree_gap, ward

    opened = _open_dataset(dataset)
    given = _taxonomy(opened, taxonomy)
    class_ids = opened.class_ids
    named = {
        backbone: linkage_hops(ward(_embeddings(_features(opened, backbone, device))))
        for backbone in dict.fromkeys(backbones)
    }
    graphs: dict[str, Counts] = {**named, "taxonomy": taxonomy_hops(given, class_ids)}
    names = list(graphs)
    gaps = [
        (one, other, tree_gap(graphs[one], graphs[other]))
        for place, one in enumerate(names)
        for other in names[place + 1 :]
    ]
    odd = [
        (which, backbone, *pair)
        for backbone in named
        for which, (one, other) in (
            ("near in the tree, far in the taxonomy", (graphs[backbone], graphs["taxonomy"])),
            ("far in the tree, near in the taxonomy", (graphs["taxonomy"], graphs[backbone])),
        )
        for pair in far_pairs(one, other, class_ids, pairs)
    ]
    rows = [gap_row(one, other, found, exact=as_json) for one, other, found in gaps]
    listed = [pair_row(*pair) for pair in odd]
    if as_json:
        click.echo(json.dumps({"trees": rows, "pairs": listed}, indent=2, ensure_ascii=False))
        return
    print_rows(rows, markdown, f"{opened.name}: {len(class_ids):,} classes")
    if listed:
        click.echo()
        print_rows(listed, markdown, "Where they disagree most")


@command.command("plot")
@click.argument("splits", nargs=-1, required=True, metavar="SPLIT…")
@_dataset
@click.option("--backbone", required=True, help="Backbone whose features give the class embeddings.")
@_order
@click.option(
    "-o", "--out", required=True, type=click.Path(path_type=Path), help="Picture: FILE.png, .svg or .pdf."
)
@device_option
def plot(
    splits: tuple[str, ...], dataset: str, backbone: str, order: Path | None, out: Path, device: str
) -> None:
    """Draw the classes in the plane of their first two principal components, coloured by part.

    \b
    Example:
      longshot split toybox --backbone pixels --divergence 0.64 -o far.json
      longshot splits plot far.json random --dataset toybox --backbone pixels -o splits.png
    """
    from longshot.reports.split_plots import SplitPanel, class_map

    opened = _open_dataset(dataset)
    named = _open(splits, opened, order)
    panels = [SplitPanel(name, _positions(split, opened)) for name, split in named.items()]
    title = f"{opened.name}, {len(opened.class_ids):,} classes, {backbone}"
    class_map(_embeddings(_features(opened, backbone, device)), panels, out, title)
    click.echo(f"wrote {out}")


def _open_dataset(spec: str) -> Dataset:
    from longshot.datasets import open_dataset

    return open_dataset(spec)


def _open(specs: Sequence[str], dataset: Dataset, order: Path | None) -> dict[str, Split]:
    """Name → split; a file is called by its name without ending, anything else by what was written."""
    from longshot.core.errors import UserError
    from longshot.splits import open_split

    found: dict[str, Split] = {}
    for spec in specs:
        name = Path(spec).stem if Path(spec).is_file() else spec
        if name in found:
            raise UserError(f"Two of the splits are called '{name}'; give each once, or rename a file.")
        found[name] = open_split(spec, dataset, order=order)
    return found


def _features(dataset: Dataset, backbone: str, device: str) -> Features:
    from longshot.features.extract import embed

    return embed(dataset, backbone, device=device)


def _embeddings(features: Features) -> Any:
    from longshot.splits.embeddings import class_embeddings

    return class_embeddings(features)


def _positions(split: Split, dataset: Dataset) -> dict[str, Places]:
    """Class positions by part; a part the split lacks is empty."""
    import numpy as np

    parts = split.resolve(dataset)
    where = {class_id: place for place, class_id in enumerate(dataset.class_ids)}
    return {part: np.array(sorted(where[c] for c in parts.get(part, ())), np.int64) for part in PARTS}


def _taxonomy(dataset: Dataset, file: Path | None) -> Any:
    from longshot.core.errors import UserError
    from longshot.taxonomy.readers import read_taxonomy

    if file is not None:
        return read_taxonomy(file)
    if dataset.taxonomy is None:
        raise UserError(
            f"Dataset '{dataset.name}' has no taxonomy to compare with; nest its class folders, add a taxonomy.csv, or "
            "give --taxonomy FILE."
        )
    return dataset.taxonomy


def _tell_unassigned(parts: dict[str, dict[str, Places]], class_ids: Sequence[str]) -> None:
    from longshot.splits.compare import check_unassigned

    for name, places in parts.items():
        told = check_unassigned(name, places, class_ids)
        if told:
            click.echo(f"note: {told}", err=True)


def _shared(parts: dict[str, dict[str, Places]]) -> dict[str, float]:
    """Share of each split's test classes that the first split tests too."""
    from longshot.splits.compare import shared_test

    first = next(iter(parts.values()))
    return {name: shared_test(places, first) for name, places in parts.items()}
