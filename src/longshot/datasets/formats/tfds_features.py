"""What the records of a TFDS dataset hold, from its features.json in both spellings, or from a record.

Names of nested features are joined by slashes, as in the records: ``objects/pixel_coords``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longshot.core.errors import UserError
from longshot.datasets.formats.example_proto import FeatureValue

_KINDS = {
    "Image": "image",
    "LabeledImage": "image",
    "ClassLabel": "label",
    "Text": "text",
    "Tensor": "tensor",
    "Scalar": "tensor",
    "BBoxFeature": "tensor",
}
_SIGNATURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"RIFF")


@dataclass(frozen=True)
class Feature:
    """A feature by its name in the records: ``kind`` is image, label, text, tensor or other; ``single``: one value."""

    name: str
    kind: str
    single: bool = True
    dtype: str = ""


def read_features(file: Path) -> list[Feature]:
    """The features in a features.json (or the older feature.json)."""
    try:
        return list(_flatten(json.loads(file.read_text("utf-8")), "", True))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{file} is no list of features as TFDS writes it ({type(error).__name__} {error})."
        ) from error


def guess_features(example: Mapping[str, FeatureValue], labels: Mapping[str, list[str]]) -> list[Feature]:
    """The features of a dataset without features.json, from its first record and its files of label names."""
    features = []
    for name, value in sorted(example.items()):
        single = len(value) == 1
        if isinstance(value, list):
            picture = single and value[0].startswith(_SIGNATURES)
            features.append(Feature(name, "image" if picture else "text", single))
        else:
            named = name in labels or name == "label"
            features.append(Feature(name, "label" if named else "tensor", single, str(value.dtype)))
    return features


def _flatten(node: Mapping[str, Any], name: str, single: bool) -> Iterator[Feature]:
    """The leaves of a tree of features, with nodes {pythonClassName, featuresDict | image …} or {type, content}."""
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
    """The inside of a node, whichever way it is spelled; some versions put JSON text into JSON."""
    if "pythonClassName" in node:
        inside = [value for key, value in node.items() if key not in ("pythonClassName", "description")]
        content: Any = inside[0] if inside else {}
        content = content.get("json", content) if isinstance(content, Mapping) else content
    else:
        content = node.get("content") or {}
    if isinstance(content, str):
        content = json.loads(content)
    return content if isinstance(content, Mapping) else {}
