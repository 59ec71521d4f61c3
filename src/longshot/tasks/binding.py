"""Binding a testbed to images: the rows of its tasks in whatever copy of a dataset is at hand, whatever its layout.

A testbed names its images as they were called where it was drawn. Here they may be called otherwise, lie in an archive,
among others, or be encoded anew. They are then found by content, and the testbed is given the names of here: as names
are no part of its content hash it stays the same testbed, and all that follows works with names alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Ints, Ragged, TaskRows, UserError, count, first, note
from longshot.data import (
    HALVES,
    as_dataset,
    digest_words,
    image_digests,
    open_dataset,
    pixel_digests,
    registry,
    reopen_dataset,
    sources_with,
)
from longshot.tasks import columns
from longshot.tasks.content import FULL, ImageContent, full_content, say_changed

if TYPE_CHECKING:
    from longshot.base import Bools
    from longshot.data import Dataset, Digests
    from longshot.tasks.testbed import Testbed


def open_datasets(
    testbed: Testbed, datasets: Mapping[str, Dataset | str | Path] | None = None, *, check: bool = True
) -> tuple[Testbed, dict[str, Dataset]]:
    """Bind the testbed to its datasets, the given ones or those in the registry; return it and the datasets by name.

    UserError where images in use are missing or altered, unless ``check`` is False: then they keep their names, and the
    caller finds out by itself what differs.
    """
    datasets = datasets or {}
    check_names(testbed, datasets)
    opened: dict[str, Dataset] = {}
    for name in testbed.datasets:
        source = datasets.get(name)
        opened[name] = find_dataset(testbed, name) if source is None else as_dataset(source)
        if testbed.content[name].identity == "names":  # so does all that is made with the testbed
            opened[name] = opened[name].with_identity("names")
        testbed = rebind(testbed, name, opened[name], check=check)
    return testbed, opened


def find_dataset(testbed: Testbed, name: str) -> Dataset:
    """Find a dataset of the testbed on this machine: among copies, one that has the images it was drawn from.

    Where there is none of that fingerprint, any dataset that is remembered with all of these images. Else another
    copy, or what lies there now: binding says what differs.
    """
    content = testbed.content[name]

    def serves(dataset: Dataset) -> bool:
        try:
            rebind(testbed, name, dataset, quiet=True)
        except UserError:
            return False
        return True

    dataset, problem = None, None
    has_the_bytes = serves if content.identity == "content" else None
    try:
        dataset = reopen_dataset(testbed.datasets[name], name, or_changed=True, has_the_bytes=has_the_bytes)
    except UserError as error:
        problem = error
    if content.identity == "content" and (dataset is None or not serves(dataset)):
        for source in sources_with(content.digests):
            other = open_dataset(source)
            if serves(other):
                note(
                    f"'{name}' is taken from {source}, which holds the same images; {{datasets:{name}=PATH}} takes "
                    "another."
                )
                return other
    if dataset is None:
        assert problem is not None
        raise problem
    return dataset


def bound_here(testbed: Testbed) -> Testbed:
    """Rename the images as they are called on this machine, where no dataset of the testbed's fingerprint is known."""
    for name, fingerprint in testbed.datasets.items():
        if (
            testbed.content[name].identity == "content"
            and fingerprint not in registry.read_registry().datasets
        ):
            with contextlib.suppress(UserError):
                testbed = rebind(testbed, name, find_dataset(testbed, name), quiet=True)
    return testbed


def check_names(testbed: Testbed, names: Iterable[str]) -> None:
    """Raise UserError when a name is none of the testbed's datasets."""
    unknown = set(names) - set(testbed.datasets)
    if unknown:
        raise UserError(
            f"The testbed has no dataset '{min(unknown)}'; it has: {', '.join(testbed.datasets)}."
        )


