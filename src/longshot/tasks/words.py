"""The three choices of a sampler by their words: ``classes="siblings", level=1`` means ``SiblingClasses(level=1)``.

Packages add words by a `Plugin` of theirs: ``classes="every-nth(n=3)"``, with settings as in a call. Entry points are
looked at only where a word is not Longshot's own, or where words are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from longshot.base import (
    Declared,
    UserError,
    declared_classes,
    load_target,
    make_called,
    nearest_name,
    parse_call,
    plugged,
)

if TYPE_CHECKING:
    from longshot.models import BackboneLike
    from longshot.tasks.base import Classes, Instances, Shape
    from longshot.tasks.judges import Judge
    from longshot.tasks.pools import ImageLimits


class SampleSettings(TypedDict, total=False):
    """Settings of choices that are named by words; absent or None: the choice's own default.

    Parameters
    ----------
    way : int, at least 1
        Classes per task; any, meta-dataset: the most. Default: 5; any: 20; meta-dataset: 50.
    shot : int, at least 1
        Support images per class; any: the most. Default: 5; any: 20.
    query : int, at least 1
        Query images per class; meta-dataset: the most. Default: 10; any: 20.
    min_way, max_way : int
        Any, meta-dataset: the fewest and the most classes of a task.
    min_shot, max_shot : int
        Any: the fewest and the most support images per class.
    max_query : int
        Meta-dataset: the most query images per class.
    max_support : int
        Meta-dataset: the most support images of a task.
    max_contribution : int
        Meta-dataset: the most that one class adds to the size of the support.
    level : int, at least 1
        Siblings, bilevel: level of the super-classes (1: below the root). Default: the direct parents.
    max_span : int
        Hierarchical: the most classes below a node.
    alpha : float
        Semantic: how close in meaning. Default: 0.383.
    beta : float
        Semantic, alike: how evenly classes appear. Default: 100.
    nearest : int, at least 1
        Alike: how many of the nearest classes a task chooses from. Default: 7 for 5 ways.
    oversample : int
        Semantic: times as many tasks are drawn as are kept.
    coarsity : LO:HI, str or pair of floats
        Only tasks whose coarsity, how unlike their classes are, lies in this band.
    distance : {"jiang-conrath", "lin", "wu-palmer", "path"}
        Semantic, ``coarsity``: distance between classes. Default: jiang-conrath.
    reduction : {"shortest-paths"}
        Coarsity by one shortest path per class. Classes that are drawn by meaning follow it too. Default: all paths.
    judge : BACKBONE[:METHOD], backbone, features, or a list of them
        Who judges difficulty, or says which classes look alike; may be repeated. The method is protonet or ridge;
        filtered: any method.
    held_out : BACKBONE[:METHOD], backbone, features, or a list of them
        Network that measures the tasks and takes no part in choosing them; repeat for several.
    difficulty : SHARE, float
        Difficult, greedy: from 0 (uniform) to 1 (the hardest). Default: 1.
    disjoint_pools : bool
        An image that is support in one task is never a query in another.
    copies : str
        Copies in a task: kept apart, only equal ones, or allowed. Apart keeps equal images and near copies from both
        sides of a task and from two of its classes. Replayed and published tasks stay as they are. Default: apart;
        over 30,000 images: equal.
    features : file or URL
        Features FILE.npy in place of ``judge``.
    judging : str
        Of several judges: their mean loss, the largest, or the smallest, which spares none. Default: mean.
    target_accuracy : float
        Mix easy, uniform and hard tasks until networks that took no part have this accuracy, such as 0.55.
    ingredients : WITH, list of str
        With ``target_accuracy``: what makes tasks easy or hard, in this order, as classes,supports. Default:
        easy,classes,supports,shots,ways.
    calibrate : NAME, str or list of str
        With ``target_accuracy``: networks that it is set by, other than judges and held-out ones; repeat for several.
        Default: one that is installed.
    fresh_queries : bool
        Put other images in place of the queries that difficult supports were chosen on.
    objective : {"error", "prototype", "ridge", "task2vec"}
        What to raise. Default: prototype, which is cross-entropy.
    temperature : float, above 0
        Of the classifier. Default: 0.1.
    distance_metric : str
        Between features (squared Euclidean). Default: euclidean.
    raw_features : bool
        Do not scale features to unit length.
    refine : int, at least 0
        Frank–Wolfe rounds on top, at most. Default: 0.
    greedy : int, at least 0
        Exact greedy rounds after that. Default: 1.
    rounds : int, at least 1
        Rounds of ``instances`` greedy. Default: 3.
    start : str
        Initial weights. Default: uniform.
    steps : int, at least 1
        Gradient steps. Default: 1.
    step_size : float, above 0
        Of a gradient step. Default: 200.
    projection : str
        After a step. Default: l1.
    attribute : NAME, str
        Any column of the images: queries have one value and the support another; of numbers the halves.
    rule : str
        Shifted, matched: coco-objects, orbit-clutter, orbit-quality or cure-or-viewpoint.
    query_where : RULE, str
        Queries only from "viewpoint in (front, back)".
    support_where : RULE, str
        Support only from "clutter > 3 and not blur".
    same : ATTRIBUTE, str
        Shifted, matched: one owner (say) for a whole task.
    candidates : int, at least 1
        Filtered: uniform tasks to choose from. Default: 10,000.
    keep : str
        Filtered: which of them are kept. Default: hardest.
    """

    way: int | None
    shot: int | None
    query: int | None
    min_way: int | None
    max_way: int | None
    min_shot: int | None
    max_shot: int | None
    max_query: int | None
    max_support: int | None
    max_contribution: int | None
    level: int | None
    max_span: int | None
    alpha: float | None
    beta: float | None
    nearest: int | None
    oversample: int | None
    coarsity: str | tuple[float, float] | None
    distance: str | None
    reduction: str | None
    judge: BackboneLike | Sequence[BackboneLike] | None
    features: str | Path | None
    judging: Literal["mean", "worst", "least"] | None
    held_out: BackboneLike | Sequence[BackboneLike] | None
    difficulty: float | None
    target_accuracy: float | None
    ingredients: str | Sequence[str] | None
    calibrate: Any
    fresh_queries: bool
    objective: str | None
    temperature: float | None
    distance_metric: Literal["euclidean", "cosine"] | None
    raw_features: bool
    refine: int | None
    greedy: int | None
    start: Literal["uniform", "random"] | None
    steps: int | None
    step_size: float | None
    projection: Literal["l1", "simplex", "none"] | None
    rounds: int | None
    rule: str | None
    attribute: str | None
    same: str | None
    candidates: int | None
    keep: Literal["hardest", "easiest"] | None
    query_where: str | None
    support_where: str | None
    disjoint_pools: bool
    copies: Literal["apart", "equal", "allow"] | None


def _own(*names: str) -> dict[str, str]:
    return {name: name for name in names}


class _Word(NamedTuple):
    """What a word makes, ``"module:Class"``, which settings go with it (setting → parameter), and its help."""

    target: str
    settings: Mapping[str, str]
    about: str
    judged: bool = False


def _settings(sampler: Declared) -> dict[str, str]:
    """Return setting → parameter: the class's fields of that name, and those it calls otherwise."""
    hidden = sampler.facts.get("not_settings", ())
    own = [name for name in sampler.fields if name in SampleSettings.__annotations__ and name not in hidden]
    return {**_own(*own), **sampler.facts.get("also", {})}


