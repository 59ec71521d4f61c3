"""Methods by name. The table names a module and a class, imported only when the method is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longshot.base import UserError, find_class, is_tuned, make_called, parameters, parse_call, tuned_method

if TYPE_CHECKING:
    from longshot.models.methods.base import Method
    from longshot.models.methods.images import ImageMethod

# name → module:class, of methods on features
METHODS: dict[str, str] = {
    "bd-cspn": "longshot.models.methods.rectify:BDCSPN",
    "cosine-head": "longshot.models.methods.finetune:CosineHead",
    "finetune": "longshot.models.methods.finetune:Finetune",
    "finetune-last": "longshot.models.methods.finetune:FinetuneLast",
    "laplacianshot": "longshot.models.methods.rectify:LaplacianShot",
    "logistic": "longshot.models.methods.linear:LogisticRegression",
    "matching": "longshot.models.methods.neighbours:MatchingNetworks",
    "metadelta": "longshot.models.methods.metadelta:MetaDeltaDecoder",
    "nearest-neighbour": "longshot.models.methods.neighbours:NearestNeighbour",
    "protonet": "longshot.models.methods.protonet:ProtoNet",
    "pt-map": "longshot.models.methods.pt_map:PTMAP",
    "ridge": "longshot.models.methods.linear:Ridge",
    "simpleshot": "longshot.models.methods.protonet:SimpleShot",
    "sur": "longshot.models.methods.sur:SUR",
    "tim": "longshot.models.methods.finetune:TIM",
    "transductive-finetuning": "longshot.models.methods.finetune:TransductiveFinetuning",
}

# of methods that need the images and the network
IMAGE_METHODS: dict[str, str] = {
    "anil": "longshot.models.methods.inner_loops:ANIL",
    "bit": "longshot.models.methods.adapt_heads:BiT",
    "ctx": "longshot.models.methods.ctx:CTX",
    "finetune-5": "longshot.models.methods.finetune_network:Finetune5",
    "finetune-all": "longshot.models.methods.finetune_network:FinetuneAll",
    "lora": "longshot.models.methods.adapters:LoRA",
    "maml": "longshot.models.methods.inner_loops:MAML",
    "md-transfer": "longshot.models.methods.adapt_heads:MDTransfer",
    "offset": "longshot.models.methods.adapters:OffsetAdapter",
    "protomaml": "longshot.models.methods.inner_loops:ProtoMAML",
    "train-from-scratch": "longshot.models.methods.adapt_heads:TrainFromScratch",
    "transductive-finetune-all": "longshot.models.methods.finetune_network:TransductiveFinetuneAll",
}


def is_own_method(name: str) -> bool:
    """Whether ``name`` (before any parenthesis) points to a file or to scikit-learn."""
    return name.startswith("sklearn:") or name.endswith(".py") or ".py:" in name


def method_names() -> list[str]:
    """Names of the registered methods on features, sorted."""
    return sorted(METHODS)


def image_method_names() -> list[str]:
    """Names of the registered methods that need images and a network, sorted."""
    return sorted(IMAGE_METHODS)


def method_class(name: str) -> type[Method | ImageMethod]:
    """The class registered under ``name``; UserError with the nearest name when there is none."""
    method: type[Method | ImageMethod] = find_class(
        "method", name, METHODS | IMAGE_METHODS, "{list_methods()}"
    )
    return method


def get_method(method: str | Method | ImageMethod) -> Method | ImageMethod:
    """A method from its call; a method object is handed back as it is.

    ``protonet(distance='cosine')``: registered; ``mine.py:MyMethod(k=3)``: a class or function in a file;
    ``sklearn:sklearn.svm.SVC(C=1)``: a scikit-learn classifier; ``best.yaml``: what 'longshot tune' found. UserError:
    unknown name (with the nearest), unknown setting (with the valid ones and their defaults).
    """
    if not isinstance(method, str):
        from longshot.models.methods.base import AnyMethod

        if not isinstance(method, AnyMethod):
            raise UserError(
                f"A {type(method).__name__} is no method; give an object of a class derived from "
                "longshot.models.methods.base.Method, or write a function into a file and name it, as in mine.py:my_function."
            )
        return method
    if is_tuned(method):
        method = tuned_method(method)
    name, settings = parse_call(method)
    if is_own_method(name):
        from longshot.models.methods.own import own_method

        return own_method(name, settings)
    made: Method | ImageMethod = make_called("method", name, method_class(name), settings)
    return made


def feature_method(method: str | Method) -> Method:
    """``get_method`` where only features are at hand; UserError for a method that needs images and a network."""
    from longshot.models.methods.images import ImageMethod

    chosen = get_method(method)
    if isinstance(chosen, ImageMethod):
        raise UserError(
            f"The method {chosen.call} needs the images and the network, and only features are at hand here; "
            f"choose a method on features, such as protonet."
        )
    return chosen


def list_methods() -> list[dict[str, Any]]:
    """The methods that learn from a support set.

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
    from longshot.models.methods.images import ImageMethod
    from longshot.models.methods.variants import VARIANTS

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
                "settings": parameters(chosen.__init__),
                "variants": {variant: call for (method, variant), call in calls.items() if method == name},
            }
        )
    return records
