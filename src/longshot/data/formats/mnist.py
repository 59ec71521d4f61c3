"""MNIST and what is called after it: Fashion-MNIST, KMNIST and EMNIST as idx files, plain or gzipped."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from longshot.base import UserError, first, progress
from longshot.data.dataset import Dataset
from longshot.data.formats.base import (
    Format,
    RawPart,
    RawPixels,
    UnpackedCopy,
    chosen_splits,
    label_names,
    raw_dataset,
)

_FASHION = (
    *("T-shirt-top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
_KMNIST = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
_NAMES = {"digits": tuple("0123456789"), "fashion": _FASHION, "kmnist": _KMNIST}
_EMNIST = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
_INNER = ("raw", "gzip", "MNIST/raw", "EMNIST/raw")  # where torchvision and EMNIST's own zip put the files


class MNIST(Format):
    """Ten classes. ``names`` is digits, fashion or kmnist: the files themselves do not say."""

    name = "mnist"
    sign = "(train|t10k)-images.*|gzip|raw|.*mnist"
    title = "MNIST, Fashion-MNIST, KMNIST (idx files)"
    origin = "the datasets' own pages; torchvision.datasets.MNIST, FashionMNIST, KMNIST"
    layout = "train-images-idx3-ubyte[.gz], train-labels-idx1-ubyte[.gz], t10k-…"

    names: str | None = None
    split: str | None = None

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return any(_find(path, f"{part}-images") is not None for part in ("train", "t10k"))

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        names = self.names or _guess(path)
        if names not in _NAMES:
            raise UserError(f"mnist(names={names!r}) is not one of {', '.join(_NAMES)}.")
        parts = {"train": "train", "test": "t10k"}
        there = [split for split, stem in parts.items() if _find(path, f"{stem}-images") is not None]
        if not there:
            raise UserError(
                f"{path} holds neither train-images-idx3-ubyte nor t10k-images-idx3-ubyte (or their .gz); give the "
                f"folder that does."
            )
        chosen = {split: parts[split] for split in chosen_splits(self.split, there, path)}
        return _open(path, name, self.source(path), chosen, _NAMES[names], (0, 1), refresh)


class EMNIST(Format):
    """Handwritten digits and letters, turned upright. ``of`` chooses one of the sets where several lie together."""

    name = "emnist"
    sign = "emnist-.*|gzip|raw|.*mnist"
    title = "EMNIST: byclass, bymerge, balanced, letters, digits, mnist"
    origin = "gzip.zip from NIST; torchvision.datasets.EMNIST"
    layout = "emnist-SET-train-images-idx3-ubyte[.gz], …-labels-idx1-ubyte[.gz], emnist-SET-mapping.txt"

    of: str | None = None
    split: str | None = None

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return bool(_emnist_sets(path))

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        sets = _emnist_sets(path)
        if not sets:
            raise UserError(
                f"{path} holds no emnist-SET-train-images-idx3-ubyte.gz nor a test file; unpack gzip.zip and give its "
                f"folder."
            )
        if self.of is None and len(sets) > 1:
            raise UserError(
                f"{path} holds {len(sets)} sets of EMNIST ({', '.join(sets)}); choose one, as in "
                f"emnist(of='{sets[0]}'):{path}."
            )
        of = self.of or sets[0]
        if of not in sets:
            raise UserError(f"{path} holds no EMNIST set '{of}' (found: {', '.join(sets)}).")
        there = [part for part in ("train", "test") if _find(path, f"emnist-{of}-{part}-images") is not None]
        chosen = {part: f"emnist-{of}-{part}" for part in chosen_splits(self.split, there, path)}
        names = _mapping(path, of)
        # NIST stored the characters by columns: [W, H] on disk
        return _open(path, name, self.source(path), chosen, names, (1, 0), refresh)


def _open(
    path: Path,
    name: str,
    source: str,
    parts: dict[str, str],
    names: Sequence[str],
    axes: tuple[int, int],
    refresh: bool,
) -> Dataset:
    """Open some pairs of image and label files as a dataset: {split: beginning of their names}."""
    raw, labels, shapes = [], [], []
    for split, stem in parts.items():
        images = _need(path, f"{stem}-images")
        plain, start, shape = _header(images, 3, refresh)
        label_file = _need(path, f"{stem}-labels")
        labels_plain, label_start, counted = _header(label_file, 1, refresh)
        if counted[0] != shape[0]:
            raise UserError(
                f"{images} has {shape[0]:,} images but {label_file.name} {counted[0]:,} labels; they belong to "
                f"different files: download both again."
            )
        values = np.fromfile(labels_plain, np.uint8, offset=label_start)
        labels.append(label_names(values, names, str(label_file)))
        copy = None if plain == images else UnpackedCopy(images, _gunzip)
        raw.append(RawPart(split, plain, start, shape[0], copy))
        shapes.append(shape[1:])
    if len(set(shapes)) > 1:
        raise UserError(f"{path} has images of different sizes ({first(shapes)}); one dataset has one size.")
    return raw_dataset(name, source, np.concatenate(labels), raw, RawPixels(shapes[0], axes))


def _header(file: Path, dimensions: int, refresh: bool) -> tuple[Path, int, tuple[int, ...]]:
    """Read (plain file, offset of the numbers, shape) of an idx file of unsigned bytes; the size must fit exactly."""
    plain = UnpackedCopy(file, _gunzip).path(refresh=refresh) if file.suffix == ".gz" else file
    start = 4 + 4 * dimensions
    with plain.open("rb") as stream:
        head = stream.read(start)
    if len(head) < start or head[:2] != b"\0\0" or head[2] != 8 or head[3] != dimensions:
        raise UserError(
            f"{file} is not an idx file of bytes in {dimensions} dimension{'s' * (dimensions > 1)} (it begins with "
            f"{head[:4].hex(' ') or 'nothing'}, 00 00 08 0{dimensions} is needed); download it again."
        )
    shape = tuple(int.from_bytes(head[4 * i + 4 : 4 * i + 8], "big") for i in range(dimensions))
    actual, needed = plain.stat().st_size, start + int(np.prod(shape, dtype=np.int64))
    if actual != needed:
        raise UserError(
            f"{file} has {actual:,} bytes{' unpacked' * (plain != file)} but its header tells of {needed:,} "
            f"({' × '.join(map(str, shape))}); it was cut short or damaged: download it again."
        )
    return plain, start, shape


def _gunzip(file: Path, target: Path) -> None:
    try:
        with (
            gzip.open(file, "rb") as packed,
            target.open("wb") as out,
            progress(f"unpack {file.name}", unit="MB") as bar,
        ):
            while data := packed.read(1_000_000):
                out.write(data)
                bar.advance()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{file} is not a whole gzip file ({error}); download it again.") from error


def _folders(path: Path) -> list[Path]:
    return [path, *(path / inner for inner in _INNER if (path / inner).is_dir())]


def _find(path: Path, stem: str) -> Path | None:
    """Find the file ``STEM-idxN-ubyte``, plain before gzipped; also ``STEM.idxN-ubyte``, as some mirrors spell it."""
    kind = "idx3" if stem.endswith("images") else "idx1"
    spellings = (f"{stem}{dot}{kind}-ubyte{packed}" for packed in ("", ".gz") for dot in ("-", "."))
    folders = _folders(path)
    candidates = (folder / spelling for spelling in spellings for folder in folders)
    return next((file for file in candidates if file.is_file()), None)


def _need(path: Path, stem: str) -> Path:
    file = _find(path, stem)
    if file is None:
        kind = "idx3" if stem.endswith("images") else "idx1"
        raise UserError(f"{path} lacks {stem}-{kind}-ubyte (or its .gz); add it to the folder.")
    return file


def _guess(path: Path) -> str:
    """Guess the dataset from what torchvision calls its folders; digits otherwise."""
    text = str(path).lower()
    return (
        "fashion" if "fashion" in text else "kmnist" if "kmnist" in text or "kuzushiji" in text else "digits"
    )


def _emnist_sets(path: Path) -> list[str]:
    """List the sets of which a file of images is there."""
    return [
        of for of in _EMNIST if any(_find(path, f"emnist-{of}-{part}-images") for part in ("train", "test"))
    ]


def _mapping(path: Path, of: str) -> list[str]:
    """Read emnist-SET-mapping.txt: ``label code [code]`` a line; a class is called after its first character."""
    candidates = (folder / f"emnist-{of}-mapping.txt" for folder in _folders(path))
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is None:
        raise UserError(f"{path} lacks emnist-{of}-mapping.txt, which says what the labels mean; add it.")
    try:
        pairs = [
            [int(word) for word in line.split()] for line in file.read_text("ascii").splitlines() if line
        ]
        names = {label: chr(code) for label, code, *_ in pairs}
    except ValueError as error:
        raise UserError(f"{file} must hold a label and a character code in each line ({error}).") from error
    # letters begins at 1; a number no image bears keeps the list in step with the labels
    return [names.get(label, f"unused-{label}") for label in range(max(names, default=-1) + 1)]
