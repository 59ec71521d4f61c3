"""Who judges difficulty, and who is held out: networks with their methods; the tasks that judges find hardest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from longshot.base import UserError, hash_text, parse_call
from longshot.tasks.measures import Part, unpaired_drop
from longshot.tasks.testbed import Testbed
from longshot.tasks.testbed_file import sampler_parts

if TYPE_CHECKING:
    from longshot.base import Floats, Ints, TaskRows
    from longshot.data import Dataset
    from longshot.models import BackboneLike, Features


# (a method's call, tasks as rows of the features, the features, device) → (the method's full call, accuracy [T])
TaskScorer: TypeAlias = Callable[[str, "TaskRows", "Features", str], tuple[str, "Floats"]]
PROTONET = "protonet"
_WITH_METHOD = re.compile(r"(?P<backbone>.+):(?P<method>[a-z][a-z0-9-]*(\(.*\))?)")
# "hf:NAME" has no method yet, nor has "torch:FILE.py:FUNCTION"; a label may stand before either
_UNFINISHED = re.compile(r"([^:]*=)?(timm|hf|onnx|npy|torch|torch:[^:]*)")


@dataclass(frozen=True, eq=False)
class Judge:
    """A network that judges or is held out: a dataset through it, and the method that classifies.

    Parameters
    ----------
    features : Features
        Of the dataset that tasks are drawn from.
    method : str
        Call of a method: "protonet", "protonet(distance='cosine')", "ridge". To choose supports there are these; to
        filter tasks, or to measure as a held-out network, all methods on features.

    Examples
    --------
    >>> import longshot
    >>> judge = Judge(longshot.embed("toybox", "pixels"), "ridge")
    >>> judge.facts()["backbone"], judge.facts()["method"]
    ('pixels', 'ridge')
    """

    features: Features
    method: str = PROTONET

    def facts(self) -> dict[str, str]:
        """Return what a testbed records: the network by name and by weights, the method, the hash of the features."""
        return {
            "backbone": self.features.backbone,
            "method": self.method,
            "weights": self.features.weights_hash,
            "features": self.features.hash,
        }

    @property
    def classifier(self) -> tuple[str, str | None]:
        """Return what chooses supports, (protonet or ridge, distance); UserError for another method."""
        name, settings = parse_call(self.method)
        if name == PROTONET and set(settings) <= {"distance"}:
            return name, settings.get("distance")
        if name == "ridge" and not settings:
            return name, None
        raise UserError(
            f"A judge chooses supports by protonet, protonet(distance='cosine') or ridge, not by '{self.method}'",
            "choose one of these, or {instances:filtered}, which takes any method",
        )


def split_method(text: str) -> tuple[str, str | None]:
    """Split ``BACKBONE[:METHOD]`` into backbone and method.

    Examples
    --------
    >>> split_method("pixels:ridge"), split_method("hf:facebook/dinov2-small")
    (('pixels', 'ridge'), ('hf:facebook/dinov2-small', None))
    >>> split_method("torch:mine.py:network:protonet(distance='cosine')")
    ('torch:mine.py:network', "protonet(distance='cosine')")
    """
    match = _WITH_METHOD.fullmatch(text)
    if match is None or _UNFINISHED.fullmatch(match["backbone"]) or Path(text).exists():
        return text, None
    return match["backbone"], match["method"]


def as_list(networks: Any) -> list[Any]:
    """List one network or several; none for None."""
    if networks is None:
        return []
    return list(networks) if isinstance(networks, list | tuple) else [networks]


def named_networks(networks: BackboneLike | Sequence[BackboneLike] | None) -> list[tuple[BackboneLike, str]]:
    """List one network or several, each with its method: protonet unless another stands behind a colon."""
    parts = (
        split_method(str(each)) if isinstance(each, str | Path) else (each, None)
        for each in as_list(networks)
    )
    return [(backbone, method or PROTONET) for backbone, method in parts]


def embedded_judges(
    dataset: Dataset,
    networks: BackboneLike | Sequence[BackboneLike] | None,
    rows: Ints,
    device: str = "auto",
) -> list[Judge]:
    """Embed rows of a dataset with one network or several, and return these as judges."""
    from longshot.models import embed_rows

    return [
        Judge(embed_rows(dataset, backbone, rows, device=device), method)
        for backbone, method in named_networks(networks)
    ]


def open_judges(
    dataset: Dataset, choice: str, settings: Mapping[str, Any], device: str, rows: Ints
) -> tuple[list[Judge], list[Judge]]:
    """Open the networks that judge for a ``choice`` and those held out, with features of rows of ``dataset``."""
    judges, file = settings.get("judge"), settings.get("features")
    if bool(named_networks(judges)) == (file is not None):
        raise UserError(
            f"{{{choice}}} looks at features: give one of {{judge:NAME}} (see {{list_backbones()}}) and "
            "{features:FILE.npy}."
        )
    check_named_once(judges, settings.get("held_out"))
    opened = embedded_judges(dataset, judges, rows, device)
    if file is not None:
        opened = [Judge(_read_features(file, dataset, rows))]
    held_out = embedded_judges(dataset, settings.get("held_out"), rows, device)
    check_different(opened, held_out)
    return opened, held_out


def _read_features(file: str | Path, dataset: Dataset, rows: Ints) -> Features:
    from longshot.models import Features, check_made_from

    features = Features.load(file)
    if features.fingerprint != dataset.fingerprint:
        raise UserError(
            f"The features in {file} are those of dataset '{features.dataset}' ({len(features.keys):,} images), but "
            f"tasks are drawn from '{dataset.name}' ({len(dataset):,} images)",
            f"embed that with {{embed({dataset.name})}}",
        )
    features = features.restricted(rows)
    check_made_from(features, dataset)
    return features


def as_judges(networks: Features | Judge | Sequence[Features | Judge], owner: str) -> tuple[Judge, ...]:
    """Return features, judges or several of them as judges; UserError for anything else, none, or one twice."""
    judges = [each if isinstance(each, Judge) else Judge(each) for each in as_list(networks)]
    for judge in judges:
        if not hasattr(judge.features, "backbone"):
            raise UserError(
                f"{owner} looks at features, but {judge.features!r} is none",
                "pass those of {embed(DATASET, NAME)}, or choose by words with {judge:NAME}",
            )
    if not judges:
        raise UserError(f"{owner} needs at least 1 judge and 0 were given", "name one with {judge:NAME}")
    check_different(judges)
    return tuple(judges)


def check_named_once(judges: BackboneLike | Sequence[BackboneLike] | None, held_out: Any = None) -> None:
    """Check by names alone what ``check_different`` checks by weights, before anything is embedded."""

    def marks(networks: Any) -> list[tuple[str, str, str]]:
        return [(name, method, name) for name, method in named_networks(networks) if isinstance(name, str)]

    _check_once(marks(judges), marks(held_out))


def check_different(judges: Sequence[Judge], held_out: Sequence[Judge] = ()) -> None:
    """Raise UserError for a network given twice, or that both judges and is held out; weights tell which is which."""

    def marks(networks: Sequence[Judge]) -> list[tuple[str, str, str]]:
        known_by = [
            (judge.features.weights_hash, judge.method, judge.features.backbone) for judge in networks
        ]
        return [mark for mark in known_by if mark[0]]

    _check_once(marks(judges), marks(held_out))


def _check_once(judges: list[tuple[str, str, str]], held_out: list[tuple[str, str, str]]) -> None:
    """Raise UserError for networks (identity, method, name) that count twice."""
    for part, networks in (("judge", judges), ("held out", held_out)):
        seen: dict[tuple[str, str], str] = {}
        for identity, method, name in networks:
            if (identity, method) in seen:
                raise UserError(
                    f"{_two_names(seen[identity, method], name)} the same network with the same method, and would "
                    f"count twice as {part}",
                    "leave one out",
                )
            seen[identity, method] = name
    judging = {identity: name for identity, _, name in judges}
    for identity, _, name in held_out:
        if identity in judging:
            raise UserError(
                f"{_two_names(judging[identity], name)} one network, which cannot judge and be held out",
                "leave it out of {judge} or of {held_out}",
            )


def _two_names(first: str, second: str) -> str:
    return f"'{first}' twice is" if first == second else f"'{first}' and '{second}' are"


def hash_of_judges(judges: Sequence[Judge]) -> str:
    """Return the hash of the features of one judge or of several."""
    hashes = [judge.features.hash for judge in judges]
    return hashes[0] if len(hashes) == 1 else hash_text(*hashes)


def no_scorer(purpose: str) -> UserError:
    """Build the error for a sampler that needs a method and has none."""
    return UserError(
        f"{purpose} by a method, which samplers do not know", "call longshot.sample, or pass {score}"
    )


def check_features(judge: Judge, fingerprint: str, name: str, classes: int) -> None:
    """Raise UserError unless a judge's features are those of the dataset that tasks are drawn from."""
    features = judge.features
    if features.fingerprint != fingerprint:
        raise UserError(
            f"The features of '{features.backbone}' are those of dataset '{features.dataset}' "
            f"({len(features.class_ids)} classes, fingerprint {features.fingerprint[:12]}), but tasks are drawn from "
            f"'{name}' ({classes} classes, fingerprint {fingerprint[:12]})",
            "embed that dataset",
        )


