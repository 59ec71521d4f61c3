"""Longshot: few-shot image-classification benchmarks of a chosen difficulty, any model measured on them."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version as _version
from typing import Any

__version__ = _version("longshot")

# public name → module, imported on first use: `import longshot` loads neither torch nor pandas.
_PUBLIC: dict[str, str] = {
    "UserError": "longshot.core.errors",
    "Dataset": "longshot.datasets.dataset",
    "open_dataset": "longshot.datasets",
    "Features": "longshot.features.features",
    "embed": "longshot.features.extract",
    "Testbed": "longshot.testbeds.testbed",
    "sample": "longshot.testbeds.sample",
    "FixedShape": "longshot.testbeds.shapes",
    "AnyShape": "longshot.testbeds.shapes",
    "UniformClasses": "longshot.testbeds.classes",
    "SiblingClasses": "longshot.testbeds.classes",
    "UniformInstances": "longshot.testbeds.instances",
    "MetaDatasetShape": "longshot.testbeds.meta_dataset",
    "HierarchicalClasses": "longshot.testbeds.meta_dataset",
    "BilevelClasses": "longshot.testbeds.meta_dataset",
    "ShapeLike": "longshot.testbeds.like",
    "SemanticClasses": "longshot.testbeds.semantic",
    "CoarsityClasses": "longshot.testbeds.semantic",
    "DifficultInstances": "longshot.testbeds.difficult",
    "EasyInstances": "longshot.testbeds.difficult",
    "GreedyInstances": "longshot.testbeds.difficult",
    "ShiftedInstances": "longshot.testbeds.shifted",
    "MatchedInstances": "longshot.testbeds.shifted",
    "ImageLimits": "longshot.testbeds.pools",
    "Taxonomy": "longshot.taxonomy.dag",
    "Split": "longshot.splits.split",
    "open_split": "longshot.splits",
    "make_split": "longshot.splits.build",
    "train": "longshot.training.loop",
    "TrainedNetwork": "longshot.training.folders",
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
