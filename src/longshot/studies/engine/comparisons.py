"""What a study is told, as data: its settings, the testbeds it draws, what it compares and the one factor that differs.

A `Draw` is what ``longshot.sample`` is asked for, in its own words. The same values draw the testbed and stand in a
comparison, so that a comparison cannot say one thing and draw another. Every recipe declares its own settings as a
:class:`StudySettings`, with the kinds of values that stand here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from longshot.base import Record, UserError, hash_text
from longshot.tasks import CLASS_CHOICES, INSTANCES, JUDGED, SHAPES, choice_of, described, split_method

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.tasks import Testbed

_CHOICES = ("shape", "classes", "instances")
_KNOWN = {"shape": SHAPES, "classes": CLASS_CHOICES, "instances": INSTANCES}
_DEFAULTS = {"shape": "fixed", "classes": "uniform", "instances": "uniform"}
# how a support is searched for, as opposed to who judges it and by what
_SEARCH = ("name", "refine", "greedy", "start", "steps", "step_size", "projection", "rounds")


@dataclass(frozen=True)
class Draw:
    """A testbed to draw.

    Parameters
    ----------
    name : str
        As its file is called.
    source : str
        The dataset, by its name in the study.
    words : mapping
        Options of ``longshot.sample``: ``{"tasks": 600, "way": 5, "classes": "semantic", "alpha": 0.383, "seed": 0}``.
        A ``judge`` may be a network that the study trains, or a list of networks; so may ``held_out``.
    make : callable, optional
        Draws it from the dataset where words cannot say how; ``words`` then describe it for comparisons only.

    Examples
    --------
    >>> draw = Draw("hard", "toybox", {"tasks": 10, "way": 5, "instances": "greedy", "judge": "pixels"})
    >>> draw.settings["instances"]["objective"], draw.settings["instances"]["search"]["name"]
    ('prototype', 'greedy')
    """

    name: str
    source: str
    words: Mapping[str, Any]
    make: Callable[[Dataset], Testbed] | None = field(default=None, compare=False)

    @property
    def settings(self) -> dict[str, Any]:
        """Return all settings that decide the testbed, with defaults: shape, classes, instances, the rest."""
        settings: dict[str, Any] = {"data": self.source}
        used = set(_CHOICES)
        replayed = {"shape": "replay", "classes": "replay"} if "replay" in self.words else {}
        for choice in _CHOICES:
            word = self.words.get(choice, {**_DEFAULTS, **replayed}[choice])
            settings[choice] = (
                described(choice, word, self.words) if word in _KNOWN[choice] else {"name": word}
            )
            used |= {name for name in self.words if choice_of(name) == choice and word in _KNOWN[choice]}
        instances = settings[
            "instances"
        ]  # the search for a support apart: judge and objective stay, whatever searches
        search = {key: value for key, value in instances.items() if key in _SEARCH}
        judged = {key: value for key, value in instances.items() if key not in _SEARCH}
        settings["instances"] = {"search": search, **judged}
        return {**settings, **{name: value for name, value in self.words.items() if name not in used}}

    def draw(self, dataset: Dataset, judge: Callable[[str], str], device: str = "auto") -> Testbed:
        """Draw the testbed; ``judge`` turns the name of a network of the study into its path."""
        if self.make is not None:
            return self.make(dataset)
        from longshot.models import method_accuracies
        from longshot.tasks import sample

        words = dict(self.words)
        for part in ("judge", "held_out"):
            if words.get(part) is not None:
                words[part] = [_located(name, judge) for name in networks_of(words, part)]
        return sample(dataset, **words, score=method_accuracies, device=device)

    def of_same_shape(self, dataset: Dataset) -> Testbed:
        """Draw a testbed of the same shape with uniform images: for an estimate, without features.

        The name is its seed, so that testbeds which differ only in how supports are chosen stay apart.
        """
        from longshot.tasks import sample

        if self.make is not None:
            return self.make(dataset)
        words = {name: value for name, value in self.words.items() if choice_of(name) != "instances"}
        judged = self.words.get("instances") in JUDGED
        if self.words.get("classes") == "alike":
            words, judged = (
                {name: value for name, value in words.items() if choice_of(name) != "classes"},
                True,
            )
            words.pop("classes")
        chosen = {**words, "instances": "uniform"} if judged else dict(self.words)
        return sample(dataset, **{**chosen, "seed": int(hash_text(self.name)[:8], 16)})


def networks_of(words: Mapping[str, Any], part: str) -> list[Any]:
    """List the networks that judge or are held out, as they are named."""
    named = words.get(part)
    return list(named) if isinstance(named, list | tuple) else [] if named is None else [named]


def _located(network: Any, judge: Callable[[str], str]) -> Any:
    """Replace the network in ``BACKBONE[:METHOD]`` by its path where it is one of the study."""
    if not isinstance(network, str):
        return network
    backbone, method = split_method(network)
    return judge(backbone) if method is None else f"{judge(backbone)}:{method}"


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
        """Return all settings, by part."""
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
        """Return (label, the factor's value in words) of every side; of many settings those that differ."""
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
        """Return (setting, value in words) of everything that is equal on all sides."""
        values, differing = flatten(self.sides[0].settings), self._varying()
        return [(path, _say(value)) for path, value in values.items() if path not in differing]

    def _varying(self) -> set[str]:
        """Return the settings under the factor that differ between sides."""
        return set(_differing([flatten(side.settings) for side in self.sides]))


def flatten(settings: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    """Flatten nested settings to a dict by path.

    >>> flatten({"testbed": {"way": 5, "split": None}, "method": "protonet"})
    {'testbed.way': 5, 'testbed.split': None, 'method': 'protonet'}
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        path = f"{start}{name}"
        flat |= flatten(value, f"{path}.") if isinstance(value, Mapping) and value else {path: value}
    return flat


def _differing(flat: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the paths whose values differ between the sides."""
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
