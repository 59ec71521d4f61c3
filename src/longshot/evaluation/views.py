"""Results to look at: the summary as rows of text, as an HTML table, and as a figure."""

from __future__ import annotations

import html
import io
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from longshot.base import PICTURE, claim_output, delivered, picture_stamp
from longshot.statistics import differs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from longshot.evaluation.results import Results


def summary_rows(results: Results) -> list[dict[str, Any]]:
    """The summary as table rows: every mean with half the width of its 95 % interval, where it has one."""
    records = results.summary()
    seeds = {record["seed"] for record in records}
    many_ways = any(record["top5"] < 1 for record in records)
    adapted = any(facts.get("kind", "frozen") != "frozen" for facts in results.run["methods"].values())
    wider = [differs(record["ci95"], record["ci95_over_classes"]) for record in records]
    rows = []
    for record, notable in zip(records, wider, strict=True):
        row = {
            "testbed": record["testbed"],
            "backbone": record["backbone"],
            "method": record["method"],
            "setting": record["setting"],
            "tasks": record["tasks"],
            "accuracy %": with_half(record, "accuracy"),
            "balanced %": with_half(record, "balanced_accuracy"),
            "normalized %": with_half(record, "normalized_accuracy"),
        }
        if any(wider):
            row["over classes"] = f"± {100 * record['ci95_over_classes']:.2f}" if notable else ""
        if many_ways:
            row["top-5 %"] = with_half(record, "top5")
        row["loss"] = with_half(record, "loss", scale=1, digits=3)
        if adapted:
            seconds = record["seconds"]
            row["s/task"] = "" if seconds is None else f"{seconds / record['tasks']:.2g}"
        if len(seeds) > 1:
            row["seed"] = record["seed"]
        rows.append(row)
    return rows


def with_half(record: Mapping[str, Any], name: str, *, scale: float = 100, digits: int = 2) -> str:
    """A mean of a record of ``Results.summary`` with half the width of its 95 % interval; one task has none.

    >>> with_half({"accuracy": 0.9125, "accuracy_ci95": [0.9, 0.925]}, "accuracy")
    '91.25 ± 1.25'
    >>> with_half({"loss": 0.5, "loss_ci95": None}, "loss", scale=1, digits=3)
    '0.500'
    """
    mean, interval = f"{scale * record[name]:.{digits}f}", record[f"{name}_ci95"]
    return mean if interval is None else f"{mean} ± {scale * (interval[1] - interval[0]) / 2:.{digits}f}"


def html_table(rows: Sequence[Mapping[str, Any]], caption: str = "") -> str:
    """Rows with the same keys as an HTML table; every text is escaped.

    >>> html_table([{"method": "a<b", "tasks": 3}])
    '<table><thead><tr><th>method</th><th>tasks</th></tr></thead><tbody><tr><td>a&lt;b</td><td>3</td></tr></tbody></table>'
    """

    def line(tag: str, texts: Sequence[Any]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(text))}</{tag}>" for text in texts) + "</tr>"

    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    head = f"<thead>{line('th', list(rows[0]))}</thead>" if rows else ""
    body = "".join(line("td", list(row.values())) for row in rows)
    return f"<table>{title}{head}<tbody>{body}</tbody></table>"


def plot_summary(
    records: Sequence[Mapping[str, Any]], path: str | os.PathLike[str] | None = None, *, force: bool = False
) -> Figure:
    """Mean accuracy in % with its interval for every record of ``Results.summary``, a panel per testbed."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """A figure that notebooks show without pyplot."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    testbeds: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        testbeds.setdefault(record["testbed_hash"], []).append(record)
    seeds = {record["seed"] for record in records}
    heights = [len(series) for series in testbeds.values()]
    figure = NotebookFigure(
        figsize=(7, 0.8 * max(len(heights), 1) + 0.35 * sum(heights)), layout="constrained"
    )
    panels = figure.subplots(
        max(len(heights), 1), 1, sharex=True, squeeze=False, height_ratios=heights or None
    )[:, 0]
    for panel, series in zip(panels, testbeds.values(), strict=False):
        means = [100 * record["accuracy"] for record in series]
        halves = [100 * (record["ci95"] or 0.0) for record in series]
        panel.errorbar(means, range(len(series)), xerr=halves, fmt="o", capsize=3)
        panel.set_yticks(range(len(series)), [_label(record, len(seeds) > 1) for record in series])
        panel.set_ylim(len(series) - 0.5, -0.5)
        panel.set_title(series[0]["testbed"], loc="left")
        panel.grid(axis="x", alpha=0.4)
    panels[-1].set_xlabel("accuracy (%), mean over tasks with its 95 % interval")
    if path is not None:
        kind = claim_output(path, PICTURE, force=force).lstrip(".")
        with delivered(path) as temporary:
            figure.savefig(temporary, format=kind, metadata=picture_stamp(kind))
    return figure


def _label(record: Mapping[str, Any], with_seed: bool) -> str:
    return f"{record['method']} on {record['backbone']}" + (f", seed {record['seed']}" if with_seed else "")
