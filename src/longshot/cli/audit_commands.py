"""``longshot datasets overlap``, ``without``, ``suspects`` and ``review``: copies, doubtful labels, decisions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.base import PATH, count, echo_json, json_option, print_table, verb_options

if TYPE_CHECKING:
    import longshot

_SHOWN = 10  # pairs, classes and suspects listed on the screen; the file has all


@click.command("overlap")
@click.argument("dataset", metavar="A")
@click.argument("other", metavar="B")
@verb_options("find_overlap", without="render")
@click.option("--fail-if-any", is_flag=True, help="Exit code 1 when there are exact or near copies.")
@json_option
def overlap(
    dataset: str,
    other: str,
    out: Path | None,
    page: Path | None,
    fail_if_any: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Find images and classes that datasets A and B share: exact copies, near copies, related class names.

    \b
    Example:
        longshot datasets overlap toybox toybox               # copies within one dataset
        longshot datasets overlap upstream test -o overlap.parquet --page overlap.html
        longshot datasets without upstream overlap.parquet -o upstream-deduplicated.view.json

    A near copy survives re-encoding, resizing, other brightness or contrast, grey, a border of 6 %, crops to 80 % of
    each side, mirroring and quarter turns; every one was compared pixel by pixel.
    What was found is remembered: 'longshot evaluate' warns when a network's training data overlaps the testbed.
    """
    import longshot

    overlap = longshot.find_overlap(dataset, other, out=out, page=page, **settings)
    copies = overlap.copies().num_rows
    if as_json:
        facts = {"counts": overlap.counts(), "relations": overlap.relations(), **overlap.meta()}
        echo_json({**facts, "pairs": overlap.pairs.to_pylist()})
    else:
        _print(overlap)
        for path in filter(None, (out, page)):
            click.echo(f"Wrote {path}.")
    if fail_if_any and copies:
        click.echo(f"{copies:,} copies were found and none are allowed (--fail-if-any).", err=True)
        sys.exit(1)


@click.command("without")
@click.argument("dataset")
@click.argument("overlap_file", type=PATH)
@verb_options("audit.leave_out_overlap")
@json_option
def without(dataset: str, overlap_file: Path, out: Path, as_json: bool, **settings: Any) -> None:
    """Write DATASET without what OVERLAP_FILE says it shares with another: deduplicated, or class-ablated.

    \b
    Example:
        longshot datasets overlap toybox toybox -o copies.parquet
        longshot datasets without toybox copies.parquet -o toybox-deduplicated.view.json
        longshot embed toybox-deduplicated.view.json --backbone pixels

    DATASET is the first of the two that were compared. The view opens like any dataset.
    """
    import longshot

    view, original, variant = longshot.audit.leave_out_overlap(dataset, overlap_file, out=out, **settings)
    counts = {
        "variant": variant,
        "images": len(view),
        "classes": len(view.class_ids),
        "images_left_out": len(original) - len(view),
        "classes_left_out": len(original.class_ids) - len(view.class_ids),
    }
    if as_json:
        click.echo(json.dumps({**counts, "path": str(out), "fingerprint": view.fingerprint}, indent=2))
        return
    click.echo(
        f"{out} is '{original.name}' {variant}: {counts['images']:,} of {len(original):,} images in "
        f"{counts['classes']:,} of {len(original.class_ids):,} classes."
    )


def _print(overlap: longshot.audit.Overlap) -> None:
    a, b = overlap.a, overlap.b
    rows = [
        {
            "kind": row["kind"],
            "pairs": f"{row['pairs']:,}",
            f"images of {a['name']}": f"{row['images_a']:,} of {a['images']:,}",
            f"images of {b['name']}"
            + (" (second)" if overlap.within else ""): f"{row['images_b']:,} of {b['images']:,}",
            "across classes": f"{row['across']:,}",
            "across splits": f"{row['across_splits']:,}",
        }
        for row in overlap.counts()
        if row["kind"] != "similar" or overlap.settings["backbone"]
    ]
    print_table(rows)
    if by_name := sorted({side["name"] for side in (a, b) if side["identity"] == "names"}):
        click.echo(f"\nidentity: names only of {', '.join(by_name)}; changed images would go unnoticed")
    pairs = overlap.pairs.slice(0, _SHOWN).to_pylist()
    if pairs:
        click.echo()
        print_table(
            [
                {
                    "kind": pair["kind"]
                    + (", mirrored" if pair["mirrored"] else "")
                    + (f", turned {pair['turned']}°" if pair["turned"] else ""),
                    "distance": f"{pair['distance']:.3f}",
                    "A": pair["key_a"],
                    "B": pair["key_b"],
                }
                for pair in pairs
            ],
            footer=_more(overlap.pairs.num_rows, "pairs", "-o FILE.parquet"),
        )
    if overlap.classes:
        click.echo()
        print_table(
            [
                {"class of A": s.a, "is": _WORDS[s.relation], "class of B": s.b, "by": s.by}
                for s in overlap.classes[:_SHOWN]
            ],
            footer=_more(len(overlap.classes), "related classes", "-o FILE.json"),
        )
    elif not overlap.within:
        click.echo("No class of A is related to one of B by name.")


