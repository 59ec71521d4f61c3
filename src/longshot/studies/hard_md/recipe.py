"""The recipe ``hard-md``: Hard-Meta-Dataset++, the stress test of few-shot classifiers on difficult supports.

For every source the same queries get a uniform, a difficult and an easy support; backbones and methods are evaluated on
all of them; the ablations vary how supports are chosen; what sets difficult supports apart is shown with its evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from longshot.base import UserError, count
from longshot.data import Dataset, wordnet_above
from longshot.studies.engine.data import GivenDataset, check_names, read_given
from longshot.studies.engine.draws import Draw
from longshot.studies.engine.lab import Plan
from longshot.studies.engine.recipe import Recipe
from longshot.studies.hard_md.claims import QUESTION, hard_claims
from longshot.studies.hard_md.comparisons import hard_comparisons
from longshot.studies.hard_md.plan import HardLab, Sources, make_plan
from longshot.studies.hard_md.scores import hard_scores
from longshot.studies.hard_md.settings import HardSettings

if TYPE_CHECKING:
    from longshot.studies.engine.claims import Claim
    from longshot.studies.engine.comparisons import Comparison
    from longshot.studies.engine.figures import Drawings
    from longshot.studies.engine.tables import TableFile
    from longshot.tasks import Testbed


class HardMd(Recipe[HardSettings, Sources]):
    """Few-shot classifiers on difficult supports."""

    settings = HardSettings
    question = QUESTION
    # What decides the testbeds; backbones, methods, ablations and sources may be added to a folder later.
    binding = (
        *(
            "split",
            "judge",
            "shapes",
            "tasks",
            "way",
            "shot",
            "query",
            "drop_small",
            "max_way",
            "max_support",
        ),
        *("objective", "refine", "start", "seed"),
    )

    def open_data(
        self, settings: HardSettings, datasets: Sequence[GivenDataset], name: str
    ) -> dict[str, Dataset]:
        """Sources by name, each dataset called as its source; WordNet above classes that go by its ids."""
        named, plain = read_given([*(GivenDataset(None, text) for text in settings.sources), *datasets])
        sources = [(name, dataset.open()) for name, dataset in named.items()]
        sources += [(data.name, data) for data in (dataset.open() for dataset in plain)]
        if not sources:
            raise UserError(
                "The study takes at least 1 source and none was given; name a dataset, or NAME=PATH."
            )
        check_names([name for name, _ in sources])
        return {
            name: replace(data, name=name, taxonomy=data.taxonomy or wordnet_above(data.class_ids))
            for name, data in sources
        }

    def sources(self, data: Sources) -> Sources:
        """The sources by name."""
        return data

    def identity(self, data: Sources) -> dict[str, str]:
        """One name whatever the sources are: more may be added to a folder."""
        return {"name": "Hard-Meta-Dataset++", "fingerprint": ""}

    def plan(self, settings: HardSettings, data: Sources) -> Plan:
        """Networks, testbeds of every source, and all backbones on them."""
        return make_plan(settings, data)

    def comparisons(self, settings: HardSettings) -> list[Comparison]:
        """What is set against what; UserError for an unfair one."""
        return hard_comparisons(settings)

    def claims(self, settings: HardSettings) -> list[Claim[HardLab]]:
        """What the paper says of difficult supports, and of how to choose them."""
        return hard_claims(settings)

    def work(self, lab: HardLab) -> None:
        """Carry the plan out; what fails on one source is told and left out there."""
        lab.folder.remember_sources(lab.datasets)
        lab.train_all()
        _draw_all(lab)
        _evaluate_all(lab)
        if lab.settings.why:
            lab.notes += hard_scores(lab).why.notes

    def trial(self, lab: HardLab, draw: Draw) -> Testbed | None:
        """A testbed for the estimate; None where it cannot be drawn, as the run would tell."""
        try:
            return super().trial(lab, draw)
        except UserError:
            return None

    def tables(self, lab: HardLab) -> list[TableFile]:
        """All tables that the testbeds allow."""
        from longshot.studies.hard_md.tables import tables

        return tables(hard_scores(lab))

    def figures(self, lab: HardLab) -> Drawings:
        """All figures that have numbers."""
        from longshot.studies.hard_md.figures import figures

        return figures(hard_scores(lab))


def _draw_all(lab: HardLab) -> None:
    """All testbeds that can be drawn; where a shape is impossible on a source, all of that shape are left out."""
    beds = hard_scores(lab).planned
    impossible: dict[tuple[str, str], str] = {}  # (source, shape) → why
    reasons: dict[tuple[str, str], dict[str, str]] = {}  # (source, purpose) → setting → why
    for draw in lab.plan.draws:
        bed = beds[draw.name]
        if (bed.source, bed.shape) in impossible:
            continue
        try:
            lab.draw(draw)
        except UserError as error:
            if bed.purpose == "main":
                impossible[bed.source, bed.shape] = str(error)
            else:
                reasons.setdefault((bed.source, bed.purpose), {})[bed.setting] = str(error).rstrip(".")
    lab.absent += [
        f"{source}: tasks of {shape} shape are impossible: {reason}"
        for (source, shape), reason in impossible.items()
    ]
    for (source, purpose), by_setting in reasons.items():
        settings = ", ".join(filter(None, by_setting)) or "all of it"
        lab.absent.append(
            f"{source}: {purpose} is left out for {settings}: {next(iter(by_setting.values()))}."
        )
    if not lab.testbeds:
        raise UserError(f"No testbed can be drawn. {lab.absent[-1]}")
    lab.notes += _dropped(lab)


def _dropped(lab: HardLab) -> list[str]:
    """How many classes were too small for the tasks of a source and shape."""
    counts = {
        (bed.source, bed.shape): int(lab.testbeds[name].meta["sampler"].get("dropped_classes", 0))
        for name, bed in hard_scores(lab).planned.items()
        if bed.purpose == "main" and name in lab.testbeds
    }
    return [
        f"{source}: {count(number, 'class', 'classes')} with too few images for tasks of {shape} shape "
        f"{'is' if number == 1 else 'are'} left out (drop_small)."
        for (source, shape), number in counts.items()
        if number
    ]


def _evaluate_all(lab: HardLab) -> None:
    """Every backbone on every source; one that fails on a source, lacking its features, is told and left out."""
    beds = hard_scores(lab).planned
    failed: set[tuple[str, str]] = set()
    evaluated = False
    for evaluation in lab.plan.evaluations:
        names = [name for name in evaluation.testbeds if name in lab.testbeds]
        if not names:
            continue
        bed, backbone = beds[names[0]], evaluation.backbone
        if (bed.source, backbone) in failed:
            continue
        try:
            lab.evaluate(names, backbone, evaluation.methods)
            evaluated = True
        except UserError as error:
            reason = str(error).rstrip(".")
            if bed.purpose == "adapted":
                lab.absent.append(
                    f"Methods that adapt the network are left out for {backbone} on {bed.source}: {reason}."
                )
            else:
                failed.add((bed.source, backbone))
                lab.absent.append(f"{backbone} is left out on {bed.source}: {reason}.")
    if not evaluated:
        raise UserError(f"No backbone could be evaluated. {lab.absent[-1]}")
