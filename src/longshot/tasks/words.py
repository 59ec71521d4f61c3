"""The three choices of a sampler by their words: ``classes="siblings", level=1`` means ``SiblingClasses(level=1)``.

Packages add words by a `Plugin` of theirs: ``classes="every-nth(n=3)"``, with settings as in a call. Entry points are
looked at only where a word is not Longshot's own, or where words are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from longshot.base import UserError, load_target, make_called, nearest_name, parse_call, plugged
from longshot.tasks.base import Classes, Instances, Shape
from longshot.tasks.pools import ImageLimits

if TYPE_CHECKING:
    from longshot.models import BackboneLike
    from longshot.tasks.judges import Judge


class SampleSettings(TypedDict, total=False):
    """Settings of choices that are named by words; absent or None: the choice's own default."""

    # shape
    way: int | None  # fixed: classes per task; any, meta-dataset: the most
    shot: int | None  # fixed: support images per class; any: the most
    query: int | None  # fixed, any: query images per class; meta-dataset: the most
    min_way: int | None  # any, meta-dataset
    max_way: int | None  # any, meta-dataset
    min_shot: int | None  # any
    max_shot: int | None  # any
    max_query: int | None  # meta-dataset
    max_support: int | None  # meta-dataset: the most support images of a task
    max_contribution: int | None  # meta-dataset: the most that one class adds to the size of the support
    # classes
    level: int | None  # siblings, bilevel: super-classes are the nodes at this level of the taxonomy
    max_span: int | None  # hierarchical: the most classes below a node
    alpha: float | None  # semantic: how close in meaning
    beta: float | None  # semantic, alike: how evenly classes appear
    nearest: int | None  # alike: how many of the nearest classes a task chooses from
    oversample: int | None  # semantic: times as many tasks are drawn as are kept
    coarsity: str | tuple[float, float] | None  # only tasks in this band, "10:30" or (10, 30)
    distance: str | None  # semantic, coarsity: distance between classes
    reduction: str | None  # which paths of the taxonomy count, for coarsity and for classes drawn by meaning
    # instances
    # difficult, easy, greedy, filtered, and classes that are alike: who judges, a backbone or its features, or several;
    # "BACKBONE:METHOD"
    judge: BackboneLike | Sequence[BackboneLike] | None
    features: str | Path | None  # the same: a file of features in place of ``judge``
    # the same: how the losses of several judges are combined
    judging: Literal["mean", "worst", "least"] | None
    held_out: BackboneLike | Sequence[BackboneLike] | None  # the same: networks that took no part, to measure
    difficulty: float | None  # difficult, greedy: from 0, uniform, to 1, the hardest
    target_accuracy: float | None  # difficult, greedy: the accuracy that held-out networks shall have
    objective: str | None  # difficult, easy, greedy: error, prototype, ridge, task2vec
    temperature: float | None  # difficult, easy, greedy
    distance_metric: Literal["euclidean", "cosine"] | None  # difficult, easy, greedy: between features
    raw_features: bool  # difficult, easy, greedy: do not scale features to unit length
    refine: int | None  # difficult, easy: Frank–Wolfe rounds
    greedy: int | None  # difficult, easy: exact greedy rounds after that
    start: Literal["uniform", "random"] | None  # difficult, easy
    steps: int | None  # difficult, easy
    step_size: float | None  # difficult, easy
    projection: Literal["l1", "simplex", "none"] | None  # difficult, easy
    rounds: int | None  # greedy
    rule: str | None  # shifted, matched: one of shifted.RULE_SETS
    same: str | None  # shifted, matched: the attribute that has one value in a task
    candidates: int | None  # filtered: uniform tasks to choose from
    keep: Literal["hardest", "easiest"] | None  # filtered
    # all instances
    query_where: str | None  # queries only from images that fulfil this rule
    support_where: str | None  # support only from images that fulfil this rule
    disjoint_pools: bool  # an image that is support in one task is never a query in another
    # copies are kept apart, equal images alone are, or they are drawn like others; None: by the dataset's size
    copies: Literal["apart", "equal", "allow"] | None


@dataclass(frozen=True)
class _Word:
    """What a word makes, ``"module:Class"``, and which settings go with it: setting → parameter of the class."""

    target: str
    settings: Mapping[str, str]


