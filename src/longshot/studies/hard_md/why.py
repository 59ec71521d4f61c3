"""Why the difficult supports of the study are difficult: composition against uniform and easy ones, and causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longshot.causes.composition import Composition
from longshot.causes.explanation import Explanation, explain_testbed
from longshot.evaluation.inputs import backbone_name
from longshot.studies.hard_md.settings import HardSettings
from longshot.studies.hard_md.testbeds import KINDS, HardTestbed, main

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.evaluation.results import Results
    from longshot.testbeds.testbed import Testbed


@dataclass(frozen=True)
class Why:
    """Per source: the compositions of the three kinds of supports, and the explanation of the difficult ones."""

    compositions: Mapping[str, Mapping[str, Sequence[Composition]]]  # source → kind → columns
    explained: Mapping[str, Explanation]
    notes: Sequence[str]


def explain_supports(
    settings: HardSettings,
    sources: Mapping[str, Dataset],
    testbeds: Mapping[HardTestbed, Testbed],
    results: Results,
) -> Why:
    """Explain the difficult testbed of every source (fixed shape where there is one), and compose all three."""
    compositions: dict[str, dict[str, Sequence[Composition]]] = {}
    explained: dict[str, Explanation] = {}
    notes: list[str] = []
    series = f"protonet on {backbone_name(settings.judge)}"
    for source, data in sources.items():
        shapes = [shape for shape in ("fixed", "variable") if main(shape, "difficult", source) in testbeds]
        if not shapes:
            continue
        by_kind: dict[str, Explanation] = {}
        for kind in KINDS:
            testbed = testbeds[main(shapes[0], kind, source)]
            run = results if kind == "difficult" and "protonet" in settings.methods else None
            by_kind[kind] = explain_testbed(testbed, {source: data}, run=run, focus=series if run else None)
        explained[source] = by_kind["difficult"]
        compositions[source] = {kind: by_kind[kind].compositions[source] for kind in by_kind}
        notes += explained[source].notes
    return Why(compositions, explained, notes)
