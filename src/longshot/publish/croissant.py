"""The release for programs that know no Longshot: Croissant 1.1, the vocabulary that dataset search engines read.

https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html. Every file is listed with its SHA-256, and every
testbed is a record set with one record per task. Only what the release holds already is said again, so nothing that
the release keeps to itself can come out here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from longshot.publish.release_card import licence_address

CROISSANT_FILE = "croissant.json"
_PARQUET = "application/x-parquet"  # as mlcroissant and the Hub call it
# What the terms below mean; the specification asks for the list in every file.
_TERMS = (
    *(
        "arrayShape",
        "citeAs",
        "column",
        "extract",
        "field",
        "fileObject",
        "fileProperty",
        "fileSet",
        "format",
    ),
    *("includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet"),
    *("references", "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField"),
    *("transform", "equivalentProperty"),
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    **{term: f"cr:{term}" for term in _TERMS},
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
}
_MEANINGS = {
    "task": "Number of the task.",
    "dataset": "Source whose images the task uses.",
    "classes": "Class ids; labels are positions in this list.",
    "support": "Names of the images to learn from.",
    "query": "Names of the images to classify.",
    "support_label": "Label of each support image.",
    "query_label": "Label of each query image.",
    "way": "Number of classes.",
    "shots": "Number of support images of each class.",
}


def croissant_record(
    facts: Mapping[str, Any], schemas: Mapping[str, pa.Schema], sums: Mapping[str, str]
) -> dict[str, Any]:
    """JSON-LD of a release.

    Parameters
    ----------
    facts : mapping
        What release.json holds.
    schemas : mapping
        Name of a testbed → the columns of its table.
    sums : mapping
        File of the release → its SHA-256.
    """
    about = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": facts["title"],
        "description": describe(facts),
        "version": semantic_version(facts["version"]),
        "license": licence_address(facts["licence"]),
        "url": facts["url"],
        "datePublished": facts["published"],
        "creator": [{"@type": "sc:Person", "name": author} for author in facts["authors"]],
        "citeAs": facts["citation"].strip(),
        "keywords": ["few-shot learning", "image classification", "benchmark"],
        "distribution": [_file(name, digest) for name, digest in sums.items()],
        "recordSet": [_records(bed, schemas[bed["name"]]) for bed in facts["testbeds"]],
    }
    return {key: value for key, value in about.items() if value}


def describe(facts: Mapping[str, Any]) -> str:
    """One paragraph: the publisher's own, or what the release is."""
    if facts["text"]:
        return str(facts["text"])
    tasks = sum(bed["tasks"] for bed in facts["testbeds"])
    sources = ", ".join(source["name"] for source in facts["sources"])
    return f"{tasks:,} few-shot image-classification tasks on {sources}. The images are not part of it."


def semantic_version(version: str) -> str:
    """Three numbers where there are fewer, as the specification asks for.

    >>> semantic_version("1.0"), semantic_version("2"), semantic_version("1.2.3-rc1")
    ('1.0.0', '2.0.0', '1.2.3-rc1')
    """
    if not re.fullmatch(r"\d+(\.\d+)?", version):
        return version
    return ".".join([*version.split("."), "0", "0"][:3])


def _file(name: str, digest: str) -> dict[str, Any]:
    formats = {".parquet": _PARQUET, ".json": "application/json", ".md": "text/markdown"}
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "encodingFormat": next(kind for ending, kind in formats.items() if name.endswith(ending)),
        "sha256": digest,
    }


def _records(bed: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    identity = bed["file"].removeprefix("testbeds/").removesuffix(".parquet")
    return {
        "@type": "cr:RecordSet",
        "@id": identity,
        "name": bed["name"],
        "description": f"{bed['tasks']:,} tasks: {bed['said']}.",
        "key": {"@id": f"{identity}/task"},
        "field": [_field(identity, bed["file"], column) for column in schema],
    }


def _field(identity: str, file: str, column: pa.Field) -> dict[str, Any]:
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    return {
        "@type": "cr:Field",
        "@id": f"{identity}/{column.name}",
        "name": column.name,
        "description": _MEANINGS.get(column.name, "Measured by the sampler."),
        "dataType": _kind(column.type.value_type if is_list else column.type),
        **({"isArray": True, "arrayShape": "-1"} if is_list else {}),
        "source": {"fileObject": {"@id": file}, "extract": {"column": column.name}},
    }


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "sc:Boolean"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    return "sc:Float" if pa.types.is_floating(kind) else "sc:Text"
