"""Longshot: few-shot image-classification benchmarks of a chosen difficulty, any model measured on them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from longshot.base.showing import show_with as _show_with
from longshot.base.telemetry import switch_off as _switch_off

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
    from longshot.diagnosis.explain import explain as explain
    from longshot.diagnosis.table import measure_attributes as measure_attributes
    from longshot.base.errors import UserError as UserError
    from longshot.data import get_dataset as get_dataset
    from longshot.data import list_datasets as list_datasets
    from longshot.data import open_dataset as open_dataset
    from longshot.data.dataset import Dataset as Dataset
    from longshot.audit import find_overlap as find_overlap
    from longshot.audit import find_suspects as find_suspects
    from longshot.evaluation.compare import compare as compare
    from longshot.evaluation.results import Results as Results
    from longshot.evaluation.runner import evaluate as evaluate
    from longshot.evaluation.scoring import score as score
    from longshot.models.backbones import list_backbones as list_backbones
    from longshot.models.features.extract import embed as embed
    from longshot.models.features.features import Features as Features
    from longshot.models.methods.registry import list_methods as list_methods
    from longshot.publish.releases.verify import verify as verify
    from longshot.publish.releases.write import release as release
    from longshot.tasks.splits import open_split as open_split
    from longshot.tasks.splits.comparing import compare_splits as compare_splits
    from longshot.tasks.splits.make import make_split as make_split
    from longshot.tasks.splits.split import Split as Split
    from longshot.studies.engine.run import run_study as run_study
    from longshot.publish.suites.bench import bench as bench
    from longshot.data.taxonomy.dag import Taxonomy as Taxonomy
    from longshot.tasks.classes import SiblingClasses as SiblingClasses
    from longshot.tasks.classes import UniformClasses as UniformClasses
    from longshot.tasks.difficult import DifficultInstances as DifficultInstances
    from longshot.tasks.difficult import EasyInstances as EasyInstances
    from longshot.tasks.difficult import GreedyInstances as GreedyInstances
    from longshot.tasks.instances import UniformInstances as UniformInstances
    from longshot.tasks.like import ShapeLike as ShapeLike
    from longshot.tasks.meta_dataset import BilevelClasses as BilevelClasses
    from longshot.tasks.meta_dataset import HierarchicalClasses as HierarchicalClasses
    from longshot.tasks.meta_dataset import MetaDatasetShape as MetaDatasetShape
    from longshot.tasks.pools import ImageLimits as ImageLimits
    from longshot.tasks.sample import sample as sample
    from longshot.tasks.semantic import CoarsityClasses as CoarsityClasses
    from longshot.tasks.semantic import SemanticClasses as SemanticClasses
    from longshot.tasks.shapes import AnyShape as AnyShape
    from longshot.tasks.shapes import FixedShape as FixedShape
    from longshot.tasks.shifted import MatchedInstances as MatchedInstances
    from longshot.tasks.shifted import ShiftedInstances as ShiftedInstances
    from longshot.tasks.testbed import Testbed as Testbed
    from longshot.training.folders import TrainedNetwork as TrainedNetwork
    from longshot.training.loop import train as train
    from longshot.training.tune import tune as tune
    from longshot.arena.server.serving import serve_competition as serve_competition
    from longshot.explorer.serving import serve as serve

    __version__: str


def _view(noun: Any, task: int | None) -> Any:
    """``testbed.show()`` and ``results.show()``: nouns do not know the web, so it is handed to them."""
    from longshot.explorer.serving import show

    return show(noun, task)


_show_with(_view)
_switch_off()

# name → module, imported on first use: `import longshot` loads neither torch nor pandas.
_VERBS: dict[str, str] = {
    "open_dataset": "longshot.data",
    "list_datasets": "longshot.data",
    "get_dataset": "longshot.data",
    "find_overlap": "longshot.api.overlap",
    "find_suspects": "longshot.audit",
    "list_backbones": "longshot.models.backbones",
    "embed": "longshot.models.features.extract",
    "open_taxonomy": "longshot.api.taxonomies",
    "measure_distances": "longshot.api.taxonomies",
    "open_split": "longshot.tasks.splits",
    "make_split": "longshot.tasks.splits.make",
    "compare_splits": "longshot.tasks.splits.comparing",
    "sample": "longshot.api.testbeds",
    "inspect": "longshot.api.inspection",
    "measure_attributes": "longshot.diagnosis.table",
    "explain": "longshot.diagnosis.explain",
    "list_methods": "longshot.models.methods.registry",
    "check_method": "longshot.api.methods",
    "evaluate": "longshot.evaluation.runner",
    "compare": "longshot.evaluation.compare",
    "report": "longshot.api.reports",
    "train": "longshot.api.training",
    "tune": "longshot.api.training",
    "run_study": "longshot.studies.engine.run",
    "bench": "longshot.publish.suites.bench",
    "release": "longshot.publish.releases.write",
    "verify": "longshot.publish.releases.verify",
    "score": "longshot.evaluation.scoring",
    "serve": "longshot.explorer.serving",
    "serve_competition": "longshot.arena.server.serving",
    "estimate": "longshot.api.estimates",
    "doctor": "longshot.api.doctor",
}
_NOUNS: dict[str, str] = {
    "UserError": "longshot.base.errors",
    "Dataset": "longshot.data.dataset",
    "Features": "longshot.models.features.features",
    "Testbed": "longshot.tasks.testbed",
    "Results": "longshot.evaluation.results",
    "Taxonomy": "longshot.data.taxonomy.dag",
    "Split": "longshot.tasks.splits.split",
    "TrainedNetwork": "longshot.training.folders",
    "FixedShape": "longshot.tasks.shapes",
    "AnyShape": "longshot.tasks.shapes",
    "MetaDatasetShape": "longshot.tasks.meta_dataset",
    "ShapeLike": "longshot.tasks.like",
    "UniformClasses": "longshot.tasks.classes",
    "SiblingClasses": "longshot.tasks.classes",
    "SemanticClasses": "longshot.tasks.semantic",
    "CoarsityClasses": "longshot.tasks.semantic",
    "HierarchicalClasses": "longshot.tasks.meta_dataset",
    "BilevelClasses": "longshot.tasks.meta_dataset",
    "UniformInstances": "longshot.tasks.instances",
    "DifficultInstances": "longshot.tasks.difficult",
    "EasyInstances": "longshot.tasks.difficult",
    "GreedyInstances": "longshot.tasks.difficult",
    "ShiftedInstances": "longshot.tasks.shifted",
    "MatchedInstances": "longshot.tasks.shifted",
    "ImageLimits": "longshot.tasks.pools",
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
