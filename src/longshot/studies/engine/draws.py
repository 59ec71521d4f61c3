"""A testbed of a study as data: what ``longshot.sample`` is asked for, in its own words.

The same values draw the testbed and stand in a comparison, so that a comparison cannot say one thing and draw another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from longshot.base import hash_text
from longshot.tasks import CLASSES, INSTANCES, JUDGED, SHAPES, choice_of, described, split_method

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.tasks import Testbed

_CHOICES = ("shape", "classes", "instances")
_KNOWN = {"shape": SHAPES, "classes": CLASSES, "instances": INSTANCES}
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
        """Everything that decides the testbed, defaults included: shape, classes, instances, and the rest by name."""
        settings: dict[str, Any] = {"data": self.source}
        used = set(_CHOICES)
        replayed = {"shape": "replay", "classes": "replay"} if "replay" in self.words else {}
        for choice in _CHOICES:
            word = self.words.get(choice, {**_DEFAULTS, **replayed}[choice])
            settings[choice] = (
                described(choice, word, self.words) if word in _KNOWN[choice] else {"name": word}
            )
            used |= {name for name in self.words if choice_of(name) == choice and word in _KNOWN[choice]}
        settings["instances"] = _nested(settings["instances"])
        return {**settings, **{name: value for name, value in self.words.items() if name not in used}}

    def draw(self, dataset: Dataset, judge: Callable[[str], str], device: str = "auto") -> Testbed:
        """The testbed; ``judge`` turns the name of a network of the study into where it lies."""
        if self.make is not None:
            return self.make(dataset)
        from longshot.evaluation import method_accuracies
        from longshot.tasks import sample

        words = dict(self.words)
        for part in ("judge", "held_out"):
            if words.get(part) is not None:
                words[part] = [_located(name, judge) for name in networks_of(words, part)]
        return sample(dataset, **words, score=method_accuracies, device=device)

    def of_same_shape(self, dataset: Dataset) -> Testbed:
        """A testbed of the same shape with images drawn uniformly: for an estimate, without features.

        The name is its seed, so that testbeds which differ only in how supports are chosen stay apart.
        """
        from longshot.tasks import sample

        if self.make is not None:
            return self.make(dataset)
        words = {name: value for name, value in self.words.items() if choice_of(name) != "instances"}
        judged = self.words.get("instances") in JUDGED
        chosen = {**words, "instances": "uniform"} if judged else dict(self.words)
        return sample(dataset, **{**chosen, "seed": int(hash_text(self.name)[:8], 16)})


def networks_of(words: Mapping[str, Any], part: str) -> list[Any]:
    """The networks that judge or are held out, as they are named."""
    named = words.get(part)
    return list(named) if isinstance(named, list | tuple) else [] if named is None else [named]


def _located(network: Any, judge: Callable[[str], str]) -> Any:
    """``BACKBONE[:METHOD]`` with a network of the study by its path."""
    if not isinstance(network, str):
        return network
    backbone, method = split_method(network)
    return judge(backbone) if method is None else f"{judge(backbone)}:{method}"


def _nested(instances: dict[str, Any]) -> dict[str, Any]:
    """Instances with the search for a support apart: judge and objective stay, whatever searches."""
    search = {key: value for key, value in instances.items() if key in _SEARCH}
    return {"search": search, **{key: value for key, value in instances.items() if key not in _SEARCH}}
