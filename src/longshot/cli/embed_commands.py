"""``longshot backbones`` and ``embed``: what can embed images here, and its features of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.base import (
    FILE_PLACE,
    dry_run_option,
    echo_json,
    force_option,
    json_option,
    print_table,
    verb_options,
)


@click.command()
@click.argument("name", required=False)
@verb_options("list_backbones")
@json_option
def backbones_command(name: str | None, allow_download: bool, as_json: bool) -> None:
    """List the backbones that can embed images, their dimensions, and what is missing for the others.

    With NAME that backbone is opened: its vector (what pool=auto means), its pixels, its weights.

    \b
    Example:
      longshot backbones
      longshot backbones "hf:facebook/dinov2-small(pool=cls)"
      longshot embed toybox --backbone pixels
    """
    import longshot

    rows = longshot.list_backbones(name, allow_download=allow_download)
    if as_json:
        print_table(rows, as_json=True)
    elif name is not None:
        print_table(_facts(rows[0]))
    else:
        print_table(
            [
                {
                    "backbone": row["name"],
                    "dim": "" if row["dim"] is None else f"{row['dim']:,}",
                    "installed": _installed(row),
                    "about": row["about"],
                }
                for row in rows
            ]
        )


def _installed(row: dict[str, Any]) -> str:
    if row["installed"]:
        return "yes"
    remedy = str(row["install"])
    return f"no: {remedy}" if remedy.startswith("pip ") else f"no: see longshot backbones {row['name']}"


def _facts(row: dict[str, Any]) -> list[dict[str, str]]:
    """Make one line per fact about a backbone; what is not known is left out."""
    size, parameters = row["size"], row["parameters"]
    facts = {
        "backbone": row["name"],
        "opens": row["opens"] if row["opens"] != row["name"] else "",
        "about": row["about"],
        "vector": row["pooling"],
        "numbers": f"{row['dim']:,}" if row["dim"] else "",
        "image": f"{size[0]} × {size[1]}" if size else "",
        "preprocessing": row["preprocessing"],
        "parameters": f"{parameters:,}" if parameters is not None else "",
        "weights": row["weights"],
        "problem": row["problem"],
    }
    return [{"fact": fact, "value": value} for fact, value in facts.items() if value]


@click.command()
@click.argument("dataset")
@verb_options("embed", {"backbone": {"multiple": True, "required": True}})
@verb_options("open_dataset", only="skip_bad")
@click.option("-o", "--out", type=FILE_PLACE, help="Also write a copy: FILE.npy and FILE.json, or URLs.")
@force_option
@dry_run_option
@json_option
def embed_command(
    dataset: str,
    backbone: tuple[str, ...],
    skip_bad: bool,
    out: Path | str | None,
    force: bool,
    dry_run: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Turn every image of DATASET into numbers, once: a later call finds them in the cache.

    \b
    Example:
      longshot embed toybox --backbone pixels
      longshot embed ./my_photos --backbone efficientnet-lite0 --backbone pixels

    DATASET is a folder of class folders, a zip of one, a table, an .npz, the URL of one (s3://bucket/photos/), a
    name you added, or toybox. A run that was interrupted goes on where it was.
    """
    import longshot
    from longshot.base import UserError
    from longshot.models import claim_features

    if out is not None and len(backbone) > 1:
        raise UserError(
            f"-o names one file, but {len(backbone)} backbones were given; export them one by one."
        )
    if out is not None and not dry_run:
        claim_features(out, force=force)
    opened = longshot.open_dataset(dataset, skip_bad=skip_bad)
    rows: list[dict[str, Any]] = []
    for name in backbone:
        if dry_run:
            rows += longshot.estimate("embed", opened, name, **settings).steps
            continue
        features = longshot.embed(opened, name, **settings)
        work = features.work
        written = features.path if out is None else out if isinstance(out, str) else out.resolve()
        if out is not None:
            features.save(out, force=force)
        rows.append(
            {
                "dataset": features.dataset,
                "backbone": features.backbone,
                "preprocessing": features.preprocessing,
                "images": len(features),
                "dim": features.dim,
                "dtype": features.array.dtype.name,
                "identity": features.identity,
                "content": features.content,
                "backbone_identity": features.backbone_identity,
                "skipped": len(opened.skipped),
                "cached": work.cached,
                "resumed_shards": work.resumed,
                "computed_images": work.images,
                "seconds": round(work.seconds, 2),
                "images_per_second": round(work.images / work.seconds, 1)
                if work.images and work.seconds
                else None,
                "hash": features.hash,
                "path": str(written),
            }
        )
    if as_json:
        echo_json(rows)
    elif dry_run:
        print_table([_planned(row) for row in rows])
    else:
        print_table([_done(row) for row in rows])
        for row in rows:
            click.echo(f"{row['backbone']}: {row['path']}")


def _done(row: dict[str, Any]) -> dict[str, Any]:
    work = "from the cache" if row["cached"] else f"{row['seconds']:.1f} s"
    if row["resumed_shards"]:
        work += f", {row['resumed_shards']} shards resumed"
    rate = row["images_per_second"]
    return {
        "backbone": row["backbone"],
        "images": f"{row['images']:,}",
        "dim": row["dim"],
        "stored as": row["dtype"],
        "images by": row["identity"],
        "work": work,
        "images/s": f"{rate:,.0f}" if rate else "",
        "skipped": row["skipped"],
        "preprocessing": row["preprocessing"],
    }


def _planned(row: dict[str, Any]) -> dict[str, Any]:
    rate = row["images_per_second"]
    return {
        "backbone": row["backbone"],
        "images": f"{row['images']:,}",
        "dim": row["dim"],
        "time": "none, it is in the cache" if row["cached"] else f"about {row['seconds']:,.0f} s",
        "images/s": f"{rate:,.0f}" if rate else "",
        # While shards are joined they and the whole lie on the disk together.
        "disk": f"{row['bytes'] / 1e6:,.1f} MB ({2 * row['bytes'] / 1e6:,.1f} MB for a moment)",
        "shards": f"{row['finished_shards']} of {row['shards']} done",
        "preprocessing": row["preprocessing"],
    }
