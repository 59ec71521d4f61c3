"""Kinds of values in the settings of studies; every recipe declares its own settings as a :class:`StudySettings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from longshot.base import Record

Value = TypeVar("Value")


class StudySettings(Record):
    """Settings of a recipe, all of them named by every preset."""

    seed: int = Field(ge=0, description="Seed of tasks, splits and trainings")

    def plain(self) -> dict[str, Any]:
        """Return plain values for JSON and YAML: lists, not tuples."""
        return self.model_dump(mode="json", by_alias=True)


def _as_number(value: Any) -> Any:
    """Convert text such as 1e-3 to the number it is: YAML 1.1 reads it as text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _as_tuple(value: Any) -> Any:
    return () if value is None else tuple(value) if isinstance(value, list | tuple) else (value,)


def different(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the values; ValueError where one occurs twice."""
    if len(set(values)) < len(values):
        raise ValueError("its values must all be different")
    return values


def in_order(choices: Sequence[str]) -> AfterValidator:
    """Make a validator that requires different names and sorts them in the order of ``choices``."""
    return AfterValidator(lambda values: tuple(sorted(different(values), key=choices.index)))


def read_methods(value: Any) -> tuple[str, ...]:
    """Read calls of methods in their canonical form, each once; the registry names a call that is wrong."""
    from longshot.models import get_method

    calls = _as_tuple(value)
    if not all(isinstance(call, str) for call in calls):
        raise ValueError("it must be a list of methods, as in [protonet, tim]")
    return tuple(dict.fromkeys(get_method(call).call for call in calls))


def _read_some_methods(value: Any) -> str | tuple[str, ...]:
    if value == "all":
        return "all"
    if value in (None, [], ()):
        raise ValueError("it must be 'all' or a list of methods, as in [protonet, tim]")
    return read_methods(value)


Number = Annotated[float, BeforeValidator(_as_number), Field(allow_inf_nan=False)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
# A value alone counts as a list of it.
AsList = BeforeValidator(_as_tuple)
Ascending = AfterValidator(lambda values: tuple(sorted(different(values))))
Shares = Annotated[tuple[Annotated[float, Field(gt=0, lt=1)], ...], AsList, Ascending, Field(min_length=1)]
Counts = Annotated[tuple[Annotated[int, Field(ge=1)], ...], AsList, Ascending, Field(min_length=1)]
Ways = Annotated[tuple[Annotated[int, Field(ge=2)], ...], AsList, Ascending, Field(min_length=1)]
Names = Annotated[tuple[Text, ...], AsList, AfterValidator(different)]
Methods = Annotated[Literal["all"] | tuple[str, ...], BeforeValidator(_read_some_methods)]
MethodList = Annotated[tuple[str, ...], BeforeValidator(read_methods)]  # may be empty


def method_calls(methods: str | tuple[str, ...]) -> list[str]:
    """Return the methods of a study as calls; ``all`` are those that work on the features of one backbone."""
    from longshot.models import list_methods

    if methods != "all":
        return list(methods)
    return [
        method["name"]
        for method in list_methods()
        if method["needs"] == "features" and method["family"] != "several backbones"
    ]
