"""Addresses of files elsewhere, such as ``s3://bucket/photos.zip``: told from paths, shown without secrets."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeAlias, TypeGuard
from urllib.parse import urlsplit

Location: TypeAlias = str | os.PathLike[str]  # a path here, or a URL as text
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")  # two letters at least: C:// is a drive
_SWALLOWED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/[^/]")


def is_url(location: object) -> TypeGuard[str]:
    """Whether a place is an address rather than a path on this machine.

    >>> is_url("s3://bucket/photos.zip"), is_url("C:/photos"), is_url("runs/first")
    (True, False, False)
    """
    return isinstance(location, str) and _URL.match(location) is not None


def protocol(url: str) -> str:
    """``"s3"`` of ``s3://bucket``, in lower case."""
    match = _URL.match(url)
    assert match is not None
    return match[1].lower()


def shown(location: Location) -> str:
    """A place for sentences, records and provenance: of a URL neither passwords nor signatures.

    >>> shown("https://me:secret@host/a.zip?X-Amz-Signature=1"), shown("runs/first")
    ('https://host/a.zip', 'runs/first')
    """
    if not is_url(location):
        return str(location)
    parts = urlsplit(str(location))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def base_name(url: str) -> str:
    """The last part of a URL: what a local copy of it is called.

    >>> base_name("s3://bucket/photos.zip"), base_name("s3://bucket/photos/"), base_name("s3://bucket")
    ('photos.zip', 'photos', 'bucket')
    """
    parts = urlsplit(url)
    return Path(parts.path.rstrip("/")).name or parts.netloc.rpartition("@")[2].partition(":")[0] or "root"


def inside(url: str, name: str) -> str:
    """The address of a file in the folder at ``url``.

    >>> inside("s3://bucket/runs/", "run.json")
    's3://bucket/runs/run.json'
    """
    return f"{url.rstrip('/')}/{name}"


def sibling(url: str, name: str) -> str:
    """The address of a file beside the one at ``url``.

    >>> sibling("s3://bucket/pixels.npy", "pixels.json")
    's3://bucket/pixels.json'
    """
    return inside(url.rpartition("/")[0], name)


def looks_swallowed(path: Path) -> bool:
    """Whether a path was made of a URL: ``Path`` makes one slash of two.

    >>> looks_swallowed(Path("s3://bucket/photos.zip")), looks_swallowed(Path("photos.zip"))
    (True, False)
    """
    return _SWALLOWED.match(path.as_posix()) is not None
