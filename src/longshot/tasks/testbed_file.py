"""The Parquet file that a testbed lives in, with its provenance, and where a testbed comes from.

Tasks are rows; provenance and digests of the images are in the file's metadata. From it come the testbeds that it
joins, and in words how it was drawn.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from longshot.base import (
    LooseRecord,
    OutputKind,
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
from longshot.tasks.content import (
    ImageContent,
    content_hash,
    pack,
    union,
    unpack,
    used_keys,
)

if TYPE_CHECKING:
    from longshot.tasks.testbed import Testbed


FORMAT = 3
_META_KEY = b"longshot"
_DIGESTS_KEY = b"longshot.digests"  # digests of the images used; see ``content.pack``
# Fixed, so that equal tables give equal files.
_WRITE = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 30}
_ROW_GROUP = 1 << 16
KIND = OutputKind("testbed", {".parquet": has_parquet("longshot", content_hash=...)})


class _Meta(LooseRecord):
    """What the metadata of a testbed file holds."""

    format: int
    datasets: dict[str, str]  # name → fingerprint
    content: dict[str, dict[str, Any]]  # name → what its images are made of
    features: str | None
    sampler: dict[str, Any]
    seed: int | None
    content_hash: str
    checksum: str
    # dataset → class → what a taxonomy calls it
    labels: dict[str, dict[str, str]] = Field(default_factory=dict)


def claim_testbed(
    path: str | os.PathLike[str], facts: Mapping[str, Any] | None = None, *, force: bool = False
) -> None:
    """Raise UserError unless a testbed may be written to ``path``; another one is not replaced without ``force``.

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
    changed = [name for name, before, value in pairs if name != "sampler" and before != value]
    if "content_hash" not in changed:  # the same tasks
        changed = ["names or measurements" if name == "checksum" else name for name in changed]
    differing = [name.replace("_", " ") for name in changed if name != "checksum"]
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
    """Read the tasks, the facts and the content of a testbed file, and verify its content hash."""
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
        columns.check(table)
        contents = _read_content(table, meta, packed)
        for name, value in hashes(table, meta, contents).items():
            if value != meta.get(name):
                raise UserError(
                    f"its {name.replace('_', ' ')} is {value[:12]}…, but its metadata says "
                    f"{str(meta.get(name))[:12]}…: it was changed after it was written",
                    "take an unchanged copy or draw it again with {sample()}",
                )
    except UserError as error:
        raise UserError(f"The testbed {file} is not valid: {error.template}") from error
    return table, meta, contents


