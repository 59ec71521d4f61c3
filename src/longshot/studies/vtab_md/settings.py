"""Settings of the recipe ``vtab-md``: sources, networks to train, rows, figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from longshot.base import Record, UserError
from longshot.studies.engine.networks import NetworkSettings, check_options
from longshot.studies.engine.settings import Ascending, AsList, MethodList, Names, StudySettings, Text
from longshot.studies.vtab_md.data import role_of

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
        """``method`` is the method on episodes and on big ones."""
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
