"""One Parquet file as a table, without the machinery for folders of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def read_parquet(source: Path | Any) -> pa.Table:
    """The table in one file or open buffer.

    ``pyarrow.parquet.read_table`` imports ``pyarrow.dataset``, which costs more than reading a small file does, and
    turns a folder called ``seed=0`` into a column.

    Parameters
    ----------
    source : Path or pyarrow.NativeFile
        What to read.

    Raises
    ------
    pyarrow.ArrowException, OSError
        It cannot be read, or is no Parquet file.
    """
    with pq.ParquetFile(source) as file:
        if file.num_row_groups <= 1:
            return file.read()
        # Lists of strings cannot be read over several row groups at once, as in a testbed of more than 65,536 tasks.
        return pa.concat_tables([file.read_row_group(group) for group in range(file.num_row_groups)])
