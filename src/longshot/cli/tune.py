"""``longshot tune``: search for settings on validation tasks."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import device_option, json_option, print_table, seed_option
from longshot.core.errors import UserError

if TYPE_CHECKING:
    from longshot.training.spaces import Space
    from longshot.training.tune import TrialObjective


@click.command()
@click.argument("space", required=False)
@click.argument("data", nargs=-1, metavar="TESTBED…|DATASET")
@click.option("--list", "show", is_flag=True, help="Show the search spaces with their parameters.")
@click.option("-o", "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of the search.")
@click.option("--backbone", help="Backbone or saved network through which a method's settings are searched.")
@click.option(
    "--search",
    multiple=True,
    metavar="NAME=RANGE",
    help='Setting to search: "lr=log(1e-4, 1e-1)", "steps=choose(10, 50)", "x=uniform(0, 1)"; repeat for several.',
)
@click.option(
    "--fix", multiple=True, metavar="NAME=VALUE", help="Hold a parameter of the space at one value."
)
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="Setting of 'longshot train' for all trials, such as steps=500 or size=28.",
)
@click.option(
    "--trials", type=click.IntRange(min=1), help="Trials in all. [20, or as many as --minutes allow]"
)
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Start no trial after so long.")
@click.option(
    "--sampler",
    type=click.Choice(["tpe", "random"]),
    default="tpe",
    show_default=True,
    help="tpe learns from earlier trials.",
)
@click.option(
    "--dataset", "datasets", multiple=True, metavar="NAME=PATH", help="Where a testbed's dataset lives."
)
@device_option
@seed_option
@json_option
def command(
    space: str | None,
    data: tuple[str, ...],
    show: bool,
    out: Path | None,
    backbone: str | None,
    search: tuple[str, ...],
    fix: tuple[str, ...],
    given: tuple[str, ...],
    trials: int | None,
    minutes: float | None,
    sampler: str,
    datasets: tuple[str, ...],
    device: str,
    seed: int,
    as_json: bool,
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
    from longshot.training.spaces import get_space, space_of_call

    if show:
        _list(as_json)
        return
    if space is None or not data or out is None:
        raise UserError(
            "'longshot tune' needs a space, testbeds or a dataset, and a folder, as in 'longshot tune vtab-md-protonet "
            "toybox --set steps=500 -o runs/tuned'; see 'longshot tune --list' and 'longshot tune --help'."
        )
    trains = not all(place.endswith(".parquet") for place in data)
    ranges = dict(_pairs("--search", search))
    chosen = space_of_call(space, ranges, trains=trains) if ranges else get_space(space)
    chosen = chosen.fixed({name: _literal(value) for name, value in _pairs("--fix", fix)})
    settings = {name: _literal(value) for name, value in _pairs("--set", given)}
    _check(chosen, trains, data, backbone, settings)
    from longshot.training.tune import Evaluating, TrainingTrial, tune

    objective: TrialObjective
    if trains:
        objective = TrainingTrial(data[0], {**settings, "device": device, "seed": seed})
    else:
        from longshot.datasets.registry import parse_dataset_options

        assert backbone is not None
        objective = Evaluating(data, backbone, parse_dataset_options(datasets), device, seed)
    best = tune(chosen, objective, out, trials=trials, minutes=minutes, sampler=sampler, seed=seed)
    records = json.loads((out / "trials.json").read_text(encoding="utf-8"))
    if as_json:
        click.echo(json.dumps({"best": best.story, "trials": records}, indent=2, ensure_ascii=False))
        return
    _print(records, out)


def _check(
    space: Space, trains: bool, data: tuple[str, ...], backbone: str | None, settings: dict[str, Any]
) -> None:
    """What does not go together, in a sentence."""
    if trains:
        from longshot.training.data import Settings

        if space.algorithm is None:
            raise UserError(
                f"The space '{space.name}' searches a method, so it needs testbeds of validation tasks (.parquet, from "
                f"'longshot sample --split validation'), not '{data[0]}'."
            )
        if len(data) > 1:
            raise UserError(f"A search that trains takes 1 dataset, not {len(data)}.")
        if backbone is not None:
            raise UserError("A search that trains makes its own networks; leave --backbone out.")
        for name in settings:
            if name in space.train:
                raise UserError(f"The space '{space.name}' sets {name} itself; use --fix for its parameters.")
            if name not in Settings.__dataclass_fields__:
                known = ", ".join(Settings.__dataclass_fields__)
                raise UserError(f"Training has no setting '{name}' for --set; there are {known}.")
        if "schedule" in space.train and "steps" not in settings:
            raise UserError(
                f"The space '{space.name}' lets the learning rate decay, so it must know how long a training is; add "
                f"--set steps=1000."
            )
        return
    if space.algorithm is not None:
        raise UserError(f"The space '{space.name}' trains networks, so it needs a dataset, not {data[0]}.")
    if backbone is None:
        raise UserError("Settings of a method are searched through a fixed backbone: add --backbone NAME.")
    if settings:
        raise UserError("--set is for searches that train; give a method's settings in its call.")


def _pairs(option: str, texts: tuple[str, ...]) -> list[tuple[str, str]]:
    found = []
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise UserError(f"{option} '{text}' is not of the form NAME=VALUE.")
        found.append((name.strip(), value.strip()))
    return found


def _literal(text: str) -> Any:
    """A number, True, False, None, list or quoted text; anything else is a text as it stands."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _print(records: list[dict[str, Any]], out: Path) -> None:
    """The ten best trials, those that failed, and where the best one is."""
    ranked = sorted((one for one in records if one["accuracy"] is not None), key=lambda one: -one["accuracy"])
    rows = [
        {
            "trial": one["trial"],
            "accuracy %": f"{100 * one['accuracy']:.2f}",
            **{name: f"{v:.4g}" if isinstance(v, float) else str(v) for name, v in one["parameters"].items()},
            "seconds": f"{one['seconds']:.1f}",
        }
        for one in ranked[:10]
    ]
    print_table(rows, footer=f"\n{len(records)} trials; the best one: {out / 'best.yaml'}")
    for one in records:
        if one["failed"]:
            click.echo(f"trial {one['trial']} failed: {one['failed']}")


def _list(as_json: bool) -> None:
    from longshot.training.spaces import get_space, space_names

    rows: list[dict[str, Any]] = []
    for name in space_names():
        space = get_space(name)
        for parameter, values in space.parameters.items():
            first = not rows or rows[-1]["space"] != name
            rows.append(
                {
                    "space": name,
                    "needs": "a dataset" if space.algorithm else "testbeds",
                    "parameter": parameter,
                    "range": str(values),
                    "found": str(space.found.get(parameter, "")),
                    "source": space.source if first or as_json else "",
                }
            )
    print_table(rows, as_json=as_json)
