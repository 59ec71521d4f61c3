"""``inspect``: a testbed described, and checked against its datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.base import UserError, shown
from longshot.tasks import describe
from longshot.tasks.difficult import is_network_column
from longshot.tasks.drops import say_drops
from longshot.tasks.measures import measure_again
from longshot.tasks.origin import check_names, open_datasets, say_sampler
from longshot.tasks.suspected import say_suspects
from longshot.tasks.testbed import Testbed
from longshot.tasks.verification import ImageCheck, Outcome, check_images, worst

if TYPE_CHECKING:
    from longshot.data import Dataset, TaxonomyLike


@dataclass(frozen=True, eq=False)
class Inspection:
    """What there is to say about a testbed; its text is what ``longshot inspect`` prints."""

    testbed: Testbed
    name: str  # the file, or the beginning of the content hash
    findings: tuple[str, ...] | None  # what does not fit the datasets, one sentence each; None: not checked
    images: tuple[ImageCheck, ...] = ()  # how the images of each dataset were checked, and what differs
    # dataset → coarsity by another taxonomy or reduction, where asked for
    coarsity: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """Everything as plain JSON values: ``describe.summary``, the histograms, and the findings where checked."""
        bars = {title: dict(rows) for title, rows in describe.histograms(self.testbed).items()}
        facts = {**describe.summary(self.testbed), "histograms": bars}
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
        return worst([*by_images, *(() if {"missing", "new"} & {*by_images} else misfits)])

    def check(self) -> None:
        """UserError with all findings where there are any."""
        if self.findings:
            raise UserError(f"The testbed {self.name} does not fit its dataset: {' '.join(self.findings)}")

    def __str__(self) -> str:
        testbed, facts = self.testbed, describe.summary(self.testbed)
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
        lines += filter(None, [say_suspects(testbed)])
        changes = [change for change in describe.changes(testbed) if not is_network_column(change.name)]
        # Drawn side by side below, so not once more alone.
        paired = {f"{change.name}_{when}" for change in changes for when in ("before", "after")}
        for title, rows in describe.histograms(testbed).items():
            if title not in paired and not is_network_column(title):
                lines.append(f"\n{describe.draw(title, rows)}")
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
    name = bed.content_hash[:12] if isinstance(testbed, Testbed) else shown(testbed)
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
    return Inspection(bed, name, tuple(findings), checks, again)
