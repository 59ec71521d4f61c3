"""Photos and videos that volunteers took: ORBIT and Danish Fungi.

ORBIT has videos of people's own objects, clean and cluttered, with quality annotations frame by frame; Danish Fungi
2020 (DF20 and DF20-Mini) photos of fungi with a table of seven taxonomic ranks and field notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import UserError, check_count, count, first, note, progress
from longshot.data.dataset import Dataset, canonical_split
from longshot.data.file_readers import (
    attribute_column,
    check_splits,
    read_csv,
    read_header,
    read_object,
    refuse_repeated,
)
from longshot.data.formats.base import (
    Format,
    assemble,
    cached_index,
    count_within,
    folders,
    image_names,
    need_all,
    need_folder,
)
from longshot.data.scan import Scan, scan_folder
from longshot.data.stores import FileStore
from longshot.data.taxonomy import Taxonomy
from longshot.data.taxonomy.readers import from_parent_column

_TYPES = ("clean", "clutter", "clutter-pan")
_QUALITY = ("framing", "viewpoint", "blur", "occlusion", "overexposed", "underexposed")
_FLAGS = ("object_not_present", *_QUALITY)  # in the files: each with the ending _issue
_SIDE = 1080.0  # pixels a side of the frames that the boxes were drawn on, whatever size the copy has
_LAYOUT = "[train|validation|test/]USER/OBJECT/clean|clutter/VIDEO/FRAME.jpg"


@dataclass(frozen=True)
class _Mode:
    """The videos of train, validation or test (or of all users, where there are no such folders)."""

    split: str | None
    folder: str  # relative to the root, "" for the root itself
    scan: Scan  # its "classes" are the folders of videos
    annotations: Path


class Orbit(Format):
    """A class is one user's object. Attributes: user, video, video_type, clutter, the annotated issues, and
    ``quality_issues``, the number of issues of a frame (``object_not_present`` is none of them).

    ``step`` keeps every so-manieth frame of a video: neighbouring frames are nearly the same picture.
    """

    name = "orbit"
    sign = ""
    title = "ORBIT: videos of their own objects by people who are blind or low-vision"
    origin = "https://github.com/microsoft/ORBIT-Dataset (frames: city.figshare.com; data/orbit_extra_annotations.zip)"
    layout = f"{_LAYOUT}; annotations/[train|validation|test/]VIDEO.json"

    step: int = 1

    def __post_init__(self) -> None:
        check_count("ORBIT", "step", self.step, least=1)

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open all frames, with what is annotated of them; null where nothing is."""
        need_folder(path, "ORBIT", "train, validation and test, or the folders of users")
        modes = _modes(path, refresh)
        index = cached_index(
            self.source(path), list(_watched(path, modes)), lambda: _read_annotations(modes), refresh=refresh
        )
        files = pa.concat_arrays([_prefixed(mode.scan.keys, mode.folder) for mode in modes])
        videos = [_split_path(path, mode, video) for mode in modes for video in mode.scan.class_ids]
        sizes = np.concatenate([mode.scan.sizes for mode in modes])
        chosen = np.flatnonzero(count_within(sizes) % self.step == 0)
        video = np.repeat(np.arange(len(videos)), sizes)[chosen]
        classes = np.array([f"{user}/{item}" for user, item, _, _ in videos])
        files = files.take(pa.array(chosen))
        attributes = _attributes(videos, pa.array(video), index.take(pa.array(chosen)))
        _tell_coverage(attributes, name)
        splits: dict[str, set[str]] = {}
        at = 0
        for mode in modes:
            members = classes[at : at + len(mode.scan.class_ids)].tolist()
            at += len(members)
            if mode.split is not None:
                splits.setdefault(mode.split, set()).update(members)
        return assemble(
            name,
            self.source(path),
            classes[video],
            files,
            path,
            attributes=attributes,
            nested=True,
            splits=check_splits({split: tuple(sorted(m)) for split, m in splits.items()}, str(path)),
            left_out=tuple(text for mode in modes for text in mode.scan.tell()),
        )


