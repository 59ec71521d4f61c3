"""``longshot evaluate``: run methods over testbeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.base import UserError
from longshot.cli.common import PLACE, datasets_option, echo_json, print_estimate, print_table, shared


@click.command()
@click.argument("testbeds", nargs=-1, required=True, metavar="TESTBED…", type=PLACE)
@click.option(
    "--backbone",
    "backbones",
    multiple=True,
    help="Backbone whose features to use; repeat for several; 'A + B' puts two side by side, 'mine=A' calls it mine.",
)
@click.option(
    "--features",
    multiple=True,
    type=PLACE,
    help="Features FILE.npy (from 'longshot embed -o') in place of a backbone; repeat for several.",
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    help="Method with its settings, such as \"protonet(distance='cosine')\"; repeat for several.",
)
@click.option(
    "--variant",
    metavar="NAME",
    help="Run the methods as a paper's authors did: semantic-paper. Without --method all methods of that paper.",
)
@click.option(
    "-o", "--out", required=True, type=PLACE, help="Folder or URL of the run; one that exists is extended."
)
@datasets_option()
@shared("workers")
@click.option("--save-scores", is_flag=True, help="Keep the scores of every query, not only its prediction.")
@shared("seed", "device", "engine", "on", "gpus_per_worker", "retry_failed", "dry_run", "json")
def command(
    testbeds: tuple[Path, ...],
    backbones: tuple[str, ...],
    features: tuple[Path, ...],
    methods: tuple[str, ...],
    variant: str | None,
    dry_run: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Run every method on every TESTBED through every backbone; one result row per task.

    \b
    Example:
      longshot sample toybox --tasks 600 -o easy.parquet
      longshot evaluate easy.parquet --backbone pixels --method protonet -o runs/first

    Features that are not in the cache are computed first; methods that adapt the network (see 'longshot methods') read
    the images instead. The same command after an interruption goes on from there; with other methods, backbones or
    testbeds it extends the run. A testbed, features, a dataset and the run may each be a URL, such as
    s3://bucket/runs/first; several evaluations may write to one URL at once.
    """
    import longshot
    from longshot.evaluation import names_only, open_methods, say_judges, summary_rows

    if not backbones and not features:
        raise UserError(
            "No backbone was given and at least 1 is needed: add --backbone NAME or --features FILE.npy."
        )
    options: dict[str, Any] = {
        **settings,
        "methods": open_methods(methods, variant),  # first, since opening features takes longer
        "backbones": [*backbones, *(longshot.Features.load(file) for file in features)],
    }
    if dry_run:
        cost = longshot.estimate("evaluate", testbeds, **options)
        print_estimate(cost, as_json and cost.steps)
        return
    results = longshot.evaluate(testbeds, **options)
    if as_json:
        echo_json(results.summary())
        return
    by_name = [f"\n{line}" for line in (*names_only(results.run), *say_judges(results.run))]
    print_table(
        summary_rows(results),
        footer="".join(by_name) + f"\n{results.name}: rows per task; 'longshot report {results.name}'",
    )
