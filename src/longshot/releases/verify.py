"""``longshot.verify``: a copy of a release against its hashes, and its tasks against the user's images."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from longshot.core.errors import UserError, in_words
from longshot.core.files import hash_file
from longshot.core.progress import progress
from longshot.core.settings import Loose, read_json
from longshot.datasets import open_dataset
from longshot.datasets.dataset import Dataset
from longshot.datasets.registry import find
from longshot.releases.thumbnails import differing
from longshot.releases.write import FILE, SUMS
from longshot.testbeds import describe
from longshot.testbeds.testbed import Testbed


@dataclass(frozen=True)
class ReleaseCheck:
    """One thing that was looked at; ``template`` is the problem, empty when it is as it should be."""

    subject: str
    template: str = ""  # as of a ``UserError``: parameters stand between braces

    @property
    def problem(self) -> str:
        """What is wrong; empty when nothing is."""
        return in_words(self.template)


class _TestbedFacts(Loose):
    name: str
    file: str
    content_hash: str


class _SourceFacts(Loose):
    name: str
    fingerprint: str
    classes: int
    images: int
    thumbnails: dict[str, str] = Field(default_factory=dict)


class ReleaseFacts(Loose):
    """What a check needs of release.json."""

    format: Literal[1]
    testbeds: tuple[_TestbedFacts, ...]
    sources: tuple[_SourceFacts, ...]


def read_release(folder: str | os.PathLike[str]) -> ReleaseFacts:
    """release.json of a folder; UserError when it is no release."""
    path = Path(folder) / FILE
    if not path.exists():
        raise UserError(
            f"{folder} is no release: it has no {FILE}", "make one with {release(TESTBED, out=FOLDER)}"
        )
    return read_json(ReleaseFacts, path, "The release")


def verify(
    folder: str | os.PathLike[str], *, datasets: Mapping[str, Dataset | str | Path] | None = None
) -> list[ReleaseCheck]:
    """Check a copy of a release: every file against its hash, every task against your images.

    Parameters
    ----------
    folder : path
        The release.
    datasets : mapping, optional
        Source → dataset or path; the others are looked for where this machine saw them last.

    Returns
    -------
    list of ReleaseCheck
        Files, testbeds and sources, each with its ``problem`` (empty when there is none): nothing stops at the first.

    Examples
    --------
    >>> folder = longshot.release("easy.parquet", out="easy-toybox", title="Easy toybox")
    >>> [check.subject for check in verify(folder) if check.problem]
    []
    """
    root = Path(folder)
    facts = read_release(root)
    given_datasets = datasets or {}
    names = [source.name for source in facts.sources]
    unknown = sorted(set(given_datasets) - set(names))
    if unknown:
        raise UserError(f"The release has no source '{unknown[0]}'; its sources are {', '.join(names)}.")
    checks = _files(root)
    beds: dict[str, Testbed] = {}
    for entry in facts.testbeds:
        try:
            beds[entry.name] = Testbed.load(root / entry.file)
            other = beds[entry.name].content_hash != entry.content_hash
            problem = f"its content hash is not the one in {FILE}" if other else ""
        except UserError as error:
            problem = error.template
        checks.append(ReleaseCheck(f"testbed {entry.name}", problem))
    with progress("compare sources", total=len(names), unit="sources") as bar:
        for source in facts.sources:
            checks += _source(source, beds, given_datasets.get(source.name))
            bar.advance()
    return checks


def _files(root: Path) -> list[ReleaseCheck]:
    """Every file of SHA256SUMS: there, and unchanged; and files that it does not name."""
    sums = root / SUMS
    if not sums.is_file():
        return [
            ReleaseCheck(SUMS, "it is missing, so no file can be checked; take a whole copy of the release")
        ]
    checks, listed = [], set()
    for line in sums.read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        path = root / name
        if Path(name).is_absolute() or ".." in Path(name).parts or not name:
            checks.append(
                ReleaseCheck(name or SUMS, f"the line '{line[:80]}' of {SUMS} names no file of the release")
            )
            continue
        listed.add(name)
        if not path.is_file():
            checks.append(ReleaseCheck(name, "it is missing"))
        else:
            same = hash_file(path) == digest
            checks.append(ReleaseCheck(name, "" if same else "it was changed: its SHA-256 is another"))
    present = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} - {SUMS}
    checks += [
        ReleaseCheck(name, f"it is not part of the release ({SUMS} does not name it)")
        for name in sorted(present - listed)
    ]
    return checks


def _source(
    source: _SourceFacts, beds: Mapping[str, Testbed], at_hand: Dataset | str | Path | None
) -> list[ReleaseCheck]:
    """One source: is it here, does every task find its images, do some of the pictures look the same."""
    subject = f"source {source.name}"
    try:
        if at_hand is None:
            dataset = find(source.fingerprint, source.name)
        else:
            dataset = at_hand if isinstance(at_hand, Dataset) else open_dataset(at_hand)
    except UserError as error:
        return [ReleaseCheck(subject, error.template)]
    checks = []
    if dataset.fingerprint != source.fingerprint:
        checks.append(
            ReleaseCheck(
                subject,
                f"{dataset.source} has {len(dataset.class_ids):,} classes and {len(dataset):,} images, the release's "
                f"had {source.classes:,} and {source.images:,} (fingerprint {dataset.fingerprint[:12]}…, not "
                f"{source.fingerprint[:12]}…)",
            )
        )
    for bed_name, bed in beds.items():
        if source.name in bed.datasets:
            checks += [
                ReleaseCheck(f"{subject}, testbed {bed_name}", text.removeprefix(f"{source.name}: "))
                for text in describe.verify_one(bed, source.name, dataset)
            ]
    changed = differing(dataset, source.thumbnails)
    if changed:
        checks.append(
            ReleaseCheck(
                subject,
                f"{len(changed)} of {len(source.thumbnails)} compared pictures look different from the release's, such "
                f"as '{changed[0]}': the names are the same, the images are not",
            )
        )
    return checks or [ReleaseCheck(subject)]