def _words() -> dict[str, dict[str, _Word]]:
    """Return choice → word → what it makes: every sampler in this folder that says ``about`` itself."""
    words: dict[str, dict[str, _Word]] = {choice: {} for choice in DEFAULTS}
    for sampler in declared_classes("longshot.tasks"):
        choice = next((each for each in words if sampler.target.endswith(each.capitalize())), None)
        if choice is not None and "about" in sampler.own:
            made = _Word(sampler.target, _settings(sampler), sampler.facts["about"], _JUDGED in sampler.bases)
            words[choice][sampler.facts["name"]] = made
    drawn_first = words["instances"]["uniform"]
    words["instances"]["filtered"] = drawn_first._replace(about="the hardest of many tasks", judged=True)
    return {
        choice: dict(sorted(table.items(), key=lambda item: (item[0] != DEFAULTS[choice], item[0])))
        for choice, table in words.items()
    }


_JUDGED = "JudgedInstances"
DEFAULTS = {"shape": "fixed", "classes": "uniform", "instances": "uniform"}
_WORDS = _words()
_FURTHER = {"shape": {"like:FILE": "shapes of another testbed"}}  # words that take more than settings
_PLUGGED = {"shape": "shapes", "classes": "classes", "instances": "instances"}  # what a Plugin calls them
_MEMBERS = {"shape": ("ways", "counts"), "classes": ("draw",), "instances": ("draw", "features_hash")}
SHAPES, CLASS_CHOICES, INSTANCES = (tuple(words) for words in _WORDS.values())
_ALIKE = ("judge", "features", "held_out")  # settings of instances that go with classes="alike", too
JUDGED = tuple(word for word, made in _WORDS["instances"].items() if made.judged)  # they look at features
DIAL_SETTINGS: tuple[str, ...] = (
    "target_accuracy",
    "ingredients",
    "calibrate",
    "judge",
    "features",
    "held_out",
)
DIAL_SETTINGS += (
    "objective",
    "temperature",
    "distance_metric",
    "raw_features",
    "refine",
    "greedy",
    "judging",
)
_EVERYWHERE = (
    "target_accuracy",
    "ingredients",
    "calibrate",
    "query_where",
    "support_where",
    "disjoint_pools",
    "copies",
    "coarsity",
    "reduction",
)
# headings of the settings in help; those after the third are shown on request
GROUPS = {
    "Shape (how many)": "shape way shot query",
    "Classes (which)": "classes coarsity taxonomy",
    "Instances (which images)": "instances judge held_out difficulty target_accuracy",
    "Classes by meaning or looks": "level alpha beta distance distances reduction nearest",
    "Difficult, easy, greedy": "features suspects ingredients calibrate fresh_queries judging objective temperature "
    "distance_metric raw_features refine greedy rounds start steps step_size projection",
    "Rules over attributes": "rule attribute query_where support_where same disjoint_pools copies",
    "Filtered": "candidates keep",
    "Published tasks": "published class_order replay",
}


