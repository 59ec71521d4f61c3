"""``longshot train``: make a network that embeds images, on the train classes of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.base import UserError
from longshot.cli.common import COUNT, FOLDER, echo_json, print_table, shared
from longshot.cli.help import GroupedCommand
from longshot.cli.sample_options import POSITIVE, SAMPLER, class_options, shape_options


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
@shared("device", "seed", "dry_run", "json")
def command(
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
        _list(as_json)
        return
    if algorithm is None or dataset is None:
        raise UserError(
            "'longshot train' needs an algorithm and a dataset, as in 'longshot train protonet toybox -o runs/proto'; "
            "see 'longshot train --list'."
        )
    import longshot

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
    validations = (
        f" and {cost['validations']} validations of {cost['seconds_per_validation']:.1f} s"
        if cost["validations"]
        else ""
    )
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


def _list(as_json: bool) -> None:
    from longshot.training import list_algorithms

    footer = '\nSettings as in longshot train "protonet(way=20, shot=1)" toybox.'
    print_table(list_algorithms(), as_json=as_json, footer=footer)


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
