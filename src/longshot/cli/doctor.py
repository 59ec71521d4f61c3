"""``longshot doctor``: what is installed here, and what that lets you do."""

from __future__ import annotations

import click

from longshot.cli.common import json_option, print_table


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Show what is installed, which extras work, the device, the cache and the sandbox.

    \b
    Example:
      longshot doctor
    """
    import longshot

    print_table(longshot.doctor(), as_json=as_json)
