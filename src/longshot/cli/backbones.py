"""``longshot backbones``: what can embed images here, and how to get the rest."""

from __future__ import annotations

import click

from longshot.cli.common import json_option, print_table


@click.command()
@json_option
def command(as_json: bool) -> None:
    """List the backbones that can embed images, their dimensions, and what is missing for the others.

    \b
    Example:
      longshot backbones
      longshot embed toybox --backbone pixels
    """
    import longshot

    rows = longshot.list_backbones()
    if as_json:
        print_table(rows, as_json=True)
        return
    print_table(
        [
            {
                "backbone": row["name"],
                "dim": "" if row["dim"] is None else f"{row['dim']:,}",
                "installed": "yes" if row["installed"] else f"no: {row['install']}",
                "about": row["about"],
            }
            for row in rows
        ]
    )
