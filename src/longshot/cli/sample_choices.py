"""From the options of ``longshot sample`` to the three choices of the sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longshot.cli.sample_options import CURATED, FEATURE_INSTANCES
from longshot.core.errors import UserError

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features
    from longshot.testbeds.base import Classes, Instances, Shape
    from longshot.testbeds.pools import ImageLimits
    from longshot.testbeds.testbed import Testbed

Options = dict[str, Any]


def _given(options: Options, **names: str) -> Options:
    """Parameter → value for the options that were given."""
    return {parameter: options[name] for parameter, name in names.items() if options[name] is not None}


def make_shape(options: Options) -> Shape:
    """The shape that ``--shape`` and the numbers describe."""
    from longshot.testbeds.shapes import AnyShape, FixedShape

    kind = options["shape"]
    if kind == "fixed":
        return FixedShape(**_given(options, way="way", shot="shot", query="query"))
    if kind == "any":
        return AnyShape(**_given(options, max_way="way", max_shot="shot", query="query"))
    if kind == "meta-dataset":
        from longshot.testbeds.meta_dataset import MetaDatasetShape

        return MetaDatasetShape(**_given(options, max_way="way", max_query="query"))
    if kind.startswith("like:") and kind != "like:":
        from longshot.testbeds.like import ShapeLike
        from longshot.testbeds.testbed import Testbed

        return ShapeLike(Testbed.load(kind.removeprefix("like:")))
    raise UserError(f"There is no shape '{kind}'; choose fixed, any, meta-dataset or like:FILE.")


def make_classes(options: Options) -> Classes:
    """The class sampler."""
    from longshot.testbeds.classes import SiblingClasses, UniformClasses
    from longshot.testbeds.meta_dataset import BilevelClasses, HierarchicalClasses
    from longshot.testbeds.semantic import CoarsityClasses, SemanticClasses

    meaning = _given(options, distance="distance", reduction="reduction")
    if options["coarsity"]:
        return CoarsityClasses(*_band(options["coarsity"]), **meaning)
    kind = options["classes"]
    if kind == "semantic":
        return SemanticClasses(
            **_given(options, alpha="alpha", beta="beta"), **meaning, distinct=not options["allow_repeats"]
        )
    if kind == "hierarchical":
        return HierarchicalClasses()
    if kind in ("siblings", "bilevel"):
        return (SiblingClasses if kind == "siblings" else BilevelClasses)(level=options["level"])
    return UniformClasses()


def _band(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    try:
        if not colon:
            raise ValueError
        return float(low or 0.0), float(high or "inf")
    except ValueError:
        raise UserError(
            f"The coarsity band '{text}' is not two numbers; write it as LO:HI, such as 10:30 or 10: without an end."
        ) from None


def make_limits(options: Options) -> ImageLimits:
    """Rules for all images; those of curated tasks are the sampler's own."""
    from longshot.testbeds.pools import ImageLimits

    if options["instances"] in CURATED:
        return ImageLimits(disjoint=options["disjoint_pools"])
    return ImageLimits(options["query_where"], options["support_where"], options["disjoint_pools"])


def make_instances(options: Options, features: Features | None, device: str) -> Instances:
    """The image sampler; ``filtered`` draws uniformly and chooses afterwards."""
    from longshot.testbeds.instances import UniformInstances

    kind = options["instances"]
    if kind in CURATED:
        from longshot.testbeds.shifted import MatchedInstances, ShiftedInstances

        names = ("query_where", "support_where", "rule", "same")
        return (ShiftedInstances if kind == "shifted" else MatchedInstances)(
            **{name: options[name] for name in names}
        )
    if kind in ("uniform", "filtered"):
        return UniformInstances()
    from longshot.testbeds.difficult import DifficultInstances, EasyInstances, GreedyInstances

    if features is None:
        raise ValueError(f"'{kind}' needs features")

    given = _given(options, objective="objective", temperature="temperature", distance="distance_metric")
    given |= {"normalize": not options["raw_features"], "device": device}
    if kind == "greedy":
        return GreedyInstances(features, **given, **_given(options, rounds="rounds"))
    given |= _given(
        options,
        refine="refine",
        greedy="greedy",
        start="start",
        steps="steps",
        step_size="step_size",
        projection="projection",
    )
    return (DifficultInstances if kind == "difficult" else EasyInstances)(features, **given)


def needed_features(options: Options, dataset: Dataset, device: str) -> Features | None:
    """The features that the instances look at, None where they look at none."""
    if options["instances"] not in FEATURE_INSTANCES:
        return None
    backbone, file = options["backbone"], options["features"]
    if (backbone is None) == (file is None):
        raise UserError(
            f"--instances {options['instances']} looks at features: give one of --backbone NAME (see "
            "'longshot backbones') and --features FILE.npy."
        )
    if file is not None:
        from longshot.features.features import Features

        found = Features.load(file)
        if found.fingerprint != dataset.fingerprint:
            raise UserError(
                f"The features in {file} are those of dataset '{found.dataset}' ({len(found.keys):,} images), but "
                f"tasks are drawn from '{dataset.name}' ({len(dataset):,} images): embed that with 'longshot embed'."
            )
        return found
    from longshot.features.extract import embed

    return embed(dataset, backbone, device=device)


def judge_tasks(
    testbed: Testbed, dataset: Dataset, features: Features, options: Options, device: str
) -> Testbed:
    """Keep the hardest (or easiest) tasks by the accuracy of a method on the features."""
    import numpy as np
    import torch

    from longshot.core.devices import pick_device
    from longshot.methods.batching import Gatherer, batches
    from longshot.methods.registry import feature_method
    from longshot.testbeds.filtered import filtered

    method = feature_method(options["judge"] or "protonet")
    tasks = testbed.bind(dataset.name, features.keys, features.fingerprint)
    gatherer = Gatherer([features.array], pick_device(device))
    scores = np.empty(len(tasks))
    with torch.no_grad():
        for chosen, batch, targets in batches(tasks, method, gatherer):
            right = (method.scores(batch).argmax(2) == targets) & batch.query_mask
            scores[chosen] = (right.sum(1) / batch.query_mask.sum(1)).cpu().numpy()
    return filtered(
        testbed,
        scores,
        options["tasks"],
        hardest=options["keep"] != "easiest",
        judge=f"{method.call} on {features.backbone}",
        features=features.hash,
    )
