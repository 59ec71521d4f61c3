"""``longshot split``: divide the classes of a dataset into train, validation and test."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import device_option, dry_run_option, json_option, print_table, seed_option
from longshot.core.errors import UserError

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features
    from longshot.splits import Split

_KINDS = ("divergence", "sweep", "random", "semantic", "published")
_OWN = {  # options that mean something to some kinds of split only
    "mode": ("divergence", "sweep"),
    "measure": ("divergence", "sweep"),
    "assignment": ("divergence", "sweep"),
    "restarts": ("divergence", "sweep"),
    "optimiser": ("divergence", "sweep"),
    "start": ("divergence", "sweep"),
    "penalty": ("divergence", "sweep"),
    "backbone": ("divergence", "sweep"),
    "features": ("divergence", "sweep"),
    "level": ("semantic",),
    "order": ("published",),
    "ratios": ("divergence", "sweep", "random", "semantic"),
}


FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("dataset")
@click.option(
    "--divergence", type=float, metavar="R", help="How far train and test classes are apart; 0 is random."
)
@click.option("--sweep", metavar="R,R,…", help="One split for each of several divergences.")
@click.option("--random", "random_classes", is_flag=True, help="Classes at random.")
@click.option("--semantic", is_flag=True, help="Whole super-classes of the dataset's taxonomy.")
@click.option("--published", metavar="NAME", help="A published list: atg:cifar100@0.96, cifar-fs, fc100 …")
@click.option("--backbone", help="What the classes are seen through (see 'longshot backbones').")
@click.option("--features", type=FILE, help="FILE.npy of 'embed -o' instead.")
@click.option("--mode", help="principal or paper.  [default: principal]")
@click.option("--measure", help="kl-symmetric, kl, wasserstein or euclidean.  [default: kl-symmetric]")
@click.option(
    "--assignment", help="drawn or sorted.  [default: drawn in mode principal, sorted in mode paper]"
)
@click.option(
    "--restarts", type=click.IntRange(min=1), help="Repeat at random and say how far the splits agree."
)
@click.option("--optimiser", help="Of mode paper: lbfgs or sgd, the published one.  [default: lbfgs]")
@click.option("--start", help="Of mode paper: principal or random.  [default: principal]")
@click.option("--penalty", type=float, help="Of mode paper: λ, the weight of (D − R)².  [default: 1]")
@click.option(
    "--level", type=click.IntRange(min=0), help="Depth of super-classes.  [default: the classes' parents]"
)
@click.option("--order", type=FILE, help="Class ids in the order of the published numbers, one a line.")
@click.option(
    "--ratios", metavar="T,V,T", help="Shares of train, validation and test.  [default: 0.6,0.2,0.2]"
)
@click.option("-o", "--out", type=FILE, help="split.json to write; a sweep adds -R to the name.")
@device_option
@seed_option
@dry_run_option
@json_option
def command(dataset: str, out: Path | None, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Divide the classes of DATASET into train, validation and test, and write a split.json.

    \b
    Examples:
      longshot split toybox --backbone pixels --divergence 0.64 -o hard.json
      longshot split toybox --backbone pixels --sweep 0.04,0.32,0.64,0.96 -o atg.json
      longshot split toybox --backbone pixels --mode paper --restarts 5 --divergence 0.64 -o paper.json
      longshot split toybox --semantic --level 1 -o families.json
      longshot split ./cifar100 --published atg:cifar100@0.96 -o published.json

    The file can be given wherever a split of the dataset is named. Validation and test get ⌊ratio · classes⌋ classes
    each, train the rest.
    """
    kind = _kind(options)
    _check_belongs(kind, options)
    if out is None and not dry_run:
        raise UserError("No file to write to; name one with -o split.json.")
    from longshot.datasets import open_dataset

    opened = open_dataset(dataset)
    if dry_run and kind in ("divergence", "sweep"):
        _estimate(opened, options, as_json)
        return
    began = time.monotonic()
    splits = _make(kind, opened, options)
    files = [_file(out, kind, split) for split in splits] if out is not None else []
    if not dry_run:
        for split, file in zip(splits, files, strict=True):
            split.save(file)
    _tell(splits, [] if dry_run else files, time.monotonic() - began, as_json)


def _kind(options: dict[str, Any]) -> str:
    given = {
        "divergence": options["divergence"] is not None,
        "sweep": options["sweep"] is not None,
        "random": options["random_classes"],
        "semantic": options["semantic"],
        "published": options["published"] is not None,
    }
    chosen = [kind for kind in _KINDS if given[kind]]
    if len(chosen) != 1:
        found = " and ".join(f"--{kind}" for kind in chosen) + " were given" if chosen else "none was given"
        raise UserError(f"One kind of split is needed, but {found}: give one of --{', --'.join(_KINDS)}.")
    return chosen[0]


def _check_belongs(kind: str, options: dict[str, Any]) -> None:
    """An option that the kind of split does not look at is a mistake, not a wish to be passed over."""
    for name, kinds in _OWN.items():
        if options[name] is not None and kind not in kinds:
            raise UserError(f"--{name} belongs to --{' and --'.join(kinds)}, not to --{kind}; leave it out.")


