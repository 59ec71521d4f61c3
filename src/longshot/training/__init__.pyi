"""What other rooms may use of this one, a line each."""

from .base import ALGORITHMS as ALGORITHMS  # name → module:class
from .base import Algorithm as Algorithm  # A way of training
from .base import ImageBatch as ImageBatch  # Images of the train classes, augmented and preprocessed, on the device
from .base import algorithm_class as algorithm_class  # The class registered under `name`
from .base import algorithm_names as algorithm_names  # Names of the registered algorithms, sorted
from .base import get_algorithm as get_algorithm  # An algorithm from its call, as `protonet(way=20)`
from .base import list_algorithms as list_algorithms  # One row per algorithm and recipe
from .batch_algorithms import MetaDelta as MetaDelta  # MetaDelta++ as the winners' code runs it
from .batch_algorithms import TimeBudget as TimeBudget  # Time from now on
from .distributed import TrainingJob as TrainingJob  # One call of `train`
from .distributed import train_elsewhere as train_elsewhere  # Train on the workers of a cluster what is not trained yet
from .folders import load_state as load_state  # Read where a training stopped: weights, optimiser, step
from .folders import TrainedNetwork as TrainedNetwork  # A finished training
from .folders import read_trained as read_trained  # The outcome of the training in the folder
from .loop import train as train  # Train a network on the train classes of a dataset and keep the best one
from .search_trials import need_optuna as need_optuna  # The package that proposes trials
from .settings import TrainingSettings as TrainingSettings  # The settings of `train`: types, bounds and defaults
from .settings import ValidationTasks as ValidationTasks  # What a training is judged on
from .settings import choose_classes as choose_classes  # Train classes and validation classes, disjoint
from .settings import choose_shape as choose_shape  # How many ways, shots and queries an episode has
from .settings import open_for_training as open_for_training  # A dataset with the splits and taxonomy given
from .settings import plan_training as plan_training  # Algorithm and settings of a training
from .settings import training_settings as training_settings  # `values` as checked settings
from .setup import estimate_training as estimate_training  # Steps per second, time and disk of a training
from .spaces import Parameter as Parameter  # What one parameter may be
from .spaces import Space as Space  # Parameters and the calls they go into
from .spaces import list_spaces as list_spaces  # One row per parameter of the spaces that come with Longshot
from .steps import make_optimiser as make_optimiser  # The optimiser that `text` describes
from .steps import make_schedule as make_schedule  # step ↦ what the learning rate is multiplied with
from .training_episodes import check_enough as check_enough  # The classes with enough images for episodes
from .training_images import parse_augmentation as parse_augmentation  # An augmentation from its string
from .search_trials import TrialObjective as TrialObjective  # What judges the trials of a search
from .search_trials import run_search as run_search  # Search a space, trial by trial, in a folder
from .spaces import Trial as Trial  # One point of a space
from .spaces import get_space as get_space  # A space by its name or file
from .spaces import space_of_call as space_of_call  # The space of a method or algorithm with ranges
from .setup import prepare as prepare  # Everything that a training needs, before its first step
