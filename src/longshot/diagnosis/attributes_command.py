"""``longshot attributes``: what is known of a dataset's images, and what can be measured from their pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.cli import FILE, PATH, print_table, shared


@click.command()
@click.argument("dataset")
@click.option("--attributes", type=PATH, help="A CSV with further attributes.")
@click.option("-o", "--out", type=FILE, help="Write all of them as CSV (.csv) or Parquet.")
@shared("force", "json")
def command(dataset: str, attributes: Path | None, out: Path | None, force: bool, as_json: bool) -> None:
    """Describe the attributes of DATASET's images: annotated ones, and those measured from the pixels.

    \b
    Example:
      longshot attributes toybox -o attributes.csv

    The file has a column path and one per attribute: put beside the images as attributes.csv it makes every attribute
    usable in rules such as --query-where "brightness < 0.3".
    """
    import longshot
    from longshot.base import is_stream

    table = longshot.measure_attributes(dataset, attributes=attributes, out=out, force=force)
    print_table([_row(name, table.column(name)) for name in table.column_names], as_json=as_json)
    if out is not None and not as_json:
        shown = out if is_stream(out) else out.resolve()
        click.echo(f"\n{shown}: {table.num_columns} attributes of {table.num_rows:,} images")


def _row(name: str, values: Any) -> dict[str, Any]:
    """Kind, coverage and what the values are."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    coverage = 1 - values.null_count / max(1, len(values))
    if pa.types.is_floating(values.type) or pa.types.is_integer(values.type):
        low, middle, high = np.nanquantile(values.cast(pa.float64()).to_numpy(), [0.05, 0.5, 0.95])
        summary = f"{middle:.3g} ({low:.3g} to {high:.3g} in nine of ten)"
    else:
        counted = sorted(pc.value_counts(values).to_pylist(), key=lambda value: -value["counts"])
        summary = ", ".join(f"{value['values']} {value['counts'] / len(values):.0%}" for value in counted[:5])
        summary += f", {len(counted) - 5} more" if len(counted) > 5 else ""
    return {"attribute": name, "kind": str(values.type), "known for": f"{coverage:.1%}", "values": summary}