def _modes(path: Path, refresh: bool) -> list[_Mode]:
    """train, validation and test where they are; otherwise the folder itself holds the users."""
    named = [folder for folder in folders(path) if canonical_split(folder.name) is not None]
    modes = [
        _Mode(
            canonical_split(folder.name),
            folder.name,
            scan_folder(folder, refresh=refresh),
            path / "annotations" / folder.name,
        )
        for folder in named
    ]
    if not modes:
        if (path / "annotations").exists():
            raise UserError(
                f"{path} has annotations but none of the folders train, validation and test; ORBIT's frames lie at "
                f"{_LAYOUT}."
            )
        # One of the three by itself: its annotations lie beside the others'.
        modes = [_Mode(None, "", scan_folder(path, refresh=refresh), path.parent / "annotations" / path.name)]
    return modes


def _split_path(path: Path, mode: _Mode, video: str) -> tuple[str, str, str, str]:
    """Split ``P177/bag/clean/VIDEO`` into its four parts."""
    parts = video.split("/")
    if len(parts) != 4 or parts[2] not in _TYPES:
        raise UserError(
            f"The images of {path / mode.folder / video} are not where ORBIT's frames are ({_LAYOUT}); give the folder "
            f"that holds train, validation and test."
        )
    user, item, kind, name = parts
    return user, item, kind, name


def _prefixed(keys: pa.Array, folder: str) -> pa.Array:
    if not folder:
        return keys
    return pc.binary_join_element_wise(pa.scalar(folder), keys, "/")


def _watched(path: Path, modes: list[_Mode]) -> Iterator[Path]:
    """Yield what the index depends on: the folder of each video and the files of annotations."""
    for mode in modes:
        yield from (path / mode.folder / video for video in mode.scan.class_ids)
        if mode.annotations.is_dir():
            yield from sorted(mode.annotations.glob("*.json"))


def _read_annotations(modes: list[_Mode]) -> pa.Table:
    """Read the annotations, a row per frame in the order of the scans: seven flags and the share its box covers."""
    columns: dict[str, list[Any]] = {column: [] for column in (*_FLAGS, "object_area")}
    total = sum(len(mode.scan.keys) for mode in modes)
    with progress("read ORBIT's annotations", total=total, unit="frames") as bar:
        for mode in modes:
            pending = set(mode.annotations.glob("*.json")) if mode.annotations.is_dir() else set()
            for number, video in enumerate(mode.scan.class_ids):
                rows = mode.scan.keys.slice(
                    int(mode.scan.offsets[number]),
                    int(mode.scan.offsets[number + 1] - mode.scan.offsets[number]),
                )
                frames = [key.rsplit("/", 1)[1] for key in rows.to_pylist()]
                file = mode.annotations / f"{video.rsplit('/', 1)[1]}.json"
                annotations = read_object(file) if file in pending else {}
                pending.discard(file)
                extra = sorted(set(annotations) - set(frames))
                if extra:
                    raise UserError(
                        f"{file} annotates {count(extra, 'frame')} of {len(annotations):,} that {video} does not have "
                        f"({first(extra)}); unpack the video again, or the annotations that belong to it."
                    )
                for frame in frames:
                    _append(columns, annotations.get(frame) or {}, file, frame)
                bar.advance(len(frames))
            if pending:
                names = sorted(file.stem for file in pending)
                raise UserError(
                    f"{mode.annotations} annotates {count(names, 'video')} of which there are no frames "
                    f"({first(names)}); unpack the rest of the frames, or remove these files."
                )
    types = {**dict.fromkeys(_FLAGS, pa.bool_()), "object_area": pa.float32()}
    return pa.table({column: pa.array(values, types[column]) for column, values in columns.items()})


def _append(columns: dict[str, list[Any]], annotation: Any, file: Path, frame: str) -> None:
    try:
        for flag in _FLAGS:
            value = annotation.get(f"{flag}_issue")
            if value is not None and not isinstance(value, bool):
                raise ValueError
            columns[flag].append(value)
        box = annotation.get("object_bounding_box")
        columns["object_area"].append(None if box is None else box["w"] * box["h"] / _SIDE**2)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(
            f"The annotation of {frame} in {file} is not of ORBIT's form (issues true, false or null; a box with x, y, "
            f"w and h); unpack the annotations again."
        ) from None


