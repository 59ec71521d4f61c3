"""Settings of the recipe ``vtab-md``, and its sources: names, groups, datasets, one dataset cut like them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from longshot.base import Ints, Record, UserError, count, first
from longshot.data import (
    VTAB_TASKS,
    Dataset,
    ImageStore,
    RowsStore,
    Taxonomy,
    assemble,
    class_branches,
    take_branch,
)
from longshot.studies.engine.comparisons import Ascending, AsList, MethodList, Names, StudySettings, Text
from longshot.studies.engine.recipe import (
    NAME,
    GivenDataset,
    check_names,
    say_class_split,
    with_class_split,
)
from longshot.studies.engine.study_training import NetworkSettings, check_options
from longshot.tasks import shuffled_splits, split_rows, with_splits

if TYPE_CHECKING:
    from PIL.Image import Image


MD = {
    "omniglot": "Omniglot",
    "aircraft": "Aircraft",
    "cu_birds": "Birds",
    "dtd": "DTD",
    "quickdraw": "QuickDraw",
    "fungi": "Fungi",
    "traffic_sign": "Traffic Sign",
    "mscoco": "MSCOCO",
}
GROUPS = ("natural", "specialized", "structured")
VTAB = {name: task for name, task in VTAB_TASKS.items() if name != "dtd"}  # VTAB-v2: DTD is a source of MD-v2
ROLES = ("md", *GROUPS, "upstream")
CLASS = "class"  # in a cut: the dataset's own classes as labels
TITLES = {**MD, **{name: task.title for name, task in VTAB.items()}}  # in the paper's order
_LEAST_WAY = 5  # of an episode


@dataclass(frozen=True, eq=False)
class StudySource:
    """A dataset in its role: ``md`` gives episodes, a group of VTAB one big episode, ``upstream`` only trains."""

    name: str
    role: str
    data: Dataset
    official: bool  # one of MD-v2's or VTAB-v2's own
    note: str = ""
    problem: str = ""  # why it cannot be tested on; it is left out, and the study goes on

    @property
    def title(self) -> str:
        """Return the name that the paper's tables have for it."""
        if not self.official:
            return self.name
        return TITLES[self.name]


def role_of(key: str) -> tuple[str, str, bool]:
    """Return (role, name, official) of ``pets``, ``md:mine`` or ``structured:mine``; UserError for others."""
    match = NAME.fullmatch(key)
    role, name = (match["role"], match["name"]) if match else (None, key)
    if role is None and name in MD:
        return "md", name, True
    if role is None and name in VTAB:
        return VTAB[name].group, name, True
    if match and role in ROLES:
        official = name in MD if role == "md" else name in VTAB
        if official:
            raise UserError(
                f"'{name}' is a source of {'MD-v2' if role == 'md' else 'VTAB-v2'} itself; write {name}=PATH."
            )
        return str(role), name, False
    raise UserError(
        f"'{key}' is none of MD-v2's sources ({', '.join(MD)}) nor of VTAB-v2's tasks ({', '.join(VTAB)}); call a "
        f"source of your own by its role: {', '.join(f'{name_of_role}:NAME' for name_of_role in ROLES)}."
    )


def open_sources(named: Mapping[str, GivenDataset], seed: int) -> list[StudySource]:
    """Open the datasets of the named sources, each called as its source; UserError where one fails.

    One that is there but cannot be a big episode says so as its ``problem``.
    """
    sources: dict[str, StudySource] = {}
    for key, dataset in named.items():
        role, name, official = role_of(key)
        check_names([name, *sources])
        if (
            official
            and role in GROUPS
            and not isinstance(dataset.data, Dataset)
            and Path(dataset.data).exists()
        ):
            dataset = GivenDataset(name, f"vtab(task='{name}'):{dataset.data}")
        data, note, problem = replace(dataset.open(), name=name), "", ""
        if role in GROUPS:
            if official:
                _check_task(data, name)
            try:
                data, words = with_splits(data, seed)
                split_rows(data)
                note = f"{name}: {words}." if words else ""
            except UserError as error:
                problem = error.fact.rstrip(".")
        sources[name] = StudySource(name, role, data, official, note, problem)
    return list(sources.values())