def sampler_words(choice: str, *, plugins: bool = True) -> dict[str, str]:
    """Return word → what it means, of a choice ("shape", "classes", "instances"), those of plugins last."""
    own = {word: made.about for word, made in _WORDS[choice].items()} | _FURTHER.get(choice, {})
    return own | dict.fromkeys(plugged(_PLUGGED[choice]), "of a plugin") if plugins else own


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
    longshot.base.errors.UserError: level=1 goes with classes="bilevel" or "siblings" only; leave it out or add that.
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
    for name in ("ingredients", "calibrate"):
        if name in active and "target_accuracy" not in active:
            raise UserError(
                f"{_mention(name, active[name])} goes with {{target_accuracy}} only",
                "leave it out or add that",
            )
    for name, value in active.items():
        choice, words = _BELONGINGS.get(name, ("", ()))
        if not choice or choices[choice] in words or (name == "distance" and "coarsity" in active):
            continue
        if (name in _ALIKE and classes == "alike") or (
            name in (*DIAL_SETTINGS, "difficulty") and "target_accuracy" in active
        ):
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
        from longshot.tasks.pools import ImageLimits

        return ImageLimits(**own)
    if own:
        raise UserError(f"{{limits}} and {{{next(iter(own))}}} both limit the images", "leave one out")
    return limits


def _is_given(value: object) -> bool:
    """Tell whether a setting was given: not None, not False, not an empty list of a repeatable option."""
    return value is not None and value is not False and not (isinstance(value, list | tuple) and not value)


def _made(choice: str, chosen: Any, settings: Mapping[str, Any], **fixed: Any) -> Any:
    """Return what a word makes of its settings; an object with the needed members stays itself."""
    own = _WORDS[choice]
    if isinstance(chosen, str):
        word, called = _read_word(chosen)
        if word in own and not (called and own[word].judged):  # judges are opened before
            arguments = {**fixed, **_given(settings, own[word].settings), **called}
            return make_called("sampler", word, load_target(own[word].target), arguments)
        chosen = _made_by_plugin(choice, chosen)
    if isinstance(chosen, type) or not all(hasattr(chosen, member) for member in _MEMBERS[choice]):
        raise UserError(
            f"The parameter {{{choice}}} is {chosen!r}; give one of {', '.join(sampler_words(choice))}, or an object "
            f"such as {next(iter(own.values())).target.partition(':')[2]}()."
        )
    return chosen


def _read_word(text: str) -> tuple[str, dict[str, Any]]:
    """Split ``every-nth(n=3)`` into word and settings."""
    return parse_call(text) if "(" in text else (text, {})


def _made_by_plugin(choice: str, text: str) -> Any:
    """Return what a word of a plugin makes of the settings in its call; UserError for a word that nobody adds."""
    word, targets = text.partition("(")[0].strip(), plugged(_PLUGGED[choice])
    if word not in targets:
        noun = "is no shape" if choice == "shape" else f"are no {choice}"
        raise UserError(f"There {noun} '{text}'; {nearest_name(text, sampler_words(choice), 'choose')}")
    return make_called("sampler", word, load_target(targets[word]), parse_call(text)[1])


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
