"""``longshot splits``: look at class splits, compare them, draw them, and set class trees beside a taxonomy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.cli.common import FILE, PATH, echo_json, print_table, shared
from longshot.cli.splits_rows import (
    comparison_row,
    gap_row,
    pair_row,
    plain,
    print_hardness,
    print_rows,
    target_line,
)


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


_backbones = click.option(
    "--backbone",
    "backbones",
    multiple=True,
    required=True,
    help="Backbone whose features give the class embeddings; repeat for several.",
)
_dataset = click.option(
    "--dataset", required=True, help="Dataset whose classes the splits name: a name or a path."
)
_order = click.option(
    "--order",
    type=PATH,
    help="For published splits: text file with one class id a line, in the order of their numbers.",
)
_references = click.option(
    "--references/--no-references", default=True, help="Add random, semantic and fitting published splits."
)


@command.command("list")
@shared("json")
def list_splits(as_json: bool) -> None:
    """List the published splits by name, with the dataset each was made for.

    \b
    Example:
      longshot splits list
    """
    from longshot.tasks import list_published

    print_table(list_published(), as_json=as_json)


@command.command("show")
@click.argument("file", type=PATH)
@click.option("--classes", "with_classes", is_flag=True, help="List the classes of every part too.")
@shared("json")
def show(file: Path, with_classes: bool, as_json: bool) -> None:
    """Print what a split file holds: sizes, how it was made, its classes.

    \b
    Example:
      longshot split toybox --backbone pixels --divergence 0.64 -o far.json
      longshot splits show far.json --classes
    """
    from longshot.tasks import Split

    split = Split.load(file)
    if as_json:
        parts = {part: list(members) for part, members in split.parts.items()}
        facts = {"name": split.name, "fingerprint": split.fingerprint, "made": split.story}
        echo_json({**facts, "sizes": split.sizes, **parts})
        return
    sizes = ", ".join(f"{count:,} {part}" for part, count in split.sizes.items())
    click.echo(f"{split.name}: {sizes}")
    click.echo(f"dataset fingerprint: {split.fingerprint[:12] or 'none, a list by hand'}")
    tables = ("hardness", "references", "target")
    for key, value in split.story.items():
        if key not in tables:
            click.echo(f"  {key}: {plain(value)}")
    if "target" in split.made:
        click.echo(target_line(split.made))
    if "hardness" in split.made:
        print_hardness([{"split": split.name, **split.made["hardness"]}, *split.made.get("references", [])])
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
@click.option("--hardness/--no-hardness", default=True, help="Measure class similarity and transfer loss.")
@_references
@shared("way", "shot", "device", "engine", "json")
def compare(
    splits: tuple[str, ...], dataset: str, with_classes: bool, markdown: bool, as_json: bool, **settings: Any
) -> None:
    """Measure splits under one or several backbones: how hard they are, divergences, gap, nearest train classes.

    \b
    Example:
      longshot split toybox --backbone pixels --divergence 0.64 -o far.json
      longshot splits compare far.json random --dataset toybox --backbone pixels

    Divergences are those of the mean train and the mean test class, so that any split has them, and they
    compare with each other; ATG's own centroids lie further out than these means. How hard a split is stands in
    a table of its own: frozen accuracy of the test classes (how alike they are), accuracy after a linear map
    learnt on the train classes, and transfer loss (what other train classes would give more).
    """
    import longshot

    opened = longshot.open_dataset(dataset)
    comparisons = longshot.compare_splits(splits, opened, **settings)
    if as_json:
        records = [
            {
                **comparison.record(),
                "shared_test": comparison.shared_test,
                "nearest": [vars(pair) for pair in comparison.nearest],
            }
            for comparison in comparisons
        ]
        echo_json(records)
        return
    rows = [comparison_row(comparison) for comparison in comparisons]
    print_rows(rows, markdown, f"{opened.name}: {len(opened.class_ids):,} classes")
    for backbone in dict.fromkeys(comparison.backbone for comparison in comparisons):
        hardness = [
            {"split": comparison.split, **comparison.hardness.record()}
            for comparison in comparisons
            if comparison.backbone == backbone and comparison.hardness is not None
        ]
        if hardness:
            click.echo()
            print_hardness(hardness, markdown, backbone)
    if with_classes:
        for comparison in (comparison for comparison in comparisons if not comparison.reference):
            farthest = sorted(comparison.nearest, key=lambda pair: -pair.distance)
            listed = [
                {
                    "test class": pair.test,
                    "nearest train class": pair.train,
                    "distance": f"{pair.distance:.3f}",
                }
                for pair in farthest
            ]
            click.echo()
            title = f"{comparison.split}, {comparison.backbone}: farthest test classes first"
            print_rows(listed, markdown, title)


@command.command("tree")
@click.argument("dataset")
@_backbones
@shared("taxonomy", "reduction")
@click.option("--pairs", type=click.IntRange(min=0), default=3, help="Odd pairs to print.")
@click.option("--markdown", is_flag=True, help="Print a Markdown table.")
@shared("device", "engine", "json")
def tree(dataset: str, markdown: bool, as_json: bool, **settings: Any) -> None:
    """Ward clustering of class embeddings against a taxonomy, in hops between classes.

    \b
    Example:
      longshot splits tree toybox --backbone pixels

    'hops' is the mean over pairs of classes of the difference in edges between them; 'chance' the same after
    the classes changed places at random. With several backbones their trees are compared with each other too.
    """
    import longshot
    from longshot.tasks import compare_trees

    opened = longshot.open_dataset(dataset)
    trees = compare_trees(opened, **settings)
    rows = [gap_row(name, against, gap, exact=as_json) for name, against, gap in trees.gaps]
    listed = [pair_row(pair) for pair in trees.pairs]
    if as_json:
        echo_json({"trees": rows, "pairs": listed})
        return
    print_rows(rows, markdown, f"{opened.name}: {len(opened.class_ids):,} classes")
    if listed:
        click.echo()
        print_rows(listed, markdown, "Where they disagree most")


@command.command("plot")
@click.argument("splits", nargs=-1, required=True, metavar="SPLIT…")
@_dataset
@click.option("--backbone", required=True, help="Backbone whose features give the class embeddings.")
@click.option("--of", default="classes", help="classes (a panel per split) or hardness (a point per split).")
@_order
@_references
@shared("way", "shot")
@click.option("-o", "--out", required=True, type=FILE, help="Picture: FILE.png, .svg or .pdf.")
@shared("force", "device", "engine")
def plot(splits: tuple[str, ...], dataset: str, out: Path, **settings: Any) -> None:
    """Draw the classes in the plane of their first two principal components, coloured by part, or hardness.

    \b
    Example:
      longshot split toybox --backbone pixels --divergence 0.64 -o far.json
      longshot splits plot far.json random --dataset toybox --backbone pixels -o splits.png
      longshot splits plot far.json --of hardness --dataset toybox --backbone pixels -o hardness.png
    """
    from longshot.api import plot_splits

    plot_splits(splits, dataset, out=out, **settings)
    click.echo(f"wrote {out}")
