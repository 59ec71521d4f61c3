"""Why the difficult supports of the study are difficult: composition against uniform and easy ones, causes, "
"correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longshot.causes.composition import Composition
from longshot.causes.explain import Explained, explain
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
    explained: Mapping[str, Explained]
    notes: Sequence[str]


def why(
    settings: Mapping[str, Any],
    sources: Mapping[str, Dataset],
    beds: Mapping[StudyTestbed, Testbed],
    results: Results,
) -> Why:
    """Explain the difficult testbed of every source (fixed shape where there is one), and compose all three."""
    compositions: dict[str, dict[str, Sequence[Composition]]] = {}
    explained: dict[str, Explained] = {}
    notes: list[str] = []
    series = f"protonet on {backbone_name(settings['judge'])}"
    for source, data in sources.items():
        shape = next(
            (one for one in ("fixed", "variable") if StudyTestbed(source, "main", one, "difficult") in beds),
            None,
        )
        if shape is None:
            continue
        found: dict[str, Explained] = {}
        for kind in KINDS:
            bed = beds[StudyTestbed(source, "main", shape, kind)]
            run = results if kind == "difficult" and "protonet" in settings["methods"] else None
            found[kind] = explain(bed, datasets={source: data}, run=run, series=series if run else None)
        explained[source] = found["difficult"]
        compositions[source] = {kind: one.compositions[source] for kind, one in found.items()}
        notes += found["difficult"].notes
    return Why(compositions, explained, notes)
