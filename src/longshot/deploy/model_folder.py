"""The folder of a shipped model: what is in it, written with a digest of every file, and read again with all compared.

``model.json`` says what the model is, ``head.safetensors`` what it learned, ``references.json`` its reference photos by
digest with thumbnails, ``network.onnx`` the network where it could be exported. ``card.md`` and ``card.html`` are for
people. ``manifest.json`` holds the digest of each. Nothing of it runs code when it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from longshot import __version__
from longshot.base import (
    LooseRecord,
    Record,
    UserError,
    claim_folder,
    deliver_text,
    hash_json,
    json_text,
    read_json,
)

MODEL, MANIFEST, HEAD = "model.json", "manifest.json", "head.safetensors"
REFERENCES, NETWORK, CARD, PAGE = "references.json", "network.onnx", "card.md", "card.html"
_NEEDED = (MODEL, HEAD, REFERENCES)


class Reference(Record):
    """A reference photo: its class, what it is called in its folder, the SHA-256 of its bytes, and how it looks."""

    class_id: str
    key: str
    digest: str
    thumbnail: str = ""  # a data URI


class References(Record):
    """references.json: of a model, or as ``choose`` writes it for ``fit``."""

    format: Literal[1] = 1
    kind: Literal["references"] = "references"
    dataset: str
    fingerprint: str
    shot: float  # photos per class, on average
    references: tuple[Reference, ...]
    certified: Mapping[str, Any] = Field(default_factory=dict)


class NetworkFacts(Record):
    """Which network computes vectors, whatever it is called."""

    name: str
    identity: str
    weights_hash: str
    preprocessing: str
    engine: str


class ModelFacts(Record):
    """model.json."""

    format: Literal[1] = 1
    kind: Literal["model"] = "model"
    longshot: str = __version__
    version: int = 1  # of the model: a class that is added or removed raises it
    method: str
    network: NetworkFacts
    classes: tuple[str, ...]
    form: str
    temperature: float
    threshold: float | None  # similarity from which on a photo is taken for one of the classes; None: always
    false_accept: float
    dataset: str
    fingerprint: str
    card: Mapping[str, Any] = Field(default_factory=dict)  # what was measured, and on what
    history: tuple[str, ...] = ()  # what was changed since, in words


class Manifest(LooseRecord):
    """manifest.json: the SHA-256 of every other file, and one over all of these."""

    format: Literal[1] = 1
    files: dict[str, str]
    seal: str


def write_model(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a model, the manifest last; a file of an earlier version that is not among them goes."""
    folder.mkdir(parents=True, exist_ok=True)
    from longshot.base import atomic

    for name, content in files.items():
        with atomic(folder / name) as temporary:
            temporary.write_bytes(content)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    for name in {NETWORK} - {*files}:
        (folder / name).unlink(missing_ok=True)
    deliver_text(folder / MANIFEST, json_text({"format": 1, "files": digests, "seal": hash_json(digests)}))


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
    remedy = "copy the model again, or fit it again with {fit(FOLDER)}"
    if not (folder / MANIFEST).is_file():
        raise UserError(
            f"{folder} is no model: it has no {MANIFEST}", "give a folder that {fit(FOLDER)} wrote"
        )
    path = folder / MANIFEST
    manifest = read_json(Manifest, path, f"The model {folder}: {MANIFEST}")
    text = json_text({"format": 1, "files": manifest.files, "seal": hash_json(manifest.files)})
    if path.read_text("utf-8") != text:
        raise UserError(f"The model {folder} was altered: {MANIFEST} is not as it was written", remedy)
    if missing := [name for name in _NEEDED if name not in manifest.files]:
        raise UserError(f"The model {folder} is not whole: its manifest has no {missing[0]}", remedy)
    contents = {}
    for name, digest in manifest.files.items():
        if Path(name).name != name:
            raise UserError(f"The model {folder} names a file outside of itself: '{name}'", remedy)
        try:
            contents[name] = (folder / name).read_bytes()
        except OSError as error:
            raise UserError(
                f"The model {folder} is not whole: {name} cannot be read ({error.strerror})", remedy
            ) from error
        if hashlib.sha256(contents[name]).hexdigest() != digest:
            raise UserError(
                f"The model {folder} was altered: {name} has {len(contents[name]):,} bytes that are not "
                f"those that were "
                "written",
                remedy,
            )
    return contents


def as_json(record: Record) -> bytes:
    """Return a record as readable JSON."""
    return json_text(json.loads(record.model_dump_json())).encode()
