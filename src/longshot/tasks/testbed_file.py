"""The Parquet file that a testbed lives in: tasks as rows, provenance and digests of the images in its metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from longshot.base import (
    Kind,
    Loose,
    UserError,
    canonical_json,
    claim_output,
    delivered,
    has_parquet,
    is_stream,
    is_url,
    read_parquet,
)
from longshot.tasks import columns
from longshot.tasks.content import ImageContent, pack, unpack, used_keys

FORMAT = 2
_META_KEY = b"longshot"
_DIGESTS_KEY = b"longshot.digests"  # short digests of the images used; see ``content.pack``
# Fixed, so that equal tables give equal files.
_WRITE = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 30}
_ROW_GROUP = 1 << 16
KIND = Kind("testbed", {".parquet": has_parquet("longshot", content_hash=...)})


class _Meta(Loose):
    """What the metadata of a testbed file holds."""

    format: int
    datasets: dict[str, str]  # name → fingerprint
    content: dict[str, dict[str, Any]]  # name → what its images are made of
    features: str | None
    sampler: dict[str, Any]
    seed: int | None
    content_hash: str
    labels: dict[str, dict[str, str]] = Field(
        default_factory=dict
    )  # dataset → class → what a taxonomy calls it


def claim_testbed(
    path: str | os.PathLike[str], facts: Mapping[str, Any] | None = None, *, force: bool = False
) -> None:
    """UserError unless a testbed may be written to ``path``, where another one is not replaced without ``force``.

    Parameters
    ----------
    path : path or URL
        Where it is to go.
    facts : mapping, optional
        What is known of it: ``datasets``, ``seed`` and ``content_hash``, and of ``sampler`` any part. All that
        the file at ``path`` tells of these must be the same.
    force : bool
        Replace whatever file is there.
    """
    claim_output(path, KIND, force=force)
    if force or facts is None or is_url(path) or is_stream(path) or not Path(path).is_file():
        return
    if not Path(path).stat().st_size:
        return
    there = json.loads(pq.read_metadata(path).metadata[_META_KEY])
    now = json.loads(canonical_json(facts))
    sampler = now.pop("sampler", {}) if "concat" not in there.get("sampler", {}) else {}
    pairs = [(name, there.get(name), value) for name, value in now.items()]
    pairs += [(name, there.get("sampler", {}).get(name), value) for name, value in sampler.items()]
    differing = [
        name.replace("_", " ") for name, before, value in pairs if name != "sampler" and before != value
    ]
    if differing:
        raise UserError(
            f"{path} holds another testbed, whose {' and '.join(differing)} "
            f"{'differs' if differing[0][-1] != 's' and len(differing) == 1 else 'differ'}",
            "choose another name with {out}, or replace it with {force:True}",
        )


def write_file(
    path: str | os.PathLike[str],
    table: pa.Table,
    meta: Mapping[str, Any],
    contents: Mapping[str, ImageContent],
) -> None:
    """Write the file, whole or not at all; equal testbeds give equal bytes."""
    table = table.replace_schema_metadata(None)
    with delivered(path) as temporary, pq.ParquetWriter(temporary, table.schema, **_WRITE) as writer:
        writer.write_table(table, row_group_size=_ROW_GROUP)
        # Not as metadata of the table: that would be written twice.
        writer.add_key_value_metadata({_META_KEY: canonical_json(meta), _DIGESTS_KEY: pack(contents)})


def read_file(file: Path) -> tuple[pa.Table, dict[str, Any], dict[str, ImageContent]]:
    """The tasks, the facts and the content of a testbed file, whose content hash is verified."""
    if not file.is_file():
        raise UserError(
            f"There is no testbed file at {file}", f"draw one with {{sample(DATASET, out={file.name})}}"
        )
    try:
        table = read_parquet(file)
        table.validate(full=True)  # damaged bytes can decode to indices that point nowhere
        metadata = pq.read_metadata(file).metadata or {}
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, PermissionError):
            raise UserError(f"Cannot read {file}: {error.strerror}; check its permissions.") from error
        raise UserError(
            f"{file} cannot be read as a Parquet file: it is truncated, damaged or of another kind",
            "copy it again or draw it again with {sample()}",
        ) from error
    meta, packed = _read_meta(file, metadata)
    try:
        table = columns.canonical(table.replace_schema_metadata(None))
        content_hash = columns.content_hash(table, hashed_facts(meta, packed))
        if content_hash != meta["content_hash"]:
            raise UserError(
                f"its content hash is {content_hash[:12]}…, but its metadata says "
                f"{str(meta['content_hash'])[:12]}…: it was changed after it was written",
                "take an unchanged copy or draw it again with {sample()}",
            )
        columns.check(table)
        contents = _read_content(table, meta, packed)
    except UserError as error:
        raise UserError(f"The testbed {file} is not valid: {error.template}") from error
    return table, meta, contents


def read_outline(file: Path) -> tuple[pa.Table, str]:
    """What the tasks of a file are like, without their images, and the content hash that it claims; for a quick look.

    The columns are ``task``, ``dataset``, ``way``, ``shots``, ``query_label`` and what was measured. Nothing but the
    file's form is verified: UserError where it cannot be read.
    """
    try:
        opened = pq.ParquetFile(file)
        images = ("classes", "support", "query", "support_label")
        names = [name for name in opened.schema_arrow.names if name not in images]
        table = opened.read(columns=names)
        table.validate(full=True)
        meta, _ = _read_meta(file, opened.metadata.metadata or {})
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{file} cannot be read as a Parquet file: it is truncated or damaged.") from error
    return table.combine_chunks(), str(meta["content_hash"])


def hashed_facts(meta: Mapping[str, Any], packed: str) -> str:
    """What the content hash covers beside the columns: all but itself, labels and the version that wrote it."""
    facts = {k: v for k, v in meta.items() if k not in ("content_hash", "creator", "labels")}
    return canonical_json({**facts, "digests": packed})


def _read_meta(file: Path, metadata: Mapping[bytes, bytes]) -> tuple[dict[str, Any], str]:
    """The facts of a file, and the short digests of its images as text."""
    raw = metadata.get(_META_KEY)
    if raw is None:
        raise UserError(
            f"{file} is a Parquet file, but not a testbed: it lacks the 'longshot' metadata",
            "draw a testbed with {sample()}",
        )
    try:
        meta: dict[str, Any] = json.loads(raw)
        if meta["format"] == 1:
            raise UserError(
                f"{file} has testbed format 1, which says nothing about the bytes of its images",
                "draw it again with {sample()}",
            )
        if meta["format"] != FORMAT:
            raise UserError(
                f"{file} has testbed format {meta['format']}, this version reads {FORMAT}", "update longshot"
            )
        _Meta.model_validate(meta)
        return meta, metadata.get(_DIGESTS_KEY, b"").decode("ascii")
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"The metadata of {file} is damaged", "take an unchanged copy of the testbed"
        ) from error


def _read_content(table: pa.Table, meta: Mapping[str, Any], packed: str) -> dict[str, ImageContent]:
    """What the metadata says about the images; UserError where that is not about the images of the tasks."""
    try:
        contents = unpack(meta["content"], packed)
    except ValueError as error:
        raise UserError(
            f"its record of the images does not hold together ({error})", "draw it again with {sample()}"
        ) from error
    for name in meta["datasets"]:
        images = len(used_keys(table, name))
        recorded = contents[name].images if name in contents else 0
        if recorded != images:
            raise UserError(
                f"its tasks use {images:,} images of '{name}', but it has a record of {recorded:,}",
                "draw it again with {sample()}",
            )
    return contents
