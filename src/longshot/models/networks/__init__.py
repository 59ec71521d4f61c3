"""Networks by name, and by the names that papers give them.

``cnn4(width=32, norm='group')`` is one of Longshot's own, its weights drawn from a seed; what a paper calls
``clip_vit_base`` is opened as a backbone, or says where its weights come from.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from longshot.base import (
    UserError,
    call_defaults,
    check_settings,
    format_call,
    load_target,
    nearest_name,
    parse_call,
)

if TYPE_CHECKING:
    from longshot.models.networks.base import Network


_HARD, _ATG = "Hard-Meta-Dataset++", "ATG"


class Alias(NamedTuple):
    """A paper's network: what opens it here, or what a person must fetch."""

    papers: str
    route: str  # a backbone; empty where no library has these weights
    fetch: str = ""  # what to do then


# The routes keep the papers' pooling. (vit_base_21k has a trained pooler that the paper does not use; BEiT's pooler is
# the mean of the patches behind a norm of (1, 0), the trained norm dropped.)
ALIASES: dict[str, Alias] = {
    "resnet18": Alias(f"{_HARD}, {_ATG}", "timm:resnet18.tv_in1k"),
    "resnet34": Alias(_HARD, "timm:resnet34.tv_in1k"),
    "resnet50": Alias(_HARD, "timm:resnet50.tv_in1k"),
    "resnet101": Alias(_HARD, "timm:resnet101.tv_in1k"),
    "dino_small_patch16": Alias(_HARD, "hf:facebook/dino-vits16(pool='cls')"),
    "dino_base_patch16": Alias(_HARD, "hf:facebook/dino-vitb16(pool='cls')"),
    "vit_base_21k": Alias(_HARD, "hf:google/vit-base-patch16-224-in21k(pool='cls')"),
    "vit_small_1k": Alias(_HARD, "hf:facebook/deit-small-patch16-224(pool='cls')"),
    "vit_base_1k": Alias(_HARD, "hf:facebook/deit-base-patch16-224(pool='cls')"),
    "beit_base_21k": Alias(_HARD, "hf:microsoft/beit-base-patch16-224-pt22k(pool='pooler')"),
    "clip_vit_base": Alias(_HARD, "hf:openai/clip-vit-base-patch16(pool='projection')"),
    "clip_resnet50": Alias(_HARD, "timm:resnet50_clip.openai(pool='projection')"),
    "dino_resnet50": Alias(
        _HARD,
        "",
        "fetch https://dl.fbaipublicfiles.com/dino/dino_resnet50_pretrain/dino_resnet50_pretrain.pth, then name it: "
        "resnet50(weights=dino_resnet50_pretrain.pth)",
    ),
    "densenet121": Alias(_ATG, "timm:densenet121.tv_in1k"),
    "googlenet": Alias(
        _ATG,
        "",
        "take torchvision's: write a file net.py whose function make returns "
        'torchvision.models.googlenet(weights="IMAGENET1K_V1") with its fc replaced by torch.nn.Identity(), then name '
        "it: torch:net.py:make(preprocessing='decode|resize(256)|central_crop(224)|normalize(imagenet)')",
    ),
}


# what people call methods and networks elsewhere → what they are called here
METHOD_SYNONYMS = {
    "knn": "nearest-neighbour(k=5)",
    "ncm": "protonet",
    "linearprobe": "logistic",
    "svm": "sklearn:sklearn.svm.SVC",
}
NETWORK_SYNONYMS = {
    "dino": "dino_small_patch16",
    "dinov2": "hf:facebook/dinov2-small",
    "clip": "clip_vit_base",
    "vit": "vit_base_21k",
    "resnet": "resnet50",
    "efficientnet": "efficientnet-lite0",
}


def find_synonym(name: str) -> tuple[str, str]:
    """Return ("method" or "backbone", its name here) for a word that people use elsewhere; ("", "") for any other.

    >>> find_synonym("kNN"), find_synonym("ResNet-50"), find_synonym("zebra")
    (('method', 'nearest-neighbour(k=5)'), ('backbone', 'resnet50'), ('', ''))
    """
    letters = _letters(name)
    if letters in METHOD_SYNONYMS:
        return "method", METHOD_SYNONYMS[letters]
    network = NETWORK_SYNONYMS.get(letters) or _BY_LETTERS.get(letters)
    return ("backbone", network) if network else ("", "")


