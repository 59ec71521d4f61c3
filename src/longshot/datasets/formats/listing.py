"""What several formats look for on disk: the images of a folder, files that a list names, JSON beside them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from longshot.core.errors import UserError
from longshot.core.wording import count, first, note
from longshot.datasets.files import read_object, reason_of
from longshot.datasets.images import is_image_name
from longshot.datasets.scan import other_endings, say_ignored, scan_folder
from longshot.datasets.stores import escape_name


def image_names(folder: Path) -> list[str]:
    """Names of the images that lie directly in a folder, sorted; one listing, no file is opened."""
    try:
        with os.scandir(folder) as entries:
            return sorted(escape_name(entry.name) for entry in entries if is_image_name(entry.name))
    except OSError as error:
        raise UserError(f"Cannot list folder {folder}: {reason_of(error)}.") from error


def folders(root: Path) -> list[Path]:
    """The folders directly in a folder, sorted by name, hidden ones left out."""
    try:
        return sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise UserError(f"Cannot list folder {root}: {reason_of(error)}.") from error


def images_below(root: Path, *, refresh: bool = False) -> tuple[pa.Array, tuple[str, ...]]:
    """Relative paths of all images in a folder and below it, and what was ignored there, in words (it is told).

    What lies in its folders is remembered.
    """
    direct = pa.array(image_names(root), pa.string())
    if folders(root):
        scan = scan_folder(root, refresh=refresh)
        ignored = tuple(text for text in scan.notes if "of other kinds" in text)  # images may lie anywhere
        keys = pa.concat_arrays([direct, scan.keys])
    else:
        endings = other_endings(entry.name for entry in root.iterdir() if entry.is_file())
        ignored = (say_ignored(escape_name(str(root)), endings),) if endings else ()
        keys = direct
    for text in ignored:
        note(f"{text}.")
    return keys, ignored


def need_folder(path: Path, form: str, layout: str) -> None:
    """UserError when a format that is a folder is given something else."""
    if not path.is_dir():
        raise UserError(
            f"{escape_name(str(path))} is no folder; {form} needs the folder that holds {layout}."
        )


def need_all(missing: Sequence[object], total: int, noun: str, where: Path, remedy: str) -> None:
    """UserError with counts when files that a list names are not there."""
    if missing:
        raise UserError(
            f"{where} lists {count(missing, noun)} of {total:,} that {'is' if len(missing) == 1 else 'are'} "
            f"not there ({first(missing)}); {remedy}."
        )


def read_names(file: Path) -> dict[str, str]:
    """A JSON object of texts, as a table of names is."""
    content = read_object(file)
    wrong = [key for key, value in content.items() if not isinstance(value, str)]
    if wrong:
        raise UserError(
            f"{file} gives {count(wrong, 'entry', 'entries')} of {len(content):,} something else than a text "
            f"({first(wrong)}); unpack it again."
        )
    return content
