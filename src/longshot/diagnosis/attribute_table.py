"""What is known of a dataset's images, a column per attribute: annotated, added by the user, measured from pixels.

And what supports and queries consist of by them: shares and gaps with intervals over tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from PIL.Image import Image

from longshot.base import (
    Floats,
    Ints,
    OutputKind,
    TaskRows,
    UserError,
    cache_dir,
    cache_places,
    canonical_json,
    claim_output,
    delivered,
    has_columns,
    has_parquet,
    hash_text,
    progress,
)
from longshot.data import (
    DIGEST,
    Dataset,
    ImageError,
    ImageStore,
    as_dataset,
    digest_column,
    read_attributes,
    with_checked_attributes,
    without_digests,
)
from longshot.diagnosis.alterations import ALTERED, FORMS, alter, learn_signatures
from longshot.diagnosis.attribute_gaps import AttributeColumn, Gaps, Seen, comparable, find_gaps, means_by
from longshot.diagnosis.descriptors import (
    NUMBERS,
    SIDE,
    TRACES,
    WIDE,
    WIDTH,
    describe,
    fine_measures,
    hue_names,
    measure,
    pooled,
    trace,
)
from longshot.models import Describe, Shards, content_of, hold_lock, open_guarded, read_shards
from longshot.statistics import Interval, mean_interval

_SHARD = {"measures": 4096, "signatures": 128}  # pictures that a kill can cost
_STEP = 32  # images measured at a time
_SAMPLE = (
    40  # images on which alterations are learnt; from 16 a zoom of large photos was taken for low resolution
)
_LEAST = 20  # images without which nothing is learnt
KIND = OutputKind(
    "table of attributes",
    {
        ".csv": has_columns("path", DIGEST),
        ".parquet": has_parquet("longshot", fingerprint=..., identity=...),
    },
)


def measure_attributes(
    dataset: Dataset | str | Path,
    *,
    attributes: str | Path | None = None,
    out: str | Path | None = None,
    force: bool = False,
) -> pa.Table:
    """Measure the attributes of a dataset's images: annotated ones, and those measured from the pixels.

    Parameters
    ----------
    dataset : Dataset, str or path
        A dataset, its name or its path.
    attributes : path, optional
        A CSV with further attributes. It has a column ``path``, then one per attribute.
    out : file, optional
        Write all of them as CSV (.csv) or Parquet. The images' paths and short digests stand beside. Beside the
        images as attributes.csv, the file makes every attribute usable in rules such as
        ``query_where="brightness < 0.3"``. ``"-"`` is the screen.
    force : bool
        Replace what is there, even if Longshot did not write it.

    Returns
    -------
    pyarrow.Table
        One row per image, one column per attribute. A column of ``attributes`` comes before one of the dataset's of
        the same name, and both before a measured one.

    Examples
    --------
    >>> table = measure_attributes("toybox", out="attributes.csv")
    >>> {"viewpoint", "brightness"} <= set(table.column_names)
    True
    """
    ending = None if out is None else claim_output(out, KIND, force=force)
    opened = as_dataset(dataset)
    table = image_attributes(opened, attributes=attributes, pixels=measured_pixels(opened, altered=False))
    if out is not None:
        write_attributes(opened, table, out, ending)
    return table


def write_attributes(dataset: Dataset, table: pa.Table, out: str | Path, ending: str | None) -> None:
    """Write attributes of all images with their paths and short digests, as CSV or Parquet."""
    write = pacsv.write_csv if ending == ".csv" else pq.write_table
    content = content_of(dataset)
    named = table.add_column(0, "path", dataset.keys)
    meta = {"fingerprint": dataset.fingerprint, "identity": content.identity}
    if content.short is not None:
        named = named.add_column(1, DIGEST, digest_column(content.short))
        meta["content"] = content.digest
    with delivered(out) as temporary:
        write(named.replace_schema_metadata({b"longshot": canonical_json(meta).encode()}), temporary)


def image_attributes(
    dataset: Dataset, *, attributes: str | Path | None = None, pixels: Pixels | None = None
) -> pa.Table:
    """Join the attributes of all images: of the CSV, of the dataset, of its ``pixels``; [N rows]."""
    tables = []
    if attributes is not None:
        path = Path(attributes)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UserError(
                f"Cannot read the attributes {path}: {(error.strerror or '').lower()}."
            ) from error
        tables.append(
            without_digests(
                read_attributes(data, dataset.keys, str(path)), dataset, f"The attributes in {path}"
            )
        )
    own = with_checked_attributes(dataset).attributes
    if own is not None:
        tables.append(own)
    if pixels is not None:
        tables.append(pixels.table)
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for table in tables:
        for name in table.column_names:
            columns.setdefault(name, table.column(name))
    return pa.table(columns)


@dataclass(frozen=True, eq=False)
class Pixels:
    """What is seen in the pixels of all N images: J named measures and D descriptors, and what alterations do to some.

    ``altered`` is None where a dataset has fewer than 20 images, too few to learn from.
    """

    numbers: NDArray[np.float32]  # [N, J + D]
    sampled: Ints  # [m] rows of the images that were altered
    altered: NDArray[np.float32] | None  # [forms · m, J + D]

    @property
    def table(self) -> pa.Table:
        """Return the named measures [N rows]."""
        columns = {name: pa.array(self.numbers[:, i], from_pandas=True) for i, name in enumerate(NUMBERS)}
        del columns["hue_degrees"]  # an angle has no order: its name is what can be compared
        degrees = self.numbers[:, NUMBERS.index("hue_degrees")]
        return pa.table({**columns, "hue": pa.array(hue_names(degrees), pa.string())})


def measured_pixels(dataset: Dataset, *, altered: bool = True) -> Pixels:
    """Measure the images of a dataset, and some of them altered, or take it from the cache."""
    title = f"measure {dataset.name}"
    numbers = _through_cache(dataset, "measures", len(dataset), measure_rows, title)
    sampled = _sampled(dataset)
    learn = altered and len(dataset) >= _LEAST
    return Pixels(numbers, sampled, _altered(dataset) if learn else None)


def is_measured(dataset: Dataset) -> bool:
    """Tell whether ``measured_pixels`` takes everything from the cache."""
    kinds = {"measures": len(dataset)}
    if len(dataset) >= _LEAST:
        kinds["signatures"] = len(FORMS) * len(_sampled(dataset))
    return all(
        any(_open(path, count) is not None for path in cache_places("attributes", _file(dataset, kind)))
        for kind, count in kinds.items()
    )


def see(pixels: Pixels, labels: NDArray[np.int32], bound: TaskRows) -> Seen:
    """Learn signatures for some tasks from the pixels of images that are queries and never supports.

    Supports may be altered, and then they would hide what they are to be compared with. Where nearly all images are a
    support of some task, all queries are taken.
    """
    measured = frozenset(pixels.table.column_names)
    descriptors = pixels.numbers[:, len(NUMBERS) :]
    if pixels.altered is None:
        return Seen(measured, descriptors, None)
    queries = np.unique(bound.query.values)
    apart = np.setdiff1d(queries, bound.support.values)
    reference = apart if len(apart) >= len(queries) / 2 else queries
    unused = np.flatnonzero(~np.isin(pixels.sampled, bound.support.values))
    chosen = unused if len(unused) >= _SAMPLE / 4 else np.arange(len(pixels.sampled))
    signatures = learn_signatures(
        *(pixels.numbers, NUMBERS, labels),
        reference=reference,
        sampled=pixels.sampled[chosen],
        altered=pixels.altered.reshape(len(FORMS), len(pixels.sampled), -1)[:, chosen],
    )
    return Seen(measured | set(ALTERED), descriptors, signatures)


def pixel_gaps(
    pixels: Pixels,
    bound: TaskRows,
    labels: NDArray[np.int32],
    columns: Sequence[AttributeColumn] | None = None,
) -> Gaps:
    """Find gaps in the pixels, and in further ``columns`` (those of the named measures unless given)."""
    seen = see(pixels, labels, bound)
    every = list(comparable(pixels.table)[0] if columns is None else columns)
    if seen.signatures is not None:
        own = {column.attribute for column in every}  # an annotation may be called as an alteration is
        every += [each for each in seen.signatures.columns(seen.descriptors) if each.attribute not in own]
        seen = replace(seen, measured=seen.measured - (own & set(ALTERED)))
    return find_gaps(every, bound, labels, seen)


def measure_images(images: Sequence[Image]) -> NDArray[np.float32]:
    """Compute named measures and descriptors of some pictures, [n, len(NUMBERS) + WIDTH]."""
    steps = [range(start, min(start + _STEP, len(images))) for start in range(0, len(images), _STEP)]
    return np.concatenate([_block(lambda row: images[row], step)[0] for step in steps])


def _altered(dataset: Dataset) -> NDArray[np.float32]:
    """Measure and describe the sampled images in each form of each alteration, [forms · images, …]."""
    sampled = _sampled(dataset)
    count, title = len(FORMS) * len(sampled), f"learn alterations on {dataset.name}"
    rows = np.tile(sampled, len(FORMS))
    return _through_cache(dataset, "signatures", count, partial(measure_altered, sampled), title, rows)


def measure_rows(store: ImageStore, rows: range) -> tuple[NDArray[np.float32], list[tuple[int, str]]]:
    """Compute measures and descriptors of some rows, and list those that cannot be read."""
    return _block(store.read, rows)


def measure_altered(
    sampled: Ints, store: ImageStore, positions: range
) -> tuple[NDArray[np.float32], list[tuple[int, str]]]:
    """Compute measures and descriptors of the sampled images in some of the forms, form after form."""

    def altered(position: int) -> Image:
        form, index = divmod(position, len(sampled))
        name, strength = FORMS[form]
        return alter(store.read(int(sampled[index])), name, strength, np.random.default_rng([form, index]))

    return _block(altered, positions)


def _sampled(dataset: Dataset) -> Ints:
    """Choose the rows to learn alterations on, evenly spread over the classes."""
    number = min(len(dataset), _SAMPLE)
    return np.unique(np.linspace(0, len(dataset) - 1, number).round().astype(np.int64))


def _through_cache(
    dataset: Dataset, kind: str, count: int, describe: Describe, title: str, rows: Ints | None = None
) -> NDArray[np.float32]:
    """Measure ``count`` pictures as ``describe`` does, [count, len(NUMBERS) + WIDTH]; ``rows`` are those it reads.

    Unfinished work is kept and gone on with.
    """
    file = _file(dataset, kind)
    for cached in cache_places("attributes", file):
        if (numbers := _open(cached, count)) is not None:
            return numbers
    path = cache_dir("attributes") / file
    with hold_lock(path):
        if (numbers := _open(path, count)) is not None:
            return numbers
        shards = Shards(path, kind, count, _SHARD[kind], "float32")
        _measure(dataset, shards, describe, title, rows)
        shards.assemble()
        shards.remove()
    numbers = _open(path, count)
    assert numbers is not None
    return numbers


def _file(dataset: Dataset, kind: str) -> str:
    forms = [canonical_json(FORMS)] if kind == "signatures" else []
    marks = hash_text(
        "longshot measures 6", kind, dataset.fingerprint, content_of(dataset).digest, *NUMBERS, *forms
    )
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", dataset.name)[:40]
    return f"{name}-{marks[:32]}.npy"


def _open(path: Path, rows: int) -> NDArray[np.float32] | None:
    array = open_guarded(path)
    if array is None:
        return None
    return array if array.shape == (rows, len(NUMBERS) + WIDTH) and array.dtype == np.float32 else None


def _measure(dataset: Dataset, shards: Shards, describe: Describe, title: str, rows: Ints | None) -> None:
    with progress(title, shards.rows, "images") as bar:
        threads = torch.get_num_threads()
        read_shards(dataset, shards, describe, bar, step=_STEP, workers=threads, rows=rows)


def _block(read: Callable[[int], Image], rows: range) -> tuple[NDArray[np.float32], list[tuple[int, str]]]:
    from PIL.Image import Resampling

    pixels = np.zeros((len(rows), WIDE, WIDE, 3), np.uint8)
    traces = np.zeros((len(rows), TRACES), np.float32)
    aspect = np.ones(len(rows), np.float32)
    bad = []
    for position, row in enumerate(rows):
        try:
            image = read(row)
        except ImageError as error:
            bad.append((row, error.reason))
            continue
        aspect[position] = image.width / image.height
        traces[position] = trace(np.asarray(image))
        # Reducing first: a filter over every pixel of a large photo would cost more than all measures.
        pixels[position] = np.asarray(image.resize((WIDE, WIDE), Resampling.BILINEAR, reducing_gap=2.0))
    small = pooled(pixels.astype(np.float32), WIDE // SIDE).round().astype(np.uint8)
    values = measure(small)
    for name, column in {"aspect": aspect, **fine_measures(pixels, traces)}.items():
        values[:, NUMBERS.index(name)] = column
    return np.concatenate([values, describe(pixels, traces)], 1), bad


@dataclass(frozen=True)
class Composition:
    """One column over the tasks of one testbed: mean of the support, of the queries, and of their difference."""

    attribute: str
    value: str | None
    support: Interval
    query: Interval
    gap: Interval  # support − query, paired by task
    apart: Interval  # |support − query| per class in within-class σ or share, mean over classes
    coverage: float  # of the images in the dataset


def composition(gaps: Gaps) -> list[Composition]:
    """Compare support and queries by column, but no alterations; tasks need known values on both sides."""
    compositions = []
    for row, column in enumerate(gaps.columns):
        if column.attribute in ALTERED:
            continue  # a score without a unit says nothing of what supports consist of
        support, query = (_by_task(gaps, values[row]) for values in (gaps.support, gaps.query))
        apart = _by_task(gaps, np.abs(gaps.effect[row]))
        finite = np.isfinite(support) & np.isfinite(query)
        if not finite.any():
            continue
        far = apart[np.isfinite(apart)]
        compositions.append(
            Composition(
                attribute=column.attribute,
                value=column.value,
                support=mean_interval(support[finite]),
                query=mean_interval(query[finite]),
                gap=mean_interval((support - query)[finite]),
                apart=mean_interval(far if len(far) else np.zeros(1)),
                coverage=column.coverage,
            )
        )
    return compositions


def _by_task(gaps: Gaps, values: Floats) -> Floats:
    """Mean over the classes of each task [T] of values per group [G]; NaN where none is known."""
    return means_by(values, gaps.groups.task, gaps.task_p.shape[1])[0]
