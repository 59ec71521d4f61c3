"""Numbers that Arnold and Sha printed, in per cent, points per unit of divergence, and correlations."""

from __future__ import annotations

from typing import Any

from longshot.reports.sheets import Sheet, SheetCell
from longshot.studies.engine.tables import heads
from longshot.studies.transfer.settings import METHODS
from longshot.studies.transfer.stats import ADAPTING

SHORT = "Arnold and Sha, 2021"
PAPER_METHODS = ("maml", "anil", "protonet", "multiclass")

# Table 1: 5-way 5-shot accuracy at D = 0.96; MAML was not trained on tiered-ImageNet.
HARDEST: dict[str, dict[str, float | None]] = {
    "CIFAR100": {"anil": 49.27, "protonet": 50.46, "multiclass": 53.02, "maml": 55.73, "finetune": 70.98},
    "mini-ImageNet": {
        "anil": 54.42,
        "protonet": 60.36,
        "multiclass": 61.86,
        "maml": 62.25,
        "finetune": 70.47,
    },
    "tiered-ImageNet": {
        "anil": 73.24,
        "protonet": 78.64,
        "multiclass": 81.90,
        "maml": None,
        "finetune": 83.57,
    },
    "LFW10": {"anil": 77.86, "protonet": 85.48, "multiclass": 82.26, "maml": 86.36, "finetune": 83.35},
    "EMNIST": {"anil": 86.54, "protonet": 89.81, "multiclass": 90.96, "maml": 91.92, "finetune": 93.51},
}

# Table 2: Pearson's r of divergence and task accuracy, ImageNet-1k upstream, DenseNet121.
CORRELATIONS: dict[str, dict[str, float]] = {
    "Birds": {"euclidean": -0.50, "wasserstein": -0.57, "kl": -0.63, "kl-symmetric": -0.73},
    "Planes": {"euclidean": -0.08, "wasserstein": -0.24, "kl": -0.41, "kl-symmetric": -0.43},
    "Fungi": {"euclidean": -0.17, "wasserstein": -0.23, "kl": -0.51, "kl-symmetric": -0.49},
    "Flowers": {"euclidean": -0.33, "wasserstein": -0.30, "kl": -0.29, "kl-symmetric": -0.43},
}

# Table 4, CIFAR100 with CNN4: split → shots → accuracies in the order of PAPER_METHODS.
CIFAR100: dict[str, dict[int, tuple[float, ...]]] = {
    "CIFAR-FS": {1: (56.96, 54.47, 54.97, 54.82), 5: (72.99, 69.44, 72.00, 68.83)},
    "FC100": {1: (36.99, 35.54, 36.25, 36.59), 5: (51.48, 50.12, 51.16, 51.22)},
    "random": {1: (56.66, 51.43, 51.25, 52.39), 5: (73.16, 69.81, 71.12, 69.24)},
    "R = 0.04": {1: (48.35, 46.03, 46.68, 46.92), 5: (65.19, 59.43, 63.66, 63.97)},
    "R = 0.96": {1: (35.86, 33.55, 35.59, 35.44), 5: (55.73, 49.27, 50.46, 53.02)},
}

# Table 5: slope of test accuracy against divergence, R from 0.04 to 0.96.
SLOPES: dict[str, dict[str, float]] = {
    "CIFAR100": {"maml": -11.53, "anil": -12.44, "protonet": -14.88, "multiclass": -12.41},
    "mini-ImageNet": {"maml": -6.68, "anil": -7.32, "protonet": -7.18, "multiclass": -7.41},
    "LFW10": {"maml": -3.10, "anil": -3.61, "protonet": -4.45, "multiclass": -4.91},
    "EMNIST": {"maml": -2.55, "anil": -5.70, "protonet": -4.71, "multiclass": -3.23},
}


def hardest_sheet() -> Sheet:
    """Table 1."""
    rows = []
    for method in METHODS:
        row = [SheetCell(method)]
        for values in HARDEST.values():
            value = values[method]
            best = value == max(number for number in values.values() if number is not None)
            row.append(SheetCell("–" if value is None else f"{value:.2f}", "best" if best else ""))
        rows.append(row)
    note = "Published numbers, 5-way 5-shot at D = 0.96; not measured here."
    return Sheet(f"Published: {SHORT}, table 1", heads("method", *HARDEST), [rows], note, labels=1)


