"""What a backbone is: weights, a preprocessing string, and a function from images to vectors.

Its identity is a hash over all of these, whatever it is called; its label is what tables show.
"""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longshot.base import (
    AUTOMATIC,
    PREPROCESSING_RULES,
    RUNTIMES,
    EngineChoice,
    Preprocessing,
    UserError,
    engine_version,
    hash_text,
    parse_engine,
    parse_preprocessing,
    pick_device,
    require_engine,
)
from longshot.models.backbones.sight import Sight

if TYPE_CHECKING:
    from PIL import Image

    from longshot.data import Dataset
    from longshot.models.features import Features
    from longshot.models.features.conversion import Conversion, Session
    from longshot.models.networks.base import Network

BLOCK_CPU = 16  # images the network sees at once; measured: faster per core than 8, 32 or 64
BLOCK_ACCELERATOR = 64


class Backbone(ABC):
    """Images [B, 3, H, W] float32 → vectors [B, d]. Construction finds and hashes the weights, no more."""

    # Whether several threads may run it at once; if not, one thread runs it with all cores inside.
    reentrant: ClassVar[bool] = False
    light: ClassVar[bool] = False  # no network to speak of: decoding is all the work
    takes_pictures: ClassVar[bool] = False  # pictures as they are, by ``from_pictures``, in place of tensors
    pooling: str = "mean"  # how maps or tokens become vectors
    architecture: str = ""  # what the weights' hash does not cover

    def __init__(self, name: str, weights_hash: str, sight: Sight, device: str = "auto") -> None:
        self.opens, self.weights_hash = name, weights_hash
        self.use_sight(sight)
        self.device = pick_device(device)

    def use_sight(self, sight: Sight) -> None:
        """Let the network see these pixels, before anything is computed."""
        self.sight = sight
        # ``opens`` is the name without what it says of pixels
        self.name = self.label = sight.named(self.opens)
        self.transform: Preprocessing = parse_preprocessing(sight.preprocessing)

    @property
    def preprocessing(self) -> str:
        """Return the canonical preprocessing string."""
        return self.transform.text

    @property
    def engine(self) -> str:
        """Name what computes, with its version."""
        return engine_version("torch")

    @property
    def block(self) -> int:
        """Return how many images the network sees at once, a constant per kind of device."""
        return BLOCK_CPU if self.device.type == "cpu" else BLOCK_ACCELERATOR

    def use_engine(self, engine: str | None) -> None:
        """Let another engine compute; see ``parse_engine``. What has no network to hand over takes none."""
        parse_engine(engine)

    def settle(self, dataset: Dataset, rows: Sequence[int], *, keep: bool = True) -> None:
        """Find out by which engine the vectors can be computed, on images at hand; ``engine`` says it afterwards."""
        return

    @property
    def settled(self) -> bool:
        """Tell whether ``engine`` is final and not only planned."""
        return True

    def session(self) -> Session | None:
        """Open the network in another engine than PyTorch, where one computes; call ``settle`` first."""
        return None

    @property
    def converted(self) -> bool:
        """Tell whether ``session`` gives one, without opening it."""
        return False

    def portable(self, *, network: bool = True) -> Self:
        """Copy the backbone for another process, with its network, or without it where that process gets another."""
        return copy.copy(self)

    @property
    def identity(self) -> str:
        """Hash what decides the vectors: weights, architecture, preprocessing, pooling, engine; hex SHA-256."""
        return hash_text(
            "longshot backbone 2",
            PREPROCESSING_RULES,
            type(self).__name__,
            self.architecture,
            self.weights_hash,
            self.preprocessing,
            self.pooling,
            self.engine,
        )

    @cached_property
    def dim(self) -> int:
        """Return the width d of the vectors, found by running one blank image unless the family knows it."""
        return int(self(torch.zeros(1, 3, *self.transform.size, device=self.device)).shape[1])

    def prepare(self) -> None:
        """Build the network now, before threads meet in the first call."""
        return

    def network(self) -> Network:
        """Return the network itself, frozen, in evaluation mode, on the device, for methods that adapt it to a task."""
        raise no_network(self.name)

    @abstractmethod
    def forward(self, images: Tensor) -> Tensor:
        """Compute vectors or maps of images: [B, 3, H, W] → [B, d] or [B, d, h, w]."""

    def from_pictures(self, pictures: list[Image.Image]) -> NDArray[np.float32]:
        """Compute vectors [n, d] of pictures, where ``takes_pictures`` says so."""
        raise NotImplementedError

    def from_bytes(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Compute vectors [n, d] of bytes [n, H, W, 3], with the values that the preprocessing gives them."""
        # Height × width × channel bytes seen as [n, 3, H, W] are channels-last already: nothing is copied.
        images = torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2).float()
        vectors: NDArray[np.float32] = self(self.transform.values(images)).cpu().numpy()
        return vectors

    def __call__(self, images: Tensor) -> Tensor:
        """Compute vectors of images and average maps: [B, 3, H, W] float32 on ``device`` → [B, d] float32."""
        try:
            output = self.forward(images)
        except UserError:
            raise
        except Exception as error:  # a network raises whatever it likes on images it cannot take
            reason = " ".join(str(error).split()).rstrip(".")
            raise UserError(
                f"Backbone '{self.name}' failed on images {list(images.shape)} with {type(error).__name__}: "
                f"{reason}",
                "try another {preprocessing}",
            ) from error
        if not isinstance(output, Tensor):
            raise UserError(
                f"Backbone '{self.name}' returned a {type(output).__name__}; a tensor [B, d] is needed."
            )
        if output.ndim == 4:
            output = output.mean((2, 3))
        if output.ndim != 2 or output.shape[0] != images.shape[0] or output.shape[1] == 0:
            raise UserError(
                f"Backbone '{self.name}' turned images {list(images.shape)} into {list(output.shape)}; "
                f"[{images.shape[0]}, d] is needed."
            )
        return output.float()


class ModuleBackbone(Backbone):
    """A backbone around an ``nn.Module``: ``made`` at once, or by ``build``, once, on first use."""

    channels_last: bool = False  # convolutions on a CPU run about twice as fast in this layout
    own_code: ClassVar[bool] = False  # somebody's own module: it may do anything
    choice = EngineChoice()
    made: nn.Module

    def build(self) -> nn.Module:
        """Build the network with its weights, in any mode, on any device."""
        return self.made

    def use_engine(self, engine: str | None) -> None:
        """Let another engine compute, before anything is computed; see ``parse_engine``.

        UserError for an engine of CPUs where the device is none.
        """
        self.choice = parse_engine(engine)
        if self.choice.name in RUNTIMES and self.device.type != "cpu":
            raise UserError(
                f"Engine '{self.choice.name}' computes on a CPU, and the device is {self.device.type}",
                "add {device:cpu}, or leave {engine} out",
            )
        if self.choice.channels_last is not None:
            self.channels_last = self.choice.channels_last

    @cached_property
    def conversion(self) -> Conversion | None:
        """Return the network as another engine than PyTorch takes it; None where PyTorch computes."""
        if self.device.type != "cpu":
            return None
        engine = AUTOMATIC if self.choice.name == "auto" else self.choice.name
        if engine == "torch":
            return None
        from longshot.models.features.conversion import Conversion

        require_engine(engine)
        return Conversion(self, engine)

    @property
    def engine(self) -> str:
        """Name what computes, with its version and settings; as planned until ``settle`` was called."""
        conversion = self.conversion
        if conversion is not None and not conversion.refusal():
            return engine_version(conversion.engine)
        return engine_version("torch") + self.choice.settings

    def settle(self, dataset: Dataset, rows: Sequence[int], *, keep: bool = True) -> None:
        """Convert the network where another engine is to compute, unless that was done or refused before."""
        if self.conversion is not None:
            self.conversion.settle(dataset, rows, keep=keep)

    @property
    def settled(self) -> bool:
        """Tell whether the network was converted or refused, or is PyTorch's anyway."""
        return self.conversion is None or self.conversion.settled

    def session(self) -> Session | None:
        """Open the converted network; None where PyTorch computes."""
        conversion = self.conversion
        return None if conversion is None or conversion.network() is None else conversion.session()

    @property
    def converted(self) -> bool:
        return self.conversion is not None and self.conversion.network() is not None

    def portable(self, *, network: bool = True) -> Self:
        twin = copy.copy(self)
        for name in ("module", "compiled", "conversion", "made"):
            twin.__dict__.pop(name, None)
        if network and self.conversion is not None and self.converted:
            twin.conversion = self.conversion.portable(twin)
        else:
            twin.conversion = None
            if network:
                twin.module = self.module
        return twin

    @cached_property
    def module(self) -> nn.Module:
        module = self.build().eval().requires_grad_(False).to(self.device)
        if self.channels_last:
            module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return module

    def prepare(self) -> None:
        _ = self.module

    def images(self, images: Tensor) -> Tensor:
        """Put a batch into the memory layout that the network takes."""
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        return images.contiguous(memory_format=layout)

    @staticmethod
    def run(module: nn.Module, images: Tensor) -> Tensor:
        """Run a module as ``build`` makes it on images: [B, 3, H, W] → [B, d] or [B, d, h, w]."""
        output: Tensor = module(images)
        return output

    @cached_property
    def compiled(self) -> Callable[[nn.Module, Tensor], Tensor]:
        """Return ``run``, compiled where that was asked for."""
        if not self.choice.compile:
            return self.run
        compiled: Callable[[nn.Module, Tensor], Tensor] = torch.compile(self.run, dynamic=False)
        return compiled

    def forward(self, images: Tensor) -> Tensor:
        module = self.module  # first: building it decides the layout
        if self.choice.autocast is None:
            return self.compiled(module, self.images(images))
        with torch.autocast(self.device.type, getattr(torch, self.choice.autocast)):
            return self.compiled(module, self.images(images))

    def trainable(self) -> nn.Module:
        """Return the module to train further: ``module`` itself unless that was changed for speed."""
        return self.module

    def network(self) -> Network:
        from longshot.models.networks.base import Foreign, Network

        module = self.trainable().to(self.device)
        if isinstance(module, Network):  # written by the user after Longshot's own interface
            module.call, module.size = self.opens, self.transform.size
            return module.eval().requires_grad_(False)
        return Foreign(self.opens, module, type(self).run, self.transform.size).eval().requires_grad_(False)


class Precomputed(ABC):
    """Vectors that exist already: rows of a dataset instead of images through a network."""

    name: str
    label: str
    weights_hash: str
    preprocessing: str = "none"
    sight = Sight(own="none")  # no image is read, so a name has nothing to say of it

    @property
    def identity(self) -> str:
        """Hash the vectors; hex SHA-256."""
        return hash_text("longshot vectors 1", self.weights_hash)

    settled: bool = True  # nothing is computed, by no engine
    engine: str = ""
    device = torch.device("cpu")

    def use_sight(self, sight: Sight) -> None:
        """Refuse: no image is read, so there is nothing to say of pixels."""
        option = "{preprocessing}" if sight.text is not None else "size"
        raise UserError(f"Backbone '{self.name}' reads no images", f"leave {option} out")

    def use_engine(self, engine: str | None) -> None:
        """Accept any engine: nothing is computed."""
        parse_engine(engine)

    def settle(self, dataset: Dataset, rows: Sequence[int], *, keep: bool = True) -> None:
        """Do nothing: there is nothing to compute."""
        return

    @abstractmethod
    def rows(self, dataset: Dataset) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        """Return the array [M, d] and the row of each image [N], None where rows follow the dataset's order."""

    def network(self) -> Network:
        """Refuse: there is no network."""
        raise no_network(self.name)


class GivenFeatures(Precomputed):
    """Features made before: they serve for the dataset that they were made from."""

    def __init__(self, features: Features) -> None:
        self.features, self.name, self.label = features, features.backbone, features.backbone
        self.weights_hash, self.preprocessing = features.weights_hash, features.preprocessing

    @property
    def identity(self) -> str:
        """Return the identity of the backbone that made the features."""
        return self.features.backbone_identity

    def rows(self, dataset: Dataset) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        """Return the features' own rows; UserError for another dataset."""
        if self.features.fingerprint != dataset.fingerprint:
            raise UserError(
                f"The features '{self.name}' were made from dataset '{self.features.dataset}' "
                f"({self.features.fingerprint[:12]}…), not from '{dataset.name}' ({dataset.fingerprint[:12]}…); embed "
                f"that one with the same backbone."
            )
        return self.features.array, None


def no_network(name: str) -> UserError:
    """Make the error for a method that needs images and a network where only features were given."""
    return UserError(
        f"Backbone '{name}' gives features only, and the method needs images and a network to adapt; take a trained "
        f"network's folder, efficientnet-lite0, timm:NAME, hf:NAME or torch:FILE.py:FUNCTION, or a method on features."
    )


def hash_state(module: nn.Module, *extra: str) -> str:
    """Hash a state dict (names, types, shapes, bytes; sorted by name) and ``extra``; hex SHA-256."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if not isinstance(value, Tensor):
            digest.update(f"{name} {value!r};".encode())
            continue
        digest.update(f"{name} {value.dtype} {list(value.shape)};".encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    for text in extra:
        digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()


def in_blocks(
    run: Callable[[NDArray[Any]], NDArray[np.float32]], block: int, images: NDArray[Any]
) -> NDArray[np.float32]:
    """Run images [n, …] in blocks of ``block``, the last one filled up with black; vectors [n, d]."""
    short = -len(images) % block
    if short:
        images = np.concatenate([images, np.zeros((short, *images.shape[1:]), images.dtype)])
    vectors = np.concatenate([run(images[start : start + block]) for start in range(0, len(images), block)])
    return vectors[: len(vectors) - short]
