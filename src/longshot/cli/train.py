"""``longshot train``: make a network that embeds images, on the train classes of a dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import device_option, dry_run_option, json_option, print_table, seed_option
from longshot.cli.help import GroupedCommand
from longshot.cli.sample_options import (
    COUNT,
    POSITIVE,
    SAMPLER,
    class_options,
    shape_options,
)
from longshot.cli.split_option import apply_splits, splits_option
from longshot.core.errors import UserError
from longshot.core.tuned import is_tuned, tuned_training

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.training.data import Settings

_SHAPE = ("way", "shot", "query")
_CLASSES = ("level", "alpha", "beta", "coarsity", "distance", "reduction")


@click.command(cls=GroupedCommand, heading="Training", rare_groups=SAMPLER)
@click.argument("name", required=False)
@click.argument("dataset", required=False)
@click.option(
    "--list", "show", is_flag=True, help="Show the algorithms with their papers, settings and recipes."
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of the trained network."
)
@click.option("--network", help="Network to train: cnn4, resnet12, resnet18, vit, timm:NAME, … [cnn4]")
@click.option("--start", help="Go on from a saved network (its folder) or from a backbone with weights.")
@click.option(
    "--split", help="Train on the classes of this split, or on all. [train, where there are splits]"
)
@splits_option
@click.option(
    "--holdout", type=float, help="Share of the classes held out for validation. [0.1 without splits]"
)
@click.option("--rotations", is_flag=True, help="Every train class in four orientations, as four classes.")
@click.option("--size", type=COUNT, help="Height and width of the images. [84]")
@click.option("--preprocessing", help="Whole preprocessing string in place of --size.")
@click.option("--steps", type=COUNT, help="Steps of the optimiser. [as the recipe]")
@click.option("--epochs", type=POSITIVE, help="Passes over the images instead of steps (batch training).")
@click.option("--minutes", type=POSITIVE, help="Stop after so long, if steps are left then.")
@click.option("--batch", type=COUNT, help="Images of a step, or episodes of a step. [as the recipe]")
@click.option("--recipe", help="A named recipe of the algorithm, see --list.")
@click.option("--optimiser", help='Such as "adam(lr=0.001)" or "sgd(lr=0.1, weight_decay=0.0005)".')
@click.option("--schedule", help='constant, cosine or "step(at=[0.7, 0.9], factor=0.1)"; cosine(warmup=0.1).')
@click.option("--augment", help='Such as "crop(8)|flip|jitter(0.4)"; also zoom(s), rotate(d), grey(p).')
@click.option("--clip", type=click.FloatRange(min=0), help="Largest norm of the gradient. [not clipped]")
@click.option("--validate-every", type=COUNT, help="Steps between validations. [about 20 in a run]")
@click.option("--validation-tasks", type=COUNT, default=100, show_default=True, help="Tasks of a validation.")
@click.option("--checkpoint-every", type=COUNT, help="Steps between checkpoints. [a minute, and validations]")
@click.option("--devices", type=COUNT, default=1, show_default=True, help="Processes that share every step.")
@click.option(
    "--precision",
    type=click.Choice(["auto", "float32", "bfloat16"]),
    default="auto",
    show_default=True,
    help="auto: bfloat16 on accelerators that have it.",
)
@click.option("--allow-download", is_flag=True, help="Let timm: and hf: networks fetch their weights.")
@shape_options
@class_options
@device_option
@seed_option
@dry_run_option
@json_option
def command(
    name: str | None,
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
    if name is None or dataset is None:
        raise UserError(
            "'longshot train' needs an algorithm and a dataset, as in 'longshot train protonet toybox -o runs/proto'; "
            "see 'longshot train --list'."
        )
    data = _opened(dataset, options.pop("splits"))
    settings = _settings(options)
    if is_tuned(name):
        name, settings = _tuned(name, settings)
    if dry_run:
        _estimate(name, data, settings, as_json)
        return
    if out is None:
        raise UserError("No folder to write to; name one with -o runs/proto.")
    from longshot.training.loop import train

    done = train(data, name, out=out, **vars(settings))
    if as_json:
        click.echo(json.dumps(done.as_dict(), indent=2, ensure_ascii=False))
        return
    for note in done.notes:
        click.echo(note)
    click.echo(f"{done.steps:,} steps in {_time(done.seconds)}")
    if done.validation_accuracy is not None:
        low, high = done.validation_interval or (done.validation_accuracy,) * 2
        click.echo(
            f"validation accuracy {100 * done.validation_accuracy:.1f} % [{100 * low:.1f}, {100 * high:.1f}] "
            f"at step {done.best_step:,}, which is kept"
        )
    click.echo(f"{done.path}  a backbone: longshot embed {dataset} --backbone {done.path}")


def _opened(dataset: str, splits: str | None) -> Dataset | str:
    """The dataset with another split in place of its own; just its name where none was asked for."""
    if splits is None:
        return dataset
    from longshot.datasets import open_dataset

    return apply_splits(open_dataset(dataset), splits)


def _settings(options: dict[str, Any]) -> Settings:
    """The options as the settings of a training; a sampler only where one was asked for."""
    from longshot.testbeds.words import check_settings, make_classes, make_shape
    from longshot.training.data import Settings

    shape, classes = options.pop("shape"), options.pop("classes")
    sampler = {name: options.pop(name) for name in (*_SHAPE, *_CLASSES)}
    check_settings(sampler, shape=shape, classes=classes)
    episodes: dict[str, Any] = {name: sampler[name] for name in _SHAPE}
    if shape != "fixed":
        episodes = {"shape": make_shape(shape, sampler)}
    if classes != "uniform" or sampler["coarsity"]:
        episodes["classes"] = make_classes(classes, sampler, allow_repeats=True)
    return Settings(**options, **episodes)


def _tuned(file: str, settings: Settings) -> tuple[str, Settings]:
    """The algorithm and settings of a file that 'longshot tune' wrote; what the command line says goes first."""
    from dataclasses import fields, replace

    from longshot.training.data import Settings

    name, told = tuned_training(file)
    defaults = {field.name: field.default for field in fields(Settings)}
    unknown = [key for key in told if key not in defaults]
    if unknown:
        raise UserError(
            f"{file} sets '{unknown[0]}', which training does not have; see 'longshot train --help'."
        )
    open_ = {key: value for key, value in told.items() if getattr(settings, key) == defaults[key]}
    return name, replace(settings, **open_)


def _estimate(name: str, dataset: Dataset | str, settings: Settings, as_json: bool) -> None:
    from longshot.training.cost import estimate

    told = estimate(dataset, name, settings)
    if as_json:
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    validations = (
        f" and {told['validations']} validations of {told['seconds_per_validation']:.1f} s"
        if told["validations"]
        else ""
    )
    click.echo(
        f"would train {told['network']} ({told['parameters']:,} parameters, {told['gflops_per_image']:g} GFLOP an "
        f"image) with {told['algorithm']} on {told['train_classes']:,} classes"
    )
    click.echo(
        f"{told['steps']:,} steps of {told['images_per_step']:,} images at {told['steps_per_second']:g} steps/s"
        f"{validations}: about {_time(told['seconds'])}, {told['bytes'] / 1e6:,.1f} MB on disk"
    )
    if told["steps_in_time"] < told["steps"]:
        click.echo(f"--minutes {settings.minutes:g} will be over after about {told['steps_in_time']:,} steps")
    for note in told["notes"]:
        click.echo(note)


def _list(as_json: bool) -> None:
    from longshot.core.calls import parameters
    from longshot.training.registry import algorithm_class, algorithm_names

    rows = []
    for name in algorithm_names():
        found = algorithm_class(name)
        for recipe_name, recipe in {"": found.recipe, **found.recipes}.items():
            rows.append(
                {
                    "name": name,
                    "trains on": "episodes" if found.episodic else "batches",
                    "paper": found.paper,
                    "settings": ", ".join(f"{k}={v!r}" for k, v in parameters(found.__init__).items()),
                    "recipe": recipe_name,
                    "optimiser": recipe.optimiser,
                    "schedule": recipe.schedule,
                    "batch": recipe.batch,
                    "length": f"{recipe.epochs} epochs" if recipe.epochs else f"{recipe.steps:,} steps",
                    "augment": recipe.augment,
                }
            )
    print_table(
        rows, as_json=as_json, footer='\nSettings as in longshot train "protonet(way=20, shot=1)" toybox.'
    )


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
