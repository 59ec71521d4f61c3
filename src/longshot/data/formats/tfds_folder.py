"""A prepared TFDS dataset on disk: finding its version folder, its shards, and one index of all its records.

What the records hold says features.json, in both spellings, or a record. Names of nested features are joined by
slashes, as in the records: ``objects/pixel_coords``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from longshot.base import UserError, count, first, note
from longshot.data.file_readers import read_object
from longshot.data.formats.base import cached_index, count_within
from longshot.data.formats.spans import refuse_copied_records
from longshot.data.formats.tfrecord import (
    FeatureValue,
    index_files,
    parse_example,
    span_columns,
)

_VERSION = re.compile(r"\d+\.\d+\.\d+")
_SHARD = re.compile(r"(?P<name>\w+)-(?P<split>[\w-]+)\.(?P<form>\w+)-(?P<number>\d{5,})-of-(?P<count>\d{5,})")
_BLOCK = 20_000  # records whose values wait as Python objects
_KINDS = {
    "Image": "image",
    "LabeledImage": "image",
    "ClassLabel": "label",
    "Text": "text",
    "Tensor": "tensor",
    "Scalar": "tensor",
    "BBoxFeature": "tensor",
}


@dataclass(frozen=True)
class Feature:
    """A feature by its name in the records: ``kind`` is image, label, text, tensor or other; ``single``: one value."""

    name: str
    kind: str
    single: bool = True
    dtype: str = ""


def read_features(file: Path) -> list[Feature]:
    """Read the features in a features.json."""
    try:
        return list(_flatten(json.loads(file.read_text("utf-8")), "", True))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{file} is no list of features as TFDS writes it ({type(error).__name__} {error})."
        ) from error


def _flatten(node: Mapping[str, Any], name: str, single: bool) -> Iterator[Feature]:
    """Yield the leaves of a tree of features, with nodes {pythonClassName, featuresDict | …} or {type, content}."""
    python = str(node.get("pythonClassName") or node["type"]).rsplit(".", 1)[-1]
    content = _content(node)
    if python == "FeaturesDict":
        for child, below in dict(content.get("features", content)).items():
            yield from _flatten(below, f"{name}/{child}" if name else child, single)
    elif python in ("Sequence", "Dataset"):
        yield from _flatten(content["feature"], name, False)
    else:
        shape = content.get("shape") or []
        sides = shape.get("dimensions", []) if isinstance(shape, Mapping) else shape
        kind = _KINDS.get(python, "other")
        single = single and (kind != "tensor" or (not sides and python != "BBoxFeature"))
        yield Feature(name, kind, single, str(content.get("dtype") or ""))


def _content(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the inside of a node, whichever way it is spelled; some versions put JSON text into JSON."""
    if "pythonClassName" in node:
        inside = [value for key, value in node.items() if key not in ("pythonClassName", "description")]
        content: Any = inside[0] if inside else {}
        content = content.get("json", content) if isinstance(content, Mapping) else content
    else:
        content = node.get("content") or {}
    if isinstance(content, str):
        content = json.loads(content)
    return content if isinstance(content, Mapping) else {}


@dataclass(frozen=True, eq=False)
class Prepared:
    """A dataset as ``download_and_prepare`` left it. ``table`` has a row per record: the columns ``file``, ``offset``,
    ``length`` say where it lies, ``split`` and ``position`` (its number in the split) which one it is; then come its
    features, those of several values as lists. ``labels`` are names of label numbers by feature."""

    name: str
    folder: Path
    files: tuple[Path, ...]
    features: tuple[Feature, ...]
    labels: dict[str, list[str]]
    supervised: str | None  # the feature that the dataset itself calls its label
    version: str  # 3.0.1
    table: pa.Table

    @property
    def sizes(self) -> dict[str, int]:
        """Count the records of each split."""
        counts = self.table["split"].value_counts().to_pylist()
        return {entry["values"]: entry["counts"] for entry in counts}


def version_folders(path: Path) -> list[Path]:
    """List folders with a version's shards at ``path``, below it, or below a configuration in it, the newest last."""
    if not path.is_dir():
        return []
    if _is_prepared(path):
        return [path]
    inside = [p for p in sorted(path.iterdir()) if p.is_dir()]
    deeper = [p for config in inside if not _VERSION.fullmatch(config.name) for p in config.iterdir()]
    versions = [p for p in (*inside, *deeper) if _VERSION.fullmatch(p.name) and p.is_dir()]
    prepared = [p for p in versions if _is_prepared(p)]
    return sorted(prepared, key=lambda p: [int(part) for part in p.name.split(".")])


