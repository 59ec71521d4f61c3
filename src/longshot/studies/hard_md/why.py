"""Why the difficult supports of the study are difficult: composition against uniform and easy ones, and causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longshot.diagnosis import Composition, Explanation, explain_testbed
from longshot.evaluation import backbone_name
from longshot.studies.hard_md.testbeds import KINDS, main

if TYPE_CHECKING:
    from longshot.studies.hard_md.scores import HardScores


@dataclass(frozen=True)
class Why:
    """Per source: the compositions of the three kinds of supports, and the explanation of the difficult ones."""

    compositions: Mapping[str, Mapping[str, Sequence[Composition]]]  # source → kind → columns
    explained: Mapping[str, Explanation]
    notes: Sequence[str]


def explain_supports(scores: HardScores) -> Why:
    """Explain the difficult testbed of every source (fixed shape where there is one), and compose all three."""
    lab = scores.lab
    compositions: dict[str, dict[str, Sequence[Composition]]] = {}
    explained: dict[str, Explanation] = {}
    notes: list[str] = []
    series = f"protonet on {backbone_name(lab.backbone(scores.judge))}"
    for source, data in lab.datasets.items():
        beds = {shape: {kind: main(shape, kind, source) for kind in KINDS} for shape in ("fixed", "variable")}
        complete = [
            kinds for kinds in beds.values() if all(bed.name in lab.testbeds for bed in kinds.values())
        ]
        if not complete:
            continue
        by_kind: dict[str, Explanation] = {}
        for kind, bed in complete[0].items():
            judged = kind == "difficult" and scores.accuracy(bed, scores.judge) is not None
            by_kind[kind] = explain_testbed(
                lab.testbeds[bed.name],
                {source: data},
                run=lab.results if judged else None,
                focus=series if judged else None,
            )
        explained[source] = by_kind["difficult"]
        compositions[source] = {kind: by_kind[kind].compositions[source] for kind in by_kind}
        notes += explained[source].notes
    return Why(compositions, explained, notes)
