"""WebDataset: .tar shards in which the files of a sample follow each other and share a name up to the first dot."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import UserError, count, first, note, progress
from longshot.data.dataset import Dataset, canonical_split
from longshot.data.file_readers import repeated_names
from longshot.data.formats.base import (
    Format,
    assemble,
    cached_index,
    flat_names,
    label_names,
)
from longshot.data.formats.spans import (
    SpanStore,
    check_runs,
    read_span,
    refuse_copied_records,
)
from longshot.data.stores import escape_name, is_image_name
from longshot.data.trees import tar_members

# everything up to the first dot of the file name
_SAMPLE = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]*)", re.DOTALL)
_BRACES = re.compile(r"\{(\d+)\.\.(\d+)\}")
_NAMES = ("classnames.txt", "classes.txt")
_LABELS = ("label", "class", "cls", "class_name", "category", "target")
_FIELD = "field:"  # before the name of a column of the index that is an attribute
_LEFT_OUT = b"longshot-left-out"
_LOOKED_AT = 1_000  # files of a tar that tell whether it holds samples
_Members: TypeAlias = dict[str, tuple[int, int]]  # extension → (offset, length)
_SCHEMA = pa.schema(
    [
        *(("key", pa.string()), ("label", pa.string()), ("file", pa.int32())),
        *(("offset", pa.int64()), ("length", pa.int64())),
    ]
)
_MOST = 256  # columns; files with a field per sample would fill the memory with columns that are empty


class WebDataset(Format):
    """``label`` is the extension (``cls``) or the field of the .json that holds the class, where several could.

    ``shard_keys`` puts the shard before each key, for shards that number their samples anew. Several images in a
    sample: ``image`` is the extension of the one to take. ``shards`` chooses some: ``train-{000000..000012}.tar``, or
    with stars.
    """

    name = "webdataset"
    sign = r".*\.tar"
    rank = 4
    title = "WebDataset: tar shards of samples"
    origin = "webdataset.ShardWriter, img2dataset, the wds/… copies of VTAB tasks on Hugging Face"
    layout = "[train/]NAME-000000.tar …: KEY.jpg with KEY.cls, KEY.txt or KEY.json; classnames.txt"

    label: str | None = None
    image: str | None = None
    shards: str | None = None
    shard_keys: bool = False

    @classmethod
    def recognise(cls, path: Path) -> bool:
        if path.suffix == ".tar" and path.is_file():
            return _is_labelled(path)
        try:
            names = os.listdir(path)  # noqa: PTH208  names alone, of this one folder
        except OSError:
            return False
        return any(name.endswith(".tar") and name[-5:-4].isdecimal() for name in names)

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        root, shards = _shards(path, self.shards)
        if path.is_dir():
            check_runs(shards, chosen=self.shards is not None)
        index = cached_index(self.source(path), shards, lambda: self._index(root, shards), refresh=refresh)
        labels: pa.Array = index["label"].combine_chunks()
        keys: pa.Array = index["key"].combine_chunks()
        names = next(
            (folder / file for folder in (root, root.parent) for file in _NAMES if (folder / file).is_file()),
            None,
        )
        numbers = pc.all(pc.match_substring_regex(labels, r"^-?\d+$")).as_py()
        classes = np.array(labels.to_pylist(), dtype=np.str_)
        if names is not None and numbers:
            lines = [line for line in names.read_text("utf-8").splitlines() if line.strip()]
            lines = flat_names(lines, str(names))
            classes = label_names(classes.astype(np.int64), lines, f"{path} (with {names.name})")
        files = index["file"].to_numpy()
        homes = [canonical_split(shard.parent.name) if shard.parent != root else None for shard in shards]
        parts = np.array([home or "" for home in homes], dtype=np.str_)[files]
        fields = {
            column.removeprefix(_FIELD): index[column]
            for column in index.column_names
            if column.startswith(_FIELD)
        }
        left_out = (index.schema.metadata or {}).get(_LEFT_OUT, b"").decode()
        return assemble(
            name,
            self.source(path),
            classes,
            keys,
            SpanStore(
                tuple(map(str, shards)),
                files,
                index["offset"].to_numpy(),
                index["length"].to_numpy(),
                names=keys,
            ),
            attributes=pa.table(fields) if fields else None,
            parts=parts,
            nested=True,
            left_out=(left_out,) if left_out else (),
        )

    def _index(self, root: Path, shards: Sequence[Path]) -> pa.Table:
        """Index the samples, a row each: key, label, where its image lies, and the fields of its .json."""
        rows: list[tuple[str, str, int, int, int]] = []
        fields = JsonFields()
        unlabelled: list[str] = []
        total = sum(shard.stat().st_size for shard in shards)
        with progress(f"index {root.name}", total=total, unit="bytes") as bar:
            for number, shard in enumerate(shards):
                prefix = f"{escape_name(shard.relative_to(root).with_suffix('').as_posix())}/"
                split = prefix.rpartition("/")[0].rpartition("/")[0]
                for sample, members in _samples(shard):
                    image = self._image(sample, members, shard)
                    if image is None:
                        continue  # a sample of other things, such as a caption alone
                    # parts such as train and test number their samples anew, so their folder is part of the key
                    key = (prefix if self.shard_keys else f"{split}/" if split else "") + sample
                    content = _json(members, shard)
                    label = self._label(members, shard, content)
                    fields.add(content)
                    if not label:
                        unlabelled.append(key)
                    rows.append((key, label, number, *image))
                bar.advance(shard.stat().st_size)
        if not rows:
            raise UserError(f"The {count(shards, 'shard')} of {root} hold no sample with an image.")
        if unlabelled:
            needed = (
                f".{self.label} nor field '{self.label}' in .json"
                if self.label
                else "label in .cls, .txt or .json"
            )
            raise UserError(
                f"{count(unlabelled, 'sample')} of {len(rows):,} in {root} have no {needed} ({first(unlabelled)}); "
                f"name the extension or the field with webdataset(label='…'), or add it."
            )
        table = pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=_SCHEMA)
        for name, column in fields.columns().items():
            table = table.append_column(f"{_FIELD}{name}", column)
        if fields.left_out():
            note(f"{fields.left_out()} of {root} left out.")
            table = table.replace_schema_metadata({_LEFT_OUT: fields.left_out().encode()})
        refuse_copied_records(shards, table, [shard.parent.name for shard in shards])
        twice = repeated_names(row[0] for row in rows)
        if twice:
            raise UserError(
                f"{count(twice, 'key')} of {root} name more than one sample ({first(twice)}); where shards number "
                f"their samples anew, webdataset(shard_keys=True) tells them apart."
            )
        return table

    def _image(self, sample: str, members: _Members, shard: Path) -> tuple[int, int] | None:
        if self.image is not None:
            return members.get(self.image.lower().lstrip("."))
        images = [extension for extension in members if is_image_name(f"x.{extension.rpartition('.')[2]}")]
        if len(images) > 1:
            raise UserError(
                f"Sample '{sample}' of {shard} has {len(images)} images ({first(images)}); choose one, as in "
                f"webdataset(image='{images[0]}')."
            )
        return members[images[0]] if images else None

    def _label(self, members: _Members, shard: Path, content: dict[str, Any]) -> str:
        """Return the class of a sample, ``""`` when there is none; the field it is read from leaves ``content``."""
        if self.label in members:
            return _text(members, str(self.label), shard)
        if self.label is None:
            plain = next((extension for extension in ("cls", "txt") if extension in members), None)
            if plain is not None:
                return _text(members, plain, shard)
        fields = _LABELS if self.label is None else (self.label,)
        field = next((name for name in fields if name in content), None)
        value = None if field is None else content.pop(field)
        return str(value) if isinstance(value, str | int) else ""


def _text(members: _Members, extension: str, shard: Path) -> str:
    return read_span(str(shard), *members[extension]).decode("utf-8", "replace").strip()


def _json(members: _Members, shard: Path) -> dict[str, Any]:
    """Read the fields of a sample's .json; none where it has no such file, or one that is no object."""
    if "json" not in members:
        return {}
    try:
        content: Any = json.loads(_text(members, "json", shard))
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"A .json of {shard} at byte {members['json'][0]:,} is not valid ({error})",
            "write the shard again",
        ) from error
    return content if isinstance(content, dict) else {}


