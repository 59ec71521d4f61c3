"""The card of a release: README.md, written from release.json alone, and its head for the Hugging Face Hub.

The head is YAML between two lines of dashes, for the Hub and ``datasets.load_dataset``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import yaml

from longshot.base import span
from longshot.reports import JUDGE_RULE, MARK_RULE, Sheet, SheetCell, heads, markdown, notable_half, row
from longshot.statistics import CLASSES, TASKS, plus_minus
from longshot.tasks import DROP_HEADS, recorded_drops


def release_card(facts: Mapping[str, Any]) -> str:
    """Write the card for people in Markdown: what it is, from what, how to check it and be measured on it."""
    parts = [
        f"# {_cell(facts['title'])}",
        f"Version {_cell(facts['version'])}, made with {facts['made_with']}.",
    ]
    if facts["text"]:
        parts.append(facts["text"])
    parts += [
        "## Testbeds",
        _table(
            ("testbed", "tasks", "ways", "shots", "queries", "content hash"),
            [
                (
                    bed["name"],
                    f"{bed['tasks']:,}",
                    span(bed["ways"]),
                    span(bed["shots"]),
                    f"{bed['queries']:,}",
                    f"`{bed['content_hash'][:16]}…`",
                )
                for bed in facts["testbeds"]
            ],
        ),
        "How each was drawn:\n"
        + "\n".join(
            f"- **{bed['name']}**: {bed['said']}; seed {bed['seed']}"
            + (f"; features `{bed['features'][:16]}…`" if bed["features"] else "")
            + (f"; {bed['suspects']}" if bed.get("suspects") else "")
            + "".join(f"; {sentence}" for sentence in bed.get("copies", ()))
            for bed in facts["testbeds"]
        ),
        *_difficulty(facts["testbeds"]),
        "## Sources",
        "The images are not part of this release. Bring your own copies; a copy is the same when its classes and image "
        "names are (fingerprint) and so are the bytes of the images in use (digest; names only: not on record).",
        _table(
            ("source", "classes", "images", "in use", "fingerprint", "digest", "licence of the images"),
            [
                (
                    source["name"],
                    f"{source['classes']:,}",
                    f"{source['images']:,}",
                    f"{source['content']['images']:,}",
                    f"`{source['fingerprint'][:16]}…`",
                    f"`{source['content']['digest'][:16]}…`" if source["content"]["digest"] else "names only",
                    source["licence"] or "not stated: ask its owners",
                )
                for source in facts["sources"]
            ],
        ),
    ]
    if facts["baselines"]:
        parts += ["## Baselines", _baselines(facts["baselines"])]
        parts += [f"{_cell(line[0].upper() + line[1:])}." for line in facts["baselines_by_name"]]
    parts += ["## Use", _USE]
    parts += [
        "## Licence",
        facts["licence"] or "The publisher has not stated a licence for these task lists.",
    ]
    if facts["citation"]:
        parts += ["## Citation", f"```\n{facts['citation'].strip()}\n```"]
    return "\n\n".join(parts) + "\n"


def _difficulty(testbeds: Sequence[Mapping[str, Any]]) -> list[str]:
    """Compare judges with held-out networks, for the testbeds whose images networks chose."""
    rows = [
        (bed["name"], *drop.texts())
        for bed in testbeds
        for drops in recorded_drops(bed["sampler"])
        for drop in drops
    ]
    if not rows:
        return []
    text = (
        "Networks chose the images of these testbeds. Accuracy in per cent on uniform and on chosen supports of the "
        "same queries (of filtered tasks: on all and on the chosen), with 95 % intervals over tasks. A judge's drop "
        "says how hard the tasks are for whoever chose them, so judges are not to be ranked; a held-out network took "
        "no part."
    )
    return ["## Difficulty", text, _table(("testbed", *DROP_HEADS), rows)]


_USE = """On the command line:

```
longshot verify THIS_FOLDER --dataset NAME=PATH          # are your images the same?
longshot evaluate THIS_FOLDER/testbeds/NAME.parquet --backbone YOURS --method protonet -o run
longshot score predictions.parquet THIS_FOLDER           # scores from any code, task by task
```

In Python:

```python
import longshot
longshot.verify("THIS_FOLDER", datasets={"NAME": "PATH"})
longshot.evaluate("THIS_FOLDER/testbeds/NAME.parquet", backbones="YOURS", methods="protonet", out="run")
longshot.score("predictions.parquet", "THIS_FOLDER")
```

`SHA256SUMS` covers every file (`sha256sum -c SHA256SUMS`); `release.json` holds all of the above for programs."""


def _baselines(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of baselines: one row per backbone × method, one column per testbed."""
    by_series: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for each in rows:
        who = (each["backbone"], " ".join(filter(None, (each["method"], each["note"]))), each["setting"])
        by_series.setdefault(who, {})[each["testbed"]] = each
    beds = list(dict.fromkeys(each["testbed"] for each in rows))
    body = [
        row(*who, *(_score(cells[bed]) if bed in cells else "not run" for bed in beds))
        for who, cells in by_series.items()
    ]
    notes = [
        BASELINES_NOTE,
        MARK_RULE,
        *([JUDGE_RULE] if any(each["mark"] == "judge" for each in rows) else []),
    ]
    notes += dict.fromkeys(f"{each['leak']}." for each in rows if each["leak"])
    return _written(
        Sheet("", heads("backbone", "method", "setting", *beds), [body], " ".join(notes), labels=3)
    )


