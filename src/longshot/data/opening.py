"""Opening a dataset: what lies where, which kind it is, which images are left out; and parts of a dataset."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import (
    Ints,
    UserError,
    count,
    first,
    is_url,
    note,
    offsets_of,
    opened_copy,
    shown_location,
)
from longshot.data import registry
from longshot.data.dataset import Dataset, check_identity, default_identity
from longshot.data.formats import make_format, open_unnamed, recognise, split_spec
from longshot.data.stores import RowsStore, escape_name, unescape_name

VIEW_ENDING = ".view.json"  # of a file that says which part of a dataset to take


def take_rows(dataset: Dataset, rows: Ints, **changes: Any) -> Dataset:
    """Return the dataset with these rows only.

    Parameters
    ----------
    dataset : Dataset
        What to take a part of.
    rows : array [M] of int
        Row numbers, ascending. A class without any of them goes, from splits and taxonomy too.
    **changes
        Other fields of the new dataset, such as ``name``.
    """
    sizes = np.bincount(dataset.labels[rows], minlength=len(dataset.class_ids))
    present = np.flatnonzero(sizes)
    class_ids = tuple(dataset.class_ids[index] for index in present)
    members = set(class_ids)
    splits = {split: tuple(c for c in ids if c in members) for split, ids in dataset.splits.items()}
    part = replace(
        dataset,
        class_ids=class_ids,
        offsets=offsets_of(sizes[present]),
        keys=dataset.keys.take(pa.array(rows)),
        store=RowsStore(dataset.store, rows),
        taxonomy=None if dataset.taxonomy is None else dataset.taxonomy.restrict(class_ids),
        attributes=None if dataset.attributes is None else dataset.attributes.take(pa.array(rows)),
        splits={split: ids for split, ids in splits.items() if ids},
    )
    return replace(part, **changes)


def class_branches(dataset: Dataset) -> list[str]:
    """List the first parts of class ids that have something below them, in order: ``Fruit`` of ``Fruit/Apple``."""
    return list(dict.fromkeys(c.split("/", 1)[0] for c in dataset.class_ids if "/" in c))


def take_branch(dataset: Dataset, branch: str) -> Dataset:
    """Return the classes below one branch of the class ids, such as all species of one family, as a dataset.

    Parameters
    ----------
    dataset : Dataset
        What to take a part of.
    branch : str
        The first parts of class ids: ``Fruit`` takes ``Fruit/Apple`` and ``Fruit/Pear``.

    Returns
    -------
    Dataset
        Called ``NAME-BRANCH``; keys, splits, taxonomy and attributes are those of the dataset.
    """
    inside = np.array([class_id.startswith(f"{branch}/") for class_id in dataset.class_ids])
    if not inside.any():
        all_branches = class_branches(dataset)
        raise UserError(
            f"Dataset '{dataset.name}' has no classes under '{branch}'; it has "
            f"{count(all_branches, 'branch', 'branches')}: {first(all_branches, 10)}."
        )
    rows = np.flatnonzero(inside[dataset.labels])
    return take_rows(dataset, rows, name=f"{dataset.name}-{branch.replace('/', '-')}", skipped=())


def leave_out(dataset: Dataset, bad: Mapping[str, str]) -> Dataset:
    """Return the dataset without the images in ``bad`` (key → reason); they are listed in ``skipped``.

    A class that loses all its images is an error, because leaving it out would change what is measured.
    """
    drop = pc.is_in(dataset.keys, value_set=pa.array(list(bad), pa.string()))
    mask = drop.to_numpy(zero_copy_only=False)
    if not mask.any():
        return dataset
    rows = np.flatnonzero(~mask)
    sizes = np.bincount(dataset.labels[rows], minlength=len(dataset.class_ids))
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        key = dataset.keys[int(dataset.offsets[empty[0]])].as_py()
        raise UserError(
            f"Dataset '{dataset.name}' has {count(len(empty), 'class', 'classes')} without one readable "
            f"image ({first([dataset.class_ids[i] for i in empty])}; '{key}': {bad[key]}); mend the images "
            f"or remove the class."
        )
    skipped = tuple(dataset.keys.filter(drop).to_pylist())
    return take_rows(dataset, rows, skipped=skipped, taxonomy=dataset.taxonomy, splits=dataset.splits)


DatasetLike: TypeAlias = Dataset | str | Path  # a dataset, or what ``open_dataset`` opens


def open_dataset(
    spec: str | Path,
    *,
    name: str | None = None,
    skip_bad: bool = False,
    refresh: bool = False,
    identity: str | None = None,
) -> Dataset:
    """Open a dataset. Where it lives is remembered by its fingerprint.

    Parameters
    ----------
    spec : str or path
        ``"toybox"``, a folder, .zip, .tar, .tar.gz, .csv, .tsv, .parquet or .npz, ``FORMAT:PATH`` where it is
        to be taken for something else than it looks like, or a registered name. In place of a path a URL:
        ``"s3://bucket/photos.zip"`` is fetched into the cache.
    name : str, optional
        What to call it; by default the name it was added under, or that of its file.
    skip_bad : bool
        Leave unreadable images out and record them in the dataset. Every image is decoded once, and later
        openings of the same source leave out the same ones.
    refresh : bool
        Scan anew, and drop the record of images left out.
    identity : {"content", "names"}, optional
        What everything made of the dataset vouches for: the bytes of its images, or only their names, for
        drives where reading them takes too long. What the variable ``LONGSHOT_IDENTITY`` says unless given; by
        content without it.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import numpy as np
    >>> np.savez("photos.npz", images=np.zeros((4, 8, 8), np.uint8), labels=["ant", "bee", "ant", "bee"])
    >>> open_dataset("photos.npz").class_ids
    ('ant', 'bee')
    """
    identity = default_identity() if identity is None else check_identity(identity)
    source = locate(spec)
    complete = open_located(source, name=name, refresh=refresh)
    if skip_bad:
        from longshot.data.catalogue import find_bad

        bad = dict(find_bad(complete, refresh=refresh))
    else:
        bad = {} if refresh else registry.skipped(complete.source)
    dataset = leave_out(complete, bad).with_identity(identity)
    if skip_bad or refresh:
        registry.set_skipped(dataset.source, bad)
    if dataset.skipped:
        note(
            f"{count(dataset.skipped, 'unreadable image')} of {len(complete):,} in '{dataset.name}' left out "
            f"({{skip_bad:True}}); {{data.check_dataset({dataset.source})}} lists them."
        )
    if dataset.or_as:
        note(f"'{dataset.name}' is taken for {dataset.taken_for}.")
        note(f"It could also be {'; or '.join(dataset.or_as)}.")
    registry.remember(dataset)
    return dataset


def as_dataset(dataset: DatasetLike) -> Dataset:
    """Return a dataset as it is, or open it where a name or a path is given."""
    return dataset if isinstance(dataset, Dataset) else open_dataset(dataset)


def locate(spec: str | Path) -> str:
    """Locate a dataset: ``"toybox"``, an absolute path or a URL, or ``FORMAT:PATH`` with one of those.

    Parameters
    ----------
    spec : str or path
        A path or a registered name. A path that exists comes before a name, so ``./photos`` is opened by ``photos``
        in its own folder.
    """
    text = os.fspath(spec)
    if text == "toybox":
        return text
    if not text:
        raise UserError("The dataset is empty text; give a path, a registered name, or toybox.")
    if is_url(text):
        return text
    path = _absolute(text)
    if path is not None:
        return path
    formatted = split_spec(text)
    if formatted is not None:
        call, inner = formatted
        if is_url(inner):
            make_format(call)  # says what is wrong with it before anything is fetched
            return text
        path = _absolute(inner)
        if path is None:
            raise UserError(f"There is nothing at {escape_name(inner)}{_suggestion(Path(inner))}")
        return make_format(call).source(Path(path))
    registered = registry.source_of(text)
    if registered == "toybox" or (registered is not None and url_in(registered)):
        return registered
    if registered is not None:
        if not registry.is_there(registered):
            raise UserError(
                f"The dataset '{text}' is no longer at {registered}",
                f"say where it is now with {{data.add_dataset({text}, PATH)}}",
            )
        return registered if split_spec(registered) else unescape_name(registered)
    raise UserError(f"There is no dataset at {escape_name(text)}{_suggestion(Path(text))}")


def _absolute(text: str) -> str | None:
    """Return the absolute path of what lies at ``text``, None when nothing does."""
    for form in (text, unescape_name(text)):
        path = Path(form).expanduser()
        if path.exists():
            return str(path.absolute()) if ".." not in path.parts else str(path.resolve())
    return None


def open_located(source: str, *, name: str | None = None, refresh: bool = False) -> Dataset:
    """Open what ``locate`` found with every image it has, readable or not; nothing is remembered of it."""
    if source == "toybox":
        from longshot.data.toybox import open_toybox  # the generator is needed by its own users only

        toybox: Dataset = open_toybox()
        return toybox
    url = url_in(source)
    if url is not None:
        return _load_remote(source, url, name, refresh)
    from longshot.data.trees import archive_stem, is_archive  # which toybox does without

    path = Path(source)
    spec = None if path.exists() else split_spec(source)
    form = make_format(spec[0]) if spec else recognise(path)
    if form is not None:
        path = Path(unescape_name(spec[1])) if spec else path
        stem = archive_stem(path) if is_archive(path) else path.stem
        called = name or registry.name_of(form.source(path)) or escape_name(stem)
        dataset = form.open(path, called, refresh=refresh)
        return dataset if dataset.taken_for else replace(dataset, taken_for=form.title)
    name = name or registry.name_of(escape_name(source))
    called = name or escape_name(archive_stem(path) if is_archive(path) else path.stem)
    if path.is_dir():
        return open_unnamed(path, name or escape_name(path.name) or "root", refresh=refresh)
    if is_archive(path):
        return open_unnamed(path, called, refresh=refresh)
    from longshot.data.label_tables import TABLES, open_table

    if path.suffix.lower() in TABLES:
        return open_table(path, called)
    raise UserError(
        f"{escape_name(source)} is no dataset that Longshot opens: a folder, .zip, .tar, .tar.gz, .csv, .tsv, .parquet "
        f"or .npz is needed, or a path of one of the formats in {{data.list_formats()}}."
    )


def source_path(source: str) -> Path | None:
    """Return the path in a source, which may stand behind a format; None where it is no path, as a URL or toybox."""
    if source == "toybox" or url_in(source) is not None:
        return None
    spec = None if Path(source).exists() else split_spec(source)
    return Path(unescape_name(spec[1] if spec else source))


def url_in(source: str) -> str | None:
    """Return the URL in a source, which may stand behind a format; None for a path."""
    if is_url(source):
        return source
    spec = split_spec(source)
    return spec[1] if spec is not None and is_url(spec[1]) else None


def _load_remote(source: str, url: str, name: str | None, refresh: bool) -> Dataset:
    """Open what lies at a URL from its copy in the cache; the dataset is known by its URL."""
    form = source[: -len(url)]  # "coco:", or nothing
    known_as = form + shown_location(url)
    with opened_copy(url) as copy:
        if not form and copy.suffix.lower() in (".csv", ".tsv"):
            raise UserError(
                f"{shown_location(url)} is a table, and the images that it lists are not fetched with it",
                "give the URL of their folder, or of a .zip or .npz with the images",
            )
        dataset = open_located(f"{form}{copy}", name=name or registry.name_of(known_as), refresh=refresh)
    return replace(dataset, source=known_as)


def _suggestion(path: Path) -> str:
    """Word the end of a sentence about something missing: a near name beside it, or a registered one."""
    try:
        beside = [entry.name for entry in path.absolute().parent.iterdir()]
    except OSError:
        beside = []
    near = get_close_matches(path.name, beside, n=1)
    if near:
        return f", nor one of that name; did you mean '{escape_name(str(path.parent / near[0]))}'?"
    near = get_close_matches(str(path), registry.names(), n=1)
    if near:
        return f", nor one of that name; did you mean '{near[0]}'?"
    return ", nor one of that name; give a path, a name from {list_datasets()}, or toybox."
