"""Methods by name: they learn from a support set and predict a query set.

A class of this folder with a ``name`` is a method, imported when it is asked for; plugins add their own. A variant is a
method as the authors of a paper ran it, one name for all their settings: a paper's own code often differs from the text
of the methods that it compares, and from Longshot's defaults. It lists the settings with which Longshot's methods give
that code's answers, and is part of a method's call, so that every result says which variant it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from longshot.base import (
    UserError,
    call_defaults,
    declared_classes,
    find_class,
    format_call,
    is_tuned,
    make_called,
    nearest_name,
    parse_call,
    plugged,
    tuned_method,
)
from longshot.models.backbones import split_label
from longshot.models.networks import find_synonym

if TYPE_CHECKING:
    from longshot.models.methods.base import ImageMethod, Method


class Classifier(Protocol):
    """What scikit-learn's classifiers have, and anybody's may."""

    def fit(self, rows: Any, labels: Any) -> Any: ...

    def predict(self, rows: Any) -> Any: ...


# whatever serves as a method; a function is of one task, see ``get_method``
MethodLike: TypeAlias = "str | Method | ImageMethod | Classifier | Callable[..., Any]"


def _declared(base: str) -> dict[str, str]:
    """Return name → ``module:class`` of the methods in this folder that are derived from a class."""
    return {each.facts["name"]: each.target for each in declared_classes(__name__) if base in each.bases}


METHODS = _declared("Method")  # on features
IMAGE_METHODS = _declared("ImageMethod")  # those that need the images and the network


def is_own_method(name: str) -> bool:
    """Tell whether ``name`` (before any parenthesis) points to a file or to scikit-learn."""
    return name.startswith("sklearn:") or name.endswith(".py") or ".py:" in name


def method_names() -> list[str]:
    """Return the names of the methods on features, those of plugins included, sorted."""
    return sorted(plugged("methods") | METHODS)


def image_method_names() -> list[str]:
    """Return the names of the methods that need images and a network, those of plugins included, sorted."""
    return sorted(plugged("image_methods") | IMAGE_METHODS)


def method_class(name: str) -> type[Method | ImageMethod]:
    """Return the class of the method ``name``, a plugin's after Longshot's own; UserError with the nearest name."""
    own = METHODS | IMAGE_METHODS
    table = own if name in own else plugged("methods") | plugged("image_methods") | own
    kind, known_here = find_synonym(name) if name not in table else ("", "")
    if kind:
        called = (
            f"'{known_here}' here" if kind == "method" else f"a network: give '{known_here}' as a backbone"
        )
        raise UserError(f"There is no method '{name}'; it is {called}.")
    method: type[Method | ImageMethod] = find_class("method", name, table, "{list_methods()}")
    if name not in own and method.name != name:  # a result could not be made again from its call
        raise UserError(
            f"The method '{name}' of a plugin calls itself '{method.name}'; let {table[name]} say name = '{name}'."
        )
    return method


def get_method(method: MethodLike, label: str | None = None) -> Method | ImageMethod:
    """Make a method from its call or from an object; a method object is returned as it is.

    ``protonet(distance='cosine')``: registered; ``mine.py:MyMethod(k=3)``: a class or function in a file;
    ``sklearn:sklearn.svm.SVC(C=1)``: a scikit-learn classifier; ``best.yaml``: what 'longshot tune' found. Objects: a
    function or module of (support, support_label, query, way), a classifier with fit and predict. ``label``, or
    ``Ours=mine.py:f``, is what tables call it. UserError: unknown name (with the nearest), unknown setting (with the
    valid ones and their defaults).
    """
    if isinstance(method, str):
        own_label, text = split_label(method)
        made, label = _by_call(text), label or own_label
    else:
        from longshot.models.methods.own_method import given_method

        made = given_method(method)
    if label:
        made = copy(made)  # the caller's object keeps its name
        made.label = label
    return made


def _by_call(method: str) -> Method | ImageMethod:
    if is_tuned(method):
        method = tuned_method(method)
    name, settings = parse_call(method)
    if name.startswith("sklearn:"):
        from longshot.models.methods.own_method import sklearn_method

        return sklearn_method(name, settings)
    if is_own_method(name):
        from longshot.models.methods.own_method import own_method

        return own_method(name, settings)
    made: Method | ImageMethod = make_called("method", name, method_class(name), settings)
    return made


def feature_method(method: MethodLike) -> Method:
    """Make a method where only features are at hand; UserError for one that needs images and a network."""
    from longshot.models.methods.base import ImageMethod

    chosen = get_method(method)
    if isinstance(chosen, ImageMethod):
        raise UserError(
            f"The method {chosen.call} needs the images and the network, and only features are at hand here; "
            f"choose a method on features, such as protonet."
        )
    return chosen


def list_methods() -> list[dict[str, Any]]:
    """List the methods that learn from a support set.

    Returns
    -------
    list of dict
        ``name``, ``setting`` (inductive or transductive), ``kind`` (what happens to the network), ``needs`` (features
        or images), ``family``, ``paper``, ``settings`` with their defaults, and ``variants``: by the name of a variant
        the call with the settings of that paper's authors.

    Examples
    --------
    >>> [method["settings"]["distance"] for method in list_methods() if method["name"] == "protonet"]
    ['euclidean']
    """
    from longshot.models.methods.base import ImageMethod

    calls = {
        (call.partition("(")[0], name): call for name, variant in VARIANTS.items() for call in variant.calls
    }
    records = []
    for name in [*method_names(), *image_method_names()]:
        chosen = method_class(name)
        records.append(
            {
                "name": name,
                "setting": chosen.setting,
                "kind": chosen.kind,
                "needs": "images" if issubclass(chosen, ImageMethod) else "features",
                "family": chosen.family,
                "paper": chosen.paper,
                "settings": call_defaults(chosen.__init__),
                "variants": {variant: call for (method, variant), call in calls.items() if method == name},
            }
        )
    return records


@dataclass(frozen=True)
class Variant:
    """The methods of one paper: name → settings, also those that are Longshot's defaults today."""

    paper: str
    methods: Mapping[str, Mapping[str, Any]]

    @property
    def calls(self) -> list[str]:
        """List the methods in their canonical form, as results call them."""
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
    """Find the variant called ``name``; UserError with the nearest name.

    >>> find_variant("semantic-paper").calls[0]
    'protonet(squared=False)'
    """
    if name not in VARIANTS:
        raise UserError(f"There is no variant '{name}'; {nearest_name(name, VARIANTS, 'the variants are')}")
    return VARIANTS[name]


def variant_methods(
    methods: Sequence[str | Method | ImageMethod], variant: str
) -> list[Method | ImageMethod]:
    """Make the methods in a variant's settings; all of the variant's methods where none is named.

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
    """Return the name of a method that the variant has; UserError where it has none or settings come with it."""
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
    """Name the variant whose settings ``method`` has, however they were written; None where there is none.

    >>> variant_of(get_method("finetune")), variant_of(get_method("finetune(steps=5)"))
    ('semantic-paper', None)
    """
    for name, variant in VARIANTS.items():
        if method.identity in [get_method(call).identity for call in variant.calls]:
            return name
    return None
