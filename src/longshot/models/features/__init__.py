"""Features: a memory-mapped array [N, d] beside a JSON sidecar that tells where it comes from.

The sidecar holds a checksum per block of rows and one of itself. In the cache the keys of the images lie apart, in an
Arrow file, so that a million of them need not be parsed; a copy that ``save`` writes has them in its sidecar.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import (
    Ints,
    OutputKind,
    UserError,
    claim_output,
    count,
    deliver_text,
    delivered,
    hash_file,
    hash_text,
    html_facts,
    is_stream,
    is_url,
    opened_copy,
    starts_with,
    url_beside,
)
from longshot.data import pack_digests
from longshot.models.features.array_files import (
    CHUNK,
    Damaged,
    LastCheck,
    block_sums,
    check_blocks,
    check_finite,
    check_json,
    describe,
    guarded_json,
    inline_keys,
    keys_file,
    open_array,
    read_features_sidecar,
    read_keys,
    sidecar,
    write_header,
    write_keys,
    write_rows,
)
from longshot.models.features.cache import features_view, images_mark

BLOCK = 512  # rows that share a checksum: a shard of ``embed``
_STORY = (
    *("dataset", "fingerprint", "backbone", "weights_hash", "preprocessing", "hash"),
    *("identity", "content", "backbone_identity", "story"),
)
_SIDECAR = OutputKind("sidecar of features", {".json": starts_with('{"format": 2, "rows": ')})
_ARRAY = OutputKind(
    "set of features", {".npy": lambda path: _SIDECAR.endings[".json"](sidecar(path))}, bare=False
)


@dataclass(frozen=True)
class EmbedWork:
    """What it took to have features: nothing where they were computed before."""

    cached: bool = True  # nothing was computed
    shards: int = 0
    resumed: int = 0  # shards that an earlier run had finished
    images: int = 0  # computed in this call
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Features:
    """N images of C classes as d numbers each; row order and class bounds are those of the dataset.

    ``array`` [N, d] is float16 or float32 and memory-mapped: it is as large as the file, and takes no memory
    until rows are read. ``hash`` is the content-address: images, network, preprocessing, dtype. ``identity`` says what
    the features vouch for: "content" (``content`` is one digest over the bytes of all images, ``digests`` [N] the first
    64 bits of each image's own) or "names".

    Parameters
    ----------
    array : array [N, d] of float16 or float32
        One row per image.
    keys : pyarrow.Array [N] of str
        The images' keys.
    class_ids : tuple [C] of str
        The classes.
    offsets : array [C + 1] of int
        Where the rows of each class begin and end.
    dataset, fingerprint : str
        Name and fingerprint of the dataset.
    backbone, weights_hash, preprocessing : str
        What computed them.
    hash : str
        Content-address.
    path : Path, optional
        Where the array lies.
    story : dict
        How they were made: device, versions.
    identity, content, digests
        What they vouch for, see above.
    work : EmbedWork
        What ``embed`` computed to have them.
    backbone_identity : str
        Of weights, preprocessing, pooling and engine, whatever the backbone is called.
    used : array [M] of int, optional
        The rows that may be read, ascending, where only part of the dataset was embedded; None for all. ``hash`` and
        ``content`` are then those of these images.

    Examples
    --------
    >>> features = longshot.embed("toybox", "pixels")
    >>> features.array.shape == (len(features), features.dim)
    True
    >>> features.rows(1)
    slice(16, 32, None)
    >>> features.save("pixels.npy")
    >>> longshot.Features.load("pixels.npy").hash == features.hash
    True
    """

    array: NDArray[np.float16] | NDArray[np.float32]
    keys: pa.Array
    class_ids: tuple[str, ...]
    offsets: Ints
    dataset: str
    fingerprint: str
    backbone: str
    weights_hash: str
    preprocessing: str
    hash: str
    path: Path | None = None
    story: dict[str, Any] = field(default_factory=dict)  # how they were made: device, versions
    identity: str = "names"
    content: str = ""
    digests: NDArray[np.uint64] | None = None
    work: EmbedWork = EmbedWork()  # what ``embed`` did to have them; not stored
    # of weights, preprocessing, pooling and engine, whatever the backbone is called
    backbone_identity: str = ""
    used: Ints | None = None  # rows that may be read; None: all

    def __post_init__(self) -> None:
        if not self.backbone_identity:  # made before backbones had one, or by hand
            identity = hash_text("longshot features of", self.weights_hash, self.preprocessing)
            object.__setattr__(self, "backbone_identity", identity)

    @property
    def dim(self) -> int:
        """Return the numbers per image (d)."""
        return int(self.array.shape[1])

    def __len__(self) -> int:
        return int(self.array.shape[0])

    @property
    def view(self) -> str:
        """Hash names, network and dtype, the same whichever images are in use; 32 hex digits."""
        if self.identity != "content":
            return self.hash[:32]
        return features_view(
            self.fingerprint, self.identity, "", self.backbone_identity, self.array.dtype.name
        )

    def hash_of(self, rows: Ints) -> str:
        """Return the hash of features of these rows alone: of the network and of these images' content.

        Parameters
        ----------
        rows : array [M] of int
            Distinct rows, ascending.

        Examples
        --------
        >>> features = longshot.embed("toybox", "pixels")
        >>> features.hash_of(np.arange(5)) == features.restricted(np.arange(5)).hash
        True
        """
        if self.identity != "content" or self.digests is None:
            return self.hash
        return self.view + images_mark(self.keys.take(pa.array(rows)), self.digests[rows])

    def restricted(self, rows: Ints) -> Features:
        """Return the same features with only some rows in use.

        Parameters
        ----------
        rows : array [M] of int
            Distinct rows, ascending. UserError where one of them was not embedded.

        Examples
        --------
        >>> part = longshot.embed("toybox", "pixels").restricted(np.arange(5))
        >>> len(part.used)
        5
        """
        self.check_used(rows)
        if len(rows) == len(self) or (self.used is not None and np.array_equal(rows, self.used)):
            return self
        return replace(self, used=rows, hash=self.hash_of(rows))

    def check_used(self, rows: Ints) -> None:
        """Refuse rows that may not be read.

        Parameters
        ----------
        rows : array of int
            Any rows.

        Examples
        --------
        >>> part = longshot.embed("toybox", "pixels").restricted(np.arange(5))
        >>> part.check_used(np.array([0, 4]))
        """
        if self.used is None:
            return
        missing = np.setdiff1d(rows, self.used)
        if len(missing):
            verb = "is" if len(missing) == 1 else "are"
            raise UserError(
                f"The features of '{self.dataset}' through '{self.backbone}' hold {len(self.used):,} of "
                f"{len(self):,} images, and {count(len(missing), 'image')} in use {verb} not among them (first: "
                f"'{self.keys[int(missing[0])].as_py()}')",
                "embed the whole dataset",
            )

    def __repr__(self) -> str:
        lines = [f"{name}: {text}" for name, text in self._facts().items()]
        return "\n  ".join([f"Features of '{self.dataset}' through '{self.backbone}'", *lines])

    def _repr_html_(self) -> str:
        return html_facts({"dataset": self.dataset, "backbone": self.backbone, **self._facts()})

    def _facts(self) -> dict[str, str]:
        """Collect what a person wants to know at a glance."""
        part = "" if self.used is None else f", {len(self.used):,} of them embedded"
        return {
            "array": f"{describe(self.array)}, {count(self.class_ids, 'class', 'classes')}{part}",
            "preprocessing": self.preprocessing,
            "images": f"by content, {self.content[:12]}" if self.identity == "content" else "by name only",
            "hash": self.hash[:12],
            "file": str(self.path or "not on disk"),
        }

    def rows(self, class_index: int) -> slice:
        """Return the rows of a class.

        Parameters
        ----------
        class_index : int
            Position in ``class_ids``.
        """
        return slice(int(self.offsets[class_index]), int(self.offsets[class_index + 1]))

    @classmethod
    def load(cls, path: str | Path, *, check: bool = True) -> Features:
        """Open an array and its sidecar.

        Parameters
        ----------
        path : path or URL
            The ``.npy``; its sidecar is the ``.json`` of the same name.
        check : bool
            Refuse NaN and infinite values. The cache, which never writes any, opens its own files without.

        Notes
        -----
        The array is read once, in blocks, and compared with its checksums. Later calls look only whether size, time or
        inode of the file changed. ``Damaged`` is raised where it is not as it was written.
        """
        if is_url(path):
            with opened_copy(path, also=(sidecar(Path(path)).name,)) as copy:
                return cls.load(copy, check=check)
        path = Path(path)
        data, meta = read_features_sidecar(path)
        mark = check_json(sidecar(path), data)
        array = open_array(path)
        class_ids, offsets = meta["class_ids"], np.array(meta["offsets"], np.int64)
        if array.shape != (meta["rows"], meta["dim"]) or array.dtype.name != meta["dtype"]:
            raise UserError(
                f"Features {path} hold {describe(array)}, but the sidecar {sidecar(path).name} says "
                f"{meta['rows']:,} × {meta['dim']:,} {meta['dtype']}",
                "embed again",
            )
        inline = meta.get("keys") is not None
        keys, digests = inline_keys(meta) if inline else read_keys(path)
        if len(keys) != len(array) or len(offsets) != len(class_ids) + 1 or offsets[-1] != len(array):
            raise UserError(
                f"The sidecar {sidecar(path)} names {len(keys):,} keys and {len(class_ids):,} classes for "
                f"{len(array):,} rows, which do not fit together",
                "embed again",
            )
        last = LastCheck([path] if inline else [path, keys_file(path)], f"{mark} {check}")
        if not last.holds():
            check_blocks(path, array, meta["block"], meta["sums"])
            if not inline and hash_file(keys_file(path)) != meta["keys_hash"]:
                intact = np.ones(len(meta["sums"]), np.bool_)
                raise Damaged(keys_file(path), "its keys are not those that were written", intact)
            if check:
                check_finite(path, array, keys)
            last.remember()
        return cls(
            array=array,
            keys=keys,
            class_ids=tuple(class_ids),
            offsets=offsets,
            path=path,
            digests=digests,
            **{name: meta[name] for name in _STORY},
        )

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write a copy as ``path`` (.npy) with its sidecar, each whole or not at all.

        Parameters
        ----------
        path : path or URL
            Ends in ``.npy``; the sidecar ends in ``.json``.
        force : bool
            Replace what is there, even if Longshot did not write it.
        """
        claim_features(path, force=force)
        if is_url(path):
            from longshot.base import put_file, work_folder

            with work_folder() as folder:
                copy = folder / Path(path).name
                self.save(copy)
                put_file(copy, str(path), bar=True)
                # last: it marks the pair as complete
                put_file(sidecar(copy), url_beside(str(path), sidecar(copy).name))
            return
        path = Path(path)
        self.check_used(np.arange(len(self)))
        with delivered(path) as temporary, temporary.open("wb") as file:
            write_header(file, self.array.shape, self.array.dtype)
            step = max(1, CHUNK // max(1, self.dim * self.array.itemsize))
            for start in range(0, len(self), step):
                write_rows(file, self.array[start : start + step])
        self.write_sidecar(path)

    def write_sidecar(self, path: Path, *, sums: list[str] | None = None, keys_apart: bool = False) -> None:
        """Write the sidecar of ``path``; written after the array, it marks the pair as complete.

        Parameters
        ----------
        path : Path
            Of the array.
        sums : list of str, optional
            The checksum of every ``BLOCK`` rows; computed from the array unless given.
        keys_apart : bool
            Keys and digests go into a file of their own.

        Examples
        --------
        >>> features = longshot.embed("toybox", "pixels")
        >>> features.save("again.npy")
        >>> features.write_sidecar(Path("again.npy"))
        """
        rows: dict[str, Any]
        if keys_apart:
            write_keys(path, self.keys, self.digests)
            rows = {"keys_hash": hash_file(keys_file(path))}
        else:
            packed = None if self.digests is None else pack_digests(self.digests)
            rows = {"keys": self.keys.to_pylist(), "digests": packed}
        meta = {
            "format": 2,
            "rows": len(self),
            "dim": self.dim,
            "dtype": self.array.dtype.name,
            **{name: getattr(self, name) for name in _STORY},
            "block": BLOCK,
            "sums": block_sums(self.array, BLOCK) if sums is None else sums,
            "class_ids": list(self.class_ids),
            "offsets": self.offsets.tolist(),
            **rows,
        }
        deliver_text(sidecar(path), guarded_json(meta))


def claim_features(out: str | Path, *, force: bool = False) -> None:
    """Refuse where features may not be written to ``out`` (.npy) and their sidecar beside it."""
    if is_stream(out):
        raise UserError(
            f"Features are two files, FILE.npy and FILE.json, and '{out}' is none", "name {out:FILE.npy}"
        )
    claim_output(out, _ARRAY, force=force)
    if not is_url(out):
        claim_output(sidecar(Path(out)), _SIDECAR, force=force)
