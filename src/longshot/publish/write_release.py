"""``longshot.release``: testbeds, what they were made from, a table of baselines, hashes, and a card for people."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longshot.base import UserError, claim_folder, hash_file, write_json, write_text
from longshot.data import Dataset
from longshot.evaluation import Results, TestbedLike, names_only, open_distinct_testbeds
from longshot.publish.release_card import CROISSANT_FILE, croissant_record, front_matter, release_card
from longshot.publish.release_images import SourceNames, read_names, thumbnails, write_names
from longshot.reports import arrow, metrics_sheet, read_runs
from longshot.tasks import Testbed, columns, describe, open_datasets, say_sampler, say_suspects

FORMAT = 3
FILE = "release.json"
SUMS = "SHA256SUMS"
_PICTURES = 32  # images per source whose pixels a copy is compared with


def release(
    testbeds: TestbedLike | Sequence[TestbedLike] | Mapping[str, TestbedLike],
    *,
    out: str | os.PathLike[str],
    title: str,
    version: str = "1.0",
    runs: Results | str | os.PathLike[str] | Sequence[Results | str | os.PathLike[str]] = (),
    licence: str = "",
    source_licences: Mapping[str, str] | None = None,
    citation: str | Path = "",
    text: str = "",
    authors: str | Sequence[str] = (),
    url: str = "",
    published: str = "",
    datasets: Mapping[str, Dataset | str | Path] | None = None,
) -> Path:
    """Write a benchmark that others can use: testbeds, a card, hashes and a table of baselines.

    The folder holds testbeds/, sources/, release.json, README.md (the card), croissant.json and SHA256SUMS. The images
    themselves are not copied: the names of all, and digests of the bytes and the pixels of those in use, are noted, so
    that others can tell whether their copy is the same. The same call gives the same bytes.

    ``datasets.load_dataset`` of Hugging Face opens the folder (a configuration per testbed, the split ``test``), and
    ``mlcroissant`` reads croissant.json (a record set per testbed).

    Parameters
    ----------
    testbeds : Testbed, path, sequence or mapping
        What to release; a file keeps its name, a mapping gives names.
    out : path
        Folder to write; new or empty.
    title : str
        What the benchmark is called.
    version : str
        Its version.
    runs : Results, list of paths or URLs
        A run on these testbeds: its rows become the table of baselines; repeat for several.
    licence : str
        Licence of the task lists, such as CC-BY-4.0.
    source_licences : NAME=TEXT, mapping, optional
        Licence of a source's images, for the card; repeat for several.
    citation : FILE, text or a path
        Text to cite, such as BibTeX. A ``Path`` is a file that holds it.
    text : str
        A paragraph for the card.
    authors : list of str
        Who publishes it, for croissant.json; repeat for several.
    url : str
        Where it is published, for croissant.json.
    published : YYYY-MM-DD, str
        On which day, for croissant.json.
    datasets : optional
        As in ``evaluate``. Every source must be at hand.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> folder = release("hard.parquet", out="hard-toybox", title="Hard toybox", runs="runs/first")
    >>> sorted(path.name for path in folder.iterdir())
    ['README.md', 'SHA256SUMS', 'croissant.json', 'release.json', 'sources', 'testbeds']
    """
    from longshot import __version__

    beds = open_distinct_testbeds(testbeds)
    folder = Path(out)
    claim_folder(folder, "release")
    licences = source_licences or {}
    strangers = sorted(set(licences) - {name for bed in beds.values() for name in bed.datasets})
    if strangers:
        raise UserError(f"A licence is given for '{strangers[0]}', which is no source of these testbeds.")
    _check_date(published)
    listed = [runs] if isinstance(runs, Results | str | os.PathLike) else runs
    results = [run if isinstance(run, Results) else Results(run) for run in listed]
    beds, sources = _sources(beds, licences, datasets or {})
    facts: dict[str, Any] = {
        "format": FORMAT,
        "title": title,
        "version": version,
        "text": text,
        "licence": licence,
        "citation": _read(citation) if isinstance(citation, Path) else citation,
        "authors": [authors] if isinstance(authors, str) else list(authors),
        "url": url,
        "published": published,
        "made_with": f"longshot {__version__}",
        "testbeds": [_testbed(number, name, bed) for number, (name, bed) in enumerate(beds.items())],
        "sources": [entry for entry, _ in sources],
        "baselines": _baselines(results, beds),
        "baselines_by_name": list(dict.fromkeys(line for run in results for line in names_only(run.run))),
    }
    for entry in facts["testbeds"]:
        beds[entry["name"]].save(folder / entry["file"])
    for entry, names in sources:
        write_names(folder / entry["file"], names)
    write_json(folder / FILE, facts)
    write_text(folder / "README.md", front_matter(facts) + "\n" + release_card(facts))
    schemas = {name: bed.table.schema for name, bed in beds.items()}
    write_json(folder / CROISSANT_FILE, croissant_record(facts, schemas, _sums(folder)))
    write_text(folder / SUMS, "".join(f"{digest}  {file}\n" for file, digest in _sums(folder).items()))
    return folder


def _sums(folder: Path) -> dict[str, str]:
    """Return file → SHA-256, for every file that is there."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {file: hash_file(folder / file) for file in files}


