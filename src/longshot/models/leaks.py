"""What a network saw in training of what it is tested on: one rule, for every page that shows its numbers.

A network that was trained here keeps the digests of its training images beside its weights, also those of the network
that it started from. Test images are looked for among them by their file, then by their pixels. Near copies come from
overlaps that ``find_overlap`` has found before: to search for them costs more than most evaluations. Classes are the
weakest relation: by name, by WordNet id, by WordNet's synonyms; they are all that is known of published networks.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from longshot.base import Bools, Ints, LooseRecord, UserError, atomic, read_parquet, read_record
from longshot.data import (
    Dataset,
    image_digests,
    known_copies,
    pixel_digests,
    read_nouns,
    seen_classes,
    short_digests,
    view_origin,
)

ShortDigests: TypeAlias = NDArray[np.uint64]  # the first 64 bits of each digest, [M]

IMAGENET = "ImageNet-1k"
SEEN_FILE = "network.images.parquet"  # beside network.safetensors
_SEEN_FORMAT = b"1"
# Published weights whose classes are the 1,000 of ImageNet, or hold them, by the names that their authors gave them.
_IMAGENET_NAMES = re.compile(
    r"efficientnet-lite\d|timm:.*in(1|12|21|22)k|(timm|hf):.*imagenet"
    r"|hf:(facebook/(deit|convnext|regnet|levit|resnet)|microsoft/(resnet|swin)|google/(vit|efficientnet|mobilenet))",
    re.IGNORECASE,
)


class TrainingStage(LooseRecord):
    """What a network, or one that it started from, was trained on."""

    weights: str = ""  # hash of the weights that came out of it
    network: str = ""  # what it was called
    dataset: str | None = None
    fingerprint: str = ""
    classes: tuple[str, ...] | None = None  # ids; None where they are not on record

    @property
    def class_ids(self) -> tuple[str, ...] | None:
        """Return the classes, also those of published data; None where they are not on record."""
        return imagenet_classes() if self.dataset == IMAGENET else self.classes

    @cached_property
    def origin(self) -> tuple[str, frozenset[str]]:
        """Return the fingerprint of the dataset, the entire one of a view, and the keys it leaves out."""
        return view_origin(self.fingerprint) if self.fingerprint else ("", frozenset())


class SeenImages(NamedTuple):
    """Images by content: short digests of their files and of their pixels, 0 where an image cannot be decoded."""

    files: ShortDigests
    pixels: ShortDigests


Stage: TypeAlias = tuple[TrainingStage, SeenImages | None]


@dataclass(frozen=True, eq=False)
class TestedImages:
    """The images that a testbed uses of one dataset, M of them."""

    __test__ = False  # its name begins like a test's

    fingerprint: str
    keys: pa.Array  # [M]
    classes: tuple[str, ...]  # ids of the classes
    class_of: Ints  # [M] positions in ``classes``
    labels: Mapping[str, str]  # class → what a taxonomy calls it
    images: SeenImages | None = None  # [M] each; None where the testbed vouches for names alone

    @cached_property
    def origin(self) -> str:
        """Return the fingerprint of the dataset, or of the entire one where it is a view."""
        return view_origin(self.fingerprint)[0]


@lru_cache(maxsize=1)
def imagenet_classes() -> tuple[str, ...]:
    """Return the WordNet ids of the 1,000 classes of ILSVRC-2012.

    >>> len(imagenet_classes()), imagenet_classes()[0]
    (1000, 'n01440764')
    """
    lines = files("longshot.models").joinpath("imagenet_1k.txt").read_text("utf-8").splitlines()
    return tuple(" ".join(lines[1:]).split())


def published_stage(name: str, weights: str = "") -> TrainingStage:
    """Return what is known of a network by the name of its published weights: ImageNet's classes, or nothing.

    >>> published_stage("timm:resnet50.a1_in1k").dataset, published_stage("pixels").dataset
    ('ImageNet-1k', None)
    """
    dataset = IMAGENET if _IMAGENET_NAMES.match(name) else None
    return TrainingStage(weights=weights, network=name, dataset=dataset)


def digest_images(dataset: Dataset, rows: Ints | None = None) -> SeenImages | None:
    """Digest the images of a dataset by content; None where it vouches for names alone."""
    if dataset.identity == "names":
        return None
    digests = image_digests(dataset, rows)
    pixels = pixel_digests(dataset, rows, digests=digests, skip_bad=True)
    return SeenImages(short_digests(digests), short_digests(pixels))


def write_seen(folder: Path, stages: Sequence[SeenImages | None]) -> None:
    """Write the training images of a network's stages, the last training first, beside its weights."""
    names = ("stage", "file", "pixels")
    tables = [
        pa.table([np.full(len(seen.files), stage, np.uint8), *seen], names=names)
        for stage, seen in enumerate(stages)
        if seen is not None
    ]
    if tables:
        table = pa.concat_tables(tables).sort_by([(name, "ascending") for name in names])
        table = table.replace_schema_metadata({"longshot_seen": _SEEN_FORMAT})
        with atomic(folder / SEEN_FILE) as temporary:
            pq.write_table(table, temporary, compression="zstd", use_dictionary=["stage"])