def rebind(
    testbed: Testbed, name: str, dataset: Dataset, *, check: bool = True, quiet: bool = False
) -> Testbed:
    """Find the testbed's images in ``dataset`` by content, and call them as they are called there.

    Parameters
    ----------
    testbed : Testbed
        Where it knows its images by names only, the dataset must have those
        names.
    name : str
        Which of its datasets.
    dataset : Dataset
        The copy that is here.
    check : bool
        UserError where images are missing or altered; else these keep the names that are on record.
    quiet : bool
        Without a note of what was bound how.
    """
    content, keys = testbed.content[name], testbed.keys(name)
    if "names" in (content.identity, dataset.identity):
        if check:
            testbed.bind(name, dataset.keys, dataset.fingerprint)  # says what differs
            testbed.check_content(name, dataset)
        return testbed
    match = match_images(content, keys, dataset)
    nowhere = match.rows < 0
    if check and nowhere.any():
        raise _mismatch(name, keys, match, dataset)
    if not quiet and not match.by_name.all():
        note(f"'{name}' in {dataset.source}: {match}")
    found_keys = dataset.keys.take(pa.array(match.rows[~nowhere])).cast(keys.type)
    names = pc.replace_with_mask(keys, pa.array(~nowhere), found_keys)
    if names.equals(keys) and dataset.fingerprint == testbed.datasets[name]:
        return testbed
    return _renamed(testbed, name, names, dataset)


def _renamed(testbed: Testbed, name: str, names: pa.Array, dataset: Dataset) -> Testbed:
    """Replace the keys of one dataset by ``names`` [M]; change nothing where two images would share a name."""
    keys, content = testbed.keys(name), testbed.content[name]
    distinct = pc.unique(names)
    distinct = distinct.take(pc.sort_indices(distinct))
    number = columns.positions_in(names, distinct)
    digests = np.zeros((len(distinct), FULL), np.uint8)
    digests[number] = content.digests
    if (
        digests[number] != content.digests
    ).any():  # a name of another image that is nowhere: say it by its own
        return testbed
    table, own = testbed.table, columns.of_dataset(testbed.table, name)
    for part in ("support", "query"):
        rows, words = columns.ragged(table, part), columns.dictionary(table, part)
        mentioned = np.repeat(own, rows.lengths)
        values = rows.values.astype(np.int64)
        values[mentioned] = len(words) + number[columns.places_among(table, part, keys)[values[mentioned]]]
        together = pa.concat_arrays([words.cast(pa.string()), distinct.cast(pa.string())])
        column = columns.strings(Ragged(values, rows.offsets), together)
        table = table.set_column(table.schema.get_field_index(part), part, column)
    return testbed.changed(
        table,
        content={**testbed.content, name: full_content(digests, content.of)},
        datasets={**testbed.datasets, name: dataset.fingerprint},
    )


def _mismatch(name: str, keys: pa.Array, match: ImageMatch, dataset: Dataset) -> UserError:
    """Build the error for a dataset that lacks images of a testbed."""
    altered, missing = (keys.filter(pa.array(mask)).to_pylist() for mask in (match.altered, match.missing))
    fact = say_changed(name, altered, len(keys))
    if missing:
        also = f", and {len(altered):,} have other bytes and pixels ({first(altered)})" if altered else ""
        fact = (
            f"{len(missing):,} of the {count(len(keys), 'image')} of '{name}' that the testbed uses are not in "
            f"{dataset.source}, neither under their names nor under others: {first(missing)}{also}"
        )
    return UserError(
        fact, f"give the original with {{datasets:{name}=PATH}} or draw the testbed again with {{sample()}}"
    )


def bind(testbed: Testbed, name: str, keys: pa.Array, fingerprint: str) -> TaskRows:
    """See :meth:`Testbed.bind`."""
    check_names(testbed, [name])
    positions = np.flatnonzero(columns.of_dataset(testbed.table, name))
    rows: dict[str, Ragged] = {}
    missing: set[str] = set()
    for part in ("support", "query"):
        picked = columns.ragged(testbed.table, part).take(positions)
        names = columns.dictionary(testbed.table, part)
        values = columns.places_among(testbed.table, part, keys)[picked.values]
        absent = picked.values[values < 0]
        missing.update(names.take(pa.array(np.unique(absent))).to_pylist())
        rows[part] = picked.with_values(values)
    if fingerprint != testbed.datasets[name]:
        difference = (
            "all images of the testbed are still there, but other images or classes were added or removed"
        )
        if missing:
            difference = (
                f"{len(missing):,} of the testbed's images are no longer there, for example '{min(missing)}'"
            )
        raise UserError(
            f"The dataset '{name}' has changed since the testbed was drawn (fingerprint {fingerprint[:12]}…, the "
            f"testbed has {testbed.datasets[name][:12]}…): {difference}",
            f"give the original with {{datasets:{name}=PATH}} or draw the testbed again with {{sample()}}",
        )
    if missing:
        raise UserError(
            f"{len(missing):,} images of the testbed are not among the {len(keys):,} given keys of '{name}', for "
            f"example '{min(missing)}'; bind it to the whole dataset."
        )
    return TaskRows(
        tasks=positions,
        ways=testbed.table.column("way").to_numpy().astype(np.int64)[positions],
        support=rows["support"],
        support_label=columns.ragged(testbed.table, "support_label").take(positions),
        query=rows["query"],
        query_label=columns.ragged(testbed.table, "query_label").take(positions),
    )


