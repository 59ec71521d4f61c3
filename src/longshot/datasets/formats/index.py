"""The index of an archive: made in one pass over its files, remembered until one of them changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from longshot.core.files import atomic, hash_json
from longshot.datasets.files import need_stamp
from longshot.datasets.scan import scan_file, scan_files

_STAMP = b"longshot-stamp"


def remembered(
    source: str, files: Sequence[Path], build: Callable[[], pa.Table], *, refresh: bool = False
) -> pa.Table:
    """``build()``, or what it gave before for the same source when ``files`` have the same names, sizes and times."""
    stamp = hash_json([[str(file), *need_stamp(file)] for file in files]).encode()
    for cached in [] if refresh else scan_files(source, "index"):
        try:
            table = pq.read_table(cached)
            if (table.schema.metadata or {}).get(_STAMP) == stamp:
                return table
        except (OSError, pa.ArrowException):
            pass  # none yet, or damaged: building again is always right
    table = build()
    with atomic(scan_file(source, "index")) as temporary:
        pq.write_table(
            table.replace_schema_metadata({**(table.schema.metadata or {}), _STAMP: stamp}),
            temporary,
            compression="zstd",
        )
    return table
