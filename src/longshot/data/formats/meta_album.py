"""Meta-Album: ``labels.csv`` and ``info.json`` beside ``images/``; a folder of such folders is one dataset too."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from longshot.base import UserError, count, first, note
from longshot.data.dataset import Dataset
from longshot.data.file_readers import read_object, refuse_repeated
from longshot.data.formats.base import Format, assemble, flat_names, need_files
from longshot.data.stores import escape_name
from longshot.data.taxonomy import Taxonomy

DOMAINS = (
    *("Large Animals", "Small Animals", "Plants", "Plant Diseases", "Microscopy"),
    *("Remote Sensing", "Vehicles", "Manufacturing", "Human Actions", "OCR"),
)
# Set → the ids of its ten datasets, one per domain in the order of DOMAINS
SETS = {
    0: ("BRD", "PLK", "FLW", "PLT_VIL", "BCT", "RESISC", "CRS", "TEX", "SPT", "MD_MIX"),
    1: ("DOG", "INS_2", "PLT_NET", "MED_LF", "PNU", "RSICB", "APL", "TEX_DTD", "ACT_40", "MD_5_BIS"),
    2: ("AWA", "INS", "FNG", "PLT_DOC", "PRT", "RSD", "BTS", "TEX_ALOT", "ACT_410", "MD_6"),
}
_ROLES = {
    "meta-train": "train",
    "meta-valid": "validation",
    "meta-validation": "validation",
    "meta-test": "test",
}
_NONE = ("", "nan", "none", "null")


@dataclass(frozen=True)
class AlbumDataset:
    """One dataset of an album: its folder, and where Meta-Album puts it."""

    name: str
    path: Path
    domain: str | None
    set: int | None
    role: str | None = None  # train, validation or test in info/meta_splits.txt


class MetaAlbum(Format):
    """Class ids are categories; those of a folder of datasets are ``BRD/category``. The attribute ``label`` numbers
    the categories of a dataset by their first appearance."""

    name = "meta-album"
    sign = r"info|info\.json"
    rank = 2
    title = "Meta-Album, one dataset or a folder of several"
    origin = "meta-album.github.io (OpenML), Sets 0–2 in Micro, Mini and Extended size"
    layout = "labels.csv, info.json, images/ | NAME/labels.csv …, info/meta_splits.txt"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        if (path / "info" / "meta_splits.txt").is_file():
            return True
        info = path / "info.json"
        return (
            (path / "labels.csv").is_file()
            and info.is_file()
            and b"category_column_name" in info.read_bytes()
        )

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        parts = album_datasets(path)
        single = parts[0].path == path
        tables = [_read(part) for part in parts]
        classes: list[str] = []
        edges: list[tuple[str, str]] = []
        labels: dict[str, str] = {}
        splits: dict[str, list[str]] = {}
        for part, table in zip(parts, tables, strict=True):
            prefix = "" if single else f"{part.name}/"
            ids = [prefix + category for category in table["category"]]
            classes += ids
            edges += _edges(part, table, prefix, labels)
            if part.role is not None:
                splits.setdefault(part.role, []).extend(sorted(set(ids)))
        keys = [
            escape_name(str((part.path / file).relative_to(path)))
            for part, table in zip(parts, tables, strict=True)
            for file in table["file"]
        ]
        columns = {"label": pa.array(np.concatenate([table["label"] for table in tables]))}
        for extra in ("super_category", "domain"):
            values = [value for table in tables for value in table[extra]]
            if any(values):
                columns[extra] = pa.array([value or None for value in values], pa.string())
        return assemble(
            name,
            self.source(path),
            classes,
            keys,
            path,
            attributes=pa.table(columns),
            taxonomy=Taxonomy.from_edges(sorted(set(edges)), labels) if edges else None,
            splits={role: tuple(sorted(members)) for role, members in splits.items()},
        )


def domain_and_set(name: str) -> tuple[str | None, int | None]:
    """Return (domain, set) of a dataset id such as ``BRD`` or ``BRD_Mini``; (None, None) for an own dataset."""
    plain = name.upper()
    for size in ("_MICRO", "_MINI", "_EXTENDED"):
        plain = plain.removesuffix(size)
    for number, members in SETS.items():
        if plain in members:
            return DOMAINS[members.index(plain)], number
    return None, None


def album_datasets(path: Path) -> list[AlbumDataset]:
    """List the datasets at ``path``: itself, or the folders below it, with their part in info/meta_splits.txt."""
    if not path.is_dir():
        raise UserError(
            f"{path} is no folder; give a dataset of Meta-Album, or the folder that holds several."
        )
    if (path / "labels.csv").is_file() or (path / "info.json").is_file():
        return [_part(path, None)]
    roles = _roles(path)
    folders = sorted(entry for entry in path.iterdir() if (entry / "labels.csv").is_file())
    absent = sorted(set(roles) - {folder.name for folder in folders})
    if absent:
        raise UserError(
            f"{path}/info/meta_splits.txt names {count(absent, 'dataset')} that are not there ({first(absent)}; found: "
            f"{', '.join(folder.name for folder in folders) or 'none'}); add the folders or mend the file."
        )
    if not folders:
        raise UserError(f"{path} has no labels.csv, nor does a folder in it; give a dataset of Meta-Album.")
    return [_part(folder, roles.get(folder.name)) for folder in folders]


def _part(folder: Path, role: str | None) -> AlbumDataset:
    domain, number = domain_and_set(folder.name)
    return AlbumDataset(escape_name(folder.name), folder, domain, number, role)


def _roles(path: Path) -> dict[str, str]:
    """Read {dataset: train, validation or test} of info/meta_splits.txt, which is JSON; empty where there is none."""
    file = path / "info" / "meta_splits.txt"
    if not file.is_file():
        return {}
    content = read_object(file)
    roles: dict[str, str] = {}
    for entry, members in content.items():
        role = _ROLES.get(entry)
        if role is None or not isinstance(members, list):
            raise UserError(
                f"{file} must map meta-train and meta-test to lists of datasets (found: '{entry}')."
            )
        for member in map(str, members):
            if roles.setdefault(member, role) != role:
                raise UserError(f"{file} puts '{member}' in both {roles[member]} and {role}; choose one.")
    return roles


def _read(part: AlbumDataset) -> dict[str, Any]:
    """Read the columns of one dataset: file (relative to it), category, label, super_category, domain."""
    need_files(part.path, ("labels.csv", "info.json"), "a dataset of Meta-Album has both")
    info, where = read_object(part.path / "info.json"), part.path / "labels.csv"
    try:
        text = where.read_text("utf-8-sig")
    except ValueError as error:
        raise UserError(f"{where} is not text in UTF-8 ({error}).") from error
    heading = text.split("\n", 1)[0]
    delimiter = "\t" if info.get("csv_with_tab") or ("\t" in heading and "," not in heading) else ","
    rows = [
        [cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row
    ]
    if len(rows) < 2:
        raise UserError(f"{where} has no rows below its header; at least one image is needed.")
    header, body = rows[0], rows[1:]
    ragged = next((i for i, row in enumerate(body) if len(row) != len(header)), None)
    if ragged is not None:
        raise UserError(
            f"Row {ragged + 1} of {where} has {len(body[ragged])} cells, its header {len(header)}."
        )
    column_of = {
        "file": str(info.get("image_column_name", "FILE_NAME")),
        "category": str(info.get("category_column_name", "CATEGORY")),
    }
    missing = [column for column in column_of.values() if column not in header]
    if missing:
        raise UserError(
            f"{where} lacks the column {first(missing)} that info.json names (found: {', '.join(header)})."
        )
    table = {field: [row[header.index(column)] for row in body] for field, column in column_of.items()}
    empty = [field for field, values in table.items() if not all(values)]
    if empty:
        raise UserError(
            f"Column '{column_of[empty[0]]}' of {where} is empty in some rows; fill them in or remove them."
        )
    _check_count(info, table["category"], where)
    above = str(info.get("super_category_column_name", "SUPER_CATEGORY"))
    supers = [row[header.index(above)] for row in body] if above in header else [""] * len(body)
    names = list(dict.fromkeys(table["category"]))
    plain = dict(zip(names, flat_names(names, str(where)), strict=True))
    first_seen = {category: number for number, category in enumerate(names)}
    return {
        "file": _files(part, table["file"], where),
        "category": [plain[category] for category in table["category"]],
        "label": np.array([first_seen[category] for category in table["category"]], np.int64),
        "super_category": ["" if value.lower() in _NONE else value for value in supers],
        "domain": [part.domain or ""] * len(body),
    }


def _check_count(info: dict[str, Any], categories: list[str], where: Path) -> None:
    total, present = info.get("total_categories"), len(set(categories))
    if isinstance(total, int) and total != present:
        raise UserError(
            f"{where} has {present:,} categories, but info.json tells of {total:,} (total_categories); one of them is "
            f"not whole: get both again, or mend the number."
        )


def _files(part: AlbumDataset, names: list[str], where: Path) -> list[str]:
    """List image files relative to the dataset, in ``images/`` or beside labels.csv; each must be there, once."""
    folder = part.path / "images"
    inside = folder if folder.is_dir() else part.path
    there = {entry.name for entry in inside.iterdir()}
    # a name with a folder in it is looked for by itself
    missing = [
        name for name in names if name not in there and not ("/" in name and (inside / name).is_file())
    ]
    if missing:
        raise UserError(
            f"{where} lists {count(missing, 'image')} of {len(names):,} that are not in {inside} ({first(missing)})."
        )
    refuse_repeated(names, "image", f"{where} lists")
    if inside == folder and (unlisted := len(there - set(names))):
        note(f"{count(unlisted, 'file')} in {inside} stand in no row of labels.csv: left out.")
    return [f"images/{name}" if inside == folder else name for name in names]


def _edges(
    part: AlbumDataset, table: dict[str, Any], prefix: str, labels: dict[str, str]
) -> list[tuple[str, str]]:
    """Return root → domain → (dataset →) super-category → class, as far as known; ``labels`` gets the plain names."""
    domain = f"domain: {part.domain}" if part.domain else ""
    base = [("", domain)] if domain else []
    labels.update({domain: str(part.domain)} if domain else {})
    top = domain
    if prefix:
        top = f"dataset: {part.name}"
        base.append((domain, top))
        labels[top] = part.name
    below: set[tuple[str, str]] = set()
    for category, above in set(zip(table["category"], table["super_category"], strict=True)):
        parent = top
        if above:
            parent = f"{prefix}super-category: {above}"
            below.add((top, parent))
            labels[parent] = above
        below.add((parent, prefix + category))
    flat = not base and all(parent == top for parent, _ in below)
    return [] if flat else [*base, *below]
