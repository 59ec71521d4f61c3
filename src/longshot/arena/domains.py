"""Domains of a competition's datasets: whether test tasks come from those seen in training, or from others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from longshot.base import UserError, count, first

if TYPE_CHECKING:
    from longshot.arena.settings import Competition, Phase


Domains: TypeAlias = Literal["within", "cross", "independent"]
META_ALBUM_SETS = (
    "BRD PLK FLW PLT_VIL BCT RESISC CRS TEX SPT MD_MIX",
    "DOG INS_2 PLT_NET MED_LF PNU RSICB APL TEX_DTD ACT_40 MD_5_BIS",
    "AWA INS FNG PLT_DOC PRT RSD BTS TEX_ALOT ACT_410 MD_6",
)
_NAMES = (
    *("large animals", "small animals", "plants", "plant diseases", "microscopy"),
    *("remote sensing", "vehicles", "manufacturing", "human actions", "characters"),
)
META_ALBUM = {
    name: domain for ids in META_ALBUM_SETS for name, domain in zip(ids.split(), _NAMES, strict=True)
}


class PhaseDomains(NamedTuple):
    """Domain → its datasets, of training and of test tasks."""

    train: Mapping[str, tuple[str, ...]]
    test: Mapping[str, tuple[str, ...]]

    @property
    def shared(self) -> list[str]:
        """List domains that test tasks and training have in common."""
        return [name for name in self.test if name in self.train]


def domain(competition: Competition, dataset: str) -> str | None:
    """Return a dataset's domain: as ``domain_of`` says, else its branch, else Meta-Album's; None where unknown."""
    _, _, branch = competition.datasets[dataset].partition("#")
    return competition.domain_of.get(dataset) or branch.split("/")[0] or META_ALBUM.get(dataset)


def phase_domains(competition: Competition, phase: Phase) -> PhaseDomains:
    """Return the domains of a phase; raise UserError where a dataset has none."""
    used = dict.fromkeys([*phase.train, *phase.test])
    unknown = [name for name in used if domain(competition, name) is None]
    if unknown:
        raise UserError(
            f"Phase '{phase.name}' uses {count(list(used), 'dataset')} and {len(unknown)} of them have no domain "
            f"({first(unknown)})",
            "name it below 'domain_of' in competition.yaml, as in 'birds: animals'",
        )
    return PhaseDomains(_grouped(competition, phase.train), _grouped(competition, phase.test))


def check_domains(competition: Competition, where: str) -> None:
    """Raise UserError where the domains of a phase are not as ``domains`` says, with their counts."""
    unknown = [name for name in competition.domain_of if name not in competition.datasets]
    if unknown:
        raise UserError(
            f"{where}, domain_of, names the dataset '{unknown[0]}', which is not among "
            f"{', '.join(competition.datasets)}."
        )
    if competition.domains is None:
        return
    for phase in competition.phases:
        _CHECKS[competition.domains](phase_domains(competition, phase), f"{where}, phase '{phase.name}',")


def domain_sentence(competition: Competition, phase: Phase) -> str:
    """Say in one sentence which domains a phase has; empty where the competition does not say."""
    if competition.domains is None:
        return ""
    domains = phase_domains(competition, phase)
    if competition.domains == "within":
        (name,) = domains.test
        return f"Within-domain: training and test tasks are of one domain, {name}."
    trained, tested = count(list(domains.train), "domain"), count(list(domains.test), "domain")
    if competition.domains == "cross":
        return f"Cross-domain: the test tasks are of {tested}, each among the {trained} of training."
    return (
        f"Domain-independent: the test tasks are of {tested}, none of them among the {trained} of training."
    )


def _grouped(competition: Competition, datasets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for name in datasets:
        key = str(domain(competition, name))
        groups[key] = (*groups.get(key, ()), name)
    return groups


def _check_within(domains: PhaseDomains, where: str) -> None:
    names = list(dict.fromkeys([*domains.train, *domains.test]))
    if len(names) > 1:
        raise UserError(
            f"{where} has datasets of {len(names)} domains ({first(names)}), but 'domains: within' means 1",
            "leave the datasets of all but one out, or say 'domains: cross'",
        )


def _check_cross(domains: PhaseDomains, where: str) -> None:
    unseen = [name for name in domains.test if name not in domains.train]
    if unseen:
        raise UserError(
            f"{where} tests on {count(list(domains.test), 'domain')} and {len(unseen)} of them are not among the "
            f"{len(domains.train)} of training ({first(unseen)}), but 'domains: cross' means that all are",
            "train on datasets of these domains too, or say 'domains: independent'",
        )


def _check_independent(domains: PhaseDomains, where: str) -> None:
    if domains.shared:
        raise UserError(
            f"{where} tests on {count(list(domains.test), 'domain')} and {len(domains.shared)} of them are among the "
            f"{len(domains.train)} of training ({first(domains.shared)}), but 'domains: independent' means none",
            "leave the datasets of these domains out on one side, or say 'domains: cross'",
        )


_CHECKS = {"within": _check_within, "cross": _check_cross, "independent": _check_independent}