def read_seen(folder: Path) -> dict[int, SeenImages]:
    """Read what ``write_seen`` wrote, by stage; empty where there is no such file."""
    path = folder / SEEN_FILE
    if not path.is_file():
        return {}
    try:
        table = read_parquet(path)
        version = (table.schema.metadata or {}).get(b"longshot_seen")
        if version != _SEEN_FORMAT:
            raise UserError(
                f"{path} has format {(version or b'unknown').decode()}, this Longshot reads {_SEEN_FORMAT.decode()}",
                "train the network again, or remove the file: its training images are then not on record",
            )
        stage, *digests = (table[name].to_numpy() for name in ("stage", "file", "pixels"))
    except (pa.ArrowException, OSError, KeyError) as error:
        raise UserError(f"{path} is damaged", "copy it again with the weights, or remove it") from error
    return {
        int(each): SeenImages(*(column[stage == each] for column in digests)) for each in np.unique(stage)
    }


def find_leaks(stages: Sequence[Stage], tested: TestedImages) -> dict[str, Any]:
    """Find what is known about test images and classes that a network saw in training.

    Parameters
    ----------
    stages : sequence of (TrainingStage, SeenImages or None)
        Every training of the network, and of those that it started from, with its images where they are on record.
    tested : TestedImages
        What it is tested on.

    Returns
    -------
    dict
        ``upstream``: what it was trained on. ``how`` it is known: by "content", "names" of images of one dataset, "near
        copies" of an earlier comparison, "classes" alone, or "unknown". Test ``images`` that training saw of all
        ``of_images`` (None where it is not known), as counted by ``levels``, which they are (``leaked``, see
        :func:`unpack_mask`), and whose training images are ``not_known``. Test ``classes`` that training had (None
        likewise) of all ``of_classes``, among the ``trained_classes``, and their ids (``class_ids``).
    """
    leaked, not_known = np.zeros(len(tested.keys), np.bool_), []
    levels, how = Counter[str](), dict[str, None]()
    ids = {tested.classes[position] for position in np.unique(tested.class_of).tolist()}
    classes, trained_classes = set[str](), set[str]()
    for stage, seen in stages:
        looks = list(_hits(stage, seen, tested))
        for level, word, hits in looks:
            how[word] = None
            levels[level] += int((hits & ~leaked).sum())
            leaked |= hits
        if not looks and stage.dataset:
            not_known.append(stage.dataset)
        trained = set(stage.class_ids or ())
        trained_classes |= trained
        same = stage.origin[0] == tested.origin
        classes |= ids & trained if same else seen_classes(trained, ids, tested.labels, read_nouns())
    classes |= {tested.classes[position] for position in np.unique(tested.class_of[leaked]).tolist()}
    return {
        "upstream": ", ".join(dict.fromkeys(stage.dataset or "unknown data" for stage, _ in stages)),
        "how": ", ".join(how) or ("classes" if trained_classes else "unknown"),
        "images": int(leaked.sum()) if how else None,
        "of_images": len(leaked),
        "levels": dict(+levels),
        "leaked": pack_mask(leaked) if leaked.any() else "",
        "not_known": not_known,
        "classes": len(classes) if how or trained_classes else None,
        "of_classes": len(ids),
        "trained_classes": len(trained_classes),
        "class_ids": sorted(classes),
    }


