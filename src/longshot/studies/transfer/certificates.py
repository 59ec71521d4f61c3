"""How hard a split is, certified: what networks that took no part in choosing it reach once they are trained on it.

Each certificate is a prediction for one more network of the same training. Networks scatter more than the tasks of a
testbed do, so that the interval of their mean would promise too much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from longshot.base import count
from longshot.reports import Sheet, heads, row
from longshot.statistics import plus_minus, t_quantile
from longshot.studies.engine.claims import clean_mean
from longshot.studies.engine.study_tables import TableFile
from longshot.studies.transfer.settings import TransferSettings
from longshot.studies.transfer.transfer_scores import TransferScores
from longshot.tasks import Split

_Z95 = 1.959963984540054
UNCERTIFIED = "uncertified: one network each; two or more (repeats) tell how far another may lie"


@dataclass(frozen=True)
class Certificate:
    """Accuracy (a share) that another network is predicted to have, ± ``half``; None from one network each."""

    split: str
    mean: float
    half: float | None
    networks: int

    @property
    def text(self) -> str:
        """Write the prediction: ``fc100 48.8 ± 2.1``."""
        return f"{self.split} {plus_minus(self.mean, self.half)}"


def certify(scores: TransferScores, method: str, shot: int) -> list[Certificate]:
    """Predict what one more network would reach on each split, with its 95 % interval.

    Networks of a split scatter alike on all splits: s² = Σ_i Σ_j (m_ij − m_i)² / Σ_i (k_i − 1) with Σ_i (k_i − 1)
    degrees of freedom, m_ij the accuracy of network j of split i. Another network lies within m_i ± √(t² s² (1 + 1 /
    k_i) + z² e_i²), e_i the standard error of m_i over tasks.
    """
    cells = {split.name: scores.accuracy[split.name, method, shot] for split in scores.splits}
    scatter = [own.mean(1) - own.mean() for own in cells.values()]
    freedom = sum(len(own) - 1 for own in scatter)
    reach = 0.0
    if freedom:
        reach = t_quantile(freedom, 0.95) ** 2 * float(sum(own @ own for own in scatter)) / freedom
    certificates = []
    for name, own in cells.items():
        tasks = own.mean(0)
        error = _Z95**2 * float(tasks.var(ddof=1)) / len(tasks)
        half = float(np.sqrt(reach * (1 + 1 / len(own)) + error)) if freedom else None
        certificates.append(Certificate(name, clean_mean(own), half, len(own)))
    return certificates


def certificates_table(scores: TransferScores, settings: TransferSettings) -> TableFile:
    """Make the table of what another network would reach on every split, and a sentence for each method."""
    shot, records, lines = scores.shots[-1], [], []
    cells = {method: certify(scores, method, shot) for method in scores.methods}
    for method, certificates in cells.items():
        listed = ", ".join(certificate.text for certificate in certificates)
        lines.append(f"{listed}: {_described(settings, method, certificates[0])}.")
        facts = {"way": settings.way, "shot": shot, "method": method}
        records += [{**facts, **vars(certificate)} for certificate in certificates]
    block = [
        row(method, *(plus_minus(each.mean, each.half) for each in certificates))
        for method, certificates in cells.items()
    ]
    names = heads("method", *(split.name for split in scores.splits))
    note = (
        "Accuracy in % that another network of the same training is predicted to have, ± half the 95 % interval of "
        "that prediction: over networks and tasks of these classes, and wider than the interval of a mean."
    )
    title = f"How hard the splits are, {settings.way}-way {shot}-shot"
    return TableFile("certificates", [Sheet(title, names, [block], note, labels=1)], records, lines)


def certified(
    splits: Mapping[str, Split], scores: TransferScores, settings: TransferSettings
) -> dict[str, Split]:
    """Return the splits with what their networks reached, by method, in ``made["certified"]``."""
    made: dict[str, dict[str, str]] = {name: {} for name in splits}
    for method in scores.methods:
        for each in certify(scores, method, scores.shots[-1]):
            made[each.split][method] = (
                f"{plus_minus(each.mean, each.half)} % ({_described(settings, method, each)})"
            )
    return {
        name: replace(split, made={**split.made, "certified": made[name]}) for name, split in splits.items()
    }


def _described(settings: TransferSettings, method: str, certificate: Certificate) -> str:
    """Describe the networks behind a certificate: ``protonet, 5-way 5-shot, cnn4 at 32 pixels, 3 seeds``."""
    tasks = f"{method}, {settings.way}-way {settings.shots[-1]}-shot"
    seeds = UNCERTIFIED if certificate.half is None else count(certificate.networks, "seed")
    return f"{tasks}, {settings.network} at {settings.size} pixels, {settings.steps:,} steps, {seeds}"
