"""Archives in the genuine formats of Meta-Dataset and TFDS, written by the independent package ``tfrecord``."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Features = Mapping[str, tuple[Any, str]]  # value, and "byte", "int" or "float"


def png(value: int, size: int = 12, mode: str = "RGB") -> bytes:
    """A plain picture whose grey is ``value``."""
    buffer = io.BytesIO()
    Image.new(mode, (size, size), (value,) * 3 if mode == "RGB" else value).save(buffer, "PNG")
    return buffer.getvalue()


def write_records(path: Path, records: Sequence[Features]) -> Path:
    """A TFRecord file of ``tf.train.Example`` messages."""
    from tfrecord.writer import TFRecordWriter

    path.parent.mkdir(parents=True, exist_ok=True)
    writer = TFRecordWriter(str(path))
    for record in records:
        writer.write(dict(record))
    writer.close()
    return path


def write_classes(folder: Path, sizes: Mapping[int, int], *, size: int = 12) -> None:
    """``{class}.tfrecords`` with so many images each; the class shows in the picture, with some noise."""
    rng = np.random.default_rng(0)
    for number, images in sizes.items():
        records = [
            {
                "image": (png(int(20 * number + rng.integers(8)) % 256, size), "byte"),
                "label": (number, "int"),
                "id": (f"{number}-{i}".encode(), "byte"),
            }
            for i in range(images)
        ]
        write_records(folder / f"{number}.tfrecords", records)


def write_spec(folder: Path, spec: Mapping[str, Any]) -> None:
    """``dataset_spec.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dataset_spec.json").write_text(json.dumps(spec))


def flat_spec(images: Sequence[int], splits: tuple[int, int, int]) -> dict[str, Any]:
    """A DatasetSpecification: classes 0, 1, … with so many images, the splits one after the other."""
    return {
        "name": "small",
        "classes_per_split": dict(zip(("TRAIN", "VALID", "TEST"), splits, strict=True)),
        "images_per_class": {str(i): n for i, n in enumerate(images)},
        "class_names": {str(i): f"{i:02d}.kind {chr(65 + i % 26)}/x" for i in range(len(images))},
        "path": "/somewhere/else/small",
        "file_pattern": "{}.tfrecords",
        "__class__": "DatasetSpecification",
    }


_MODULE = "tensorflow_datasets.core.features"


def feature(kind: str, **content: Any) -> dict[str, Any]:
    """One entry of features.json as TFDS 4 writes it: ``image``, ``label``, ``text``, ``tensor`` or ``objects``."""
    if kind == "image":
        shape = {"dimensions": content.get("shape", ["-1", "-1", "3"])}
        image = {"shape": shape, "dtype": "uint8", "encodingFormat": "png"}
        return {"pythonClassName": f"{_MODULE}.image_feature.Image", "image": image}
    if kind == "label":
        return {
            "pythonClassName": f"{_MODULE}.class_label_feature.ClassLabel",
            "classLabel": {"numClasses": str(content["classes"])},
        }
    if kind == "text":
        return {"pythonClassName": f"{_MODULE}.text_feature.Text", "text": {}}
    if kind == "tensor":
        tensor = {
            "shape": {"dimensions": content.get("shape", [])},
            "dtype": content["dtype"],
            "encoding": "none",
        }
        return {"pythonClassName": f"{_MODULE}.tensor_feature.Tensor", "tensor": tensor}
    inner = {"pythonClassName": f"{_MODULE}.features_dict.FeaturesDict"}
    inner["featuresDict"] = {"features": content["features"]}  # type: ignore[assignment]
    return {
        "pythonClassName": f"{_MODULE}.sequence_feature.Sequence",
        "sequence": {"feature": inner, "length": "-1"},
    }


def write_tfds(
    root: Path,
    name: str,
    splits: Mapping[str, Sequence[Features]],
    features: Mapping[str, Any] | None,
    *,
    version: str = "3.0.0",
    config: str | None = None,
    shards: int = 1,
    labels: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """``root/name[/config]/version`` with its shards and JSON files, as ``tfds.builder(...).download_and_prepare``."""
    folder = root / name / config / version if config else root / name / version
    folder.mkdir(parents=True)
    infos = []
    for split, records in splits.items():
        parts = [list(part) for part in np.array_split(np.arange(len(records)), shards)]
        for number, part in enumerate(parts):
            file = folder / f"{name}-{split}.tfrecord-{number:05d}-of-{shards:05d}"
            write_records(file, [records[i] for i in part])
        lengths = [str(len(part)) for part in parts]
        template = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
        infos.append({"name": split, "shardLengths": lengths, "filepathTemplate": template})
    info = {"name": name, "version": version, "fileFormat": "tfrecord", "splits": infos}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    if features is not None:
        top = {
            "pythonClassName": f"{_MODULE}.features_dict.FeaturesDict",
            "featuresDict": {"features": dict(features)},
        }
        (folder / "features.json").write_text(json.dumps(top))
    for label, names in (labels or {}).items():
        (folder / f"{label.replace('/', '-')}.labels.txt").write_text("\n".join(names) + "\n")
    return folder
