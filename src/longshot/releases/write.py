"""Write a release: testbeds, what they were made from, a table of baselines, hashes, and a card that tells all "
"of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.core.errors import UserError
from longshot.core.files import hash_file, write_json, write_text
from longshot.releases.card import card
from longshot.releases.thumbnails import thumbnails
from longshot.testbeds import columns
from longshot.testbeds.origin import open_datasets, say_sampler

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.evaluation.results import Results
    from longshot.testbeds.testbed import Testbed

FORMAT = 1
FILE = "release.json"
SUMS = "SHA256SUMS"
_PICTURES = 32  # images per source whose pixels a copy is compared with


@dataclass(frozen=True)
class About:
    """What only the publisher knows."""

    title: str
    version: str = "1.0"
    licence: str = ""  # of the testbeds themselves
    licences: Mapping[str, str] = field(default_factory=dict)  # source → its own licence
    citation: str = ""
    text: str = ""  # a paragraph for the card


def write_release(
    out: str | os.PathLike[str],
    testbeds: Mapping[str, Testbed],
    about: About,
    *,
    runs: Sequence[Results] = (),
    datasets: Mapping[str, Dataset | str | Path] | None = None,
) -> Path:
    """Write the folder ``out``: testbeds/, release.json, README.md (the card) and SHA256SUMS.

    ``testbeds`` are named as their files will be. Every source must be at hand: classes, images and a few
    thumbnails are
    noted, so that others can tell whether their copy is the same. ``runs`` give the table of baselines: all they
    hold on
    these testbeds. The same call gives the same bytes.
    """
    from longshot import __version__

    folder = Path(out)
    if not testbeds:
        raise UserError(
            "A release has no testbeds and at least 1 is needed; draw one with 'longshot sample'."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} already holds something; a release goes into a new or empty folder.")
    strangers = sorted(set(about.licences) - {name for bed in testbeds.values() for name in bed.datasets})
    if strangers:
        raise UserError(f"A licence is given for '{strangers[0]}', which is no source of these testbeds.")
    baselines = [row for results in runs for row in _baselines(results, testbeds)]
    facts: dict[str, Any] = {
        "format": FORMAT,
        "title": about.title,
        "version": about.version,
        "text": about.text,
        "licence": about.licence,
        "citation": about.citation,
        "made_with": f"longshot {__version__}",
        "testbeds": [_testbed(name, bed) for name, bed in testbeds.items()],
        "sources": _sources(testbeds, about, datasets),
        "baselines": baselines,
    }
    for name, bed in testbeds.items():
        bed.save(folder / "testbeds" / f"{name}.parquet")
    write_json(folder / FILE, facts)
    write_text(folder / "README.md", card(facts))
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    write_text(folder / SUMS, "".join(f"{hash_file(folder / name)}  {name}\n" for name in names))
    return folder


def _testbed(name: str, bed: Testbed) -> dict[str, Any]:
    """What release.json says of a testbed."""
    tasks = bed.table.column("dataset").cast("string").value_counts().to_pylist()
    ways, shots = bed.table.column("way").to_numpy(), bed.column("shots").values
    return {
        "file": f"testbeds/{name}.parquet",
        "name": name,
        "content_hash": bed.content_hash,
        "tasks": len(bed),
        "tasks_per_source": {entry["values"]: entry["counts"] for entry in tasks},
        "ways": [int(ways.min()), int(ways.max())],
        "shots": [int(shots.min()), int(shots.max())],
        "queries": int(bed.column("query").offsets[-1]),
        "sampler": bed.meta["sampler"],
        "said": say_sampler(bed.meta["sampler"]),
        "seed": bed.meta["seed"],
        "features": bed.meta["features"],
    }


def _sources(
    testbeds: Mapping[str, Testbed], about: About, datasets: Mapping[str, Dataset | str | Path] | None
) -> list[dict[str, Any]]:
    """Every dataset of the testbeds: fingerprint, counts, licence, and thumbnails of some images in use."""
    sources: dict[str, dict[str, Any]] = {}
    for bed in testbeds.values():
        known = {name: path for name, path in (datasets or {}).items() if name in bed.datasets}
        for name, dataset in open_datasets(bed, known).items():
            before = sources.get(name)
            if before is not None:
                if before["fingerprint"] != dataset.fingerprint:
                    raise UserError(
                        f"Two testbeds of the release mean different datasets by '{name}' (fingerprints "
                        f"{before['fingerprint'][:12]}… and {dataset.fingerprint[:12]}…); give one another name."
                    )
                continue
            sources[name] = {
                "name": name,
                "fingerprint": dataset.fingerprint,
                "classes": len(dataset.class_ids),
                "images": len(dataset),
                "splits_from": dataset.splits_from,
                "licence": about.licences.get(name, ""),
                "thumbnails": thumbnails(dataset, _sample(bed, name)),
            }
    unknown = sorted(set(datasets or {}) - set(sources))
    if unknown:
        raise UserError(f"--dataset names '{unknown[0]}', but the sources are {', '.join(sorted(sources))}.")
    return [sources[name] for name in sorted(sources)]


def _sample(bed: Testbed, name: str) -> list[str]:
    """Some keys of a source that the testbed uses, evenly over their sorted list."""
    mine = np.flatnonzero((bed.table.column("dataset").cast("string").to_numpy(zero_copy_only=False)) == name)
    used: set[str] = set()
    for part in ("support", "query"):
        picked = np.unique(bed.column(part).take(mine).values)
        used.update(columns.dictionary(bed.table, part).take(picked).to_pylist())
    keys = sorted(used)
    places = np.unique(np.linspace(0, len(keys) - 1, _PICTURES).astype(np.int64))
    return [keys[place] for place in places]


def _baselines(results: Results, testbeds: Mapping[str, Testbed]) -> list[dict[str, Any]]:
    """Rows of a run on the release's testbeds; UserError when there is none, or the run is not finished."""
    names = {bed.content_hash: name for name, bed in testbeds.items()}
    missing = results.missing()
    if missing:
        raise UserError(
            f"The run {results.path} is not finished: {len(missing):,} units are missing; run its command again "
            f"first."
        )
    rows = [
        {
            "testbed": names[record["testbed_hash"]],
            **{key: record[key] for key in ("backbone", "method", "setting", "seed", "tasks")},
            **{key: record[key] for key in ("accuracy", "ci95", "normalized_accuracy", "loss")},
        }
        for record in results.summary()
        if record["testbed_hash"] in names
    ]
    if not rows:
        raise UserError(
            f"The run {results.path} holds nothing on the {len(names)} testbeds of the release; evaluate on "
            f"them first."
        )
    return rows
