"""``longshot train`` and ``tune``: make a network that embeds images, and search for settings."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import click

from longshot.base import (
    COUNT,
    FOLDER,
    GroupedCommand,
    UserError,
    datasets_option,
    echo_json,
    pairs_option,
    print_table,
    shared,
)
from longshot.cli.sample_command import (
    POSITIVE,
    SAMPLER,
    class_judge_option,
    class_options,
    shape_options,
)


@click.command(cls=GroupedCommand, heading="Training", rare_groups=SAMPLER)
@click.argument("algorithm", metavar="[NAME]", required=False)
@click.argument("dataset", required=False)
@click.option(
    "--list", "show", is_flag=True, help="Show the algorithms with their papers, settings and recipes."
)
@click.option("-o", "--out", type=FOLDER, help="Folder of the trained network.")
@click.option(
    "--network", help="Network to train: cnn4, resnet12, resnet50, bit-r50x1, vit, timm:NAME, … [cnn4]"
)
@click.option("--start", help="Go on from a saved network (its folder) or from a backbone with weights.")
@click.option(
    "--split", help="Train on the classes of this split, or on all. [train, where there are splits]"
)
@shared("splits")
@click.option(
    "--holdout", type=float, help="Share of the classes held out for validation. [0.1 without splits]"
)
@click.option("--rotations", is_flag=True, help="Every train class in four orientations, as four classes.")
@click.option(
    "--size", type=COUNT, help="Height and width of the images. [84; with --start: the network's own]"
)
@click.option("--preprocessing", help="Whole preprocessing string in place of --size.")
@click.option("--steps", type=COUNT, help="Steps of the optimiser. [as the recipe]")
@click.option("--epochs", type=POSITIVE, help="Passes over the images instead of steps (batch training).")
@click.option("--minutes", type=POSITIVE, help="Stop after so long, if steps are left then.")
@click.option("--batch", type=COUNT, help="Images of a step, or episodes of a step. [as the recipe]")
@click.option("--recipe", help="A named recipe of the algorithm, see --list.")
@click.option("--optimiser", help='Such as "adam(lr=0.001)" or "sgd(lr=0.1, weight_decay=0.0005)".')
@click.option(
    "--schedule",
    help='constant, cosine(warmup=0.1), "step(at=[0.7, 0.9], factor=0.1)", "decay(every=500, rate=0.9)".',
)
@click.option("--augment", help='Such as "crop(8)|flip|jitter(0.4)"; also zoom(s), rotate(d), grey(p).')
@click.option("--clip", type=click.FloatRange(min=0), help="Largest norm of the gradient. [not clipped]")
@click.option("--validate-every", type=COUNT, help="Steps between validations. [about 20 in a run]")
@click.option("--validation-tasks", type=COUNT, default=100, help="Tasks of a validation.")
@click.option("--checkpoint-every", type=COUNT, help="Steps between checkpoints. [a minute, and validations]")
@click.option("--devices", type=COUNT, default=1, help="Processes that share every step.")
@click.option(
    "--precision",
    type=click.Choice(["auto", "float32", "bfloat16"]),
    default="auto",
    help="auto: bfloat16 on accelerators that have it.",
)
@click.option("--allow-download", is_flag=True, help="Let timm: and hf: networks fetch their weights.")
@shape_options
@class_options
@class_judge_option
@shared("device", "seed", "dry_run", "json")
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
            f"validation accuracy {100 * trained.validation_accuracy:.1f} % [{100 * low:.1f}, {100 * high:.1f}] "
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


def _print_spaces(as_json: bool) -> None:
    import longshot

    rows = longshot.training.list_spaces()
    if not as_json:  # a source is told once for all parameters of its space
        rows = [
            {**row, "source": "" if row["space"] == above["space"] else row["source"]}
            for above, row in zip([{"space": None}, *rows], rows, strict=False)
        ]
    print_table(rows, as_json=as_json)
