"""``longshot taxonomy``: show class hierarchies, measure distances between classes, cut WordNet to size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.base import FILE, echo_json, force_option, json_option, print_rich, print_table, verb_options

if TYPE_CHECKING:
    from rich.tree import Tree

    from longshot.data import Branch, Taxonomy


@click.group()
def taxonomy_command() -> None:
    """Show class hierarchies and distances between classes.

    \b
    Try:  longshot taxonomy show toybox --depth 1
          longshot taxonomy show toybox --picture toybox.png
          longshot taxonomy distances toybox --kind jiang-conrath
          longshot taxonomy make photos --backbone efficientnet-lite0 -o looks.csv

    A taxonomy is any graph of parents and children with one root and no cycle. It comes with a dataset
    (nested folders, a parent column) or from a file: a CSV with the columns parent,child[,label], a JSON
    list of [parent, child] pairs, {child: parent} or nested JSON, ImageNet's wordnet.is_a.txt, or WordNet's data.noun.
    """


@taxonomy_command.command()
@click.argument("source", metavar="DATASET_OR_FILE")
@click.option("--depth", type=click.IntRange(min=0), help="Show so many levels below the root.")
@click.option("--picture", type=FILE, help="Also draw it: FILE.png, .svg or .pdf.")
@force_option
@verb_options("open_taxonomy")
@json_option
def show(
    source: str, depth: int | None, picture: Path | None, force: bool, taxonomy: str | None, as_json: bool
) -> None:
    """Print the tree with classes and images per node, and draw it.

    \b
    Example:  longshot taxonomy show toybox --depth 2 --picture toybox.png

    Single-child chains are shown as one line (a › b › c). A node with several parents stands below the
    first and names the others.
    """
    from longshot.data import class_hierarchy, display_tree

    shown = class_hierarchy(source, taxonomy)
    if picture is not None:
        from longshot.data import draw_taxonomy

        look: dict[str, Any] = {"images": shown.images, "depth": depth, "title": shown.name}
        draw_taxonomy(shown.taxonomy, shown.class_ids, picture, **look, force=force)
        click.echo(f"wrote {picture}", err=True)
    top = display_tree(shown.taxonomy, shown.class_ids, shown.images)
    if as_json:
        branches = [(level, branch) for level, branch in top.walk() if depth is None or level <= depth]
        nodes = [_describe(shown.taxonomy, branch, level) for level, branch in branches]
        echo_json({"name": shown.name, "root": shown.taxonomy.root, "nodes": nodes})
        return
    print_rich(_rich_tree(top, depth))


@taxonomy_command.command()
@click.argument("source", metavar="DATASET_OR_FILE")
@verb_options("measure_distances", {"out": {"flags": ["-o", "--out", "--output"]}})
@json_option
def distances(
    source: str, kind: str, reduction: str | None, out: Path | None, as_json: bool, **settings: Any
) -> None:
    """Print the nearest and farthest pairs of classes.

    \b
    Example:  longshot taxonomy distances toybox --kind jiang-conrath -o distances.csv
    """
    import longshot

    measured = longshot.measure_distances(source, kind=kind, reduction=reduction, out=out, **settings)
    if out is not None:
        click.echo(f"wrote {out}", err=True)
    rows = [
        {
            "pair": pair.which,
            "distance": round(pair.distance, 4),
            "class": _show(pair.first, measured.labels),
            "other": _show(pair.second, measured.labels),
            "below": pair.below,
        }
        for pair in measured.pairs
    ]
    size = len(measured.class_ids)
    note = "; every class counted as one image (give --counts)" if measured.assumed else ""
    how = f"{kind}{', one shortest path per class' if reduction else ''}"
    print_table(
        rows,
        as_json=as_json,
        title=f"{measured.name}: {size:,} classes, {how}",
        footer=f"mean squared distance over {size * (size - 1) // 2:,} pairs: {measured.mean_square:.3f}{note}",
    )


@taxonomy_command.command()
@click.argument("dataset")
@verb_options("make_taxonomy", {"out": {"required": True}})
def make(dataset: str, out: Path, **settings: Any) -> None:
    """Group the classes of DATASET by their looks, or by distances, and write the tree as an edge list.

    \b
    Example:  longshot taxonomy make toybox --backbone pixels -o looks.csv
              longshot taxonomy show toybox --taxonomy looks.csv
              longshot sample toybox --classes siblings --taxonomy looks.csv -o look-alikes.parquet

    Every group has at least as many classes as --least. The column label is made of the names of classes, for
    people to edit; every command that takes --taxonomy takes the file.
    """
    import longshot

    tree = longshot.make_taxonomy(dataset, out=out, **settings)
    classes = len(tree.leaves)
    groups = len(tree.groups(tree.leaves))
    click.echo(f"wrote {out}: {classes:,} classes in {groups:,} groups, {len(tree):,} nodes")


@taxonomy_command.command()
@click.option("--classes", type=FILE, required=True, help="ImageNet ids (n01440764), one a line.")
@click.option("--file", type=FILE, help="WordNet 3.0's data.noun.  [default: the installed one]")
@verb_options(
    "measure_distances", {"reduction": {"help": "Keep one shortest path per class."}}, only="reduction"
)
@click.option("-o", "--out", "--output", "out", type=FILE, required=True, help="Edge list to write (CSV).")
@force_option
def wordnet(classes: Path, file: Path | None, reduction: str | None, out: Path, force: bool) -> None:
    """Cut WordNet 3.0 to the classes of a file and write it as an edge list.

    \b
    Example:  longshot taxonomy wordnet --classes ids.txt -o taxonomy.csv
              longshot taxonomy show taxonomy.csv

    (The embedded default has a taxonomy of its own: longshot taxonomy show toybox.) Without --reduction all
    ancestors of the classes are kept. In a CSV the first column holds the ids.
    """
    from longshot.base import claim_output
    from longshot.data import EDGES, read_ids, read_wordnet, reduce_taxonomy, write_csv

    claim_output(out, EDGES, force=force)
    ids = read_ids(classes)
    part = reduce_taxonomy(read_wordnet(file), ids, reduction).restrict(ids)
    write_csv(part, out)
    click.echo(f"wrote {out}: {len(ids):,} classes, {len(part):,} nodes, {len(part.edges):,} edges")


def _describe(taxonomy: Taxonomy, branch: Branch, level: int) -> dict[str, Any]:
    return {
        "node": branch.node,
        "label": " › ".join(branch.labels),
        "level": level,
        "parents": list(taxonomy.parents(branch.node)),
        "classes": branch.classes,
        "images": branch.images,
    }


def _rich_tree(top: Branch, depth: int | None) -> Tree:
    """Draw the tree with counts; levels deeper than ``depth`` are left out."""
    from rich.text import Text
    from rich.tree import Tree

    def line(branch: Branch) -> Text:
        text = Text(" › ".join(branch.labels), style="bold" if branch.children else "")
        parts = [f"{branch.classes:,} classes"] if branch.children else []
        parts += [f"{branch.images:,} images"] if branch.images is not None else []
        parts += [f"also below {', '.join(branch.also_below)}"] if branch.also_below else []
        return text.append("  " + ", ".join(parts), style="dim") if parts else text

    tree = Tree(line(top))
    open_trees = [tree]  # the last tree of each level: branches come parents first
    for level, branch in top.walk():
        if level > 0 and (depth is None or level <= depth):
            del open_trees[level:]
            open_trees.append(open_trees[level - 1].add(line(branch)))
    return tree


def _show(class_id: str, labels: Mapping[str, str]) -> str:
    return f"{class_id} ({labels[class_id]})" if labels.get(class_id) else class_id