BASELINES_NOTE = (
    f"Accuracy in per cent, mean over tasks ± half the 95 % interval for {TASKS} (Student-t); in brackets that for "
    f"{CLASSES}, where it differs by more than a fifth."
)


def _score(record: Mapping[str, Any]) -> SheetCell:
    """Return the accuracy of a record, with its marks."""
    half, wider = (
        None if record[low] is None else (record[high] - record[low]) / 2
        for low, high in (("low", "high"), ("class_low", "class_high"))
    )
    text = plus_minus(record["mean"], half, digits=2, over_classes=notable_half(half, wider))
    leak = str(record["leak"] or "").partition(" ")[0]
    return SheetCell(text, record["mark"] or "", note=leak, reason=record["unranked"] or "")


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return facts as a table; texts between backticks are digests."""
    body = [
        [SheetCell(text.strip("`"), look="digest" if text.startswith("`") else "") for text in line]
        for line in rows
    ]
    return _written(Sheet("", heads(*names), [body], labels=len(names)))


def _written(sheet: Sheet) -> str:
    """Return a table that brings no HTML into a page made of it."""
    return markdown(sheet).strip().replace("\\<", "&lt;").replace("\\>", "&gt;")


def _cell(text: str) -> str:
    """Escape text so that it cannot break the table, nor bring HTML into a page made of it."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")


# SPDX identifiers that the Hub takes in lower case; anything else is "other" there, with its own name.
_KNOWN = (
    *("Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "GPL-3.0", "LGPL-3.0", "AGPL-3.0", "Unlicense"),
    *("CC0-1.0", "CC-BY-2.0", "CC-BY-3.0", "CC-BY-4.0", "CC-BY-SA-3.0", "CC-BY-SA-4.0", "CC-BY-ND-4.0"),
    *("CC-BY-NC-2.0", "CC-BY-NC-3.0", "CC-BY-NC-4.0", "CC-BY-NC-ND-4.0", "CC-BY-NC-SA-4.0"),
)
_SPDX = {name.lower(): name for name in _KNOWN}


def licence_address(licence: str) -> str:
    """Return the page of a licence that SPDX lists, or the words as they are.

    >>> licence_address("cc-by-4.0"), licence_address("ask us")
    ('https://spdx.org/licenses/CC-BY-4.0.html', 'ask us')
    """
    spdx = _SPDX.get(licence.strip().lower())
    return f"https://spdx.org/licenses/{spdx}.html" if spdx else licence


def hub_licence(licence: str) -> dict[str, str]:
    """Return the entries that a dataset card has for a licence.

    >>> hub_licence("CC0-1.0"), hub_licence("ask us"), hub_licence("")
    ({'license': 'cc0-1.0'}, {'license': 'other', 'license_name': 'ask us'}, {})
    """
    if not licence:
        return {}
    lower = licence.strip().lower()
    return {"license": lower} if lower in _SPDX else {"license": "other", "license_name": licence}


_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"))


def front_matter(facts: Mapping[str, Any]) -> str:
    """Write a configuration per testbed with one split ``test``, a row per task; the first is the default."""
    tasks = sum(bed["tasks"] for bed in facts["testbeds"])
    entries = {
        "pretty_name": facts["title"],
        **hub_licence(facts["licence"]),
        "task_categories": ["image-classification"],
        "tags": ["few-shot-learning", "benchmark", "longshot"],
        "size_categories": [next((name for bound, name in _SIZES if tasks < bound), "1M<n<10M")],
        "configs": [
            {
                "config_name": bed["file"].removeprefix("testbeds/").removesuffix(".parquet"),
                "data_files": [{"split": "test", "path": bed["file"]}],
                **({"default": True} if number == 0 else {}),
            }
            for number, bed in enumerate(facts["testbeds"])
        ],
    }
    return f"---\n{yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)}---\n"


def without_front_matter(card: str) -> str:
    """Return the card for people, without its front matter.

    >>> without_front_matter("---\\ntags: []\\n---\\n# Title\\n")
    '# Title\\n'
    """
    head, line, body = card.partition("\n---\n")
    return body.lstrip("\n") if line and head.startswith("---\n") else card


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
    """Build the JSON-LD of a release.

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
    """Describe the release in one paragraph: the publisher's own, or what the release is."""
    if facts["text"]:
        return str(facts["text"])
    tasks = sum(bed["tasks"] for bed in facts["testbeds"])
    sources = ", ".join(source["name"] for source in facts["sources"])
    return f"{tasks:,} few-shot image-classification tasks on {sources}. The images are not part of it."


def semantic_version(version: str) -> str:
    """Extend a version to three numbers where there are fewer, as the specification asks for.

    >>> semantic_version("1.0"), semantic_version("2"), semantic_version("1.2.3-rc1")
    ('1.0.0', '2.0.0', '1.2.3-rc1')
    """
    if not re.fullmatch(r"\d+(\.\d+)?", version):
        return version
    return ".".join([*version.split("."), "0", "0"][:3])


def _file(name: str, digest: str) -> dict[str, Any]:
    formats = {".parquet": _PARQUET, ".json": "application/json", ".md": "text/markdown", ".csv": "text/csv"}
    formats |= {".py": "text/x-python"}
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
