"""Networks converted for a runtime, kept in the cache once they were found to agree with PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import cache_dir, find_cached, hash_text, note, read_sealed, write_sealed
from longshot.models.engines import engine_version, is_convolutional
from longshot.models.engines.export import NotExportable, export
from longshot.models.engines.sessions import Session, in_blocks, open_session
from longshot.models.features.decode import decode_rows

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.models.backbones.base import ModuleBackbone

_COMPARED = 16  # images, at most
TOLERANCE = 1e-4  # largest ‖converted − PyTorch‖ / ‖PyTorch‖ of an image's vector
_RULES = "longshot converted 2"
# Images that a converted network sees at once. Convolutions gain from sixteen; the tokens of four images fill a matrix
# product already, and more only outgrow the cache (ViT-S/16 in ONNX Runtime: 99 ms an image in fours, 112 in sixteens).
_CONVOLVED, _OTHER = 16, 4


class Conversion:
    """A network for one engine and one shape of blocks: in the cache, refused, or not yet tried."""

    def __init__(self, backbone: ModuleBackbone, engine: str) -> None:
        self.backbone, self.engine = backbone, engine
        transform = backbone.transform
        self.key = hash_text(
            _RULES,
            type(backbone).__name__,
            backbone.architecture,
            backbone.weights_hash,
            backbone.pooling,
            repr((transform.size, transform.scale, transform.shift)),
            engine_version(engine),
        )
        self._network: bytes | None = None
        self._refusal = ""

    def network(self) -> bytes | None:
        """The ONNX file; None where there is none that agrees with PyTorch."""
        if self._network is None:
            self._network = _read(f"{self.key}.onnx")
        return self._network

    def portable(self, backbone: ModuleBackbone) -> Conversion:
        """A copy for a backbone in another process, with the ONNX file in it."""
        self.network()
        twin = copy.copy(self)
        twin.backbone = backbone
        return twin

    def refusal(self) -> str:
        """Why the network stays with PyTorch; empty where nothing says so."""
        return self._refusal or (_read(f"{self.key}.refused") or b"").decode()

    @property
    def settled(self) -> bool:
        """Whether the cache says how it ended."""
        endings = (".onnx", ".refused")
        return any(find_cached("converted", f"{self.key}{ending}") is not None for ending in endings)

    def settle(self, dataset: Dataset, rows: Sequence[int], *, keep: bool) -> None:
        """Convert the network unless that was done or refused before; compare with PyTorch on images at hand.

        Parameters
        ----------
        dataset : Dataset
            Where the images come from.
        rows : sequence of int
            Those to choose from; up to sixteen of them are compared, evenly spread.
        keep : bool
            Write to the cache how it ended.
        """
        if self.network() is not None or self.refusal():
            return
        pixels = self._images(dataset, rows)
        if not len(pixels):  # embedding will say which images cannot be read
            self._refusal = "no image could be read to compare with"
            return
        try:
            network = self._convert(pixels, dataset.name)
        except NotExportable as error:
            self._refusal = str(error)
            note(f"backbone '{self.backbone.label}' computes with PyTorch instead of {self.engine}: {error}")
            if keep:
                write_sealed(cache_dir("converted") / f"{self.key}.refused", self._refusal.encode())
            return
        self._network = network
        if keep:
            write_sealed(cache_dir("converted") / f"{self.key}.onnx", network)

    def _convert(self, pixels: NDArray[np.uint8], dataset: str) -> bytes:
        """The ONNX file; NotExportable where there is none, or none that agrees on these images."""
        reference = self._by_torch(pixels)
        backbone = self.backbone
        block = _CONVOLVED if is_convolutional(backbone.module) else _OTHER
        network = export(
            backbone.module, type(backbone).run, backbone.transform, block, strict=backbone.own_code
        )
        try:
            answer = in_blocks(open_session(self.engine, network), pixels)
        except Exception as error:  # a runtime raises classes of its own
            reason = " ".join(str(error).split())[:200].rstrip(".")
            raise NotExportable(f"{self.engine} cannot run it ({reason})") from error
        apart = difference(answer, reference)
        if not apart <= TOLERANCE:
            raise NotExportable(
                f"on {len(pixels)} images of '{dataset}' it is {apart:.1e} away from PyTorch, more than {TOLERANCE:g}"
            )
        return network

    def session(self) -> Session:
        """The converted network, ready to run."""
        network = self.network()
        assert network is not None
        return open_session(self.engine, network)

    def _images(self, dataset: Dataset, rows: Sequence[int]) -> NDArray[np.uint8]:
        pieces = []
        for position in np.unique(np.linspace(0, len(rows) - 1, _COMPARED).astype(np.int64)):
            row = int(rows[int(position)])
            decoded = decode_rows(dataset.store, self.backbone.transform, range(row, row + 1))
            if not decoded.bad:
                pieces.append(decoded.pixels)
        return np.concatenate(pieces) if pieces else np.empty((0, 0, 0, 3), np.uint8)

    def _by_torch(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        transform = self.backbone.transform
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float()
        scale, shift = (torch.tensor(v).reshape(1, 3, 1, 1) for v in (transform.scale, transform.shift))
        with torch.inference_mode():
            vectors: NDArray[np.float32] = self.backbone(images.mul_(scale).add_(shift)).numpy()
        return vectors


def difference(vectors: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    """The largest ‖v − r‖ / ‖r‖ over the rows of two arrays [n, d]; NaN where one holds NaN."""
    norms = np.linalg.norm(reference.astype(np.float64), axis=1)
    gaps = np.linalg.norm(vectors.astype(np.float64) - reference, axis=1)
    return float(np.max(gaps / np.maximum(norms, np.finfo(np.float32).tiny)))


def _read(name: str) -> bytes | None:
    path = find_cached("converted", name)
    content = read_sealed(path) if path is not None else None
    return None if content is None else bytes(content)