def _shards(path: Path, pattern: str | None) -> tuple[Path, list[Path]]:
    """Find (folder, shards in order) of one .tar or a folder; ``pattern`` chooses among those of a folder."""
    if path.is_file():
        return path.parent, [path]
    braces = _BRACES.search(pattern or "")
    if pattern is not None and braces is not None:
        numbers = (str(n).zfill(len(braces[1])) for n in range(int(braces[1]), int(braces[2]) + 1))
        shards = [path / pattern.replace(braces[0], number) for number in numbers]
        absent = [shard.name for shard in shards if not shard.is_file()]
        if absent or not shards:
            raise UserError(
                f"{path} lacks {count(absent, 'shard')} of the {len(shards)} in {pattern} ({first(absent)}); give the "
                f"range that is there."
            )
        return path, shards
    shards = (
        sorted(path.glob(pattern)) if pattern else sorted(path.glob("*.tar")) or sorted(path.glob("*/*.tar"))
    )
    if not shards:
        packed = [file.name for kind in ("*.tar.gz", "*.tgz") for file in path.glob(kind)]
        present = f"only compressed ones ({first(packed)}): gunzip them" if packed else "none"
        raise UserError(
            f"{path} must hold {pattern or '.tar shards, at its top or one folder below'}; found {present}."
        )
    return path, shards