def described_versions(path: Path) -> list[Path]:
    """List versions with both JSON files, as ``version_folders`` does, but cheaply: any folder of images is asked this.

    One listing, and a second where ``path`` holds one folder beside TFDS's own ``downloads``.
    """
    if _is_described(path):
        return [path]
    names = _listed(path)
    if not any(_VERSION.fullmatch(name) for name in names):
        inside = [name for name in names if name != "downloads" and not name.startswith(".")]
        if len(inside) != 1:
            return []
        path = path / inside[0]
        names = _listed(path)
    return [path / name for name in names if _VERSION.fullmatch(name) and _is_described(path / name)]


def _listed(path: Path) -> list[str]:
    try:
        return sorted(os.listdir(path))  # noqa: PTH208  names alone
    except OSError:
        return []


def _is_described(path: Path) -> bool:
    return (path / "dataset_info.json").is_file() and (path / "features.json").is_file()


def _is_prepared(path: Path) -> bool:
    return (path / "dataset_info.json").is_file() or any(path.glob("*-?????-of-?????"))


def read_prepared(folder: Path, *, refresh: bool = False) -> Prepared:
    """Read the records of a version folder, in one pass that compares all checksums; the index is remembered."""
    info = _info(folder)
    shards = _shards(folder, info)
    files = [file for members in shards.values() for file in members]
    labels = {
        file.name.removesuffix(".labels.txt"): file.read_text("utf-8").removesuffix("\n").split("\n")
        for file in sorted(folder.glob("*.labels.txt"))
    }
    described = folder / "features.json"
    features = read_features(described)
    labels = {f.name: labels[n] for f in features if (n := f.name.replace("/", "-")) in labels}
    watched = [*files, *(f for f in (folder / "dataset_info.json", described) if f.is_file())]
    table = cached_index(
        f"tfds:{folder}", watched, lambda: _build(folder, shards, info, features), refresh=refresh
    )
    version = str(info.get("version") or folder.name)
    name = str(info.get("name") or folder.parent.name)
    return Prepared(name, folder, tuple(files), tuple(features), labels, _supervised(info), version, table)


def _supervised(info: dict[str, Any]) -> str | None:
    """Return the feature that ``supervised_keys`` calls the output, in both spellings."""
    keys = info.get("supervisedKeys") or {}
    items = keys.get("tuple", {}).get("items", [])
    output = items[1].get("featureKey") if len(items) > 1 else keys.get("output")
    return str(output) if output else None


def _info(folder: Path) -> dict[str, Any]:
    file = folder / "dataset_info.json"
    if not file.is_file():
        note(f"{folder} has no dataset_info.json, so the numbers of its records are not checked.")
        return {}
    info = read_object(file)
    _check_form(folder, str(info.get("fileFormat", info.get("file_format", "tfrecord"))))
    return info


def _check_form(folder: Path, form: str) -> None:
    if form.lower() != "tfrecord":
        raise UserError(
            f"{folder} was prepared with the file format '{form}', which Longshot does not read; prepare it with "
            f"file_format='tfrecord'."
        )


def _shards(folder: Path, info: dict[str, Any]) -> dict[str, list[Path]]:
    """List the files of each split in order; splits as dataset_info.json orders them. UserError for missing ones."""
    present: dict[str, dict[int, Path]] = {}
    expected: dict[str, int] = {}
    for file in sorted(folder.iterdir()):
        match = _SHARD.fullmatch(file.name)
        if match:
            _check_form(folder, match["form"])
            present.setdefault(match["split"], {})[int(match["number"])] = file
            expected[match["split"]] = int(match["count"])
    if not present:
        raise UserError(
            f"There are no shards such as {folder.parent.name}-train.tfrecord-00000-of-00001 in {folder}."
        )
    for split, members in present.items():
        missing = [number for number in range(expected[split]) if number not in members]
        if missing:
            raise UserError(
                f"{folder} lacks {len(missing):,} of the {count(expected[split], 'shard')} of its split '{split}' "
                f"(number {', '.join(map(str, missing[:3]))}); copy the rest or prepare it again."
            )
    listed = [str(split.get("name")) for split in info.get("splits", ())]
    absent = [split for split in listed if split not in present]
    if absent:
        note(
            f"{folder} has no shards of {count(absent, 'split')} in its dataset_info.json ({first(absent)})."
        )
    order = sorted(
        present, key=lambda split: (listed.index(split) if split in listed else len(listed), split)
    )
    return {split: [file for _, file in sorted(present[split].items())] for split in order}


