"""Search spaces: parameters with what they may be, and the calls that they are put into."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from longshot.base import Record, UserError, nearest_name, parse_call, read_record

_KINDS = ("choose", "uniform", "log")
_FORM = "choose(a, b, …), uniform(low, high) or log(low, high)"


class SpaceRecord(Record):
    """A space as YAML holds it."""

    source: str = ""
    algorithm: str | None = None
    method: str | None = None
    train: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None
    reported: dict[str, Any] | None = Field(None, alias="found")  # what the paper's own search found


@dataclass(frozen=True)
class Parameter:
    """What one parameter may be: 'choose' among ``values``, or a number between two by 'uniform' or 'log'."""

    kind: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(repr, self.values))})"


@dataclass(frozen=True)
class Trial:
    """A point of a space, put into words: what to train (``algorithm``, ``train``) and what to solve tasks with."""

    algorithm: str | None
    method: str | None
    train: Mapping[str, Any]


@dataclass(frozen=True)
class Space:
    """Parameters and the calls they go into. With ``algorithm`` a trial trains a network, else it only evaluates."""

    name: str
    algorithm: str | None
    method: str | None
    parameters: Mapping[str, Parameter]
    train: Mapping[str, Any] = field(default_factory=dict)
    reported: Mapping[str, Any] = field(default_factory=dict)  # parameter → what the paper's own search found
    source: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for files and comparisons."""
        return {
            "name": self.name,
            "algorithm": self.algorithm,
            "method": self.method,
            "train": dict(self.train),
            "parameters": {name: str(parameter) for name, parameter in self.parameters.items()},
        }

    def fixed(self, values: Mapping[str, Any]) -> Space:
        """Hold some parameters at one value, which may lie outside of the space."""
        for name in values:
            if name not in self.parameters:
                raise UserError(
                    f"The space '{self.name}' has no parameter '{name}'; it has {', '.join(self.parameters)}."
                )
        held = {name: Parameter("choose", (value,)) for name, value in values.items()}
        return replace(self, parameters={**self.parameters, **held})

    def distributions(self) -> dict[str, Any]:
        """Return the parameters as Optuna draws them."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution

        return {
            name: CategoricalDistribution(parameter.values)
            if parameter.kind == "choose"
            else FloatDistribution(parameter.values[0], parameter.values[1], log=parameter.kind == "log")
            for name, parameter in self.parameters.items()
        }

    def points(self, most: int) -> list[dict[str, Any]] | None:
        """List every point where there are at most ``most`` of them; None where there are more."""
        if any(parameter.kind != "choose" for parameter in self.parameters.values()):
            return None
        sizes = [len(parameter.values) for parameter in self.parameters.values()]
        if math.prod(sizes) > most:
            return None
        values = itertools.product(*(parameter.values for parameter in self.parameters.values()))
        return [dict(zip(self.parameters, point, strict=True)) for point in values]

    def trial(self, point: Mapping[str, Any]) -> Trial:
        """Return the calls at ``point``."""
        return Trial(
            None if self.algorithm is None else str(_fill(self.algorithm, point)),
            None if self.method is None else str(_fill(self.method, point)),
            {key: _fill(value, point) for key, value in self.train.items()},
        )


def space_names() -> list[str]:
    """List the names of the spaces that come with Longshot."""
    return list(_own())


def get_space(name: str) -> Space:
    """Read a space by its name, or the only one of a YAML file."""
    if name.endswith((".yaml", ".yml")):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"The space {name} cannot be read: {error}.") from error
        spaces = _parse(text, name)
        if len(spaces) != 1:
            raise UserError(f"{name} holds {len(spaces)} spaces; one is needed.")
        return _space(*next(iter(spaces.items())))
    spaces = _own()
    if name not in spaces:
        raise UserError(
            f"There is no search space '{name}'; {nearest_name(name, spaces, 'there are')} A space of your own: a YAML "
            f"file, or {{search}} with a method or an algorithm."
        )
    return _space(name, spaces[name])


def list_spaces() -> list[dict[str, Any]]:
    """List the parameters of Longshot's own spaces: space, needs, parameter, range, found, source.

    Examples
    --------
    >>> sorted({row["needs"] for row in list_spaces()})
    ['a dataset', 'testbeds']
    """
    return [
        {
            "space": name,
            "needs": "a dataset" if space.algorithm else "testbeds",
            "parameter": parameter,
            "range": str(values),
            "found": str(space.reported.get(parameter, "")),
            "source": space.source,
        }
        for name, space in ((name, get_space(name)) for name in space_names())
        for parameter, values in space.parameters.items()
    ]


def space_of_call(call: str, search: Mapping[str, str], *, trains: bool) -> Space:
    """Make the space of a method (or, with ``trains``, of an algorithm) with some of its settings searched."""
    name, settings = parse_call(call)
    for key in search:
        if key in settings:
            raise UserError(f"'{key}' is both given in '{call}' and searched; leave it out of one.")
    words = [f"{key}={value!r}" for key, value in settings.items()] + [f"{key}={{{key}}}" for key in search]
    text = f"{name}({', '.join(words)})"
    parameters = {key: parse_parameter(key, value) for key, value in search.items()}
    return Space(call, text if trains else None, None if trains else text, parameters)


def parse_parameter(name: str, text: object) -> Parameter:
    """Parse ``choose(1, 2)``, ``uniform(0, 1)`` or ``log(1e-4, 1e-1)``; only literals are read."""
    wrong = f"The parameter '{name}' is '{text}'; write {_FORM}."
    match = re.fullmatch(r"\s*(\w+)\s*\((.*)\)\s*", str(text), re.DOTALL)
    if match is None or match[1] not in _KINDS:
        raise UserError(wrong)
    try:
        values = ast.literal_eval(f"({match[2]},)")
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise UserError(wrong) from error
    kind = match[1]
    if kind == "choose":
        return Parameter(kind, tuple(values))
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if (
        len(values) != 2
        or len(numbers) != 2
        or not values[0] < values[1]
        or (kind == "log" and values[0] <= 0)
    ):
        above = " above 0" if kind == "log" else ""
        raise UserError(
            f"The parameter '{name}' is '{text}'; {kind} takes two numbers{above}, the lower first."
        )
    return Parameter(kind, (float(values[0]), float(values[1])))


def _own() -> dict[str, Any]:
    text = files("longshot.training").joinpath("spaces.yaml").read_text(encoding="utf-8")
    return _parse(text, "spaces.yaml")


def _parse(text: str, path: str) -> dict[str, Any]:
    try:
        spaces = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(spaces, dict) or not all(isinstance(value, dict) for value in spaces.values()):
        raise UserError(
            f"{path} is no search space; write 'name:' and under it method or algorithm, and parameters."
        )
    return spaces


def _space(name: str, values: Mapping[str, Any]) -> Space:
    record = read_record(SpaceRecord, values, f"The space '{name}'")
    if not record.parameters:
        raise UserError(
            f"The space '{name}' has no parameters; give at least 1, such as 'lr: log(1e-4, 1e-1)'."
        )
    if not record.algorithm and not record.method:
        raise UserError(f"The space '{name}' has neither an algorithm nor a method; give one of them.")
    parameters = {key: parse_parameter(key, value) for key, value in record.parameters.items()}
    train = record.train or {}
    for word in _words([record.algorithm, record.method, *train.values()]):
        if word not in parameters:
            raise UserError(f"The space '{name}' uses '{word}', but has no parameter of that name.")
    return Space(
        name, record.algorithm, record.method, parameters, train, record.reported or {}, record.source
    )


def _words(texts: list[Any]) -> Iterator[str]:
    for text in texts:
        yield from re.findall(r"{(\w+)}", text if isinstance(text, str) else "")


def _fill(template: Any, point: Mapping[str, Any]) -> Any:
    """Fill ``{name}`` in a template: alone it is the value itself, in a longer text as Python writes it."""
    if not isinstance(template, str):
        return template
    alone = re.fullmatch(r"{(\w+)}", template)
    if alone:
        return point[alone[1]]
    return re.sub(r"{(\w+)}", lambda match: repr(point[match[1]]), template)
