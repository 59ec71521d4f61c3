"""Checking images against what was recorded of them, by bytes, by pixels, by name; ``inspect`` with such checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.audit import CopyGroups, find_copies
from longshot.base import Ints, UserError, check_count, count, first, shown_location
from longshot.data import (
    ImageError,
    content_digest,
    digest_of,
    from_source,
    image_digests,
    innermost,
    pixel_digests,
    short_digests,
)
from longshot.tasks import describe
from longshot.tasks.content import ImageContent, ShortDigests
from longshot.tasks.measures import is_network_column, measure_again, say_drops, say_suspects
from longshot.tasks.testbed import Testbed
from longshot.tasks.testbed_file import check_names, open_datasets, say_sampler

if TYPE_CHECKING:
    from longshot.data import Dataset, Digests, TaxonomyLike


Outcome: TypeAlias = Literal["same", "changed", "missing", "new", "re-encoded", "names"]
# Of several the first counts. 1 and 2 are other commands' "worse" and a mistake in the input.
EXIT_CODES: dict[Outcome, int] = {
    "changed": 3,
    "missing": 4,
    "new": 5,
    "re-encoded": 6,
    "names": 7,
    "same": 0,
}


def worst_outcome(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of several checks together."""
    present = set(outcomes)
    return next((outcome for outcome in EXIT_CODES if outcome in present), "same")