def _hits(
    stage: TrainingStage, seen: SeenImages | None, tested: TestedImages
) -> Iterator[tuple[str, str, Bools]]:
    """Test images that one training saw: (level, how it is known, flags [M]), as far as something can be told."""
    trained, (origin, left_out) = stage.class_ids, stage.origin
    same = origin == tested.origin
    if seen is not None and tested.images is not None:
        yield "files", "content", np.isin(tested.images.files, seen.files)
        decoded = tested.images.pixels != 0
        yield "pixels", "content", decoded & np.isin(tested.images.pixels, seen.pixels)
    elif same:
        shared = np.array([trained is None or each in trained for each in tested.classes], np.bool_)
        yield "names", "names", shared[tested.class_of] & ~_among(tested.keys, left_out)
    copies, turned = known_copies(origin, tested.origin) if origin else (None, False)
    if copies is None:
        return
    for ours, theirs in (("a", "b"), ("b", "a")):
        if same or turned == (ours == "b"):
            usable = ~_among(copies[f"key_{ours}"], left_out)
            if trained is not None:
                usable &= _among(copies[f"class_{ours}"], trained)
            copied = copies[f"key_{theirs}"].filter(pa.array(usable))
            yield "near", "near copies", _among(tested.keys, copied.to_pylist())


def _among(values: pa.Array | pa.ChunkedArray, some: Any) -> Bools:
    """Return which of the strings are among some."""
    mask: Bools = pc.is_in(values, value_set=pa.array(list(some), pa.string())).to_numpy(zero_copy_only=False)
    return mask


def pack_mask(mask: Bools) -> str:
    """Write flags as text for JSON.

    >>> unpack_mask(pack_mask(np.array([True, False, True])), 3)
    array([ True, False,  True])
    """
    return base64.b64encode(zlib.compress(np.packbits(mask).tobytes())).decode("ascii")


def unpack_mask(text: str, size: int) -> Bools:
    """Read what ``pack_mask`` wrote of ``size`` flags; none of them for an empty text."""
    if not text:
        return np.zeros(size, np.bool_)
    packed = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
    return np.unpackbits(packed, count=size).astype(np.bool_)


def training_stages(backbone: str) -> list[Stage]:
    """List what is known of the training of a backbone, or of several side by side, the last stage first."""
    from longshot.models.backbones import backbone_parts
    from longshot.models.networks.checkpoint import SIDECAR_FILE, read_weights_sidecar

    stages: list[Stage] = []
    for part in backbone_parts(backbone):
        path = Path(part)
        sidecar = path / SIDECAR_FILE if path.is_dir() else path.with_suffix(".json")
        if not ((path.is_dir() or path.suffix == ".safetensors") and sidecar.is_file()):
            stage = published_stage(part)
            stages += [(stage, None)] if stage.dataset else []
            continue
        story, seen = read_weights_sidecar(sidecar), read_seen(sidecar.parent)
        data = story.get("data")
        own = {"weights": story["weights_hash"], "network": part, **(data if isinstance(data, dict) else {})}
        for number, facts in enumerate([own, *story.get("lineage", ())]):
            stage = read_record(TrainingStage, facts, f"The record of the training of {part}")
            stages.append((stage, seen.get(number)))
    return stages
