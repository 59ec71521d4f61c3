"""``longshot datasets overlap`` and ``without``: copies that two datasets share, and a dataset without them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import device_option, json_option, print_table

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.datasets.overlap.record import Overlap

_SHOWN = 10  # pairs and classes listed on the screen; the file has all


@click.command("overlap")
@click.argument("a")
@click.argument("b")
@click.option("--backbone", help="Also look at neighbours in this embedding (see 'longshot backbones').")
@click.option(
    "--similarity",
    type=click.FloatRange(-1, 1),
    default=0.95,
    show_default=True,
    help="Cosine in the embedding from which a pair is listed as similar.",
)
@click.option(
    "--neighbours",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Images of B looked at for each image of A, as it is and mirrored.",
)
@click.option(
    "--index",
    type=click.Choice(["auto", "exact", "ivf"]),
    default="auto",
    show_default=True,
    help="How neighbours are found; auto takes FAISS beyond 100,000 images on both sides.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Threads that read images; all cores by default.")
@device_option
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write all pairs: .parquet or .json."
)
@click.option(
    "--page", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with pictures of the pairs."
)
@click.option(
    "--pictures",
    type=click.IntRange(min=0),
    default=48,
    show_default=True,
    help="Pairs of each kind that the page shows.",
)
@click.option("--fail-if-any", is_flag=True, help="Exit code 1 when there are exact or near copies.")
@json_option
def overlap(
    a: str,
    b: str,
    backbone: str | None,
    similarity: float,
    neighbours: int,
    index: str,
    workers: int | None,
    device: str,
    out: Path | None,
    page: Path | None,
    pictures: int,
    fail_if_any: bool,
    as_json: bool,
) -> None:
    """Find images and classes that datasets A and B share: exact copies, near copies, related class names.

    \b
    Example:
        longshot datasets overlap toybox toybox               # copies within one dataset
        longshot datasets overlap upstream test -o overlap.parquet --page overlap.html
        longshot datasets without upstream overlap.parquet -o upstream-deduplicated.view.json

    A near copy survives re-encoding, resizing, a crop by 5 % and mirroring; every one was compared pixel by pixel.
    What was found is remembered: 'longshot evaluate' warns when a network's training data overlaps the testbed.
    """
    from longshot.datasets import open_dataset
    from longshot.datasets.overlap.record import check_ending, remember

    if out is not None:
        check_ending(out)  # before a long search
    first = open_dataset(a)
    second = open_dataset(b)
    found = _compare(first, second, backbone, similarity, neighbours, index, workers, device)
    remember(found)
    if out is not None:
        found.save(out)
    if page is not None:
        _write_page(page, found, first, second, pictures)
    copies = found.copies().num_rows
    if as_json:
        facts = {"counts": found.counts(), "relations": found.relations(), **found.meta()}
        click.echo(json.dumps({**facts, "pairs": found.pairs.to_pylist()}, indent=2, ensure_ascii=False))
    else:
        _print(found)
        for path in filter(None, (out, page)):
            click.echo(f"Wrote {path}.")
    if fail_if_any and copies:
        click.echo(f"{copies:,} copies were found and none are allowed (--fail-if-any).", err=True)
        sys.exit(1)


@click.command("without")
@click.argument("dataset")
@click.argument("overlap_file", type=click.Path(path_type=Path))
@click.option("--classes", is_flag=True, help="Leave out classes related to B's, not single images.")
@click.option("--images", is_flag=True, help="With --classes: leave out the copies of B's images as well.")
@click.option(
    "--relation",
    "relations",
    multiple=True,
    type=click.Choice(["same", "name", "synonym", "above", "below"]),
    help="Which relations count for --classes; repeat for several.  [default: all]",
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="FILE.view.json"
)
@json_option
def without(
    dataset: str,
    overlap_file: Path,
    classes: bool,
    images: bool,
    relations: tuple[str, ...],
    out: Path,
    as_json: bool,
) -> None:
    """Write DATASET without what OVERLAP_FILE says it shares with another: deduplicated, or class-ablated.

    \b
    Example:
        longshot datasets overlap toybox toybox -o copies.parquet
        longshot datasets without toybox copies.parquet -o toybox-deduplicated.view.json
        longshot embed toybox-deduplicated.view.json --backbone pixels

    DATASET is the first of the two that were compared. The view opens like any dataset.
    """
    from longshot.core.files import hash_file
    from longshot.datasets import open_dataset, registry
    from longshot.datasets.overlap.record import Overlap, check_first_side
    from longshot.datasets.overlap.view import write_view

    found = Overlap.load(overlap_file)
    opened = open_dataset(dataset)
    check_first_side(found, opened, overlap_file)
    by_image = images or not classes
    given = {"relations": relations} if relations else {}
    keys, gone = found.to_leave_out(images=by_image, classes=classes, **given)
    variant = " and ".join(["deduplicated"] * by_image + ["class-ablated"] * classes)
    why = {
        "variant": variant,
        "overlap": overlap_file.name,
        "hash": hash_file(overlap_file),
        "against": {name: found.b[name] for name in ("name", "fingerprint")},
    }
    view = write_view(out, opened, keys, gone, why)
    registry.remember(view)
    counts = {
        "variant": variant,
        "images": len(view),
        "classes": len(view.class_ids),
        "images_left_out": len(opened) - len(view),
        "classes_left_out": len(opened.class_ids) - len(view.class_ids),
    }
    if as_json:
        click.echo(json.dumps({**counts, "path": str(out), "fingerprint": view.fingerprint}, indent=2))
        return
    click.echo(
        f"{out} is '{opened.name}' {variant}: {counts['images']:,} of {len(opened):,} images in "
        f"{counts['classes']:,} of {len(opened.class_ids):,} classes."
    )


def _compare(
    a: Dataset,
    b: Dataset,
    backbone: str | None,
    similarity: float,
    neighbours: int,
    index: str,
    workers: int | None,
    device: str,
) -> Overlap:
    from longshot.datasets.overlap.classes import shared_classes
    from longshot.datasets.overlap.pairs import find_pairs
    from longshot.datasets.overlap.record import make_overlap
    from longshot.datasets.overlap.synonyms import read_nouns

    embed = None
    if backbone is not None:
        from longshot.features.backbones import load_backbone
        from longshot.features.extract import embed as extract

        loaded = load_backbone(backbone, device)  # an unknown name is told before anything runs

        def embed(dataset: Dataset) -> Any:
            return extract(dataset, loaded, device=device).array

    found = find_pairs(
        a,
        b,
        embed=embed,
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
    return make_overlap(a, b, found, shared_classes(a, b, nouns), settings)


def _print(found: Overlap) -> None:
    a, b = found.a, found.b
    rows = [
        {
            "kind": row["kind"],
            "pairs": f"{row['pairs']:,}",
            f"images of {a['name']}": f"{row['images_a']:,} of {a['images']:,}",
            f"images of {b['name']}"
            + (" (second)" if found.within else ""): f"{row['images_b']:,} of {b['images']:,}",
            "across classes": f"{row['across']:,}",
            "across splits": f"{row['across_splits']:,}",
        }
        for row in found.counts()
        if row["kind"] != "similar" or found.settings["backbone"]
    ]
    print_table(rows)
    pairs = found.pairs.slice(0, _SHOWN).to_pylist()
    if pairs:
        click.echo()
        print_table(
            [
                {
                    "kind": pair["kind"] + (", mirrored" if pair["mirrored"] else ""),
                    "distance": f"{pair['distance']:.3f}",
                    "A": pair["key_a"],
                    "B": pair["key_b"],
                }
                for pair in pairs
            ],
            footer=_more(found.pairs.num_rows, "pairs", "-o FILE.parquet"),
        )
    if found.classes:
        click.echo()
        print_table(
            [
                {"class of A": s.a, "is": _WORDS[s.relation], "class of B": s.b, "by": s.by}
                for s in found.classes[:_SHOWN]
            ],
            footer=_more(len(found.classes), "related classes", "-o FILE.json"),
        )
    elif not found.within:
        click.echo("No class of A is related to one of B by name.")


_WORDS = {
    "same": "the same as",
    "name": "named like",
    "synonym": "a synonym of",
    "above": "above",
    "below": "a kind of",
}


def _more(total: int, what: str, remedy: str) -> str | None:
    return f"… {total - _SHOWN:,} more {what}: {remedy} writes all." if total > _SHOWN else None


def _write_page(path: Path, found: Overlap, a: Dataset, b: Dataset, pictures: int) -> None:
    from longshot.core.files import write_text
    from longshot.reports.overlap_page import render_overlap

    def images(side: str, keys: list[str]) -> list[Any]:
        import pyarrow as pa

        dataset = a if side == "a" else b
        return [dataset.image(int(row)) for row in dataset.find_rows(pa.array(keys, pa.string()))]

    write_text(
        path,
        render_overlap(found.pairs, found.counts(), found.meta(), images=images, pictures=pictures),
    )