@dataclass(frozen=True)
class ImageCheck:
    """What was checked of the images that tasks use of one dataset, and what differs; keys are sorted."""

    dataset: str
    images: int  # that the tasks use
    checked: int  # of them looked at: all, or a sample
    by_bytes: int = 0  # read again, the same bytes
    by_pixels: int = 0  # other bytes that decode to the same pixels
    by_name: int = 0  # there under its name; nothing else is on record
    changed: tuple[str, ...] = ()
    reencoded: tuple[str, ...] = ()  # those by pixels
    missing: tuple[str, ...] = ()
    # in the dataset, and not when it was recorded, where all its names are on record
    new: tuple[str, ...] = ()
    more: int = 0  # images that the dataset has beyond those it had, where their names are not on record
    digest_differs: bool = False  # the digest over all is another, the short one of each the same

    @property
    def outcome(self) -> Outcome:
        """The worst of what was found."""
        kinds: list[tuple[Outcome, object]] = [
            ("changed", self.changed or self.digest_differs),
            ("missing", self.missing),
            ("new", self.new or self.more),
            ("re-encoded", self.reencoded),
            ("names", self.by_name),
        ]
        return worst_outcome(outcome for outcome, members in kinds if members)

    def __str__(self) -> str:
        """``300 of 300 images: 298 by bytes, 0 by pixels, 0 by name only``."""
        sampled = "" if self.checked == self.images else " (a sample)"
        return (
            f"{self.checked:,} of {count(self.images, 'image')} checked{sampled}: {self.by_bytes:,} the same by bytes, "
            f"{self.by_pixels:,} by pixels, {self.by_name:,} by name only"
        )

    @property
    def differences(self) -> str:
        """The numbers and the first names of what differs; empty where nothing does."""
        kinds = (
            (self.changed, "changed"),
            (self.missing, "missing"),
            (self.new, "new"),
            (self.reencoded, "encoded anew with the same pixels"),
        )
        parts = [f"{count(keys, 'image')} {words} ({first(keys)})" for keys, words in kinds if keys]
        if self.more:
            parts.append(f"{count(self.more, 'image')} new (which, only a release can tell)")
        if self.digest_differs:
            parts.append("the digest over all images is another, though the short digest of each is the same")
        return ", ".join(parts)

    def record(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        numbers = ("images", "checked", "by_bytes", "by_pixels", "by_name", "more")
        lists = ("changed", "reencoded", "missing", "new")
        return {
            "dataset": self.dataset,
            "outcome": self.outcome,
            **{name: getattr(self, name) for name in numbers},
            **{name: list(getattr(self, name)) for name in lists},
        }


def check_images(
    name: str,
    content: ImageContent,
    keys: pa.Array,
    dataset: Dataset,
    *,
    sample: int | None = None,
    pixels: ShortDigests | None = None,
) -> ImageCheck:
    """Read the images ``keys`` (sorted) again and compare them with what was recorded.

    Parameters
    ----------
    name : str
        What the dataset is called.
    content : ImageContent
        What was recorded of the images.
    keys : pyarrow.Array [M]
        Their keys, sorted.
    dataset : Dataset
        Where to look.
    sample : int, optional
        Read only so many, spread evenly over the keys.
    pixels : array [M] of uint64, optional
        Short digests of their pixels: an image with other bytes is then compared by these.
    """
    check_count("verify", "sample", 1 if sample is None else sample, least=1)
    positions = np.arange(len(keys))
    if sample is not None and sample < len(keys):
        positions = np.unique(np.linspace(0, len(keys) - 1, sample).astype(np.int64))
    chosen = keys.take(pa.array(positions))
    indices = pc.index_in(chosen, value_set=dataset.keys.cast(chosen.type))
    present = indices.is_valid().to_numpy(zero_copy_only=False)
    rows = indices.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    missing = tuple(chosen.filter(pa.array(~present)).to_pylist())
    more = max(0, len(dataset) - content.of + len(missing)) if content.of else 0
    checked = ImageCheck(name, len(keys), len(chosen), missing=missing, more=more)
    if content.identity == "names":
        return dataclasses.replace(checked, by_name=len(rows))
    positions, there = positions[present], chosen.filter(pa.array(present))
    digests = _read_again(dataset, rows)
    differs = content.cut(short_digests(digests)) != content.digests[positions]
    comparable = content.exact and len(there) == len(keys) and not differs.any()
    other = comparable and content_digest(there, digests) != content.digest
    same_pixels = np.zeros(len(rows), np.bool_)
    if pixels is not None and differs.any():
        now = pixel_digests(dataset, rows[differs], digests=digests[differs], skip_bad=True)
        same_pixels[differs] = short_digests(now) == pixels[positions[differs]]
    reencoded = tuple(there.filter(pa.array(differs & same_pixels)).to_pylist())
    return dataclasses.replace(
        checked,
        by_bytes=int((~differs).sum()),
        by_pixels=len(reencoded),
        changed=tuple(there.filter(pa.array(differs & ~same_pixels)).to_pylist()),
        reencoded=reencoded,
        digest_differs=other,
    )


def _read_again(dataset: Dataset, rows: Ints) -> Digests:
    """The digests of images as they are now."""
    try:
        return image_digests(dataset, rows, read_again=True)
    except ImageError:
        pass  # one by one, so that one bad file does not hide the others
    store, behind = innermost(dataset.store, rows)
    store = from_source(store)

    def read(row: int) -> bytes:
        try:
            return digest_of(store, row)
        except ImageError:
            return bytes(32)  # unlike any other

    return np.frombuffer(b"".join(map(read, behind.tolist())), np.uint8).reshape(-1, 32)


@dataclass(frozen=True, eq=False)
class Inspection:
    """What there is to say about a testbed; its text is what ``longshot inspect`` prints."""

    testbed: Testbed
    name: str  # the file, or the beginning of the content hash
    findings: tuple[str, ...] | None  # what does not fit the datasets, one sentence each; None: not checked
    images: tuple[ImageCheck, ...] = ()  # how the images of each dataset were checked, and what differs
    # dataset → coarsity by another taxonomy or reduction, where asked for
    coarsity: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # dataset → groups of equal images and near copies among the images in use, where they were looked for
    copies: Mapping[str, CopyGroups] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """Everything as plain JSON values: ``describe.summary``, the histograms, and the findings where checked."""
        bars = {title: dict(rows) for title, rows in describe.histograms(self.testbed).items()}
        facts = {**describe.summary(self.testbed), "histograms": bars}
        if self.copies:
            near = all(groups.near for groups in self.copies.values())
            number = describe.straddling_tasks(self.testbed, self.copies)
            facts["copies"] = {"straddling_tasks": number, "near": near}
        if self.coarsity:
            facts["coarsity"] = {name: dict(values) for name, values in self.coarsity.items()}
        if self.findings is None:
            return facts
        checks = {
            "verified": not self.findings,
            "outcome": self.outcome,
            "findings": list(self.findings),
            "images": [check.record() for check in self.images],
        }
        return {**facts, **checks}

    @property
    def outcome(self) -> Outcome:
        """What checking found; "same" also where nothing was checked. Misfits beside the images count as changed."""
        by_images = [check.outcome for check in self.images]
        about_images = sum(bool(check.differences) for check in self.images)
        misfits: list[Outcome] = ["changed"] if self.findings and len(self.findings) > about_images else []
        return worst_outcome([*by_images, *(() if {"missing", "new"} & {*by_images} else misfits)])

    def check(self) -> None:
        """UserError with all findings where there are any."""
        if self.findings:
            raise UserError(f"The testbed {self.name} does not fit its dataset: {' '.join(self.findings)}")

    def __str__(self) -> str:
        testbed, facts = self.testbed, self.facts
        lines = [f"{self.name}: {facts['tasks']:,} tasks, content hash {facts['content_hash']}"]
        for name, dataset in facts["datasets"].items():
            lines.append(f"dataset {name}: {dataset['tasks']:,} tasks, fingerprint {dataset['fingerprint']}")
            lines.append(f"  {_say_content(dataset)}")
        lines.append(f"sampler {say_sampler(facts['sampler'])}; seed {facts['seed']}")
        if facts["features"]:
            lines.append(f"features {facts['features']}")
        lines.append(
            f"{facts['classes']:,} classes, {facts['distinct_images']:,} different images; made by {facts['creator']}"
        )
        lines += [_say_coarsity(name, values) for name, values in self.coarsity.items()]
        lines += [describe.say_balance(balance) for balance in describe.balances(testbed)]
        lines += say_drops(testbed.meta["sampler"], list(testbed.datasets))
        lines += [*filter(None, [say_suspects(testbed)]), *describe.say_copies(testbed)]
        copies = facts["copies"]
        lines.append(describe.say_straddling(copies["straddling_tasks"], facts["tasks"], copies["near"]))
        changes = [change for change in describe.changes(testbed) if not is_network_column(change.name)]
        # Drawn side by side below, so not once more alone.
        paired = {f"{change.name}_{when}" for change in changes for when in ("before", "after")}
        for title, rows in describe.histograms(testbed).items():
            if title not in paired and not is_network_column(title):
                lines.append(f"\n{describe.draw_histogram(title, rows)}")
        lines += [f"\n{describe.draw_change(change)}" for change in changes]
        return "\n".join(lines)

    __repr__ = __str__


def _say_content(facts: Mapping[str, Any]) -> str:
    """What the testbed vouches for of one dataset's images."""
    if facts["identity"] == "names":
        return f"identity names: {facts['images']:,} images by their names only, not by their bytes"
    return f"identity content: {facts['images']:,} images, digest {facts['digest']}"


def _say_coarsity(name: str, values: Mapping[str, Any]) -> str:
    by = [
        values.get("taxonomy", "its own taxonomy"),
        *([values["reduction"]] if "reduction" in values else []),
    ]
    return (
        f"coarsity of the tasks of {name} by {', '.join(by)}: {values['min']:.4g} to {values['max']:.4g}, mean "
        f"{values['mean']:.4f}"
    )


def inspect(
    testbed: Testbed | str | Path,
    *,
    verify: bool = False,
    sample: int | None = None,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    taxonomy: TaxonomyLike | None = None,
    reduction: str | None = None,
) -> Inspection:
    """Describe a testbed: its origin, its classes, ways and shots, and what was measured.

    Parameters
    ----------
    testbed : Testbed or path
        The content hash of a file is checked in any case.
    verify : bool
        Check every class and every image against the datasets; the images are read again.
    sample : int, optional
        With ``verify``: read only so many images of each dataset.
    datasets : mapping, optional
        Where a dataset lives (name → dataset or path), if not where it was last seen.
    taxonomy, reduction : optional
        Measure the coarsity of the tasks by this taxonomy, or this reduction of it, as well.

    Returns
    -------
    Inspection
        Prints as text; ``facts`` are plain values, ``findings`` what does not fit, ``check()`` raises them.
    """
    bed = testbed if isinstance(testbed, Testbed) else Testbed.load(testbed)
    check_names(bed, datasets or {})
    name = bed.content_hash[:12] if isinstance(testbed, Testbed) else shown_location(testbed)
    if sample is not None and not verify:
        raise UserError(f"{{sample:{sample}}} goes with {{verify:True}} only", "add it")
    again: Mapping[str, Mapping[str, Any]] = {}
    if taxonomy is not None or reduction is not None:
        again = measure_again(bed, open_datasets(bed, datasets), taxonomy, reduction)
    if not verify:
        return Inspection(bed, name, None, coarsity=again)
    opened = open_datasets(bed, datasets, check=False)
    checks = tuple(
        check_images(dataset, bed.content[dataset], bed.keys(dataset), opened[dataset], sample=sample)
        for dataset in bed.datasets
    )
    findings = describe.verify(bed, opened)
    findings += [f"{check.dataset}: {check.differences}." for check in checks if check.differences]
    copies = {} if findings else _copies(bed, opened)
    return Inspection(bed, name, tuple(findings), checks, again, copies)


def _copies(testbed: Testbed, datasets: Mapping[str, Dataset]) -> dict[str, CopyGroups]:
    """The groups of copies among the images that tasks use, by dataset; without those used by names only."""
    groups = {name: find_copies(dataset)[1] for name, dataset in datasets.items()}
    return {
        name: copies.take(datasets[name].find_rows(testbed.keys(name)))
        for name, copies in groups.items()
        if copies is not None
    }
