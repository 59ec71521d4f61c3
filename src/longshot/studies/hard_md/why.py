"""Why the difficult supports of the study are difficult: composition against uniform and easy ones, causes, "
"correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longshot.causes.composition import Composition
from longshot.causes.explanation import Explanation, explain_testbed
from longshot.evaluation.inputs import backbone_name
from longshot.studies.hard_md.plan import KINDS, StudyTestbed

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


def why(
    settings: Mapping[str, Any],
    sources: Mapping[str, Dataset],
    beds: Mapping[StudyTestbed, Testbed],
    results: Results,
) -> Why:
    """Explain the difficult testbed of every source (fixed shape where there is one), and compose all three."""
    compositions: dict[str, dict[str, Sequence[Composition]]] = {}
    explained: dict[str, Explanation] = {}
    notes: list[str] = []
    series = f"protonet on {backbone_name(settings['judge'])}"
    for source, data in sources.items():
        shape = next(
            (one for one in ("fixed", "variable") if StudyTestbed(source, "main", one, "difficult") in beds),
            None,
        )
        if shape is None:
            continue
        found: dict[str, Explanation] = {}
        for kind in KINDS:
            bed = beds[StudyTestbed(source, "main", shape, kind)]
            run = results if kind == "difficult" and "protonet" in settings["methods"] else None
            found[kind] = explain_testbed(bed, {source: data}, run=run, focus=series if run else None)
        explained[source] = found["difficult"]
        compositions[source] = {kind: one.compositions[source] for kind, one in found.items()}
        notes += found["difficult"].notes
    return Why(compositions, explained, notes)