_WORDS = {
    "same": "the same as",
    "name": "named like",
    "synonym": "a synonym of",
    "above": "above",
    "below": "a kind of",
}


def _more(total: int, noun: str, remedy: str) -> str | None:
    return f"… {total - _SHOWN:,} more {noun}: {remedy} writes all." if total > _SHOWN else None


@click.command("suspects")
@click.argument("dataset")
@verb_options("find_suspects", {"near_copies": {"flags": ["--near-copies/--equal-files"]}})
@json_option
def suspects(dataset: str, as_json: bool, **settings: Any) -> None:
    """Find images of DATASET whose label looks wrong, and copies of other images.

    \b
    Example:
        longshot datasets suspects toybox --backbone pixels
        longshot datasets suspects ./birds --backbone efficientnet-lite0 -o suspects.csv --view clean.view.json
        longshot sample clean.view.json -o clean.parquet

    A label is suspected where classifiers that were fitted without the image think it hardly more probable than a
    guess, and the nearest images carry others. Look before you leave out: look-alike classes are suspected too.
    """
    import longshot

    suspicion = longshot.find_suspects(dataset, **settings)
    facts, rows = suspicion.facts(), suspicion.table().to_pylist()
    if as_json:
        echo_json({**facts, "suspects": rows})
        return
    click.echo(
        f"{facts['mislabelled']:,} of {facts['images']:,} images have a doubtful label, {facts['copies']:,} are "
        f"{'copies or near copies' if facts['near_copies'] else 'copies'} of others."
    )
    if rows:
        more = len(rows) - _SHOWN
        footer = f"… {more:,} more: -o FILE.csv writes all." if more > 0 else None
        print_table([_doubt(row) for row in rows[:_SHOWN]], footer=footer)
    for name in ("out", "view"):
        if settings[name] is not None:
            click.echo(f"Wrote {settings[name]}.")


def _doubt(row: dict[str, Any]) -> dict[str, str]:
    odds = row["reason"] if row["odds"] is None else f"{min(row['odds'], 1e6):,.0f}"
    return {
        "image": row["key"],
        "label": row["class"],
        "looks like": row["looks_like"] or "",
        "odds": odds,
    }


@click.command("review")
@click.argument("dataset")
@verb_options("audit.review_dataset", {"near_copies": {"flags": ["--near-copies/--equal-files"]}})
@json_option
def review(dataset: str, as_json: bool, **settings: Any) -> None:
    """List doubtful labels and copies of DATASET with what was decided about them; decide, or take that back.

    \b
    Example:
        longshot datasets review toybox --backbone pixels --equal-files
        longshot datasets review ./birds --drop crow/017.jpg --drop wren/003.jpg
        longshot datasets review ./birds --undo

    What you decide is stored beside the dataset: no task has an image that was dropped, and nobody suspects one that
    was kept. A decision about a picture that has changed since then no longer holds.
    """
    import longshot

    reviewed = longshot.audit.review_dataset(dataset, **settings)
    counts = reviewed.counts()
    if as_json:
        echo_json({**counts, "file": reviewed.file, "changed": reviewed.changed, "rows": reviewed.rows})
        return
    if reviewed.changed:
        click.echo(f"{len(reviewed.changed):,} decided anew: {reviewed.file}")
        return
    click.echo(
        f"{count(counts['label'], 'doubtful label')}, {count(counts['copy'], 'copy', 'copies')}: "
        f"{counts['open']:,} open, {counts['keep']:,} kept and {counts['drop']:,} dropped by hand."
    )
    more = len(reviewed.rows) - _SHOWN
    shown = [{**_doubt(row), "decision": row["decision"] or ""} for row in reviewed.rows[:_SHOWN]]
    if shown:
        print_table(shown, footer=f"… {more:,} more: --json lists all." if more > 0 else None)
    if counts["open"]:
        click.echo(
            "Decide: --drop IMAGE leaves it out of all tasks, --keep IMAGE says that its label is right; or look at "
            "them in the browser: longshot serve --review"
        )
