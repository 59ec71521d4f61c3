"""``npy:FILE``: embeddings the user already has.

FILE.npy is [N, d]. Its rows follow the dataset's order, unless keys say otherwise: FILE.keys.txt with one key
per line, or a Longshot sidecar FILE.json (as ``embed -o`` writes). FILE.npz holds ``features`` and optional
``keys``.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import UserError, count, first, hash_file, hash_text
from longshot.data import Dataset
from longshot.models.backbones.base import Precomputed
from longshot.models.backbones.sight import Sight
from longshot.models.features.arrays import describe, load_problem, sidecar
from longshot.models.features.features import Features


class Npy(Precomputed):
    """The array of a file, matched with the images of a dataset."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.label, self.path = name, name, path
        keys = [file for file in (sidecar(path), _keys_file(path)) if file.is_file()]
        self.weights_hash = hash_text(hash_file(path), *(hash_file(file) for file in keys))

    def rows(self, dataset: Dataset) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        array, keys = self._read()
        if array.ndim != 2 or array.dtype.kind != "f" or array.shape[1] == 0:
            raise UserError(f"{self.path} holds {describe(array)}; images × dimensions of floats is needed.")
        if keys is None:
            if len(array) != len(dataset):
                raise UserError(
                    f"{self.path} has {count(len(array), 'row')}, dataset '{dataset.name}' has "
                    f"{count(len(dataset), 'image')}; give one row per image in the dataset's order, or keys "
                    f"in {_keys_file(self.path).name}."
                )
            return array, None
        if len(keys) != len(array):
            raise UserError(
                f"{self.path} has {len(array):,} rows but {len(keys):,} keys; give one key a row."
            )
        rows = pc.index_in(dataset.keys, value_set=pa.array(keys, pa.string()))
        if rows.null_count:
            missing = pc.filter(dataset.keys, pc.is_null(rows)).to_pylist()
            raise UserError(
                f"{self.path} lacks embeddings of {len(missing):,} of the {len(dataset):,} images of dataset "
                f"'{dataset.name}' ({first(missing)}); embed those as well."
            )
        return array, rows.to_numpy(zero_copy_only=False).astype(np.int64)

    def _read(self) -> tuple[NDArray[Any], list[str] | None]:
        try:
            loaded = np.load(self.path, mmap_mode="r", allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded, self._keys_beside()
            if "features" not in loaded:
                raise UserError(
                    f"{self.path} holds {', '.join(loaded.files) or 'nothing'}; 'features' is needed."
                )
            return loaded["features"], [str(k) for k in loaded["keys"]] if "keys" in loaded else None
        except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise UserError(
                f"{self.path} cannot be read ({load_problem(error)}): it is truncated, or no .npy or .npz of floats; "
                f"write it again with np.save."
            ) from error

    def _keys_beside(self) -> list[str] | None:
        text = _keys_file(self.path)
        if text.is_file():
            return text.read_text(encoding="utf-8").splitlines()
        if not sidecar(self.path).is_file():
            return None
        meta = json.loads(sidecar(self.path).read_text(encoding="utf-8"))
        if not isinstance(meta, dict):
            return None
        if "checksum" in meta or "sums" in meta:  # written by Longshot: checked, and an error when damaged
            return [str(key) for key in Features.load(self.path, check=False).keys.to_pylist()]
        return [str(key) for key in meta["keys"]] if isinstance(meta.get("keys"), list) else None


def load(name: str, *, device: str, sight: Sight, allow_download: bool) -> Npy:
    """The file's embeddings; no image is read, so a preprocessing string makes no sense."""
    path = Path(name.removeprefix("npy:"))
    if not path.is_file():
        raise UserError(f"Backbone '{name}': there is no file {path}; give a .npy or .npz of embeddings.")
    if sight.given:
        option = "{preprocessing}" if sight.text is not None else "size"
        raise UserError(f"Backbone '{name}' reads no images", f"leave {option} out")
    return Npy(name, path)


def _keys_file(path: Path) -> Path:
    return path.with_suffix(".keys.txt")
