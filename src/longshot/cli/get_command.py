"""``longshot datasets get``: download a published dataset, or list those that can be got."""

from __future__ import annotations

from typing import Any

import click

from longshot.base import UserError
from longshot.cli.common import echo_json, print_table, shared


@click.command("get")
@click.argument("name", required=False)
@click.option(
    "--to",
    type=click.Path(file_okay=False),  # text, so that an empty one is told from the folder here
    help="The folder in which a folder NAME is made.  [default: LONGSHOT_DATA, or your folder for data]",
)
@click.option("--keep-archives", is_flag=True, help="Keep the archives after they are unpacked.")
@click.option("--list", "show", is_flag=True, help="List what can be got, with sizes, licences and studies.")
@shared("dry_run", "json")
def get(
    name: str | None, to: str | None, keep_archives: bool, show: bool, dry_run: bool, as_json: bool
) -> None:
    """Download the published dataset NAME, unpack it and register it under its name.

    \b
    Example:
        longshot datasets get --list
        longshot datasets get omniglot --dry-run
        longshot datasets get omniglot --to ~/data        # then: longshot sample omniglot …
        longshot datasets get hub:OWNER/NAME              # a dataset of the Hugging Face Hub

    Stopped? The same command goes on where it was. Checksums are compared where any are published. Nothing else in
    Longshot downloads a dataset.
    """
    if show:
        _list(as_json)
        return
    if name is None:
        raise UserError(
            "Getting a dataset needs its name",
            "give a {name} of those that {data.list_downloads()} shows",
        )
    if dry_run:
        _plan(name, to, as_json)
        return
    import longshot
    from longshot.data import describe_dataset

    dataset = longshot.get_dataset(name, to=to, keep_archives=keep_archives)
    if as_json:
        facts = describe_dataset(dataset)
        echo_json({key: value for key, value in facts.items() if key != "class_list"})
        return
    counts = f"{len(dataset.class_ids):,} classes, {len(dataset):,} images"
    click.echo(f"'{dataset.name}' is {dataset.source}: {counts}.")


def _list(as_json: bool) -> None:
    from longshot.data import list_downloads

    rows = list_downloads()
    if as_json:
        echo_json(rows)
        return
    print_table(
        [
            {
                "name": row["name"],
                "what": row["title"],
                "size": row["size"],
                "checksum": _checksums(row),
                "licence": row["licence"],
                "studies": ", ".join(row["studies"]),
            }
            for row in rows
            if row["by_hand"] is None
        ]
    )
    click.echo("\nTo be fetched by hand:\n")
    print_table(
        [
            {
                "name": row["name"],
                "what": row["title"],
                "where": row["by_hand"]["where"],
                "why": row["by_hand"]["why"],
                "studies": ", ".join(row["studies"]),
            }
            for row in rows
            if row["by_hand"] is not None
        ],
        footer="\nA licence that is not known is not a permission: ask the authors. Then: longshot datasets get NAME",
    )


def _checksums(row: dict[str, Any]) -> str:
    number, files = row["checksums"], row["files"]
    return "published" if number == files else f"of {number} of {files} files" if number else "none"


def _plan(name: str, to: str | None, as_json: bool) -> None:
    from longshot.data import in_bytes, plan_download

    plan: dict[str, Any] = plan_download(name, to=to)
    if as_json:
        echo_json(plan)
        return
    print_table(
        [
            {
                "file": file["name"],
                "size": "not known" if file["bytes"] is None else in_bytes(file["bytes"]),
                "checksum": file["checksum"] or "NO CHECKSUM IS PUBLISHED",
                "from": ", then ".join(file["urls"]) or "the Hub",
            }
            for file in plan["files"]
        ],
        title=f"{plan['name']}: {plan['title']} (licence: {plan['licence']})",
        footer=f"\n{plan['size']} to {plan['folder']}, where {in_bytes(plan['free'])} are free; nothing was written.",
    )
