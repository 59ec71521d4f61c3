"""Runs of bytes inside large files."""

from __future__ import annotations

import io
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.data import ImageError
from longshot.data.file_readers import OpenFiles
from longshot.data.formats import spans
from longshot.data.formats.spans import SpanStore, read_span


def store(tmp_path: Path, number: int = 5) -> SpanStore:
    """Images of one colour each, one after the other, behind three bytes of something else."""
    data, offsets, lengths = b"abc", [], []
    for i in range(number):
        out = io.BytesIO()
        Image.new("RGB", (4 + i, 3), (i, 0, 0)).save(out, "PNG")
        offsets.append(len(data))
        lengths.append(len(out.getvalue()))
        data += out.getvalue()
    (tmp_path / "all.bin").write_bytes(data)
    files = np.zeros(number, np.int32)
    return SpanStore((str(tmp_path / "all.bin"),), files, np.array(offsets), np.array(lengths))


def test_threads_share_a_file(tmp_path: Path) -> None:
    images = store(tmp_path, 20)
    with ThreadPoolExecutor(8) as pool:
        widths = list(pool.map(lambda row: images.read(row).size[0], list(range(20)) * 20))
    assert widths == [4 + row for row in range(20)] * 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_forked_process_reads_by_itself(tmp_path: Path) -> None:
    images = store(tmp_path)
    images.read(0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert [image.size[0] for image in pool.map(images.read, range(5))] == [4, 5, 6, 7, 8]


def test_a_replaced_file_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"before")
    assert read_span(str(file), 1, 3) == b"efo"
    (tmp_path / "y").write_bytes(b"and after")
    (tmp_path / "y").replace(file)
    assert read_span(str(file), 4, 5) == b"after"


def test_few_files_stay_open(tmp_path: Path) -> None:
    files = OpenFiles(spans._Handle, 3)
    for i in range(10):
        (tmp_path / str(i)).write_bytes(bytes([i]))
    assert [files(str(tmp_path / str(i % 10))).read(0, 1)[0] for i in range(30)] == list(range(10)) * 3
    assert len(files._files) == 3


def test_a_file_that_ends_early_is_told(tmp_path: Path) -> None:
    images = store(tmp_path)
    file = tmp_path / "all.bin"
    file.write_bytes(file.read_bytes()[:-1])
    assert images.read(3).size == (7, 3)
    with pytest.raises(ImageError, match=r"all.bin at byte \d+: the file ends after \d+ of its \d+ bytes"):
        images.read(4)


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    images = store(tmp_path)
    (tmp_path / "all.bin").unlink()
    with pytest.raises(UserError, match=r"Cannot open .*all.bin: no such file"):
        images.read(0)
    assert (images.stamps(np.arange(1)) == -1).all()
