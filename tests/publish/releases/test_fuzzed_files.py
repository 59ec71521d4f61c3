"""A hundred damaged or forged testbeds and releases: every change of meaning is noticed, or proved to be harmless.

Each kind says beforehand which of the two it is. Harmless means: what is read is the very same tasks, images and
digests. Kinds that "may" are flips of bytes, which may hit padding: for those either holds.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longshot.base import UserError, hash_file
from longshot.data import Dataset, open_dataset
from longshot.publish import release, verify
from longshot.tasks import ImageContent, Testbed, columns, full_content, sample

Rng = np.random.Generator
LABELS = np.repeat(["ant", "bee", "cat"], 12)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    path = tmp_path_factory.mktemp("data") / "photos.npz"
    images = np.random.default_rng(0).integers(0, 255, (len(LABELS), 8, 8, 3), dtype=np.uint8)
    np.savez(path, images=images, labels=LABELS)
    return open_dataset(path)


@pytest.fixture(scope="module")
def bed(dataset: Dataset) -> Testbed:
    return sample(dataset, tasks=6, way=2, shot=2, query=2)


def same_testbed(a: Testbed, b: Testbed) -> bool:
    """Whether two testbeds mean the same: tasks, datasets, digests."""
    digests = [bed.content["photos"].digests.tolist() for bed in (a, b)]
    facts = [{key: bed.meta[key] for key in bed.meta if key != "creator"} for bed in (a, b)]
    return a.table.equals(b.table) and facts[0] == facts[1] and digests[0] == digests[1]


# --- testbeds ---


def stored(path: Path) -> dict[bytes, bytes]:
    return {key: value for key, value in pq.read_metadata(path).metadata.items() if b"longshot" in key}


def rewrite(
    path: Path,
    table: pa.Table | None = None,
    meta: Callable[[dict[str, Any]], object] | None = None,
    digests: Callable[[bytes], bytes] | None = None,
    **options: Any,
) -> None:
    """The file with other parts, as somebody with Arrow at hand would write it."""
    metadata = stored(path)
    if meta is not None:
        facts = json.loads(metadata[b"longshot"])
        meta(facts)
        metadata[b"longshot"] = json.dumps(facts).encode()
    if digests is not None:
        metadata[b"longshot.digests"] = digests(metadata[b"longshot.digests"])
    table = Testbed.load(path).table if table is None else table
    pq.write_table(table.replace_schema_metadata(metadata), path, **options)


def flip_a_byte(path: Path, rng: Rng) -> None:
    data = bytearray(path.read_bytes())
    data[int(rng.integers(len(data)))] ^= int(rng.integers(1, 256))
    path.write_bytes(data)


def cut_the_end(path: Path, rng: Rng) -> None:
    path.write_bytes(path.read_bytes()[: -int(rng.integers(1, 500))])


def add_to_the_end(path: Path, rng: Rng) -> None:
    path.write_bytes(path.read_bytes() + rng.bytes(int(rng.integers(1, 50))))


def swap_two_images(path: Path, rng: Rng) -> None:
    table = Testbed.load(path).table
    part = str(rng.choice(["support", "query"]))
    rows = table.column(part).to_pylist()
    task = int(rng.integers(len(rows)))
    rows[task][0], rows[task][-1] = rows[task][-1], rows[task][0]
    column = pa.array(rows, pa.list_(pa.string()))
    rewrite(path, table.set_column(table.column_names.index(part), part, column))


def change_a_label(path: Path, rng: Rng) -> None:
    table = Testbed.load(path).table
    rows = table.column("query_label").to_pylist()
    rows[int(rng.integers(len(rows)))][0] ^= 1
    column = pa.array(rows, pa.list_(pa.int16()))
    rewrite(path, table.set_column(table.column_names.index("query_label"), "query_label", column))


def drop_a_task(path: Path, rng: Rng) -> None:
    rewrite(path, Testbed.load(path).table.slice(0, int(rng.integers(1, 6))))


def change_the_fingerprint(path: Path, rng: Rng) -> None:
    rewrite(path, meta=lambda facts: facts["datasets"].update(photos=rng.bytes(32).hex()))


def change_the_digest(path: Path, rng: Rng) -> None:
    rewrite(path, meta=lambda facts: facts["content"]["photos"].update(digest=rng.bytes(32).hex()))


def claim_names_only(path: Path, rng: Rng) -> None:
    entry = {"identity": "names", "digest": "", "bits": 0, "exact": False}
    rewrite(path, meta=lambda facts: facts["content"]["photos"].update(entry), digests=lambda _: b"")


def change_a_short_digest(path: Path, rng: Rng) -> None:
    def change(packed: bytes) -> bytes:
        position = int(rng.integers(len(packed) - 4))
        letter = b"A" if packed[position : position + 1] != b"A" else b"B"
        return packed[:position] + letter + packed[position + 1 :]

    rewrite(path, digests=change)


def drop_the_short_digests(path: Path, rng: Rng) -> None:
    rewrite(path, digests=lambda packed: packed[: 4 * int(rng.integers(len(packed) // 4))])


def change_the_seed(path: Path, rng: Rng) -> None:
    rewrite(path, meta=lambda facts: facts.update(seed=int(rng.integers(1, 99))))


def change_the_creator(path: Path, rng: Rng) -> None:
    rewrite(path, meta=lambda facts: facts.update(creator=f"longshot {rng.integers(9)}"))


def compress_otherwise(path: Path, rng: Rng) -> None:
    rewrite(
        path, compression=str(rng.choice(["gzip", "snappy", "none"])), row_group_size=int(rng.integers(1, 7))
    )


def forge(path: Path, rng: Rng) -> None:
    """Other digests under a hash that fits them: only the images can tell."""
    bed = Testbed.load(path)
    content = bed.content["photos"]
    digests = content.digests.copy()
    digests[int(rng.integers(len(digests)))] ^= 1
    forged = full_content(digests, content.of)
    bed.changed(bed.table, content={"photos": forged}).save(path, force=True)


def forge_the_whole_digest(path: Path, rng: Rng) -> None:
    bed = Testbed.load(path)
    content = bed.content["photos"]
    digest = rng.bytes(32).hex()
    forged = ImageContent("content", content.images, content.of, digest, content.bits, content.digests)
    bed.changed(bed.table, content={"photos": forged}).save(path, force=True)


TESTBEDS: list[tuple[Callable[[Path, Rng], None], str, int]] = [
    (flip_a_byte, "may", 10),
    (cut_the_end, "noticed", 3),
    (add_to_the_end, "noticed", 3),
    (swap_two_images, "noticed", 4),
    (change_a_label, "noticed", 3),
    (drop_a_task, "noticed", 2),
    (change_the_fingerprint, "noticed", 2),
    (change_the_digest, "noticed", 3),
    (claim_names_only, "noticed", 1),
    (change_a_short_digest, "noticed", 5),
    (drop_the_short_digests, "noticed", 3),
    (change_the_seed, "noticed", 2),
    (change_the_creator, "harmless", 2),
    (compress_otherwise, "harmless", 3),
    (forge, "noticed", 3),
    (forge_the_whole_digest, "noticed", 1),
]


@pytest.mark.parametrize(
    ("mutate", "expected", "times"), TESTBEDS, ids=[kind[0].__name__ for kind in TESTBEDS]
)
def test_testbeds(
    mutate: Callable[[Path, Rng], None],
    expected: str,
    times: int,
    bed: Testbed,
    dataset: Dataset,
    tmp_path: Path,
) -> None:
    for seed in range(times):
        path = tmp_path / f"{seed}.parquet"
        bed.save(path)
        mutate(path, np.random.default_rng(seed))
        try:
            again = Testbed.load(path)
            again.bind("photos", dataset.keys, dataset.fingerprint)
            again.check_content("photos", dataset)
            outcome = "harmless" if same_testbed(bed, again) else "unnoticed"
        except UserError:
            outcome = "noticed"
        assert outcome in ({"noticed", "harmless"} if expected == "may" else {expected}), (seed, outcome)


# --- releases ---


@pytest.fixture(scope="module")
def released(bed: Testbed, dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release(
        {"bed": bed},
        out=tmp_path_factory.mktemp("released") / "r",
        title="Photos",
        datasets={"photos": dataset},
    )


def seal(root: Path) -> None:
    """Make the sums fit what is there, as a forger would."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    lines = [f"{hash_file(path)}  {path.relative_to(root)}\n" for path in files]
    (root / "SHA256SUMS").write_text("".join(lines))


