"""``longshot.verify``: a copy of a release against its hashes, and its tasks against the user's images."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from longshot.base import LooseRecord, UserError, hash_file, in_words, progress, read_json
from longshot.data import Dataset, as_dataset, reopen_dataset
from longshot.publish.release_images import differing, load_names
from longshot.publish.write_release import FILE, SUMS
from longshot.tasks import (
    ContentEntry,
    ImageCheck,
    Outcome,
    Testbed,
    check_images,
    describe,
    find_dataset,
    rebind,
    worst_outcome,
)


@dataclass(frozen=True)
class ReleaseCheck:
    """One thing that was looked at; ``template`` is the problem, empty when it is as it should be."""

    subject: str
    template: str = ""  # as of a ``UserError``: parameters stand between braces
    outcome: Outcome = "same"
    images: ImageCheck | None = None  # where images were compared

    @property
    def problem(self) -> str:
        """Say what is wrong; empty when nothing is."""
        return in_words(self.template)


class _TestbedFacts(LooseRecord):
    name: str
    file: str
    content_hash: str


class _SourceFacts(LooseRecord):
    name: str
    fingerprint: str
    classes: int
    images: int
    file: str
    content: ContentEntry
    thumbnails: dict[str, str] = Field(default_factory=dict)


class ReleaseFacts(LooseRecord):
    """What a check needs of release.json."""

    format: Literal[2, 3]
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
    folder: str | os.PathLike[str],
    *,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    sample: int | None = None,
) -> list[ReleaseCheck]:
    """Check a copy of a release: every file against its hash, every task against your images, which are read again.

    Parameters
    ----------
    folder : path
        The release.
    datasets : optional
        As in ``evaluate``.
    sample : int, at least 1, optional
        Read only so many images of each source.

    Returns
    -------
    list of ReleaseCheck
        Files, testbeds and sources, each with its ``problem`` (empty when there is none) and ``outcome``: nothing stops
        at the first. ``images`` says how the images of a source were compared.

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
        checks.append(ReleaseCheck(f"testbed {entry.name}", problem, "changed" if problem else "same"))
    with progress("compare sources", total=len(names), unit="sources") as bar:
        for source in facts.sources:
            checks += _source(root, source, beds, given_datasets.get(source.name), sample)
            bar.advance()
    return checks


def _files(root: Path) -> list[ReleaseCheck]:
    """Check that every file of SHA256SUMS is there and unchanged, and find files that it does not name."""
    sums = root / SUMS
    if not sums.is_file():
        return [
            ReleaseCheck(
                SUMS, "it is missing, so no file can be checked; take a whole copy of the release", "missing"
            )
        ]
    checks, listed = [], set()
    for line in sums.read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        path = root / name
        if Path(name).is_absolute() or ".." in Path(name).parts or not name:
            checks.append(
                ReleaseCheck(
                    name or SUMS, f"the line '{line[:80]}' of {SUMS} names no file of the release", "changed"
                )
            )
            continue
        listed.add(name)
        if not path.is_file():
            checks.append(ReleaseCheck(name, "it is missing", "missing"))
        elif hash_file(path) == digest:
            checks.append(ReleaseCheck(name))
        else:
            checks.append(ReleaseCheck(name, "it was changed: its SHA-256 is another", "changed"))
    present = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} - {SUMS}
    checks += [
        ReleaseCheck(name, f"it is not part of the release ({SUMS} does not name it)", "new")
        for name in sorted(present - listed)
    ]
    return checks


def _source(
    root: Path,
    source: _SourceFacts,
    beds: Mapping[str, Testbed],
    at_hand: Dataset | str | Path | None,
    sample: int | None,
) -> list[ReleaseCheck]:
    """Check one source: whether it is here, every task finds its images, and their bytes are the same."""
    subject = f"source {source.name}"
    own = {name: bed for name, bed in beds.items() if source.name in bed.datasets}
    try:
        if at_hand is not None:
            dataset = as_dataset(at_hand)
        elif own:
            dataset = find_dataset(next(iter(own.values())), source.name)
        else:
            dataset = reopen_dataset(source.fingerprint, source.name, or_changed=True)
    except UserError as error:
        return [ReleaseCheck(subject, error.template, "missing")]
    renamed, same_names = False, dataset.fingerprint == source.fingerprint
    try:
        checks = _images(root, source, own, dataset, sample)
        renamed = any(check.images is not None and check.images.renamed for check in checks)
    except UserError as error:
        checks = [ReleaseCheck(f"{subject}, images", error.template, "changed")]
    checks += [
        ReleaseCheck(f"{subject}, testbed {name}", text.removeprefix(f"{source.name}: "), _misfit(text))
        for name, bed in own.items()
        for text in describe.verify_one(
            rebind(bed, source.name, dataset, check=False, quiet=True),
            source.name,
            dataset,
            classes=same_names,
        )
    ]
    if not same_names and not renamed:
        by_names = {check.outcome for check in checks} & {"missing", "new"}
        checks.append(
            ReleaseCheck(
                subject,
                f"{dataset.source} has {len(dataset.class_ids):,} classes and {len(dataset):,} images, the release's "
                f"had {source.classes:,} and {source.images:,} (fingerprint {dataset.fingerprint[:12]}…, not "
                f"{source.fingerprint[:12]}…)",
                worst_outcome(by_names) if by_names else "changed",
            )
        )
    return checks


def _misfit(text: str) -> Outcome:
    """Tell what it means that a testbed does not fit: names that are absent, or another class."""
    return "missing" if "are not in the dataset" in text else "changed"


def _images(
    root: Path,
    source: _SourceFacts,
    beds: Mapping[str, Testbed],
    dataset: Dataset,
    sample: int | None,
) -> list[ReleaseCheck]:
    """Check the images of a source: those in use by bytes (and pixels), all of them by name."""
    parts = [bed.keys(source.name) for bed in beds.values()]
    if not parts:
        return []
    used = pc.unique(pa.concat_arrays(parts))
    names = load_names(root / source.file, used.take(pc.sort_indices(used)))
    if names.content.entry() != source.content.model_dump():
        raise UserError(f"{source.file} and {FILE} do not say the same about its images")
    check = check_images(
        source.name,
        names.content,
        names.used,
        dataset,
        sample=sample,
    )
    if check.renamed:  # another layout: what no task uses cannot be compared by name
        check = dataclasses.replace(check, more=0)
    else:
        now = dataset.keys.cast(pa.string())
        gone = names.keys.filter(pc.invert(pc.is_in(names.keys, value_set=now))).to_pylist()
        new = now.filter(pc.invert(pc.is_in(now, value_set=names.keys))).to_pylist()
        check = dataclasses.replace(check, missing=tuple(gone), new=tuple(sorted(new)), more=0)
    checks = [ReleaseCheck(f"source {source.name}, images", check.differences, check.outcome, check)]
    if names.content.identity == "names":  # of the source; a testbed may vouch for more
        checks += [
            ReleaseCheck(f"source {source.name}, images of {name}", own.differences, own.outcome, own)
            for name, bed in beds.items()
            if (content := bed.content[source.name]).identity == "content"
            for own in [check_images(source.name, content, bed.keys(source.name), dataset, sample=sample)]
        ]
    if names.content.identity == "names" and (changed := differing(dataset, source.thumbnails)):
        checks.append(
            ReleaseCheck(
                f"source {source.name}",
                f"{len(changed)} of {len(source.thumbnails)} compared pictures look different from the release's, such "
                f"as '{changed[0]}': the names are the same, the images are not",
                "changed",
            )
        )
    return checks
