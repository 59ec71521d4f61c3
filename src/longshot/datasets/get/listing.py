"""What can be got, as a list, and what getting one of them would do."""

from __future__ import annotations

import os
import shutil
from typing import Any

from longshot.datasets.get.fetch import in_bytes, nearest_folder
from longshot.datasets.get.place import data_folder
from longshot.datasets.get.sources import Source, all_sources, find_source, need_files


def list_downloads() -> list[dict[str, Any]]:
    """The published datasets that can be got, and those that a person must fetch. Nothing is asked of any server.

    Returns
    -------
    list of dict
        ``name``, ``title``, ``bytes`` (None where not known), ``size`` in words, ``licence`` ("not known" where the
        source does not say), ``files`` and how many of them have published ``checksums``, ``studies`` that need it,
        ``reader``, and ``by_hand``: where a person must fetch it and why, None where Longshot does.

    Examples
    --------
    >>> rows = {row["name"]: row for row in list_downloads()}
    >>> rows["omniglot"]["size"], rows["omniglot"]["studies"]
    ('15.9 MB', ['hard-md', 'vtab-md'])
    >>> rows["objectnet"]["by_hand"]["where"]
    'https://objectnet.dev/download.html'
    """
    return [
        {
            "name": source.name,
            "title": source.title,
            "bytes": source.size,
            "size": describe_size(source) if source.files else None,
            "licence": source.licence or "not known",
            "files": len(source.files),
            "checksums": sum(file.checksum is not None for file in source.files),
            "studies": list(source.studies),
            "reader": (source.reader or "folder") if source.files else None,
            "by_hand": None if source.by_hand is None else source.by_hand.model_dump(),
        }
        for source in all_sources().values()
    ]


def plan_download(name: str, *, to: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """What :func:`get_dataset` would do. Nothing is written, and nothing is asked of any server but the Hub's.

    Parameters
    ----------
    name, to
        As in :func:`get_dataset`.

    Returns
    -------
    dict
        ``name``, ``title``, ``licence``, ``folder``, ``free`` (bytes on its disk), ``bytes`` to download (None where
        not known), ``size`` in words, and ``files``: name, addresses, bytes, checksum (None where none is published).

    Examples
    --------
    >>> plan = plan_download("omniglot", to="data")
    >>> plan["bytes"], [file["name"] for file in plan["files"]]
    (15927098, ['images_background.zip', 'images_evaluation.zip'])
    """
    if str(name).startswith("hub:"):
        from longshot.datasets.get.hub import plan_from_hub

        return plan_from_hub(str(name), data_folder(to))
    source = find_source(name)
    need_files(source)
    folder = data_folder(to) / source.name
    return {
        "name": source.name,
        "title": source.title,
        "licence": source.licence or "not known",
        "folder": str(folder),
        "free": shutil.disk_usage(nearest_folder(folder)).free,
        "bytes": source.size,
        "size": describe_size(source),
        "files": [
            {"name": file.name, "urls": list(file.urls), "bytes": file.size, "checksum": file.checksum}
            for file in source.files
        ],
    }


def describe_size(source: Source) -> str:
    """The bytes to download, for people."""
    if source.size is None:
        parts = [file.size for file in source.files if file.size is not None]
        return f"more than {in_bytes(sum(parts))}" if parts else "not known"
    return in_bytes(source.size) if source.exact else f"about {in_bytes(source.size)}"
