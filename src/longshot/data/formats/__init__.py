"""The formats in which the datasets of this field lie on disk, found by name or by their files.

A dataset of a format is written ``FORMAT[(settings)]:PATH``; where a few file names tell it, the path alone does.
Packages add formats of their own as plugins: subclasses of `Format`, asked after Longshot's own.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from longshot.base import (
    UserError,
    count,
    declared_classes,
    find_class,
    first,
    make_called,
    parse_call,
    plugged,
)

if TYPE_CHECKING:
    from longshot.data.dataset import Dataset
    from longshot.data.folder import FolderClasses
    from longshot.data.formats.base import Format
    from longshot.data.label_tables import LabelTable
    from longshot.data.trees import Tree

_ARCHIVES = (".zip", ".tar", ".tgz", ".gz")

# Formats in the order in which a path is looked at. A sign is a pattern of names without which a path is surely not of
# the format: its own name, or one right inside it. So a folder of photos costs no import of all modules.
_DECLARED = sorted(
    (*declared_classes(__name__), *declared_classes("longshot.data", "derived", "folder", "label_tables")),
    key=lambda each: (each.facts.get("rank", 50), each.facts["name"]),
)
FORMATS = {each.facts["name"]: each.target for each in _DECLARED}
_SIGNS = {each.facts["name"]: each.facts["sign"] for each in _DECLARED if "sign" in each.facts}
_SPEC = re.compile(r"(?P<call>[a-z0-9-]+(\([^()]*\))?):(?P<path>.+)", re.DOTALL)


def all_formats() -> dict[str, str]:
    """Return Longshot's own formats and behind them those of plugins: name → ``module:class``."""
    return FORMATS | {name: target for name, target in plugged("formats").items() if name not in FORMATS}


def find_format(name: str) -> type[Format]:
    """Return the class of a format; UserError with the nearest name when there is none."""
    table = FORMATS if name in FORMATS else all_formats()  # plugins are looked at only where they are needed
    form: type[Format] = find_class("format", name, table, "{data.list_formats()}")
    return form


def make_format(call: str) -> Format:
    """Make the format that a call such as ``"coco(crops=True)"`` names; UserError with the nearest name."""
    name, settings = parse_call(call)
    made: Format = make_called("format", name, find_format(name), settings)
    made.check_settings()
    return made


def split_spec(text: str) -> tuple[str, str] | None:
    """Split ``"coco(crops=True):/data/coco"`` into (call, path); None for anything that begins with no known format."""
    match = _SPEC.fullmatch(text)
    if match is None:
        return None
    name = match["call"].partition("(")[0]
    return (match["call"], match["path"]) if name in FORMATS or name in all_formats() else None


def recognise(path: Path) -> Format | None:
    """Recognise the format of the files at ``path`` by their names, with its default settings; Longshot's own first."""
    for name in possible_formats(path):
        if _recognises(find_format(name), path):
            return make_format(name)
    for name in list(all_formats())[len(FORMATS) :]:
        with contextlib.suppress(
            UserError
        ):  # a plugin that cannot be imported: who asks for it by name is told
            if _recognises(find_format(name), path):
                return make_format(name)
    return None


def _recognises(form: type[Format], path: Path) -> bool:
    with contextlib.suppress(OSError):  # a folder that may not be looked into is none of ours
        return form.recognise(path)
    return False


def possible_formats(path: Path) -> list[str]:
    """List the formats that may know ``path``, by its name and those right inside it; all where these do not tell."""
    try:
        inside = os.listdir(path) if path.is_dir() else []  # noqa: PTH208  names alone
    except OSError:
        return list(FORMATS)
    visible = [name for name in inside if not name.startswith(".") and name != "downloads"]
    if len(visible) == 1:  # what lies deeper may be what is meant
        return list(FORMATS)
    names = [path.name, *inside]

    def seen(sign: str) -> bool:
        # Whatever the case: so do some file systems compare names.
        return any(re.fullmatch(sign, name, re.IGNORECASE) for name in names)

    return [name for name in FORMATS if name not in _SIGNS or seen(_SIGNS[name])]


def open_unnamed(path: Path, name: str, *, refresh: bool = False) -> Dataset:
    """Look at a folder or archive that no format claims, and open it as the one thing it can be.

    Annotations and tables come before the names of folders, unless they say the same. What could be meant otherwise is
    asked in one sentence with the choices; what could have been is told with the dataset (``taken_for``, ``or_as``).
    """
    from longshot.data.folder import Folders, folder_classes
    from longshot.data.formats.annotations import Annotations
    from longshot.data.label_tables import Table, TableFits
    from longshot.data.trees import Question, as_spec, list_tree

    tree = list_tree(path, refresh=refresh)
    shown, inner = tree.shown, [file for file in tree.scan.telling if file.lower().endswith(_ARCHIVES)]
    if not tree.images and inner:
        raise UserError(
            f"{shown} holds no images but {count(inner, 'archive')} ({first(inner)})",
            "unpack them there, or open one",
        )
    folders, marked = folder_classes(tree), Annotations().find(tree, refresh=refresh)
    fits = Table().find(tree, shown, by_name=len(set(folders.ids)) > 1 and not folders.question)
    plain = folder_classes(tree, False) if folders.question else folders
    call = as_spec("folders(splits=False)" if folders.question or folders.parts else "folders", shown)
    also = [f"{len(set(plain.ids)):,} classes by folder: {call}"] if len(set(plain.ids)) > 1 else []
    if fits.tables and _says_the_same(fits.tables, tree, folders):
        fits = TableFits()
    question = fits.question
    if isinstance(marked, Question):
        question, marked = marked, None
    elif marked is not None and fits.tables:
        question = Question(
            f"{shown} has labels in annotations ({marked.named}) and in a table ({fits.tables[0].file})",
            f"choose annotations:{shown} or table:{shown}",
        )
    if question is not None:
        raise UserError(
            question.fact, ", or ".join([question.choices, *(text.partition(": ")[2] for text in also)])
        )
    if marked is not None:
        dataset, words, also = Annotations().build(marked, name), marked.words, [*marked.or_as, *also]
    elif fits.tables:
        dataset = Table().build(tree, fits.tables, name, Table().source(path))
        words = f"images with the table {', '.join(table.words for table in fits.tables)}"
    else:
        dataset, words = Folders().build(tree, name, shown), folders.words
        also = [f"{len(tree.scan.class_ids):,} classes by folder: {call}"] if folders.parts else []
    return replace(dataset, taken_for=words, or_as=tuple(also))


def _says_the_same(tables: Sequence[LabelTable], tree: Tree, folders: FolderClasses) -> bool:
    """Tell whether tables put the images that they list into the classes of their folders, under whatever names."""
    if folders.question or not folders.ids:
        return False
    class_of = dict(zip(tree.scan.class_ids, folders.ids, strict=True))
    pairs = {
        (label, class_of.get(tree.key(images[0]).rpartition("/")[0], ""))
        for table in tables
        for label, images in zip(table.labels, table.images, strict=True)
        if images
    }
    labels, classes = ({pair[side] for pair in pairs} for side in (0, 1))
    return "" not in classes and len(pairs) == len(labels) == len(classes)
