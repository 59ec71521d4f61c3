"""Longshot: few-shot image-classification benchmarks of a chosen difficulty, any model measured on them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from longshot.core.showing import show_with as _show_with
from longshot.core.telemetry import switch_off as _switch_off

if TYPE_CHECKING:  # what type checkers and editors see; the same names as in the tables below
    from longshot import competition as competition
    from longshot import datasets as datasets
    from longshot import features as features
    from longshot import training as training
    from longshot.api.doctor import doctor as doctor
    from longshot.api.estimates import estimate as estimate
    from longshot.api.inspection import inspect as inspect
    from longshot.api.methods import check_method as check_method
    from longshot.api.reports import report as report
    from longshot.api.taxonomies import measure_distances as measure_distances
    from longshot.api.taxonomies import open_taxonomy as open_taxonomy
    from longshot.causes.explain import explain as explain
    from longshot.causes.table import measure_attributes as measure_attributes
    from longshot.core.errors import UserError as UserError
    from longshot.datasets import get_dataset as get_dataset
    from longshot.datasets import list_datasets as list_datasets
    from longshot.datasets import open_dataset as open_dataset
    from longshot.datasets.dataset import Dataset as Dataset
    from longshot.datasets.overlap import find_overlap as find_overlap
    from longshot.datasets.overlap import find_suspects as find_suspects
    from longshot.evaluation.compare import compare as compare
    from longshot.evaluation.results import Results as Results
    from longshot.evaluation.runner import evaluate as evaluate
    from longshot.evaluation.scoring import score as score
    from longshot.features.backbones import list_backbones as list_backbones
    from longshot.features.extract import embed as embed
    from longshot.features.features import Features as Features
    from longshot.methods.registry import list_methods as list_methods
    from longshot.releases.verify import verify as verify
    from longshot.releases.write import release as release
    from longshot.splits import open_split as open_split
    from longshot.splits.comparing import compare_splits as compare_splits
    from longshot.splits.make import make_split as make_split
    from longshot.splits.split import Split as Split
    from longshot.studies.engine.run import run_study as run_study
    from longshot.suites.bench import bench as bench
    from longshot.taxonomy.dag import Taxonomy as Taxonomy
    from longshot.testbeds.classes import SiblingClasses as SiblingClasses
    from longshot.testbeds.classes import UniformClasses as UniformClasses
    from longshot.testbeds.difficult import DifficultInstances as DifficultInstances
    from longshot.testbeds.difficult import EasyInstances as EasyInstances
    from longshot.testbeds.difficult import GreedyInstances as GreedyInstances
    from longshot.testbeds.instances import UniformInstances as UniformInstances
    from longshot.testbeds.like import ShapeLike as ShapeLike
    from longshot.testbeds.meta_dataset import BilevelClasses as BilevelClasses
    from longshot.testbeds.meta_dataset import HierarchicalClasses as HierarchicalClasses
    from longshot.testbeds.meta_dataset import MetaDatasetShape as MetaDatasetShape
    from longshot.testbeds.pools import ImageLimits as ImageLimits
    from longshot.testbeds.sample import sample as sample
    from longshot.testbeds.semantic import CoarsityClasses as CoarsityClasses
    from longshot.testbeds.semantic import SemanticClasses as SemanticClasses
    from longshot.testbeds.shapes import AnyShape as AnyShape
    from longshot.testbeds.shapes import FixedShape as FixedShape
    from longshot.testbeds.shifted import MatchedInstances as MatchedInstances
    from longshot.testbeds.shifted import ShiftedInstances as ShiftedInstances
    from longshot.testbeds.testbed import Testbed as Testbed
    from longshot.training.folders import TrainedNetwork as TrainedNetwork
    from longshot.training.loop import train as train
    from longshot.training.tune import tune as tune
    from longshot.web.competition.serving import serve_competition as serve_competition
    from longshot.web.serving import serve as serve

    __version__: str


def _view(noun: Any, task: int | None) -> Any:
    """``testbed.show()`` and ``results.show()``: nouns do not know the web, so it is handed to them."""
    from longshot.web.serving import show

    return show(noun, task)


_show_with(_view)
_switch_off()

# name → module, imported on first use: `import longshot` loads neither torch nor pandas.
_VERBS: dict[str, str] = {
    "open_dataset": "longshot.datasets",
    "list_datasets": "longshot.datasets",
    "get_dataset": "longshot.datasets",
    "find_overlap": "longshot.api.overlap",
    "find_suspects": "longshot.datasets.overlap",
    "list_backbones": "longshot.features.backbones",
    "embed": "longshot.features.extract",
    "open_taxonomy": "longshot.api.taxonomies",
    "measure_distances": "longshot.api.taxonomies",
    "open_split": "longshot.splits",
    "make_split": "longshot.splits.make",
    "compare_splits": "longshot.splits.comparing",
    "sample": "longshot.api.testbeds",
    "inspect": "longshot.api.inspection",
    "measure_attributes": "longshot.causes.table",
    "explain": "longshot.causes.explain",
    "list_methods": "longshot.methods.registry",
    "check_method": "longshot.api.methods",
    "evaluate": "longshot.evaluation.runner",
    "compare": "longshot.evaluation.compare",
    "report": "longshot.api.reports",
    "train": "longshot.api.training",
    "tune": "longshot.api.training",
    "run_study": "longshot.studies.engine.run",
    "bench": "longshot.suites.bench",
    "release": "longshot.releases.write",
    "verify": "longshot.releases.verify",
    "score": "longshot.evaluation.scoring",
    "serve": "longshot.web.serving",
    "serve_competition": "longshot.web.competition.serving",
    "estimate": "longshot.api.estimates",
    "doctor": "longshot.api.doctor",
}
_NOUNS: dict[str, str] = {
    "UserError": "longshot.core.errors",
    "Dataset": "longshot.datasets.dataset",
    "Features": "longshot.features.features",
    "Testbed": "longshot.testbeds.testbed",
    "Results": "longshot.evaluation.results",
    "Taxonomy": "longshot.taxonomy.dag",
    "Split": "longshot.splits.split",
    "TrainedNetwork": "longshot.training.folders",
    "FixedShape": "longshot.testbeds.shapes",
    "AnyShape": "longshot.testbeds.shapes",
    "MetaDatasetShape": "longshot.testbeds.meta_dataset",
    "ShapeLike": "longshot.testbeds.like",
    "UniformClasses": "longshot.testbeds.classes",
    "SiblingClasses": "longshot.testbeds.classes",
    "SemanticClasses": "longshot.testbeds.semantic",
    "CoarsityClasses": "longshot.testbeds.semantic",
    "HierarchicalClasses": "longshot.testbeds.meta_dataset",
    "BilevelClasses": "longshot.testbeds.meta_dataset",
    "UniformInstances": "longshot.testbeds.instances",
    "DifficultInstances": "longshot.testbeds.difficult",
    "EasyInstances": "longshot.testbeds.difficult",
    "GreedyInstances": "longshot.testbeds.difficult",
    "ShiftedInstances": "longshot.testbeds.shifted",
    "MatchedInstances": "longshot.testbeds.shifted",
    "ImageLimits": "longshot.testbeds.pools",
}
_ROOMS = (
    "competition",
    "datasets",
    "features",
    "training",
)  # with functions of their own that messages mention
__all__ = ["__version__", *_ROOMS, *_NOUNS, *_VERBS]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import (
            version,  # reads mail headers, and brings Python's whole library for them
        )

        attribute: Any = version("longshot")
    elif name in _VERBS:
        from longshot.api.face import public

        attribute = public(getattr(import_module(_VERBS[name]), name), name)
    elif name in _NOUNS:
        attribute = getattr(import_module(_NOUNS[name]), name)
    elif name in _ROOMS:
        attribute = import_module(f"longshot.{name}")
    else:
        raise AttributeError(f"module 'longshot' has no attribute '{name}'")
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    return sorted(__all__)
