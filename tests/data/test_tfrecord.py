"""TFRecord framing, CRC-32C and Example messages, against the independent packages tfrecord, crc32c and protobuf."""

from __future__ import annotations

import pickle
import struct
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longshot.base import UserError
from longshot.data import ImageError
from longshot.data.formats import tfrecord as ours
from longshot.data.formats.spans import SpanStore
from longshot.data.formats.tfrecord import (
    FOOT,
    HEAD,
    ProtoError,
    RecordDecoder,
    index_file,
    parse_example,
    store_of,
)
from record_writers import png, write_records

peer = pytest.importorskip("crc32c", reason="needs the package crc32c")
example_pb2 = pytest.importorskip("tfrecord.example_pb2", reason="needs the package tfrecord")


# ---- checksums ----------------------------------------------------------------------------------------


def test_crc_of_the_nine_digits() -> None:
    assert ours.crc32c(b"123456789") == 0xE3069283  # the check value of RFC 3720


@pytest.mark.parametrize("size", [0, 1, 2049, 10_000])
def test_crc_equals_another_package(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
    assert ours.crc32c(data) == peer.crc32c(data)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_records(tmp_path / "a.tfrecords", [{"label": (1, "int")}])
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    ours._checksums.cache_clear()
    with pytest.raises(UserError, match=r"google-crc32c; run: pip install 'longshot\[records\]'"):
        ours.index_file(tmp_path / "a.tfrecords")


# ---- Example messages ---------------------------------------------------------------------------------

NUMBERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32, allow_nan=False)
FEATURES = st.dictionaries(
    st.text(max_size=8),
    st.one_of(
        st.tuples(st.just("bytes_list"), st.lists(st.binary(max_size=20), max_size=4)),
        st.tuples(st.just("float_list"), st.lists(FLOATS, max_size=6)),
        st.tuples(st.just("int64_list"), st.lists(NUMBERS, max_size=6)),
    ),
    max_size=5,
)


def message(features: dict[str, tuple[str, list[object]]]) -> bytes:
    example = example_pb2.Example()
    for name, (kind, values) in features.items():
        values_of = getattr(example.features.feature[name], kind)
        values_of.SetInParent()  # an empty list has its kind as well
        values_of.value.extend(values)
    data: bytes = example.SerializeToString()
    return data


@given(FEATURES)
@settings(max_examples=200, deadline=None)
def test_examples_read_back_as_protobuf_wrote_them(features: dict[str, tuple[str, list[object]]]) -> None:
    read = parse_example(message(features))
    assert set(read) == set(features)
    for name, (kind, values) in features.items():
        got = read[name]
        assert (got if isinstance(got, list) else got.tolist()) == values
        assert isinstance(got, list) == (kind == "bytes_list")


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def entry(name: str, feature: bytes) -> bytes:
    return field(1, field(1, field(1, name.encode()) + field(2, feature)))


@given(st.lists(NUMBERS, max_size=6), st.lists(FLOATS, max_size=6))
@settings(max_examples=100, deadline=None)
def test_numbers_that_are_not_packed(integers: list[int], floats: list[float]) -> None:
    loose = b"".join(varint(1 << 3) + varint(v % 2**64) for v in integers)
    single = b"".join(varint(1 << 3 | 5) + struct.pack("<f", v) for v in floats)
    data = entry("i", field(3, loose)) + entry("f", field(2, single))
    reference = example_pb2.Example.FromString(data)
    assert list(reference.features.feature["i"].int64_list.value) == integers
    read = parse_example(data)
    assert np.asarray(read["i"]).tolist() == integers
    assert np.asarray(read["f"]).tolist() == floats


@given(st.binary(max_size=12), NUMBERS)
@settings(max_examples=100, deadline=None)
def test_unknown_fields_are_skipped_and_the_last_of_two_kinds_counts(junk: bytes, number: int) -> None:
    unknown = field(9, junk) + varint(8 << 3) + varint(number % 2**64)
    unknown += varint(7 << 3 | 5) + b"\0\0\0\0" + varint(6 << 3 | 1) + b"\0" * 8
    feature = (
        unknown + field(1, field(1, junk)) + field(3, field(1, varint(5))) + field(3, field(1, varint(6)))
    )
    data = unknown + entry("x", feature) + field(1, unknown)
    expected = example_pb2.Example.FromString(data).features.feature["x"].int64_list.value
    assert np.asarray(parse_example(data)["x"]).tolist() == list(expected) == [5, 6]


