"""The overlap of two datasets as a file: pairs of keys with kind and distance, shared classes, what was searched."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longshot import __version__
from longshot.audit.pairs import KINDS, ImagePairs
from longshot.base import (
    LooseRecord,
    OutputKind,
    UserError,
    cache_dir,
    canonical_json,
    claim_output,
    deliver_json,
    delivered,
    has_json,
    has_parquet,
    read_parquet,
    read_record,
)
from longshot.data import RELATIONS, Dataset, SharedClass, overlap_name
from longshot.models import content_of

SCHEMA = pa.schema(
    [
        ("key_a", pa.string()),
        ("key_b", pa.string()),
        ("class_a", pa.string()),
        ("class_b", pa.string()),
        ("split_a", pa.string()),  # of the class; null where the dataset has no splits
        ("split_b", pa.string()),
        ("kind", pa.string()),
        ("distance", pa.float32()),
        ("mirrored", pa.bool_()),
        ("turned", pa.int16()),  # degrees, anticlockwise, after mirroring: A's picture then lies as B's
    ]
)
KIND = OutputKind(
    "record of an overlap",
    {".parquet": has_parquet("longshot_overlap"), ".json": has_json(longshot="overlap")},
)


class ComparedDataset(LooseRecord):
    """What an overlap file tells of one of its two datasets."""

    name: str
    source: str
    fingerprint: str
    images: int
    classes: int
    identity: str = "names"
    content: str = ""  # digest over the images, by content


class OverlapFile(LooseRecord):
    """Everything in an overlap file but the pairs."""

    format: Literal[1] = 1
    version: str
    a: ComparedDataset
    b: ComparedDataset
    settings: dict[str, Any]
    classes: tuple[SharedClass, ...]


@dataclass(frozen=True, eq=False)
class Overlap:
    """What two datasets share.

    Attributes
    ----------
    pairs : pyarrow.Table
        One row per pair of images: keys, classes and splits of A and B, kind (exact, near, similar), distance,
        mirrored, turned.
    a, b : dict
        The two datasets: name, source, fingerprint, numbers of images and classes.
    classes : tuple of SharedClass
        Related classes.
    settings : dict
        What was searched, and how.
    """

    pairs: pa.Table
    a: dict[str, Any]
    b: dict[str, Any]
    classes: tuple[SharedClass, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def within(self) -> bool:
        """Return whether a dataset was compared with itself."""
        return bool(self.a["fingerprint"] == self.b["fingerprint"])

    def of_kinds(self, *kinds: str) -> pa.Table:
        """Return the pairs of these kinds."""
        return self.pairs.filter(pc.is_in(self.pairs["kind"], pa.array(kinds, pa.string())))

    def copies(self) -> pa.Table:
        """Return exact and near duplicates: what must not be in both of training and test data."""
        return self.of_kinds("exact", "near")

    def counts(self) -> list[dict[str, Any]]:
        """Count per kind: pairs, images of A and of B in them, pairs across classes and across class splits."""
        rows = []
        for kind in KINDS:
            table = self.of_kinds(kind)
            across, splits = (
                pc.sum(pc.not_equal(table[f"{column}_a"], table[f"{column}_b"])).as_py() or 0
                for column in ("class", "split")
            )
            images = [pc.count_distinct(table[f"key_{side}"]).as_py() for side in "ab"]
            rows.append(
                {
                    "kind": kind,
                    "pairs": table.num_rows,
                    "images_a": images[0],
                    "images_b": images[1],
                    "across": across,
                    "across_splits": splits,
                }
            )
        return rows

    def relations(self) -> dict[str, int]:
        """Count how many pairs of classes have each relation."""
        return dict(Counter(shared.relation for shared in self.classes))

    def to_leave_out(
        self, *, images: bool = True, classes: bool = False, relations: Sequence[str] = RELATIONS
    ) -> tuple[list[str], list[str]]:
        """Return (keys, classes) of A to leave out: copies of B's images, classes related to B's.

        Within one dataset the copies that go are those of the second column: one of each group stays.
        """
        unknown = [relation for relation in relations if relation not in RELATIONS]
        if unknown:
            raise UserError(
                f"There is no relation '{unknown[0]}' of classes; there are: {', '.join(RELATIONS)}."
            )
        if classes and self.within:
            raise UserError(
                "Classes are left out by comparing with another dataset; this overlap is of one with itself."
            )
        column = "key_b" if self.within else "key_a"
        keys = sorted(set(self.copies()[column].to_pylist())) if images else []
        return keys, sorted({s.a for s in self.classes if s.relation in relations}) if classes else []

    def meta(self) -> dict[str, Any]:
        """Return everything but the pairs."""
        return {
            "format": 1,
            "version": __version__,
            "a": self.a,
            "b": self.b,
            "settings": self.settings,
            "classes": [shared.model_dump() for shared in self.classes],
        }

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write .parquet (pairs as rows, the rest as metadata) or .json (all of it).

        ``force`` replaces what is there, even if it is no overlap that Longshot wrote.
        """
        if claim_output(path, KIND, force=force) == ".json":
            deliver_json(path, {"longshot": "overlap", **self.meta(), "pairs": self.pairs.to_pylist()})
            return
        table = self.pairs.replace_schema_metadata({"longshot_overlap": canonical_json(self.meta())})
        with delivered(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")

    @classmethod
    def load(cls, path: str | Path) -> Overlap:
        """Read what ``save`` wrote."""
        path = Path(path)
        if not path.is_file():
            raise UserError(f"There is no overlap file {path}", f"make it with {_call(path)}")
        try:
            if path.suffix == ".json":
                meta = json.loads(path.read_text(encoding="utf-8"))
                pairs = pa.Table.from_pylist(meta["pairs"], SCHEMA)
            else:
                pairs = read_parquet(path)
                meta = json.loads(pairs.schema.metadata[b"longshot_overlap"])
            pairs = pairs.replace_schema_metadata().cast(SCHEMA)
        except (pa.ArrowException, ValueError, KeyError, TypeError, OSError) as error:
            raise UserError(
                f"{path} is no overlap file of Longshot ({' '.join(str(error).split())[:120]})",
                f"make it with {_call(path)}",
            ) from error
        file = read_record(OverlapFile, meta, f"The overlap file {path}")
        return cls(pairs, file.a.model_dump(), file.b.model_dump(), file.classes, file.settings)


def make_overlap(
    a: Dataset, b: Dataset, pairs: ImagePairs, classes: list[SharedClass], settings: dict[str, Any]
) -> Overlap:
    """Make the record of an overlap: rows become keys and class ids."""
    columns: dict[str, pa.Array] = {}
    for side, dataset, rows in (("a", a, pairs.rows[:, 0]), ("b", b, pairs.rows[:, 1])):
        columns[f"key_{side}"] = dataset.keys.take(pa.array(rows))
        labels = pa.array(dataset.labels[rows])
        split_of = {class_id: split for split, members in dataset.splits.items() for class_id in members}
        splits = pa.array([split_of.get(class_id) for class_id in dataset.class_ids], pa.string())
        columns[f"class_{side}"] = pa.array(dataset.class_ids).take(labels)
        columns[f"split_{side}"] = splits.take(labels)
    columns["kind"] = pa.array(KINDS).take(pa.array(pairs.kind))
    columns["distance"] = pa.array(pairs.distance)
    columns["mirrored"], columns["turned"] = pa.array(pairs.mirrored), pa.array(pairs.turned)
    table = pa.table([columns[name] for name in SCHEMA.names], names=SCHEMA.names).cast(SCHEMA)
    return Overlap(table, _about(a), _about(b), tuple(classes), {**settings, "index": pairs.index})


def check_first_side(overlap: Overlap, dataset: Dataset, file: Path) -> None:
    """Raise a UserError where an overlap is not about this dataset as its first side."""
    if overlap.a["fingerprint"] == dataset.fingerprint:
        recorded = overlap.a["content"]
        if recorded and dataset.identity == "content" and content_of(dataset).digest != recorded:
            raise UserError(
                f"{file} was made when images of '{dataset.name}' had other bytes than now (digest {recorded[:12]}…)",
                f"compare it anew with {{find_overlap({dataset.name}, {overlap.b['name']})}}",
            )
        return
    turned = overlap.b["fingerprint"] == dataset.fingerprint
    hint = (
        "it is its second dataset: compare the other way round with "
        f"{{find_overlap({overlap.b['name']}, {overlap.a['name']})}}"
        if turned
        else f"compare '{dataset.name}' with it anew"
    )
    raise UserError(
        f"{file} tells what '{overlap.a['name']}' ({overlap.a['fingerprint'][:12]}) shares with '{overlap.b['name']}', "
        f"not what '{dataset.name}' ({dataset.fingerprint[:12]}) does",
        hint,
    )


def remember(overlap: Overlap) -> Path:
    """Keep an overlap in the cache, where ``known_copies`` finds it by the two fingerprints."""
    path = cache_dir("overlap") / overlap_name(overlap.a["fingerprint"], overlap.b["fingerprint"])
    overlap.save(path)
    return path


def _call(path: Path) -> str:
    return f"{{find_overlap(A, B, out={path})}}"


def _about(dataset: Dataset) -> dict[str, Any]:
    content = content_of(dataset)
    return {
        "name": dataset.name,
        "source": dataset.source,
        "fingerprint": dataset.fingerprint,
        "images": len(dataset),
        "classes": len(dataset.class_ids),
        "identity": content.identity,
        "content": content.digest if content.identity == "content" else "",
    }