def read_outline(file: Path) -> tuple[pa.Table, str]:
    """Read what the tasks of a file are like, without their images, and the content hash that it claims.

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


def hashes(table: pa.Table, meta: Mapping[str, Any], contents: Mapping[str, ImageContent]) -> dict[str, str]:
    """Return the content hash, and the checksum over all columns and facts.

    The checksum leaves out labels and the version that wrote the file.
    """
    facts = {k: v for k, v in meta.items() if k not in ("content_hash", "checksum", "creator", "labels")}
    checksum = columns.checksum(table, canonical_json({**facts, "digests": pack(contents)}))
    return {"content_hash": content_hash(table, meta["datasets"], contents), "checksum": checksum}


def _read_meta(file: Path, metadata: Mapping[bytes, bytes]) -> tuple[dict[str, Any], str]:
    """Read the facts of a file, and the digests of its images as text."""
    raw = metadata.get(_META_KEY)
    if raw is None:
        raise UserError(
            f"{file} is a Parquet file, but not a testbed: it lacks the 'longshot' metadata",
            "draw a testbed with {sample()}",
        )
    try:
        meta: dict[str, Any] = json.loads(raw)
        version = int(meta["format"])
        if version != FORMAT:
            remedy = "update longshot" if version > FORMAT else "draw it again with {sample()}"
            raise UserError(
                f"{file} has testbed format {version}, and this version of longshot reads format {FORMAT}",
                remedy,
            )
        _Meta.model_validate(meta)
        return meta, metadata.get(_DIGESTS_KEY, b"").decode("ascii")
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"The metadata of {file} is damaged", "take an unchanged copy of the testbed"
        ) from error


def _read_content(table: pa.Table, meta: Mapping[str, Any], packed: str) -> dict[str, ImageContent]:
    """Read what the metadata says about the images; UserError where that is not about the images of the tasks."""
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


def concat(testbeds: Sequence[Testbed]) -> Testbed:
    """See :meth:`Testbed.concat`."""
    from longshot.tasks.testbed import Testbed

    if not testbeds:
        raise UserError("There is no testbed to join; give at least one.")
    if len(testbeds) == 1:
        return testbeds[0]
    datasets: dict[str, str] = {}
    for bed in testbeds:
        for name, fingerprint in bed.datasets.items():
            if datasets.setdefault(name, fingerprint) != fingerprint:
                raise UserError(
                    f"Two different datasets are both called '{name}' (fingerprints "
                    f"{datasets[name][:12]}… and "
                    f"{fingerprint[:12]}…); give one of them another name."
                )
    table = pa.concat_tables([bed.table for bed in testbeds], promote_options="permissive")
    table = table.set_column(0, "task", pa.array(np.arange(len(table))))
    content = {
        name: union(name, [(bed.keys(name), bed.content[name]) for bed in testbeds if name in bed.content])
        for name in datasets
    }
    origins = [{k: bed.meta[k] for k in ("sampler", "seed", "features")} for bed in testbeds]
    alike = all(origin == origins[0] for origin in origins)
    features = {bed.meta["features"] for bed in testbeds}
    return Testbed.create(
        table,
        datasets=datasets,
        sampler=origins[0]["sampler"] if alike else {"concat": origins},
        seed=origins[0]["seed"] if len({origin["seed"] for origin in origins}) == 1 else None,
        features=features.pop() if len(features) == 1 else None,
        content=content,
        labels={
            name: {c: x for bed in testbeds for c, x in bed.labels.get(name, {}).items()} for name in datasets
        },
    )


def sampler_parts(sampler: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the settings of every testbed that was joined into one; of one that was not, its own."""
    return [part["sampler"] for part in sampler["concat"]] if "concat" in sampler else [sampler]


def sampler_settings(sampler: Any) -> list[tuple[str, str]]:
    """Return setting and value as words, the three choices first: ``("shape", "fixed(query=10, shot=5, way=5)")``."""
    settings = dict(sampler) if isinstance(sampler, dict) else {}
    first = ("shape", "classes", "instances")
    order = sorted(settings, key=lambda key: (first.index(key) if key in first else len(first), key))
    return [(key, _say_setting(settings[key])) for key in order if key not in ("concat", "drops")]


def say_sampler(sampler: Any) -> str:
    """Say how tasks were drawn, in one line; what is off, none or 0 is left out."""
    if isinstance(sampler, dict) and "concat" in sampler:
        parts = [f"{say_sampler(part['sampler'])}, seed {part['seed']}" for part in sampler["concat"]]
        return f"of {len(parts)} testbeds: " + "; ".join(
            f"({number}) {part}" for number, part in enumerate(parts, 1)
        )
    phrases = [
        f"{key} {value}" for key, value in sampler_settings(sampler) if value not in ("none", "false", "0")
    ]
    return ", ".join(phrases) or "unknown"


def _say_setting(value: Any) -> str:
    """Word a setting: ``fixed(query=10, shot=5, way=5)`` for a choice with a name, JSON for anything else."""
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        inner = ", ".join(f"{key}={_say_value(key, v)}" for key, v in value.items() if key != "name")
        return f"{value['name']}({inner})" if inner else value["name"]
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _say_value(key: str, value: Any) -> str:
    """Write a value as JSON; judges by their networks and methods alone."""
    if key == "judged_by":
        return " and ".join(f"{judge['backbone']}:{judge['method']}" for judge in value)
    return json.dumps(value, ensure_ascii=False)