class NetworkMark(NamedTuple):
    """What tells whether a network was a judge, empty where a file does not say; and what it chose."""

    weights: str
    features: str
    backbone: str
    chose: str = "images"


def judges_of(meta: Mapping[str, Any]) -> list[NetworkMark]:
    """Return the networks that chose a testbed's tasks, from the metadata of the testbed.

    Files from before judges had weights on record name the hash of their features and a backbone.
    """
    marks: list[NetworkMark] = []
    sampler = meta.get("sampler") or {}
    if not isinstance(sampler, Mapping):  # a damaged record of a run, which names no judge
        return marks
    origins = sampler.get("concat", [meta])
    for origin, part in zip(origins, sampler_parts(sampler), strict=True):
        recorded = _chosen_by(part)
        marks += [
            NetworkMark(each["weights"], each["features"], each["backbone"], chose)
            for chose, each in recorded
        ]
        if not recorded and origin.get("features"):
            instances = part.get("instances")
            backbone = instances.get("backbone", "") if isinstance(instances, Mapping) else ""
            marks.append(NetworkMark("", str(origin["features"]), str(backbone)))
    return marks


def is_judge(marks: Iterable[NetworkMark], network: Mapping[str, Any]) -> bool:
    """Tell whether a network is one of the judges: by its weights, where they are on record.

    Parameters
    ----------
    marks : iterable of NetworkMark
        The judges of a testbed.
    network : mapping
        What a run records of a network: ``weights_hash``, ``features_hash``, ``backbone``.
    """
    return any(_is_same(mark, network) for mark in marks)


