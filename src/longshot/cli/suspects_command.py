"""``longshot datasets suspects``: labels that look wrong, and copies within one dataset."""

from __future__ import annotations

from typing import Any

import click

from longshot.cli.common import COUNT, FILE, echo_json, print_table, shared

_SHOWN = 10  # suspects listed on the screen; the file has all


@click.command("suspects")
@click.argument("dataset")
@click.option("--backbone", required=True, help="Whose features judge the labels (see 'longshot backbones').")
@click.option(
    "--near-copies/--equal-files",
    "near_copies",
    default=True,
    help="Look for near copies too, which reads every image, or only for files of equal bytes.",
)
@click.option("-o", "--out", type=FILE, help="Write all suspects: FILE.csv.")
@click.option("--view", type=FILE, help="Write the dataset without them: FILE.view.json.")
@shared("force")
@click.option("--workers", type=COUNT, help="Threads that read images; all cores by default.")
@shared("device", "engine", "json")
def suspects(dataset: str, as_json: bool, **settings: Any) -> None:
    """Find images of DATASET whose label looks wrong, and copies of other images.

    \b
    Example:
        longshot datasets suspects toybox --backbone pixels
        longshot datasets suspects ./birds --backbone efficientnet-lite0 -o suspects.csv --view clean.view.json
        longshot sample clean.view.json -o clean.parquet

    A label is suspected where another class is at least 100 times as probable to a classifier that was fitted
    without the image. Look at the images before you leave them out: look-alike classes are suspected too.
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
        shown = [
            {
                "image": row["key"],
                "label": row["class"],
                "looks like": row["looks_like"] or "",
                "odds": "copy" if row["odds"] is None else f"{min(row['odds'], 1e6):,.0f}",
            }
            for row in rows[:_SHOWN]
        ]
        more = len(rows) - _SHOWN
        print_table(shown, footer=f"… {more:,} more: -o FILE.csv writes all." if more > 0 else None)
    for name in ("out", "view"):
        if settings[name] is not None:
            click.echo(f"Wrote {settings[name]}.")
