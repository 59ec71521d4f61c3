"""A folder of class folders, on disk or inside a zip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from longshot.core.errors import UserError
from longshot.core.wording import count, first
from longshot.datasets.dataset import Dataset, ImageStore, canonical_split
from longshot.datasets.scan import SIDE_FILES, Scan, scan_folder, scan_zip
from longshot.datasets.sidecars import check_splits, read_attributes, read_splits, read_taxonomy
from longshot.datasets.stores import FileStore, ZipStore, escape_name, open_zip
from longshot.taxonomy.dag import Taxonomy

SideFile = Callable[[str], bytes | None]


def open_folder(root: Path, name: str, *, refresh: bool = False) -> Dataset:
    """The dataset below ``root``: every folder that holds images is a class, its id the relative path."""
    scan = scan_folder(root, refresh=refresh)

    def side_file(file: str) -> bytes | None:
        path = root / file
        return path.read_bytes() if path.is_file() else None

    return _build(scan, FileStore(str(root), scan.keys), escape_name(str(root)), name, side_file)


def open_zip_folder(path: Path, name: str, *, refresh: bool = False) -> Dataset:
    """The same inside a zip; a single top folder that holds everything is no part of ids and keys."""
    scan = scan_zip(path, refresh=refresh)

    def side_file(file: str) -> bytes | None:
        archive, members = open_zip(str(path))
        member = members.get(scan.prefix + file)
        return archive.read(member) if member is not None else None

    return _build(scan, ZipStore(str(path), scan.keys, scan.prefix), escape_name(str(path)), name, side_file)


def _build(scan: Scan, store: ImageStore, source: str, name: str, side_file: SideFile) -> Dataset:
    splits_file, attributes_file, taxonomy_file = (side_file(file) for file in SIDE_FILES)
    splits = _splits_by_folder(scan.class_ids, source)
    if splits_file is not None:
        splits = read_splits(splits_file, scan.class_ids, f"{source}/split.json")
    taxonomy: Taxonomy | None
    if taxonomy_file is not None:
        taxonomy = read_taxonomy(taxonomy_file, scan.class_ids, f"{source}/taxonomy.csv")
    else:
        taxonomy = taxonomy_of_ids(scan.class_ids, below_split=bool(splits) and splits_file is None)
    attributes = None
    if attributes_file is not None:
        attributes = read_attributes(attributes_file, scan.keys, f"{source}/attributes.csv")
    return Dataset(
        name=name,
        class_ids=scan.class_ids,
        offsets=scan.offsets,
        keys=scan.keys,
        store=store,
        source=source,
        taxonomy=taxonomy,
        attributes=attributes,
        splits=splits,
        left_out=scan.tell(),
    )


def taxonomy_of_ids(class_ids: Sequence[str], *, below_split: bool = False) -> Taxonomy | None:
    """The hierarchy that nested ids spell out; None when they are flat.

    ``below_split``: the first part of each id is train/val/test, which says nothing about likeness, so
    ``train/Fruit/Apple`` lies below ``Fruit`` below the root.
    """
    if not below_split:
        return Taxonomy.from_class_ids(class_ids) if any("/" in c for c in class_ids) else None
    if not any(c.count("/") > 1 for c in class_ids):
        return None
    inner = {c: c.split("/", 1)[1].rpartition("/")[0] for c in class_ids}
    edges: list[tuple[str, str]] = []
    groups = sorted({group for group in inner.values() if group})
    if groups:
        edges += Taxonomy.from_class_ids(groups).edges
    return Taxonomy.from_edges([*edges, *((group, class_id) for class_id, group in inner.items())])


def _splits_by_folder(class_ids: Sequence[str], shown: str) -> dict[str, tuple[str, ...]]:
    """Class splits when all top folders are called train, val(idation) or test and hold class folders."""
    tops = sorted({class_id.partition("/")[0] for class_id in class_ids})
    if len(tops) < 2 or any(canonical_split(top) is None for top in tops):
        return {}
    if any("/" not in class_id for class_id in class_ids):
        return {}
    splits: dict[str, tuple[str, ...]] = {}
    home: dict[str, str] = {}
    repeated: set[str] = set()
    for class_id in class_ids:
        top, _, inner = class_id.partition("/")
        if home.setdefault(inner, top) != top:
            repeated.add(inner)
        split = canonical_split(top) or top
        splits[split] = (*splits.get(split, ()), class_id)
    if repeated:
        raise UserError(
            f"{count(len(repeated), 'class', 'classes')} of {shown} ({first(sorted(repeated))}) are in "
            f"several of the folders {', '.join(tops)}: few-shot splits divide classes, not images, so give one of "
            f"these folders ({shown}/{tops[-1]}), or put the images of a class together."
        )
    return check_splits(splits, shown)
