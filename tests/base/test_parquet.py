"""Reading Parquet files that were written in several pieces."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from longshot.base import read_parquet


def test_lists_of_strings_in_several_row_groups_are_read(tmp_path: Path) -> None:
    names = pa.array(["a", "b", "c"] * 4).dictionary_encode()
    lists = pa.ListArray.from_arrays(pa.array([0, 3, 6, 9, 12], pa.int32()), names)
    table = pa.table({"task": [0, 1, 2, 3], "names": lists})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    assert read_parquet(tmp_path / "a.parquet").to_pylist() == table.to_pylist()
