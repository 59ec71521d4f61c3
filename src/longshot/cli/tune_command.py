"""``longshot tune``: search for settings on validation tasks."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import click

from longshot.base import UserError
from longshot.cli.common import COUNT, FOLDER, datasets_option, echo_json, pairs_option, print_table, shared


@click.command()
@click.argument("space", required=False)
@click.argument("data", nargs=-1, metavar="TESTBED…|DATASET")
@click.option("--list", "show", is_flag=True, help="Show the search spaces with their parameters.")
@click.option("-o", "--out", type=FOLDER, help="Folder of the search.")
@click.option("--backbone", help="Backbone or saved network through which a method's settings are searched.")
@pairs_option(
    "--search",
    "search",
    "NAME=RANGE",
    'Setting to search: "lr=log(1e-4, 1e-1)", "steps=choose(10, 50)", "x=uniform(0, 1)"; repeat for several.',
)
@pairs_option("--fix", "fix", "NAME=VALUE", "Hold a parameter of the space at one value.")
@pairs_option(
    "--set",
    "settings",
    "NAME=VALUE",
    "Setting of 'longshot train' for all trials, such as steps=500 or size=28.",
)
@click.option("--trials", type=COUNT, help="Trials in all. [20, or as many as --minutes allow]")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Start no trial after so long.")
@click.option(
    "--sampler", type=click.Choice(["tpe", "random"]), default="tpe", help="tpe learns from earlier trials."
)
@click.option(
    "--at-once",
    type=COUNT,
    default=1,
    help="Trials proposed together: they run side by side on a cluster, and do not learn from each other.",
)
@datasets_option()
@shared("device", "engine", "on", "gpus_per_worker", "retry_failed", "seed", "json")
def command(
    space: str | None,
    data: tuple[str, ...],
    show: bool,
    out: Path | None,
    fix: dict[str, str],
    settings: dict[str, str],
    as_json: bool,
    **options: Any,
) -> None:
    """Search for settings that do best on validation tasks; the best go to best.yaml.

    \b
    Examples:
      longshot sample toybox --split validation --tasks 100 --seed 7 -o validation.parquet
      longshot tune tim validation.parquet --backbone pixels --search "lr=log(1e-4, 1e-1)" --trials 10 -o runs/tim
      longshot tune protonet toybox --search "way=choose(5, 10)" --set steps=50 --set size=28 -o runs/proto
      longshot tune vtab-md-protomaml toybox --fix backbone=cnn4 --fix resolution=84 --set steps=500 -o runs/maml
      longshot tune --list

    SPACE is one of --list, a YAML file, or with --search a method or an algorithm. Testbeds (.parquet) judge a method
    on a fixed --backbone; a dataset means that every trial trains a network. The same command goes on after an
    interruption; with more --trials it extends the search.
    """
    if show:
        _list(as_json)
        return
    if space is None or not data or out is None:
        raise UserError(
            "'longshot tune' needs a space, testbeds or a dataset, and a folder, as in 'longshot tune vtab-md-protonet "
            "toybox --set steps=500 -o runs/tuned'; see 'longshot tune --list' and 'longshot tune --help'."
        )
    import longshot

    tuned = longshot.tune(
        space,
        list(data),
        out=out,
        fix={name: _literal(value) for name, value in fix.items()},
        settings={name: _literal(value) for name, value in settings.items()},
        **options,
    )
    if as_json:
        echo_json({"best": tuned.best.story, "trials": tuned.trials})
        return
    _print(tuned.trials, out)


def _literal(text: str) -> Any:
    """A number, True, False, None, list or quoted text; anything else is a text as it stands."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _print(records: list[dict[str, Any]], out: Path) -> None:
    """The ten best trials, those that failed, and where the best one is."""
    succeeded = [trial for trial in records if trial["accuracy"] is not None]
    rows = [
        {
            "trial": trial["trial"],
            "accuracy %": f"{100 * trial['accuracy']:.2f}",
            **{
                name: f"{v:.4g}" if isinstance(v, float) else str(v)
                for name, v in trial["parameters"].items()
            },
            "seconds": f"{trial['seconds']:.1f}",
        }
        for trial in sorted(succeeded, key=lambda trial: -trial["accuracy"])[:10]
    ]
    print_table(rows, footer=f"\n{len(records)} trials; the best one: {out / 'best.yaml'}")
    for trial in records:
        if trial["failed"]:
            click.echo(f"trial {trial['trial']} failed: {trial['failed']}")


def _list(as_json: bool) -> None:
    from longshot.training import list_spaces

    rows = list_spaces()
    if not as_json:  # a source is told once for all parameters of its space
        rows = [
            {**row, "source": "" if row["space"] == above["space"] else row["source"]}
            for above, row in zip([{"space": None}, *rows], rows, strict=False)
        ]
    print_table(rows, as_json=as_json)
