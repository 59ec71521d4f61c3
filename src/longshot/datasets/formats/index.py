"""The index of an archive: made in one pass over its files, remembered until one of them changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from longshot.core.files import hash_json
from longshot.datasets.files import need_stamp
from longshot.datasets.scan import load_table, save_table, scan_file, scan_files

_STAMP = b"longshot-stamp"


def remembered(
    source: str, files: Sequence[Path], build: Callable[[], pa.Table], *, refresh: bool = False
) -> pa.Table:
    """``build()``, or what it gave before for the same source when ``files`` have the same names, sizes and times."""
    stamp = hash_json([[str(file), *need_stamp(file)] for file in files]).encode()
    for cached in [] if refresh else scan_files(source, "index"):
        table = load_table(cached)
        if table is not None and (table.schema.metadata or {}).get(_STAMP) == stamp:
            return table
    table = build()
    save_table(
        scan_file(source, "index"),
        table.replace_schema_metadata({**(table.schema.metadata or {}), _STAMP: stamp}),
    )
    return table
