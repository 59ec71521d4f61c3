"""Rows of the tables that ``longshot splits`` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from longshot.base import print_table

if TYPE_CHECKING:
    from longshot.tasks import OddPair, SplitComparison, TreeGap


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
        "test shared": f"{100 * comparison.shared_test:.0f} %",
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
    from longshot.statistics import Interval

    frozen, learnt, loss = (
        Interval(**record[name]) for name in ("frozen_accuracy", "learnt_accuracy", "transfer_loss")
    )
    return {
        "split": record["split"],
        "frozen": frozen.text(),
        "learnt": learnt.text(),
        "learnt on others": f"{100 * record['other_accuracy']:.1f}",
        "transfer loss": loss.text("points"),
    }


def target_line(made: Mapping[str, Any]) -> str:
    """Say what a split was to reach, what it has, and how it was found."""
    target, hardness = made["target"], made["hardness"]
    aims = {
        name: f"{100 * target[key]:.1f} % {name} wanted, {100 * hardness[key]['mean']:.1f} % reached"
        for name, key in (("frozen", "frozen_accuracy"), ("learnt", "learnt_accuracy"))
        if key in target
    }
    strength = made["strength"] if isinstance(made["strength"], str) else f"strength {made['strength']:g}"
    return f"{'; '.join(aims.values())}; {made['direction']}, {strength}, of {made['searched']['splits']} splits tried"


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
