"""``longshot taxonomy``: show class hierarchies, measure distances between classes, cut WordNet to size."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import echo_json, json_option, print_table
from longshot.core.errors import UserError
from longshot.core.files import write_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.tree import Tree

    from longshot.api.taxonomies import ClassHierarchy
    from longshot.taxonomy.dag import Taxonomy
    from longshot.taxonomy.tree import Branch

FILE = click.Path(path_type=Path)
_KINDS = ("jiang-conrath", "lin", "wu-palmer", "path")


@click.group()
def command() -> None:
    """Show class hierarchies and distances between classes.

    \b
    Try:  longshot taxonomy show toybox --depth 1
          longshot taxonomy show toybox --picture toybox.png
          longshot taxonomy distances toybox --kind jiang-conrath

    A taxonomy is any graph of parents and children with one root and no cycle. It comes with a dataset
    (nested folders, a parent column) or from a file: a CSV with the columns parent,child[,label], a JSON
    list of [parent, child] pairs, nested JSON, or WordNet's data.noun.
    """


@command.command()
@click.argument("source", metavar="DATASET_OR_FILE")
@click.option("--depth", type=click.IntRange(min=0), help="Show so many levels below the root.")
@click.option("--picture", type=FILE, help="Also draw it: FILE.png, .svg or .pdf.")
@click.option("--taxonomy", type=FILE, help="Use this taxonomy file instead.")
@json_option
def show(source: str, depth: int | None, picture: Path | None, taxonomy: Path | None, as_json: bool) -> None:
    """Print the tree with classes and images per node, and draw it.

    \b
    Example:  longshot taxonomy show toybox --depth 2 --picture toybox.png

    Single-child chains are shown as one line (a › b › c). A node with several parents stands below the
    first and names the others.
    """
    from longshot.api.taxonomies import class_hierarchy
    from longshot.taxonomy.tree import display_tree

    shown = class_hierarchy(source, taxonomy)
    if picture is not None:
        from longshot.taxonomy.picture import draw_taxonomy

        draw_taxonomy(
            shown.taxonomy, shown.class_ids, picture, images=shown.images, depth=depth, title=shown.name
        )
        click.echo(f"wrote {picture}", err=True)
    top = display_tree(shown.taxonomy, shown.class_ids, shown.images)
    if as_json:
        nodes = [_describe(shown.taxonomy, branch, level, depth) for level, branch in top.walk()]
        value = {
            "name": shown.name,
            "root": shown.taxonomy.root,
            "nodes": [n for n in nodes if n is not None],
        }
        echo_json(value)
        return
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=200)
    console.print(_rich_tree(top, depth), highlight=False)


@command.command()
@click.argument("source", metavar="DATASET_OR_FILE")
@click.option(
    "--kind", type=click.Choice(_KINDS), default=_KINDS[0], show_default=True, help="Which distance."
)
@click.option(
    "--reduction",
    type=click.Choice(["shortest-paths"]),
    help="Compute on one shortest path per class, as the published tieredImageNet distances do.",
)
@click.option("--pairs", type=click.IntRange(min=1), default=5, show_default=True, help="Pairs to print.")
@click.option("--taxonomy", type=FILE, help="Use this taxonomy file instead.")
@click.option("--counts", type=FILE, help="JSON {class: images}, when SOURCE is a taxonomy file.")
@click.option("-o", "--out", "--output", "out", type=FILE, help="Write the whole matrix as CSV.")
@json_option
def distances(
    source: str,
    kind: str,
    reduction: str | None,
    pairs: int,
    taxonomy: Path | None,
    counts: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Print the nearest and farthest pairs of classes.

    \b
    Example:  longshot taxonomy distances toybox --kind jiang-conrath -o distances.csv
    """
    import numpy as np

    from longshot.api.taxonomies import class_hierarchy
    from longshot.taxonomy.distances import class_distances, lowest_common_ancestors, reduce_taxonomy

    hierarchy = class_hierarchy(source, taxonomy)
    if len(hierarchy.class_ids) < 2:
        raise UserError(f"{hierarchy.name} has {len(hierarchy.class_ids)} class; distances need at least 2.")
    images = _read_counts(counts, hierarchy.class_ids) if counts is not None else hierarchy.images
    assumed = images is None and kind in _KINDS[:2]
    weights = np.ones(len(hierarchy.class_ids)) if images is None else images
    matrix = class_distances(hierarchy.taxonomy, hierarchy.class_ids, weights, kind, reduction)
    if out is not None:
        _write_matrix(out, hierarchy.class_ids, matrix)
        click.echo(f"wrote {out}", err=True)
    part = reduce_taxonomy(hierarchy.taxonomy, hierarchy.class_ids, reduction)
    lca = lowest_common_ancestors(part, hierarchy.class_ids, weights)
    rows = [
        {
            "pair": which,
            "distance": round(float(matrix[i, j]), 4),
            "class": _show(hierarchy, i),
            "other": _show(hierarchy, j),
            "below": part.label(part.nodes[lca[i, j]]),
        }
        for which, sign in (("nearest", 1), ("farthest", -1))
        for i, j in _extreme_pairs(sign * matrix, pairs)
    ]
    size = len(matrix)
    mean = float(np.square(matrix).sum() / (size * (size - 1)))
    note = "; every class counted as one image (give --counts)" if assumed else ""
    how = f"{kind}{', one shortest path per class' if reduction else ''}"
    print_table(
        rows,
        as_json=as_json,
        title=f"{hierarchy.name}: {size:,} classes, {how}",
        footer=f"mean squared distance over {size * (size - 1) // 2:,} pairs: {mean:.3f}{note}",
    )


