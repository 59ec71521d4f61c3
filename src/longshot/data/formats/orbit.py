"""ORBIT: videos of people's own objects, clean and cluttered, with quality annotations frame by frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import UserError, count, first, note, progress
from longshot.data.dataset import Dataset, canonical_split
from longshot.data.files import read_object
from longshot.data.formats.base import Format, assemble, count_within, folders, need_folder, remembered
from longshot.data.scan import Scan, scan_folder
from longshot.data.sidecars import check_splits

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
    title = "ORBIT: videos of their own objects by people who are blind or low-vision"
    origin = "https://github.com/microsoft/ORBIT-Dataset (frames: city.figshare.com; data/orbit_extra_annotations.zip)"
    layout = f"{_LAYOUT}; annotations/[train|validation|test/]VIDEO.json"

    def __init__(self, step: int = 1) -> None:
        if isinstance(step, bool) or not isinstance(step, int) or step < 1:
            raise UserError(f"ORBIT's step is {step!r}; it must be a whole number of frames, at least 1.")
        self.step = step

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """All frames, with what is annotated of them; null where nothing is."""
        need_folder(path, "ORBIT", "train, validation and test, or the folders of users")
        modes = _modes(path, refresh)
        index = remembered(
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
    """``P177/bag/clean/VIDEO`` → its four parts."""
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
    """What the index depends on: the folder of each video and the files of annotations."""
    for mode in modes:
        yield from (path / mode.folder / video for video in mode.scan.class_ids)
        if mode.annotations.is_dir():
            yield from sorted(mode.annotations.glob("*.json"))


def _read_annotations(modes: list[_Mode]) -> pa.Table:
    """One row per frame in the order of the scans: the seven flags and the share of the frame that the box covers."""
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
    """Columns [N] from the place of each frame and from its annotation."""
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
    """A note when issues are annotated for some frames only."""
    annotated = len(attributes) - attributes["quality_issues"].null_count
    if annotated < len(attributes):
        share = 100 * annotated / len(attributes)
        note(
            f"quality issues of '{name}' are annotated for {annotated:,} of {len(attributes):,} frames "
            f"({share:.0f} %), empty for the others."
        )