def _is_labelled(shard: Path) -> bool:
    """Tell whether images at the beginning of a tar have labels beside them, as those in class folders have not."""
    members: dict[str, set[str]] = {}
    with contextlib.suppress(UserError):  # a damaged one is told when it is opened
        for name, _, _ in islice(tar_members(shard), _LOOKED_AT):
            if match := _SAMPLE.fullmatch(name):
                members.setdefault(match[1], set()).add(match[2].lower())
    images = {sample for sample, endings in members.items() if any(is_image_name(f"x.{e}") for e in endings)}
    return not members or any(members[sample] & {"cls", "txt", "json"} for sample in images)


def _samples(shard: Path) -> Iterator[tuple[str, dict[str, tuple[int, int]]]]:
    """Yield (key, {extension: (offset, length)}) of each sample of a shard, in order."""
    current = ""
    members: dict[str, tuple[int, int]] = {}
    seen: set[str] = set()
    for name, offset, length in tar_members(shard):
        match = _SAMPLE.fullmatch(name)
        if match is None:
            continue  # hidden files such as ._x and .DS_Store
        sample, extension = escape_name(match[1]), match[2].lower()
        if sample != current:
            if members:
                yield current, members
            if sample in seen:
                raise UserError(
                    f"The files of sample '{sample}' of {shard} do not follow each other, or the key is there twice; "
                    f"write the shard again in the order of the keys."
                )
            seen.add(sample)
            current, members = sample, {}
        if extension in members:
            raise UserError(f"{shard} holds '{name}' twice; a sample has one file of each kind.")
        members[extension] = (offset, length)
    if members:
        yield current, members


class JsonFields:
    """Values of fields, sample by sample; ``columns`` gives them as arrays.

    >>> fields = JsonFields()
    >>> fields.add({"width": 7, "tags": ["a"]})
    >>> fields.add({})
    >>> fields.columns()["width"].to_pylist()
    [7, None]
    >>> fields.left_out()
    "1 field of the .json files that holds lists or objects ('tags')"
    """

    def __init__(self) -> None:
        self.samples = 0
        self.values: dict[str, dict[int, Any]] = {}  # field → {sample: value}
        self.nested: set[str] = set()
        self.beyond: set[str] = set()

    def add(self, content: Mapping[str, Any]) -> None:
        """Add the fields of the next sample, empty where it has no .json."""
        for name, value in content.items():
            if isinstance(value, list | dict):
                self.nested.add(name)
            elif name in self.values or len(self.values) < _MOST:
                self.values.setdefault(name, {})[self.samples] = value
            elif len(self.beyond) < _MOST:
                self.beyond.add(name)
        self.samples += 1

    def columns(self) -> dict[str, pa.Array]:
        """Return {field: array [samples]}, null where a sample lacks it; what is nested anywhere is left out."""
        return {
            name: _column([values.get(sample) for sample in range(self.samples)])
            for name, values in self.values.items()
            if name not in self.nested and any(value is not None for value in values.values())
        }

    def left_out(self) -> str:
        """Say what became no column; empty where everything did."""
        parts = []
        if self.nested:
            noun = count(len(self.nested), "field")
            verb = "holds" if len(self.nested) == 1 else "hold"
            parts.append(
                f"{noun} of the .json files that {verb} lists or objects ({first(sorted(self.nested))})"
            )
        if self.beyond:
            parts.append(f"fields of the .json files beyond the first {_MOST} ({first(sorted(self.beyond))})")
        return ", ".join(parts)


def _column(values: list[Any]) -> pa.Array:
    """Build an array of truth values, whole numbers, numbers or text, whichever all values are; text where mixed."""
    kinds = {type(value) for value in values if value is not None}
    try:
        if kinds == {int, float}:
            return pa.array(values, pa.float64())
        if len(kinds) == 1:
            return pa.array(values)
    except (pa.ArrowException, OverflowError):
        pass  # a whole number of more than 64 bits
    return pa.array([None if value is None else str(value) for value in values], pa.string())
