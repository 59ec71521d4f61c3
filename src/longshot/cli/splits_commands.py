"""``longshot split`` and ``splits``: divide classes into train, validation and test; compare and draw splits."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.base import PATH, UserError, echo_json, json_option, print_table, verb_options
from longshot.statistics import percent

if TYPE_CHECKING:
    from longshot.tasks import OddPair, Split, SplitComparison, TreeGap


@click.command()
@click.argument("dataset")
@verb_options("make_split")
@json_option
def split_command(dataset: str, out: Path | None, as_json: bool, **options: Any) -> None:
    """Divide the classes of DATASET into train, validation and test, and write a split.json.

    \b
    Examples:
      longshot split toybox --backbone pixels --harder-than random --by 10 -o hard.json
      longshot split toybox --backbone pixels --like semantic -o alike.json
      longshot split toybox --backbone pixels --learnt-accuracy 0.6 -o at60.json
      longshot split toybox --backbone pixels --divergence 0.64 -o far.json
      longshot split toybox --backbone pixels --sweep 0.04,0.32,0.64,0.96 -o atg.json
      longshot split toybox --backbone pixels --mode paper --divergence 0.64 -o paper.json
      longshot split toybox --semantic --level 1 -o families.json
      longshot split ./cifar100 --published atg:cifar100@0.96 -o published.json
      longshot split ./cifar100 --backbone efficientnet-lite0 --like fc100 -o like.json

    The file can be given wherever a split of the dataset is named. Validation and test get ⌊ratio · classes⌋ classes
    each, train the rest. How hard it is stands in a second table, beside random, semantic and published splits:
    frozen (ProtoNet on the features: how alike the test classes are), learnt (after a linear map of the train
    classes), and transfer loss (what other train classes would give more).
    """
    import longshot
    from longshot.tasks import split_kind, sweep_file

    kind = split_kind(options)
    if out is None:
        raise UserError("No file to write to; name one with -o split.json.")
    began = time.monotonic()
    made = longshot.make_split(dataset, out=out, **options)
    splits = made if isinstance(made, list) else [made]
    files = [sweep_file(out, each) for each in options["sweep"]] if kind == "sweep" else [out]
    _tell(splits, files, time.monotonic() - began, as_json)
    if not (options["backbone"] or options["features"] or as_json):
        click.echo("how hard it is can be measured through features: add --backbone NAME")


def _tell(splits: list[Split], files: list[Path], seconds: float, as_json: bool) -> None:
    if as_json:
        rows = [
            {"path": str(file), "name": split.name, "sizes": split.sizes, "made": split.story}
            for split, file in zip(splits, files, strict=True)
        ]
        echo_json(rows)
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
    if "target" in made:
        click.echo(target_line(made, files[0] if files else "FILE"))
    if "hardness" in made:
        click.echo()
        records = [{"split": split.name, **split.made["hardness"]} for split in splits]
        print_hardness([*records, *made.get("references", [])])
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
    return row


@click.group()
def splits_command() -> None:
    """Look at splits of classes, compare them under any backbone, draw them.

    \b
    Example:
      longshot split toybox --backbone pixels --divergence 0.64 -o far.json
      longshot splits show far.json
      longshot splits compare far.json random --dataset toybox --backbone pixels
      longshot splits plot far.json random --dataset toybox --backbone pixels -o splits.png
      longshot splits tree toybox --backbone pixels

    'longshot split' makes splits; wherever a SPLIT is named here, it may be a file, a published split
    ('longshot splits list'), random, random(seed=3) or semantic.
    """


@splits_command.command("list")
@json_option
def list_splits(as_json: bool) -> None:
    """List the published splits by name, with the dataset each was made for.

    \b
    Example:
      longshot splits list
    """
    from longshot.tasks import list_published

    print_table(list_published(), as_json=as_json)


@splits_command.command("show")
@click.argument("file", type=PATH)
@click.option("--classes", "with_classes", is_flag=True, help="List the classes of every part too.")
@json_option
def show(file: Path, with_classes: bool, as_json: bool) -> None:
    """Print what a split file holds: sizes, how it was made, its classes.

    \b
    Example:
      longshot split toybox --backbone pixels --divergence 0.64 -o far.json
      longshot splits show far.json --classes
    """
    from longshot.tasks import Split

    split = Split.load(file)
    if as_json:
        parts = {part: list(members) for part, members in split.parts.items()}
        facts = {"name": split.name, "fingerprint": split.fingerprint, "made": split.story}
        echo_json({**facts, "sizes": split.sizes, **parts})
        return
    sizes = ", ".join(f"{count:,} {part}" for part, count in split.sizes.items())
    click.echo(f"{split.name}: {sizes}")
    click.echo(f"dataset fingerprint: {split.fingerprint[:12] or 'none, a list by hand'}")
    for key, value in split.story.items():
        if key not in ("hardness", "references", "target"):
            click.echo(f"  {key}: {plain(value)}")
    if "target" in split.made:
        click.echo(target_line(split.made, file))
    if "hardness" in split.made:
        print_hardness([{"split": split.name, **split.made["hardness"]}, *split.made.get("references", [])])
    if with_classes:
        for part, members in split.parts.items():
            click.echo(f"\n{part}")
            for member in members:
                click.echo(f"  {member}")


@splits_command.command("compare")
@click.argument("splits", nargs=-1, required=True, metavar="SPLIT…")
@verb_options("compare_splits", {"dataset": {}})
@click.option(
    "--classes", "with_classes", is_flag=True, help="List every test class with its nearest train class."
)
@click.option("--markdown", is_flag=True, help="Print a Markdown table.")
@json_option
def compare(
    splits: tuple[str, ...], dataset: str, with_classes: bool, markdown: bool, as_json: bool, **settings: Any
) -> None:
    """Measure splits under one or several backbones: how hard they are, divergences, gap, nearest train classes.

    \b
    Example:
      longshot split toybox --backbone pixels --divergence 0.64 -o far.json
      longshot splits compare far.json random --dataset toybox --backbone pixels

    Divergences are those of the mean train and the mean test class, so that any split has them, and they
    compare with each other; ATG's own centroids lie further out than these means. How hard a split is stands in
    a table of its own: frozen accuracy of the test classes (how alike they are), accuracy after a linear map
    learnt on the train classes, and transfer loss (what other train classes would give more).
    """
    import longshot

    opened = longshot.open_dataset(dataset)
    comparisons = longshot.compare_splits(splits, opened, **settings)
    if as_json:
        records = []
        for each in comparisons:
            nearest = [vars(pair) for pair in each.nearest]
            records.append({**each.record(), "shared_test": each.shared_test, "nearest": nearest})
        echo_json(records)
        return
    rows = [comparison_row(comparison) for comparison in comparisons]
    print_rows(rows, markdown, f"{opened.name}: {len(opened.class_ids):,} classes")
    for backbone in dict.fromkeys(comparison.backbone for comparison in comparisons):
        hardness = [
            {"split": comparison.split, **comparison.hardness.record()}
            for comparison in comparisons
            if comparison.backbone == backbone and comparison.hardness is not None
        ]
        if hardness:
            click.echo()
            print_hardness(hardness, markdown, backbone)
    if with_classes:
        for each in (each for each in comparisons if not each.reference):
            farthest = sorted(each.nearest, key=lambda pair: -pair.distance)
            heads = ("test class", "nearest train class", "distance")
            cells = [(pair.test, pair.train, f"{pair.distance:.3f}") for pair in farthest]
            click.echo()
            title = f"{each.split}, {each.backbone}: farthest test classes first"
            print_rows([dict(zip(heads, row, strict=True)) for row in cells], markdown, title)


@splits_command.command("tree")
@click.argument("dataset")
@verb_options("tasks.compare_trees")
@click.option("--markdown", is_flag=True, help="Print a Markdown table.")
@json_option
def tree(dataset: str, markdown: bool, as_json: bool, **settings: Any) -> None:
    """Compare a Ward clustering of class embeddings with a taxonomy, in hops between classes.

    \b
    Example:
      longshot splits tree toybox --backbone pixels

    'hops' is the mean over pairs of classes of the difference in edges between them; 'chance' the same after
    the classes changed places at random. With several backbones their trees are compared with each other too.
    """
    import longshot
    from longshot.tasks import compare_trees

    opened = longshot.open_dataset(dataset)
    trees = compare_trees(opened, **settings)
    rows = [gap_row(name, against, gap, exact=as_json) for name, against, gap in trees.gaps]
    listed = [pair_row(pair) for pair in trees.pairs]
    if as_json:
        echo_json({"trees": rows, "pairs": listed})
        return
    print_rows(rows, markdown, f"{opened.name}: {len(opened.class_ids):,} classes")
    if listed:
        click.echo()
        print_rows(listed, markdown, "Where they disagree most")


@splits_command.command("plot")
@click.argument("splits", nargs=-1, required=True, metavar="SPLIT…")
@verb_options("plot_splits", {"dataset": {}})
def plot(splits: tuple[str, ...], dataset: str, out: Path, **settings: Any) -> None:
    """Draw the classes in the plane of their first two principal components, coloured by part.

    \b
    Example:
      longshot split toybox --backbone pixels --divergence 0.64 -o far.json
      longshot splits plot far.json random --dataset toybox --backbone pixels -o splits.png
    """
    import longshot

    longshot.plot_splits(splits, dataset, out=out, **settings)
    click.echo(f"wrote {out}")


# ---- rows of the tables


def comparison_row(comparison: SplitComparison) -> dict[str, str]:
    """Make the row of one split under one backbone, to read."""
    near = comparison.distances
    return {
        "split": comparison.split,
        "backbone": comparison.backbone,
        "classes": "/".join(str(size) for size in comparison.sizes.values()),
        **{name: f"{divergence:.4f}" for name, divergence in comparison.divergences.items()},
        "gap": f"{comparison.gap:.3f}",
        "nearest train class": f"{near.mean():.3f} ({near.min():.3f}–{near.max():.3f})",
        "train spacing": f"{comparison.spacing:.3f}",
        "test shared": f"{percent(comparison.shared_test, 0)} %",
    }


def print_hardness(records: Sequence[Mapping[str, Any]], markdown: bool = False, backbone: str = "") -> None:
    """Print how hard splits are, from records of ``Hardness`` with the name of the ``split``."""
    shape = records[0]
    title = f"Accuracy in % of {shape['way']}-way {shape['shot']}-shot tasks of the test classes"
    rows = [hardness_row(record) for record in records]
    print_rows(rows, markdown, f"{title}, {backbone}" if backbone else title)
    click.echo(
        "frozen: features as they are, the lower the more alike the test classes; learnt: after a linear map of the\n"
        "train classes; transfer loss: points that as many other train classes would give more; ± 95 % over seeds,\n"
        "× n over splits"
    )


def hardness_row(record: Mapping[str, Any]) -> dict[str, str]:
    """Make the row of how hard one split is: accuracies in %, the loss in points."""
    from longshot.tasks import Hardness

    hardness = Hardness.from_record(record)
    return {
        "split": record["split"],
        "frozen": hardness.frozen.text(),
        "learnt": hardness.learnt.text(),
        "learnt on others": f"{percent(hardness.other)}",
        "transfer loss": hardness.transfer_loss.text("points"),
    }


def target_line(made: Mapping[str, Any], file: Path | str) -> str:
    """Say what a split was to reach, what it has, how it was found, and that networks were not asked."""
    target, hardness = made["target"], made["hardness"]
    aims = {
        name: f"{percent(target[key])} % {name} wanted, {percent(hardness[key]['mean'])} % reached"
        for name, key in (("frozen", "frozen_accuracy"), ("learnt", "learnt_accuracy"))
        if key in target
    }
    strength = made["strength"] if isinstance(made["strength"], str) else f"strength {made['strength']:g}"
    tried = f"{made['direction']}, {strength}, of {made['searched']['splits']} splits tried"
    reached = f"{'; '.join(aims.values())}; {tried}"
    if "certified" in made:
        return reached
    why = "a linear map on these features says so, and networks trained from scratch differ by points"
    remedy = f"'longshot study run certify-split DATASET --set also=[{file}] -o FOLDER' trains some"
    return f"{reached}\nuncertified: {why}; {remedy}"


def gap_row(name: str, against: str, gap: TreeGap, *, exact: bool) -> dict[str, Any]:
    """Make the row of two trees compared; ``exact`` keeps all digits, for JSON."""
    import math

    numbers = {
        "hops": gap.hops,
        "chance": gap.chance,
        "relative": gap.relative,
        "correlation": None if math.isnan(gap.correlation) else gap.correlation,
    }
    if exact:
        return {"one": name, "other": against, **numbers, "pairs": gap.pairs}
    shown = {key: "–" if number is None else f"{number:.3f}" for key, number in numbers.items()}
    return {"tree": name, "against": against, **shown, "pairs": f"{gap.pairs:,}"}


def pair_row(pair: OddPair) -> dict[str, Any]:
    """Make the row of two classes that a tree and the taxonomy see differently."""
    return {
        "what": pair.which,
        "backbone": pair.backbone,
        "class": pair.first,
        "other": pair.second,
        "hops in the tree": pair.tree_hops,
        "hops in the taxonomy": pair.taxonomy_hops,
    }


def print_rows(rows: list[dict[str, Any]], markdown: bool, title: str) -> None:
    """Print a terminal table, or Markdown."""
    if not markdown:
        print_table(rows, title=title)
        return
    from longshot.reports import Sheet, heads, row
    from longshot.reports import markdown as write_markdown

    body = [row(*map(str, each.values())) for each in rows]
    click.echo(write_markdown(Sheet(title, heads(*rows[0]), [body])), nl=False)


def plain(value: Any) -> str:
    """Write a value of a split's story in one line."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
