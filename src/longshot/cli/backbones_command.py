"""``longshot backbones``: what can embed images here, how to get the rest, and everything about one of them."""

from __future__ import annotations

from typing import Any

import click

from longshot.cli.common import print_table, shared


@click.command()
@click.argument("name", required=False)
@click.option("--allow-download", is_flag=True, help="Let hf: and timm: fetch the weights of NAME.")
@shared("json")
def command(name: str | None, allow_download: bool, as_json: bool) -> None:
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
    command = str(row["install"])
    return f"no: {command}" if command.startswith("pip ") else f"no: see longshot backbones {row['name']}"


def _facts(row: dict[str, Any]) -> list[dict[str, str]]:
    """One line per fact about a backbone; what is not known is left out."""
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
