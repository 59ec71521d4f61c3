"""``longshot methods`` and ``evaluate``: what can learn from a support set, and how well it does on testbeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.base import PLACE, UserError, datasets_option, echo_json, print_estimate, print_table, shared


@click.group(invoke_without_command=True)
@shared("json")
@click.pass_context
def methods_command(context: click.Context, as_json: bool) -> None:
    """List the methods with their settings and defaults; check your own.

    \b
    Example:
      longshot methods
      longshot methods check mine.py:MyMethod
      longshot evaluate easy.parquet --backbone pixels --method "protonet(distance='cosine')" -o runs/first

    An inductive method looks at one query at a time; a transductive one also at the other queries of its task. The
    network is frozen (the method works on features), adapted to each task, or meta-trained for the method; the last two
    need the images and the network (--backbone), features alone (--features) do not do.
    """
    if context.invoked_subcommand is not None:
        return
    import longshot
    from longshot.models import VARIANTS

    records = longshot.list_methods()
    if as_json:
        print_table(records, as_json=True)
        return
    rows = [
        {
            "name": record["name"],
            "setting": record["setting"],
            "network": record["kind"],
            "needs": record["needs"],
            "family": record["family"],
            "paper": record["paper"],
            "settings": ", ".join(f"{key}={value!r}" for key, value in record["settings"].items()),
        }
        for record in records
    ]
    print_table(
        rows,
        footer="\n"
        + "\n".join(f"--variant {name} ({v.paper}): {', '.join(v.calls)}" for name, v in VARIANTS.items())
        + "\nSet on the command line as in --method \"protonet(distance='cosine')\". Your own: --method "
        'mine.py:MyMethod; a scikit-learn classifier: --method "sklearn:sklearn.svm.SVC(C=1)".',
    )


@methods_command.command()
@click.argument("method")
@shared("json")
def check(method: str, as_json: bool) -> None:
    """Run the common test on METHOD: a name, file.py:MyMethod or sklearn:module.Class, with settings if any.

    \b
    Example:
      longshot methods check protonet
      longshot methods check "mine.py:MyMethod(k=3)"

    Exits with 1 when a rule is broken. A method may refuse tasks with absent classes or of unequal size by raising
    longshot.base.errors.UserError with the reason.
    """
    import longshot
    from longshot.models import get_method

    chosen = get_method(method)
    rows = longshot.check_method(chosen)
    broken = [row for row in rows if row.result == "broken"]
    if as_json:
        print_table([row._asdict() for row in rows], as_json=True)
    else:
        print_table([{"check": row.check, "result": row.result, "rule": row.rule} for row in rows])
        for row in rows:
            if row.reason:
                click.echo(f"\n{row.check}, {row.result}: {row.reason}")
        click.echo(
            f"\n{chosen.call} ({chosen.setting}): {len(rows) - len(broken)} of {len(rows)} rules kept."
        )
    if broken:
        raise SystemExit(1)


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
def evaluate_command(
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