@command.command()
@click.option("--classes", type=FILE, required=True, help="ImageNet ids (n01440764), one a line.")
@click.option("--file", type=FILE, help="WordNet 3.0's data.noun; hierarchy if not given.")
@click.option("--reduction", type=click.Choice(["shortest-paths"]), help="Keep one shortest path per class.")
@click.option("-o", "--out", "--output", "out", type=FILE, required=True, help="Edge list to write (CSV).")
def wordnet(classes: Path, file: Path | None, reduction: str | None, out: Path) -> None:
    """Cut WordNet 3.0 to the classes of a file and write it as an edge list.

    \b
    Example:  longshot taxonomy wordnet --classes ids.txt -o taxonomy.csv
              longshot taxonomy show taxonomy.csv

    (The embedded default has a taxonomy of its own: longshot taxonomy show toybox.) Without --reduction all
    ancestors of the classes are kept. In a CSV the first column holds the ids.
    """
    from longshot.taxonomy.distances import reduce_taxonomy
    from longshot.taxonomy.readers import write_csv
    from longshot.taxonomy.wordnet import read_wordnet

    ids = _read_ids(classes)
    part = reduce_taxonomy(read_wordnet(file), ids, reduction).restrict(ids)
    write_csv(part, out)
    click.echo(f"wrote {out}: {len(ids):,} classes, {len(part):,} nodes, {len(part.edges):,} edges")


def _describe(taxonomy: Taxonomy, branch: Branch, level: int, depth: int | None) -> dict[str, Any] | None:
    if depth is not None and level > depth:
        return None
    return {
        "node": branch.node,
        "label": " › ".join(branch.labels),
        "level": level,
        "parents": list(taxonomy.parents(branch.node)),
        "classes": branch.classes,
        "images": branch.images,
    }


def _rich_tree(top: Branch, depth: int | None) -> Tree:
    """The tree with counts; below ``depth`` only the counts speak."""
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


def _show(hierarchy: ClassHierarchy, at: int) -> str:
    class_id = hierarchy.class_ids[at]
    label = hierarchy.taxonomy.labels.get(class_id)
    return f"{class_id} ({label})" if label else class_id


def _extreme_pairs(matrix: NDArray[np.float64], count: int) -> list[tuple[int, int]]:
    """The ``count`` pairs i < j of the smallest values, ties in the order of the classes."""
    import numpy as np

    best: list[tuple[float, int, int]] = []
    for i in range(len(matrix) - 1):
        row = matrix[i, i + 1 :]
        best += [(float(row[j]), i, i + 1 + int(j)) for j in np.argsort(row, kind="stable")[:count]]
        if len(best) > 1000 * count:
            best = sorted(best)[:count]
    return [(i, j) for _, i, j in sorted(best)[:count]]


def _write_matrix(path: Path, class_ids: Sequence[str], matrix: NDArray[np.float64]) -> None:
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["class", *class_ids])
    for class_id, row in zip(class_ids, matrix.tolist(), strict=True):
        writer.writerow([class_id, *row])
    write_text(path, lines.getvalue())


def _read_counts(path: Path, class_ids: Sequence[str]) -> NDArray[np.int64]:
    import numpy as np

    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        missing = [class_id for class_id in class_ids if class_id not in value]
        if missing:
            raise UserError(
                f"{path} has no count for the class '{missing[0]}' "
                f"({len(missing)} of {len(class_ids)} are missing); add them."
            )
        return np.array([int(value[class_id]) for class_id in class_ids], np.int64)
    except FileNotFoundError:
        raise UserError(f"There is no file of counts at {path}; check the path.") from None
    except (ValueError, TypeError):
        raise UserError(f'{path} is not JSON of the form {{"class": images}}; mend it.') from None


def _read_ids(path: Path) -> list[str]:
    """First column of a text or CSV file, in order, each once."""
    if not path.is_file():
        raise UserError(f"There is no file of class ids at {path}; check the path.")
    with path.open(encoding="utf-8-sig", newline="") as lines:
        ids = list(dict.fromkeys(row[0].strip() for row in csv.reader(lines) if row and row[0].strip()))
    if not ids:
        raise UserError(f"{path} has no class id; write one a line, such as n01440764.")
    return ids
