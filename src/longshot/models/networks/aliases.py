"""Networks by the names that papers give them, and where their weights come from."""

from __future__ import annotations

import re
from typing import NamedTuple

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


def find_alias(name: str) -> str | None:
    """The name in :data:`ALIASES` that ``name`` means, whatever its capitals, dashes and underscores.

    >>> find_alias("DenseNet-121"), find_alias("GoogLeNet"), find_alias("pixels")
    ('densenet121', 'googlenet', None)
    """
    return _BY_LETTERS.get(_letters(name))


def names_weights(call: str) -> bool:
    """Whether ``call`` is a network of Longshot's own with a file for its weights.

    >>> names_weights("resnet50(weights='dino.pth')"), names_weights("timm:resnet50(weights='dino.pth')")
    (True, False)
    """
    return _WEIGHTS.match(call) is not None


def _letters(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.lower())


_WEIGHTS = re.compile(r"\s*[\w-]+\s*\(.*\bweights\s*=", re.DOTALL)
_BY_LETTERS = {_letters(name): name for name in ALIASES}
