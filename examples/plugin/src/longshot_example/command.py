"""A command: ``longshot class-counts``."""

from collections import Counter

import click


@click.command("class-counts")
@click.argument("testbed", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
def command(testbed: str) -> None:
    """Count how often a testbed uses each class.

    \b
    Examples:
      longshot class-counts easy.parquet
    """
    from longshot import Testbed

    counts = Counter(class_id for task in Testbed.load(testbed) for class_id in task.classes)
    for class_id, count in sorted(counts.items()):
        click.echo(f"{count:6,}  {class_id}")