def _attributes(videos: list[tuple[str, str, str, str]], video: pa.Array, index: pa.Table) -> pa.Table:
    """Build columns [N] from the place of each frame and from its annotation."""
    users, _, kinds, names = (
        pa.array(values, pa.string()).take(video) for values in zip(*videos, strict=True)
    )
    issues = pa.array(np.zeros(len(video), np.int64))
    for issue in _QUALITY:  # a single unknown issue makes their number unknown
        issues = pc.add(issues, index[issue].combine_chunks().cast(pa.int64()))
    return pa.table(
        {
            "user": users,
            "video": names,
            "video_type": kinds,
            "clutter": pc.not_equal(kinds, "clean"),
            **{flag: index[flag] for flag in _FLAGS},
            "quality_issues": issues,
            "object_area": index["object_area"],
        }
    )


def _tell_coverage(attributes: pa.Table, name: str) -> None:
    """Note when issues are annotated for some frames only."""
    annotated = len(attributes) - attributes["quality_issues"].null_count
    if annotated < len(attributes):
        share = 100 * annotated / len(attributes)
        note(
            f"quality issues of '{name}' are annotated for {annotated:,} of {len(attributes):,} frames "
            f"({share:.0f} %), empty for the others."
        )


RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
_PARTS = {"train": "train", "public_test": "test"}  # in the file's name → value of the attribute
# Columns that name the class or the file once more, and so tell nothing about an image.
_NAMES = frozenset(
    (*RANKS, "class_id", "scientificName", "specificEpithet", "taxonRank", "image_path", "image_url")
)


