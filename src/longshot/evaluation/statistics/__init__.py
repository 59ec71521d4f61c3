"""Statistics over tasks. Pure functions of arrays, each with its formula; docs/statistics.md says when to use which."""

from longshot.evaluation.statistics.intervals import (
    Interval,
    bootstrap_interval,
    clustered_interval,
    mean_interval,
    normal_interval,
    spread,
    worst_mean,
)

__all__ = [
    "Interval",
    "bootstrap_interval",
    "clustered_interval",
    "mean_interval",
    "normal_interval",
    "spread",
    "worst_mean",
]
