"""What the user asked for, turned into opened testbeds and features, and checked before anything is computed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.core.errors import UserError
from longshot.core.files import hash_text
from longshot.testbeds.testbed import Testbed

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features

TestbedLike = Testbed | str | Path


@dataclass(frozen=True, eq=False)
class FeatureSource:
    """One dataset seen through one backbone, or through several side by side."""

    backbone: str  # name in the results
    features: tuple[Features, ...]

    @property
    def hash(self) -> str:
        """Hash of the features, over all backbones."""
        if len(self.features) == 1:
            return self.features[0].hash
        return hash_text(*(features.hash for features in self.features))

    @property
    def dim(self) -> int:
        """Numbers per image, over all backbones."""
        return sum(features.dim for features in self.features)

    def story(self) -> dict[str, Any]:
        """What run.json says about these features."""
        return {
            "dataset": self.features[0].dataset,
            "hash": self.hash,
            "dim": self.dim,
            "networks": [
                {
                    "backbone": features.backbone,
                    "weights_hash": features.weights_hash,
                    "preprocessing": features.preprocessing,
                    "dtype": str(features.array.dtype),
                    "features_hash": features.hash,
                }
                for features in self.features
            ],
        }


def open_testbeds(
    testbeds: TestbedLike | Sequence[TestbedLike] | Mapping[str, TestbedLike],
) -> dict[str, Testbed]:
    """Name → testbed. A file is called by its name without ending, a Testbed object by its hash."""
    if isinstance(testbeds, Mapping):
        named = {str(name): _open(testbed) for name, testbed in testbeds.items()}
    else:
        listed = [testbeds] if isinstance(testbeds, Testbed | str | Path) else list(testbeds)
        named = {}
        for source in listed:
            testbed = _open(source)
            name = testbed.content_hash[:8] if isinstance(source, Testbed) else Path(source).stem
            other = named.setdefault(name, testbed)
            if other.content_hash != testbed.content_hash:
                raise UserError(
                    f"Two different testbeds are both called '{name}' and results are told apart by name",
                    "rename one of the files",
                )
    if not named:
        raise UserError("No testbed was given and at least 1 is needed", "draw one with {sample()}")
    empty = [name for name, testbed in named.items() if not len(testbed)]
    if empty:
        raise UserError(f"The testbed '{empty[0]}' holds 0 tasks and at least 1 is needed", "draw it again")
    return named


def open_distinct_testbeds(
    testbeds: TestbedLike | Sequence[TestbedLike] | Mapping[str, TestbedLike],
) -> dict[str, Testbed]:
    """The testbeds by name; two of the same name are one too many, even where they hold the same tasks."""
    listed = [testbeds] if isinstance(testbeds, Testbed | str | Path) else list(testbeds)
    beds = open_testbeds(testbeds)
    if len(beds) < len(listed):
        raise UserError(f"{len(listed)} testbeds have only {len(beds)} different names", "rename the files")
    return beds


def _open(testbed: TestbedLike) -> Testbed:
    return testbed if isinstance(testbed, Testbed) else Testbed.load(testbed)


def backbone_parts(name: str) -> list[str]:
    """``"pixels + efficientnet-lite0"`` → its backbones; the plus stands between blanks."""
    return [part.strip() for part in re.split(r"\s\+\s", name)]


def backbone_name(name: str) -> str:
    """The canonical name of one or several backbones side by side."""
    return " + ".join(backbone_parts(name))


def check_backbones(backbones: Sequence[str | Features], device: str) -> None:
    """UserError for an unknown backbone or a missing library, before anything is opened."""
    from longshot.features.backbones import load_backbone

    if not backbones:
        raise UserError("No backbone was given and at least 1 is needed", "pass {backbones:pixels}")
    for backbone in backbones:
        if isinstance(backbone, str):
            for part in backbone_parts(backbone):
                load_backbone(part, device)


def find_datasets(
    testbeds: Mapping[str, Testbed], datasets: Mapping[str, Dataset | str | Path]
) -> dict[str, Dataset]:
    """Fingerprint → dataset for all that the testbeds use; ``datasets`` (name → dataset or path) come first."""
    from longshot.datasets import open_dataset, registry
    from longshot.datasets.dataset import Dataset

    used = {name for testbed in testbeds.values() for name in testbed.datasets}
    unknown = sorted(set(datasets) - used)
    if unknown:
        raise UserError(
            f"The dataset '{unknown[0]}' was given, but no testbed uses it; they use: {', '.join(sorted(used))}."
        )
    opened = {
        name: dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
        for name, dataset in datasets.items()
    }
    by_fingerprint: dict[str, Dataset] = {}
    for testbed in testbeds.values():
        for name, fingerprint in testbed.datasets.items():
            if name in opened:
                # Binding says what differs when this is not the dataset the testbed was drawn from.
                testbed.bind(name, opened[name].keys, opened[name].fingerprint)
                by_fingerprint[fingerprint] = opened[name]
            elif fingerprint not in by_fingerprint:
                by_fingerprint[fingerprint] = registry.find(fingerprint, name)
    return by_fingerprint


def group_features(backbones: Sequence[str | Features]) -> dict[str, dict[str, Features]]:
    """Features objects by backbone name, then by fingerprint of their dataset."""
    grouped: dict[str, dict[str, Features]] = {}
    for backbone in backbones:
        if isinstance(backbone, str):
            continue
        first = grouped.setdefault(backbone.backbone, {}).setdefault(backbone.fingerprint, backbone)
        if first.hash != backbone.hash:
            raise UserError(
                f"Two features of the dataset '{backbone.dataset}' are both named after the backbone "
                f"'{backbone.backbone}' but differ",
                "evaluate them into two run folders",
            )
    names = {backbone_name(b) for b in backbones if isinstance(b, str)} & set(grouped)
    if names:
        raise UserError(f"The backbone '{min(names)}' is given by name and as features", "give it once")
    return grouped


def features_for(
    grouped: Mapping[str, Mapping[str, Features]], backbone: str, name: str, fingerprint: str
) -> FeatureSource:
    """The given features of one dataset; UserError when they are of another dataset or another shape."""
    by_fingerprint = grouped[backbone]
    if fingerprint not in by_fingerprint:
        other = next(iter(by_fingerprint.values()))
        raise UserError(
            f"The features '{backbone}' were made from the dataset '{other.dataset}' "
            f"({other.fingerprint[:12]}…), but the testbed is drawn from '{name}' ({fingerprint[:12]}…)",
            "embed that dataset with the same backbone",
        )
    features = by_fingerprint[fingerprint]
    shape = tuple(features.array.shape)
    if len(shape) != 2 or shape[0] != len(features.keys):
        raise UserError(
            f"The features '{backbone}' of '{name}' have the shape {shape}, but {len(features.keys):,} rows of "
            "numbers are needed, one per image",
            "embed again",
        )
    return FeatureSource(backbone, (features,))
