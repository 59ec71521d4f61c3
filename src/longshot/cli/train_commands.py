"""``longshot train`` and ``tune``: make a network that embeds images, and search for settings."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import click

from longshot.base import (
    GroupedCommand,
    UserError,
    dry_run_option,
    echo_json,
    json_option,
    print_table,
    verb_options,
)
from longshot.cli.sample_commands import HEADINGS, word_option
from longshot.statistics import percent
from longshot.tasks import GROUPS

_SAMPLER = ("Shape (how many)", "Classes (which)", "Classes by meaning or looks")  # headings shown on request


@click.command(cls=GroupedCommand, heading="Training", rare_groups=_SAMPLER)
@click.argument("algorithm", metavar="[NAME]", required=False)
@click.argument("dataset", required=False)
@click.option(
    "--list", "show", is_flag=True, help="Show the algorithms with their papers, settings and recipes."
)
@verb_options(
    "train",
    {
        "out": {"required": False},
        **{
            name: word_option(name) if name in ("shape", "classes") else HEADINGS[name]
            for group in _SAMPLER
            for name in GROUPS[group].split()
        },
    },
    without="validation curves",
)
@dry_run_option
@json_option
def train_command(
    algorithm: str | None,
    dataset: str | None,
    show: bool,
    out: Path | None,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a network on the train classes of DATASET; the best one on validation tasks is kept.

    \b
    Examples:
      longshot train protonet toybox --size 28 --minutes 2 -o runs/proto
      longshot train "protonet(way=20, shot=1)" toybox --network resnet12 --dry-run
      longshot train multiclass toybox --epochs 20 --augment "crop(8)|flip" -o runs/multiclass
      longshot train adversarial toybox --start runs/proto --steps 1000 -o runs/harder
      longshot train --list

    NAME is an algorithm with its settings, or a best.yaml of 'longshot tune'; episodes come from any sampler of
    'longshot sample' (--shape, --classes). The folder is a backbone: longshot embed toybox --backbone runs/proto. The
    same command goes on after an interruption and ends with the same weights.
    """
    if show:
        import longshot

        footer = '\nSettings as in longshot train "protonet(way=20, shot=1)" toybox.'
        print_table(longshot.training.list_algorithms(), as_json=as_json, footer=footer)
        return
    if algorithm is None or dataset is None:
        raise UserError(
            "'longshot train' needs an algorithm and a dataset, as in 'longshot train protonet toybox -o runs/proto'; "
            "see 'longshot train --list'."
        )
    import longshot

    options["judge"] = options["judge"] or None
    if dry_run:
        (cost,) = longshot.estimate("train", algorithm, dataset, **options).steps
        _print_cost(cost, as_json)
        return
    if out is None:
        raise UserError("No folder to write to", "name one: {out:runs/proto}")
    trained = longshot.train(algorithm, dataset, out=out, **options)
    if as_json:
        echo_json(trained.as_dict())
        return
    for note in trained.notes:
        click.echo(note)
    click.echo(f"{trained.steps:,} steps in {_time(trained.seconds)}")
    if trained.validation_accuracy is not None:
        low, high = trained.validation_interval or (trained.validation_accuracy,) * 2
        click.echo(
            f"validation accuracy {percent(trained.validation_accuracy)} % [{percent(low)}, {percent(high)}] "
            f"at step {trained.best_step:,}, which is kept"
        )
    click.echo(f"{trained.path}  a backbone: longshot embed {dataset} --backbone {trained.path}")


def _print_cost(cost: dict[str, Any], as_json: bool) -> None:
    if as_json:
        echo_json(cost)
        return
    validations = f" and {cost['validations']} validations of {cost['seconds_per_validation']:.1f} s"
    validations = validations if cost["validations"] else ""
    click.echo(
        f"would train {cost['network']} ({cost['parameters']:,} parameters, {cost['gflops_per_image']:g} GFLOP an "
        f"image) with {cost['algorithm']} on {cost['train_classes']:,} classes"
    )
    click.echo(
        f"{cost['steps']:,} steps of {cost['images_per_step']:,} images at {cost['steps_per_second']:g} steps/s"
        f"{validations}: about {_time(cost['seconds'])}, {cost['bytes'] / 1e6:,.1f} MB on disk"
    )
    if cost["steps_in_time"] < cost["steps"]:
        click.echo(f"--minutes {cost['minutes']:g} will be over after about {cost['steps_in_time']:,} steps")
    for note in cost["notes"]:
        click.echo(note)


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


@click.command()
@click.argument("space", required=False)
@click.argument("data", nargs=-1, metavar="TESTBED…|DATASET")
@click.option("--list", "show", is_flag=True, help="Show the search spaces with their parameters.")
@verb_options("tune", {"out": {"required": False}, "settings": {"flags": ["--set"]}})
@json_option
def tune_command(
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
        _print_spaces(as_json)
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
    """Read a number, True, False, None, list or quoted text; anything else is a text as it stands."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _print(records: list[dict[str, Any]], out: Path) -> None:
    """Print the ten best trials, those that failed, and where the best one is."""
    succeeded = [trial for trial in records if trial["accuracy"] is not None]
    rows = [
        {
            "trial": trial["trial"],
            "accuracy %": percent(trial["accuracy"], 2),
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


def _print_spaces(as_json: bool) -> None:
    import longshot

    rows = longshot.training.list_spaces()
    if not as_json:  # a source is told once for all parameters of its space
        rows = [
            {**row, "source": "" if row["space"] == above["space"] else row["source"]}
            for above, row in zip([{"space": None}, *rows], rows, strict=False)
        ]
    print_table(rows, as_json=as_json)
