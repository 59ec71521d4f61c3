"""What the user asked for, turned into opened testbeds and features, and checked before anything is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set, ValuesView
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import UserError, hash_text, note
from longshot.evaluation.units import FeatureSource
from longshot.models import ImageMethod, Method, get_method, variant_methods
from longshot.tasks import Testbed, say_changed, straddling_tasks

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.evaluation.predictions import Predictions
    from longshot.models import Backbone, Features, Precomputed


TestbedLike: TypeAlias = Testbed | str | Path


def as_list(parameter: Any) -> list[Any]:
    """Return one thing or several as a list; text, arrays and modules are one thing.

    >>> as_list("pixels"), as_list(("a", "b"))
    (['pixels'], ['a', 'b'])
    """
    several = isinstance(parameter, Sequence | Set | ValuesView | Iterator) and not isinstance(
        parameter, str | bytes
    )
    return list(parameter) if several else [parameter]


def describe_value(value: object) -> str:
    """Describe a value with its type, for messages.

    >>> describe_value(3)
    '3 (int)'
    """
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"


def open_testbeds(
    testbeds: TestbedLike | Sequence[TestbedLike] | Mapping[str, TestbedLike],
) -> dict[str, Testbed]:
    """Name → testbed. A file is called by its name without ending, a Testbed object by its hash."""
    if isinstance(testbeds, Mapping):
        named = {str(name): _open(testbed) for name, testbed in testbeds.items()}
    else:
        named = {}
        for source in as_list(testbeds):
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
    """Open the testbeds by name; UserError where two have one name, even where they hold the same tasks."""
    count = len(testbeds) if isinstance(testbeds, Mapping) else len(as_list(testbeds))
    beds = open_testbeds(testbeds)
    if len(beds) < count:
        raise UserError(f"{count} testbeds have only {len(beds)} different names", "rename the files")
    return beds


def _open(testbed: object) -> Testbed:
    if isinstance(testbed, Testbed):
        return testbed
    if not isinstance(testbed, str | Path):
        raise UserError(
            f"{{testbeds}} is or holds {describe_value(testbed)}, but it must be a Testbed, the path of a testbed "
            "file, or several of those."
        )
    return Testbed.load(testbed)


def find_testbed(path: Path, predictions: Predictions) -> Testbed:
    """Open the testbed in the file ``path``, or the one in the folder ``path`` that the predictions name."""
    if not path.is_dir():
        return Testbed.load(path)
    files = sorted((path / "testbeds").glob("*.parquet"))
    if not files:
        raise UserError(
            f"{path} holds no testbeds/*.parquet", "give a testbed file, or the folder of a release or a run"
        )
    beds = [Testbed.load(file) for file in files]
    if predictions.testbed is None:
        if len(beds) > 1:
            raise UserError(
                f"{path} holds {len(beds)} testbeds and the predictions '{predictions.name}' name none",
                f"give one of {', '.join(file.name for file in files[:5])}",
            )
        return beds[0]
    for bed in beds:
        if bed.content_hash == predictions.testbed:
            return bed
    raise UserError(
        f"The predictions '{predictions.name}' are for the testbed {predictions.testbed[:12]}…, which is none of the "
        f"{len(beds)} in {path}",
        "give the folder they were made on",
    )


def open_methods(methods: object, variant: str | None = None) -> list[Method | ImageMethod]:
    """Open methods: names, functions, classifiers, objects; one, several, or a mapping of labels to them.

    They come in the settings of a ``variant`` where one is given. UserError where two share a name, or one has two.
    """
    listed = _labelled(methods)
    if not listed and variant is None:
        raise UserError("No method was given and at least 1 is needed", "pass {methods:protonet}")
    chosen: list[Method | ImageMethod] = (
        [get_method(method, label) for label, method in listed]
        if variant is None
        else variant_methods([method for _, method in listed], variant)
    )
    by_call: dict[str, Method | ImageMethod] = {}
    by_identity: dict[str, Method | ImageMethod] = {}
    for method in chosen:
        earlier = by_call.setdefault(method.call, method)
        if earlier.identity != method.identity:
            raise UserError(
                f"Two different methods are both called '{method.call}', and results are told apart by name",
                "give one of them a label, such as {methods:mine=NAME}",
            )
        earlier = by_identity.setdefault(method.identity, method)
        if earlier.call != method.call:
            raise UserError(
                f"'{earlier.call}' and '{method.call}' are one and the same method", "give it once"
            )
    return list(by_call.values())


@dataclass(frozen=True)
class OpenedBackbones:
    """The backbones of an evaluation by the labels they have in its results, in the order asked for."""

    identities: dict[str, str] = field(default_factory=dict)  # label → hash of what computes
    labelled: set[str] = field(default_factory=set)  # labels that the caller chose
    features: dict[str, dict[str, Features]] = field(default_factory=dict)  # by fingerprint of their dataset
    objects: dict[str, Backbone | Precomputed] = field(default_factory=dict)  # arrays or modules
    names: dict[str, str] = field(default_factory=dict)  # what opens those that are given by name
    # those whose engine is open
    sources: dict[str, list[Backbone | Precomputed]] = field(default_factory=dict)

    def enter(self, label: str, identity: str, *, chosen: bool) -> str:
        """Enter a network and return its label: that of its first mention.

        UserError where the label means another network, or where one network was given two labels.
        """
        if self.identities.get(label, identity) != identity:
            raise UserError(
                f"Two different networks are both called '{label}', and results are told apart by label",
                "give one of them a label of its own, such as {backbones:mine=PATH}",
            )
        earlier = next((name for name, entered in self.identities.items() if entered == identity), label)
        if earlier != label:
            if chosen and earlier in self.labelled:
                raise UserError(f"'{earlier}' and '{label}' are one and the same network", "give it once")
            note(f"'{label}' is the same network as '{earlier}': it is one series, called '{earlier}'")
        self.identities[earlier] = identity
        if chosen and earlier == label:
            self.labelled.add(label)
        return earlier

    def rename(self, label: str, other: str) -> None:
        """Let what is called ``label`` be called ``other``; the order stays."""
        tables: list[dict[str, Any]] = [
            self.identities,
            self.features,
            self.objects,
            self.names,
            self.sources,
        ]
        for table in tables:
            entries = {other if key == label else key: value for key, value in table.items()}
            table.clear()
            table.update(entries)


def joint_identity(sources: Sequence[Backbone | Precomputed]) -> str:
    """Return the identity of a backbone, or of several side by side."""
    identities = [source.identity for source in sources]
    return identities[0] if len(identities) == 1 else hash_text("side by side", *identities)


def open_backbones(backbones: object, device: str) -> OpenedBackbones:
    """Open what serves as backbones: names, features, arrays, modules; one, several, or a mapping of labels to them.

    UserError for an unknown name, a missing library, an object of another kind, before anything is computed.
    """
    from longshot.models import (
        Features,
        backbone_name,
        backbone_parts,
        load_backbone,
        open_backbone,
        split_label,
    )

    opened = OpenedBackbones()
    for label, backbone in _labelled(backbones):
        if isinstance(backbone, str | Path):
            chosen, name = split_label(str(backbone))
            chosen, name = label or chosen, backbone_name(name)
            sources = [load_backbone(part, device) for part in backbone_parts(name)]
            entered = opened.enter(chosen or name, joint_identity(sources), chosen=chosen is not None)
            opened.names.setdefault(entered, name)
            if not all(source.settled for source in sources):
                opened.sources[entered] = sources
        elif isinstance(backbone, Features):
            name = opened.enter(
                label or backbone.backbone, backbone.backbone_identity, chosen=label is not None
            )
            first = opened.features.setdefault(name, {}).setdefault(backbone.fingerprint, backbone)
            if first.hash != backbone.hash:
                raise UserError(
                    f"Two features of the dataset '{backbone.dataset}' are both named after the backbone '{name}' "
                    "but differ",
                    "evaluate them into two run folders",
                )
        else:
            source = open_backbone(backbone, device, parameter="backbones")
            name = opened.enter(label or source.label, source.identity, chosen=label is not None)
            opened.objects.setdefault(name, source)
            if not source.settled:
                opened.sources[name] = [source]
    if not opened.identities:
        raise UserError("No backbone was given and at least 1 is needed", "pass {backbones:pixels}")
    if twice := set(opened.names) & set(opened.features):
        raise UserError(f"The backbone '{min(twice)}' is given by name and as features", "give it once")
    return opened


def _labelled(several: object) -> list[tuple[str | None, Any]]:
    """List backbones or methods, each with the label that a mapping gives it."""
    if isinstance(several, Mapping):
        return [(str(label), each) for label, each in several.items()]
    return [(None, each) for each in as_list(several)]


def find_datasets(
    testbeds: Mapping[str, Testbed], datasets: Mapping[str, Dataset | str | Path]
) -> tuple[dict[str, Testbed], dict[str, Dataset]]:
    """Bind the testbeds to datasets, those in ``datasets`` first; return them and fingerprint → dataset.

    UserError where images that a testbed uses are missing or altered.
    """
    from longshot.data import as_dataset
    from longshot.tasks import find_dataset, rebind

    used = {name for testbed in testbeds.values() for name in testbed.datasets}
    unknown = sorted(set(datasets) - used)
    if unknown:
        raise UserError(
            f"The dataset '{unknown[0]}' was given, but no testbed uses it; they use: {', '.join(sorted(used))}."
        )
    opened = {name: as_dataset(dataset) for name, dataset in datasets.items()}
    remembered: dict[str, Dataset] = {}
    bound: dict[str, Testbed] = {}
    by_fingerprint: dict[str, Dataset] = {}
    by_content: set[str] = set()
    for bed_name, testbed in testbeds.items():
        for name, fingerprint in testbed.datasets.items():
            if name not in opened and fingerprint not in remembered:
                remembered[fingerprint] = find_dataset(testbed, name)
            dataset = opened[name] if name in opened else remembered[fingerprint]
            testbed = rebind(testbed, name, dataset)
            by_fingerprint[dataset.fingerprint] = dataset
            if testbed.content[name].identity == "content":
                by_content.add(dataset.fingerprint)
        bound[bed_name] = testbed
        _note_copies(testbed)
    return bound, {  # where no testbed vouches for more than names, nor does what is computed
        fingerprint: dataset if fingerprint in by_content else dataset.with_identity("names")
        for fingerprint, dataset in by_fingerprint.items()
    }


def _note_copies(testbed: Testbed) -> None:
    """Tell how many tasks have equal images on both sides or in two classes, by the digests in the testbed."""
    if number := straddling_tasks(testbed):
        note(
            f"{number:,} of {len(testbed):,} tasks of '{testbed.name or testbed.content_hash[:12]}' have equal images "
            "on both sides or in two classes, so their accuracy says too much; {sample()} keeps copies apart"
        )


def check_features(testbed: Testbed, name: str, features: Features) -> None:
    """Raise UserError where features are of other images than a testbed's; note where that cannot be told."""
    content = testbed.content[name]
    if content.identity == "names":
        return
    if features.digests is None:
        note(
            f"the features '{features.backbone}' of '{name}' vouch for the names of images only: whether they were "
            "made from the bytes that the testbed was drawn from cannot be told"
        )
        return
    keys = testbed.keys(name)
    rows = (
        pc.index_in(keys, value_set=features.keys.cast(keys.type)).drop_null().to_numpy(zero_copy_only=False)
    )
    if len(rows) < len(keys):
        return  # binding says what is missing
    short = features.digests[rows].astype(">u8").view(np.uint8).reshape(-1, 8)
    changed = keys.filter(pa.array(content.differs(short))).to_pylist()
    if changed:
        raise UserError(
            f"The features '{features.backbone}' were made from other images: "
            f"{say_changed(name, changed, len(keys))}",
            "embed the images that the testbed was drawn from",
        )


def features_for(
    grouped: Mapping[str, Mapping[str, Features]], backbone: str, name: str, fingerprint: str
) -> FeatureSource:
    """Return the given features of one dataset; UserError when they are of another dataset or shape."""
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