def flip_a_byte_of_a_file(root: Path, rng: Rng) -> None:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    flip_a_byte(files[int(rng.integers(len(files)))], rng)


def drop_a_file(root: Path, rng: Rng) -> None:
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.name != "release.json")
    files[int(rng.integers(len(files)))].unlink()


def add_a_file(root: Path, rng: Rng) -> None:
    (root / "testbeds" / f"{rng.integers(99)}.parquet").write_bytes(b"more")


def drop_a_line_of_the_sums(root: Path, rng: Rng) -> None:
    lines = (root / "SHA256SUMS").read_text().splitlines(keepends=True)
    del lines[int(rng.integers(len(lines)))]
    (root / "SHA256SUMS").write_text("".join(lines))


def change_facts(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    facts = json.loads((root / "release.json").read_text())
    change(facts)
    (root / "release.json").write_text(json.dumps(facts))
    seal(root)


def forge_the_hash_of_a_testbed(root: Path, rng: Rng) -> None:
    change_facts(root, lambda facts: facts["testbeds"][0].update(content_hash=rng.bytes(32).hex()))


def forge_the_fingerprint_of_a_source(root: Path, rng: Rng) -> None:
    change_facts(root, lambda facts: facts["sources"][0].update(fingerprint=rng.bytes(32).hex()))


def forge_the_digest_of_a_source(root: Path, rng: Rng) -> None:
    change_facts(root, lambda facts: facts["sources"][0]["content"].update(digest=rng.bytes(32).hex()))


def forge_names_only(root: Path, rng: Rng) -> None:
    change_facts(root, lambda facts: facts["sources"][0]["content"].update(identity="names"))


def change_the_licence(root: Path, rng: Rng) -> None:
    change_facts(root, lambda facts: facts.update(licence=f"CC-BY-{rng.integers(9)}"))


def change_names(root: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    path = root / "sources" / "photos.parquet"
    table = pq.read_table(path)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)
    seal(root)


def forge_the_digest_of_an_image(root: Path, rng: Rng) -> None:
    def change(table: pa.Table) -> pa.Table:
        digests = table.column("digest").to_pylist()
        used = [row for row, digest in enumerate(digests) if digest is not None]
        row = used[int(rng.integers(len(used)))]
        digests[row] = digests[row][:-1] + bytes([digests[row][-1] ^ 1])
        return table.set_column(1, "digest", pa.array(digests, pa.binary(32)))

    change_names(root, change)


def forge_the_pixels_of_an_image(root: Path, rng: Rng) -> None:
    def change(table: pa.Table) -> pa.Table:
        pixels = [None if digest is None else digest[::-1] for digest in table.column("pixels").to_pylist()]
        return table.set_column(2, "pixels", pa.array(pixels, pa.binary(32)))

    change_names(root, change)


def drop_a_name(root: Path, rng: Rng) -> None:
    def change(table: pa.Table) -> pa.Table:
        row = int(rng.integers(len(table)))
        return pa.concat_tables([table.slice(0, row), table.slice(row + 1)])

    change_names(root, change)


def put_another_testbed_in_place(root: Path, rng: Rng) -> None:
    path = root / "testbeds" / "bed.parquet"
    bed = Testbed.load(path)
    table = bed.table.take(pa.array(np.arange(5)))
    bed.changed(columns.canonical(table)).save(path, force=True)
    seal(root)


RELEASES: list[tuple[Callable[[Path, Rng], None], str, int]] = [
    (flip_a_byte_of_a_file, "noticed", 12),
    (drop_a_file, "noticed", 4),
    (add_a_file, "noticed", 2),
    (drop_a_line_of_the_sums, "noticed", 4),
    (forge_the_hash_of_a_testbed, "noticed", 3),
    (forge_the_fingerprint_of_a_source, "noticed", 3),
    (forge_the_digest_of_a_source, "noticed", 3),
    (forge_names_only, "noticed", 1),
    (change_the_licence, "harmless", 2),
    (forge_the_digest_of_an_image, "noticed", 6),
    (forge_the_pixels_of_an_image, "noticed", 2),
    (drop_a_name, "noticed", 5),
    (put_another_testbed_in_place, "noticed", 3),
]


@pytest.mark.parametrize(
    ("mutate", "expected", "times"), RELEASES, ids=[kind[0].__name__ for kind in RELEASES]
)
def test_releases(
    mutate: Callable[[Path, Rng], None],
    expected: str,
    times: int,
    released: Path,
    bed: Testbed,
    dataset: Dataset,
    tmp_path: Path,
) -> None:
    for seed in range(times):
        root = Path(shutil.copytree(released, tmp_path / str(seed)))
        mutate(root, np.random.default_rng(seed))
        try:
            problems = [check for check in verify(root, datasets={"photos": dataset}) if check.template]
            outcome = "noticed" if problems else "unnoticed"
            if not problems and same_testbed(bed, Testbed.load(root / "testbeds" / "bed.parquet")):
                outcome = "harmless"
        except UserError:
            outcome = "noticed"
        assert outcome == expected, seed


def test_there_are_a_hundred() -> None:
    assert sum(times for _, _, times in (*TESTBEDS, *RELEASES)) == 100
