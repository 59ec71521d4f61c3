"""Comparisons as data: what is set against what, and the one factor in which the sides differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longshot.base import UserError
from longshot.studies.engine.draws import Draw

_ABSENT = "absent"


@dataclass(frozen=True)
class Side:
    """One side of a comparison: everything that decides its numbers.

    ``testbed``, ``method`` and ``backbone`` are left out where they are the same on all sides, whichever they are;
    ``more`` has whatever else counts: a training's settings, a measure, a budget.
    """

    label: str
    testbed: Draw | None = None
    method: str | None = None
    backbone: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """All settings, by part."""
        parts: dict[str, Any] = {"method": self.method, "backbone": self.backbone, **self.more}
        if self.testbed is not None:
            parts["testbed"] = self.testbed.settings
        return {name: value for name, value in parts.items() if value is not None}


@dataclass(frozen=True)
class Comparison:
    """Two or more sides that differ in one factor; UserError where they differ in anything else, or not at all.

    Parameters
    ----------
    name : str
        What is compared, in words.
    factor : str
        The setting that varies, as a path: ``testbed.shape.way``, ``testbed.instances.search.steps``, ``method``. A
        part stands for all that is below it: ``testbed.classes`` is the choice of classes with its own settings.
    sides : sequence of Side
        What is set against each other.

    Examples
    --------
    >>> def side(start, steps):
    ...     words = {"instances": "difficult", "judge": "pixels", "start": start, "steps": steps}
    ...     return Side(f"{steps} steps", Draw(f"{steps}-steps", "toybox", words))
    >>> len(Comparison("steps", "testbed.instances.search.steps", [side("random", 1), side("random", 2)]).sides)
    2
    >>> Comparison("steps", "testbed.instances.search.steps", [side("uniform", 1), side("random", 2)])
    Traceback (most recent call last):
        ...
    longshot.base.errors.UserError: The comparison 'steps' varies testbed.instances.search.steps, but its sides also \
differ in testbed.instances.search.start ('uniform' on '1 steps', 'random' on '2 steps'); make them equal, or compare \
them apart.
    """

    name: str
    factor: str
    sides: Sequence[Side]

    def __post_init__(self) -> None:
        flat = [flatten(side.settings) for side in self.sides]
        if len(flat) < 2:
            raise UserError(
                f"The comparison '{self.name}' has {len(flat)} sides and needs at least 2; add one."
            )
        extra = [path for path in _differing(flat) if not _under(path, self.factor)]
        if extra:
            raise UserError(
                f"The comparison '{self.name}' varies {self.factor}, but its sides also differ in "
                + ", ".join(f"{path} ({self._values(flat, path)})" for path in extra),
                "make them equal, or compare them apart",
            )
        values = [{path: value for path, value in side.items() if _under(path, self.factor)} for side in flat]
        for position, value in enumerate(values):
            if value in values[:position]:
                first = self.sides[values.index(value)].label
                raise UserError(
                    f"The comparison '{self.name}' varies {self.factor}, but '{first}' and "
                    f"'{self.sides[position].label}' do not differ in it; leave one out."
                )

    def _values(self, flat: Sequence[Mapping[str, Any]], path: str) -> str:
        return ", ".join(
            f"{side.get(path, _ABSENT)!r} on '{own.label}'"
            for side, own in zip(flat, self.sides, strict=True)
        )

    def varied(self) -> list[tuple[str, str]]:
        """(label, the factor's value in words) of every side; of a factor with many settings those that differ."""
        start = f"{self.factor}."
        shown = []
        differing = self._varying()
        for side in self.sides:
            values = {path: value for path, value in flatten(side.settings).items() if path in differing}
            words = [f"{path.removeprefix(start)} {_say(value)}" for path, value in values.items()]
            alone = len(values) == 1 and self.factor in values
            shown.append((side.label, _say(values[self.factor]) if alone else ", ".join(words) or _ABSENT))
        return shown

    def shared(self) -> list[tuple[str, str]]:
        """(setting, value in words) of everything that is equal on all sides."""
        values, differing = flatten(self.sides[0].settings), self._varying()
        return [(path, _say(value)) for path, value in values.items() if path not in differing]

    def _varying(self) -> set[str]:
        """The settings under the factor that differ between sides."""
        return set(_differing([flatten(side.settings) for side in self.sides]))


def flatten(settings: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    """Settings by path.

    >>> flatten({"testbed": {"way": 5, "split": None}, "method": "protonet"})
    {'testbed.way': 5, 'testbed.split': None, 'method': 'protonet'}
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        path = f"{start}{name}"
        flat |= flatten(value, f"{path}.") if isinstance(value, Mapping) and value else {path: value}
    return flat


def _differing(flat: Sequence[Mapping[str, Any]]) -> list[str]:
    """The paths whose values are not the same on all sides."""
    paths: Iterable[str] = dict.fromkeys(path for side in flat for path in side)
    return [
        p
        for p in paths
        if any((p in side) != (p in flat[0]) or side.get(p) != flat[0].get(p) for side in flat)
    ]


def _under(path: str, factor: str) -> bool:
    return path == factor or path.startswith(f"{factor}.")


def _say(value: Any) -> str:
    return "none" if value is None else str(value)