def _check_task(data: Dataset, name: str) -> None:
    classes = VTAB[name].classes
    if len(data.class_ids) > classes:
        raise UserError(
            f"The dataset given as '{name}' has {len(data.class_ids)} classes, but that task of VTAB has {classes}; "
            f"give the task itself, or call it by a name of its own, as in {VTAB[name].group}:mine=PATH."
        )


def cut_dataset(data: Dataset, cut: CutSettings, seed: int) -> list[StudySource]:
    """Cut one dataset into upstream data and sources like those of VTAB+MD, for trying the protocol.

    Its train classes are upstream; where it has no splits its classes are halved. Each of the first ``cut.md`` branches
    with enough test classes is a source of episodes. Images of its test classes (``cut.images`` of them, None: all) are
    the big episodes: by class, or by an attribute (``cut.structured = ("viewpoint",)``), 60/20/20 % in an order drawn
    from ``seed``. Attributes that it has not are left out and named.
    """
    data = with_class_split(data, seed)
    test = data.splits.get("test")
    note = "" if test else f"{data.name} has no test classes, so episodes and upstream data share classes."
    columns = {
        group: [c for c in getattr(cut, group) if c == CLASS or c in _attributes(data)] for group in GROUPS
    }
    lacking = [c for group in GROUPS for c in getattr(cut, group) if c not in columns[group]]
    words = (
        [f"{data.name} has no attribute {first(lacking)}, so there is no such big episode."]
        if lacking
        else []
    )
    note = " ".join([note, *say_class_split(data), *words]).strip()
    sources = [StudySource(data.name, "upstream", data, False, note)]
    wide = [
        branch for branch in class_branches(data) if len(_tested(take_branch(data, branch))) >= _LEAST_WAY
    ]
    parts = [take_branch(data, branch) for branch in wide[: cut.md]]
    if not parts and cut.md:
        parts = [replace(data, name=f"{data.name}-classes")]
    sources += [StudySource(part.name, "md", part, False) for part in parts]
    rows = np.flatnonzero(np.isin(data.labels, data.split_classes("test" if test else None)))
    if cut.images is not None:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[: cut.images])
    for group in GROUPS:
        for column in columns[group]:
            name = f"{data.name}-by-{column}"
            task = relabelled(data, name, _labels(data, column), rows)
            sources.append(StudySource(name, group, shuffled_splits(task, seed), False))
    return sources


def _tested(data: Dataset) -> tuple[str, ...]:
    return data.splits.get("test", ()) if data.splits else data.class_ids


def _labels(data: Dataset, column: str) -> list[str]:
    if column == CLASS:
        return [data.class_ids[label] for label in data.labels.tolist()]
    assert data.attributes is not None
    return [str(value) for value in data.attributes[column].to_pylist()]


def _attributes(data: Dataset) -> list[str]:
    return [] if data.attributes is None else data.attributes.column_names


def relabelled(data: Dataset, name: str, labels: Sequence[str], rows: Ints) -> Dataset:
    """Return the images at ``rows`` [M] in other classes; ``labels`` [N] are those of all images."""
    return assemble(
        name, data.source, np.array(labels)[rows], data.keys.take(pa.array(rows)), RowsStore(data.store, rows)
    )


@dataclass(frozen=True)
class _Joined:
    """The rows of several stores: row i is ``rows[i]`` of ``stores[owners[i]]``."""

    stores: tuple[ImageStore, ...]
    owners: Ints
    rows: Ints

    def read(self, row: int) -> Image:
        return self.stores[int(self.owners[row])].read(int(self.rows[row]))


