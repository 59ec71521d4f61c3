"""Check a copy of a release: its own files against their hashes, its tasks against the user's images."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.core.errors import UserError
from longshot.core.files import hash_file
from longshot.core.progress import progress
from longshot.releases.thumbnails import differing
from longshot.releases.write import FILE, FORMAT, SUMS
from longshot.testbeds import describe
from longshot.testbeds.testbed import Testbed

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset


@dataclass(frozen=True)
class ReleaseCheck:
    """One thing that was looked at; ``problem`` is empty when it is as it should be."""

    what: str
    problem: str = ""


def read_release(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """release.json of a folder; UserError when it is no release."""
    path = Path(folder) / FILE
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(
            f"{folder} is no release: it has no {FILE}; make one with 'longshot release'."
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); take an unchanged copy of the release.") from error
    if (
        not isinstance(facts, dict)
        or facts.get("format") != FORMAT
        or not {"testbeds", "sources"} <= set(facts)
    ):
        raise UserError(f"{path} is not a release of format {FORMAT}; update longshot or take another copy.")
    return facts


def verify_release(
    folder: str | os.PathLike[str], datasets: Mapping[str, Dataset | str | Path] | None = None
) -> list[ReleaseCheck]:
    """Everything about a copy of a release: files, testbeds, sources; nothing stops at the first problem.

    ``datasets`` says where sources lie; the others are looked up where this machine saw them last.
    """
    root = Path(folder)
    facts = read_release(root)
    names = [source["name"] for source in facts["sources"]]
    unknown = sorted(set(datasets or {}) - set(names))
    if unknown:
        raise UserError(f"The release has no source '{unknown[0]}'; its sources are {', '.join(names)}.")
    findings = _files(root)
    beds: dict[str, Testbed] = {}
    for one in facts["testbeds"]:
        try:
            beds[one["name"]] = Testbed.load(root / one["file"])
            other = beds[one["name"]].content_hash != one["content_hash"]
            problem = f"its content hash is not the one in {FILE}" if other else ""
        except UserError as error:
            problem = str(error)
        findings.append(ReleaseCheck(f"testbed {one['name']}", problem))
    with progress("compare sources", total=len(names), unit="sources") as bar:
        for source in facts["sources"]:
            findings += _source(source, beds, (datasets or {}).get(source["name"]))
            bar.advance()
    return findings


def _files(root: Path) -> list[ReleaseCheck]:
    """Every file of SHA256SUMS: there, and unchanged; files that it does not name are told."""
    sums = root / SUMS
    if not sums.is_file():
        return [
            ReleaseCheck(SUMS, "it is missing, so no file can be checked; take a whole copy of the release")
        ]
    findings, listed = [], set()
    for line in sums.read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        path = root / name
        if Path(name).is_absolute() or ".." in Path(name).parts or not name:
            findings.append(
                ReleaseCheck(name or SUMS, f"the line '{line[:80]}' of {SUMS} names no file of the release")
            )
            continue
        listed.add(name)
        if not path.is_file():
            findings.append(ReleaseCheck(name, "it is missing"))
        else:
            same = hash_file(path) == digest
            findings.append(ReleaseCheck(name, "" if same else "it was changed: its SHA-256 is another"))
    present = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} - {SUMS}
    findings += [
        ReleaseCheck(name, f"it is not part of the release ({SUMS} does not name it)")
        for name in sorted(present - listed)
    ]
    return findings


def _source(
    source: Mapping[str, Any], beds: Mapping[str, Testbed], given: Dataset | str | Path | None
) -> list[ReleaseCheck]:
    """One source: is it here, does every task find its images, do some of the pictures look the same."""
    from longshot.datasets import open_dataset
    from longshot.datasets.registry import find

    name = source["name"]
    what = f"source {name}"
    try:
        if given is None:
            dataset = find(source["fingerprint"], name)
        else:
            dataset = open_dataset(given) if isinstance(given, str | Path) else given
    except UserError as error:
        return [ReleaseCheck(what, str(error))]
    findings = []
    if dataset.fingerprint != source["fingerprint"]:
        findings.append(
            ReleaseCheck(
                what,
                f"{dataset.source} has {len(dataset.class_ids):,} classes and {len(dataset):,} images, the "
                f"release's had "
                f"{source['classes']:,} and {source['images']:,} (fingerprint {dataset.fingerprint[:12]}…, not "
                f"{source['fingerprint'][:12]}…)",
            )
        )
    for bed_name, bed in beds.items():
        if name in bed.datasets:
            one = describe.verify_one(bed, name, dataset)
            findings += [
                ReleaseCheck(f"{what}, testbed {bed_name}", text.removeprefix(f"{name}: ")) for text in one
            ]
    changed = differing(dataset, source.get("thumbnails", {}))
    if changed:
        findings.append(
            ReleaseCheck(
                what,
                f"{len(changed)} of {len(source['thumbnails'])} compared pictures look different from the "
                f"release's, such as "
                f"'{changed[0]}': the names are the same, the images are not",
            )
        )
    return findings or [ReleaseCheck(what)]
