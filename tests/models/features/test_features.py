"""The features file: reading, writing, refusing."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from longshot.base import UserError
from longshot.models import Features
from longshot.models.features.array_files import checksum, guarded_json, not_finite


def make(rows: int = 6, dim: int = 4, dtype: str = "float16") -> Features:
    values = np.random.default_rng(0).normal(size=(rows, dim)).astype(dtype)
    return Features(
        array=values,
        keys=pa.array([f"a/{i}.png" for i in range(rows)]),
        class_ids=("a",),
        offsets=np.array([0, rows]),
        dataset="things",
        fingerprint="f" * 64,
        backbone="pixels",
        weights_hash="w",
        preprocessing="decode|resize(2,2)",
        hash="h" * 64,
    )


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_save_and_load_give_the_same(tmp_path: Path, dtype: str) -> None:
    features = make(dtype=dtype)
    features.save(tmp_path / "f.npy")
    again = Features.load(tmp_path / "f.npy")
    assert np.array_equal(again.array, features.array)
    assert again.array.dtype == dtype
    assert again.keys.equals(features.keys)
    assert (again.backbone, again.hash, again.dim, len(again)) == ("pixels", "h" * 64, 4, 6)


def test_the_array_is_memory_mapped(tmp_path: Path) -> None:
    make().save(tmp_path / "f.npy")
    assert isinstance(Features.load(tmp_path / "f.npy").array, np.memmap)


def test_loading_takes_little_memory(tmp_path: Path) -> None:
    """400 MB are opened and checked for NaN with less than 100 MB more in memory."""
    features = make(rows=2, dim=2)
    big = np.lib.format.open_memmap(tmp_path / "f.npy", "w+", np.float16, (200_000, 1000))
    del big  # a sparse file of zeros
    features.write_sidecar(tmp_path / "f.npy")
    meta = json.loads((tmp_path / "f.json").read_text())
    del meta["checksum"]
    sums = [checksum(np.zeros((min(512, 200_000 - start), 1000), "f2")) for start in range(0, 200_000, 512)]
    meta.update(
        rows=200_000, dim=1000, offsets=[0, 200_000], keys=[str(i) for i in range(200_000)], sums=sums
    )
    (tmp_path / "f.json").write_text(guarded_json(meta))
    before = _resident()
    loaded = Features.load(tmp_path / "f.npy")
    assert len(loaded) == 200_000
    assert _resident() - before < 100e6


def _resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines() if Path("/proc").exists() else []:
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_nan_is_refused_with_count_and_first_image(tmp_path: Path) -> None:
    features = make()
    features.array[3, 1] = np.nan
    features.array[4, 0] = np.inf
    features.save(tmp_path / "f.npy")
    with pytest.raises(UserError, match=r"2 of 6 rows, first for image 'a/3\.png'"):
        Features.load(tmp_path / "f.npy")


def test_truncated_file(tmp_path: Path) -> None:
    make().save(tmp_path / "f.npy")
    data = (tmp_path / "f.npy").read_bytes()
    (tmp_path / "f.npy").write_bytes(data[:-5])
    with pytest.raises(UserError, match=r"truncated or no \.npy; embed again"):
        Features.load(tmp_path / "f.npy")


def test_other_dimensions_than_the_sidecar(tmp_path: Path) -> None:
    make().save(tmp_path / "f.npy")
    np.save(tmp_path / "f.npy", np.zeros((6, 5), np.float16))
    with pytest.raises(UserError, match=r"hold 6 × 5 float16, but the sidecar f\.json says 6 × 4 float16"):
        Features.load(tmp_path / "f.npy")


def test_other_number_of_keys(tmp_path: Path) -> None:
    make().save(tmp_path / "f.npy")
    meta = json.loads((tmp_path / "f.json").read_text())
    meta["keys"].pop()
    (tmp_path / "f.json").write_text(guarded_json({k: v for k, v in meta.items() if k != "checksum"}))
    with pytest.raises(UserError, match="names 5 keys and 1 classes for 6 rows"):
        Features.load(tmp_path / "f.npy")


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda p: p.with_suffix(".json").unlink(), "lack their sidecar f.json"),
        (lambda p: p.with_suffix(".json").write_text('{"format": 1'), "truncated or no JSON"),
        (lambda p: p.with_suffix(".json").write_text("[1]"), "was not written by Longshot"),
        (lambda p: p.unlink(), "There is no features file"),
        (lambda p: np.save(p, np.zeros((6, 4), np.int64)), "6 × 4 int64; needed is"),
        (lambda p: np.save(p, np.zeros(6, np.float16)), "hold 6 float16"),
        (lambda p: np.save(p, np.asfortranarray(np.zeros((6, 4), np.float16))), "column by column"),
        (
            lambda p: np.save(p, np.array([{}], object), allow_pickle=True),
            r"read \(no plain array of numbers\)",
        ),
    ],
)
def test_damage_is_told(tmp_path: Path, spoil, complaint: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "f.npy"
    make().save(path)
    spoil(path)
    with pytest.raises(UserError, match=complaint):
        Features.load(path)


def test_a_newer_format_is_told(tmp_path: Path) -> None:
    make().save(tmp_path / "f.npy")
    meta = json.loads((tmp_path / "f.json").read_text())
    (tmp_path / "f.json").write_text(json.dumps({**meta, "format": 99}))
    with pytest.raises(UserError, match="format 99, this Longshot reads 2"):
        Features.load(tmp_path / "f.npy")


def test_save_wants_npy(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a set of features is written as \.npy"):
        make().save(tmp_path / "f.bin")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_not_finite_agrees_with_numpy(dtype: str) -> None:
    values = np.random.default_rng(1).normal(size=(50, 7)).astype(dtype)
    values[3, 2], values[8, 0], values[9, 6] = np.nan, np.inf, -np.inf
    values[20, 0] = np.finfo(dtype).max
    assert np.array_equal(not_finite(values), ~np.isfinite(values).all(axis=1))


def test_features_tell_what_they_are_in_six_lines() -> None:
    features = make()
    assert repr(features).splitlines() == [
        "Features of 'things' through 'pixels'",
        "  array: 6 × 4 float16, 1 class",
        "  preprocessing: decode|resize(2,2)",
        "  images: by name only",
        "  hash: hhhhhhhhhhhh",
        "  file: not on disk",
    ]
    html = replace(features, dataset="<b>")._repr_html_()
    assert "<tr><th>dataset</th><td>&lt;b&gt;</td></tr>" in html
    assert html.count("<tr>") == 7