def _check_date(published: str) -> None:
    try:
        if published:
            datetime.date.fromisoformat(published)
    except ValueError as error:
        raise UserError(f"'{published}' is no day", "pass {published:2026-05-31}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The citation file {path} cannot be read as text: {error}.") from error


def _file_name(folder: str, number: int, name: str) -> str:
    """Return the path of a testbed's or source's file: by its name where that is plain, else with a number.

    >>> _file_name("sources", 0, "birds"), _file_name("sources", 1, "../my birds")
    ('sources/birds.parquet', 'sources/1--my-birds.parquet')
    """
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip(".")
    return f"{folder}/{name}.parquet" if slug == name else f"{folder}/{number}-{slug}.parquet"


def _testbed(number: int, name: str, bed: Testbed) -> dict[str, Any]:
    """Describe a testbed for release.json."""
    ways, shots = bed.table.column("way").to_numpy(), bed.column("shots").values
    return {
        "file": _file_name("testbeds", number, name),
        "name": name,
        "content_hash": bed.content_hash,
        "tasks": len(bed),
        "tasks_per_source": columns.tasks_per_dataset(bed.table),
        "ways": [int(ways.min()), int(ways.max())],
        "shots": [int(shots.min()), int(shots.max())],
        "queries": int(bed.column("query").offsets[-1]),
        "sampler": bed.meta["sampler"],
        "said": say_sampler(bed.meta["sampler"]),
        "suspects": say_suspects(bed),
        "copies": [
            *describe.say_copies(bed),
            describe.say_straddling(describe.straddling_tasks(bed), len(bed)),
        ],
        "seed": bed.meta["seed"],
        "features": bed.meta["features"],
    }


def _sources(
    testbeds: Mapping[str, Testbed],
    licences: Mapping[str, str],
    datasets: Mapping[str, Dataset | str | Path],
) -> tuple[dict[str, Testbed], list[tuple[dict[str, Any], SourceNames]]]:
    """Bind the testbeds to their datasets; return them, the facts of each dataset and its images' names."""
    opened: dict[str, Dataset] = {}
    bound: dict[str, Testbed] = {}
    for bed_name, bed in testbeds.items():
        at_hand = {name: dataset for name, dataset in datasets.items() if name in bed.datasets}
        bound[bed_name], own = open_datasets(bed, at_hand)
        for name, dataset in own.items():
            if opened.setdefault(name, dataset).fingerprint != dataset.fingerprint:
                raise UserError(
                    f"Two testbeds of the release mean different datasets by '{name}' (fingerprints "
                    f"{opened[name].fingerprint[:12]}… and {dataset.fingerprint[:12]}…)",
                    "give one another name",
                )
    unknown = sorted(set(datasets) - set(opened))
    if unknown:
        raise UserError(
            f"{{datasets}} names '{unknown[0]}', but the sources are {', '.join(sorted(opened))}."
        )
    sources: list[tuple[dict[str, Any], SourceNames]] = []
    for number, (name, dataset) in enumerate(sorted(opened.items())):
        of_source = [bed for bed in bound.values() if name in bed.datasets]
        names = read_names(dataset, name, of_source)
        entry = {
            "name": name,
            "file": _file_name("sources", number, name),
            "fingerprint": dataset.fingerprint,
            "classes": len(dataset.class_ids),
            "images": len(dataset),
            "splits_from": dataset.splits_from,
            "licence": licences.get(name, ""),
            "content": names.content.entry(),
            "thumbnails": thumbnails(dataset, names.some_keys(_PICTURES)),
        }
        sources.append((entry, names))
    return bound, sources


def _baselines(runs: Sequence[Results], testbeds: Mapping[str, Testbed]) -> list[dict[str, Any]]:
    """Return the rows of runs on the release's testbeds, as reports write them to files.

    UserError when a run has none, or is not finished.
    """
    names = {bed.content_hash: name for name, bed in testbeds.items()}
    selected = []
    for results in runs:
        missing = results.missing()
        if missing:
            raise UserError(
                f"The run {results.name} is not finished: {len(missing):,} units are missing",
                "run its command again first",
            )
        hashes = [content_hash for content_hash in results.run["testbeds"] if content_hash in names]
        if not hashes:
            raise UserError(
                f"The run {results.name} holds nothing on the {len(names)} testbeds of the release",
                "evaluate on them first",
            )
        selected.append(results.select(testbed=hashes))
    rows: list[dict[str, Any]] = arrow(metrics_sheet(read_runs(selected))).to_pylist() if selected else []
    return [{**row, "testbed": names[row["testbed_hash"]]} for row in rows]