def find_alias(name: str) -> str | None:
    """Find the name in :data:`ALIASES` that ``name`` means, whatever its capitals, dashes and underscores.

    >>> find_alias("DenseNet-121"), find_alias("GoogLeNet"), find_alias("pixels")
    ('densenet121', 'googlenet', None)
    """
    return _BY_LETTERS.get(_letters(name))


def names_weights(call: str) -> bool:
    """Tell whether ``call`` is a network of Longshot's own with a file for its weights.

    >>> names_weights("resnet50(weights='dino.pth')"), names_weights("timm:resnet50(weights='dino.pth')")
    (True, False)
    """
    return _WEIGHTS.match(call) is not None


def _letters(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.lower())


_WEIGHTS = re.compile(r"\s*[\w-]+\s*\(.*\bweights\s*=", re.DOTALL)
_BY_LETTERS = {_letters(name): name for name in ALIASES}


# name → module:class
NETWORKS: dict[str, str] = {
    "bit-r18": "longshot.models.networks.resnets:BiTR18",
    "bit-r50x1": "longshot.models.networks.resnets:BiTR50x1",
    "bit-r101x3": "longshot.models.networks.resnets:BiTR101x3",
    "cnn4": "longshot.models.networks.small_networks:CNN4",
    "ensemble": "longshot.models.networks.base:Ensemble",
    "resnet12": "longshot.models.networks.resnets:ResNet12",
    "resnet12-easyfsl": "longshot.models.networks.resnets:ResNet12Easyfsl",
    "resnet18": "longshot.models.networks.resnets:ResNet18",
    "resnet34": "longshot.models.networks.resnets:ResNet34",
    "resnet50": "longshot.models.networks.resnets:ResNet50",
    "vit": "longshot.models.networks.small_networks:ViT",
}
_BACKBONES = ("efficientnet-lite", "timm:", "hf:", "torch:")  # what comes with weights and can be trained on


def network_names() -> list[str]:
    """List the names of the registered networks, sorted."""
    return sorted(NETWORKS)


def is_own_network(call: str) -> bool:
    """Tell whether ``call`` builds one of Longshot's own networks, with nothing foreign inside."""
    return call.partition("(")[0].strip() in NETWORKS and not any(name in call for name in _BACKBONES)


def get_network(call: str, *, size: tuple[int, int], seed: int = 0, allow_download: bool = False) -> Network:
    """Build a trainable network in training mode, on the CPU.

    Parameters
    ----------
    call : str
        ``cnn4(width=32)``: one of Longshot's own, its weights drawn from ``seed``. ``timm:NAME``, ``hf:NAME``,
        ``torch:FILE.py:FUNCTION``, ``efficientnet-lite0`` or the folder of a saved network: with its own weights.
    size : (int, int)
        Height and width of the images.
    seed : int
        What the weights are drawn from.
    allow_download : bool
        Let ``timm:`` and ``hf:`` networks fetch their weights.

    Examples
    --------
    >>> get_network("cnn4(width=8)", size=(28, 28)).dim
    8
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(call, size, allow_download)


def build(call: str, size: tuple[int, int], allow_download: bool = False) -> Network:
    """Build as ``get_network`` does, with weights from torch's generator as it stands."""
    name = call.partition("(")[0].strip()
    elsewhere = call.startswith(_BACKBONES) or find_alias(call) or Path(call).exists()
    if names_weights(call) or (name not in NETWORKS and elsewhere):
        from longshot.models.backbones.file_backbones import open_trainable

        return open_trainable(call, size, allow_download)
    name, settings = parse_call(call)
    chosen: Any = network_class(name)  # constructors differ in their settings; check_settings compares
    defaults = call_defaults(chosen.__init__)
    members = (
        {"build_member": partial(build, allow_download=allow_download)} if "build_member" in defaults else {}
    )
    defaults = {key: value for key, value in defaults.items() if key not in ("size", "build_member")}
    check_settings(f"The network '{name}'", settings, defaults)
    network: Network = chosen(size=size, **settings, **members)
    network.call, network.size = format_call(name, settings, defaults), size
    return network.train()


def network_class(name: str) -> type[Network]:
    """Find the class registered under ``name``; UserError with the nearest name where there is none."""
    if name not in NETWORKS:
        raise UserError(
            f"There is no network '{name}'; {nearest_name(name, network_names(), 'there are')} Others come with "
            f"weights: efficientnet-lite0, timm:NAME, hf:NAME, torch:FILE.py:FUNCTION, the folder of a saved network."
        )
    chosen: type[Network] = load_target(NETWORKS[name])
    return chosen
