"""Longshot: few-shot image-classification benchmarks of a chosen difficulty, any model measured on them."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version as _version
from typing import Any

__version__ = _version("longshot")

# public name → module, imported on first use: `import longshot` loads neither torch nor pandas.
_PUBLIC: dict[str, str] = {
    "UserError": "longshot.errors",
    "Dataset": "longshot.datasets.dataset",
    "open_dataset": "longshot.datasets",
    "Features": "longshot.features.features",
    "embed": "longshot.features.extract",
    "Testbed": "longshot.testbeds.testbed",
    "sample": "longshot.testbeds.sample",
    "Fixed": "longshot.testbeds.shapes",
    "AnyWayAnyShot": "longshot.testbeds.shapes",
    "Uniform": "longshot.testbeds.classes",
    "Siblings": "longshot.testbeds.classes",
    "UniformInstances": "longshot.testbeds.instances",
    "MetaDatasetShape": "longshot.testbeds.meta_dataset",
    "Hierarchical": "longshot.testbeds.meta_dataset",
    "Bilevel": "longshot.testbeds.meta_dataset",
    "Like": "longshot.testbeds.like",
    "Semantic": "longshot.testbeds.semantic",
    "CoarsityBand": "longshot.testbeds.semantic",
    "Difficult": "longshot.testbeds.difficult",
    "Easy": "longshot.testbeds.difficult",
    "Greedy": "longshot.testbeds.difficult",
    "Shifted": "longshot.testbeds.shifted",
    "Matched": "longshot.testbeds.shifted",
    "Limits": "longshot.testbeds.pools",
    "Taxonomy": "longshot.taxonomy.dag",
    "Split": "longshot.splits.split",
    "open_split": "longshot.splits",
    "make_split": "longshot.splits.build",
    "train": "longshot.training.loop",
    "Trained": "longshot.training.folders",
    "evaluate": "longshot.evaluation.runner",
    "Results": "longshot.evaluation.results",
    "report": "longshot.reports.report",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'longshot' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
