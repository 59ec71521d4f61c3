"""Checking images against what was recorded, by bytes, by pixels, by name; ``inspect`` and ``identify_dataset``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from longshot.audit import CopyGroups, find_copies
from longshot.base import UserError, check_count, count, first, load_target, plugged, shown_location
from longshot.data import (
    HALVES,
    as_dataset,
    digest_words,
    image_digests,
    pixel_digests,
    registry,
    remembered_images,
)
from longshot.tasks import columns, describe
from longshot.tasks.binding import check_names, match_images, open_datasets
from longshot.tasks.content import ImageContent
from longshot.tasks.measures import is_network_column, measure_again, say_drops, say_suspects
from longshot.tasks.testbed import Testbed
from longshot.tasks.testbed_file import say_sampler

if TYPE_CHECKING:
    from longshot.data import Dataset, DatasetLike, TaxonomyLike


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
    """Return the outcome of several checks together."""
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
    renamed: int = 0  # by bytes or by pixels, under another name
    changed: tuple[str, ...] = ()
    reencoded: tuple[str, ...] = ()  # those by pixels
    missing: tuple[str, ...] = ()
    # in the dataset, and not when it was recorded, where all its names are on record
    new: tuple[str, ...] = ()
    more: int = 0  # images that the dataset has beyond those it had, where their names are not on record

    @property
    def outcome(self) -> Outcome:
        """Return the worst of the outcomes."""
        kinds: list[tuple[Outcome, object]] = [
            ("changed", self.changed),
            ("missing", self.missing),
            ("new", self.new or self.more),
            ("re-encoded", self.reencoded),
            ("names", self.by_name),
        ]
        return worst_outcome(outcome for outcome, members in kinds if members)

    def __str__(self) -> str:
        """Return the counts in words: ``300 of 300 images checked: 298 the same by bytes, …``."""
        sampled = "" if self.checked == self.images else " (a sample)"
        renamed = f"; {self.renamed:,} are under other names" if self.renamed else ""
        return (
            f"{self.checked:,} of {count(self.images, 'image')} checked{sampled}: {self.by_bytes:,} the same by bytes, "
            f"{self.by_pixels:,} by pixels, {self.by_name:,} by name only{renamed}"
        )

    @property
    def differences(self) -> str:
        """Return the numbers and the first names of what differs; empty where nothing does."""
        kinds = (
            (self.changed, "changed"),
            (self.missing, "missing"),
            (self.new, "new"),
            (self.reencoded, "encoded anew with the same pixels"),
        )
        parts = [f"{count(keys, 'image')} {words} ({first(keys)})" for keys, words in kinds if keys]
        if self.more:
            parts.append(f"{count(self.more, 'image')} new (which, only a release can tell)")
        return ", ".join(parts)

    def record(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        lists = {name: list(getattr(self, name)) for name in ("changed", "reencoded", "missing", "new")}
        return {**asdict(self), **lists, "outcome": self.outcome}


def check_images(
    name: str,
    content: ImageContent,
    keys: pa.Array,
    dataset: Dataset,
    *,
    sample: int | None = None,
) -> ImageCheck:
    """Read the images ``keys`` (sorted) again, under whatever names, and compare them with what was recorded.

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
    """
    check_count("verify", "sample", 1 if sample is None else sample, least=1)
    positions = np.arange(len(keys))
    if sample is not None and sample < len(keys):
        positions = np.unique(np.linspace(0, len(keys) - 1, sample).astype(np.int64))
    chosen = keys.take(pa.array(positions))
    rows = columns.positions_in(chosen, dataset.keys)
    match = match_images(content.take(positions), chosen, dataset)
    renamed = (match.rows >= 0) & (match.rows != rows)
    rows = np.where(renamed, match.rows, rows)
    present = rows >= 0
    missing = tuple(chosen.filter(pa.array(~present)).to_pylist())
    more = max(0, len(dataset) - content.of + len(missing)) if content.of else 0
    checked = ImageCheck(name, len(keys), len(chosen), renamed=int(renamed.sum()), missing=missing, more=more)
    rows, there = rows[present], chosen.filter(pa.array(present))
    if content.identity == "names":
        return replace(checked, by_name=len(rows))
    recorded = content.take(positions[present])
    digests = image_digests(dataset, rows, read_again=True, skip_bad=True)
    differs = recorded.differs(digests)
    same_pixels = np.zeros(len(rows), np.bool_)
    if differs.any():
        now = pixel_digests(dataset, rows[differs], digests=digests[differs], skip_bad=True)
        same_pixels[differs] = (now == recorded.digests[differs][:, HALVES[1]]).all(axis=1)
    reencoded = tuple(there.filter(pa.array(differs & same_pixels)).to_pylist())
    return replace(
        checked,
        by_bytes=int((~differs).sum()),
        by_pixels=len(reencoded),
        changed=tuple(there.filter(pa.array(differs & ~same_pixels)).to_pylist()),
        reencoded=reencoded,
    )


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
        """Return everything as plain JSON values: ``describe.summary``, histograms, and the findings where checked."""
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
        """Return what checking found, "same" where nothing was checked; misfits beside the images count as changed."""
        by_images = [check.outcome for check in self.images]
        about_images = sum(bool(check.differences) for check in self.images)
        misfits: list[Outcome] = ["changed"] if self.findings and len(self.findings) > about_images else []
        return worst_outcome([*by_images, *(() if {"missing", "new"} & {*by_images} else misfits)])

    def check(self) -> None:
        """Raise UserError with all findings where there are any."""
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
    """Say what the testbed vouches for of one dataset's images."""
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
        again = measure_again(*open_datasets(bed, datasets), taxonomy, reduction)
    if not verify:
        return Inspection(bed, name, None, coarsity=again)
    bound, opened = open_datasets(bed, datasets, check=False)
    checks = tuple(
        check_images(dataset, bed.content[dataset], bed.keys(dataset), opened[dataset], sample=sample)
        for dataset in bed.datasets
    )
    findings = describe.verify(bound, opened, bed.datasets)
    findings += [f"{check.dataset}: {check.differences}." for check in checks if check.differences]
    copies = {} if findings else _copies(bound, opened)
    return Inspection(bed, name, tuple(findings), checks, again, copies)


