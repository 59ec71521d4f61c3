"""``longshot methods``: what can learn from a support set."""

from __future__ import annotations

import click

from longshot.cli.common import json_option, print_table


@click.command()
@json_option
def command(as_json: bool) -> None:
    """List the methods with their settings and defaults.

    \b
    Example:
      longshot methods
      longshot evaluate easy.parquet --backbone pixels --method "protonet(distance='cosine')" -o runs/first

    An inductive method looks at one query at a time; a transductive one also at the other queries of its task.
    """
    from longshot.methods.registry import list_methods

    records = list_methods()
    if as_json:
        print_table(records, as_json=True)
        return
    rows = [
        {
            "name": record["name"],
            "setting": record["setting"],
            "family": record["family"],
            "paper": record["paper"],
            "settings": ", ".join(f"{key}={value!r}" for key, value in record["settings"].items()),
        }
        for record in records
    ]
    print_table(rows, footer="\nSet on the command line as in --method \"protonet(distance='cosine')\".")
