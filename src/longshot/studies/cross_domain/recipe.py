"""The recipe ``cross-domain``: six baselines from random and pre-trained weights, within domains and across them.

The comparison of Carrión-Ojeda et al. (2022). Domains are the branches of a dataset. Within: a network per domain and
baseline, trained on 70 % of the domain's classes, tested on 5-way 5-shot tasks of others. Cross: one network per
baseline, trained on tasks of other domains, tested on any-way any-shot tasks of the held-out ones. Both are done from
random and from pre-trained weights, every network with the same budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from longshot.base import UserError
from longshot.studies.cross_domain.cells import (
    BASELINES,
    CONDITIONS,
    CROSS,
    CROSS_DOMAIN,
    PAPERS,
    WITHIN,
    WITHIN_DOMAIN,
    Condition,
    all_draws,
    all_evaluations,
    cells,
    draw_of,
)
from longshot.studies.cross_domain.claims import paper_claims
from longshot.studies.cross_domain.plan import DomainData, make_domains
from longshot.studies.cross_domain.scores import DomainLab, at_ceiling
from longshot.studies.cross_domain.settings import CrossDomainSettings
from longshot.studies.cross_domain.training import all_trainings
from longshot.studies.engine.claims import Claim
from longshot.studies.engine.comparisons import Comparison, Side
from longshot.studies.engine.lab import Plan
from longshot.studies.engine.recipe import Recipe

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.studies.engine.data import GivenDataset
    from longshot.studies.engine.figures import Drawings
    from longshot.studies.engine.tables import TableFile


class CrossDomain(Recipe[CrossDomainSettings, DomainData]):
    """Six baselines × two starts × within and across domains."""

    settings = CrossDomainSettings
    question = (
        "Is it harder to learn from few images in a domain that no network has seen than in one it was trained on? "
        "Which of six baselines is best there, and do pre-trained weights help?"
    )
    # baselines and starts may be added later
    binding = tuple(
        name for name in CrossDomainSettings.model_fields if name not in ("methods", "starts", "minutes")
    )

    def open_data(
        self, settings: CrossDomainSettings, datasets: Sequence[GivenDataset], name: str
    ) -> DomainData:
        """The one dataset, its branches divided into domains for every run."""
        if len(datasets) != 1:
            raise UserError(f"The study '{name}' takes one dataset and {len(datasets)} were given.")
        return make_domains(settings, datasets[0].open())

    def sources(self, data: DomainData) -> Mapping[str, Dataset]:
        """The dataset, then every tested domain."""
        return {each.name: each for each in (data.dataset, *(domain.data for domain in data.domains))}

    def identity(self, data: DomainData) -> Mapping[str, str]:
        """The dataset; its domains are settings."""
        return {"name": data.dataset.name, "fingerprint": data.dataset.fingerprint}

    def plan(self, settings: CrossDomainSettings, data: DomainData) -> Plan:
        """Starts and trainings, three testbeds of every tested domain, every network on its testbeds."""
        return Plan(
            networks=all_trainings(settings, data),
            draws=all_draws(settings, data),
            evaluations=all_evaluations(settings, data),
            notes=data.notes,
        )

    def work(self, lab: DomainLab) -> None:
        """The splits for whoever goes on with the networks, then the plan, then what is left out."""
        for run in lab.data.runs:
            run.split.save(lab.folder.path / "splits" / f"run-{run.number + 1}.json")
            for domain in run.test:
                domain.split.save(lab.folder.path / "splits" / f"run-{run.number + 1}-{domain.name}.json")
        super().work(lab)
        lab.absent += left_out(lab)

    def comparisons(self, settings: CrossDomainSettings) -> list[Comparison]:
        """One factor each: start, baseline, and the three steps from within to across domains."""
        listed = [_protocols(settings), *_steps(settings)]
        for condition in PAPERS:
            if len(settings.starts) > 1:
                sides = [_side(settings, condition, start) for start in settings.starts]
                name = f"Random against pre-trained weights, {condition.name}"
                listed.append(Comparison(name, "training.start", sides))
            for start in settings.starts if len(settings.methods) > 1 else ():
                sides = [_side(settings, condition, start, method) for method in settings.methods]
                name = f"Baselines, {condition.name}, {start} weights"
                listed.append(Comparison(name, "baseline", sides))
        return listed

    def claims(self, settings: CrossDomainSettings) -> Sequence[Claim[DomainLab]]:
        """Section 4.3 and the conclusion."""
        return paper_claims()

    def tables(self, lab: DomainLab) -> list[TableFile]:
        """The paper's tables 5 to 10, and what takes its comparison apart."""
        from longshot.studies.cross_domain.tables import all_tables

        return all_tables(lab)

    def figures(self, lab: DomainLab) -> Drawings:
        """The paper's figures 1 to 3."""
        from longshot.studies.cross_domain.figures import all_figures

        return all_figures(lab)