def _build(
    folder: Path, shards: dict[str, list[Path]], info: dict[str, Any], features: Sequence[Feature]
) -> pa.Table:
    """Build the table of ``Prepared`` in one pass over all shards."""
    columns = _Columns(folder, features)
    files = [file for members in shards.values() for file in members]
    indexes = index_files(files, f"index {folder.parent.name}", visit=columns.add)
    sizes = dict(zip(files, map(len, indexes), strict=True))
    _check_lengths(folder, shards, sizes, info)
    table = pa.table(span_columns(indexes))
    refuse_copied_records(files, table, [split for split, members in shards.items() for _ in members])
    per_split = [sum(sizes[file] for file in members) for members in shards.values()]
    numbering = {
        "split": pa.array(np.repeat(list(shards), per_split).tolist(), pa.string()),
        "position": count_within(per_split),
    }
    for name, values in {**numbering, **columns.finished()}.items():
        table = table.append_column(name, values if isinstance(values, pa.ChunkedArray) else pa.array(values))
    return table


class _Columns:
    """Values of features, record by record; blocks of them become arrays, so that few wait as Python objects."""

    def __init__(self, folder: Path, features: Sequence[Feature]) -> None:
        self.folder, self.waiting = folder, 0
        self.features = {
            f.name: f for f in features if f.kind in ("label", "tensor") or (f.kind == "text" and f.single)
        }
        self.values: dict[str, list[Any]] = {name: [] for name in self.features}
        self.arrays: dict[str, list[pa.Array]] = {name: [] for name in self.features}

    def add(self, data: bytes) -> None:
        """Add the values of one record."""
        example = parse_example(data, self.features)
        for name, feature in self.features.items():
            self.values[name].append(_plain(example.get(name), feature))
        self.waiting += 1
        if self.waiting >= _BLOCK:
            self._flush()

    def finished(self) -> dict[str, pa.ChunkedArray]:
        """Return the columns of the table."""
        self._flush()
        return {f"feature:{name}": pa.chunked_array(arrays) for name, arrays in self.arrays.items()}

    def _flush(self) -> None:
        for name, feature in self.features.items():
            try:
                self.arrays[name].append(pa.array(self.values[name], _arrow_type(feature)))
            except (pa.ArrowException, OverflowError) as error:
                raise UserError(
                    f"The feature '{name}' of {self.folder} is not of the kind that its features.json says: "
                    f"{str(error).splitlines()[0].rstrip('.')}."
                ) from error
            self.values[name].clear()
        self.waiting = 0


def _check_lengths(
    folder: Path, shards: dict[str, list[Path]], sizes: dict[Path, int], info: dict[str, Any]
) -> None:
    """Raise UserError when a shard holds another number of records than dataset_info.json says."""
    for split in info.get("splits", ()):
        lengths = split.get("shardLengths", split.get("shard_lengths", ()))
        members = shards.get(str(split.get("name")), [])
        for file, length in zip(members, lengths, strict=False):
            if sizes[file] != int(length):
                raise UserError(
                    f"{file} holds {sizes[file]:,} records, dataset_info.json says {int(length):,}; copy it again or "
                    f"prepare {folder.parent.name} again."
                )


def _arrow_type(feature: Feature) -> pa.DataType:
    """Return the Arrow type of a feature: records know integers, 32-bit floats and bytes only."""
    if feature.kind == "text" or feature.dtype in ("string", "object"):
        kind = pa.string()
    else:
        floating = feature.kind == "tensor" and "float" in feature.dtype
        kind = pa.float32() if floating else pa.int64()
    return kind if feature.single else pa.list_(kind)


def _plain(value: FeatureValue | None, feature: Feature) -> Any:
    """Return a feature's values as Python values; a single one without its list, None where a record lacks it."""
    if value is None:
        return None if feature.single else []
    plain = [v.decode("utf-8", "replace") for v in value] if isinstance(value, list) else value.tolist()
    if not feature.single:
        return plain
    return plain[0] if len(plain) == 1 else None
