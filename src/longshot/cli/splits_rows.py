"""Rows of the tables that ``longshot splits`` prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import print_table

if TYPE_CHECKING:
    from longshot.splits.compare import SplitComparison
    from longshot.splits.trees import TreeGap

PARTS = ("train", "validation", "test")


def comparison_row(one: SplitComparison, shared: float) -> dict[str, str]:
    """One split under one backbone, to read."""
    near = one.distances
    return {
        "split": one.split,
        "backbone": one.backbone,
        "classes": "/".join(str(one.sizes[part]) for part in PARTS),
        **{name: f"{value:.4f}" for name, value in one.divergences.items()},
        "gap": f"{one.gap:.3f}",
        "nearest train class": f"{near.mean():.3f} ({near.min():.3f}–{near.max():.3f})",
        "train spacing": f"{one.spacing:.3f}",
        "test shared": f"{100 * shared:.0f} %",
    }


def gap_row(one: str, other: str, found: TreeGap, *, exact: bool) -> dict[str, Any]:
    """Two trees compared; ``exact`` keeps all digits, for JSON."""
    import math

    numbers = {
        "hops": found.hops,
        "chance": found.chance,
        "relative": found.relative,
        "correlation": None if math.isnan(found.correlation) else found.correlation,
    }
    if exact:
        return {"one": one, "other": other, **numbers, "pairs": found.pairs}
    shown = {key: "–" if value is None else f"{value:.3f}" for key, value in numbers.items()}
    return {"tree": one, "against": other, **shown, "pairs": f"{found.pairs:,}"}


def pair_row(which: str, backbone: str, one: str, other: str, near: int, far: int) -> dict[str, Any]:
    """A pair of classes that two trees see differently; the smaller number of hops comes first."""
    tree_first = which.startswith("near")
    hops = (near, far) if tree_first else (far, near)
    return {
        "what": which,
        "backbone": backbone,
        "class": one,
        "other": other,
        "hops in the tree": hops[0],
        "hops in the taxonomy": hops[1],
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