class ImageMatch(NamedTuple):
    """Where a dataset has the images that a testbed uses [M], in the order of their keys."""

    rows: Ints  # −1: nowhere
    by_name: Bools  # under its name, with its bytes
    by_pixels: Bools  # with its pixels only: encoded anew
    altered: Bools  # nowhere, and its name stands for another image

    @property
    def missing(self) -> Bools:
        """Mark images that are nowhere in the dataset, not even their names."""
        nowhere: Bools = (self.rows < 0) & ~self.altered
        return nowhere

    @property
    def renamed(self) -> Bools:
        """Mark images that are there with their bytes under another name."""
        elsewhere: Bools = (self.rows >= 0) & ~self.by_name & ~self.by_pixels
        return elsewhere

    def __str__(self) -> str:
        """Return counts in words: ``300 images bound by name, 12 by content under other names``."""
        kinds = (
            (self.by_name, "by name"),
            (self.renamed, "by content under other names"),
            (self.by_pixels, "by pixels (encoded anew)"),
            (self.altered, "not at all: altered"),
            (self.missing, "not at all: missing"),
        )
        parts = [f"{int(mask.sum()):,} {words}" for mask, words in kinds if mask.any()]
        return ", ".join(parts).replace(" ", " images bound ", 1)


def match_images(content: ImageContent, keys: pa.Array, dataset: Dataset) -> ImageMatch:
    """Look for images (``keys`` with their ``content``) in a dataset of any layout.

    First under their names, then by the digest of their bytes, then by that of their pixels; each step reads only what
    the one before did not settle. Where less than full digests is on record, under their names alone.
    """
    named = columns.positions_in(keys, dataset.keys)
    rows, there = named.copy(), np.flatnonzero(named >= 0)
    if content.identity == "content":
        digests = image_digests(dataset, named[there], skip_bad=True)
        rows[there[content.take(there).differs(digests)]] = -1
    by_name = rows >= 0
    by_pixels = np.zeros(len(keys), np.bool_)
    if by_name.all() or content.identity == "names":
        return ImageMatch(rows, by_name, by_pixels, ~by_name & (named >= 0))
    _match(rows, content.digests, HALVES[0], image_digests(dataset, skip_bad=True), np.arange(len(dataset)))
    for nearby in (True, False):  # a file that was encoded anew where it is needs no look at the others
        before = rows < 0
        candidates = np.unique(named[before & (named >= 0)]) if nearby else np.arange(len(dataset))
        candidates = np.setdiff1d(candidates, rows)
        if before.any() and len(candidates):
            pixels = pixel_digests(dataset, candidates, skip_bad=True)
            _match(rows, content.digests, HALVES[1], pixels, candidates)
            by_pixels |= before & (rows >= 0)
    return ImageMatch(rows, by_name, by_pixels, (rows < 0) & (named >= 0))


def _match(rows: Ints, digests: Digests, by: slice, present: Digests, candidates: Ints) -> None:
    """Fill −1 in ``rows`` [M] with candidates [N] whose digests [N, 32] equal columns ``by`` of ``digests`` [M, 64].

    Copies of one image share a row; different images, which may share their pixels, have one each. Zeros, of what
    cannot be decoded, equal nothing.
    """
    todo = np.flatnonzero(rows < 0)
    _, example, which = np.unique(digest_words(digests[todo]), return_index=True, return_inverse=True)
    words, available = digest_words(digests[todo[example], by]), digest_words(present)
    rank, order = np.empty(len(words), np.int64), np.argsort(words, kind="stable")
    rank[order] = np.arange(len(words)) - np.searchsorted(words[order], words[order])
    by_word = np.argsort(available, kind="stable")
    position = np.searchsorted(available[by_word], words) + rank
    hit = (position < np.searchsorted(available[by_word], words, "right")) & (words != b"")
    row_of = np.full(len(words), -1, np.int64)
    row_of[hit] = candidates[by_word[position[hit]]]
    rows[todo] = row_of[which]