def union(parts: Mapping[str, Dataset], train: Sequence[str], validate: Sequence[str]) -> Dataset:
    """Join several datasets into one, a branch each, so that siblings are classes of one dataset.

    Train classes are those of ``train`` (all of a dataset without splits), validation classes those of ``validate``.
    """
    classes = sorted(
        (f"{name}/{class_id}", part, number)
        for part, (name, data) in enumerate(parts.items())
        for number, class_id in enumerate(data.class_ids)
    )
    data = list(parts.values())
    rows = [data[part].rows(number) for _, part, number in classes]
    sizes = [span.stop - span.start for span in rows]
    keys = [
        f"{name}/{key}"
        for (class_id, part, _), span in zip(classes, rows, strict=True)
        for name in (class_id.split("/", 1)[0],)
        for key in data[part].keys.slice(span.start, span.stop - span.start).to_pylist()
    ]
    splits = {"train": _members(parts, train, "train"), "validation": _members(parts, validate, "validation")}
    edges = [("", name) for name in parts] + [(span.split("/", 1)[0], span) for span, _, _ in classes]
    return Dataset(
        name=" + ".join(parts),
        class_ids=tuple(class_id for class_id, _, _ in classes),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        keys=pa.array(keys, pa.string()),
        store=_Joined(
            tuple(span.store for span in data),
            np.repeat([part for _, part, _ in classes], sizes),
            np.concatenate([np.arange(span.start, span.stop) for span in rows]),
        ),
        source=" + ".join(span.source for span in data),
        taxonomy=Taxonomy.from_edges(edges),
        splits={name: members for name, members in splits.items() if members},
    )


def _members(parts: Mapping[str, Dataset], names: Sequence[str], split: str) -> tuple[str, ...]:
    members = []
    for name in names:
        data = parts[name]
        own = data.splits.get(split, () if data.splits or split != "train" else data.class_ids)
        members += [f"{name}/{class_id}" for class_id in own]
    return tuple(sorted(members))


def absence_sentences(sources: Sequence[StudySource]) -> list[str]:
    """Say what is missing, in sentences; empty where all 26 are here."""
    here = {source.name for source in sources if source.official}
    vtab = {name: task.title for name, task in VTAB.items()}
    sentences = []
    for titles, benchmark in ((MD, "MD-v2's sources"), (vtab, "VTAB-v2's tasks")):
        missing, total = [title for name, title in titles.items() if name not in here], len(titles)
        if len(missing) == total:
            sentences.append(f"None of the {total} of {benchmark} is here.")
        elif missing:
            sentences.append(
                f"{len(missing)} of the {total} of {benchmark} are absent: {first(missing, total)}."
            )
    own = [source.name for source in sources if not source.official and source.role != "upstream"]
    if own:
        sentences.append(f"{count(own, 'source')} of your own, of neither benchmark: {first(own, 30)}.")
    return sentences


Kind: TypeAlias = Literal["aggregate", "md", "vtab", "both", "grid"]
_Names = Annotated[tuple[Text, ...], AsList]


def _source_names(sources: dict[str, str]) -> dict[str, str]:
    for name in sources:
        role_of(name)
    return sources


def _method_call(value: Any) -> str | None:
    from longshot.models import get_method

    return None if value is None else get_method(str(value)).call


class CutSettings(Record):
    """What a plain dataset becomes: branches with episodes, labels of big episodes by group."""

    md: int = Field(ge=0, description="Branches that give episodes")
    images: int | None = Field(ge=10, description="Images of every big episode; null: all")
    natural: _Names = Field(description="Labels of big episodes: 'class' or attributes")
    specialized: _Names = Field(description="Likewise")
    structured: _Names = Field(description="Likewise")


class VtabNetwork(NetworkSettings):
    """A network to train; sources are named, ``upstream`` and ``md`` stand for all of that role."""

    data: Annotated[_Names, Field(min_length=1)] = Field(description="Sources that it is trained on")
    validate_on: Names = Field((), alias="validate", description="Sources whose classes validate it")
    without: Names = Field((), description="Sources whose classes it may not see")
    each: bool = Field(False, description="One network per source under data")
    episodes: Literal["own", "meta-dataset"] = Field("own", description="Shape of its episodes")


