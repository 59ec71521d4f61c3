"""What annotation tools write beside images: COCO, YOLO, Pascal VOC, CVAT, Label Studio, Datumaro, tables of boxes.

Each reader turns its files into marks: an image, a label and perhaps a box. Images are then whole images of one label,
or the boxes cut out. Paths in annotations only ever mean images of the dataset itself.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa

from longshot.base import UserError, count, first, hash_text, note, progress
from longshot.data.dataset import Dataset, ImageStore, canonical_split
from longshot.data.file_readers import find_column, first_line, read_csv, read_header
from longshot.data.formats.base import Format, assemble, cached_index, flat_names
from longshot.data.label_tables import BOX_COLUMNS, LABEL_COLUMNS, PATH_COLUMNS
from longshot.data.stores import is_image_name
from longshot.data.trees import (
    ImagePaths,
    Question,
    Tree,
    as_spec,
    check_listed,
    is_called,
    list_tree,
    split_of_file,
    splits_in,
    tell_unlisted,
)

KINDS = {
    "coco": "COCO",
    "yolo": "YOLO",
    "voc": "Pascal VOC",
    "cvat": "CVAT",
    "label-studio": "Label Studio",
    "datumaro": "Datumaro",
    "boxes": "a table of boxes",
}
_SINGLE = ("yolo", "voc")  # kinds that have a file for each image
_UPLOADED = re.compile(
    r"^[0-9a-f]{8}-"
)  # what Label Studio writes before the name of a file that is uploaded
_SIGNS = re.compile(rb'"(images|annotations|categories|items|annotation_id|completions)"')
_HEAD = 1 << 20  # bytes of a JSON file in which one of these stands
_YOLO_LINE = re.compile(r"\d+(\s+-?[\d.]+(e-?\d+)?){4,}", re.IGNORECASE)
# fields of Label Studio's short form that are no label
_OWN_FIELDS = (
    "id",
    "annotator",
    "annotation_id",
    "created_at",
    "updated_at",
    "lead_time",
    "agreement",
    "inner_id",
)
Size: TypeAlias = tuple[int, int]  # width and height, 0 where they are not told


class Mark(NamedTuple):
    """A label on an image, or on a box of it."""

    image: str  # as it is written
    label: str
    box: Sequence[float] | None = (
        None  # left, top, right, bottom in pixels; shares of the sides where ``relative``
    )
    size: Size = (0, 0)
    relative: bool = False


class Annotations(Format):
    """``crops``: the boxes cut out (True), or whole images of one label (False). ``kind`` chooses one of several kinds
    of annotations, ``file`` some of the files (with stars)."""

    name = "annotations"
    sign = ""
    rank = 94
    title = "images, and annotations of a labelling tool: whole images, or boxes cut out"
    origin = f"{', '.join(list(KINDS.values())[:-1])}; exports of Roboflow and supervision"
    layout = "_annotations.coco.json | data.yaml, labels/*.txt | *.xml | tasks.json | annotations/*.json …, and images"

    crops: bool | None = None
    kind: str | None = None
    file: str | None = None

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        if self.kind not in (None, *KINDS):
            raise UserError(f"annotations(kind={self.kind!r}) is not one of {', '.join(KINDS)}.")
        tree = list_tree(path, refresh=refresh)
        marked = self.find(tree, refresh=refresh)
        if isinstance(marked, Question):
            raise UserError(*marked)
        if marked is None:
            raise UserError(
                f"{tree.shown} holds no annotations that are known ({', '.join(KINDS.values())}) of images there",
                "put annotations and images into one folder",
            )
        return self.build(marked, name)

    def find(self, tree: Tree, *, refresh: bool = False) -> MarkedImages | Question | None:
        """Find the annotations of images in a tree; a question where there are several kinds, None without any."""
        files = [file for file in tree.scan.telling if self.file is None or is_called(file, self.file)]
        if not files:
            return None
        source, images = f"annotations {self.file} of {tree.path}", hash_text(*tree.images)
        make = partial(_read_marks, tree, files, images)
        table = cached_index(source, tree.stamped(files), make, refresh=refresh)
        if table["images"][0].as_py() != images:  # YOLO's files are found by the names of images
            table = cached_index(source, tree.stamped(files), make, refresh=True)
        entries = json.loads(table["marks"][0].as_py())
        kinds = [
            MarkedImages(kind, [(file, Mark(*mark)) for file, mark in entries[kind]], tree)
            for kind in KINDS
            if kind in entries and self.kind in (None, kind)
        ]
        fitting = [marked for marked in kinds if any(marked.images)]
        if kinds and not fitting:
            listed = sorted({mark.image for _, mark in kinds[0].marks})
            fact = f"{kinds[0].named} of {tree.shown} ({KINDS[kinds[0].kind]}) lists {count(listed, 'image')}"
            return Question(
                f"{fact}, none of which is there ({first(listed)})", "put the images where it names them"
            )
        if len(fitting) > 1:
            choices = " or ".join(as_spec(f"annotations(kind='{m.kind}')", tree.shown) for m in fitting)
            named = ", ".join(KINDS[marked.kind] for marked in fitting)
            return Question(f"{tree.shown} has annotations of several kinds ({named})", f"choose {choices}")
        return fitting[0] if fitting else None

    def build(self, marked: MarkedImages, name: str) -> Dataset:
        """Build the dataset of annotations that were read."""
        tree = marked.tree
        if question := marked.check() or (marked.question if self.crops is None else None):
            raise UserError(*question)
        crops = marked.only_boxes if self.crops is None else self.crops
        rows, notes = marked.boxes() if crops else marked.single_labels()
        if not rows:
            raise UserError(f"No image of {tree.shown} is left: {'; '.join(notes) or 'none has a label'}.")
        labels = [row.mark.label.strip() for row in rows]
        names = sorted(set(labels))
        plain = dict(zip(names, flat_names(names, tree.shown), strict=True))
        classes = np.array([plain[label] for label in labels], dtype=np.str_)
        parts = _splits(tree, rows)
        images = keys = pa.array([tree.key(row.image) for row in rows], pa.string())
        store: ImageStore = tree.store(images)
        attributes = None
        if crops:
            keys = [f"{tree.key(row.image)}#{row.number}" for row in rows]
            objects = Counter(choices[0] for choices in marked.images)
            attributes = pa.table({"image": images, "objects": [objects[row.image] for row in rows]})
            numbers = (np.array([row.mark[field] for row in rows]) for field in (2, 3, 4))
            from longshot.data.formats.coco import CropStore

            store = CropStore(store, *numbers)
        left_out = tell_unlisted(tree, {choices[0] for choices in marked.images}, marked.named, notes)
        source = self.source(tree.path)
        return assemble(
            name, source, classes, keys, store, attributes=attributes, parts=parts, left_out=left_out
        )


class _Row(NamedTuple):
    """A mark on an image, which is the ``number``-th of that image."""

    image: str
    number: int
    file: str
    mark: Mark


@dataclass(eq=False)
class MarkedImages:
    """The marks of one kind of annotations, each with its file, and the images of a tree that they are on."""

    kind: str
    marks: list[tuple[str, Mark]]
    tree: Tree

    @cached_property
    def images(self) -> list[list[str]]:
        """List the images that each mark may mean."""
        paths = ImagePaths(self.tree.images)
        named: dict[tuple[str, str], list[str]] = {}
        for file, mark in self.marks:
            if (file, mark.image) not in named:
                options = (file.rpartition("/")[0], split_of_file(file))
                images = paths.find(mark.image, *options)
                if not images and self.kind == "label-studio":  # as it was called before it was uploaded
                    images = paths.find(_UPLOADED.sub("", mark.image.rpartition("/")[2]), *options)
                named[file, mark.image] = images
        return [named[file, mark.image] for file, mark in self.marks]

    @property
    def named(self) -> str:
        """Name the files, for people."""
        files = sorted({file for file, _ in self.marks})
        return files[0] if len(files) == 1 else f"{files[0]} and {count(len(files) - 1, 'more file')}"

    @property
    def words(self) -> str:
        """Describe the annotations, for people."""
        images = "boxes" if self.only_boxes else "images"
        return f"{images} with labels of {self.named} ({KINDS[self.kind]})"

    @property
    def or_as(self) -> list[str]:
        """List what the annotations could be as well."""
        boxes = (
            []
            if self.only_boxes or all(mark.box is None for _, mark in self.marks)
            else ["the boxes cut out"]
        )
        return [f"{text}: {as_spec('annotations(crops=True)', self.tree.shown)}" for text in boxes]

    @cached_property
    def only_boxes(self) -> bool:
        """Tell whether no image has one label, so that only its boxes can be classified."""
        return all(len(labels) > 1 for labels in self.labels.values())

    @cached_property
    def rows(self) -> list[_Row]:
        """List the marks with their images, in the order of the files."""
        numbers: Counter[str] = Counter()
        rows = []
        for (file, mark), images in zip(self.marks, self.images, strict=True):
            numbers[images[0]] += 1
            rows.append(_Row(images[0], numbers[images[0]], file, mark))
        return rows

    @cached_property
    def labels(self) -> dict[str, set[str]]:
        """Map each image to its labels; where some marks are on whole images, to those alone."""
        tagged = any(row.mark.box is None for row in self.rows)
        labels: dict[str, set[str]] = {}
        for row in self.rows:
            if row.mark.box is None or not tagged:
                labels.setdefault(row.image, set()).add(row.mark.label)
        return labels

    def check(self) -> Question | None:
        """Raise UserError where images are missing or ambiguous; return a question where files overlap."""
        listed = [(mark.image, images) for (_, mark), images in zip(self.marks, self.images, strict=True)]
        check_listed(self.tree, self.named, listed, "move the images that are not meant elsewhere")
        pairs = {(row.image, row.file) for row in self.rows}
        files = sorted({file for _, file in pairs})
        if self.kind in _SINGLE or len({image for image, _ in pairs}) == len(pairs):
            return None
        choices = " or ".join(as_spec(f"annotations(file='{file}')", self.tree.shown) for file in files[:3])
        return Question(
            f"{len(files)} files of {self.tree.shown} annotate the same images", f"choose {choices}"
        )

    @property
    def question(self) -> Question | None:
        """Return what must be asked before images are taken as whole; None where each has one label."""
        boxes = sum(row.mark.box is not None for row in self.rows)
        several = sum(len(labels) > 1 for labels in self.labels.values())
        tags = len(self.rows) - boxes
        if not boxes or self.only_boxes or not (tags or several):
            return None
        shown, single = self.tree.shown, count(len(self.labels) - several, "whole image")
        also = (
            f"{count(several, 'image')} with boxes of several labels" if several else "labels on whole images"
        )
        return Question(
            f"{shown} has {count(boxes, 'box', 'boxes')} ({KINDS[self.kind]}), and {also}",
            f"choose {as_spec('annotations(crops=True)', shown)} for the boxes cut out, or "
            f"{as_spec('annotations(crops=False)', shown)} for {single} of one label",
        )

    def single_labels(self) -> tuple[list[_Row], list[str]]:
        """Return (a mark of each image that has one label, what is left out)."""
        several = [self.tree.key(image) for image, labels in self.labels.items() if len(labels) > 1]
        notes = (
            [f"{count(several, 'image')} with several labels ({first(several)}): left out"] if several else []
        )
        single = {
            row.image: row for row in reversed(self.rows) if self.labels.get(row.image) == {row.mark.label}
        }
        return list(single.values())[::-1], notes

    def boxes(self) -> tuple[list[_Row], list[str]]:
        """Return (the marks whose boxes can be cut out, what is left out)."""
        rows = [row for row in self.rows if row.mark.box is not None and _is_inside(row.mark)]
        outside = len(self.rows) - len(rows)
        text = f"{count(outside, 'annotation')} of {self.named} without a box inside its image: left out"
        return rows, [text] if outside else []


def _is_inside(mark: Mark) -> bool:
    x0, y0, x1, y1 = mark.box or (0, 0, 0, 0)
    width, height = (1, 1) if mark.relative else (size or np.inf for size in mark.size)
    return max(x0, 0) < min(x1, width) and max(y0, 0) < min(y1, height)


def _splits(tree: Tree, rows: Sequence[_Row]) -> list[str]:
    """Find the split of each image: as a list (train.txt), its folders or its annotation tell it, else ""."""
    paths, listed = ImagePaths(tree.images), dict[str, str]()
    for file in tree.scan.telling:
        split = canonical_split(PurePosixPath(file).stem) if file.endswith(".txt") else None
        for line in tree.read(file).decode("utf-8", "replace").split() if split else ():
            listed.update((image, str(split)) for image in paths.find(f"/{line}", "", None))
    return [
        listed.get(row.image) or next(iter(splits_in(row.image)), split_of_file(row.file)) or ""
        for row in rows
    ]


def _read_marks(tree: Tree, files: Sequence[str], images: str) -> pa.Table:
    """Read the marks of all files of annotations, by kind, as JSON in one cell; beside them the hash of the images."""
    kinds: dict[str, list[tuple[str, Mark]]] = {}
    readers = {".json": _json_marks, ".xml": _xml_marks, ".csv": _table_marks, ".tsv": _table_marks}
    image_of, names = _yolo_images(tree, files), _yolo_names(tree, files)
    with progress(f"read annotations of {tree.path.name}", total=len(files), unit="files") as bar:
        for file in files:
            bar.advance()
            reader = readers.get(PurePosixPath(file).suffix.lower())
            try:
                marks: Iterable[Mark]
                if file in image_of:
                    kind, marks = "yolo", _yolo_marks(image_of[file], tree.read(file), names)
                elif reader is not None:
                    kind, marks = reader(file, tree.read(file))
                else:
                    continue
                kinds.setdefault(kind, []).extend((file, mark) for mark in marks)
            except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
                raise UserError(
                    f"{tree.shown}/{file} is no annotation that can be read ({type(error).__name__}: "
                    f"{first_line(error)}); export it again."
                ) from error
    marked = json.dumps({kind: marks for kind, marks in kinds.items() if marks})
    return pa.table({"marks": pa.array([marked], pa.large_string()), "images": [images]})


def _json_marks(file: str, data: bytes) -> tuple[str, Iterable[Mark]]:
    """Read (kind, marks) of a JSON file; no marks where it is no annotation that is known."""
    if not _SIGNS.search(data[:_HEAD]):
        return "coco", ()
    try:
        content: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        note(f"{file} is not valid JSON ({error}): not used.")
        return "coco", ()
    top = content[0] if isinstance(content, list) and content else content
    if not isinstance(top, dict):
        return "coco", ()
    if top is not content:
        if "data" in top and ("annotations" in top or "completions" in top):
            return "label-studio", _label_studio(content)
        return "label-studio", _label_studio_short(content) if "annotation_id" in top else ()
    if isinstance(content.get("items"), list) and isinstance(content.get("categories"), dict):
        return "datumaro", _datumaro(content)
    listed = isinstance(content.get("annotations"), list) and isinstance(content.get("images"), list)
    return "coco", _coco(content) if listed else ()


def _from_corner(x: float, y: float, width: float, height: float) -> tuple[float, ...]:
    return float(x), float(y), float(x) + float(width), float(y) + float(height)


def _coco(content: dict[str, Any]) -> Iterator[Mark]:
    images = {entry["id"]: entry for entry in content["images"]}
    names = {entry["id"]: entry["name"] for entry in content.get("categories", ())}
    for entry in content["annotations"]:
        if "category_id" in entry:
            image, box = images[entry["image_id"]], entry.get("bbox")
            size = (int(image.get("width") or 0), int(image.get("height") or 0))
            sides = _from_corner(*box) if box and any(box) else None
            yield Mark(image["file_name"], names[entry["category_id"]], sides, size)


def _datumaro(content: dict[str, Any]) -> Iterator[Mark]:
    names = [entry["name"] for entry in content["categories"]["label"]["labels"]]
    for item in content["items"]:
        image = item.get("image") or {}
        height, width = image.get("size") or (0, 0)
        for entry in item["annotations"]:
            if entry["type"] in ("label", "bbox"):
                box = _from_corner(*entry["bbox"]) if entry["type"] == "bbox" else None
                yield Mark(image.get("path") or item["id"], names[entry["label_id"]], box, (width, height))


def _addresses(fields: dict[str, Any]) -> list[str]:
    """List the paths of images among values of Label Studio; behind ``?d=`` stands a file of its own disk."""
    paths = [unquote(value.rpartition("?d=")[2]) for value in fields.values() if isinstance(value, str)]
    return [path for path in paths if is_image_name(PurePosixPath(path).name)]


def _rectangle(image: str, value: dict[str, Any], sizes: dict[str, Any]) -> Mark:
    if value.get("rotation"):
        raise ValueError(f"a box of '{image}' is turned, and only upright ones are cut out")
    box = _from_corner(*(value[side] / 100 for side in ("x", "y", "width", "height")))
    size = (int(sizes.get("original_width") or 0), int(sizes.get("original_height") or 0))
    return Mark(image, value["rectanglelabels"][0], box, size, True)


def _label_studio(content: list[dict[str, Any]]) -> Iterator[Mark]:
    for task in content:
        for annotation in task.get("annotations") or task.get("completions") or ():
            for result in () if annotation.get("was_cancelled") else annotation["result"]:
                value, image = result["value"], _addresses(task["data"])[0]
                yield from (Mark(image, choice) for choice in value.get("choices", ()))
                if "rectanglelabels" in value:
                    yield _rectangle(image, value, result)


def _label_studio_short(content: list[dict[str, Any]]) -> Iterator[Mark]:
    for task in content:
        fields = {name: value for name, value in task.items() if name not in _OWN_FIELDS}
        image = _addresses(fields)[0]
        texts = [value for value in fields.values() if isinstance(value, str)]
        choices = [text for text in texts if not is_image_name(text)]
        choices += [
            c for value in fields.values() if isinstance(value, dict) for c in value.get("choices", ())
        ]
        if len(texts) > 2:
            raise ValueError(
                f"several fields may be the label of '{image}'; JSON tells which, in place of JSON-MIN"
            )
        yield from (Mark(image, choice) for choice in choices)
        for value in fields.values():
            for box in value if isinstance(value, list) else ():
                if "rectanglelabels" in box:
                    yield _rectangle(image, box, box)


def _xml_marks(file: str, data: bytes) -> tuple[str, Iterable[Mark]]:
    """Read (kind, marks) of an XML file, which may define no entities of its own."""
    if b"<annotation" not in data:
        return "voc", ()
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data or b"\0" in data:
        raise ValueError("it declares a document type or entities, which no annotation needs")
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from error
    return ("cvat", _cvat(root)) if root.tag == "annotations" else ("voc", _voc(root, file))


def _cvat(root: ElementTree.Element) -> Iterator[Mark]:
    for image in root.iter("image"):
        name, size = image.attrib["name"], (int(image.get("width", 0)), int(image.get("height", 0)))
        yield from (Mark(name, tag.attrib["label"]) for tag in image.iter("tag"))
        for box in image.iter("box"):
            if float(box.get("rotation", 0)):
                raise ValueError(f"a box of '{name}' is turned, and only upright ones are cut out")
            sides = [float(box.attrib[side]) for side in ("xtl", "ytl", "xbr", "ybr")]
            yield Mark(name, box.attrib["label"], sides, size)


def _voc(root: ElementTree.Element, file: str) -> Iterator[Mark]:
    """Yield the boxes of a Pascal VOC file.

    Whole numbers count pixels from 1, with both ends, as the devkit does; with a decimal point they are edges.
    """
    image = root.findtext("filename") or PurePosixPath(file).stem
    width, height = (int(float(root.findtext(f"size/{side}") or 0)) for side in ("width", "height"))
    for entry in root.iter("object"):
        texts = [entry.findtext(f"bndbox/{side}") or "" for side in BOX_COLUMNS]
        first_pixel = 0 if any("." in text for text in texts) else 1
        x0, y0, x1, y1 = map(float, texts)
        sides = (x0 - first_pixel, y0 - first_pixel, x1, y1)
        yield Mark(image, entry.findtext("name") or "", sides, (width, height))


def _table_marks(file: str, data: bytes) -> tuple[str, Iterable[Mark]]:
    """Read a row for each box: filename, class, xmin, ymin, xmax, ymax, perhaps width and height."""
    columns = read_header(data, file)
    named = [
        find_column(columns, names) for names in (PATH_COLUMNS, LABEL_COLUMNS, *((s,) for s in BOX_COLUMNS))
    ]
    if None in named:
        return "boxes", ()
    texts = [str(column) for column in named]
    table = read_csv(data, file, text_columns=texts[:2])
    sizes = [find_column(columns, (side,)) for side in ("width", "height")]
    wide, high = (table[s].to_pylist() if s else [0] * len(table) for s in sizes)
    rows = zip(*(table[column].to_pylist() for column in texts), wide, high, strict=True)
    return "boxes", [Mark(image, label, box, (w, h)) for image, label, *box, w, h in rows]


def _yolo_images(tree: Tree, files: Sequence[str]) -> dict[str, str]:
    """Map text files where YOLO looks for boxes to their images; empty where the first holds something else."""
    image_of: dict[str, str] = {}
    for image in tree.images if any(file.endswith(".txt") for file in files) else ():
        stem = image.rpartition(".")[0]
        folder, slash, inside = f"/{stem}".rpartition("/images/")
        image_of[f"{stem}.txt"] = image
        if slash:
            image_of[f"{folder}/labels/{inside}.txt".lstrip("/")] = image
    texts = [file for file in files if file in image_of]
    lines = next((text for file in texts if (text := tree.read(file).decode("utf-8", "replace").strip())), "")
    fits = all(_YOLO_LINE.fullmatch(line.strip()) for line in lines.splitlines())
    return {file: image_of[file] for file in texts} if lines and fits else {}


def _yolo_marks(image: str, data: bytes, names: dict[int, str]) -> Iterator[Mark]:
    for line in filter(None, map(str.strip, data.decode("utf-8", "replace").splitlines())):
        if not _YOLO_LINE.fullmatch(line):
            raise ValueError(f"'{line[:40]}' is no box")
        label, *numbers = line.split()
        if names and int(label) not in names:
            raise ValueError(f"class {label} has no name among {len(names)}")
        sides = [float(number) for number in numbers]
        box = _from_corner(sides[0] - sides[2] / 2, sides[1] - sides[3] / 2, *sides[2:4])
        if len(sides) > 5 and -1 not in names:  # an outline; key points come behind a box
            across, down = sides[: len(sides) // 2 * 2 : 2], sides[1::2]
            box = (min(across), min(down), max(across), max(down))
        yield Mark(image, names.get(int(label), label), box, relative=True)


def _yolo_names(tree: Tree, files: Sequence[str]) -> dict[int, str]:
    """Map numbers to the classes of data.yaml, obj.names or classes.txt; with −1 where key points follow the boxes."""
    import yaml  # here: few folders have such a file

    for file in sorted(files, key=lambda file: (file.count("/"), file)):
        name = PurePosixPath(file).name.lower()
        if name.endswith((".yaml", ".yml")):
            try:
                content = yaml.safe_load(tree.read(file))
            except (yaml.YAMLError, UnicodeDecodeError) as error:
                raise UserError(f"{tree.shown}/{file} is not valid YAML ({first_line(error)}).") from error
            entries = content.get("names") if isinstance(content, dict) else None
            if entries:
                pairs = entries.items() if isinstance(entries, dict) else enumerate(entries)
                points = {-1: "key points"} if "kpt_shape" in content else {}
                return {int(number): str(label) for number, label in pairs} | points
        elif name.endswith(".names") or name == "classes.txt":
            lines = tree.read(file).decode("utf-8", "replace").splitlines()
            return dict(enumerate(line.strip() for line in lines if line.strip()))
    return {}
