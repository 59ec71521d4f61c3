"""Methods as the authors of a paper ran them: one name for all their settings.

A paper's own code often differs from the text of the methods that it compares, and from Longshot's defaults. A variant
lists the settings with which Longshot's methods give that code's answers; it is part of a method's call, so that every
result says which variant it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longshot.base import UserError, format_call, nearest, parse_call
from longshot.models.methods.registry import get_method

if TYPE_CHECKING:
    from longshot.models.methods.base import Method
    from longshot.models.methods.images import ImageMethod


@dataclass(frozen=True)
class Variant:
    """The methods of one paper: name → settings, also those that are Longshot's defaults today."""

    paper: str
    methods: Mapping[str, Mapping[str, Any]]

    @property
    def calls(self) -> list[str]:
        """The methods in their canonical form, as results call them."""
        return [get_method(format_call(name, settings)).call for name, settings in self.methods.items()]


VARIANTS: dict[str, Variant] = {
    # Equal to the classes that the authors published with their testbeds: every prediction, scores to 1e-4.
    "semantic-paper": Variant(
        "Bennequin et al. 2022",
        {
            "protonet": {"distance": "euclidean", "scale": None, "squared": False},
            "finetune": {"head": "cosine", "lr": 1e-3, "steps": 10, "temperature": 1.0},
            "bd-cspn": {"scale": 1.0, "temperature": 1.0},
            "tim": {  # the authors make 100 steps and answer with the vectors before the last
                "conditional": 0.1,
                "cross_entropy": 1.0,
                "logits": "distance",
                "lr": 1e-3,
                "marginal": 1.0,
                "steps": 99,
                "temperature": None,
            },
            "transductive-finetuning": {"lr": 5e-5, "steps": 25, "temperature": 1.0},
            "pt-map": {
                "center": "apart",
                "lr": 0.2,
                "normalize": True,
                "power": 0.5,
                "rounds": 1000,
                "steps": 20,
                "strength": 10.0,
            },
        },
    ),
}


def find_variant(name: str) -> Variant:
    """The variant called ``name``; UserError with the nearest name.

    >>> find_variant("semantic-paper").calls[0]
    'protonet(squared=False)'
    """
    if name not in VARIANTS:
        raise UserError(f"There is no variant '{name}'; {nearest(name, VARIANTS, 'the variants are')}")
    return VARIANTS[name]


def variant_methods(
    methods: Sequence[str | Method | ImageMethod], variant: str
) -> list[Method | ImageMethod]:
    """The methods in a variant's settings; all of the variant's methods where none is named.

    Parameters
    ----------
    methods : sequence of str
        Names without settings of their own: the variant gives them.
    variant : str
        A name in ``VARIANTS``.

    Examples
    --------
    >>> [method.call for method in variant_methods(["tim"], "semantic-paper")]
    ["tim(logits='distance', steps=99)"]
    >>> len(variant_methods([], "semantic-paper"))
    6
    """
    chosen = find_variant(variant)
    calls = [get_method(call) for call in chosen.calls]
    if not methods:
        return calls
    by_name = {method.name: method for method in calls}
    return [by_name[_plain_name(method, variant, by_name)] for method in methods]


def _plain_name(method: object, variant: str, by_name: Mapping[str, object]) -> str:
    """The name of a method that the variant has; UserError where it has none or where settings are given beside it."""
    text = method if isinstance(method, str) else str(getattr(method, "call", method))
    name, settings = parse_call(text)
    if name not in by_name:
        raise UserError(
            f"The variant '{variant}' has no method '{name}'; its methods are {', '.join(by_name)}",
            "evaluate others without {variant}",
        )
    if settings or not isinstance(method, str):
        raise UserError(
            f"The method '{text}' comes with settings, and the variant '{variant}' gives all of them",
            f"write '{name}' alone or leave {{variant}} out",
        )
    return name


def variant_of(method: Method | ImageMethod) -> str | None:
    """The variant whose settings ``method`` has, however they were written; None where it has those of none.

    >>> variant_of(get_method("finetune")), variant_of(get_method("finetune(steps=5)"))
    ('semantic-paper', None)
    """
    return next((name for name, variant in VARIANTS.items() if method.call in variant.calls), None)