class ApproachSettings(Record):
    """A row of the tables: a backbone with methods for episodes and for big episodes."""

    backbone: Text | None = Field(None, description="Networks or backbones; null: the study's")
    md: Annotated[str | None, BeforeValidator(_method_call)] = Field(None, description="Method on episodes")
    vtab: MethodList = Field((), description="Candidates on big episodes; one is chosen for all")
    tasks: int | None = Field(None, ge=2, description="Episodes; null: the study's")
    group: str = Field("", description="What it was trained on, in words")
    capacity: str | None = Field(None, description="Name of the architecture, for pictures by resolution")
    resolution: int | None = Field(None, description="Input resolution, likewise")

    @model_validator(mode="before")
    @classmethod
    def _method_of_both(cls, values: Any) -> Any:
        """Use ``method`` as the method on episodes and on big ones."""
        if not isinstance(values, Mapping):
            return values
        values = dict(values)
        method = values.pop("method", None)
        return values if method is None else {"md": method, "vtab": method, **values}

    @model_validator(mode="after")
    def _has_a_method(self) -> ApproachSettings:
        if self.md is None and not self.vtab:
            raise ValueError("it has no method; give method, or md and vtab, as in {method: protonet}")
        return self


class ComparisonSettings(Record):
    """Rows that are set against each other, and the one factor in which they differ.

    Factors are paths: ``approach`` as a whole, ``approach.method``, ``approach.method.head``, ``approach.backbone``,
    ``approach.backbone.network.norm``, ``data``.
    """

    factor: Text
    rows: Annotated[_Names, Field(min_length=2)]
    budgets: Literal["equal", "own"] = Field(
        "equal", description="Steps of training: equal on all sides, or a part of each approach"
    )


class FigureSettings(Record):
    """A picture: its kind, the rows it shows and a row whose mean is drawn as a line."""

    kind: Kind
    rows: _Names | None = Field(None, description="Rows it shows; null: all")
    reference: str | None = Field(None, description="Row drawn as a dashed line")
    title: str = ""


class VtabSettings(StudySettings):
    """Settings of the recipe ``vtab-md``."""

    sources: Annotated[dict[str, str], AfterValidator(_source_names)] = Field(
        description="Name of a source → its dataset"
    )
    cut: CutSettings = Field(description="What a plain dataset becomes")
    networks: dict[str, VtabNetwork] = Field(description="Networks trained here, by name")
    rows: dict[str, ApproachSettings] = Field(min_length=1, description="Approaches, by name")
    backbone: Text = Field(description="Backbone of rows that name none")
    tasks: int = Field(ge=2, description="Episodes of every source")
    split: Text = Field(description="Classes of episodes, where a source has splits")
    replay: Text | None = Field(
        None,
        description="Folder of Meta-Dataset's dataset_spec.json files: their own episodes; null: drawn here",
    )
    max_way: int = Field(ge=5, description="Most ways of an episode")
    max_query: int = Field(ge=1, description="Most query images per class of an episode")
    max_support: int = Field(ge=5, description="Most support images of an episode")
    support: Literal["train800val200", "trainval"] = Field(description="Images that big episodes learn from")
    train: int = Field(ge=1, description="First images of train")
    validation: int = Field(ge=1, description="First images of validation")
    query: int | None = Field(ge=1, description="First images of test; null: all")
    block: int | None = Field(ge=1, description="Most queries of a task; null: all in one")
    published: Annotated[tuple[Annotated[int, Field(ge=4, le=9)], ...], AsList, Ascending] = Field(
        description="Tables of the paper that stand beside"
    )
    against: Text | None = Field(description="A row that all others are compared with")
    comparisons: dict[str, ComparisonSettings] = Field(description="Rows set against each other, by name")
    figures: dict[str, FigureSettings] = Field(description="Pictures, by name")

    @model_validator(mode="after")
    def _networks_are_trainable(self) -> VtabSettings:
        check_options(self.networks, closed=("shape", "classes"))
        for name in self.networks:
            if " + " in name:
                raise UserError(
                    f"The network '{name}' has ' + ' in its name, which joins networks; call it otherwise."
                )
        return self
