"""The folder of a shipped model: what is in it, written with a digest of every file, and read again with all compared.

``model.json`` says what the model is, ``head.safetensors`` what it learned, ``references.json`` its reference photos by
digest with thumbnails, ``network.onnx`` the network where it could be exported. ``card.md`` and ``card.html`` are for
people. ``manifest.json`` holds the digest of each. Nothing of it runs code when it is read, whoever made it: only files
of these names are opened, none through a link, and none larger than a model needs.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from longshot import __version__
from longshot.base import (
    LooseRecord,
    Record,
    UserError,
    atomic,
    claim_folder,
    hash_json,
    json_text,
    read_json,
)
from longshot.statistics import Interval

MODEL, MANIFEST, HEAD = "model.json", "manifest.json", "head.safetensors"
REFERENCES, NETWORK, CARD, PAGE = "references.json", "network.onnx", "card.md", "card.html"
_NEEDED = (MODEL, HEAD, REFERENCES)
_LARGEST = {MANIFEST: 1 << 16, MODEL: 1 << 26, NETWORK: 1 << 31}  # bytes; an ONNX file has no more than 2 GB
_REMEDY = "copy the model again, or fit it again with {fit(FOLDER)}"


class Reference(Record):
    """A reference photo: its class, what it is called in its folder, the SHA-256 of its bytes, and how it looks."""

    class_id: str
    key: str
    digest: str
    thumbnail: str = Field("", pattern=r"^(data:image/webp;base64,[A-Za-z0-9+/=]*)?$")


class References(Record):
    """references.json: of a model, or as ``choose`` writes it for ``fit``."""

    format: Literal[1] = 1
    kind: Literal["references"] = "references"
    dataset: str
    fingerprint: str
    shot: float  # photos per class, on average
    references: tuple[Reference, ...]
    seen: tuple[str, ...] = ()  # digests of the photos that took part in choosing them
    certified: Mapping[str, Any] = Field(default_factory=dict)


class NetworkFacts(Record):
    """Which network computes vectors, whatever it is called."""

    name: str
    identity: str
    weights_hash: str
    preprocessing: str
    engine: str


class Measured(Record):
    """A record with intervals, which are read from plain values."""

    model_config = ConfigDict(strict=False)


class ClassMeasured(Measured):
    """What was measured of one class: its accuracy with Wilson's interval."""

    class_id: str
    accuracy: Interval
    taken_for: str = ""


class Card(Measured):
    """What was measured of a model, and on what; of too few photos nothing was."""

    photos: int
    evidence: str = ""  # where the photos come from, in words
    versions: dict[str, str] = Field(default_factory=dict)
    accuracy: Interval | None = None
    ece: float | None = None
    fair_ece: float | None = None  # what a perfectly calibrated model would be measured at on as many photos
    confidence_gap: float | None = None
    false_accepts: Interval | None = None
    accepted: tuple[tuple[float, Interval], ...] = ()  # by the rate of false accepts, that of the model first
    classes: tuple[ClassMeasured, ...] = ()


class ModelFacts(Record):
    """model.json."""

    format: Literal[3] = 3
    kind: Literal["model"] = "model"
    longshot: str = __version__
    version: int = 1  # of the model: a class that is added or removed raises it
    method: str
    network: NetworkFacts
    classes: tuple[str, ...]
    form: Literal["plain", "unit", "centred", "support"]
    certainty: tuple[float, float, float]  # temperature, and slope and bias of the best class
    threshold: float | None  # similarity from which on a photo is taken for one of the classes; None: always
    false_accept: float
    dataset: str
    fingerprint: str
    card: Card
    history: tuple[str, ...] = ()  # what was changed since, in words


class Manifest(LooseRecord):
    """manifest.json: the SHA-256 of every other file, and one over all of these."""

    format: Literal[1] = 1
    files: dict[str, str]
    seal: str


def write_model(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a model, the manifest last; a file of an earlier version that is not among them goes."""
    folder.mkdir(parents=True, exist_ok=True)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    for name, content in {**files, MANIFEST: _manifest(digests)}.items():
        with atomic(folder / name) as temporary:
            temporary.write_bytes(content)
    for name in {NETWORK} - {*files}:
        (folder / name).unlink(missing_ok=True)


def _manifest(digests: Mapping[str, str]) -> bytes:
    return json_text({"format": 1, "files": digests, "seal": hash_json(digests)}).encode()


def is_model(path: object) -> bool:
    """Tell whether a path is the folder of a shipped model."""
    return (
        isinstance(path, str | Path) and (Path(path) / MANIFEST).is_file() and (Path(path) / MODEL).is_file()
    )


def claim_model(out: str | Path) -> None:
    """Refuse where a model may not be written: a folder of something else."""
    claim_folder(out, "model", (MANIFEST,))


def read_files(folder: Path) -> dict[str, bytes]:
    """Read every file of a model; UserError names the first that is missing or altered, by a byte or more."""
    if not (folder / MANIFEST).exists():
        raise UserError(
            f"{folder} is no model: it has no {MANIFEST}", "give a folder that {fit(FOLDER)} wrote"
        )
    text = _read_file(folder, MANIFEST)
    manifest = read_json(Manifest, folder / MANIFEST, "The model file")
    if text != _manifest(manifest.files):
        raise UserError(f"The model {folder} was altered: {MANIFEST} is not as it was written", _REMEDY)
    if missing := [name for name in _NEEDED if name not in manifest.files]:
        raise UserError(f"The model {folder} is not whole: its manifest has no {missing[0]}", _REMEDY)
    contents = {}
    for name, digest in manifest.files.items():
        if name not in (*_NEEDED, NETWORK, CARD, PAGE):
            raise UserError(f"The model {folder} names a file that is none of a model's: '{name}'", _REMEDY)
        contents[name] = _read_file(folder, name)
        if hashlib.sha256(contents[name]).hexdigest() != digest:
            raise UserError(
                f"The model {folder} was altered: the {len(contents[name]):,} bytes of {name} are not those that were "
                "written",
                _REMEDY,
            )
    return contents


def _read_file(folder: Path, name: str) -> bytes:
    """Read a file of a model whole; UserError for a link, a pipe, or one larger than it can be."""
    path, most = folder / name, _LARGEST.get(name, 1 << 30)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            facts = os.fstat(handle)
            if stat.S_ISREG(facts.st_mode) and facts.st_size <= most:
                return file.read()
            reason = f"it is no file of at most {most:,} bytes"
    except OSError as error:
        reason = "it is a link" if path.is_symlink() else str(error.strerror)
    raise UserError(f"The model {folder} is not whole: {name} cannot be read ({reason})", _REMEDY)


def as_json(record: Record) -> bytes:
    """Return a record as readable JSON."""
    return json_text(json.loads(record.model_dump_json())).encode()