def test_only_wanted_features_are_decoded() -> None:
    data = message({"image": ("bytes_list", [b"x"]), "label": ("int64_list", [3])})
    assert list(parse_example(data, ("label",))) == ["label"]


@pytest.mark.parametrize("data", [b"\x0a\x05\x0a", b"\x0b", b"\xff" * 12, b"\x0a", b"\x0d\x00"])
def test_bytes_that_are_no_message(data: bytes) -> None:
    with pytest.raises(ProtoError):
        parse_example(data)


# ---- files --------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_records(
        tmp_path / "a.tfrecords",
        [{"image": (png(10 * i, 6 + i), "byte"), "label": (i, "int")} for i in range(5)],
    )


def open_store(file: Path) -> SpanStore:
    index = index_file(file)
    table = pa.table(
        {"file": np.zeros(len(index), np.int32), "offset": index.offsets, "length": index.lengths}
    )
    return store_of([file], table, RecordDecoder())


def flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 0x10
    file.write_bytes(data)


def test_the_index_finds_what_the_package_wrote(file: Path) -> None:
    from tfrecord.reader import tfrecord_iterator

    written = [bytes(record) for record in tfrecord_iterator(str(file))]
    index, data = index_file(file, lambda data: None), file.read_bytes()
    spans = zip(index.offsets.tolist(), index.lengths.tolist(), strict=True)
    assert [data[o + HEAD : o + n - FOOT] for o, n in spans] == written


def test_a_store_reads_any_record_also_after_pickling(file: Path) -> None:
    store = pickle.loads(pickle.dumps(open_store(file)))
    assert [store.read(i).getpixel((0, 0))[0] for i in (3, 0, 4)] == [30, 0, 40]
    assert store.read(2).size == (8, 8)


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    assert len(index_file(tmp_path / "none")) == 0


@pytest.mark.parametrize(
    ("part", "position", "words"),
    [
        ("length", 1, r"record 2, at byte [\d,]+: the checksum of its length is wrong \(CRC failed\)"),
        ("length's high bytes", 6, "the checksum of its length is wrong"),
        ("CRC of the length", 9, "the checksum of its length is wrong"),
        ("data", HEAD + 20, r"record 2, at byte [\d,]+: the checksum of its data is wrong \(CRC failed\)"),
        ("CRC of the data", -2, "the checksum of its data is wrong"),
    ],
)
def test_a_flipped_bit_is_named_with_file_and_place(file: Path, part: str, position: int, words: str) -> None:
    index = index_file(file)
    start, end = int(index.offsets[2]), int(index.offsets[2] + index.lengths[2])
    flip(file, start + position if position >= 0 else end + position)
    with pytest.raises(UserError, match=f"a.tfrecords is damaged: .*{words}"):
        index_file(file, lambda data: None)


@pytest.mark.parametrize("remaining", [5, 13, 40])
def test_a_truncated_record_is_told_from_a_flipped_one(file: Path, remaining: int) -> None:
    last = int(index_file(file).offsets[-1])
    file.write_bytes(file.read_bytes()[: last + remaining])
    with pytest.raises(
        UserError, match=rf"record 4, at byte {last:,}: it is cut off, .* {remaining} are left"
    ):
        index_file(file)


@pytest.mark.parametrize(
    ("position", "words"),
    [(0, "record's length is wrong"), (HEAD + 30, "record's data is wrong"), (-1, "record's data is wrong")],
)
def test_reading_compares_both_checksums(file: Path, position: int, words: str) -> None:
    store = open_store(file)
    start, length = int(store.offset[1]), int(store.length[1])
    flip(file, start + (position if position >= 0 else length + position))
    with pytest.raises(ImageError, match=rf"a.tfrecords at byte {start}: the checksum of the {words} \(CRC"):
        store.read(1)
    assert store.read(2).size == (8, 8)


def test_a_record_that_the_file_lost_since(file: Path) -> None:
    store = open_store(file)
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(ImageError, match="cut short"):
        store.read(4)


def test_records_without_image_or_of_another_kind(tmp_path: Path) -> None:
    lone = open_store(write_records(tmp_path / "l.tfrecords", [{"label": (1, "int")}]))
    with pytest.raises(ImageError, match="no image in the feature 'image'"):
        lone.read(0)
    wrong = open_store(write_records(tmp_path / "w.tfrecords", [{"image": (b"no picture", "byte")}]))
    with pytest.raises(ImageError, match="no image that Pillow knows"):
        wrong.read(0)
