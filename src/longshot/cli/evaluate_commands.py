"""``longshot methods`` and ``evaluate``: what can learn from a support set, and how well it does on testbeds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from longshot.base import (
    PLACE,
    UserError,
    dry_run_option,
    echo_json,
    json_option,
    print_estimate,
    print_table,
    print_written,
    verb_options,
)


@click.group(invoke_without_command=True)
@json_option
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
    need the images and the network (--backbone); features alone (--features) are not enough.
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
@json_option
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
    "--features",
    multiple=True,
    type=PLACE,
    help="Features FILE.npy (from 'longshot embed -o') in place of a backbone; repeat for several.",
)
@verb_options("evaluate", {"backbones": {"required": False}, "out": {"required": True}})
@dry_run_option
@json_option
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
    from longshot.evaluation import names_only, open_methods
    from longshot.reports import read_runs, screen_sheet, terminal

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
    click.echo(terminal(screen_sheet(read_runs(results))))
    for line in (
        *names_only(results.run),
        f"{results.name}: rows per task; 'longshot report {results.name}'",
    ):
        click.echo(f"\n{line}")


@click.command()
@click.argument("testbed", metavar="FILE", type=PLACE)
@verb_options("inspect")
@json_option
def inspect_command(
    testbed: Path | str, verify: bool, html: Path | str | None, as_json: bool, **settings: Any
) -> None:
    """Describe a testbed: its origin, its classes, ways and shots, and what was measured.

    \b
    Examples:
      longshot sample toybox -o easy.parquet
      longshot inspect easy.parquet --verify
      longshot inspect easy.parquet --html easy.html
      longshot inspect easy.parquet --reduction shortest-paths

    The content hash is checked in any case; --verify also checks each image and class against the dataset, says how
    many images it compared by their bytes or by name only, and which changed or are missing. --html writes one
    self-contained page: the histograms as plots, and the finest and the coarsest tasks (with selected images the
    hardest and the easiest) and some random ones as pictures.

    \b
    Exit codes of --verify:
      0  every image that was checked has the bytes that the testbed was drawn from
      2  a mistake in the input
      3  images changed, or the testbed does not fit the dataset
      4  images are missing
      5  the dataset has new images
      7  as far as names tell: the testbed was drawn with --identity names
    """
    import longshot
    from longshot.base import is_stream
    from longshot.tasks import EXIT_CODES

    inspection = longshot.inspect(testbed, verify=verify, html=html, **settings)
    if as_json:
        here = html is not None and not (isinstance(html, str) or is_stream(html))
        page = {} if html is None else {"html": str(Path(html).resolve() if here else html)}
        echo_json({**inspection.facts, **page})
    else:
        click.echo(f"{inspection}\n")
        for check in inspection.images if verify else ():
            click.echo(f"{check.dataset}: {check}")
        if verify and not inspection.findings:
            click.echo("verified: content hash, fingerprints, and every class and image name of every task")
        if html is not None:
            print_written(html)
    for finding in inspection.findings or ():
        click.echo(f"differs: {finding}", err=True)
    if code := EXIT_CODES[inspection.outcome]:
        sys.exit(code)


@click.command()
@click.argument("predictions", metavar="FILE", type=PLACE)
@click.argument("testbed", type=PLACE)
@verb_options("score")
@json_option
def score_command(
    predictions: Path, testbed: Path, against: Path | None, as_json: bool, **settings: Any
) -> None:
    """Score the predictions in FILE on TESTBED: a testbed file, or the folder of a release or run that holds it.

    \b
    Example:
      longshot score predictions.parquet my-benchmark/
      longshot score predictions.parquet difficult.parquet --against runs/first

    Nothing but the predictions is needed: every task and every query is checked first, then means come with their
    95 % intervals, overall and per dataset. docs/howto/releases.md says how to write FILE in three lines.
    """
    import longshot

    scores = longshot.score(predictions, testbed, against=against, **settings)
    if as_json:
        echo_json(scores.record())
        return
    print_table(scores.mean_rows())
    if scores.paired:
        click.echo()
        print_table(scores.pair_rows(), title=f"'{scores.name}' minus what {against} holds")
    if not scores.checked:
        click.echo(
            "\nThe file names no testbed: only the numbers of tasks and queries could be checked against it."
        )
