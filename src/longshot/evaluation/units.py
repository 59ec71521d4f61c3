"""Units of work: a chunk of one testbed's tasks × backbone × method, its id, its file, the features it reads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from longshot.base import TaskRows, atomic, hash_json, hash_text, note, used_rows
from longshot.evaluation.metrics import METRICS
from longshot.tasks import checksum

if TYPE_CHECKING:
    from longshot.models import Features

SCHEMA = pa.schema(
    [
        ("testbed", pa.string()),
        ("testbed_name", pa.string()),
        ("task", pa.int64()),
        ("backbone", pa.string()),
        ("method", pa.string()),
        ("seed", pa.int64()),
        *((metric, pa.float64()) for metric in METRICS),
        ("dataset", pa.string()),
        ("setting", pa.string()),
        ("way", pa.int16()),
        ("mean_shot", pa.float64()),
        ("coarsity", pa.float64()),
        ("prediction", pa.list_(pa.int16())),
    ]
)
SCORES = pa.field("scores", pa.list_(pa.float32()))  # query by query, ways numbers each
_KEYS = ("testbed", "task", "backbone", "method", "seed")
_SECONDS = pa.schema([*map(SCHEMA.field, _KEYS), ("seconds", pa.float64())])
# Of the rows, in a file's metadata: page checksums leave headers and footer open.
_DIGEST = b"longshot.digest"
_WRITE = {"compression": "zstd", "write_page_checksum": True}


@dataclass(frozen=True)
class Unit:
    """Tasks ``start`` … ``stop`` of one dataset in a testbed, through one backbone, by one method.

    ``id`` is a pure function of what decides the result, so a unit that is on disk need not be computed again.
    """

    testbed: str  # content hash
    testbed_name: str
    dataset: str
    backbone: str
    features: str  # hash; of weights and preprocessing where the method sees images
    method: str  # canonical call
    identity: str  # method, settings, version
    setting: str
    seed: int
    start: int
    stop: int

    @property
    def id(self) -> str:
        """Return the unit's id, twenty hex digits."""
        facts = [self.testbed, self.dataset, self.features, self.identity, self.seed, self.start, self.stop]
        return hash_json([1, *facts])[:20]

    def __len__(self) -> int:
        return self.stop - self.start


def chunk_size(tasks: int) -> int:
    """Return the tasks per unit: a power of two from 128 to 4,096, for at most 32 units where that allows it.

    Small enough to lose little when killed and to keep workers busy, large enough not to drown in files.
    """
    return int(min(max(2 ** math.ceil(math.log2(max(tasks, 1) / 32)), 128), 4096))


def chunks(tasks: int, size: int | None = None) -> list[tuple[int, int]]:
    """List (start, stop) of each unit over ``tasks`` tasks, of ``size`` or else ``chunk_size`` tasks each."""
    size = size or chunk_size(tasks)
    return [(start, min(start + size, tasks)) for start in range(0, tasks, size)]


def part_path(folder: Path, unit_id: str) -> Path:
    """Return where the results of a unit lie."""
    return folder / f"part-{unit_id}.parquet"


def seconds_path(folder: Path, unit_id: str) -> Path:
    """Return where the timings of a unit lie: apart, because they differ from run to run."""
    return folder / "seconds" / f"{unit_id}.parquet"


def unit_rows(unit: Unit, columns: Mapping[str, Any]) -> pa.Table:
    """Build a unit's rows from ``columns`` that vary by task, with ``seconds``, and ``scores`` if given."""
    schema = SCHEMA.append(SCORES) if "scores" in columns else SCHEMA
    schema = schema.append(_SECONDS.field("seconds"))
    values = [columns[n] if n in columns else [getattr(unit, n)] * len(unit) for n in schema.names]
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def write_unit(folder: Path, unit: Unit, columns: Mapping[str, Any]) -> None:
    """Write a unit's rows and timings into a run folder; see ``unit_rows``."""
    write_rows(folder, unit.id, unit_rows(unit, columns))


def write_rows(folder: Path, unit_id: str, rows: pa.Table) -> None:
    """Write what ``unit_rows`` made: timings apart, then the part, which marks the unit as done."""
    timing = rows.select(_SECONDS.names).cast(_SECONDS)
    files = {
        seconds_path(folder, unit_id): timing,
        part_path(folder, unit_id): rows.drop_columns(["seconds"]),
    }
    for path, table in files.items():
        with atomic(path) as temporary:
            sealed = table.replace_schema_metadata({_DIGEST: checksum(table, "")})
            pq.write_table(sealed, temporary, **_WRITE)


def read_part(path: Path) -> pa.Table:
    """Read and check the rows of a part file; ValueError when it is truncated, damaged or something else."""
    table = _read_sealed(path)
    if not _fits(table.schema):
        raise ValueError(f"{path} has other columns than results have")
    shares = table["accuracy"].to_numpy()
    if table["task"].null_count or not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"{path} is damaged: it holds tasks without a number or an accuracy")
    return table


