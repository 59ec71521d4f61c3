"""Rows of the tables that ``longshot splits`` prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import print_table

if TYPE_CHECKING:
    from longshot.splits.compare import SplitComparison
    from longshot.splits.comparing import OddPair
    from longshot.splits.trees import TreeGap


def comparison_row(comparison: SplitComparison) -> dict[str, str]:
    """One split under one backbone, to read."""
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


def gap_row(name: str, against: str, gap: TreeGap, *, exact: bool) -> dict[str, Any]:
    """Two trees compared; ``exact`` keeps all digits, for JSON."""
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
    """A pair of classes that a tree and the taxonomy see differently."""
    return {
        "what": pair.which,
        "backbone": pair.backbone,
        "class": pair.first,
        "other": pair.second,
        "hops in the tree": pair.tree_hops,
        "hops in the taxonomy": pair.taxonomy_hops,
    }


def print_rows(rows: list[dict[str, Any]], markdown: bool, title: str) -> None:
    """A terminal table, or Markdown."""
    if not markdown:
        print_table(rows, title=title)
        return
    from longshot.reports.sheets import Sheet, SheetCell
    from longshot.reports.sheets import markdown as to_markdown

    heads = [("", head) for head in rows[0]]
    cells = [[SheetCell(str(value)) for value in row.values()] for row in rows]
    click.echo(to_markdown(Sheet(title, heads, [cells])), nl=False)


def plain(value: Any) -> str:
    """A value of a split's story in one line."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
