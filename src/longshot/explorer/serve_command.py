"""``longshot serve``: the explorer in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.cli import PATH


@click.command(short_help="Look at every task, every mistake, every run, in the browser.")
@click.argument("folders", nargs=-1, type=PATH)
@click.option("--host", default="127.0.0.1", help="Address to listen on; others need --token.")
@click.option("--port", type=click.IntRange(1, 65535), default=8420, help="Port, or the next free one.")
@click.option("--token", help="What readers must know: they open …/?token=TOKEN once.")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Further name that browsers reach it by, behind a proxy.",
)
@click.option("--browser", is_flag=True, help="Also open the page in this machine's browser.")
def command(folders: tuple[Path, ...], **settings: Any) -> None:
    """Show what lies under FOLDERS (the current one unless given) and the remembered datasets, live, until Ctrl-C.

    \b
    Example:
      longshot demo
      longshot serve longshot-demo
    """
    import longshot

    explorer = longshot.serve(folders, framed=False, **settings)
    click.echo(f"Longshot explorer at {explorer.url}  (Ctrl-C ends it)")
    explorer.wait()
