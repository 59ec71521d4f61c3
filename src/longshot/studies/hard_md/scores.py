"""Accuracies of the study Hard-Meta-Dataset++: by testbed, backbone and method, with intervals; differences "
"paired by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.evaluation.inputs import backbone_name
from longshot.statistics import Interval, mean_interval
from longshot.studies.hard_md.plan import StudyTestbed

if TYPE_CHECKING:
    from longshot.evaluation.results import Results
    from longshot.testbeds.testbed import Testbed

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Mean:
    """A mean with half its 95 % interval, as shares."""

    mean: float
    half: float

    @classmethod
    def of(cls, found: Interval) -> Mean:
        """From an interval over tasks."""
        return cls(found.mean, found.half or 0.0)


class HardScores:
    """Looks numbers up in the rows of the study's run."""

    def __init__(
        self,
        results: Results,
        beds: Mapping[StudyTestbed, Testbed],
        settings: Mapping[str, Any],
        titles: Mapping[str, str],
    ) -> None:
        self.beds, self.settings = beds, settings
        table = results.table()
        self._values: dict[tuple[str, str, str], Floats] = {}
        hashes = {bed.content_hash for bed in beds.values()}
        for cell in results.run["cells"]:
            if cell["testbed"] not in hashes:
                continue
            mine = pc.and_(
                pc.equal(table["testbed"], cell["testbed"]),
                pc.and_(
                    pc.equal(table["backbone"], cell["backbone"]), pc.equal(table["method"], cell["method"])
                ),
            )
            rows = table.filter(mine).sort_by("task")
            key = (cell["testbed"], cell["backbone"], cell["method"])
            self._values[key] = rows["accuracy"].to_numpy().astype(np.float64)
        self.names = {backbone_name(path): path for path in settings["backbones"]}
        self.titles = {
            backbone_name(path): titles.get(path, backbone_name(path)) for path in settings["backbones"]
        }

    @property
    def backbones(self) -> list[str]:
        """Names in the results, in the order asked for."""
        return list(self.names)

    @property
    def judge(self) -> str:
        """The backbone that chose the supports."""
        return backbone_name(self.settings["judge"])

    def sources(self, shape: str) -> list[str]:
        """Sources that have tasks of this shape."""
        return list(
            dict.fromkeys(bed.source for bed in self.beds if bed.purpose == "main" and bed.shape == shape)
        )

    def accuracy(self, bed: StudyTestbed, backbone: str, method: str = "protonet") -> Floats | None:
        """Accuracy per task [T]; None where it was not evaluated."""
        testbed = self.beds.get(bed)
        return None if testbed is None else self._values.get((testbed.content_hash, backbone, method))

    def mean(self, bed: StudyTestbed, backbone: str, method: str = "protonet") -> Mean | None:
        """Mean over tasks."""
        values = self.accuracy(bed, backbone, method)
        return None if values is None else Mean.of(mean_interval(values))

    def drop(self, source: str, shape: str, backbone: str, method: str, purpose: str = "main") -> Mean | None:
        """Uniform minus difficult, paired by task: the queries are the same."""
        uniform, difficult = (
            self.accuracy(StudyTestbed(source, purpose, shape, kind), backbone, method)
            for kind in ("uniform", "difficult")
        )
        if uniform is None or difficult is None:
            return None
        return Mean.of(mean_interval(uniform - difficult))

    def overall(self, means: Sequence[Mean | None]) -> Mean | None:
        """The mean over sources, each counting the same; independent sources, so half² = Σ half² / S².

        None unless every source has its number: a mean over other sources would not be comparable.
        """
        known = [one for one in means if one is not None]
        if len(known) < len(means) or not known:
            return None
        mean = sum(one.mean for one in known) / len(known)
        return Mean(mean, sqrt(sum(one.half**2 for one in known)) / len(known))

    def ways(self, bed: StudyTestbed) -> Floats:
        """Ways per task [T]."""
        found: Floats = self.beds[bed].table.column("way").to_numpy().astype(np.float64)
        return found
