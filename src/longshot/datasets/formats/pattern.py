"""A folder whose paths tell classes and parts: ``<split>/<class>/*``, ``images/<class>_*.jpg``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from longshot.core.errors import UserError
from longshot.core.wording import count, first, note
from longshot.datasets.dataset import Dataset
from longshot.datasets.formats.base import Format, assemble
from longshot.datasets.formats.listing import images_below, need_folder
from longshot.datasets.formats.numbered import class_splits
from longshot.datasets.stores import FileStore

# what a pattern may hold → the regular expression it stands for
_WORDS = {
    "<class>": r"(?P<class>[^/]+)",
    "<classes>": r"(?P<class>.+)",  # over several folders: nested classes
    "<split>": r"(?P<split>[^/]+)",
    "*": r"[^/]*",
}
_PIECES = re.compile(r"(<class>|<classes>|<split>|\*)")


class PathPattern(Format):
    """``paths`` is the form of the relative paths: ``<class>`` is a folder or a part of a name, ``<classes>`` several
    folders (nested classes), ``<split>`` a part such as train, ``*`` anything without a slash. Images of another form
    are left out, with their number."""

    name: ClassVar[str] = "pattern"
    title: ClassVar[str] = "a folder of images whose paths tell class and part"
    origin: ClassVar[str] = "archives with train/CLASS and test/CLASS, or with the class in the file name"
    layout: ClassVar[str] = "pattern(paths='<split>/<class>/*'), pattern(paths='images/<class>_*.jpg') …"

    def __init__(self, *, paths: str = "<class>/*") -> None:
        self.paths = paths

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        form = compile_paths(self.paths)
        need_folder(path, "a pattern", "the images")
        keys, ignored = images_below(path, refresh=refresh)
        names: list[str] = keys.to_pylist()
        matches = [form.fullmatch(key) for key in names]
        rows = [row for row, match in enumerate(matches) if match is not None]
        other = [key for key, match in zip(names, matches, strict=True) if match is None]
        if not rows:
            listed = f"; the first is {first(other[:1])}" if other else ""
            raise UserError(
                f"None of the {len(names):,} images of {path} has a path of the form {self.paths}{listed}",
                "give the form of the paths below that folder, as in pattern(paths='<split>/<class>/*')",
            )
        left_out = f"{count(other, 'image')} of {len(names):,} in {path} of another form than {self.paths}"
        if other:
            note(f"{left_out} left out ({first(other)}).")
        fitting = [matches[row] for row in rows]
        classes = np.array([match["class"] for match in fitting if match], dtype=np.str_)
        parts = [match.groupdict().get("split") or "" for match in fitting if match]
        splits = class_splits(classes, np.array(parts, dtype=np.str_))
        divides = not splits and len(set(parts)) > 1
        chosen = pa.array([names[row] for row in rows], pa.string())
        return assemble(
            name,
            self.source(path),
            classes,
            chosen,
            FileStore(str(path), chosen),
            attributes=pa.table({"split": pa.array(parts, pa.string())}) if divides else None,
            splits=splits,
            nested=True,
            left_out=(*ignored, left_out) if other else ignored,
        )


def compile_paths(paths: object) -> re.Pattern[str]:
    """The regular expression of a pattern; UserError where it tells no class, or one thing twice.

    >>> compile_paths("images/<class>_*.jpg").fullmatch("images/great_pyrenees_7.jpg")["class"]
    'great_pyrenees'
    """
    pieces = _PIECES.split(paths) if isinstance(paths, str) else []
    classes = sum(piece in ("<class>", "<classes>") for piece in pieces)
    odd = [piece for piece in pieces if piece not in _WORDS and ("<" in piece or ">" in piece)]
    if classes != 1 or pieces.count("<split>") > 1 or odd:
        raise UserError(
            f"pattern(paths={paths!r}) must hold <class> or <classes> once, <split> at most once, and no other "
            f"word in brackets",
            "write it as in pattern(paths='<split>/<class>/*')",
        )
    return re.compile("".join(_WORDS.get(piece) or re.escape(piece) for piece in pieces), re.DOTALL)
