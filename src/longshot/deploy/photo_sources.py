"""Photos to answer for: files, folders, archives, URLs, pictures, datasets; each by its name and where it is read."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from PIL import Image

from longshot.base import UserError, is_url, note, opened_copy, progress, remove_at_exit, shown_location
from longshot.data import Dataset, FileStore, ImageError, is_archive, list_tree
from longshot.deploy.shipped_network import Photo

Photos: TypeAlias = "str | Path | Image.Image | np.ndarray[Any, Any] | Dataset | Sequence[Any]"
_WEB = ("http", "https")
_MEGABYTES = 50  # of a photo at a URL
_PATIENCE = 30.0  # seconds for one of them
_REDIRECTS = 5
_AT_ONCE = 8  # photos that are fetched
_PLAIN = (
    "",
    "application/octet-stream",
    "binary/octet-stream",
)  # what servers say of files that they do not know


@dataclass(frozen=True, eq=False)
class GivenPictures:
    """A store of pictures that are in memory already."""

    pictures: tuple[Any, ...]

    def read(self, row: int) -> Image.Image:
        """Return a picture as RGB; what has no three channels of bytes is refused by Pillow."""
        picture = self.pictures[row]
        return (picture if isinstance(picture, Image.Image) else Image.fromarray(picture)).convert("RGB")


@dataclass(frozen=True, eq=False)
class Unreachable:
    """A store of one photo that is not there."""

    where: str
    reason: str

    def read(self, row: int) -> Image.Image:
        """Raise ImageError."""
        raise ImageError(self.where, self.reason)


def list_photos(photos: Photos) -> list[tuple[str, Photo]]:
    """List (name, where it is read) of every photo.

    Parameters
    ----------
    photos : str, Path, picture, array, Dataset, or a sequence of those
        An image file, a folder, a zip or tar, a URL of one of these; a PIL picture or an array [H, W, 3] of bytes.
        Files of other kinds in a folder are noted and left out. A photo at a URL that cannot be fetched is listed and
        says why when it is read; so does a path with nothing at it among others.
    """
    if isinstance(photos, Dataset):
        return list(
            zip(photos.keys.to_pylist(), ((photos.store, row) for row in range(len(photos))), strict=True)
        )
    if isinstance(photos, Image.Image) or (isinstance(photos, np.ndarray) and photos.ndim == 3):
        return [("photo 1", (GivenPictures((photos,)), 0))]
    if isinstance(photos, str | Path):
        photos = [photos]
    if not isinstance(photos, Iterable):
        raise UserError(
            f"Photos are a {type(photos).__name__}; give paths, URLs, pictures or arrays [H, W, 3] of bytes"
        )
    items = list(photos)
    fetched = _fetch_all([item for item in items if _is_photo_url(item)])
    listed: list[tuple[str, Photo]] = []
    for number, item in enumerate(items):
        if _is_photo_url(item):
            listed.append((shown_location(item), fetched[item]))
        elif isinstance(item, str | Path):
            listed += _at(item, alone=len(items) == 1)
        else:
            part = list_photos(item)
            listed += part if isinstance(item, Dataset) else [(f"photo {number + 1}", part[0][1])]
    return listed


def _at(location: str | Path, *, alone: bool) -> list[tuple[str, Photo]]:
    """List the photos at a path, or at the URL of an archive or a folder."""
    shown = shown_location(location)
    try:
        with opened_copy(location) as path:
            if not path.exists():
                raise UserError(
                    f"There is nothing at {shown}", "give an image, a folder, a zip, a tar or a URL"
                )
            if not path.is_dir() and not is_archive(path):
                return [(shown, (FileStore(str(path.parent), pa.array([path.name])), 0))]
            tree = list_tree(path)
            for text in tree.scan.notes:
                if "of other kinds" in text:  # a photo need not lie in the folder of a class
                    note(f"{text}.")
            keys = [*tree.scan.stray, *tree.scan.keys.to_pylist()]
            if not keys:
                raise UserError(
                    f"There is no image in {shown}", "give an image, or a folder or an archive with images"
                )
    except UserError as error:
        if alone:
            raise
        return [(shown, (Unreachable(shown, error.fact), 0))]
    store, base = tree.store(pa.array(keys)), shown.rstrip("/")
    names = keys if is_url(location) else [f"{base}/{key}" for key in keys]
    return list(zip(names, ((store, row) for row in range(len(keys))), strict=True))


# ---- photos at URLs


def _is_photo_url(item: Any) -> bool:
    """Tell whether this is the URL of one photo, not of an archive or a folder."""
    if not is_url(item):
        return False
    parts = urlsplit(item)
    return parts.scheme.lower() in _WEB and not parts.path.endswith("/") and not is_archive(Path(parts.path))


def _fetch_all(urls: Sequence[str]) -> dict[str, Photo]:
    """Fetch photos into a folder that stays until this process ends; those that fail say why when they are read."""
    if not urls:
        return {}
    folder = Path(tempfile.mkdtemp(prefix="longshot-photos-"))
    remove_at_exit(folder)
    store = FileStore(str(folder), pa.array([str(number) for number in range(len(urls))]))
    photos: dict[str, Photo] = {}
    with progress("fetch photos", len(urls), "photos") as bar, ThreadPoolExecutor(_AT_ONCE) as pool:
        reasons = pool.map(_fetch, urls, [folder / str(number) for number in range(len(urls))])
        for number, (url, reason) in enumerate(zip(urls, reasons, strict=True)):
            photos[url] = (Unreachable(shown_location(url), reason), 0) if reason else (store, number)
            bar.advance()
    return photos


def _fetch(url: str, file: Path) -> str:
    """Fetch one photo; return why it cannot be fetched, or nothing."""
    outcome = [f"its server took more than {_PATIENCE:.0f} s"]
    # in a thread of its own that may be left behind: a server that sends a byte now and then passes every timeout
    worker = threading.Thread(target=_receive, args=(url, file, outcome), daemon=True)
    worker.start()
    worker.join(_PATIENCE)
    return outcome[0]


def _receive(url: str, file: Path, outcome: list[str]) -> None:
    import requests

    try:
        with requests.Session() as session:
            session.max_redirects = _REDIRECTS
            with session.get(url, stream=True, timeout=_PATIENCE) as answer, file.open("wb") as content:
                kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                if not answer.ok:
                    outcome[0] = f"its server answers {answer.status_code}"
                elif kind not in _PLAIN and not kind.startswith("image/"):
                    outcome[0] = f"it is no image but '{kind[:80]}'"
                else:
                    for piece in answer.iter_content(1 << 16):
                        content.write(piece)
                        if content.tell() > _MEGABYTES << 20:
                            outcome[0] = f"it has more than {_MEGABYTES} MB"
                            return
                    content.flush()
                    outcome[0] = ""
    except requests.TooManyRedirects:
        outcome[0] = f"it redirects more than {_REDIRECTS} times"
    except (requests.RequestException, OSError, ValueError) as error:  # ValueError: no address at all
        late = isinstance(error, requests.Timeout)
        outcome[0] = outcome[0] if late else f"it cannot be fetched ({type(error).__name__})"
