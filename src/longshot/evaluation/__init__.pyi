"""What other rooms may use of this one, a line each."""

from .compute import one_thread as one_thread  # One thread per worker: sums then depend on no number of cores
from .compute import score_tasks as score_tasks  # Scores of all tasks, some at a time
from .per_class import ClassChange as ClassChange  # what became of one class from series A to series B
from .per_class import ClassScore as ClassScore  # how one method fared on the queries of one class
from .per_class import compare_classes as compare_classes  # compare two series class by class on the same tasks
from .per_class import score_classes as score_classes  # the accuracy of every class with its interval
from .plan import Backbones as Backbones  # What may be given as backbones of an evaluation
from .plan import EvaluationPlan as EvaluationPlan  # Testbeds × backbones × methods
from .predictions import SCORES as SCORES  # Metrics that predictions are scored by
from .predictions import score as score  # Check and score predictions that other people's code made
from .predictions import write_predictions as write_predictions  # Write a model's answers to a testbed
from .results import Results as Results  # What an evaluation measured
from .results import cell_rows as cell_rows  # The rows of one testbed × backbone × method × seed
from .run_comparison import compare as compare  # Compare run B with run A task by task
from .units import FeatureSource as FeatureSource  # One dataset seen through one or several backbones
from .run_inputs import TestbedLike as TestbedLike  # A testbed, or the path of one
from .run_inputs import open_distinct_testbeds as open_distinct_testbeds  # The testbeds by name
from .run_inputs import open_methods as open_methods  # The methods behind names and objects, each once
from .run_record import read_run as read_run  # The record of a run
from .run_record import new_run as new_run  # the record of a run in which nothing was measured yet
from .run_stores import testbed_path as testbed_path  # Where a run keeps its copy of a testbed
from .run_stores import write_folder as write_folder  # Write results from memory as the folder of a run
from .runner import estimate_evaluation as estimate_evaluation  # What `evaluate` with the same arguments would take
from .runner import evaluate as evaluate  # Run every method on every testbed through every backbone
from .testbed_statistics import ClassIntervals as ClassIntervals  # Intervals that hold for other classes too
from .testbed_statistics import count_confusions as count_confusions  # Count predictions class by class
from .testbed_statistics import find_mistakes as find_mistakes  # Queries of one class that were given to another
from .testbed_statistics import measure_confidences as measure_confidences  # Confidence and correctness of every query
from .testbed_statistics import numbered_classes as numbered_classes  # The classes of every task as numbers
from .testbed_statistics import shared_queries as shared_queries  # Which tasks 0 … min(len) − 1 ask the same
from .units import part_path as part_path  # Where the results of a unit lie
from .units import Unit as Unit  # tasks of a testbed that are measured at once, and what measures them
from .units import write_unit as write_unit  # write the rows of a unit
from .units import read_columns as read_columns  # Some columns of a unit and its `seconds`, for a quick look
from .verdicts import Compared as Compared  # Series B against series A on one testbed
from .verdicts import RunComparison as RunComparison  # What `compare` tells
from .verdicts import RunSeries as RunSeries  # What was measured on one testbed of one run
from .verdicts import SIGNIFICANCE as SIGNIFICANCE  # The level of all tests
from .verdicts import SeriesPair as SeriesPair  # Two series on the same T tasks, which `tasks` stands for
from .verdicts import compare_pairs as compare_pairs  # Test every pair of series, corrected by Holm
from .verdicts import enough_resamples as enough_resamples  # How many random signs a test of many pairs needs
from .views import Leak as Leak  # What a network saw of a testbed in training
from .views import find_images as find_images  # `images(dataset_name, keys)` for a page
from .views import judges_in as judges_in  # Backbones of a run that chose images of its testbeds
from .views import leaks_in as leaks_in  # What networks of a run saw of its testbeds in training
from .views import names_only as names_only  # What a run vouches for by names of images only, in words
from .results import accuracy_halves as accuracy_halves  # Half the widths of accuracy's intervals over tasks and …
from .run_inputs import find_datasets as find_datasets  # Fingerprint → dataset for all that testbeds use
from .run_record import LEVELS as LEVELS  # how a test image was seen in training, in words
from .metrics import METRICS as METRICS  # the metrics by name: title, unit, whether lower is better