def hardest_records() -> list[dict[str, Any]]:
    """Table 1 as CSV rows."""
    records = []
    for dataset, values in HARDEST.items():
        for method in METHODS:
            value = values[method]
            if value is not None:
                facts = {"source": "published", "dataset": dataset, "split": "R = 0.96", "way": 5, "shot": 5}
                kind = {"method": method, "embedding": "adapts" if method in ADAPTING else "fixed"}
                blank = {"low": None, "high": None, "tasks": None, "mark": ""}
                records.append({**facts, **kind, "mean": round(value / 100, 6), **blank})
    return records


def correlations_sheet(labels: dict[str, str]) -> Sheet:
    """Table 2; ``labels`` are the measures in order with their names."""
    rows = []
    for measure, label in labels.items():
        row = [SheetCell(label)]
        for numbers in CORRELATIONS.values():
            best = numbers[measure] == min(numbers.values())
            row.append(SheetCell(f"{numbers[measure]:+.2f}", "best" if best else ""))
        rows.append(row)
    note = "Published numbers: ImageNet-1k upstream, DenseNet121, 100 tasks each; not measured here."
    return Sheet(f"Published: {SHORT}, table 2", heads("divergence", *CORRELATIONS), [rows], note, labels=1)


def correlations_records() -> list[dict[str, Any]]:
    """Table 2 as CSV rows."""
    facts = {"source": "published", "method": "", "model": "gaussian"}
    blank = {"low": None, "high": None, "p": None, "tasks": 100}
    return [
        {**facts, "dataset": name, "measure": measure, "r": r, **blank}
        for name, numbers in CORRELATIONS.items()
        for measure, r in numbers.items()
    ]


def accuracies_sheet() -> Sheet:
    """Table 4 for CIFAR100."""
    rows = [
        [SheetCell(name), *(SheetCell(f"{value:.2f}") for shot in (1, 5) for value in by_shot[shot])]
        for name, by_shot in CIFAR100.items()
    ]
    names = [*heads("split"), *((f"{shot}-shot", method) for shot in (1, 5) for method in PAPER_METHODS)]
    note = "Published numbers of CIFAR100 with CNN4, 600 tasks; not measured here."
    return Sheet(f"Published: {SHORT}, table 4", names, [rows], note, labels=1)


def accuracies_records() -> list[dict[str, Any]]:
    """Table 4 for CIFAR100 as CSV rows."""
    blank = {"low": None, "high": None, "tasks": None, "trainings": None}
    return [
        {
            "source": "published",
            "split": name,
            "way": 5,
            "shot": shot,
            "method": method,
            "mean": round(value / 100, 6),
            **blank,
        }
        for name, by_shot in CIFAR100.items()
        for shot, values in by_shot.items()
        for method, value in zip(PAPER_METHODS, values, strict=True)
    ]


def slopes_sheet() -> Sheet:
    """Table 5."""
    rows = []
    for method in PAPER_METHODS:
        row = [SheetCell(method)]
        for values in SLOPES.values():
            best = values[method] == max(values.values())
            row.append(SheetCell(f"{values[method]:+.2f}", "best" if best else ""))
        rows.append(row)
    note = "Published numbers; the shots are not printed with them. Not measured here."
    return Sheet(f"Published: {SHORT}, table 5", heads("method", *SLOPES), [rows], note, labels=1)


def slope_records() -> list[dict[str, Any]]:
    """Table 5 as CSV rows; shares per unit."""
    facts = {"source": "published", "shot": None, "x": "R", "minus": ""}
    blank = {"low": None, "high": None, "p": None, "tasks_low": None, "tasks_high": None, "points": None}
    return [
        {**facts, "dataset": dataset, "method": method, "slope": round(value / 100, 6), **blank}
        for dataset, values in SLOPES.items()
        for method, value in values.items()
    ]
