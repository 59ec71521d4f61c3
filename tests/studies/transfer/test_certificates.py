"""What another network would reach on a split: coverage of the prediction, and the study that makes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from longshot.studies.transfer.transfer_scores import SplitPlace, TransferScores, certify
from longshot.tasks import Split


def world(networks: int, rng: np.random.Generator, tasks: int = 200) -> tuple[TransferScores, list[float]]:
    """Three splits; networks of each scatter by 2 points; also the accuracy of one more network over all tasks."""
    places, accuracy, another = [], {}, []
    for number, level in enumerate((0.4, 0.5, 0.6)):
        places.append(SplitPlace(f"split {number}", None, 0.0, 0.0))
        hard = rng.normal(0, 0.1, tasks)
        shifts = rng.normal(0, 0.02, networks + 1)
        own = level + shifts[:-1, None] + hard + rng.normal(0, 0.02, (networks, tasks))
        accuracy[f"split {number}", "protonet", 5] = own
        another.append(level + float(shifts[-1]))
    return TransferScores(places, ("protonet",), (5,), accuracy), another


def test_the_prediction_holds_another_network_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    inside, mean_inside, total = 0, 0, 0
    for _ in range(400):
        scores, another = world(3, rng)
        for certificate, truth in zip(certify(scores, "protonet", 5), another, strict=True):
            assert certificate.half is not None
            own = scores.accuracy[certificate.split, "protonet", 5]
            of_the_mean = stats.t.ppf(0.975, own.size - 1) * own.std(ddof=1) / np.sqrt(own.size)
            inside += abs(certificate.mean - truth) <= certificate.half
            mean_inside += abs(certificate.mean - truth) <= of_the_mean
            total += 1
    assert 0.93 <= inside / total <= 0.98
    assert mean_inside / total < 0.6  # the error of the mean would promise too much


def test_networks_without_tasks_noise_give_the_textbook_interval() -> None:
    rng = np.random.default_rng(1)
    means = rng.normal(0.5, 0.03, 6)
    accuracy = {("a", "protonet", 5): np.repeat(means[:, None], 10, 1)}
    scores = TransferScores([SplitPlace("a", None, 0, 0)], ("protonet",), (5,), accuracy)
    (certificate,) = certify(scores, "protonet", 5)
    reach = stats.t.ppf(0.975, 5) * means.std(ddof=1) * np.sqrt(1 + 1 / 6)
    assert (certificate.mean, certificate.half) == pytest.approx((means.mean(), reach))


def test_one_network_each_certifies_nothing() -> None:
    scores, _ = world(1, np.random.default_rng(0))
    assert [each.half for each in certify(scores, "protonet", 5)] == [None] * 3


def test_the_study_writes_the_certificate_into_the_split(run_cli: Any, photos: Path, tmp_path: Path) -> None:
    """Through the command: a sentence, a table, and a split.json that 'splits show' reads out."""
    files = [tmp_path / "mine.json", tmp_path / "other.json"]
    for seed, file in enumerate(files):
        run_cli("split", photos, "--random", "--ratios", "0.5,0.25,0.25", "--seed", str(seed), "-o", file)
    changes = ("way=2", "shots=1", "query=2", "tasks=6", "steps=2", "train_shot=1", "size=16", "repeats=2")
    options = [part for change in changes for part in ("--set", change)]
    also = ("--set", f"also=[{files[0]}, {files[1]}]", "--set", "network=cnn4(width=8)")
    out = tmp_path / "study"
    done = json.loads(
        run_cli("study", "run", "certify-split", photos, *options, *also, "-o", out, "--json").stdout
    )
    (line,) = [line for line in done["findings"] if "2 seeds" in line]
    assert "mine.json" in line and "other.json" in line and "cnn4(width=8) at 16 pixels" in line
    table = {row["split"]: row for row in done["tables"]["certificates"]}
    assert len(table) == 2 and all(row["half"] > 0 for row in table.values())
    files = sorted((out / "splits").iterdir())
    assert all("2 seeds" in Split.load(file).made["certified"]["protonet"] for file in files)
    assert "certified" in run_cli("splits", "show", files[0]).stdout
