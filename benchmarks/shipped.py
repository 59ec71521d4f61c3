"""Goals of references and shipped models, on photos: ``python -m benchmarks.shipped NAME=KNOWN:UNKNOWN …``.

KNOWN and UNKNOWN are folders of class folders that share no class. Lines of Markdown tables are printed.

- Chosen references against random ones, seen by a network that did not choose, at 1, 3 and 5 shots.
- ``--models``: accuracy and expected calibration error of models on random references: of each draw, what a perfectly
  calibrated model would be measured at on as many photos, and of all draws joined. How sure a model is is set on other
  classes than it is measured on; no photo is a reference or a near copy of one.
- ``--open-sets``: false accepts where another half of all classes is left out in each draw.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

import longshot
from longshot.audit import find_copies
from longshot.deploy.heads import class_parts, fit_certainty, make_head, open_threshold, shippable
from longshot.statistics import calibration, mean_interval

RATE = 0.05


def choices(name: str, folder: str, choosers: list[str], judge: str) -> None:
    """Print what chosen references are worth."""
    for shot in (1, 3, 5):
        chosen = longshot.choose(folder, shot=shot, backbones=choosers, judge=judge)
        for row in chosen.certified:
            print(
                f"| {name} | {shot} | {row.backbone}{' †' if row.chose else ''} | {row.chosen.text()} | "
                f"{row.random.text()} | "
                f"{row.gain.text('points')} | {100 * row.best:.1f} | {100 * row.worse:.1f} |",
                flush=True,
            )


def models(name: str, folder: str, judge: str, method: str, draws: int) -> None:
    """Print accuracy and calibration of models on random references."""
    data = longshot.open_dataset(folder)
    array = np.asarray(longshot.embed(data, judge).array, np.float32)
    _, copies = find_copies(data)
    group = np.arange(len(data)) if copies is None else copies.group
    for shot in (1, 5):
        rows, pooled = [], []
        for draw in range(draws):
            generator = np.random.default_rng(draw)
            members = [np.flatnonzero(data.labels == number) for number in range(len(data.class_ids))]
            picked = np.concatenate([generator.choice(each, shot, replace=False) for each in members])
            head = make_head(shippable(method), array[picked], data.labels[picked], len(members))
            queries = np.flatnonzero(~np.isin(group, group[picked]) & (group == np.arange(len(group))))
            label = data.labels[queries].astype(np.int64)
            with torch.no_grad():
                vectors = torch.from_numpy(array[queries])
                scores = head.scores(vectors).numpy()
            sure = np.empty(len(label))
            for setting in class_parts(label, draw):
                certainty = fit_certainty(scores[setting], label[setting])
                values = torch.from_numpy(scores[~setting].astype(float))
                sure[~setting] = certainty.probabilities(values).amax(1).numpy()
            right = scores.argmax(1) == label
            sure = np.minimum(sure, 1)
            fair = (
                generator.random(len(sure)) < sure
            )  # what a perfectly calibrated model would be measured at
            rows.append((right.mean(), calibration(sure, right).ece, calibration(sure, fair).ece))
            pooled.append((sure, right))
        columns = [mean_interval(column).text() for column in np.array(rows).T]
        joint = calibration(*(np.concatenate(values) for values in zip(*pooled, strict=True))).ece
        print(
            f"| {name} | {shot} | {len(queries):,} | {' | '.join(columns)} | {100 * joint:.1f} |", flush=True
        )


def open_sets(name: str, folder: str, unknown: str, judge: str, draws: int) -> None:
    """Print false accepts where another half of all classes is left out in each draw."""
    first, second = longshot.embed(folder, judge), longshot.embed(unknown, judge)
    array = np.concatenate([np.asarray(each.array, np.float32) for each in (first, second)])
    sizes = np.concatenate([np.diff(each.offsets) for each in (first, second)])
    label, ridge = np.repeat(np.arange(len(sizes)), sizes), shippable("ridge")
    for shot in (1, 5):
        rows = []
        for draw in range(draws):
            generator = np.random.default_rng(draw)
            inside = np.zeros(len(sizes), bool)
            inside[generator.permutation(len(sizes))[: len(sizes) // 2]] = True
            number = np.cumsum(inside) - 1
            picked = np.concatenate(
                [
                    generator.choice(np.flatnonzero(label == each), shot, replace=False)
                    for each in np.flatnonzero(inside)
                ]
            )
            head = make_head(ridge, array[picked], number[label[picked]], int(inside.sum()))
            queries = np.setdiff1d(np.flatnonzero(inside[label]), picked)
            near = head.similarities(torch.from_numpy(array[queries])).numpy()
            far = head.similarities(torch.from_numpy(array[~inside[label]])).amax(1).numpy()
            threshold = open_threshold(near, number[label[queries]], RATE)
            share = [
                (far[label[~inside[label]] == each] >= threshold).mean() for each in np.flatnonzero(~inside)
            ]
            rows.append((np.mean(share), (near.max(1) >= threshold).mean()))
        columns = [mean_interval(column).text() for column in np.array(rows).T]
        print(f"| {name} | {shot} | {int(inside.sum())} | {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", metavar="NAME=KNOWN:UNKNOWN")
    parser.add_argument("--chooser", action="append", default=[])
    parser.add_argument("--judge", default="efficientnet-lite0")
    parser.add_argument("--method", default="simpleshot")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--models", action="store_true", help="only calibration")
    parser.add_argument(
        "--open-sets", action="store_true", help="only false accepts, over random halves of the classes"
    )
    arguments = parser.parse_args()
    for text in arguments.sets:
        name, _, folders = text.partition("=")
        folder, _, unknown = folders.partition(":")
        if arguments.open_sets:
            open_sets(name, folder, unknown, arguments.judge, arguments.draws)
            continue
        if arguments.models:
            models(name, folder, arguments.judge, arguments.method, arguments.draws)
            continue
        choices(name, folder, arguments.chooser or ["efficientnet-lite1"], arguments.judge)
