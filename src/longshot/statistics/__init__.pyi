"""What other rooms may use of this one, a line each."""

from .association import Correlation as Correlation  # A correlation with its interval
from .association import Rolling as Rolling  # Means over a window that slides along sorted x
from .association import Slope as Slope  # The least-squares line y = intercept + slope · x over n points
from .association import correlation as correlation  # Correlation of two columns over the same tasks, with its …
from .association import quantile_bins as quantile_bins  # The group 0 … count − 1 of each value, from the smallest …
from .association import rolling_mean as rolling_mean  # Mean of y over tasks that are neighbours in x, with the t …
from .association import slope as slope  # Ordinary least squares of y on x, with the t interval of the slope
from .class_intervals import TaskClasses as TaskClasses  # Which classes stand in which tasks, for many intervals
from .class_intervals import class_interval as class_interval  # Mean over tasks, with its interval for other classes
from .class_intervals import widths_differ as widths_differ  # Whether two half-widths differ by a fifth
from .difficulty import DatasetDifficulty as DatasetDifficulty  # A dataset seen through M methods on the same tasks
from .difficulty import Drop as Drop  # From testbed A to testbed B
from .difficulty import dataset_difficulty as dataset_difficulty  # Intrinsic (1 − best mean) and modelling (best …
from .difficulty import drops as drops  # The drop of one method's metric from testbed A to testbed B, for each …
from .difficulty import unpaired_difficulty as unpaired_difficulty  # The same where every method has tasks of its own
from .difficulty import welch as welch  # Difference of two independent means, ā − b̄, with Welch's interval
from .estimate_text import CLASSES as CLASSES  # What an interval over classes is about, in words
from .estimate_text import TASKS as TASKS  # What an interval over tasks is about, in words
from .estimate_text import NumberUnit as NumberUnit  # How a number is written: percent, points or plain
from .estimate_text import bounds_text as bounds_text  # A number with the ends of its interval
from .estimate_text import figures as figures  # A number of any size with so many significant figures
from .estimate_text import half_text as half_text  # Half an interval alone, for a column of its own
from .estimate_text import percent as percent  # A share in per cent
from .estimate_text import plus_minus as plus_minus  # A number with half its interval: the one formatter
from .estimate_text import points as points  # A difference of shares in points, with its sign
from .intervals import Interval as Interval  # An estimate (a mean unless said otherwise) with its interval
from .intervals import Verdict as Verdict  # passed, failed or undecided
from .intervals import bootstrap as bootstrap  # A statistic over rows with its bootstrap interval
from .intervals import mean_interval as mean_interval  # Mean of independent values with its Student-t interval
from .intervals import normal_interval as normal_interval  # Meta-Dataset's interval
from .intervals import t_p_value as t_p_value  # Two-sided p of a t statistic
from .intervals import t_quantile as t_quantile  # The two-sided Student-t factor t with P(|T| ≤ t) = `level`
from .paired import PairedComparison as PairedComparison  # B against A on n tasks, paired by task
from .paired import compare_many as compare_many  # Several comparisons on the same tasks, as :func:`compare_paired`
from .paired import compare_paired as compare_paired  # Compare method B with method A on the same tasks
from .paired import sign_flip_test as sign_flip_test  # Whether paired differences are symmetric around 0
from .paired import sign_flip_tests as sign_flip_tests  # :func:`sign_flip_test` for each column
from .paired import smallest_p as smallest_p  # The smallest p that the sign-flip test can give
from .planning import Stability as Stability  # The ranking of M methods by mean, under resampling of the tasks
from .planning import fewest_tasks as fewest_tasks  # From how many tasks on the sign-flip test can decide at all
from .planning import ranking_stability as ranking_stability  # Whether the ranking of methods would hold on other …
from .planning import tasks_needed as tasks_needed  # How many tasks an interval of mean ± `half` takes
from .planning import tasks_to_decide as tasks_to_decide  # How many tasks the sign-flip test needs to decide, if …
from .query_outcomes import Calibration as Calibration  # B bins over confidence
from .query_outcomes import ConfusedPair as ConfusedPair  # Two classes of one dataset and how often either is taken …
from .query_outcomes import Confusion as Confusion  # C classes over all tasks
from .query_outcomes import calibration as calibration  # Bin queries by the probability of their predicted class
from .query_outcomes import confidences as confidences  # Confidence and correctness of every query from its scores
from .query_outcomes import confusion as confusion  # Count predictions class by class, and beside them how often …
from .query_outcomes import most_confused as most_confused  # The pairs of classes that are confused most, by the …
from .query_outcomes import wilson as wilson  # Wilson's interval of a share p = hits / trials
from .ranks import CriticalDifference as CriticalDifference  # What a critical-difference plot shows
from .ranks import benjamini_hochberg as benjamini_hochberg  # Benjamini and Hochberg's step-up adjustment
from .ranks import block_ranks as block_ranks  # Ranks of methods within each block
from .ranks import critical_difference as critical_difference  # Friedman's test and Nemenyi's critical difference
from .ranks import holm as holm  # Holm's step-down adjustment
from .ranks import meta_dataset_ranks as meta_dataset_ranks  # Ranks of methods on one source by Meta-Dataset's rule
