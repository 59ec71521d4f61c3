"""Scoring: compare the answers with the labels; writes scores.json and detailed_results.html.

python3 scoring.py INPUT OUTPUT        INPUT holds ref/ and res/
"""

from __future__ import annotations

import html
import json
import sys
from pathlib import Path
from typing import Any

import estimate_text
import handover
import numpy as np
from inside.blind_tasks import METRICS, Truth, score_answers, student, summarize, telling_half


def main() -> None:
    source, output = Path(sys.argv[1]), Path(sys.argv[2])
    reference = json.loads((source / "ref" / "truth.json").read_text(encoding="utf-8"))
    try:
        answered = handover.accept(source / "res", reference["key"])
    except handover.Refused as error:
        sys.exit(f"the answers are not scored: {error}")
    truths = [
        Truth(task["dataset"], task["ways"], task["shots"], np.asarray(task["query_label"], np.int64))
        for task in reference["tasks"]
    ]
    answers = answered["answers"]
    if len(answers) != len(truths):
        sys.exit(f"{len(answers)} answers came for {len(truths)} tasks")
    factors = {int(count): float(value) for count, value in reference["t95"].items()}
    summary = summarize(score_answers(truths, answers), student(factors))
    overall = summary["overall"]
    flat = {metric: overall[metric] for metric in METRICS}
    flat |= {f"{metric}_ci95": overall[f"{metric}_ci95"] or 0.0 for metric in METRICS}
    flat |= {
        "duration": summary["seconds"] + float(answered["meta_training_seconds"]),
        **{
            f"dataset_{i}": group["normalized_accuracy"]
            for i, group in enumerate(summary["by_dataset"].values())
        },
    }
    (output / "scores.json").write_text(json.dumps(flat), encoding="utf-8")
    (output / "detailed_results.html").write_text(_page(summary), encoding="utf-8")


def _page(summary: dict[str, Any]) -> str:
    """Write tables by dataset, ways and shots; everything that comes from data is escaped."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width, initial-scale=1'>",
        "<title>Detailed results</title><style>body{font:15px sans-serif;margin:1em auto;max-width:60em;",
        "padding:0 1em}div{overflow-x:auto}table{border-collapse:collapse}td,th{padding:.3em .8em;text-align:right;",
        "white-space:nowrap;border-bottom:1px solid #ccc}td:first-child{text-align:left;white-space:normal;",
        "overflow-wrap:anywhere;min-width:6em}</style><h1>Detailed results</h1>",
        "<p>Means over tasks with their 95 % intervals. Normalised accuracy is 0 for guessing and 1 for no mistake. "
        "So few tasks that their interval is wider than that have none here.</p>",
    ]
    groups = {"All tasks": {"all": summary["overall"]}, "By dataset": summary["by_dataset"]}
    groups |= {"By number of classes": summary["by_ways"], "By number of shots": summary["by_shots"]}
    for title, rows in groups.items():
        parts.append(f"<h2>{html.escape(title)}</h2><div><table><tr><th></th><th>tasks</th>")
        names = [metric.replace("normalized", "normalised").replace("_", " ") for metric in METRICS]
        parts += [f"<th>{html.escape(name)}</th>" for name in names]
        parts.append("</tr>")
        for name, values in rows.items():
            parts.append(f"<tr><td>{html.escape(str(name))}</td><td>{values['tasks']}</td>")
            for metric in METRICS:
                shown = estimate_text.plus_minus(values[metric], telling_half(values, metric), "plain", 4)
                parts.append(f"<td>{shown}</td>")
            parts.append("</tr>")
        parts.append("</table></div>")
    return "".join(parts)


if __name__ == "__main__":
    main()
