"""Scoring: compare the answers with the labels; writes scores.json and detailed_results.html.

python3 scoring.py INPUT OUTPUT        INPUT holds ref/ and res/
"""

from __future__ import annotations

import html
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from inside import scoring


def main() -> None:
    source, output = Path(sys.argv[1]), Path(sys.argv[2])
    reference = json.loads((source / "ref" / "truth.json").read_text(encoding="utf-8"))
    answered = json.loads((source / "res" / "answers.json").read_text(encoding="utf-8"))
    truths = [
        scoring.Truth(task["dataset"], task["ways"], task["shots"], np.asarray(task["query_label"], np.int64))
        for task in reference["tasks"]
    ]
    answers = answered["answers"]
    if len(answers) != len(truths):
        sys.exit(f"{len(answers)} answers came for {len(truths)} tasks")
    factors = {int(count): float(value) for count, value in reference["t95"].items()}
    summary = scoring.summarize(scoring.score_answers(truths, answers), scoring.student(factors))
    overall = summary["overall"]
    flat = {metric: overall[metric] for metric in scoring.METRICS}
    flat |= {f"{metric}_ci95": overall[f"{metric}_ci95"] or 0.0 for metric in scoring.METRICS}
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
    """Tables by dataset, ways and shots; everything that comes from data is escaped."""
    parts = ["<!doctype html><meta charset=utf-8><title>Detailed results</title>"]
    parts.append(
        "<style>body{font:15px sans-serif;margin:2em}td,th{padding:.2em 1em;text-align:left}</style>"
    )
    groups = {"overall": {"all tasks": summary["overall"]}}
    groups |= {key: summary[f"by_{key}"] for key in ("dataset", "ways", "shots")}
    for title, rows in groups.items():
        parts.append(f"<h2>{html.escape(title)}</h2><table><tr><th></th><th>tasks</th>")
        parts += [f"<th>{html.escape(metric.replace('_', ' '))}</th>" for metric in scoring.METRICS]
        parts.append("</tr>")
        for name, values in rows.items():
            parts.append(f"<tr><td>{html.escape(str(name))}</td><td>{values['tasks']}</td>")
            for metric in scoring.METRICS:
                half = scoring.telling_half(values, metric)
                parts.append(f"<td>{values[metric]:.4f}{'' if half is None else f' ± {half:.4f}'}</td>")
            parts.append("</tr>")
        parts.append("</table>")
    return "".join(parts)


if __name__ == "__main__":
    main()
