"""Draws the pictures of docs/concepts from real runs on toybox: python tools/concept_pictures.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import longshot

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "concepts"
BLUE, ORANGE, GREEN, GREY = "#2b6cb0", "#c05621", "#2f855a", "#4a5568"


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(FOLDER / f"{name}.png", dpi=130, bbox_inches="tight", facecolor="white")
    print(FOLDER / f"{name}.png")


def draw_task() -> None:
    """A task of three classes, two shots and three queries."""
    dataset = longshot.open_dataset("toybox")
    task = longshot.sample(
        dataset, tasks=1, way=3, shot=2, query=3, split="test", classes="siblings", seed=4
    )[0]
    rows = {key: number for number, key in enumerate(dataset.keys.to_pylist())}
    columns = 6  # two support images, a gap, three queries
    figure, axes = plt.subplots(3, columns, figsize=(6.6, 3.7), width_ratios=[1, 1, 0.35, 1, 1, 1])
    for axis in axes.flat:
        axis.axis("off")
    for label, class_id in enumerate(task.classes):
        support = [key for key, own in zip(task.support, task.support_label, strict=True) if own == label]
        queries = [key for key, own in zip(task.query, task.query_label, strict=True) if own == label]
        for column, key in [*enumerate(support), *enumerate(queries, 3)]:
            axes[label, column].imshow(np.asarray(dataset.image(rows[key])))
        axes[label, 0].text(-0.08, 0.5, class_id.rpartition("/")[2], ha="right", va="center", fontsize=9,
                            transform=axes[label, 0].transAxes)  # fmt: skip
    axes[0, 0].set_title("support: labelled", loc="left", fontsize=10, color=BLUE)
    axes[0, 3].set_title("queries: to be answered", loc="left", fontsize=10, color=ORANGE)
    save(figure, "tasks")


def draw_coarsity() -> None:
    """How coarse the tasks of three samplers are."""
    figure, axis = plt.subplots(figsize=(6.6, 2.9))
    kinds = {"uniform": GREY, "semantic": BLUE, "siblings": ORANGE}
    for kind, colour in kinds.items():
        bed = longshot.sample("toybox", tasks=400, split="test", classes=kind)
        values = np.asarray(bed.table["coarsity"])
        label = f"classes {kind}: mean {values.mean():.1f}"
        axis.hist(values, bins=np.arange(0, 70, 2), alpha=0.65, color=colour, label=label)
    axis.set_xlabel("coarsity of a task: mean squared distance between its classes")
    axis.set_ylabel("tasks")
    axis.legend(frameon=False, fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    save(figure, "coarsity")


def draw_difficulty() -> None:
    """The dial from uniform to hardest supports, for a judge and for a network that took no part."""
    shares = [0.0, 0.25, 0.5, 0.75, 1.0]
    networks = {"judge: efficientnet-lite0": "efficientnet-lite0", "held out: pixels": "pixels"}
    means: dict[str, list[float]] = {name: [] for name in networks}
    halves: dict[str, list[float]] = {name: [] for name in networks}
    for share in shares:
        bed = longshot.sample("toybox", tasks=60, split="test", instances="difficult", judge="efficientnet-lite0",
                              difficulty=share)  # fmt: skip
        for name, backbone in networks.items():
            (row,) = longshot.evaluate(bed, backbones=backbone, methods="protonet").summary()
            means[name].append(100 * row["accuracy"])
            halves[name].append(100 * row["ci95"])
    figure, axis = plt.subplots(figsize=(6.6, 2.9))
    for (name, values), colour in zip(means.items(), (ORANGE, BLUE), strict=True):
        axis.errorbar(shares, values, yerr=halves[name], color=colour, marker="o", capsize=3, label=name)
    axis.axhline(20, color=GREY, linewidth=1, linestyle=":")
    axis.text(1.0, 21, "guessing", ha="right", fontsize=8, color=GREY)
    axis.set_xlabel("difficulty: share of the support that is exchanged")
    axis.set_ylabel("accuracy, %")
    axis.set_ylim(0, 100)
    axis.legend(frameon=False, fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    save(figure, "difficulty")


def draw_identity() -> None:
    """What names what: from bytes of images to the numbers of a report."""
    steps = [
        ("images", "SHA-256 of\neach file"),
        ("features", "+ weights, engine,\npreprocessing"),
        ("testbed", "+ sampler, seed,\ndigests in use"),
        ("results", "+ method, versions,\nsettings"),
        ("report", "every number\nleads to its tasks"),
    ]
    figure, axis = plt.subplots(figsize=(8.4, 1.7))
    axis.set_xlim(0, 10 * len(steps))
    axis.set_ylim(0, 10)
    axis.axis("off")
    for number, (name, text) in enumerate(steps):
        edge = 10 * number + 0.4
        axis.add_patch(plt.Rectangle((edge, 1), 8, 8, facecolor="#ebf4ff", edgecolor=BLUE, linewidth=1.2))
        axis.text(edge + 4, 7, name, ha="center", va="center", fontsize=10, weight="bold", color=BLUE)
        axis.text(edge + 4, 3.6, text, ha="center", va="center", fontsize=6.8, color=GREY)
        if number + 1 < len(steps):
            axis.annotate("", (edge + 10, 5), (edge + 8, 5), arrowprops={"arrowstyle": "->", "color": GREY})
    save(figure, "identity")


def draw_statistics() -> None:
    """Two intervals that overlap, and the difference on the same tasks, which is not in doubt."""
    bed = longshot.sample("toybox", tasks=600, way=5, shot=5, query=10)
    methods = ["protonet", "protonet(distance='cosine')"]
    results = longshot.evaluate(bed, backbones="pixels", methods=methods)
    rows = results.to_pandas()
    series = [
        rows[rows["method"] == name].sort_values("task")["accuracy"].to_numpy() * 100
        for name in rows["method"].unique()
    ]
    from longshot.statistics import mean_interval

    intervals = [mean_interval(values) for values in (*series, series[1] - series[0])]
    figure, (each, difference) = plt.subplots(1, 2, figsize=(6.8, 2.1), width_ratios=[1.4, 1])
    for axis, chosen, labels, colours in (
        (each, intervals[:2], ["A: euclidean", "B: cosine"], (GREY, GREY)),
        (difference, intervals[2:], ["B − A"], (GREEN,)),
    ):
        for height, (interval, colour) in enumerate(zip(chosen, colours, strict=True)):
            axis.plot(
                [interval.low, interval.high],
                [height, height],
                color=colour,
                linewidth=3,
                solid_capstyle="butt",
            )
            axis.plot(interval.mean, height, "o", color=colour)
        axis.set_yticks(range(len(labels)), labels)
        axis.set_ylim(-0.7, len(labels) - 0.3)
        axis.spines[["top", "right"]].set_visible(False)
    each.set_title("accuracy of each, %", fontsize=10, loc="left")
    difference.set_title("difference on the same tasks, points", fontsize=10, loc="left")
    difference.axvline(0, color=GREY, linewidth=1, linestyle=":")
    figure.tight_layout()
    save(figure, "statistics")
    print([(interval.mean, interval.low, interval.high) for interval in intervals])


if __name__ == "__main__":
    for draw in (draw_task, draw_coarsity, draw_identity, draw_statistics, draw_difficulty):
        draw()
