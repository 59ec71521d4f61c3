"""What other rooms may use of this one, a line each."""

from .engine.claims import Claim as Claim  # A sentence of a paper that can be tested
from .engine.claims import Measured as Measured  # One number of a claim
from .engine.claims import NotMeasured as NotMeasured  # Raised by a claim's measure
from .engine.claims import of_correlation as of_correlation  # A correlation against 0
from .engine.claims import of_resamples as of_resamples  # A statistic of n tasks with its bootstrap interval
from .engine.claims import of_slope as of_slope  # A slope against 0
from .engine.claims import of_sources as of_sources  # The mean over k sources of their mean differences [n_i], each …
from .engine.claims import of_values as of_values  # The mean of values [n] against `than`, with Student's interval
from .engine.claims import paired as paired  # `first` − `second` on the same tasks [T], with Student's interval
from .engine.claims import unpaired as unpaired  # Mean of `first` minus mean of `second`, of other tasks, with …
from .engine.comparisons import Comparison as Comparison  # Two or more sides that differ in one factor
from .engine.comparisons import Draw as Draw  # A testbed to draw
from .engine.comparisons import Side as Side  # One side of a comparison
from .engine.lab import Evaluation as Evaluation  # Methods to run on testbeds through a backbone
from .engine.lab import Lab as Lab  # A study at work
from .engine.lab import Plan as Plan  # What a study will do, before anything is computed
from .engine.presets import Study as Study  # A recipe with its settings
from .engine.presets import estimate_study as estimate_study  # What `run_study` with the same arguments would take in …
from .engine.presets import get_study as get_study  # A preset by name
from .engine.presets import layered as layered  # The study with the settings of a file laid over it, then `changes` …
from .engine.presets import list_studies as list_studies  # Every preset as its files say, by name
from .engine.presets import read_changes as read_changes  # Settings from `key=value` texts, whose values are YAML
from .engine.presets import read_study as read_study  # A study file of the user's own
from .engine.presets import run_study as run_study  # Run a paper's protocol on datasets of your own
from .engine.presets import study_names as study_names  # Names of the presets, sorted
from .engine.recipe import OneDataset as OneDataset  # Opens the one dataset of a study, and the folder that is …
from .engine.recipe import Recipe as Recipe  # A paper's protocol, or one's own
from .engine.comparisons import StudySettings as StudySettings  # Settings of a recipe, all named by every preset
from .engine.study_folder import StudyEstimate as StudyEstimate  # What is left to do
from .engine.study_folder import StudyOutcome as StudyOutcome  # What a study left in its folder
from .engine.study_folder import study_tables as study_tables  # Every table of a study in the order of its page
from .engine.study_page import Picture as Picture  # A figure with what it shows, for the page
from .engine.study_tables import TableColumn as TableColumn  # A column of a table of scores
from .engine.study_tables import TableFile as TableFile  # What goes under `tables/`
from .engine.study_tables import TableRow as TableRow  # A row of a table of scores
from .engine.study_tables import score_table as score_table  # Mean accuracies with intervals, rows × columns, first …
from .engine.study_training import StudyTraining as StudyTraining  # A network to train