def _numbers(text: str, what: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(
            f"--{what} '{text}' is not a list of numbers with commas between, as in 0.2,0.4."
        ) from None


def _make(kind: str, dataset: Dataset, options: dict[str, Any]) -> list[Split]:
    from longshot.splits.assign import RATIOS
    from longshot.splits.published import published_split
    from longshot.splits.simple import random_split, semantic_split

    ratios = _numbers(options["ratios"], "ratios") if options["ratios"] else RATIOS
    if kind == "random":
        return [random_split(dataset, ratios, options["seed"])]
    if kind == "semantic":
        return [semantic_split(dataset, ratios, options["seed"], options["level"])]
    if kind == "published":
        return [published_split(options["published"], dataset, options["order"])]
    from longshot.splits.build import SplitRecipe, Splitter

    names = ("mode", "measure", "assignment", "restarts", "optimiser", "start", "penalty", "seed")
    recipe = SplitRecipe(
        ratios=ratios, **{name: options[name] for name in names if options[name] is not None}
    )
    wanted = _wanted(options)
    splitter = Splitter(dataset, _features(dataset, options))
    from longshot.core.progress import progress

    splits = []
    with progress("split", total=len(wanted), unit="splits") as bar:
        for divergence in wanted:
            splits.append(splitter.split(divergence, recipe))
            bar.advance()
    return splits


def _wanted(options: dict[str, Any]) -> tuple[float, ...]:
    if options["sweep"] is None:
        return (float(options["divergence"]),)
    wanted = _numbers(options["sweep"], "sweep")
    if len({f"{r:g}" for r in wanted}) < len(wanted):
        raise UserError(f"--sweep '{options['sweep']}' names a divergence twice; each has a file of its own.")
    return wanted


def _features(dataset: Dataset, options: dict[str, Any]) -> Features:
    if (options["backbone"] is None) == (options["features"] is None):
        raise UserError(
            "A split at a divergence looks at features: give one of --backbone NAME (see 'longshot backbones') and "
            "--features FILE.npy."
        )
    if options["features"] is not None:
        from longshot.features.features import Features

        return Features.load(options["features"])
    from longshot.features.extract import embed

    return embed(dataset, options["backbone"], device=options["device"])


def _estimate(dataset: Dataset, options: dict[str, Any], as_json: bool) -> None:
    """Embedding is what takes time; the split itself is seconds."""
    cached, seconds = True, 0.0
    if options["backbone"] is not None:
        from longshot.features.extract import estimate

        planned = estimate(dataset, options["backbone"], device=options["device"])
        cached, seconds = bool(planned["cached"]), float(planned["seconds"])
    count = len(_wanted(options))
    if as_json:
        told = {"splits": count, "classes": len(dataset.class_ids), "embedded": cached, "seconds": seconds}
        click.echo(json.dumps(told))
        return
    before = "features are there" if cached else f"embedding comes first: about {seconds:,.0f} s"
    click.echo(f"would make {count} split(s) of {len(dataset.class_ids):,} classes; {before}")


def _file(out: Path, kind: str, split: Split) -> Path:
    return (
        out
        if kind != "sweep"
        else out.with_name(f"{out.stem}-{split.made['divergence_asked']:g}{out.suffix}")
    )


def _tell(splits: list[Split], files: list[Path], seconds: float, as_json: bool) -> None:
    if as_json:
        paths: list[str | None] = [str(file) for file in files] or [None] * len(splits)
        rows = [
            {"path": path, "name": split.name, "sizes": split.sizes, "made": split.made}
            for split, path in zip(splits, paths, strict=True)
        ]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    print_table([_row(split) for split in splits])
    made = splits[0].made
    if "gap_farthest" in made:
        click.echo(
            f"gap: distance of the mean train and mean test class; at most {made['gap_farthest']:.3f} along the "
            f"leading direction of '{made['backbone']}'"
        )
    if made.get("mode") in ("paper", "principal") and made["assignment"] == "sorted" and len(splits) > 1:
        shared = len(set.intersection(*(set(split.test) for split in splits)))
        click.echo(
            f"{shared} of {len(splits[0].test)} test classes are in all {len(splits)} splits: sorting looks at the "
            f"direction between the centroids alone, --assignment drawn at their distance too"
        )
    for file in files:
        click.echo(str(file))
    click.echo(f"in {seconds:.1f} s")


def _row(split: Split) -> dict[str, Any]:
    made, row = split.made, {"split": split.name}
    row |= {part: f"{size:,}" for part, size in split.sizes.items()}
    if "divergence" in made:
        row |= {
            "asked": f"{made['divergence_asked']:g}",
            "divergence": f"{made['divergence']:.4f}",
            "objective − M ln M": f"{made['objective_above_bound']:.3g}",
            "gap": f"{made['gap']:.3f}",
        }
    if "agreement" in made:
        row["adjusted Rand"] = f"{made['agreement']['adjusted_rand']:.2f}"
        row["same part"] = f"{100 * made['agreement']['same_part']:.0f} %"
    return row
