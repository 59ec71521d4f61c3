"""What tests that walk over every verb and command have to know of this wing (see ``tests/wings.py``)."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

import longshot
from remedies import QUICK, Mistake

OUTPUT_FILES = {
    ("explain", "html"): ("new.html",),
    ("attributes show", "out"): ("new.csv", "new.parquet"),
    ("attributes suggest", "out"): ("new.csv",),
    ("check", "markdown"): ("new.md",),
    ("check", "junit"): ("new.xml",),
}
OUTPUT_ARGUMENTS = {
    "explain": "{bed} --no-pixels --attributes {photos.name}={light}",
    "attributes show": "{photos}",
    "attributes suggest": "{photos} --backbone pixels --tasks 8 --no-pixels --attributes {light}",
    "check": "{few} --backbone pixels --tasks 2 --draws 2 --out {missing}-check",
}
OUTPUT_FOLDERS = {"check": "{few} --backbone pixels --tasks 2 --draws 2"}
RUN_READERS = ("explain BED --run CUT --no-pixels",)
MISTAKES = [
    Mistake("backbone", "explain", ("plain.parquet",), {"intervene": True}, long=True),
    Mistake("need", "check", ("photos",), {"need": 90, "backbones": "pixels", "tasks": 2, "draws": 2}),
]  # fmt: skip
NOT_FOLLOWED = {
    "attributes": "needs a dataset none of whose attributes can be compared; tests/diagnosis gives such files",
}


def made_attributes(album: Path, folder: Path) -> str:
    longshot.measure_attributes(album, out=folder / "a.parquet")
    schema = pq.read_schema(folder / "a.parquet")
    assert "digest" not in schema.names
    return str(json.loads(schema.metadata[b"longshot"])["identity"])


def made_explanation(album: Path, folder: Path) -> str:
    bed = longshot.sample(album, **{**QUICK, "tasks": 4, "query": 3})
    longshot.explain(bed, backbone="pixels", html=folder / "page.html")
    assert "names only" in (folder / "page.html").read_text()
    return bed.identity


BY_NAMES = (made_attributes,)
BY_NAMES_LONG = (made_explanation,)
