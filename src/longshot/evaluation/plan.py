"""What was asked for, opened and checked, and the units of work that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from longshot.base import Floats, Ints, TaskRows, UserError, note, pick_device, usable_cores, used_rows
from longshot.evaluation.compute import ImageSource, Work
from longshot.evaluation.dispatch import validation_split
from longshot.evaluation.run_inputs import (
    TestbedLike,
    check_features,
    features_for,
    find_datasets,
    joint_identity,
    open_backbones,
    open_methods,
    open_testbeds,
)
from longshot.evaluation.run_record import add_entry, add_network, add_testbed
from longshot.evaluation.units import FeatureSource, Unit, chunks
from longshot.models import (
    Backbone,
    ImageMethod,
    Method,
    adaptable,
    backbone_parts,
    get_method,
    leaves_open,
    variant_of,
)
from longshot.tasks import Testbed

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.models import BackboneLike, Features, MethodLike, ModuleBackbone, Precomputed

Testbeds: TypeAlias = TestbedLike | Sequence[TestbedLike] | Mapping[str, TestbedLike]
Backbones: TypeAlias = "BackboneLike | Sequence[BackboneLike] | Mapping[str, BackboneLike]"
Methods: TypeAlias = "MethodLike | Sequence[MethodLike] | Mapping[str, MethodLike]"
_UNIT_OF_IMAGES = 4  # tasks per unit of a method that adapts a network: each may cost seconds or minutes


class EvaluationPlan:
    """Testbeds × backbones × methods. Making one checks every name and file and computes nothing.

    Features are opened, and embedded when the cache lacks them, by ``cell`` and ``works``, and only for methods that
    work on features.
    """

    def __init__(
        self,
        testbeds: Testbeds,
        backbones: Backbones,
        methods: Methods = (),
        datasets: Mapping[str, Dataset | str | Path] | None = None,
        device: str = "auto",
        workers: int | None = None,
        seed: int = 0,
        variant: str | None = None,
    ) -> None:
        self.methods = open_methods(methods, variant)
        self.device = pick_device(device)
        self.seed = seed
        if workers is not None and workers < 1:
            raise UserError(f"{workers} workers were asked for and at least 1 is needed", "raise {workers}")
        self.workers = workers or usable_cores()
        self.opened = open_backbones(backbones, device)
        testbeds_by_name = open_testbeds(testbeds)
        for name, bed in testbeds_by_name.items():
            _check_queries(name, bed)
        self.datasets: dict[str, Dataset] = {}
        if any(name not in self.given for name in self.backbones):
            testbeds_by_name, self.datasets = find_datasets(testbeds_by_name, datasets or {})
        self.testbeds = {bed.content_hash: bed for bed in testbeds_by_name.values()}
        self.names = {bed.content_hash: name for name, bed in reversed(testbeds_by_name.items())}
        for name in self.given:
            for testbed in self.testbeds.values():
                for dataset, fingerprint in testbed.datasets.items():
                    chosen = features_for(self.given, name, dataset, fingerprint)
                    check_features(testbed, dataset, chosen.features[0])
        for source in self.opened.objects.values():
            if not isinstance(source, Backbone):
                for opened_dataset in self.datasets.values():
                    source.rows(opened_dataset)  # an array with other rows than the dataset is refused here
        self._device = device
        self._networks: dict[str, ModuleBackbone] = {}
        for label in self.backbones if self.on_images else ():
            self.adaptable(label)
        for method in self.on_images:
            if leaves_open(method):
                for opened_dataset in self.datasets.values():
                    validation_split(opened_dataset, method)
        self._sources: dict[tuple[str, str], FeatureSource] = {}
        self._images: dict[tuple[str, str], ImageSource] = {}
        self._bound: dict[tuple[str, str], TaskRows] = {}

    @property
    def on_images(self) -> list[ImageMethod]:
        """List the methods that need images and a network."""
        return [method for method in self.methods if isinstance(method, ImageMethod)]

    @property
    def backbones(self) -> list[str]:
        """List the labels of the backbones."""
        return list(self.opened.identities)

    @property
    def given(self) -> dict[str, dict[str, Features]]:
        """Return the backbones that are given as features, by label and fingerprint."""
        return self.opened.features

    def adaptable(self, backbone: str) -> ModuleBackbone:
        """Return the backbone's network for the methods that adapt one; UserError when there is none."""
        method = self.on_images[0].call
        if backbone in self.given:
            raise UserError(
                f"The method {method} needs the images and the network, but only features of '{backbone}' were "
                "given",
                "give the network itself as {backbones}",
            )
        identity, opened = self.opened.identities[backbone], self.opened
        if identity not in self._networks:
            name, source = opened.names.get(backbone, backbone), opened.objects.get(backbone)
            self._networks[identity] = adaptable(name, method, self._device, source)
        return self._networks[identity]

    def settle(self) -> None:
        """Let networks that were never converted find their engine on images of the tasks: it is part of what they are.

        Nothing is to do for methods that adapt networks, which PyTorch does.
        """
        if len(self.on_images) == len(self.methods):
            return
        testbed = next(iter(self.testbeds.values()))
        name, fingerprint = next(iter(testbed.datasets.items()))
        for label, sources in self.opened.sources.items():
            dataset = self.datasets[fingerprint]
            rows = self._bind(testbed, name, dataset).support.values.tolist()
            for source in sources:
                source.settle(dataset, rows)
            self.opened.identities[label] = joint_identity(sources)

    def register(self, run: dict[str, Any]) -> None:
        """Enter testbeds, networks and methods into run.json; UserError where a name already means something else."""
        for label, identity in list(self.opened.identities.items()):
            recorded = add_network(run, label, identity)
            if recorded != label:
                note(
                    f"'{label}' is the network that this run calls '{recorded}': its results stand under that"
                )
                self.opened.rename(label, recorded)
        for content_hash, testbed in self.testbeds.items():
            self.names[content_hash] = add_testbed(run, self.names[content_hash], testbed)
        for number, method in enumerate(self.methods):
            entries = run["methods"].items()
            called = next(
                (key for key, entry in entries if entry.get("identity") == method.identity), method.call
            )
            if called != method.call:
                note(
                    f"'{method.call}' is the method that this run calls '{called}': its results stand under that"
                )
                self.methods[number] = method = get_method(method, called)
            names = ("name", "setting", "kind", "settings", "version", "identity")
            facts: dict[str, Any] = {name: getattr(method, name) for name in names}
            variant = variant_of(method)
            if variant is not None:
                facts["variant"] = variant
            add_entry(run["methods"], method.call, facts, f"the method {method.call}")

    def works(self, run: dict[str, Any]) -> list[Work]:
        """List every unit, and enter cells and features into run.json."""
        entered = {(c["testbed"], c["backbone"], c["method"], c["seed"]) for c in run["cells"]}
        works: list[Work] = []
        for testbed in self.testbeds.values():
            for backbone in self.backbones:
                for method in self.methods:
                    cell = self.cell(testbed, backbone, method)
                    works += cell
                    key = (testbed.content_hash, backbone, method.call, self.seed)
                    if key not in entered:
                        facts = dict(zip(("testbed", "backbone", "method", "seed"), key, strict=True))
                        run["cells"].append({**facts, "units": [work.unit.id for work in cell]})
        sources: list[tuple[tuple[str, str], FeatureSource | ImageSource]]
        sources = [*self._sources.items(), *self._images.items()]
        for (backbone, fingerprint), source in sources:
            recorded, story = run["backbones"].setdefault(backbone, {}), source.story()
            described = f"the backbone '{backbone}' on '{story['dataset']}'"
            if fingerprint in recorded:  # the same images under another name are still the same
                story["dataset"] = recorded[fingerprint]["dataset"]
                _keep_names(story["networks"], recorded[fingerprint]["networks"])
            add_entry(recorded, fingerprint, story, described)
        return works

    def cell(self, testbed: Testbed, backbone: str, method: Method | ImageMethod) -> list[Work]:
        """List the units of one testbed × backbone × method."""
        works = []
        coarsity = _coarsity(testbed)
        for dataset, fingerprint in testbed.datasets.items():
            source: FeatureSource | ImageSource
            if isinstance(method, ImageMethod):
                size = max(_UNIT_OF_IMAGES, method.at_once)
                source = self._image_source(backbone, fingerprint)
                bound = self._bind(testbed, dataset, source.dataset)
                computed_from = source.hash
            else:
                size = None
                source = self._source(backbone, dataset, fingerprint)
                bound = self._bind(testbed, dataset, source.features[0])
                computed_from = source.hash_of(bound)
            for start, stop in chunks(len(bound), size):
                unit = Unit(
                    testbed=testbed.content_hash,
                    testbed_name=self.names[testbed.content_hash],
                    dataset=dataset,
                    backbone=backbone,
                    features=computed_from,
                    method=method.call,
                    identity=method.identity,
                    setting=method.setting,
                    seed=self.seed,
                    start=start,
                    stop=stop,
                )
                works.append(Work(unit, method, source, bound, coarsity))
        return works

    def _source(self, backbone: str, dataset: str, fingerprint: str) -> FeatureSource:
        """Return the features of a dataset by a backbone: as given, from the cache, or computed now."""
        if (backbone, fingerprint) not in self._sources:
            if backbone in self.given:
                source = features_for(self.given, backbone, dataset, fingerprint)
            else:
                from longshot.models import embed_rows

                opened, device, rows = self.datasets[fingerprint], str(self.device), self.rows(fingerprint)
                parts = [embed_rows(opened, part, rows, device=device) for part in self.parts(backbone)]
                source = FeatureSource(backbone, tuple(parts))
            self._sources[backbone, fingerprint] = source
        return self._sources[backbone, fingerprint]

    def rows(self, fingerprint: str) -> Ints:
        """Return the images of a dataset that the tasks of all testbeds use: only these are embedded."""
        data = self.datasets[fingerprint]
        return used_rows(
            self._bind(testbed, name, data)
            for testbed in self.testbeds.values()
            for name, wanted_print in testbed.datasets.items()
            if wanted_print == fingerprint
        )

    def parts(self, backbone: str) -> Sequence[str | Backbone | Precomputed]:
        """Return what ``embed`` takes for a backbone: the object, or the names that stand side by side."""
        objects = self.opened.objects
        return [objects[backbone]] if backbone in objects else backbone_parts(self.opened.names[backbone])

    def milliseconds_per_image(self, backbone: str) -> float | None:
        """Return milliseconds from an image to its vector on this machine; None for features at hand."""
        from longshot.models import load_backbone, probe_speed

        if backbone in self.given:
            return None
        fingerprint, dataset = next(iter(self.datasets.items()))
        total = 0.0
        for part in self.parts(backbone):
            network = load_backbone(part, device=str(self.device)) if isinstance(part, str) else part
            if not isinstance(network, Backbone):
                return None
            rate, _ = probe_speed(dataset, network, self.rows(fingerprint))
            total += 1000 / rate
        return total

    def _image_source(self, backbone: str, fingerprint: str) -> ImageSource:
        if (backbone, fingerprint) not in self._images:
            dataset, rows = self.datasets[fingerprint], self.rows(fingerprint)
            used = None if len(rows) == len(dataset) else rows
            self._images[backbone, fingerprint] = ImageSource(self.adaptable(backbone), dataset, used)
        return self._images[backbone, fingerprint]

    def _bind(self, testbed: Testbed, dataset: str, rows: Features | Dataset) -> TaskRows:
        """Bind tasks to row numbers; a dataset and all features of its fingerprint order rows alike."""
        key = (testbed.content_hash, dataset)
        if key not in self._bound:
            self._bound[key] = testbed.bind(dataset, rows.keys, rows.fingerprint)
        return self._bound[key]


def _check_queries(name: str, testbed: Testbed) -> None:
    """Raise UserError where tasks of a testbed have no queries, as in a published list of support images."""
    without = int((testbed.column("query").lengths == 0).sum())
    if without:
        raise UserError(
            f"The testbed '{name}' has {without:,} of {len(testbed):,} tasks without queries, and there is nothing to "
            "answer",
            "draw queries when its list is read ({query:10})",
        )


def _keep_names(networks: list[dict[str, Any]], recorded: list[dict[str, Any]]) -> None:
    """Call networks as they were called before: the same one under another path is still the same."""
    names = {facts.get("identity"): facts["backbone"] for facts in recorded}
    for facts in networks:
        facts["backbone"] = names.get(facts["identity"], facts["backbone"])


def _coarsity(testbed: Testbed) -> Floats | None:
    if "coarsity" not in testbed.table.column_names:
        return None
    return np.asarray(testbed.table["coarsity"].cast("float64").to_numpy(), np.float64)