def _own(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_SELECTED = {
    **_own("objective", "temperature", "judging"),
    "distance_metric": "distance",
    "raw_features": "raw_features",
}
_DIFFICULT = {**_SELECTED, **_own("refine", "greedy", "start", "steps", "step_size", "projection")}
_CURATED = _own("rule", "query_where", "support_where", "same")
_ANY = {**_own("min_way", "max_way", "min_shot", "max_shot", "query"), "way": "max_way", "shot": "max_shot"}
_VARIED = {
    **_own("min_way", "max_way", "max_query", "max_support", "max_contribution"),
    "way": "max_way",
    "query": "max_query",
}
_HERE = "longshot.tasks"
_WORDS: dict[str, dict[str, _Word]] = {
    "shape": {
        "fixed": _Word(f"{_HERE}.shapes:FixedShape", _own("way", "shot", "query")),
        "any": _Word(f"{_HERE}.shapes:AnyShape", _ANY),
        "meta-dataset": _Word(f"{_HERE}.meta_dataset_samplers:MetaDatasetShape", _VARIED),
    },
    "classes": {
        "uniform": _Word(f"{_HERE}.class_samplers:UniformClasses", {}),
        "semantic": _Word(
            f"{_HERE}.class_samplers:SemanticClasses",
            _own("alpha", "beta", "oversample", "distance", "reduction"),
        ),
        "alike": _Word(f"{_HERE}.alike:AlikeClasses", _own("nearest", "beta")),
        "hierarchical": _Word(f"{_HERE}.meta_dataset_samplers:HierarchicalClasses", _own("max_span")),
        "siblings": _Word(f"{_HERE}.class_samplers:SiblingClasses", _own("level")),
        "bilevel": _Word(f"{_HERE}.meta_dataset_samplers:BilevelClasses", _own("level")),
    },
    "instances": {
        "uniform": _Word(f"{_HERE}.instance_samplers:UniformInstances", {}),
        "difficult": _Word(f"{_HERE}.difficult:DifficultInstances", {**_DIFFICULT, **_own("difficulty")}),
        "easy": _Word(f"{_HERE}.difficult:EasyInstances", _DIFFICULT),
        "greedy": _Word(f"{_HERE}.difficult:GreedyInstances", {**_SELECTED, **_own("rounds", "difficulty")}),
        "filtered": _Word(f"{_HERE}.instance_samplers:UniformInstances", {}),  # and chosen afterwards
        "shifted": _Word(f"{_HERE}.instance_samplers:ShiftedInstances", _CURATED),
        "matched": _Word(f"{_HERE}.instance_samplers:MatchedInstances", _CURATED),
    },
}
_FURTHER = {"shape": ("like:FILE",)}  # words that take more than settings
_PLUGGED = {"shape": "shapes", "classes": "classes", "instances": "instances"}  # what a Plugin calls them
_MEMBERS = {"shape": ("ways", "counts"), "classes": ("draw",), "instances": ("draw", "features_hash")}
SHAPES, CLASSES, INSTANCES = (tuple(words) for words in _WORDS.values())
JUDGED = ("difficult", "easy", "greedy", "filtered")  # instances that look at features
_ALIKE = ("judge", "features", "held_out")  # settings of instances that go with classes="alike", too
_EVERYWHERE = ("query_where", "support_where", "disjoint_pools", "copies", "coarsity", "reduction")


def _belongings() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return setting → (the choice it belongs to, the words it goes with)."""
    belongings: dict[str, tuple[str, tuple[str, ...]]] = {}
    for choice, table in _WORDS.items():
        for word, made in table.items():
            for setting in made.settings:
                words = belongings.get(setting, (choice, ()))[1]
                belongings[setting] = choice, (*words, word)
    belongings |= dict.fromkeys(("judge", "features", "judging", "held_out"), ("instances", JUDGED))
    belongings |= dict.fromkeys(("candidates", "keep"), ("instances", ("filtered",)))
    belongings["target_accuracy"] = "instances", belongings["difficulty"][1]
    return {name: entry for name, entry in belongings.items() if name not in _EVERYWHERE}


_BELONGINGS = _belongings()
SETTINGS = (*_BELONGINGS, *_EVERYWHERE)


def check_sampler_settings(
    settings: Mapping[str, Any],
    *,
    shape: object,
    classes: object,
    instances: object = "uniform",
    beside: Iterable[str] = (),
) -> None:
    """Raise UserError for a setting that does not exist or that does nothing with the choices made.

    Parameters
    ----------
    settings : mapping
        As :class:`SampleSettings`; None, False and an empty tuple mean that a setting was not given.
    shape, classes, instances : str or object
        The choices, as ``sample`` takes them.
    beside : iterable of str
        Parameters that are no settings, but may have been meant by one that does not exist.

    Examples
    --------
    >>> check_sampler_settings({"level": 1}, shape="fixed", classes="uniform")
    Traceback (most recent call last):
        ...
    longshot.base.errors.UserError: level=1 goes with classes="siblings" or "bilevel" only; leave it out or add that.
    """
    choices = {"shape": shape, "classes": classes, "instances": instances}
    active = {name: value for name, value in settings.items() if _is_given(value)}
    unknown = [name for name in settings if name not in SETTINGS]
    if unknown:
        raise UserError(
            f"A sampler has no setting '{unknown[0]}'; "
            f"{nearest_name(unknown[0], [*SETTINGS, *beside], 'the settings are')}"
        )
    if "coarsity" in active and classes != "uniform":
        raise UserError(
            f"{{coarsity}} chooses the classes itself, so it does not go with {_mention('classes', classes)}",
            "leave one out",
        )
    for name, value in active.items():
        choice, words = _BELONGINGS.get(name, ("", ()))
        if not choice or choices[choice] in words or (name == "distance" and "coarsity" in active):
            continue
        if name in _ALIKE and classes == "alike":
            continue
        also = " or {coarsity}" if name == "distance" else " or {classes:alike}" if name in _ALIKE else ""
        raise UserError(
            f"{_mention(name, value)} goes with {{{choice}:{' or '.join(words)}}}{also} only",
            "leave it out or add that",
        )


def choice_of(setting: str) -> str:
    """Return the choice that a setting belongs to: "shape", "classes" or "instances"; empty where to none alone."""
    return _BELONGINGS.get(setting, ("",))[0]


def described(choice: str, word: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a choice by its word as plain values: its name and all its parameters; nothing is made.

    Parameters
    ----------
    choice : {"shape", "classes", "instances"}
        Which of the three.
    word : str
        Its word.
    settings : mapping
        As :class:`SampleSettings`; those of other choices are left aside.

    Examples
    --------
    >>> described("instances", "greedy", {"judge": "pixels"})["objective"]
    'prototype'
    >>> described("classes", "uniform", {"way": 5})
    {'name': 'uniform'}
    """
    made = _WORDS[choice][word]
    values = {
        each.name: each.default
        for each in fields(load_target(made.target))
        if each.init and each.default is not MISSING and each.metadata.get("setting", True)
    }
    values |= _given(settings, made.settings)
    for name, (owner, words) in _BELONGINGS.items():  # settings without a parameter, as the judge
        if owner == choice and word in words and name not in made.settings and _is_given(settings.get(name)):
            values[name] = settings[name]
    if word == "alike":
        values |= {name: settings[name] for name in _ALIKE if _is_given(settings.get(name))}
    return {"name": word, **values}


def make_shape(shape: Shape | str, settings: Mapping[str, Any]) -> Shape:
    """Make the shape that a word (fixed, any, meta-dataset, like:FILE) and its settings describe; keep an object.

    >>> make_shape("any", {"way": 7, "query": 3})
    AnyShape(min_way=2, max_way=7, min_shot=1, max_shot=20, query=3)
    """
    if isinstance(shape, str) and shape.startswith("like:") and shape != "like:":
        from longshot.tasks.shapes import ShapeLike
        from longshot.tasks.testbed import Testbed

        return ShapeLike(Testbed.load(shape.removeprefix("like:")))
    made: Shape = _made("shape", shape, settings)
    return made


def make_classes(
    classes: Classes | str, settings: Mapping[str, Any], *, allow_repeats: bool = False
) -> Classes:
    """Make the class sampler that a word and its settings describe; return an object as it is.

    >>> make_classes("uniform", {"coarsity": "10:30"})
    CoarsityClasses(low=10.0, high=30.0, distance='jiang-conrath', reduction=None)
    """
    if settings.get("coarsity") is not None:
        from longshot.tasks.class_samplers import CoarsityClasses

        meaning = _given(settings, _own("distance", "reduction"))
        return CoarsityClasses(*_band(settings["coarsity"]), **meaning)
    fixed: dict[str, Any] = {"distinct": not allow_repeats} if classes == "semantic" else {}
    if classes == "alike":
        fixed["judges"] = settings.get("judge") or settings.get("features")
    made: Classes = _made("classes", classes, settings, **fixed)
    return made


def make_instances(
    instances: Instances | str,
    settings: Mapping[str, Any],
    *,
    judges: Sequence[Judge] = (),
    **beside: Any,
) -> Instances:
    """Make the image sampler that a word and its settings describe; return an object as it is.

    ``judges`` are whom difficult, easy and greedy ask, ``beside`` what else they are made with (``held_out``,
    ``score``, ``device``). "filtered" draws uniformly: the tasks are chosen when they are drawn (``filter_tasks``).
    """
    fixed: dict[str, Any] = {}
    if isinstance(instances, str) and instances in JUDGED and instances != "filtered":
        if not judges:
            raise ValueError(f"'{instances}' needs judges")
        fixed = {"judges": judges, "normalize": not settings.get("raw_features"), **beside}
        settings = {name: value for name, value in settings.items() if name != "raw_features"}
    made: Instances = _made("instances", instances, settings, **fixed)
    return made


def make_limits(
    instances: Instances | str, settings: Mapping[str, Any], limits: ImageLimits | None = None
) -> ImageLimits:
    """Return the rules for all images; those of shifted and matched tasks are the sampler's own."""
    rules = () if instances in ("shifted", "matched") else ("query_where", "support_where")
    own = {name: settings[name] for name in rules if settings.get(name) is not None}
    if settings.get("disjoint_pools"):
        own["disjoint"] = True
    if limits is None:
        return ImageLimits(**own)
    if own:
        raise UserError(f"{{limits}} and {{{next(iter(own))}}} both limit the images", "leave one out")
    return limits


def _is_given(value: object) -> bool:
    """Tell whether a setting was given: not None, not False, not an empty list of a repeatable option."""
    return value is not None and value is not False and not (isinstance(value, list | tuple) and not value)


def _made(choice: str, chosen: Any, settings: Mapping[str, Any], **fixed: Any) -> Any:
    """Make what a word and its settings describe; return an object that has the needed members as it is."""
    own = _WORDS[choice]
    if isinstance(chosen, str):
        if chosen in own:
            return load_target(own[chosen].target)(**fixed, **_given(settings, own[chosen].settings))
        chosen = _made_by_plugin(choice, chosen)
    if isinstance(chosen, type) or not all(hasattr(chosen, member) for member in _MEMBERS[choice]):
        raise UserError(
            f"The parameter {{{choice}}} is {chosen!r}; give one of {', '.join(_every_word(choice))}, or an object "
            f"such as {next(iter(own.values())).target.partition(':')[2]}()."
        )
    return chosen


def _made_by_plugin(choice: str, text: str) -> Any:
    """Make what a plugin's word and the settings in its call describe; UserError for a word that nobody adds."""
    word, targets = text.partition("(")[0].strip(), plugged(_PLUGGED[choice])
    if word not in targets:
        noun = "is no shape" if choice == "shape" else f"are no {choice}"
        raise UserError(f"There {noun} '{text}'; {nearest_name(text, _every_word(choice), 'choose')}")
    return make_called("sampler", word, load_target(targets[word]), parse_call(text)[1])


def _every_word(choice: str) -> tuple[str, ...]:
    """Return Longshot's own words and those of plugins."""
    return *_WORDS[choice], *_FURTHER.get(choice, ()), *plugged(_PLUGGED[choice])


def _given(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return parameter → value for the settings that were given."""
    arguments: dict[str, Any] = {}
    for setting, parameter in names.items():
        if settings.get(setting) is None:
            continue
        if parameter in arguments:
            raise UserError(f"{{{setting}}} and {{{parameter}}} mean the same here", "leave one out")
        arguments[parameter] = settings[setting]
    return arguments


def _band(coarsity: str | tuple[float, float]) -> tuple[float, float]:
    """Return the two ends of a coarsity band."""
    try:
        low, high = coarsity.split(":") if isinstance(coarsity, str) else coarsity
        return float(low or 0.0), float(high or "inf")
    except (ValueError, TypeError):
        raise UserError(
            f"The coarsity band {coarsity!r} is not two numbers; write it as LO:HI, such as 10:30 or 10: without "
            "an end."
        ) from None


def _mention(name: str, value: object) -> str:
    """Write a parameter with its value for a sentence; without it where the value is an object."""
    if value is True or isinstance(value, str | int | float | Path):
        return f"{{{name}:{value}}}"
    return f"{{{name}}}"