def _is_same(mark: NetworkMark, network: Mapping[str, Any]) -> bool:
    if mark.weights and network.get("weights_hash"):
        return mark.weights == str(network["weights_hash"])
    from longshot.models import bare_name

    # The first half of a hash is of names and network, whichever images were used.
    features = str(network.get("features_hash") or "")[:32]
    if features and features == mark.features[:32]:
        return True
    # The same weights at another size are a judge all the same.
    return bare_name(mark.backbone) == bare_name(str(network.get("backbone")))


def _chosen_by(sampler: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what was chosen by a judge in one draw (classes, images, or whole tasks by a filter), and the judge."""
    choices = {"classes": "classes", "instances": "images", "filter": "tasks"}
    return [
        (chose, judge)
        for part, chose in choices.items()
        for choice in (sampler.get(part),)
        if isinstance(choice, Mapping)
        for judge in choice.get("judged_by", ())
        if isinstance(judge, Mapping)
    ]


CANDIDATES = 10_000  # the paper's number of random tasks


def filtered(
    testbed: Testbed,
    scores: ArrayLike,
    keep: int,
    *,
    hardest: bool = True,
    judge: str,
    features: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Testbed:
    """Keep the ``keep`` tasks with the lowest scores (highest with ``hardest=False``), in their old order.

    ``scores`` [T] are accuracies of a judge on the tasks; samplers do not know evaluation, so they are handed in.
    ``judge`` says in the metadata what they are, ``features`` is the hash of the features it looked at, ``facts`` are
    further facts. Ties go to the earlier task. The score becomes the column ``accuracy_judged``.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (len(testbed),):
        raise UserError(f"There are {values.size:,} scores for {len(testbed):,} tasks; give one for each.")
    if np.isnan(values).any():
        raise UserError(f"The score of task {int(np.flatnonzero(np.isnan(values))[0])} is not a number.")
    if not 1 <= keep <= len(testbed):
        raise UserError(
            f"{keep:,} tasks were asked for out of {len(testbed):,} candidates", "raise {candidates}"
        )
    order = np.argsort(values if hardest else -values, kind="stable")
    positions = np.sort(order[:keep])
    table = testbed.table.take(pa.array(positions))
    table = table.set_column(0, "task", pa.array(np.arange(keep)))
    table = table.append_column("accuracy_judged", pa.array(values[positions]))
    how: dict[str, Any] = {
        "name": "filtered",
        "candidates": len(testbed),
        "keep": "hardest" if hardest else "easiest",
        "judge": judge,
        **(facts or {}),
    }
    sampler = {**testbed.meta["sampler"], "tasks": keep, "filter": how}
    return testbed.changed(table, sampler=sampler, features=features)


def filter_tasks(
    testbed: Testbed,
    dataset: Dataset,
    judges: Sequence[Judge],
    held_out: Sequence[Judge],
    tasks: int,
    settings: Mapping[str, Any],
    score: TaskScorer | None,
    device: str,
) -> Testbed:
    """Keep the hardest (or easiest) tasks by the accuracy of the judges, and measure how hard they are for others.

    Held-out networks are measured on the chosen tasks, and on as many of all: the first.
    """
    if score is None:
        raise no_scorer("{instances:filtered} judges tasks")

    def accuracies(judge: Judge, rows: TaskRows) -> tuple[Judge, Floats]:
        check_features(judge, dataset.fingerprint, dataset.name, len(dataset.class_ids))
        call, values = score(judge.method, rows, judge.features, device)
        return replace(judge, method=call), values

    rows = testbed.bind(dataset.name, dataset.keys, dataset.fingerprint)
    panel = [accuracies(judge, rows) for judge in judges]
    judging = settings.get("judging") or "mean"
    every = np.stack([values for _, values in panel])
    # the largest loss goes with the lowest accuracy
    combined = {"mean": every.mean(0), "worst": every.min(0), "least": every.max(0)}[judging]
    chosen = filtered(
        testbed,
        combined,
        tasks,
        hardest=settings.get("keep") != "easiest",
        judge=" and ".join(f"{judge.method} on {judge.features.backbone}" for judge, _ in panel),
        features=hash_of_judges(judges),
        facts={
            "judged_by": [judge.facts() for judge, _ in panel],
            **({"judging": judging} if len(panel) > 1 else {}),
        },
    )
    kept_rows = chosen.bind(dataset.name, dataset.keys, dataset.fingerprint)
    drops = [
        unpaired_drop("judge", judge, values, accuracies(judge, kept_rows)[1]) for judge, values in panel
    ]
    first = rows.take(np.arange(min(tasks, len(testbed))))
    drops += measure_drops("held out", held_out, first, kept_rows, score, device)
    return chosen.changed(chosen.table, sampler={**chosen.meta["sampler"], "drops": drops})


def measure_drops(
    part: Part, networks: Sequence[Judge], before: TaskRows, after: TaskRows, score: TaskScorer, device: str
) -> list[dict[str, Any]]:
    """Record how much harder the chosen tasks (``after``) are for networks than others (``before``)."""
    drops = []
    for network in networks:
        call, uniform = score(network.method, before, network.features, device)
        chosen = score(network.method, after, network.features, device)[1]
        drops.append(unpaired_drop(part, replace(network, method=call), uniform, chosen))
    return drops
