"""Statistics over tasks: pure functions of arrays; docs/reference/statistics.md says when to use which."""

from longshot.statistics.association import (
    Correlation,
    Rolling,
    Slope,
    correlation,
    rolling_mean,
    slope,
)
from longshot.statistics.confusions import (
    ConfusedPair,
    Confusion,
    confusion,
    most_confused,
    wilson,
)
from longshot.statistics.corrections import benjamini_hochberg, holm
from longshot.statistics.crossed import crossed_interval
from longshot.statistics.difficulty import (
    DatasetDifficulty,
    Drop,
    dataset_difficulty,
    drops,
    unpaired_difficulty,
    welch,
)
from longshot.statistics.groups import Group, breakdown, quantile_bins
from longshot.statistics.intervals import (
    Interval,
    bootstrap,
    bootstrap_interval,
    clustered_interval,
    mean_interval,
    normal_interval,
    spread,
    worst_mean,
)
from longshot.statistics.paired import (
    Comparison,
    compare_many,
    compare_paired,
    sign_flip_test,
    sign_flip_tests,
    smallest_p,
)
from longshot.statistics.planning import (
    Stability,
    fewest_tasks,
    ranking_stability,
    tasks_needed,
    tasks_to_decide,
)
from longshot.statistics.ranks import (
    CriticalDifference,
    block_ranks,
    critical_difference,
    meta_dataset_ranks,
)
from longshot.statistics.reliability import Calibration, calibration, confidences

__all__ = [
    "Calibration",
    "Comparison",
    "ConfusedPair",
    "Confusion",
    "Correlation",
    "CriticalDifference",
    "DatasetDifficulty",
    "Drop",
    "Group",
    "Interval",
    "Rolling",
    "Slope",
    "Stability",
    "benjamini_hochberg",
    "block_ranks",
    "bootstrap",
    "bootstrap_interval",
    "breakdown",
    "calibration",
    "clustered_interval",
    "compare_many",
    "compare_paired",
    "confidences",
    "confusion",
    "correlation",
    "critical_difference",
    "crossed_interval",
    "dataset_difficulty",
    "drops",
    "fewest_tasks",
    "holm",
    "mean_interval",
    "meta_dataset_ranks",
    "most_confused",
    "normal_interval",
    "quantile_bins",
    "ranking_stability",
    "rolling_mean",
    "sign_flip_test",
    "sign_flip_tests",
    "slope",
    "smallest_p",
    "spread",
    "tasks_needed",
    "tasks_to_decide",
    "unpaired_difficulty",
    "welch",
    "wilson",
    "worst_mean",
]