def left_out(lab: DomainLab) -> list[str]:
    """A sentence for every cell that no table has, because a training of it hit its ceiling in time."""
    settings, sentences = lab.settings, []
    for method in settings.methods:
        for start in settings.starts:
            for condition in CONDITIONS:
                listed = [cell.network for cell in cells(settings, lab.data, condition, start, method)]
                late = list(dict.fromkeys(at_ceiling(lab, listed)))
                if late:
                    sentences.append(
                        f"LEFT OUT: {method} from {start} weights, {condition.name}: {len(late)} of "
                        f"{len(set(listed))} trainings hit the ceiling of {settings.minutes:g} minutes before their "
                        "budget was done, so it does not compare with the others."
                    )
    return sentences


# --- comparisons ---


def _side(
    settings: CrossDomainSettings, condition: Condition, start: str = "", method: str = "", label: str = ""
) -> Side:
    """A cell as a side: what its network saw and how much of it, and what solves its tasks."""
    names = (
        "network",
        "size",
        "way",
        "train_shot",
        "query",
        "train_tasks",
        "validate_every",
        "validation_tasks",
    )
    training: dict[str, Any] = {name: getattr(settings, name) for name in names}
    training["domains"] = condition.trained
    if start:
        training["start"] = start
    more: dict[str, Any] = {"training": training}
    if method:
        recipe = BASELINES[method]
        how = {"algorithm": recipe.algorithm, "method": recipe.method, "batch": recipe.batch}
        more["baseline"] = {"name": method, **how}
    return Side(label or method or start, draw_of(settings, condition.kind), more=more)


def _steps(settings: CrossDomainSettings) -> list[Comparison]:
    """From within to across domains one thing at a time."""
    sides = [_side(settings, condition, label=condition.name) for condition in CONDITIONS]
    return [
        Comparison("Own domain's network against other domains', same tasks", "training.domains", sides[:2]),
        Comparison(
            "Classes that were held out against all classes, same network", "testbed.split", sides[1:3]
        ),
        Comparison("Tasks of one shape against tasks of any shape, same network", "testbed.shape", sides[2:]),
    ]


def _protocols(settings: CrossDomainSettings) -> Comparison:
    """The paper's own comparison, which varies a protocol: three things at once."""

    def side(condition: Condition) -> Side:
        shapes = {
            WITHIN: f"{settings.way}-way {settings.shot}-shot",
            CROSS: f"2–{settings.max_way}-way 1–{settings.max_shot}-shot",
        }
        classes = {WITHIN: "15 % of the domain's classes", CROSS: "all classes of the domain"}
        protocol = {
            "network trained on": condition.trained,
            "tasks of": classes[condition.kind],
            "shape": shapes[condition.kind],
        }
        return Side(condition.name, more={"protocol": protocol, "train_tasks": settings.train_tasks})

    sides = [side(WITHIN_DOMAIN), side(CROSS_DOMAIN)]
    return Comparison("Within against across domains, as in the paper", "protocol", sides)