def identify_dataset(
    dataset: DatasetLike, testbeds: Sequence[Testbed | str | Path] | None = None
) -> dict[str, Any]:
    """Say which testbeds and known datasets the images of a folder serve, and what is missing, altered or encoded anew.

    Every image is read and decoded once; what was found is remembered.

    Parameters
    ----------
    dataset : Dataset, path or name
        The images, in any layout.
    testbeds : sequence of Testbed or path, optional
        What to compare with; by default the testbed files in the current folder, and those that come with Longshot.

    Returns
    -------
    dict
        ``source``, ``classes``, ``images`` and ``fingerprint`` of the dataset, and two lists of rows. ``testbeds``, a
        row for each of their datasets: ``images`` in use, how many are here ``by_name``, ``renamed`` or ``reencoded``
        (the same pixels in other bytes), ``altered`` (another image has the name) or ``missing``, ``examples`` of
        these, and whether it ``serves``. ``datasets`` that are remembered and share images: ``images`` remembered,
        how many are here ``by_bytes`` or ``reencoded``, how many are ``missing``.

    Examples
    --------
    >>> identify_dataset("toybox", ["easy.parquet"])["testbeds"][0]["serves"]
    True
    """
    data = as_dataset(dataset)
    own = [image_digests(data, skip_bad=True)]
    own.append(pixel_digests(data, digests=own[0], skip_bad=True))
    beds = _beds_at_hand() if testbeds is None else {}
    for source in testbeds or ():
        if isinstance(source, Testbed):
            beds[source.name or source.content_hash[:12]] = source
        else:
            beds[str(source)] = Testbed.load(source)
    rows = [
        {"testbed": label, "dataset": name, **_count_images(bed, name, data)}
        for label, bed in beds.items()
        for name in bed.datasets
    ]
    shared: list[dict[str, Any]] = []
    for entry in registry.entries():
        images = remembered_images(entry["source"])
        same, alike = (
            np.isin(digest_words(images[:, half]), digest_words(digests)) & images[:, half].any(axis=1)
            for half, digests in zip(HALVES, own, strict=True)
        )
        numbers = {
            "by_bytes": same.sum(),
            "reencoded": (alike & ~same).sum(),
            "missing": (~same & ~alike).sum(),
        }
        if entry["source"] != data.source and (same | alike).any():
            facts = {"dataset": entry["name"], "source": entry["source"], "images": len(images)}
            shared.append({**facts, **{part: int(number) for part, number in numbers.items()}})
    facts = {"source": data.source, "classes": len(data.class_ids), "images": len(data)}
    rows.sort(key=lambda row: (row["altered"] + row["missing"]) / max(row["images"], 1))
    return {**facts, "fingerprint": data.fingerprint, "testbeds": rows, "datasets": shared}


def _beds_at_hand() -> dict[str, Testbed]:
    """Load the testbeds that lie here and those that come with Longshot."""
    files = {path.name: path for path in sorted(Path().glob("*.parquet"))}
    for target in plugged("testbeds").values():
        files |= load_target(target)()
    beds = {}
    for label, path in files.items():
        with contextlib.suppress(UserError):  # a table of another kind
            beds[label] = Testbed.load(path)
    return beds


def _count_images(testbed: Testbed, name: str, dataset: Dataset) -> dict[str, Any]:
    """Count what a dataset has of the images that a testbed uses of one of its own."""
    keys = testbed.keys(name)
    match = match_images(testbed.content[name], keys, dataset)
    unlike = keys.filter(pa.array(match.rows < 0)).to_pylist()
    parts = {
        "by_name": match.by_name,
        "renamed": match.renamed,
        "reencoded": match.by_pixels,
        "altered": match.altered,
        "missing": match.missing,
    }
    numbers = {part: int(mask.sum()) for part, mask in parts.items()}
    return {"images": len(keys), **numbers, "examples": unlike[:3], "serves": not unlike}


def _copies(testbed: Testbed, datasets: Mapping[str, Dataset]) -> dict[str, CopyGroups]:
    """Return the groups of copies among the images that tasks use, by dataset; without those used by names only."""
    groups = {name: find_copies(dataset)[1] for name, dataset in datasets.items()}
    return {
        name: copies.take(datasets[name].find_rows(testbed.keys(name)))
        for name, copies in groups.items()
        if copies is not None
    }
