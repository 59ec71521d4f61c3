"""The recipe ``vtab-md``: transfer and meta-learning on Meta-Dataset's episodes and VTAB's tasks in one protocol.

Sources are named datasets, as many as there are; networks are trained where the study says so; every row is a backbone
with a method for episodes and candidates for big episodes, of which one is chosen on validation images for all tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from longshot.base import UserError
from longshot.studies.engine.data import GivenDataset, check_names, read_given
from longshot.studies.engine.recipe import Recipe
from longshot.studies.vtab_md.choices import big_method, choices_of
from longshot.studies.vtab_md.comparisons import unequal_budgets, vtab_comparisons
from longshot.studies.vtab_md.data import GROUPS, TITLES, StudySource, cut_dataset, open_sources
from longshot.studies.vtab_md.measured import scores_of
from longshot.studies.vtab_md.plan import VtabLab, VtabPlan, make_plan, plan_of
from longshot.studies.vtab_md.scores import guessing_notes, supportless
from longshot.studies.vtab_md.settings import VtabSettings

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.studies.engine.claims import Claim
    from longshot.studies.engine.comparisons import Comparison
    from longshot.studies.engine.figures import Drawings
    from longshot.studies.engine.tables import TableFile


class VtabMd(Recipe[VtabSettings, Sequence[StudySource]]):
    """Transfer and meta-learning side by side."""

    settings = VtabSettings
    question = (
        "Transfer learning and meta-learning both learn from few images, but each is measured on a benchmark of its "
        "own. How do they compare on both, episodes of a few images per class and tasks of a thousand, and what do "
        "normalisation, scale, upstream data and evaluation settings have to do with it?"
    )
    # What decides the testbeds; sources, networks and rows may be added to a folder later.
    binding = (
        *("cut", "tasks", "split", "max_way", "max_query", "max_support"),
        *("support", "train", "validation", "query", "block", "seed"),
    )

    def open_data(
        self, settings: VtabSettings, datasets: Sequence[GivenDataset], name: str
    ) -> list[StudySource]:
        """The sources: those of the settings, those given by name, and a plain dataset cut into sources."""
        named, plain = read_given(datasets)
        if len(plain) > 1:
            names = ", ".join(f"'{dataset.label}'" for dataset in plain[:2])
            raise UserError(
                f"{len(plain)} datasets are given without a name ({names}); write NAME=PATH, as in "
                "omniglot=PATH or md:mine=PATH, and at most one dataset without."
            )
        named = {**{name: GivenDataset(name, spec) for name, spec in settings.sources.items()}, **named}
        sources = open_sources(named, settings.seed)
        for dataset in plain:
            sources += cut_dataset(dataset.open(), settings.cut, settings.seed)
        check_names([source.name for source in sources])
        if not any(source.role in ("md", *GROUPS) for source in sources):
            raise UserError(
                "No source to evaluate on was given and at least 1 is needed: NAME=PATH with a source of MD-v2 or a "
                "task of VTAB-v2, or one plain dataset such as toybox."
            )
        order, roles = list(TITLES), ("md", *GROUPS, "upstream")

        def rank(source: StudySource) -> tuple[int, int]:
            """As the paper lists them, one's own behind."""
            return roles.index(source.role), order.index(source.name) if source.official else len(order)

        return sorted(sources, key=rank)

    def sources(self, data: Sequence[StudySource]) -> Mapping[str, Dataset]:
        """All sources by name, those that only train last."""
        return {source.name: source.data for source in data}

    def identity(self, data: Sequence[StudySource]) -> Mapping[str, str]:
        """The same for all sources: more may be added later."""
        return {"name": "VTAB+MD", "fingerprint": ""}

    def plan(self, settings: VtabSettings, data: Sequence[StudySource]) -> VtabPlan:
        """Networks, testbeds and rows that can be had with these sources."""
        return make_plan(settings, data)

    def comparisons(self, settings: VtabSettings) -> list[Comparison]:
        """Rows that differ in one factor, as the settings name them."""
        return vtab_comparisons(settings)

    def claims(self, settings: VtabSettings) -> list[Claim[VtabLab]]:
        """Those of the paper's claims that the rows of these settings are about."""
        from longshot.studies.vtab_md.claims import vtab_claims

        return vtab_claims(settings)

    def work(self, lab: VtabLab) -> None:
        """Testbeds, networks, the choice among candidates, then all rows."""
        plan = plan_of(lab)
        lab.folder.remember_sources(lab.datasets)
        for draw in plan.draws:  # before anything is trained
            testbed = lab.draw(draw)
            missing = supportless(testbed) if draw.name in plan.big else 0
            if missing:
                lab.notes.append(
                    f"{draw.name}: {missing} of {len(testbed[0].classes)} classes have no support image."
                )
        told_by: dict[str, list[str]] = {}  # what a training tells → the networks that tell it
        for name, record in lab.train_all().items():
            for note in record.notes:
                told_by.setdefault(note, []).append(name)
        for note, names in told_by.items():
            lab.notes.append(f"Network{'s' if len(names) > 1 else ''} {', '.join(names)}: {note}.")
        lab.notes += [note for choice in choices_of(lab).values() for note in choice.notes]
        lab.notes += unequal_budgets(lab.settings)
        for row in plan.rows:
            if row.md is not None and plan.episodic:
                lab.evaluate(plan.draws_of(lab.settings, row), row.backbone, [row.md])
            method = big_method(lab, row.name)
            if method is not None:
                lab.evaluate(plan.big, row.backbone, [method])
        lab.notes += guessing_notes(scores_of(lab))

    def tables(self, lab: VtabLab) -> list[TableFile]:
        """Aggregates, every source, differences, settings chosen, networks."""
        from longshot.studies.vtab_md.tables import tables

        return tables(lab, scores_of(lab))

    def figures(self, lab: VtabLab) -> Drawings:
        """The layouts of the paper's figures, for one's own numbers and the printed ones."""
        from longshot.studies.vtab_md.figures import figures

        return figures(lab.settings, scores_of(lab))