class DanishFungi(Format):
    """Species are classes; every other column (Habitat, Substrate, month, …) is an attribute, and ``part`` says in
    which of the two published tables an image is. ``mini`` chooses where both DF20 and DF20-Mini are there;
    ``images`` is the folder of the photos where it is not found by itself.
    """

    name = "danish-fungi"
    sign = "DF20.*"
    title = "Danish Fungi 2020: DF20 (1,604 species) and DF20-Mini"
    origin = "https://sites.google.com/view/danish-fungi-dataset"
    layout = "DF20[M]-train_metadata_PROD*.csv, DF20[M]-public_test_metadata_PROD*.csv, DF20*/*.jpg"

    mini: bool | None = None
    images: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mini, bool | None):
            raise TypeError("mini is True or False")

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Recognise a table by its published name."""
        return any(
            (path / f"{kind}-train_metadata_PROD{version}.csv").is_file()
            for kind in ("DF20", "DF20M")
            for version in ("", "-2")
        )

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open the rows of both tables whose species is known; every photo they name must be there."""
        need_folder(path, "Danish Fungi", "the tables and the folder of photos")
        tables = self._tables(path)
        table = _concat([_read(file, part) for file, part in tables])
        unknown = table["species"].null_count
        if unknown:
            note(
                f"{unknown:,} of {len(table):,} rows of {tables[0][0].name} and the like name no species: left out."
            )
            table = table.filter(pc.is_valid(table["species"]))
        if not len(table):
            raise UserError(f"{path} has no row with a species; copy the tables of Danish Fungi again.")
        keys = pc.extract_regex(table["image_path"].combine_chunks(), pattern=r"(?P<name>[^/\\]+)$").field(
            "name"
        )
        refuse_repeated(keys.to_pylist(), "photo", f"The tables of {path} list")
        folder, files = self._find(path, tables[0][0], keys.to_pylist())
        classes = np.array(table["species"].to_pylist())
        order = pc.array_sort_indices(keys)
        extra = [column for column in table.column_names if column not in _NAMES]
        attributes = pa.table({c: attribute_column(table[c], c, str(tables[0][0])) for c in extra})
        return assemble(
            name,
            self.source(path),
            classes[order.to_numpy()],
            keys.take(order),
            FileStore(str(folder), pa.array(files, pa.string()).take(order)),
            attributes=attributes.take(order),
            taxonomy=_taxonomy(table),
        )

    def _tables(self, path: Path) -> list[tuple[Path, str]]:
        """List (file, part) of one of the two datasets, in the folder or one below."""
        tables: dict[bool, list[tuple[Path, str]]] = {}
        for mini, kind in ((False, "DF20"), (True, "DF20M")):
            for word, part in _PARTS.items():
                pattern = f"{kind}-{word}_metadata_PROD*.csv"
                files = sorted(path.glob(pattern)) or sorted(path.glob(f"*/{pattern}"))
                if len(files) > 1:
                    raise UserError(
                        f"{path} has {len(files)} versions of a table ({first([f.name for f in files])}); keep one."
                    )
                tables.setdefault(mini, []).extend((file, part) for file in files)
        kinds = [mini for mini, files in tables.items() if files]
        if not kinds:
            raise UserError(
                f"{path} has no table called DF20-train_metadata_PROD*.csv or DF20M-…; unpack DF20-metadata.zip there."
            )
        if self.mini is None and len(kinds) > 1:
            raise UserError(
                f"{path} has both DF20 and DF20-Mini; choose with danish-fungi(mini=True) or (mini=False)."
            )
        chosen = kinds[0] if self.mini is None else self.mini
        if not tables[chosen]:
            raise UserError(
                f"{path} has no table of {'DF20-Mini' if chosen else 'DF20'}; leave out mini={chosen}."
            )
        return tables[chosen]

    def _find(self, path: Path, table: Path, keys: list[str]) -> tuple[Path, list[str]]:
        """Find the folder of the photos, and the name of each there: copies of 300 pixels spell endings otherwise."""
        if self.images is not None:
            candidates = [path / self.images]
        else:
            candidates = [
                path,
                *folders(path),
                *(inner for outer in folders(path) for inner in folders(outer)),
            ]
        best: tuple[int, Path, list[str | None]] | None = None
        for folder in candidates:
            there = image_names(folder)
            if not there and self.images is None:
                continue
            exact, by_stem = set(there), {_stem(file): file for file in there}
            files = [key if key in exact else by_stem.get(_stem(key)) for key in keys]
            lacking = sum(file is None for file in files)
            if best is None or lacking < best[0]:
                best = (lacking, folder, files)
            if not lacking:
                break
        if best is None:
            raise UserError(
                f"{path} has tables but no folder of photos; unpack DF20-300px.tar.gz or the like there."
            )
        _, folder, files = best
        missing = [key for key, file in zip(keys, files, strict=True) if file is None]
        need_all(missing, len(keys), "photo", table, f"unpack all photos into {folder}")
        return folder, [file for file in files if file is not None]


def _stem(file: str) -> str:
    return file.rpartition(".")[0]


def _read(file: Path, part: str) -> pa.Table:
    data = file.read_bytes()
    columns = read_header(data, str(file))
    absent = [column for column in (*RANKS, "image_path") if column not in columns]
    if absent:
        raise UserError(f"{file} has no column {' and '.join(absent)}; is it the table of Danish Fungi 2020?")
    table = read_csv(data, str(file), text_columns=[*RANKS, "image_path"])
    return table.append_column("part", pa.array([part] * len(table), pa.string()))


def _concat(tables: list[pa.Table]) -> pa.Table:
    """Put tables one below the other; a column that holds numbers here and words there becomes words."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:
        as_text = [pa.table({c: table[c].cast(pa.string()) for c in table.column_names}) for table in tables]
        return pa.concat_tables(as_text, promote_options="permissive")


def _taxonomy(table: pa.Table) -> Taxonomy:
    """Build kingdom … genus above each species; a rank that is empty is left out of the path."""
    rows = table.select(RANKS).group_by(list(RANKS), use_threads=False).aggregate([]).to_pylist()
    pairs = [(row["species"], "/".join(row[rank] for rank in RANKS[:-1] if row[rank])) for row in rows]
    return from_parent_column(sorted(pairs))
