"""The metrics: one class each in a file of this folder, and every table, page and command reads its facts here.

Nothing is computed here, and nothing heavy is imported; ``longshot.evaluation.compute`` makes the classes.
"""

from __future__ import annotations

from typing import NamedTuple

from longshot.base import declared_classes


class MetricFacts(NamedTuple):
    """What is known of a metric without computing it.

    Parameters
    ----------
    title : str
        Head of its column in a table.
    short : str
        Its word before a series in lists.
    unit : str
        ``points`` (shares, shown in per cent) or ``nats``, in which differences are told.
    lower_is_better : bool
        Whether less of it is better.
    of_counts : bool
        Whether the classes that were predicted decide it, so that predictions without scores have it.
    target : str
        Its class: ``"module:Class"``.
    """

    title: str
    short: str
    unit: str
    lower_is_better: bool
    of_counts: bool
    target: str

    @property
    def scale(self) -> float:
        """Return what a value is multiplied by to be shown: 100 for shares, 1 for nats."""
        return 100.0 if self.unit == "points" else 1.0


_FIRST = f"{__name__}.base:"  # the columns of results keep their order when a metric is added
METRICS: dict[str, MetricFacts] = {
    each.facts["name"]: MetricFacts(
        title=each.facts["title"],
        short=each.facts["short"],
        unit=each.facts.get("unit", "points"),
        lower_is_better=each.facts.get("better") == "lower",
        of_counts="CountMetric" in each.bases,
        target=each.target,
    )
    for each in sorted(declared_classes(__name__), key=lambda each: not each.target.startswith(_FIRST))
}