def _fits(schema: pa.Schema) -> bool:
    """Tell whether a part has the columns of results, in their order; scores may follow."""
    fields = [schema.field(position) for position in range(min(len(schema), len(SCHEMA)))]
    return [(field.name, field.type) for field in fields] == [(field.name, field.type) for field in SCHEMA]


def _read_sealed(path: Path) -> pa.Table:
    """Read a sealed table; ValueError when it cannot be read or its rows are not those that were written."""
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
        table.validate(full=True)  # damaged bytes can decode to lengths that lead nowhere
        digest = (table.schema.metadata or {}).get(_DIGEST)  # absent from files of earlier versions
        changed = digest is not None and digest != checksum(table, "").encode()
    except PermissionError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is truncated or damaged") from error
    if changed:
        raise ValueError(f"{path} is damaged: its rows are not those that were written")
    return table.replace_schema_metadata(None)


def read_columns(folder: Path, unit_id: str, names: Sequence[str]) -> pa.Table | None:
    """Read some columns of a unit and its ``seconds``, checked page by page, not as a whole: a quick look.

    None when it has not been computed; ValueError when it is truncated, damaged or something else.
    """
    path = part_path(folder, unit_id)
    if not path.exists():
        return None
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        if not _fits(file.schema_arrow):
            raise ValueError(f"{path} has other columns than results have")
        rows = file.read(columns=list(names))
        rows.validate(full=True)
    except (pa.ArrowException, OSError, OverflowError) as error:
        raise ValueError(f"{path} is truncated or damaged") from error
    try:
        times = pq.ParquetFile(seconds_path(folder, unit_id), page_checksum_verification=True)
        seconds = times.read(columns=["seconds"])["seconds"].combine_chunks()
    except (pa.ArrowException, OSError, KeyError):
        seconds = pa.nulls(0, pa.float64())
    known_times = len(seconds) == rows.num_rows and seconds.type == pa.float64()
    return rows.append_column("seconds", seconds if known_times else pa.nulls(rows.num_rows, pa.float64()))


def part_state(folder: Path, unit: Unit, with_scores: bool) -> str:
    """Return 'done', 'missing', 'damaged', or 'no scores' when scores are wanted and the part has none."""
    path = part_path(folder, unit.id)
    if not path.exists():
        return "missing"
    try:
        table = read_part(path)
    except ValueError:
        return "damaged"
    if table.num_rows != len(unit):
        return "damaged"
    if with_scores and SCORES.name not in table.column_names:
        return "no scores"
    return "done"


def read_seconds(folder: Path, unit_id: str, rows: int) -> Any:
    """Read the timings of a unit as float64, nulls when the file is gone or damaged; [rows]."""
    path = seconds_path(folder, unit_id)
    if not path.exists():
        return pa.nulls(rows, pa.float64())
    try:
        table = _read_sealed(path)
    except ValueError as error:
        _leave_out(str(error))
        return pa.nulls(rows, pa.float64())
    if table.schema.names != _SECONDS.names or table.schema.types != _SECONDS.types or len(table) != rows:
        _leave_out(f"{path} holds something else than the times of {rows:,} tasks")
        return pa.nulls(rows, pa.float64())
    return table["seconds"].combine_chunks()


@cache
def _leave_out(reason: str) -> None:
    """Say once that times are missing."""
    note(f"{reason}; these times are left out, the results stand without them")


def ragged_list(values: Sequence[np.ndarray[Any, Any]]) -> Any:
    """Build a list array from one array per task."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(values)))


@dataclass(frozen=True, eq=False)
class FeatureSource:
    """One dataset seen through one backbone, or through several side by side."""

    backbone: str  # name in the results
    features: tuple[Features, ...]

    @property
    def view(self) -> str:
        """Return the hash of what does not depend on the images in use: dataset's names, networks, dtypes."""
        return _joined_hash([features.view for features in self.features])

    def hash_of(self, tasks: TaskRows) -> str:
        """Hash of the features of the images that tasks use, over all backbones; UserError where some have none."""
        rows = used_rows([tasks])
        for features in self.features:
            features.check_used(rows)
        return _joined_hash([features.hash_of(rows) for features in self.features])

    @property
    def dim(self) -> int:
        """Return the numbers per image, over all backbones."""
        return sum(features.dim for features in self.features)

    def story(self) -> dict[str, Any]:
        """Describe these features for run.json."""
        return {
            "dataset": self.features[0].dataset,
            "hash": self.view,
            "dim": self.dim,
            "networks": [
                {
                    "backbone": features.backbone,
                    "weights_hash": features.weights_hash,
                    "preprocessing": features.preprocessing,
                    "dtype": str(features.array.dtype),
                    "features_hash": features.view,
                    "identity": features.backbone_identity,
                    "images": features.identity,
                }
                for features in self.features
            ],
        }


def _joined_hash(hashes: Sequence[str]) -> str:
    return hashes[0] if len(hashes) == 1 else hash_text(*hashes)
